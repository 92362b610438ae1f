/* Warps as vectors: the order of a function's blocks, and the lanes that may be in each. Every block comes
 * after its predecessors, except for a loop's back edges, and the blocks of a loop stay together. Where
 * lanes diverge, some wait at blocks further on. A block reached by all remaining lanes together needs no
 * mask. */
#include "order.h"
#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS 1200u

/* Compares places, for qsort. */
static int vec_order_compare(const void *a, const void *b)
{
    uintptr_t p = (uintptr_t)((const struct vec_order_place *)a)->block,
              q = (uintptr_t)((const struct vec_order_place *)b)->block;
    return p < q ? -1 : p > q;
}

unsigned vec_order_index(const struct vec_order *o, LLVMBasicBlockRef block)
{
    struct vec_order_place key = {block, 0};
    const struct vec_order_place *p = bsearch(&key, o->place, o->n, sizeof key, vec_order_compare);
    return p->at;
}

/* Returns the node of a block among those of `region` (0: the function): itself, a loop, or none (-1). */
static int blocks_node(const struct vec_order *o, unsigned region, unsigned block)
{
    unsigned loop = o->loop[block];
    if (loop == region)
        return (int)block;
    while (loop && o->parents[loop - 1] != region)
        loop = o->parents[loop - 1];
    return loop ? (int)(o->n + loop) : -1;
}

static unsigned blocks_successors(LLVMBasicBlockRef block)
{
    return LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(block));
}

static LLVMBasicBlockRef blocks_successor(LLVMBasicBlockRef block, unsigned i)
{
    return LLVMGetSuccessor(LLVMGetBasicBlockTerminator(block), i);
}

/* Numbers the blocks by a post-order search without recursion: small numbers come first. */
static int blocks_rank(struct vec_order *o)
{
    unsigned *stack = malloc((o->n + 1) * sizeof *stack), *at = calloc(o->n + 1, sizeof *at), depth = 0,
             next = o->n;
    unsigned char *seen = calloc(o->n + 1, 1);
    int rc = stack && at && seen ? 0 : -1;
    if (!rc) {
        stack[depth++] = 0;
        seen[0] = 1;
    }
    while (depth) {
        unsigned b = stack[depth - 1];
        if (at[b] == blocks_successors(o->block[b])) {
            o->rank[b] = --next;
            depth--;
            continue;
        }
        unsigned s = vec_order_index(o, blocks_successor(o->block[b], at[b]++));
        if (!seen[s]) {
            seen[s] = 1;
            stack[depth++] = s;
        }
    }
    free(stack);
    free(at);
    free(seen);
    return rc;
}

/* Returns the header of a loop: its block that is entered from outside. */
static unsigned blocks_header(const struct vec_order *o, unsigned loop)
{
    unsigned best = 0, rank = ~0u;
    for (unsigned b = 0; b < o->n; b++)
        if (blocks_node(o, loop, b) >= 0 && o->rank[b] < rank) {
            rank = o->rank[b];
            best = b;
        }
    return best;
}

static void blocks_count(struct vec_order *o, unsigned region, unsigned header, int sign)
{
    for (unsigned b = 0; b < o->n; b++) {
        int from = blocks_node(o, region, b);
        for (unsigned i = 0; from >= 0 && i < blocks_successors(o->block[b]); i++) {
            unsigned s = vec_order_index(o, blocks_successor(o->block[b], i));
            int to = blocks_node(o, region, s);
            if (to >= 0 && to != from && s != header)
                o->in[to] += (unsigned)sign;
        }
    }
}

static void blocks_leave(struct vec_order *o, unsigned region, unsigned header, int node)
{
    for (unsigned b = 0; b < o->n; b++) {
        if (blocks_node(o, region, b) != node)
            continue;
        for (unsigned i = 0; i < blocks_successors(o->block[b]); i++) {
            unsigned s = vec_order_index(o, blocks_successor(o->block[b], i));
            int to = blocks_node(o, region, s);
            if (to >= 0 && to != node && s != header)
                o->in[to]--;
        }
    }
}

static int blocks_region(struct vec_order *o, unsigned region, unsigned header)
{
    struct vec *v = o->v;
    unsigned left = 0;
    unsigned char *mine = calloc(o->n + o->nloops + 2, 1);
    if (!mine)
        return -1;
    for (unsigned b = 0; b < o->n; b++) {
        int node = blocks_node(o, region, b);
        if (node >= 0 && !mine[node]) {
            mine[node] = 1;
            o->in[node] = 0;
            left++;
        }
    }
    blocks_count(o, region, header, 1);
    for (; left; left--) {
        int best = -1;
        unsigned rank = ~0u;
        for (unsigned node = 0; node <= o->n + o->nloops; node++) {
            if (!mine[node] || o->in[node])
                continue;
            unsigned r = o->rank[node < o->n ? node : o->header[node - o->n]];
            if (r < rank) {
                rank = r;
                best = (int)node;
            }
        }
        if (best < 0)
            break; /* not a loop with one header */
        mine[best] = 0;
        blocks_leave(o, region, header, best);
        if ((unsigned)best < o->n) {
            v->block[o->nplaced++] = (struct vec_block){.from = o->block[best], .loop = region, .branch = -1};
        } else {
            unsigned loop = (unsigned)best - o->n;
            v->loop[loop].first = (int)o->nplaced;
            if (blocks_region(o, loop, o->header[loop]))
                break;
            v->loop[loop].last = (int)o->nplaced - 1;
        }
    }
    free(mine);
    return left ? -1 : 0;
}

