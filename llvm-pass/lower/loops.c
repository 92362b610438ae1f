/* The loops of a function as a warp runs them: see loops.h. */
#include "loops.h"
#include "memtrace/order.h"
#include "lowering.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

/* A block with its number, for lookup. */
struct shape_name {
    LLVMBasicBlockRef block;
    unsigned number;
};

struct shape_work {
    struct mt_loop_shape *s;
    struct shape_name *name; /* sorted by address */
    unsigned *stack;         /* room for all edges plus one */
    unsigned char *seen;
};

MT_ORDER_1(shape_compare, struct shape_name, block)

static unsigned shape_find(const struct shape_name *name, unsigned n, LLVMBasicBlockRef block)
{
    struct shape_name key = {block, 0}, *found = bsearch(&key, name, n, sizeof key, shape_compare);
    return found ? found->number : n;
}

/* Returns the block's number, or nblocks if it is unreachable. */
static unsigned shape_number(const struct mt_loop_shape *s, LLVMBasicBlockRef block)
{
    return shape_find(s->name, s->nblocks, block);
}

/* Returns 1 if loop a (0: the function) is the loop b or inside of it. Everything is inside of 0. */
static int shape_inside(const struct mt_loop_shape *s, unsigned a, unsigned b)
{
    while (a && a != b)
        a = s->loop[a - 1].parent;
    return a == b;
}

/* Returns 1 if the block is in loop l by control flow; loop 0 is the function. */
static int shape_within(const struct mt_loop_shape *s, unsigned b, unsigned l)
{
    unsigned in = s->block[b].inside;
    while (in && in != l)
        in = s->loop[in - 1].around;
    return in == l;
}

static unsigned shape_successors(const struct mt_loop_shape *s, unsigned b)
{
    return LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(s->block[b].block));
}

static unsigned shape_successor(const struct mt_loop_shape *s, unsigned b, unsigned k)
{
    return shape_number(s, LLVMGetSuccessor(LLVMGetBasicBlockTerminator(s->block[b].block), k));
}

/* ---- order ---- */

/* Orders blocks: `name` has all in the function's order; `order` gets the reachable ones in reverse
 * postorder. Returns their number. */
static unsigned shape_order(LLVMValueRef function, const struct shape_name *name, unsigned n,
                            LLVMBasicBlockRef *order)
{
    struct step {
        LLVMBasicBlockRef block;
        unsigned next;
    } *stack = malloc(n * sizeof *stack);
    unsigned char *seen = calloc(n, 1);
    unsigned depth = 0, left = n;
    if (stack && seen) {
        LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(function);
        seen[shape_find(name, n, entry)] = 1;
        stack[depth++] = (struct step){entry, 0};
    }
    while (depth) {
        struct step *at = &stack[depth - 1];
        LLVMValueRef t = LLVMGetBasicBlockTerminator(at->block);
        if (at->next == LLVMGetNumSuccessors(t)) {
            order[--left] = at->block;
            depth--;
            continue;
        }
        LLVMBasicBlockRef to = LLVMGetSuccessor(t, at->next++);
        unsigned i = shape_find(name, n, to);
        if (!seen[i])
            stack[depth++] = (struct step){to, 0};
        seen[i] = 1;
    }
    free(stack);
    free(seen);
    memmove(order, order + left, (n - left) * sizeof *order);
    return n - left;
}

/* Fills in s->block in order, and s->name. */
static int shape_list(struct mt_loop_shape *s, LLVMValueRef function)
{
    unsigned n = LLVMCountBasicBlocks(function), i = 0;
    LLVMBasicBlockRef *order = calloc(n, sizeof *order);
    s->name = calloc(n, sizeof *s->name);
    s->block = calloc(n, sizeof *s->block);
    if (order && s->name && s->block) {
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b), i++)
            s->name[i] = (struct shape_name){b, i};
        qsort(s->name, n, sizeof *s->name, shape_compare);
        s->nblocks = shape_order(function, s->name, n, order);
        for (i = 0; i < s->nblocks; i++)
            s->block[i] =
                (struct mt_shape_block){.block = order[i], .written = shape_find(s->name, n, order[i])};
        for (i = 0; i < s->nblocks; i++)
            s->name[i] = (struct shape_name){order[i], i};
        qsort(s->name, s->nblocks, sizeof *s->name, shape_compare);
    }
    free(order);
    return s->nblocks ? 0 : -1;
}

/* ---- loops ---- */

