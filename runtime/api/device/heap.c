/* Memory of the CPU device that kernels may access and cudaMemcpy accepts. */
#define _GNU_SOURCE

#include "device.h"
#include "api/tables/arena.h"
#include "trace/devices.h"
#include "format/image.h"
#include "base/file.h"
#include "base/options.h"
#include "trace/ranges.h"
#include "base/fork.h"
#include "cpu/cpu.h"
#include "trace/objects.h"
#include "trace/trace.h"
#include "trace/events.h"
#include "base/report.h"
#include "base/source_name.h"
#include "memtrace/hash.h"
#include "memtrace/record.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "trace/site.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAP_FROM (1u << 20) /* smallest block with its own mapping, and an unmapped page after it */
/* Under MEMTRACE_CHECK: */
#define GUARD (64u << 10)         /* unmapped bytes after a large block */
#define QUARANTINE (256ull << 20) /* freed memory that is not reused yet */

static struct mt_ranges blocks = MT_RANGES_INIT;
MT_FORK_TABLE(blocks);
/* Read-locked while a block of the table is used; write-locked before a block taken out is freed. */
static pthread_rwlock_t life = PTHREAD_RWLOCK_INITIALIZER;
MT_FORK_ENTRY(life, &life, MT_FORK_RWLOCK, MT_FORK_HEAP);
_Atomic uint64_t mt_heap_used[MT_DEVICES_MAX];
_Atomic uint64_t mt_heap_generation = 1;

/* Freed blocks whose memory is kept, oldest first; under the lock. */
static pthread_mutex_t freed_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(freed_lock, MT_FORK_LEAVES);
static struct mt_block *freed, **freed_end = &freed;
static uint64_t freed_bytes;

static int heap_counted(enum mt_heap_kind kind)
{
    return kind == MT_HEAP_DEVICE || kind == MT_HEAP_MANAGED;
}

static int heap_is_ours(enum mt_heap_kind kind)
{
    return kind != MT_HEAP_REGISTERED && kind != MT_HEAP_SYMBOL && kind != MT_HEAP_IPC;
}

/* Takes `bytes` from the device's memory. Returns 0, or -1 if too little is left. */
static int heap_reserve(int device, uint64_t bytes)
{
    uint64_t total = mt_device_memory(), now = mt_heap_used[device];
    do
        if (bytes > total || now > total - bytes)
            return -1;
    while (!atomic_compare_exchange_weak(&mt_heap_used[device], &now, now + bytes));
    return 0;
}

/* Returns the size of a small block, with the gap after it under MEMTRACE_CHECK. */
static size_t small_bytes(const struct mt_block *b)
{
    return b->bytes + (mt_options()->check ? MT_HEAP_GAP : 0);
}

/* Returns whether the pages of a block hold nothing else: the gap after it is longer than a page. */
static int heap_has_pages(const struct mt_block *b)
{
    return mt_options()->check && (b->kind == MT_HEAP_MANAGED || b->kind == MT_HEAP_HOST);
}

static void *heap_get(struct mt_block *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), guard = mt_options()->check ? GUARD : page;
    if (b->bytes >= MAP_FROM) {
        size_t bytes = (b->bytes + page - 1) / page * page + guard;
        char *p =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            mprotect(p + bytes - guard, guard, PROT_NONE); /* failure is harmless */
            b->mapped_base = (uint64_t)(uintptr_t)p;
            b->mapped_bytes = bytes;
            return p;
        }
    }
    /* Managed memory begins at a page, since advice applies to pages; under MEMTRACE_CHECK pinned memory, too
     * (streams/guard.h). */
    size_t align = b->kind == MT_HEAP_MANAGED || heap_has_pages(b) ? page : MT_DEV_ALIGN;
    return mt_arena_get(small_bytes(b), align, &b->segment);
}

/* Returns the memory to the system. */
static void heap_release(struct mt_block *b)
{
    if (b->shared.ino)
        mt_fd_close(&b->shared);
    if (b->mapped_base)
        munmap((void *)(uintptr_t)b->mapped_base, b->mapped_bytes);
    else if (b->segment)
        mt_arena_put(b->segment, (void *)(uintptr_t)b->base, small_bytes(b));
    free(b);
}

/* Keeps a freed block for a while, to detect late accesses. */
static void heap_keep(struct mt_block *b)
{
    struct mt_block *out = NULL, **end = &out;
    b->freed = b->freed ? b->freed : mt_host_site_taken;
    b->next = NULL;
    pthread_mutex_lock(&freed_lock);
    *freed_end = b;
    freed_end = &b->next;
    freed_bytes += b->bytes;
    while (freed_bytes > QUARANTINE && freed != b) {
        *end = freed;
        freed_bytes -= freed->bytes;
        end = &freed->next;
        freed = freed->next;
        *end = NULL;
    }
    pthread_mutex_unlock(&freed_lock);
    while (out) {
        struct mt_block *next = out->next;
        heap_release(out);
        out = next;
    }
}

static void region_forget(const struct mt_block *b);

static void heap_drop(struct mt_block *b)
{
    if (b->pooled)
        region_forget(b);
    pthread_rwlock_wrlock(&life); /* no reader is left */
    pthread_rwlock_unlock(&life);
    if (heap_counted(b->kind))
        mt_heap_used[b->device] -= b->bytes;
    if (mt_options()->check && heap_is_ours(b->kind))
        heap_keep(b);
    else
        heap_release(b);
}

void *mt_heap_alloc(int device, size_t bytes, enum mt_heap_kind kind, unsigned flags)
{
    if (bytes > mt_device_memory() || (heap_counted(kind) && heap_reserve(device, bytes)))
        return NULL;
    struct mt_block *b = calloc(1, sizeof *b);
    if (!b) {
        mt_heap_used[device] -= heap_counted(kind) ? bytes : 0;
        return NULL;
    }
    b->bytes = bytes;
    b->kind = kind;
    b->device = device;
    b->flags = flags;
    b->site = mt_host_site_taken;
    void *p = heap_get(b);
    b->base = (uint64_t)(uintptr_t)p;
    if (p && !mt_ranges_add(&blocks, b->base, bytes, b)) {
        mt_heap_generation++;
        return p;
    }
    mt_heap_used[device] -= heap_counted(kind) ? bytes : 0;
    heap_release(b);
    return NULL;
}

int mt_heap_adopt(int device, void *base, size_t bytes, enum mt_heap_kind kind, unsigned flags)
{
    struct mt_block *b = calloc(1, sizeof *b);
    if (!b)
        return ENOMEM;
    b->base = (uint64_t)(uintptr_t)base;
    b->bytes = bytes;
    b->kind = kind;
    b->device = device;
    b->flags = flags;
    b->site = kind == MT_HEAP_SYMBOL ? NULL : mt_host_site_taken;
    int rc = mt_ranges_add(&blocks, b->base, bytes, b);
    if (rc)
        free(b);
    else if (heap_counted(kind))
        mt_heap_used[device] += bytes;
    mt_heap_generation++;
    return rc;
}

int mt_heap_share(void *base, struct mt_heap_file *f)
{
    static _Atomic uint32_t serial;
    struct mt_range r;
    int rc = 0;
    if (!mt_ranges_find(&blocks, (uint64_t)(uintptr_t)base, &r) || r.base != (uint64_t)(uintptr_t)base)
        return EINVAL;
    struct mt_block *b = r.data;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (b->bytes + page - 1) / page * page;
    if (b->kind != MT_HEAP_DEVICE)
        return EINVAL;
    if (!b->serial)
        b->serial = ++serial;
    *f = (struct mt_heap_file){.bytes = b->bytes, .serial = b->serial};
    const struct mt_fd *file = &b->shared;
    if (!b->mapped_base)
        rc = mt_arena_share(b->segment, base, &file, &f->offset);
    else if (!b->shared.ino)
        rc = mt_memory_share(base, whole, &b->shared);
    if (rc)
        return rc;
    if (!mt_fd_is(file)) /* the program has closed it, so it cannot be found any more */
        return ENOTSUP;
    f->fd = file->fd;
    return 0;
}

/* Returns the block that begins at `base`, of one of the kinds. Called with `life` held. */
static struct mt_block *begins_at(const void *base, unsigned kinds)
{
    struct mt_range r;
    if (!mt_ranges_find(&blocks, (uint64_t)(uintptr_t)base, &r) || r.base != (uint64_t)(uintptr_t)base)
        return NULL;
    struct mt_block *b = r.data;
    return kinds & 1u << b->kind ? b : NULL;
}

