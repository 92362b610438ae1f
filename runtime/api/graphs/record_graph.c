/* Kernel nodes of graphs on a GPU: kernels of ours have one parameter more than the program knows. It is
 * NULL in the program's graphs; what is ready to be launched has a launch context there (graph_gpu.c). The
 * runtime copies the values while a node is made, so nothing is kept. */
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "graph_gpu.h"
#include "api/launch/launch.h"
#include <stdlib.h>
#include <string.h>

struct widened {
    void *context, **args, *few[64];
};

/* *args becomes what to hand on, of *w or the program's own. 0, or -1: no memory. */
static int record_graph_widen(struct widened *w, const void *func, void **extra, void ***args, void *context)
{
    struct mt_function *f = mt_device_is_gpu() ? mt_function_find(func) : NULL;
    uint32_t n = f && f->kernel ? f->kernel->nparams : 0;
    *w = (struct widened){.context = context};
    if (!f || !f->kernel || extra || (n && !*args))
        return 0;
    w->args = n < sizeof w->few / sizeof *w->few ? w->few : malloc((n + 1) * sizeof *w->args);
    if (!w->args)
        return -1;
    if (n)
        memcpy(w->args, *args, n * sizeof **args);
    w->args[n] = &w->context;
    *args = w->args;
    return 0;
}

static cudaError_t record_graph_done(struct widened *w, cudaError_t e)
{
    if (w->args != w->few)
        free(w->args);
    return e;
}

/* The program's parameters, copied into *p and widened. */
static cudaError_t kernel_params(struct widened *w, struct cudaKernelNodeParams *p,
                                 const struct cudaKernelNodeParams *given, void *context)
{
    *p = *given;
    return record_graph_widen(w, p->func, p->extra, &p->kernelParams, context)
               ? mt_fail(cudaErrorMemoryAllocation)
               : cudaSuccess;
}

cudaError_t rec_cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                       size_t n, const struct cudaKernelNodeParams *params)
{
    struct cudaKernelNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphAddKernelNode)(node, graph, after, n, params);
    cudaError_t e = kernel_params(&w, &p, params, NULL);
    return e ? e : record_graph_done(&w, MT_NEXT(cudaGraphAddKernelNode)(node, graph, after, n, &p));
}

cudaError_t rec_cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    struct cudaKernelNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphKernelNodeSetParams)(node, params);
    cudaError_t e = kernel_params(&w, &p, params, NULL);
    return e ? e : record_graph_done(&w, MT_NEXT(cudaGraphKernelNodeSetParams)(node, &p));
}

cudaError_t rec_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 const struct cudaKernelNodeParams *params)
{
    struct cudaKernelNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphExecKernelNodeSetParams)(exec, node, params);
    const void *func;
    void *context = mt_graph_gpu_context(exec, node, params, &func);
    cudaError_t e = kernel_params(&w, &p, params, context);
    p.func = (void *)(uintptr_t)func;
    if (!e)
        e = record_graph_done(&w, MT_NEXT(cudaGraphExecKernelNodeSetParams)(exec, node, &p));
    if (!e)
        mt_graph_gpu_changed(exec, node, params);
    return e;
}

#if CUDART_VERSION >= 12020 /* nodes of any type */
/* Widens *p, a copy that the runtime may write to. */
static cudaError_t node_params(struct widened *w, struct cudaGraphNodeParams *p,
                               const struct cudaGraphNodeParams *given, void *context)
{
    *p = *given;
    *w = (struct widened){0};
    if (p->type != cudaGraphNodeTypeKernel)
        return cudaSuccess;
    return record_graph_widen(w, p->kernel.func, p->kernel.extra, &p->kernel.kernelParams, context)
               ? mt_fail(cudaErrorMemoryAllocation)
               : cudaSuccess;
}

/* What the runtime wrote (the address of a memory node) is the program's. */
static cudaError_t give_back(struct widened *w, struct cudaGraphNodeParams *to,
                             const struct cudaGraphNodeParams *p, cudaError_t e)
{
    if (p->type != cudaGraphNodeTypeKernel)
        *to = *p;
    return record_graph_done(w, e);
}

#if CUDART_VERSION >= 13000
cudaError_t rec_cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                 const cudaGraphEdgeData *edges, size_t n, struct cudaGraphNodeParams *params)
#define ARGUMENTS node, graph, after, edges, n
#else
cudaError_t rec_cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                 size_t n, struct cudaGraphNodeParams *params)
#define ARGUMENTS node, graph, after, n
#endif
{
    struct cudaGraphNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphAddNode)(ARGUMENTS, params);
    cudaError_t e = node_params(&w, &p, params, NULL);
    return e ? e : give_back(&w, params, &p, MT_NEXT(cudaGraphAddNode)(ARGUMENTS, &p));
}

cudaError_t rec_cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *params)
{
    struct cudaGraphNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphNodeSetParams)(node, params);
    cudaError_t e = node_params(&w, &p, params, NULL);
    return e ? e : give_back(&w, params, &p, MT_NEXT(cudaGraphNodeSetParams)(node, &p));
}

cudaError_t rec_cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           struct cudaGraphNodeParams *params)
{
    struct cudaGraphNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphExecNodeSetParams)(exec, node, params);
    const int kernel = params->type == cudaGraphNodeTypeKernel;
    const struct cudaKernelNodeParams k = {.func = params->kernel.func,
                                           .gridDim = params->kernel.gridDim,
                                           .blockDim = params->kernel.blockDim,
                                           .sharedMemBytes = params->kernel.sharedMemBytes};
    const void *func;
    void *context = kernel ? mt_graph_gpu_context(exec, node, &k, &func) : NULL;
    cudaError_t e = node_params(&w, &p, params, context);
    if (kernel)
        p.kernel.func = (void *)(uintptr_t)func;
    if (!e)
        e = give_back(&w, params, &p, MT_NEXT(cudaGraphExecNodeSetParams)(exec, node, &p));
    if (!e && kernel)
        mt_graph_gpu_changed(exec, node, &k);
    return e;
}
#endif
