/* Loader of the functions of the real CUDA runtime and driver used by the GPU path. */
#define _GNU_SOURCE
#include "cuda.h"
#include "base/report.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct mt_cuda table;
static int usable;
static void *(*cuda_find)(const char *name);
static pthread_once_t once = PTHREAD_ONCE_INIT;

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
    if (!cuda_find)
        return;
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

void mt_cuda_from(void *(*find)(const char *name))
{
    cuda_find = find;
}

const struct mt_cuda *mt_cuda(void)
{
    pthread_once(&once, cuda_load);
    return usable ? &table : NULL;
}
