/* Kernels of mt-cc on a GPU: devices with their rings; and launches, graphs and waits of the API layer. The
 * end of a launch is a mark: its context's counters are copied to host memory in its stream, then the number
 * of the lending is written beside them. So a reader that sees the number has everything written by the
 * launch in its rings. */
#define _GNU_SOURCE
#include "cuda.h"
#include "rings.h"
#include "device/errors.h"
#include "base/file.h"
#include "base/report.h"
#include "base/source_name.h"
#include "base/thread.h"
#include "trace/events.h"
#include "trace/trace.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_SYNCED 20 /* times MT_STALL_MS without a packet, after the device has finished */
#define PATIENCE_EXIT 4
#define PATIENCE_LEND 20

/* State of a context whose launch was given up: it is lent again only when no more records of that launch can
 * arrive. */
struct debt {
    enum { MT_DEBT_NONE, MT_DEBT_MARK, MT_DEBT_RECORDS } waits_for;
    uint64_t taken, counted;  /* records received; once the mark has arrived, records made */
    struct mt_gpu_node *node; /* node whose counters the mark brings; NULL: the context's own */
};

/* A program whose site numbers are set on a device. */
struct sites {
    const struct mt_image *first;
    int known;
    struct sites *next;
};

struct device {
    struct mt_rings rings; /* first, so that a pointer to it is one to the device */
    int ordinal;
    struct mt_gpu_context *mirror; /* counters of each context at its last end, in host memory */
    uint32_t *ends;                /* number of the last lending that ended, by context, in host memory */
    uint64_t ends_device;          /* device address of `ends` */
    struct mt_gpu_context before[MT_GPU_CONTEXTS]; /* counters when it was lent */
    struct debt debt[MT_GPU_CONTEXTS];             /* used by the reader while the context is not lent */
    struct mt_gpu_node *nodes;                     /* free nodes */
    uint32_t *numbers; /* numbers[i] = i, in host memory: source of the ids of node contexts */
    struct sites *sites;
};

/* A kernel node of a graph. Its launches follow each other, so one context is enough; its id is that of the
 * context lent to the launch under way, set in stream order before the graph and reset after it. */
struct mt_gpu_node {
    struct device *device;
    struct mt_gpu_context *context; /* on the device */
    struct mt_gpu_context before;   /* its counters at the end of the previous launch; used by the reader */
    struct mt_flight *first;        /* launches under way, oldest first */
    int freed;
    struct mt_gpu_node *next; /* next free node */
};

static pthread_cond_t node_ended = PTHREAD_COND_INITIALIZER; /* used with mt_rings_lock */
/* Held while a device is set up. The reader never takes it: an allocation may wait for kernels that wait for
 * the reader. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct device *_Atomic devices[MT_GPU_ORDINALS]; /* devices in use */
static struct device *rooms[MT_GPU_ORDINALS]; /* devices in use and those that were reset; under `making` */
static int failed[MT_GPU_ORDINALS];           /* under `making` */

/* ---- the primary context --------------------------------------------------------------------------
 * Contexts created by the program with the driver (cuCtxCreate) have memory of their own: kernels in them
 * cannot reach our rings, which are in the device's primary context, and nothing tells us when one ends. So
 * their launches run without a trace. */

static void *_Atomic primary[MT_GPU_ORDINALS]; /* last known primary context */

/* Returns 1 if the thread's current context is the primary one, or if that is unknown. */
static int is_primary(const struct mt_cuda *cu, int ordinal)
{
    void *current = NULL, *its = NULL;
    unsigned flags;
    int active = 1;
    if (!cu->CurrentContext || !cu->RetainPrimary || !cu->ReleasePrimary || cu->CurrentContext(&current))
        return 1;
    if (!current || current == primary[ordinal]) /* none yet: the runtime uses the primary one */
        return 1;
    if (cu->PrimaryState && !cu->PrimaryState(ordinal, &flags, &active) && !active)
        return 0;
    if (cu->RetainPrimary(&its, ordinal))
        return 1;
    cu->ReleasePrimary(ordinal);
    primary[ordinal] = its;
    return current == its;
}

