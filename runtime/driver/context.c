/* Contexts on the CPU device: cuInit, primary contexts, cuCtx*. */
#include "context.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "trace/nvtx.h"
#include <stdatomic.h>
#include <stdlib.h>

/* Never freed: programs may ask for one that they have destroyed, and get an error. */
struct CUctx_st {
    struct CUctx_st *next;
    unsigned long long id;
    _Atomic unsigned flags;
    _Atomic int alive; /* the primary one: how often it is retained */
};

static struct CUctx_st primary = {NULL, 1, 0, 0};
static struct CUctx_st *_Atomic contexts = &primary;
static _Atomic unsigned long long context_last_id = 1;
static _Atomic int initialised;
/* A list, since libmemtrace.so may be opened where there is little room for thread-local memory. */
static _Thread_local struct context_level {
    struct context_level *outer;
    struct CUctx_st *context;
} *top;

static int context_alive(const struct CUctx_st *c)
{
    for (const struct CUctx_st *i = contexts; i; i = i->next)
        if (i == c)
            return i->alive > 0 || (i == &primary && (mt_registered || mt_entry_called));
    return 0;
}

/* The runtime API makes the primary context current by itself. */
CUcontext mt_context_current(void)
{
    return top ? top->context : mt_registered || mt_entry_called ? &primary : NULL;
}

CUresult mt_context_check(enum mt_driver_needs needs)
{
    if (needs == MT_NEEDS_NOTHING)
        return CUDA_SUCCESS;
    if (!initialised && !mt_registered && !mt_entry_called)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == MT_NEEDS_INIT)
        return CUDA_SUCCESS;
    CUcontext c = mt_context_current();
    return !c                 ? CUDA_ERROR_INVALID_CONTEXT
           : context_alive(c) ? CUDA_SUCCESS
                              : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult drv_cuInit(unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    initialised = 1;
    return CUDA_SUCCESS;
}

/* ---- the stack of this thread ---- */

static CUresult context_push(CUcontext c)
{
    if (!context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct context_level *level = malloc(sizeof *level);
    if (!level)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *level = (struct context_level){top, c};
    top = level;
    return CUDA_SUCCESS;
}

static void context_drop(void)
{
    struct context_level *level = top;
    if (level)
        top = level->outer;
    free(level);
}

CUresult drv_cuCtxPushCurrent(CUcontext c)
{
    return context_push(c);
}

CUresult drv_cuCtxPushCurrent_v2(CUcontext c)
{
    return context_push(c);
}

CUresult drv_cuCtxPopCurrent_v2(CUcontext *c)
{
    if (!mt_context_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c)
        *c = mt_context_current();
    context_drop();
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxPopCurrent(CUcontext *c)
{
    return drv_cuCtxPopCurrent_v2(c);
}

CUresult drv_cuCtxSetCurrent(CUcontext c)
{
    if (c && !context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    context_drop();
    return c ? context_push(c) : CUDA_SUCCESS;
}

CUresult drv_cuCtxGetCurrent(CUcontext *c)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    *c = mt_context_current();
    return CUDA_SUCCESS;
}

/* ---- made by the program ---- */

static CUresult context_create(CUcontext *out, unsigned flags, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUctx_st *c = calloc(1, sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->id = ++context_last_id;
    c->flags = flags;
    c->alive = 1;
    c->next = contexts;
    while (!atomic_compare_exchange_weak(&contexts, &c->next, c)) {
    }
    *out = c;
    return context_push(c);
}

CUresult drv_cuCtxCreate(CUcontext *c, unsigned flags, CUdevice device)
{
    return context_create(c, flags, device);
}

CUresult drv_cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice device)
{
    return context_create(c, flags, device);
}

CUresult drv_cuCtxCreate_v3(CUcontext *c, CUexecAffinityParam *affinity, int n, unsigned flags,
                            CUdevice device)
{
    return n ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : context_create(c, flags, device);
}

#if CUDA_VERSION >= 12050
CUresult drv_cuCtxCreate_v4(CUcontext *c, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    return params && params->numExecAffinityParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                                                   : context_create(c, flags, device);
}
#endif

CUresult drv_cuCtxDestroy_v2(CUcontext c)
{
    if (!c || c == &primary || !context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult e = mt_driver_result(cudaDeviceSynchronize());
    c->alive = 0;
    if (top && top->context == c)
        context_drop();
    return e;
}

CUresult drv_cuCtxDestroy(CUcontext c)
{
    return drv_cuCtxDestroy_v2(c);
}

/* ---- the primary one ---- */

CUresult drv_cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    primary.alive++;
    *c = &primary;
    return CUDA_SUCCESS;
}

CUresult drv_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    int n = primary.alive;
    while (n > 0 && !atomic_compare_exchange_weak(&primary.alive, &n, n - 1)) {
    }
    return n > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult drv_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return drv_cuDevicePrimaryCtxRelease_v2(device);
}

CUresult drv_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    primary.flags = flags;
    return CUDA_SUCCESS;
}

CUresult drv_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return drv_cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult drv_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = primary.flags;
    *active = context_alive(&primary);
    return CUDA_SUCCESS;
}

CUresult drv_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE : mt_driver_result(cudaDeviceReset());
}

CUresult drv_cuDevicePrimaryCtxReset(CUdevice device)
{
    return drv_cuDevicePrimaryCtxReset_v2(device);
}

/* ---- what is asked of one ---- */

CUresult drv_cuCtxGetDevice(CUdevice *device)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUresult drv_cuCtxGetDevice_v2(CUdevice *device, CUcontext c)
{
    return c && !context_alive(c) ? CUDA_ERROR_INVALID_CONTEXT : drv_cuCtxGetDevice(device);
}

CUresult drv_cuCtxSynchronize_v2(CUcontext c)
{
    return c && !context_alive(c) ? CUDA_ERROR_INVALID_CONTEXT : mt_driver_result(cudaDeviceSynchronize());
}
#endif

CUresult drv_cuCtxGetFlags(unsigned *flags)
{
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = mt_context_current()->flags;
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxSetFlags(unsigned flags)
{
    mt_context_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxGetId(CUcontext c, unsigned long long *id)
{
    c = c ? c : mt_context_current();
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c || !context_alive(c))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = c->id;
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxGetApiVersion(CUcontext c, unsigned *version)
{
    c = c ? c : mt_context_current();
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c || !context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult drv_cuStreamGetCtx(CUstream stream, CUcontext *c)
{
    unsigned flags;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    cudaError_t e = cudaStreamGetFlags((cudaStream_t)stream, &flags);
    if (!e)
        *c = mt_context_current();
    return mt_driver_result(e);
}

CUresult drv_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    return !context_alive(peer) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult drv_cuCtxDisablePeerAccess(CUcontext peer)
{
    return !context_alive(peer) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
