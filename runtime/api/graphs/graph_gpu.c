/* Launches of graphs on a GPU. Each of our kernels in an executable graph gets a launch context of its own
 * for the graph's lifetime: kernel nodes have it as hidden argument just while the runtime copies them.
 * Kernels that can never be traced get their version without record calls instead. Each launch of the graph
 * is a launch of each of its kernels, in the trace of the stream in which the graph is launched. */
#include "api/entry.h"
#include "graph.h"
#include "api/device/device.h"
#include "api/tables/error.h"
#include "device/gpu.h"
#include "api/launch/launch.h"
#include "api/tables/map.h"
#include "trace/events.h"
#include "base/report.h"
#include "trace/selection.h"
#include "base/fork.h"
#include "memtrace/grow.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- A topological order of a graph's nodes, from the real runtime ---- */

static cudaError_t graph_gpu_before(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
#if CUDART_VERSION >= 13000
    return MT_NEXT(cudaGraphNodeGetDependencies)(node, out, NULL, n);
#else
    return MT_NEXT(cudaGraphNodeGetDependencies)(node, out, n);
#endif
}

static int order_has(const cudaGraphNode_t *list, size_t n, cudaGraphNode_t node)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == node)
            return 1;
    return 0;
}

/* Returns whether all predecessors of a node are in the list. */
static int order_allows(cudaGraphNode_t node, const cudaGraphNode_t *list, size_t n)
{
    size_t count = 0;
    if (graph_gpu_before(node, NULL, &count) || !count)
        return 1;
    cudaGraphNode_t *before = malloc(count * sizeof *before);
    int ready = 1;
    if (before && !graph_gpu_before(node, before, &count))
        for (size_t i = 0; i < count && ready; i++)
            ready = order_has(list, n, before[i]);
    free(before);
    return ready;
}

/* Returns the nodes of a graph in topological order, to be freed. */
static cudaGraphNode_t *graph_sorted_nodes(cudaGraph_t graph, size_t *n)
{
    *n = 0;
    if (MT_NEXT(cudaGraphGetNodes)(graph, NULL, n) || !*n)
        return NULL;
    cudaGraphNode_t *all = malloc(*n * sizeof *all), *out = malloc(*n * sizeof *out);
    size_t done = 0, before;
    if (!all || !out || MT_NEXT(cudaGraphGetNodes)(graph, all, n)) {
        free(all);
        free(out);
        return NULL;
    }
    do { /* usually in that order already */
        before = done;
        for (size_t i = 0; i < *n; i++)
            if (all[i] && order_allows(all[i], out, done)) {
                out[done++] = all[i];
                all[i] = NULL;
            }
    } while (done != before);
    *n = done;
    free(all);
    return out;
}

#define KERNELS_MAX 512u /* most kernels of a graph: each needs a context per launch */
#define IDLE_MS 10000

struct kernel_node {
    cudaGraphNode_t handle;
    struct mt_gpu_node *gpu; /* NULL: only `plain` or `missed` so far */
    int plain;               /* runs the version without record calls */
    int missed;              /* runs as in the program's graph, and is counted */
    struct mt_function *f;   /* NULL: no longer one of our kernels */
    const void *symbol;      /* kernel in the program's graph */
    struct mt_launch_config c;
    int off; /* set by cudaGraphNodeSetEnabled */
};
struct mt_graph_exec {
    struct kernel_node *list; /* in topological order */
    unsigned n;
    size_t cap;
    uint64_t stream; /* id of the stream of its last launch; 0: none yet */
    cudaStream_t handle;
    int blind; /* changed in a way that is not followed: its launches count as untraced */
};

static struct mt_map execs = MT_MAP_INIT;
MT_FORK_TABLE(execs);

enum reason { EXTRA, CONDITIONAL, TOO_MANY, NOT_SET, CHILD, STREAMS, NREASONS };
static void graph_gpu_say_once(enum reason r, const char *why)
{
    static atomic_int said[NREASONS];
    if (!atomic_exchange(&said[r], 1))
        mt_report("kernels of a graph are not traced: %s (said once)", why);
}

static void free_context(struct mt_gpu_node *gpu)
{
    if (gpu)
        mt_gpu()->node_free(gpu);
}