/* ---- setting up --------------------------------------------------------------------------------- */

/* Copies to the device, and waits for the end of the copy. */
static cudaError_t device_write(void *to, const void *from, size_t bytes)
{
    const struct mt_cuda *cu = mt_cuda();
    cudaStream_t s;
    cudaError_t e = cu->StreamCreateWithFlags(&s, cudaStreamNonBlocking);
    if (e)
        return e;
    e = cu->MemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s);
    cudaError_t done = cu->StreamSynchronize(s);
    cu->StreamDestroy(s);
    return e ? e : done;
}

static int device_get(struct mt_rings_maker *m, size_t bytes, int host, void **at, uint64_t *device)
{
    const struct mt_cuda *cu = mt_cuda();
    void *there = NULL;
    (void)m;
    cudaError_t e =
        host ? cu->HostAlloc(at, bytes, cudaHostAllocMapped | cudaHostAllocPortable) : cu->Malloc(at, bytes);
    if (!e && host)
        e = cu->HostGetDevicePointer(&there, *at, 0);
    *device = (uint64_t)(uintptr_t)(host ? there : *at);
    return (int)e;
}

static int gpu_put(struct mt_rings_maker *m, void *to, const void *from, size_t bytes)
{
    (void)m;
    return (int)device_write(to, from, bytes);
}

static const struct mt_rings_ops device_ops;

static void device_fill(struct device *d, struct mt_rings_maker *m)
{
    uint64_t unused;
    mt_rings_make(&d->rings, &device_ops, 0, m);
    d->mirror = mt_rings_memory(m, MT_GPU_CONTEXTS * sizeof *d->mirror, 1, &unused);
    d->ends = mt_rings_memory(m, MT_GPU_CONTEXTS * sizeof *d->ends, 1, &d->ends_device);
    d->numbers = mt_rings_memory(m, MT_PACKET_CONTEXTS * sizeof *d->numbers, 1, &unused);
    for (uint32_t i = 0; i < MT_PACKET_CONTEXTS && d->numbers; i++)
        d->numbers[i] = i;
}

/* Makes a device. Parts made before a failure are kept, and no second attempt is made before the device is
 * reset. */
static struct device *device_make(int ordinal)
{
    const struct mt_cuda *cu = mt_cuda();
    struct mt_rings_maker m = {.no_memory = cudaErrorMemoryAllocation, .get = device_get, .put = gpu_put};
    enum cudaStreamCaptureMode mode =
        cudaStreamCaptureModeRelaxed; /* another thread may be capturing a graph */
    struct device *d = rooms[ordinal] ? rooms[ordinal] : malloc(sizeof *d);
    if (!d)
        m.error = m.no_memory;
    cu->ThreadExchangeStreamCaptureMode(&mode);
    if (d) {
        memset(d, 0, sizeof *d);
        d->ordinal = ordinal;
        device_fill(d, &m);
    }
    cu->ThreadExchangeStreamCaptureMode(&mode);
    rooms[ordinal] = d;
    if (!m.error)
        return d;
    mt_report("GPU %d cannot be traced: %s", ordinal, cu->GetErrorString((cudaError_t)m.error));
    cu->GetLastError();
    return NULL;
}

/* Returns this thread's current device if it was set up already, else NULL. */
static struct device *device_in_use(void)
{
    const struct mt_cuda *cu = mt_cuda();
    int ordinal;
    return cu && !cu->GetDevice(&ordinal) && ordinal >= 0 && ordinal < MT_GPU_ORDINALS ? devices[ordinal]
                                                                                       : NULL;
}

