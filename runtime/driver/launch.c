/* Modules, launches and graphs on the CPU device. */
#include "driver.h"
#include "api/device/device.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mt_driver_arguments {
    void **args; /* one pointer per parameter */
    void **made; /* freed by the caller, or NULL */
};

#if CUDA_VERSION >= 11080

#endif

/* Modules, libraries, kernels and functions of the driver API. On the CPU device modules equal libraries, and
 * kernels equal functions. */

static struct mt_module *driver_module_of(void *handle)
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

static CUresult driver_module_load(CUmodule *out, const struct mt_device_code *code, unsigned n,
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
    return driver_module_load(module, &code, n, options, values);
}

static CUresult module_load_file(CUmodule *module, const char *path)
{
    size_t bytes = 0;
    if (!module || !path)
        return CUDA_ERROR_INVALID_VALUE;
    void *data = mt_library_file(path, &bytes);
    if (!data)
        return errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_IMAGE;
    CUresult e = driver_module_load(module, &(struct mt_device_code){data, bytes}, 0, NULL, NULL);
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
    struct mt_module *m = driver_module_of(module);
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

/* ---- contents of a module ---- */

static CUresult driver_module_function(struct mt_function **out, void *handle, const char *name)
{
    struct mt_module *m = driver_module_of(handle);
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
    return driver_module_function((struct mt_function **)function, module, name);
}

static CUresult module_global(CUdeviceptr *address, size_t *bytes, void *handle, const char *name)
{
    struct mt_module *m = driver_module_of(handle);
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
    return driver_module_function((struct mt_function **)kernel, library, name);
}

CUresult drv_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    if (!module || !driver_module_of(library))
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

/* Unpacks `extra`, the arguments as one buffer in the layout of the kernel's parameters. */
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

/* Reads `params` and `extra` of cuLaunchKernel. Returns CUDA_ERROR_INVALID_HANDLE or CUDA_ERROR_INVALID_VALUE
 * on error. */
static CUresult driver_arguments(struct mt_driver_arguments *a, const void *function, void **params,
                                 void **extra)
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
    CUresult e = driver_arguments(&a, f, params, extra);
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
    CUresult e = driver_arguments(&a, f, params, NULL);
    return e ? e
             : mt_driver_result(cudaLaunchCooperativeKernel(f, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, a.args,
                                                            shared, (cudaStream_t)stream));
}

#if CUDA_VERSION >= 11080
/* Converts a launch configuration to the runtime's form; the attributes are identical. */
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
    CUresult e = driver_arguments(&a, f, params, extra);
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

/* Finds the largest block among those with most threads per SM. */
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

/* Graph nodes with parameters in a form specific to the driver API, and older forms of graph functions. */

/* ---- kernels ---- */

typedef cudaError_t graph_kernel_use(void *ctx, const struct cudaKernelNodeParams *p);

/* Passes `p` in the runtime's form to `use`, which copies the arguments. */
static CUresult graph_with_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *p, const void *kernel,
                                  graph_kernel_use *use, void *ctx)
{
    struct mt_driver_arguments a;
    CUresult e = driver_arguments(&a, kernel, p->kernelParams, p->extra);
    struct cudaKernelNodeParams out = {.func = (void *)(uintptr_t)kernel,
                                       .gridDim = {p->gridDimX, p->gridDimY, p->gridDimZ},
                                       .blockDim = {p->blockDimX, p->blockDimY, p->blockDimZ},
                                       .sharedMemBytes = p->sharedMemBytes,
                                       .kernelParams = a.args};
    if (!e)
        e = mt_driver_result(use(ctx, &out));
    free(a.made);
    return e;
}

struct graph_add {
    cudaGraphNode_t *node;
    cudaGraph_t graph;
    const cudaGraphNode_t *after;
    size_t n;
    cudaGraphExec_t exec;
    cudaGraphNode_t of;
};

static cudaError_t graph_add_kernel(void *ctx, const struct cudaKernelNodeParams *p)
{
    struct graph_add *a = ctx;
    return cudaGraphAddKernelNode(a->node, a->graph, a->after, a->n, p);
}

static cudaError_t graph_set_kernel(void *ctx, const struct cudaKernelNodeParams *p)
{
    struct graph_add *a = ctx;
    return a->exec ? cudaGraphExecKernelNodeSetParams(a->exec, a->of, p)
                   : cudaGraphKernelNodeSetParams(a->of, p);
}

/* The first members equal those of the first version. */
_Static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, extra) == offsetof(CUDA_KERNEL_NODE_PARAMS_v1, extra),
               "as in version 1");