static void free_exec(struct mt_graph_exec *x)
{
    for (unsigned i = 0; x && i < x->n; i++)
        free_context(x->list[i].gpu);
    if (x)
        free(x->list);
    free(x);
}

static struct kernel_node *graph_gpu_find(struct mt_graph_exec *x, cudaGraphNode_t node)
{
    for (unsigned i = 0; x && i < x->n; i++)
        if (x->list[i].handle == node)
            return &x->list[i];
    return NULL;
}

/* ---- kernels of a graph -------------------------------------------------------------------------- */

/* Gives a kernel node a function of ours, with a hidden argument. */
static cudaError_t set_kernel(cudaGraphNode_t node, const void *function, void *context)
{
    struct cudaKernelNodeParams p;
    cudaError_t e = MT_NEXT(cudaGraphKernelNodeGetParams)(node, &p);
    struct mt_function *f = e ? NULL : mt_function_find(p.func);
    if (!f || !f->kernel || !p.kernelParams)
        return e ? e : cudaErrorInvalidValue;
    unsigned n = f->kernel->nparams;
    void **args = malloc((n + 1) * sizeof *args);
    if (!args)
        return cudaErrorMemoryAllocation;
    memcpy(args, p.kernelParams, n * sizeof *args);
    args[n] = &context;
    p.func = (void *)(uintptr_t)function;
    p.kernelParams = args;
    p.extra = NULL;
    e = MT_NEXT(cudaGraphKernelNodeSetParams)(node, &p);
    free(args);
    return e;
}

/* Returns the version to run if it can never be traced, or NULL. */
static const void *untraced_version(struct mt_function *f, const struct mt_launch_config *c)
{
    const void *plain = mt_function_plain(f);
    if (!plain || mt_selection_never(f->kernel->pretty))
        return plain;
    cudaError_t e = mt_tracing() ? mt_function_must_plain(f, c) : cudaSuccess;
    if (e)
        mt_function_tell_plain(f, c, e);
    return e ? plain : NULL;
}

static struct mt_launch_config config_of(const struct cudaKernelNodeParams *p, int cooperative)
{
    return (struct mt_launch_config){p->gridDim, p->blockDim, p->sharedMemBytes, NULL, cooperative, {0}};
}

static int is_cooperative(cudaGraphNode_t node)
{
    cudaKernelNodeAttrValue value;
    return mt_device_is_gpu() &&
           !MT_NEXT(cudaGraphKernelNodeGetAttribute)(node, cudaLaunchAttributeCooperative, &value) &&
           value.cooperative;
}

static struct kernel_node *graph_gpu_add(struct mt_graph_exec *x)
{
    if (mt_grow(&x->list, &x->cap, x->n + 1, sizeof *x->list))
        return NULL;
    x->list[x->n] = (struct kernel_node){0};
    return &x->list[x->n];
}

/* Returns why a kernel of ours cannot have a context, or NREASONS if it can, or if it was reported elsewhere.
 */
static int graph_gpu_misses(const struct mt_graph_exec *x, const struct mt_function *f,
                            const struct cudaKernelNodeParams *p, enum reason *why)
{
    static const char *const words[] = {
        [EXTRA] = "a node has its parameters as one block", [TOO_MANY] = "a graph has more than 512"};
    *why = !p->kernelParams && f->kernel ? EXTRA : x->n >= KERNELS_MAX ? TOO_MANY : NREASONS;
    if (*why < NREASONS)
        graph_gpu_say_once(*why, words[*why]);
    return *why < NREASONS || !f->kernel || f->kernel->flags & MT_KERNEL_GPU_UNTRACED;
}

/* Sets the function that the node runs: with a context, or without record calls. Returns 0 if impossible. */
static int graph_gpu_give(struct kernel_node *k, cudaGraphNode_t node, struct mt_gpu_node *had)
{
    const void *plain = untraced_version(k->f, &k->c);
    k->plain = plain != NULL;
    k->gpu = plain ? NULL : had ? had : mt_gpu()->node_new();
    if (!plain && !k->gpu)
        return 0;
    if (!set_kernel(node, plain ? plain : mt_function_traced(k->f),
                    plain ? NULL : mt_gpu()->node_context(k->gpu)))
        return 1;
    graph_gpu_say_once(NOT_SET, "the runtime does not take their launch context");
    if (k->gpu != had)
        free_context(k->gpu);
    k->gpu = NULL;
    k->plain = 0;
    return 0;
}

