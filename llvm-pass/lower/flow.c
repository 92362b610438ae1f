/* The control flow of a function: see flow.h. */
#include "flow.h"
#include "unit/shim.h"
#include "memtrace/order.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
            f->out[e] = f->in[e] =
                (struct mt_flow_edge){b, (unsigned)mt_flow_index(f, LLVMGetSuccessor(t, i))};
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

int mt_flow_make(struct mt_flow *f, LLVMValueRef function)
{
    memset(f, 0, sizeof *f);
    return flow_blocks(f, function) || flow_edges(f) ? -1 : 0;
}

int mt_flow_index(const struct mt_flow *f, LLVMBasicBlockRef block)
{
    const struct mt_flow_place *p = flow_place(f, block, f->n);
    return p ? (int)p->at : -1;
}

void mt_flow_free(struct mt_flow *f)
{
    free(f->block);
    free(f->place);
    free(f->out);
    free(f->in);
    free(f->out_at);
    free(f->in_at);
    memset(f, 0, sizeof *f);
}
