/* Nodes of graphs whose parameters the driver API has in a form of its own, and older forms of graph
 * functions. */
#include "copy.h"
#include "launch.h"
#include "api/device/device.h"
#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

typedef cudaError_t graph_kernel_use(void *ctx, const struct cudaKernelNodeParams *p);

/* Hands `p` in the runtime's form to `use`, which copies the arguments. */
static CUresult graph_with_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *p, const void *kernel,
                                  graph_kernel_use *use, void *ctx)
{
    struct mt_driver_arguments a;
    CUresult e = mt_driver_arguments(&a, kernel, p->kernelParams, p->extra);
    struct cudaKernelNodeParams out = {.func = (void *)(uintptr_t)kernel,
                                       .gridDim = {p->gridDimX, p->gridDimY, p->gridDimZ},
                                       .blockDim = {p->blockDimX, p->blockDimY, p->blockDimZ},
                                       .sharedMemBytes = p->sharedMemBytes,
                                       .kernelParams = a.args};
    if (!e)
        e = mt_driver_result(use(ctx, &out));
    free(a.made);
    return e;
}

struct graph_add {
    cudaGraphNode_t *node;
    cudaGraph_t graph;
    const cudaGraphNode_t *after;
    size_t n;
    cudaGraphExec_t exec;
    cudaGraphNode_t of;
};

static cudaError_t graph_add_kernel(void *ctx, const struct cudaKernelNodeParams *p)
{
    struct graph_add *a = ctx;
    return cudaGraphAddKernelNode(a->node, a->graph, a->after, a->n, p);
}

static cudaError_t graph_set_kernel(void *ctx, const struct cudaKernelNodeParams *p)
{
    struct graph_add *a = ctx;
    return a->exec ? cudaGraphExecKernelNodeSetParams(a->exec, a->of, p)
                   : cudaGraphKernelNodeSetParams(a->of, p);
}

/* The first members are those of the first version. */
_Static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, extra) == offsetof(CUDA_KERNEL_NODE_PARAMS_v1, extra),
               "as in version 1");
static const void *graph_kernel_of(const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    return p->func ? (const void *)p->func : (const void *)p->kern;
}

CUresult drv_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct graph_add a = {
        (cudaGraphNode_t *)node, (cudaGraph_t)graph, (const cudaGraphNode_t *)after, n, NULL, NULL};
    return p ? graph_with_kernel(p, p->func, graph_add_kernel, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                     const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct graph_add a = {
        (cudaGraphNode_t *)node, (cudaGraph_t)graph, (const cudaGraphNode_t *)after, n, NULL, NULL};
    return p ? graph_with_kernel((const void *)p, graph_kernel_of(p), graph_add_kernel, &a)
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node};
    return p ? graph_with_kernel(p, p->func, graph_set_kernel, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node};
    return p ? graph_with_kernel((const void *)p, graph_kernel_of(p), graph_set_kernel, &a)
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node, .exec = (cudaGraphExec_t)exec};
    return p ? graph_with_kernel(p, p->func, graph_set_kernel, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node, .exec = (cudaGraphExec_t)exec};
    return p ? graph_with_kernel((const void *)p, graph_kernel_of(p), graph_set_kernel, &a)
             : CUDA_ERROR_INVALID_VALUE;
}

/* As cuModuleGetFunction gave it. */
static CUfunction graph_function(const void *func)
{
    struct mt_function *f = mt_function_find(func);
    return f ? (CUfunction)mt_function_handle(f) : (CUfunction)(uintptr_t)func;
}

CUresult drv_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct cudaKernelNodeParams k;
    CUresult e = p ? mt_driver_result(cudaGraphKernelNodeGetParams((cudaGraphNode_t)node, &k))
                   : CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *p = (CUDA_KERNEL_NODE_PARAMS_v1){
            graph_function(k.func), k.gridDim.x,  k.gridDim.y,      k.gridDim.z,    k.blockDim.x,
            k.blockDim.y,           k.blockDim.z, k.sharedMemBytes, k.kernelParams, NULL};
    return e;
}

