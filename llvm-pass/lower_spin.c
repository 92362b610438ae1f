/* Spinning: a loop that is left only when another thread has changed memory. On a GPU that thread runs
 * meanwhile; on the CPU device the loop must let it run, so such a loop yields once a round.
 *
 * A poll is a volatile or atomic load, an exchange, a compare-and-swap whose expected value is not what the
 * loop read last (taking a lock; the usual retry loop around a compare-and-swap always makes progress and is
 * left alone), or a call of a function that polls. A loop spins if a branch out of it depends on a poll
 * inside it. */
#include "lower.h"
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCKS 4000

struct flow {
    LLVMValueRef function;
    LLVMBasicBlockRef *block;
    unsigned n;
    unsigned char *mark; /* scratch, per block */
};

static int index_of(const struct flow *f, LLVMBasicBlockRef b)
{
    for (unsigned i = 0; i < f->n; i++)
        if (f->block[i] == b)
            return (int)i;
    return -1;
}

/* Sets `bit` in mark[] for every block that can be reached from the successors of `from`. */
static void reach_forward(struct flow *f, unsigned from, unsigned char bit)
{
    unsigned *stack = malloc((f->n + 1) * sizeof *stack), depth = 0;
    if (!stack)
        return;
    stack[depth++] = from;
    while (depth) {
        LLVMValueRef t = LLVMGetBasicBlockTerminator(f->block[stack[--depth]]);
        for (unsigned i = 0, n = t ? LLVMGetNumSuccessors(t) : 0; i < n; i++) {
            int s = index_of(f, LLVMGetSuccessor(t, i));
            if (s >= 0 && !(f->mark[s] & bit)) {
                f->mark[s] |= bit;
                stack[depth++] = (unsigned)s;
            }
        }
    }
    free(stack);
}

/* Marks the blocks of the loop around `at` (its strongly connected component) with 4; 0 if there is no loop.
 */
static int mark_loop(struct flow *f, unsigned at)
{
    memset(f->mark, 0, f->n);
    reach_forward(f, at, 1);
    if (!(f->mark[at] & 1))
        return 0;
    unsigned char *in = calloc(f->n, 1);
    if (!in)
        return 0;
    for (unsigned i = 0; i < f->n; i++) {
        if (!(f->mark[i] & 1))
            continue;
        for (unsigned j = 0; j < f->n; j++)
            f->mark[j] &= (unsigned char)~2;
        reach_forward(f, i, 2);
        in[i] = (f->mark[at] & 2) != 0;
    }
    for (unsigned i = 0; i < f->n; i++)
        f->mark[i] = in[i] ? 4 : 0;
    free(in);
    return 1;
}

static int in_loop(const struct flow *f, LLVMValueRef inst)
{
    int i = index_of(f, LLVMGetInstructionParent(inst));
    return i >= 0 && f->mark[i] & 4;
}

struct search {
    const struct flow *flow;
    LLVMValueRef poll;
    LLVMValueRef seen[256];
    unsigned nseen;
};

/* Does the value depend on the poll, through instructions of the loop and through stack slots? */
static int depends(struct search *s, LLVMValueRef v)
{
    if (v == s->poll)
        return 1;
    if (!LLVMIsAInstruction(v) || !in_loop(s->flow, v))
        return 0;
    for (unsigned i = 0; i < s->nseen; i++)
        if (s->seen[i] == v)
            return 0;
    if (s->nseen == sizeof s->seen / sizeof *s->seen)
        return 0;
    s->seen[s->nseen++] = v;
    if (LLVMIsALoadInst(v) && LLVMIsAAllocaInst(LLVMGetOperand(v, 0))) {
        LLVMValueRef slot = LLVMGetOperand(v, 0);
        for (LLVMUseRef use = LLVMGetFirstUse(slot); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef store = LLVMIsAStoreInst(LLVMGetUser(use));
            if (store && LLVMGetOperand(store, 1) == slot && in_loop(s->flow, store) &&
                depends(s, LLVMGetOperand(store, 0)))
                return 1;
        }
        return 0;
    }
    if (LLVMIsAPHINode(v)) {
        for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++)
            if (depends(s, LLVMGetIncomingValue(v, i)))
                return 1;
        return 0;
    }
    for (int i = 0, n = LLVMGetNumOperands(v); i < n; i++)
        if (depends(s, LLVMGetOperand(v, (unsigned)i)))
            return 1;
    return 0;
}

