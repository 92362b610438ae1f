/* Entry to and exit from functions of the driver API: lookup, requirements, and errors; functions by name;
 * and calls in programs of mt-cc on a GPU. */
#define _GNU_SOURCE
#include "api/device/device.h"
#include "api/entry.h"
#include "api/graphs/graph.h"
#include "api/launch/launch.h"
#include "api/streams/stream.h"
#include "trace/trace.h"
#include "driver.h"
#include "api/tables/error.h"
#include "base/binary.h"
#include "base/report.h"
#include "trace/events.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Returns the real driver's function, for per-thread default streams if such a variant was called, or NULL if
 * it lacks it. */
static void *driver_real(enum mt_driver_index index)
{
    static const char *const ends[] = {"_ptsz", "_ptds", ""};
    struct mt_driver_entry *e = &mt_driver_entries[index];
    int own = mt_per_thread();
    void *f = __atomic_load_n(&e->real[own], __ATOMIC_RELAXED);
    char name[128];
    for (unsigned i = own ? 0 : 2; !f && i < 3 && mt_device_driver(); i++) {
        snprintf(name, sizeof name, "%s%s", e->name, ends[i]);
        f = dlsym(mt_device_driver(), name);
        __atomic_store_n(&e->real[own], f, __ATOMIC_RELAXED);
    }
    return f;
}

/* ---- Functions by name: cuGetProcAddress, cudaGetDriverEntryPoint ---- */

static const struct {
    const char *base;
    int version; /* first CUDA version in which the name means this function */
    enum mt_driver_index plain;
    void (*per_thread)(void);
} address_versions[] = {
#define MT_VERSION(base, version, name, variant) {#base, version, MT_D_##name, (void (*)(void))variant},
#include "driver_versions.inc"
};

/* Returns the newest function for `symbol` in CUDA `version`, or NULL; *too_new: there are only newer ones.
 */
static void *address_find(const char *symbol, int version, int per_thread, int *too_new)
{
    void *found = NULL;
    int best = -1;
    *too_new = 0;
    for (size_t i = 0; i < sizeof address_versions / sizeof *address_versions; i++) {
        if (strcmp(address_versions[i].base, symbol) != 0)
            continue;
        *too_new = 1;
        if (address_versions[i].version > version || address_versions[i].version < best)
            continue;
        best = address_versions[i].version;
        found = per_thread ? (void *)address_versions[i].per_thread
                           : (void *)mt_driver_entries[address_versions[i].plain].exported;
    }
    *too_new &= !found;
    return found;
}

/* Returns our function of this name and CUDA version, or NULL. */
static void *driver_address(const char *symbol, int version, int per_thread)
{
    int too_new;
    return address_find(symbol, version, per_thread, &too_new);
}

static CUresult address_get(const char *symbol, void **out, int version, int per_thread,
                            CUdriverProcAddressQueryResult *status)
{
    int too_new;
    if (!symbol || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = address_find(symbol, version, per_thread, &too_new);
    if (status)
        *status = *out      ? CU_GET_PROC_ADDRESS_SUCCESS
                  : too_new ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult drv_cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    return address_get(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                       NULL);
}

CUresult drv_cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    return address_get(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                       status);
}

/* Returns 1 if the file contains a CUDA runtime; *kernels: and device code. */
static int address_has_cudart(const char *path, int *kernels)
{
    const struct mt_binary_symbols *where;
    struct mt_binary b;
    int major, has;
    if (mt_binary_open(&b, path) != 0)
        return 0;
    has = mt_binary_cudart(&b, &where, &major) != MT_CUDART_NONE;
    *kernels = mt_binary_section(&b, ".nv_fatbin") != 0;
    mt_binary_close(&b);
    return has;
}

