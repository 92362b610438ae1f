/* Warps as vectors: rejects kernels that cannot be code for a whole warp, because lanes would wait for
 * each other, or because some instruction has no vector form. */
#include "vector.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "format/image.h"

#define MOST_LANES 6000u /* maximum number of vector instructions */
#define MOST_FRAME 8192u /* maximum bytes of a thread's local variables: a warp's take half of its stack */

void vec_refuse(struct vec *v, const char *format, ...)
{
    va_list list;
    if (v->why)
        return;
    va_start(list, format);
    vsnprintf(v->why_text, sizeof v->why_text, format, list);
    va_end(list);
    v->why = v->why_text;
}

/* Returns 1 if a thread does nothing in the block that another thread may see, or wait for. */
static int accept_is_idle(LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsAStoreInst(i) || LLVMIsAAtomicRMWInst(i) || LLVMIsAAtomicCmpXchgInst(i) ||
            LLVMIsAFenceInst(i) || (LLVMIsACallInst(i) && !vec_is_plain_call(i) && !vec_is_record(i)))
            return 0;
    return 1;
}

/* Checks a barrier reached by some lanes only: allowed if the others do nothing any more. */
static int accept_barrier(const struct vec *v, int block)
{
    if (v->called) /* the caller's lanes are unknown */
        return 0;
    for (unsigned d = 0; d < v->nbranches; d++) {
        const struct vec_branch *b = &v->branch[d];
        int in[2] = {b->reach[0][block], b->reach[1][block]};
        if (!in[0] && !in[1])
            continue;
        if (in[0] && in[1])
            return 0;
        int meet = v->block[b->block].meet;
        if (meet >= 0 && (v->block[meet].nsucc || !accept_is_idle(v->block[meet].from)))
            return 0;
        for (unsigned i = 0; i < v->nblocks; i++)
            if (b->reach[in[0]][i] && !accept_is_idle(v->block[i].from))
                return 0;
    }
    return 1;
}

/* Rejects collectives on both ways of a branch, which may belong together: lanes of one way would wait for
 * those of the other. */
static int accept_collectives(const struct vec *v, const unsigned char *together)
{
    for (unsigned d = 0; d < v->nbranches; d++) {
        int on[2] = {0, 0};
        for (unsigned i = 0; i < v->nblocks; i++)
            if (together[i])
                for (int s = 0; s < 2; s++)
                    on[s] |= v->branch[d].reach[s][i] && !v->branch[d].reach[!s][i];
        if (on[0] && on[1])
            return 0;
    }
    return 1;
}

/* Returns 1 for a sum of parts of threadIdx, none of which is negative. */
static int accept_adds_threads(LLVMValueRef sum)
{
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef o = LLVMGetOperand(sum, i);
        int reg = vec_register(vec_callee(o));
        if ((reg < VEC_TID_X || reg > VEC_TID_Z) &&
            !(LLVMIsABinaryOperator(o) && LLVMGetInstructionOpcode(o) == LLVMAdd && accept_adds_threads(o)))
            return 0;
    }
    return 1;
}

/* Returns a set of things that are 0 if the value is: 1 for threadIdx.x, 2 for y, 4 for z, 8 for a value
 * that differs in all lanes of a warp. */
static unsigned accept_zeros(const struct vec *v, LLVMValueRef value, unsigned depth)
{
    const struct vec_value *x = vec_find(v, value);
    int reg = vec_register(vec_callee(value));
    unsigned self = 0;
    if (!x || x->block < 0 || depth > 8)
        return 0;
    if (reg >= VEC_TID_X && reg <= VEC_TID_Z)
        self = 1u << reg;
    if (vec_lanes_differ(v, value))
        self |= 8;
    LLVMOpcode op = LLVMGetInstructionOpcode(value);
    if (op == LLVMAdd && accept_adds_threads(value))
        return self | ((accept_zeros(v, LLVMGetOperand(value, 0), depth + 1) |
                        accept_zeros(v, LLVMGetOperand(value, 1), depth + 1)) &
                       7);
    if (op == LLVMOr)
        return self | accept_zeros(v, LLVMGetOperand(value, 0), depth + 1) |
               accept_zeros(v, LLVMGetOperand(value, 1), depth + 1);
    return op == LLVMZExt ? self | accept_zeros(v, LLVMGetOperand(value, 0), depth + 1) : self;
}

