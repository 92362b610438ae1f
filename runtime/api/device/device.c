/* Device of this process: choice of GPU or CPU, search for the real CUDA runtime, limits, properties and
 * attributes. */
#define _GNU_SOURCE
#include "api/entry.h"
#include "device.h"
#include "trace/devices.h"
#include "api/tables/error.h"
#include "device/gpu.h"
#include "base/file.h"
#include "base/options.h"
#include "trace/events.h"
#include "base/report.h"
#include "base/trust.h"
#include "trace/trace.h"
#include "cpu/cpu.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Properties and attributes of the CPU device. Attributes are derived from the properties, so that they
 * agree. */

#define CLOCK_KHZ 1000000

/* Sizes of arrays, textures and surfaces, as documented by CUDA for sm_90. */
static void set_textures(struct cudaDeviceProp *p)
{
    static const int layered[] = {32768, 32768, 2048}, cube[] = {32768, 2046};
    p->textureAlignment = p->surfaceAlignment = 512;
    p->texturePitchAlignment = 32;
    p->maxTexture1D = 131072;
    p->maxTexture1DMipmap = 32768;
    p->maxTexture2D[0] = p->maxSurface2D[0] = 131072;
    p->maxTexture2D[1] = p->maxSurface2D[1] = 65536;
    p->maxTexture2DMipmap[0] = p->maxTexture2DMipmap[1] = 32768;
    p->maxTexture2DLinear[0] = 131072;
    p->maxTexture2DLinear[1] = 65000;
    p->maxTexture2DLinear[2] = 2097120;
    p->maxTexture2DGather[0] = p->maxTexture2DGather[1] = 32768;
    for (int i = 0; i < 3; i++)
        p->maxTexture3D[i] = p->maxSurface3D[i] = 16384;
    p->maxTexture3DAlt[0] = p->maxTexture3DAlt[1] = 8192;
    p->maxTexture3DAlt[2] = 32768;
    p->maxTextureCubemap = p->maxSurfaceCubemap = 32768;
    p->maxSurface1D = 32768;
    p->maxTexture1DLayered[0] = p->maxSurface1DLayered[0] = 32768;
    p->maxTexture1DLayered[1] = p->maxSurface1DLayered[1] = 2048;
    memcpy(p->maxTexture2DLayered, layered, sizeof layered);
    memcpy(p->maxSurface2DLayered, layered, sizeof layered);
    memcpy(p->maxTextureCubemapLayered, cube, sizeof cube);
    memcpy(p->maxSurfaceCubemapLayered, cube, sizeof cube);
}

static void set_versioned(struct cudaDeviceProp *p)
{
#if CUDART_VERSION >= 12000
    p->hostRegisterSupported = 1;
    p->memoryPoolsSupported = 1;
    p->ipcEventSupported = 1;
#endif
#if CUDART_VERSION >= 13000
    p->hostNumaId = -1;
    p->deviceNumaId = -1;
#endif
#if CUDART_VERSION < 13000
    p->clockRate = p->memoryClockRate = CLOCK_KHZ;
    p->deviceOverlap = 1;
    p->singleToDoublePrecisionPerfRatio = 2;
    p->cooperativeMultiDeviceLaunch = 0;
#if CUDART_VERSION >= 12000
    p->maxTexture1DLinear = 1 << 28;
#endif
#endif
}

