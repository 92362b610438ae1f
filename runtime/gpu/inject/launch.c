/* Launches: selection, launch contexts, and failed launches; and the CUDA calls and graphs that make them. */
#include "base/source_name.h"
#include "base/fork.h"
#include "base/report.h"
#include "code.h"
#include "inject.h"
#include "trace/events.h"
#include "trace/selection.h"
#include "device/errors.h"
#include "trace/ranges.h"
#include "trace/trace.h"
#include <generated_cuda_meta.h>
#include <generated_cuda_runtime_api_meta.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- names: launch lines refer to them until the process ends ---- */

struct launch_name {
    struct launch_name *next;
    char *kernel;
    const char *signature; /* with parameters, which distinguish overloaded functions */
    char mangled[];
};
#define NAMES 256u
static struct launch_name *names[NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);

static struct launch_name **launch_bucket(const char *mangled)
{
    uint32_t h = 2166136261u;
    for (; *mangled; mangled++)
        h = (h ^ (unsigned char)*mangled) * 16777619u;
    return &names[h % NAMES];
}

/* Called without a lock: demangling calls the program's C++ library. */
static struct launch_name *launch_name_new(const char *mangled)
{
    struct launch_name *n = malloc(sizeof *n + strlen(mangled) + 1);
    if (!n)
        return NULL;
    strcpy(n->mangled, mangled);
    n->kernel = mt_demangle_name(mangled);
    n->signature = mt_demangle(mangled);
    if (n->signature &&
        !strncmp(n->signature, "void ", 5)) /* names of template instances include the result type */
        n->signature += 5;
    return n;
}

static struct launch_name *launch_name_find(const char *mangled)
{
    struct launch_name *n = *launch_bucket(mangled);
    while (n && strcmp(n->mangled, mangled))
        n = n->next;
    return n;
}

