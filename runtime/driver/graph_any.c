/* Nodes of graphs with parameters of any type. All but three types are as the runtime has them. */
#include "driver.h"
#include <string.h>

#if CUDA_VERSION >= 12030
_Static_assert(sizeof(CUgraphNodeParams) == sizeof(struct cudaGraphNodeParams), "one layout");

static CUresult graph_any_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                              CUgraphNodeParams *p)
{
    struct cudaGraphNodeParams q;
    memcpy(&q, p, sizeof q);
    CUresult e = mt_driver_result(cudaGraphAddNode((cudaGraphNode_t *)node, (cudaGraph_t)graph,
                                                   (const cudaGraphNode_t *)after,
#if CUDA_VERSION >= 13000
                                                   NULL,
#endif
                                                   n, &q));
    memcpy(p, &q, sizeof q); /* what was made: memory, bodies */
    return e;
}

CUresult drv_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                            CUgraphNodeParams *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return drv_cuGraphAddKernelNode_v2(node, graph, after, n, (const void *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return drv_cuGraphAddMemcpyNode(node, graph, after, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return drv_cuGraphAddMemsetNode(node, graph, after, n, (const void *)&p->memset, p->memset.ctx);
    default:
        return graph_any_add(node, graph, after, n, p);
    }
}

/* Edges mean their order (api/graphs/graph_any.c). */
CUresult drv_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p)
{
    return drv_cuGraphAddNode(node, graph, after, n, p);
}

CUresult drv_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p)
{
    struct cudaGraphNodeParams q;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return drv_cuGraphKernelNodeSetParams_v2(node, (const void *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return drv_cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return drv_cuGraphMemsetNodeSetParams(node, (const void *)&p->memset);
    default:
        memcpy(&q, p, sizeof q);
        return mt_driver_result(cudaGraphNodeSetParams((cudaGraphNode_t)node, &q));
    }
}

CUresult drv_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    struct cudaGraphNodeParams q;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return drv_cuGraphExecKernelNodeSetParams_v2(exec, node, (const void *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return drv_cuGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return drv_cuGraphExecMemsetNodeSetParams(exec, node, (const void *)&p->memset, p->memset.ctx);
    default:
        memcpy(&q, p, sizeof q);
        return mt_driver_result(cudaGraphExecNodeSetParams((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &q));
    }
}

CUresult drv_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph, CUcontext context,
                                            unsigned first, unsigned flags)
{
    cudaGraphConditionalHandle handle;
    CUresult e =
        out ? mt_driver_result(cudaGraphConditionalHandleCreate(&handle, (cudaGraph_t)graph, first, flags))
            : CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *out = handle;
    return e;
}
#endif