/* Returns the current device, or -1 if kernels in the current context cannot be traced. */
static int device_ordinal(const struct mt_cuda *cu)
{
    static atomic_int said;
    int ordinal;
    if (!cu || cu->GetDevice(&ordinal) || ordinal < 0 || ordinal >= MT_GPU_ORDINALS)
        return -1;
    if (is_primary(cu, ordinal))
        return ordinal;
    if (!atomic_exchange(&said, 1))
        mt_report(
            "kernels in contexts that the program made itself (cuCtxCreate) are not traced (said once)");
    return -1;
}

static void gpu_finish(void);

/* Returns this thread's current device, set up at its first use, or NULL if it cannot be traced (reported
 * once). */
static struct device *device_current(void)
{
    const struct mt_cuda *cu = mt_cuda();
    int ordinal = device_ordinal(cu);
    struct device *d = ordinal < 0 ? NULL : devices[ordinal];
    if (ordinal < 0 || d)
        return d;
    pthread_mutex_lock(&making);
    if (!(d = devices[ordinal]) && !failed[ordinal]) {
        d = device_make(ordinal);
        failed[ordinal] = !d;
        if (d &&
            cu->ends_at_exit) /* the driver now has its context and exit handlers, which run after ours */
            atexit(gpu_finish);
        if (d)
            mt_rings_add(&d->rings);
        devices[ordinal] = d;
    }
    pthread_mutex_unlock(&making);
    return d;
}

/* ---- sites of the GPU's code ----------------------------------------------------------------------
 *
 * The CPU image has their table, and the name of a variable that exists in the code if its sites are these:
 * code for another architecture may make other accesses. If code of several files forms one program
 * (-fgpu-rdc), each file numbers its sites from 0 and adds the variable (llvm-pass/gpu/context.c), which is
 * set before the program's first launch on a device. */

/* Held while variables are written: any thread that finds a program in the list may launch it. The reader
 * never needs it. */
static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;

static int gpu_sites_number(const struct mt_cuda *cu, void *module, const struct mt_image *image)
{
    unsigned long long at;
    size_t bytes;
    if (!image->head->site_variable)
        return 0;
    int e = cu->GlobalOf(&at, &bytes, module, image->head->site_variable);
    if (!e && image->head->site_base && bytes == sizeof image->site_base)
        e = (int)device_write((void *)(uintptr_t)at, &image->site_base, bytes);
    return e;
}

/* Returns 0, or -1 if the sites of some files of the program are not known on this device. */
static int number_all(const struct mt_cuda *cu, const struct mt_gpu_launch *l)
{
    void *function = NULL, *module;
    int bad = 0;
    if (!cu->FunctionOf || !cu->ModuleOf || !cu->GlobalOf || cu->FunctionOf(&function, l->symbol) ||
        cu->ModuleOf(&module, function))
        return l->image->head->site_base ? -1 : 0; /* a single file: most likely its sites are the image's */
    for (const struct mt_image *i = l->image; i; i = i->peer)
        bad |= gpu_sites_number(cu, module, i);
    return bad ? -1 : 0;
}

static struct sites *sites_find(const struct device *d, const struct mt_image *first)
{
    struct sites *s = d->sites;
    while (s && s->first != first)
        s = s->next;
    return s;
}

/* Numbers the sites on a device, which need not be the thread's current one. Called with its lock held. */
static int number_on(struct device *d, const struct mt_gpu_launch *l)
{
    const struct mt_cuda *cu = mt_cuda();
    enum cudaStreamCaptureMode mode =
        cudaStreamCaptureModeRelaxed; /* another thread may be capturing a graph */
    int clean = cu->PeekAtLastError() == cudaSuccess, current = d->ordinal, bad;
    cu->GetDevice(&current);
    if (current != d->ordinal)
        cu->SetDevice(d->ordinal);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    bad = number_all(cu, l);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    if (bad)
        mt_report("kernel %s: sites of its program are not known on GPU %d (its code was compiled for "
                  "another architecture than the CPU image, or the driver is too old)",
                  mt_short(l->line.kernel).text, d->ordinal);
    if (bad && clean)
        cu->GetLastError();
    if (current != d->ordinal)
        cu->SetDevice(current);
    return !bad;
}