static int heap_free_block(void *base, unsigned kinds, int condemned, int path, uint32_t n)
{
    struct mt_range r;
    pthread_rwlock_rdlock(&life);
    const struct mt_block *b = begins_at(base, kinds);
    int ok = b && b->condemned == condemned;
    pthread_rwlock_unlock(&life);
    if (!ok || !mt_ranges_take(&blocks, (uint64_t)(uintptr_t)base, &r))
        return 0;
    mt_heap_generation++;
    struct mt_block *taken = r.data;
    taken->freed_path = path;
    taken->freed_n = n;
    heap_drop(taken);
    return 1;
}

int mt_heap_free(void *base, unsigned kinds)
{
    return heap_free_block(base, kinds, 0, 0, 0);
}

int mt_heap_free_condemned(void *base, int path, uint32_t n)
{
    return heap_free_block(base, ~0u, 1, path, n);
}

int mt_heap_condemn(void *base, unsigned kinds)
{
    pthread_rwlock_wrlock(&life); /* others copy the block */
    struct mt_block *b = begins_at(base, kinds);
    int ok = b && !b->condemned;
    if (ok) {
        b->condemned = 1;
        b->freed = mt_host_site_taken;
    }
    pthread_rwlock_unlock(&life);
    return ok;
}

void mt_heap_identify(const void *p, int64_t id)
{
    pthread_rwlock_wrlock(&life);
    struct mt_block *b = mt_options()->check ? begins_at(p, ~0u) : NULL;
    if (b)
        b->id = id + 1;
    pthread_rwlock_unlock(&life);
}

int mt_heap_find(const void *p, struct mt_block *out)
{
    struct mt_range r;
    pthread_rwlock_rdlock(&life);
    int found = mt_ranges_find(&blocks, (uint64_t)(uintptr_t)p, &r);
    if (found)
        *out = *(struct mt_block *)r.data;
    pthread_rwlock_unlock(&life);
    return found;
}

/* Returns whether it is device memory outside of our mappings and segments. */
static int heap_is_virtual(const struct mt_block *b)
{
    return b->kind == MT_HEAP_DEVICE && !b->mapped_base && !b->segment;
}

uint64_t mt_heap_reach(const void *p, int device, struct mt_block *out)
{
    if (!mt_heap_find(p, out))
        return 0;
    struct mt_block b = *out;
    uint64_t end = b.base + b.bytes;
    while (heap_is_virtual(&b) && mt_heap_find((const void *)(uintptr_t)end, &b) && heap_is_virtual(&b) &&
           (device < 0 || mt_heap_reaches(device, &b)))
        end = b.base + b.bytes;
    return end - (uint64_t)(uintptr_t)p;
}

/* Finds the last block that begins at or below `address` and the first one above; bytes is 0 if there is
 * none. */
static void heap_around(uint64_t address, struct mt_block *below, struct mt_block *above)
{
    struct mt_range b, a;
    pthread_rwlock_rdlock(&life);
    mt_ranges_around(&blocks, address, &b, &a);
    *below = b.data ? *(struct mt_block *)b.data : (struct mt_block){0};
    *above = a.data ? *(struct mt_block *)a.data : (struct mt_block){0};
    pthread_rwlock_unlock(&life);
}

/* Under MEMTRACE_CHECK=1: finds a recently freed block that held `address`. Returns 1 with *out set, or 0. */
static int heap_find_freed(uint64_t address, struct mt_block *out)
{
    int found = 0;
    pthread_mutex_lock(&freed_lock);
    for (const struct mt_block *b = freed; b; b = b->next)
        if (address - b->base < b->bytes) {
            *out = *b;
            found = 1;
        }
    pthread_mutex_unlock(&freed_lock);
    return found;
}

static int heap_is_of_one(const struct mt_block *b)
{
    return b->kind == MT_HEAP_DEVICE || b->kind == MT_HEAP_IPC ||
           (b->kind == MT_HEAP_SYMBOL && b->flags != MT_VAR_MANAGED);
}

int mt_heap_owner(const void *p)
{
    struct mt_block b;
    return mt_heap_find(p, &b) && heap_is_of_one(&b) ? b.device : -1;
}

int mt_heap_reaches(int device, const struct mt_block *b)
{
    if (!heap_is_of_one(b))
        return 1;
    return b->readers ? (int)(b->readers >> device & 1)
                      : device == b->device || mt_device_peers[device][b->device];
}

void mt_heap_open(const void *base, uint64_t readers)
{
    pthread_rwlock_wrlock(&life); /* others copy the block */
    struct mt_block *b = begins_at(base, 1u << MT_HEAP_DEVICE);
    if (b)
        b->readers = readers;
    pthread_rwlock_unlock(&life);
    mt_heap_generation++;
}

void mt_heap_open_pool(unsigned pool, uint64_t readers)
{
    struct mt_range below, r;
    pthread_rwlock_wrlock(&life);
    for (uint64_t at = 0; mt_ranges_around(&blocks, at, &below, &r), r.bytes; at = r.base) {
        struct mt_block *b = r.data;
        if (b->kind == MT_HEAP_DEVICE && b->flags == pool)
            b->readers = readers;
    }
    pthread_rwlock_unlock(&life);
    mt_heap_generation++;
}

void mt_heap_each_shared(void (*f)(const struct mt_block *b))
{
    struct mt_range below, r;
    pthread_rwlock_rdlock(&life);
    for (uint64_t at = 0; mt_ranges_around(&blocks, at, &below, &r), r.bytes; at = r.base) {
        const struct mt_block *b = r.data;
        if (heap_has_pages(b) || b->kind == MT_HEAP_REGISTERED ||
            (b->kind == MT_HEAP_SYMBOL && b->flags == MT_VAR_MANAGED))
            f(b);
    }
    pthread_rwlock_unlock(&life);
}

void mt_heap_reset(int device)
{
    struct mt_range r;
    struct mt_ranges stay = MT_RANGES_INIT;
    while (mt_ranges_pop(&blocks, &r)) {
        struct mt_block *b = r.data;
        if (!heap_is_ours(b->kind) || b->device != device)
            mt_ranges_add(&stay, r.base, r.bytes, b);
        else
            heap_drop(b);
    }
    while (mt_ranges_pop(&stay, &r))
        mt_ranges_add(&blocks, r.base, r.bytes, r.data);
    mt_heap_generation++;
}

/* ---- Pools that the program announces under MEMTRACE_CHECK. Calls come from allocators, which have locks of
 * their own; region_lock is for programs that have none. ---- */

struct heap_pool {
    uint64_t base, bytes;
    struct mt_block block; /* that it is in, as it was */
    int64_t id;            /* of the allocation that it was until then, or -1 */
    const char *kind;      /* of that, and its device */
    int device;
};
enum { REGIONS_GONE = 1024 };
static pthread_mutex_t region_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(region_lock, MT_FORK_CAPTURES);
static struct mt_ranges heap_pools = MT_RANGES_INIT, regions = MT_RANGES_INIT;
MT_FORK_TABLE(heap_pools);
MT_FORK_TABLE(regions);
static _Atomic int any_pools;
static struct mt_block regions_gone[REGIONS_GONE]; /* the last ones; under freed_lock */
static unsigned nregions_gone;

/* Gives bytes of the pool to an allocation of the trace. */
static int64_t region_object(const struct heap_pool *p, const struct mt_block *r, int64_t from)
{
    return p->kind ? mt_object_add_from((const void *)(uintptr_t)r->base, r->bytes, p->kind, p->device,
                                        r->site, from)
                   : -1;
}

/* Ends a region that was taken out of the table; gone: late accesses are its. */
static void region_drop(struct mt_block *r, int gone)
{
    mt_object_done(mt_object_take((const void *)(uintptr_t)r->base), 1);
    r->freed = mt_host_site_taken;
    if (gone) {
        pthread_mutex_lock(&freed_lock);
        regions_gone[nregions_gone++ % REGIONS_GONE] = *r;
        pthread_mutex_unlock(&freed_lock);
    }
    pthread_rwlock_wrlock(&life); /* no reader is left */
    pthread_rwlock_unlock(&life);
    free(r);
}

