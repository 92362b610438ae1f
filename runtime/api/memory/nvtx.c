/* NVTX's memory extension under MEMTRACE_CHECK: a program's own allocator announces its pool, and what it
 * gives out of it. Pools of the CPU device only. */
#include "api/device/device.h"
#include "api/streams/stream.h"
#include "trace/events.h"
#include "trace/objects.h"
#include "trace/selection.h"
#include "trace/site.h"
#include <stddef.h>
#include <stdint.h>

/* Interface between the extension and its tool, as far as used here. Programs call
 * through slots, which the tool fills. */

struct nvtx_segment {
    size_t id, nslots;
    intptr_t *slots;
};
struct nvtx_module {
    uint16_t version, size, module, compat;
    size_t nsegments;
    struct nvtx_segment *segments;
};
enum { NVTX_MEMORY = 1, NVTX_MEMORY_COMPAT = 0x0102 }; /* module, compat */
enum { NVTX_SUB_ALLOCATOR = 1 };                       /* usage of a heap */
enum { NVTX_VIRTUAL_ADDRESS = 1 };                     /* type of heaps and regions */

struct nvtx_range {
    size_t bytes;
    const void *p;
};
struct nvtx_heap {
    uint16_t compat, size;
    uint32_t reserved, usage, type;
    size_t range_size;
    const struct nvtx_range *range;
    uint32_t category, name_type;
    const void *name;
};
struct nvtx_register {
    uint16_t compat, size;
    uint32_t type;
    const void *heap;
    size_t count, stride;
    const char *ranges;
    const void **handles; /* NULL: none are wanted */
};
struct nvtx_resize {
    uint16_t compat, size;
    uint32_t type;
    size_t count, stride;
    const char *ranges;
};
struct nvtx_unregister {
    uint16_t compat, size;
    uint32_t reference; /* pointer or handle: ours are the same */
    size_t count, stride;
    const char *references;
};
struct nvtx_region_name {
    uint32_t reference, name_type;
    const void *region, *name;
};
struct nvtx_names {
    uint16_t compat, size;
    uint32_t reserved;
    size_t count, stride;
    const char *names;
};

#define NVTX_NO_HEAP ((const void *)(intptr_t)-1)
#define NVTX_IS(d) ((d) && (d)->compat == NVTX_MEMORY_COMPAT && (d)->size >= sizeof *(d))

/* Begins a call: what was called before it has the pool as it is, unless it makes no progress, perhaps as it
 * waits for the host. */
static void nvtx_enter(const char *name, const void *caller)
{
    static _Atomic unsigned patience = 8000; /* milliseconds */
    mt_failed_enter(name, caller);
    if (!mt_stream_settle(patience) && patience > 1)
        patience = patience / 2;
}
#define NVTX_ENTER(name) nvtx_enter(name, __builtin_return_address(0))
#define NVTX_LEAVE() mt_failed_leave(0, "")

/* A heap's handle is its first address. */
static const void *nvtx_heap_register(void *domain, const struct nvtx_heap *h)
{
    (void)domain;
    const struct nvtx_range *r =
        NVTX_IS(h) && h->usage == NVTX_SUB_ALLOCATOR && h->type == NVTX_VIRTUAL_ADDRESS ? h->range : NULL;
    if (!r || h->range_size < sizeof *r)
        return NVTX_NO_HEAP;
    NVTX_ENTER("nvtxMemHeapRegister");
    int known = mt_heap_pool_begin((uint64_t)(uintptr_t)r->p, r->bytes);
    NVTX_LEAVE();
    return known ? r->p : NVTX_NO_HEAP;
}

static void nvtx_heap_unregister(void *domain, const void *heap)
{
    (void)domain;
    NVTX_ENTER("nvtxMemHeapUnregister");
    mt_host_site_take();
    (void)mt_heap_pool_end((uint64_t)(uintptr_t)heap);
    NVTX_LEAVE();
}

static void nvtx_heap_reset(void *domain, const void *heap)
{
    (void)domain;
    NVTX_ENTER("nvtxMemHeapReset");
    mt_host_site_take();
    (void)mt_heap_pool_clear((uint64_t)(uintptr_t)heap);
    NVTX_LEAVE();
}

