/* Executable graphs on the CPU device. */
#include "api/memory/memory.h"
#include "api/streams/stream.h"
#include "api/copy/copy.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/launch/launch.h"
#include "graph.h"
#include "api/device/device.h"
#include "trace/objects.h"
#include "api/tables/map.h"
#include "base/fork.h"
#include <stdlib.h>
#include <string.h>

/* Nodes of graphs on the CPU device: made from the program's parameters, and queries of these. */

/* ---- templates ---- */

/* Arguments as one block: {CU_LAUNCH_PARAM_BUFFER_POINTER, block,
 * CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END}. */
static int graph_nodes_unpack(void **extra, const struct mt_image_kernel *k, void **args)
{
    const struct mt_image_param *p = k->params;
    char *block = NULL;
    size_t bytes = 0, at = 0;
    for (; extra[0]; extra += 2) {
        if (extra[0] == (void *)1)
            block = extra[1];
        else if (extra[0] == (void *)2)
            bytes = *(size_t *)extra[1];
        else
            return -1;
    }
    for (uint32_t i = 0; i < k->nparams; i++) {
        size_t align = p[i].align ? p[i].align : 1;
        at = (at + align - 1) / align * align;
        args[i] = block + at;
        at += p[i].size;
    }
    return block && at <= bytes ? 0 : -1;
}

/* Makes a kernel node's template from the program's parameters. */
static cudaError_t graph_kernel_op(struct mt_op **out, const struct cudaKernelNodeParams *p)
{
    const struct mt_host_site *site = mt_host_site_take();
    if (!p || (p->kernelParams && p->extra))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_launch_config c = {p->gridDim, p->blockDim, p->sharedMemBytes, NULL, 0, {0}};
    struct mt_function *f = p->extra ? mt_function_find(p->func) : NULL;
    if (!f || !f->kernel)
        return mt_launch_op(out, p->func, &c, p->kernelParams, site);
    void **args = malloc((f->kernel->nparams + 1) * sizeof *args);
    if (!args)
        return mt_fail(cudaErrorMemoryAllocation);
    void *untraced = NULL;
    args[f->kernel->nparams] = &untraced; /* the launch context */
    cudaError_t e = graph_nodes_unpack(p->extra, f->kernel, args)
                        ? mt_fail(cudaErrorInvalidValue)
                        : mt_launch_op(out, p->func, &c, args, site);
    free(args);
    return e;
}

/* Makes a copy node's template from the program's parameters. */
static cudaError_t graph_copy_op(struct mt_op **out, const struct cudaMemcpy3DParms *p)
{
    const struct mt_host_site *site = mt_host_site_take();
    struct mt_box b;
    cudaError_t e = p ? mt_box_3d(&b, p) : cudaErrorInvalidValue;
    return e ? mt_fail(e) : mt_copy_op(out, &b, (p->dstArray ? 1 : 0) | (p->srcArray ? 2 : 0), site);
}

static cudaError_t graph_copy_1d(struct mt_op **out, void *dst, const void *src, size_t bytes,
                                 enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_1d(dst, src, bytes, kind);
    return mt_copy_op(out, &b, 0, mt_host_site_take());
}

static cudaError_t graph_copy_symbol(struct mt_op **out, const void *symbol, const void *other, size_t bytes,
                                     size_t offset, enum cudaMemcpyKind kind, int to)
{
    const struct mt_host_site *site = mt_host_site_take();
    struct mt_box b = mt_box_1d((void *)(uintptr_t)other, other, bytes, kind);
    cudaError_t e = mt_side_symbol(to ? &b.dst : &b.src, symbol, offset, bytes);
    if (!e &&
        (kind == cudaMemcpyHostToHost || kind == (to ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice)))
        e = cudaErrorInvalidMemcpyDirection;
    return e ? mt_fail(e) : mt_copy_op(out, &b, to ? 1 : 2, site);
}

/* Makes a fill node's template from the program's parameters. */
static cudaError_t graph_fill_op(struct mt_op **out, const struct cudaMemsetParams *p)
{
    const struct mt_host_site *site = mt_host_site_take();
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_fill f = {p->dst,        p->pitch,      0, p->width * p->elementSize, p->height, 1,
                        (int)p->value, p->elementSize};
    if (f.height == 1) /* the pitch is irrelevant then */
        f.pitch = f.width;
    return mt_fill_op(out, &f, site);
}