/* Ensures before a launch that its program's code has its site numbers on this device. Returns 0 if some are
 * not known. */
static int sites_known(struct device *d, const struct mt_gpu_launch *l)
{
    if (!l->image || !l->image->head->site_variable || !l->symbol || !mt_trace_compact())
        return 1;
    pthread_mutex_lock(&sites_lock);
    struct sites *s = sites_find(d, l->image);
    if (!s && (s = malloc(sizeof *s))) {
        *s = (struct sites){.first = l->image, .known = number_on(d, l), .next = d->sites};
        d->sites = s;
    }
    int known = s && s->known;
    pthread_mutex_unlock(&sites_lock);
    return known;
}

static void sites_forget(struct device *d)
{
    pthread_mutex_lock(&sites_lock);
    for (struct sites *s = d->sites, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    d->sites = NULL;
    pthread_mutex_unlock(&sites_lock);
}

/* ---- Kernels of graphs: the launch context of each, kept as long as its graph is ready ---- */

#define NODES_AT_ONCE 64

/* Called without the lock: the reader needs it to return contexts, and this may wait for a kernel. */
static struct mt_gpu_node *node_make_some(struct device *d)
{
    const struct mt_cuda *cu = mt_cuda();
    struct mt_gpu_context image[NODES_AT_ONCE], *on_device;
    struct mt_gpu_node *list = NULL;
    void *memory = NULL;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    for (unsigned i = 0; i < NODES_AT_ONCE; i++)
        image[i] = mt_rings_context(&d->rings, MT_PACKET_NOBODY, 0);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    cudaError_t e = cu->Malloc(&memory, sizeof image);
    if (!e)
        e = device_write(memory, image, sizeof image);
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

static struct mt_gpu_node *node_take(struct device *d, struct mt_gpu_node *more)
{
    pthread_mutex_lock(&mt_rings_lock);
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
    pthread_mutex_unlock(&mt_rings_lock);
    return node;
}

/* Returns NULL if out of memory. */
static struct mt_gpu_node *gpu_node_new(struct device *d)
{
    struct mt_gpu_node *node = node_take(d, NULL);
    return node ? node : node_take(d, node_make_some(d));
}

/* Called with the lock held. */
static void node_recycle(struct mt_gpu_node *node)
{
    if (!node->freed || node->first)
        return;
    node->next = node->device->nodes;
    node->device->nodes = node;
}

static void gpu_node_free(struct mt_gpu_node *node)
{
    pthread_mutex_lock(&mt_rings_lock);
    node->freed = 1;
    node_recycle(node);
    pthread_mutex_unlock(&mt_rings_lock);
}

static void *gpu_node_context(const struct mt_gpu_node *node)
{
    return (char *)node->context + (node->device->rings.ctas ? MT_CONTEXT_IN_PARTS : 0);
}

/* Notes that a launch of a node has ended, or will never run. Called with the lock held. */
static void node_left(struct mt_flight *f)
{
    struct mt_flight **at = &f->node->first;
    while (*at && *at != f)
        at = &(*at)->node_next;
    if (!*at)
        return;
    *at = f->node_next;
    pthread_cond_broadcast(&node_ended);
    node_recycle(f->node);
}

/* Waits for the end of the node's launches, at most `ms`. Returns 1 if none is left. */
static int gpu_node_idle(struct mt_gpu_node *node, unsigned ms)
{
    const struct timespec end = mt_base_in_ms(ms);
    pthread_mutex_lock(&mt_rings_lock);
    while (node->first &&
           pthread_cond_clockwait(&node_ended, &mt_rings_lock, CLOCK_MONOTONIC, &end) != ETIMEDOUT)
        ;
    int idle = !node->first;
    pthread_mutex_unlock(&mt_rings_lock);
    return idle;
}

/* Makes packets of the node's kernel carry context `id`, or MT_PACKET_NOBODY, in stream order. */
static cudaError_t gpu_node_is(struct mt_gpu_node *node, uint32_t id, cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    if (cu->WriteValue && !cu->WriteValue(stream, (uint64_t)(uintptr_t)&node->context->id, id, 0))
        return cudaSuccess;
    return cu->MemcpyAsync(&node->context->id, &node->device->numbers[id], sizeof id, cudaMemcpyHostToDevice,
                           stream);
}

/* ---- marks --------------------------------------------------------------------------------------- */

static struct device *device_of(const struct mt_rings *r)
{
    return (struct device *)(uintptr_t)r;
}

static void device_lent(struct mt_rings *r, struct mt_flight *f)
{
    struct mt_flight **last = f->node ? &f->node->first : NULL;
    (void)r;
    while (last && *last)
        last = &(*last)->node_next;
    if (last)
        *last = f;
}

/* Returns what is still to come from a launch that was given up. Its records precede those of the next launch
 * with the context, if one begins before they have arrived. */
static struct debt debt_of(const struct mt_flight *f)
{
    struct debt d = {.taken = f->taken, .counted = f->counted, .node = f->node};
    if (f->gone && !f->ended)
        d.waits_for = MT_DEBT_MARK;
    else if (f->taken < f->counted)
        d.waits_for = MT_DEBT_RECORDS;
    return d;
}

static int device_returned(struct mt_rings *r, struct mt_flight *f)
{
    struct debt *debt = &device_of(r)->debt[f->context];
    *debt = debt_of(f);
    if (f->node)
        node_left(f);
    return !debt->waits_for;
}

/* Handles the arrival of records, or of the mark, of a launch that was given up. Reader only. */
static void device_take_debt(struct device *d, uint32_t context, uint64_t records)
{
    struct debt *debt = &d->debt[context];
    debt->taken += records;
    if (debt->waits_for != MT_DEBT_RECORDS || debt->taken < debt->counted)
        return;
    debt->waits_for = MT_DEBT_NONE;
    mt_rings_free(&d->rings, context);
}

/* Writes the mark if the driver cannot write a value in stream order. Called by the driver's thread, possibly
 * after the launch was given up. */
struct mark {
    uint32_t *to, value;
};

static void CUDART_CB write_mark(void *data)
{
    struct mark *m = data;
    if (!mt_rings_closed())
        __atomic_store_n(m->to, m->value, __ATOMIC_RELEASE);
    free(m);
}

static cudaError_t mark_by_host(struct device *d, struct mt_flight *f, cudaStream_t stream)
{
    struct mark *m = malloc(sizeof *m);
    if (!m)
        return cudaErrorMemoryAllocation;
    *m = (struct mark){&d->ends[f->context], f->generation};
    cudaError_t e = mt_cuda()->LaunchHostFunc(stream, write_mark, m);
    if (e)
        free(m);
    return e;
}

/* Queues the copy and the mark behind the launch, in its stream. */
static cudaError_t device_mark(struct mt_flight *f, cudaStream_t stream)
{
    struct device *d = device_of(f->rings);
    const struct mt_cuda *cu = mt_cuda();
    uint32_t i = f->context;
    struct mt_gpu_context *from = f->node ? f->node->context : &d->rings.contexts[i];
    cudaError_t e = cu->MemcpyAsync(&d->mirror[i], from, sizeof *from, cudaMemcpyDeviceToHost, stream);
    if (!e && cu->WriteValue &&
        !cu->WriteValue(stream, d->ends_device + i * sizeof *d->ends, f->generation, 0))
        return cudaSuccess;
    return e ? e : mark_by_host(d, f, stream);
}

/* ---- the reader's side -------------------------------------------------------------------------- */

static void take_counters(struct mt_flight *f, const struct mt_gpu_context *now,
                          struct mt_gpu_context *before)
{
    f->counted = mt_rings_records(now) - mt_rings_records(before);
    f->untraced = now->untraced - before->untraced;
    for (unsigned k = 0; k < sizeof f->counts / sizeof *f->counts; k++)
        f->counts[k] = now->counts[k] - before->counts[k];
    *before = *now;
}

/* Returns whether it is the oldest launch of its node. Counters are differences, so they are taken in order.
 */
static int is_next(const struct mt_flight *f)
{
    if (!f->node)
        return 1;
    pthread_mutex_lock(&mt_rings_lock);
    int next = f->node->first == f;
    pthread_mutex_unlock(&mt_rings_lock);
    return next;
}

/* Compares by the counters, which only grow. */
static int device_is_later(const struct mt_gpu_context *a, const struct mt_gpu_context *b)
{
    int later = mt_rings_records(a) > mt_rings_records(b) || a->untraced > b->untraced;
    for (unsigned k = 0; k < sizeof a->counts / sizeof *a->counts; k++)
        later |= a->counts[k] > b->counts[k];
    return later;
}

/* Handles the late mark of a launch that was given up: the number of records still to come is known now. A
 * node may have been launched again for another graph since. */
static void take_late_mark(struct device *d, uint32_t i)
{
    const struct mt_gpu_context *now = &d->mirror[i];
    struct debt *debt = &d->debt[i];
    struct mt_gpu_context *before = debt->node ? &debt->node->before : &d->before[i];
    debt->counted = 0;
    if (device_is_later(now, before)) {
        debt->counted = mt_rings_records(now) - mt_rings_records(before);
        *before = *now;
    }
    debt->waits_for = MT_DEBT_RECORDS;
    device_take_debt(d, i, 0);
}

static int device_is_marked(const struct device *d, uint32_t i)
{
    return __atomic_load_n(&d->ends[i], __ATOMIC_ACQUIRE) == d->rings.lending[i];
}

/* Collects the launches whose mark, and so whose counters, have arrived. Late marks are looked for after them
 * and handled before them: a node's late mark is there if the mark of its next launch is. */
static unsigned device_marked(struct mt_rings *r, struct mt_flight **ended)
{
    struct device *d = device_of(r);
    unsigned n = 0;
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++) {
        struct mt_flight *f = atomic_load(&d->rings.flight[i]);
        if (f && !f->ended && device_is_marked(d, i) && is_next(f))
            ended[n++] = f;
    }
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++)
        if (d->debt[i].waits_for == MT_DEBT_MARK && device_is_marked(d, i))
            take_late_mark(d, i);
    for (unsigned k = 0; k < n; k++) {
        uint32_t i = ended[k]->context;
        take_counters(ended[k], &d->mirror[i], ended[k]->node ? &ended[k]->node->before : &d->before[i]);
    }
    return n;
}

