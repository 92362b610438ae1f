/* Streams, and their queues of operations. */
#define _GNU_SOURCE
#include "stream.h"
#include "guard.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "trace/devices.h"
#include "base/fork.h"
#include "base/options.h"
#include "trace/events.h"
#include "base/thread.h"
#include "trace/last.h"
#include "base/report.h"
#include "cpu/cpu.h"
#include "api/device/device.h"
#include "device/gpu.h"
#include "api/tables/map.h"
#include "base/file.h"
#include "trace/selection.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Capture state of streams, calls permitted during a capture, and events, which carry captures from stream to
 * stream. */

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

static int stream_is_ours(const struct mt_capture *c)
{
    return pthread_equal(c->thread, pthread_self()) && c->mode != cudaStreamCaptureModeRelaxed;
}

/* Invalidates the captures that an unsafe call would disturb. */
static int is_prohibited(void)
{
    int found = 0;
    for (struct mt_capture *c = captures; c && thread_mode != cudaStreamCaptureModeRelaxed; c = c->next)
        if (stream_is_ours(c) ||
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

/* Adds the operation as a node after those captured in the stream before. */
static cudaError_t capture_add(struct mt_stream *s, struct mt_op *op)
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

/* Handles the destruction of the stream. */
static void capture_leave(struct mt_stream *s)
{
    if (mt_capturing(s))
        mt_capture_ops->leave(s);
}

/* ---- events ---- */

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

/* A single queue_lock for all queues and marks: held for a few instructions at a time. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- clocks ---- */

static struct mt_clock host; /* what the host has waited for */
static struct mt_clock told; /* what it may know from host functions that have ended */
/* By device; blocking: of all streams that the legacy one follows. */
static struct mt_clock blocking[MT_DEVICES_MAX], all[MT_DEVICES_MAX];
static int order_streams; /* number of numbered streams */
static uint64_t tickets, ended;
static struct mt_stream *active; /* streams with work */

void mt_order_join(struct mt_clock *to, const struct mt_clock *from)
{
    for (int i = 0; i < MT_ORDER_STREAMS; i++)
        to->n[i] = from->n[i] > to->n[i] ? from->n[i] : to->n[i];
}

/* Returns whether the order is recorded. */
static int order_is_on(void)
{
    return mt_options()->check && order_streams <= MT_ORDER_STREAMS;
}

static void order_mark(struct mt_mark *m, const struct mt_clock *now)
{
    if (!m->clock)
        m->clock = malloc(sizeof *m->clock);
    if (m->clock)
        *m->clock = *now;
}

static void order_join_all(struct mt_clock *to, int device)
{
    for (int i = 0; i < mt_devices(); i++)
        if (device < 0 || device == i)
            mt_order_join(to, &all[i]);
}

static void order_join_mark(struct mt_clock *to, const struct mt_mark *m)
{
    if (m->clock)
        mt_order_join(to, m->clock);
    else /* recorded at an unknown place: follows everything */
        order_join_all(to, -1);
}

static struct mt_stream *stream_legacy(int device);

/* Computes the clock of everything before the next operation of the stream. */
static void order_before(struct mt_clock *c, const struct mt_stream *s, const struct mt_op *op)
{
    const struct mt_stream *legacy = stream_legacy(s->device);
    mt_order_join(c, &host);
    if (s->legacy)
        mt_order_join(c, &blocking[s->device]);
    else if (legacy && !(s->flags & cudaStreamNonBlocking))
        mt_order_join(c, &legacy->clock);
    if (op->after)
        order_join_mark(c, op->after);
}

/* Writes a clock as pairs, but for one stream. Returns the number of words. */
static size_t order_pairs(uint64_t *pairs, const struct mt_clock *clock, int but)
{
    size_t n = 0;
    for (int i = 0; i < order_streams; i++)
        if (clock->n[i] && i != but) {
            pairs[n++] = (uint64_t)i;
            pairs[n++] = clock->n[i];
        }
    return n;
}

/* Logs what comes before and after an operation of the stream or path `number`. before: NULL, or as in
 * struct mt_node_order. */
static void order_write(uint64_t op, const struct mt_clock *clock, const struct mt_clock *before, int number)
{
    uint64_t after_pairs[2 * MT_ORDER_STREAMS], before_pairs[2 * MT_ORDER_STREAMS];
    mt_event_order(&(struct mt_order_line){
        .op = op,
        .stream = (uint64_t)number - 1,
        .n = clock->n[number - 1],
        .after = after_pairs,
        .nafter = order_pairs(after_pairs, clock, number - 1),
        .before = before_pairs,
        .nbefore = before ? order_pairs(before_pairs, before, -1) : 0,
    });
}

/* Keeps and logs the order of an operation that is put into a queue, as in order_write. */
static void order_log(struct mt_op *op, const struct mt_clock *clock, const struct mt_clock *before,
                      int number)
{
    int keeps = op->kind == MT_OP_KERNEL || op->kind == MT_OP_FREE || op->kind == MT_OP_HOST;
    op->path = number;
    if (keeps && (op->clock = malloc(sizeof *op->clock)))
        *op->clock = *clock;
    if (op->reaches)
        order_mark(op->reaches, clock);
    if (op->kind != MT_OP_RECORD && op->kind != MT_OP_WAIT)
        order_write(op->number, clock, before, number);
}

/* Logs everything before `op`, which has a ticket, when it is put into the stream. */
static void order_submit(struct mt_stream *s, struct mt_op *op)
{
    if (!order_is_on())
        return;
    if (!s->order && (s->order = ++order_streams) > MT_ORDER_STREAMS)
        return;
    order_before(&s->clock, s, op);
    s->clock.n[s->order - 1]++;
    if (!(s->flags & cudaStreamNonBlocking))
        mt_order_join(&blocking[s->device], &s->clock);
    mt_order_join(&all[s->device], &s->clock);
    order_log(op, &s->clock, NULL, s->order);
}

/* ---- paths of graphs ---- */

enum { ORDER_PATHS = 32 }; /* most paths of graphs, so that streams keep their numbers */
static int order_paths;
static uint32_t order_done[MT_ORDER_STREAMS];        /* operations of each path so far */
static struct mt_clock order_ends[MT_ORDER_STREAMS]; /* what the last of them comes before */
static uint8_t order_idle[MT_ORDER_STREAMS];         /* paths that were given back */

int mt_order_now(const struct mt_stream *s, struct mt_clock *now)
{
    pthread_mutex_lock(&queue_lock);
    int on = order_is_on();
    *now = s->clock;
    pthread_mutex_unlock(&queue_lock);
    return on;
}

void mt_order_reached(struct mt_stream *s, const struct mt_clock *clock)
{
    pthread_mutex_lock(&queue_lock);
    mt_order_join(&s->clock, clock);
    pthread_mutex_unlock(&queue_lock);
}

/* Returns whether all operations of path `i` so far come before what has this clock. */
static int order_path_over(int i, const struct mt_clock *clock)
{
    int over = clock->n[i] == order_done[i];
    for (int k = 0; k < MT_ORDER_STREAMS && !over; k++)
        over = order_ends[i].n[k] && clock->n[k] >= order_ends[i].n[k];
    return over;
}

/* Returns a path that was given back, or a new one, or 0. */
static int order_path_new(const struct mt_clock *clock)
{
    for (int i = 0; i < order_streams; i++)
        if (order_idle[i] && order_path_over(i, clock)) {
            order_idle[i] = 0;
            return i + 1;
        }
    if (order_paths == ORDER_PATHS || order_streams == MT_ORDER_STREAMS)
        return 0;
    order_paths++;
    return ++order_streams;
}

static uint32_t order_advance(struct mt_node_order *node)
{
    return node->clock.n[node->path - 1] = ++order_done[node->path - 1];
}

int mt_order_path(struct mt_order_paths *p, struct mt_node_order *node)
{
    pthread_mutex_lock(&queue_lock);
    for (int i = 0; i < p->n && !node->path; i++)
        node->path = order_path_over(p->path[i] - 1, &node->clock) ? p->path[i] : 0;
    if (!node->path && order_is_on() && (node->path = order_path_new(&node->clock)))
        p->path[p->n++] = node->path;
    if (node->path) {
        order_advance(node);
        order_ends[node->path - 1] = node->before ? *node->before : (struct mt_clock){{0}};
    }
    pthread_mutex_unlock(&queue_lock);
    return node->path;
}

void mt_order_number(struct mt_node_order *node)
{
    pthread_mutex_lock(&queue_lock);
    order_advance(node);
    pthread_mutex_unlock(&queue_lock);
}

void mt_order_paths_done(const struct mt_order_paths *p)
{
    pthread_mutex_lock(&queue_lock);
    for (int i = 0; i < p->n; i++)
        order_idle[p->path[i] - 1] = 1;
    pthread_mutex_unlock(&queue_lock);
}

/* The same for a node of a graph. What follows a body knows the end of its node. */
static void order_submit_node(struct mt_stream *s, struct mt_op *op)
{
    struct mt_node_order *o = op->order;
    op->order = NULL;
    if (!order_is_on() || !o->path)
        return;
    if (op->after)
        order_join_mark(&o->clock, op->after);
    if (o->before)
        op->number = ++tickets;
    if (!o->before && !(s->flags & cudaStreamNonBlocking))
        mt_order_join(&blocking[s->device], &o->clock);
    if (!o->before)
        mt_order_join(&all[s->device], &o->clock);
    order_log(op, &o->clock, o->before, o->path);
}

/* Notes that the host has waited for all of the stream. */
static void order_waited(const struct mt_stream *s)
{
    if (order_is_on())
        mt_order_join(&host, s->legacy ? &blocking[s->device] : &s->clock);
}

/* Notes that the host has waited for all streams of a device (-1: of all devices). */
static void order_waited_all(int device)
{
    if (order_is_on())
        order_join_all(&host, device);
}

/* Notes that the host has waited for a mark. */
static void order_waited_mark(const struct mt_mark *m)
{
    if (order_is_on())
        order_join_mark(&host, m);
}

/* ---- accesses of the host ---- */

static int order_host; /* number of the host among the streams; 0: none yet */

int mt_order_outstanding(void)
{
    int any = 0;
    pthread_mutex_lock(&queue_lock);
    for (int i = 0; i < MT_ORDER_STREAMS && order_is_on(); i++)
        for (int d = 0; d < mt_devices(); d++)
            any |= all[d].n[i] > host.n[i] && all[d].n[i] > told.n[i];
    pthread_mutex_unlock(&queue_lock);
    return any;
}

uint64_t mt_order_touch(void)
{
    uint64_t ticket = 0;
    pthread_mutex_lock(&queue_lock);
    if (order_is_on() && !order_host && order_streams < MT_ORDER_STREAMS)
        order_host = ++order_streams;
    if (order_is_on() && order_host) {
        host.n[order_host - 1]++; /* what is queued later comes after it */
        struct mt_clock known = host;
        mt_order_join(&known, &told);
        order_write(ticket = ++tickets, &known, NULL, order_host);
    }
    pthread_mutex_unlock(&queue_lock);
    return ticket;
}

/* Host functions and callbacks of the program. They may wait for anything, so they do not run on the CPU
 * device's workers: a thread is made if none is free, and some are kept for later ones. */

#define KEPT 2 /* idle threads to keep */

static pthread_mutex_t hostfn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct mt_hostfn_op *first, **last = &first;
static unsigned idle, queued, threads;
static _Thread_local int inside;

int mt_in_host_function(void)
{
    return inside;
}

/* Returns whether no other operation is under way. None can begin before this one ends, but by threads of the
 * program. */
static int hostfn_alone(const struct mt_hostfn_op *h)
{
    int alone = 1;
    pthread_mutex_lock(&queue_lock);
    for (const struct mt_stream *s = active; s; s = s->next_active)
        alone &= !s->running || s->first == &h->op;
    pthread_mutex_unlock(&queue_lock);
    return alone;
}

static void hostfn_call(const struct mt_hostfn_op *h)
{
    cudaError_t e = mt_fail_of(h->op.stream->device);
    int watched = h->op.clock && hostfn_alone(h) && mt_guard_function();
    inside++;
    if (h->callback)
        h->callback(h->handle, e, h->data);
    else if (!e)
        h->fn(h->data);
    inside--;
    if (watched)
        mt_guard_function_end(h->op.number);
}

static void *hostfn_helper(void *arg)
{
    mt_last_ours();
    pthread_mutex_lock(&hostfn_lock);
    for (;;) {
        while (!first && idle < KEPT) {
            idle++;
            pthread_cond_wait(&work, &hostfn_lock);
            idle--;
        }
        struct mt_hostfn_op *h = first;
        if (!h)
            break;
        first = h->behind;
        if (!first)
            last = &first;
        queued--;
        pthread_mutex_unlock(&hostfn_lock);
        hostfn_call(h);
        mt_op_finish(&h->op);
        pthread_mutex_lock(&hostfn_lock);
    }
    threads--;
    pthread_mutex_unlock(&hostfn_lock);
    mt_last_ours_end();
    return NULL;
}

static int hostfn_run(struct mt_op *op)
{
    struct mt_hostfn_op *h = (struct mt_hostfn_op *)op;
    pthread_mutex_lock(&hostfn_lock);
    if (queued >= idle) {
        threads += !mt_base_thread_start(NULL, 1, hostfn_helper, NULL);
        if (!threads) { /* no thread could be made: runs in this one */
            pthread_mutex_unlock(&hostfn_lock);
            hostfn_call(h);
            return MT_OP_DONE;
        }
    }
    h->behind = NULL;
    *last = h;
    last = &h->behind;
    queued++;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&hostfn_lock);
    return MT_OP_PENDING;
}

struct mt_op *mt_host_op(cudaHostFn_t fn, cudaStreamCallback_t callback, cudaStream_t handle, void *data)
{
    struct mt_hostfn_op *h = mt_op_new(sizeof *h, MT_OP_HOST, hostfn_run);
    if (!h)
        return NULL;
    h->op.always = callback != NULL; /* callbacks get the error, functions are then not called */
    h->fn = fn;
    h->callback = callback;
    h->handle = handle;
    h->data = data;
    return &h->op;
}

static void hostfn_forked(void)
{
    pthread_mutex_init(&hostfn_lock, NULL);
    pthread_cond_init(&work, NULL);
    first = NULL;
    last = &first;
    idle = queued = threads = 0;
    inside = 0;
}

/* ---- Work of the CPU device: a queue of operations per stream ---- */

/* Returns 1 if the trace shows the operation as a launch. */
static int op_is_launch(const struct mt_op *op)
{
    return op->kind == MT_OP_KERNEL || op->kind == MT_OP_LIBRARY;
}

#define QUEUE_MAX 1024    /* most operations of a stream: further submissions wait, as on a GPU */
#define FINISH_SECONDS 10 /* without progress: at process exit, remaining work is then dropped */

static pthread_cond_t reached = PTHREAD_COND_INITIALIZER; /* signalled when a mark is reached */
static unsigned nblocked, mark_waiters, settlers;
static unsigned freeing;      /* streams whose traces are being closed */
static int finishing, closed; /* at process exit; nothing begins any more */

/* ---- operations ---- */

void *mt_op_new(size_t bytes, enum mt_op_kind kind, int (*run)(struct mt_op *))
{
    struct mt_op *op = malloc(bytes);
    if (!op)
        return NULL;
    *op = (struct mt_op){.bytes = bytes, .kind = kind, .run = run};
    return op;
}

void mt_op_free(struct mt_op *op)
{
    if (op && op->drop)
        op->drop(op);
    if (op) {
        mt_mark_release(op->after);
        mt_mark_release(op->reaches);
        free(op->clock);
    }
    free(op);
}

/* ---- streams; called with queue_lock held ---- */

static void queue_hold(struct mt_stream *s)
{
    s->refs++;
}

/* Releases queue_lock for a moment if the stream is freed. */
static void stream_let_go(struct mt_stream *s)
{
    if (--s->refs)
        return;
    freeing++;
    pthread_mutex_unlock(&queue_lock);
    mt_stream_free(s);
    pthread_mutex_lock(&queue_lock);
    freeing--;
    if (finishing)
        pthread_cond_broadcast(&reached);
}

static void stream_queue_append(struct mt_stream *s, struct mt_op *op)
{
    op->stream = s;
    op->next = NULL;
    op->ticket = op->number = ++tickets;
    s->issued++;
    if (op->order)
        order_submit_node(s, op);
    else
        order_submit(s, op);
    if (s->first) {
        s->last->next = op;
        s->last = op;
        return;
    }
    s->first = s->last = op;
    s->prev_active = NULL;
    s->next_active = active;
    if (active)
        active->prev_active = s;
    active = s;
    queue_hold(s);
}

static void leave_active(struct mt_stream *s)
{
    if (s->prev_active)
        s->prev_active->next_active = s->next_active;
    else
        active = s->next_active;
    if (s->next_active)
        s->next_active->prev_active = s->prev_active;
}

/* Removes the first operation, which has ended. */
static void take_first(struct mt_stream *s)
{
    struct mt_mark *mark = s->first->reaches;
    if (s->first->kind == MT_OP_HOST && s->first->clock)
        mt_order_join(&told, s->first->clock);
    s->first = s->first->next;
    s->done++;
    s->running = 0;
    ended++;
    if (mark)
        mark->done = 1;
    if ((mark && mark_waiters) || finishing || settlers)
        pthread_cond_broadcast(&reached);
    if (s->waiters)
        pthread_cond_broadcast(&s->moved);
    if (!s->first)
        leave_active(s);
}

/* Returns whether an operation must wait: those of the legacy stream follow all older ones of blocking
 * streams of its device, and those follow its older ones. */
static int must_wait(const struct mt_stream *s, uint64_t ticket)
{
    const struct mt_stream *legacy = stream_legacy(s->device);
    if (s->flags & cudaStreamNonBlocking)
        return 0;
    if (!s->legacy)
        return legacy && legacy->first && legacy->first->ticket < ticket;
    for (struct mt_stream *t = active; t; t = t->next_active)
        if (t != s && t->device == s->device && !(t->flags & cudaStreamNonBlocking) &&
            t->first->ticket < ticket)
            return 1;
    return 0;
}

static int queue_startable(struct mt_stream *s)
{
    struct mt_op *op = s->first;
    if (!op || s->running || closed)
        return 0;
    int wait = (op->after && !op->after->done) || must_wait(s, op->ticket);
    nblocked += (unsigned)wait - (unsigned)s->blocked;
    s->blocked = wait;
    return !wait;
}

static int stream_queue_run(struct mt_op *op)
{
    if (!op->always && mt_fail_of(op->stream->device))
        return MT_OP_DONE;
    uint64_t outer = mt_event_set_op(op->number);
    int rc = op->run(op);
    mt_event_set_op(outer);
    return rc;
}

/* Begins everything that can begin: the first of `s`, and, after an operation has ended, work blocked in
 * other streams. */
static void queue_pump(struct mt_stream *s, int something_ended)
{
    for (;;) {
        struct mt_stream *next = s && queue_startable(s) ? s : NULL;
        if (!next && something_ended && nblocked)
            for (next = active; next && !(next->blocked && queue_startable(next));)
                next = next->next_active;
        if (!next)
            return;
        struct mt_op *op = next->first;
        next->running = 1;
        queue_hold(next);
        pthread_mutex_unlock(&queue_lock);
        int rc = stream_queue_run(op);
        pthread_mutex_lock(&queue_lock);
        if (rc == MT_OP_DONE) {
            something_ended = 1;
            take_first(next);
            int empty = !next->first;
            pthread_mutex_unlock(&queue_lock);
            mt_op_free(op);
            pthread_mutex_lock(&queue_lock);
            if (empty)
                stream_let_go(next);
        }
        s = next->refs > 1 ? next : NULL;
        stream_let_go(next);
    }
}

static void wait_one(struct mt_stream *s)
{
    queue_hold(s);
    s->waiters++;
    pthread_cond_wait(&s->moved, &queue_lock);
    s->waiters--;
    stream_let_go(s);
}

void mt_op_enqueue(struct mt_stream *s, struct mt_op *op)
{
    pthread_mutex_lock(&queue_lock);
    int late = closed;
    if (!late) {
        stream_queue_append(s, op);
        queue_pump(s, 0);
        while (s->issued - s->done > QUEUE_MAX && !closed)
            wait_one(s);
    }
    pthread_mutex_unlock(&queue_lock);
    if (!late)
        return;
    mt_trace_drop(s->trace, op_is_launch(op));
    mt_op_free(op);
}

void mt_op_follow(struct mt_op *at, struct mt_op *op)
{
    struct mt_stream *s = at->stream;
    pthread_mutex_lock(&queue_lock);
    op->stream = s;
    op->ticket = op->number = at->ticket; /* waiting for one of them means waiting for both */
    op->next = at->next;
    at->next = op;
    if (s->last == at)
        s->last = op;
    s->issued++;
    if (op->order)
        order_submit_node(s, op);
    pthread_mutex_unlock(&queue_lock);
}

cudaError_t mt_op_submit(struct mt_stream *s, struct mt_op *op)
{
    if (mt_capturing(s))
        return capture_add(s, op);
    mt_op_enqueue(s, op);
    return cudaSuccess;
}

/* Ends `op`, the first of its stream. */
static void queue_finish(struct mt_op *op, int owned)
{
    struct mt_stream *s = op->stream;
    pthread_mutex_lock(&queue_lock);
    /* whenever queue_lock is free, another thread may end the rest of the stream, and the stream itself */
    queue_hold(s);
    take_first(s);
    int empty = !s->first;
    if (owned) {
        pthread_mutex_unlock(&queue_lock);
        mt_op_free(op);
        pthread_mutex_lock(&queue_lock);
    }
    queue_pump(empty ? NULL : s, 1);
    if (empty)
        stream_let_go(s);
    stream_let_go(s);
    pthread_mutex_unlock(&queue_lock);
}

void mt_op_finish(struct mt_op *op)
{
    queue_finish(op, 1);
}

/* ---- turns ---- */

static int queue_grant(struct mt_op *op)
{
    struct mt_turn *t = (struct mt_turn *)op;
    pthread_mutex_lock(&queue_lock);
    t->granted = 1;
    if (op->stream->waiters)
        pthread_cond_broadcast(&op->stream->moved);
    pthread_mutex_unlock(&queue_lock);
    return MT_OP_PENDING;
}

int mt_turn_try(struct mt_turn *t, struct mt_stream *s, int waits)
{
    *t = (struct mt_turn){.op = {.kind = MT_OP_OTHER, .always = 1, .run = queue_grant}, .granted = 1};
    pthread_mutex_lock(&queue_lock);
    int now = closed || (!s->first && !must_wait(s, tickets + 1));
    if (now && !closed) { /* after the end there is nothing to wait for */
        stream_queue_append(s, &t->op);
        s->running = 1;
        if (waits)
            order_waited(s);
    }
    pthread_mutex_unlock(&queue_lock);
    if (now)
        t->outer = mt_event_set_op(t->op.ticket);
    return now;
}

/* Withdraws a turn that will not come. */
static void queue_withdraw(struct mt_stream *s, struct mt_op *op)
{
    struct mt_op **at = &s->first, *before = NULL;
    while (*at && *at != op) {
        before = *at;
        at = &before->next;
    }
    if (*at != op)
        return;
    *at = op->next;
    if (s->last == op)
        s->last = before;
    s->done++;
    if (s->first)
        return;
    leave_active(s);
    stream_let_go(s);
}

void mt_turn_begin(struct mt_turn *t, struct mt_stream *s)
{
    if (mt_turn_try(t, s, 1))
        return;
    t->granted = 0;
    pthread_mutex_lock(&queue_lock);
    stream_queue_append(s, &t->op);
    queue_pump(s, 0);
    queue_hold(s);
    s->waiters++;
    while (!t->granted && !closed)
        pthread_cond_wait(&s->moved, &queue_lock);
    s->waiters--;
    if (!t->granted) { /* the process ends, and this thread must not block it */
        queue_withdraw(s, &t->op);
        t->op.stream = NULL;
    }
    order_waited(s);
    stream_let_go(s);
    pthread_mutex_unlock(&queue_lock);
    t->outer = mt_event_set_op(t->op.ticket);
}

void mt_turn_end(struct mt_turn *t)
{
    mt_event_set_op(t->outer);
    if (t->op.stream)
        queue_finish(&t->op, 0);
}

/* ---- waiting ---- */

void mt_stream_wait(struct mt_stream *s)
{
    struct mt_turn t;
    if (mt_capturing(s))
        return;
    mt_turn_begin(&t, s);
    mt_turn_end(&t);
}

void mt_stream_drain(struct mt_stream *s)
{
    if (s->legacy) { /* it stands for all blocking streams */
        mt_stream_wait(s);
        return;
    }
    pthread_mutex_lock(&queue_lock);
    uint64_t upto = tickets;
    queue_hold(s);
    while (s->first && s->first->ticket <= upto && !closed)
        wait_one(s);
    order_waited(s);
    stream_let_go(s);
    pthread_mutex_unlock(&queue_lock);
}

/* Returns the oldest stream with work up to a ticket, or NULL. */
static struct mt_stream *stream_queue_oldest(int device, uint64_t upto)
{
    struct mt_stream *s = active;
    while (s && (s->first->ticket > upto || (device != MT_ALL_DEVICES && s->device != device)))
        s = s->next_active;
    return s;
}

void mt_stream_wait_all(int device)
{
    pthread_mutex_lock(&queue_lock);
    for (uint64_t upto = tickets; !closed;) {
        struct mt_stream *s = stream_queue_oldest(device, upto);
        if (!s)
            break;
        wait_one(s);
    }
    order_waited_all(device);
    pthread_mutex_unlock(&queue_lock);
}

int mt_stream_settle(unsigned ms)
{
    uint64_t last = 0, now = 0;
    int timed_out = 0;
    pthread_mutex_lock(&queue_lock);
    settlers++;
    mt_last_waits(1);
    while (active && !closed && (!timed_out || now != last)) {
        const struct timespec until = mt_base_in_ms(ms);
        last = now;
        timed_out = pthread_cond_clockwait(&reached, &queue_lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
        now = ended + mt_cpu_progress();
    }
    mt_last_waits(0);
    settlers--;
    int idle = !active;
    pthread_mutex_unlock(&queue_lock);
    return idle;
}

int mt_stream_idle(struct mt_stream *s)
{
    pthread_mutex_lock(&queue_lock);
    int idle = !s->first && !must_wait(s, s->legacy ? tickets + 1 : 0);
    if (idle)
        order_waited(s);
    pthread_mutex_unlock(&queue_lock);
    return idle;
}

/* ---- marks ---- */

struct mt_mark *mt_mark_new(void)
{
    struct mt_mark *m = calloc(1, sizeof *m);
    if (m)
        m->refs = 1;
    return m;
}

struct mt_mark *mt_mark_hold(struct mt_mark *m)
{
    __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

void mt_mark_release(struct mt_mark *m)
{
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    free(m->clock);
    free(m);
}

int mt_mark_done(struct mt_mark *m)
{
    pthread_mutex_lock(&queue_lock);
    int done = m->done;
    if (done)
        order_waited_mark(m);
    pthread_mutex_unlock(&queue_lock);
    return done;
}

void mt_mark_await(struct mt_mark *m)
{
    pthread_mutex_lock(&queue_lock);
    mark_waiters++;
    while (!m->done && !closed)
        pthread_cond_wait(&reached, &queue_lock);
    mark_waiters--;
    pthread_mutex_unlock(&queue_lock);
}

void mt_mark_wait(struct mt_mark *m)
{
    mt_mark_await(m);
    pthread_mutex_lock(&queue_lock);
    order_waited_mark(m);
    pthread_mutex_unlock(&queue_lock);
}

/* ---- the table of streams ---- */

/* Releases a reference from the table of streams. */
static void queue_let_go(struct mt_stream *s)
{
    pthread_mutex_lock(&queue_lock);
    stream_let_go(s);
    pthread_mutex_unlock(&queue_lock);
}

static void queue_empty(void *value, void *ctx)
{
    struct mt_stream *s = value;
    s->first = s->last = NULL;
    s->running = s->blocked = s->active = s->waiters = 0;
    s->refs = 1;
    s->done = s->issued;
    pthread_cond_init(&s->moved, NULL);
    pthread_mutex_init(&s->launching, NULL);
}

/* Resets the queues in a forked child: queued work belongs to the parent, whose threads the child lacks. */
static void queue_forked(void)
{
    pthread_mutex_init(&queue_lock, NULL);
    pthread_cond_init(&reached, NULL);
    active = NULL;
    nblocked = mark_waiters = settlers = freeing = 0;
    mt_stream_each(queue_empty, NULL);
    hostfn_forked();
    mt_guard_forked();
}

/* ---- the end of the process ---- */

/* Drops launches that will not run. */
static void drop_all(void)
{
    uint64_t launches = 0, others = 0;
    for (struct mt_stream *s = active; s; s = s->next_active) {
        uint64_t n = 0;
        for (struct mt_op *op = s->first; op; op = op->next) {
            n += op_is_launch(op);
            others += !op_is_launch(op);
        }
        mt_trace_drop(s->trace, n);
        launches += n;
    }
    mt_report("the program ended, and what is left in its streams does not: %llu launches and %llu other "
              "operations are dropped",
              (unsigned long long)launches, (unsigned long long)others);
}

/* Waits at process exit for the work in streams, as long as it makes progress. Reports the rest as dropped,
 * and marks its traces incomplete. */
static void stream_finish(void)
{
    uint64_t last = 0;
    pthread_mutex_lock(&queue_lock);
    finishing = 1;
    for (int seconds = 0; (active || freeing) && !mt_in_host_function() && seconds < FINISH_SECONDS;) {
        uint64_t now = ended + mt_cpu_progress();
        const struct timespec until = mt_base_in_ms(1000);
        int timed_out = pthread_cond_clockwait(&reached, &queue_lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
        seconds = now != last ? 0 : seconds + timed_out;
        last = now;
    }
    closed = 1;
    if (active)
        drop_all();
    for (struct mt_stream *s = active; s; s = s->next_active) /* waiting for something that will not happen */
        pthread_cond_broadcast(&s->moved);
    pthread_cond_broadcast(&reached);
    pthread_mutex_unlock(&queue_lock);
}

static struct mt_map streams = MT_MAP_INIT;
MT_FORK_TABLE(streams);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static struct mt_stream *_Atomic legacy_of[MT_DEVICES_MAX]; /* one per device */
static _Thread_local struct mt_stream *own; /* the last one used; those of other devices follow it */
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

/* Makes a stream the device's legacy stream. Returns 1, or 0 if out of memory, or if another thread was
 * faster. */
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
    pthread_atfork(NULL, NULL, queue_forked);
    mt_guard_start();
}

/* Returns the legacy default stream of a device, or NULL if it was never used. */
static struct mt_stream *stream_legacy(int device)
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

/* Returns the thread's own stream on the current device and moves it to the front, or NULL if it has none
 * yet. */
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
            stream_add(NULL, cudaStreamDefault, 0, 1); /* blocking: follows the rules of the legacy stream */
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
    capture_leave(s);
    queue_let_go(s);
}

/* Returns 1 for streams that the program made on this device. */
static int stream_is_made(const void *stream, int device)
{
    const struct mt_stream *s = stream;
    return !s->lasting && s->device == device;
}

void mt_streams_reset(int device)
{
    for (struct mt_stream *s; (s = mt_map_any(&streams, stream_is_made, device));)
        mt_stream_remove(s);
}

__attribute__((noinline)) void mt_stream_free(struct mt_stream *s)
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

/* ---- The end of the process: work ends, and files are completed ---- */

/* Runs after the program's own exit handlers. */
__attribute__((destructor)) static void finish_process(void)
{
    int gpu = mt_device_chosen_gpu();
    mt_guard_finish();
    if (!mt_forked() && gpu && mt_gpu() && mt_gpu()->finish)
        mt_gpu()->finish();
    if (!gpu)
        stream_finish();
    mt_failed_finish();
    mt_heap_pools_finish();
    mt_nvtx_finish();
    mt_trace_finish();
    if (!mt_forked())
        mt_report_again();
}