/* NVIDIA's runtime, left as it is, may get our driver if another library has opened it. */
void mt_driver_asks(const void *caller)
{
    static int said;
    char why[512];
    int kernels;
    Dl_info from;
    if (said || mt_device_is_gpu() || !dladdr(caller, &from) || !from.dli_fname ||
        !address_has_cudart(from.dli_fname, &kernels) || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        return;
    snprintf(why, sizeof why,
             "%.400s: the CUDA runtime in it was not taken over: its CUDA calls fail, and are not traced",
             from.dli_fname);
    mt_report(
        "%s; put memtrace run before the program, if LD_AUDIT is not as it sets it; memtrace run --list says "
        "what cannot be taken over",
        why);
    if (kernels)
        mt_trace_miss_anywhere(why);
}

/* NVIDIA's private tables do not exist here. */
CUresult drv_cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- functions of the runtime API ---- */

#if CUDART_VERSION >= 12000
static cudaError_t address_entry(const char *symbol, void **out, unsigned version, unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found;
    MT_RETURN_IF_FAILED();
    if (!symbol || !out)
        return mt_fail(cudaErrorInvalidValue);
    address_get(symbol, out, (int)version, (flags & cudaEnablePerThreadDefaultStream) != 0, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return cudaSuccess;
}

cudaError_t impl_cudaGetDriverEntryPoint(const char *symbol, void **out, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status)
{
    return address_entry(symbol, out, CUDART_VERSION, flags, status);
}
#endif

#if CUDART_VERSION >= 12050
cudaError_t impl_cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *status)
{
    return version > CUDART_VERSION ? mt_fail(cudaErrorInvalidValue)
                                    : address_entry(symbol, out, version, flags, status);
}
#endif

/* ---- programs of mt-cc on a GPU -------------------------------------------------------------------
 * Their driver launches have no records, and driver copies and fills no lines: both are reported, and make
 * traces incomplete. memtrace run traces such programs completely. */

#define REAL(name) ((__typeof__(&name))driver_real(MT_D_##name))

/* ---- launches ------------------------------------------------------------------------------------ */

/* One call, forwarded unchanged. */
struct unknown_call {
    CUresult (*launch)(const struct unknown_call *c);
    CUfunction f;
    struct mt_launch_config l;
    const CUlaunchConfig *whole;
    void **params, **extra;
    CUresult result;
};

static cudaError_t unknown_run(void *call, const void *version, void **args)
{
    struct unknown_call *c = call;
    (void)version, (void)args;
    c->result = c->launch(c);
    return (cudaError_t)c->result; /* equal numbers */
}

/* Logs a launch without records, with the function's name and the stream's number. */
static CUresult unknown_launch(struct unknown_call *c)
{
    const char *name = NULL;
#if CUDA_VERSION >= 12030
    if (REAL(cuFuncGetName) && REAL(cuFuncGetName)(&name, c->f))
        name = NULL;
#endif
    if (!mt_stream_get(c->l.stream))
        mt_stream_add(c->l.stream, cudaStreamNonBlocking, 0);
    mt_launch_untraced(mt_untabled_know(c->f, name), &c->l, unknown_run, c);
    return c->result;
}

static CUresult unknown_plain(const struct unknown_call *c)
{
    return REAL(cuLaunchKernel)(c->f, c->l.grid.x, c->l.grid.y, c->l.grid.z, c->l.block.x, c->l.block.y,
                                c->l.block.z, (unsigned)c->l.shared, (CUstream)c->l.stream, c->params,
                                c->extra);
}

CUresult gpu_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    struct unknown_call c = {.launch = unknown_plain,
                             .f = f,
                             .l = {{gx, gy, gz}, {bx, by, bz}, shared, (cudaStream_t)stream, 0, {0}},
                             .params = params,
                             .extra = extra};
    return unknown_launch(&c);
}

static CUresult unknown_together(const struct unknown_call *c)
{
    return REAL(cuLaunchCooperativeKernel)(c->f, c->l.grid.x, c->l.grid.y, c->l.grid.z, c->l.block.x,
                                           c->l.block.y, c->l.block.z, (unsigned)c->l.shared,
                                           (CUstream)c->l.stream, c->params);
}

