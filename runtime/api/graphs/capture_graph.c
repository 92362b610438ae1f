/* Graphs made by captures: operations put into a captured stream become nodes. */
#include "api/streams/stream.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "graph.h"
#include <stdlib.h>

/* ---- nodes ---- */

static enum cudaGraphNodeType type_of(const struct mt_op *op)
{
    static const enum cudaGraphNodeType types[] = {
        [MT_OP_KERNEL] = cudaGraphNodeTypeKernel,      [MT_OP_COPY] = cudaGraphNodeTypeMemcpy,
        [MT_OP_FILL] = cudaGraphNodeTypeMemset,        [MT_OP_HOST] = cudaGraphNodeTypeHost,
        [MT_OP_RECORD] = cudaGraphNodeTypeEventRecord, [MT_OP_WAIT] = cudaGraphNodeTypeWaitEvent,
        [MT_OP_LIBRARY] = cudaGraphNodeTypeEmpty, /* its parameters cannot be queried */
        [MT_OP_OTHER] = cudaGraphNodeTypeEmpty,
    };
    return types[op->kind];
}

/* Called with the lock held. */
static struct CUgraphNode_st *capture_graph_append(struct mt_stream *s, enum cudaGraphNodeType type,
                                                   struct mt_op *op)
{
    struct CUgraphNode_st *n = mt_graph_add(s->capture->graph, type, op, s->tips, s->ntips);
    if (n)
        s->ntips = 0;
    if (!n || mt_tips_add(&s->tips, &s->ntips, &n, 1)) {
        s->capture->invalid = 1;
        return NULL;
    }
    return n;
}

static cudaError_t capture_graph_add(struct mt_stream *s, struct mt_op *op)
{
    return capture_graph_append(s, type_of(op), op) ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t capture_graph_alloc(struct mt_stream *s, void *p, size_t bytes)
{
    struct mt_graph_memory *m = mt_graph_memory_new(p, bytes);
    if (!m)
        return cudaErrorMemoryAllocation;
    struct CUgraphNode_st *n = NULL;
    pthread_mutex_lock(&mt_capture_lock);
    if (s->capture && !s->capture->invalid)
        n = capture_graph_append(s, cudaGraphNodeTypeMemAlloc, NULL);
    if (n)
        n->memory = m;
    pthread_mutex_unlock(&mt_capture_lock);
    if (!n)
        mt_graph_memory_release(m);
    return n ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}

static cudaError_t capture_graph_free(struct mt_stream *s, void *p)
{
    cudaError_t e = cudaErrorStreamCaptureInvalidated;
    pthread_mutex_lock(&mt_capture_lock);
    if (s->capture && !s->capture->invalid) {
        struct CUgraphNode_st *from = mt_graph_allocated(s->capture->graph, p), *n = NULL;
        if (from && !from->memory->freed)
            n = capture_graph_append(s, cudaGraphNodeTypeMemFree, NULL);
        if (n) {
            n->freed = p;
            from->memory->freed = 1;
        }
        e = n ? cudaSuccess : from ? cudaErrorInvalidValue : cudaErrorNotSupported;
    }
    pthread_mutex_unlock(&mt_capture_lock);
    return e;
}

/* ---- begin and end ---- */

struct leaving {
    struct mt_capture *capture;
    int unjoined;
};

/* Returns 1 if the last operation of a stream does not precede the last one of the origin. */
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

/* Ends the capture. Returns 1 if some stream was not joined. Called with the lock held. */
static int capture_end(struct mt_capture *c)
{
    struct leaving l = {c, is_unjoined(c->origin, c->left, c->nleft)};
    mt_stream_each(capture_leave, &l);
    free(c->left);
    mt_tips_clear(c->origin);
    mt_capture_set(c->origin, NULL);
    mt_capture_delist(c);
    c->graph->captures--;
    return l.unjoined;
}

/* Handles the destruction of a captured stream: if it began the capture, that can never be ended; else it
 * must have been joined as usual. */
static void capture_graph_leave(struct mt_stream *s)
{
    struct mt_capture *over = NULL;
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

static const struct mt_capture_ops capture_graph_ops = {capture_graph_add, capture_graph_alloc,
                                                        capture_graph_free, capture_graph_leave};

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
    if (s->legacy)
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
        mt_capture_ops = &capture_graph_ops;
        mt_capture_enlist(c);
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

cudaError_t impl_cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return capture_begin(stream, NULL, NULL, 0, mode);
}

#if CUDART_VERSION >= 12030
cudaError_t impl_cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
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

cudaError_t impl_cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out)
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
cudaError_t impl_cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *tips,
                                                     const cudaGraphEdgeData *edges, size_t n, unsigned flags)
{
    return capture_update(stream, tips, n, flags);
}
#else
cudaError_t impl_cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *tips, size_t n,
                                                     unsigned flags)
{
    return capture_update(stream, tips, n, flags);
}
#endif
