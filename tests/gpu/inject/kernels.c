/* Kernels of a GPU whose memory is host memory: packets, written by hand as format/packet.h says they lie. */
#include "device.h"

static struct mt_gpu_context *device_context(const void *data)
{
    return (struct mt_gpu_context *)((uintptr_t)data & ~(uintptr_t)MT_CONTEXT_FLAGS);
}

static struct mt_gpu_ring *device_ring(const void *data, uint32_t cta)
{
    struct mt_gpu_context *c = device_context(data);
    return (struct mt_gpu_ring *)(uintptr_t)c->rings + (cta & c->ring_mask);
}

/* Reserves n slots; waits for room as a GPU does. */
static uint64_t device_reserve(struct mt_gpu_ring *r, uint64_t n)
{
    uint64_t at = __atomic_fetch_add(&r->head, n, __ATOMIC_SEQ_CST), slots = r->mask + 1;
    uint64_t tail;
    do
        tail = __atomic_load_n((uint64_t *)(uintptr_t)r->tail, __ATOMIC_ACQUIRE);
    while (tail != MT_RING_CLOSED && at + n - tail > slots);
    return at;
}

static void device_fill(struct mt_gpu_ring *r, uint64_t at, const uint64_t words[4])
{
    uint64_t slots = r->mask + 1, tag = at & slots ? 0 : 1ull << 63;
    uint64_t *w = ((struct mt_slot *)(uintptr_t)r->slots)[at & r->mask].w;
    for (int i = 0; i < 4; i++)
        __atomic_store_n(&w[i], words[i] << 1 >> 1 | tag, __ATOMIC_RELEASE);
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
    __atomic_add_fetch(&device_context(data)->records[3], lanes, __ATOMIC_SEQ_CST);
}

void device_store(const void *data, uint32_t cta, uint32_t lanes, uint64_t address, uint32_t site)
{
    device_lose(data, lanes);
    device_bring(data, cta, lanes, address, site);
}

void device_bring(const void *data, uint32_t cta, uint32_t lanes, uint64_t address, uint32_t site)
{
    struct mt_gpu_ring *r = device_ring(data, cta);
    device_fill(r, device_reserve(r, 1),
                (const uint64_t[]){device_head(data, 1, 1, 4u << 16), device_mask(lanes) << 31 | site, cta,
                                   4ull << 49 | address});
}

int device_totals(const void *data)
{
    return device_context(data)->kernel != 0;
}

void device_count(const void *data, uint32_t lanes, uint64_t pc)
{
    const struct mt_gpu_context *c = device_context(data);
    struct mt_gpu_tallies *t = (struct mt_gpu_tallies *)(uintptr_t)c->tallies;
    struct mt_gpu_tally *e = (struct mt_gpu_tally *)(t + 1);
    uint64_t key = c->kernel << 45 | pc / 16, none = 0;
    while (!__atomic_compare_exchange_n(&e->key, &none, key, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
           none != key) {
        none = 0;
        e++;
    }
    e->meta = 1u << 28 | 4;
    e->stride[0] = 4 << 1 | 1;
    __atomic_add_fetch(&e->times[0], 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&e->requests, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&e->accesses, lanes, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&e->bytes, 4 * lanes, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&e->distinct, 4 * lanes, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&e->sectors, lanes / 8, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&e->lines, lanes / 32, __ATOMIC_SEQ_CST);
}

void device_pass(const void *data, uint32_t from, uint32_t to, uint64_t address, uint32_t site)
{
    struct mt_gpu_ring *store = device_ring(data, from), *load = device_ring(data, to);
    uint64_t second = device_mask(32) << 31 | site, y = 4ull << 49 | address;
    device_lose(data, 64);
    uint64_t stored = device_reserve(store, 1), loaded = device_reserve(load, 1);
    device_fill(load, loaded,
                (const uint64_t[]){device_head(data, 1, 0, 4u << 16), second, (uint64_t)to << 32, y});
    device_fill(store, stored,
                (const uint64_t[]){device_head(data, 1, 1, 4u << 16), second, (uint64_t)from << 32, y});
}

/* The context's counters in two slots. */
static void device_end(const void *data, uint32_t cta)
{
    const struct mt_gpu_context *c = device_context(data);
    struct mt_gpu_ring *r = device_ring(data, cta);
    uint64_t records = 0, at = device_reserve(r, 2);
    for (int i = 0; i < 16; i++)
        records += __atomic_load_n(&c->records[i], __ATOMIC_SEQ_CST);
    device_fill(r, at, (const uint64_t[]){device_head(data, 5, 0, 0), 1ull << 31, cta, records});
    device_fill(r, at + 1, (const uint64_t[]){c->untraced, c->repeated, 0, 0});
}

void device_exit(const void *data, uint32_t cta, uint32_t lanes, uint64_t all)
{
    struct mt_gpu_context *c = device_context(data);
    if (!((uintptr_t)data & MT_CONTEXT_EXITS) ||
        __atomic_add_fetch(&c->exits, lanes, __ATOMIC_SEQ_CST) != all)
        return;
    __atomic_store_n(&c->exits, 0, __ATOMIC_SEQ_CST);
    device_end(data, cta);
}

void device_note(const void *data, uint64_t accesses, uint64_t repeats)
{
    __atomic_add_fetch(&device_context(data)->untraced, accesses, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&device_context(data)->repeated, repeats, __ATOMIC_SEQ_CST);
}

uint64_t device_code(const void *data)
{
    return device_context(data)->code;
}
