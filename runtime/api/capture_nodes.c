/* What is put into a captured stream: nodes of the capture's graph, and events, which carry captures from
 * stream to stream. */
#include "capture.h"
#include "capture_state.h"
#include "error.h"
#include "event.h"
#include "graph.h"

/* ---- nodes ---- */

static enum cudaGraphNodeType type_of(const struct mt_op *op)
{
    static const enum cudaGraphNodeType types[] = {
        [MT_OP_KERNEL] = cudaGraphNodeTypeKernel,      [MT_OP_COPY] = cudaGraphNodeTypeMemcpy,
        [MT_OP_FILL] = cudaGraphNodeTypeMemset,        [MT_OP_HOST] = cudaGraphNodeTypeHost,
        [MT_OP_RECORD] = cudaGraphNodeTypeEventRecord, [MT_OP_WAIT] = cudaGraphNodeTypeWaitEvent,
        [MT_OP_OTHER] = cudaGraphNodeTypeEmpty,
    };
    return types[op->kind];
}

/* Called with the lock. */
static struct CUgraphNode_st *capture_nodes_append(struct mt_stream *s, enum cudaGraphNodeType type,
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

cudaError_t mt_capture_add(struct mt_stream *s, struct mt_op *op)
{
    cudaError_t e = op ? cudaErrorStreamCaptureInvalidated : cudaErrorMemoryAllocation;
    pthread_mutex_lock(&mt_capture_lock);
    if (op && s->capture && !s->capture->invalid)
        e = capture_nodes_append(s, type_of(op), op) ? cudaSuccess : cudaErrorMemoryAllocation;
    else
        mt_op_free(op);
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(e);
}

cudaError_t mt_capture_alloc(struct mt_stream *s, void *p, size_t bytes)
{
    struct mt_graph_memory *m = mt_graph_memory_new(p, bytes);
    if (!m)
        return mt_fail(cudaErrorMemoryAllocation);
    struct CUgraphNode_st *n = NULL;
    pthread_mutex_lock(&mt_capture_lock);
    if (s->capture && !s->capture->invalid)
        n = capture_nodes_append(s, cudaGraphNodeTypeMemAlloc, NULL);
    if (n)
        n->memory = m;
    pthread_mutex_unlock(&mt_capture_lock);
    if (!n)
        mt_graph_memory_release(m);
    return mt_fail(n ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
}

cudaError_t mt_capture_free(struct mt_stream *s, void *p)
{
    cudaError_t e = cudaErrorStreamCaptureInvalidated;
    pthread_mutex_lock(&mt_capture_lock);
    if (s->capture && !s->capture->invalid) {
        struct CUgraphNode_st *from = mt_graph_allocated(s->capture->graph, p), *n = NULL;
        if (from && !from->memory->freed)
            n = capture_nodes_append(s, cudaGraphNodeTypeMemFree, NULL);
        if (n) {
            n->freed = p;
            from->memory->freed = 1;
        }
        e = n ? cudaSuccess : from ? cudaErrorInvalidValue : cudaErrorNotSupported;
    }
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(e);
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

static cudaError_t capture_nodes_join(struct mt_stream *s, struct mt_event *e)
{
    struct mt_capture *c = mt_capture_of(e);
    if (__atomic_load_n(&e->capture, __ATOMIC_RELAXED) && !c)
        return cudaErrorCapturedEvent;
    if (!c) {           /* of a time before the capture */
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
    if (s == mt_stream_legacy()) {
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
    cudaError_t rc = capture_nodes_join(s, e);
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(rc);
}

cudaError_t mt_capture_asked(struct mt_event *e)
{
    pthread_mutex_lock(&mt_capture_lock);
    struct mt_capture *c = mt_capture_of(e);
    if (c)
        c->invalid = 1;
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(cudaErrorCapturedEvent);
}
