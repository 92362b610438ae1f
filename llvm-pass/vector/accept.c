/* Warps as vectors: what may not be code for a whole warp, because lanes would wait for each other, or
 * because there is no form for it. */
#include "vector.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "format/image.h"

#define MOST_LANES 6000u /* instructions on vectors */
#define MOST_FRAME                                                                                           \
    8192u /* bytes of local variables of a thread: a warp's are half of the stack that it has */

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

/* What a thread does in a block that another thread may see, or wait for. */
static int accept_is_idle(LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsAStoreInst(i) || LLVMIsAAtomicRMWInst(i) || LLVMIsAAtomicCmpXchgInst(i) ||
            LLVMIsAFenceInst(i) || (LLVMIsACallInst(i) && !vec_is_plain_call(i) && !vec_is_record(i)))
            return 0;
    return 1;
}

/* A barrier where only some lanes are: all right when the others do nothing any more. */
static int accept_barrier(const struct vec *v, int block)
{
    if (v->called) /* who else? */
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

/* Collectives on both ways of a branch may belong together: then lanes of the one wait for those of the
 * other. */
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

/* A sum of parts of threadIdx, none of which is negative. */
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

/* What is 0 where the value is: 1 for threadIdx.x, 2 for y, 4 for z, 8 for something that no two lanes of a
 * warp have in common. */
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

/* Is the condition (its contrary: !wanted) true in one lane of a warp at most? */
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

/* Does one lane of a warp at most come to the block? */
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

/* Is all that the loop polls also written in it elsewhere? So is a lock that who gets it gives back before
 * the loop is left. */
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

/* ---- Loops that poll and in which nobody waits: each round looks at another place (a list, a tree of
 * parents, a hash table), or a failed exchange means that another thread had its way. That rounds are counted
 * is not enough: who gives up after a long wait does that, too. */

/* What a loop's values are made of. */
struct made {
    const struct vec *v;
    unsigned loop;
    LLVMValueRef read; /* a load or an atomic of the loop */
    unsigned left;     /* steps until the answer is no */
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

/* A phi where the loop's rounds begin. */
static int accept_is_round(const struct made *m, LLVMValueRef value)
{
    return LLVMIsAPHINode(value) && vec_find(m->v, value)->block == m->v->loop[m->loop].first;
}

static int accept_comes_from_inside(const struct made *m, LLVMValueRef phi, unsigned i)
{
    return accept_is_changing(m, LLVMGetBasicBlockTerminator(LLVMGetIncomingBlock(phi, i)));
}

/* A read that another thread's write may let a loop go on after (lower/spin.c). */
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

/* One of its operands does, and none of the others changes in the loop. */
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

/* Whatever way a round takes, is the value another one when what is read is? What is masked, chosen or added
 * up is not: a counter may stay where it is while a flag is not set. */
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

/* Does the next round read where this one's read leads to? */
static int accept_chases(const struct vec *v, unsigned loop, LLVMValueRef read)
{
    struct made m = accept_made(v, loop, read);
    return accept_follows(&m, LLVMGetOperand(read, 0));
}

/* A compare-and-swap that expects what it, or a chase, has found: who fails, does as another one has been
 * there. */
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

/* Is the value made of such as do not change in the loop, and (*phis) of its rounds' phis? */
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

/* Does the phi go on in each round, whatever is read? */
static int accept_phi_steps(struct made *m, LLVMValueRef phi)
{
    unsigned phis = 0;
    for (unsigned i = 0, n = LLVMCountIncoming(phi); i < n; i++)
        if (accept_comes_from_inside(m, phi, i) && (LLVMIsAPHINode(LLVMGetIncomingValue(phi, i)) ||
                                                    !accept_is_even(m, LLVMGetIncomingValue(phi, i), &phis)))
            return 0;
    return phis != 0;
}

/* The same of a value: is it even, and does each phi in it go on? */
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

/* The parameter or variable that an address leads into, of a pointer or a sum with one; NULL: not known. */
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

/* A call that neither looks at memory of the program nor changes it. */
static int accept_is_quiet(LLVMValueRef call)
{
    const char *name = vec_callee(call);
    return vec_is_plain_call(call) || vec_is_record(call) || vec_is_lockstep_call(name) ||
           vec_is_wait(name) || vec_register(name) >= 0;
}

/* Does the call ask whether a barrier in memory is over, to which lanes of the warp may have to arrive? */
static int accept_asks(LLVMValueRef call)
{
    return mt_starts(vec_callee(call), "mtb_ptx_mbarrier_") && vec_is_wait(vec_callee(call));
}

/* May lanes be at the block, or come to it, that have left the loop? Blocks run in their order. */
static int accept_is_behind(const struct vec *v, int block, unsigned loop)
{
    unsigned around = loop;
    while (v->parents[around - 1])
        around = v->parents[around - 1];
    return !accept_is_in_loop(v, block, loop) &&
           (block > v->loop[loop].last || accept_is_in_loop(v, block, around));
}

/* Does a lane that has left the loop change what the poll looks at? */
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

/* A table of which each round looks at the next place, once (counted), or no lane behind gives a place back.
 */
static int accept_probes(const struct vec *v, unsigned loop, LLVMValueRef poll, int counted)
{
    struct made m = accept_made(v, loop, poll);
    LLVMValueRef p = LLVMGetOperand(poll, 0);
    return accept_is_changing(&m, p) && accept_steps(&m, p) && (counted || !accept_is_changed(v, loop, poll));
}

/* Is it a comparison of what goes on in each round with what does not change? */
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

/* Does each round ask, where it begins or ends, whether they are enough? */
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

/* Is the loop left some time, whatever lanes that have left it have still to do? */
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

/* Is the value known without a look at what was polled? */
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

/* Do lanes that leave the loop, one of those around the block, wait behind it for some that are at the
 * block? own: the block is in no loop inside. */
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

/* Do all lanes of the warp come to this block before any is past it? */
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

/* Does the block write what the loop around block `at` polls? */
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

/* Lanes that went by another way, to block `from`, wait for those at block `at` where all meet. Would they
 * write behind that what these wait for? */
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

/* Where lanes wait for other threads, those may not be lanes of their warp that wait for them: lanes that
 * have parted from them before, and lanes that have left a loop (together: all leave it at once), do
 * nothing that others see. */
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

/* Waits that are no warp collectives: once for the warp (barriers), or for each lane. */
static void accept_waits(struct vec *v, LLVMValueRef call, int block, const char *name)
{
    if (!vec_is_wait(name))
        return;
    v->waits = 1;
    /* The phase of an mbarrier ends for all lanes at once. */
    int object = mt_starts(name, "mtb_");
    if (!strcmp(name, "mt_cpu_yield") || (object && v->block[block].loop)) {
        if (!accept_wait(v, block, object))
            vec_refuse(v, "lanes that may wait for others of their warp");
        return;
    }
    if (!strcmp(name, "mt_cpu_nanosleep") || object) /* what is no poll need not yield */
        return;
    /* Aligned ones are for whole warps, wherever they stand. */
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