static void nvtx_regions_register(void *domain, const struct nvtx_register *d)
{
    (void)domain;
    if (!NVTX_IS(d) || d->type != NVTX_VIRTUAL_ADDRESS || d->stride < sizeof(struct nvtx_range) || !d->ranges)
        return;
    NVTX_ENTER("nvtxMemRegionsRegister");
    const struct mt_host_site *site = mt_host_site_take();
    for (size_t i = 0; i < d->count; i++) {
        const struct nvtx_range *r = (const void *)(d->ranges + i * d->stride);
        (void)mt_heap_region_begin((uint64_t)(uintptr_t)d->heap, (uint64_t)(uintptr_t)r->p, r->bytes, site);
        if (d->handles)
            d->handles[i] = r->p;
    }
    NVTX_LEAVE();
}

static void nvtx_regions_resize(void *domain, const struct nvtx_resize *d)
{
    (void)domain;
    if (!NVTX_IS(d) || d->type != NVTX_VIRTUAL_ADDRESS || d->stride < sizeof(struct nvtx_range) || !d->ranges)
        return;
    NVTX_ENTER("nvtxMemRegionsResize");
    mt_host_site_take();
    for (size_t i = 0; i < d->count; i++) {
        const struct nvtx_range *r = (const void *)(d->ranges + i * d->stride);
        (void)mt_heap_region_resize((uint64_t)(uintptr_t)r->p, r->bytes);
    }
    NVTX_LEAVE();
}

static void nvtx_regions_unregister(void *domain, const struct nvtx_unregister *d)
{
    (void)domain;
    if (!NVTX_IS(d) || d->stride < sizeof(void *) || !d->references)
        return;
    NVTX_ENTER("nvtxMemRegionsUnregister");
    mt_host_site_take();
    for (size_t i = 0; i < d->count; i++) {
        const void *const *p = (const void *)(d->references + i * d->stride);
        (void)mt_heap_region_end((uint64_t)(uintptr_t)*p);
    }
    NVTX_LEAVE();
}

/* Also of memory that is in no pool. */
static void nvtx_regions_name(void *domain, const struct nvtx_names *d)
{
    char text[MT_NVTX_TEXT];
    (void)domain;
    if (!NVTX_IS(d) || d->stride < sizeof(struct nvtx_region_name) || !d->names)
        return;
    for (size_t i = 0; i < d->count; i++) {
        const struct nvtx_region_name *n = (const void *)(d->names + i * d->stride);
        if (mt_nvtx_text(text, (int32_t)n->name_type, n->name))
            mt_object_name_whole(n->region, text);
    }
}

/* By slot; the extension's other functions stay without effect. */
static const intptr_t *nvtx_slots(size_t *count)
{
    static intptr_t slots[7];
    slots[0] = (intptr_t)nvtx_heap_register;
    slots[1] = (intptr_t)nvtx_heap_unregister;
    slots[2] = (intptr_t)nvtx_heap_reset;
    slots[3] = (intptr_t)nvtx_regions_register;
    slots[4] = (intptr_t)nvtx_regions_resize;
    slots[5] = (intptr_t)nvtx_regions_unregister;
    slots[6] = (intptr_t)nvtx_regions_name;
    *count = sizeof slots / sizeof *slots;
    return slots;
}

/* Called by NVTX once for each copy of an extension in the process. Returns 1 to be used as its tool; 0: the
 * extension does nothing. */
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(const struct nvtx_module *m)
{
    size_t n;
    if (!mt_tracing() || !mt_failed_watched() || !m || m->size < sizeof *m || m->module != NVTX_MEMORY ||
        m->compat != NVTX_MEMORY_COMPAT || m->nsegments < 1 || m->segments->id != 1)
        return 0;
    const intptr_t *slots = nvtx_slots(&n);
    for (size_t i = 0; i < n && i < m->segments->nslots; i++)
        m->segments->slots[i] = slots[i];
    return 1;
}