/* Returns the first region of the pool, or NULL. */
static struct mt_block *region_first(const struct heap_pool *p)
{
    struct mt_range below, above;
    mt_ranges_around(&regions, p->base, &below, &above);
    struct mt_block *r = below.bytes && below.base == p->base ? below.data : above.bytes ? above.data : NULL;
    return r && r->base - p->base < p->bytes ? r : NULL;
}

static void region_clear(const struct heap_pool *p)
{
    struct mt_range taken;
    for (struct mt_block *r; (r = region_first(p)) && mt_ranges_take(&regions, r->base, &taken);)
        region_drop(r, 1);
}

/* Returns the pool that begins at `base`, or NULL. Called with region_lock. */
static struct heap_pool *region_pool(uint64_t base)
{
    struct mt_range r;
    return mt_ranges_find(&heap_pools, base, &r) && r.base == base ? r.data : NULL;
}

/* Ends all pools of a block that was freed. */
static void region_forget(const struct mt_block *b)
{
    struct mt_range r;
    pthread_mutex_lock(&region_lock);
    for (uint64_t at = b->base, end = at + b->bytes; at < end;) {
        struct mt_range below, above;
        mt_ranges_around(&heap_pools, at, &below, &above);
        r = below.bytes && below.base == at ? below : above;
        if (!r.bytes || r.base >= end)
            break;
        region_clear(r.data);
        mt_ranges_take(&heap_pools, r.base, &r);
        free(r.data);
        at = r.base + r.bytes;
    }
    pthread_mutex_unlock(&region_lock);
    mt_objects_end((const void *)(uintptr_t)b->base, b->bytes);
}

int mt_heap_pool_begin(uint64_t base, uint64_t bytes)
{
    struct heap_pool *p = calloc(1, sizeof *p);
    int ok = p && bytes && mt_heap_find((const void *)(uintptr_t)base, &p->block) &&
             bytes <= p->block.base + p->block.bytes - base;
    pthread_mutex_lock(&region_lock);
    if (!ok || mt_ranges_add(&heap_pools, base, bytes, p)) {
        pthread_mutex_unlock(&region_lock);
        free(p);
        return 0;
    }
    p->base = base;
    p->bytes = bytes;
    p->id = mt_object_split((const void *)(uintptr_t)base, bytes, p->block.site, &p->kind, &p->device);
    pthread_rwlock_wrlock(&life);
    struct mt_block *b = begins_at((const void *)(uintptr_t)p->block.base, ~0u);
    if (b)
        b->pooled = 1;
    pthread_rwlock_unlock(&life);
    any_pools = 1;
    mt_heap_generation++;
    pthread_mutex_unlock(&region_lock);
    return 1;
}

/* The memory is an allocation again, as before the pool. */
static void region_give_up(const struct heap_pool *p)
{
    struct mt_block whole = {.base = p->base, .bytes = p->bytes, .site = p->block.site};
    int64_t id = region_object(p, &whole, p->id);
    if (p->base == p->block.base && p->bytes == p->block.bytes)
        mt_heap_identify((const void *)(uintptr_t)p->base, id);
}

int mt_heap_pool_end(uint64_t base)
{
    struct mt_range r;
    pthread_mutex_lock(&region_lock);
    struct heap_pool *p = region_pool(base);
    if (p) {
        region_clear(p);
        region_give_up(p);
        mt_ranges_take(&heap_pools, base, &r);
        free(p);
        mt_heap_generation++;
    }
    pthread_mutex_unlock(&region_lock);
    return p != NULL;
}

int mt_heap_pool_clear(uint64_t base)
{
    pthread_mutex_lock(&region_lock);
    struct heap_pool *p = region_pool(base);
    if (p)
        region_clear(p);
    mt_heap_generation++;
    pthread_mutex_unlock(&region_lock);
    return p != NULL;
}

/* Adds a region made of this one, with the contents of allocation `from`. */
static int region_add(const struct heap_pool *p, const struct mt_block *like, int64_t from)
{
    struct mt_block *r = malloc(sizeof *r);
    if (!r || mt_ranges_add(&regions, like->base, like->bytes, r)) {
        free(r);
        return 0;
    }
    *r = *like;
    r->id = region_object(p, r, from) + 1;
    mt_heap_generation++;
    return 1;
}

int mt_heap_region_begin(uint64_t pool, uint64_t base, uint64_t bytes, const struct mt_host_site *site)
{
    int ok = 0;
    pthread_mutex_lock(&region_lock);
    const struct heap_pool *p = region_pool(pool);
    if (p && bytes && base - p->base < p->bytes && bytes <= p->bytes - (base - p->base)) {
        struct mt_block r = {.base = base, .bytes = bytes, .kind = p->block.kind, .device = p->block.device};
        r.site = site;
        ok = region_add(p, &r, p->id);
    }
    pthread_mutex_unlock(&region_lock);
    return ok;
}

int mt_heap_region_end(uint64_t base)
{
    struct mt_range r;
    pthread_mutex_lock(&region_lock);
    int ok = mt_ranges_take(&regions, base, &r);
    if (ok)
        region_drop(r.data, 1);
    mt_heap_generation++;
    pthread_mutex_unlock(&region_lock);
    return ok;
}

int mt_heap_region_resize(uint64_t base, uint64_t bytes)
{
    struct mt_range r, p;
    int ok = 0;
    pthread_mutex_lock(&region_lock);
    if (bytes && mt_ranges_find(&heap_pools, base, &p) && bytes <= p.base + p.bytes - base &&
        mt_ranges_take(&regions, base, &r)) {
        struct mt_block was = *(struct mt_block *)r.data, now = was;
        now.bytes = bytes;
        region_drop(r.data, 0);
        ok = region_add(p.data, &now, was.id - 1) || region_add(p.data, &was, was.id - 1);
    }
    pthread_mutex_unlock(&region_lock);
    return ok;
}

void mt_heap_pools_finish(void)
{
    struct mt_range below, r;
    pthread_mutex_lock(&region_lock);
    for (uint64_t at = 0; mt_ranges_around(&heap_pools, at, &below, &r), r.bytes; at = r.base)
        if (!region_first(r.data))
            region_give_up(r.data);
    pthread_mutex_unlock(&region_lock);
}

/* Narrows [*base, *base + *bytes), which contains the address and is allocated, to its region, or to what is
 * outside of pools. Returns 0 if it is in a pool, and in no region. */
static int region_find(uint64_t address, uint64_t *base, uint64_t *bytes)
{
    struct mt_range below, above, r;
    uint64_t end = *base + *bytes;
    if (!any_pools)
        return 1;
    if (mt_ranges_find(&heap_pools, address, &r)) {
        if (!mt_ranges_find(&regions, address, &r))
            return 0;
        *base = r.base;
        *bytes = r.bytes;
        return 1;
    }
    mt_ranges_around(&heap_pools, address, &below, &above);
    *base = below.bytes && below.base + below.bytes > *base ? below.base + below.bytes : *base;
    *bytes = (above.bytes && above.base < end ? above.base : end) - *base;
    return 1;
}

/* Heap of malloc and free in kernels: memory of the C library, limited by cudaLimitMallocHeapSize. A block
 * counts as its bytes, rounded up to CUDA's alignment of 16. Under MEMTRACE_CHECK freed memory is not reused
 * at once: late accesses are found, and a block's threads are not confused with those of the next one at its
 * address. */

enum { ALIGN = 16 };
static struct mt_ranges device_heap_blocks = MT_RANGES_INIT;
MT_FORK_TABLE(device_heap_blocks);
static _Atomic uint64_t kernels_used, limit = MT_DEV_KERNEL_HEAP;
static _Atomic int in_use; /* by a kernel, since the last device reset */

#define LATE (64ull << 20) /* most bytes kept so */

/* Freed blocks, oldest first. Each begins with its list's link, which no access of a kernel can reach. */
struct late {
    struct late *next;
    uint64_t bytes;
};
static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(late_lock, MT_FORK_LEAVES);
static struct late *oldest, **newest = &oldest;
static uint64_t late_bytes;

