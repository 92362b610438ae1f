/* Graphs that are ready to be launched, on the CPU device. */
#include "api/streams/capture.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/launch/event.h"
#include "graph.h"
#include "api/tables/map.h"
#include "base/fork.h"
#include <stdlib.h>
#include <string.h>

struct CUgraphExec_st {
    struct CUgraph_st *graph; /* a clone; its nodes know theirs in `from` */
    unsigned long long flags;
    struct mt_mark *last; /* its launches are one after the other, whatever their streams */
};

static struct mt_map execs = MT_MAP_INIT;
MT_FORK_TABLE(execs);

static struct CUgraphExec_st *graph_exec_get(cudaGraphExec_t e)
{
    return e ? mt_map_get(&execs, e) : NULL;
}

/* ---- launching ---- */

static int graph_exec_nothing(struct mt_op *op)
{
    return MT_OP_DONE;
}

static cudaError_t graph_exec_run(struct CUgraphExec_st *x, struct mt_stream *s)
{
    struct mt_op *begin = mt_op_new(sizeof *begin, MT_OP_OTHER, graph_exec_nothing);
    struct mt_op *end = mt_op_new(sizeof *end, MT_OP_OTHER, graph_exec_nothing);
    struct mt_mark *mark = mt_mark_new();
    if (!begin || !end || !mark) {
        mt_op_free(begin);
        mt_op_free(end);
        mt_mark_release(mark);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    begin->always = end->always = 1;
    begin->after = x->last; /* its reference */
    end->reaches = mt_mark_hold(mark);
    x->last = mark;
    mt_op_enqueue(s, begin);
    cudaError_t e = mt_graph_run(x->graph, s, NULL);
    mt_op_enqueue(s, end);
    return e;
}

cudaError_t impl_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    struct CUgraphExec_st *x = graph_exec_get(exec);
    struct mt_stream *s = mt_stream_get(stream);
    if (!x || !s)
        return mt_fail(x ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    cudaError_t e = mt_capture_check(s, MT_CALL_SYNC); /* CUDA captures no launches of graphs */
    return e ? e : graph_exec_run(x, s);
}

cudaError_t impl_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    if (!graph_exec_get(exec))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_stream *s = mt_stream_get(stream);
    return s ? mt_capture_check(s, MT_CALL_ASYNC) : mt_fail(cudaErrorInvalidResourceHandle);
}

/* ---- making ---- */

/* The clone's graphs below it know cycles only by failing to be sorted. */
static int has_cycle(struct CUgraph_st *g)
{
    struct CUgraphNode_st **sorted = mt_graph_sorted(g);
    free(sorted);
    return !sorted;
}

cudaError_t impl_cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                               unsigned long long flags)
{
    const unsigned long long known = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                     cudaGraphInstantiateFlagUpload | cudaGraphInstantiateFlagUseNodePriority;
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!out || !g || flags & ~(known | cudaGraphInstantiateFlagDeviceLaunch) || has_cycle(g))
        return mt_fail(cudaErrorInvalidValue);
    if (flags & cudaGraphInstantiateFlagDeviceLaunch || mt_graph_conditions(g) < 0)
        return mt_fail(cudaErrorNotSupported);
    struct CUgraphExec_st *x = calloc(1, sizeof *x);
    if (x)
        x->graph = mt_graph_clone(g);
    if (!x || !x->graph || mt_map_set(&execs, x, x)) {
        if (x && x->graph)
            mt_graph_free(x->graph);
        free(x);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    x->graph->owned = 1;
    x->flags = flags;
    *out = x;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t impl_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    return impl_cudaGraphInstantiateWithFlags(out, graph, flags);
}

cudaError_t impl_cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *params)
{
    if (!params)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = impl_cudaGraphInstantiateWithFlags(out, graph, params->flags);
    params->errNode_out = NULL;
    params->result_out = e ? cudaGraphInstantiateError : cudaGraphInstantiateSuccess;
    return e;
}

cudaError_t impl_cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
    struct CUgraphExec_st *x = graph_exec_get(exec);
    if (!x || !flags)
        return mt_fail(cudaErrorInvalidValue);
    *flags = x->flags;
    return cudaSuccess;
}
#else
cudaError_t impl_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                      char *log, size_t size)
{
    if (log && size)
        *log = 0;
    return impl_cudaGraphInstantiateWithFlags(out, graph, 0);
}
#endif

