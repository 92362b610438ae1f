#define _GNU_SOURCE
#include "heap.h"
#include "device.h"
#include "common/ranges.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAP_FROM (1u << 20) /* blocks from here on get their own mapping, with an unmapped page behind it */

static struct mt_ranges blocks = MT_RANGES_INIT;
static _Atomic uint64_t used;

static int counted(enum mt_heap_kind kind)
{
    return kind == MT_HEAP_DEVICE || kind == MT_HEAP_MANAGED;
}

/* Takes `bytes` from the device's memory. 0, or -1: not that much is left. */
static int reserve(uint64_t bytes)
{
    uint64_t total = mt_device_memory(), now = used;
    do
        if (bytes > total || now > total - bytes)
            return -1;
    while (!atomic_compare_exchange_weak(&used, &now, now + bytes));
    return 0;
}

static void *get(struct mt_block *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (b->bytes >= MAP_FROM) {
        size_t bytes = (b->bytes + page - 1) / page * page + page;
        char *p =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            mprotect(p + bytes - page, page, PROT_NONE); /* not vital: a guard */
            b->mapped_base = (uint64_t)(uintptr_t)p;
            b->mapped_bytes = bytes;
            return p;
        }
    }
    void *p;
    size_t bytes = (b->bytes + MT_DEV_ALIGN - 1) / MT_DEV_ALIGN * MT_DEV_ALIGN;
    return posix_memalign(&p, MT_DEV_ALIGN, bytes) ? NULL : p;
}

static void release(struct mt_block *b)
{
    if (b->mapped_base)
        munmap((void *)(uintptr_t)b->mapped_base, b->mapped_bytes);
    else if (b->kind != MT_HEAP_REGISTERED && b->kind != MT_HEAP_SYMBOL)
        free((void *)(uintptr_t)b->base);
    if (counted(b->kind))
        used -= b->bytes;
    free(b);
}

void *mt_heap_alloc(size_t bytes, enum mt_heap_kind kind, unsigned flags)
{
    if (bytes > mt_device_memory() || (counted(kind) && reserve(bytes)))
        return NULL;
    struct mt_block *b = calloc(1, sizeof *b);
    if (!b) {
        used -= counted(kind) ? bytes : 0;
        return NULL;
    }
    b->bytes = bytes;
    b->kind = kind;
    b->flags = flags;
    void *p = get(b);
    b->base = (uint64_t)(uintptr_t)p;
    if (p && !mt_ranges_add(&blocks, b->base, bytes, b))
        return p;
    release(b);
    return NULL;
}

int mt_heap_adopt(void *base, size_t bytes, enum mt_heap_kind kind, unsigned flags)
{
    struct mt_block *b = calloc(1, sizeof *b);
    if (!b)
        return ENOMEM;
    b->base = (uint64_t)(uintptr_t)base;
    b->bytes = bytes;
    b->kind = kind;
    b->flags = flags;
    int rc = mt_ranges_add(&blocks, b->base, bytes, b);
    if (rc)
        free(b);
    return rc;
}

int mt_heap_free(void *base, unsigned kinds)
{
    struct mt_range r;
    if (!mt_ranges_take(&blocks, (uint64_t)(uintptr_t)base, &r))
        return 0;
    struct mt_block *b = r.data;
    if (!(kinds & 1u << b->kind)) {
        mt_ranges_add(&blocks, r.base, r.bytes, b);
        return 0;
    }
    release(b);
    return 1;
}

int mt_heap_find(const void *p, struct mt_block *out)
{
    struct mt_range r;
    if (!mt_ranges_find(&blocks, (uint64_t)(uintptr_t)p, &r))
        return 0;
    *out = *(struct mt_block *)r.data;
    return 1;
}

uint64_t mt_heap_used(void)
{
    return used;
}

void mt_heap_reset(void)
{
    struct mt_range r;
    struct mt_ranges keep = MT_RANGES_INIT;
    while (mt_ranges_pop(&blocks, &r)) {
        struct mt_block *b = r.data;
        if (b->kind == MT_HEAP_REGISTERED || b->kind == MT_HEAP_SYMBOL)
            mt_ranges_add(&keep, r.base, r.bytes, b);
        else
            release(b);
    }
    while (mt_ranges_pop(&keep, &r))
        mt_ranges_add(&blocks, r.base, r.bytes, r.data);
    free(keep.at);
}
