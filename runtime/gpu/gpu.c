/* The GPU path's part in a launch, and the thread that reads the rings. */
#include "cuda.h"
#include "device/errors.h"
#include "device.h"
#include "reader.h"
#include "trace/events.h"
#include "base/file.h"
#include "trace/last.h"
#include "base/report.h"
#include "base/short.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <errno.h>

/* ---- Kernels of graphs: the launch context that each has as long as its graph is ready ---- */

#define NODES_AT_ONCE 64

/* Outside of the lock: the reader needs it to give contexts back, and this may wait for a kernel. */
static struct mt_gpu_node *node_make_some(struct mt_gpu_device *d)
{
    const struct mt_cuda *cu = mt_cuda();
    struct mt_gpu_context image[NODES_AT_ONCE], *on_device;
    struct mt_gpu_node *list = NULL;
    void *memory = NULL;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    for (unsigned i = 0; i < NODES_AT_ONCE; i++)
        image[i] = (struct mt_gpu_context){.rings = (uint64_t)(uintptr_t)d->on_device,
                                           .ring_mask = MT_GPU_RINGS - 1,
                                           .id = MT_PACKET_NOBODY,
                                           .ctas = d->ctas,
                                           .spaces = mt_trace_compact() != 0};
    cu->ThreadExchangeStreamCaptureMode(&mode);
    cudaError_t e = cu->Malloc(&memory, sizeof image);
    if (!e)
        e = mt_gpu_write(cu, memory, image, sizeof image);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    on_device = memory;
    for (unsigned i = 0; i < NODES_AT_ONCE && !e; i++) {
        struct mt_gpu_node *node = calloc(1, sizeof *node);
        if (!node)
            break;
        *node = (struct mt_gpu_node){.device = d, .context = on_device + i, .next = list};
        list = node;
    }
    if (e)
        cu->GetLastError();
    return list;
}

static struct mt_gpu_node *node_take(struct mt_gpu_device *d, struct mt_gpu_node *more)
{
    pthread_mutex_lock(&mt_gpu_lock);
    while (more) {
        struct mt_gpu_node *next = more->next;
        more->next = d->nodes;
        d->nodes = more;
        more = next;
    }
    struct mt_gpu_node *node = d->nodes;
    if (node) {
        d->nodes = node->next;
        node->freed = 0;
    }
    pthread_mutex_unlock(&mt_gpu_lock);
    return node;
}

static struct mt_gpu_node *gpu_node_new(struct mt_gpu_device *d)
{
    struct mt_gpu_node *node = node_take(d, NULL);
    return node ? node : node_take(d, node_make_some(d));
}

/* Called with the lock. */
static void node_recycle(struct mt_gpu_node *node)
{
    if (!node->freed || node->first)
        return;
    node->next = node->device->nodes;
    node->device->nodes = node;
}

static void gpu_node_free(struct mt_gpu_node *node)
{
    pthread_mutex_lock(&mt_gpu_lock);
    node->freed = 1;
    node_recycle(node);
    pthread_mutex_unlock(&mt_gpu_lock);
}

static void *gpu_node_context(const struct mt_gpu_node *node)
{
    return (char *)node->context + (node->device->ctas ? MT_CONTEXT_IN_PARTS : 0);
}

void mt_gpu_node_left(struct mt_flight *f)
{
    struct mt_flight **at = &f->node->first;
    while (*at && *at != f)
        at = &(*at)->node_next;
    if (!*at)
        return;
    *at = f->node_next;
    pthread_cond_broadcast(&mt_gpu_returned);
    node_recycle(f->node);
}

/* NULL: no memory. */
static int gpu_node_idle(struct mt_gpu_node *node, unsigned ms)
{
    const struct timespec end = mt_gpu_in_ms(ms);
    pthread_mutex_lock(&mt_gpu_lock);
    while (node->first && pthread_cond_timedwait(&mt_gpu_returned, &mt_gpu_lock, &end) != ETIMEDOUT)
        ;
    int idle = !node->first;
    pthread_mutex_unlock(&mt_gpu_lock);
    return idle;
}

/* In stream order: packets of the node's kernel are those of context `id`, or of MT_PACKET_NOBODY. */
static cudaError_t gpu_node_is(struct mt_gpu_node *node, uint32_t id, cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    if (cu->WriteValue && !cu->WriteValue(stream, (uint64_t)(uintptr_t)&node->context->id, id, 0))
        return cudaSuccess;
    return cu->MemcpyAsync(&node->context->id, &node->device->numbers[id], sizeof id, cudaMemcpyHostToDevice,
                           stream);
}