static const struct launch_name *launch_name(const char *mangled)
{
    pthread_mutex_lock(&lock);
    struct launch_name *n = launch_name_find(mangled);
    pthread_mutex_unlock(&lock);
    if (n || !(n = launch_name_new(mangled)))
        return n;
    pthread_mutex_lock(&lock);
    n->next = *launch_bucket(mangled); /* harmless duplicate if two threads were here */
    *launch_bucket(mangled) = n;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- one launch ---- */

struct launching {
    const Sanitizer_LaunchData *data;
    struct mt_inject_module *module; /* NULL: unknown */
    struct mt_launch_line line;
    struct mt_trace *trace; /* NULL: not to be traced */
};

static void launch_describe(struct launching *g)
{
    const Sanitizer_LaunchData *l = g->data;
    const char *mangled = l->functionName ? l->functionName : "?";
    const struct launch_name *n = launch_name(mangled);
    const struct mt_inject_call *call = mt_inject_call();
    int clusters = l->clusterDim_x > 1 || l->clusterDim_y > 1 || l->clusterDim_z > 1;
    g->line = (struct mt_launch_line){
        .kernel = n && n->kernel ? n->kernel : "?",
        .mangled = n ? n->mangled : NULL,
        .signature = n ? n->signature : NULL,
        .grid = {l->gridDim_x, l->gridDim_y, l->gridDim_z},
        .block = {l->blockDim_x, l->blockDim_y, l->blockDim_z},
        .shared = call->depth ? call->shared : 0,
        .cooperative = call->depth ? call->cooperative : 0,
        .called = mt_event_next(),
        .device = l->device,
    };
    if (clusters)
        memcpy(g->line.cluster, (uint32_t[]){l->clusterDim_x, l->clusterDim_y, l->clusterDim_z},
               sizeof g->line.cluster);
}

/* Returns the number of thread exits to expect, those of untraced CTAs included; 0: unknown. */
static uint64_t launch_exits(const struct launching *g)
{
    const uint32_t *grid = g->line.grid, *block = g->line.block;
    uint64_t threads = (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
    return g->module->launches || !mt_inject_exits_count() ? 0 : threads;
}

static uint32_t launch_site(const struct mt_flight *f, const struct mt_packet *p)
{
    uint64_t pc = mt_packet_pc_of(p->site, f->code);
    return pc ? mt_code_site(pc, p->meta) : 0;
}

/* Returns an address in its module's code, or 0 if unknown. */
static uint64_t launch_pc(const struct launching *g)
{
    uint64_t pc = 0, size = 0;
    const Sanitizer_LaunchData *l = g->data;
    if (!g->module->pc && l->functionName &&
        !mt_sanitizer()->GetFunctionPcAndSize(l->module, l->functionName, &pc, &size))
        g->module->pc = pc;
    return g->module->pc;
}

static struct mt_flight *launch_flight(const struct launching *g)
{
    struct mt_flight *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->launch.line = g->line;
    f->launch.trace = g->trace;
    f->launch.state = mt_inject_call(); /* API call that makes the launch */
    f->module = g->data->module;
    f->launch.line.seq = mt_event_seq();
    f->launch.line.begin_ns = mt_now_ns();
    f->site = launch_site;
    f->exits = launch_exits(g);
    return f;
}

/* ---- launches that should be traced but are not ---- */

static const char *launch_why_not(const struct launching *g)
{
    const struct mt_inject_module *m = g->module;
    if (mt_rings_closed())
        return "it was launched when the CUDA driver was about to shut down";
    if (!m)
        return "its module was loaded before memtrace was there";
    if (m->why)
        return m->why;
    if (!m->patched)
        return "its name is not among those of its module";
    return m->context->rings && m->context->rings->damaged ? "a ring for records of its GPU was written over"
                                                           : NULL;
}

static void launch_say(const struct launching *g, const char *why)
{
    static atomic_int said;
    if (!atomic_exchange(&said, 1))
        mt_report("kernel %s is not traced: %s (said once)", mt_short(g->line.kernel).text, why);
}

static void launch_untraced(struct launching *g, const char *why)
{
    if (g->trace && why) {
        launch_say(g, why);
        mt_trace_miss(g->trace, why);
    }
    mt_trace_begin(NULL, &g->line);
    mt_trace_end(NULL, &g->line);
}

/* ---- the launch itself ---- */

/* Passes the data of this launch to its patches. */
static SanitizerResult launch_tell(const struct launching *g, const void *data)
{
    const Sanitizer_LaunchData *l = g->data;
    return mt_sanitizer()->SetLaunchCallbackData(l->hLaunch, l->function, l->hStream, data);
}

static void launch_remember(uint64_t number)
{
    struct mt_inject_call *call = mt_inject_call();
    if (!call->after)
        call->first = number;
    call->after = number + 1;
}

/* The flight belongs to its queue once added. */
static int launch_go(struct launching *g, struct mt_flight *f, const void *data)
{
    struct mt_flight_queue *q = NULL;
    if (mt_flight_begin(f, &q))
        return -1;
    launch_remember(f->number);
    SanitizerResult r = launch_tell(g, data);
    if (r) {
        launch_say(g, mt_sanitizer_text(r));
        mt_flight_cancel(f, 0);
    } else
        mt_flight_issued(f);
    mt_queue_leave(q);
    return 0;
}

static const char *launch_trace(struct launching *g)
{
    const char *why = launch_why_not(g);
    struct mt_flight *f = why ? NULL : launch_flight(g);
    const void *data = f ? mt_inject_lend(g->module->context, f, launch_pc(g), g->data->hStream) : NULL;
    if (data && !launch_go(g, f, data))
        return NULL;
    if (f)
        mt_rings_return(f);
    free(f);
    return why ? why : data ? "there is no memory or no thread for it" : "too many launches are waiting";
}

/* Handles a launch that begins now, by itself or as a graph node, in `stream`. */
static void inject_launched(const Sanitizer_LaunchData *l, CUcontext context, Sanitizer_StreamHandle stream)
{
    struct launching g = {.data = l, .module = mt_inject_module(l->module)};
    const char *why = NULL;
    if (!l->module) /* a launch of the driver itself */
        return;
    launch_describe(&g);
    mt_inject_device_is(l->device);
    if (mt_tracing() && mt_selection_takes(&g.line))
        g.trace = mt_inject_stream_trace(context, stream);
    if (g.trace && g.module && g.module->launches)
        mt_trace_miss(g.trace, "its kernels launch kernels, whose records cannot be told from their own");
    if (g.trace && !(why = launch_trace(&g)))
        return;
    if (g.module && g.module->patched)
        launch_tell(&g, NULL);
    launch_untraced(&g, why);
}

void mt_inject_launch(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_LaunchData *l = data;
    if (cbid == SANITIZER_CBID_LAUNCH_BEGIN)
        inject_launched(l, l->context, l->hStream);
}

/* ---- failed launches ---- */

struct launch_failure {
    uint64_t first, after;
    const void *call;
    int status;
};

/* Called with the list locked. */
static void launch_cancel(struct mt_flight *f, void *data)
{
    const struct launch_failure *v = data;
    if (f->number < v->first || f->number >= v->after || f->launch.state != v->call || f->taken || f->exited)
        return;
    f->cancelled = 1;
    f->status = v->status;
}

/* Cancels launches `first` to `after` - 1, which will not run because their call has failed. */
static void inject_launch_failed(uint64_t first, uint64_t after, int status)
{
    struct launch_failure v = {first, after, mt_inject_call(), status};
    mt_flight_each(launch_cancel, &v);
}

/* Calls of the driver's and the runtime's functions: launch parameters missing in launch callbacks, and the
 * results of waits. A call of the runtime contains one of the driver. */

static _Thread_local struct mt_inject_call call;

struct mt_inject_call *mt_inject_call(void)
{
    return &call;
}

/* Returns 1 at the begin of a call. */
static int call_begins(const Sanitizer_CallbackData *d)
{
    if (d->callbackSite != SANITIZER_API_ENTER)
        return 0;
    if (!call.depth++)
        call = (struct mt_inject_call){.depth = 1, .launches = mt_flight_issued_so_far()};
    return 1;
}

/* Returns the call's result; both APIs number the relevant errors alike. */
static int call_ends(const Sanitizer_CallbackData *d)
{
    if (call.depth && !--call.depth)
        call.waits = 0;
    return d->functionReturnValue ? *(const int *)d->functionReturnValue : 0;
}

/* ---- launches ---- */

static void call_config(const CUlaunchConfig *c)
{
    if (!c)
        return;
    call.shared = c->sharedMemBytes;
    for (unsigned i = 0; c->attrs && i < c->numAttrs; i++)
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            call.cooperative = c->attrs[i].value.cooperative != 0;
}

static void call_asks(Sanitizer_CallbackId id, const void *params)
{
    switch (id) {
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernel:
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernel_ptsz:
        call.shared = ((const cuLaunchKernel_params *)params)->sharedMemBytes;
        break;
    case SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel:
    case SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel_ptsz:
        call.shared = ((const cuLaunchCooperativeKernel_params *)params)->sharedMemBytes;
        call.cooperative = 1;
        break;
    case SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernelMultiDevice:
        call.cooperative = 1;
        break;
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx:
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx_ptsz:
        call_config(((const cuLaunchKernelEx_params *)params)->config);
        break;
    default:
        break;
    }
}

static void call_launched(int status)
{
    if (status && call.after > call.first)
        inject_launch_failed(call.first, call.after, status);
    if (!call.depth)
        call.first = call.after = 0;
}

void mt_inject_launches(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    if (!call_begins(d))
        call_launched(call_ends(d));
    else if (d->functionParams)
        call_asks(cbid, d->functionParams);
}

void mt_inject_runtime_launches(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    if (!call_begins(d)) {
        call_launched(call_ends(d));
        return;
    }
    call.cooperative = cbid == SANITIZER_CBID_RUNTIME_API_cudaLaunchCooperativeKernel ||
                       cbid == SANITIZER_CBID_RUNTIME_API_cudaLaunchCooperativeKernel_ptsz;
    if (cbid == SANITIZER_CBID_RUNTIME_API_cudaLaunchKernel && d->functionParams)
        call.shared = ((const cudaLaunchKernel_v7000_params *)d->functionParams)->sharedMem;
}

/* ---- waits ---- */

/* Returns 1 if the data is on the host when the call returns. Other copies need not have waited. */
static int call_copies_back(const Sanitizer_CallbackData *d)
{
    const cudaMemcpy_v3020_params *p = d->functionParams; /* same layout with per-thread default streams */
    if (!d->functionName || strstr(d->functionName, "DtoH"))
        return d->functionName != NULL;
    return !strncmp(d->functionName, "cudaMemcpy", 10) && p && p->kind == cudaMemcpyDeviceToHost;
}

/* Notes that a copy has waited for earlier work of its stream, a default stream. */
static void call_copied(const Sanitizer_CallbackData *d)
{
    struct mt_inject_context *c = mt_inject_context(d->context);
    CUstream s = strstr(d->functionName, "_ptds") ? CU_STREAM_PER_THREAD : NULL;
    Sanitizer_StreamHandle stream = NULL;
    if (!c || mt_sanitizer()->GetStreamHandle(d->context, s, &stream))
        return;
    struct mt_trace *t = mt_inject_stream_known(d->context, stream);
    if (t)
        mt_inject_synced(c, stream, t, 0);
}

static void call_waited(const Sanitizer_CallbackData *d, int error)
{
    if (mt_error_stays(error))
        mt_inject_synced(mt_inject_context(d->context), NULL, NULL, error);
    else if (!error && call.copies && call_copies_back(d))
        call_copied(d);
}

void mt_inject_calls(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (call_begins(d)) {
        call.waits = 1;
        call.copies = d->functionName && strstr(d->functionName, "Memcpy") != NULL;
        return;
    }
    int waited = call.depth == 1;
    int error = d->functionReturnValue ? *(const int *)d->functionReturnValue : 0;
    if (waited)
        call_waited(d, error);
    call_ends(d);
}

void mt_inject_profiler_on(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (d->callbackSite == SANITIZER_API_ENTER)
        mt_selection_profiler(1);
}

void mt_inject_profiler_off(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (d->callbackSite == SANITIZER_API_ENTER)
        mt_selection_profiler(0);
}

/* Launches of graphs: each node is handled like a single operation in the stream of the graph's launch. */

/* Ready graphs that may launch graphs from the device, by handle. */
static struct mt_ranges graph_launching = MT_RANGES_INIT;
MT_FORK_TABLE(graph_launching);

static uint64_t graph_key(CUgraphExec g)
{
    return (uint64_t)(uintptr_t)g;
}

static void graph_created(const Sanitizer_GraphExecData *d)
{
    if (d->containsDeviceGraphLaunches)
        mt_ranges_add(&graph_launching, graph_key(d->graphExec), 1, NULL);
}

static void graph_gone(const Sanitizer_GraphExecData *d)
{
    struct mt_range r;
    mt_ranges_take(&graph_launching, graph_key(d->graphExec), &r);
}

static void graph_launched(const Sanitizer_GraphLaunchData *d)
{
    struct mt_range r;
    if (!d->isGraphUpload && mt_ranges_find(&graph_launching, graph_key(d->graphExec), &r))
        mt_trace_miss(mt_inject_stream_trace(d->context, d->hStream),
                      "graphs were launched from the device: their launches cannot be told apart");
}

static void graph_kernel(const Sanitizer_LaunchData *l)
{
    int known = l->hApiStream != NULL;
    inject_launched(l, known ? l->apiContext : l->context, known ? l->hApiStream : l->hStream);
}

static void graph_node(const Sanitizer_GraphNodeLaunchData *n)
{
    const Sanitizer_MemcpyData *copy = &n->memcpyData;
    const Sanitizer_MemsetData *fill = &n->memsetData;
    switch ((int)n->nodeType) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        graph_kernel(&n->launchData);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        mt_inject_copied(copy, mt_inject_stream_number(copy->apiContext, copy->hApiStream));
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        mt_inject_filled(fill, mt_inject_stream_number(fill->context, fill->hStream));
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        mt_inject_allocated(&n->memAllocData);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        mt_inject_freed(n->memFreeAddress);
        break;
    default:
        break;
    }
}

/* Nodes are also called back when a graph is uploaded, which launches nothing. */
void mt_inject_graph(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_GraphNodeLaunchData *n = data;
    switch (cbid) {
    case SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATED:
        graph_created(data);
        break;
    case SANITIZER_CBID_GRAPHS_GRAPHEXEC_DESTROYING:
        graph_gone(data);
        break;
    case SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN:
        graph_launched(data);
        break;
    case SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN:
        if (!n->isGraphUpload)
            graph_node(n);
        break;
    default:
        break;
    }
}