/* Returns 1 if the condition (with !wanted, its negation) is true in at most one lane of a warp. */
static int accept_picks_one(const struct vec *v, LLVMValueRef condition, int wanted, unsigned depth)
{
    if (!LLVMIsAInstruction(condition) || depth > 6)
        return 0;
    LLVMOpcode op = LLVMGetInstructionOpcode(condition);
    LLVMValueRef a = LLVMGetOperand(condition, 0), b;
    if (op == LLVMICmp) {
        b = LLVMGetOperand(condition, 1);
        if (LLVMGetICmpPredicate(condition) != (wanted ? LLVMIntEQ : LLVMIntNE) ||
            vec_shape_of(v, b).kind != VEC_UNIFORM)
            return 0;
        if (vec_lanes_differ(v, a))
            return 1;
        unsigned zeros = LLVMIsConstant(b) && LLVMIsNull(b) ? accept_zeros(v, a, 0) : 0;
        return zeros & 8 || (zeros & 7) == 7;
    }
    if (op == (wanted ? LLVMAnd : LLVMOr))
        return accept_picks_one(v, a, wanted, depth + 1) ||
               accept_picks_one(v, LLVMGetOperand(condition, 1), wanted, depth + 1);
    return 0;
}

/* Returns 1 if at most one lane of a warp reaches the block. */
static int accept_is_single(const struct vec *v, int block)
{
    for (unsigned d = 0; d < v->nbranches; d++) {
        const struct vec_branch *b = &v->branch[d];
        LLVMValueRef end = LLVMGetBasicBlockTerminator(v->block[b->block].from);
        if (b->reach[0][block] != b->reach[1][block] &&
            accept_picks_one(v, LLVMGetCondition(end), b->reach[0][block], 0))
            return 1;
    }
    return 0;
}

static int accept_is_in_loop(const struct vec *v, int block, unsigned loop)
{
    return loop && block >= v->loop[loop].first && block <= v->loop[loop].last;
}

/* Returns 1 if everything that the loop polls is also written in it elsewhere, as with a lock that its
 * owner releases before it leaves the loop. */
static int accept_releases(const struct vec *v, unsigned loop)
{
    LLVMValueRef list[64];
    unsigned n = 0, polls = 0;
    int writes;
    for (int b = v->loop[loop].first; b <= v->loop[loop].last; b++)
        for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[b].from); i; i = LLVMGetNextInstruction(i))
            if (vec_touched(i, &writes)) {
                if (n == 64)
                    return 0;
                list[n++] = i;
            }
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef p = vec_touched(list[i], &writes);
        int released = LLVMIsAStoreInst(list[i]) != NULL;
        polls += !released && LLVMGetFirstUse(list[i]);
        for (unsigned j = 0; j < n && !released; j++)
            released = j != i && vec_touched(list[j], &writes) == p && writes;
        if (!released && LLVMGetFirstUse(list[i]))
            return 0;
    }
    return polls != 0;
}

/* ---- Polling loops in which no lane waits: each round reads another place (a list, a tree of parents, a
 * hash table), or a failed exchange means that another thread succeeded. A count of rounds is not enough:
 * code that gives up after a long wait has one, too. */

/* The origin of a loop's values. */
struct made {
    const struct vec *v;
    unsigned loop;
    LLVMValueRef read; /* a load or an atomic of the loop */
    unsigned left;     /* steps until the search gives up */
};

static struct made accept_made(const struct vec *v, unsigned loop, LLVMValueRef read)
{
    return (struct made){v, loop, read, 1000};
}

static int accept_of_loop(const struct vec *v, unsigned loop, LLVMValueRef value)
{
    const struct vec_value *x = LLVMIsAInstruction(value) ? vec_find(v, value) : NULL;
    return x && accept_is_in_loop(v, x->block, loop);
}

static int accept_is_changing(const struct made *m, LLVMValueRef value)
{
    return accept_of_loop(m->v, m->loop, value);
}

/* Returns 1 for a phi at the start of the loop's rounds. */
static int accept_is_round(const struct made *m, LLVMValueRef value)
{
    return LLVMIsAPHINode(value) && vec_find(m->v, value)->block == m->v->loop[m->loop].first;
}

static int accept_comes_from_inside(const struct made *m, LLVMValueRef phi, unsigned i)
{
    return accept_is_changing(m, LLVMGetBasicBlockTerminator(LLVMGetIncomingBlock(phi, i)));
}