static const void *graph_kernel_of(const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    return p->func ? (const void *)p->func : (const void *)p->kern;
}

CUresult drv_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct graph_add a = {
        (cudaGraphNode_t *)node, (cudaGraph_t)graph, (const cudaGraphNode_t *)after, n, NULL, NULL};
    return p ? graph_with_kernel(p, p->func, graph_add_kernel, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                     const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct graph_add a = {
        (cudaGraphNode_t *)node, (cudaGraph_t)graph, (const cudaGraphNode_t *)after, n, NULL, NULL};
    return p ? graph_with_kernel((const void *)p, graph_kernel_of(p), graph_add_kernel, &a)
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node};
    return p ? graph_with_kernel(p, p->func, graph_set_kernel, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node};
    return p ? graph_with_kernel((const void *)p, graph_kernel_of(p), graph_set_kernel, &a)
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node, .exec = (cudaGraphExec_t)exec};
    return p ? graph_with_kernel(p, p->func, graph_set_kernel, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct graph_add a = {.of = (cudaGraphNode_t)node, .exec = (cudaGraphExec_t)exec};
    return p ? graph_with_kernel((const void *)p, graph_kernel_of(p), graph_set_kernel, &a)
             : CUDA_ERROR_INVALID_VALUE;
}

/* Returns the handle given by cuModuleGetFunction. */
static CUfunction graph_function(const void *func)
{
    struct mt_function *f = mt_function_find(func);
    return f ? (CUfunction)mt_function_handle(f) : (CUfunction)(uintptr_t)func;
}

CUresult drv_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    struct cudaKernelNodeParams k;
    CUresult e = p ? mt_driver_result(cudaGraphKernelNodeGetParams((cudaGraphNode_t)node, &k))
                   : CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *p = (CUDA_KERNEL_NODE_PARAMS_v1){
            graph_function(k.func), k.gridDim.x,  k.gridDim.y,      k.gridDim.z,    k.blockDim.x,
            k.blockDim.y,           k.blockDim.z, k.sharedMemBytes, k.kernelParams, NULL};
    return e;
}

CUresult drv_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    CUDA_KERNEL_NODE_PARAMS_v1 first;
    CUresult e = p ? drv_cuGraphKernelNodeGetParams(node, &first) : CUDA_ERROR_INVALID_VALUE;
    if (!e) {
        memset(p, 0, sizeof *p);
        memcpy(p, &first, sizeof first);
    }
    return e;
}

/* ---- copies and fills ---- */

CUresult drv_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_MEMCPY3D_v2 *copy, CUcontext context)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, copy);
    return e ? e
             : mt_driver_result(cudaGraphAddMemcpyNode((cudaGraphNode_t *)node, (cudaGraph_t)graph,
                                                       (const cudaGraphNode_t *)after, n, &p));
}

CUresult drv_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D_v2 *copy)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, copy);
    return e ? e : mt_driver_result(cudaGraphMemcpyNodeSetParams((cudaGraphNode_t)node, &p));
}

CUresult drv_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D_v2 *copy,
                                            CUcontext context)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, copy);
    return e ? e
             : mt_driver_result(
                   cudaGraphExecMemcpyNodeSetParams((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &p));
}

static struct cudaMemsetParams graph_fill(const CUDA_MEMSET_NODE_PARAMS *p)
{
    return (struct cudaMemsetParams){MT_POINTER(p->dst), p->pitch, p->value,
                                     p->elementSize,     p->width, p->height};
}

CUresult drv_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    struct cudaMemsetParams p = fill ? graph_fill(fill) : (struct cudaMemsetParams){0};
    return fill ? mt_driver_result(cudaGraphAddMemsetNode((cudaGraphNode_t *)node, (cudaGraph_t)graph,
                                                          (const cudaGraphNode_t *)after, n, &p))
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    struct cudaMemsetParams p = fill ? graph_fill(fill) : (struct cudaMemsetParams){0};
    return fill ? mt_driver_result(cudaGraphMemsetNodeSetParams((cudaGraphNode_t)node, &p))
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *fill)
{
    struct cudaMemsetParams p;
    CUresult e = fill ? mt_driver_result(cudaGraphMemsetNodeGetParams((cudaGraphNode_t)node, &p))
                      : CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *fill = (CUDA_MEMSET_NODE_PARAMS){
            (CUdeviceptr)(uintptr_t)p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
    return e;
}

CUresult drv_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    struct cudaMemsetParams p = fill ? graph_fill(fill) : (struct cudaMemsetParams){0};
    return fill ? mt_driver_result(
                      cudaGraphExecMemsetNodeSetParams((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &p))
                : CUDA_ERROR_INVALID_VALUE;
}

/* ---- CUDA 12's forms, without edge data ---- */

#if CUDA_VERSION >= 13000
CUresult drv_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    return mt_driver_result(cudaGraphAddDependencies((cudaGraph_t)graph, (const cudaGraphNode_t *)from,
                                                     (const cudaGraphNode_t *)to, NULL, n));
}

