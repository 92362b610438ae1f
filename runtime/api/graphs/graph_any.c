/* Nodes of graphs with parameters of any type (cudaGraphAddNode and its kind): each does what the function
 * for its type does. Conditional nodes have no other. Edges have no meaning but their order: a kernel that
 * begins before another one ends waits for it, which is always right. */
#include "api/entry.h"
#include "api/tables/error.h"
#include "graph.h"
#include <string.h>

#if CUDART_VERSION >= 12030
#if CUDART_VERSION >= 13000
#define EDGES const cudaGraphEdgeData *edges,
#else
#define EDGES
#endif

static struct cudaKernelNodeParams graph_any_kernel(const struct cudaKernelNodeParamsV2 *p)
{
    return (struct cudaKernelNodeParams){p->func,           p->gridDim,      p->blockDim,
                                         p->sharedMemBytes, p->kernelParams, p->extra};
}

static struct cudaMemsetParams graph_any_fill(const struct cudaMemsetParamsV2 *p)
{
    return (struct cudaMemsetParams){p->dst, p->pitch, p->value, p->elementSize, p->width, p->height};
}

static struct cudaHostNodeParams graph_any_host(const struct cudaHostNodeParamsV2 *p)
{
    return (struct cudaHostNodeParams){p->fn, p->userData};
}

static cudaError_t graph_any_alloc(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t n, struct cudaMemAllocNodeParamsV2 *p)
{
    struct cudaMemAllocNodeParams q = {p->poolProps, p->accessDescs, p->accessDescCount, p->bytesize, NULL};
    cudaError_t e = impl_cudaGraphAddMemAllocNode(out, graph, after, n, &q);
    if (!e)
        p->dptr = q.dptr;
    return e;
}

static cudaError_t graph_any_branch(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                    size_t n, struct cudaConditionalNodeParams *p)
{
    struct mt_branch *b;
    struct CUgraph_st *const *body;
    cudaError_t e = mt_branch_new(&b, p->handle, (int)p->type, p->size);
    if (e)
        return e;
    e = impl_cudaGraphAddEmptyNode(out, graph, after, n);
    if (e) {
        mt_branch_forget(b);
        mt_branch_free(b);
        return e;
    }
    (*out)->type = cudaGraphNodeTypeConditional;
    (*out)->branch = b;
    mt_branch_bodies(b, &body);
    p->phGraph_out = (cudaGraph_t *)(uintptr_t)body;
    return cudaSuccess;
}

/* A graph that is moved is the node's from then on. */
static cudaError_t graph_any_child(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t n, const struct cudaChildGraphNodeParams *p)
{
#if CUDART_VERSION >= 12090
    struct CUgraph_st *c = mt_graph_get(p->graph);
    if (p->ownership == cudaGraphChildGraphOwnershipMove) {
        if (!c || c->owned || c->captures || c == graph || mt_graph_conditions(c))
            return mt_fail(cudaErrorInvalidValue);
        cudaError_t e = impl_cudaGraphAddEmptyNode(out, graph, after, n);
        if (e)
            return e;
        (*out)->type = cudaGraphNodeTypeGraph;
        (*out)->child = c;
        c->owned = 1;
        return cudaSuccess;
    }
#endif
    return impl_cudaGraphAddChildGraphNode(out, graph, after, n, p->graph);
}

