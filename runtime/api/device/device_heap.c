/* The heap of malloc and free in kernels: memory of the C library, as much as cudaLimitMallocHeapSize says. A
 * block counts as its bytes, rounded up to the 16 to which CUDA aligns it. Under MEMTRACE_CHECK memory that
 * was freed is not given out again at once: late accesses are found, and a block's threads are not taken for
 * those of the next one at its address. */
#include "device_heap.h"
#include "base/fork.h"
#include "base/options.h"
#include "check.h"
#include "device.h"
#include "cpu/cpu.h"
#include "trace/objects.h"
#include "trace/ranges.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { ALIGN = 16 };
static struct mt_ranges blocks = MT_RANGES_INIT;
MT_FORK_TABLE(blocks);
static _Atomic uint64_t used, limit = MT_DEV_KERNEL_HEAP;
static _Atomic int in_use; /* by a kernel, since the device began */

#define LATE (64ull << 20) /* bytes that wait so */

/* Freed blocks, the oldest first. Each begins with its list's link: no access of a kernel gets there. */
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

/* 0, or -1: not that much is left. */
static int device_heap_reserve(uint64_t bytes)
{
    uint64_t now = used, most = limit;
    do
        if (bytes > most || now > most - bytes || device_heap_counted(bytes) > most - now)
            return -1;
    while (!atomic_compare_exchange_weak(&used, &now, now + device_heap_counted(bytes)));
    return 0;
}

static void *device_heap_get(uint64_t bytes)
{
    in_use = 1;
    if (device_heap_reserve(bytes))
        return NULL;
    void *p = malloc(device_heap_counted(bytes));
    if (!p || mt_ranges_add(&blocks, (uint64_t)(uintptr_t)p, bytes, NULL)) {
        used -= device_heap_counted(bytes);
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
    used -= bytes;
    if (mt_options()->check && bytes >= sizeof(struct late))
        device_heap_late(p, bytes);
    else
        free(p);
}

static int device_heap_put(void *p)
{
    struct mt_range r;
    in_use = 1;
    if (!mt_ranges_take(&blocks, (uint64_t)(uintptr_t)p, &r))
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
    return mt_ranges_find(&blocks, address, out);
}

void mt_device_heap_around(uint64_t address, struct mt_range *below, struct mt_range *above)
{
    mt_ranges_around(&blocks, address, below, above);
}

void mt_device_heap_reset(void)
{
    struct mt_range r;
    while (mt_ranges_pop(&blocks, &r))
        device_heap_drop(&r);
    in_use = 0;
}