static void device_came(struct mt_rings *r, uint32_t context, uint64_t records, int known)
{
    if (!known)
        device_take_debt(device_of(r), context, records);
}

static const struct mt_rings_ops device_ops = {device_lent, device_returned, device_marked, device_came,
                                               NULL};

/* ---- launches ----------------------------------------------------------------------------------- */

/* Our own calls leave the program's error state unchanged. */
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

enum reason { NO_ROOM, LEFT_OUT, NO_MEANS, AT_EXIT, DAMAGED, NREASONS };
static void gpu_say_once(enum reason r, const char *kernel, const char *why)
{
    static atomic_int said[NREASONS];
    if (!atomic_exchange(&said[r], 1))
        mt_report("kernel %s is not traced: %s (said once)", mt_short(kernel).text, why);
}

/* Returns 1 after the rings were closed: nothing more is traced. */
static int is_over(const char *kernel)
{
    if (mt_rings_closed())
        gpu_say_once(AT_EXIT, kernel, "it was launched when the CUDA driver was about to shut down");
    return mt_rings_closed();
}

/* Returns a launch with a context, or NULL if none is free. */
static struct mt_flight *gpu_lend(const struct mt_gpu_launch *l, struct device *d, struct mt_gpu_node *node,
                                  void **context)
{
    struct mt_flight *f = d ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    if (d->rings.damaged) {
        gpu_say_once(DAMAGED, l->line.kernel, "a ring for records of its GPU was written over");
        free(f);
        return NULL;
    }
    f->launch = *l;
    f->launch.line.seq = mt_event_seq();
    f->launch.line.begin_ns = mt_now_ns();
    f->node = node;
    f->no_sites = !sites_known(d, l);
    *context = mt_rings_lend(&d->rings, f, PATIENCE_LEND);
    return f;
}

