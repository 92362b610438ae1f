/* Spinning: a loop that ends only when another thread has changed memory. On a GPU that thread runs
 * meanwhile; on the CPU device the loop must let it run, so it yields once a round. A poll is a volatile
 * or atomic load, an exchange, a compare-and-swap whose expected value is not the loop's last read (taking
 * a lock; the usual retry loop around a compare-and-swap always makes progress and is left alone), or a
 * call of a function that polls. A loop spins if a branch out of it depends on a poll inside it. */
#include "unit/shim.h"
#include "memtrace/order.h"
#include "lowering.h"

#include <llvm-c/Core.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct mt_flow_edge {
    unsigned from, to; /* block numbers */
};

struct mt_flow {
    /* Blocks, each after its predecessors (except by back edges); those behind a loop after all of its
     * blocks. */
    LLVMBasicBlockRef *block;
    unsigned n, nedges;
    struct mt_flow_edge *out, *in; /* all edges, sorted by from and by to */
    unsigned *out_at, *in_at;      /* index of each block's first edge; n + 1 entries */
    struct mt_flow_place *place;   /* blocks sorted by address */
};

/* ---- the control flow of a function ---- */

struct mt_flow_place {
    LLVMBasicBlockRef block;
    unsigned at;            /* index in the function, later its number */
    uint32_t loop;          /* innermost loop, from 1; 0: none */
    unsigned char is_found; /* 1: found by the search below */
};

static int flow_by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct mt_flow_place *)a)->block;
    uintptr_t y = (uintptr_t)((const struct mt_flow_place *)b)->block;
    return (x > y) - (x < y);
}
MT_ORDER_1(flow_by_from, struct mt_flow_edge, from)
MT_ORDER_1(flow_by_to, struct mt_flow_edge, to)

static struct mt_flow_place *flow_place(const struct mt_flow *f, LLVMBasicBlockRef block, unsigned count)
{
    struct mt_flow_place key = {.block = block};
    return bsearch(&key, f->place, count, sizeof key, flow_by_address);
}

/* Depth-first search. It takes ways out of a loop before those that stay in it, so that they come after
 * the loop in the reverse order of leaving blocks. */
struct flow_search {
    struct mt_flow *f;
    unsigned count; /* number of blocks in the function */
    uint32_t *parents;
    struct flow_step {
        struct mt_flow_place *place;
        unsigned next; /* successors visited so far, in both rounds */
    } *stack;
    unsigned depth, left;
};

static int flow_is_in_loop(const struct flow_search *s, uint32_t inner, uint32_t outer)
{
    while (inner && inner != outer)
        inner = s->parents[inner - 1];
    return inner == outer;
}

static void flow_enter(struct flow_search *s, struct mt_flow_place *place)
{
    place->is_found = 1;
    s->stack[s->depth++] = (struct flow_step){.place = place};
}

/* Returns the next block from the top of the stack, or NULL. */
static struct mt_flow_place *flow_next(struct flow_search *s)
{
    struct flow_step *top = &s->stack[s->depth - 1];
    LLVMValueRef end = LLVMGetBasicBlockTerminator(top->place->block);
    unsigned n = LLVMGetNumSuccessors(end);
    while (top->next < 2 * n) {
        unsigned i = top->next++;
        struct mt_flow_place *to = flow_place(s->f, LLVMGetSuccessor(end, i % n), s->count);
        int stays = flow_is_in_loop(s, to->loop, top->place->loop);
        if (!to->is_found && stays == (i >= n))
            return to;
    }
    return NULL;
}

static void flow_order(struct flow_search *s, LLVMValueRef function)
{
    flow_enter(s, flow_place(s->f, LLVMGetEntryBasicBlock(function), s->count));
    while (s->depth) {
        struct mt_flow_place *to = flow_next(s);
        if (to)
            flow_enter(s, to);
        else
            s->f->block[s->left++] = s->stack[--s->depth].place->block;
    }
    s->f->n = s->left;
    for (unsigned i = 0; i < s->left / 2; i++) {
        LLVMBasicBlockRef b = s->f->block[i];
        s->f->block[i] = s->f->block[s->left - 1 - i];
        s->f->block[s->left - 1 - i] = b;
    }
}