static int shape_loops(struct mt_loop_shape *s, LLVMValueRef function)
{
    LLVMValueRef *last = malloc(s->nblocks * sizeof *last);
    uint32_t *innermost = malloc(s->nblocks * sizeof *innermost), *parents = NULL;
    int rc = -1;
    if (!last || !innermost)
        goto out;
    for (unsigned i = 0; i < s->nblocks; i++)
        last[i] = LLVMGetBasicBlockTerminator(s->block[i].block);
    s->nloops = mt_shim_loops(function, last, s->nblocks, innermost, &parents);
    s->loop = calloc(s->nloops + 1, sizeof *s->loop);
    if (!s->loop)
        goto out;
    for (unsigned i = 0; i < s->nloops; i++)
        s->loop[i] = (struct mt_shape_loop){.parent = parents[i], .around = parents[i], .header = s->nblocks};
    for (unsigned i = 0; i < s->nblocks; i++) {
        unsigned l = s->block[i].loop = s->block[i].inside = innermost[i];
        for (; l && s->loop[l - 1].header == s->nblocks; l = s->loop[l - 1].around)
            s->loop[l - 1].header = i; /* it dominates the others, and so comes first */
    }
    rc = 0;
out:
    free(last);
    free(innermost);
    free(parents);
    return rc;
}

/* Returns 1 if the block ends the function and contains nothing that could be an access. */
static int shape_only_returns(LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsACallInst(i) && !LLVMIsAIntrinsicInst(i))
            return 0;
    return LLVMIsAReturnInst(LLVMGetBasicBlockTerminator(block)) != NULL;
}

/* Marks blocks reachable from `from` in the loop around l, without entering l or marked blocks. */
static void shape_reach(struct shape_work *w, unsigned l, unsigned from)
{
    struct mt_loop_shape *s = w->s;
    unsigned depth = 0, around = s->loop[l - 1].around;
    unsigned first = around ? s->loop[around - 1].header : s->nblocks;
    w->stack[depth++] = from;
    while (depth) {
        unsigned b = w->stack[--depth];
        if (b >= s->nblocks || w->seen[b] || b == first || shape_within(s, b, l) ||
            !shape_inside(s, s->block[b].loop, around))
            continue;
        w->seen[b] = 1;
        for (unsigned k = 0, n = shape_successors(s, b); k < n; k++)
            w->stack[depth++] = shape_successor(s, b, k);
    }
}

/* Returns 1 if block `to` is reachable only through `by`. */
static int shape_dominates(struct shape_work *w, unsigned char *seen, unsigned by, unsigned to)
{
    struct mt_loop_shape *s = w->s;
    unsigned depth = 0;
    memset(seen, 0, s->nblocks);
    w->stack[depth++] = 0;
    while (depth) {
        unsigned b = w->stack[--depth];
        if (b >= s->nblocks || b == by || seen[b])
            continue;
        seen[b] = 1;
        for (unsigned k = 0, n = shape_successors(s, b); k < n; k++)
            w->stack[depth++] = shape_successor(s, b, k);
    }
    return !seen[to];
}

/* Adds the block to loop l; a loop that contains it becomes one of l's. */
static void shape_adopt(struct mt_loop_shape *s, unsigned b, unsigned l)
{
    unsigned around = s->loop[l - 1].parent, in = s->block[b].loop;
    if (in == around) {
        s->block[b].loop = l;
        return;
    }
    while (in && s->loop[in - 1].parent != around && in != l)
        in = s->loop[in - 1].parent;
    if (in && in != l)
        s->loop[in - 1].parent = l;
}

/* Returns 1 if the only way from this block leads to the function's end. */
static int shape_ends(const struct mt_loop_shape *s, unsigned b)
{
    for (unsigned steps = 0; b < s->nblocks && steps < s->nblocks && shape_successors(s, b) == 1; steps++)
        b = shape_successor(s, b, 0);
    return b < s->nblocks && LLVMIsAReturnInst(LLVMGetBasicBlockTerminator(s->block[b].block));
}

/* Returns 1 if a way leads from block `from` behind loop l to block `to`, and none back. */
static int shape_leads(struct shape_work *w, unsigned l, unsigned from, unsigned to)
{
    memset(w->seen, 0, w->s->nblocks);
    shape_reach(w, l, to);
    if (w->seen[from])
        return 0;
    memset(w->seen, 0, w->s->nblocks);
    shape_reach(w, l, from);
    return w->seen[to];
}

/* A way out of a loop, as an edge. */
struct shape_exit {
    unsigned from, to;
};

/* Tests for the loop's own condition: returns 2 at the loop's end, 1 at its header, else 0. */
static int shape_is_condition(const struct mt_loop_shape *s, unsigned l, unsigned from)
{
    for (unsigned k = 0, n = shape_successors(s, from); k < n; k++)
        if (shape_successor(s, from, k) == s->loop[l - 1].header)
            return 2;
    return from == s->loop[l - 1].header;
}