CUresult drv_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                       size_t n)
{
    return mt_driver_result(cudaGraphRemoveDependencies((cudaGraph_t)graph, (const cudaGraphNode_t *)from,
                                                        (const cudaGraphNode_t *)to, NULL, n));
}

CUresult drv_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    return mt_driver_result(
        cudaGraphGetEdges((cudaGraph_t)graph, (cudaGraphNode_t *)from, (cudaGraphNode_t *)to, NULL, n));
}

CUresult drv_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *n)
{
    return mt_driver_result(
        cudaGraphNodeGetDependencies((cudaGraphNode_t)node, (cudaGraphNode_t *)nodes, NULL, n));
}

CUresult drv_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *n)
{
    return mt_driver_result(
        cudaGraphNodeGetDependentNodes((cudaGraphNode_t)node, (cudaGraphNode_t *)nodes, NULL, n));
}
#endif

CUresult drv_cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes)
{
    if (bad)
        *bad = NULL;
    if (log && bytes)
        *log = '\0';
    return mt_driver_result(cudaGraphInstantiateWithFlags((cudaGraphExec_t *)exec, (cudaGraph_t)graph, 0));
}

CUresult drv_cuStreamBeginCapture(CUstream stream)
{
    return mt_driver_result(cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeGlobal));
}

/* Graph nodes with parameters of any type. All but three types have the same form in the runtime. */

#if CUDA_VERSION >= 12030
_Static_assert(sizeof(CUgraphNodeParams) == sizeof(struct cudaGraphNodeParams), "one layout");

static CUresult graph_any_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                              CUgraphNodeParams *p)
{
    struct cudaGraphNodeParams q;
    memcpy(&q, p, sizeof q);
    CUresult e = mt_driver_result(cudaGraphAddNode((cudaGraphNode_t *)node, (cudaGraph_t)graph,
                                                   (const cudaGraphNode_t *)after,
#if CUDA_VERSION >= 13000
                                                   NULL,
#endif
                                                   n, &q));
    memcpy(p, &q, sizeof q); /* results: memory, bodies */
    return e;
}

CUresult drv_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                            CUgraphNodeParams *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return drv_cuGraphAddKernelNode_v2(node, graph, after, n, (const void *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return drv_cuGraphAddMemcpyNode(node, graph, after, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return drv_cuGraphAddMemsetNode(node, graph, after, n, (const void *)&p->memset, p->memset.ctx);
    default:
        return graph_any_add(node, graph, after, n, p);
    }
}

/* Edges only order nodes (api/graphs/graph.c). */
CUresult drv_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p)
{
    return drv_cuGraphAddNode(node, graph, after, n, p);
}

CUresult drv_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p)
{
    struct cudaGraphNodeParams q;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return drv_cuGraphKernelNodeSetParams_v2(node, (const void *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return drv_cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return drv_cuGraphMemsetNodeSetParams(node, (const void *)&p->memset);
    default:
        memcpy(&q, p, sizeof q);
        return mt_driver_result(cudaGraphNodeSetParams((cudaGraphNode_t)node, &q));
    }
}

CUresult drv_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    struct cudaGraphNodeParams q;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return drv_cuGraphExecKernelNodeSetParams_v2(exec, node, (const void *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return drv_cuGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return drv_cuGraphExecMemsetNodeSetParams(exec, node, (const void *)&p->memset, p->memset.ctx);
    default:
        memcpy(&q, p, sizeof q);
        return mt_driver_result(cudaGraphExecNodeSetParams((cudaGraphExec_t)exec, (cudaGraphNode_t)node, &q));
    }
}

CUresult drv_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph, CUcontext context,
                                            unsigned first, unsigned flags)
{
    cudaGraphConditionalHandle handle;
    CUresult e =
        out ? mt_driver_result(cudaGraphConditionalHandleCreate(&handle, (cudaGraph_t)graph, first, flags))
            : CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *out = handle;
    return e;
}
#endif