/* Adds a kernel node with its context, if it is one of ours. `old`: source of the contexts, as long as it has
 * any. */
static void take_kernel(struct mt_graph_exec *x, cudaGraphNode_t node, struct mt_graph_exec *old)
{
    struct cudaKernelNodeParams p;
    enum reason why;
    if (MT_NEXT(cudaGraphKernelNodeGetParams)(node, &p))
        return;
    struct mt_function *f = mt_function_find(p.func);
    if (!f)
        f = mt_untabled_know(p.func, NULL);
    if (!f || (f->kernel && !(f->kernel->flags & MT_KERNEL_TRACED)))
        return;
    const struct mt_launch_config c = config_of(&p, is_cooperative(node));
    int missed = graph_gpu_misses(x, f, &p, &why);
    if (!mt_tracing() && (missed || !untraced_version(f, &c)))
        return;
    struct kernel_node *k = graph_gpu_add(x);
    if (!k) {
        graph_gpu_say_once(TOO_MANY, "there is not enough memory");
        return;
    }
    struct mt_gpu_node *had = old && x->n < old->n ? old->list[x->n].gpu : NULL;
    *k = (struct kernel_node){.handle = node, .f = f, .symbol = p.func, .c = c};
    k->missed = missed || !graph_gpu_give(k, node, had);
    x->n++;
}

static void take_graph(struct mt_graph_exec *x, cudaGraph_t graph, struct mt_graph_exec *old)
{
    size_t n;
    int clean = mt_error_hold(); /* this runtime does not know nodes of libraries */
    cudaGraphNode_t *nodes = graph_sorted_nodes(graph, &n);
    for (size_t i = 0; nodes && i < n; i++) {
        enum cudaGraphNodeType type;
        cudaGraph_t child;
        if (MT_NEXT(cudaGraphNodeGetType)(nodes[i], &type))
            continue;
        if (type == cudaGraphNodeTypeKernel)
            take_kernel(x, nodes[i], old);
        else if (type == cudaGraphNodeTypeGraph &&
                 !MT_NEXT(cudaGraphChildGraphNodeGetGraph)(nodes[i], &child))
            take_graph(x, child, old);
        else if ((int)type == 13) /* cudaGraphNodeTypeConditional, only in newer headers */
            graph_gpu_say_once(CONDITIONAL, "they are in a conditional node");
    }
    free(nodes);
    mt_error_release(clean);
}

/* Restores the program's own graph. */
static void graph_gpu_restore(const struct mt_graph_exec *x)
{
    int clean = mt_error_hold();
    for (unsigned i = 0; i < x->n; i++)
        if (!x->list[i].missed)
            set_kernel(x->list[i].handle, x->list[i].symbol, NULL);
    mt_error_release(clean);
}

/* ---- creation ------------------------------------------------------------------------------------ */

static struct mt_graph_exec *graph_gpu_begin(cudaGraph_t graph)
{
    if (!mt_device_is_gpu() || !mt_gpu())
        return NULL;
    struct mt_graph_exec *x = calloc(1, sizeof *x);
    if (x)
        take_graph(x, graph, NULL);
    return x;
}

static cudaError_t graph_gpu_end(struct mt_graph_exec *x, const cudaGraphExec_t *out, cudaError_t e)
{
    if (!x)
        return e;
    graph_gpu_restore(x);
    if (e || !mt_tracing() || mt_map_set(&execs, *out, x))
        free_exec(x);
    return e;
}

/* Forgets a graph that was destroyed. `e`: result of the call, which is returned, as below. */
static cudaError_t graph_gpu_destroyed(cudaGraphExec_t exec, cudaError_t e)
{
    if (!e && exec)
        free_exec(mt_map_take(&execs, exec));
    return e;
}

