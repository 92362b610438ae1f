/* The record functions of the GPU (docs/internals.md), linked as bitcode into every instrumented device
 * module. Compiled for NVPTX as plain C with convergent functions; warp.h has
 * the few things that C cannot say.
 *
 * The pass gives each call its launch's context as the last argument (llvm-pass/gpu/context.c); NULL: the
 * launch is not traced.
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

static inline struct mt_gpu_context *of_this_cta(struct mt_gpu_context *c)
{
    const uint32_t at[3] = {mt_cta_x(), mt_cta_y(), mt_cta_z()};
    uint64_t linear = at[0] + (uint64_t)mt_grid_x() * (at[1] + (uint64_t)mt_grid_y() * at[2]);
    return mt_cta_is_traced((const struct mt_cta_rule *)c->ctas, linear, at) ? c : 0;
}

/* The first thing a kernel does with its hidden parameter: NULL when its CTA is not traced. */
struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter)
{
    if (!((uint64_t)parameter & MT_CONTEXT_IN_PARTS))
        return parameter;
    return of_this_cta((struct mt_gpu_context *)((char *)parameter - MT_CONTEXT_IN_PARTS));
}

/* What a record function does with its last two arguments: kernels hand on their parameter as it is and say
 * by a bit what begin() said, others hand on a context. NULL: there is nothing to record. */
static inline struct mt_gpu_context *context_of(uint32_t site, struct mt_gpu_context *c)
{
    return site & MT_SITE_LEFT_OUT ? 0 : (void *)((uint64_t)c & ~(uint64_t)MT_CONTEXT_IN_PARTS);
}

/* ---- the lanes of an access --------------------------------------------------------------------- */

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

static inline uint32_t lowest_of(uint32_t mask)
{
    return (uint32_t)__builtin_ctz(mask);
}