/* Makes a host node's template from the program's parameters. */
static cudaError_t graph_host_op(struct mt_op **out, const struct cudaHostNodeParams *p)
{
    if (!p || !p->fn)
        return mt_fail(cudaErrorInvalidValue);
    *out = mt_host_op(p->fn, NULL, NULL, p->userData);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

static cudaError_t graph_nodes_event_op(struct mt_op **out, cudaEvent_t event, int wait)
{
    if (!mt_event_get(event))
        return mt_fail(cudaErrorInvalidValue);
    *out = wait ? mt_event_wait_op(event) : mt_event_record_op(event);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t mt_graph_replace(struct CUgraphNode_st *n, enum cudaGraphNodeType type, struct mt_op *op)
{
    if (!n || n->type != type) {
        mt_op_free(op);
        return mt_fail(cudaErrorInvalidValue);
    }
    mt_op_free(n->op);
    n->op = op;
    return cudaSuccess;
}

/* ---- adding ---- */

static cudaError_t graph_nodes_valid(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                     size_t n)
{
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!out || !g || (n && !after))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n; i++) {
        struct CUgraphNode_st *a = mt_graph_node(after[i]);
        if (!a || a->graph != g)
            return mt_fail(cudaErrorInvalidValue);
        for (size_t k = 0; k < i; k++)
            if (after[k] == after[i])
                return mt_fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

/* `make` fills `op`. */
#define ADD(type, make)                                                                                      \
    struct mt_op *op = NULL;                                                                                 \
    cudaError_t e = graph_nodes_valid(out, graph, after, n);                                                 \
    if (!e)                                                                                                  \
        e = (make);                                                                                          \
    if (e)                                                                                                   \
        return e;                                                                                            \
    *out = mt_graph_add(graph, type, op, after, n);                                                          \
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation)

cudaError_t impl_cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t n, const struct cudaKernelNodeParams *params)
{
    ADD(cudaGraphNodeTypeKernel, graph_kernel_op(&op, params));
}

cudaError_t impl_cudaGraphAddMemcpyNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t n, const struct cudaMemcpy3DParms *params)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_op(&op, params));
}

cudaError_t impl_cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, size_t n, void *dst, const void *src,
                                          size_t bytes, enum cudaMemcpyKind kind)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_1d(&op, dst, src, bytes, kind));
}

cudaError_t impl_cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *out, cudaGraph_t graph,
                                                const cudaGraphNode_t *after, size_t n, const void *symbol,
                                                const void *src, size_t bytes, size_t offset,
                                                enum cudaMemcpyKind kind)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, src, bytes, offset, kind, 1));
}

cudaError_t impl_cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *out, cudaGraph_t graph,
                                                  const cudaGraphNode_t *after, size_t n, void *dst,
                                                  const void *symbol, size_t bytes, size_t offset,
                                                  enum cudaMemcpyKind kind)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, dst, bytes, offset, kind, 0));
}

cudaError_t impl_cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t n, const struct cudaMemsetParams *params)
{
    ADD(cudaGraphNodeTypeMemset, graph_fill_op(&op, params));
}

cudaError_t impl_cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                      size_t n, const struct cudaHostNodeParams *params)
{
    ADD(cudaGraphNodeTypeHost, graph_host_op(&op, params));
}

cudaError_t impl_cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                       size_t n)
{
    ADD(cudaGraphNodeTypeEmpty, cudaSuccess);
}

cudaError_t impl_cudaGraphAddEventRecordNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                             const cudaGraphNode_t *after, size_t n, cudaEvent_t event)
{
    ADD(cudaGraphNodeTypeEventRecord, graph_nodes_event_op(&op, event, 0));
}

cudaError_t impl_cudaGraphAddEventWaitNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                           const cudaGraphNode_t *after, size_t n, cudaEvent_t event)
{
    ADD(cudaGraphNodeTypeWaitEvent, graph_nodes_event_op(&op, event, 1));
}

cudaError_t impl_cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                            const cudaGraphNode_t *after, size_t n, cudaGraph_t child)
{
    cudaError_t e = graph_nodes_valid(out, graph, after, n);
    if (e)
        return e;
    struct CUgraph_st *c = mt_graph_get(child);
    if (!c || c == graph || mt_graph_conditions(c))
        return mt_fail(cudaErrorInvalidValue);
    struct CUgraph_st *clone = mt_graph_clone(c);
    struct CUgraphNode_st *node = clone ? mt_graph_add(graph, cudaGraphNodeTypeGraph, NULL, after, n) : NULL;
    if (!node) {
        if (clone)
            mt_graph_free(clone);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    clone->owned = 1;
    node->child = clone;
    *out = node;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphAddMemAllocNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, size_t n,
                                          struct cudaMemAllocNodeParams *params)
{
    const struct mt_host_site *site = mt_host_site_take();
    cudaError_t e = graph_nodes_valid(out, graph, after, n);
    if (e)
        return e;
    if (!params || !params->bytesize || params->poolProps.allocType != cudaMemAllocationTypePinned ||
        !mt_device_there(params->poolProps.location.id))
        return mt_fail(cudaErrorInvalidValue);
    void *p = mt_heap_alloc(params->poolProps.location.id, params->bytesize, MT_HEAP_DEVICE, 0);
    struct mt_graph_memory *m = p ? mt_graph_memory_new(p, params->bytesize) : NULL;
    struct CUgraphNode_st *node = m ? mt_graph_add(graph, cudaGraphNodeTypeMemAlloc, NULL, after, n) : NULL;
    if (!node) {
        mt_graph_memory_release(m);
        if (p)
            mt_heap_free(p, 1u << MT_HEAP_DEVICE);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    mt_heap_identify(p, mt_object_add(p, params->bytesize, "async", mt_heap_owner(p), site));
    node->memory = m;
    params->dptr = p;
    *out = node;
    return cudaSuccess;
}

struct CUgraphNode_st *mt_graph_allocated(struct CUgraph_st *g, const void *p)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->node[i]->type == cudaGraphNodeTypeMemAlloc && g->node[i]->memory->p == p)
            return g->node[i];
    return NULL;
}