#define PATIENCE_SYNCED                                                                                      \
    20 /* times MT_READER_STALL_MS without a packet, after the device said that it is done */
#define PATIENCE_EXIT 4
#define PATIENCE_LEND 20

/* A launch is under way: the reader reads. 0, or -1 when there is no thread. */
static int gpu_wake(void)
{
    static const struct mt_reader_ops ops = {mt_gpu_poll, mt_gpu_return, NULL};
    return mt_reader_wake(&ops);
}

/* ---- launches ----------------------------------------------------------------------------------- */

/* Calls of our own leave the program's error state alone. */
static int is_capturing(const struct mt_cuda *cu, cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    int clean = cu->PeekAtLastError() == cudaSuccess;
    cudaError_t e = cu->StreamIsCapturing(stream, &status);
    if (e && clean)
        cu->GetLastError();
    return e || status != cudaStreamCaptureStatusNone;
}

static int gpu_capturing(cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    return cu && is_capturing(cu, stream);
}

enum reason { NO_ROOM, NO_MEANS, AT_EXIT, DAMAGED, NREASONS };
static void say_once(enum reason r, const char *kernel, const char *why)
{
    static atomic_int said[NREASONS];
    if (!atomic_exchange(&said[r], 1))
        mt_report("kernel %s is not traced: %s (said once)", mt_short(kernel).text, why);
}

static void gpu_finish(void);

/* Nothing is traced any more, since the rings are not looked at. */
static int is_over(const char *kernel)
{
    if (mt_gpu_closed())
        say_once(AT_EXIT, kernel, "it was launched when the CUDA driver was about to shut down");
    return mt_gpu_closed();
}

/* A launch with a context; NULL: there is none. */
static struct mt_flight *gpu_lend(const struct mt_gpu_launch *l, struct mt_gpu_device *d,
                                  struct mt_gpu_node *node, void **context)
{
    struct mt_flight *f = d ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    if (d->damaged) {
        say_once(DAMAGED, l->line.kernel, "a ring for records of its GPU was written over");
        free(f);
        return NULL;
    }
    f->launch = *l;
    f->launch.line.seq = mt_event_seq();
    f->launch.line.begin_ns = mt_now_ns();
    f->node = node;
    f->no_sites = !mt_gpu_number_sites(d, l);
    struct mt_patience p = mt_reader_patience();
    do
        *context = mt_gpu_lend(d, f, MT_READER_STALL_MS);
    while (!*context && !mt_reader_quiet(&p, PATIENCE_LEND));
    return f;
}

/* What is needed to trace a launch; NULL when it must go untraced. Leaves the queue's order locked. */
static struct mt_flight *gpu_prepare(struct mt_gpu_launch *l, void **context)
{
    const char *kernel = l->line.kernel;
    struct mt_flight *f = is_over(kernel) ? NULL : gpu_lend(l, mt_gpu_device(gpu_finish), NULL, context);
    if (!f)
        return NULL;
    struct mt_flight_queue *q = *context ? mt_queue_enter(l->trace) : NULL;
    if (q && !gpu_wake()) {
        mt_flight_add(q, f);
        return f;
    }
    say_once(NO_MEANS, kernel,
             *context ? "there is no memory or no thread for it" : "too many launches are waiting");
    if (q)
        mt_queue_leave(q);
    mt_gpu_return(f);
    free(f);
    return NULL;
}

static void *gpu_launch(struct mt_gpu_launch *l)
{
    void *context = NULL;
    int possible = !l->kernel || !(l->kernel->flags & MT_KERNEL_GPU_UNTRACED);
    if (l->trace && !possible)
        say_once(NO_ROOM, l->line.kernel, "it has no room for record calls there, as the compiler said");
    l->state = l->trace && possible ? gpu_prepare(l, &context) : NULL;
    return l->state ? context : NULL;
}

/* With a trace: that it is not traced was said. */
static void log_untraced(struct mt_gpu_launch *l, cudaError_t status)
{
    if (l->known)
        l->known->write(l->known, NULL);
    if (l->trace && !status)
        mt_trace_miss(l->trace, NULL);
    mt_trace_begin(NULL, &l->line);
    l->line.status = (int)status;
    mt_trace_end(NULL, &l->line);
}

static void gpu_mark(struct mt_flight *f, cudaError_t status)
{
    if (status) {
        mt_flight_cancel(f, (int)status);
        return;
    }
    cudaError_t e = mt_gpu_mark(f->device, f, f->launch.stream);
    if (e) { /* no end can be seen: what comes until the next look is taken, and the program sees its own
                errors */
        mt_report("the end of kernel %s cannot be seen (%s); its trace may be incomplete",
                  mt_short(f->launch.line.kernel).text, mt_cuda()->GetErrorString(e));
        f->gone = 1;
        f->status = (int)e;
    }
    mt_flight_issued(f);
}