CUresult gpu_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                       unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                       void **params)
{
    struct unknown_call c = {.launch = unknown_together,
                             .f = f,
                             .l = {{gx, gy, gz}, {bx, by, bz}, shared, (cudaStream_t)stream, 1, {0}},
                             .params = params};
    return unknown_launch(&c);
}

#if CUDA_VERSION >= 11080
static CUresult unknown_whole(const struct unknown_call *c)
{
    return REAL(cuLaunchKernelEx)(c->whole, c->f, c->params, c->extra);
}

CUresult gpu_cuLaunchKernelEx(const CUlaunchConfig *w, CUfunction f, void **params, void **extra)
{
    if (!w)
        return REAL(cuLaunchKernelEx)(w, f, params, extra);
    struct unknown_call c = {.launch = unknown_whole, .f = f, .whole = w, .params = params, .extra = extra};
    c.l = (struct mt_launch_config){{w->gridDimX, w->gridDimY, w->gridDimZ},
                                    {w->blockDimX, w->blockDimY, w->blockDimZ},
                                    w->sharedMemBytes,
                                    (cudaStream_t)w->hStream,
                                    0,
                                    {0}};
    mt_launch_attributes(&c.l, (cudaLaunchAttribute *)(void *)w->attrs, w->numAttrs);
    return unknown_launch(&c);
}
#endif

/* Launches a graph. One instantiated with the runtime API is traced; launches of others are unknown. */
CUresult gpu_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    if (!mt_graph_gpu_knows((cudaGraphExec_t)exec))
        mt_trace_miss_anywhere(
            "a graph that the driver API made ready was launched: its kernels have no records");
    return (CUresult)mt_graph_gpu_launch((cudaGraphExec_t)exec, (cudaStream_t)stream);
}

/* ---- copies and fills, functions by name --------------------------------------------------------- */

/* Reports the first call of this function on a GPU. */
static void driver_unseen(const char *name)
{
    char why[160];
    if (strncmp(name, "cuMemcpy", 8) != 0 && strncmp(name, "cuMemset", 8) != 0)
        return;
    snprintf(why, sizeof why, "%s of the driver API was called: what it copies or fills has no line", name);
    mt_trace_miss_anywhere(why);
}

/* Replaces the driver's function for a name that launches by ours, which calls it. */
static void unknown_stand_in(const char *symbol, void **out, int version, int per_thread)
{
    void *ours = NULL;
    if (symbol && out && *out && (!strncmp(symbol, "cuLaunch", 8) || !strcmp(symbol, "cuGraphLaunch")))
        ours = driver_address(symbol, version, per_thread);
    if (ours)
        *out = ours;
}

CUresult gpu_cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    CUresult e = REAL(cuGetProcAddress)(symbol, out, version, flags);
    if (!e)
        unknown_stand_in(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    return e;
}

#if CUDA_VERSION >= 12000
CUresult gpu_cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    CUresult e = REAL(cuGetProcAddress_v2)(symbol, out, version, flags, status);
    if (!e)
        unknown_stand_in(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    return e;
}

static cudaError_t unknown_entry(cudaError_t e, const char *symbol, void **out, unsigned version,
                                 unsigned long long flags)
{
    if (!e && mt_device_is_gpu())
        unknown_stand_in(symbol, out, (int)version, (flags & cudaEnablePerThreadDefaultStream) != 0);
    return e;
}

cudaError_t rec_cudaGetDriverEntryPoint(const char *symbol, void **out, unsigned long long flags,
                                        enum cudaDriverEntryPointQueryResult *status)
{
    return unknown_entry(MT_NEXT(cudaGetDriverEntryPoint)(symbol, out, flags, status), symbol, out,
                         CUDART_VERSION, flags);
}
#endif