cudaError_t impl_cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                  EDGES size_t n, struct cudaGraphNodeParams *p)
{
    MT_RETURN_IF_FAILED();
    if (!p)
        return mt_fail(cudaErrorInvalidValue);
    switch (p->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams k = graph_any_kernel(&p->kernel);
        return impl_cudaGraphAddKernelNode(out, graph, after, n, &k);
    }
    case cudaGraphNodeTypeMemcpy:
        return impl_cudaGraphAddMemcpyNode(out, graph, after, n, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams f = graph_any_fill(&p->memset);
        return impl_cudaGraphAddMemsetNode(out, graph, after, n, &f);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams h = graph_any_host(&p->host);
        return impl_cudaGraphAddHostNode(out, graph, after, n, &h);
    }
    case cudaGraphNodeTypeGraph:
        return graph_any_child(out, graph, after, n, &p->graph);
    case cudaGraphNodeTypeEmpty:
        return impl_cudaGraphAddEmptyNode(out, graph, after, n);
    case cudaGraphNodeTypeWaitEvent:
        return impl_cudaGraphAddEventWaitNode(out, graph, after, n, p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return impl_cudaGraphAddEventRecordNode(out, graph, after, n, p->eventRecord.event);
    case cudaGraphNodeTypeMemAlloc:
        return graph_any_alloc(out, graph, after, n, &p->alloc);
    case cudaGraphNodeTypeMemFree:
        return impl_cudaGraphAddMemFreeNode(out, graph, after, n, p->free.dptr);
    case cudaGraphNodeTypeConditional:
        return graph_any_branch(out, graph, after, n, &p->conditional);
    default:
        return mt_fail((unsigned)p->type < cudaGraphNodeTypeCount ? cudaErrorNotSupported
                                                                  : cudaErrorInvalidValue);
    }
}

/* Another graph of the same form in the place of a node's own. */
static cudaError_t graph_any_replace(struct CUgraphNode_st *n, cudaGraph_t graph)
{
    struct CUgraph_st *c = mt_graph_get(graph), *clone;
    if (!c || c == n->graph || mt_graph_conditions(c))
        return mt_fail(cudaErrorInvalidValue);
    if (!(clone = mt_graph_clone(c)))
        return mt_fail(cudaErrorMemoryAllocation);
    clone->owned = 1;
    mt_graph_free(n->child);
    n->child = clone;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *p)
{
    MT_RETURN_IF_FAILED();
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !p || n->type != p->type)
        return mt_fail(cudaErrorInvalidValue);
    switch (p->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams k = graph_any_kernel(&p->kernel);
        return impl_cudaGraphKernelNodeSetParams(node, &k);
    }
    case cudaGraphNodeTypeMemcpy:
        return impl_cudaGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams f = graph_any_fill(&p->memset);
        return impl_cudaGraphMemsetNodeSetParams(node, &f);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams h = graph_any_host(&p->host);
        return impl_cudaGraphHostNodeSetParams(node, &h);
    }
    case cudaGraphNodeTypeGraph:
        return graph_any_replace(n, p->graph.graph);
    case cudaGraphNodeTypeEmpty:
        return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
        return impl_cudaGraphEventWaitNodeSetEvent(node, p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return impl_cudaGraphEventRecordNodeSetEvent(node, p->eventRecord.event);
    default: /* memory and conditional nodes stay what they are */
        return mt_fail(cudaErrorNotSupported);
    }
}

cudaError_t impl_cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            struct cudaGraphNodeParams *p)
{
    MT_RETURN_IF_FAILED();
    if (!p)
        return mt_fail(cudaErrorInvalidValue);
    switch (p->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams k = graph_any_kernel(&p->kernel);
        return impl_cudaGraphExecKernelNodeSetParams(exec, node, &k);
    }
    case cudaGraphNodeTypeMemcpy:
        return impl_cudaGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams f = graph_any_fill(&p->memset);
        return impl_cudaGraphExecMemsetNodeSetParams(exec, node, &f);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams h = graph_any_host(&p->host);
        return impl_cudaGraphExecHostNodeSetParams(exec, node, &h);
    }
    case cudaGraphNodeTypeGraph:
        return impl_cudaGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
    case cudaGraphNodeTypeWaitEvent:
        return impl_cudaGraphExecEventWaitNodeSetEvent(exec, node, p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return impl_cudaGraphExecEventRecordNodeSetEvent(exec, node, p->eventRecord.event);
    default:
        return mt_fail((unsigned)p->type < cudaGraphNodeTypeCount ? cudaErrorNotSupported
                                                                  : cudaErrorInvalidValue);
    }
}
#endif
