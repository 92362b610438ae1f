/* Memory operations of the program besides kernels, as the same lines that the CPU device writes: allocations
 * of driver and runtime API, copies and fills, and the order made by events. */
#include "base/fork.h"
#include "inject.h"
#include "trace/events.h"
#include "trace/ranges.h"
#include "trace/objects.h"
#include "trace/site.h"
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* ---- Events: numbered at creation, with lines for their records and waits ---- */

/* By the event's handle; data: its number + 1. */
static struct mt_ranges order_events = MT_RANGES_INIT;
MT_FORK_TABLE(order_events);
static atomic_uint_least64_t order_count;

static uint64_t order_key(CUevent e)
{
    return (uint64_t)(uintptr_t)e;
}

static void order_add(CUevent e)
{
    struct mt_range old;
    uint64_t number = atomic_fetch_add(&order_count, 1);
    mt_ranges_take(&order_events, order_key(e), &old); /* destroyed without a callback, and created again */
    mt_ranges_add(&order_events, order_key(e), 1, (void *)(uintptr_t)(number + 1));
}

/* Returns its number, or -1 if it was created before this library was loaded. */
static int64_t order_number(CUevent e)
{
    struct mt_range r;
    return mt_ranges_find(&order_events, order_key(e), &r) ? (int64_t)(uintptr_t)r.data - 1 : -1;
}

/* Layout of the data from API version 13.1 on. */
struct order_green {
    CUevent event;
    CUcontext context;
    void *green;
    CUstream stream;
    Sanitizer_StreamHandle handle;
};

static void order_note(const char *op, const Sanitizer_EventData *e)
{
    const struct order_green *newer = (const void *)e;
    int64_t number = order_number(e->event);
    if (number >= 0)
        mt_event_event(
            op, (uint64_t)number,
            mt_inject_stream_number(e->context, mt_inject_green() > 0 ? newer->handle : e->hStream));
}

void mt_inject_event(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_EventData *e = data;
    struct mt_range gone;
    switch (cbid) {
    case SANITIZER_CBID_EVENTS_CREATED:
        order_add(e->event);
        break;
    case SANITIZER_CBID_EVENTS_DESTROYED:
        mt_ranges_take(&order_events, order_key(e->event), &gone);
        break;
    case SANITIZER_CBID_EVENTS_RECORD:
        order_note("record", e);
        break;
    case SANITIZER_CBID_EVENTS_STREAM_WAIT:
        order_note("wait", e);
        break;
    case SANITIZER_CBID_EVENTS_SYNCHRONIZE:
        mt_event_sync("event", order_number(e->event));
        break;
    default:
        break;
    }
}

/* Copies, fills and stream memory operations, logged when they begin. Callbacks do not give the distance
 * between the planes of a copy: they are taken to be contiguous. */

static const char *copy_kind(const Sanitizer_MemcpyData *m)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d"};
    if (m->direction >= SANITIZER_MEMCPY_DIRECTION_HOST_TO_HOST &&
        m->direction <= SANITIZER_MEMCPY_DIRECTION_DEVICE_TO_DEVICE)
        return kinds[m->direction - SANITIZER_MEMCPY_DIRECTION_HOST_TO_HOST];
    return kinds[(mt_object_is_device((void *)(uintptr_t)m->dstAddress) ? 1 : 0) |
                 (mt_object_is_device((void *)(uintptr_t)m->srcAddress) ? 2 : 0)];
}

/* Returns rows and planes if they make up the total, else one block. */
static struct mt_planes_size copy_size(const Sanitizer_MemcpyData *m)
{
    struct mt_planes_size s = {m->width, m->height ? m->height : 1, m->depth ? m->depth : 1};
    uint64_t rows = 0, bytes = 0;
    if (__builtin_mul_overflow(s.width, s.height, &rows) || __builtin_mul_overflow(rows, s.depth, &bytes) ||
        (m->size && bytes != m->size))
        return (struct mt_planes_size){m->size, 1, 1};
    return s;
}

static struct mt_planes copy_planes(uint64_t at, uint64_t pitch, const struct mt_planes_size *s)
{
    pitch = pitch ? pitch : s->width;
    return (struct mt_planes){at, pitch, pitch * s->height, mt_object_device((void *)(uintptr_t)at)};
}

