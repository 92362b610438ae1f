#include "device.h"
#include "cuda.h"
#include "common/events.h"
#include "common/report.h"
#include "common/selection.h"
#include "device/ctas.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list, and the free contexts of all */
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t polling = PTHREAD_MUTEX_INITIALIZER; /* held while the reader is at rings */
static struct mt_gpu_device *_Atomic devices;
static struct mt_gpu_device *retired; /* under `lock` */
#define MAX_DEVICES 64
static int failed[MAX_DEVICES];
static atomic_int closed; /* set while `polling` is held */

/* ---- setting up --------------------------------------------------------------------------------- */

/* Host memory that the device writes, zeroed; *address gets the device's address of it. */
static void *shared_memory(const struct mt_cuda *cu, size_t bytes, uint64_t *address, cudaError_t *e)
{
    void *host = NULL, *device = NULL;
    if (*e || (*e = cu->HostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable)))
        return NULL;
    memset(host, 0, bytes);
    if ((*e = cu->HostGetDevicePointer(&device, host, 0)))
        return NULL;
    *address = (uint64_t)(uintptr_t)device;
    return host;
}

cudaError_t mt_gpu_write(const struct mt_cuda *cu, void *to, const void *from, size_t bytes)
{
    cudaStream_t s;
    cudaError_t e = cu->StreamCreateWithFlags(&s, cudaStreamNonBlocking);
    if (e)
        return e;
    e = cu->MemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s);
    cudaError_t done = cu->StreamSynchronize(s);
    cu->StreamDestroy(s);
    return e ? e : done;
}

static cudaError_t make_rings(const struct mt_cuda *cu, struct mt_gpu_device *d, struct mt_gpu_ring *device)
{
    struct mt_gpu_ring image[MT_GPU_RINGS] = {0};
    uint64_t count = mt_cuda_ring_slots();
    size_t bytes = count * sizeof(struct mt_slot);
    uint64_t slots_at = 0, tails_at = 0;
    cudaError_t e = cudaSuccess;
    char *slots = shared_memory(cu, MT_GPU_RINGS * bytes, &slots_at, &e);
    char *tails = shared_memory(cu, MT_GPU_RINGS * 64, &tails_at, &e); /* a line each */
    if (e)
        return e;
    for (unsigned i = 0; i < MT_GPU_RINGS; i++) {
        image[i].slots = slots_at + i * bytes;
        image[i].tail = tails_at + i * 64;
        image[i].mask = count - 1;
        d->rings[i].slots = (struct mt_slot *)(slots + i * bytes);
        d->rings[i].tail = (uint64_t *)(tails + i * 64);
        d->rings[i].mask = count - 1;
    }
    return mt_gpu_write(cu, device, image, sizeof image);
}

/* MEMTRACE_CTAS, for the device; *at is 0 when launches are traced whole. */
static cudaError_t make_rule(const struct mt_cuda *cu, uint64_t *at)
{
    const struct mt_cta_rule *rule = mt_selection_ctas();
    void *p = NULL;
    *at = 0;
    cudaError_t e = rule ? cu->Malloc(&p, sizeof *rule) : cudaSuccess;
    *at = (uint64_t)(uintptr_t)p;
    return e || !rule ? e : mt_gpu_write(cu, p, rule, sizeof *rule);
}

static cudaError_t make_contexts(const struct mt_cuda *cu, struct mt_gpu_device *d, struct mt_gpu_ring *rings)
{
    uint64_t nothing = 0;
    cudaError_t e = make_rule(cu, &d->ctas);
    d->mirror = shared_memory(cu, MT_GPU_CONTEXTS * sizeof *d->mirror, &nothing, &e);
    d->ends = shared_memory(cu, MT_GPU_CONTEXTS * sizeof *d->ends, &d->ends_device, &e);
    d->numbers = shared_memory(cu, MT_PACKET_CONTEXTS * sizeof *d->numbers, &nothing, &e);
    if (e)
        return e;
    for (uint32_t i = 0; i < MT_PACKET_CONTEXTS; i++)
        d->numbers[i] = i;
    d->on_device = rings;
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++) {
        d->before[i].rings = (uint64_t)(uintptr_t)rings;
        d->before[i].ring_mask = MT_GPU_RINGS - 1;
        d->before[i].id = i;
        d->before[i].ctas = d->ctas;
        d->free[d->nfree++] = MT_GPU_CONTEXTS - 1 - i;
    }
    memcpy(d->mirror, d->before, sizeof d->before);
    return mt_gpu_write(cu, d->contexts, d->before, sizeof d->before);
}