static uint64_t device_heap_counted(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Returns 0, or -1 if too little is left. */
static int device_heap_reserve(uint64_t bytes)
{
    uint64_t now = kernels_used, most = limit;
    do
        if (bytes > most || now > most - bytes || device_heap_counted(bytes) > most - now)
            return -1;
    while (!atomic_compare_exchange_weak(&kernels_used, &now, now + device_heap_counted(bytes)));
    return 0;
}

static void check_device_heap(const struct mt_range *freed);

static void *device_heap_get(uint64_t bytes)
{
    in_use = 1;
    if (device_heap_reserve(bytes))
        return NULL;
    void *p = malloc(device_heap_counted(bytes));
    if (!p || mt_ranges_add(&device_heap_blocks, (uint64_t)(uintptr_t)p, bytes, NULL)) {
        kernels_used -= device_heap_counted(bytes);
        free(p);
        return NULL;
    }
    check_device_heap(NULL);
    mt_object_add(p, bytes, "device", -1, NULL);
    return p;
}

static void device_heap_drop_late(uint64_t most)
{
    while (late_bytes > most) {
        struct late *l = oldest;
        oldest = l->next;
        newest = oldest ? newest : &oldest;
        late_bytes -= l->bytes;
        free(l);
    }
}

static void device_heap_late(struct late *l, uint64_t bytes)
{
    pthread_mutex_lock(&late_lock);
    *l = (struct late){NULL, bytes};
    *newest = l;
    newest = &l->next;
    late_bytes += bytes;
    device_heap_drop_late(LATE);
    pthread_mutex_unlock(&late_lock);
}

static void device_heap_drop(const struct mt_range *r)
{
    void *p = (void *)(uintptr_t)r->base;
    uint64_t bytes = device_heap_counted(r->bytes);
    mt_object_done(mt_object_take(p), 1);
    kernels_used -= bytes;
    if (mt_options()->check && bytes >= sizeof(struct late))
        device_heap_late(p, bytes);
    else
        free(p);
}

static int device_heap_put(void *p)
{
    struct mt_range r;
    in_use = 1;
    if (!mt_ranges_take(&device_heap_blocks, (uint64_t)(uintptr_t)p, &r))
        return -1;
    check_device_heap(&r);
    device_heap_drop(&r);
    return 0;
}

int mt_device_heap_limit(size_t bytes)
{
    if (in_use)
        return -1;
    limit = bytes;
    return 0;
}

void mt_device_heap_reset(void)
{
    struct mt_range r;
    while (mt_ranges_pop(&device_heap_blocks, &r))
        device_heap_drop(&r);
    in_use = 0;
    limit = MT_DEV_KERNEL_HEAP;
}

/* Findings of MEMTRACE_CHECK=1, or of several GPUs, on the CPU device: bad accesses are reported, counted per
 * place and written to companion files. */

#define FULL_PER_PLACE 3 /* full reports per place of one launch */
#define FULL_IN_ALL 64   /* full reports per process */
#define NEAR 1024u       /* bytes: an address this close to an allocation is attributed to it */
#define FAR (1u << 20)   /* bytes: an allocation farther away is not mentioned */
#define GONE 256         /* blocks last freed by kernels */

/* Location of an access. */
struct check_where {
    char near[512];
    const char *side;
    int64_t alloc; /* id of the allocation meant; -1: none */
    uint64_t distance;
};

/* Bad accesses of one kind by one launch at one place. */
struct bad_access {
    const struct mt_cpu_launch *launch;
    struct mt_cpu_bad first;
    uint64_t count, told; /* told: of which lines are written */
    struct check_where where;
    struct bad_access *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct bad_access *places;
static unsigned printed;
static struct {
    struct mt_range range;
    int64_t id; /* -1: unknown */
} gone[GONE];
static _Atomic unsigned ngone;

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* ---- location of an address ---- */

static const char *const what[] = {
    [MT_HEAP_DEVICE] = "device memory",     [MT_HEAP_MANAGED] = "managed memory",
    [MT_HEAP_HOST] = "pinned host memory",  [MT_HEAP_REGISTERED] = "registered host memory",
    [MT_HEAP_SYMBOL] = "a device variable", [MT_HEAP_IPC] = "another process's memory",
};

static void at_site(char *text, size_t size, const struct mt_host_site *s, const char *verb)
{
    if (mt_host_site_there(s) && s->line)
        snprintf(text, size, " %s at %s:%u", verb, base_name(s->file), s->line);
    else
        snprintf(text, size, "%s", "");
}

struct check_device {
    char text[24];
};

/* Returns " of GPU 1" if there are several. */
static struct check_device check_whose(const struct mt_block *b)
{
    struct check_device d = {""};
    if (mt_devices() > 1 && (b->kind == MT_HEAP_DEVICE || b->kind == MT_HEAP_IPC))
        snprintf(d.text, sizeof d.text, " of GPU %d", b->device);
    return d;
}

static void describe_block(struct check_where *w, uint64_t distance, const char *where,
                           const struct mt_block *b)
{
    char made[160];
    char away[40] = "right";
    at_site(made, sizeof made, b->site, "allocated");
    if (distance)
        snprintf(away, sizeof away, "%llu byte%s", (unsigned long long)distance, distance == 1 ? "" : "s");
    snprintf(w->near, sizeof w->near, "%s %s %llu bytes of %s%s%s", away, where, (unsigned long long)b->bytes,
             what[b->kind], check_whose(b).text, made);
    w->alloc = b->id - 1;
}

/* Returns whether the process has any memory there. */
static int is_mapped(uint64_t address)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long long low, high;
    int found = 0;
    char line[512];
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%llx-%llx r", &low, &high) == 2 && address >= low && address < high;
    if (f)
        fclose(f);
    return found;
}

/* Describes memory allocated by kernels around the address, or freed there. */
static int describe_device_heap(uint64_t address, uint64_t bytes, struct check_where *w)
{
    struct mt_range below, above;
    mt_ranges_around(&device_heap_blocks, address, &below, &above);
    uint64_t behind = address - below.base;
    if (below.bytes && behind < below.bytes + 16) {
        snprintf(w->near, sizeof w->near, "byte %llu of %llu bytes that a kernel allocated",
                 (unsigned long long)behind, (unsigned long long)below.bytes);
        w->side = behind + bytes <= below.bytes ? "inside" : "after";
        w->alloc = mt_object_id((const void *)(uintptr_t)below.base);
        w->distance = behind > below.bytes ? behind - below.bytes : *w->side == 'i' ? behind : 0;
        return 1;
    }
    for (int i = 0; i < GONE; i++)
        if (address - gone[i].range.base < gone[i].range.bytes) {
            snprintf(w->near, sizeof w->near, "inside freed memory: %llu bytes that a kernel allocated",
                     (unsigned long long)gone[i].range.bytes);
            w->side = "freed";
            w->alloc = gone[i].id;
            w->distance = address - gone[i].range.base;
            return 1;
        }
    return 0;
}

static void describe_gone(uint64_t address, const struct mt_block *b, struct check_where *w)
{
    char made[160], freed[160];
    at_site(made, sizeof made, b->site, "allocated");
    at_site(freed, sizeof freed, b->freed, "freed");
    snprintf(w->near, sizeof w->near, "inside freed memory: %llu bytes%s%s%s", (unsigned long long)b->bytes,
             made, *freed ? "," : "", freed);
    w->side = "freed";
    w->alloc = b->id - 1;
    w->distance = address - b->base;
}

static int describe_freed(uint64_t address, struct check_where *w)
{
    struct mt_block b;
    if (!heap_find_freed(address, &b))
        return 0;
    describe_gone(address, &b, w);
    return 1;
}

/* Returns the bytes after a block that cannot be the host program's: the gap of heap.c, or a few bytes after
 * memory that is not ours. */
static uint64_t check_own(const struct mt_block *b)
{
    return b->kind == MT_HEAP_REGISTERED || b->kind == MT_HEAP_SYMBOL ? NEAR : MT_HEAP_GAP;
}

static void describe_inside(uint64_t behind, uint64_t bytes, const struct mt_block *b, struct check_where *w)
{
    char made[160];
    at_site(made, sizeof made, b->site, "allocated");
    snprintf(w->near, sizeof w->near, "byte %llu of %llu bytes of %s%s%s", (unsigned long long)behind,
             (unsigned long long)b->bytes, what[b->kind], check_whose(b).text, made);
    w->alloc = b->id - 1;
    w->side = behind + bytes <= b->bytes ? "inside" : "after";
    w->distance = *w->side == 'i' ? behind : 0;
}

/* Copies the last region that ended at this address, and returns 1, or 0. */
static int region_gone(uint64_t address, struct mt_block *out)
{
    int found = 0;
    pthread_mutex_lock(&freed_lock);
    for (unsigned i = 1; i <= REGIONS_GONE && i <= nregions_gone && !found; i++) {
        *out = regions_gone[(nregions_gone - i) % REGIONS_GONE];
        found = address - out->base < out->bytes;
    }
    pthread_mutex_unlock(&freed_lock);
    return found;
}

/* Copies the regions of the pool around the address; bytes is 0 if there is none. */
static void region_around(uint64_t address, const struct mt_range *pool, struct mt_block *below,
                          struct mt_block *above)
{
    struct mt_range b, a;
    pthread_rwlock_rdlock(&life);
    mt_ranges_around(&regions, address, &b, &a);
    *below = b.bytes && b.base >= pool->base ? *(struct mt_block *)b.data : (struct mt_block){0};
    *above = a.bytes && a.base - pool->base < pool->bytes ? *(struct mt_block *)a.data : (struct mt_block){0};
    pthread_rwlock_unlock(&life);
}

/* Describes an access in a pool. */
static void describe_in_pool(uint64_t address, uint64_t bytes, const struct mt_range *pool,
                             struct check_where *w)
{
    struct mt_block below, above, gone;
    region_around(address, pool, &below, &above);
    uint64_t behind = below.bytes ? address - below.base : UINT64_MAX,
             before = above.bytes ? above.base - address : UINT64_MAX, after = behind - below.bytes;
    if (below.bytes && behind < below.bytes)
        describe_inside(behind, bytes, &below, w);
    else if (region_gone(address, &gone))
        describe_gone(address, &gone, w);
    else if (below.bytes && after <= before) {
        describe_block(w, after, "after the", &below);
        w->side = "after";
        w->distance = after;
    } else if (above.bytes) {
        describe_block(w, before, "in front of the", &above);
        w->side = "before";
        w->distance = before < bytes ? 0 : before - bytes;
    } else
        snprintf(w->near, sizeof w->near, "byte %llu of a pool of %llu bytes that has no regions",
                 (unsigned long long)(address - pool->base), (unsigned long long)pool->bytes);
}

/* Describes an access of `bytes`. */
static void check_describe(uint64_t address, uint64_t bytes, struct check_where *w, int look_for_host)
{
    struct mt_block below, above;
    struct mt_range pool;
    *w = (struct check_where){.side = "none", .alloc = -1};
    if (any_pools && mt_ranges_find(&heap_pools, address, &pool)) {
        describe_in_pool(address, bytes, &pool, w);
        return;
    }
    heap_around(address, &below, &above);
    uint64_t behind = below.bytes ? address - below.base : UINT64_MAX,
             before = above.bytes ? above.base - address : UINT64_MAX, after = behind - below.bytes;
    if (below.bytes && behind < below.bytes)
        describe_inside(behind, bytes, &below, w);
    else if (address < 65536) {
        snprintf(w->near, sizeof w->near, "a null pointer");
        w->side = "null";
    } else if (describe_freed(address, w) || describe_device_heap(address, bytes, w))
        return;
    else if (before >= NEAR && after >= check_own(&below) && look_for_host && is_mapped(address)) {
        snprintf(w->near, sizeof w->near,
                 "memory of the host program that is neither pinned, managed nor registered");
        w->side = "host";
    } else if (below.bytes && after < FAR && after <= before) {
        describe_block(w, after, "after the", &below);
        w->side = "after";
        w->distance = after;
    } else if (above.bytes && before < FAR) {
        describe_block(w, before, "in front of the", &above);
        w->side = "before";
        w->distance = before < bytes ? 0 : before - bytes;
    } else
        snprintf(w->near, sizeof w->near, "no allocation is near");
}

/* Describes the place of `address`: "16 bytes after the 400 bytes that were allocated at file.cu:12". */
static void describe_fault(uint64_t address, char *text, size_t size)
{
    struct check_where w;
    check_describe(address, 1, &w, 0); /* called from a signal handler: no stdio on files */
    snprintf(text, size, "%s", w.near);
}

/* Describes the place of p, as in the `near` of a check. */
static void check_words(const void *p, char *text, size_t size)
{
    struct check_where w;
    check_describe((uint64_t)(uintptr_t)p, 1, &w, 1);
    snprintf(text, size, "%.*s", (int)size - 1, w.near);
}

/* ---- lookup ---- */

/* Notes that a kernel has allocated memory, or freed `freed`. */
static void check_device_heap(const struct mt_range *freed)
{
    if (!mt_options()->check)
        return;
    unsigned i = freed ? ngone++ % GONE : 0; /* only for messages: a torn entry is harmless */
    if (freed) {
        gone[i].range = *freed;
        gone[i].id = mt_object_id((const void *)(uintptr_t)freed->base);
    }
    mt_heap_generation++;
}

/* Finds memory whose free has been reached in a stream. A launch that does not come after it may use it:
 * which of the two came first is chance, and `memtrace check` finds the use (`unordered`). */
static int check_find_late(uint64_t address, struct mt_cpu_memory *out)
{
    struct mt_block b;
    if (!heap_find_freed(address, &b) || !b.freed_path)
        return 0;
    *out = (struct mt_cpu_memory){b.base, b.bytes, b.freed_path, b.freed_n};
    return 1;
}

static int check_find(int device, uint64_t address, struct mt_cpu_memory *out)
{
    struct mt_block b;
    struct mt_range r;
    uint64_t reach = mt_heap_reach((const void *)(uintptr_t)address, device, &b);
    if (reach) {
        *out = (struct mt_cpu_memory){.base = b.base, .bytes = address - b.base + reach};
        return mt_heap_reaches(device, &b) && region_find(address, &out->base, &out->bytes);
    }
    if (!mt_ranges_find(&device_heap_blocks, address, &r))
        return check_find_late(address, out);
    *out = (struct mt_cpu_memory){.base = r.base, .bytes = r.bytes};
    return 1;
}

/* Without MEMTRACE_CHECK only other devices' memory is forbidden. */
static int check_find_peers(int device, uint64_t address, struct mt_cpu_memory *out)
{
    struct mt_block below, above;
    if (mt_heap_find((const void *)(uintptr_t)address, &below))
        return check_find(device, address, out);
    heap_around(address, &below, &above);
    *out = (struct mt_cpu_memory){.base = below.bytes ? below.base + below.bytes : 0};
    out->bytes = (above.bytes ? above.base : UINT64_MAX) - out->base;
    return 1;
}

/* ---- reporting ---- */

static const char *const verbs[] = {"load", "store", "atomic", "access"};

static const struct mt_image_site *bad_site(const struct mt_cpu_bad *bad)
{
    static const struct mt_image_site unknown = {.file = "", .function = "", .variable = ""};
    const struct mt_image_head *head = bad->image->head;
    return bad->site < head->nsites ? (const struct mt_image_site *)head->sites + bad->site : &unknown;
}

/* Returns the line of an error other than an access, at least its kernel's. */
static const char *bad_place(const struct mt_cpu_bad *bad, uint64_t *line)
{
    const struct mt_image_head *head = bad->image->head;
    const struct mt_image_note *n = head->notes;
    const struct mt_image_kernel *k = bad->launch->kernel;
    int known = bad->note && bad->note <= head->nnotes && n[bad->note - 1].line;
    const struct mt_image_site *s = head->sites;
    if (bad->note & MT_CHECK_SITE && s[bad->note & ~MT_CHECK_SITE].line) {
        *line = s[bad->note & ~MT_CHECK_SITE].line;
        return s[bad->note & ~MT_CHECK_SITE].file;
    }
    *line = known ? n[bad->note - 1].line : k->line;
    return known ? n[bad->note - 1].file : k->file;
}

static const struct mt_launch_line *failed_line(const struct mt_cpu_launch *l)
{
    return l->user;
}

static void check_print(const struct mt_cpu_bad *bad, const char *near)
{
    const struct mt_image_site *s = bad_site(bad);
    const struct mt_launch_line *l = failed_line(bad->launch);
    char how[64] = "", variable[160] = "", launch[160] = "", function[256];
    const char *inside = s->function;
    if (bad->align && bad->kind == MT_FINDING_OF_MISALIGNED)
        snprintf(how, sizeof how, ", which is not a multiple of %u", bad->align);
    if (s->variable && *(const char *)s->variable)
        snprintf(variable, sizeof variable, " through `%.120s`", (const char *)s->variable);
    if (l && l->site && l->site->line)
        snprintf(launch, sizeof launch, ", launched at %.120s:%u", base_name(l->site->file), l->site->line);
    snprintf(function, sizeof function, "%.*s", (int)strcspn(inside, "\n"), inside);
    mt_note("check: kernel %s%s: %s of %u bytes%s at 0x%llx%s, %s:%u in %s, CTA (%u,%u,%u), thread "
            "(%u,%u,%u): %s",
            mt_short((const char *)bad->launch->kernel->pretty).text, launch, verbs[bad->type & 3],
            bad->bytes, variable, (unsigned long long)bad->address, how, base_name(s->file), s->line,
            mt_short(function).text, bad->cta[0], bad->cta[1], bad->cta[2], bad->thread[0], bad->thread[1],
            bad->thread[2], near);
}

/* Prints a finding that is not an access. */
static void check_print_words(const struct mt_cpu_bad *bad)
{
    uint64_t line;
    const char *file = bad_place(bad, &line);
    mt_note("check: kernel %s, %s:%u, CTA (%u,%u,%u), thread (%u,%u,%u): %s",
            mt_short((const char *)bad->launch->kernel->pretty).text, base_name(file), (unsigned)line,
            bad->cta[0], bad->cta[1], bad->cta[2], bad->thread[0], bad->thread[1], bad->thread[2],
            bad->words);
}

static const char *after_number(const char *s)
{
    return strncmp(s, "0x", 2) == 0 ? s + 2 + strspn(s + 2, "0123456789abcdef") : s + strspn(s, "0123456789");
}

/* Returns whether two messages differ only in lanes and addresses. */
static int same_reason(const char *a, const char *b)
{
    a = after_number(a);
    b = after_number(b);
    while (*a && *a == *b) {
        a = after_number(a + 1);
        b = after_number(b + 1);
    }
    return *a == *b;
}

static int same_place(const struct bad_access *p, const struct mt_cpu_bad *bad)
{
    if (bad->words && !same_reason(p->where.near, bad->words))
        return 0;
    return p->launch == bad->launch && p->first.image == bad->image && p->first.site == bad->site &&
           p->first.place == bad->place && p->first.note == bad->note && p->first.kind == bad->kind;
}

/* Describes memory that exists but belongs to another device. */
static void check_forbidden(const struct mt_cpu_bad *bad, struct check_where *w)
{
    struct mt_block b;
    size_t n = strlen(w->near);
    if (mt_heap_find((const void *)(uintptr_t)bad->address, &b) && !mt_heap_reaches(bad->launch->device, &b))
        snprintf(w->near + n, sizeof w->near - n, ", which GPU %d does not reach: it is no peer of it",
                 bad->launch->device);
}

/* Describes an access outside of a variable: "0 bytes after `tile` (128 bytes of shared memory)". */
static void describe_object(const struct mt_cpu_bad *bad, struct check_where *w)
{
    static const char *const memories[] = {"device memory", "shared memory", "local memory"};
    const struct mt_image_object *o = bad->object;
    const char *name = o->name, *last = strrchr(name, ':');
    char quoted[160] = "an array";
    uint64_t at = (uint64_t)bad->object_at, bytes = bad->object_bytes;
    struct mt_block b;
    *w = (struct check_where){.alloc = -1, .side = bad->object_at < 0 ? "before" : "after"};
    if (*name)
        snprintf(quoted, sizeof quoted, "`%.140s`", last ? last + 1 : name);
    if (bad->object_at < 0)
        w->distance = 0 - at < bad->bytes ? 0 : 0 - at - bad->bytes;
    else if (at > bytes)
        w->distance = at - bytes;
    if (o->space == MT_OBJECT_GLOBAL && mt_heap_find(o->address, &b))
        w->alloc = b.id - 1;
    snprintf(w->near, sizeof w->near, "%llu byte%s %s %s (%llu byte%s of %s%s)",
             (unsigned long long)w->distance, w->distance == 1 ? "" : "s", w->side, quoted,
             (unsigned long long)bytes, bytes == 1 ? "" : "s", o->dynamic ? "dynamic " : "",
             memories[o->space]);
}

static void check_look(const struct mt_cpu_bad *bad, struct check_where *w)
{
    if (bad->object) {
        describe_object(bad, w);
        return;
    }
    if (!bad->words) {
        check_describe(bad->address, bad->bytes, w, 1);
        check_forbidden(bad, w);
        return;
    }
    *w = (struct check_where){.alloc = -1};
    snprintf(w->near, sizeof w->near, "%s", bad->words);
}

static struct bad_access *check_place(const struct mt_cpu_bad *bad)
{
    struct bad_access *p;
    for (p = places; p && !same_place(p, bad); p = p->next)
        ;
    if (p || !(p = calloc(1, sizeof *p)))
        return p;
    p->launch = bad->launch;
    p->first = *bad;
    check_look(bad, &p->where);
    p->next = places;
    places = p;
    return p;
}

/* Returns whether another launch has reported it in full. */
static int check_is_said(const struct mt_cpu_bad *bad)
{
    const struct mt_launch_line *l = failed_line(bad->launch);
    static struct {
        uint64_t launch;
        const struct mt_image *image;
        const void *place;
        enum mt_finding_kind kind;
        uint32_t site;
    } said[FULL_IN_ALL];
    static unsigned n;
    unsigned i = 0;
    while (i < n && !(said[i].image == bad->image && said[i].site == bad->site &&
                      said[i].place == bad->place && said[i].kind == bad->kind))
        i++;
    if (i < n)
        return l && said[i].launch != l->seq;
    if (n < FULL_IN_ALL) {
        said[n].launch = l ? l->seq : 0;
        said[n].image = bad->image;
        said[n].place = bad->place;
        said[n].kind = bad->kind;
        said[n++].site = bad->site;
    }
    return 0;
}

/* Names in companion files; `why` for readers older than `kind`. */
static const char *const check_kinds[] = {
#define FINDING(id, word, level, group, rule) [MT_FINDING_OF_##id] = word,
#include "format/kinds.def"
#undef FINDING
};
static const char *const check_whys[MT_FINDING_KINDS] = {
    [MT_FINDING_OF_BOUNDS] = "illegal", [MT_FINDING_OF_MISALIGNED] = "misaligned",
    [MT_FINDING_OF_MASK] = "mask",      [MT_FINDING_OF_BARRIER] = "barrier",
    [MT_FINDING_OF_STACK] = "stack",    [MT_FINDING_OF_HEAP] = "heap",
    [MT_FINDING_OF_LEFT] = "left-out",  [MT_FINDING_OF_SAME_WORD] = "same-word",
};

static enum mt_finding_kind check_kind(const struct bad_access *p)
{
    int freed = p->first.kind == MT_FINDING_OF_BOUNDS && p->where.side && !strcmp(p->where.side, "freed");
    return freed ? MT_FINDING_OF_FREED : p->first.kind;
}

/* Writes a line for what no line says yet. */
static void bad_write(struct bad_access *p)
{
    const struct mt_image_site *s = bad_site(&p->first);
    const struct mt_launch_line *l = failed_line(p->launch);
    int access = !p->first.words;
    uint64_t line;
    const char *file = bad_place(&p->first, &line);
    struct mt_check_line c = {
        .kernel = p->launch->kernel->pretty,
        .why = check_whys[p->first.kind],
        .kind = check_kinds[check_kind(p)],
        .near = p->where.near,
        .side = p->where.side,
        .alloc = (uint64_t)p->where.alloc,
        .distance = p->where.distance,
        .launch = l ? l->seq : 0,
        .site = (uint64_t)p->first.image->site_base + p->first.site,
        .file = access ? s->file : file,
        .line = access ? s->line : line,
        .access = access,
        .op = mt_op_text(p->first.type & 3),
        .size = p->first.bytes,
        .address = p->first.address,
        .count = p->count - p->told,
    };
    memcpy(c.cta, p->first.cta, sizeof c.cta);
    memcpy(c.thread, p->first.thread, sizeof c.thread);
    p->told = p->count;
    mt_event_check(&c);
}

static void check_report(const struct mt_cpu_bad *bad)
{
    struct check_where w;
    int first = 0;
    pthread_mutex_lock(&lock);
    struct bad_access *p = check_place(bad);
    if (p && ++p->count <= FULL_PER_PLACE && printed < FULL_IN_ALL && !check_is_said(bad)) {
        printed++;
        check_look(bad, &w);
        first = p->count == 1;
        if (first)
            bad_write(p);
        if (bad->words)
            check_print_words(bad);
        else
            check_print(bad, w.near);
    }
    pthread_mutex_unlock(&lock);
    if (first) /* the launch may not end before the program is killed */
        mt_trace_flush(1);
}

static void sum_up(struct bad_access *p)
{
    if (p->count > p->told)
        bad_write(p);
    const struct mt_image_site *s = bad_site(&p->first);
    const char *kernel = (const char *)p->launch->kernel->pretty;
    if (p->count > FULL_PER_PLACE && !p->first.words)
        mt_note_once("check: kernel %s: %s:%u: %llu bad accesses in all", mt_short(kernel).text,
                     base_name(s->file), s->line, (unsigned long long)p->count);
    else if (p->count > FULL_PER_PLACE)
        mt_note_once("check: kernel %s: %s: %llu in all", mt_short(kernel).text, check_whys[p->first.kind],
                     (unsigned long long)p->count);
}

static uint64_t bad_end(const struct mt_cpu_launch *launch)
{
    uint64_t n = 0;
    pthread_mutex_lock(&lock);
    for (struct bad_access **p = &places; *p;) {
        struct bad_access *now = *p;
        if (now->launch != launch) {
            p = &now->next;
            continue;
        }
        n += now->first.words ? 0 : now->count;
        sum_up(now);
        *p = now->next;
        free(now);
    }
    pthread_mutex_unlock(&lock);
    if (n) { /* the program may crash later */
        mt_trace_needed();
        mt_trace_flush(1);
    }
    return n;
}

void mt_heap_start(void)
{
    const struct mt_options *o = mt_options();
    mt_cpu_settings.heap_get = device_heap_get;
    mt_cpu_settings.heap_put = device_heap_put;
    mt_cpu_settings.describe = describe_fault;
    if (o->check || mt_devices() > 1)
        mt_cpu_settings.check =
            (struct mt_cpu_checker){.generation = &mt_heap_generation,
                                    .find = o->check ? check_find : check_find_peers,
                                    .report = check_report,
                                    .end = bad_end,
                                    .stop = o->check != MT_CHECK_ON && o->check != MT_CHECK_STRICT,
                                    .strict = o->check >= MT_CHECK_STRICT,
                                    .accesses_only = !o->check};
}

/* ---- MEMTRACE_CHECK=1: CUDA calls that return an error ---- */

#define PLACES 1000 /* failures at further places are counted together */
#define FRAMES 32   /* including our own frames */

/* Call under way on a thread. Not thread-local: a library loaded late gets little of that memory. */
struct failed_call {
    unsigned depth; /* nesting depth of calls */
    const char *name;
    const void *caller;
    const struct mt_host_site *site;
    int script;           /* 1: that is a line of a script, and the callers are the interpreter */
    const void *asked_by; /* address from mt_failed_caller */
    char why[256];
    int64_t freed; /* id of the allocation freed before; -1: none */
};

/* Failures of one kind at one place. */
struct failed_place {
    const void *caller;
    struct mt_failed_line event;
    char why[256], *at[1 + MT_SITE_CALLERS]; /* including its callers */
    uint64_t more;                           /* repetitions after the first one, which was written at once */
};

static pthread_mutex_t failed_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(failed_lock, MT_FORK_CAPTURES);
static struct failed_place *failed_places[PLACES];
static unsigned nplaces;
static uint64_t elsewhere;

const struct mt_call_hooks *_Atomic mt_call_hooks;

static pthread_key_t key;

static const struct mt_host_site *failed_code(const struct mt_host_site *site);

static void failed_make_key(void)
{
    pthread_key_create(&key, free);
    mt_host_site_ask = failed_code;
}

/* Returns this thread's call, or NULL if out of memory. */
static struct failed_call *failed_now(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, failed_make_key);
    struct failed_call *c = pthread_getspecific(key);
    if (c || !(c = calloc(1, sizeof *c)))
        return c;
    pthread_setspecific(key, c);
    return c;
}