void mt_inject_copied(const Sanitizer_MemcpyData *m, int64_t stream)
{
    struct mt_planes_size size = copy_size(m);
    mt_planes_copied(copy_planes(m->dstAddress, m->dstPitch, &size),
                     copy_planes(m->srcAddress, m->srcPitch, &size), size,
                     &(struct mt_memcpy_line){.kind = copy_kind(m), .stream = stream}, mt_host_site_take());
}

/* Width counts elements, as in the driver's functions. */
void mt_inject_filled(const Sanitizer_MemsetData *m, int64_t stream)
{
    uint32_t element = m->elementSize ? m->elementSize : 1;
    struct mt_planes_size size = {m->width * element, m->height ? m->height : 1, 1};
    mt_planes_filled(copy_planes(m->address, m->pitch, &size), size, m->value, stream, mt_host_site_take());
}

void mt_inject_memcpy(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_MemcpyData *m = data;
    if (cbid == SANITIZER_CBID_MEMCPY_STARTING)
        mt_inject_copied(m, mt_inject_stream_number(m->apiContext, m->hApiStream));
}

void mt_inject_memset(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_MemsetData *m = data;
    if (cbid == SANITIZER_CBID_MEMSET_STARTING)
        mt_inject_filled(m, mt_inject_stream_number(m->context, m->hStream));
}

void mt_inject_batch(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_BatchMemopData *b = data;
    uint64_t bytes = b->type == SANITIZER_BATCH_MEMOP_TYPE_64B ? 8 : 4;
    if (cbid == SANITIZER_CBID_BATCH_MEMOP_WRITE)
        mt_planes_filled((struct mt_planes){b->address, bytes, bytes, -1},
                         (struct mt_planes_size){bytes, 1, 1}, b->value,
                         mt_inject_stream_number(b->context, b->hStream), mt_host_site_take());
}

static const void *memory_at(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

/* Returns whether this is the mapping of a peer's memory at its existing address. */
static int memory_is_mapping(const Sanitizer_ResourceMemoryData *m)
{
    return m->flags & (SANITIZER_MEMORY_FLAG_PEER | SANITIZER_MEMORY_FLAG_PEER_ATOMIC) ? 1 : 0;
}

static const char *memory_kind(const Sanitizer_ResourceMemoryData *m)
{
    if (m->flags & SANITIZER_MEMORY_FLAG_MANAGED)
        return "managed";
    if (m->flags & SANITIZER_MEMORY_FLAG_MODULE)
        return "symbol";
    if (m->flags & (SANITIZER_MEMORY_FLAG_CG_RUNTIME | SANITIZER_MEMORY_FLAG_CNP))
        return "device";
    return m->flags & SANITIZER_MEMORY_FLAG_HOST_PINNED ? "host" : "cudaMalloc";
}

static void memory_add(const Sanitizer_ResourceMemoryData *m, const char *kind)
{
    int shared = !strcmp(kind, "managed") || !strcmp(kind, "host");
    if (!memory_is_mapping(m))
        mt_object_add(memory_at(m->address), m->size, kind, shared ? -1 : m->device, mt_host_site_take());
}

static void memory_gone(const void *p)
{
    mt_object_done(mt_object_take(p), 1);
}

void mt_inject_allocated(const Sanitizer_ResourceMemoryData *m)
{
    memory_add(m, "async");
}

void mt_inject_freed(uint64_t address)
{
    memory_gone(memory_at(address));
}

/* Logs an array by its handle, since it has no address. */
static void memory_array(Sanitizer_CallbackId cbid, const Sanitizer_ResourceArrayData *a)
{
    if (cbid == SANITIZER_CBID_RESOURCE_ARRAY_CREATED)
        mt_object_add(a->hArray, 0, "array", -1, mt_host_site_take());
    else
        memory_gone(a->hArray);
}

void mt_inject_memory(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceMemoryData *m = data;
    switch (cbid) {
    case SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC:
        memory_add(m, memory_kind(m));
        break;
    case SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC:
        memory_add(m, "host");
        break;
    case SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC:
        memory_add(m, "async");
        break;
    case SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER:
        memory_add(m, "ipc");
        break;
    case SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE:
    case SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE:
    case SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC:
        if (!memory_is_mapping(m))
            mt_inject_freed(m->address);
        break;
    case SANITIZER_CBID_RESOURCE_ARRAY_CREATED:
    case SANITIZER_CBID_RESOURCE_ARRAY_DESTROYED:
        memory_array(cbid, data);
        break;
    default:
        break;
    }
}
