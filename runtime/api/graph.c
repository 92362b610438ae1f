/* Graphs of the CPU device as the program sees them: nodes, edges, clones. */
#include "graph.h"
#include "capture.h"
#include "entry.h"
#include "error.h"
#include "heap.h"
#include "map.h"
#include "objects.h"
#include "common/fork.h"
#include <stdio.h>
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

static struct mt_map memories = MT_MAP_INIT; /* by address */
MT_FORK_TABLE(memories);

struct mt_graph_memory *mt_graph_memory_new(void *p, size_t bytes)
{
    struct mt_graph_memory *m = malloc(sizeof *m);
    if (!m)
        return NULL;
    *m = (struct mt_graph_memory){.refs = 1, .live = 1, .p = p, .bytes = bytes};
    if (!mt_map_set(&memories, p, m))
        return m;
    free(m);
    return NULL;
}

int mt_graph_gave_back(void *p)
{
    struct mt_graph_memory *m = p ? mt_map_get(&memories, p) : NULL;
    if (!m)
        return 0;
    return __atomic_exchange_n(&m->live, 0, __ATOMIC_ACQ_REL) ? 1 : -1;
}

void mt_graph_memory_renew(struct mt_graph_memory *m)
{
    if (!__atomic_exchange_n(&m->live, 1, __ATOMIC_ACQ_REL))
        mt_object_add(m->p, m->bytes, "async", NULL);
}

/* What the program has not freed is its own from here on. */
void mt_graph_memory_release(struct mt_graph_memory *m)
{
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
        return;
    mt_map_take(&memories, m->p);
    if ((m->freed || !m->live) && mt_heap_free(m->p, 1u << MT_HEAP_DEVICE))
        mt_object_done(mt_object_take(m->p), 1);
    free(m);
}

static void free_node(struct CUgraphNode_st *n)
{
    mt_map_take(&nodes, n);
    mt_op_free(n->op);
    if (n->child)
        mt_graph_free(n->child);
    mt_graph_memory_release(n->memory);
    free(n->after);
    free(n->args);
    free(n);
}

void mt_graph_free(struct CUgraph_st *g)
{
    mt_map_take(&graphs, g);
    for (size_t i = 0; i < g->n; i++)
        free_node(g->node[i]);
    mt_user_drop(g);
    free(g->node);
    free(g);
}

static int follow(struct CUgraphNode_st *n, struct CUgraphNode_st *const *after, size_t count)
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
    if (n && g->n == g->capacity) {
        size_t capacity = 2 * g->capacity + 16;
        struct CUgraphNode_st **p = realloc(g->node, capacity * sizeof *p);
        if (p) {
            g->node = p;
            g->capacity = capacity;
        }
    }
    if (!n || g->n == g->capacity || follow(n, after, count) || mt_map_set(&nodes, n, n)) {
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

static void unseen(struct CUgraph_st *g)
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
    unseen(of->graph);
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
    unseen(g);
    for (size_t before = 1; done != before;) { /* nodes mostly stand in a good order already: one round */
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
    return 0;
}

struct CUgraph_st *mt_graph_clone(const struct CUgraph_st *g)
{
    struct CUgraph_st *to = mt_graph_new();
    int bad = !to || mt_user_clone(g, to);
    for (size_t i = 0; i < g->n && !bad; i++)
        bad = clone_node(to, g->node[i]);
    for (size_t i = 0; i < g->n && !bad; i++) { /* edges may lead forward: all nodes first */
        struct CUgraphNode_st *n = g->node[i], *c = to->node[i];
        bad = follow(c, n->after, n->nafter);
        for (size_t k = 0; k < c->nafter && !bad; k++)
            c->after[k] = to->node[n->after[k]->index];
    }
    if (bad && to)
        mt_graph_free(to);
    return bad ? NULL : to;
}

/* ---- entry points ---- */

cudaError_t IMPL(cudaGraphCreate)(cudaGraph_t *out, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags)
        return mt_fail(cudaErrorInvalidValue);
    *out = mt_graph_new();
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t IMPL(cudaGraphDestroy)(cudaGraph_t graph)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || g->owned)
        return mt_fail(cudaErrorInvalidValue);
    mt_graph_free(g);
    return cudaSuccess;
}

