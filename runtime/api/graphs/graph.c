/* Graphs of the CPU device as the program sees them: nodes, edges, clones. */
#include "graph.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "base/fork.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static struct mt_map graphs = MT_MAP_INIT, nodes = MT_MAP_INIT;
MT_FORK_TABLE(graphs);
MT_FORK_TABLE(nodes);

struct CUgraph_st *mt_graph_get(cudaGraph_t g)
{
    return g ? mt_map_get(&graphs, g) : NULL;
}

struct CUgraphNode_st *mt_graph_node(cudaGraphNode_t n)
{
    return n ? mt_map_get(&nodes, n) : NULL;
}

struct CUgraph_st *mt_graph_new(void)
{
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (g && mt_map_set(&graphs, g, g)) {
        free(g);
        g = NULL;
    }
    return g;
}

void mt_graph_free_node(struct CUgraphNode_st *n)
{
    mt_map_take(&nodes, n);
    mt_op_free(n->op);
    if (n->child)
        mt_graph_free(n->child);
    mt_branch_free(n->branch);
    mt_graph_memory_release(n->memory);
    free(n->after);
    free(n->args);
    free(n);
}

void mt_graph_free(struct CUgraph_st *g)
{
    mt_map_take(&graphs, g);
    for (size_t i = 0; i < g->n; i++)
        mt_graph_free_node(g->node[i]);
    mt_user_drop(g);
    mt_condition_drop(g);
    free(g->node);
    free(g);
}

int mt_graph_follow(struct CUgraphNode_st *n, struct CUgraphNode_st *const *after, size_t count)
{
    if (!count)
        return 0;
    struct CUgraphNode_st **p = realloc(n->after, (n->nafter + count) * sizeof *p);
    if (!p)
        return -1;
    n->after = p;
    memcpy(p + n->nafter, after, count * sizeof *p);
    n->nafter += count;
    return 0;
}

struct CUgraphNode_st *mt_graph_add(struct CUgraph_st *g, enum cudaGraphNodeType type, struct mt_op *op,
                                    struct CUgraphNode_st *const *after, size_t count)
{
    struct CUgraphNode_st *n = calloc(1, sizeof *n);
    if (!n || mt_grow(&g->node, &g->capacity, g->n + 1, sizeof *g->node) ||
        mt_graph_follow(n, after, count) || mt_map_set(&nodes, n, n)) {
        if (n)
            free(n->after);
        free(n);
        mt_op_free(op);
        return NULL;
    }
    n->graph = g;
    n->type = type;
    n->op = op;
    n->index = g->n;
    g->node[g->n++] = n;
    return n;
}

/* ---- walks ---- */

static void graph_unseen(struct CUgraph_st *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->node[i]->seen = 0;
}

/* 1 when a way back from `of` leads to `n`. With a stack of its own: graphs may be long. */
int mt_graph_precedes(const struct CUgraphNode_st *n, struct CUgraphNode_st *of)
{
    struct CUgraphNode_st **stack = malloc((of->graph->n + 1) * sizeof *stack);
    size_t depth = 0;
    int found = 0;
    if (!stack)
        return 0;
    graph_unseen(of->graph);
    of->seen = 1;
    stack[depth++] = of;
    while (depth && !found) {
        struct CUgraphNode_st *at = stack[--depth];
        found = at == n;
        for (size_t i = 0; i < at->nafter; i++)
            if (!at->after[i]->seen) {
                at->after[i]->seen = 1;
                stack[depth++] = at->after[i];
            }
    }
    free(stack);
    return found;
}

struct CUgraphNode_st **mt_graph_sorted(struct CUgraph_st *g)
{
    struct CUgraphNode_st **sorted = malloc((g->n + 1) * sizeof *sorted);
    size_t done = 0;
    if (!sorted)
        return NULL;
    graph_unseen(g);
    for (size_t before = 1; done != before;) { /* nodes mostly are in a good order already: one round */
        before = done;
        for (size_t i = 0; i < g->n; i++) {
            struct CUgraphNode_st *n = g->node[i];
            size_t k = 0;
            while (!n->seen && k < n->nafter && n->after[k]->seen)
                k++;
            if (!n->seen && k == n->nafter) {
                n->seen = 1;
                sorted[done++] = n;
            }
        }
    }
    if (done != g->n) {
        free(sorted);
        return NULL;
    }
    return sorted;
}

/* ---- clones ---- */

static int clone_node(struct CUgraph_st *to, struct CUgraphNode_st *n)
{
    struct mt_op *op = n->op ? mt_op_copy(n->op) : NULL;
    if (n->op && !op)
        return -1;
    struct CUgraphNode_st *c = mt_graph_add(to, n->type, op, NULL, 0);
    if (!c)
        return -1;
    c->from = n;
    c->disabled = n->disabled;
    c->freed = n->freed;
    c->memory = n->memory;
    if (c->memory)
        __atomic_fetch_add(&c->memory->refs, 1, __ATOMIC_RELAXED);
    if (n->child && !(c->child = mt_graph_clone(n->child)))
        return -1;
    if (c->child)
        c->child->owned = 1;
    if (n->branch && !(c->branch = mt_branch_clone(n->branch)))
        return -1;
    return 0;
}

struct CUgraph_st *mt_graph_clone(const struct CUgraph_st *g)
{
    struct CUgraph_st *to = mt_graph_new();
    int bad = !to || mt_user_clone(g, to) || mt_condition_clone(g, to);
    for (size_t i = 0; i < g->n && !bad; i++)
        bad = clone_node(to, g->node[i]);
    for (size_t i = 0; i < g->n && !bad; i++) { /* edges may lead forward: all nodes first */
        struct CUgraphNode_st *n = g->node[i], *c = to->node[i];
        bad = mt_graph_follow(c, n->after, n->nafter);
        for (size_t k = 0; k < c->nafter && !bad; k++)
            c->after[k] = to->node[n->after[k]->index];
    }
    if (bad && to)
        mt_graph_free(to);
    return bad ? NULL : to;
}

/* ---- entry points ---- */

cudaError_t impl_cudaGraphCreate(cudaGraph_t *out, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags)
        return mt_fail(cudaErrorInvalidValue);
    *out = mt_graph_new();
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphDestroy(cudaGraph_t graph)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || g->owned || g->captures)
        return mt_fail(cudaErrorInvalidValue);
    mt_graph_free(g);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphClone(cudaGraph_t *out, cudaGraph_t graph)
{
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!out || !g)
        return mt_fail(cudaErrorInvalidValue);
    if (mt_graph_conditions(g)) /* as CUDA says of them */
        return mt_fail(cudaErrorNotSupported);
    *out = mt_graph_clone(g);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphNodeFindInClone(cudaGraphNode_t *out, cudaGraphNode_t original, cudaGraph_t clone)
{
    struct CUgraph_st *g = mt_graph_get(clone);
    if (!out || !g || !mt_graph_node(original))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < g->n; i++)
        if (g->node[i]->from == original) {
            *out = g->node[i];
            return cudaSuccess;
        }
    return mt_fail(cudaErrorInvalidValue);
}

cudaError_t impl_cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !type)
        return mt_fail(cudaErrorInvalidValue);
    *type = n->type;
    return cudaSuccess;
}