/* Fills in the places of all blocks with their loops; then f->block in order, with places of those only. */
static int flow_blocks(struct mt_flow *f, LLVMValueRef function)
{
    unsigned n = LLVMCountBasicBlocks(function);
    struct flow_search s = {.f = f, .count = n};
    LLVMValueRef *first = calloc(n + 1, sizeof(LLVMValueRef));
    uint32_t *loop = calloc(n + 1, sizeof *loop);
    int rc = -1;
    s.stack = calloc(n + 1, sizeof *s.stack);
    f->block = calloc(n + 1, sizeof(LLVMBasicBlockRef));
    f->place = calloc(n + 1, sizeof *f->place);
    if (!first || !loop || !s.stack || !f->block || !f->place)
        goto out;
    LLVMGetBasicBlocks(function, f->block);
    for (unsigned i = 0; i < n; i++)
        first[i] = LLVMGetBasicBlockTerminator(f->block[i]);
    mt_shim_loops(function, first, n, loop, &s.parents);
    for (unsigned i = 0; i < n; i++)
        f->place[i] = (struct mt_flow_place){f->block[i], i, loop[i], 0};
    qsort(f->place, n, sizeof *f->place, flow_by_address);
    flow_order(&s, function);
    for (unsigned i = 0; i < f->n; i++)
        f->place[i] = (struct mt_flow_place){f->block[i], i, 0, 0};
    qsort(f->place, f->n, sizeof *f->place, flow_by_address);
    rc = 0;
out:
    free(first);
    free(loop);
    free(s.parents);
    free(s.stack);
    return rc;
}

static int flow_index(const struct mt_flow *f, LLVMBasicBlockRef block);

static int flow_edges(struct mt_flow *f)
{
    for (unsigned b = 0; b < f->n; b++)
        f->nedges += LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(f->block[b]));
    f->out = malloc((f->nedges + 1) * sizeof *f->out);
    f->in = malloc((f->nedges + 1) * sizeof *f->in);
    f->out_at = calloc(f->n + 2, sizeof *f->out_at);
    f->in_at = calloc(f->n + 2, sizeof *f->in_at);
    if (!f->out || !f->in || !f->out_at || !f->in_at)
        return -1;
    for (unsigned b = 0, e = 0; b < f->n; b++) {
        LLVMValueRef t = LLVMGetBasicBlockTerminator(f->block[b]);
        for (unsigned i = 0; i < LLVMGetNumSuccessors(t); i++, e++) {
            f->out[e] = f->in[e] = (struct mt_flow_edge){b, (unsigned)flow_index(f, LLVMGetSuccessor(t, i))};
            f->out_at[f->out[e].from + 1]++;
            f->in_at[f->out[e].to + 1]++;
        }
    }
    qsort(f->out, f->nedges, sizeof *f->out, flow_by_from);
    qsort(f->in, f->nedges, sizeof *f->in, flow_by_to);
    for (unsigned b = 0; b < f->n; b++) {
        f->out_at[b + 1] += f->out_at[b];
        f->in_at[b + 1] += f->in_at[b];
    }
    return 0;
}

/* Returns 0, or -1 without memory. flow_free() must follow in any case. */
static int flow_make(struct mt_flow *f, LLVMValueRef function)
{
    memset(f, 0, sizeof *f);
    return flow_blocks(f, function) || flow_edges(f) ? -1 : 0;
}

/* Returns the number of a block, or -1 if it is unreachable. */
static int flow_index(const struct mt_flow *f, LLVMBasicBlockRef block)
{
    const struct mt_flow_place *p = flow_place(f, block, f->n);
    return p ? (int)p->at : -1;
}

static void flow_free(struct mt_flow *f)
{
    free(f->block);
    free(f->place);
    free(f->out);
    free(f->in);
    free(f->out_at);
    free(f->in_at);
    memset(f, 0, sizeof *f);
}

#define MAX_BLOCKS 4000