static int vec_index(const struct vec *v, LLVMBasicBlockRef block)
{
    for (unsigned i = 0; i < v->nblocks; i++)
        if (v->block[i].from == block)
            return (int)i;
    return -1;
}

static int blocks_place(struct vec *v, struct vec_order *o)
{
    LLVMValueRef *first = calloc(o->n + 1, sizeof(LLVMValueRef));
    LLVMBasicBlockRef *next = calloc(o->n + 1, sizeof *next);
    unsigned char *taken = calloc(o->n + 1, 1);
    struct mt_loop_shape shape = {0};
    int rc = -1;
    if (!first || !next || !taken || mt_shape_of(&shape, v->from))
        goto out;
    LLVMGetBasicBlocks(v->from, o->block);
    for (unsigned i = 0; i < o->n; i++) {
        first[i] = LLVMGetBasicBlockTerminator(o->block[i]);
        o->place[i] = (struct vec_order_place){o->block[i], i};
    }
    qsort(o->place, o->n, sizeof *o->place, vec_order_compare);
    o->nloops = v->nloops = mt_shim_loops(v->from, first, o->n, o->loop, &v->parents);
    o->parents = v->parents;
    v->loop = calloc(o->nloops + 1, sizeof *v->loop);
    o->in = calloc(o->n + o->nloops + 2, sizeof *o->in);
    o->header = calloc(o->nloops + 1, sizeof *o->header);
    if (v->loop && o->in && o->header && !blocks_rank(o)) {
        for (unsigned i = 1; i <= o->nloops; i++)
            o->header[i] = blocks_header(o, i);
        mt_shim_post_dominators(v->from, o->block, o->n, next);
        vec_take_exits(o, &shape, next, taken);
        rc = blocks_region(o, 0, 0);
    }
out:
    mt_shape_free(&shape);
    free(o->in);
    free(o->header);
    free(first);
    free(next);
    free(taken);
    return rc;
}

int vec_blocks(struct vec *v)
{
    unsigned n = LLVMCountBasicBlocks(v->from);
    if (n > MOST_BLOCKS) {
        vec_refuse(v, "its %u blocks", n);
        return -1;
    }
    struct vec_order o = {.v = v, .n = n};
    o.block = calloc(n + 1, sizeof(LLVMBasicBlockRef));
    o.loop = calloc(n + 1, sizeof *o.loop);
    o.rank = calloc(n + 1, sizeof *o.rank);
    o.place = calloc(n + 1, sizeof *o.place);
    v->block = calloc(n + 1, sizeof *v->block);
    v->nblocks = n;
    LLVMBasicBlockRef *from = calloc(n + 1, sizeof *from), *meet = calloc(n + 1, sizeof *meet);
    int rc = o.block && o.loop && o.rank && o.place && v->block && from && meet ? blocks_place(v, &o) : -1;
    if (rc)
        vec_refuse(v, "a loop with two beginnings");
    for (unsigned i = 0; i < n && !rc; i++)
        from[i] = v->block[i].from;
    if (!rc)
        mt_shim_post_dominators(v->from, from, n, meet);
    for (unsigned i = 0; i < n && !rc; i++) {
        struct vec_block *b = &v->block[i];
        b->meet = meet[i] ? vec_index(v, meet[i]) : -1;
        b->nsucc = blocks_successors(b->from);
        if (b->nsucc > 2) {
            vec_refuse(v, "a branch of many ways");
            rc = -1;
            break;
        }
        for (unsigned s = 0; s < b->nsucc; s++)
            b->succ[s] = vec_index(v, blocks_successor(b->from, s));
    }
    free(o.block);
    free(o.loop);
    free(o.rank);
    free(o.place);
    free(from);
    free(meet);
    return rc;
}

static void blocks_reach(const struct vec *v, int from, int meet, unsigned char *reach)
{
    int *stack = malloc((v->nblocks + 1) * sizeof *stack);
    unsigned depth = 0;
    if (!stack) {
        memset(reach, 1, v->nblocks);
        return;
    }
    if (from != meet) {
        stack[depth++] = from;
        reach[from] = 1;
    }
    while (depth) {
        const struct vec_block *b = &v->block[stack[--depth]];
        for (unsigned i = 0; i < b->nsucc; i++)
            if (b->succ[i] != meet && !reach[b->succ[i]]) {
                reach[b->succ[i]] = 1;
                stack[depth++] = b->succ[i];
            }
    }
    free(stack);
}

