/* The record functions of the GPU (docs/internals.md), linked as bitcode into every instrumented device
 * module. Compiled for NVPTX as plain C with convergent functions; warp.h has the few things that C cannot
 * say.
 *
 * The pass gives each call its launch's context as the last argument (llvm-pass/context.c); NULL: the launch
 * is not traced.
 *
 * The lanes that run an access together (after divergence a part of the warp) make one packet; the lowest of
 * them reserves it, all write it. All lanes of the group hold the same mask, so every
 * warp operation names exactly the lanes that take part in it, wherever they diverge in between. */
#include "ctas.h"
#include "packet.h"
#include "warp.h"
#include "memtrace/record.h"

#define NOINLINE __attribute__((noinline))

/* ---- which CTAs --------------------------------------------------------------------------------- */

static NOINLINE struct mt_gpu_context *of_this_cta(struct mt_gpu_context *c)
{
    const uint32_t at[3] = {mt_cta_x(), mt_cta_y(), mt_cta_z()};
    uint64_t linear = at[0] + (uint64_t)mt_grid_x() * (at[1] + (uint64_t)mt_grid_y() * at[2]);
    return mt_cta_is_traced((const struct mt_cta_rule *)c->ctas, linear, at) ? c : 0;
}

/* The first thing a kernel does with its hidden parameter: the context that its record calls get. */
struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter)
{
    if (!((uint64_t)parameter & MT_CONTEXT_IN_PARTS))
        return parameter;
    return of_this_cta((struct mt_gpu_context *)((char *)parameter - MT_CONTEXT_IN_PARTS));
}

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

/* ---- where we are ------------------------------------------------------------------------------- */

struct place {
    struct mt_gpu_ring *ring;
    uint64_t slots, ring_mask; /* of the ring */
    uint64_t *counter;
    uint64_t cta;
    uint32_t id;                          /* the context's */
    uint32_t mask, n, lane, leader, rank; /* n: active lanes; rank: those below this one */
};

/* The lanes of the active mask that do the same access as this one. The mask alone does not say it: calls in
 * different branches are calls of one function, in which a GPU may run their lanes together (seen on sm_90),
 * and one access can be of a different size in each lane. */
static inline uint32_t lanes_alike(uint32_t meta, uint32_t site)
{
    for (uint32_t mask = mt_active();;) {
        uint32_t leader = (uint32_t)__builtin_ctz(mask);
        int same = mt_shuffle_half(mask, meta, leader) == meta;
        same &= mt_shuffle_half(mask, site, leader) == site;
        uint32_t alike = mt_ballot(mask, same);
        if (same)
            return alike;
        mask &= ~alike;
    }
}

/* What does not change is read here, before any operation that orders memory: the compiler keeps loads in
 * their places around those, and would wait for each. */
static inline struct place place_of(struct mt_gpu_context *c, uint32_t meta, uint32_t site)
{
    struct place p = {.mask = lanes_alike(meta, site), .lane = mt_lane()};
    uint32_t x = mt_cta_x(), y = mt_cta_y(), z = mt_cta_z();
    uint32_t number = x + mt_grid_x() * (y + mt_grid_y() * z); /* may wrap: only spreads the CTAs */
    uint64_t rings, which;
    mt_load_pair(&c->rings, &rings, &which);
    p.ring = (struct mt_gpu_ring *)rings + (number & (uint32_t)which);
    p.id = (uint32_t)(which >> 32);
    mt_load_pair(&p.ring->slots, &p.slots, &p.ring_mask);
    p.counter = &c->records[number % MT_GPU_COUNTERS];
    p.cta = mt_rec_cta(x, y, z);
    p.leader = (uint32_t)__builtin_ctz(p.mask);
    p.n = (uint32_t)__builtin_popcount(p.mask);
    p.rank = (uint32_t)__builtin_popcount(p.mask & ((1u << p.lane) - 1));
    return p;
}

/* All lanes: the leader reserves, the others learn where (32 bits of the position are enough to know slot and
 * lap). No lane goes on before: it could reserve its next access, in another group, ahead of this one.
 *
 * The tail is read before the atomic is answered, and without acquire, which would empty the SM's L1 at each
 * access: an old tail only makes us look again, and that we write after the host has read is sure because the
 * writes depend on what this load says. */
static inline uint32_t place_packet(const struct place *p, uint32_t slots, int counted)
{
    uint64_t at = 0;
    if (p->rank == 0) {
        uint64_t seen = mt_load(&p->ring->tail_seen);
        at = mt_atomic_add(&p->ring->head, slots);
        if (counted) /* a record per lane; nobody waits for it */
            mt_count(p->counter, p->n);
        if (at + slots - seen > p->ring_mask + 1)
            wait_for_room(p->ring, at + slots);
    }
    return mt_shuffle_half(p->mask, (uint32_t)at, p->leader);
}

static inline struct mt_slot *slot(const struct place *p, uint32_t at)
{
    return (struct mt_slot *)p->slots + (at & (uint32_t)p->ring_mask);
}

/* The first slot, by two lanes at once where there are two: the bus then writes it in one piece. */
static inline void put_head(const struct place *p, uint32_t at, uint32_t kind, uint32_t type, uint32_t x,
                            uint32_t site, uint64_t y)
{
    struct mt_slot *to = slot(p, at);
    uint64_t tag = mt_packet_tag(at, p->ring_mask + 1);
    for (uint32_t half = p->rank; half < 2; half += p->n) {
        uint64_t a = half ? p->cta : mt_packet_first(kind, type, mt_warp(), mt_sm(), p->id, x);
        uint64_t b = half ? y : (uint64_t)p->mask << 31 | ((site + mt_site_base()) & 0x7fffffff);
        mt_store_pair(&to->w[2 * half], (a & MT_WORD_MASK) | tag, (b & MT_WORD_MASK) | tag);
    }
}

