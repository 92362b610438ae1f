/* The loops of a function as a warp runs them: see loops.h. */
#include "loops.h"
#include "memtrace/order.h"
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

unsigned mt_shape_number(const struct mt_loop_shape *s, LLVMBasicBlockRef block)
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

int mt_shape_within(const struct mt_loop_shape *s, unsigned b, unsigned l)
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
    return mt_shape_number(s, LLVMGetSuccessor(LLVMGetBasicBlockTerminator(s->block[b].block), k));
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
        if (b >= s->nblocks || w->seen[b] || b == first || mt_shape_within(s, b, l) ||
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

/* Returns 1 if a way leads from the first block behind loop l to the other one, and none back. */
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

/* Tests for the loop's own condition: returns 2 at its end, 1 at its beginning, else 0. */
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
        for (unsigned k = 0, n = shape_successors(s, b); k < n && mt_shape_within(s, b, l); k++) {
            unsigned to = shape_successor(s, b, k);
            if (to >= s->nblocks || mt_shape_within(s, to, l))
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
        for (unsigned k = 0, n = shape_successors(s, b); k < n && mt_shape_within(s, b, l); k++)
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
            if (behind ? !on[b] : !mt_shape_within(s, b, l))
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
        if (!mt_shape_within(s, b, around))
            continue;
        for (unsigned k = 0, n = shape_successors(s, b); k < n; k++) {
            unsigned to = shape_successor(s, b, k);
            if (to == s->loop[around - 1].header && !shape_dominates(w, w->seen, header, b))
                return 0;
            if (!mt_shape_within(s, b, l) || to >= s->nblocks || !mt_shape_within(s, to, around) ||
                mt_shape_within(s, to, l))
                continue;
            while (to < s->nblocks && to != header && meeting[to])
                to = mt_shape_number(s, meeting[to]);
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

int mt_shape_ways_out(struct mt_loop_shape *s, unsigned l, unsigned char *mark)
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