/* Returns 1 for a read whose result, written by another thread, may let a loop continue (lower/spin.c). */
static int accept_is_poll(LLVMValueRef inst)
{
    int writes;
    if (!vec_touched(inst, &writes) || LLVMIsAStoreInst(inst) || !LLVMGetFirstUse(inst))
        return 0;
    return !LLVMIsAAtomicRMWInst(inst) || LLVMGetAtomicRMWBinOp(inst) == LLVMAtomicRMWBinOpXchg ||
           (LLVMIsAConstant(LLVMGetOperand(inst, 1)) && LLVMIsNull(LLVMGetOperand(inst, 1)));
}

static int accept_follows(struct made *m, LLVMValueRef value);

static int accept_phi_follows(struct made *m, LLVMValueRef phi)
{
    unsigned ways = 0;
    for (unsigned i = 0, n = LLVMCountIncoming(phi); i < n; i++) {
        if (!accept_comes_from_inside(m, phi, i))
            continue;
        if (!accept_follows(m, LLVMGetIncomingValue(phi, i)))
            return 0;
        ways++;
    }
    return ways != 0;
}

/* Returns 1 if one operand follows the read, and no other one changes in the loop. */
static int accept_operand_follows(struct made *m, LLVMValueRef inst)
{
    LLVMValueRef changing = NULL;
    for (unsigned i = 0, n = (unsigned)LLVMGetNumOperands(inst); i < n; i++)
        if (accept_is_changing(m, LLVMGetOperand(inst, i))) {
            if (changing)
                return 0;
            changing = LLVMGetOperand(inst, i);
        }
    return changing && accept_follows(m, changing);
}

/* Returns 1 if the value differs whenever the read value does, whichever way a round takes. Masks, and sums
 * of two changing values, do not count: a counter may stay unchanged while a flag is not set. */
static int accept_follows(struct made *m, LLVMValueRef value)
{
    if (value == m->read)
        return 1;
    if (!accept_is_changing(m, value) || !m->left)
        return 0;
    m->left--;
    if (LLVMIsAPHINode(value))
        return accept_phi_follows(m, value);
    if (LLVMIsASelectInst(value))
        return accept_follows(m, LLVMGetOperand(value, 1)) && accept_follows(m, LLVMGetOperand(value, 2));
    LLVMOpcode op = LLVMGetInstructionOpcode(value);
    int kept = LLVMIsACastInst(value) || LLVMIsAGetElementPtrInst(value) || op == LLVMLoad ||
               op == LLVMExtractValue || op == LLVMFreeze || op == LLVMAdd || op == LLVMSub ||
               op == LLVMMul || op == LLVMShl;
    return kept && accept_operand_follows(m, value);
}

/* Returns 1 if the next round reads at the address found by this round's read. */
static int accept_chases(const struct vec *v, unsigned loop, LLVMValueRef read)
{
    struct made m = accept_made(v, loop, read);
    return accept_follows(&m, LLVMGetOperand(read, 0));
}

/* Returns 1 for a compare-and-swap that expects the value found by itself or by a chase: it fails only
 * because another thread has succeeded. */
static int accept_retries(const struct vec *v, unsigned loop, LLVMValueRef swap)
{
    LLVMValueRef expected = LLVMIsAAtomicCmpXchgInst(swap) ? LLVMGetOperand(swap, 1) : NULL;
    struct made m = accept_made(v, loop, swap);
    if (expected && accept_follows(&m, expected))
        return 1;
    for (unsigned i = 0; expected && i < v->nvalues; i++) {
        m = accept_made(v, loop, v->value[i].from);
        if (LLVMIsALoadInst(m.read) && accept_is_changing(&m, m.read) && accept_follows(&m, expected) &&
            accept_chases(v, loop, m.read))
            return 1;
    }
    return 0;
}

/* Returns 1 if the value is made of values that are constant in the loop, and (*phis) of phis of its
 * rounds. */
static int accept_is_even(struct made *m, LLVMValueRef value, unsigned *phis)
{
    if (!accept_is_changing(m, value))
        return 1;
    if (!m->left)
        return 0;
    m->left--;
    if (accept_is_round(m, value)) {
        ++*phis;
        return 1;
    }
    if (!LLVMIsACastInst(value) && !LLVMIsABinaryOperator(value) && !LLVMIsAGetElementPtrInst(value))
        return 0;
    for (unsigned i = 0, n = (unsigned)LLVMGetNumOperands(value); i < n; i++)
        if (!accept_is_even(m, LLVMGetOperand(value, i), phis))
            return 0;
    return 1;
}

