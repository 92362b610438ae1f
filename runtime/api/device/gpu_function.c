/* The two versions of kernels on a GPU, with and without record calls (llvm-pass/gpu/gpu_plain.c). The
 * program knows the one without, under its own name; the version to run is chosen at each launch. Launches of
 * handles given out by the runtime, and programs without tables, run that one, too. Queries about a kernel
 * are answered from it, unless the other version allows less; attributes are set on both. */
#include "device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/report.h"
#include "base/source_name.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void plain_register_as(void **real, struct mt_function *f, const void *key, char *name)
{
    MT_NEXT(__cudaRegisterFunction)
    (real, key, name, name, f->thread_limit, NULL, NULL, NULL, NULL, NULL);
}

void mt_function_register(void **real, struct mt_function *f)
{
    uint32_t flags = f->kernel ? f->kernel->flags : 0;
    size_t n = strlen(f->name) + sizeof MT_TRACED_SUFFIX;
    char *name = flags & MT_KERNEL_GPU_RECORDS ? malloc(n) : NULL;
    if (name)
        snprintf(name, n, "%s%s", f->name,
                 MT_TRACED_SUFFIX); /* never freed: the runtime may keep the pointer */
    if (name && flags & MT_KERNEL_GPU_ALONE) {
        plain_register_as(real, f, f->host, name);
        return;
    }
    MT_NEXT(__cudaRegisterFunction)
    (real, f->host, f->device, f->name, f->thread_limit, NULL, NULL, NULL, NULL, NULL);
    if (!name)
        return;
    plain_register_as(real, f, &f->traced_key, name);
    mt_function_alias(&f->traced_key, f);
    f->has_traced = 1;
}

const void *mt_function_traced(const struct mt_function *f)
{
    return f->has_traced ? &f->traced_key : f->host;
}

const void *mt_function_plain(const struct mt_function *f)
{
    return f && f->has_traced ? f->host : NULL;
}

static unsigned threads_of(const struct mt_launch_config *c)
{
    return c->block.x * c->block.y * c->block.z;
}

static uint64_t blocks_of(const struct mt_launch_config *c)
{
    return (uint64_t)c->grid.x * c->grid.y * c->grid.z;
}

/* Returns the error that a launch of `func` would give, as far as the runtime can tell. */
static cudaError_t plain_refusal(const void *func, const struct mt_launch_config *c)
{
    struct cudaFuncAttributes a;
    int device, sms, each;
    int known = !MT_NEXT(cudaFuncGetAttributes)(&a, func);
    if (known && threads_of(c) > (unsigned)a.maxThreadsPerBlock)
        return cudaErrorLaunchOutOfResources;
    if (known && a.maxDynamicSharedSizeBytes > 0 && c->shared > (size_t)a.maxDynamicSharedSizeBytes)
        return cudaErrorInvalidValue;
    if (c->cooperative && !MT_NEXT(cudaGetDevice)(&device) &&
        !MT_NEXT(cudaDeviceGetAttribute)(&sms, cudaDevAttrMultiProcessorCount, device) &&
        !MT_NEXT(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&each, func, (int)threads_of(c), c->shared) &&
        blocks_of(c) > (uint64_t)each * (unsigned)sms)
        return cudaErrorCooperativeLaunchTooLarge;
    return cudaSuccess;
}

cudaError_t mt_function_must_plain(const struct mt_function *f, const struct mt_launch_config *c)
{
    cudaError_t e = mt_function_plain(f) ? plain_refusal(mt_function_traced(f), c) : cudaSuccess;
    return e && !plain_refusal(mt_function_plain(f), c) ? e : cudaSuccess;
}

void mt_function_tell_plain(struct mt_function *f, const struct mt_launch_config *c, cudaError_t why)
{
    const char *name = f->kernel->pretty;
    if (atomic_exchange(&f->told, 1))
        return;
    if (why == cudaErrorCooperativeLaunchTooLarge)
        mt_report(
            "kernel %s is not traced: with record calls, fewer than its %llu blocks of %u threads fit on "
            "the GPU at once (said once for each kernel)",
            mt_short(name).text, (unsigned long long)blocks_of(c), threads_of(c));
    else if (why == cudaErrorInvalidValue)
        mt_report(
            "kernel %s is not traced: with record calls, %llu bytes of dynamic shared memory are more than "
            "there are (said once for each kernel)",
            mt_short(name).text, (unsigned long long)c->shared);
    else
        mt_report(
            "kernel %s is not traced: with record calls, a block of %u threads needs more registers than "
            "the GPU has (said once for each kernel)",
            mt_short(name).text, threads_of(c));
}

cudaKernel_t mt_function_traced_handle(struct mt_function *f)
{
    cudaKernel_t k = NULL;
    if (!f->has_traced)
        return NULL;
    if (!f->traced_handle && !MT_NEXT(__cudaGetKernel)(&k, mt_function_traced(f)))
        f->traced_handle = k;
    return f->traced_handle;
}