/* Returns 1 if the first of two ways out of loop l is more likely its normal exit. */
static int shape_is_usual(struct shape_work *w, unsigned l, struct shape_exit a, struct shape_exit b)
{
    struct mt_loop_shape *s = w->s;
    if (shape_leads(w, l, a.to, b.to) || shape_leads(w, l, b.to, a.to))
        return shape_leads(w, l, b.to, a.to);
    int ends = shape_ends(s, a.to), asks = shape_is_condition(s, l, a.from);
    if (ends != shape_ends(s, b.to))
        return !ends;
    if (asks != shape_is_condition(s, l, b.from))
        return asks > shape_is_condition(s, l, b.from);
    return s->block[a.to].written > s->block[b.to].written;
}

/* Skips empty blocks, which LLVM puts on ways out of a loop. */
static unsigned shape_behind_empty(const struct mt_loop_shape *s, unsigned b)
{
    for (unsigned steps = 0; b < s->nblocks && steps < s->nblocks && shape_successors(s, b) == 1; steps++) {
        LLVMValueRef i = LLVMGetFirstInstruction(s->block[b].block);
        while (LLVMIsAPHINode(i))
            i = LLVMGetNextInstruction(i);
        if (i != LLVMGetBasicBlockTerminator(s->block[b].block))
            break;
        b = shape_successor(s, b, 0);
    }
    return b;
}

/* Returns the normal exit of an outermost loop that some lanes leave by return: the way out to which
 * others lead, or that of the loop's own condition. nblocks: none. */
static unsigned shape_usual_exit(struct shape_work *w, unsigned l)
{
    struct mt_loop_shape *s = w->s;
    struct shape_exit usual = {0, s->nblocks};
    for (unsigned b = 0; b < s->nblocks; b++)
        for (unsigned k = 0, n = shape_successors(s, b); k < n && shape_within(s, b, l); k++) {
            unsigned to = shape_successor(s, b, k);
            if (to >= s->nblocks || shape_within(s, to, l))
                continue;
            struct shape_exit way = {b, shape_behind_empty(s, to)};
            if (way.to < s->nblocks && way.to != usual.to && !shape_only_returns(s->block[way.to].block) &&
                (usual.to == s->nblocks || shape_is_usual(w, l, way, usual)))
                usual = way;
        }
    return usual.to;
}

/* Marks the blocks reachable by lanes that leave loop l, without leaving the loop around it. */
static void shape_leave(struct shape_work *w, unsigned l)
{
    struct mt_loop_shape *s = w->s;
    for (unsigned b = 0; b < s->nblocks; b++)
        for (unsigned k = 0, n = shape_successors(s, b); k < n && shape_within(s, b, l); k++)
            shape_reach(w, l, shape_successor(s, b, k));
}

/* Finds, among the blocks marked by shape_leave, those from which the end of an iteration of the loop
 * around l, or of the function, is reachable; without ways out of the loop around l, or to a trap. */
static void shape_go_on(struct shape_work *w, unsigned l, unsigned char *on)
{
    struct mt_loop_shape *s = w->s;
    unsigned around = s->loop[l - 1].around, first = around ? s->loop[around - 1].header : s->nblocks;
    memset(on, 0, s->nblocks);
    for (unsigned b = s->nblocks; b--;) {
        if (!w->seen[b])
            continue;
        on[b] = !around && LLVMIsAReturnInst(LLVMGetBasicBlockTerminator(s->block[b].block));
        for (unsigned k = 0, n = shape_successors(s, b); k < n; k++) {
            unsigned to = shape_successor(s, b, k);
            on[b] |= to < s->nblocks && ((around && to == first) || (to > b && on[to]));
        }
    }
}

/* Returns the first block on all ways that leave loop l and continue. */
static unsigned shape_meeting(struct shape_work *w, unsigned l, unsigned char *on)
{
    struct mt_loop_shape *s = w->s;
    unsigned far = 0, around = s->loop[l - 1].around;
    memset(w->seen, 0, s->nblocks);
    shape_leave(w, l);
    shape_go_on(w, l, on);
    for (int behind = 0; behind < 2; behind++)
        for (unsigned b = 0; b < s->nblocks; b++) {
            if (behind ? !on[b] : !shape_within(s, b, l))
                continue;
            if (behind && b >= far)
                return b;
            for (unsigned k = 0, n = shape_successors(s, b); k < n; k++) {
                unsigned to = shape_successor(s, b, k);
                if (around && to == s->loop[around - 1].header)
                    return s->nblocks;
                far = to < s->nblocks && on[to] && to > far ? to : far;
            }
        }
    return s->nblocks;
}

