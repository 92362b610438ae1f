/* Modules, libraries, kernels and functions of the driver API. On the CPU device a module and a library are
 * the same, and so are a kernel and its function. */
#include "driver.h"
#include "api/device/device.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mt_module *module_of(void *handle)
{
    return mt_library_is(handle) ? handle : NULL;
}

/* ---- loading ---- */

void mt_driver_log(unsigned n, const CUjit_option *options, void **values, const char *why)
{
    char *buffer[2] = {NULL, NULL};
    const char *text[2] = {"", why ? why : ""};
    unsigned size[2] = {0, 0}, at[2] = {n, n};
    for (unsigned i = 0; i < n; i++)
        switch ((int)options[i]) {
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER:
            buffer[options[i] == CU_JIT_ERROR_LOG_BUFFER] = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            size[options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES] = (unsigned)(uintptr_t)values[i];
            at[options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES] = i;
            break;
        default:
            break;
        }
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(text[i]);
        if (buffer[i] && size[i])
            snprintf(buffer[i], size[i], "%s", text[i]);
        if (at[i] < n)
            values[at[i]] = (void *)(uintptr_t)(length < size[i] ? length : size[i]);
    }
}

static CUresult module_load(CUmodule *out, const struct mt_device_code *code, unsigned n,
                            const CUjit_option *options, void **values)
{
    static const CUresult results[] = {CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_IMAGE,
                                       CUDA_ERROR_INVALID_PTX, CUDA_ERROR_NO_BINARY_FOR_GPU};
    struct mt_module *m = NULL;
    char *why = NULL;
    CUresult e = results[mt_library_load(&m, code, 1, &why)];
    if (options && values)
        mt_driver_log(n, options, values, why);
    free(why);
    if (!e)
        *out = (CUmodule)m;
    return e;
}

static CUresult module_load_data(CUmodule *module, const void *image, unsigned n, const CUjit_option *options,
                                 void **values)
{
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    struct mt_device_code code = {image, mt_device_code_bytes(image)};
    return module_load(module, &code, n, options, values);
}

static CUresult module_load_file(CUmodule *module, const char *path)
{
    size_t bytes = 0;
    if (!module || !path)
        return CUDA_ERROR_INVALID_VALUE;
    void *data = mt_library_file(path, &bytes);
    if (!data)
        return errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_IMAGE;
    CUresult e = module_load(module, &(struct mt_device_code){data, bytes}, 0, NULL, NULL);
    free(data);
    return e;
}

CUresult drv_cuModuleLoad(CUmodule *module, const char *path)
{
    return module_load_file(module, path);
}

CUresult drv_cuModuleLoadData(CUmodule *module, const void *image)
{
    return module_load_data(module, image, 0, NULL, NULL);
}

CUresult drv_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *options,
                                void **values)
{
    return module_load_data(module, image, n, options, values);
}

CUresult drv_cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return module_load_data(module, image, 0, NULL, NULL);
}

CUresult drv_cuModuleUnload(CUmodule module)
{
    struct mt_module *m = module_of(module);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult e = mt_driver_result(cudaDeviceSynchronize());
    mt_library_unload(m);
    return e;
}

CUresult drv_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

/* ---- what is in one ---- */

static CUresult module_function(struct mt_function **out, void *handle, const char *name)
{
    struct mt_module *m = module_of(handle);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct mt_function *f = mt_library_kernel(m, name);
    if (!f)
        return CUDA_ERROR_NOT_FOUND;
    *out = f;
    return CUDA_SUCCESS;
}

CUresult drv_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    return module_function((struct mt_function **)function, module, name);
}

static CUresult module_global(CUdeviceptr *address, size_t *bytes, void *handle, const char *name)
{
    struct mt_module *m = module_of(handle);
    void *p = NULL;
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name || (!address && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!mt_library_variable(m, name, &p, bytes))
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult drv_cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    return module_global(address, bytes, module, name);
}

/* ---- libraries and kernels ---- */

#if CUDA_VERSION >= 12000
CUresult drv_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **values,
                               unsigned njit, CUlibraryOption *options, void **option_values, unsigned n)
{
    return module_load_data((CUmodule *)library, code, njit, jit, values);
}

CUresult drv_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **values,
                                   unsigned njit, CUlibraryOption *options, void **option_values, unsigned n)
{
    return module_load_file((CUmodule *)library, path);
}

CUresult drv_cuLibraryUnload(CUlibrary library)
{
    return drv_cuModuleUnload((CUmodule)library);
}

CUresult drv_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    return module_function((struct mt_function **)kernel, library, name);
}

CUresult drv_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    if (!module || !module_of(library))
        return module ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)library;
    return CUDA_SUCCESS;
}

CUresult drv_cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    return module_global(address, bytes, library, name);
}

CUresult drv_cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    return module_global(address, bytes, library, name);
}

CUresult drv_cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *symbol)
{
    return CUDA_ERROR_NOT_FOUND;
}

CUresult drv_cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    if (!function || !mt_function_find(kernel))
        return function ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}
#endif

#if CUDA_VERSION >= 12050
CUresult drv_cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    return drv_cuFuncGetModule((CUmodule *)library, (CUfunction)kernel);
}
#endif

CUresult drv_cuFuncGetModule(CUmodule *module, CUfunction function)
{
    struct mt_function *f = mt_function_find(function);
    if (!module || !f)
        return module ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)f->module;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12040
CUresult drv_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    if (!state || !mt_function_find(function))
        return state ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult drv_cuFuncLoad(CUfunction function)
{
    return mt_function_find(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
#endif

/* ---- attributes ---- */

static CUresult module_attribute(int *value, CUfunction_attribute a, const void *function)
{
    struct cudaFuncAttributes f;
    CUresult e = value ? mt_driver_result(cudaFuncGetAttributes(&f, function)) : CUDA_ERROR_INVALID_VALUE;
    if (e)
        return e;
    const struct {
        CUfunction_attribute attribute;
        int value;
    } all[] = {
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f.maxThreadsPerBlock},
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, (int)f.sharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, (int)f.constSizeBytes},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, (int)f.localSizeBytes},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, f.numRegs},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, f.ptxVersion},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, f.binaryVersion},
        {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, f.cacheModeCA},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f.maxDynamicSharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, f.preferredShmemCarveout},
#if CUDA_VERSION >= 12000
        {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, f.clusterDimMustBeSet},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, f.requiredClusterWidth},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, f.requiredClusterHeight},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, f.requiredClusterDepth},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, f.nonPortableClusterSizeAllowed},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, f.clusterSchedulingPolicyPreference},
#endif
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].attribute == a) {
            *value = all[i].value;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction function)
{
    return module_attribute(value, a, function);
}

#if CUDA_VERSION >= 12000
CUresult drv_cuKernelGetAttribute(int *value, CUfunction_attribute a, CUkernel kernel, CUdevice device)
{
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE : module_attribute(value, a, kernel);
}

CUresult drv_cuKernelSetAttribute(CUfunction_attribute a, int value, CUkernel kernel, CUdevice device)
{
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE
                       : mt_driver_result(cudaFuncSetAttribute(kernel, (enum cudaFuncAttribute)a, value));
}

CUresult drv_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE
                       : mt_driver_result(cudaFuncSetCacheConfig(kernel, (enum cudaFuncCache)config));
}
#endif