cudaError_t impl_cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    MT_RETURN_IF_FAILED();
    if (!p || !mt_device_there(device))
        return mt_fail(p ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", MT_DEV_NAME);
    memcpy(p->uuid.bytes, "memtrace-cpu-dev", sizeof p->uuid.bytes);
    p->uuid.bytes[15] = (char)(p->uuid.bytes[15] ^ device);
    p->pciBusID = device;
    p->multiGpuBoardGroupID = device; /* each device is a board of its own */
    p->totalGlobalMem = mt_device_memory();
    p->sharedMemPerBlock = MT_DEV_SHARED_BLOCK;
    p->regsPerBlock = p->regsPerMultiprocessor = MT_DEV_REGISTERS;
    p->warpSize = 32;
    p->memPitch = 0x7fffffff;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = MT_DEV_THREADS_PER_BLOCK;
    p->maxThreadsDim[2] = MT_DEV_BLOCK_Z;
    p->maxGridSize[0] = (int)MT_DEV_GRID_X;
    p->maxGridSize[1] = p->maxGridSize[2] = MT_DEV_GRID_YZ;
    p->totalConstMem = 64 << 10;
    p->major = MT_DEV_MAJOR;
    p->minor = MT_DEV_MINOR;
    p->multiProcessorCount = (int)mt_options()->cpu_sms;
    p->integrated = 1;
    p->canMapHostMemory = 1;
    p->concurrentKernels = 1;
    p->asyncEngineCount = 1;
    p->unifiedAddressing = 1;
    p->memoryBusWidth = 64;
    p->l2CacheSize = MT_DEV_L2;
    p->persistingL2CacheMaxSize = MT_DEV_L2_PERSISTING;
    p->accessPolicyMaxWindowSize = MT_DEV_L2;
    p->maxThreadsPerMultiProcessor = MT_DEV_THREADS_PER_SM;
    p->streamPrioritiesSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->sharedMemPerMultiprocessor = MT_DEV_SHARED_SM;
    p->managedMemory = p->concurrentManagedAccess = 1;
    p->hostNativeAtomicSupported = 1;
    p->computePreemptionSupported = 1;
    p->canUseHostPointerForRegisteredMem = 1;
    p->cooperativeLaunch = 1;
#if CUDART_VERSION >= 12000
    p->clusterLaunch = 1;
#endif
    p->sharedMemPerBlockOptin = MT_DEV_SHARED_OPTIN;
    p->directManagedMemAccessFromHost = 1;
    p->maxBlocksPerMultiProcessor = MT_DEV_BLOCKS_PER_SM;
    p->reservedSharedMemPerBlock = MT_DEV_SHARED_RESERVED;
    set_textures(p);
    set_versioned(p);
    return cudaSuccess;
}

/* Returns 0 with *out set, or -1 if there is no such attribute. */
static int device_attributes_attribute(int a, const struct cudaDeviceProp *p, int *out)
{
    switch (a) {
#define MT_ATTRIBUTE(name, value)                                                                            \
    case cudaDevAttr##name:                                                                                  \
        *out = (int)(value);                                                                                 \
        return 0;
#include "device.def"
    default:
        *out = 0; /* attributes of later toolkits, and reserved numbers: not supported */
        return a >= 1 && a <= 160 ? 0 : -1;
    }
}

cudaError_t impl_cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr a, int device)
{
    struct cudaDeviceProp p;
    int value;
    cudaError_t e = impl_cudaGetDeviceProperties(&p, device);
    if (e)
        return e;
    if (!out || device_attributes_attribute((int)a, &p, &value))
        return mt_fail(cudaErrorInvalidValue);
    *out = value;
    return cudaSuccess;
}

#if CUDART_VERSION >= 11010
cudaError_t impl_cudaDeviceGetTexture1DLinearMaxWidth(size_t *out, const struct cudaChannelFormatDesc *f,
                                                      int device)
{
    MT_RETURN_IF_FAILED();
    int bits = f ? f->x + f->y + f->z + f->w : 0;
    if (!out || bits < 8 || bits > 128)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_device_there(device))
        return mt_fail(cudaErrorInvalidDevice);
    *out = (size_t)1 << 28;
    return cudaSuccess;
}
#endif

#if CUDART_VERSION >= 13000
/* All atomic operations of the device are the host's own. */
cudaError_t impl_cudaDeviceGetHostAtomicCapabilities(unsigned *capabilities,
                                                     const enum cudaAtomicOperation *operations,
                                                     unsigned count, int device)
{
    MT_RETURN_IF_FAILED();
    if (!capabilities || !operations || !count)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_device_there(device))
        return mt_fail(cudaErrorInvalidDevice);
    for (unsigned i = 0; i < count; i++) {
        if ((unsigned)operations[i] > cudaAtomicOperationFloatMax)
            return mt_fail(cudaErrorInvalidValue);
        capabilities[i] = cudaAtomicCapabilitySigned | cudaAtomicCapabilityUnsigned |
                          cudaAtomicCapabilityReduction | cudaAtomicCapabilityScalar32 |
                          cudaAtomicCapabilityScalar64;
    }
    return cudaSuccess;
}
#endif

