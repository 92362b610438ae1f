/* Memory of the program: allocations, pools, and advice. */
#include "memory.h"
#include "api/entry.h"
#include "api/device/device.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "api/streams/stream.h"
#include "trace/events.h"
#include "trace/objects.h"
#include "trace/devices.h"
#include "base/fork.h"
#include "base/options.h"
#include "trace/trace.h"
#include "format/image.h"
#include "memtrace/grow.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stream-ordered allocation and memory pools on the CPU device. All pools draw on the same memory; a pool
 * stores its attributes, counts its used bytes, and keeps reserved bytes up to its threshold. The reserved
 * size is only a number: the memory itself belongs to the C library. */

enum { SWITCHES = cudaMemPoolReuseAllowInternalDependencies + 1 };

struct CUmemPoolHandle_st {
    unsigned id; /* device + 1 for the default pools, up to MT_DEVICES_MAX */
    int device;
    uint64_t readers; /* bit mask of the devices whose kernels may access its memory */
    int on[SWITCHES];
    uint64_t threshold, most; /* most: limit in bytes, 0: none */
    uint64_t used, used_high, reserved, reserved_high;
};
typedef struct CUmemPoolHandle_st pool;

#define SWITCHED_ON {0, 1, 1, 1}
static pool standard[MT_DEVICES_MAX]; /* by device */
static pool *_Atomic current[MT_DEVICES_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mt_map pools = MT_MAP_INIT; /* all but the default pools, by handle */
MT_FORK_TABLE(pools);
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the counts */
MT_FORK_LOCK(pool_lock, MT_FORK_CAPTURES);
static unsigned last_id = MT_DEVICES_MAX;

static void pool_first(void)
{
    for (int i = 0; i < MT_DEVICES_MAX; i++) {
        standard[i] = (pool){.id = (unsigned)i + 1, .device = i, .readers = 1ull << i, .on = SWITCHED_ON};
        current[i] = &standard[i];
    }
}

static pool *pool_standard(int device)
{
    pthread_once(&once, pool_first);
    return &standard[device];
}

static pool *pool_current(int device)
{
    pthread_once(&once, pool_first);
    return current[device];
}

static pool *pool_get(cudaMemPool_t p)
{
    int standard_one = p >= standard && p < standard + mt_devices();
    return standard_one ? pool_standard((int)(p - standard)) : p ? mt_map_get(&pools, p) : NULL;
}

/* ---- counts ---- */

static int pool_reserve(pool *p, uint64_t bytes)
{
    int ok;
    pthread_mutex_lock(&pool_lock);
    ok = !p->most || (p->used <= p->most && bytes <= p->most - p->used);
    if (ok) {
        p->used += bytes;
        p->used_high = p->used > p->used_high ? p->used : p->used_high;
        p->reserved = p->used > p->reserved ? p->used : p->reserved;
        p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    }
    pthread_mutex_unlock(&pool_lock);
    return ok;
}

static void pool_give_back(pool *p, uint64_t keep)
{
    keep = keep > p->used ? keep : p->used;
    p->reserved = p->reserved < keep ? p->reserved : keep;
}

struct freed {
    unsigned id;
    uint64_t bytes;
};

static void count_freed(void *value, void *ctx)
{
    pool *p = value;
    const struct freed *f = ctx;
    if (p->id == f->id)
        p->used -= f->bytes;
}

/* Returns a block to its pool. `id`: the block's flags (struct mt_block); 0: no pool owns it. */
static void pool_freed(unsigned id, uint64_t bytes)
{
    struct freed f = {id, bytes};
    pthread_mutex_lock(&pool_lock);
    if (id && id <= MT_DEVICES_MAX)
        count_freed(pool_standard((int)id - 1), &f);
    else if (id)
        mt_map_each(&pools, count_freed, &f);
    pthread_mutex_unlock(&pool_lock);
}

static void pool_reset(void *value, void *ctx)
{
    pool *p = value;
    if (p->device == *(const int *)ctx)
        p->used = p->reserved = 0;
}

static void pools_reset(int device)
{
    pthread_mutex_lock(&pool_lock);
    pool_reset(pool_standard(device), &device);
    mt_map_each(&pools, pool_reset, &device);
    pthread_mutex_unlock(&pool_lock);
}

static void pool_trim(void *value, void *ctx)
{
    pool *p = value;
    pool_give_back(p, p->threshold);
}

/* Releases reserved memory at synchronisation, down to each pool's threshold. */
static void pools_synced(void)
{
    pthread_mutex_lock(&pool_lock);
    for (int i = 0; i < mt_devices(); i++)
        pool_trim(pool_standard(i), NULL);
    mt_map_each(&pools, pool_trim, NULL);
    pthread_mutex_unlock(&pool_lock);
}

/* ---- allocation ---- */

struct ordered_op {
    struct mt_op op;
    int64_t id;
};

static int alloc_reached(struct mt_op *op)
{
    mt_event_ordered(((struct ordered_op *)op)->id, 0, NULL);
    return MT_OP_DONE;
}

void mt_memory_ordered(const void *p, cudaStream_t stream)
{
    struct mt_stream *s = mt_options()->check ? mt_stream_get(stream) : NULL;
    struct ordered_op *o = s && !mt_capturing(s) ? mt_op_new(sizeof *o, MT_OP_OTHER, alloc_reached) : NULL;
    if (!o)
        return;
    o->id = mt_object_id(p);
    mt_op_enqueue(s, &o->op);
}

static cudaError_t pool_alloc(void **out, size_t bytes, pool *p, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    if (!out || !p)
        return mt_fail(cudaErrorInvalidValue);
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = mt_capture_check(s, MT_CALL_ASYNC);
    if (e)
        return e;
    *out = NULL;
    if (!bytes)
        return cudaSuccess;
    if (!pool_reserve(p, bytes))
        return mt_fail(cudaErrorMemoryAllocation);
    *out = mt_heap_alloc(p->device, bytes, MT_HEAP_DEVICE, p->id);
    if (*out && mt_devices() > 1)
        mt_heap_open(*out, p->readers);
    e = !*out             ? mt_fail(cudaErrorMemoryAllocation)
        : mt_capturing(s) ? mt_fail(mt_capture_ops->alloc(s, *out, bytes))
                          : cudaSuccess;
    if (!e)
        return cudaSuccess;
    if (*out)
        mt_heap_free(*out, 1u << MT_HEAP_DEVICE);
    *out = NULL;
    pool_freed(p->id, bytes);
    return e;
}

cudaError_t impl_cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    const struct mt_stream *s = mt_stream_get(stream);
    return s ? pool_alloc(out, bytes, pool_current(s->device), stream)
             : mt_fail(cudaErrorInvalidResourceHandle);
}