struct give_back {
    struct mt_op op;
    void *p;
    int known; /* existed when the graph was launched */
};

/* Frees memory that another graph allocated. */
static int renew_give_back(struct mt_op *op)
{
    struct give_back *g = (struct give_back *)op;
    g->known = mt_graph_gave_back(g->p) > 0;
    return g->known ? cudaSuccess : cudaErrorInvalidValue;
}

static int give_back(struct mt_op *op)
{
    struct give_back *g = (struct give_back *)op;
    mt_object_done(mt_object_take(g->p), g->known);
    return MT_OP_DONE;
}

cudaError_t impl_cudaGraphAddMemFreeNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                         const cudaGraphNode_t *after, size_t n, void *p)
{
    cudaError_t e = graph_nodes_valid(out, graph, after, n);
    if (e)
        return e;
    struct CUgraphNode_st *node, *from = mt_graph_allocated(graph, p);
    struct give_back *op = NULL;
    struct mt_block b;
    if (!p || (from && from->memory->freed) || (!from && !mt_heap_find(p, &b)))
        return mt_fail(cudaErrorInvalidValue);
    if (!from) {
        if (!(op = mt_op_new(sizeof *op, MT_OP_OTHER, give_back)))
            return mt_fail(cudaErrorMemoryAllocation);
        op->op.renew = renew_give_back;
        op->p = p;
    }
    if (!(node = mt_graph_add(graph, cudaGraphNodeTypeMemFree, op ? &op->op : NULL, after, n)))
        return mt_fail(cudaErrorMemoryAllocation);
    if (from)
        from->memory->freed = 1;
    node->freed = p;
    *out = node;
    return cudaSuccess;
}

/* ---- queries ---- */

/* Returns the node if it has the type, else NULL. */
static struct CUgraphNode_st *of_type(cudaGraphNode_t node, enum cudaGraphNodeType type, const void *out)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (n && n->type == type && out)
        return n;
    mt_fail(cudaErrorInvalidValue);
    return NULL;
}

cudaError_t impl_cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeKernel, out);
    struct mt_launch_config c;
    if (!n)
        return cudaErrorInvalidValue;
    void **args = realloc(n->args, (mt_launch_nparams(n->op) + 1) * sizeof *args);
    if (!args)
        return mt_fail(cudaErrorMemoryAllocation);
    n->args = args;
    const struct mt_function *f = mt_launch_parts(n->op, &c, args);
    *out = (struct cudaKernelNodeParams){(void *)(uintptr_t)f->host, c.grid, c.block,
                                         (unsigned)c.shared,         args,   NULL};
    return cudaSuccess;
}

cudaError_t impl_cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemcpy, out);
    if (!n)
        return cudaErrorInvalidValue;
    const struct mt_box *b = mt_copy_box(n->op);
    size_t drows = b->dst.pitch ? b->dst.slice / b->dst.pitch : 0,
           srows = b->src.pitch ? b->src.slice / b->src.pitch : 0;
    *out = (struct cudaMemcpy3DParms){
        .srcPtr = {b->src.p, b->src.pitch, b->width, srows},
        .dstPtr = {b->dst.p, b->dst.pitch, b->width, drows},
        .extent = {b->width, b->height, b->depth},
        .kind = b->kind,
    };
    return cudaSuccess;
}

cudaError_t impl_cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemset, out);
    if (!n)
        return cudaErrorInvalidValue;
    const struct mt_fill *f = mt_fill_of(n->op);
    *out = (struct cudaMemsetParams){
        f->p, f->pitch, (unsigned)f->value, f->element, f->width / f->element, f->height};
    return cudaSuccess;
}