/* What was launched goes on: it has operations of its own. */
cudaError_t impl_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    struct CUgraphExec_st *x = exec ? mt_map_take(&execs, exec) : NULL;
    if (!x)
        return mt_fail(cudaErrorInvalidValue);
    if (x->last && x->graph->n)
        mt_mark_wait(x->last); /* its memory nodes may be in use */
    mt_mark_release(x->last);
    mt_graph_free(x->graph);
    free(x);
    return cudaSuccess;
}

/* ---- changing ---- */

/* The node made from `node`; NULL: none. */
static struct CUgraphNode_st *made_from(struct CUgraph_st *g, cudaGraphNode_t node)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->node[i]->from == node)
            return g->node[i];
    return NULL;
}

static struct CUgraphNode_st *graph_exec_find(cudaGraphExec_t exec, cudaGraphNode_t node)
{
    struct CUgraphExec_st *x = graph_exec_get(exec);
    return x ? made_from(x->graph, node) : NULL;
}

#define SET(type, make)                                                                                      \
    struct mt_op *op = NULL;                                                                                 \
    cudaError_t e = (make);                                                                                  \
    return e ? e : mt_graph_replace(graph_exec_find(exec, node), type, op)

cudaError_t impl_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaKernelNodeParams *params)
{
    SET(cudaGraphNodeTypeKernel, mt_graph_kernel_op(&op, params));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaMemcpy3DParms *params)
{
    SET(cudaGraphNodeTypeMemcpy, mt_graph_copy_op(&op, params));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *dst,
                                                    const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, mt_graph_copy_1d(&op, dst, src, bytes, kind));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                          const void *symbol, const void *src, size_t bytes,
                                                          size_t offset, enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, mt_graph_copy_symbol(&op, symbol, src, bytes, offset, kind, 1));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                            void *dst, const void *symbol, size_t bytes,
                                                            size_t offset, enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, mt_graph_copy_symbol(&op, symbol, dst, bytes, offset, kind, 0));
}

cudaError_t impl_cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaMemsetParams *params)
{
    SET(cudaGraphNodeTypeMemset, mt_graph_fill_op(&op, params));
}

cudaError_t impl_cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                const struct cudaHostNodeParams *params)
{
    SET(cudaGraphNodeTypeHost, mt_graph_host_op(&op, params));
}

static cudaError_t event_op(struct mt_op **out, cudaEvent_t event, int wait)
{
    if (!mt_event_get(event))
        return mt_fail(cudaErrorInvalidValue);
    *out = wait ? mt_event_wait_op(event) : mt_event_record_op(event);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      cudaEvent_t event)
{
    SET(cudaGraphNodeTypeEventRecord, event_op(&op, event, 0));
}

cudaError_t impl_cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    cudaEvent_t event)
{
    SET(cudaGraphNodeTypeWaitEvent, event_op(&op, event, 1));
}

cudaError_t impl_cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled)
{
    struct CUgraphNode_st *n = graph_exec_find(exec, node);
    if (!n || (n->type != cudaGraphNodeTypeKernel && n->type != cudaGraphNodeTypeMemset &&
               n->type != cudaGraphNodeTypeMemcpy))
        return mt_fail(cudaErrorInvalidValue);
    n->disabled = !enabled;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned *enabled)
{
    struct CUgraphNode_st *n = graph_exec_find(exec, node);
    if (!n || !enabled)
        return mt_fail(cudaErrorInvalidValue);
    *enabled = !n->disabled;
    return cudaSuccess;
}

/* ---- a whole graph in place of another ---- */

/* NULL when `b` has the nodes of `a`, in order, with the same edges;
 * else the first node of `b` that differs. */
static struct CUgraphNode_st *graph_exec_differs(const struct CUgraph_st *a, const struct CUgraph_st *b,
                                                 int *type);

/* 1: both have the same condition, and bodies of one form; or neither has one. */
static int graph_exec_branches(const struct CUgraphNode_st *x, const struct CUgraphNode_st *y, int *type)
{
    struct CUgraph_st *const *a, *const *b;
    if (!x->branch || !y->branch)
        return x->branch == y->branch;
    int same = mt_branch_like(x->branch, y->branch);
    unsigned n = mt_branch_bodies(x->branch, &a);
    mt_branch_bodies(y->branch, &b);
    for (unsigned i = 0; same && i < n; i++)
        same = a[i]->n == b[i]->n && !graph_exec_differs(a[i], b[i], type);
    return same;
}