cudaError_t impl_cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t p, cudaStream_t stream)
{
    return pool_alloc(out, bytes, pool_get(p), stream);
}

struct free_op {
    struct mt_op op;
    void *p;
};

static int free_now(struct mt_op *op)
{
    void *p = ((struct free_op *)op)->p;
    struct mt_block b;
    mt_event_ordered(mt_object_id(p), 1, op->site);
    struct mt_object *o = mt_object_take(p);
    int found = mt_heap_find(p, &b),
        freed =
            mt_heap_free_condemned(p, op->clock ? op->path : 0, op->clock ? op->clock->n[op->path - 1] : 0);
    mt_object_done(o, freed);
    if (found && freed)
        pool_freed(b.flags, b.bytes);
    return MT_OP_DONE;
}

cudaError_t impl_cudaFreeAsync(void *p, cudaStream_t stream)
{
    struct mt_block b;
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = mt_capture_check(s, MT_CALL_ASYNC);
    if (e || !p)
        return e;
    if (!mt_heap_find(p, &b) || b.base != (uint64_t)(uintptr_t)p || b.kind != MT_HEAP_DEVICE) {
        mt_failed_free(p, 1u << MT_HEAP_DEVICE);
        return mt_fail(cudaErrorInvalidValue);
    }
    if (mt_capturing(s))
        return mt_fail(mt_capture_ops->free(s, p));
    int of_graph = mt_graph_gave_back(p);
    if (of_graph > 0) { /* the graph keeps the address */
        mt_stream_wait(s);
        mt_object_done(mt_object_take(p), 1);
    }
    if (of_graph)
        return of_graph > 0 ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
    struct free_op *f = mt_op_new(sizeof *f, MT_OP_FREE, free_now);
    if (!f)
        return mt_fail(cudaErrorMemoryAllocation);
    f->op.always = 1;
    f->op.site = mt_host_site_taken;
    f->p = p;
    if (!mt_heap_condemn(p, 1u << MT_HEAP_DEVICE)) { /* already being freed */
        mt_op_free(&f->op);
        mt_failed_free(p, 1u << MT_HEAP_DEVICE);
        return mt_fail(cudaErrorInvalidValue);
    }
    mt_op_enqueue(s, &f->op); /* work in the stream may use it */
    return cudaSuccess;
}

/* ---- pools ---- */