struct flow {
    struct mt_flow cfg;
    unsigned char *mark; /* scratch, per block */
};
enum { FORWARD = 1, BACKWARD = 2, IN_LOOP = 4, GONE = 8 /* header of an outer loop */, SEEN = 16 };

static void spin_unmark(struct flow *f, unsigned char bits)
{
    for (unsigned i = 0; i < f->cfg.n; i++)
        f->mark[i] &= (unsigned char)~bits;
}

/* Sets `bit` (FORWARD or BACKWARD) for every block reachable from `at` by at least one edge, or that
 * reaches it; not through blocks with one of the bits `closed`. */
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

/* Marks the blocks of the strongly connected component of `at` among those that are not GONE. Returns 0 if
 * there is no loop. */
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

/* Returns the block through which the marked component is entered: the header of its loop; `at` if there
 * is none. */
static unsigned spin_header(const struct flow *f, unsigned at)
{
    for (unsigned e = 0; e < f->cfg.nedges; e++)
        if (f->mark[f->cfg.in[e].to] & IN_LOOP && !(f->mark[f->cfg.in[e].from] & IN_LOOP))
            return f->cfg.in[e].to;
    return at;
}

static int spin_in_loop(const struct flow *f, LLVMValueRef inst)
{
    int i = flow_index(&f->cfg, LLVMGetInstructionParent(inst));
    return i >= 0 && f->mark[i] & IN_LOOP;
}

struct search {
    struct flow *flow;
    LLVMValueRef poll;
    int chosen; /* 1: the branch that chooses a value counts, too */
    LLVMValueRef seen[256];
    unsigned nseen;
};

static int spin_depends(struct search *s, LLVMValueRef v);

/* Returns 1 if control comes from block `at` to a way out of the marked component, or to its next round,
 * without passing block `past`; backward: if it comes to `at` from a way in. */
static int spin_escapes(struct flow *f, unsigned at, unsigned past, int backward)
{
    const struct mt_flow *c = &f->cfg;
    unsigned *stack = malloc((c->n + 1) * sizeof *stack), depth = 0;
    int escapes = stack == NULL;
    spin_unmark(f, SEEN);
    if (stack)
        stack[depth++] = at;
    while (depth && !escapes) {
        unsigned b = stack[--depth];
        unsigned e = backward ? c->in_at[b] : c->out_at[b],
                 end = backward ? c->in_at[b + 1] : c->out_at[b + 1];
        for (unsigned k = e; backward && k < end; k++) /* a way in, before its others are followed */
            escapes |= !(f->mark[c->in[k].from] & IN_LOOP);
        for (; e < end && !escapes; e++) {
            unsigned next = backward ? c->in[e].from : c->out[e].to;
            if (next == past || f->mark[next] & SEEN)
                continue;
            escapes = !(f->mark[next] & IN_LOOP);
            for (unsigned k = c->in_at[next]; !backward && k < c->in_at[next + 1]; k++)
                escapes |= !(f->mark[c->in[k].from] & IN_LOOP);
            f->mark[next] |= SEEN;
            stack[depth++] = next;
        }
    }
    free(stack);
    return escapes;
}

/* Returns 1 if the value read by the poll decides whether control reaches the block, or (end) where it
 * continues from there: a branch passed on all ways to the block, from which some ways lead past it. */
static int spin_decides(struct search *s, LLVMBasicBlockRef block, int end)
{
    struct flow *f = s->flow;
    int at = s->chosen ? flow_index(&f->cfg, block) : -1;
    if (at >= 0 && !(f->mark[at] & IN_LOOP))
        return 0;
    for (unsigned b = 0; at >= 0 && b < f->cfg.n; b++) {
        LLVMValueRef last = f->mark[b] & IN_LOOP ? LLVMGetBasicBlockTerminator(f->cfg.block[b]) : NULL;
        if (!last || LLVMGetNumSuccessors(last) < 2 || ((unsigned)at == b && !end))
            continue;
        if ((unsigned)at != b &&
            (spin_escapes(f, (unsigned)at, b, 1) || !spin_escapes(f, b, (unsigned)at, 0)))
            continue;
        if (spin_depends(s, LLVMGetOperand(last, 0)))
            return 1;
    }
    return 0;
}