int mt_failed_watched(void)
{
    return mt_options()->check && !mt_device_is_gpu();
}

/* ---- origin of a call ---- */

/* Finds "FILE+0xOFFSET", the offset being an address of the file. Returns 1, or 0 if one of our own libraries
 * makes the call. *out, from malloc, stays NULL for code outside of files. */
static int failed_at(const void *caller, char **out)
{
    Dl_info info;
    struct link_map *map;
    char path[PATH_MAX];
    if (!caller || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname)
        return 1;
    const char *slash = strrchr(info.dli_fname, '/');
    if (!strncmp(slash ? slash + 1 : info.dli_fname, "libmemtrace", strlen("libmemtrace")))
        return 0;
    if (realpath(*map->l_name ? info.dli_fname : "/proc/self/exe", path) &&
        asprintf(out, "%s+0x%llx", path, (unsigned long long)((uintptr_t)caller - (uintptr_t)map->l_addr)) <
            0)
        *out = NULL;
    return 1;
}

/* Collects the return address and its known callers. Returns their number. */
static unsigned failed_frames(const void *caller, void **out)
{
    void *frame[FRAMES];
    int n = backtrace(frame, FRAMES), i = 0;
    unsigned taken = 0;
    while (i < n && frame[i] != caller)
        i++;
    while (i < n && taken <= MT_SITE_CALLERS)
        out[taken++] = frame[i++];
    return taken;
}

