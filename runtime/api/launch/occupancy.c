/* How many CTAs of a kernel fit on the CPU device's SMs: by the limits of an sm_90, with the registers that
 * cudaFuncGetAttributes names. */
#include "api/entry.h"
#include "api/device/device.h"
#include "api/tables/error.h"
#include "launch.h"

cudaError_t impl_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func,
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

cudaError_t impl_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func, int threads,
                                                               size_t shared)
{
    return impl_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, threads, shared, 0);
}

cudaError_t impl_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *func, int blocks,
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
/* The clusters of a launch; the threads of a block, in *threads. */
static cudaError_t cluster_of(const struct mt_function *f, const cudaLaunchConfig_t *config, uint32_t size[3],
                              unsigned *threads)
{
    dim3 asked = {0, 0, 0};
    uint64_t n = (uint64_t)config->blockDim.x * config->blockDim.y * config->blockDim.z;
    *threads = n > MT_DEV_THREADS_PER_BLOCK ? 0 : (unsigned)n;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            asked = (dim3){config->attrs[i].val.clusterDim.x, config->attrs[i].val.clusterDim.y,
                           config->attrs[i].val.clusterDim.z};
            if (!asked.x)
                return cudaErrorInvalidClusterSize;
        }
    return *threads ? mt_launch_cluster(f, asked, size) : cudaErrorInvalidConfiguration;
}

cudaError_t impl_cudaOccupancyMaxPotentialClusterSize(int *size, const void *func,
                                                      const cudaLaunchConfig_t *config)
{
    struct mt_function *f = NULL;
    cudaError_t e = size && config ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    uint32_t must[3];
    if (e)
        return e;
    e = mt_launch_cluster(f, (dim3){0, 0, 0}, must);
    *size = must[0]                  ? (int)(must[0] * must[1] * must[2])
            : f->cluster_nonportable ? MT_DEV_CLUSTER_NONPORTABLE
                                     : MT_DEV_CLUSTER;
    return cudaSuccess;
}

cudaError_t impl_cudaOccupancyMaxActiveClusters(int *clusters, const void *func,
                                                const cudaLaunchConfig_t *config)
{
    struct mt_function *f = NULL;
    uint32_t size[3] = {0};
    unsigned threads = 0;
    cudaError_t e = clusters && config ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    if ((e = cluster_of(f, config, size, &threads)))
        return mt_fail(e);
    unsigned ctas = size[0] ? size[0] * size[1] * size[2] : 1,
             resident = mt_launch_resident(f, threads, config->dynamicSmemBytes) * mt_device_sms();
    /* A cluster always runs as one, however few SMs are shown. */
    *clusters = (int)(resident && resident < ctas ? 1 : resident / ctas);
    return cudaSuccess;
}
#endif
