/* Nodes and edges of a graph of the CPU device: what there are, and changes of them. */
#include "graph.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include <stdio.h>
#include <string.h>

/* The answers to "which": how many there are if there is no room, else the first *room, rest NULL. */
struct answer {
    cudaGraphNode_t *out, *second; /* may be NULL */
    size_t room, n;
};

static void graph_edges_give(struct answer *a, struct CUgraphNode_st *n, struct CUgraphNode_st *m)
{
    if (a->out && a->n < a->room)
        a->out[a->n] = n;
    if (a->second && a->n < a->room)
        a->second[a->n] = m;
    a->n++;
}

static cudaError_t graph_edges_given(struct answer *a, size_t *count, cudaGraphEdgeData *edges)
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

static cudaError_t graph_edges_list(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count, int roots)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || !count)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = out, .room = *count};
    for (size_t i = 0; i < g->n; i++)
        if (!roots || !g->node[i]->nafter)
            graph_edges_give(&a, g->node[i], NULL);
    return graph_edges_given(&a, count, NULL);
}

cudaError_t impl_cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count)
{
    return graph_edges_list(graph, out, count, 0);
}

cudaError_t impl_cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count)
{
    return graph_edges_list(graph, out, count, 1);
}

static cudaError_t graph_edges_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                     cudaGraphEdgeData *data, size_t *count)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || !count || !from != !to)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = from, .second = to, .room = *count};
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->node[i]->nafter; k++)
            graph_edges_give(&a, g->node[i]->after[k], g->node[i]);
    return graph_edges_given(&a, count, data);
}

static cudaError_t graph_edges_neighbours(cudaGraphNode_t node, cudaGraphNode_t *out, cudaGraphEdgeData *data,
                                          size_t *count, int before)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !count)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = out, .room = *count};
    for (size_t i = 0; before && i < n->nafter; i++)
        graph_edges_give(&a, n->after[i], NULL);
    for (size_t i = 0; !before && i < n->graph->n; i++)
        for (size_t k = 0; k < n->graph->node[i]->nafter; k++)
            if (n->graph->node[i]->after[k] == n)
                graph_edges_give(&a, n->graph->node[i], NULL);
    return graph_edges_given(&a, count, data);
}

static size_t edge_at(const struct CUgraphNode_st *to, const struct CUgraphNode_st *from)
{
    size_t k = 0;
    while (k < to->nafter && to->after[k] != from)
        k++;
    return k;
}

static cudaError_t graph_edges_change(cudaGraph_t graph, const cudaGraphNode_t *from,
                                      const cudaGraphNode_t *to, size_t n, int add)
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
        else if (add && k == b->nafter && mt_graph_follow(b, &a, 1))
            return mt_fail(cudaErrorMemoryAllocation);
    }
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaGraphGetEdges(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                   cudaGraphEdgeData *data, size_t *n)
{
    return graph_edges_edges(g, from, to, data, n);
}

cudaError_t impl_cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out,
                                              cudaGraphEdgeData *data, size_t *n)
{
    return graph_edges_neighbours(node, out, data, n, 1);
}

cudaError_t impl_cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out,
                                                cudaGraphEdgeData *data, size_t *n)
{
    return graph_edges_neighbours(node, out, data, n, 0);
}

/* Edges of kernels that begin before others end: the whole kernel is waited for, which is always right. */
cudaError_t impl_cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                          const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t n)
{
    return graph_edges_change(g, from, to, n, 1);
}

cudaError_t impl_cudaGraphRemoveDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                             const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
                                             size_t n)
{
    return graph_edges_change(g, from, to, n, 0);
}
#else
cudaError_t impl_cudaGraphGetEdges(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *n)
{
    return graph_edges_edges(g, from, to, NULL, n);
}

cudaError_t impl_cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    return graph_edges_neighbours(node, out, NULL, n, 1);
}

cudaError_t impl_cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    return graph_edges_neighbours(node, out, NULL, n, 0);
}

cudaError_t impl_cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                          const cudaGraphNode_t *to, size_t n)
{
    return graph_edges_change(g, from, to, n, 1);
}

cudaError_t impl_cudaGraphRemoveDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                             const cudaGraphNode_t *to, size_t n)
{
    return graph_edges_change(g, from, to, n, 0);
}
#endif

cudaError_t impl_cudaGraphDestroyNode(cudaGraphNode_t node)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n)
        return mt_fail(cudaErrorInvalidValue);
    if (n->memory || n->freed)
        return mt_fail(cudaErrorNotSupported); /* as CUDA says of memory nodes */
    struct CUgraph_st *g = n->graph;
    if (g->captures) /* streams and events know its nodes */
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < g->n; i++) {
        size_t k = edge_at(g->node[i], n);
        if (k < g->node[i]->nafter)
            g->node[i]->after[k] = g->node[i]->after[--g->node[i]->nafter];
    }
    g->n--;
    memmove(g->node + n->index, g->node + n->index + 1, (g->n - n->index) * sizeof *g->node);
    for (size_t i = n->index; i < g->n; i++)
        g->node[i]->index = i;
    mt_graph_free_node(n);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags)
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
                                        "memory free",
                                        "memory operations",
                                        "conditional"};
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