static void graph_gpu_forget(void *exec, void *data)
{
    struct mt_graph_exec *x = exec;
    x->n = 0; /* its contexts are gone with the device */
}

void mt_graph_gpu_reset(void)
{
    mt_map_each(&execs, graph_gpu_forget, NULL);
}

/* ---- changes ------------------------------------------------------------------------------------- */

static void *graph_gpu_context(cudaGraphExec_t exec, cudaGraphNode_t node,
                               const struct cudaKernelNodeParams *p, const void **func)
{
    struct kernel_node *k = exec ? graph_gpu_find(mt_map_get(&execs, exec), node) : NULL;
    struct mt_function *f = k ? mt_function_find(p->func) : NULL;
    const struct mt_launch_config c = config_of(p, k && k->c.cooperative);
    *func = p->func;
    if (!f || !f->kernel || untraced_version(f, &c))
        return NULL;
    if (!k->gpu) /* a kernel that is never traced */
        k->gpu = mt_gpu()->node_new();
    if (k->gpu)
        *func = mt_function_traced(f);
    return k->gpu ? mt_gpu()->node_context(k->gpu) : NULL;
}

/* Handles a change of a node's kernel or parameters. */
static void graph_gpu_changed(cudaGraphExec_t exec, cudaGraphNode_t node,
                              const struct cudaKernelNodeParams *p)
{
    struct mt_graph_exec *x = exec ? mt_map_get(&execs, exec) : NULL;
    struct kernel_node *k = graph_gpu_find(x, node);
    struct mt_function *f = x ? mt_function_find(p->func) : NULL;
    if (x && !f)
        f = mt_untabled_know(p->func, NULL);
    if (!k && f && (!f->kernel || f->kernel->flags & MT_KERNEL_TRACED) && (k = graph_gpu_add(x))) {
        k->handle = node; /* was not one of ours */
        x->n++;
    }
    if (!k)
        return;
    k->c = config_of(p, k->c.cooperative);
    k->f = f;
    k->plain = f && f->kernel && untraced_version(f, &k->c);
    k->missed = f && !k->plain && (!f->kernel || !k->gpu);
}

/* Updates a graph: its contexts, with their launches under way, are kept, and new kernels get new ones. */
static struct mt_graph_exec *graph_gpu_update(cudaGraphExec_t exec, cudaGraph_t graph)
{
    struct mt_graph_exec *x = exec ? mt_map_get(&execs, exec) : NULL,
                         *now = x ? calloc(1, sizeof *now) : NULL;
    if (now)
        take_graph(now, graph, x);
    return now;
}

/* Completes an update. */
static cudaError_t graph_gpu_updated(cudaGraphExec_t exec, struct mt_graph_exec *now, cudaError_t e)
{
    struct mt_graph_exec *x = now ? mt_map_get(&execs, exec) : NULL;
    if (!x)
        return e;
    graph_gpu_restore(now);
    for (unsigned i = 0; !e && i < x->n && i < now->n; i++) {
        now->list[i].handle = x->list[i].handle; /* the program still uses this handle */
        now->list[i].off = x->list[i].off;
    }
    const struct mt_graph_exec *gone = e ? now : x, *kept = e ? x : now;
    for (unsigned i = 0; i < gone->n; i++)
        if (i >= kept->n || kept->list[i].gpu != gone->list[i].gpu)
            free_context(gone->list[i].gpu);
    if (!e) {
        struct mt_graph_exec swap = *x;
        x->list = now->list;
        x->n = now->n;
        x->cap = now->cap;
        now->list = swap.list;
    }
    free(now->list);
    free(now);
    return e;
}

static cudaError_t graph_gpu_enabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled,
                                     cudaError_t e)
{
    struct kernel_node *k = e ? NULL : graph_gpu_find(mt_map_get(&execs, exec), node);
    if (k)
        k->off = !enabled;
    return e;
}

/* Stops assigning kernels to nodes: after the change of a child graph they are unknown. */
static cudaError_t graph_gpu_child(cudaGraphExec_t exec, cudaError_t e)
{
    struct mt_graph_exec *x = e ? NULL : mt_map_get(&execs, exec);
    if (x && x->n) {
        x->blind = 1;
        graph_gpu_say_once(CHILD, "a child graph was replaced in one that is ready to be launched");
    }
    return e;
}