CUresult drv_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    CUDA_KERNEL_NODE_PARAMS_v1 first;
    CUresult e = p ? drv_cuGraphKernelNodeGetParams(node, &first) : CUDA_ERROR_INVALID_VALUE;
    if (!e) {
        memset(p, 0, sizeof *p);
        memcpy(p, &first, sizeof first);
    }
    return e;
}

/* ---- copies and fills ---- */

CUresult drv_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_MEMCPY3D_v2 *copy, CUcontext context)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, copy);
    return e ? e
             : mt_driver_result(cudaGraphAddMemcpyNode((cudaGraphNode_t *)node, (cudaGraph_t)graph,
                                                       (const cudaGraphNode_t *)after, n, &p));
}

CUresult drv_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D_v2 *copy)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, copy);
    return e ? e : mt_driver_result(cudaGraphMemcpyNodeSetParams((cudaGraphNode_t)node, &p));
}

CUresult drv_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D_v2 *copy,
                                            CUcontext context)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, copy);
    return e ? e
             : mt_driver_result(
                   cudaGraphExecMemcpyNodeSetParams((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &p));
}

static struct cudaMemsetParams graph_fill(const CUDA_MEMSET_NODE_PARAMS *p)
{
    return (struct cudaMemsetParams){MT_POINTER(p->dst), p->pitch, p->value,
                                     p->elementSize,     p->width, p->height};
}

CUresult drv_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    struct cudaMemsetParams p = fill ? graph_fill(fill) : (struct cudaMemsetParams){0};
    return fill ? mt_driver_result(cudaGraphAddMemsetNode((cudaGraphNode_t *)node, (cudaGraph_t)graph,
                                                          (const cudaGraphNode_t *)after, n, &p))
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    struct cudaMemsetParams p = fill ? graph_fill(fill) : (struct cudaMemsetParams){0};
    return fill ? mt_driver_result(cudaGraphMemsetNodeSetParams((cudaGraphNode_t)node, &p))
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *fill)
{
    struct cudaMemsetParams p;
    CUresult e = fill ? mt_driver_result(cudaGraphMemsetNodeGetParams((cudaGraphNode_t)node, &p))
                      : CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *fill = (CUDA_MEMSET_NODE_PARAMS){
            (CUdeviceptr)(uintptr_t)p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
    return e;
}

CUresult drv_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    struct cudaMemsetParams p = fill ? graph_fill(fill) : (struct cudaMemsetParams){0};
    return fill ? mt_driver_result(
                      cudaGraphExecMemsetNodeSetParams((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &p))
                : CUDA_ERROR_INVALID_VALUE;
}

/* ---- CUDA 12's forms, without what edges say ---- */

#if CUDA_VERSION >= 13000
CUresult drv_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    return mt_driver_result(cudaGraphAddDependencies((cudaGraph_t)graph, (const cudaGraphNode_t *)from,
                                                     (const cudaGraphNode_t *)to, NULL, n));
}

CUresult drv_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                       size_t n)
{
    return mt_driver_result(cudaGraphRemoveDependencies((cudaGraph_t)graph, (const cudaGraphNode_t *)from,
                                                        (const cudaGraphNode_t *)to, NULL, n));
}

CUresult drv_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    return mt_driver_result(
        cudaGraphGetEdges((cudaGraph_t)graph, (cudaGraphNode_t *)from, (cudaGraphNode_t *)to, NULL, n));
}

CUresult drv_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *n)
{
    return mt_driver_result(
        cudaGraphNodeGetDependencies((cudaGraphNode_t)node, (cudaGraphNode_t *)nodes, NULL, n));
}

CUresult drv_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *n)
{
    return mt_driver_result(
        cudaGraphNodeGetDependentNodes((cudaGraphNode_t)node, (cudaGraphNode_t *)nodes, NULL, n));
}
#endif

CUresult drv_cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes)
{
    if (bad)
        *bad = NULL;
    if (log && bytes)
        *log = '\0';
    return mt_driver_result(cudaGraphInstantiateWithFlags((cudaGraphExec_t *)exec, (cudaGraph_t)graph, 0));
}

CUresult drv_cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log,
                                   size_t bytes)
{
    return drv_cuGraphInstantiate(exec, graph, bad, log, bytes);
}

CUresult drv_cuStreamBeginCapture(CUstream stream)
{
    return mt_driver_result(cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeGlobal));
}
