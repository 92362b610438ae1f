/* Capture state of streams, calls permitted during a capture, and events, which carry captures from stream to
 * stream. */
#include "stream.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "trace/devices.h"
#include "base/fork.h"
#include <stdlib.h>
#include <string.h>

pthread_mutex_t mt_capture_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(mt_capture_lock, MT_FORK_CAPTURES);
const struct mt_capture_ops *mt_capture_ops;
static struct mt_capture *captures;
static _Atomic unsigned ncaptures;
static unsigned long long ids;
static _Thread_local enum cudaStreamCaptureMode thread_mode; /* Global by default */
static const cudaGraphEdgeData plain_edges[64];

static struct mt_capture *capture_of(const struct mt_event *e)
{
    struct mt_capture *c = captures, *of = __atomic_load_n(&e->capture, __ATOMIC_RELAXED);
    while (c && !(of == c && e->capture_id == c->id))
        c = c->next;
    return c;
}

/* ---- capture state of streams ---- */

int mt_tips_add(struct CUgraphNode_st ***at, size_t *n, struct CUgraphNode_st *const *more, size_t count)
{
    struct CUgraphNode_st **p = realloc(*at, (*n + count + 1) * sizeof *p);
    if (!p)
        return -1;
    *at = p;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < *n && p[k] != more[i])
            k++;
        if (k == *n)
            p[(*n)++] = more[i];
    }
    return 0;
}

void mt_tips_clear(struct mt_stream *s)
{
    free(s->tips);
    s->tips = NULL;
    s->ntips = 0;
}

void mt_capture_set(struct mt_stream *s, struct mt_capture *c)
{
    __atomic_store_n(&s->capture, c, __ATOMIC_RELEASE);
}

/* ---- permission of calls ---- */

struct search {
    int device, all, spoil, found; /* all: including non-blocking streams */
};

static void capture_look(void *stream, void *ctx)
{
    struct mt_stream *s = stream;
    struct search *l = ctx;
    if (s->capture && s->device == l->device && (l->all || !(s->flags & cudaStreamNonBlocking))) {
        l->found = 1;
        s->capture->invalid |= l->spoil;
    }
}

/* Returns whether the legacy stream would have to wait for a captured one. spoil: invalidates these captures.
 */
static int is_implicit(const struct mt_stream *s, int spoil)
{
    struct search l = {.device = s->device, .spoil = spoil};
    if (s->legacy)
        mt_stream_each(capture_look, &l);
    return l.found;
}

static int is_ours(const struct mt_capture *c)
{
    return pthread_equal(c->thread, pthread_self()) && c->mode != cudaStreamCaptureModeRelaxed;
}

/* Invalidates the captures that an unsafe call would disturb. */
static int is_prohibited(void)
{
    int found = 0;
    for (struct mt_capture *c = captures; c && thread_mode != cudaStreamCaptureModeRelaxed; c = c->next)
        if (is_ours(c) ||
            (thread_mode == cudaStreamCaptureModeGlobal && c->mode == cudaStreamCaptureModeGlobal))
            c->invalid = found = 1;
    return found;
}

