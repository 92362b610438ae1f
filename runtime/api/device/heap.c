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
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
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
static _Atomic uint64_t used[MT_DEVICES_MAX];
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

static int is_ours(enum mt_heap_kind kind)
{
    return kind != MT_HEAP_REGISTERED && kind != MT_HEAP_SYMBOL && kind != MT_HEAP_IPC;
}

/* Takes `bytes` from the device's memory. Returns 0, or -1 if too little is left. */
static int heap_reserve(int device, uint64_t bytes)
{
    uint64_t total = mt_device_memory(), now = used[device];
    do
        if (bytes > total || now > total - bytes)
            return -1;
    while (!atomic_compare_exchange_weak(&used[device], &now, now + bytes));
    return 0;
}

/* Returns the size of a small block, with the gap after it under MEMTRACE_CHECK. */
static size_t small_bytes(const struct mt_block *b)
{
    return b->bytes + (mt_options()->check ? MT_HEAP_GAP : 0);
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
    /* Managed memory begins at a page, since advice applies to pages. */
    size_t align = b->kind == MT_HEAP_MANAGED ? page : MT_DEV_ALIGN;
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
    b->freed = b->freed ? b->freed : mt_host_site_taken();
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

static void heap_drop(struct mt_block *b)
{
    pthread_rwlock_wrlock(&life); /* no reader is left */
    pthread_rwlock_unlock(&life);
    if (heap_counted(b->kind))
        used[b->device] -= b->bytes;
    if (mt_options()->check && is_ours(b->kind))
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
        used[device] -= heap_counted(kind) ? bytes : 0;
        return NULL;
    }
    b->bytes = bytes;
    b->kind = kind;
    b->device = device;
    b->flags = flags;
    b->site = mt_host_site_taken();
    void *p = heap_get(b);
    b->base = (uint64_t)(uintptr_t)p;
    if (p && !mt_ranges_add(&blocks, b->base, bytes, b)) {
        mt_heap_generation++;
        return p;
    }
    used[device] -= heap_counted(kind) ? bytes : 0;
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
    b->site = kind == MT_HEAP_SYMBOL ? NULL : mt_host_site_taken();
    int rc = mt_ranges_add(&blocks, b->base, bytes, b);
    if (rc)
        free(b);
    else if (heap_counted(kind))
        used[device] += bytes;
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

static int free_block(void *base, unsigned kinds, int condemned)
{
    struct mt_range r;
    pthread_rwlock_rdlock(&life);
    const struct mt_block *b = begins_at(base, kinds);
    int ok = b && b->condemned == condemned;
    pthread_rwlock_unlock(&life);
    if (!ok || !mt_ranges_take(&blocks, (uint64_t)(uintptr_t)base, &r))
        return 0;
    mt_heap_generation++;
    heap_drop(r.data);
    return 1;
}

int mt_heap_free(void *base, unsigned kinds)
{
    return free_block(base, kinds, 0);
}

int mt_heap_free_condemned(void *base)
{
    return free_block(base, ~0u, 1);
}

int mt_heap_condemn(void *base, unsigned kinds)
{
    pthread_rwlock_wrlock(&life); /* others copy the block */
    struct mt_block *b = begins_at(base, kinds);
    int ok = b && !b->condemned;
    if (ok) {
        b->condemned = 1;
        b->freed = mt_host_site_taken();
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

void mt_heap_around(uint64_t address, struct mt_block *below, struct mt_block *above)
{
    struct mt_range b, a;
    pthread_rwlock_rdlock(&life);
    mt_ranges_around(&blocks, address, &b, &a);
    *below = b.data ? *(struct mt_block *)b.data : (struct mt_block){0};
    *above = a.data ? *(struct mt_block *)a.data : (struct mt_block){0};
    pthread_rwlock_unlock(&life);
}

int mt_heap_find_freed(uint64_t address, struct mt_block *out)
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

uint64_t mt_heap_used(int device)
{
    return used[device];
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
    return b->readers ? (int)(b->readers >> device & 1) : mt_device_reaches(device, b->device);
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

void mt_heap_reset(int device)
{
    struct mt_range r;
    struct mt_ranges stay = MT_RANGES_INIT;
    while (mt_ranges_pop(&blocks, &r)) {
        struct mt_block *b = r.data;
        if (!is_ours(b->kind) || b->device != device)
            mt_ranges_add(&stay, r.base, r.bytes, b);
        else
            heap_drop(b);
    }
    while (mt_ranges_pop(&stay, &r))
        mt_ranges_add(&blocks, r.base, r.bytes, r.data);
    mt_heap_generation++;
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
    mt_check_device_heap(NULL);
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
    mt_check_device_heap(&r);
    device_heap_drop(&r);
    return 0;
}

void mt_device_heap_start(void)
{
    mt_cpu_set_heap(device_heap_get, device_heap_put);
}

int mt_device_heap_limit(size_t bytes)
{
    if (in_use)
        return -1;
    limit = bytes;
    return 0;
}

int mt_device_heap_find(uint64_t address, struct mt_range *out)
{
    return mt_ranges_find(&device_heap_blocks, address, out);
}

void mt_device_heap_around(uint64_t address, struct mt_range *below, struct mt_range *above)
{
    mt_ranges_around(&device_heap_blocks, address, below, above);
}

void mt_device_heap_reset(void)
{
    struct mt_range r;
    while (mt_ranges_pop(&device_heap_blocks, &r))
        device_heap_drop(&r);
    in_use = 0;
}