/* Collects the callers of the calling code. Returns the number in at[]. */
static unsigned failed_callers(void *const *frame, unsigned n, char **at)
{
    unsigned known = 0;
    while (known + 1 < n && failed_at(frame[known + 1], &at[known]) && at[known])
        known++;
    return known;
}

/* ---- calls with their callers ---- */

/* Those of one site and call stack. In this library, which is never unloaded: mt_host_site_there. */
static struct failed_code {
    struct mt_host_code place;
    void *frame[1 + MT_SITE_CALLERS];
    uint32_t next; /* next of its bucket + 1 */
} codes[PLACES];
enum { CODE_BUCKETS = 1024 };
static uint32_t ncodes, code_bucket[CODE_BUCKETS];

static uint32_t *failed_code_bucket(void *const *frame)
{
    uint64_t h = 0;
    for (unsigned i = 0; i <= MT_SITE_CALLERS; i++)
        h = mt_hash_number(h ^ (uintptr_t)frame[i]);
    return &code_bucket[h >> 54];
}

static int failed_code_is(const struct failed_code *c, void *const *frame, const struct mt_host_site *site)
{
    return memcmp(c->frame, frame, sizeof c->frame) == 0 && c->place.site.line == (site ? site->line : 0) &&
           strcmp(c->place.site.file, site ? site->file : "") == 0;
}