cudaError_t IMPL(cudaGraphClone)(cudaGraph_t *out, cudaGraph_t graph)
{
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!out || !g)
        return mt_fail(cudaErrorInvalidValue);
    *out = mt_graph_clone(g);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t IMPL(cudaGraphNodeFindInClone)(cudaGraphNode_t *out, cudaGraphNode_t original, cudaGraph_t clone)
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

cudaError_t IMPL(cudaGraphNodeGetType)(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !type)
        return mt_fail(cudaErrorInvalidValue);
    *type = n->type;
    return cudaSuccess;
}

/* The answers to "which": how many there are if there is no room, else the first *room, rest NULL. */
struct answer {
    cudaGraphNode_t *out, *second; /* may be NULL */
    size_t room, n;
};

static void give(struct answer *a, struct CUgraphNode_st *n, struct CUgraphNode_st *m)
{
    if (a->out && a->n < a->room)
        a->out[a->n] = n;
    if (a->second && a->n < a->room)
        a->second[a->n] = m;
    a->n++;
}

static cudaError_t given(struct answer *a, size_t *count, cudaGraphEdgeData *edges)
{
    if (a->out && edges)
        memset(edges, 0, (a->n < a->room ? a->n : a->room) * sizeof *edges);
    for (size_t i = a->n; a->out && i < a->room; i++) {
        a->out[i] = NULL;
        if (a->second)
            a->second[i] = NULL;
    }
    *count = a->n;
    return cudaSuccess;
}

static cudaError_t list(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count, int roots)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || !count)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = out, .room = *count};
    for (size_t i = 0; i < g->n; i++)
        if (!roots || !g->node[i]->nafter)
            give(&a, g->node[i], NULL);
    return given(&a, count, NULL);
}

cudaError_t IMPL(cudaGraphGetNodes)(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count)
{
    return list(graph, out, count, 0);
}

cudaError_t IMPL(cudaGraphGetRootNodes)(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count)
{
    return list(graph, out, count, 1);
}

static cudaError_t edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                         cudaGraphEdgeData *data, size_t *count)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || !count || !from != !to)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = from, .second = to, .room = *count};
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->node[i]->nafter; k++)
            give(&a, g->node[i]->after[k], g->node[i]);
    return given(&a, count, data);
}

static cudaError_t neighbours(cudaGraphNode_t node, cudaGraphNode_t *out, cudaGraphEdgeData *data,
                              size_t *count, int before)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !count)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = out, .room = *count};
    for (size_t i = 0; before && i < n->nafter; i++)
        give(&a, n->after[i], NULL);
    for (size_t i = 0; !before && i < n->graph->n; i++)
        for (size_t k = 0; k < n->graph->node[i]->nafter; k++)
            if (n->graph->node[i]->after[k] == n)
                give(&a, n->graph->node[i], NULL);
    return given(&a, count, data);
}

static size_t edge_at(const struct CUgraphNode_st *to, const struct CUgraphNode_st *from)
{
    size_t k = 0;
    while (k < to->nafter && to->after[k] != from)
        k++;
    return k;
}

static cudaError_t change(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t n,
                          int add)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || (n && (!from || !to)))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n; i++) {
        struct CUgraphNode_st *a = mt_graph_node(from[i]), *b = mt_graph_node(to[i]);
        int bad = !a || !b || a == b || a->graph != g || b->graph != g;
        if (bad || (edge_at(b, a) < b->nafter) == add)
            return mt_fail(cudaErrorInvalidValue);
    }
    for (size_t i = 0; i < n; i++) {
        struct CUgraphNode_st *b = to[i], *a = from[i];
        size_t k = edge_at(b, a);
        if (!add && k < b->nafter)
            b->after[k] = b->after[--b->nafter];
        else if (add && k == b->nafter && follow(b, &a, 1))
            return mt_fail(cudaErrorMemoryAllocation);
    }
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t IMPL(cudaGraphGetEdges)(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                    cudaGraphEdgeData *data, size_t *n)
{
    return edges(g, from, to, data, n);
}