static inline uint32_t count_of(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

/* How many lanes of the mask are below this one. */
static inline uint32_t rank_in(uint32_t mask)
{
    return count_of(mask & ((1u << mt_lane()) - 1));
}

/* ---- rings -------------------------------------------------------------------------------------- */

/* Registers that these functions use come on top of those that a kernel has in use at its access. So few
 * values live at once: what one or two instructions make of the mask, or a special register says, is asked
 * for again. */
struct ring {
    struct mt_gpu_ring *shared;
    struct mt_slot *slots;
    uint32_t mask; /* slots - 1 */
    uint32_t id;   /* the context's */
    uint64_t *counter;
};

/* What does not change is read here, before any operation that orders memory: the compiler keeps loads in
 * their places around those, and would wait for each. */
static inline struct ring ring_of(struct mt_gpu_context *c)
{
    /* Of the CTA; may wrap: only spreads them. */
    uint32_t number = mt_cta_x() + mt_grid_x() * (mt_cta_y() + mt_grid_y() * mt_cta_z());
    uint64_t rings, which, slots, mask;
    mt_load_pair(&c->rings, &rings, &which);
    struct mt_gpu_ring *shared = (struct mt_gpu_ring *)rings + (number & (uint32_t)which);
    mt_load_pair(&shared->slots, &slots, &mask);
    return (struct ring){shared, (struct mt_slot *)slots, (uint32_t)mask, (uint32_t)(which >> 32),
                         &c->records[number % MT_GPU_COUNTERS]};
}

/* Is a packet that ends before `end` ahead of what the host has read up to `tail`? 32 bits of both are
 * enough: they are less than the ring and what all lanes of a GPU may have reserved apart. */
static inline int is_full(uint32_t end, uint64_t tail, uint32_t ring_mask)
{
    return end - (uint32_t)tail - 1 > ring_mask;
}

#define ASK_ANYWAY 256 /* turns, some 4 us each */

/* Room comes from the host, and only the bus says how much. If all that wait asked there, thousands of them,
 * records would have to wait for the answers. So one asks, the leader whose packet begins where there is room
 * and ends where there is none: there is one as long as any waits, since packets follow each other without a
 * gap. The others see the answer on the device. What a program that writes out of bounds leaves there can
 * make everyone believe to be none of that leader, so each asks now and then. */
static inline void wait_for_room(const struct ring *r, uint32_t at, uint32_t end)
{
    for (uint32_t turn = 1;; turn++) {
        uint64_t tail = mt_load(&r->shared->tail_seen);
        if (!is_full(at, tail, r->mask) || turn % ASK_ANYWAY == 0) {
            tail = mt_load_acquire_system((const uint64_t *)r->shared->tail);
            mt_atomic_max(&r->shared->tail_seen, tail);
        }
        if (tail == MT_RING_CLOSED || !is_full(end, tail, r->mask))
            return;
        mt_sleep(turn < 128 ? 32 * turn : 4096);
    }
}

/* All lanes: the leader reserves, the others learn where (32 bits of the position are enough to know slot and
 * lap). No lane goes on before: it could reserve its next access, in another group, ahead of this one.
 * `counted`: a record per lane.
 *
 * The tail is read before the atomic is answered, and without acquire, which would empty the SM's L1 at each
 * access: an old tail only makes us look again, and that we write after the host has read is sure because the
 * writes depend on what this load says. */
static inline uint32_t place_packet(const struct ring *r, uint32_t mask, uint32_t slots, int counted)
{
    uint32_t at = 0;
    if (rank_in(mask) == 0) {
        if (counted) /* nobody waits for it; it goes first because its operands are not needed then */
            mt_count(r->counter, count_of(mask));
        uint64_t seen = mt_load(&r->shared->tail_seen);
        at = (uint32_t)mt_atomic_add(&r->shared->head, slots);
        if (is_full(at + slots, seen, r->mask))
            wait_for_room(r, at, at + slots);
    }
    return mt_shuffle_half(mask, at, lowest_of(mask));
}

static inline struct mt_slot *record_slot(const struct ring *r, uint32_t at)
{
    return r->slots + (at & r->mask);
}

/* What a packet's first slot says beside where it was made. */
struct head {
    uint32_t mask, site;
    uint32_t low, high; /* word 0, without warp and SM */
    uint64_t y;
};

static inline struct head head_of(const struct ring *r, uint32_t mask, uint32_t site, uint32_t kind,
                                  uint32_t type, uint32_t x, uint64_t y)
{
    uint64_t first = mt_packet_first(kind, type, 0, 0, r->id, x);
    struct head h = {mask, site, (uint32_t)first, (uint32_t)(first >> 32), y};
    __asm__("" : "+r"(h.low), "+r"(h.high)); /* else what they are made of is kept instead: twice as much */
    return h;
}

static inline uint32_t kind_of(const struct head *h)
{
    return h->high >> 28;
}

static inline void put_half(const struct ring *r, const struct head *h, uint32_t at, uint32_t half)
{
    uint64_t a, b, tag = mt_packet_tag(at, r->mask + 1);
    if (half) {
        a = mt_rec_cta(mt_cta_x(), mt_cta_y(), mt_cta_z());
        b = h->y;
    } else {
        a = (uint64_t)h->high << 32 | h->low | mt_packet_first(0, 0, mt_warp(), mt_sm(), 0, 0);
        b = (uint64_t)h->mask << 31 | ((h->site + mt_site_base()) & 0x7fffffff);
    }
    mt_store_pair(&record_slot(r, at)->w[2 * half], (a & MT_WORD_MASK) | tag, (b & MT_WORD_MASK) | tag);
}

/* The first slot, by two lanes at once where there are two: the bus then writes it in one piece. */
static inline void put_head(const struct ring *r, const struct head *h, uint32_t at)
{
    uint32_t rank = rank_in(h->mask);
    if (rank < 2)
        put_half(r, h, at, rank);
    if (count_of(h->mask) == 1)
        put_half(r, h, at, 1);
}

/* Word i of a packet's body. */
static inline uint64_t *record_word(const struct ring *r, uint32_t at, uint32_t i, uint64_t *tag)
{
    at += 1 + i / MT_SLOT_WORDS;
    *tag = mt_packet_tag(at, r->mask + 1);
    return &record_slot(r, at)->w[i % MT_SLOT_WORDS];
}

static inline void put_word(const struct ring *r, uint32_t at, uint32_t i, uint64_t value)
{
    uint64_t tag, *to = record_word(r, at, i, &tag);
    mt_store(to, value | tag);
}

/* ---- accesses of one size ----------------------------------------------------------------------- */

/* How the addresses of a group's lanes lie to each other, and what a packet says of it. */
struct shape {
    uint32_t kind, x;
    uint64_t y, value; /* value: what this lane has for the body */
};

/* Two addresses, in the word of the lower one's lane less the base: this lane's and the next one's. */
static inline uint64_t deltas_of(uint32_t mask, uint32_t mine)
{
    uint32_t above = mask & ~((2u << mt_lane()) - 1), next = lowest_of(above ? above : mask);
    return (uint64_t)mt_shuffle_half(mask, mine, next) << MT_DELTA_BITS | mine;
}

static inline int record_fits(int64_t value, uint32_t bits)
{
    return (uint64_t)value + (1ull << (bits - 1)) < 1ull << bits;
}

static inline struct shape shape_of(uint32_t mask, uint64_t address, uint32_t size)
{
    uint32_t others = mask & (mask - 1), second = lowest_of(others ? others : mask);
    uint64_t base = mt_shuffle(mask, address, lowest_of(mask));
    /* If the two lie further apart than 32 bits say, the second lane will see it. */
    int32_t stride = (int32_t)(mt_shuffle_half(mask, (uint32_t)address, second) - (uint32_t)base);
    int small = size <= MT_REGULAR_MAX_SIZE && !(base >> MT_REGULAR_ADDRESS_BITS) &&
                (uint32_t)stride + (1u << (MT_REGULAR_STRIDE_BITS - 1)) <
                    1u << MT_REGULAR_STRIDE_BITS; /* the same in all lanes */
    if (mt_all(mask, small && address == base + (uint64_t)((int64_t)stride * (int32_t)rank_in(mask)))) {
        uint64_t low = (uint32_t)stride & ((1u << MT_REGULAR_STRIDE_LOW) - 1);
        uint32_t high = (uint32_t)stride >> MT_REGULAR_STRIDE_LOW & 0xffff;
        return (struct shape){MT_PACKET_REGULAR, size << 16 | high, low << MT_REGULAR_ADDRESS_BITS | base, 0};
    }
    if (mt_all(mask, record_fits((int64_t)(address - base), MT_DELTA_BITS))) {
        uint32_t mine = (uint32_t)(address - base) & ((1u << MT_DELTA_BITS) - 1);
        return (struct shape){MT_PACKET_DELTAS, size, base, mine};
    }
    return (struct shape){MT_PACKET_LANES, size, 0, address & MT_WORD_MASK};
}

/* Slots 1… of a packet that has some. Words that no lane needs are written, too. */
static inline void put_body(const struct ring *r, uint32_t mask, uint32_t at, uint32_t kind, uint64_t value)
{
    uint32_t i = rank_in(mask), words = count_of(mask);
    if (kind == MT_PACKET_DELTAS) { /* a lane of odd rank writes its own and the next one's */
        uint64_t both = deltas_of(mask, (uint32_t)value);
        if (i % 2)
            put_word(r, at, i / 2, both);
        words /= 2;
        i += words;
        value = 0;
    }
    for (words = (words + MT_SLOT_WORDS - 1) & ~(MT_SLOT_WORDS - 1); i < words; i += count_of(mask))
        put_word(r, at, i, value);
}

NOINLINE void __mt_gpu_access_global(const void *pointer, uint32_t meta, uint32_t site,
                                     struct mt_gpu_context *c)
{
    if (!(c = context_of(site, c)))
        return;
    const uint32_t mask = lanes_alike(meta, site);
    const struct ring r = ring_of(c);
    const struct shape s = shape_of(mask, (uint64_t)pointer, meta & MT_RAW_MAX_SIZE);
    const struct head h = head_of(&r, mask, site, s.kind, meta >> 28, s.x, s.y);
    uint32_t at = place_packet(&r, mask, mt_packet_slots(kind_of(&h), count_of(mask)), 1);
    put_head(&r, &h, at);
    if (kind_of(&h) != MT_PACKET_REGULAR)
        put_body(&r, mask, at, kind_of(&h), s.value);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static NOINLINE void record_block(struct mt_gpu_context *c, uint64_t address, uint64_t bytes, uint32_t type,
                                  uint32_t site)
{
    const uint32_t mask = lanes_alike(type, site);
    const struct ring r = ring_of(c);
    const struct head h = head_of(&r, mask, site, MT_PACKET_BLOCKS, type, 0, 0);
    uint32_t slots = mt_packet_slots(MT_PACKET_BLOCKS, count_of(mask));
    uint32_t at = place_packet(&r, mask, slots, 0);
    uint64_t tag;
    put_head(&r, &h, at);
    mt_count(r.counter, (bytes + MT_RAW_MAX_SIZE - 1) / MT_RAW_MAX_SIZE); /* records: long blocks are cut */
    for (uint32_t i = rank_in(mask); i < (slots - 1) * MT_SLOT_WORDS / 2; i += count_of(mask)) {
        uint64_t *to = record_word(&r, at, 2 * i, &tag);
        mt_store_pair(to, (address & MT_WORD_MASK) | tag, (bytes & MT_WORD_MASK) | tag);
    }
}

void __mt_gpu_access_global_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c)
{
    if ((c = context_of(site, c)) && bytes)
        record_block(c, (uint64_t)address, bytes, type, site);
}

/* ---- shared and local memory, barriers ----------------------------------------------------------- */

/* Raw traces have no room for what these are. */
void __mt_gpu_access_space(const void *pointer, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    if (!(c = context_of(site, c)))
        return;
    if (c->spaces || !mt_rec_space(meta >> 28))
        __mt_gpu_access_global(pointer, meta, site, c);
}

void __mt_gpu_access_space_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                             struct mt_gpu_context *c)
{
    if (!(c = context_of(site, c)))
        return;
    if (c->spaces || !mt_rec_space(type))
        __mt_gpu_access_global_n(address, bytes, type, site, c);
}

/* ---- counting instead of recording (option count=only) ------------------------------------------- */

/* The lanes that run an access together count it together. */
static NOINLINE void record_count(struct mt_gpu_context *c, uint32_t meta)
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
    (void)address;
    if ((c = context_of(site, c)))
        record_count(c, meta);
}

void __mt_gpu_count_global_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                             struct mt_gpu_context *c)
{
    (void)address;
    if ((c = context_of(site, c)) && bytes)
        count_block(c, bytes, type);
}

void __mt_gpu_untraced(uint32_t note, struct mt_gpu_context *c)
{
    if ((c = context_of(note, c)))
        mt_count(&c->untraced, 1);
}