/* Returns the other version of the program's kernel, or NULL if there is none. */
static const void *plain_other(const void *func)
{
    struct mt_function *f = mt_device_is_gpu() ? mt_function_find(func) : NULL;
    return f && f->has_traced && func != &f->traced_key ? mt_function_traced(f) : NULL;
}

cudaError_t rec_cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *func)
{
    const void *other = plain_other(func);
    struct cudaFuncAttributes traced;
    cudaError_t e = MT_NEXT(cudaFuncGetAttributes)(a, func);
    if (e || !other || MT_NEXT(cudaFuncGetAttributes)(&traced, other))
        return e;
    if (traced.maxThreadsPerBlock < a->maxThreadsPerBlock)
        a->maxThreadsPerBlock = traced.maxThreadsPerBlock;
    return e;
}

cudaError_t rec_cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute a, int value)
{
    const void *other = plain_other(func);
    cudaError_t e = MT_NEXT(cudaFuncSetAttribute)(func, a, value);
    int clean = mt_error_hold();
    if (!e && other) /* shared memory that does not fit beside the needs of record calls: such launches run
                        without them */
        MT_NEXT(cudaFuncSetAttribute)(other, a, value);
    mt_error_release(clean);
    return e;
}

cudaError_t rec_cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    const void *other = plain_other(func);
    cudaError_t e = MT_NEXT(cudaFuncSetCacheConfig)(func, config);
    return e || !other ? e : MT_NEXT(cudaFuncSetCacheConfig)(other, config);
}

#if CUDART_VERSION < 14000
cudaError_t rec_cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    const void *other = plain_other(func);
    cudaError_t e = MT_NEXT(cudaFuncSetSharedMemConfig)(func, config);
    return e || !other ? e : MT_NEXT(cudaFuncSetSharedMemConfig)(other, config);
}
#endif

/* ---- occupancy: queried for the version with record calls, so that a grid sized by it fits when traced ----
 */

static const void *plain_larger(const void *func)
{
    const void *other = plain_other(func);
    return other ? other : func;
}

cudaError_t rec_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func, int threads,
                                                              size_t shared)
{
    return MT_NEXT(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, plain_larger(func), threads,
                                                                  shared);
}

cudaError_t rec_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func,
                                                                       int threads, size_t shared,
                                                                       unsigned flags)
{
    return MT_NEXT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(blocks, plain_larger(func),
                                                                           threads, shared, flags);
}

cudaError_t rec_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *func, int blocks,
                                                          int threads)
{
    return MT_NEXT(cudaOccupancyAvailableDynamicSMemPerBlock)(bytes, plain_larger(func), blocks, threads);
}

#if CUDART_VERSION >= 11080
cudaError_t rec_cudaOccupancyMaxPotentialClusterSize(int *size, const void *func,
                                                     const cudaLaunchConfig_t *config)
{
    return MT_NEXT(cudaOccupancyMaxPotentialClusterSize)(size, plain_larger(func), config);
}

cudaError_t rec_cudaOccupancyMaxActiveClusters(int *clusters, const void *func,
                                               const cudaLaunchConfig_t *config)
{
    return MT_NEXT(cudaOccupancyMaxActiveClusters)(clusters, plain_larger(func), config);
}
#endif

/* ---- kernel handles given to the program, which the driver among others can launch, unseen by us ---- */

static cudaError_t plain_handed_out(cudaError_t e, void *const *handle, const void *func)
{
    static atomic_int said;
    struct mt_function *f = e ? NULL : mt_function_find(func);
    if (!f)
        return e;
    mt_function_alias(*handle, f);
    if (f->has_traced && !atomic_exchange(&said, 1))
        mt_note("kernel %s was handed out by the CUDA runtime: launches of such by the driver "
                "(cuLaunchKernel) are "
                "not traced (said once)",
                mt_short((const char *)f->kernel->pretty).text);
    return e;
}

/* Returns whether the kernel's only version takes an argument unknown to the program. */
static int plain_keeps(const void *func)
{
    const struct mt_function *f = mt_function_find(func);
    if (!f || !f->kernel || !(f->kernel->flags & MT_KERNEL_GPU_ALONE))
        return 0;
    mt_report("kernel %s is not handed out: it was compiled with gpu-plain=off",
              mt_short((const char *)f->kernel->pretty).text);
    return 1;
}

#if CUDART_VERSION >= 12010
cudaError_t rec_cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    if (!mt_device_is_gpu())
        return MT_NEXT(cudaGetKernel)(kernel, func);
    return plain_keeps(func)
               ? cudaErrorNotSupported
               : plain_handed_out(MT_NEXT(cudaGetKernel)(kernel, func), (void *const *)kernel, func);
}
#endif

cudaError_t rec_cudaGetFuncBySymbol(cudaFunction_t *function, const void *func)
{
    if (!mt_device_is_gpu())
        return MT_NEXT(cudaGetFuncBySymbol)(function, func);
    return plain_keeps(func) ? cudaErrorNotSupported
                             : plain_handed_out(MT_NEXT(cudaGetFuncBySymbol)(function, func),
                                                (void *const *)function, func);
}