/* Room for a device: that of one which was reset, or new. */
static struct mt_gpu_device *room_for(void)
{
    struct mt_gpu_device *d = retired;
    if (!d)
        return calloc(1, sizeof *d);
    retired = d->next;
    memset(d, 0, sizeof *d);
    return d;
}

/* What is half made when this fails is kept: it happens once per device and process. */
static struct mt_gpu_device *make(const struct mt_cuda *cu, int ordinal)
{
    struct mt_gpu_device *d = room_for();
    void *rings = NULL, *contexts = NULL;
    cudaError_t e = d ? cudaSuccess : cudaErrorMemoryAllocation;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* someone may be capturing a graph */
    cu->ThreadExchangeStreamCaptureMode(&mode);
    if (!e)
        e = cu->Malloc(&rings, MT_GPU_RINGS * sizeof(struct mt_gpu_ring));
    if (!e)
        e = cu->Malloc(&contexts, MT_GPU_CONTEXTS * sizeof(struct mt_gpu_context));
    if (!e) {
        d->ordinal = ordinal;
        d->contexts = contexts;
        e = make_rings(cu, d, rings);
    }
    if (!e)
        e = make_contexts(cu, d, rings);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    if (!e)
        return d;
    mt_report("GPU %d cannot be traced: %s", ordinal, cu->GetErrorString(e));
    cu->GetLastError();
    free(d);
    return NULL;
}

struct mt_gpu_device *mt_gpu_device_in_use(void)
{
    const struct mt_cuda *cu = mt_cuda();
    int ordinal;
    if (!cu || cu->GetDevice(&ordinal))
        return NULL;
    struct mt_gpu_device *d = devices;
    while (d && d->ordinal != ordinal)
        d = d->next;
    return d;
}

void mt_gpu_retire(struct mt_gpu_device *d)
{
    mt_gpu_forget_sites(d);
    pthread_mutex_lock(&polling);
    pthread_mutex_lock(&lock);
    struct mt_gpu_device *other = devices;
    if (other == d)
        devices = d->next;
    while (other && other->next != d)
        other = other->next;
    if (other)
        other->next = d->next;
    d->next = retired;
    retired = d;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&polling);
}

void mt_gpu_close(void)
{
    pthread_mutex_lock(&polling);
    closed = 1;
    pthread_mutex_unlock(&polling);
}

int mt_gpu_closed(void)
{
    return closed;
}

struct mt_gpu_device *mt_gpu_device(void (*at_exit)(void))
{
    const struct mt_cuda *cu = mt_cuda();
    int ordinal;
    if (!cu || cu->GetDevice(&ordinal) || ordinal < 0 || ordinal >= MAX_DEVICES)
        return NULL;
    struct mt_gpu_device *d = devices;
    while (d && d->ordinal != ordinal)
        d = d->next;
    if (d)
        return d;
    pthread_mutex_lock(&lock);
    for (d = devices; d && d->ordinal != ordinal;)
        d = d->next;
    if (!d && !failed[ordinal]) {
        d = make(cu, ordinal);
        failed[ordinal] = !d;
        if (d) {
            if (cu->ends_at_exit) /* the driver has its context now, and with it its handlers */
                atexit(at_exit);
            d->next = devices;
            devices = d;
        }
    }
    pthread_mutex_unlock(&lock);
    return d;
}

/* ---- contexts ----------------------------------------------------------------------------------- */