/* Prepares a launch to be traced. Returns NULL if it must run untraced. Leaves the queue's order locked. */
static struct mt_flight *gpu_prepare(struct mt_gpu_launch *l, void **context)
{
    const char *kernel = l->line.kernel;
    struct mt_flight *f = is_over(kernel) ? NULL : gpu_lend(l, device_current(), NULL, context);
    if (!f)
        return NULL;
    struct mt_flight_queue *q = NULL;
    if (*context && !mt_flight_begin(f, &q))
        return f;
    gpu_say_once(NO_MEANS, kernel,
                 *context ? "there is no memory or no thread for it" : "too many launches are waiting");
    mt_rings_return(f);
    free(f);
    return NULL;
}

static void *gpu_launch(struct mt_gpu_launch *l)
{
    void *context = NULL;
    int possible = !l->kernel || !(l->kernel->flags & MT_KERNEL_GPU_UNTRACED);
    if (l->trace && !possible && l->kernel->flags & MT_KERNEL_GPU_LEFT_OUT)
        gpu_say_once(LEFT_OUT, l->line.kernel,
                     "its file was compiled without code for traces on a GPU; mt-cc --mt-gpu-trace=on (or "
                     "-arch=sm_90 and the like) makes that, and memtrace run traces it as it is");
    else if (l->trace && !possible)
        gpu_say_once(NO_ROOM, l->line.kernel, "it has no room for record calls there, as the compiler said");
    l->state = l->trace && possible ? gpu_prepare(l, &context) : NULL;
    return l->state ? context : NULL;
}

