/* How many CTAs of a kernel fit on the CPU device's SMs: by the limits of an sm_90, with the registers that
 * cudaFuncGetAttributes names. */
#include "entry.h"
#include "device.h"
#include "error.h"
#include "launch.h"
#include "module.h"

cudaError_t IMPL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int *blocks, const void *func,
                                                                         int threads, size_t shared,
                                                                         unsigned flags)
{
    struct mt_function *f = NULL;
    if (flags & ~(unsigned)cudaOccupancyDisableCachingOverride)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = blocks && threads > 0 ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
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
    cudaError_t e =
        bytes && blocks > 0 && threads > 0 ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    size_t each = MT_DEV_SHARED_SM / (size_t)blocks,
           fixed = f->kernel->shared_static + MT_DEV_SHARED_RESERVED;
    size_t left = each > fixed ? each - fixed : 0, most = mt_launch_dynamic_max(f);
    *bytes = left < most ? left : most;
    return cudaSuccess;
}

#if CUDART_VERSION >= 11080
/* A cluster is one CTA. */
cudaError_t IMPL(cudaOccupancyMaxPotentialClusterSize)(int *size, const void *func,
                                                       const cudaLaunchConfig_t *config)
{
    struct mt_function *f = NULL;
    cudaError_t e = size && config ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *size = 1;
    return e;
}

cudaError_t IMPL(cudaOccupancyMaxActiveClusters)(int *clusters, const void *func,
                                                 const cudaLaunchConfig_t *config)
{
    struct mt_function *f = NULL;
    uint64_t ctas = 1;
    cudaError_t e = clusters && config ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            ctas = (uint64_t)config->attrs[i].val.clusterDim.x * config->attrs[i].val.clusterDim.y *
                   config->attrs[i].val.clusterDim.z;
    if (!ctas)
        return mt_fail(cudaErrorInvalidClusterSize);
    uint64_t threads = (uint64_t)config->blockDim.x * config->blockDim.y * config->blockDim.z;
    if (!threads || threads > MT_DEV_THREADS_PER_BLOCK)
        return mt_fail(cudaErrorInvalidConfiguration);
    *clusters =
        ctas > 1
            ? 0
            : (int)(mt_launch_resident(f, (unsigned)threads, config->dynamicSmemBytes) * mt_device_sms());
    return cudaSuccess;
}
#endif