cudaError_t impl_cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device)
{
    MT_RETURN_IF_FAILED();
    if (!out || !mt_device_there(device))
        return mt_fail(out ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *out = pool_standard(device);
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetMemPool(cudaMemPool_t *out, int device)
{
    cudaError_t e = impl_cudaDeviceGetDefaultMemPool(out, device);
    if (!e)
        *out = pool_current(device);
    return e;
}

cudaError_t impl_cudaDeviceSetMemPool(int device, cudaMemPool_t p)
{
    MT_RETURN_IF_FAILED();
    int there = mt_device_there(device);
    if (!there || !pool_get(p) || pool_get(p)->device != device)
        return mt_fail(there ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
    pool_standard(device);
    current[device] = p;
    return cudaSuccess;
}

static cudaError_t check_location(const struct cudaMemLocation *where)
{
    if (where->type != cudaMemLocationTypeDevice)
        return cudaErrorInvalidValue;
    return !mt_device_there(where->id) ? cudaErrorInvalidDevice : cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaMemGetDefaultMemPool(cudaMemPool_t *out, struct cudaMemLocation *where,
                                          enum cudaMemAllocationType type)
{
    MT_RETURN_IF_FAILED();
    if (!out || !where)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = check_location(where);
    if (e || type != cudaMemAllocationTypePinned) /* no pools of host and managed memory */
        return mt_fail(e == cudaErrorInvalidDevice ? e : cudaErrorNotSupported);
    *out = pool_standard(where->id);
    return cudaSuccess;
}

cudaError_t impl_cudaMemGetMemPool(cudaMemPool_t *out, struct cudaMemLocation *where,
                                   enum cudaMemAllocationType type)
{
    cudaError_t e = impl_cudaMemGetDefaultMemPool(out, where, type);
    if (!e)
        *out = pool_current(where->id);
    return e;
}

cudaError_t impl_cudaMemSetMemPool(struct cudaMemLocation *where, enum cudaMemAllocationType type,
                                   cudaMemPool_t p)
{
    cudaMemPool_t now;
    cudaError_t e = impl_cudaMemGetDefaultMemPool(&now, where, type);
    return e ? e : impl_cudaDeviceSetMemPool(where->id, p);
}
#endif

cudaError_t impl_cudaMemPoolCreate(cudaMemPool_t *out, const struct cudaMemPoolProps *props)
{
    MT_RETURN_IF_FAILED();
    if (!out || !props || props->allocType != cudaMemAllocationTypePinned)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = check_location(&props->location);
    if (e)
        return mt_fail(e);
    if (props->handleTypes != cudaMemHandleTypeNone) /* cudaDevAttrMemoryPoolSupportedHandleTypes is 0 */
        return mt_fail(cudaErrorNotSupported);
    pool *p = malloc(sizeof *p);
    if (!p)
        return mt_fail(cudaErrorMemoryAllocation);
    *p = (pool){.device = props->location.id, .readers = 1ull << props->location.id, .on = SWITCHED_ON};
#if CUDART_VERSION >= 12030
    p->most = props->maxSize;
#endif
    pthread_mutex_lock(&pool_lock);
    p->id = ++last_id;
    pthread_mutex_unlock(&pool_lock);
    if (mt_map_set(&pools, p, p)) {
        free(p);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *out = p;
    return cudaSuccess;
}

/* Allocations from the pool live until they are freed. */
cudaError_t impl_cudaMemPoolDestroy(cudaMemPool_t p)
{
    MT_RETURN_IF_FAILED();
    pool *found = p ? mt_map_take(&pools, p) : NULL;
    if (!found)
        return mt_fail(cudaErrorInvalidValue);
    if (pool_current(found->device) == found)
        current[found->device] = pool_standard(found->device);
    free(found);
    return cudaSuccess;
}

cudaError_t impl_cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep)
{
    MT_RETURN_IF_FAILED();
    pool *p = pool_get(handle);
    if (!p)
        return mt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&pool_lock);
    pool_give_back(p, keep);
    pthread_mutex_unlock(&pool_lock);
    return cudaSuccess;
}

/* ---- attributes: the switches are int, the rest u64 ---- */

cudaError_t impl_cudaMemPoolSetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr a, void *value)
{
    MT_RETURN_IF_FAILED();
    pool *p = pool_get(handle);
    uint64_t v = 0;
    if (!p || !value || (int)a < 1)
        return mt_fail(cudaErrorInvalidValue);
    if ((int)a < SWITCHES) {
        p->on[a] = *(int *)value != 0;
        return cudaSuccess;
    }
    memcpy(&v, value, sizeof v);
    if (a == cudaMemPoolAttrReleaseThreshold) {
        p->threshold = v;
        return cudaSuccess;
    }
    /* The high-water marks can only be reset to 0. */
    if (v || (a != cudaMemPoolAttrReservedMemHigh && a != cudaMemPoolAttrUsedMemHigh))
        return mt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&pool_lock);
    if (a == cudaMemPoolAttrReservedMemHigh)
        p->reserved_high = p->reserved;
    else
        p->used_high = p->used;
    pthread_mutex_unlock(&pool_lock);
    return cudaSuccess;
}

cudaError_t impl_cudaMemPoolGetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr a, void *value)
{
    MT_RETURN_IF_FAILED();
    pool *p = pool_get(handle);
    if (!p || !value || (int)a < 1)
        return mt_fail(cudaErrorInvalidValue);
    if ((int)a < SWITCHES) {
        *(int *)value = p->on[a];
        return cudaSuccess;
    }
    pthread_mutex_lock(&pool_lock);
    const uint64_t figures[] = {p->threshold, p->reserved, p->reserved_high, p->used, p->used_high};
    pthread_mutex_unlock(&pool_lock);
    unsigned i = (unsigned)a - cudaMemPoolAttrReleaseThreshold;
    if (i >= sizeof figures / sizeof *figures)
        return mt_fail(cudaErrorInvalidValue);
    memcpy(value, &figures[i], sizeof figures[i]);
    return cudaSuccess;
}

