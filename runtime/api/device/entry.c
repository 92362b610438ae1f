/* Entry layer: resolution of slots. */
#define _GNU_SOURCE
#include "api/entry.h"
#include "device.h"
#include "api/tables/error.h"
#include "base/attach.h"
#include "base/report.h"
#include <dlfcn.h>
#include <string.h>
#include <stdatomic.h>

static _Thread_local int per_thread;

int mt_per_thread(void)
{
    return per_thread;
}

int mt_per_thread_enter(const void *caller)
{
    int outer = per_thread;
    mt_failed_caller(outer ? NULL : caller);
    per_thread = 1;
    return outer;
}

void mt_per_thread_leave(int outer)
{
    mt_failed_caller(NULL);
    per_thread = outer;
}

static cudaError_t entry_unsupported(void)
{
    return mt_fail(cudaErrorNotSupported);
}

static void entry_say(struct mt_entry *e, const char *why)
{
    if (!__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        mt_report("%s: %s; it returns cudaErrorNotSupported", e->name, why);
}

static void *entry_real(struct mt_entry *e)
{
    void **at = per_thread && e->per_thread ? &e->real_per_thread : &e->real;
    void *f = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (!f && mt_device_cudart()) {
        f = dlsym(mt_device_cudart(), at == &e->real ? e->name : e->per_thread);
        __atomic_store_n(at, f, __ATOMIC_RELAXED);
    }
    return f;
}

/* Error of MEMTRACE_DEVICE=gpu without a runtime to forward to, which was reported. */
static cudaError_t no_runtime(void)
{
    return mt_fail(cudaErrorInsufficientDriver);
}

/* Returns the function of an entry, or NULL after a report. */
static void *entry_find(struct mt_entry *e)
{
    int gpu = mt_device_is_gpu();
    void *f = gpu ? entry_real(e) : (void *)e->impl;
    if (!f && gpu && e->alone && e->impl)
        return (void *)e->impl;
    if (!f && gpu && !mt_device_cudart())
        return (void *)no_runtime;
    if (!f)
        entry_say(e, gpu ? "not in the CUDA runtime in use" : "the CPU device does not have this function");
    return f;
}

void *mt_entry_next(enum mt_entry_index index)
{
    void *f = entry_find(&mt_entries[index]);
    return f ? f : (void *)entry_unsupported;
}

int mt_entry_called;

/* Returns 1 for queries of devices and errors, which need no context. */
static int entry_is_question(const char *name)
{
    static const char *const begins[] = {"__cuda",     "cudaGet",     "cudaDeviceGet", "cudaDeviceCan",
                                         "cudaDriver", "cudaRuntime", "cudaPeek",      "cudaChoose"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(name, begins[i], strlen(begins[i])))
            return 1;
    return 0;
}

/* Call of this thread through mt_entry_watch. */
static _Thread_local struct {
    const char *name;
    void *f;
} watched;

void *mt_entry_begin(const void *caller)
{
    mt_failed_enter(watched.name, caller);
    return watched.f;
}

void mt_entry_end(int code)
{
    mt_failed_leave(code, code ? impl_cudaGetErrorName((cudaError_t)code) : NULL);
}

/* Returns whether an error returned by the function is a failure, rather than its result. */
static int entry_is_watched(const struct mt_entry *e)
{
    return !e->alone && mt_failed_watched();
}

void *mt_entry_resolve(uint32_t index)
{
    struct mt_entry *e = &mt_entries[index];
    mt_entry_called |= !entry_is_question(e->name);
    void *f = e->rec ? (void *)e->rec : entry_find(e);
    if (entry_is_watched(e)) { /* the slot stays unset, so that the next call comes here, too */
        watched.name = e->name;
        watched.f = f ? f : (void *)entry_unsupported;
        return (void *)mt_entry_watch;
    }
    /* Per-thread variants share this slot but must reach the real runtime's own variant. */
    int fixed = f && (e->rec || !mt_device_is_gpu() || !e->per_thread);
    if (fixed)
        __atomic_store_n(&mt_entry_slots[index], f, __ATOMIC_RELEASE);
    return f ? f : (void *)entry_unsupported;
}

__attribute__((visibility("default"))) int __mt_attach_missing(struct mt_attach_missing *m)
{
    if (!__atomic_exchange_n(&m->said, 1, __ATOMIC_RELAXED))
        mt_report(
            "%s: of the CUDA runtime in the program, and not in this one; it returns cudaErrorNotSupported",
            m->name);
    return (int)mt_fail(cudaErrorNotSupported);
}
