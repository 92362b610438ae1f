/* Streams of the program and their traces: a stream has one from its first traced launch on. */
#include "base/fork.h"
#include "inject.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* By context and handle: a context's default streams have handles of their own. */
struct stream {
    CUcontext context;
    Sanitizer_StreamHandle handle;
    struct mt_trace *trace;
    int ends; /* it was destroyed: its trace is closed when its launches have left */
    struct stream *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list */
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* taken before it; a FIFO may be waited for */
static struct stream *streams;

static struct stream *stream_find(CUcontext context, Sanitizer_StreamHandle handle)
{
    struct stream *s = streams;
    while (s && (s->ends || s->handle != handle || (context && s->context != context)))
        s = s->next;
    return s;
}

struct mt_trace *mt_inject_stream_known(CUcontext context, Sanitizer_StreamHandle handle)
{
    pthread_mutex_lock(&lock);
    struct stream *s = stream_find(context, handle);
    struct mt_trace *t = s ? s->trace : NULL;
    pthread_mutex_unlock(&lock);
    return t;
}

int64_t mt_inject_stream_number(CUcontext context, Sanitizer_StreamHandle handle)
{
    return mt_trace_number(mt_inject_stream_known(context, handle));
}

static struct mt_trace *stream_open(CUcontext context, Sanitizer_StreamHandle handle)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct stream){.context = context, .handle = handle, .trace = mt_trace_open()};
    pthread_mutex_lock(&lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lock);
    return s->trace;
}

struct mt_trace *mt_inject_stream_trace(CUcontext context, Sanitizer_StreamHandle handle)
{
    struct mt_trace *t = mt_inject_stream_known(context, handle);
    if (t)
        return t;
    pthread_mutex_lock(&opening);
    t = mt_inject_stream_known(context, handle);
    if (!t)
        t = stream_open(context, handle);
    pthread_mutex_unlock(&opening);
    return t;
}

/* Takes out of the list: one that has ended and whose launches have left. */
static struct stream *stream_take_done(void)
{
    struct stream **at = &streams, *s;
    pthread_mutex_lock(&lock);
    while ((s = *at)) {
        struct mt_flight_filter its = {.trace = s->trace};
        if (s->ends && (!s->trace || !mt_flight_count(&its)))
            break;
        at = &s->next;
    }
    if (s)
        *at = s->next;
    pthread_mutex_unlock(&lock);
    return s;
}

void mt_inject_streams_close(void)
{
    struct stream *s;
    while ((s = stream_take_done())) {
        if (s->trace) {
            mt_queue_forget(s->trace);
            mt_trace_close(s->trace);
        }
        free(s);
    }
}

void mt_inject_streams_end(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (struct stream *s = streams; s; s = s->next)
        s->ends |= s->context == context;
    pthread_mutex_unlock(&lock);
    mt_inject_streams_close();
}

/* ---- the data of callbacks, in two layouts ---- */

struct stream_words {
    CUcontext context;
    void *word[3]; /* stream and handle, or green context, stream and handle */
};
static atomic_int green = -1;

int mt_inject_green(void)
{
    return green;
}

static int stream_fits(const struct stream_words *d, int at)
{
    Sanitizer_StreamHandle h = NULL;
    return d->word[at + 1] && !mt_sanitizer()->GetStreamHandle(d->context, d->word[at], &h) &&
           (void *)h == d->word[at + 1];
}

/* No function tells the API's version: the first stream does. The third word is there in both: of the older
 * layout it is behind the data, in the caller's memory. */
void mt_inject_stream_new(Sanitizer_CallbackId cbid, const void *data)
{
    (void)cbid;
    if (green < 0 && stream_fits(data, 0))
        green = 0;
    else if (green < 0 && stream_fits(data, 1))
        green = 1;
}

/* Its work goes on without it. */
void mt_inject_stream_ends(Sanitizer_CallbackId cbid, const void *data)
{
    const struct stream_words *d = data;
    (void)cbid;
    if (green < 0)
        mt_inject_stream_new(cbid, data);
    pthread_mutex_lock(&lock);
    struct stream *s = stream_find(d->context, d->word[green > 0 ? 2 : 1]);
    if (s)
        s->ends = 1;
    pthread_mutex_unlock(&lock);
    mt_inject_streams_close();
}

/* A copy of the list: what is done with it may wait. */
static size_t stream_copy(struct stream **out)
{
    size_t n = 0, room = 0;
    pthread_mutex_lock(&lock);
    for (struct stream *s = streams; s; s = s->next)
        room++;
    *out = calloc(room + 1, sizeof **out);
    for (struct stream *s = streams; s && *out; s = s->next)
        if (!s->ends)
            (*out)[n++] = *s;
    pthread_mutex_unlock(&lock);
    return n;
}

void mt_inject_streams(void (*f)(CUcontext context, Sanitizer_StreamHandle stream,
                                 const struct mt_trace *trace, void *data),
                       void *data)
{
    struct stream *copy;
    size_t n = stream_copy(&copy);
    for (size_t i = 0; i < n; i++)
        f(copy[i].context, copy[i].handle, copy[i].trace, data);
    free(copy);
}