static struct CUgraphNode_st *graph_exec_differs(const struct CUgraph_st *a, const struct CUgraph_st *b,
                                                 int *type)
{
    *type = 0;
    for (size_t i = 0; i < a->n; i++) {
        struct CUgraphNode_st *x = a->node[i], *y = b->node[i];
        int same = x->nafter == y->nafter;
        for (size_t k = 0; same && k < x->nafter; k++)
            same = x->after[k]->index == y->after[k]->index;
        if (same && x->type != y->type)
            *type = 1;
        else if (same && x->child &&
                 (x->child->n != y->child->n || graph_exec_differs(x->child, y->child, type)))
            same = 0;
        else if (same)
            same = graph_exec_branches(x, y, type);
        if (!same || *type)
            return y;
    }
    return NULL;
}

static cudaError_t take_bodies(struct mt_branch *to, const struct mt_branch *from);

static cudaError_t take_over(struct CUgraph_st *to, const struct CUgraph_st *from)
{
    for (size_t i = 0; i < to->n; i++) {
        struct CUgraphNode_st *n = to->node[i], *m = from->node[i];
        struct mt_op *op = m->op ? mt_op_copy(m->op) : NULL;
        if (m->op && !op)
            return cudaErrorMemoryAllocation;
        mt_op_free(n->op);
        n->op = op;
        if ((n->child && take_over(n->child, m->child)) || (n->branch && take_bodies(n->branch, m->branch)))
            return cudaErrorMemoryAllocation;
    }
    return cudaSuccess;
}

static cudaError_t take_bodies(struct mt_branch *to, const struct mt_branch *from)
{
    struct CUgraph_st *const *a, *const *b;
    unsigned n = mt_branch_bodies(to, &a);
    cudaError_t e = cudaSuccess;
    mt_branch_bodies(from, &b);
    for (unsigned i = 0; i < n && !e; i++)
        e = take_over(a[i], b[i]);
    return e;
}

static enum cudaGraphExecUpdateResult graph_exec_update(struct CUgraphExec_st *x, struct CUgraph_st *g,
                                                        struct CUgraphNode_st **at)
{
    int type = 0;
    *at = NULL;
    if (x->last && mt_graph_conditions(x->graph)) /* bodies are looked at while a launch is under way */
        mt_mark_wait(x->last);
    if (x->graph->n != g->n)
        return cudaGraphExecUpdateErrorTopologyChanged;
    *at = graph_exec_differs(x->graph, g, &type);
    if (*at)
        return type ? cudaGraphExecUpdateErrorNodeTypeChanged : cudaGraphExecUpdateErrorTopologyChanged;
    return take_over(x->graph, g) ? cudaGraphExecUpdateError : cudaGraphExecUpdateSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t impl_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                     cudaGraphExecUpdateResultInfo *info)
{
    struct CUgraphExec_st *x = graph_exec_get(exec);
    struct CUgraph_st *g = mt_graph_get(graph);
    struct CUgraphNode_st *at;
    MT_RETURN_IF_FAILED();
    if (!x || !g || !info)
        return mt_fail(cudaErrorInvalidValue);
    *info = (cudaGraphExecUpdateResultInfo){.result = graph_exec_update(x, g, &at)};
    info->errorNode = at;
    return info->result ? mt_fail(cudaErrorGraphExecUpdateFailure) : cudaSuccess;
}
#else
cudaError_t impl_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                     enum cudaGraphExecUpdateResult *result)
{
    struct CUgraphExec_st *x = get(exec);
    struct CUgraph_st *g = mt_graph_get(graph);
    struct CUgraphNode_st *at;
    MT_RETURN_IF_FAILED();
    if (!x || !g || !result)
        return mt_fail(cudaErrorInvalidValue);
    *result = update(x, g, &at);
    if (error_node)
        *error_node = at;
    return *result ? mt_fail(cudaErrorGraphExecUpdateFailure) : cudaSuccess;
}
#endif

cudaError_t impl_cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      cudaGraph_t child)
{
    struct CUgraphNode_st *n = graph_exec_find(exec, node);
    struct CUgraph_st *g = mt_graph_get(child);
    int type;
    if (!n || !n->child || !g || n->child->n != g->n || graph_exec_differs(n->child, g, &type))
        return mt_fail(cudaErrorInvalidValue);
    return mt_fail(take_over(n->child, g));
}
