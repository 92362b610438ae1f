/* On a GPU: kernels have two versions, with record calls and without (llvm-pass/gpu_plain.c). The program
 * knows one; which of the two runs is decided at each launch. What it asks of the kernel is told of the one
 * without, where the other does not allow less; what it sets is set for both. */
#include "device.h"
#include "entry.h"
#include "error.h"
#include "module.h"
#include "plain.h"
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
