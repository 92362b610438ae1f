/* Stands in for NVIDIA's driver, libcuda.so.1: what runtime/gpu asks of it besides the CUDA runtime. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static void *cuda_runtime(const char *name)
{
    return dlsym(dlopen(getenv("MEMTRACE_CUDART"), RTLD_NOW | RTLD_NOLOAD), name);
}

EXPORT int cuInit(unsigned flags)
{
    return (int)flags;
}

EXPORT int cuDeviceGetCount(int *n)
{
    *n = 1;
    return 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    strncpy(name, "stand-in", (size_t)size);
    return device;
}

struct cuda_value {
    uint32_t *to, value;
};

static void cuda_write_now(void *data)
{
    struct cuda_value *v = data;
    __atomic_store_n(v->to, v->value, __ATOMIC_RELEASE);
    free(v);
}

EXPORT int cuStreamWriteValue32_v2(void *stream, unsigned long long to, uint32_t value, unsigned flags)
{
    int (*in_order)(void *, void (*)(void *), void *) =
        (int (*)(void *, void (*)(void *), void *))cuda_runtime("cudaLaunchHostFunc");
    struct cuda_value *v = malloc(sizeof *v);
    if (!v || flags)
        return 1;
    *v = (struct cuda_value){(uint32_t *)(uintptr_t)to, value};
    return in_order(stream, cuda_write_now, v);
}

/* ---- what the program itself asks of the driver: the device's own driver API ----------------------------
 */

typedef long cuda_function(long, long, long, long, long, long, long, long, long, long, long);

static cuda_function *cuda_device(const char *name)
{
    static int begun;
    void *(*find)(const char *) = (void *(*)(const char *))cuda_runtime("standin_find");
    if (!begun++)
        ((int (*)(unsigned))find("cuInit"))(0);
    return (cuda_function *)find(name);
}

#define FORWARD(name)                                                                                        \
    EXPORT long name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k) \
    {                                                                                                        \
        return cuda_device(#name)(a, b, c, d, e, f, g, h, i, j, k);                                          \
    }
FORWARD(cuDeviceGet)
FORWARD(cuDevicePrimaryCtxRetain)
FORWARD(cuCtxSetCurrent)
FORWARD(cuCtxSynchronize)
FORWARD(cuMemAlloc_v2)
FORWARD(cuMemcpyHtoD_v2)
FORWARD(cuMemcpyDtoH_v2)
FORWARD(cuModuleLoadData)
FORWARD(cuModuleGetFunction)
FORWARD(cuModuleUnload)
FORWARD(cuFuncSetAttribute)
FORWARD(cuFuncGetName)
FORWARD(cuLibraryLoadData)
FORWARD(cuLibraryGetKernel)
FORWARD(cuKernelGetFunction)
FORWARD(cuGetProcAddress_v2)
FORWARD(cuLaunchKernel)
FORWARD(cuStreamCreate)
FORWARD(cuStreamSynchronize)
FORWARD(cuGraphCreate)
FORWARD(cuGraphAddKernelNode_v2)
FORWARD(cuGraphKernelNodeGetParams_v2)
FORWARD(cuGraphKernelNodeSetParams_v2)
FORWARD(cuGraphExecKernelNodeSetParams_v2)
FORWARD(cuGraphInstantiateWithFlags)
FORWARD(cuGraphExecUpdate_v2)
FORWARD(cuGraphNodeSetEnabled)
FORWARD(cuGraphLaunch)
FORWARD(cuGraphExecDestroy)
FORWARD(cuGraphDestroy)
FORWARD(cuStreamBeginCapture_v2)
FORWARD(cuStreamEndCapture)
FORWARD(cuMemsetD8_v2)
FORWARD(cuMemsetD16_v2)
FORWARD(cuMemsetD2D16_v2)
FORWARD(cuMemsetD32_v2)
FORWARD(cuMemsetD2D8_v2)
FORWARD(cuMemsetD2D32_v2)
FORWARD(cuMemsetD32Async)
FORWARD(cuMemsetD2D16Async)
FORWARD(cuArrayCreate_v2)
FORWARD(cuArray3DCreate_v2)
FORWARD(cuArrayDestroy)
FORWARD(cuMemcpyPeer)
FORWARD(cuMemcpy2D_v2)
FORWARD(cuMemcpy3D_v2)
FORWARD(cuMemcpyHtoA_v2)
FORWARD(cuMemcpyAtoD_v2)

/* The runtime's functions are not the driver's: of them there is one module. */
EXPORT int cuFuncGetModule(void **module, void *function)
{
    long e = cuda_device("cuFuncGetModule")((long)module, (long)function, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (e)
        *module = function;
    return 0;
}

EXPORT int cuModuleGetGlobal_v2(unsigned long long *address, size_t *bytes, void *module, const char *name)
{
    int (*find)(unsigned long long *, size_t *, const char *) =
        (int (*)(unsigned long long *, size_t *, const char *))cuda_runtime("standin_global");
    if (!cuda_device("cuModuleGetGlobal_v2")((long)address, (long)bytes, (long)module, (long)name, 0, 0, 0, 0,
                                             0, 0, 0))
        return 0;
    return module ? find(address, bytes, name) : 1;
}