/* A pool's own device can always read and write it; this cannot be revoked. */
static cudaError_t pool_access(const pool *p, const struct cudaMemAccessDesc *d, uint64_t *readers)
{
    cudaError_t e = check_location(&d->location);
    if (e)
        return e;
    uint64_t bit = 1ull << d->location.id;
    if (d->flags == cudaMemAccessFlagsProtReadWrite)
        *readers |= bit;
    else if (d->flags == cudaMemAccessFlagsProtNone && d->location.id != p->device)
        *readers &= ~bit;
    else
        e = cudaErrorInvalidValue;
    return e;
}

cudaError_t impl_cudaMemPoolSetAccess(cudaMemPool_t handle, const struct cudaMemAccessDesc *desc,
                                      size_t count)
{
    MT_RETURN_IF_FAILED();
    pool *p = pool_get(handle);
    if (!p || (!desc && count))
        return mt_fail(cudaErrorInvalidValue);
    uint64_t readers = p->readers;
    for (size_t i = 0; i < count; i++) {
        cudaError_t e = pool_access(p, &desc[i], &readers);
        if (e)
            return mt_fail(e);
    }
    p->readers = readers;
    mt_heap_open_pool(p->id, readers);
    return cudaSuccess;
}

cudaError_t impl_cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t p,
                                      struct cudaMemLocation *where)
{
    MT_RETURN_IF_FAILED();
    if (!flags || !pool_get(p) || !where)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = check_location(where);
    if (!e)
        *flags = pool_get(p)->readers >> where->id & 1 ? cudaMemAccessFlagsProtReadWrite
                                                       : cudaMemAccessFlagsProtNone;
    return mt_fail(e);
}

/* ---- Side effects of every synchronising call ---- */

_Atomic int mt_printed;

void mt_synced(void)
{
    if (atomic_exchange(&mt_printed, 0))
        fflush(stdout);
    pools_synced();
    mt_trace_flush(0);
}

/* ---- Memory of a graph's allocation nodes: the same address in all launches ---- */

static struct mt_map memories = MT_MAP_INIT; /* by address */
MT_FORK_TABLE(memories);

struct mt_graph_memory *mt_graph_memory_new(void *p, size_t bytes)
{
    struct mt_graph_memory *m = malloc(sizeof *m);
    if (!m)
        return NULL;
    *m = (struct mt_graph_memory){.refs = 1, .live = 1, .p = p, .bytes = bytes};
    if (!mt_map_set(&memories, p, m))
        return m;
    free(m);
    return NULL;
}

int mt_graph_gave_back(void *p)
{
    struct mt_graph_memory *m = p ? mt_map_get(&memories, p) : NULL;
    if (!m)
        return 0;
    return __atomic_exchange_n(&m->live, 0, __ATOMIC_ACQ_REL) ? 1 : -1;
}

/* Memory not freed by the program belongs to the program from here on. */
void mt_graph_memory_release(struct mt_graph_memory *m)
{
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
        return;
    mt_map_take(&memories, m->p);
    if ((m->freed || !m->live) && mt_heap_free(m->p, 1u << MT_HEAP_DEVICE))
        mt_object_done(mt_object_take(m->p), 1);
    free(m);
}

/* cudaMemAdvise, cudaMemPrefetchAsync and cudaMemRangeGetAttribute on the CPU device. Each piece of advice is
 * stored with its page range, in order; a query evaluates each stretch of pages between two borders. */

#define PAGE 4096u
#define NOWHERE cudaInvalidDeviceId

enum topic { READ_MOSTLY, PREFERRED, ACCESSED_BY, PREFETCHED, TOPICS };

struct location {
    int type, id; /* enum cudaMemLocationType; id: device, cudaCpuDeviceId, NUMA node, or NOWHERE */
};

struct advice {
    uint64_t base, end, block; /* pages; block: start of the allocation */
    enum topic topic;
    struct location value; /* id NOWHERE: revoked */
};

static pthread_mutex_t advise_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(advise_lock, MT_FORK_CAPTURES);
static struct advice *advices;
static size_t count, capacity;

/* Forgets the advice for a freed block. */
static void advice_forget(uint64_t block)
{
    size_t kept = 0;
    pthread_mutex_lock(&advise_lock);
    for (size_t i = 0; i < count; i++)
        if (advices[i].block != block)
            advices[kept++] = advices[i];
    count = kept;
    pthread_mutex_unlock(&advise_lock);
}

/* Returns whether the memory belongs to another device. */
static int advise_stays(const struct advice *a, int device)
{
    struct mt_block b;
    return mt_heap_find((const void *)(uintptr_t)a->block, &b) && b.device != device;
}

