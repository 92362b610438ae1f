/* Entering and leaving functions of the driver API: which function it is, what must be so before, and errors.
 */
#define _GNU_SOURCE
#include "driver.h"
#include "context.h"
#include "api/device.h"
#include "api/entry.h"
#include "api/error.h"
#include "base/report.h"
#include <dlfcn.h>

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

/* NULL: there is none, which was said. */
static void *driver_find(struct mt_driver_entry *e)
{
    if (!mt_device_is_gpu()) {
        if (!e->own && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
            mt_report("%s: the CPU device does not have this function; it returns CUDA_ERROR_NOT_SUPPORTED",
                      e->name);
        return (void *)e->own;
    }
    void *f = __atomic_load_n(&e->real, __ATOMIC_RELAXED);
    if (!f && mt_device_driver()) {
        f = dlsym(mt_device_driver(), e->name);
        __atomic_store_n(&e->real, f, __ATOMIC_RELAXED);
    }
    if (!f && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        mt_report("%s: not in the driver in use; it returns CUDA_ERROR_NOT_SUPPORTED", e->name);
    return f;
}

void *mt_driver_enter(struct mt_driver_call *c, enum mt_driver_index index, int per_thread)
{
    struct mt_driver_entry *e = &mt_driver_entries[index];
    *c = (struct mt_driver_call){.result = CUDA_ERROR_NOT_SUPPORTED, .called = mt_entry_called};
    void *f = driver_find(e);
    if (!f)
        return NULL;
    c->result = mt_device_is_gpu() ? CUDA_SUCCESS : mt_context_check(e->needs);
    if (c->result)
        return NULL;
    c->per_thread = per_thread;
    if (per_thread)
        c->outer = mt_per_thread_enter();
    if (mt_device_is_gpu())
        return f;
    c->clean = mt_error_hold();
    c->held = 1;
    return f;
}

CUresult mt_driver_leave(struct mt_driver_call *c, CUresult result)
{
    if (c->held)
        mt_error_release(c->clean);
    if (c->per_thread)
        mt_per_thread_leave(c->outer);
    mt_entry_called = c->called;
    return result;
}
