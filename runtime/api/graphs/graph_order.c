/* An order of a graph's nodes, asked of the real runtime. */
#include "api/entry.h"
#include "graph_gpu.h"
#include <stdlib.h>

static cudaError_t order_before(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
#if CUDART_VERSION >= 13000
    return MT_NEXT(cudaGraphNodeGetDependencies)(node, out, NULL, n);
#else
    return MT_NEXT(cudaGraphNodeGetDependencies)(node, out, n);
#endif
}

static int order_has(const cudaGraphNode_t *list, size_t n, cudaGraphNode_t node)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == node)
            return 1;
    return 0;
}

/* Do all nodes that this one waits for are in the list? */
static int order_allows(cudaGraphNode_t node, const cudaGraphNode_t *list, size_t n)
{
    size_t count = 0;
    if (order_before(node, NULL, &count) || !count)
        return 1;
    cudaGraphNode_t *before = malloc(count * sizeof *before);
    int ready = 1;
    if (before && !order_before(node, before, &count))
        for (size_t i = 0; i < count && ready; i++)
            ready = order_has(list, n, before[i]);
    free(before);
    return ready;
}

cudaGraphNode_t *mt_graph_sorted_nodes(cudaGraph_t graph, size_t *n)
{
    *n = 0;
    if (MT_NEXT(cudaGraphGetNodes)(graph, NULL, n) || !*n)
        return NULL;
    cudaGraphNode_t *all = malloc(*n * sizeof *all), *out = malloc(*n * sizeof *out);
    size_t done = 0, before;
    if (!all || !out || MT_NEXT(cudaGraphGetNodes)(graph, all, n)) {
        free(all);
        free(out);
        return NULL;
    }
    do { /* mostly they come in that order already */
        before = done;
        for (size_t i = 0; i < *n; i++)
            if (all[i] && order_allows(all[i], out, done)) {
                out[done++] = all[i];
                all[i] = NULL;
            }
    } while (done != before);
    *n = done;
    free(all);
    return out;
}
