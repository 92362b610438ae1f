/* Graphs of the driver API on a GPU: their kernels are the driver's functions. Those that are known with a
 * version with record calls (traced.c) are traced as the runtime's are (api/graph_gpu.c), others are counted.
 */
#include "launch.h"
#include "api/graph_gpu.h"
#include "api/module.h"
#include "api/plain.h"
#include <stdlib.h>
#include <string.h>

#define REAL(name) ((__typeof__(&name))mt_driver_real(MT_D_##name))

static CUresult graph_traced_read(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    return REAL(cuGraphKernelNodeGetParams_v2) ? REAL(cuGraphKernelNodeGetParams_v2)(node, p)
                                               : CUDA_ERROR_NOT_SUPPORTED;
}

static cudaError_t graph_traced_get(cudaGraphNode_t node, struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS_v2 q;
    CUresult e = graph_traced_read((CUgraphNode)node, &q);
    if (e)
        return (cudaError_t)e; /* the numbers are the same */
    CUfunction f = q.func ? q.func : (CUfunction)q.kern;
    mt_driver_know(f);
    *p = (struct cudaKernelNodeParams){.func = f,
                                       .gridDim = {q.gridDimX, q.gridDimY, q.gridDimZ},
                                       .blockDim = {q.blockDimX, q.blockDimY, q.blockDimZ},
                                       .sharedMemBytes = q.sharedMemBytes,
                                       .kernelParams = q.kernelParams,
                                       .extra = q.extra};
    return cudaSuccess;
}

/* The driver's function behind what runs. */
static CUfunction graph_traced_function(const void *version)
{
    struct mt_function *f = mt_function_find(version);
    return f && f->has_traced && version == mt_traced_of(f) ? (CUfunction)f->of_driver
                                                            : (CUfunction)(uintptr_t)version;
}

static cudaError_t graph_traced_set(cudaGraphNode_t node, const struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS_v2 q;
    CUresult e = graph_traced_read((CUgraphNode)node, &q);
    if (e)
        return (cudaError_t)e;
    q.func = graph_traced_function(p->func);
    q.kern = NULL;
    q.kernelParams = p->kernelParams;
    q.extra = NULL;
    return (cudaError_t)REAL(cuGraphKernelNodeSetParams_v2)((CUgraphNode)node, &q);
}

static cudaError_t graph_traced_launch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return (cudaError_t)REAL(cuGraphLaunch)((CUgraphExec)exec, (CUstream)stream);
}

static const struct mt_graph_api graph_traced_api = {graph_traced_get, graph_traced_set, graph_traced_launch};

/* ---- making one ready ---------------------------------------------------------------------------- */

#define BEGIN(graph) mt_graph_gpu_begin((cudaGraph_t)graph, &graph_traced_api)
#define END(x, out, e) ((CUresult)mt_graph_gpu_end(x, (const cudaGraphExec_t *)out, (cudaError_t)(e)))

CUresult GPU(cuGraphInstantiateWithFlags)(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    struct mt_graph_exec *x = BEGIN(graph);
    return END(x, out, REAL(cuGraphInstantiateWithFlags)(out, graph, flags));
}

CUresult GPU(cuGraphInstantiate)(CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log, size_t size)
{
    struct mt_graph_exec *x = BEGIN(graph);
    return END(x, out, REAL(cuGraphInstantiate)(out, graph, bad, log, size));
}

CUresult GPU(cuGraphInstantiate_v2)(CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log, size_t size)
{
    struct mt_graph_exec *x = BEGIN(graph);
    return END(x, out, REAL(cuGraphInstantiate_v2)(out, graph, bad, log, size));
}

#if CUDA_VERSION >= 12000
CUresult GPU(cuGraphInstantiateWithParams)(CUgraphExec *out, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    struct mt_graph_exec *x = BEGIN(graph);
    return END(x, out, REAL(cuGraphInstantiateWithParams)(out, graph, params));
}