/* Word i of a packet's body. */
static inline uint64_t *word(const struct place *p, uint32_t at, uint32_t i, uint64_t *tag)
{
    at += 1 + i / MT_SLOT_WORDS;
    *tag = mt_packet_tag(at, p->ring_mask + 1);
    return &slot(p, at)->w[i % MT_SLOT_WORDS];
}

/* ---- accesses of one size ----------------------------------------------------------------------- */

static inline int fits(int64_t value, uint32_t bits)
{
    return (uint64_t)value + (1ull << (bits - 1)) < 1ull << bits;
}

/* Addresses that lie close together. A lane of odd rank writes its own and the next one's. */
static inline void put_deltas(const struct place *p, uint64_t base, uint64_t address, uint32_t meta,
                              uint32_t site)
{
    uint32_t slots = mt_packet_slots(MT_PACKET_DELTAS, p->n), above = p->mask & ~((2u << p->lane) - 1);
    uint32_t next = above ? (uint32_t)__builtin_ctz(above) : p->lane, limit = (1u << MT_DELTA_BITS) - 1;
    uint32_t at = place_packet(p, slots, 1);
    uint64_t tag, *to;
    put_head(p, at, MT_PACKET_DELTAS, meta >> 28, meta & MT_RAW_MAX_SIZE, site, base);
    uint32_t mine = (uint32_t)(address - base) & limit, other = mt_shuffle_half(p->mask, mine, next);
    if (p->rank % 2) {
        to = word(p, at, p->rank / 2, &tag);
        mt_store(to, (uint64_t)other << MT_DELTA_BITS | mine | tag);
    }
    for (uint32_t i = p->n / 2 + p->rank; i < (slots - 1) * MT_SLOT_WORDS; i += p->n) {
        to = word(p, at, i, &tag);
        mt_store(to, tag);
    }
}

static inline void put_lanes(const struct place *p, uint64_t address, uint32_t meta, uint32_t site)
{
    uint32_t slots = mt_packet_slots(MT_PACKET_LANES, p->n);
    uint32_t at = place_packet(p, slots, 1);
    uint64_t tag;
    put_head(p, at, MT_PACKET_LANES, meta >> 28, meta & MT_RAW_MAX_SIZE, site, 0);
    for (uint32_t i = p->rank; i < (slots - 1) * MT_SLOT_WORDS; i += p->n) {
        uint64_t *to = word(p, at, i, &tag);
        mt_store(to, (address & MT_WORD_MASK) | tag);
    }
}

NOINLINE void __mt_gpu_access_global(const void *pointer, uint32_t meta, uint32_t site,
                                     struct mt_gpu_context *c)
{
    if (!c)
        return;
    const uint64_t address = (uint64_t)pointer;
    struct place p = place_of(c, meta, site);
    uint32_t others = p.mask & (p.mask - 1), size = meta & MT_RAW_MAX_SIZE;
    uint32_t second = others ? (uint32_t)__builtin_ctz(others) : p.leader;
    uint64_t base = mt_shuffle(p.mask, address, p.leader);
    /* If the two lie further apart than 32 bits say, the second lane will see it. */
    int32_t stride = (int32_t)(mt_shuffle_half(p.mask, (uint32_t)address, second) - (uint32_t)base);
    int small = size <= MT_REGULAR_MAX_SIZE && !(base >> MT_REGULAR_ADDRESS_BITS) &&
                (uint32_t)stride + (1u << (MT_REGULAR_STRIDE_BITS - 1)) <
                    1u << MT_REGULAR_STRIDE_BITS; /* the same in all lanes */
    if (mt_all(p.mask, small && address == base + (uint64_t)((int64_t)stride * (int32_t)p.rank))) {
        uint64_t low = (uint32_t)stride & ((1u << MT_REGULAR_STRIDE_LOW) - 1);
        uint32_t high = (uint32_t)stride >> MT_REGULAR_STRIDE_LOW & 0xffff;
        uint32_t at = place_packet(&p, 1, 1);
        put_head(&p, at, MT_PACKET_REGULAR, meta >> 28, size << 16 | high, site,
                 low << MT_REGULAR_ADDRESS_BITS | base);
    } else if (mt_all(p.mask, fits((int64_t)(address - base), MT_DELTA_BITS))) {
        put_deltas(&p, base, address, meta, site);
    } else {
        put_lanes(&p, address, meta, site);
    }
}

void __mt_gpu_access_generic(const void *address, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    if (c && mt_is_global(address))
        __mt_gpu_access_global(address, meta, site, c);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static NOINLINE void block(struct mt_gpu_context *c, uint64_t address, uint64_t bytes, uint32_t type,
                           uint32_t site)
{
    struct place p = place_of(c, type, site);
    uint32_t slots = mt_packet_slots(MT_PACKET_BLOCKS, p.n);
    uint32_t at = place_packet(&p, slots, 0);
    uint64_t tag;
    put_head(&p, at, MT_PACKET_BLOCKS, type, 0, site, 0);
    mt_count(p.counter, (bytes + MT_RAW_MAX_SIZE - 1) / MT_RAW_MAX_SIZE); /* records: long blocks are cut */
    for (uint32_t i = p.rank; i < (slots - 1) * MT_SLOT_WORDS / 2; i += p.n) {
        uint64_t *to = word(&p, at, 2 * i, &tag);
        mt_store_pair(to, (address & MT_WORD_MASK) | tag, (bytes & MT_WORD_MASK) | tag);
    }
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
    uint32_t mask = lanes_alike(meta, 0), n = (uint32_t)__builtin_popcount(mask), type = meta >> 28;
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