void *mt_gpu_lend(struct mt_gpu_device *d, struct mt_flight *f, unsigned ms)
{
    struct timespec end;
    void *address = NULL;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ms / 1000;
    pthread_mutex_lock(&lock);
    while (!d->nfree && pthread_cond_timedwait(&returned, &lock, &end) != ETIMEDOUT)
        ;
    if (d->nfree) {
        uint32_t i = d->free[--d->nfree];
        f->device = d;
        f->context = i;
        f->generation = ++d->generation[i];
        if (!f->generation) /* 0 is what memory begins with */
            f->generation = ++d->generation[i];
        atomic_store(&d->flight[i], f);
        address = (char *)(d->contexts + i) + (d->ctas ? MT_CONTEXT_IN_PARTS : 0);
        if (f->node) {
            struct mt_flight **last = &f->node->first;
            while (*last)
                last = &(*last)->node_next;
            *last = f;
        }
    }
    pthread_mutex_unlock(&lock);
    return address;
}

/* ---- nodes of graphs ----------------------------------------------------------------------------- */

#define NODES_AT_ONCE 64

/* Outside of the lock: the reader needs it to give contexts back, and this may wait for a kernel. */
static struct mt_gpu_node *make_nodes(struct mt_gpu_device *d)
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
                                           .ctas = d->ctas};
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

static struct mt_gpu_node *take_node(struct mt_gpu_device *d, struct mt_gpu_node *more)
{
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
    return node;
}

struct mt_gpu_node *mt_gpu_node_new(struct mt_gpu_device *d)
{
    struct mt_gpu_node *node = take_node(d, NULL);
    return node ? node : take_node(d, make_nodes(d));
}

/* Called with the lock. */
static void recycle(struct mt_gpu_node *node)
{
    if (!node->freed || node->first)
        return;
    node->next = node->device->nodes;
    node->device->nodes = node;
}

void mt_gpu_node_free(struct mt_gpu_node *node)
{
    pthread_mutex_lock(&lock);
    node->freed = 1;
    recycle(node);
    pthread_mutex_unlock(&lock);
}

void *mt_gpu_node_context(const struct mt_gpu_node *node)
{
    return (char *)node->context + (node->device->ctas ? MT_CONTEXT_IN_PARTS : 0);
}

/* Called with the lock, when a launch has ended, or will never be. */
static void leave_node(struct mt_flight *f)
{
    struct mt_flight **at = &f->node->first;
    while (*at && *at != f)
        at = &(*at)->node_next;
    if (!*at)
        return;
    *at = f->node_next;
    pthread_cond_broadcast(&returned);
    recycle(f->node);
}

int mt_gpu_node_idle(struct mt_gpu_node *node, unsigned ms)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ms / 1000;
    pthread_mutex_lock(&lock);
    while (node->first && pthread_cond_timedwait(&returned, &lock, &end) != ETIMEDOUT)
        ;
    int idle = !node->first;
    pthread_mutex_unlock(&lock);
    return idle;
}

cudaError_t mt_gpu_node_is(struct mt_gpu_node *node, uint32_t id, cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    if (cu->WriteValue && !cu->WriteValue(stream, (uint64_t)(uintptr_t)&node->context->id, id, 0))
        return cudaSuccess;
    return cu->MemcpyAsync(&node->context->id, &node->device->numbers[id], sizeof id, cudaMemcpyHostToDevice,
                           stream);
}

void mt_gpu_return(struct mt_flight *f)
{
    struct mt_gpu_device *d = f->device;
    if (!d)
        return;
    pthread_mutex_lock(&lock);
    atomic_store(&d->flight[f->context], NULL);
    if (f->node)
        leave_node(f);
    if (!f->gone) { /* what a dead device may still do to it is not known */
        d->free[d->nfree++] = f->context;
        pthread_cond_broadcast(&returned);
    }
    pthread_mutex_unlock(&lock);
}

void mt_gpu_began(void *context)
{
    const struct mt_gpu_context *c = (void *)((uintptr_t)context & ~(uintptr_t)MT_CONTEXT_IN_PARTS);
    const struct mt_gpu_device *d = devices; /* the CPU device is the only one */
    struct mt_flight *f = d && c->id < MT_GPU_CONTEXTS ? atomic_load(&d->flight[c->id]) : NULL;
    if (f)
        f->launch.line.seq = mt_event_seq();
}