static void gpu_issued(struct mt_gpu_launch *l, cudaError_t status)
{
    struct mt_flight *f = l->state;
    if (!f) {
        log_untraced(l, status);
        return;
    }
    struct mt_flight_queue *q = f->queue; /* the flight may be gone when it is issued */
    if (l->plain)
        mt_flight_cancel(f, (int)status);
    else
        gpu_mark(f, status);
    mt_queue_leave(q);
}

/* ---- graphs -------------------------------------------------------------------------------------- */

static struct mt_gpu_node *node_new(void)
{
    struct mt_gpu_device *d = mt_gpu_closed() ? NULL : mt_gpu_device(gpu_finish);
    return d ? gpu_node_new(d) : NULL;
}

/* Its packets are not the launch's: what it does is counted as missing. */
static void say_not_told(const struct mt_gpu_launch *l, cudaError_t e)
{
    mt_report(
        "kernel %s of a graph cannot know which launch its records belong to (%s); its trace is incomplete",
        mt_short(l->line.kernel).text, mt_cuda()->GetErrorString(e));
}

static void graph_launch(struct mt_gpu_node *const *nodes, struct mt_gpu_launch *launches, unsigned n)
{
    struct mt_flight_queue *q = NULL;
    void *context;
    for (unsigned i = 0; i < n; i++) {
        launches[i].state = NULL;
        if (!launches[i].trace || !nodes[i])
            continue;
        context = NULL;
        struct mt_flight *f = is_over(launches[i].line.kernel)
                                  ? NULL
                                  : gpu_lend(&launches[i], nodes[i]->device, nodes[i], &context);
        if (context && (q || (q = mt_queue_enter(launches[i].trace))) && !gpu_wake()) {
            mt_flight_add(q, f);
            launches[i].state = f;
            cudaError_t e = gpu_node_is(nodes[i], f->context, f->launch.stream);
            if (e)
                say_not_told(&launches[i], e);
            continue;
        }
        if (f) {
            say_once(NO_MEANS, launches[i].line.kernel,
                     "too many launches are waiting, or there is no memory");
            mt_gpu_return(f);
        }
        free(f);
    }
}

static void graph_issued(struct mt_gpu_node *const *nodes, struct mt_gpu_launch *launches, unsigned n,
                         cudaError_t status)
{
    struct mt_flight_queue *q = NULL;
    for (unsigned i = 0; i < n; i++) {
        struct mt_flight *f = launches[i].state;
        if (!f) {
            log_untraced(&launches[i], status);
            continue;
        }
        q = f->queue;
        gpu_node_is(nodes[i], MT_PACKET_NOBODY, f->launch.stream); /* before its place is another's */
        gpu_mark(f, status);
    }
    if (q)
        mt_queue_leave(q);
}

/* ---- waiting -------------------------------------------------------------------------------------
 *
 * In a forked child there is no reader, and locks may be held by threads that are not there: what is under
 * way is the parent's. */

struct verdict {
    const struct mt_flight_filter *filter;
    cudaError_t status;
};

static void give_up(struct mt_flight *f, void *data)
{
    struct verdict *v = data;
    if (!mt_flight_matches(f, v->filter))
        return;
    f->gone = 1;
    f->status = (int)v->status;
}

/* They will never end: what is there is all. */
static void gpu_end(const struct mt_flight_filter *filter, cudaError_t e)
{
    struct verdict v = {filter, e};
    mt_report("kernels on the GPU did not end (%s); their traces hold what had arrived",
              mt_cuda() ? mt_cuda()->GetErrorString(e) : "no CUDA runtime");
    mt_flight_each(give_up, &v);
    mt_flight_wait(filter, MT_READER_STALL_MS);
}

/* What is wrong with the device, if anything. The program's error state stays as it is. */
static cudaError_t gpu_ask(cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    if (!cu)
        return cudaErrorInitializationError;
    int clean = cu->PeekAtLastError() == cudaSuccess;
    cudaError_t e = cu->StreamQuery(stream);
    if (e && clean)
        cu->GetLastError();
    return e == cudaErrorNotReady ? cudaSuccess : e;
}

/* Waits until the launches of a filter have ended. A device that has failed will never end them; nor is there
 * hope when nothing comes. */
static void wait_for(const struct mt_flight_filter *filter, const cudaStream_t *stream, unsigned patience)
{
    struct mt_patience p = mt_reader_patience();
    while (mt_flight_wait(filter, MT_READER_STALL_MS)) {
        int over = mt_reader_quiet(&p, patience);
        cudaError_t e = stream ? gpu_ask(*stream) : cudaSuccess;
        if (!e && over)
            e = cudaErrorTimeout;
        if (e) {
            gpu_end(filter, e);
            return;
        }
    }
}

