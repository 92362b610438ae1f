/* cudaMemAdvise, cudaMemPrefetchAsync and cudaMemRangeGetAttribute on the CPU device. Each piece of advice is
 * kept with its pages, in order; a question is answered by asking each stretch
 * of pages between two borders. */
#include "advise.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/device/device.h"
#include "api/streams/stream.h"
#include "format/image.h"
#include "base/fork.h"
#include "memtrace/grow.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define NOWHERE cudaInvalidDeviceId

enum topic { READ_MOSTLY, PREFERRED, ACCESSED_BY, PREFETCHED, TOPICS };

struct location {
    int type, id; /* enum cudaMemLocationType; id: device, cudaCpuDeviceId, NUMA node, or NOWHERE */
};

struct advice {
    uint64_t base, end, block; /* pages; block: where the allocation begins */
    enum topic topic;
    struct location value; /* id NOWHERE: taken back */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct advice *advices;
static size_t count, capacity;

void mt_advice_forget(uint64_t block)
{
    size_t kept = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (advices[i].block != block)
            advices[kept++] = advices[i];
    count = kept;
    pthread_mutex_unlock(&lock);
}

/* Is the memory another device's? */
static int advise_stays(const struct advice *a, int device)
{
    struct mt_block b;
    return mt_heap_find((const void *)(uintptr_t)a->block, &b) && b.device != device;
}

void mt_advice_reset(int device)
{
    size_t kept = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (advise_stays(&advices[i], device))
            advices[kept++] = advices[i];
    count = kept;
    pthread_mutex_unlock(&lock);
}

/* Managed memory, whole pages of it. cudaSuccess, or cudaErrorInvalidValue. */
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

/* Appends it; what it covers wholly says nothing any more. */
static cudaError_t advise_keep(const struct advice *a)
{
    size_t kept = 0;
    cudaError_t e = cudaSuccess;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (advices[i].topic != a->topic || advices[i].base < a->base || advices[i].end > a->end)
            advices[kept++] = advices[i];
    count = kept;
    if (mt_grow(&advices, &capacity, count + 1, sizeof *advices))
        e = cudaErrorMemoryAllocation;
    else
        advices[count++] = *a;
    pthread_mutex_unlock(&lock);
    return e;
}

/* What was said last about the page at `address`; *border: how far that goes at least. */
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

/* The answer for all pages; NOWHERE when they differ. */
static struct location ask_all(enum topic topic, const struct advice *range)
{
    struct location all = {cudaMemLocationTypeInvalid, NOWHERE};
    pthread_mutex_lock(&lock);
    for (uint64_t at = range->base, next; at < range->end; at = next) {
        next = range->end;
        struct location here = advise_ask(topic, at, &next);
        if (at == range->base)
            all = here;
        else if (here.id != all.id || here.type != all.type)
            all = (struct location){cudaMemLocationTypeInvalid, NOWHERE};
    }
    pthread_mutex_unlock(&lock);
    return all;
}

/* ---- where ---- */

static cudaError_t place_of(const struct cudaMemLocation *where, struct location *out)
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
/* The older calls name a device, or the host as device -1. */
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
        e = place_of(where, &a.value);
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
        e = place_of(where, &a.value);
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

/* The contents are not wanted any more: they may stay. */
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

/* ---- questions ---- */

/* One int of an answer. */
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
