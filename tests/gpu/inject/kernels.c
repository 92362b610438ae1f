/* Kernels of a GPU whose memory is host memory: packets, written by hand as format/packet.h says they lie. */
#include "device.h"

static struct mt_gpu_context *device_context(const void *data)
{
    return (struct mt_gpu_context *)((uintptr_t)data & ~(uintptr_t)MT_CONTEXT_IN_PARTS);
}

static struct mt_gpu_ring *device_ring(const void *data, uint32_t cta)
{
    struct mt_gpu_context *c = device_context(data);
    return (struct mt_gpu_ring *)(uintptr_t)c->rings + (cta & c->ring_mask);
}

/* Reserves a slot; waits for room as a GPU does. */
static uint64_t device_reserve(struct mt_gpu_ring *r)
{
    uint64_t at = __atomic_fetch_add(&r->head, 1, __ATOMIC_SEQ_CST), slots = r->mask + 1;
    uint64_t tail;
    do
        tail = __atomic_load_n((uint64_t *)(uintptr_t)r->tail, __ATOMIC_ACQUIRE);
    while (tail != MT_RING_CLOSED && at + 1 - tail > slots);
    return at;
}

static void device_fill(struct mt_gpu_ring *r, uint64_t at, const uint64_t words[4])
{
    uint64_t slots = r->mask + 1, tag = at & slots ? 0 : 1ull << 63;
    uint64_t *w = ((struct mt_slot *)(uintptr_t)r->slots)[at & r->mask].w;
    for (int i = 0; i < 4; i++)
        __atomic_store_n(&w[i], words[i] | tag, __ATOMIC_RELEASE);
}

static void device_put(const void *data, uint32_t cta, uint64_t first, uint64_t second, uint64_t y)
{
    struct mt_gpu_ring *r = device_ring(data, cta);
    device_fill(r, device_reserve(r), (const uint64_t[]){first, second, cta, y});
}

static uint64_t device_mask(uint32_t lanes)
{
    return lanes == 32 ? 0xffffffff : (1ull << lanes) - 1;
}

static uint64_t device_head(const void *data, uint64_t kind, uint64_t type, uint64_t x)
{
    return kind << 60 | type << 56 | (uint64_t)device_context(data)->id << 28 | x;
}

void device_lose(const void *data, uint32_t lanes)
{
    device_context(data)->records[3] += lanes;
}

void device_store(const void *data, uint32_t cta, uint32_t lanes, uint64_t address, uint32_t site)
{
    device_lose(data, lanes);
    device_put(data, cta, device_head(data, 1, 1, 4u << 16), device_mask(lanes) << 31 | site,
               4ull << 49 | address);
}

void device_pass(const void *data, uint32_t from, uint32_t to, uint64_t address, uint32_t site)
{
    struct mt_gpu_ring *store = device_ring(data, from), *load = device_ring(data, to);
    uint64_t second = device_mask(32) << 31 | site, y = 4ull << 49 | address;
    device_lose(data, 64);
    uint64_t stored = device_reserve(store), loaded = device_reserve(load);
    device_fill(load, loaded,
                (const uint64_t[]){device_head(data, 1, 0, 4u << 16), second, (uint64_t)to << 32, y});
    device_fill(store, stored,
                (const uint64_t[]){device_head(data, 1, 1, 4u << 16), second, (uint64_t)from << 32, y});
}

void device_exit(const void *data, uint32_t cta, uint32_t lanes)
{
    device_put(data, cta, device_head(data, 5, 0, 0), device_mask(lanes) << 31, 0);
}

void device_note(const void *data, uint32_t cta, uint64_t accesses)
{
    device_put(data, cta, device_head(data, 6, 0, 0), device_mask(1) << 31, accesses);
}

uint64_t device_code(const void *data)
{
    return device_context(data)->code;
}
