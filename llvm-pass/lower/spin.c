/* Spinning: a loop that is left only when another thread has changed memory. On a GPU that thread runs
 * meanwhile; on the CPU device the loop must let it run, so such a loop yields once a round.
 *
 * A poll is a volatile or atomic load, an exchange, a compare-and-swap whose expected value is not what the
 * loop read last (taking a lock; the usual retry loop around a compare-and-swap always makes progress and is
 * left alone), or a call of a function that polls. A loop spins if a branch out of it depends on a poll
 * inside it. */
#include "flow.h"
#include "lower.h"
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCKS 4000

struct flow {
    struct mt_flow cfg;
    unsigned char *mark; /* scratch, per block */
};
enum { FORWARD = 1, BACKWARD = 2, IN_LOOP = 4, GONE = 8 /* header of a loop further out */ };

static void spin_unmark(struct flow *f, unsigned char bits)
{
    for (unsigned i = 0; i < f->cfg.n; i++)
        f->mark[i] &= (unsigned char)~bits;
}

/* Sets `bit` (FORWARD or BACKWARD) for every block that can be reached from `at` by at least one edge, or
 * that reaches it; not through blocks with one of the bits `closed`. */
static void spin_reach(struct flow *f, unsigned at, unsigned char bit, unsigned char closed)
{
    unsigned *stack = malloc((f->cfg.n + 1) * sizeof *stack), depth = 0;
    if (!stack)
        return;
    stack[depth++] = at;
    while (depth) {
        unsigned b = stack[--depth];
        unsigned e = bit == FORWARD ? f->cfg.out_at[b] : f->cfg.in_at[b];
        unsigned end = bit == FORWARD ? f->cfg.out_at[b + 1] : f->cfg.in_at[b + 1];
        for (; e < end; e++) {
            unsigned next = bit == FORWARD ? f->cfg.out[e].to : f->cfg.in[e].from;
            if (f->mark[next] & (bit | closed))
                continue;
            f->mark[next] |= bit;
            stack[depth++] = next;
        }
    }
    free(stack);
}

/* Marks the blocks of the strongly connected component of `at` among those that are not GONE; 0 if there is
 * no loop. */
static int spin_mark_component(struct flow *f, unsigned at)
{
    spin_unmark(f, FORWARD | BACKWARD | IN_LOOP);
    spin_reach(f, at, FORWARD, GONE);
    spin_reach(f, at, BACKWARD, GONE);
    for (unsigned i = 0; i < f->cfg.n; i++)
        if ((f->mark[i] & (FORWARD | BACKWARD)) == (FORWARD | BACKWARD))
            f->mark[i] |= IN_LOOP;
    return (f->mark[at] & IN_LOOP) != 0;
}

/* The block through which the marked component is entered: the header of its loop.
 * `at` when there is none. */
static unsigned spin_header(const struct flow *f, unsigned at)
{
    for (unsigned e = 0; e < f->cfg.nedges; e++)
        if (f->mark[f->cfg.in[e].to] & IN_LOOP && !(f->mark[f->cfg.in[e].from] & IN_LOOP))
            return f->cfg.in[e].to;
    return at;
}

static int spin_in_loop(const struct flow *f, LLVMValueRef inst)
{
    int i = mt_flow_index(&f->cfg, LLVMGetInstructionParent(inst));
    return i >= 0 && f->mark[i] & IN_LOOP;
}

struct search {
    const struct flow *flow;
    LLVMValueRef poll;
    int chosen; /* what it chooses counts, too */
    LLVMValueRef seen[256];
    unsigned nseen;
};

static int spin_depends(struct search *s, LLVMValueRef v);

/* Does what the poll has read decide that control comes to the block, or (end) where it goes from there? */
static int spin_decides(struct search *s, LLVMBasicBlockRef block, int end)
{
    const struct mt_flow *f = &s->flow->cfg;
    int at = s->chosen ? mt_flow_index(f, block) : -1;
    for (int steps = 0; at >= 0 && s->flow->mark[at] & IN_LOOP && steps < 4; steps++, end = 1) {
        LLVMValueRef last = LLVMGetBasicBlockTerminator(f->block[at]);
        if (end && LLVMGetNumSuccessors(last) > 1)
            return spin_depends(s, LLVMGetOperand(last, 0));
        if (f->in_at[at + 1] - f->in_at[at] != 1)
            return 0;
        at = (int)f->in[f->in_at[at]].from;
    }
    return 0;
}

/* Does the value depend on the poll, through instructions of the loop and through stack slots, or (chosen) by
 * the branch that chooses it? */
static int spin_depends(struct search *s, LLVMValueRef v)
{
    if (v == s->poll)
        return 1;
    if (!LLVMIsAInstruction(v) || !spin_in_loop(s->flow, v))
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
            if (store && LLVMGetOperand(store, 1) == slot && spin_in_loop(s->flow, store) &&
                (spin_depends(s, LLVMGetOperand(store, 0)) ||
                 spin_decides(s, LLVMGetInstructionParent(store), 0)))
                return 1;
        }
        return 0;
    }
    if (LLVMIsAPHINode(v)) {
        for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++)
            if (spin_depends(s, LLVMGetIncomingValue(v, i)) || spin_decides(s, LLVMGetIncomingBlock(v, i), 1))
                return 1;
        return 0;
    }
    for (int i = 0, n = LLVMGetNumOperands(v); i < n; i++)
        if (spin_depends(s, LLVMGetOperand(v, (unsigned)i)))
            return 1;
    return 0;
}

