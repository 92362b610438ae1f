#include "stream.h"
#include "entry.h"
#include "device.h"
#include "error.h"
#include "map.h"
#include "sync.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct mt_map streams = MT_MAP_INIT;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static struct mt_stream *legacy;
static _Thread_local struct mt_stream *own;
static _Atomic uint64_t next_id = 1;
static _Atomic uint64_t pending; /* host functions not done yet, over all streams */

static void thread_ends(void *stream)
{
    own = NULL;
    mt_stream_remove(stream);
}

static void first(void)
{
    pthread_key_create(&thread_key, thread_ends);
    legacy = mt_stream_add(cudaStreamLegacy, 0, 0);
}

struct mt_stream *mt_stream_get(cudaStream_t handle)
{
    pthread_once(&once, first);
    if (handle == cudaStreamLegacy || (!handle && !mt_per_thread()))
        return legacy;
    if (handle && handle != cudaStreamPerThread)
        return mt_map_get(&streams, handle);
    if (!own) {
        own = mt_stream_add(NULL, cudaStreamNonBlocking, 0);
        if (own)
            own->flags = cudaStreamDefault; /* blocking with respect to the legacy stream */
        pthread_setspecific(thread_key, own);
    }
    return own;
}

struct mt_stream *mt_stream_add(cudaStream_t handle, unsigned flags, int priority)
{
    struct mt_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->handle = handle ? handle : (cudaStream_t)s;
    s->id = atomic_fetch_add(&next_id, 1);
    s->flags = flags;
    s->priority = priority;
    pthread_mutex_init(&s->launching, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->moved, NULL);
    if (mt_map_set(&streams, s->handle, s)) {
        free(s);
        return NULL;
    }
    return s;
}

void mt_stream_remove(struct mt_stream *s)
{
    if (!s || !mt_map_take(&streams, s->handle))
        return;
    mt_stream_wait(s);
    pthread_mutex_lock(&s->launching);
    mt_trace_close(s->trace);
    pthread_mutex_unlock(&s->launching);
    pthread_mutex_destroy(&s->launching);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->moved);
    free(s);
}

struct mt_trace *mt_stream_trace(struct mt_stream *s)
{
    if (!s->trace)
        s->trace = mt_trace_open();
    return s->trace;
}

int64_t mt_stream_number(cudaStream_t handle)
{
    struct mt_stream *s = mt_stream_get(handle);
    return s ? mt_trace_number(s->trace) : -1;
}

/* ---- host functions ---- */

struct call {
    struct mt_stream *stream;
    uint64_t turn;
    void (*fn)(void *);
    void *data;
};

static void *run_call(void *p)
{
    struct call *c = p;
    struct mt_stream *s = c->stream;
    pthread_mutex_lock(&s->lock);
    while (s->done != c->turn)
        pthread_cond_wait(&s->moved, &s->lock);
    pthread_mutex_unlock(&s->lock);
    c->fn(c->data);
    pthread_mutex_lock(&s->lock);
    s->done++;
    pthread_cond_broadcast(&s->moved);
    pthread_mutex_unlock(&s->lock); /* from here on the stream may be gone */
    pending--;
    free(c);
    return NULL;
}

int mt_stream_call(struct mt_stream *s, void (*fn)(void *), void *data)
{
    struct call *c = malloc(sizeof *c);
    pthread_attr_t a;
    pthread_t thread;
    if (!c)
        return ENOMEM;
    pthread_mutex_lock(&s->lock);
    *c = (struct call){s, s->issued++, fn, data};
    pending++;
    pthread_mutex_unlock(&s->lock);
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &a, run_call, c))
        run_call(c); /* no more threads: here and now */
    pthread_attr_destroy(&a);
    return 0;
}

static void wait_one(struct mt_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->done != s->issued)
        pthread_cond_wait(&s->moved, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Streams cannot be waited for while the map is locked: collect first. */
struct list {
    struct mt_stream **at;
    size_t n, capacity;
    int all;
};

static void collect(void *value, void *ctx)
{
    struct mt_stream *s = value;
    struct list *l = ctx;
    if (!l->all && s->flags & cudaStreamNonBlocking)
        return;
    if (l->n == l->capacity) {
        size_t capacity = 2 * l->capacity + 16;
        struct mt_stream **p = realloc(l->at, capacity * sizeof *p);
        if (!p)
            return;
        l->at = p;
        l->capacity = capacity;
    }
    l->at[l->n++] = s;
}

static void wait_list(int all)
{
    struct list l = {.all = all};
    mt_map_each(&streams, collect, &l);
    for (size_t i = 0; i < l.n; i++)
        wait_one(l.at[i]);
    free(l.at);
}

void mt_stream_wait(struct mt_stream *s)
{
    if (!pending)
        return;
    if (s == legacy)
        wait_list(0);
    else if (!(s->flags & cudaStreamNonBlocking) && legacy)
        wait_one(legacy);
    wait_one(s);
}

void mt_stream_wait_all(void)
{
    if (pending)
        wait_list(1);
}

int mt_stream_idle(struct mt_stream *s)
{
    pthread_mutex_lock(&s->lock);
    int idle = s->done == s->issued;
    pthread_mutex_unlock(&s->lock);
    return idle;
}