static cudaError_t capture_check(struct mt_stream *s, enum mt_call call)
{
    if (call == MT_CALL_DEVICE) {
        struct search l = {.device = mt_device_current(), .all = 1, .spoil = 1};
        mt_stream_each(capture_look, &l);
        return l.found ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    }
    if (s && s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (s && s->capture && call != MT_CALL_ASYNC) {
        s->capture->invalid = 1;
        return cudaErrorStreamCaptureUnsupported;
    }
    if (s && !s->capture && is_implicit(s, 1))
        return cudaErrorStreamCaptureImplicit;
    return call == MT_CALL_UNSAFE && is_prohibited() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t mt_capture_check(struct mt_stream *s, enum mt_call call)
{
    if (mt_in_host_function())
        return mt_fail(cudaErrorNotPermitted);
    if (!ncaptures)
        return cudaSuccess;
    pthread_mutex_lock(&mt_capture_lock);
    cudaError_t e = capture_check(s, call);
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(e);
}

/* ---- begin, end, and captured operations ---- */

void mt_capture_enlist(struct mt_capture *c)
{
    c->id = ++ids;
    c->next = captures;
    captures = c;
    ncaptures++;
}

void mt_capture_delist(struct mt_capture *c)
{
    for (struct mt_capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    ncaptures--;
}

cudaError_t mt_capture_add(struct mt_stream *s, struct mt_op *op)
{
    cudaError_t e = op ? cudaErrorStreamCaptureInvalidated : cudaErrorMemoryAllocation;
    pthread_mutex_lock(&mt_capture_lock);
    if (op && s->capture && !s->capture->invalid)
        e = mt_capture_ops->add(s, op);
    else
        mt_op_free(op);
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(e);
}

cudaError_t mt_capture_alloc(struct mt_stream *s, void *p, size_t bytes)
{
    return mt_fail(mt_capture_ops->alloc(s, p, bytes));
}

cudaError_t mt_capture_free(struct mt_stream *s, void *p)
{
    return mt_fail(mt_capture_ops->free(s, p));
}

void mt_capture_leave(struct mt_stream *s)
{
    if (mt_capturing(s))
        mt_capture_ops->leave(s);
}

/* ---- events ---- */

cudaError_t mt_capture_record(struct mt_stream *s, struct mt_event *e)
{
    cudaError_t rc = cudaSuccess;
    pthread_mutex_lock(&mt_capture_lock);
    e->nnodes = 0;
    if (!s->capture || s->capture->invalid)
        rc = cudaErrorStreamCaptureInvalidated;
    else if (mt_tips_add(&e->nodes, &e->nnodes, s->tips, s->ntips))
        rc = cudaErrorMemoryAllocation;
    if (!rc) {
        __atomic_store_n(&e->capture, s->capture, __ATOMIC_RELAXED);
        e->capture_id = s->capture->id;
    }
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(rc);
}

static cudaError_t capture_join(struct mt_stream *s, struct mt_event *e)
{
    struct mt_capture *c = capture_of(e);
    if (__atomic_load_n(&e->capture, __ATOMIC_RELAXED) && !c)
        return cudaErrorCapturedEvent;
    if (!c) {           /* recorded before the capture */
        if (s->capture) /* another thread may have ended it meanwhile */
            s->capture->invalid = 1;
        return cudaErrorStreamCaptureIsolation;
    }
    if (c->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (s->capture && s->capture != c) {
        s->capture->invalid = c->invalid = 1;
        return cudaErrorStreamCaptureMerge;
    }
    if (s->legacy) {
        c->invalid = 1;
        return cudaErrorStreamCaptureImplicit;
    }
    if (mt_tips_add(&s->tips, &s->ntips, e->nodes, e->nnodes))
        return cudaErrorMemoryAllocation;
    mt_capture_set(s, c);
    return cudaSuccess;
}

cudaError_t mt_capture_wait(struct mt_stream *s, struct mt_event *e)
{
    pthread_mutex_lock(&mt_capture_lock);
    cudaError_t rc = capture_join(s, e);
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(rc);
}

cudaError_t mt_capture_asked(struct mt_event *e)
{
    pthread_mutex_lock(&mt_capture_lock);
    struct mt_capture *c = capture_of(e);
    if (c)
        c->invalid = 1;
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(cudaErrorCapturedEvent);
}

/* ---- queries ---- */

static enum cudaStreamCaptureStatus status_of(const struct mt_stream *s)
{
    return !s->capture           ? cudaStreamCaptureStatusNone
           : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

static cudaError_t capture_info(cudaStream_t handle, enum cudaStreamCaptureStatus *status,
                                unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **tips,
                                const cudaGraphEdgeData **edges, size_t *n)
{
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(handle);
    if (!s || !status)
        return mt_fail(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    pthread_mutex_lock(&mt_capture_lock);
    int implicit = ncaptures && is_implicit(s, 0);
    *status = status_of(s);
    int on = *status == cudaStreamCaptureStatusActive;
    if (on && id)
        *id = s->capture->id;
    if (on && graph)
        *graph = s->capture->graph;
    if (on && tips)
        *tips = s->tips;
    if (on && edges)
        *edges = s->ntips <= sizeof plain_edges / sizeof *plain_edges ? plain_edges : NULL;
    if (on && n)
        *n = s->ntips;
    pthread_mutex_unlock(&mt_capture_lock);
    return implicit ? mt_fail(cudaErrorStreamCaptureImplicit) : cudaSuccess;
}

cudaError_t impl_cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    return capture_info(handle, status, NULL, NULL, NULL, NULL, NULL);
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph,
                                          const cudaGraphNode_t **tips, const cudaGraphEdgeData **edges,
                                          size_t *n)
{
    return capture_info(stream, status, id, graph, tips, edges, n);
}
#else
cudaError_t impl_cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph,
                                          const cudaGraphNode_t **tips, size_t *n)
{
    return capture_info(stream, status, id, graph, tips, NULL, n);
}
#endif

cudaError_t impl_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
        return mt_fail(cudaErrorInvalidValue);
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}