/* Returns 1 if the phi advances in each round, whatever is read. */
static int accept_phi_steps(struct made *m, LLVMValueRef phi)
{
    unsigned phis = 0;
    for (unsigned i = 0, n = LLVMCountIncoming(phi); i < n; i++)
        if (accept_comes_from_inside(m, phi, i) && (LLVMIsAPHINode(LLVMGetIncomingValue(phi, i)) ||
                                                    !accept_is_even(m, LLVMGetIncomingValue(phi, i), &phis)))
            return 0;
    return phis != 0;
}

/* Returns 1 if the value is even, and each phi in it advances. */
static int accept_steps(struct made *m, LLVMValueRef value)
{
    unsigned phis = 0;
    if (!accept_is_changing(m, value))
        return 1;
    if (LLVMIsAPHINode(value))
        return accept_is_round(m, value) && accept_phi_steps(m, value);
    if (!accept_is_even(m, value, &phis) || !phis)
        return 0;
    for (unsigned i = 0, n = (unsigned)LLVMGetNumOperands(value); i < n; i++)
        if (!accept_steps(m, LLVMGetOperand(value, i)))
            return 0;
    return 1;
}

/* Returns the parameter or variable that an address (a pointer, or a sum with one) leads into; NULL:
 * unknown. */
static LLVMValueRef accept_base(LLVMValueRef p, unsigned depth)
{
    int sum = LLVMIsABinaryOperator(p) && LLVMGetInstructionOpcode(p) == LLVMAdd;
    int leads = sum || LLVMIsAGetElementPtrInst(p) || LLVMIsACastInst(p) || LLVMIsAConstantExpr(p);
    if (LLVMIsAGlobalVariable(p) ||
        (LLVMIsAArgument(p) && LLVMGetTypeKind(LLVMTypeOf(p)) == LLVMPointerTypeKind))
        return p;
    if (!leads || depth > 10)
        return NULL;
    LLVMValueRef base = accept_base(LLVMGetOperand(p, 0), depth + 1);
    LLVMValueRef other = sum ? accept_base(LLVMGetOperand(p, 1), depth + 1) : NULL;
    return base && other ? NULL : base ? base : other;
}

/* Returns 1 for a call that neither reads nor writes memory of the program. */
static int accept_is_quiet(LLVMValueRef call)
{
    const char *name = vec_callee(call);
    return vec_is_plain_call(call) || vec_is_record(call) || vec_is_lockstep_call(name) ||
           vec_is_wait(name) || vec_register(name) >= 0;
}

/* Returns 1 for a call that tests a barrier in memory, at which lanes of the warp may have to arrive. */
static int accept_asks(LLVMValueRef call)
{
    return mt_starts(vec_callee(call), "mtb_ptx_mbarrier_") && vec_is_wait(vec_callee(call));
}

/* Returns 1 if lanes that have left the loop may be at the block, or reach it. Blocks run in order. */
static int accept_is_behind(const struct vec *v, int block, unsigned loop)
{
    unsigned around = loop;
    while (v->parents[around - 1])
        around = v->parents[around - 1];
    return !accept_is_in_loop(v, block, loop) &&
           (block > v->loop[loop].last || accept_is_in_loop(v, block, around));
}

/* Returns 1 if a lane that has left the loop may change the polled memory. */
static int accept_is_changed(const struct vec *v, unsigned loop, LLVMValueRef poll)
{
    LLVMValueRef base = accept_base(LLVMGetOperand(poll, 0), 0);
    for (unsigned i = 0; i < v->nvalues; i++) {
        LLVMValueRef inst = v->value[i].from, p;
        int writes = 0;
        if (v->value[i].block < 0 || !accept_is_behind(v, v->value[i].block, loop))
            continue;
        if (LLVMIsACallInst(inst) && !accept_is_quiet(inst))
            return 1;
        if (!(p = vec_touched(inst, &writes)) || !writes)
            continue;
        p = accept_base(p, 0);
        if (!p || !base || p == base)
            return 1;
    }
    return 0;
}

/* Returns 1 for a table in which each round reads the next place, if the rounds are counted or no lane behind
 * the loop writes to it. */
