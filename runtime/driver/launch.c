/* Launches of the driver API. */
#include "launch.h"
#include "api/device/device.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `extra`: the arguments as one buffer, laid out as the parameters of the kernel are. */
static CUresult launch_unpack(void **args, const struct mt_image_kernel *k, void **extra)
{
    const struct mt_image_param *p = k->params;
    char *buffer = NULL;
    const size_t *size = NULL;
    size_t at = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!buffer || !size)
        return k->nparams ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (uint32_t i = 0; i < k->nparams; i++) {
        size_t align = p[i].align ? p[i].align : 1;
        at = (at + align - 1) / align * align;
        if (at + p[i].size > *size)
            return CUDA_ERROR_INVALID_VALUE;
        args[i] = buffer + at;
        at += p[i].size;
    }
    return CUDA_SUCCESS;
}

CUresult mt_driver_arguments(struct mt_driver_arguments *a, const void *function, void **params, void **extra)
{
    struct mt_function *f = mt_function_find(function);
    a->args = params;
    a->made = NULL;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f->kernel || params || (!extra && !f->kernel->nparams))
        return CUDA_SUCCESS;
    if (!extra)
        return CUDA_ERROR_INVALID_VALUE;
    a->made = malloc((f->kernel->nparams + 1) * sizeof *a->made);
    a->args = a->made;
    return a->made ? launch_unpack(a->made, f->kernel, extra) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult drv_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    struct mt_driver_arguments a;
    CUresult e = mt_driver_arguments(&a, f, params, extra);
    if (!e)
        e = mt_driver_result(cudaLaunchKernel(f, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, a.args, shared,
                                              (cudaStream_t)stream));
    free(a.made);
    return e;
}

CUresult drv_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                       unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                       void **params)
{
    struct mt_driver_arguments a;
    CUresult e = mt_driver_arguments(&a, f, params, NULL);
    return e ? e
             : mt_driver_result(cudaLaunchCooperativeKernel(f, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, a.args,
                                                            shared, (cudaStream_t)stream));
}

#if CUDA_VERSION >= 11080
/* The runtime's form of a launch configuration; the attributes are the same ones. */
static cudaLaunchConfig_t driver_config(const CUlaunchConfig *c)
{
    _Static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute), "the same attributes");
    return (cudaLaunchConfig_t){.gridDim = {c->gridDimX, c->gridDimY, c->gridDimZ},
                                .blockDim = {c->blockDimX, c->blockDimY, c->blockDimZ},
                                .dynamicSmemBytes = c->sharedMemBytes,
                                .stream = (cudaStream_t)c->hStream,
                                .attrs = (cudaLaunchAttribute *)(void *)c->attrs,
                                .numAttrs = c->numAttrs};
}

CUresult drv_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    struct mt_driver_arguments a;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    cudaLaunchConfig_t c = driver_config(config);
    CUresult e = mt_driver_arguments(&a, f, params, extra);
    if (!e)
        e = mt_driver_result(cudaLaunchKernelExC(&c, f, a.args));
    free(a.made);
    return e;
}

CUresult drv_cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    cudaLaunchConfig_t c = driver_config(config);
    return mt_driver_result(cudaOccupancyMaxPotentialClusterSize(size, f, &c));
}

CUresult drv_cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    cudaLaunchConfig_t c = driver_config(config);
    return mt_driver_result(cudaOccupancyMaxActiveClusters(n, f, &c));
}
#endif

/* The block with which most threads are on an SM; the largest of those. */
CUresult drv_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                       CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                       unsigned flags)
{
    struct cudaFuncAttributes a;
    int sms = 0, most = 0;
    CUresult e = !grid || !block ? CUDA_ERROR_INVALID_VALUE : mt_driver_result(cudaFuncGetAttributes(&a, f));
    if (!e)
        e = mt_driver_result(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    if (e)
        return e;
    int top = limit > 0 && limit < a.maxThreadsPerBlock ? limit : a.maxThreadsPerBlock;
    *grid = *block = 0;
    for (int threads = (top + 31) / 32 * 32; threads > 0; threads -= 32) {
        int size = threads < top ? threads : top, n = 0;
        cudaError_t bad = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &n, f, size, shared_of ? shared_of(size) : shared, flags);
        if (bad)
            return mt_driver_result(bad);
        if (n * size > most) {
            most = n * size;
            *block = size;
            *grid = n * sms;
        }
    }
    return CUDA_SUCCESS;
}

CUresult drv_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                              CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return drv_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_of, shared, limit, 0);
}
