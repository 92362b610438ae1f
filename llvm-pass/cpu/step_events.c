/* What a function does that lanes of a warp may exchange data by, and what orders it. */
#include "base/modes.h"
#include "steps.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

#define MAX_ACCESSES 4000 /* of a function */
#define GUARD_UNKNOWN (-2)

/* ---- what functions do that are called --------------------------------------------------------------- */

static int step_is_shared(LLVMValueRef p)
{
    for (;;) {
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(p)))
            return LLVMGetPointerAddressSpace(LLVMTypeOf(p)) == 3;
        LLVMOpcode op = LLVMIsAInstruction(p)    ? LLVMGetInstructionOpcode(p)
                        : LLVMIsAConstantExpr(p) ? LLVMGetConstOpcode(p)
                                                 : (LLVMOpcode)0;
        if (op != LLVMGetElementPtr && op != LLVMBitCast && op != LLVMAddrSpaceCast)
            return 0;
        p = LLVMGetOperand(p, 0);
    }
}

/* The pointer of a volatile access that is not atomic, or NULL. */
static LLVMValueRef step_volatile(LLVMValueRef inst)
{
    LLVMValueRef p = LLVMIsALoadInst(inst)    ? LLVMGetOperand(inst, 0)
                     : LLVMIsAStoreInst(inst) ? LLVMGetOperand(inst, 1)
                                              : NULL;
    return p && LLVMGetVolatile(inst) && LLVMGetOrdering(inst) == LLVMAtomicOrderingNotAtomic ? p : NULL;
}

enum { CALLEE_MEETS = 1, CALLEE_VOLATILE = 2 };

static unsigned step_callee(struct mt_lowering *l, LLVMValueRef callee)
{
    struct mt_reach reach = {0};
    unsigned flags = 0;
    mt_reach_from(l, callee, &reach);
    flags |= reach.waits ? CALLEE_MEETS : 0;
    for (unsigned i = 0; i < reach.count; i++) {
        LLVMValueRef f = reach.functions[i];
        if (LLVMIsDeclaration(f)) {
            flags |= mt_is_meeting(mt_name(f)) ? CALLEE_MEETS : 0;
            continue;
        }
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v)) {
                LLVMValueRef p = step_volatile(v);
                flags |= p && mt_may_be_shared(l->u, p) ? CALLEE_VOLATILE : 0;
            }
    }
    mt_reach_free(&reach);
    return flags;
}

/* ---- events ------------------------------------------------------------------------------------------ */

static void step_event(struct mt_steps *s, enum mt_step_kind kind, LLVMValueRef inst, unsigned access)
{
    if (mt_grow(&s->events, &s->events_cap, s->nevents + 1, sizeof *s->events)) {
        s->failed = 1;
        return;
    }
    s->events[s->nevents++] = (struct mt_step_event){kind, inst, access};
}

/* A new access with its event, or NULL. */
static struct mt_lane_access *step_access(struct mt_steps *s, LLVMValueRef inst, LLVMValueRef pointer,
                                          uint32_t bytes)
{
    if (mt_grow(&s->accesses, &s->accesses_cap, s->naccesses + 1, sizeof *s->accesses)) {
        s->failed = 1;
        return NULL;
    }
    struct mt_lane_access *a = &s->accesses[s->naccesses];
    *a = (struct mt_lane_access){.inst = inst, .bytes = bytes, .guard = MT_GUARD_NONE};
    if (pointer)
        mt_lane_sum_of(&s->lanes, pointer, &a->address);
    step_event(s, MT_STEP_ACCESS, inst, s->naccesses++);
    return a;
}

static uint32_t step_bytes(struct mt_steps *s, LLVMTypeRef type)
{
    return (uint32_t)LLVMStoreSizeOfType(s->l->u->layout, type);
}

static int step_is_poll(LLVMValueRef load)
{
    LLVMValueRef next = LLVMGetNextInstruction(load);
    return next && LLVMIsACallInst(next) && !strcmp(mt_name(mt_callee(next)), "mt_cpu_yield");
}

/* A load or store that others may see: of shared memory, or volatile.
 * Those that are atomic know what they do. */
static void step_load_or_store(struct mt_steps *s, LLVMValueRef inst)
{
    int is_load = LLVMIsALoadInst(inst) != NULL, is_volatile = LLVMGetVolatile(inst);
    LLVMValueRef p = LLVMGetOperand(inst, is_load ? 0 : 1);
    LLVMTypeRef type = LLVMTypeOf(is_load ? inst : LLVMGetOperand(inst, 0));
    if (LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic)
        return;
    int shared = step_is_shared(p) || (is_volatile && mt_may_be_shared(s->l->u, p));
    if (!shared && (!is_volatile || mt_space_of(s->l->u, p) != MT_SPACE_GLOBAL))
        return;
    if (!shared && is_load && step_is_poll(inst))
        return;
    struct mt_lane_access *a = step_access(s, inst, p, step_bytes(s, type));
    if (!a)
        return;
    a->is_load = is_load & 1;
    a->is_store = !is_load;
    a->is_volatile = is_volatile != 0;
    a->is_shared = shared != 0;
}