static int accept_probes(const struct vec *v, unsigned loop, LLVMValueRef poll, int counted)
{
    struct made m = accept_made(v, loop, poll);
    LLVMValueRef p = LLVMGetOperand(poll, 0);
    return accept_is_changing(&m, p) && accept_steps(&m, p) && (counted || !accept_is_changed(v, loop, poll));
}

/* Returns 1 for a comparison of a value that advances in each round with a loop constant. */
static int accept_is_counter(const struct vec *v, unsigned loop, LLVMValueRef condition)
{
    struct made m = accept_made(v, loop, NULL);
    unsigned steps = 0;
    if (!LLVMIsAICmpInst(condition))
        return 0;
    for (unsigned i = 0; i < 2; i++)
        if (accept_is_changing(&m, LLVMGetOperand(condition, i)))
            steps += accept_steps(&m, LLVMGetOperand(condition, i)) ? 1 : 2;
    return steps == 1;
}

static int accept_is_exit(const struct vec *v, int block, unsigned loop)
{
    const struct vec_block *b = &v->block[block];
    return accept_is_in_loop(v, block, loop) && b->nsucc == 2 &&
           !(accept_is_in_loop(v, b->succ[0], loop) && accept_is_in_loop(v, b->succ[1], loop));
}

static LLVMValueRef accept_condition(const struct vec *v, int block)
{
    return LLVMGetCondition(LLVMGetBasicBlockTerminator(v->block[block].from));
}

/* Returns 1 if each round tests at its start or end whether there were enough rounds. */
static int accept_counts(const struct vec *v, unsigned loop)
{
    int first = v->loop[loop].first;
    for (int b = first; b <= v->loop[loop].last; b++)
        if (accept_is_exit(v, b, loop) &&
            (b == first || v->block[b].succ[0] == first || v->block[b].succ[1] == first) &&
            accept_is_counter(v, loop, accept_condition(v, b)))
            return 1;
    return 0;
}

/* Returns 1 if the loop ends some time, whatever work is left for lanes that have left it. */
static int accept_goes_on(const struct vec *v, unsigned loop)
{
    int counted = accept_counts(v, loop);
    for (unsigned i = 0; i < v->nvalues; i++) {
        LLVMValueRef inst = v->value[i].from;
        if (!accept_of_loop(v, loop, inst))
            continue;
        if (LLVMIsACallInst(inst) && (!accept_is_quiet(inst) || accept_asks(inst)))
            return 0;
        if (accept_is_poll(inst) && !accept_chases(v, loop, inst) && !accept_retries(v, loop, inst) &&
            !accept_probes(v, loop, inst, counted))
            return 0;
    }
    return 1;
}

/* Returns 1 if the value does not depend on the polled memory. */
static int accept_is_blind(struct made *m, LLVMValueRef value)
{
    int writes;
    if (!accept_is_changing(m, value))
        return 1;
    if (!m->left || vec_touched(value, &writes) || (LLVMIsACallInst(value) && !vec_is_plain_call(value)))
        return 0;
    m->left--;
    if (accept_is_round(m, value))
        return accept_phi_steps(m, value);
    if (LLVMIsAPHINode(value) && LLVMCountIncoming(value) != 1)
        return 0;
    for (unsigned i = 0, n = (unsigned)LLVMGetNumOperands(value); i < n; i++)
        if (!accept_is_blind(m, LLVMGetOperand(value, i)))
            return 0;
    return 1;
}

/* Returns 1 if lanes that leave the loop, one of those around the block, wait behind it for lanes at the
 * block. own: the block is in no inner loop. */
static int accept_leaves(const struct vec *v, int block, unsigned loop, int own)
{
    for (unsigned d = 0; d < v->nbranches; d++) {
        const struct vec_branch *b = &v->branch[d];
        struct made m = accept_made(v, loop, NULL);
        if (!accept_is_in_loop(v, b->block, loop) || !(b->reach[0][block] || b->reach[1][block]))
            continue;
        if (own || (accept_is_exit(v, b->block, loop) && !accept_is_blind(&m, accept_condition(v, b->block))))
            return 1;
    }
    return 0;
}