/* ---- launches ------------------------------------------------------------------------------------ */

/* Makes launches of the graph follow each other. CUDA does so in any streams, but here the work behind a
 * launch must precede the next launch, too. Returns 0 on success. */
static int graph_gpu_follow(struct mt_graph_exec *x, struct mt_stream *s, cudaStream_t stream)
{
    int bad = 0;
    if (x->stream && x->stream != s->id) {
        struct mt_stream *before = mt_stream_get(x->handle); /* gone: it was waited for */
        cudaEvent_t event;
        if (before && before->id == x->stream) {
            bad = MT_NEXT(cudaEventCreateWithFlags)(&event, cudaEventDisableTiming) != cudaSuccess;
            if (!bad) {
                bad = MT_NEXT(cudaEventRecord)(event, x->handle) ||
                      MT_NEXT(cudaStreamWaitEvent)(stream, event, 0);
                MT_NEXT(cudaEventDestroy)(event);
            }
        } else if (before) /* another thread's default stream */
            for (unsigned i = 0; i < x->n && !bad; i++)
                bad = x->list[i].gpu && !mt_gpu()->node_idle(x->list[i].gpu, IDLE_MS);
    }
    x->stream = s->id;
    x->handle = stream;
    return bad;
}

static struct mt_gpu_launch graph_gpu_describe(const struct kernel_node *k, cudaStream_t stream,
                                               const struct mt_host_site *site)
{
    const struct mt_image_kernel *i = k->f->kernel;
    const struct mt_launch_config *c = &k->c;
    struct mt_gpu_launch l;
    if (!i) {
        mt_untabled_describe(&l, k->f, c, site);
        l.stream = mt_stream_named(stream);
        l.line.called = mt_event_next();
        return l;
    }
    l = (struct mt_gpu_launch){
        .image = k->f->module->image, .kernel = i, .symbol = k->f->host, .stream = mt_stream_named(stream)};
    mt_launch_describe(&l.line, k->f, c, site);
    l.line.called = mt_event_next();
    l.line.counted = l.line.no_records; /* a GPU records or counts, not both */
    return l;
}

static cudaError_t graph_gpu_launch(struct mt_graph_exec *x, cudaGraphExec_t exec, cudaStream_t stream,
                                    struct mt_stream *s, const struct mt_host_site *site)
{
    struct mt_gpu_launch *launches = calloc(x->n, sizeof *launches);
    struct mt_gpu_node **nodes = calloc(x->n, sizeof *nodes);
    unsigned n = 0;
    cudaError_t e;
    int blind = x->blind || graph_gpu_follow(x, s, stream);
    if (blind)
        graph_gpu_say_once(STREAMS, "its launches cannot be distinguished");
    for (unsigned i = 0; i < x->n && launches && nodes; i++) {
        struct kernel_node *k = &x->list[i];
        if (k->off || !k->f)
            continue;
        nodes[n] = blind || k->plain || k->missed ? NULL : k->gpu;
        launches[n] = graph_gpu_describe(k, stream, site);
        if (mt_selection_takes(&launches[n].line))
            launches[n].trace = mt_stream_trace(s);
        n++;
    }
    mt_stack_raise();
    mt_gpu()->graph_launch(nodes, launches, n);
    e = MT_NEXT(cudaGraphLaunch)(exec, stream);
    mt_gpu()->graph_issued(nodes, launches, n, e);
    free(launches);
    free(nodes);
    return e;
}

int mt_graph_gpu_knows(cudaGraphExec_t exec)
{
    return exec && mt_map_get(&execs, exec) != NULL;
}

cudaError_t mt_graph_gpu_launch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct mt_graph_exec *x = exec && mt_device_is_gpu() ? mt_map_get(&execs, exec) : NULL;
    if (!x || !x->n || mt_gpu()->capturing(mt_stream_named(stream)))
        return MT_NEXT(cudaGraphLaunch)(exec, stream);
    const struct mt_host_site *site = mt_host_site_take();
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return MT_NEXT(cudaGraphLaunch)(exec, stream);
    if (mt_device_is_gpu())
        mt_modules_log_symbols();
    return graph_gpu_launch(x, exec, stream, s, site);
}