/* Logs an untraced launch; if it has a trace, the reason was reported. */
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
    cudaError_t e = device_mark(f, f->launch.stream);
    if (e) { /* the end cannot be seen: records that arrive until the next look are taken, and the program
                sees its own errors */
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
    struct mt_flight_queue *q = f->queue; /* the flight may be freed once it is issued */
    if (l->plain)
        mt_flight_cancel(f, (int)status);
    else
        gpu_mark(f, status);
    mt_queue_leave(q);
}

/* ---- graphs -------------------------------------------------------------------------------------- */

static struct mt_gpu_node *node_new(void)
{
    struct device *d = mt_rings_closed() ? NULL : device_current();
    return d ? gpu_node_new(d) : NULL;
}

/* Its packets cannot be assigned to the launch: they count as missing. */
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
        if (context && !mt_flight_begin(f, &q)) {
            launches[i].state = f;
            cudaError_t e = gpu_node_is(nodes[i], f->context, f->launch.stream);
            if (e)
                say_not_told(&launches[i], e);
            continue;
        }
        if (f) {
            gpu_say_once(NO_MEANS, launches[i].line.kernel,
                         "too many launches are waiting, or there is no memory");
            mt_rings_return(f);
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
        gpu_node_is(nodes[i], MT_PACKET_NOBODY, f->launch.stream); /* before another launch gets its place */
        gpu_mark(f, status);
    }
    if (q)
        mt_queue_leave(q);
}

/* ---- waiting -------------------------------------------------------------------------------------
 *
 * A forked child has no reader, and locks may be held by threads that do not exist: launches under way
 * belong to the parent. */