/* Returns 1 if all lanes of the warp reach this block before any is past it. */
static int accept_is_meeting(const struct vec *v, int block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[block].from); i; i = LLVMGetNextInstruction(i)) {
        LLVMValueRef first =
            LLVMIsACallInst(i) && LLVMGetNumArgOperands(i) ? LLVMIsAConstantInt(LLVMGetOperand(i, 0)) : NULL;
        uint64_t n = first ? LLVMConstIntGetZExtValue(first) : 0;
        if (first && vec_calls(i, "mt_cpu_barrier")
                ? !(n & MT_BARRIER_SOME)
                : first && vec_is_lockstep_call(vec_callee(i)) && (uint32_t)n == UINT32_MAX)
            return 1;
    }
    return 0;
}

/* Returns 1 if the block writes memory polled by the loop around block `at`. */
static int accept_writes_polled(const struct vec *v, int block, int at)
{
    unsigned loop = v->block[at].loop;
    for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[block].from); i; i = LLVMGetNextInstruction(i)) {
        int writes = 0;
        LLVMValueRef p = vec_touched(i, &writes), base = p && writes ? accept_base(p, 0) : NULL;
        for (int b = v->loop[loop].first; base && b <= v->loop[loop].last; b++)
            for (LLVMValueRef j = LLVMGetFirstInstruction(v->block[b].from); j; j = LLVMGetNextInstruction(j))
                if (accept_is_poll(j) && accept_base(LLVMGetOperand(j, 0), 0) == base)
                    return 1;
    }
    return 0;
}

/* Returns 1 if lanes that took another way, to block `from`, and wait where all meet for those at block
 * `at`, would behind it write what these wait for. */
static int accept_writes_later(const struct vec *v, int from, int at)
{
    unsigned char *seen = calloc(v->nblocks + 1, 1);
    int *stack = malloc((v->nblocks + 1) * sizeof *stack), depth = 0, found = !seen || !stack;
    if (!found) {
        stack[depth++] = from;
        seen[from] = 1;
    }
    while (depth && !found) {
        int block = stack[--depth];
        const struct vec_block *b = &v->block[block];
        found = accept_writes_polled(v, block, at);
        for (unsigned i = 0; i < b->nsucc && !accept_is_meeting(v, block); i++)
            if (!seen[b->succ[i]] && !accept_is_in_loop(v, b->succ[i], v->block[at].loop)) {
                seen[b->succ[i]] = 1;
                stack[depth++] = b->succ[i];
            }
    }
    free(seen);
    free(stack);
    return found;
}

/* Checks a wait for other threads, which may not be lanes of the same warp that wait for these: lanes that
 * diverged before, and lanes that have left a loop (together: all leave it at once), do nothing visible to
 * others. */
static int accept_wait(const struct vec *v, int block, int together)
{
    if (v->called)
        return 0;
    unsigned own = v->block[block].loop, goes_on = own != 0;
    together = together || accept_is_single(v, block);
    for (unsigned loop = own; loop; loop = v->parents[loop - 1]) {
        int goes = accept_goes_on(v, loop);
        if (!together && !goes && accept_leaves(v, block, loop, loop == own) && !accept_releases(v, loop))
            return 0;
        goes_on &= goes || (loop != own && !accept_leaves(v, block, loop, 0));
    }
    for (unsigned d = 0; d < v->nbranches && !goes_on; d++) {
        const struct vec_branch *b = &v->branch[d];
        if (b->reach[0][block] == b->reach[1][block] || accept_is_in_loop(v, b->block, own))
            continue;
        for (unsigned i = 0; i < v->nblocks; i++)
            if (b->reach[b->reach[0][block]][i] && !accept_is_idle(v->block[i].from))
                return 0;
        if (own && accept_writes_later(v, v->block[b->block].succ[b->reach[0][block]], block))
            return 0;
    }
    return 1;
}

