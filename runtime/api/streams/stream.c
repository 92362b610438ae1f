/* Streams, on both devices: what the trace and, on the CPU device, the API know of them. */
#include "stream.h"
#include "capture.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "gpu/gpu.h"
#include "api/tables/map.h"
#include "queue.h"
#include "base/fork.h"
#include <stdatomic.h>
#include <stdlib.h>

static struct mt_map streams = MT_MAP_INIT;
MT_FORK_TABLE(streams);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static struct mt_stream *legacy;
static struct mt_stream *_Atomic legacy_of[MT_DEVICES_MAX]; /* GPUs but the first: each has one of its own */
static _Thread_local struct mt_stream *own;
static _Atomic uint64_t next_id = 1;

static void thread_ends(void *stream)
{
    struct mt_stream *s = stream;
    own = NULL;
    if (s->trace && mt_device_is_gpu() && mt_gpu())
        mt_gpu()->stream_ends(cudaStreamPerThread, s->trace);
    mt_stream_remove(stream);
}

static void stream_forked(void)
{
    mt_queue_forked();
}

static struct mt_stream *stream_add(cudaStream_t handle, unsigned flags, int priority, int lasting)
{
    struct mt_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->lasting = lasting;
    s->handle = handle ? handle : (cudaStream_t)s;
    s->id = atomic_fetch_add(&next_id, 1);
    s->flags = flags;
    s->priority = priority;
    s->refs = 1;
    pthread_mutex_init(&s->launching, NULL);
    pthread_cond_init(&s->moved, NULL);
    if (mt_map_set(&streams, s->handle, s)) {
        free(s);
        return NULL;
    }
    return s;
}

static void stream_first(void)
{
    pthread_key_create(&thread_key, thread_ends);
    legacy = stream_add(cudaStreamLegacy, 0, 0, 1);
    pthread_atfork(NULL, NULL, stream_forked);
}

struct mt_stream *mt_stream_legacy(void)
{
    pthread_once(&once, stream_first);
    return legacy;
}

static struct mt_stream *of_current_device(void)
{
    struct mt_stream *s, *none = NULL;
    int device = 0;
    if (!mt_device_is_gpu() || MT_NEXT(cudaGetDevice)(&device) || device <= 0 || device >= MT_DEVICES_MAX)
        return legacy;
    if ((s = legacy_of[device]))
        return s;
    if (!(s = mt_stream_add(NULL, 0, 0)))
        return legacy;
    if (atomic_compare_exchange_strong(&legacy_of[device], &none, s))
        return s;
    mt_stream_remove(s); /* another thread was faster */
    return none;
}

struct mt_stream *mt_stream_get(cudaStream_t handle)
{
    pthread_once(&once, stream_first);
    if (handle == cudaStreamLegacy || (!handle && !mt_per_thread()))
        return of_current_device();
    if (handle && handle != cudaStreamPerThread)
        return mt_map_get(&streams, handle);
    if (!own) {
        own = stream_add(NULL, cudaStreamDefault, 0, 1); /* blocking with respect to the legacy stream */
        pthread_setspecific(thread_key, own);
    }
    return own;
}

struct mt_stream *mt_stream_add(cudaStream_t handle, unsigned flags, int priority)
{
    return stream_add(handle, flags, priority, 0);
}

void mt_stream_remove(struct mt_stream *s)
{
    if (!s || !mt_map_take(&streams, s->handle))
        return;
    mt_capture_leave(s);
    mt_queue_let_go(s);
}

static void find_made(void *stream, void *ctx)
{
    struct mt_stream *s = stream, **found = ctx;
    if (!s->lasting)
        *found = s;
}

void mt_streams_reset(void)
{
    struct mt_stream *s;
    do {
        s = NULL;
        mt_map_each(&streams, find_made, &s);
        mt_stream_remove(s);
    } while (s);
}

void mt_stream_free(struct mt_stream *s)
{
    mt_trace_close(s->trace);
    pthread_mutex_destroy(&s->launching);
    pthread_cond_destroy(&s->moved);
    free(s);
}

struct mt_trace *mt_stream_trace(struct mt_stream *s)
{
    pthread_mutex_lock(&s->launching);
    if (!s->trace)
        __atomic_store_n(&s->trace, mt_trace_open(), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->launching);
    return s->trace;
}

int64_t mt_stream_number_of(const struct mt_stream *s)
{
    return mt_trace_number(__atomic_load_n(&s->trace, __ATOMIC_ACQUIRE));
}

int64_t mt_stream_number(cudaStream_t handle)
{
    struct mt_stream *s = mt_stream_get(handle);
    return s ? mt_stream_number_of(s) : -1;
}

void mt_stream_each(void (*f)(void *stream, void *ctx), void *ctx)
{
    mt_map_each(&streams, f, ctx);
}