cudaError_t IMPL(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t *out,
                                               cudaGraphEdgeData *data, size_t *n)
{
    return neighbours(node, out, data, n, 1);
}

cudaError_t IMPL(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t *out,
                                                 cudaGraphEdgeData *data, size_t *n)
{
    return neighbours(node, out, data, n, 0);
}

/* Edges of kernels that begin before others end: the whole kernel is waited for, which is always right. */
cudaError_t IMPL(cudaGraphAddDependencies)(cudaGraph_t g, const cudaGraphNode_t *from,
                                           const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t n)
{
    return change(g, from, to, n, 1);
}

cudaError_t IMPL(cudaGraphRemoveDependencies)(cudaGraph_t g, const cudaGraphNode_t *from,
                                              const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
                                              size_t n)
{
    return change(g, from, to, n, 0);
}
#else
cudaError_t IMPL(cudaGraphGetEdges)(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *n)
{
    return edges(g, from, to, NULL, n);
}

cudaError_t IMPL(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    return neighbours(node, out, NULL, n, 1);
}

cudaError_t IMPL(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    return neighbours(node, out, NULL, n, 0);
}

cudaError_t IMPL(cudaGraphAddDependencies)(cudaGraph_t g, const cudaGraphNode_t *from,
                                           const cudaGraphNode_t *to, size_t n)
{
    return change(g, from, to, n, 1);
}

cudaError_t IMPL(cudaGraphRemoveDependencies)(cudaGraph_t g, const cudaGraphNode_t *from,
                                              const cudaGraphNode_t *to, size_t n)
{
    return change(g, from, to, n, 0);
}
#endif

cudaError_t IMPL(cudaGraphDestroyNode)(cudaGraphNode_t node)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n)
        return mt_fail(cudaErrorInvalidValue);
    if (n->memory || n->freed)
        return mt_fail(cudaErrorNotSupported); /* as CUDA says of memory nodes */
    struct CUgraph_st *g = n->graph;
    for (size_t i = 0; i < g->n; i++) {
        size_t k = edge_at(g->node[i], n);
        if (k < g->node[i]->nafter)
            g->node[i]->after[k] = g->node[i]->after[--g->node[i]->nafter];
    }
    g->n--;
    memmove(g->node + n->index, g->node + n->index + 1, (g->n - n->index) * sizeof *g->node);
    for (size_t i = n->index; i < g->n; i++)
        g->node[i]->index = i;
    free_node(n);
    return cudaSuccess;
}

cudaError_t IMPL(cudaGraphDebugDotPrint)(cudaGraph_t graph, const char *path, unsigned flags)
{
    static const char *const names[] = {"kernel",
                                        "memcpy",
                                        "memset",
                                        "host",
                                        "graph",
                                        "empty",
                                        "wait event",
                                        "record event",
                                        "signal",
                                        "wait",
                                        "memory allocation",
                                        "memory free"};
    struct CUgraph_st *g = mt_graph_get(graph);
    FILE *f = g && path ? fopen(path, "w") : NULL;
    if (!f)
        return mt_fail(g && path ? cudaErrorOperatingSystem : cudaErrorInvalidValue);
    fputs("digraph graph_1 {\n", f);
    for (size_t i = 0; i < g->n; i++) {
        unsigned type = (unsigned)g->node[i]->type;
        fprintf(f, "n%zu [label=\"%zu %s\"];\n", i, i,
                type < sizeof names / sizeof *names ? names[type] : "?");
        for (size_t k = 0; k < g->node[i]->nafter; k++)
            fprintf(f, "n%zu -> n%zu;\n", g->node[i]->after[k]->index, i);
    }
    fputs("}\n", f);
    return fclose(f) ? mt_fail(cudaErrorOperatingSystem) : cudaSuccess;
}
