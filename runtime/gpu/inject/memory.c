/* Allocations of every kind, of driver and runtime API alike, as `alloc` and `free` lines. */
#include "memory.h"
#include "trace/objects.h"
#include "trace/site.h"
#include <stdint.h>
#include <string.h>

static const void *memory_at(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

/* Memory of a peer is mapped once more under the address that it has there. */
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

/* An array has no address: its handle stands for it. */
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