/* Where the driver cannot write a value in stream order: its thread calls this. */
static void CUDART_CB write_mark(void *data)
{
    struct mt_flight *f = data;
    __atomic_store_n(&f->device->ends[f->context], f->generation, __ATOMIC_RELEASE);
}

cudaError_t mt_gpu_mark(struct mt_gpu_device *d, struct mt_flight *f, cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    uint32_t i = f->context;
    struct mt_gpu_context *from = f->node ? f->node->context : &d->contexts[i];
    cudaError_t e = cu->MemcpyAsync(&d->mirror[i], from, sizeof *from, cudaMemcpyDeviceToHost, stream);
    if (!e && cu->WriteValue &&
        !cu->WriteValue(stream, d->ends_device + i * sizeof *d->ends, f->generation, 0))
        return cudaSuccess;
    return e ? e : cu->LaunchHostFunc(stream, write_mark, f);
}

/* ---- the reader's side -------------------------------------------------------------------------- */

static uint64_t records_of(const struct mt_gpu_context *c)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < MT_GPU_COUNTERS; i++)
        n += c->records[i];
    return n;
}

static void take_counters(struct mt_flight *f, const struct mt_gpu_context *now,
                          struct mt_gpu_context *before)
{
    f->counted = records_of(now) - records_of(before);
    f->untraced = now->untraced - before->untraced;
    for (unsigned k = 0; k < sizeof f->counts / sizeof *f->counts; k++)
        f->counts[k] = now->counts[k] - before->counts[k];
    *before = *now;
}

/* Is it the oldest launch of its node? Counters are differences, so they are taken in order. */
static int is_next(const struct mt_flight *f)
{
    if (!f->node)
        return 1;
    pthread_mutex_lock(&lock);
    int next = f->node->first == f;
    pthread_mutex_unlock(&lock);
    return next;
}

/* Launches whose mark is there: their counters are, too. */
static unsigned read_marks(struct mt_gpu_device *d, struct mt_flight **ended)
{
    unsigned n = 0;
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++) {
        struct mt_flight *f = atomic_load(&d->flight[i]);
        if (!f || f->ended || __atomic_load_n(&d->ends[i], __ATOMIC_ACQUIRE) != f->generation || !is_next(f))
            continue;
        take_counters(f, &d->mirror[i], f->node ? &f->node->before : &d->before[i]);
        ended[n++] = f;
    }
    return n;
}

static unsigned drain(struct mt_gpu_device *d, struct mt_ring *r, unsigned max)
{
    struct mt_packet p;
    unsigned n = 0;
    int got = 0;
    while (n < max && (got = mt_ring_take(r, &p)) > 0) {
        struct mt_flight *f = p.context < MT_GPU_CONTEXTS ? atomic_load(&d->flight[p.context]) : NULL;
        if (f)
            mt_flight_packet(f, &p);
        n++;
        if (n % 64 == 0)
            mt_ring_publish(r);
    }
    if (n % 64)
        mt_ring_publish(r);
    if (got < 0 && !d->told) {
        d->told = 1;
        mt_report(
            "GPU %d wrote something that is no record into a ring (did the program write out of bounds?); "
            "traces of its kernels are incomplete from here on",
            d->ordinal);
    }
    return n;
}

unsigned mt_gpu_poll(unsigned max)
{
    static struct mt_flight *ended[MT_GPU_CONTEXTS];
    unsigned packets = 0;
    pthread_mutex_lock(&polling);
    for (struct mt_gpu_device *d = closed ? NULL : devices; d; d = d->next) {
        unsigned n = read_marks(d, ended);
        for (unsigned i = 0; i < MT_GPU_RINGS; i++)
            packets += drain(d, &d->rings[i], max);
        for (unsigned i = 0; i < n; i++)
            ended[i]->ended = 1;
    }
    pthread_mutex_unlock(&polling);
    return packets;
}