static void step_block_copy(struct mt_steps *s, LLVMValueRef inst)
{
    LLVMValueRef length = LLVMGetOperand(inst, 2), to = LLVMGetOperand(inst, 0);
    uint32_t bytes = LLVMIsAConstantInt(length) ? (uint32_t)LLVMConstIntGetZExtValue(length) : UINT32_MAX / 4;
    LLVMValueRef from = LLVMIsAMemSetInst(inst) ? NULL : LLVMGetOperand(inst, 1);
    struct mt_lane_access *a;
    if (from && step_is_shared(from) && (a = step_access(s, inst, from, bytes)))
        a->is_load = a->is_shared = 1;
    if (step_is_shared(to) && (a = step_access(s, inst, to, bytes)))
        a->is_store = a->is_shared = 1;
}

static void step_atomic(struct mt_steps *s, LLVMValueRef inst)
{
    LLVMValueRef p = LLVMGetOperand(inst, 0);
    if (LLVMIsAAtomicCmpXchgInst(inst) || LLVMGetAtomicRMWBinOp(inst) == LLVMAtomicRMWBinOpXchg) {
        step_event(s, MT_STEP_HAND_OVER, inst, 0);
        return;
    }
    int all = s->l->u->options->lockstep == MT_LOCKSTEP_ON;
    struct mt_lane_access *a = step_is_shared(p) || (all && mt_may_be_shared(s->l->u, p))
                                   ? step_access(s, inst, p, step_bytes(s, LLVMTypeOf(inst)))
                                   : NULL;
    if (!a)
        return;
    a->is_load = a->is_store = a->is_atomic = a->is_shared = 1;
    a->is_volatile = all & 1;
}

static void step_call(struct mt_steps *s, LLVMValueRef call)
{
    LLVMValueRef callee = mt_callee(call);
    const char *name = mt_name(callee);
    if (LLVMIsAMemIntrinsic(call)) {
        step_block_copy(s, call);
    } else if (!strcmp(name, "mt_cpu_yield") || !strcmp(name, "mt_cpu_nanosleep")) {
        step_event(s, MT_STEP_POLL, call, 0);
    } else if (!callee || mt_is_meeting(name) || mt_is_shared_name(callee)) {
        if (!LLVMIsAInlineAsm(LLVMGetCalledValue(call)))
            step_event(s, MT_STEP_BARRIER, call, 0);
    } else if (!LLVMIsDeclaration(callee)) {
        unsigned flags = step_callee(s->l, callee);
        struct mt_lane_access *a = flags & CALLEE_VOLATILE ? step_access(s, call, NULL, 1) : NULL;
        if (a)
            a->is_load = a->is_store = a->is_shared = a->is_volatile = a->is_call = 1;
        if (flags & CALLEE_MEETS)
            step_event(s, MT_STEP_BARRIER, call, 0);
        if (a && flags & CALLEE_MEETS)
            step_event(s, MT_STEP_ACCESS, call, s->naccesses - 1);
    }
}

static void step_all(struct mt_steps *s)
{
    s->first = calloc(s->flow.n + 2, sizeof *s->first);
    for (unsigned b = 0; s->first && b < s->flow.n; b++) {
        s->first[b] = s->nevents;
        for (LLVMValueRef i = LLVMGetFirstInstruction(s->flow.block[b]); i; i = LLVMGetNextInstruction(i)) {
            if (LLVMIsALoadInst(i) || LLVMIsAStoreInst(i))
                step_load_or_store(s, i);
            else if (LLVMIsAAtomicRMWInst(i) || LLVMIsAAtomicCmpXchgInst(i))
                step_atomic(s, i);
            else if (LLVMIsACallInst(i))
                step_call(s, i);
        }
        s->first[b + 1] = s->nevents;
    }
    s->failed |= !s->first || s->naccesses > MAX_ACCESSES;
}

/* ---- guards ------------------------------------------------------------------------------------------ */

/* What holds after the edge to block `to`. */
static int step_edge_guard(struct mt_steps *s, unsigned from, LLVMBasicBlockRef to)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(s->flow.block[from]);
    if (s->guard[from] != MT_GUARD_NONE || !LLVMIsABranchInst(end) || !LLVMIsConditional(end) ||
        LLVMGetSuccessor(end, 0) == LLVMGetSuccessor(end, 1))
        return s->guard[from];
    return mt_lane_guard(&s->lanes, LLVMGetCondition(end), LLVMGetSuccessor(end, 0) == to);
}

static void step_guards(struct mt_steps *s)
{
    const struct mt_flow *f = &s->flow;
    s->guard = calloc(f->n + 1, sizeof *s->guard);
    if (!s->guard) {
        s->failed = 1;
        return;
    }
    for (unsigned b = 1; b < f->n; b++)
        s->guard[b] = GUARD_UNKNOWN;
    s->guard[0] = MT_GUARD_NONE;
    for (int changed = 1; changed;) {
        changed = 0;
        for (unsigned b = 1; b < f->n; b++) {
            int guard = GUARD_UNKNOWN;
            for (unsigned e = f->in_at[b]; e < f->in_at[b + 1]; e++) {
                if (s->guard[f->in[e].from] == GUARD_UNKNOWN)
                    continue;
                int edge = step_edge_guard(s, f->in[e].from, f->block[b]);
                guard = guard == GUARD_UNKNOWN || guard == edge ? edge : MT_GUARD_NONE;
            }
            changed |= guard != s->guard[b];
            s->guard[b] = guard;
        }
    }
    for (unsigned b = 0; b < f->n; b++)
        for (unsigned e = s->first[b]; e < s->first[b + 1]; e++)
            if (s->events[e].kind == MT_STEP_ACCESS)
                s->accesses[s->events[e].access].guard = s->guard[b];
}

void mt_step_collect(struct mt_steps *s)
{
    step_all(s);
    if (!s->failed && s->naccesses)
        step_guards(s);
}
