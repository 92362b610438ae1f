/* The record functions of the GPU (docs/internals.md), linked as bitcode into every instrumented device
 * module. Compiled for NVPTX as plain C with convergent functions; warp.h has the few things that C cannot
 * say.
 *
 * The pass gives each call its launch's context as the last argument (llvm-pass/context.c); NULL: the launch
 * is not traced.
 *
 * The lanes that run an access together (the active mask; after divergence a part of the warp) make one
 * packet; the lowest of them reserves and commits it. All lanes of the group hold the same mask, so every
 * warp operation names exactly the lanes that take part in it. */
#include "packet.h"
#include "warp.h"
#include "memtrace/record.h"

#define NOINLINE __attribute__((noinline))

/* ---- rings -------------------------------------------------------------------------------------- */

static NOINLINE void wait_for_room(struct mt_gpu_ring *r, uint64_t end)
{
    uint32_t ns = 32;
    for (;;) {
        uint64_t tail = mt_load_acquire_system((const uint64_t *)r->tail);
        mt_atomic_max(&r->tail_seen, tail);
        if (end - tail <= r->mask + 1)
            return;
        mt_sleep(ns);
        ns = ns < 4096 ? ns * 2 : ns;
    }
}

/* One lane: room for n slots; their position. */
static inline uint64_t reserve(struct mt_gpu_ring *r, uint32_t n)
{
    uint64_t at = mt_atomic_add(&r->head, n);
    if (at + n - mt_load_acquire(&r->tail_seen) > r->mask + 1)
        wait_for_room(r, at + n);
    return at;
}

static inline struct mt_slot *slot(struct mt_gpu_ring *r, uint64_t at)
{
    return (struct mt_slot *)r->slots + (at & r->mask);
}

/* One lane, when the others' part is written and seen by it. */
static inline void commit(struct mt_gpu_ring *r, uint64_t at, uint64_t first, uint64_t second, uint64_t cta,
                          uint64_t where)
{
    struct mt_slot *head = slot(r, at);
    mt_store(&head->b, second);
    mt_store_slot(slot(r, at + 1), cta, where);
    mt_store_release_system(&head->a, first);
}

/* ---- where we are ------------------------------------------------------------------------------- */

struct place {
    struct mt_gpu_context *context;
    struct mt_gpu_ring *ring;
    uint64_t *counter;
    uint64_t cta;
    uint32_t mask, lane, leader, rank; /* rank: active lanes below this one */
};

static inline struct place place_of(struct mt_gpu_context *c)
{
    struct place p = {.context = c, .mask = mt_active(), .lane = mt_lane()};
    uint32_t x = mt_cta_x(), y = mt_cta_y(), z = mt_cta_z();
    uint32_t number = x + mt_grid_x() * (y + mt_grid_y() * z); /* may wrap: only spreads the CTAs */
    p.ring = (struct mt_gpu_ring *)c->rings + (number & c->ring_mask);
    p.counter = &c->records[number % MT_GPU_COUNTERS];
    p.cta = mt_rec_cta(x, y, z);
    p.leader = (uint32_t)__builtin_ctz(p.mask);
    p.rank = (uint32_t)__builtin_popcount(p.mask & ((1u << p.lane) - 1));
    return p;
}

static inline uint64_t where(uint32_t site)
{
    return (uint64_t)mt_warp() << 32 | site;
}

/* ---- accesses of one size ----------------------------------------------------------------------- */