/* Checks waits that are no warp collectives: one for the warp (barriers), or one per lane. */
static void accept_waits(struct vec *v, LLVMValueRef call, int block, const char *name)
{
    if (!vec_is_wait(name))
        return;
    v->waits = 1;
    /* A phase of an mbarrier ends for all lanes at once. */
    int object = mt_starts(name, "mtb_");
    if (!strcmp(name, "mt_cpu_yield") || (object && v->block[block].loop)) {
        if (!accept_wait(v, block, object))
            vec_refuse(v, "lanes that may wait for others of their warp");
        return;
    }
    if (!strcmp(name, "mt_cpu_nanosleep") || object) /* without a poll it need not yield */
        return;
    /* Aligned ones are for whole warps, wherever they are. */
    LLVMValueRef kind = LLVMGetNumArgOperands(call) ? LLVMIsAConstantInt(LLVMGetOperand(call, 0)) : NULL;
    int aligned =
        !strcmp(name, "mt_cpu_barrier_arrive")
            ? LLVMConstIntGetZExtValue(LLVMGetOperand(call, 2)) != 0
            : !strcmp(name, "mt_cpu_barrier") && kind && !(LLVMConstIntGetZExtValue(kind) & MT_BARRIER_SOME);
    if (!strcmp(name, "mt_cpu_barrier") && !kind)
        vec_refuse(v, "a barrier of an unknown kind");
    if (!aligned && !accept_barrier(v, block))
        vec_refuse(v, "a barrier that not all lanes come to");
}

static void accept_call(struct vec *v, LLVMValueRef call, int block, unsigned char *together)
{
    const char *name = vec_callee(call);
    accept_waits(v, call, block, name);
    if (vec_is_called(call)) {
        together[block] |= v->meets;
        if (v->meets && (mt_callee(call) || vec_shape_of(v, LLVMGetCalledValue(call)).kind != VEC_UNIFORM))
            vec_refuse(v, "warp collectives in what is called");
        return;
    }
    if (!vec_is_lockstep_call(name))
        return;
    together[block] = 1;
    int members = LLVMGetNumArgOperands(call) ? vec_shape_of(v, LLVMGetOperand(call, 0)).kind : VEC_UNIFORM;
    if (!strcmp(name, "mt_cpu_matrix") && members != VEC_UNIFORM)
        vec_refuse(v, "matrices of several kinds at once");
    unsigned mode = !strcmp(name, "mt_cpu_shfl")                                    ? 4
                    : !strcmp(name, "mt_cpu_vote") || !strcmp(name, "mt_cpu_redux") ? 2
                                                                                    : 0;
    if (mode && !LLVMIsAConstantInt(LLVMGetOperand(call, mode)))
        vec_refuse(v, "%s of an unknown kind", name);
}

static void accept_alloca(struct vec *v, LLVMValueRef alloca)
{
    LLVMValueRef count = LLVMIsAConstantInt(LLVMGetOperand(alloca, 0));
    if (!count || LLVMConstIntGetZExtValue(count) != 1 || vec_find(v, alloca)->block != 0)
        vec_refuse(v, "local memory of a size that is known late");
    v->frame += (uint64_t)vec_alloca_step(v, alloca);
    if (v->frame > MOST_FRAME)
        vec_refuse(v, "%llu bytes of local variables", (unsigned long long)v->frame);
}

static void accept_access(struct vec *v, LLVMValueRef inst)
{
    LLVMTypeRef type = LLVMIsAStoreInst(inst) ? LLVMTypeOf(LLVMGetOperand(inst, 0)) : LLVMTypeOf(inst);
    LLVMTypeRef element = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    LLVMTypeKind kind = LLVMGetTypeKind(element);
    if (kind == LLVMStructTypeKind || kind == LLVMArrayTypeKind ||
        (kind == LLVMIntegerTypeKind &&
         (LLVMGetIntTypeWidth(element) < 8 || LLVMGetIntTypeWidth(element) > 64 ||
          (LLVMGetIntTypeWidth(element) & (LLVMGetIntTypeWidth(element) - 1)))))
        vec_refuse(v, "an access of an odd type");
}

int vec_accept(struct vec *v)
{
    unsigned char together[2048] = {0};
    unsigned lanes = 0;
    for (unsigned i = 0; i < v->nvalues && !v->why; i++) {
        LLVMValueRef inst = v->value[i].from;
        lanes += v->value[i].shape.kind == VEC_LANES;
        if (v->value[i].block < 0 || !vec_plain_ok(v, inst))
            continue;
        if (LLVMIsACallInst(inst))
            accept_call(v, inst, v->value[i].block, together);
        else if (LLVMIsAAllocaInst(inst))
            accept_alloca(v, inst);
        else if (LLVMIsALoadInst(inst) || LLVMIsAStoreInst(inst))
            accept_access(v, inst);
    }
    if (lanes > MOST_LANES)
        vec_refuse(v, "its %u instructions on vectors", lanes);
    if (!v->why && !accept_collectives(v, together))
        vec_refuse(v, "warp collectives on both ways of a branch");
    return v->why ? -1 : 0;
}