/* Creation, changes and launches of graphs with the runtime API on a GPU. */

cudaError_t rec_cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                              unsigned long long flags)
{
    struct mt_graph_exec *x = graph_gpu_begin(graph);
    return graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiateWithFlags)(out, graph, flags));
}

#if CUDART_VERSION >= 12000
cudaError_t rec_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    struct mt_graph_exec *x = graph_gpu_begin(graph);
    return graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiate)(out, graph, flags));
}

cudaError_t rec_cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t graph,
                                               cudaGraphInstantiateParams *params)
{
    struct mt_graph_exec *x = graph_gpu_begin(graph);
    return graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiateWithParams)(out, graph, params));
}
#else
cudaError_t rec_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                     char *log, size_t size)
{
    struct mt_graph_exec *x = graph_gpu_begin(graph);
    return graph_gpu_end(x, out, MT_NEXT(cudaGraphInstantiate)(out, graph, error_node, log, size));
}
#endif

cudaError_t rec_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return graph_gpu_destroyed(exec, MT_NEXT(cudaGraphExecDestroy)(exec));
}

#if CUDART_VERSION >= 12000
cudaError_t rec_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                    cudaGraphExecUpdateResultInfo *info)
{
    struct mt_graph_exec *now = graph_gpu_update(exec, graph);
    return graph_gpu_updated(exec, now, MT_NEXT(cudaGraphExecUpdate)(exec, graph, info));
}
#else
cudaError_t rec_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                    enum cudaGraphExecUpdateResult *result)
{
    struct mt_graph_exec *now = graph_gpu_update(exec, graph);
    return graph_gpu_updated(exec, now, MT_NEXT(cudaGraphExecUpdate)(exec, graph, error_node, result));
}
#endif

cudaError_t rec_cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled)
{
    return graph_gpu_enabled(exec, node, enabled, MT_NEXT(cudaGraphNodeSetEnabled)(exec, node, enabled));
}

cudaError_t rec_cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     cudaGraph_t child)
{
    return graph_gpu_child(exec, MT_NEXT(cudaGraphExecChildGraphNodeSetParams)(exec, node, child));
}

cudaError_t rec_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return mt_graph_gpu_launch(exec, stream);
}

/* Kernel nodes on a GPU: our kernels have a parameter unknown to the program. It is NULL in the program's
 * graphs, and a launch context in executable ones. The runtime copies the values while a node is made, so
 * nothing is kept. */

struct widened {
    void *context, **args, *few[64];
};

/* Sets *args to the arguments to pass on, in *w or the program's own. Returns 0, or -1 if out of memory. */
static int record_graph_widen(struct widened *w, const void *func, void **extra, void ***args, void *context)
{
    struct mt_function *f = mt_device_is_gpu() ? mt_function_find(func) : NULL;
    uint32_t n = f && f->kernel ? f->kernel->nparams : 0;
    *w = (struct widened){.context = context};
    if (!f || !f->kernel || extra || (n && !*args))
        return 0;
    w->args = n < sizeof w->few / sizeof *w->few ? w->few : malloc((n + 1) * sizeof *w->args);
    if (!w->args)
        return -1;
    if (n)
        memcpy(w->args, *args, n * sizeof **args);
    w->args[n] = &w->context;
    *args = w->args;
    return 0;
}

static cudaError_t record_graph_done(struct widened *w, cudaError_t e)
{
    if (w->args != w->few)
        free(w->args);
    return e;
}

/* Copies the program's parameters into *p, widened. */
static cudaError_t kernel_params(struct widened *w, struct cudaKernelNodeParams *p,
                                 const struct cudaKernelNodeParams *given, void *context)
{
    *p = *given;
    return record_graph_widen(w, p->func, p->extra, &p->kernelParams, context)
               ? mt_fail(cudaErrorMemoryAllocation)
               : cudaSuccess;
}

cudaError_t rec_cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                       size_t n, const struct cudaKernelNodeParams *params)
{
    struct cudaKernelNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphAddKernelNode)(node, graph, after, n, params);
    cudaError_t e = kernel_params(&w, &p, params, NULL);
    return e ? e : record_graph_done(&w, MT_NEXT(cudaGraphAddKernelNode)(node, graph, after, n, &p));
}

