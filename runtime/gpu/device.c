/* One GPU: its rings, its launch contexts, and the marks by which it says that a launch has ended. */
#include "device.h"
#include "cuda.h"
#include "readers.h"
#include "trace/events.h"
#include "base/report.h"
#include "trace/selection.h"
#include "trace/trace.h"
#include "format/cta_rule.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t mt_gpu_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t mt_gpu_returned = PTHREAD_COND_INITIALIZER;
/* Held while a device is set up. The reader never takes it:
 * an allocation may wait for kernels that wait for it. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t polling = PTHREAD_MUTEX_INITIALIZER; /* held while the reader is at rings */
static struct mt_gpu_device *_Atomic devices;
static struct mt_gpu_device *retired; /* under mt_gpu_lock */
static int failed[MT_GPU_ORDINALS];   /* under `making` */
static atomic_int closed;             /* set while `polling` is held */

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
        d->before[i].spaces = mt_trace_compact() != 0;
        d->free[d->nfree++] = MT_GPU_CONTEXTS - 1 - i;
    }
    memcpy(d->mirror, d->before, sizeof d->before);
    return mt_gpu_write(cu, d->contexts, d->before, sizeof d->before);
}

/* Room for a device: that of one which was reset, or new. */
static struct mt_gpu_device *room_for(void)
{
    pthread_mutex_lock(&mt_gpu_lock);
    struct mt_gpu_device *d = retired;
    if (d)
        retired = d->next;
    pthread_mutex_unlock(&mt_gpu_lock);
    if (!d)
        return calloc(1, sizeof *d);
    memset(d, 0, sizeof *d);
    return d;
}

/* What is half made when this fails is kept: it is not tried again before the device is reset. */
static struct mt_gpu_device *device_make(const struct mt_cuda *cu, int ordinal)
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
    pthread_mutex_lock(&mt_gpu_lock);
    struct mt_gpu_device *other = devices;
    if (other == d)
        devices = d->next;
    while (other && other->next != d)
        other = other->next;
    if (other)
        other->next = d->next;
    d->next = retired;
    retired = d;
    pthread_mutex_unlock(&mt_gpu_lock);
    pthread_mutex_unlock(&polling);
}

void mt_gpu_close(void)
{
    pthread_mutex_lock(&polling);
    closed = 1;
    for (struct mt_gpu_device *d = devices; d; d = d->next)
        for (unsigned i = 0; i < MT_GPU_RINGS; i++) {
            d->rings[i].damaged = 1; /* what runs still shall not wait for room */
            mt_ring_publish(&d->rings[i]);
        }
    pthread_mutex_unlock(&polling);
}

int mt_gpu_closed(void)
{
    return closed;
}

void mt_gpu_try_again(int ordinal)
{
    pthread_mutex_lock(&making);
    failed[ordinal] = 0;
    pthread_mutex_unlock(&making);
}

/* The current device, if kernels in the current context can be traced; -1: they cannot. */
static int device_ordinal(const struct mt_cuda *cu)
{
    static atomic_int said;
    int ordinal;
    if (!cu || cu->GetDevice(&ordinal) || ordinal < 0 || ordinal >= MT_GPU_ORDINALS)
        return -1;
    if (mt_gpu_is_primary(cu, ordinal))
        return ordinal;
    if (!atomic_exchange(&said, 1))
        mt_report(
            "kernels in contexts that the program made itself (cuCtxCreate) are not traced (said once)");
    return -1;
}

static void put_in(struct mt_gpu_device *d)
{
    pthread_mutex_lock(&mt_gpu_lock);
    d->next = devices;
    devices = d;
    pthread_mutex_unlock(&mt_gpu_lock);
}

struct mt_gpu_device *mt_gpu_device(void (*at_exit)(void))
{
    const struct mt_cuda *cu = mt_cuda();
    int ordinal = device_ordinal(cu);
    struct mt_gpu_device *d = ordinal < 0 ? NULL : devices;
    while (d && d->ordinal != ordinal)
        d = d->next;
    if (d || ordinal < 0)
        return d;
    pthread_mutex_lock(&making);
    for (d = devices; d && d->ordinal != ordinal;)
        d = d->next;
    if (!d && !failed[ordinal]) {
        d = device_make(cu, ordinal);
        failed[ordinal] = !d;
        if (d && cu->ends_at_exit) /* the driver has its context now, and with it its handlers */
            atexit(at_exit);
        if (d)
            put_in(d);
    }
    pthread_mutex_unlock(&making);
    return d;
}

/* ---- contexts ----------------------------------------------------------------------------------- */