/* Handles a branch whose ways all lead through their meeting block, some of them in a later round of a
 * loop around both: lanes then meet behind that loop. Returns 1 if so, with the meeting block changed. */
static int blocks_meet_later(struct vec *v, int block, const struct vec_branch *branch)
{
    struct vec_block *b = &v->block[block];
    for (unsigned loop = b->loop; loop && b->meet >= 0; loop = v->parents[loop - 1]) {
        const struct vec_loop *l = &v->loop[loop];
        if (b->meet < l->first || b->meet > l->last ||
            !(branch->reach[0][l->first] || branch->reach[1][l->first]))
            continue;
        b->meet = v->block[b->meet].meet;
        return 1;
    }
    return 0;
}

/* Returns 1 if all lanes of a loop's round reach its header by the same edge. Not if a predecessor is in
 * another loop, as code behind that one may be (exits.c): each of its rounds brings some lanes. */
static int blocks_come_together(const struct vec *v, unsigned loop)
{
    const struct vec_loop *l = &v->loop[loop];
    for (int b = 0; b < (int)v->nblocks; b++)
        for (unsigned i = 0; i < v->block[b].nsucc; i++)
            if (v->block[b].succ[i] == l->first &&
                v->block[b].loop != (b >= l->first && b <= l->last ? loop : v->parents[loop - 1]))
                return 0;
    return 1;
}

int vec_part(struct vec *v, int block)
{
    struct vec_block *b = &v->block[block];
    struct vec_branch *more = realloc(v->branch, (v->nbranches + 1) * sizeof *more);
    if (!more)
        return -1;
    v->branch = more;
    struct vec_branch *branch = &more[v->nbranches];
    branch->block = block;
    branch->reach[0] = calloc(v->nblocks + 1, 1);
    branch->reach[1] = calloc(v->nblocks + 1, 1);
    b->branch = (int)v->nbranches++;
    if (!branch->reach[0] || !branch->reach[1])
        return -1;
    do {
        memset(branch->reach[0], 0, v->nblocks);
        memset(branch->reach[1], 0, v->nblocks);
        for (unsigned i = 0; i < 2; i++)
            blocks_reach(v, b->succ[i], b->meet, branch->reach[i]);
    } while (blocks_meet_later(v, block, branch));
    for (unsigned i = 0; i < v->nblocks; i++)
        v->block[i].joins |= branch->reach[0][i] && branch->reach[1][i];
    if (b->meet >= 0)
        v->block[b->meet].joins = 1;
    for (unsigned i = 1; i <= v->nloops; i++)
        if (blocks_come_together(v, i))
            v->block[v->loop[i].first].joins = 0;
    return 0;
}

void vec_find_masks(struct vec *v)
{
    for (unsigned i = 0; i < v->nblocks; i++)
        v->block[i].masked = v->any;
    for (unsigned d = 0; d < v->nbranches; d++)
        for (unsigned i = 0; i < v->nblocks; i++)
            v->block[i].masked |= v->branch[d].reach[0][i] || v->branch[d].reach[1][i];
}

/* Returns 1 if lanes can wait at block t while block b runs. */
static int vec_may_wait(const struct vec *v, int b, int t)
{
    for (unsigned d = 0; d < v->nbranches; d++) {
        unsigned char *const *reach = v->branch[d].reach;
        if ((reach[0][b] && reach[1][t]) || (reach[1][b] && reach[0][t]))
            return 1;
    }
    return 0;
}

int vec_is_direct(const struct vec *v, int b, int to)
{
    if (!v->block[b].masked)
        return 1;
    int last = to - 1;
    if (to <= b) { /* back to the header of a loop that ends in one of the blocks from b on */
        unsigned loop = v->block[b].loop;
        while (loop && v->loop[loop].first != to)
            loop = v->parents[loop - 1];
        last = v->loop[loop].last;
    }
    for (int t = b + 1; t <= last; t++)
        if (vec_may_wait(v, b, t))
            return 0;
    /* Loops left on the way: lanes may wait for their next round. */
    for (unsigned loop = v->block[b].loop; loop; loop = v->parents[loop - 1]) {
        if (v->loop[loop].first == to || (to > b && to <= v->loop[loop].last))
            break;
        if (vec_may_wait(v, b, v->loop[loop].first))
            return 0;
    }
    return 1;
}

void vec_blocks_free(struct vec *v)
{
    for (unsigned i = 0; i < v->nbranches; i++) {
        free(v->branch[i].reach[0]);
        free(v->branch[i].reach[1]);
    }
    free(v->branch);
    free(v->block);
    free(v->loop);
    free(v->parents);
}