static int spin_exit_depends(const struct flow *f, LLVMValueRef poll)
{
    for (unsigned i = 0; i < f->cfg.n; i++) {
        LLVMValueRef t = LLVMGetBasicBlockTerminator(f->cfg.block[i]);
        if (!(f->mark[i] & IN_LOOP) || !t || LLVMGetNumSuccessors(t) < 2)
            continue;
        int leaves = 0;
        for (unsigned s = 0; s < LLVMGetNumSuccessors(t); s++) {
            int to = mt_flow_index(&f->cfg, LLVMGetSuccessor(t, s));
            leaves |= to >= 0 && !(f->mark[to] & IN_LOOP);
        }
        struct search search = {.flow = f, .poll = poll, .chosen = 1};
        if (leaves && spin_depends(&search, LLVMGetOperand(t, 0)))
            return 1;
    }
    return 0;
}

static int spin_polls_itself(LLVMValueRef inst)
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
static int spin_function_polls(LLVMValueRef function, int depth)
{
    if (!function || LLVMIsDeclaration(function) || depth > 4)
        return 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (spin_polls_itself(i) || (LLVMIsACallInst(i) && spin_function_polls(mt_callee(i), depth + 1)))
                return 1;
    return 0;
}

static int spin_is_poll(const struct flow *f, LLVMValueRef inst)
{
    if (LLVMIsACallInst(inst))
        return spin_function_polls(mt_callee(inst), 0);
    if (!spin_polls_itself(inst))
        return 0;
    if (LLVMGetInstructionOpcode(inst) == LLVMAtomicCmpXchg) { /* retry loop: expects what it read last */
        struct search search = {.flow = f, .poll = inst};
        return !spin_depends(&search, LLVMGetOperand(inst, 1));
    }
    return 1;
}

/* Of the marked component with this header keeps the part that goes round through `latch`: blocks that reach
 * it without passing the header. */
static void spin_keep_cycle(struct flow *f, unsigned header, unsigned latch)
{
    spin_unmark(f, FORWARD | BACKWARD);
    for (unsigned i = 0; i < f->cfg.n; i++) /* FORWARD: closed, here */
        if (!(f->mark[i] & IN_LOOP) || i == header)
            f->mark[i] |= FORWARD;
    if (latch != header)
        spin_reach(f, latch, BACKWARD, FORWARD);
    f->mark[latch] |= BACKWARD;
    f->mark[header] |= BACKWARD;
    for (unsigned i = 0; i < f->cfg.n; i++)
        if (!(f->mark[i] & BACKWARD))
            f->mark[i] &= (unsigned char)~IN_LOOP;
}

/* Is one of the loops around the instruction in block `at` left by what the instruction reads? From the
 * outermost loop inwards; loops that share a header are looked at one by one. */
static int spin_spins(struct flow *f, unsigned at, LLVMValueRef inst)
{
    memset(f->mark, 0, f->cfg.n);
    while (spin_mark_component(f, at)) {
        unsigned header = spin_header(f, at);
        if (spin_is_poll(f, inst) && spin_exit_depends(f, inst))
            return 1;
        for (unsigned e = f->cfg.in_at[header]; e < f->cfg.in_at[header + 1]; e++) {
            unsigned latch = f->cfg.in[e].from;
            if (!(f->mark[latch] & IN_LOOP))
                continue;
            spin_keep_cycle(f, header, latch);
            if (f->mark[at] & IN_LOOP && spin_is_poll(f, inst) && spin_exit_depends(f, inst))
                return 1;
            spin_mark_component(f, at);
        }
        if (header == at)
            return 0;
        f->mark[header] |= GONE;
    }
    return 0;
}

static void spin_function(struct mt_lowering *l, LLVMValueRef function)
{
    struct flow f;
    if (LLVMCountBasicBlocks(function) > MAX_BLOCKS)
        return;
    int made = mt_flow_make(&f.cfg, function) == 0;
    f.mark = calloc(f.cfg.n + 1, 1);
    for (unsigned b = 0; made && f.mark && b < f.cfg.n; b++) {
        for (LLVMValueRef i = LLVMGetFirstInstruction(f.cfg.block[b]), next; i; i = next) {
            next = LLVMGetNextInstruction(i);
            if (!spin_polls_itself(i) && !(LLVMIsACallInst(i) && spin_function_polls(mt_callee(i), 0)))
                continue;
            if (!spin_spins(&f, b, i))
                continue;
            LLVMTypeRef type = LLVMFunctionType(l->none, NULL, 0, 0);
            LLVMPositionBuilderBefore(l->builder, next);
            LLVMBuildCall2(l->builder, type, mt_declare(l->module, "mt_cpu_yield", type), NULL, 0, "");
        }
    }
    free(f.mark);
    mt_flow_free(&f.cfg);
}

void mt_lower_spins(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            spin_function(l, f);
}