static void advice_reset(int device)
{
    size_t kept = 0;
    pthread_mutex_lock(&advise_lock);
    for (size_t i = 0; i < count; i++)
        if (advise_stays(&advices[i], device))
            advices[kept++] = advices[i];
    count = kept;
    pthread_mutex_unlock(&advise_lock);
}

void mt_memory_reset(int device)
{
    advice_reset(device);
    mt_heap_reset(device);
    pools_reset(device);
}

/* Finds a range of managed memory, in whole pages. Returns cudaSuccess or cudaErrorInvalidValue. */
static cudaError_t advise_find(const void *p, size_t bytes, struct advice *a)
{
    struct mt_block b;
    uint64_t at = (uint64_t)(uintptr_t)p;
    if (!p || !bytes || !mt_heap_find(p, &b) || bytes > b.base + b.bytes - at)
        return cudaErrorInvalidValue;
    if (b.kind != MT_HEAP_MANAGED && !(b.kind == MT_HEAP_SYMBOL && b.flags == MT_VAR_MANAGED))
        return cudaErrorInvalidValue;
    a->base = at / PAGE * PAGE;
    a->end = (at + bytes + PAGE - 1) / PAGE * PAGE;
    a->block = b.base;
    return cudaSuccess;
}

/* Appends advice, and removes older advice that it covers completely. */
static cudaError_t advise_keep(const struct advice *a)
{
    size_t kept = 0;
    cudaError_t e = cudaSuccess;
    pthread_mutex_lock(&advise_lock);
    for (size_t i = 0; i < count; i++)
        if (advices[i].topic != a->topic || advices[i].base < a->base || advices[i].end > a->end)
            advices[kept++] = advices[i];
    count = kept;
    if (mt_grow(&advices, &capacity, count + 1, sizeof *advices))
        e = cudaErrorMemoryAllocation;
    else
        advices[count++] = *a;
    pthread_mutex_unlock(&advise_lock);
    return e;
}

/* Returns the latest advice for the page at `address`, with *border set to a lower bound of its end. */
static struct location advise_ask(enum topic topic, uint64_t address, uint64_t *border)
{
    struct location said = {cudaMemLocationTypeInvalid, NOWHERE};
    for (size_t i = 0; i < count; i++) {
        const struct advice *a = &advices[i];
        if (a->topic != topic)
            continue;
        if (address >= a->base && address < a->end)
            said = a->value;
        if (a->base > address && a->base < *border)
            *border = a->base;
        if (a->end > address && a->end < *border)
            *border = a->end;
    }
    return said;
}

/* Returns the common answer for all pages, or NOWHERE if they differ. */
static struct location ask_all(enum topic topic, const struct advice *range)
{
    struct location all = {cudaMemLocationTypeInvalid, NOWHERE};
    pthread_mutex_lock(&advise_lock);
    for (uint64_t at = range->base, next; at < range->end; at = next) {
        next = range->end;
        struct location here = advise_ask(topic, at, &next);
        if (at == range->base)
            all = here;
        else if (here.id != all.id || here.type != all.type)
            all = (struct location){cudaMemLocationTypeInvalid, NOWHERE};
    }
    pthread_mutex_unlock(&advise_lock);
    return all;
}

/* ---- locations ---- */

static cudaError_t memory_place(const struct cudaMemLocation *where, struct location *out)
{
    *out = (struct location){(int)where->type, where->id};
    switch ((int)where->type) {
    case cudaMemLocationTypeDevice:
        return !mt_device_there(where->id) ? cudaErrorInvalidDevice : cudaSuccess;
#if CUDART_VERSION >= 12020
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNumaCurrent:
        *out = (struct location){cudaMemLocationTypeHost, cudaCpuDeviceId};
        return cudaSuccess;
    case cudaMemLocationTypeHostNuma:
        return where->id < 0 ? cudaErrorInvalidValue : cudaSuccess;
#endif
    default:
        return cudaErrorInvalidValue;
    }
}

#if CUDART_VERSION < 13000
/* Older functions give a device, or -1 for the host. */
static struct cudaMemLocation location_of(int device)
{
    struct cudaMemLocation where = {.type = cudaMemLocationTypeDevice, .id = device};
#if CUDART_VERSION >= 12020
    if (device == cudaCpuDeviceId)
        where.type = cudaMemLocationTypeHost;
#endif
    return where;
}
#endif

/* ---- calls ---- */