static NOINLINE void access(struct mt_gpu_context *c, uint64_t address, uint32_t meta, uint32_t site)
{
    struct place p = place_of(c);
    uint32_t n = (uint32_t)__builtin_popcount(p.mask), others = p.mask & (p.mask - 1);
    uint32_t second = others ? (uint32_t)__builtin_ctz(others) : p.leader;
    uint64_t base = mt_shuffle(p.mask, address, p.leader);
    uint64_t stride = mt_shuffle(p.mask, address, second) - base;
    uint64_t at = 0;
    if (mt_all(p.mask, address == base + stride * p.rank)) {
        if (p.lane == p.leader) {
            at = reserve(p.ring, MT_PACKET_HEAD + 1);
            mt_store_slot(slot(p.ring, at + MT_PACKET_HEAD), base, stride);
            commit(p.ring, at, mt_packet_first(MT_PACKET_REGULAR, MT_PACKET_HEAD + 1, mt_sm(), c->id),
                   (uint64_t)meta << 32 | p.mask, p.cta, where(site));
            mt_count(p.counter, n);
        }
        mt_sync(
            p.mask); /* no lane may reserve for its next access, in another group, before this is reserved */
        return;
    }
    uint32_t slots = MT_PACKET_HEAD + (n + 1) / 2;
    if (p.lane == p.leader)
        at = reserve(p.ring, slots);
    at = mt_shuffle(p.mask, at, p.leader);
    struct mt_slot *to = slot(p.ring, at + MT_PACKET_HEAD + p.rank / 2);
    mt_store(p.rank % 2 ? &to->b : &to->a, address);
    mt_sync(p.mask);
    if (p.lane == p.leader) {
        commit(p.ring, at, mt_packet_first(MT_PACKET_LANES, slots, mt_sm(), c->id),
               (uint64_t)meta << 32 | p.mask, p.cta, where(site));
        mt_count(p.counter, n);
    }
}

void __mt_gpu_access_global(const void *address, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    if (c)
        access(c, (uint64_t)address, meta, site);
}

void __mt_gpu_access_generic(const void *address, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    if (c && mt_is_global(address))
        access(c, (uint64_t)address, meta, site);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static NOINLINE void block(struct mt_gpu_context *c, uint64_t address, uint64_t bytes, uint32_t type,
                           uint32_t site)
{
    struct place p = place_of(c);
    uint32_t slots = MT_PACKET_HEAD + (uint32_t)__builtin_popcount(p.mask);
    uint64_t at = 0;
    if (p.lane == p.leader)
        at = reserve(p.ring, slots);
    at = mt_shuffle(p.mask, at, p.leader);
    mt_store_slot(slot(p.ring, at + MT_PACKET_HEAD + p.rank), address, bytes);
    mt_count(p.counter, (bytes + MT_RAW_MAX_SIZE - 1) / MT_RAW_MAX_SIZE); /* records: long blocks are cut */
    mt_sync(p.mask);
    if (p.lane == p.leader)
        commit(p.ring, at, mt_packet_first(MT_PACKET_BLOCKS, slots, mt_sm(), c->id),
               (uint64_t)mt_rec_meta(type, 0) << 32 | p.mask, p.cta, where(site));
}

void __mt_gpu_access_global_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c)
{
    if (c && bytes)
        block(c, (uint64_t)address, bytes, type, site);
}

void __mt_gpu_access_generic_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                               struct mt_gpu_context *c)
{
    if (c && bytes && mt_is_global(address))
        block(c, (uint64_t)address, bytes, type, site);
}

/* ---- counting instead of recording (option count=only) ------------------------------------------- */

/* The lanes that run an access together count it together. */
static NOINLINE void count(struct mt_gpu_context *c, uint32_t meta)
{
    uint32_t mask = mt_active(), n = (uint32_t)__builtin_popcount(mask), type = meta >> 28;
    if (type < 3 && mt_lane() == (uint32_t)__builtin_ctz(mask)) {
        mt_count(&c->counts[2 * type], n);
        mt_count(&c->counts[2 * type + 1], (uint64_t)n * (meta & MT_RAW_MAX_SIZE));
    }
}

static NOINLINE void count_block(struct mt_gpu_context *c, uint64_t bytes, uint32_t type)
{
    if (type < 3) {
        mt_count(&c->counts[2 * type], (bytes + MT_RAW_MAX_SIZE - 1) / MT_RAW_MAX_SIZE);
        mt_count(&c->counts[2 * type + 1], bytes);
    }
}

void __mt_gpu_count_global(const void *address, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    (void)address, (void)site;
    if (c)
        count(c, meta);
}

void __mt_gpu_count_generic(const void *address, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    (void)site;
    if (c && mt_is_global(address))
        count(c, meta);
}

void __mt_gpu_count_global_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                             struct mt_gpu_context *c)
{
    (void)address, (void)site;
    if (c && bytes)
        count_block(c, bytes, type);
}

void __mt_gpu_count_generic_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c)
{
    (void)site;
    if (c && bytes && mt_is_global(address))
        count_block(c, bytes, type);
}

void __mt_gpu_untraced(uint32_t note, struct mt_gpu_context *c)
{
    (void)note;
    if (c)
        mt_count(&c->untraced, 1);
}
