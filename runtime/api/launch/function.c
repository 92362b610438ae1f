/* Kernels as objects, on the CPU device: attributes, names, handles. */
#include "api/entry.h"
#include "api/device/device.h"
#include "api/tables/error.h"
#include "launch.h"
#include <string.h>

cudaError_t mt_function_get(const void *func, struct mt_function **f)
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
    mt_function_complain(*f);
    return mt_fail(cudaErrorNoKernelImageForDevice);
}

cudaError_t impl_cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = a ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    memset(a, 0, sizeof *a);
    a->sharedSizeBytes = f->kernel->shared_static;
    a->maxThreadsPerBlock = (int)mt_launch_threads_max(f);
    a->numRegs = MT_DEV_KERNEL_REGISTERS;
    /* Host code chooses launch shapes by it (CUB), as device code was compiled for it. */
    a->binaryVersion = MT_DEV_MAJOR * 10 + MT_DEV_MINOR;
    a->ptxVersion = (int)f->image->head->arch;
    if (!a->ptxVersion)
        a->ptxVersion = a->binaryVersion;
    a->maxDynamicSharedSizeBytes = (int)mt_launch_dynamic_max(f);
    a->preferredShmemCarveout = f->carveout;
#if CUDART_VERSION >= 12000
    const struct mt_image_kernel *k = f->kernel;
    a->clusterDimMustBeSet = k->cluster_x || f->cluster_must;
    a->requiredClusterWidth = k->cluster_x ? (int)k->cluster_x : f->cluster[0];
    a->requiredClusterHeight = k->cluster_x ? (int)k->cluster_y : f->cluster[1];
    a->requiredClusterDepth = k->cluster_x ? (int)k->cluster_z : f->cluster[2];
    a->clusterSchedulingPolicyPreference = f->cluster_policy;
    a->nonPortableClusterSizeAllowed = f->cluster_nonportable;
#endif
    return cudaSuccess;
}

#if CUDART_VERSION >= 12000
static cudaError_t set_cluster(struct mt_function *f, enum cudaFuncAttribute a, int value)
{
    int most = a == cudaFuncAttributeClusterSchedulingPolicyPreference ? 2 : 1;
    switch ((int)a) {
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth:
        if (f->kernel->cluster_x)
            return cudaErrorNotPermitted;
        if (value < 0)
            return cudaErrorInvalidValue;
        f->cluster[a - cudaFuncAttributeRequiredClusterWidth] = value;
        return cudaSuccess;
    case cudaFuncAttributeClusterDimMustBeSet:
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
        if (value < 0 || value > most)
            return cudaErrorInvalidValue;
        *(a == cudaFuncAttributeClusterDimMustBeSet             ? &f->cluster_must
          : a == cudaFuncAttributeNonPortableClusterSizeAllowed ? &f->cluster_nonportable
                                                                : &f->cluster_policy) = value;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}
#endif

cudaError_t impl_cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute a, int value)
{
    struct mt_function *f = NULL;
    cudaError_t e = mt_function_get(func, &f);
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
#if CUDART_VERSION >= 12000
    e = set_cluster(f, a, value);
    return e ? mt_fail(e) : e;
#else
    return mt_fail(cudaErrorInvalidValue);
#endif
}

cudaError_t impl_cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    struct mt_function *f = NULL;
    cudaError_t e = mt_function_get(func, &f);
    return !e && (unsigned)config > cudaFuncCachePreferEqual ? mt_fail(cudaErrorInvalidValue) : e;
}

#if CUDART_VERSION < 14000
cudaError_t impl_cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    struct mt_function *f = NULL;
    return mt_function_get(func, &f);
}
#endif

#if CUDART_VERSION >= 12030
cudaError_t impl_cudaFuncGetName(const char **name, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = name ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *name = f->name;
    return e;
}
#endif

#if CUDART_VERSION >= 12040
cudaError_t impl_cudaFuncGetParamInfo(const void *func, size_t index, size_t *offset, size_t *size)
{
    struct mt_function *f = NULL;
    cudaError_t e = offset ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
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
cudaError_t impl_cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = kernel ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *kernel = mt_function_handle(f);
    return e;
}
#endif

cudaError_t impl_cudaGetFuncBySymbol(cudaFunction_t *out, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = out ? mt_function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *out = (cudaFunction_t)mt_function_handle(f);
    return e;
}