static cudaError_t advise_run(const void *p, size_t bytes, enum cudaMemoryAdvise advice,
                              const struct cudaMemLocation *where)
{
    static const enum topic topics[] = {
        [cudaMemAdviseSetReadMostly] = READ_MOSTLY,      [cudaMemAdviseUnsetReadMostly] = READ_MOSTLY,
        [cudaMemAdviseSetPreferredLocation] = PREFERRED, [cudaMemAdviseUnsetPreferredLocation] = PREFERRED,
        [cudaMemAdviseSetAccessedBy] = ACCESSED_BY,      [cudaMemAdviseUnsetAccessedBy] = ACCESSED_BY,
    };
    struct advice a = {0};
    MT_RETURN_IF_FAILED();
    if ((int)advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = advise_find(p, bytes, &a);
    a.topic = topics[advice];
    a.value = (struct location){cudaMemLocationTypeDevice, 0};
    if (!e && (advice == cudaMemAdviseSetPreferredLocation || a.topic == ACCESSED_BY))
        e = memory_place(where, &a.value);
    if (advice == cudaMemAdviseUnsetReadMostly || advice == cudaMemAdviseUnsetPreferredLocation ||
        advice == cudaMemAdviseUnsetAccessedBy)
        a.value = (struct location){cudaMemLocationTypeInvalid, NOWHERE};
    return mt_fail(e ? e : advise_keep(&a));
}

static cudaError_t advise_prefetch(const void *p, size_t bytes, const struct cudaMemLocation *where,
                                   unsigned flags, cudaStream_t stream)
{
    struct advice a = {.topic = PREFETCHED};
    MT_RETURN_IF_FAILED();
    if (!mt_stream_get(stream))
        return mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = flags ? cudaErrorInvalidValue : advise_find(p, bytes, &a);
    if (!e)
        e = memory_place(where, &a.value);
    return mt_fail(e ? e : advise_keep(&a));
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaMemPrefetchAsync(const void *p, size_t bytes, struct cudaMemLocation where,
                                      unsigned flags, cudaStream_t stream)
{
    return advise_prefetch(p, bytes, &where, flags, stream);
}

cudaError_t impl_cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise advice,
                               struct cudaMemLocation where)
{
    return advise_run(p, bytes, advice, &where);
}

cudaError_t impl_cudaMemPrefetchBatchAsync(void **p, size_t *bytes, size_t n, struct cudaMemLocation *where,
                                           size_t *first, size_t places, unsigned long long flags,
                                           cudaStream_t stream)
{
    cudaError_t e = cudaSuccess;
    if (!p || !bytes || !n || !where || !first || !places || places > n || first[0] || flags || !stream)
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0, at = 0; i < n && !e; i++) {
        at += at + 1 < places && first[at + 1] == i;
        e = advise_prefetch(p[i], bytes[i], &where[at], 0, stream);
    }
    return e;
}

/* The contents are no longer needed, but may stay. */
cudaError_t impl_cudaMemDiscardBatchAsync(void **p, size_t *bytes, size_t n, unsigned long long flags,
                                          cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    if (!p || !bytes || !n || flags || !stream)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_stream_get(stream))
        return mt_fail(cudaErrorInvalidResourceHandle);
    for (size_t i = 0; i < n; i++) {
        struct advice a;
        if (advise_find(p[i], bytes[i], &a))
            return mt_fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t impl_cudaMemDiscardAndPrefetchBatchAsync(void **p, size_t *bytes, size_t n,
                                                     struct cudaMemLocation *where, size_t *first,
                                                     size_t places, unsigned long long flags,
                                                     cudaStream_t stream)
{
    cudaError_t e = impl_cudaMemDiscardBatchAsync(p, bytes, n, flags, stream);
    return e ? e : impl_cudaMemPrefetchBatchAsync(p, bytes, n, where, first, places, flags, stream);
}
#else
cudaError_t impl_cudaMemPrefetchAsync(const void *p, size_t bytes, int device, cudaStream_t stream)
{
    struct cudaMemLocation where = location_of(device);
    return advise_prefetch(p, bytes, &where, 0, stream);
}

cudaError_t impl_cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise advice, int device)
{
    struct cudaMemLocation where = location_of(device);
    return advise_run(p, bytes, advice, &where);
}

#if CUDART_VERSION >= 12020
cudaError_t impl_cudaMemPrefetchAsync_v2(const void *p, size_t bytes, struct cudaMemLocation where,
                                         unsigned flags, cudaStream_t stream)
{
    return advise_prefetch(p, bytes, &where, flags, stream);
}

cudaError_t impl_cudaMemAdvise_v2(const void *p, size_t bytes, enum cudaMemoryAdvise advice,
                                  struct cudaMemLocation where)
{
    return advise_run(p, bytes, advice, &where);
}
#endif
#endif

/* ---- queries ---- */

/* Returns an answer that is a single int. */
static int advise_figure(enum cudaMemRangeAttribute attribute, const struct advice *range)
{
    switch ((int)attribute) {
    case cudaMemRangeAttributeReadMostly:
        return ask_all(READ_MOSTLY, range).id == 0;
    case cudaMemRangeAttributePreferredLocation:
        return ask_all(PREFERRED, range).id;
    case cudaMemRangeAttributeLastPrefetchLocation:
        return ask_all(PREFETCHED, range).id;
#if CUDART_VERSION >= 12020
    case cudaMemRangeAttributePreferredLocationType:
        return ask_all(PREFERRED, range).type;
    case cudaMemRangeAttributePreferredLocationId:
        return ask_all(PREFERRED, range).id;
    case cudaMemRangeAttributeLastPrefetchLocationType:
        return ask_all(PREFETCHED, range).type;
    default:
        return ask_all(PREFETCHED, range).id;
#else
    default:
        return NOWHERE;
#endif
    }
}

