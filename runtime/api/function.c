/* Kernels as objects, on the CPU device: attributes and occupancy. */
#include "entry.h"
#include "device.h"
#include "error.h"
#include "launch.h"
#include "module.h"
#include <string.h>

static cudaError_t find(const void *func, struct mt_function **f)
{
    *f = NULL;
    cudaError_t e = mt_failed();
    if (e)
        return e;
    *f = mt_function_find(func);
    if (!*f)
        return mt_fail(cudaErrorInvalidDeviceFunction);
    if ((*f)->kernel)
        return cudaSuccess;
    mt_module_complain((*f)->module, (*f)->name);
    return mt_fail(cudaErrorNoKernelImageForDevice);
}

cudaError_t IMPL(cudaFuncGetAttributes)(struct cudaFuncAttributes *a, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = a ? find(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    memset(a, 0, sizeof *a);
    a->sharedSizeBytes = f->kernel->shared_static;
    a->maxThreadsPerBlock = (int)mt_launch_threads_max(f);
    a->numRegs = MT_DEV_KERNEL_REGISTERS;
    a->ptxVersion = a->binaryVersion = MT_DEV_MAJOR * 10 + MT_DEV_MINOR;
    a->maxDynamicSharedSizeBytes = (int)mt_launch_dynamic_max(f);
    a->preferredShmemCarveout = f->carveout;
    return cudaSuccess;
}

cudaError_t IMPL(cudaFuncSetAttribute)(const void *func, enum cudaFuncAttribute a, int value)
{
    struct mt_function *f = NULL;
    cudaError_t e = find(func, &f);
    if (e)
        return e;
    if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || (unsigned)value + f->kernel->shared_static > MT_DEV_SHARED_OPTIN)
            return mt_fail(cudaErrorInvalidValue);
        f->dynamic_shared_max = value;
        return cudaSuccess;
    }
    if (a == cudaFuncAttributePreferredSharedMemoryCarveout) {
        if (value < -1 || value > 100)
            return mt_fail(cudaErrorInvalidValue);
        f->carveout = value;
        return cudaSuccess;
    }
    /* Clusters do not exist here; asking for none is fine. */
    return (unsigned)a >= cudaFuncAttributeMax ? mt_fail(cudaErrorInvalidValue)
           : value                             ? mt_fail(cudaErrorNotSupported)
                                               : cudaSuccess;
}

cudaError_t IMPL(cudaFuncSetCacheConfig)(const void *func, enum cudaFuncCache config)
{
    struct mt_function *f = NULL;
    return find(func, &f);
}

#if CUDART_VERSION < 14000
cudaError_t IMPL(cudaFuncSetSharedMemConfig)(const void *func, enum cudaSharedMemConfig config)
{
    struct mt_function *f = NULL;
    return find(func, &f);
}
#endif

#if CUDART_VERSION >= 12030
cudaError_t IMPL(cudaFuncGetName)(const char **name, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = name ? find(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *name = f->name;
    return e;
}
#endif

#if CUDART_VERSION >= 12040
cudaError_t IMPL(cudaFuncGetParamInfo)(const void *func, size_t index, size_t *offset, size_t *size)
{
    struct mt_function *f = NULL;
    cudaError_t e = offset ? find(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    const struct mt_image_param *p = f->kernel->params;
    if (index >= f->kernel->nparams)
        return mt_fail(cudaErrorInvalidValue);
    *offset = 0;
    for (size_t i = 0; i <= index; i++) {
        size_t align = p[i].align ? p[i].align : 1;
        *offset = (*offset + align - 1) / align * align + (i < index ? p[i].size : 0);
    }
    if (size)
        *size = p[index].size;
    return cudaSuccess;
}
#endif

#if CUDART_VERSION >= 12010
cudaError_t IMPL(cudaGetKernel)(cudaKernel_t *kernel, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = kernel ? find(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *kernel = mt_function_handle(f);
    return e;
}
#endif

cudaError_t IMPL(cudaGetFuncBySymbol)(cudaFunction_t *out, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = out ? find(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *out = (cudaFunction_t)mt_function_handle(f);
    return e;
}

/* ---- occupancy ---- */

cudaError_t IMPL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int *blocks, const void *func,
                                                                         int threads, size_t shared,
                                                                         unsigned flags)
{
    struct mt_function *f = NULL;
    cudaError_t e = blocks && threads > 0 ? find(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *blocks = (int)mt_launch_resident(f, (unsigned)threads, shared);
    return e;
}

cudaError_t IMPL(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(int *blocks, const void *func, int threads,
                                                                size_t shared)
{
    return IMPL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(blocks, func, threads, shared, 0);
}

cudaError_t IMPL(cudaOccupancyAvailableDynamicSMemPerBlock)(size_t *bytes, const void *func, int blocks,
                                                            int threads)
{
    struct mt_function *f = NULL;
    cudaError_t e = bytes && blocks > 0 && threads > 0 ? find(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    size_t each = MT_DEV_SHARED_SM / (size_t)blocks,
           fixed = f->kernel->shared_static + MT_DEV_SHARED_RESERVED;
    size_t left = each > fixed ? each - fixed : 0, most = mt_launch_dynamic_max(f);
    *bytes = left < most ? left : most;
    return cudaSuccess;
}