struct timespec mt_gpu_in_ms(unsigned ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

void *mt_gpu_lend(struct mt_gpu_device *d, struct mt_flight *f, unsigned ms)
{
    const struct timespec end = mt_gpu_in_ms(ms);
    void *address = NULL;
    pthread_mutex_lock(&mt_gpu_lock);
    while (!d->nfree && pthread_cond_timedwait(&mt_gpu_returned, &mt_gpu_lock, &end) != ETIMEDOUT)
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
    pthread_mutex_unlock(&mt_gpu_lock);
    return address;
}

/* Called with the lock. */
static void set_free(struct mt_gpu_device *d, uint32_t context)
{
    d->debt[context].waits_for = MT_DEBT_NONE;
    d->free[d->nfree++] = context;
    pthread_cond_broadcast(&mt_gpu_returned);
}

/* What a launch that was given up still owes. Its records come first in the next launch that has the context,
 * if there is one before they have come. */
static struct mt_gpu_debt debt_of(const struct mt_flight *f)
{
    struct mt_gpu_debt d = {.taken = f->taken, .counted = f->counted, .node = f->node};
    if (f->gone && !f->ended)
        d.waits_for = MT_DEBT_MARK;
    else if (f->taken < f->counted)
        d.waits_for = MT_DEBT_RECORDS;
    return d;
}

void mt_gpu_return(struct mt_flight *f)
{
    struct mt_gpu_device *d = f->device;
    if (!d)
        return;
    pthread_mutex_lock(&mt_gpu_lock);
    d->debt[f->context] = debt_of(f);
    atomic_store(&d->flight[f->context], NULL);
    if (f->node)
        mt_gpu_node_left(f);
    if (!d->debt[f->context].waits_for)
        set_free(d, f->context);
    pthread_mutex_unlock(&mt_gpu_lock);
}

/* Records of a launch that was given up have come, or its mark has. Reader only. */
static void device_take_debt(struct mt_gpu_device *d, uint32_t context, uint64_t records)
{
    struct mt_gpu_debt *debt = &d->debt[context];
    debt->taken += records;
    if (debt->waits_for != MT_DEBT_RECORDS || debt->taken < debt->counted)
        return;
    pthread_mutex_lock(&mt_gpu_lock);
    set_free(d, context);
    pthread_mutex_unlock(&mt_gpu_lock);
}

/* Where the driver cannot write a value in stream order: its thread calls this, maybe when the launch was
 * given up. */
struct mark {
    uint32_t *to, value;
};

static void CUDART_CB write_mark(void *data)
{
    struct mark *m = data;
    if (!closed)
        __atomic_store_n(m->to, m->value, __ATOMIC_RELEASE);
    free(m);
}

static cudaError_t mark_by_host(struct mt_gpu_device *d, struct mt_flight *f, cudaStream_t stream)
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

cudaError_t mt_gpu_mark(struct mt_gpu_device *d, struct mt_flight *f, cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    uint32_t i = f->context;
    struct mt_gpu_context *from = f->node ? f->node->context : &d->contexts[i];
    cudaError_t e = cu->MemcpyAsync(&d->mirror[i], from, sizeof *from, cudaMemcpyDeviceToHost, stream);
    if (!e && cu->WriteValue &&
        !cu->WriteValue(stream, d->ends_device + i * sizeof *d->ends, f->generation, 0))
        return cudaSuccess;
    return e ? e : mark_by_host(d, f, stream);
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
    pthread_mutex_lock(&mt_gpu_lock);
    int next = f->node->first == f;
    pthread_mutex_unlock(&mt_gpu_lock);
    return next;
}

/* Counters only grow. */
static int device_is_later(const struct mt_gpu_context *a, const struct mt_gpu_context *b)
{
    int later = records_of(a) > records_of(b) || a->untraced > b->untraced;
    for (unsigned k = 0; k < sizeof a->counts / sizeof *a->counts; k++)
        later |= a->counts[k] > b->counts[k];
    return later;
}

/* The mark of a launch that was given up: now it is known what is still to come. A node may have been
 * launched again for another graph since. */
static void take_late_mark(struct mt_gpu_device *d, uint32_t i)
{
    const struct mt_gpu_context *now = &d->mirror[i];
    struct mt_gpu_debt *debt = &d->debt[i];
    struct mt_gpu_context *before = debt->node ? &debt->node->before : &d->before[i];
    debt->counted = 0;
    if (device_is_later(now, before)) {
        debt->counted = records_of(now) - records_of(before);
        *before = *now;
    }
    debt->waits_for = MT_DEBT_RECORDS;
    device_take_debt(d, i, 0);
}

static int device_is_marked(const struct mt_gpu_device *d, uint32_t i)
{
    return __atomic_load_n(&d->ends[i], __ATOMIC_ACQUIRE) == d->generation[i];
}

/* Launches whose mark is there: their counters are, too. Late marks are looked for after those and taken in
 * front of them: one of a node is there if that of the node's next launch is. */
static unsigned read_marks(struct mt_gpu_device *d, struct mt_flight **ended)
{
    unsigned n = 0;
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++) {
        struct mt_flight *f = atomic_load(&d->flight[i]);
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

static void device_complain(void *device)
{
    struct mt_gpu_device *d = device;
    if (d->damaged)
        return;
    d->damaged = 1;
    mt_report(
        "GPU %d wrote something that is not a record into a ring (did the program write out of bounds?); "
        "traces of kernels under way are incomplete, and later kernels run without",
        d->ordinal);
}

static void device_came(void *device, uint32_t context, uint64_t records, int known)
{
    if (!known)
        device_take_debt(device, context, records);
}

static unsigned device_drain(struct mt_gpu_device *d)
{
    static const struct mt_readers_ops ops = {device_came, device_complain};
    struct mt_readers_ring rings[MT_GPU_RINGS];
    for (unsigned i = 0; i < MT_GPU_RINGS; i++)
        rings[i] = (struct mt_readers_ring){&d->rings[i], d->flight, MT_GPU_CONTEXTS, d};
    return mt_readers_drain(rings, MT_GPU_RINGS, MT_GPU_BATCH, &ops);
}

unsigned mt_gpu_poll(void)
{
    static struct mt_flight *ended[MT_GPU_CONTEXTS];
    unsigned packets = 0;
    pthread_mutex_lock(&polling);
    for (struct mt_gpu_device *d = closed ? NULL : devices; d; d = d->next) {
        unsigned n = read_marks(d, ended);
        packets += device_drain(d);
        for (unsigned i = 0; i < n; i++)
            ended[i]->ended = 1;
    }
    pthread_mutex_unlock(&polling);
    return packets;
}