/* Sets w->seen to the blocks that lanes from loop l reach before they meet. */
static void shape_ways_out(struct shape_work *w, unsigned l)
{
    struct mt_loop_shape *s = w->s;
    unsigned char *away = w->seen + s->nblocks;
    memset(w->seen, 0, s->nblocks);
    shape_reach(w, l, s->loop[l - 1].meeting);
    memcpy(away, w->seen, s->nblocks);
    shape_leave(w, l);
    for (unsigned b = 0; b < s->nblocks; b++)
        w->seen[b] &= !away[b];
}

/* Adds the code between leaving loop l and the meeting place to l. */
static void shape_extend(struct shape_work *w, unsigned l)
{
    struct mt_loop_shape *s = w->s;
    unsigned char *more = w->seen + s->nblocks, *known = more + s->nblocks;
    unsigned meeting = shape_meeting(w, l, more);
    if (!s->loop[l - 1].around && (meeting == s->nblocks || shape_only_returns(s->block[meeting].block)))
        meeting = shape_usual_exit(w, l);
    s->loop[l - 1].meeting = meeting;
    shape_ways_out(w, l);
    for (unsigned b = 0; b < s->nblocks; b++)
        if (w->seen[b] && shape_dominates(w, known, s->loop[l - 1].header, b))
            shape_adopt(s, b, l);
}

/* Returns 1 if the loop around l reaches l's header in each iteration, and a way out of l is just another
 * back edge of it, as with `continue` in the middle of a loop. */
static int shape_is_joined(struct shape_work *w, unsigned l, const LLVMBasicBlockRef *meeting)
{
    struct mt_loop_shape *s = w->s;
    unsigned around = s->loop[l - 1].around, header = s->loop[l - 1].header, back = 0;
    for (unsigned b = 0; around && b < s->nblocks; b++) {
        if (!shape_within(s, b, around))
            continue;
        for (unsigned k = 0, n = shape_successors(s, b); k < n; k++) {
            unsigned to = shape_successor(s, b, k);
            if (to == s->loop[around - 1].header && !shape_dominates(w, w->seen, header, b))
                return 0;
            if (!shape_within(s, b, l) || to >= s->nblocks || !shape_within(s, to, around) ||
                shape_within(s, to, l))
                continue;
            while (to < s->nblocks && to != header && meeting[to])
                to = shape_number(s, meeting[to]);
            back |= to == header;
        }
    }
    return (int)back;
}

static void shape_join(struct shape_work *w, unsigned l)
{
    struct mt_loop_shape *s = w->s;
    for (unsigned b = 0; b < s->nblocks; b++)
        if (shape_inside(s, s->block[b].loop, s->loop[l - 1].parent) &&
            !shape_inside(s, s->block[b].loop, l) && shape_dominates(w, w->seen, s->loop[l - 1].header, b))
            shape_adopt(s, b, l);
}

/* Returns 0, or -1 without memory. shape_work_free() must follow in any case. */
static int shape_work_begin(struct shape_work *w, struct mt_loop_shape *s)
{
    size_t edges = 1;
    for (unsigned b = 0; b < s->nblocks; b++)
        edges += shape_successors(s, b);
    *w = (struct shape_work){
        .s = s, .seen = malloc(3 * (size_t)s->nblocks), .stack = malloc(edges * sizeof *w->stack)};
    return w->seen && w->stack ? 0 : -1;
}

static void shape_work_free(struct shape_work *w)
{
    free(w->stack);
    free(w->seen);
}

static int shape_extend_all(struct mt_loop_shape *s, LLVMValueRef function)
{
    struct shape_work w;
    LLVMBasicBlockRef *list = malloc(s->nblocks * sizeof *list),
                      *meeting = malloc(s->nblocks * sizeof *meeting);
    int rc = !shape_work_begin(&w, s) && list && meeting ? 0 : -1;
    if (rc)
        goto out;
    for (unsigned i = 0; i < s->nblocks; i++)
        list[i] = s->block[i].block;
    mt_shim_post_dominators(function, list, s->nblocks, meeting);
    for (unsigned l = 1; l <= s->nloops; l++) {
        shape_extend(&w, l);
        if (shape_is_joined(&w, l, meeting))
            shape_join(&w, l);
    }
out:
    shape_work_free(&w);
    free(list);
    free(meeting);
    return rc;
}