/* Called with failed_lock. */
static const struct mt_host_site *failed_code_find(void *const *frame, const struct mt_host_site *site)
{
    uint32_t i = *failed_code_bucket(frame);
    while (i && !failed_code_is(&codes[i - 1], frame, site))
        i = codes[i - 1].next;
    return i ? &codes[i - 1].place.site : NULL;
}

static const struct mt_host_site *failed_code_known(void *const *frame, const struct mt_host_site *site)
{
    pthread_mutex_lock(&failed_lock);
    const struct mt_host_site *known = failed_code_find(frame, site);
    pthread_mutex_unlock(&failed_lock);
    return known;
}

static void failed_code_drop(struct failed_code *c)
{
    for (unsigned i = 0; i <= MT_SITE_CALLERS; i++)
        free(c->place.at[i]);
}

/* Texts of a site are in the program, which may unload them: they are copied. The dynamic linker is asked
 * without failed_lock (failed_make). */
static const struct mt_host_site *failed_code_add(void *const *frame, unsigned n,
                                                  const struct mt_host_site *site)
{
    struct failed_code c = {.place.site = {.file = "", .function = "", .name = mt_host_code_name}};
    if (!failed_at(frame[0], &c.place.at[0]) || !c.place.at[0])
        return NULL;
    c.place.ncallers = failed_callers(frame, n, &c.place.at[1]);
    memcpy(c.frame, frame, sizeof c.frame);
    char *file = site ? strdup(site->file) : NULL, *function = site ? strdup(site->function) : NULL;
    if (file && function) {
        c.place.site.file = file;
        c.place.site.function = function;
        c.place.site.line = site->line;
    }
    pthread_mutex_lock(&failed_lock);
    const struct mt_host_site *known = failed_code_find(frame, site);
    int added = !known && ncodes < PLACES && (!site || (file && function));
    if (added) {
        uint32_t *bucket = failed_code_bucket(frame);
        c.next = *bucket;
        codes[ncodes] = c;
        known = &codes[ncodes].place.site;
        *bucket = ++ncodes;
    }
    pthread_mutex_unlock(&failed_lock);
    if (!added) {
        failed_code_drop(&c);
        free(file);
        free(function);
    }
    return known;
}

