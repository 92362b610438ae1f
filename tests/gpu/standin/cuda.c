/* Stands in for NVIDIA's CUDA runtime and driver where there is no GPU: another libmemtrace.so, in a
 * namespace of its own and without a trace, whose CPU device runs what a GPU would get. In place of the
 * fatbins of the program it loads what mt-ptx has made of their PTX (PROGRAM.gpu.N for its N-th fatbin,
 * counted from 0), in which the kernels have hidden parameters and record functions as on a GPU.
 * MEMTRACE_TEST_SAME: the fatbin must be the one in PROGRAM.image.
 *
 * Linked with the runtime's own entry points, entries.S: their slots are filled here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct wrapper {
    int magic, version;
    const void *data, *more;
};

extern void *mt_entry_slots[];
static void *device; /* the namespace's first library */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void standin_fail(const char *what, const char *why)
{
    fprintf(stderr, "stand-in: %s: %s\n", what, why);
    _exit(99);
}

/* Sets a variable, or with NULL removes it; *was gets what it was. */
static void standin_set(const char *name, const char *value, char **was)
{
    const char *now = getenv(name);
    char *copy = now ? strdup(now) : NULL;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    free(*was);
    *was = copy;
}

/* It reads its variables when it is first called. */
static void standin_open(void)
{
    char *kind = NULL, *traced = NULL, *options = NULL;
    int (*count)(int *), n;
    standin_set("MEMTRACE_DEVICE", "cpu", &kind);
    standin_set("MEMTRACE_ENABLE", "0", &traced);
    standin_set("MEMTRACE_PTX_OPTIONS", "--mt-only=nothing", &options);
    device = dlmopen(LM_ID_NEWLM, getenv("MEMTRACE_TEST_DEVICE"), RTLD_NOW);
    count = device ? (int (*)(int *))dlsym(device, "cudaGetDeviceCount") : NULL;
    if (!count || count(&n))
        standin_fail("MEMTRACE_TEST_DEVICE", device ? "no device" : dlerror());
    standin_set("MEMTRACE_DEVICE", kind, &kind);
    standin_set("MEMTRACE_ENABLE", traced, &traced);
    standin_set("MEMTRACE_PTX_OPTIONS", options, &options);
    free(options);
    free(kind);
    free(traced);
}

static const void *standin_map(const char *end)
{
    char path[4096];
    struct stat st;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    snprintf(path + (n < 0 ? 0 : n), 32, "%s", end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at =
        fd < 0 || fstat(fd, &st) ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        standin_fail(path, "no such image");
    close(fd);
    return at;
}

static void **standin_handle; /* of the last fatbin: variables are looked for in it */

/* The code that the runtime had made for a GPU, and what mt-ptx makes of the program's: PROGRAM.image. Debug
 * sections have the name by which each calls the PTX. */
static void standin_compare(const void *given, const void *made)
{
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t size;
    } head;
    const char *text = (const char *)given + sizeof head + 64, *other = (const char *)made + sizeof head + 64;
    memcpy(&head, given, sizeof head);
    const char *end = head.magic == 0xba55ed50u && head.size > 1000 ? strstr(text, ".section") : NULL;
    if (!end || !strstr(text, "__memtrace_traced(") || memcmp(text, other, (size_t)(end - text)) != 0)
        standin_fail("fatbin", "not the code that mt-ptx makes for a GPU");
}

static void **standin_register(const struct wrapper *given)
{
    static unsigned number;
    char end[32];
    void **(*next)(void *) = (void **(*)(void *))dlsym(device, "__cudaRegisterFatBinary");
    struct wrapper *made = malloc(sizeof *made);
    if (!made)
        standin_fail("fatbin", "no memory");
    if (getenv("MEMTRACE_TEST_SAME"))
        standin_compare(given->data, standin_map(".image"));
    snprintf(end, sizeof end, ".gpu.%u", number++);
    *made = (struct wrapper){given->magic, 1, standin_map(end), NULL};
    return standin_handle = next(made);
}

/* A variable of the program that nobody has registered. An error number, or 0. */
static int standin_global(unsigned long long *address, size_t *bytes, const char *name)
{
    char *key = strdup(name);
    void (*add)(void **, char *, char *, const char *, int, size_t, int, int) =
        (void (*)(void **, char *, char *, const char *, int, size_t, int, int))dlsym(device,
                                                                                      "__cudaRegisterVar");
    int (*find)(void **, const void *) =
        (int (*)(void **, const void *))dlsym(device, "cudaGetSymbolAddress");
    void *at = NULL;
    add(standin_handle, key, key, key, 0, sizeof(uint32_t), 0, 0);
    int e = find(&at, key);
    *address = (uintptr_t)at;
    *bytes = sizeof(uint32_t);
    return e;
}

static void *standin_find(const char *name)
{
    pthread_once(&once, standin_open);
    return dlsym(device, name);
}

static int standin_missing(void)
{
    return 801; /* cudaErrorNotSupported */
}

/* The first call of an entry point. Which one says the symbol that its slot's first value is in. */
void *mt_entry_resolve(uint32_t index)
{
    Dl_info info;
    pthread_once(&once, standin_open);
    if (!dladdr(mt_entry_slots[index], &info) || !info.dli_sname)
        standin_fail("entry point", "it has no name");
    if (!strcmp(info.dli_sname, "__cudaRegisterFatBinary"))
        return (void *)standin_register;
    void *f = dlsym(device, info.dli_sname);
    return f ? f : (void *)standin_missing;
}

/* ---- the driver: what runtime/gpu asks of it besides the CUDA runtime ---- */

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

struct standin_value {
    uint32_t *to, value;
};

static void standin_write_now(void *data)
{
    struct standin_value *v = data;
    __atomic_store_n(v->to, v->value, __ATOMIC_RELEASE);
    free(v);
}

EXPORT int cuStreamWriteValue32_v2(void *stream, unsigned long long to, uint32_t value, unsigned flags)
{
    int (*in_order)(void *, void (*)(void *), void *) =
        (int (*)(void *, void (*)(void *), void *))standin_find("cudaLaunchHostFunc");
    struct standin_value *v = malloc(sizeof *v);
    if (!v || flags)
        return 1;
    *v = (struct standin_value){(uint32_t *)(uintptr_t)to, value};
    return in_order(stream, standin_write_now, v);
}

/* ---- what the program itself asks of the driver: the device's own driver API ---- */

typedef long standin_function(long, long, long, long, long, long, long, long, long, long, long);

static standin_function *standin_device(const char *name)
{
    static int begun;
    if (!begun++)
        ((int (*)(unsigned))standin_find("cuInit"))(0);
    return (standin_function *)standin_find(name);
}

#define FORWARD(name)                                                                                        \
    EXPORT long name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k) \
    {                                                                                                        \
        return standin_device(#name)(a, b, c, d, e, f, g, h, i, j, k);                                       \
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
    long e = standin_device("cuFuncGetModule")((long)module, (long)function, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (e)
        *module = function;
    return 0;
}

EXPORT int cuModuleGetGlobal_v2(unsigned long long *address, size_t *bytes, void *module, const char *name)
{
    if (!standin_device("cuModuleGetGlobal_v2")((long)address, (long)bytes, (long)module, (long)name, 0, 0, 0,
                                                0, 0, 0, 0))
        return 0;
    return module ? standin_global(address, bytes, name) : 1;
}