static void gpu_close(const struct mt_flight_filter *filter, cudaError_t e)
{
    mt_flight_give_up(filter, (int)e, mt_cuda() ? mt_cuda()->GetErrorString(e) : "no CUDA runtime");
}

/* Returns the error of the device, if any, and leaves the program's error state unchanged. */
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

static int gpu_ask_of(const void *stream)
{
    return (int)gpu_ask(*(const cudaStream_t *)stream);
}

/* Waits until the launches of a filter have ended. Gives up if the device has failed, or if nothing arrives
 * for too long. */
static void wait_for(const struct mt_flight_filter *filter, const cudaStream_t *stream, unsigned patience)
{
    int e = mt_flight_end(filter, patience, stream ? gpu_ask_of : NULL, stream);
    if (e)
        gpu_close(filter, e < 0 ? cudaErrorTimeout : (cudaError_t)e);
}

/* Handles a failed device: the program may exit at once, so everything that has arrived is written before it
 * sees the failure. A wait for all devices may have reported another device's error. */
static void gpu_failed(const struct mt_gpu_point *p, const struct mt_flight_filter *filter, cudaError_t e)
{
    if (mt_error_stays((int)e) && (p->trace || gpu_ask(p->stream)) && mt_flight_wait(filter, MT_STALL_MS))
        gpu_close(filter, e);
}

static struct mt_gpu_point gpu_point(cudaStream_t stream, const struct mt_trace *trace, int all)
{
    struct mt_gpu_point p = {.stream = stream, .trace = all ? NULL : trace};
    int any = p.stream == cudaStreamLegacy || p.stream == cudaStreamPerThread;
    p.device = any ? device_in_use() : NULL; /* else the stream tells the device */
    p.launches = (all || trace) && (p.device || !any) && !mt_forked() ? mt_flight_issued_so_far() : 0;
    return p;
}

static void gpu_synced(const struct mt_gpu_point *p, cudaError_t error)
{
    struct mt_flight_filter filter = {p->trace, p->device, p->launches, NULL};
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
        cu->StreamSynchronize(stream); /* if it were destroyed, its work would go on without us */
    wait_for(&filter, &stream, PATIENCE_SYNCED);
    mt_queue_forget(trace);
}

static void gpu_reset(void)
{
    const struct mt_cuda *cu = mt_cuda();
    struct device *d = device_in_use();
    struct mt_flight_filter its = {.rings = d};
    cudaStream_t legacy = cudaStreamLegacy;
    int ordinal;
    if (!mt_forked() && cu && !cu->GetDevice(&ordinal) && ordinal >= 0 && ordinal < MT_GPU_ORDINALS) {
        primary[ordinal] = NULL;
        pthread_mutex_lock(&making);
        failed[ordinal] = 0;
        pthread_mutex_unlock(&making);
    }
    if (!d || mt_forked())
        return;
    cudaError_t e = cu->DeviceSynchronize();
    if (mt_flight_count(&its) && e)
        gpu_close(&its, e);
    else if (mt_flight_count(&its))
        wait_for(&its, &legacy, PATIENCE_SYNCED);
    sites_forget(d);
    devices[d->ordinal] = NULL;
    mt_rings_retire(&d->rings);
}

/* Looks at a GPU's rings for the last time: for launches that the program never waited for. The driver may
 * free their memory afterwards. Exit handlers that the program registered before its first traced launch run
 * later, and their launches are not traced. */
static void gpu_finish(void)
{
    struct mt_flight_filter any = {0};
    if (mt_forked() || mt_rings_closed())
        return;
    if (mt_flight_count(&any))
        wait_for(&any, NULL, PATIENCE_EXIT);
    if (mt_cuda() && mt_cuda()->ends_at_exit)
        mt_rings_close();
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
    mt_trace_workers(mt_rings_readers());
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
