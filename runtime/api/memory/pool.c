/* Stream-ordered allocation and memory pools on the CPU device. All pools draw on the same memory; a pool
 * keeps its attributes, counts what is in use, and holds on to what it has reserved as its threshold says.
 * What is reserved is a figure only: the memory itself is the C library's. */
#include "pool.h"
#include "api/entry.h"
#include "api/device/device.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "api/streams/capture.h"
#include "graph_memory.h"
#include "trace/objects.h"
#include "api/streams/queue.h"
#include "trace/devices.h"
#include "base/fork.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SWITCHES = cudaMemPoolReuseAllowInternalDependencies + 1 };

struct CUmemPoolHandle_st {
    unsigned id; /* up to MT_DEVICES_MAX: of device id - 1, its default pool */
    int device;
    uint64_t readers; /* bit: that device's kernels may touch what comes from it */
    int on[SWITCHES];
    uint64_t threshold, most; /* most: bytes it may have, 0 no limit */
    uint64_t used, used_high, reserved, reserved_high;
};
typedef struct CUmemPoolHandle_st pool;

#define SWITCHED_ON {0, 1, 1, 1}
static pool standard[MT_DEVICES_MAX]; /* by device */
static pool *_Atomic current[MT_DEVICES_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mt_map pools = MT_MAP_INIT; /* all but the default one, by handle */
MT_FORK_TABLE(pools);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the counts */
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
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

/* ---- counting ---- */

static int pool_reserve(pool *p, uint64_t bytes)
{
    int ok;
    pthread_mutex_lock(&lock);
    ok = !p->most || (p->used <= p->most && bytes <= p->most - p->used);
    if (ok) {
        p->used += bytes;
        p->used_high = p->used > p->used_high ? p->used : p->used_high;
        p->reserved = p->used > p->reserved ? p->used : p->reserved;
        p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

static void give_back(pool *p, uint64_t keep)
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

void mt_pool_freed(unsigned id, uint64_t bytes)
{
    struct freed f = {id, bytes};
    pthread_mutex_lock(&lock);
    if (id && id <= MT_DEVICES_MAX)
        count_freed(pool_standard((int)id - 1), &f);
    else if (id)
        mt_map_each(&pools, count_freed, &f);
    pthread_mutex_unlock(&lock);
}

static void pool_reset(void *value, void *ctx)
{
    pool *p = value;
    if (p->device == *(const int *)ctx)
        p->used = p->reserved = 0;
}

void mt_pools_reset(int device)
{
    pthread_mutex_lock(&lock);
    pool_reset(pool_standard(device), &device);
    mt_map_each(&pools, pool_reset, &device);
    pthread_mutex_unlock(&lock);
}

static void pool_trim(void *value, void *ctx)
{
    pool *p = value;
    give_back(p, p->threshold);
}

void mt_pools_synced(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < mt_devices(); i++)
        pool_trim(pool_standard(i), NULL);
    mt_map_each(&pools, pool_trim, NULL);
    pthread_mutex_unlock(&lock);
}

/* ---- allocation ---- */

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
        : mt_capturing(s) ? mt_capture_alloc(s, *out, bytes)
                          : cudaSuccess;
    if (!e)
        return cudaSuccess;
    if (*out)
        mt_heap_free(*out, 1u << MT_HEAP_DEVICE);
    *out = NULL;
    mt_pool_freed(p->id, bytes);
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
    struct mt_object *o = mt_object_take(p);
    int found = mt_heap_find(p, &b), freed = mt_heap_free_condemned(p);
    mt_object_done(o, freed);
    if (found && freed)
        mt_pool_freed(b.flags, b.bytes);
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
        return mt_capture_free(s, p);
    int of_graph = mt_graph_gave_back(p);
    if (of_graph > 0) { /* the address stays with the graph */
        mt_stream_wait(s);
        mt_object_done(mt_object_take(p), 1);
    }
    if (of_graph)
        return of_graph > 0 ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
    struct free_op *f = mt_op_new(sizeof *f, MT_OP_OTHER, free_now);
    if (!f)
        return mt_fail(cudaErrorMemoryAllocation);
    f->op.always = 1;
    f->p = p;
    if (!mt_heap_condemn(p, 1u << MT_HEAP_DEVICE)) { /* it is on its way already */
        mt_op_free(&f->op);
        mt_failed_free(p, 1u << MT_HEAP_DEVICE);
        return mt_fail(cudaErrorInvalidValue);
    }
    mt_op_enqueue(s, &f->op); /* what is in the stream may use it */
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
    if (e || type != cudaMemAllocationTypePinned) /* pools of host and managed memory: not here */
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
    pthread_mutex_lock(&lock);
    p->id = ++last_id;
    pthread_mutex_unlock(&lock);
    if (mt_map_set(&pools, p, p)) {
        free(p);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *out = p;
    return cudaSuccess;
}

/* What was allocated from it stays until it is freed. */
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
    pthread_mutex_lock(&lock);
    give_back(p, keep);
    pthread_mutex_unlock(&lock);
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
    /* The high-water marks can be set to 0: they begin anew. */
    if (v || (a != cudaMemPoolAttrReservedMemHigh && a != cudaMemPoolAttrUsedMemHigh))
        return mt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    if (a == cudaMemPoolAttrReservedMemHigh)
        p->reserved_high = p->reserved;
    else
        p->used_high = p->used;
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    const uint64_t figures[] = {p->threshold, p->reserved, p->reserved_high, p->used, p->used_high};
    pthread_mutex_unlock(&lock);
    unsigned i = (unsigned)a - cudaMemPoolAttrReleaseThreshold;
    if (i >= sizeof figures / sizeof *figures)
        return mt_fail(cudaErrorInvalidValue);
    memcpy(value, &figures[i], sizeof figures[i]);
    return cudaSuccess;
}

/* Its own device can always read and write it, and that cannot be taken from it. */
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