cudaError_t impl_cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeHost, out);
    if (!n)
        return cudaErrorInvalidValue;
    mt_host_parts(n->op, &out->fn, &out->userData);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeGraph, out);
    if (n)
        *out = n->child;
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t impl_cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeEventRecord, out);
    if (n)
        *out = mt_event_of(n->op);
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t impl_cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeWaitEvent, out);
    if (n)
        *out = mt_event_of(n->op);
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t impl_cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemAlloc, out);
    if (!n)
        return cudaErrorInvalidValue;
    memset(out, 0, sizeof *out);
    out->poolProps.allocType = cudaMemAllocationTypePinned;
    out->poolProps.location.type = cudaMemLocationTypeDevice;
    out->bytesize = n->memory->bytes;
    out->dptr = n->memory->p;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemFree, out);
    if (n)
        *(void **)out = n->freed;
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- changes ---- */

#define SET(node_type, make)                                                                                 \
    struct mt_op *op = NULL;                                                                                 \
    cudaError_t e = (make);                                                                                  \
    return e ? e : mt_graph_replace(mt_graph_node(node), node_type, op)

cudaError_t impl_cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    SET(cudaGraphNodeTypeKernel, graph_kernel_op(&op, params));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *params)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_op(&op, params));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                                size_t bytes, enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_1d(&op, dst, src, bytes, kind));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                      const void *src, size_t bytes, size_t offset,
                                                      enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, src, bytes, offset, kind, 1));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst, const void *symbol,
                                                        size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, dst, bytes, offset, kind, 0));
}

cudaError_t impl_cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *params)
{
    SET(cudaGraphNodeTypeMemset, graph_fill_op(&op, params));
}

cudaError_t impl_cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *params)
{
    SET(cudaGraphNodeTypeHost, graph_host_op(&op, params));
}

cudaError_t impl_cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    SET(cudaGraphNodeTypeEventRecord, graph_nodes_event_op(&op, event, 0));
}

cudaError_t impl_cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    SET(cudaGraphNodeTypeWaitEvent, graph_nodes_event_op(&op, event, 1));
}

struct CUgraphExec_st {
    struct CUgraph_st *graph; /* a clone; its nodes refer to the originals by `from` */
    unsigned long long flags;
    struct mt_mark *last; /* its launches follow each other in any streams */
};

static struct mt_map execs = MT_MAP_INIT;
MT_FORK_TABLE(execs);

static struct CUgraphExec_st *graph_exec_get(cudaGraphExec_t e)
{
    return e ? mt_map_get(&execs, e) : NULL;
}

/* ---- launches ---- */

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
    begin->after = x->last; /* takes over its reference */
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
    cudaError_t e = mt_capture_check(s, MT_CALL_SYNC); /* CUDA does not capture launches of graphs */
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

/* ---- creation ---- */

/* Returns whether the clone or a graph below it has a cycle, known from a failed sort. */
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

/* Launches under way continue: they have operations of their own. */
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

/* ---- changes ---- */

/* Returns the node made from `node`, or NULL. */
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

#define SET_EXEC(type, make)                                                                                 \
    struct mt_op *op = NULL;                                                                                 \
    cudaError_t e = (make);                                                                                  \
    return e ? e : mt_graph_replace(graph_exec_find(exec, node), type, op)

cudaError_t impl_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaKernelNodeParams *params)
{
    SET_EXEC(cudaGraphNodeTypeKernel, graph_kernel_op(&op, params));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaMemcpy3DParms *params)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_op(&op, params));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *dst,
                                                    const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_1d(&op, dst, src, bytes, kind));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                          const void *symbol, const void *src, size_t bytes,
                                                          size_t offset, enum cudaMemcpyKind kind)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, src, bytes, offset, kind, 1));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                            void *dst, const void *symbol, size_t bytes,
                                                            size_t offset, enum cudaMemcpyKind kind)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, dst, bytes, offset, kind, 0));
}

cudaError_t impl_cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaMemsetParams *params)
{
    SET_EXEC(cudaGraphNodeTypeMemset, graph_fill_op(&op, params));
}

cudaError_t impl_cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                const struct cudaHostNodeParams *params)
{
    SET_EXEC(cudaGraphNodeTypeHost, graph_host_op(&op, params));
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
    SET_EXEC(cudaGraphNodeTypeEventRecord, event_op(&op, event, 0));
}

cudaError_t impl_cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    cudaEvent_t event)
{
    SET_EXEC(cudaGraphNodeTypeWaitEvent, event_op(&op, event, 1));
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

/* ---- replacing a whole graph ---- */

/* Returns NULL if `b` has the nodes of `a`, in order, with the same edges, else the first node of `b` that
 * differs. */
static struct CUgraphNode_st *graph_exec_differs(const struct CUgraph_st *a, const struct CUgraph_st *b,
                                                 int *type);

/* Returns 1 if both have the same condition and bodies of one form, or if neither has one. */
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
    if (x->last && mt_graph_conditions(x->graph)) /* launches under way read the bodies */
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
