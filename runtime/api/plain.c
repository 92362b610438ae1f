/* On a GPU: kernels have two versions, with record calls and without (llvm-pass/gpu/gpu_plain.c). The program
 * knows one; which of the two runs is decided at each launch. What it asks of the kernel is told of the one
 * without, where the other does not allow less; what it sets is set for both. */
#include "device.h"
#include "entry.h"
#include "error.h"
#include "module.h"
#include "plain.h"
#include "common/report.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mt_plain_register(void **real, struct mt_function *f)
{
    size_t n = strlen(f->name) + sizeof MT_PLAIN_SUFFIX;
    char *name = f->kernel && f->kernel->flags & MT_KERNEL_GPU_PLAIN ? malloc(n) : NULL;
    if (!name)
        return;
    snprintf(name, n, "%s%s", f->name, MT_PLAIN_SUFFIX); /* stays: the runtime may keep the pointer */
    MT_NEXT(__cudaRegisterFunction)
    (real, &f->plain_key, name, name, f->thread_limit, NULL, NULL, NULL, NULL, NULL);
    mt_function_alias(&f->plain_key, f); /* a program may find it in the nodes of a graph */
    f->has_plain = 1;
}

const void *mt_plain_of(const struct mt_function *f)
{
    return f && f->has_plain ? &f->plain_key : NULL;
}

static unsigned threads_of(const struct mt_launch_config *c)
{
    return c->block.x * c->block.y * c->block.z;
}

static uint64_t blocks_of(const struct mt_launch_config *c)
{
    return (uint64_t)c->grid.x * c->grid.y * c->grid.z;
}

/* What a launch of `func` will be refused for, as far as the runtime can be asked. */
static cudaError_t refusal(const void *func, const struct mt_launch_config *c)
{
    struct cudaFuncAttributes a;
    int device, sms, each;
    if (!MT_NEXT(cudaFuncGetAttributes)(&a, func) && threads_of(c) > (unsigned)a.maxThreadsPerBlock)
        return cudaErrorLaunchOutOfResources;
    if (c->cooperative && !MT_NEXT(cudaGetDevice)(&device) &&
        !MT_NEXT(cudaDeviceGetAttribute)(&sms, cudaDevAttrMultiProcessorCount, device) &&
        !MT_NEXT(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&each, func, (int)threads_of(c), c->shared) &&
        blocks_of(c) > (uint64_t)each * (unsigned)sms)
        return cudaErrorCooperativeLaunchTooLarge;
    return cudaSuccess;
}

cudaError_t mt_plain_must(const struct mt_function *f, const struct mt_launch_config *c)
{
    cudaError_t e = mt_plain_of(f) ? refusal(f->host, c) : cudaSuccess;
    return e && !refusal(mt_plain_of(f), c) ? e : cudaSuccess;
}

void mt_plain_tell(struct mt_function *f, const struct mt_launch_config *c, cudaError_t why)
{
    const char *name = f->kernel->pretty;
    if (atomic_exchange(&f->told, 1))
        return;
    if (why == cudaErrorCooperativeLaunchTooLarge)
        mt_report(
            "kernel %s is not traced: with record calls, fewer than its %llu blocks of %u threads fit on "
            "the GPU at once (said once for each kernel)",
            name, (unsigned long long)blocks_of(c), threads_of(c));
    else
        mt_report(
            "kernel %s is not traced: with record calls, a block of %u threads needs more registers than "
            "the GPU has (said once for each kernel)",
            name, threads_of(c));
}

cudaKernel_t mt_plain_handle(struct mt_function *f)
{
    cudaKernel_t k = NULL;
    if (!mt_plain_of(f))
        return NULL;
    if (!f->plain_handle && !MT_NEXT(__cudaGetKernel)(&k, mt_plain_of(f)))
        f->plain_handle = k;
    return f->plain_handle;
}

static const void *plain_of(const void *func)
{
    return mt_device_is_gpu() ? mt_plain_of(mt_function_find(func)) : NULL;
}

cudaError_t REC(cudaFuncGetAttributes)(struct cudaFuncAttributes *a, const void *func)
{
    const void *plain = plain_of(func);
    struct cudaFuncAttributes traced;
    cudaError_t e = MT_NEXT(cudaFuncGetAttributes)(a, plain ? plain : func);
    if (e || !plain || MT_NEXT(cudaFuncGetAttributes)(&traced, func))
        return e;
    if (traced.maxThreadsPerBlock < a->maxThreadsPerBlock)
        a->maxThreadsPerBlock = traced.maxThreadsPerBlock;
    if (traced.maxDynamicSharedSizeBytes < a->maxDynamicSharedSizeBytes)
        a->maxDynamicSharedSizeBytes = traced.maxDynamicSharedSizeBytes;
    return e;
}

cudaError_t REC(cudaFuncSetAttribute)(const void *func, enum cudaFuncAttribute a, int value)
{
    const void *plain = plain_of(func);
    cudaError_t e = MT_NEXT(cudaFuncSetAttribute)(func, a, value);
    return e || !plain ? e : MT_NEXT(cudaFuncSetAttribute)(plain, a, value);
}

cudaError_t REC(cudaFuncSetCacheConfig)(const void *func, enum cudaFuncCache config)
{
    const void *plain = plain_of(func);
    cudaError_t e = MT_NEXT(cudaFuncSetCacheConfig)(func, config);
    return e || !plain ? e : MT_NEXT(cudaFuncSetCacheConfig)(plain, config);
}

#if CUDART_VERSION < 14000
cudaError_t REC(cudaFuncSetSharedMemConfig)(const void *func, enum cudaSharedMemConfig config)
{
    const void *plain = plain_of(func);
    cudaError_t e = MT_NEXT(cudaFuncSetSharedMemConfig)(func, config);
    return e || !plain ? e : MT_NEXT(cudaFuncSetSharedMemConfig)(plain, config);
}
#endif
