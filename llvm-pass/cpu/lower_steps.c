/* Warp-synchronous code: lanes that exchange data through shared memory, or through volatile global memory,
 * with no barrier and no warp collective between, because a warp runs in step. On the CPU device a lane runs
 * on until it has to wait; so where such code is found the lanes of a warp wait for one another.
 *
 * It is found by a store that a load of another lane may follow without a barrier (lanes.h says which loads
 * can be another lane's). Around what takes part in that, lanes wait before each access that depends on
 * another lane's: a load after a store, a store after a load or a store. What is exchanged across barriers
 * alone takes no part, so such kernels are as they were.
 *
 * Order is by the step's number: lanes that are further back in the code go first, so that they meet again
 * where branches join, as they did when a warp had one program counter.
 *
 * With lockstep=on all accesses to what may be shared memory are volatile (step_marks.c), and of those
 * whatever is not known to be a thread's own is taken for an exchange. */
#include "steps.h"
#include "base/modes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void step_tell(struct mt_steps *s)
{
    unsigned waits = 0;
    LLVMValueRef where = NULL;
    for (unsigned e = 0; e < s->nevents; e++)
        if (s->waits[e]) {
            where = where ? where : s->events[e].inst;
            waits++;
        }
    for (unsigned b = 0; b < s->flow.n; b++)
        waits += s->begins[b];
    if (!s->l->u->options->verbose)
        return;
    struct mt_source_place place;
    if (s->failed)
        fprintf(stderr,
                "memtrace: %s: too large to look for warp-synchronous code: lanes wait before each volatile "
                "access to shared memory\n",
                mt_name(s->function));
    if (!where)
        return;
    char *name = mt_shim_demangle(mt_name(s->function), 0);
    mt_shim_place(where, &place);
    fprintf(stderr,
            "memtrace: %s:%u: %s: lanes of a warp exchange data with no barrier between: in step here (%u "
            "waits)\n",
            place.file, place.line, name ? name : mt_name(s->function), waits);
    free(name);
}

/* What could not be examined: lanes wait before each volatile access to shared memory. */
static void step_everywhere(struct mt_steps *s)
{
    for (unsigned e = 0; e < s->nevents; e++) {
        const struct mt_lane_access *a = &s->accesses[s->events[e].access];
        s->waits[e] = s->events[e].kind == MT_STEP_ACCESS && a->is_volatile && a->is_shared;
    }
}

static void step_insert(struct mt_steps *s, LLVMValueRef before, uint32_t *order)
{
    LLVMTypeRef type = LLVMFunctionType(s->l->none, &s->l->i32, 1, 0);
    LLVMValueRef at = LLVMConstInt(s->l->i32, (*order)++, 0);
    LLVMPositionBuilderBefore(s->l->builder, before);
    LLVMBuildCall2(s->l->builder, type, mt_declare(s->l->module, "mt_cpu_step", type), &at, 1, "");
}

static void step_build(struct mt_steps *s, uint32_t *order)
{
    for (unsigned b = 0; b < s->flow.n; b++) {
        LLVMValueRef first = LLVMGetFirstInstruction(s->flow.block[b]);
        while (s->begins[b] && LLVMIsAPHINode(first))
            first = LLVMGetNextInstruction(first);
        if (s->begins[b])
            step_insert(s, first, order);
        for (unsigned e = s->first[b]; e < s->first[b + 1]; e++)
            if (s->waits[e])
                step_insert(s, s->events[e].inst, order);
    }
}

static void step_free(struct mt_steps *s)
{
    free(s->events);
    free(s->first);
    free(s->accesses);
    free(s->guard);
    free(s->out);
    free(s->now);
    free(s->takes_part);
    free(s->waits);
    free(s->begins);
    mt_lanes_free(&s->lanes);
    mt_flow_free(&s->flow);
}

/* Examines the function. 1: lanes exchange data in it. */
static int step_examine(struct mt_steps *s, struct mt_lowering *l, LLVMValueRef function)
{
    *s = (struct mt_steps){.l = l, .function = function, .lanes = {.u = l->u}};
    s->failed = mt_flow_make(&s->flow, function) != 0;
    if (!s->failed)
        mt_step_collect(s);
    return s->naccesses && mt_step_exchanges(s);
}

static void step_function(struct mt_lowering *l, LLVMValueRef function, uint32_t *order)
{
    struct mt_steps s;
    int exchanges = step_examine(&s, l, function);
    if (exchanges && mt_shim_simplify_loops(function)) { /* lanes meet at the end of each iteration */
        step_free(&s);
        exchanges = step_examine(&s, l, function);
    }
    if (exchanges)
        mt_step_place(&s);
    if (!s.waits && s.naccesses) {
        mt_diag(l->u, NULL, MT_DIAG_WARNING, "no memory to look for warp-synchronous code in %s",
                mt_name(function));
    } else if (s.naccesses && (exchanges || s.failed)) {
        if (s.failed)
            step_everywhere(&s);
        step_tell(&s);
        step_build(&s, order);
    }
    step_free(&s);
}

void mt_lower_steps(struct mt_lowering *l)
{
    uint32_t order = 0;
    if (l->u->options->lockstep == MT_LOCKSTEP_OFF)
        return;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            step_function(l, f, &order);
}
