/* Entering and leaving functions of the driver API: which function it is, what must be so before, and errors.
 */
#define _GNU_SOURCE
#include "driver.h"
#include "context.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/report.h"
#include "trace/events.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Errors that the runtime API has and the driver API has not. */
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

void *mt_driver_real(enum mt_driver_index index)
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

/* NULL: there is none, which was said. */
static void *driver_find(enum mt_driver_index index)
{
    struct mt_driver_entry *e = &mt_driver_entries[index];
    int gpu = mt_device_is_gpu();
    void *f = gpu ? mt_driver_real(index) : (void *)e->own;
    if (!f && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        mt_report("%s: %s; it returns CUDA_ERROR_NOT_SUPPORTED", e->name,
                  gpu ? "not in the driver in use" : "the CPU device does not have this function");
    if (f && gpu && mt_tracing() && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        mt_driver_unseen(e->name);
    return f && gpu && e->gpu && mt_tracing() ? (void *)e->gpu : f;
}

/* Calls that ask for something, and say so by an error if it is not there, are none that fail. */
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
    if (f != (void *)mt_driver_entries[index].own) /* the real driver's, or what calls that */
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