static const struct mt_host_site *failed_code_of(void *const *frame, unsigned n,
                                                 const struct mt_host_site *site)
{
    const struct mt_host_site *known = failed_code_known(frame, site);
    return known ? known : failed_code_add(frame, n, site);
}

const struct mt_host_site *mt_failed_place(void *const *frame, unsigned n)
{
    return failed_code_of(frame, n, NULL);
}

/* Returns the site of the call under way with its callers; site: what is known of it, or NULL. */
static const struct mt_host_site *failed_code(const struct mt_host_site *site)
{
    const struct failed_call *c = failed_now();
    void *frame[1 + MT_SITE_CALLERS] = {NULL};
    unsigned n = c && c->depth && c->caller ? failed_frames(c->caller, frame) : 0;
    return n ? failed_code_of(frame, n, site) : NULL;
}

/* Returns the site that the program set before this call, or NULL: another call may have left one. */
static const struct mt_host_site *failed_site(const char *name)
{
    const struct mt_host_site *s = mt_host_site_pending();
    int launch = strstr(name, "LaunchKernel") || strstr(name, "LaunchCooperative");
    return s && (launch || strstr(s->name, name) || strstr(name, s->name)) ? s : NULL;
}

void mt_failed_caller(const void *caller)
{
    struct failed_call *c = mt_options()->check ? failed_now() : NULL;
    if (c)
        c->asked_by = caller;
}

void mt_failed_enter(const char *name, const void *caller)
{
    struct failed_call *c = failed_now();
    if (!c || c->depth++)
        return;
    c->name = name + (strncmp(name, "__", 2) ? 0 : 2); /* __cudaLaunchKernel of CUDA 13 */
    c->caller = c->asked_by ? c->asked_by : caller;
    c->site = failed_site(name);
    c->script = 0;
    c->freed = -1;
    *c->why = 0;
    mt_fail_launched();
    const struct mt_call_hooks *hooks = mt_call_hooks;
    if (hooks)
        hooks->before();
}

/* ---- the table ---- */

/* Compares by line, if known: compilers duplicate calls. */
static int failed_is_here(const struct failed_place *p, const struct failed_call *c)
{
    const struct mt_host_site *was = p->event.site, *is = c->site;
    if (!was || !is || !mt_host_site_there(was))
        return p->caller == c->caller && was == is;
    return was == is || (was->line == is->line && !strcmp(was->file, is->file));
}

static struct failed_place *failed_find(const struct failed_call *c, int code)
{
    for (unsigned i = 0; i < nplaces; i++)
        if (failed_places[i]->event.code == code && !strcmp(failed_places[i]->event.call, c->name) &&
            failed_is_here(failed_places[i], c))
            return failed_places[i];
    return NULL;
}

static void failed_free(struct failed_place *p)
{
    for (size_t i = 0; p && i <= MT_SITE_CALLERS; i++)
        free(p->at[i]);
    free(p);
}

/* Makes an entry. Called without failed_lock: it uses the dynamic linker, which may be running the failing
 * code. Returns NULL if out of memory, or if one of our own libraries makes the call (*own). */
static struct failed_place *failed_make(const struct failed_call *c, int code, const char *error, int *own)
{
    struct failed_place *p = calloc(1, sizeof *p);
    if (p && (*own = !failed_at(c->caller, &p->at[0]))) {
        free(p);
        return NULL;
    }
    if (!p)
        return NULL;
    p->caller = c->caller;
    memcpy(p->why, c->why, sizeof p->why);
    p->event = (struct mt_failed_line){.call = c->name,
                                       .code = code,
                                       .error = error,
                                       .site = c->site,
                                       .at = p->at[0],
                                       .callers = {(const char *const *)&p->at[1], 0},
                                       .why = p->why,
                                       .freed = (uint64_t)c->freed,
                                       .count = 1};
    void *frame[1 + MT_SITE_CALLERS];
    unsigned n = failed_frames(c->caller, frame);
    p->event.callers.n = c->script ? 0 : failed_callers(frame, n, &p->at[1]);
    return p;
}

/* Counts a failure. Returns 0 if its place is known, or the table is full; else adds `p` and returns 1, or -1
 * if it is NULL. */
static int failed_count(const struct failed_call *c, int code, struct failed_place *p)
{
    int result = 0;
    pthread_mutex_lock(&failed_lock);
    struct failed_place *known = failed_find(c, code);
    if (known)
        known->more++;
    else if (nplaces == PLACES)
        elsewhere++;
    else if (!p)
        result = -1;
    else {
        failed_places[nplaces++] = p;
        mt_event_failed(&p->event);
        result = 1;
    }
    pthread_mutex_unlock(&failed_lock);
    return result;
}

/* Handles the result of the program's call. */
static void failed_judge(struct failed_call *c, int code, const char *error)
{
    int own = 0;
    if (!code || code == cudaErrorNotReady)
        return;
    if (mt_fail_launched()) /* the launch has an event of its own */
        return;
    if (!c->site)
        c->script = (c->site = mt_python_site()) != NULL;
    if (failed_count(c, code, NULL) >= 0)
        return;
    struct failed_place *p = failed_make(c, code, error, &own);
    if (p && failed_count(c, code, p) <= 0)
        failed_free(p);
    else if (p)
        mt_trace_flush(1); /* many programs exit now, some of them abruptly */
}

void mt_failed_leave(int code, const char *error)
{
    struct failed_call *c = failed_now();
    if (!c || --c->depth)
        return;
    failed_judge(c, code, error);
    const struct mt_call_hooks *hooks = mt_call_hooks;
    if (hooks)
        hooks->after();
}

void mt_failed_finish(void)
{
    if (!mt_options()->check)
        return;
    pthread_mutex_lock(&failed_lock);
    for (unsigned i = 0; i < nplaces; i++)
        if ((failed_places[i]->event.count = failed_places[i]->more))
            mt_event_failed(&failed_places[i]->event);
    if (elsewhere)
        mt_event_failed(&(struct mt_failed_line){.more = elsewhere});
    pthread_mutex_unlock(&failed_lock);
    mt_trace_needed();
}

/* ---- messages ---- */

/* Returns the call that details are for, or NULL if it is not watched. */
static struct failed_call *failed_worded(void)
{
    struct failed_call *c = mt_options()->check ? failed_now() : NULL;
    return c && c->depth ? c : NULL;
}

void mt_failed_why(const char *format, ...)
{
    struct failed_call *c = failed_worded();
    va_list ap;
    if (!c)
        return;
    va_start(ap, format);
    vsnprintf(c->why, sizeof c->why, format, ap);
    va_end(ap);
}

void mt_failed_range(const char *what, const void *p, uint64_t bytes)
{
    char where[256];
    struct mt_block b;
    if (!failed_worded())
        return;
    check_words(p, where, sizeof where);
    if (mt_heap_find(p, &b))
        mt_failed_why("%s: %llu bytes starting at %s", what, (unsigned long long)bytes, where);
    else
        mt_failed_why("%s: %s", what, where);
}

void mt_failed_turned(const char *kind, const char *what, const void *p)
{
    struct mt_block b;
    char where[256];
    int device = mt_heap_find(p, &b);
    if (!failed_worded())
        return;
    check_words(p, where, sizeof where);
    if (device || strstr(where, "host program"))
        mt_failed_why("cudaMemcpy%s, but its %s is %s", kind, what, where);
}

void mt_failed_free(const void *p, unsigned kinds)
{
    static const char inside[] = "inside freed memory: ";
    struct failed_call *c = failed_worded();
    uint64_t address = (uint64_t)(uintptr_t)p;
    char where[256];
    struct mt_block b;
    if (!c)
        return;
    check_words(p, where, sizeof where);
    if (!mt_heap_find(p, &b)) {
        int again = heap_find_freed(address, &b) && b.base == address;
        c->freed = again ? b.id - 1 : -1;
        mt_failed_why("%s%s", again ? "already freed: " : "", where + (again ? strlen(inside) : 0));
    } else if (b.base != address)
        mt_failed_why("not its beginning: %s", where);
    else if (!(kinds & 1u << b.kind))
        mt_failed_why("not what this call frees: %s", where);
    else
        mt_failed_why("its free is in a stream already: %s", where);
}