/* The program may end at once now: what had arrived is written before it hears of the failure. A wait for all
 * may have heard of another device. */
static void gpu_failed(const struct mt_gpu_point *p, const struct mt_flight_filter *filter, cudaError_t e)
{
    if (mt_error_stays((int)e) && (p->trace || gpu_ask(p->stream)) &&
        mt_flight_wait(filter, MT_READER_STALL_MS))
        gpu_end(filter, e);
}

static struct mt_gpu_point gpu_point(cudaStream_t stream, const struct mt_trace *trace, int all)
{
    struct mt_gpu_point p = {.stream = stream, .trace = all ? NULL : trace};
    int any = p.stream == cudaStreamLegacy || p.stream == cudaStreamPerThread;
    p.device = any ? mt_gpu_device_in_use() : NULL; /* else the stream says it */
    p.launches = (all || trace) && (p.device || !any) && !mt_forked() ? mt_flight_issued_so_far() : 0;
    return p;
}

static void gpu_synced(const struct mt_gpu_point *p, cudaError_t error)
{
    struct mt_flight_filter filter = {p->trace, p->device, p->launches};
    if (!p->launches || mt_forked() || !mt_flight_count(&filter))
        return;
    if (error)
        gpu_failed(p, &filter, error);
    else
        wait_for(&filter, &p->stream, PATIENCE_SYNCED);
}

static void stream_ends(cudaStream_t stream, struct mt_trace *trace)
{
    const struct mt_cuda *cu = mt_cuda();
    struct mt_flight_filter filter = {.trace = trace};
    if (!trace || mt_forked())
        return;
    if (cu && mt_flight_count(&filter))
        cu->StreamSynchronize(stream); /* destroying it would let its work go on without us */
    wait_for(&filter, &stream, PATIENCE_SYNCED);
    mt_queue_forget(trace);
}

static void gpu_reset(void)
{
    const struct mt_cuda *cu = mt_cuda();
    struct mt_gpu_device *d = mt_gpu_device_in_use();
    struct mt_flight_filter its = {.device = d};
    cudaStream_t legacy = cudaStreamLegacy;
    int ordinal;
    if (!mt_forked() && cu && !cu->GetDevice(&ordinal) && ordinal >= 0 && ordinal < MT_GPU_ORDINALS) {
        mt_gpu_forget_primary(ordinal);
        mt_gpu_try_again(ordinal);
    }
    if (!d || mt_forked())
        return;
    cudaError_t e = cu->DeviceSynchronize();
    if (mt_flight_count(&its) && e)
        gpu_end(&its, e);
    else if (mt_flight_count(&its))
        wait_for(&its, &legacy, PATIENCE_SYNCED);
    mt_gpu_retire(d);
}

/* The last look at a GPU's rings: what the program launched and never waited for. After this the driver may
 * take their memory. Exit handlers that the program registered before its first traced launch run later, and
 * what they launch is not traced. */
static void gpu_finish(void)
{
    struct mt_flight_filter any = {NULL, NULL, 0};
    if (mt_forked() || mt_gpu_closed())
        return;
    if (mt_flight_count(&any))
        wait_for(&any, NULL, PATIENCE_EXIT);
    if (mt_cuda() && mt_cuda()->ends_at_exit)
        mt_gpu_close();
}

static void gpu_start(void)
{
    const struct mt_cuda *cu = mt_cuda();
    static char name[128] = "NVIDIA GPU";
    int device = 0, sms = 0;
    if (!cu || cu->GetDevice(&device))
        return;
    cu->DeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (cu->DeviceName)
        cu->DeviceName(name, sizeof name, device);
    mt_trace_device("gpu", name, sms > 0 ? (unsigned)sms : 0);
}

static const struct mt_gpu_ops ops = {
    .functions = mt_cuda_from,
    .start = gpu_start,
    .launch = gpu_launch,
    .issued = gpu_issued,
    .capturing = gpu_capturing,
    .node_new = node_new,
    .node_context = gpu_node_context,
    .node_free = gpu_node_free,
    .node_idle = gpu_node_idle,
    .graph_launch = graph_launch,
    .graph_issued = graph_issued,
    .point = gpu_point,
    .synced = gpu_synced,
    .stream_ends = stream_ends,
    .reset = gpu_reset,
    .finish = gpu_finish,
};

const struct mt_gpu_ops *mt_gpu(void)
{
    return &ops;
}