/* Marks the blocks reached by lanes that leave loop l before they meet. Returns 0, or -1 without memory. */
static int mt_shape_ways_out(struct mt_loop_shape *s, unsigned l, unsigned char *mark)
{
    struct shape_work w;
    int rc = shape_work_begin(&w, s);
    if (!rc) {
        shape_ways_out(&w, l);
        memcpy(mark, w.seen, s->nblocks);
    }
    shape_work_free(&w);
    return rc;
}

int mt_shape_of(struct mt_loop_shape *s, LLVMValueRef function)
{
    memset(s, 0, sizeof *s);
    if (!shape_list(s, function) && !shape_loops(s, function) &&
        (!s->nloops || !shape_extend_all(s, function)))
        return 0;
    mt_shape_free(s);
    return -1;
}

void mt_shape_free(struct mt_loop_shape *s)
{
    free(s->block);
    free(s->loop);
    free(s->name);
    memset(s, 0, sizeof *s);
}

/* See mt_ways_apart in loops.h. A *way* is an edge into the code between leaving a loop and the place
 * where all leaving lanes meet: out of the loop, or past it, as where LLVM has removed the loop's first
 * test. NVIDIA's ptxas makes lanes meet at the block where the ways of a branch join (BSYNC), but not at
 * those reached from inside a loop: lanes that come there by different ways, or in different rounds, run
 * it apart. */

#define MOST_COPIED 600u /* maximum instructions in copies, per function */
#define MOST_ROUNDS 32u
#define DEEP 4u /* maximum depth of calls examined */

struct way {
    LLVMBasicBlockRef from;
    unsigned to;
};

struct ways {
    struct mt_lowering *l;
    LLVMValueRef function;
    struct mt_loop_shape shape;
    unsigned char *region, *mine, *taken; /* per block: on a way out; on this way; on an earlier one */
    struct way *way;
    unsigned nways, copied, ntogether; /* the first `ntogether` ways use the original code */
    int kernel, left;                  /* left: 1 if some way got no code of its own */
};

/* ---- properties of code ---- */

static int ways_is_record(const char *name)
{
    return mt_starts(name, "__mt_access_") && !mt_is_check(name);
}

/* Returns 1 for a record call, or a call that may lead to one. */
static int ways_accesses(LLVMValueRef inst)
{
    if (!LLVMIsACallInst(inst) || LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return 0;
    LLVMValueRef callee = mt_callee(inst);
    return !callee || ways_is_record(mt_name(callee)) ||
           !(LLVMGetIntrinsicID(callee) || mt_starts(mt_name(callee), "mt"));
}

/* Returns 1 if this call may be copied, as lanes do not wait for one another in it. */
static int ways_may_copy_call(LLVMValueRef inst, unsigned depth)
{
    static const char *const waits[] = {"bar",     "shfl",   "vote",  "match", "redux", "sync",
                                        "mma",     "matrix", "elect", "wait",  "sleep", "exit",
                                        "cluster", "mask",   "yield", NULL};
    LLVMValueRef callee = mt_callee(inst);
    if (!callee || depth > DEEP)
        return 0;
    if (LLVMGetIntrinsicID(callee) || ways_is_record(mt_name(callee)))
        return 1;
    for (unsigned i = 0; mt_starts(mt_name(callee), "mt") && waits[i]; i++)
        if (strstr(mt_name(callee), waits[i]))
            return 0;
    if (LLVMIsDeclaration(callee))
        return mt_starts(mt_name(callee), "mt");
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(callee); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (LLVMIsACallInst(i) && !LLVMIsAInlineAsm(LLVMGetCalledValue(i)) &&
                !ways_may_copy_call(i, depth + 1))
                return 0;
    return 1;
}

static int ways_may_copy(LLVMValueRef inst)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    if (op == LLVMCall)
        return LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) || ways_may_copy_call(inst, 0);
    return op != LLVMAlloca && op != LLVMInvoke && op != LLVMCallBr && op != LLVMIndirectBr;
}

/* Returns 1 if the value is surely the same in all lanes of a warp. */
static int ways_is_uniform(const struct ways *w, LLVMValueRef value, unsigned depth)
{
    if (LLVMIsAConstant(value) || (w->kernel && LLVMIsAArgument(value)))
        return 1;
    if (!LLVMIsAInstruction(value) || depth > 8)
        return 0;
    int reads = LLVMIsACallInst(value) && mt_callee(value) &&
                strstr(mt_name(mt_callee(value)), "read_ptx_sreg_") &&
                (strstr(mt_name(mt_callee(value)), "ctaid") || strstr(mt_name(mt_callee(value)), "ntid"));
    if (reads || !(LLVMIsABinaryOperator(value) || LLVMIsACastInst(value) || LLVMIsACmpInst(value) ||
                   LLVMIsASelectInst(value)))
        return reads;
    for (int i = 0; i < LLVMGetNumOperands(value); i++)
        if (!ways_is_uniform(w, LLVMGetOperand(value, (unsigned)i), depth + 1))
            return 0;
    return 1;
}