#if CUDART_VERSION >= 12050
cudaError_t rec_cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
                                                 unsigned long long flags,
                                                 enum cudaDriverEntryPointQueryResult *status)
{
    return unknown_entry(MT_NEXT(cudaGetDriverEntryPointByVersion)(symbol, out, version, flags, status),
                         symbol, out, version, flags);
}
#endif

/* ---- entry and exit ------------------------------------------------------------------------------ */

/* Runtime errors without an equivalent in the driver API. */
static const struct {
    int runtime, driver;
} driver_errors[] = {
    {cudaErrorInvalidConfiguration, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidPitchValue, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidSymbol, CUDA_ERROR_NOT_FOUND},
    {cudaErrorInvalidHostPointer, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidDevicePointer, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidTexture, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidChannelDescriptor, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidMemcpyDirection, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidFilterSetting, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidNormSetting, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInsufficientDriver, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
    {cudaErrorMissingConfiguration, CUDA_ERROR_INVALID_VALUE},
    {cudaErrorInvalidDeviceFunction, CUDA_ERROR_INVALID_HANDLE},
    {cudaErrorInitializationError, CUDA_ERROR_NOT_INITIALIZED},
};

CUresult mt_driver_result(cudaError_t e)
{
    for (size_t i = 0; i < sizeof driver_errors / sizeof *driver_errors; i++)
        if (driver_errors[i].runtime == (int)e)
            return (CUresult)driver_errors[i].driver;
    return (CUresult)e;
}

/* Returns NULL after a report if there is none. */
static void *driver_find(enum mt_driver_index index)
{
    struct mt_driver_entry *e = &mt_driver_entries[index];
    int gpu = mt_device_is_gpu();
    void *f = gpu ? driver_real(index) : (void *)e->own;
    if (!f && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        mt_report("%s: %s; it returns CUDA_ERROR_NOT_SUPPORTED", e->name,
                  gpu ? "not in the driver in use" : "the CPU device does not have this function");
    if (f && gpu && mt_tracing() && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        driver_unseen(e->name);
    return f && gpu && e->gpu && mt_tracing() ? (void *)e->gpu : f;
}

/* Returns 0 for queries that report a missing object by an error, which is not a failure. */
static int driver_is_watched(enum mt_driver_index index)
{
    static const char *const ask[] = {"cuGetError", "cuGetProcAddress", "cuGetExportTable"};
    const char *name = mt_driver_entries[index].name;
    int watched = mt_failed_watched();
    for (size_t i = 0; i < sizeof ask / sizeof *ask; i++)
        watched = watched && strncmp(name, ask[i], strlen(ask[i]));
    return watched;
}

static const char *driver_error_name(CUresult e)
{
    const char *name = NULL;
    return e && !drv_cuGetErrorName(e, &name) ? name : "";
}

void *mt_driver_enter(struct mt_driver_call *c, enum mt_driver_index index, int per_thread,
                      const void *caller)
{
    *c = (struct mt_driver_call){.result = CUDA_ERROR_NOT_SUPPORTED, .called = mt_entry_called};
    c->per_thread = per_thread;
    if (per_thread)
        c->outer = mt_per_thread_enter(caller);
    if ((c->watched = driver_is_watched(index)))
        mt_failed_enter(mt_driver_entries[index].name, caller);
    void *f = driver_find(index);
    if (!f)
        return NULL;
    c->result = mt_device_is_gpu() ? CUDA_SUCCESS : mt_context_check(mt_driver_entries[index].needs);
    if (c->result)
        return NULL;
    if (f != (void *)mt_driver_entries[index].own) /* the real driver's, or a function that calls it */
        return f;
    c->clean = mt_error_hold();
    c->held = 1;
    return f;
}

CUresult mt_driver_leave(struct mt_driver_call *c, CUresult result)
{
    if (c->held)
        mt_error_release(c->clean);
    if (c->watched)
        mt_failed_leave((int)result, driver_error_name(result));
    if (c->per_thread)
        mt_per_thread_leave(c->outer);
    mt_entry_called = c->called;
    return result;
}