/* Returns the alloca that a pointer leads into, *offset bytes from its start, or NULL. */
static LLVMValueRef spin_slot(LLVMValueRef pointer, int64_t *offset)
{
    while (LLVMIsAGetElementPtrInst(pointer) && LLVMGetNumOperands(pointer) == 2 &&
           LLVMIsAConstantInt(LLVMGetOperand(pointer, 1)) &&
           LLVMGetTypeKind(LLVMGetGEPSourceElementType(pointer)) == LLVMIntegerTypeKind &&
           LLVMGetIntTypeWidth(LLVMGetGEPSourceElementType(pointer)) == 8) {
        *offset += LLVMConstIntGetSExtValue(LLVMGetOperand(pointer, 1));
        pointer = LLVMGetOperand(pointer, 0);
    }
    return LLVMIsAAllocaInst(pointer) ? pointer : NULL;
}

/* Returns 1 if a value stored at that place by way of `pointer` depends on the poll. */
static int spin_slot_depends(struct search *s, LLVMValueRef pointer, LLVMValueRef slot, int64_t offset)
{
    for (LLVMUseRef use = LLVMGetFirstUse(pointer); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        int64_t at = 0;
        if (LLVMIsAGetElementPtrInst(user) && spin_slot_depends(s, user, slot, offset))
            return 1;
        if (!LLVMIsAStoreInst(user) || LLVMGetOperand(user, 1) != pointer || !spin_in_loop(s->flow, user) ||
            spin_slot(pointer, &at) != slot || at != offset)
            continue;
        if (spin_depends(s, LLVMGetOperand(user, 0)) || spin_decides(s, LLVMGetInstructionParent(user), 0))
            return 1;
    }
    return 0;
}

/* Returns 1 if the value depends on the poll, through instructions of the loop and stack slots, or
 * (chosen) by the branch that chooses it. */
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
    int64_t offset = 0;
    LLVMValueRef slot = LLVMIsALoadInst(v) ? spin_slot(LLVMGetOperand(v, 0), &offset) : NULL;
    if (slot)
        return spin_slot_depends(s, slot, slot, offset);
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

static int spin_exit_depends(struct flow *f, LLVMValueRef poll)
{
    for (unsigned i = 0; i < f->cfg.n; i++) {
        LLVMValueRef t = LLVMGetBasicBlockTerminator(f->cfg.block[i]);
        if (!(f->mark[i] & IN_LOOP) || !t || LLVMGetNumSuccessors(t) < 2)
            continue;
        int leaves = 0;
        for (unsigned s = 0; s < LLVMGetNumSuccessors(t); s++) {
            int to = flow_index(&f->cfg, LLVMGetSuccessor(t, s));
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
    int64_t offset = 0;
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        if (spin_slot(LLVMGetOperand(inst, 0), &offset))
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

/* Returns 1 for functions that poll for their caller, which may have a loop around the call. */
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

static int spin_is_poll(struct flow *f, LLVMValueRef inst)
{
    if (LLVMIsACallInst(inst))
        return spin_function_polls(mt_callee(inst), 0);
    if (!spin_polls_itself(inst))
        return 0;
    if (LLVMGetInstructionOpcode(inst) == LLVMAtomicCmpXchg) { /* retry loop: expects its last read */
        struct search search = {.flow = f, .poll = inst};
        return !spin_depends(&search, LLVMGetOperand(inst, 1));
    }
    return 1;
}

/* Keeps the part of the marked component with this header that goes round through `latch`: blocks that
 * reach it without passing the header. */
static void spin_keep_cycle(struct flow *f, unsigned header, unsigned latch)
{
    spin_unmark(f, FORWARD | BACKWARD);
    for (unsigned i = 0; i < f->cfg.n; i++) /* FORWARD means closed here */
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

/* Returns 1 if one of the loops around the instruction in block `at` is left by the value it reads. From
 * the outermost loop inwards; loops that share a header are tested one by one. */
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
    int made = flow_make(&f.cfg, function) == 0;
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
    flow_free(&f.cfg);
}

void mt_lower_spins(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            spin_function(l, f);
}
