/* The functions of the real CUDA runtime and driver that the GPU path itself calls; under
 * MEMTRACE_CHANNEL=warp those of the CPU device. */
#define _GNU_SOURCE
#include "cuda.h"
#include "device/packet.h"
#include "base/options.h"
#include "base/report.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct mt_cuda table;
static int usable, on_gpu;
static void *(*cuda_find)(const char *name);
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- the CPU device in a GPU's place (MEMTRACE_CHANNEL=warp) ------------------------------------- */

struct value {
    uint32_t *to, value;
};

static void CUDART_CB write_now(void *data)
{
    struct value *v = data;
    __atomic_store_n(v->to, v->value, __ATOMIC_RELEASE);
    free(v);
}

static int write_value(cudaStream_t stream, unsigned long long to, unsigned value, unsigned flags)
{
    struct value *v = malloc(sizeof *v);
    if (!v)
        return (int)cudaErrorMemoryAllocation;
    *v = (struct value){(uint32_t *)(uintptr_t)to, value};
    cudaError_t e = table.LaunchHostFunc(stream, write_now, v);
    if (e)
        free(v);
    return (int)e;
}

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

static void CUDART_CB copy_now(void *data)
{
    struct copy *c = data;
    memcpy(c->to, c->from, c->bytes);
    free(c);
}

/* Not the CPU device's own copy, which would be reported as one of the program's. */
static cudaError_t cuda_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                             cudaStream_t stream)
{
    struct copy *c = malloc(sizeof *c);
    if (!c)
        return cudaErrorMemoryAllocation;
    *c = (struct copy){to, from, bytes};
    cudaError_t e = table.LaunchHostFunc(stream, copy_now, c);
    if (e)
        free(c);
    return e;
}

static void load_cpu(void)
{
#define F(name) table.name = (__typeof__(table.name))cuda_find("cuda" #name);
    MT_CUDA_FUNCTIONS(F)
#undef F
    table.MemcpyAsync = cuda_copy;
    table.WriteValue = write_value;
    table.sites_are_numbered = 1;
    usable = 1;
}

/* ---- a GPU --------------------------------------------------------------------------------------- */

static void cuda_load_driver(void *driver)
{
#define D(name, symbol) table.name = (__typeof__(table.name))dlsym(driver, symbol)
    D(WriteValue, "cuStreamWriteValue32_v2");
    if (!table.WriteValue)
        D(WriteValue, "cuStreamWriteValue32");
    D(DeviceName, "cuDeviceGetName");
    D(ModuleOf, "cuFuncGetModule");
    D(GlobalOf, "cuModuleGetGlobal_v2");
    D(CurrentContext, "cuCtxGetCurrent");
    D(PrimaryState, "cuDevicePrimaryCtxGetState");
    D(RetainPrimary, "cuDevicePrimaryCtxRetain");
    D(ReleasePrimary, "cuDevicePrimaryCtxRelease_v2");
#undef D
}

static void cuda_load(void)
{
    if (!on_gpu) {
        load_cpu();
        return;
    }
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *missing = cuda_find("cudaRuntimeGetVersion") ? NULL : "the CUDA runtime";
#define F(name)                                                                                              \
    if (!(table.name = (__typeof__(table.name))cuda_find("cuda" #name)) && !missing)                         \
        missing = "cuda" #name;
    MT_CUDA_FUNCTIONS(F)
#undef F
    if (driver)
        cuda_load_driver(driver);
    table.FunctionOf = (__typeof__(table.FunctionOf))cuda_find("cudaGetFuncBySymbol");
    table.ends_at_exit = 1;
    usable = !missing;
    if (missing)
        mt_report("%s is missing: kernels run on the GPU without a trace", missing);
}

void mt_cuda_from(int gpu, void *(*find)(const char *name))
{
    on_gpu = gpu;
    cuda_find = find;
}

uint64_t mt_cuda_ring_slots(void)
{
    uint64_t n = 32;
    while (n < mt_options()->ring_slots && n < 1ull << (MT_RING_BITS - 1))
        n *= 2;
    return n;
}

const struct mt_cuda *mt_cuda(void)
{
    pthread_once(&once, cuda_load);
    return usable ? &table : NULL;
}
