/* Stream-ordered allocation and memory pools on the CPU device. All pools draw on the same memory; a pool
 * keeps its attributes and counts. */
#include "entry.h"
#include "error.h"
#include "heap.h"
#include "map.h"
#include "stream.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTES 16

struct CUmemPoolHandle_st {
    uint64_t attribute[ATTRIBUTES];
};
typedef struct CUmemPoolHandle_st pool;

static pool standard = {{[cudaMemPoolReuseFollowEventDependencies] = 1,
                         [cudaMemPoolReuseAllowOpportunistic] = 1,
                         [cudaMemPoolReuseAllowInternalDependencies] = 1}};
static pool *_Atomic current = &standard;
static struct mt_map pools = MT_MAP_INIT;

static pool *get(cudaMemPool_t p)
{
    return p == &standard ? p : mt_map_get(&pools, p);
}

static cudaError_t alloc(void **out, size_t bytes, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_stream_get(stream))
        return mt_fail(cudaErrorInvalidResourceHandle);
    *out = bytes ? mt_heap_alloc(bytes, MT_HEAP_DEVICE, 0) : NULL;
    return bytes && !*out ? mt_fail(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t IMPL(cudaMallocAsync)(void **out, size_t bytes, cudaStream_t stream)
{
    return alloc(out, bytes, stream);
}

cudaError_t IMPL(cudaMallocFromPoolAsync)(void **out, size_t bytes, cudaMemPool_t p, cudaStream_t stream)
{
    return get(p) ? alloc(out, bytes, stream) : mt_fail(cudaErrorInvalidValue);
}

cudaError_t IMPL(cudaFreeAsync)(void *p, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    mt_stream_wait(s); /* what is in the stream may use it */
    return !p || mt_heap_free(p, 1u << MT_HEAP_DEVICE) ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
}

cudaError_t IMPL(cudaDeviceGetDefaultMemPool)(cudaMemPool_t *out, int device)
{
    MT_RETURN_IF_FAILED();
    if (!out || device)
        return mt_fail(out ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *out = &standard;
    return cudaSuccess;
}

cudaError_t IMPL(cudaDeviceGetMemPool)(cudaMemPool_t *out, int device)
{
    cudaError_t e = IMPL(cudaDeviceGetDefaultMemPool)(out, device);
    if (!e)
        *out = current;
    return e;
}

cudaError_t IMPL(cudaDeviceSetMemPool)(int device, cudaMemPool_t p)
{
    MT_RETURN_IF_FAILED();
    if (device || !get(p))
        return mt_fail(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    current = p;
    return cudaSuccess;
}

cudaError_t IMPL(cudaMemPoolCreate)(cudaMemPool_t *out, const struct cudaMemPoolProps *props)
{
    MT_RETURN_IF_FAILED();
    if (!out || !props || props->allocType != cudaMemAllocationTypePinned)
        return mt_fail(cudaErrorInvalidValue);
    pool *p = malloc(sizeof *p);
    if (!p || mt_map_set(&pools, p, p)) {
        free(p);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *p = standard;
    *out = p;
    return cudaSuccess;
}

cudaError_t IMPL(cudaMemPoolDestroy)(cudaMemPool_t p)
{
    MT_RETURN_IF_FAILED();
    pool *found = mt_map_take(&pools, p);
    if (!found)
        return mt_fail(cudaErrorInvalidValue);
    if (current == found)
        current = &standard;
    free(found);
    return cudaSuccess;
}

cudaError_t IMPL(cudaMemPoolTrimTo)(cudaMemPool_t p, size_t keep)
{
    MT_RETURN_IF_FAILED();
    return get(p) ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
}

/* The reuse switches are int, the rest u64. */
static int is_int(enum cudaMemPoolAttr a)
{
    return a == cudaMemPoolReuseFollowEventDependencies || a == cudaMemPoolReuseAllowOpportunistic ||
           a == cudaMemPoolReuseAllowInternalDependencies;
}

cudaError_t IMPL(cudaMemPoolSetAttribute)(cudaMemPool_t p, enum cudaMemPoolAttr a, void *value)
{
    MT_RETURN_IF_FAILED();
    if (!get(p) || !value || (unsigned)a >= ATTRIBUTES)
        return mt_fail(cudaErrorInvalidValue);
    p->attribute[a] = 0;
    memcpy(&p->attribute[a], value, is_int(a) ? sizeof(int) : sizeof(uint64_t));
    return cudaSuccess;
}

cudaError_t IMPL(cudaMemPoolGetAttribute)(cudaMemPool_t p, enum cudaMemPoolAttr a, void *value)
{
    MT_RETURN_IF_FAILED();
    if (!get(p) || !value || (unsigned)a >= ATTRIBUTES)
        return mt_fail(cudaErrorInvalidValue);
    uint64_t v = p->attribute[a];
    if (a == cudaMemPoolAttrUsedMemCurrent || a == cudaMemPoolAttrReservedMemCurrent)
        v = mt_heap_used();
    memcpy(value, &v, is_int(a) ? sizeof(int) : sizeof v);
    return cudaSuccess;
}

cudaError_t IMPL(cudaMemPoolSetAccess)(cudaMemPool_t p, const struct cudaMemAccessDesc *desc, size_t count)
{
    MT_RETURN_IF_FAILED();
    return get(p) && desc ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
}

cudaError_t IMPL(cudaMemPoolGetAccess)(enum cudaMemAccessFlags *flags, cudaMemPool_t p,
                                       struct cudaMemLocation *where)
{
    MT_RETURN_IF_FAILED();
    if (!flags || !get(p))
        return mt_fail(cudaErrorInvalidValue);
    *flags = cudaMemAccessFlagsProtReadWrite;
    return cudaSuccess;
}
