/* Stream capture on the CPU device: while a stream is captured, what is put into it becomes nodes of a
 * graph. */
#include "capture.h"
#include "capture_state.h"
#include "entry.h"
#include "error.h"
#include "event.h"
#include "graph.h"
#include "base/fork.h"
#include <stdlib.h>
#include <string.h>

pthread_mutex_t mt_capture_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(mt_capture_lock, MT_FORK_CAPTURES);
static struct mt_capture *captures;
static _Atomic unsigned ncaptures;
static unsigned long long ids;
static _Thread_local enum cudaStreamCaptureMode thread_mode; /* Global at first */
static const cudaGraphEdgeData plain_edges[64];

struct mt_capture *mt_capture_of(const struct mt_event *e)
{
    struct mt_capture *c = captures, *of = __atomic_load_n(&e->capture, __ATOMIC_RELAXED);
    while (c && !(of == c && e->capture_id == c->id))
        c = c->next;
    return c;
}

/* ---- what streams know of their captures ---- */

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

/* ---- may this call be made? ---- */

struct search {
    int spoil, found;
};

static void capture_look(void *stream, void *ctx)
{
    struct mt_stream *s = stream;
    struct search *l = ctx;
    if (s->capture && !(s->flags & cudaStreamNonBlocking)) {
        l->found = 1;
        s->capture->invalid |= l->spoil;
    }
}

/* The legacy stream would have to wait for a captured one. spoil: the captures become invalid. */
static int is_implicit(const struct mt_stream *s, int spoil)
{
    struct search l = {.spoil = spoil};
    if (s == mt_stream_legacy())
        mt_stream_each(capture_look, &l);
    return l.found;
}

static int is_ours(const struct mt_capture *c)
{
    return pthread_equal(c->thread, pthread_self()) && c->mode != cudaStreamCaptureModeRelaxed;
}

/* Captures that a call which may do anything would disturb become invalid. */
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
        for (struct mt_capture *c = captures; c; c = c->next)
            c->invalid = 1;
        return captures ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
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

/* ---- begin and end ---- */

static cudaError_t capture_begin(cudaStream_t handle, struct CUgraph_st *into,
                                 struct CUgraphNode_st *const *after, size_t n,
                                 enum cudaStreamCaptureMode mode)
{
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(handle);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed)
        return mt_fail(cudaErrorInvalidValue);
    if (s == mt_stream_legacy())
        return mt_fail(cudaErrorStreamCaptureUnsupported);
    struct mt_capture *c = calloc(1, sizeof *c);
    if (c)
        c->graph = into ? into : mt_graph_new();
    if (!c || !c->graph) {
        free(c);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    c->given = into != NULL;
    c->origin = s;
    c->thread = pthread_self();
    c->mode = mode;
    pthread_mutex_lock(&mt_capture_lock);
    cudaError_t e = s->capture                                   ? cudaErrorIllegalState
                    : mt_tips_add(&s->tips, &s->ntips, after, n) ? cudaErrorMemoryAllocation
                                                                 : cudaSuccess;
    if (!e) {
        c->id = ++ids;
        c->next = captures;
        captures = c;
        ncaptures++;
        c->graph->captures++;
        mt_capture_set(s, c);
    }
    pthread_mutex_unlock(&mt_capture_lock);
    if (e && !into)
        mt_graph_free(c->graph);
    if (e)
        free(c);
    return mt_fail(e);
}

cudaError_t IMPL(cudaStreamBeginCapture)(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return capture_begin(stream, NULL, NULL, 0, mode);
}

#if CUDART_VERSION >= 12030
cudaError_t IMPL(cudaStreamBeginCaptureToGraph)(cudaStream_t stream, cudaGraph_t graph,
                                                const cudaGraphNode_t *after, const cudaGraphEdgeData *edges,
                                                size_t n, enum cudaStreamCaptureMode mode)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || (n && !after))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n; i++)
        if (!mt_graph_node(after[i]) || after[i]->graph != g)
            return mt_fail(cudaErrorInvalidValue);
    return capture_begin(stream, g, after, n, mode);
}
#endif

struct leaving {
    struct mt_capture *capture;
    int unjoined;
};

/* 1 when what a stream did does not come before what the first one did last. */
static int is_unjoined(struct mt_stream *origin, struct CUgraphNode_st *const *tips, size_t n)
{
    int unjoined = 0;
    for (size_t i = 0; i < n; i++) {
        int joined = 0;
        for (size_t k = 0; k < origin->ntips && !joined; k++)
            joined = mt_graph_precedes(tips[i], origin->tips[k]);
        unjoined |= !joined;
    }
    return unjoined;
}

static void capture_leave(void *stream, void *ctx)
{
    struct mt_stream *s = stream;
    struct leaving *l = ctx;
    if (s->capture != l->capture || s == l->capture->origin)
        return;
    l->unjoined |= is_unjoined(l->capture->origin, s->tips, s->ntips);
    mt_tips_clear(s);
    mt_capture_set(s, NULL);
}