/* ---- cudaLimit of each GPU ---- */

static const size_t first[] = {
    [cudaLimitStackSize] = 1024,
    [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = MT_DEV_KERNEL_HEAP,
    [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64,
    [cudaLimitPersistingL2CacheSize] = 0,
};
#define LIMITS (sizeof first / sizeof *first)
static _Atomic size_t limits[MT_DEVICES_MAX][LIMITS]; /* 0: the default; else the value + 1 */

/* The depth of device-side synchronisation does not exist on sm_90. */
static int limit_there(enum cudaLimit limit)
{
    return (unsigned)limit < LIMITS && limit != cudaLimitDevRuntimeSyncDepth;
}

size_t mt_limit_get(int device, enum cudaLimit limit)
{
    size_t set = limits[device][limit];
    return set ? set - 1 : first[limit];
}

cudaError_t impl_cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    MT_RETURN_IF_FAILED();
    if (!limit_there(limit))
        return mt_fail(cudaErrorUnsupportedLimit);
    if (limit == cudaLimitMaxL2FetchGranularity && value > 128)
        value = 128;
    if (limit == cudaLimitPersistingL2CacheSize && value > MT_DEV_L2_PERSISTING)
        return mt_fail(cudaErrorInvalidValue);
    if (limit == cudaLimitMallocHeapSize && mt_device_heap_limit(value))
        return mt_fail(cudaErrorInvalidValue);
    limits[mt_device_current()][limit] = value + 1;
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetLimit(size_t *out, enum cudaLimit limit)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    if (!limit_there(limit))
        return mt_fail(cudaErrorUnsupportedLimit);
    *out = mt_limit_get(mt_device_current(), limit);
    return cudaSuccess;
}

void mt_limits_reset(int device)
{
    for (size_t i = 0; i < LIMITS; i++)
        limits[device][i] = 0;
    if (mt_devices() == 1) /* all devices share the heap of kernels */
        mt_device_heap_reset();
}

/* ---- choice of GPU or CPU device, and search for the real CUDA runtime ---- */

#define STR_(x) #x
#define STR(x) STR_(x)

/* Result of the search. No lock is held, since the dynamic linker is used: a constructor that waits for the
 * choice holds the linker's lock. Several threads may search, with the same result. */
struct found {
    int is_gpu;
    const char *why; /* reason for having no GPU */
    char said[400];  /* reason for not following the request */
};
static struct found *_Atomic found;
static int is_gpu;
static void *_Atomic cudart;

/* Our own library may be found in place of the driver (LD_LIBRARY_PATH): then the standard paths are tried.
 */
void *mt_device_driver(void)
{
    static const char *const names[] = {"libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                                        "/usr/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
    static void *_Atomic driver;
    for (size_t i = 0; !driver && i < sizeof names / sizeof *names; i++) {
        void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (h && !dlsym(h, "__mt_host_site") && dlsym(h, "cuInit"))
            driver = h;
        else if (h)
            dlclose(h);
    }
    return driver;
}

/* Returns the number of devices of the driver, or -1 with *why set if there is no driver. */
static int count_devices(const char **why)
{
    int n = 0;
    void *cuda = mt_device_driver();
    if (!cuda) {
        *why = "libcuda.so.1, NVIDIA's driver, is not installed";
        return -1;
    }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    int (*count)(int *) = (int (*)(int *))dlsym(cuda, "cuDeviceGetCount");
    if (!init || !count || init(0)) {
        *why = "the driver (libcuda.so.1) does not start";
        return -1;
    }
    if (count(&n) || n <= 0) {
        *why = "the driver sees no device";
        return 0;
    }
    return n;
}

void *mt_device_toolkit(const char *file, int flags)
{
    static const char *const folders[] = {MEMTRACE_CUDA_ROOT "/lib64/", MEMTRACE_CUDA_ROOT "/lib/"};
    static _Atomic int said;
    char path[512], why[600];
    void *h = NULL;
    for (size_t i = 0; !h && i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", folders[i], file);
        if (access(path, F_OK) == 0 && mt_trust_file(path, why, sizeof why) == 0)
            h = dlopen(path, flags);
        else if (errno == EPERM && !said++)
            mt_report("%s is not used: %s; name a folder that you trust in LD_LIBRARY_PATH", path, why);
    }
    return h;
}

static void *select_is_real(void *h)
{
    if (h && (dlsym(h, "__mt_host_site") || !dlsym(h, "cudaRuntimeGetVersion"))) {
        dlclose(h);
        h = NULL;
    }
    return h;
}

/* Opens libcudart, skipping our own library in its place. */
static void *open_cudart(char *why, size_t size)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND, major = CUDART_VERSION / 1000;
    const char *given = mt_options()->cudart;
    char name[64];
    void *h;
    *why = 0;
    if (*given)
        return mt_trust_file(given, why, size) ? NULL : select_is_real(dlopen(given, flags));
    snprintf(name, sizeof name, major < 12 ? "libcudart.so.%d.0" : "libcudart.so.%d", major);
    h = select_is_real(dlopen(name, flags));
    return h ? h : select_is_real(mt_device_toolkit(name, flags));
}

static int version_of(void *library, const char *function)
{
    int n = 0;
    int (*get)(int *) = library ? (int (*)(int *))dlsym(library, function) : NULL;
    return get && !get(&n) ? n : 0;
}

/* Returns whether the runtime works with the driver. With an older driver, each of its functions fails. */
static int runtime_works(void *runtime, char *why, size_t size)
{
    int n = 0, e;
    int (*count)(int *) = (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount");
    const char *(*name)(int) = (const char *(*)(int))dlsym(runtime, "cudaGetErrorName");
    int (*forget)(void) = (int (*)(void))dlsym(runtime, "cudaGetLastError");
    if (!count || !(e = count(&n)))
        return 1;
    if (forget)
        forget();
    if (e == cudaErrorInsufficientDriver) {
        int driver = version_of(mt_device_driver(), "cuDriverGetVersion");
        int own = version_of(runtime, "cudaRuntimeGetVersion");
        snprintf(why, size, "the driver, for CUDA %d.%d, is older than the CUDA runtime, which is %d.%d",
                 driver / 1000, driver % 1000 / 10, own / 1000, own % 1000 / 10);
    } else {
        snprintf(why, size, "the CUDA runtime does not work (%s)",
                 name ? name(e) : "cudaGetDeviceCount fails");
    }
    return 0;
}

/* Returns the runtime to use for a GPU, or NULL with a message if none works. MEMTRACE_DEVICE=gpu gets one in
 * any case, and so its errors. */
static void *choose_runtime(int must, char *said, size_t size)
{
    char why[300];
    const char *instead = must ? "" : "; running on the CPU device", *given = mt_options()->cudart;
    void *runtime = open_cudart(why, sizeof why);
    if (!runtime && *given)
        snprintf(said, size, "MEMTRACE_CUDART=%.200s is not %s%s%s", given,
                 *why ? "used: " : "a CUDA runtime library", why, instead);
    else if (!runtime)
        snprintf(said, size,
                 "the real CUDA runtime (libcudart.so.%d) is not found: set MEMTRACE_CUDART to its path%s",
                 CUDART_VERSION / 1000, instead);
    else if (!runtime_works(runtime, why, sizeof why)) {
        snprintf(said, size, "%s%s", why, instead);
        runtime = must ? runtime : NULL;
    }
    return runtime;
}

static void *find_real(const char *name)
{
    return cudart ? dlsym(cudart, name) : NULL;
}

/* Prefers the GPU unless a variable says otherwise. */
static void select_look(struct found *f)
{
    unsigned want = mt_options()->device;
    int n = want == MT_DEVICE_CPU ? 0 : count_devices(&f->why);
    if (want == MT_DEVICE_GPU && n <= 0)
        snprintf(f->said, sizeof f->said, "MEMTRACE_DEVICE=gpu, but %s", f->why);
    if (want == MT_DEVICE_GPU || (want == MT_DEVICE_AUTO && n > 0)) {
        size_t at = strlen(f->said);
        f->is_gpu = want == MT_DEVICE_GPU;
        cudart = choose_runtime(f->is_gpu, f->said + at, at ? 0 : sizeof f->said);
        f->is_gpu |= cudart != NULL;
    }
    if (f->is_gpu && mt_gpu())
        mt_gpu()->functions(find_real);
}

static void select_find(void)
{
    static struct found nothing = {.why = "there is no memory"};
    struct found *none = NULL;
    if (found)
        return;
    struct found *f = calloc(1, sizeof *f);
    if (f) {
        f->why = "";
        select_look(f);
    }
    if (!atomic_compare_exchange_strong(&found, &none, f ? f : &nothing))
        free(f);
}

static void select_choose(void)
{
    const struct found *f = found;
    is_gpu = f->is_gpu;
    if (*f->said)
        mt_report("%s", f->said);
    if (is_gpu) {
        mt_devices_of_gpu(1);
        if (!mt_gpu())
            mt_report(
                "kernels are not traced: this build has no part gpu (MEMTRACE_PARTS); MEMTRACE_DEVICE=cpu "
                "traces them on the processor");
        if (mt_options()->engine != MT_ENGINE_NONE) /* or the same accesses would be recorded twice */
            mt_tracing_elsewhere();
        mt_say("running on the GPU%s", mt_tracing() ? "" : ", where libmemtrace.so records nothing");
        mt_trace_device("gpu", "NVIDIA GPU", 0);
    } else {
        mt_say("running on the CPU device%s%s", *f->why ? ": " : "", f->why);
        mt_trace_device("cpu", MT_DEV_NAME, (unsigned)mt_options()->cpu_sms);
    }
}

/* Completes the choice of the GPU, with the real runtime open: hands over the modules registered before, then
 * starts tracing. */
static void device_hand_over(void)
{
    mt_modules_to_gpu();
    if (mt_gpu() && mt_gpu()->start)
        mt_gpu()->start();
}

int mt_device_is_gpu(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    select_find();
    pthread_once(&once, select_choose);
    if (is_gpu) {
        /* Outside of choose(): registration calls the real runtime through the entry table. */
        static pthread_once_t told = PTHREAD_ONCE_INIT;
        static _Thread_local int inside;
        if (!inside) {
            inside = 1;
            pthread_once(&told, device_hand_over);
            inside = 0;
        }
    }
    return is_gpu;
}

int mt_device_chosen_gpu(void)
{
    return is_gpu;
}

void *mt_device_cudart(void)
{
    return cudart;
}

uint64_t mt_device_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    uint64_t all = pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : (uint64_t)8 << 30;
    return all / (uint64_t)mt_devices();
}

static int start_error;

static void select_start(void)
{
    const size_t stack = mt_options()->cpu_stack;
    mt_cpu_settings.compact = mt_trace_compact();
    if (mt_options()->buffer >= 24)
        mt_cpu_settings.buffer = mt_options()->buffer;
    if (stack)
        mt_cpu_settings.stack = stack < 16384 ? 16384 : (stack + 4095) & ~(size_t)4095;
    mt_heap_start();
    start_error = mt_cpu_init((unsigned)mt_options()->cpu_threads, (unsigned)mt_options()->cpu_sms);
    if (!is_gpu)
        mt_trace_workers(mt_cpu_settings.workers);
    if (start_error)
        mt_report("the CPU device cannot start: %s%s", strerror(start_error),
                  start_error == ENOMEM ? "; is there a limit on memory (ulimit -v)?" : "");
}

int mt_device_start(void)
{
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    pthread_once(&started, select_start);
    return start_error;
}

/* Default without runtime/gpu in the build. */
__attribute__((weak)) const struct mt_gpu_ops *mt_gpu(void)
{
    return NULL;
}