CUresult GPU(cuGraphExecUpdate_v2)(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    struct mt_graph_exec *now = mt_graph_gpu_update((cudaGraphExec_t)exec, (cudaGraph_t)graph);
    return (CUresult)mt_graph_gpu_updated((cudaGraphExec_t)exec, now,
                                          (cudaError_t)REAL(cuGraphExecUpdate_v2)(exec, graph, info));
}
#endif

CUresult GPU(cuGraphExecDestroy)(CUgraphExec exec)
{
    return (CUresult)mt_graph_gpu_destroyed((cudaGraphExec_t)exec,
                                            (cudaError_t)REAL(cuGraphExecDestroy)(exec));
}

/* ---- changing it --------------------------------------------------------------------------------- */

/* The parameters of a node that is to run with this launch context, or NULL, from now on; to be freed. */
static void **graph_traced_widen(const struct mt_driver_arguments *a, const struct mt_function *f,
                                 void **context)
{
    unsigned n = f->kernel->nparams;
    void **args = malloc((n + 1) * sizeof *args);
    if (args && n)
        memcpy(args, a->args, n * sizeof *args);
    if (args)
        args[n] = context;
    return args;
}

CUresult GPU(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct mt_driver_arguments a = {0};
    CUfunction f = !p ? NULL : p->func ? p->func : (CUfunction)p->kern;
    if (f)
        mt_driver_know(f);
    if (!f || mt_driver_arguments(&a, f, p->kernelParams, p->extra))
        return REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, p); /* says what is wrong */
    const struct cudaKernelNodeParams k = {.func = f,
                                           .gridDim = {p->gridDimX, p->gridDimY, p->gridDimZ},
                                           .blockDim = {p->blockDimX, p->blockDimY, p->blockDimZ},
                                           .sharedMemBytes = p->sharedMemBytes};
    const void *version;
    void *context = mt_graph_gpu_context((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &k, &version);
    void **args = context ? graph_traced_widen(&a, mt_function_find(f), &context) : NULL;
    CUDA_KERNEL_NODE_PARAMS_v2 q = *p;
    if (args) {
        q.func = graph_traced_function(version);
        q.kern = NULL;
        q.kernelParams = args;
        q.extra = NULL;
    }
    CUresult e =
        context && !args ? CUDA_ERROR_OUT_OF_MEMORY : REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, &q);
    if (!e)
        mt_graph_gpu_changed((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &k);
    free(args);
    free(a.made);
    return e;
}

CUresult GPU(cuGraphExecKernelNodeSetParams)(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS_v2 q = {0};
    if (p)
        memcpy(&q, p, sizeof *p); /* its first members */
    return GPU(cuGraphExecKernelNodeSetParams_v2)(exec, node, p ? &q : NULL);
}

#if CUDA_VERSION >= 12020
CUresult GPU(cuGraphExecNodeSetParams)(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS_v2 q = {0};
    if (!p || p->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return REAL(cuGraphExecNodeSetParams)(exec, node, p);
    memcpy(&q, &p->kernel, sizeof q);
    return GPU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &q);
}
#endif

CUresult GPU(cuGraphNodeSetEnabled)(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
    return (CUresult)mt_graph_gpu_enabled((cudaGraphExec_t)exec, (cudaGraphNode_t)node, enabled,
                                          (cudaError_t)REAL(cuGraphNodeSetEnabled)(exec, node, enabled));
}

CUresult GPU(cuGraphExecChildGraphNodeSetParams)(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    return (CUresult)mt_graph_gpu_child(
        (cudaGraphExec_t)exec, (cudaError_t)REAL(cuGraphExecChildGraphNodeSetParams)(exec, node, child));
}

/* ---- launching it -------------------------------------------------------------------------------- */

CUresult GPU(cuGraphLaunch)(CUgraphExec exec, CUstream stream)
{
    mt_driver_know_stream(stream);
    return (CUresult)mt_graph_gpu_launch((cudaGraphExec_t)exec, (cudaStream_t)stream, &graph_traced_api);
}
