/* Streams, on both devices: what the trace and, on the CPU device, the API know of them. */
#include "stream.h"
#include "capture.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "device/gpu.h"
#include "api/tables/map.h"
#include "queue.h"
#include "base/fork.h"
#include <stdatomic.h>
#include <stdlib.h>

static struct mt_map streams = MT_MAP_INIT;
MT_FORK_TABLE(streams);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static struct mt_stream *_Atomic legacy_of[MT_DEVICES_MAX]; /* each device has one of its own */
static _Thread_local struct mt_stream *own; /* the last one used, with those of other devices behind it */
static _Atomic uint64_t next_id = 1;

static void thread_ends(void *stream)
{
    struct mt_stream *s = stream;
    own = NULL;
    if (s->trace && mt_device_is_gpu() && mt_gpu())
        mt_gpu()->stream_ends(cudaStreamPerThread, s->trace);
    for (struct mt_stream *more; s; s = more) {
        more = s->own_more;
        mt_stream_remove(s);
    }
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
    s->device = mt_device_current();
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

/* 1, or 0: there is none for it, or another thread was faster. */
static int stream_is_legacy(struct mt_stream *s, int device)
{
    struct mt_stream *none = NULL;
    if (!s)
        return 0;
    s->legacy = 1;
    return atomic_compare_exchange_strong(&legacy_of[device], &none, s);
}

static void stream_first(void)
{
    pthread_key_create(&thread_key, thread_ends);
    struct mt_stream *first = stream_add(cudaStreamLegacy, 0, 0, 1);
    if (first)
        first->device = 0;
    stream_is_legacy(first, 0);
    pthread_atfork(NULL, NULL, stream_forked);
}

struct mt_stream *mt_stream_legacy(int device)
{
    pthread_once(&once, stream_first);
    return legacy_of[device];
}

static struct mt_stream *of_current_device(void)
{
    int device = mt_device_current();
    if (mt_device_is_gpu() && (MT_NEXT(cudaGetDevice)(&device) || device <= 0 || device >= MT_DEVICES_MAX))
        device = 0;
    if (legacy_of[device])
        return legacy_of[device];
    struct mt_stream *s = stream_add(NULL, 0, 0, 1);
    if (!stream_is_legacy(s, device))
        mt_stream_remove(s);
    return legacy_of[device] ? legacy_of[device] : legacy_of[0];
}

/* The thread's own on the current device, which comes to the front; NULL: it has none yet. */
static struct mt_stream *stream_own(void)
{
    struct mt_stream **at = &own;
    while (*at && (*at)->device != mt_device_current())
        at = &(*at)->own_more;
    struct mt_stream *s = *at;
    if (s && s != own) {
        *at = s->own_more;
        s->own_more = own;
        own = s;
    }
    return s;
}

struct mt_stream *mt_stream_get(cudaStream_t handle)
{
    pthread_once(&once, stream_first);
    if (handle == cudaStreamLegacy || (!handle && !mt_per_thread()))
        return of_current_device();
    if (handle && handle != cudaStreamPerThread)
        return mt_map_get(&streams, handle);
    if (!stream_own()) {
        struct mt_stream *s =
            stream_add(NULL, cudaStreamDefault, 0, 1); /* blocking: the legacy one's rules */
        if (s)
            s->own_more = own;
        own = s ? s : own;
    }
    pthread_setspecific(thread_key, own);
    return stream_own();
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

struct stream_search {
    int device;
    struct mt_stream *found;
};

static void find_made(void *stream, void *ctx)
{
    struct mt_stream *s = stream;
    struct stream_search *l = ctx;
    if (!s->lasting && s->device == l->device)
        l->found = s;
}

void mt_streams_reset(int device)
{
    struct stream_search l;
    do {
        l = (struct stream_search){device, NULL};
        mt_map_each(&streams, find_made, &l);
        mt_stream_remove(l.found);
    } while (l.found);
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