/* Returns 1 if all lanes go past loop l here, or none does, as where it has no iteration. */
static int ways_go_together(const struct ways *w, unsigned l, unsigned b)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(w->shape.block[b].block);
    return !shape_within(&w->shape, b, l) && LLVMGetNumSuccessors(end) > 1 &&
           ways_is_uniform(w, LLVMGetOperand(end, 0), 0);
}

/* ---- ways ---- */

static unsigned ways_successor(const struct ways *w, unsigned b, unsigned k)
{
    return shape_number(&w->shape, LLVMGetSuccessor(LLVMGetBasicBlockTerminator(w->shape.block[b].block), k));
}

static unsigned ways_successors(const struct ways *w, unsigned b)
{
    return LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(w->shape.block[b].block));
}

/* Adds to w->way the edges into the region, once each: together: those that all lanes take or none; else the
 * others. */
static void ways_find_some(struct ways *w, unsigned l, int together)
{
    for (unsigned b = 0; b < w->shape.nblocks; b++) {
        if (w->region[b] || ways_go_together(w, l, b) != together)
            continue;
        for (unsigned k = 0, n = ways_successors(w, b), first = w->nways; k < n; k++) {
            unsigned to = ways_successor(w, b, k), i = first;
            while (i < w->nways && w->way[i].to != to)
                i++;
            if (to < w->shape.nblocks && w->region[to] && i == w->nways)
                w->way[w->nways++] = (struct way){w->shape.block[b].block, to};
        }
    }
}

static void ways_find(struct ways *w, unsigned l)
{
    w->nways = 0;
    ways_find_some(w, l, 1);
    w->ntogether = w->nways;
    ways_find_some(w, l, 0);
}

/* Marks in w->mine the region's blocks reachable from `to`. */
static void ways_reach(struct ways *w, unsigned to)
{
    memset(w->mine, 0, w->shape.nblocks);
    w->mine[to] = 1;
    for (int changed = 1; changed;) {
        changed = 0;
        for (unsigned b = 0; b < w->shape.nblocks; b++)
            for (unsigned k = 0, n = w->mine[b] ? ways_successors(w, b) : 0; k < n; k++) {
                unsigned s = ways_successor(w, b, k);
                if (s < w->shape.nblocks && w->region[s] && !w->mine[s])
                    changed = w->mine[s] = 1;
            }
    }
}

/* Returns 1 if this way reaches accesses that an earlier one reaches. */
static int ways_shares(const struct ways *w)
{
    for (unsigned b = 0; b < w->shape.nblocks; b++)
        for (LLVMValueRef i = w->mine[b] && w->taken[b] ? LLVMGetFirstInstruction(w->shape.block[b].block)
                                                        : NULL;
             i; i = LLVMGetNextInstruction(i))
            if (ways_accesses(i))
                return 1;
    return 0;
}

static int ways_is_mine(const struct ways *w, LLVMBasicBlockRef block)
{
    unsigned b = shape_number(&w->shape, block);
    return b < w->shape.nblocks && w->mine[b];
}

/* Returns 1 if the value is used in these blocks only, or by phis after them. */
static int ways_is_closed(const struct ways *w, LLVMValueRef value)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (ways_is_mine(w, LLVMGetInstructionParent(user)))
            continue;
        for (unsigned i = 0; LLVMIsAPHINode(user) && i < LLVMCountIncoming(user); i++)
            if (LLVMGetIncomingValue(user, i) == value && !ways_is_mine(w, LLVMGetIncomingBlock(user, i)))
                return 0;
        if (!LLVMIsAPHINode(user))
            return 0;
    }
    return 1;
}

/* Returns the number of instructions of a copy; 0: impossible. */
static unsigned ways_size(const struct ways *w)
{
    unsigned n = 0;
    for (unsigned b = 0; b < w->shape.nblocks; b++)
        for (LLVMValueRef i = w->mine[b] ? LLVMGetFirstInstruction(w->shape.block[b].block) : NULL; i;
             i = LLVMGetNextInstruction(i), n++)
            if (!ways_may_copy(i) || !ways_is_closed(w, i))
                return 0;
    return n;
}

/* ---- copies ---- */

struct copy {
    LLVMValueRef *old, *made; /* instructions and blocks, and their copies */
    unsigned n;
};

static LLVMValueRef copy_of(const struct copy *c, LLVMValueRef old)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->old[i] == old)
            return c->made[i];
    return old;
}