cudaError_t rec_cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    struct cudaKernelNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphKernelNodeSetParams)(node, params);
    cudaError_t e = kernel_params(&w, &p, params, NULL);
    return e ? e : record_graph_done(&w, MT_NEXT(cudaGraphKernelNodeSetParams)(node, &p));
}

cudaError_t rec_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 const struct cudaKernelNodeParams *params)
{
    struct cudaKernelNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphExecKernelNodeSetParams)(exec, node, params);
    const void *func;
    void *context = graph_gpu_context(exec, node, params, &func);
    cudaError_t e = kernel_params(&w, &p, params, context);
    p.func = (void *)(uintptr_t)func;
    if (!e)
        e = record_graph_done(&w, MT_NEXT(cudaGraphExecKernelNodeSetParams)(exec, node, &p));
    if (!e)
        graph_gpu_changed(exec, node, params);
    return e;
}

#if CUDART_VERSION >= 12020 /* nodes of any type */
/* Widens *p, a copy that the runtime may write to. */
static cudaError_t node_params(struct widened *w, struct cudaGraphNodeParams *p,
                               const struct cudaGraphNodeParams *given, void *context)
{
    *p = *given;
    *w = (struct widened){0};
    if (p->type != cudaGraphNodeTypeKernel)
        return cudaSuccess;
    return record_graph_widen(w, p->kernel.func, p->kernel.extra, &p->kernel.kernelParams, context)
               ? mt_fail(cudaErrorMemoryAllocation)
               : cudaSuccess;
}

/* Returns the runtime's results (the address of a memory node) to the program. */
static cudaError_t graph_gpu_give_back(struct widened *w, struct cudaGraphNodeParams *to,
                                       const struct cudaGraphNodeParams *p, cudaError_t e)
{
    if (p->type != cudaGraphNodeTypeKernel)
        *to = *p;
    return record_graph_done(w, e);
}

#if CUDART_VERSION >= 13000
cudaError_t rec_cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                 const cudaGraphEdgeData *edges, size_t n, struct cudaGraphNodeParams *params)
#define ARGUMENTS node, graph, after, edges, n
#else
cudaError_t rec_cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                 size_t n, struct cudaGraphNodeParams *params)
#define ARGUMENTS node, graph, after, n
#endif
{
    struct cudaGraphNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphAddNode)(ARGUMENTS, params);
    cudaError_t e = node_params(&w, &p, params, NULL);
    return e ? e : graph_gpu_give_back(&w, params, &p, MT_NEXT(cudaGraphAddNode)(ARGUMENTS, &p));
}

cudaError_t rec_cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *params)
{
    struct cudaGraphNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphNodeSetParams)(node, params);
    cudaError_t e = node_params(&w, &p, params, NULL);
    return e ? e : graph_gpu_give_back(&w, params, &p, MT_NEXT(cudaGraphNodeSetParams)(node, &p));
}

cudaError_t rec_cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           struct cudaGraphNodeParams *params)
{
    struct cudaGraphNodeParams p;
    struct widened w;
    if (!params)
        return MT_NEXT(cudaGraphExecNodeSetParams)(exec, node, params);
    const int kernel = params->type == cudaGraphNodeTypeKernel;
    const struct cudaKernelNodeParams k = {.func = params->kernel.func,
                                           .gridDim = params->kernel.gridDim,
                                           .blockDim = params->kernel.blockDim,
                                           .sharedMemBytes = params->kernel.sharedMemBytes};
    const void *func;
    void *context = kernel ? graph_gpu_context(exec, node, &k, &func) : NULL;
    cudaError_t e = node_params(&w, &p, params, context);
    if (kernel)
        p.kernel.func = (void *)(uintptr_t)func;
    if (!e)
        e = graph_gpu_give_back(&w, params, &p, MT_NEXT(cudaGraphExecNodeSetParams)(exec, node, &p));
    if (!e && kernel)
        graph_gpu_changed(exec, node, &k);
    return e;
}
#endif