/* Called with the lock: the capture is over. 1 when some stream was not joined. */
static int capture_end(struct mt_capture *c)
{
    struct leaving l = {c, is_unjoined(c->origin, c->left, c->nleft)};
    mt_stream_each(capture_leave, &l);
    free(c->left);
    mt_tips_clear(c->origin);
    mt_capture_set(c->origin, NULL);
    for (struct mt_capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    ncaptures--;
    c->graph->captures--;
    return l.unjoined;
}

cudaError_t IMPL(cudaStreamEndCapture)(cudaStream_t handle, cudaGraph_t *out)
{
    cudaError_t e = cudaSuccess;
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(handle);
    if (!s || !out)
        return mt_fail(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *out = NULL;
    pthread_mutex_lock(&mt_capture_lock);
    struct mt_capture *c = s->capture;
    if (!c)
        e = cudaErrorIllegalState;
    else if (c->origin != s)
        e = cudaErrorStreamCaptureUnmatched;
    else if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
        e = cudaErrorStreamCaptureWrongThread;
    if (e) {
        pthread_mutex_unlock(&mt_capture_lock);
        return mt_fail(e);
    }
    int unjoined = capture_end(c);
    pthread_mutex_unlock(&mt_capture_lock);
    e = c->invalid ? cudaErrorStreamCaptureInvalidated
        : unjoined ? cudaErrorStreamCaptureUnjoined
                   : cudaSuccess;
    if (!e)
        *out = c->graph;
    else if (!c->given)
        mt_graph_free(c->graph);
    free(c);
    return mt_fail(e);
}

/* A captured stream is destroyed: nobody can end its capture any more when it began it, and another one must
 * be joined as ever. */
void mt_capture_leave(struct mt_stream *s)
{
    struct mt_capture *over = NULL;
    if (!mt_capturing(s))
        return;
    pthread_mutex_lock(&mt_capture_lock);
    struct mt_capture *c = s->capture;
    if (c) {
        if (c->origin == s)
            capture_end(over = c);
        else if (mt_tips_add(&c->left, &c->nleft, s->tips, s->ntips))
            c->invalid = 1;
        mt_tips_clear(s);
        mt_capture_set(s, NULL);
    }
    pthread_mutex_unlock(&mt_capture_lock);
    if (over && !over->given)
        mt_graph_free(over->graph);
    free(over);
}

/* ---- questions ---- */

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

cudaError_t IMPL(cudaStreamIsCapturing)(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    return capture_info(handle, status, NULL, NULL, NULL, NULL, NULL);
}

static cudaError_t capture_update(cudaStream_t handle, cudaGraphNode_t *tips, size_t n, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(handle);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (flags > cudaStreamSetCaptureDependencies || (n && !tips))
        return mt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&mt_capture_lock);
    cudaError_t e = !s->capture           ? cudaErrorIllegalState
                    : s->capture->invalid ? cudaErrorStreamCaptureInvalidated
                                          : cudaSuccess;
    for (size_t i = 0; i < n && !e; i++)
        if (!mt_graph_node(tips[i]) || tips[i]->graph != s->capture->graph)
            e = cudaErrorInvalidValue;
    if (!e && flags == cudaStreamSetCaptureDependencies)
        s->ntips = 0;
    if (!e && mt_tips_add(&s->tips, &s->ntips, tips, n))
        e = cudaErrorMemoryAllocation;
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(e);
}

#if CUDART_VERSION >= 13000
cudaError_t IMPL(cudaStreamGetCaptureInfo)(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                           unsigned long long *id, cudaGraph_t *graph,
                                           const cudaGraphNode_t **tips, const cudaGraphEdgeData **edges,
                                           size_t *n)
{
    return capture_info(stream, status, id, graph, tips, edges, n);
}

cudaError_t IMPL(cudaStreamUpdateCaptureDependencies)(cudaStream_t stream, cudaGraphNode_t *tips,
                                                      const cudaGraphEdgeData *edges, size_t n,
                                                      unsigned flags)
{
    return capture_update(stream, tips, n, flags);
}
#else
cudaError_t IMPL(cudaStreamGetCaptureInfo)(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                           unsigned long long *id, cudaGraph_t *graph,
                                           const cudaGraphNode_t **tips, size_t *n)
{
    return capture_info(stream, status, id, graph, tips, NULL, n);
}

cudaError_t IMPL(cudaStreamUpdateCaptureDependencies)(cudaStream_t stream, cudaGraphNode_t *tips, size_t n,
                                                      unsigned flags)
{
    return capture_update(stream, tips, n, flags);
}
#endif

cudaError_t IMPL(cudaThreadExchangeStreamCaptureMode)(enum cudaStreamCaptureMode *mode)
{
    if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
        return mt_fail(cudaErrorInvalidValue);
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}