static LLVMBasicBlockRef copy_of_block(const struct copy *c, LLVMBasicBlockRef old)
{
    return LLVMValueAsBasicBlock(copy_of(c, LLVMBasicBlockAsValue(old)));
}

static void copy_add(struct copy *c, LLVMValueRef old, LLVMValueRef made)
{
    c->old[c->n] = old;
    c->made[c->n++] = made;
}

/* Copies the instructions; phis get their values later. */
static void ways_copy_block(struct ways *w, struct copy *c, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderAtEnd(w->l->builder, copy_of_block(c, block));
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        LLVMValueRef made;
        if (LLVMIsAPHINode(i)) {
            made = LLVMBuildPhi(w->l->builder, LLVMTypeOf(i), "");
        } else {
            made = LLVMInstructionClone(i);
            LLVMInsertIntoBuilder(w->l->builder, made);
        }
        copy_add(c, i, made);
    }
}

/* Replaces values and blocks by their copies. */
static void ways_copy_operands(struct ways *w, const struct copy *c, LLVMBasicBlockRef block,
                               const struct way *way)
{
    int first = block == w->shape.block[way->to].block;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        LLVMValueRef made = copy_of(c, i);
        if (!LLVMIsAPHINode(i)) {
            for (unsigned k = 0; k < (unsigned)LLVMGetNumOperands(made); k++)
                LLVMSetOperand(made, k, copy_of(c, LLVMGetOperand(made, k)));
            continue;
        }
        for (unsigned k = 0; k < LLVMCountIncoming(i); k++) {
            LLVMBasicBlockRef from = LLVMGetIncomingBlock(i, k);
            LLVMValueRef value = copy_of(c, LLVMGetIncomingValue(i, k));
            if (ways_is_mine(w, from)) {
                from = copy_of_block(c, from);
                LLVMAddIncoming(made, &value, &from, 1);
            } else if (first && from == way->from) {
                LLVMAddIncoming(made, &value, &from, 1);
            }
        }
    }
}

/* Updates phis after these blocks. */
static void ways_copy_leave(const struct ways *w, const struct copy *c, LLVMBasicBlockRef block)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(block);
    LLVMBasicBlockRef made = copy_of_block(c, block);
    for (unsigned k = 0, n = LLVMGetNumSuccessors(end); k < n; k++) {
        LLVMBasicBlockRef to = LLVMGetSuccessor(end, k);
        for (LLVMValueRef i = LLVMGetFirstInstruction(to); !ways_is_mine(w, to) && LLVMIsAPHINode(i);
             i = LLVMGetNextInstruction(i))
            for (unsigned in = 0; in < LLVMCountIncoming(i); in++)
                if (LLVMGetIncomingBlock(i, in) == block) {
                    LLVMValueRef value = copy_of(c, LLVMGetIncomingValue(i, in));
                    LLVMAddIncoming(i, &value, &made, 1);
                    break;
                }
    }
}

/* Removes this block's value from the phi. */
static void ways_forget(struct ways *w, LLVMValueRef phi, LLVMBasicBlockRef from)
{
    LLVMPositionBuilderBefore(w->l->builder, phi);
    LLVMValueRef made = LLVMBuildPhi(w->l->builder, LLVMTypeOf(phi), "");
    for (unsigned k = 0; k < LLVMCountIncoming(phi); k++) {
        LLVMBasicBlockRef block = LLVMGetIncomingBlock(phi, k);
        LLVMValueRef value = LLVMGetIncomingValue(phi, k);
        if (block != from)
            LLVMAddIncoming(made, &value, &block, 1);
    }
    LLVMReplaceAllUsesWith(phi, made);
    LLVMInstructionEraseFromParent(phi);
}

/* Redirects the way to the copy. */
static void ways_turn(struct ways *w, const struct copy *c, const struct way *way)
{
    LLVMBasicBlockRef old = w->shape.block[way->to].block;
    LLVMValueRef end = LLVMGetBasicBlockTerminator(way->from);
    for (unsigned k = 0, n = LLVMGetNumSuccessors(end); k < n; k++)
        if (LLVMGetSuccessor(end, k) == old)
            LLVMSetSuccessor(end, k, copy_of_block(c, old));
    for (LLVMValueRef i = LLVMGetFirstInstruction(old), next; LLVMIsAPHINode(i); i = next) {
        next = LLVMGetNextInstruction(i);
        ways_forget(w, i, way->from);
    }
}