static int exit_depends_on(const struct flow *f, LLVMValueRef poll)
{
    for (unsigned i = 0; i < f->n; i++) {
        LLVMValueRef t = LLVMGetBasicBlockTerminator(f->block[i]);
        if (!(f->mark[i] & 4) || !t || LLVMGetNumSuccessors(t) < 2)
            continue;
        int leaves = 0;
        for (unsigned s = 0; s < LLVMGetNumSuccessors(t); s++) {
            int to = index_of(f, LLVMGetSuccessor(t, s));
            leaves |= to >= 0 && !(f->mark[to] & 4);
        }
        struct search search = {.flow = f, .poll = poll};
        if (leaves && depends(&search, LLVMGetOperand(t, 0)))
            return 1;
    }
    return 0;
}

static int polls_itself(LLVMValueRef inst)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        if (LLVMIsAAllocaInst(LLVMGetOperand(inst, 0)))
            return 0;
        return LLVMGetVolatile(inst) || LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic;
    case LLVMAtomicRMW:
        return LLVMGetAtomicRMWBinOp(inst) == LLVMAtomicRMWBinOpXchg ||
               (LLVMIsAConstant(LLVMGetOperand(inst, 1)) && LLVMIsNull(LLVMGetOperand(inst, 1)));
    case LLVMAtomicCmpXchg:
        return 1;
    default:
        return 0;
    }
}

/* Functions that poll for their caller: a loop may be around the call. */
static int function_polls(LLVMValueRef function, int depth)
{
    if (!function || LLVMIsDeclaration(function) || depth > 4)
        return 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (polls_itself(i) || (LLVMIsACallInst(i) && function_polls(mt_callee(i), depth + 1)))
                return 1;
    return 0;
}

static int is_poll(const struct flow *f, LLVMValueRef inst)
{
    if (LLVMIsACallInst(inst))
        return function_polls(mt_callee(inst), 0);
    if (!polls_itself(inst))
        return 0;
    if (LLVMGetInstructionOpcode(inst) == LLVMAtomicCmpXchg) { /* retry loop: expects what it read last */
        struct search search = {.flow = f, .poll = inst};
        return !depends(&search, LLVMGetOperand(inst, 1));
    }
    return 1;
}

static void lower_function(struct mt_lowering *l, LLVMValueRef function)
{
    struct flow f = {.function = function, .n = LLVMCountBasicBlocks(function)};
    if (f.n > MAX_BLOCKS)
        return;
    f.block = malloc((f.n + 1) * sizeof *f.block);
    f.mark = malloc(f.n + 1);
    if (f.block && f.mark) {
        LLVMGetBasicBlocks(function, f.block);
        for (unsigned b = 0; b < f.n; b++) {
            int looked = 0, loop = 0;
            for (LLVMValueRef i = LLVMGetFirstInstruction(f.block[b]), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                if (!polls_itself(i) && !(LLVMIsACallInst(i) && function_polls(mt_callee(i), 0)))
                    continue;
                if (!looked++)
                    loop = mark_loop(&f, b);
                if (!loop || !is_poll(&f, i) || !exit_depends_on(&f, i))
                    continue;
                LLVMTypeRef type = LLVMFunctionType(l->none, NULL, 0, 0);
                LLVMPositionBuilderBefore(l->builder, next);
                LLVMBuildCall2(l->builder, type, mt_declare(l->module, "mt_cpu_yield", type), NULL, 0, "");
            }
        }
    }
    free(f.block);
    free(f.mark);
}

void mt_lower_spins(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            lower_function(l, f);
}