static int is_attribute(enum cudaMemRangeAttribute a)
{
#if CUDART_VERSION >= 12020
    return (int)a >= cudaMemRangeAttributeReadMostly && a <= cudaMemRangeAttributeLastPrefetchLocationId;
#else
    return (int)a >= cudaMemRangeAttributeReadMostly && a <= cudaMemRangeAttributeLastPrefetchLocation;
#endif
}

cudaError_t impl_cudaMemRangeGetAttribute(void *data, size_t size, enum cudaMemRangeAttribute attribute,
                                          const void *p, size_t bytes)
{
    struct advice range;
    int *out = data;
    MT_RETURN_IF_FAILED();
    if (!data || !size || size % sizeof *out || !is_attribute(attribute) || advise_find(p, bytes, &range))
        return mt_fail(cudaErrorInvalidValue);
    if (attribute == cudaMemRangeAttributeAccessedBy) {
        out[0] = ask_all(ACCESSED_BY, &range).id;
        for (size_t i = 1; i < size / sizeof *out; i++)
            out[i] = NOWHERE;
        return cudaSuccess;
    }
    if (size != sizeof *out)
        return mt_fail(cudaErrorInvalidValue);
    *out = advise_figure(attribute, &range);
    return cudaSuccess;
}

cudaError_t impl_cudaMemRangeGetAttributes(void **data, size_t *sizes, enum cudaMemRangeAttribute *attributes,
                                           size_t n, const void *p, size_t bytes)
{
    cudaError_t e = cudaSuccess;
    if (!data || !sizes || !attributes || !n)
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n && !e; i++)
        e = impl_cudaMemRangeGetAttribute(data[i], sizes[i], attributes[i], p, bytes);
    return e;
}

#define BIT(kind) (1u << (kind))

static cudaError_t memory_alloc(void **out, size_t bytes, enum mt_heap_kind kind, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = mt_capture_check(NULL, MT_CALL_UNSAFE);
    if (e)
        return e;
    *out = NULL;
    if (!bytes)
        return cudaSuccess;
    *out = mt_heap_alloc(mt_device_current(), bytes, kind, flags);
    if (!*out)
        mt_failed_why("%llu bytes of %llu are used, %llu more are asked for",
                      (unsigned long long)mt_heap_used[mt_device_current()],
                      (unsigned long long)mt_device_memory(), (unsigned long long)bytes);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaMalloc(void **out, size_t bytes)
{
    return memory_alloc(out, bytes, MT_HEAP_DEVICE, 0);
}

cudaError_t impl_cudaMallocHost(void **out, size_t bytes)
{
    return memory_alloc(out, bytes, MT_HEAP_HOST, cudaHostAllocDefault);
}

cudaError_t impl_cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    if (flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
        return mt_fail(cudaErrorInvalidValue);
    return memory_alloc(out, bytes, MT_HEAP_HOST, flags);
}

cudaError_t impl_cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    if ((flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) || !bytes)
        return mt_fail(cudaErrorInvalidValue);
    return memory_alloc(out, bytes, MT_HEAP_MANAGED, flags);
}

cudaError_t impl_cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    size_t p = (width + MT_DEV_PITCH - 1) / MT_DEV_PITCH * MT_DEV_PITCH, bytes;
    if (!pitch || width > SIZE_MAX - MT_DEV_PITCH || __builtin_mul_overflow(p, height, &bytes))
        return mt_fail(cudaErrorInvalidValue);
    *pitch = p;
    return memory_alloc(out, bytes, MT_HEAP_DEVICE, 0);
}

cudaError_t impl_cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent)
{
    size_t rows;
    if (!out || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = impl_cudaMallocPitch(&out->ptr, &out->pitch, extent.width, rows);
    out->xsize = extent.width;
    out->ysize = extent.height;
    return e;
}

/* Waits for the devices whose kernels may use the block at p. */
static void memory_wait(const void *p)
{
    struct mt_block b;
    int found = mt_heap_find(p, &b);
    for (int device = 0; device < mt_devices(); device++)
        if (!found || mt_heap_reaches(device, &b))
            mt_stream_wait_all(device);
}

/* Frees a block after waiting for its devices; no other call can free it meanwhile. */
static cudaError_t free_after_all(void *p, unsigned kinds)
{
    struct mt_block b;
    if (!mt_heap_condemn(p, kinds)) { /* nothing to wait for */
        mt_failed_free(p, kinds);
        return mt_fail(cudaErrorInvalidValue);
    }
    memory_wait(p);
    int found = mt_heap_find(p, &b);
    mt_heap_free_condemned(p, 0, 0);
    if (found && b.kind == MT_HEAP_DEVICE)
        pool_freed(b.flags, b.bytes);
    if (found && b.kind == MT_HEAP_MANAGED)
        advice_forget(b.base);
    return cudaSuccess;
}

cudaError_t impl_cudaFree(void *p)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = mt_capture_check(NULL, MT_CALL_UNSAFE);
    int of_graph = e ? 0 : mt_graph_gave_back(p);
    if (of_graph < 0)
        e = mt_fail(cudaErrorInvalidValue);
    if (!e && p && !of_graph)
        e = free_after_all(p, BIT(MT_HEAP_DEVICE) | BIT(MT_HEAP_MANAGED));
    if (e)
        return e;
    mt_stream_wait_all(mt_device_current());
    mt_synced();
    return mt_failed_sync();
}

