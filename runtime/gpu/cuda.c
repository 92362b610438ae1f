#define _GNU_SOURCE
#include "cuda.h"
#include "api/device.h"
#include "common/report.h"
#include <dlfcn.h>
#include <pthread.h>

static struct mt_cuda table;
static int usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *runtime = mt_device_cudart(), *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *missing = runtime ? NULL : "the CUDA runtime";
#define F(name)                                                                                              \
    if (runtime && !(table.name = (__typeof__(table.name))dlsym(runtime, "cuda" #name)))                     \
        missing = "cuda" #name;
    MT_CUDA_FUNCTIONS(F)
#undef F
    if (driver) {
        table.WriteValue = (__typeof__(table.WriteValue))dlsym(driver, "cuStreamWriteValue32_v2");
        if (!table.WriteValue)
            table.WriteValue = (__typeof__(table.WriteValue))dlsym(driver, "cuStreamWriteValue32");
        table.DeviceName = (__typeof__(table.DeviceName))dlsym(driver, "cuDeviceGetName");
    }
    usable = !missing;
    if (missing)
        mt_report("%s is missing: kernels run on the GPU without a trace", missing);
}

const struct mt_cuda *mt_cuda(void)
{
    pthread_once(&once, load);
    return usable ? &table : NULL;
}
