/* Graphs of the runtime API as they are made ready to be launched, changed and launched on a GPU: what is in
 * them is looked at in graph_gpu.c. */
#include "graph_gpu.h"
#include "api/entry.h"

cudaError_t rec_cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                              unsigned long long flags)
{
    struct mt_graph_exec *x = mt_graph_gpu_begin(graph);
    return mt_graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiateWithFlags)(out, graph, flags));
}

#if CUDART_VERSION >= 12000
cudaError_t rec_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    struct mt_graph_exec *x = mt_graph_gpu_begin(graph);
    return mt_graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiate)(out, graph, flags));
}

cudaError_t rec_cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t graph,
                                               cudaGraphInstantiateParams *params)
{
    struct mt_graph_exec *x = mt_graph_gpu_begin(graph);
    return mt_graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiateWithParams)(out, graph, params));
}
#else
cudaError_t rec_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                     char *log, size_t size)
{
    struct mt_graph_exec *x = mt_graph_gpu_begin(graph);
    return mt_graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiate)(out, graph, error_node, log, size));
}
#endif

cudaError_t rec_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return mt_graph_gpu_destroyed(exec, MT_NEXT(cudaGraphExecDestroy)(exec));
}

#if CUDART_VERSION >= 12000
cudaError_t rec_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                    cudaGraphExecUpdateResultInfo *info)
{
    struct mt_graph_exec *now = mt_graph_gpu_update(exec, graph);
    return mt_graph_gpu_updated(exec, now, MT_NEXT(cudaGraphExecUpdate)(exec, graph, info));
}
#else
cudaError_t rec_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                    enum cudaGraphExecUpdateResult *result)
{
    struct mt_graph_exec *now = mt_graph_gpu_update(exec, graph);
    return mt_graph_gpu_updated(exec, now, MT_NEXT(cudaGraphExecUpdate)(exec, graph, error_node, result));
}
#endif

cudaError_t rec_cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled)
{
    return mt_graph_gpu_enabled(exec, node, enabled, MT_NEXT(cudaGraphNodeSetEnabled)(exec, node, enabled));
}

cudaError_t rec_cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     cudaGraph_t child)
{
    return mt_graph_gpu_child(exec, MT_NEXT(cudaGraphExecChildGraphNodeSetParams)(exec, node, child));
}

cudaError_t rec_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return mt_graph_gpu_launch(exec, stream);
}