cudaError_t impl_cudaFreeHost(void *p)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = mt_capture_check(NULL, MT_CALL_UNSAFE);
    if (!e && p)
        return free_after_all(p, BIT(MT_HEAP_HOST));
    if (!e)
        mt_stream_wait_all(MT_ALL_DEVICES);
    return e;
}

/* ---- host memory of the program ---- */

cudaError_t impl_cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    static const unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped |
                                  cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
    MT_RETURN_IF_FAILED();
    if (!p || !bytes || flags & ~known || (uintptr_t)p + bytes < (uintptr_t)p)
        return mt_fail(cudaErrorInvalidValue);
    int rc = mt_heap_adopt(mt_device_current(), p, bytes, MT_HEAP_REGISTERED, flags);
    return mt_fail(rc == EEXIST ? cudaErrorHostMemoryAlreadyRegistered
                   : rc         ? cudaErrorMemoryAllocation
                                : cudaSuccess);
}

cudaError_t impl_cudaHostUnregister(void *p)
{
    MT_RETURN_IF_FAILED();
    if (!p)
        return mt_fail(cudaErrorInvalidValue);
    if (mt_heap_free(p, BIT(MT_HEAP_REGISTERED)))
        return cudaSuccess;
    mt_failed_free(p, BIT(MT_HEAP_REGISTERED));
    return mt_fail(cudaErrorHostMemoryNotRegistered);
}

static int is_host(const struct mt_block *b)
{
    return b->kind == MT_HEAP_HOST || b->kind == MT_HEAP_REGISTERED;
}

cudaError_t impl_cudaHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    struct mt_block b;
    MT_RETURN_IF_FAILED();
    if (!out || flags || !mt_heap_find(host, &b) || !is_host(&b))
        return mt_fail(cudaErrorInvalidValue);
    *out = host;
    return cudaSuccess;
}

cudaError_t impl_cudaHostGetFlags(unsigned *flags, void *host)
{
    struct mt_block b;
    MT_RETURN_IF_FAILED();
    if (!flags || !mt_heap_find(host, &b) || !is_host(&b))
        return mt_fail(cudaErrorInvalidValue);
    *flags = b.flags | cudaHostAllocMapped; /* the device can access all host memory */
    return cudaSuccess;
}

/* ---- queries ---- */

cudaError_t impl_cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    MT_RETURN_IF_FAILED();
    if (!free_bytes || !total)
        return mt_fail(cudaErrorInvalidValue);
    uint64_t all = mt_device_memory(), used = mt_heap_used[mt_device_current()];
    *total = all;
    *free_bytes = used < all ? all - used : 0;
    return cudaSuccess;
}

cudaError_t impl_cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    static const enum cudaMemoryType types[] = {
        [MT_HEAP_DEVICE] = cudaMemoryTypeDevice, [MT_HEAP_MANAGED] = cudaMemoryTypeManaged,
        [MT_HEAP_HOST] = cudaMemoryTypeHost,     [MT_HEAP_REGISTERED] = cudaMemoryTypeHost,
        [MT_HEAP_SYMBOL] = cudaMemoryTypeDevice, [MT_HEAP_IPC] = cudaMemoryTypeDevice,
    };
    struct mt_block b;
    MT_RETURN_IF_FAILED();
    if (!a || !p)
        return mt_fail(cudaErrorInvalidValue);
    memset(a, 0, sizeof *a);
    if (!mt_heap_find(p, &b)) {
        a->type = cudaMemoryTypeUnregistered;
        a->device = cudaInvalidDeviceId;
        a->hostPointer = (void *)(uintptr_t)p;
        return cudaSuccess;
    }
    a->type = types[b.kind];
    a->device = b.kind == MT_HEAP_SYMBOL && b.flags == MT_VAR_MANAGED ? mt_device_current() : b.device;
    if (b.kind == MT_HEAP_SYMBOL && b.flags == MT_VAR_MANAGED)
        a->type = cudaMemoryTypeManaged;
    a->devicePointer = (void *)(uintptr_t)p;
    a->hostPointer = a->type == cudaMemoryTypeDevice ? NULL : (void *)(uintptr_t)p;
    return cudaSuccess;
}