/* Returns 0, or -1 without memory. */
static int ways_copy(struct ways *w, const struct way *way, unsigned size)
{
    struct copy c = {0};
    c.old = calloc(size + w->shape.nblocks, sizeof(LLVMValueRef));
    c.made = calloc(size + w->shape.nblocks, sizeof(LLVMValueRef));
    int rc = c.old && c.made ? 0 : -1;
    for (int step = 0; step < 4 && !rc; step++)
        for (unsigned b = 0; b < w->shape.nblocks; b++) {
            LLVMBasicBlockRef block = w->shape.block[b].block;
            if (!w->mine[b])
                continue;
            if (step == 0)
                copy_add(
                    &c, LLVMBasicBlockAsValue(block),
                    LLVMBasicBlockAsValue(LLVMAppendBasicBlockInContext(w->l->u->context, w->function, "")));
            else if (step == 1)
                ways_copy_block(w, &c, block);
            else if (step == 2)
                ways_copy_operands(w, &c, block, way);
            else
                ways_copy_leave(w, &c, block);
        }
    if (!rc)
        ways_turn(w, &c, way);
    free(c.old);
    free(c.made);
    return rc;
}

/* Handles ways out of a loop, and past it. Returns the number of copies made. */
static unsigned ways_of_loop(struct ways *w, unsigned loop)
{
    unsigned made = 0;
    if (mt_shape_ways_out(&w->shape, loop, w->region))
        return 0;
    ways_find(w, loop);
    memset(w->taken, 0, w->shape.nblocks);
    for (unsigned i = 0; i < w->nways; i++) {
        ways_reach(w, w->way[i].to);
        if (i >= w->ntogether && ways_shares(w)) {
            unsigned size = ways_size(w);
            w->left |= !size || w->copied + size > MOST_COPIED;
            if (size && w->copied + size <= MOST_COPIED && !ways_copy(w, &w->way[i], size)) {
                w->copied += size;
                made++;
            }
        }
        for (unsigned b = 0; b < w->shape.nblocks; b++)
            w->taken[b] |= w->mine[b];
    }
    return made;
}

/* Handles all ways of the present code. Returns the number of copies made. */
static unsigned ways_round(struct ways *w)
{
    unsigned made = 0, edges = 1;
    if (mt_shape_of(&w->shape, w->function))
        return 0;
    for (unsigned b = 0; b < w->shape.nblocks; b++)
        edges += ways_successors(w, b);
    w->region = malloc(3 * (size_t)w->shape.nblocks);
    w->way = malloc(edges * sizeof *w->way);
    if (w->region && w->way) {
        w->mine = w->region + w->shape.nblocks;
        w->taken = w->mine + w->shape.nblocks;
        for (unsigned l = 1; l <= w->shape.nloops && !made; l++)
            made = ways_of_loop(w, l);
    }
    free(w->region);
    free(w->way);
    mt_shape_free(&w->shape);
    return made;
}

/* Returns 1 if code reachable from the function records. */
static int ways_records(struct mt_lowering *l, LLVMValueRef function)
{
    struct mt_reach reach = {0};
    int found = 0;
    mt_reach_from(l, function, &reach);
    for (unsigned i = 0; i < reach.count && !found; i++)
        found = ways_is_record(mt_name(reach.functions[i])) || mt_is_shared_name(reach.functions[i]);
    mt_reach_free(&reach);
    return found;
}

/* Marks kernels that reach a function in which some lanes cannot be told apart. */
static void ways_part(struct mt_lowering *l, LLVMValueRef function)
{
    for (unsigned k = 0; k < l->u->nkernels && ways_records(l, function); k++) {
        struct mt_reach reach = {0};
        mt_reach_from(l, l->traced.kernels[k], &reach);
        l->u->kernels[k].parted |= mt_reach_has(&reach, function);
        mt_reach_free(&reach);
    }
}

void mt_ways_apart(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef of, int kernel)
{
    struct ways w = {.l = l, .function = function, .kernel = kernel};
    int accesses = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i && !accesses; i = LLVMGetNextInstruction(i))
            accesses = ways_accesses(i);
    unsigned rounds = 0;
    while (accesses && rounds < MOST_ROUNDS && ways_round(&w))
        rounds++;
    if (w.left || rounds == MOST_ROUNDS)
        ways_part(l, of);
}

static int ways_is_kernel(const struct mt_lowering *l, LLVMValueRef f)
{
    for (unsigned k = 0; k < l->u->nkernels; k++)
        if (l->traced.kernels[k] == f)
            return 1;
    return 0;
}

/* Runs before LLVM merges the copies that it made itself. */
void mt_lower_ways(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f) && !mt_ends(mt_name(f), MT_PLAIN_SUFFIX))
            mt_ways_apart(l, f, f, ways_is_kernel(l, f));
}
