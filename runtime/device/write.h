/* Writer of packets (packet.h), used by the record functions of mt-cc's kernels (record.c), the patches of
 * machine code (runtime/gpu/patch), and by both on host threads in tests. Valid as C11, and as C++ for nvcc.
 * Include warp.h, or a replacement for it, before this file. */
#ifndef MT_DEVICE_WRITE_H
#define MT_DEVICE_WRITE_H
#include "format/packet.h"
#include "memtrace/record.h"

/* ---- lanes of an access ------------------------------------------------------------------------- */

/* Returns the active lanes that make the same access as this one. The active mask alone is not enough: calls
 * in different branches call one function, in which a GPU may run their lanes together (seen on sm_90), and
 * the size of one access can differ between lanes. */
MT_DEVICE_INLINE uint32_t write_lanes(uint32_t meta, uint32_t site)
{
    for (uint32_t mask = mt_active();;) {
        uint32_t leader = mt_lowest(mask);
        int same = mt_shuffle_half(mask, meta, leader) == meta;
        same &= mt_shuffle_half(mask, site, leader) == site;
        uint32_t alike = mt_ballot(mask, same);
        if (same)
            return alike;
        mask &= ~alike;
    }
}

/* Returns the lanes of an access that is identified by one number. */
MT_DEVICE_INLINE uint32_t write_lanes_at(uint32_t what)
{
    for (uint32_t mask = mt_active();;) {
        int same = mt_shuffle_half(mask, what, mt_lowest(mask)) == what;
        uint32_t alike = mt_ballot(mask, same);
        if (same)
            return alike;
        mask &= ~alike;
    }
}

/* Returns the number of lanes of the mask below this one. */
MT_DEVICE_INLINE uint32_t write_rank(uint32_t mask)
{
    return mt_bits(mask & ((1u << mt_lane()) - 1));
}

/* ---- rings -------------------------------------------------------------------------------------- */

/* Registers used here add to those that the kernel uses at its access. So few values are kept live: values
 * derivable from the mask or a special register by one or two instructions are computed again. */
struct write_ring {
    struct mt_gpu_ring *shared;
    struct mt_slot *slots;
    uint32_t mask; /* slots - 1 */
    uint32_t id;   /* id of the context */
    uint64_t *counter;
};

/* Reads all constants first, before any operation that orders memory: the compiler does not move loads across
 * those, and would wait for each. */
MT_DEVICE_INLINE struct write_ring write_ring_of(struct mt_gpu_context *c)
{
    /* Number of the CTA; may wrap, as it only spreads the load. */
    uint32_t number = mt_cta_x() + mt_grid_x() * (mt_cta_y() + mt_grid_y() * mt_cta_z());
    uint64_t rings, which, slots, mask;
    mt_load_pair(&c->rings, &rings, &which);
    struct mt_gpu_ring *shared = (struct mt_gpu_ring *)rings + (number & (uint32_t)which);
    mt_load_pair(&shared->slots, &slots, &mask);
    struct write_ring r = {shared, (struct mt_slot *)slots, (uint32_t)mask, (uint32_t)(which >> 32),
                           &c->records[number % MT_GPU_COUNTERS]};
    return r;
}

/* Returns whether a packet that ends before `end` would pass the host's read position `tail`. 32 bits of both
 * are enough: they differ by less than the ring plus what all lanes of a GPU may have reserved. */
MT_DEVICE_INLINE int write_is_full(uint32_t end, uint64_t tail, uint32_t ring_mask)
{
    return end - (uint32_t)tail - 1 > ring_mask;
}

#define MT_ASK_ANYWAY 256 /* in turns of about 4 us */

/* The host frees room, and only a read over the bus shows how much. If thousands of waiting leaders all read
 * there, records would have to wait for the answers. So only one reads: the leader whose packet begins where
 * there is room and ends where there is none. There is always one while any waits, since packets follow each
 * other without gaps. The others see the result on the device. Out-of-bounds writes of the program can make
 * every leader believe that another one reads, so each also reads now and then. */
MT_DEVICE_INLINE void write_wait(const struct write_ring *r, uint32_t at, uint32_t end)
{
    for (uint32_t turn = 1;; turn++) {
        uint64_t tail = mt_load(&r->shared->tail_seen);
        if (!write_is_full(at, tail, r->mask) || turn % MT_ASK_ANYWAY == 0) {
            tail = mt_load_acquire_system((const uint64_t *)r->shared->tail);
            mt_atomic_max(&r->shared->tail_seen, tail);
        }
        if (tail == MT_RING_CLOSED || !write_is_full(end, tail, r->mask))
            return;
        mt_sleep(turn < 128 ? 32 * turn : 4096);
    }
}

/* All lanes: the leader reserves the place, and the others receive it (32 bits of the position are enough for
 * slot and lap). No lane continues before: it could reserve its next access, in another group, ahead of this
 * one. `counted`: a record per lane.
 *
 * The tail is read before the atomic returns, and without acquire, which would empty the SM's L1 at each
 * access: an old tail only causes another look, and the order of our writes after the host's reads is certain
 * because the writes depend on the result of this load. */
MT_DEVICE_INLINE uint32_t write_place(const struct write_ring *r, uint32_t mask, uint32_t slots, int counted)
{
    uint32_t at = 0;
    if (write_rank(mask) == 0) {
        if (counted) /* nobody waits for the result; first, since its operands are not needed afterwards */
            mt_count(r->counter, mt_bits(mask));
        uint64_t seen = mt_load(&r->shared->tail_seen);
        at = (uint32_t)mt_atomic_add(&r->shared->head, slots);
        if (write_is_full(at + slots, seen, r->mask))
            write_wait(r, at, at + slots);
    }
    return mt_shuffle_half(mask, at, mt_lowest(mask));
}

/* Returns mt_packet_tag(), computed in 32-bit registers. */
MT_DEVICE_INLINE uint64_t write_tag(const struct write_ring *r, uint32_t at)
{
    uint32_t tag = at & (r->mask + 1) ? 0 : 1u << 31;
    return (uint64_t)tag << 32;
}

MT_DEVICE_INLINE struct mt_slot *write_slot(const struct write_ring *r, uint32_t at)
{
    return r->slots + (at & r->mask);
}

/* Contents of a packet's first slot, besides warp and SM. */
struct write_head {
    uint32_t mask, site;
    uint32_t low, high; /* word 0, without warp and SM */
    uint64_t y;
};

MT_DEVICE_INLINE struct write_head write_head_of(const struct write_ring *r, uint32_t mask, uint32_t site,
                                                 uint32_t kind, uint32_t type, uint32_t x, uint64_t y)
{
    uint64_t first = mt_packet_first(kind, type, 0, 0, r->id, x);
    struct write_head h = {mask, site, (uint32_t)first, (uint32_t)(first >> 32), y};
    __asm__(""
            : "+r"(h.low),
              "+r"(h.high)); /* else the compiler keeps the operands instead: twice as many registers */
    return h;
}

MT_DEVICE_INLINE uint32_t write_kind(const struct write_head *h)
{
    return h->high >> 28;
}

MT_DEVICE_INLINE void write_half(const struct write_ring *r, const struct write_head *h, uint32_t at,
                                 uint32_t half)
{
    uint64_t a, b, tag = write_tag(r, at);
    if (half) {
        a = mt_rec_cta(mt_cta_x(), mt_cta_y(), mt_cta_z());
        b = h->y;
    } else {
        a = (uint64_t)h->high << 32 | h->low | mt_packet_first(0, 0, mt_warp(), mt_sm(), 0, 0);
        b = (uint64_t)h->mask << 31 | ((h->site + mt_site_base()) & 0x7fffffff);
    }
    mt_store_pair(&write_slot(r, at)->w[2 * half], (a & MT_WORD_MASK) | tag, (b & MT_WORD_MASK) | tag);
}

/* Writes the first slot, by two lanes at once if possible: the bus then carries it in one piece. */
MT_DEVICE_INLINE void write_first(const struct write_ring *r, const struct write_head *h, uint32_t at)
{
    uint32_t rank = write_rank(h->mask);
    if (rank < 2)
        write_half(r, h, at, rank);
    if (mt_bits(h->mask) == 1)
        write_half(r, h, at, 1);
}

/* Returns the address of word i of a packet's body. */
MT_DEVICE_INLINE uint64_t *write_word_at(const struct write_ring *r, uint32_t at, uint32_t i, uint64_t *tag)
{
    at += 1 + i / MT_SLOT_WORDS;
    *tag = write_tag(r, at);
    return &write_slot(r, at)->w[i % MT_SLOT_WORDS];
}

MT_DEVICE_INLINE void write_word(const struct write_ring *r, uint32_t at, uint32_t i, uint64_t value)
{
    uint64_t tag, *to = write_word_at(r, at, i, &tag);
    mt_store(to, value | tag);
}

/* ---- accesses of one size ----------------------------------------------------------------------- */

/* Pattern of the addresses of a group's lanes, as encoded in a packet. */
struct write_shape {
    uint32_t kind, x;
    uint64_t y, value; /* value: word of this lane for the body */
};

/* Returns this lane's and the next lane's addresses relative to the base, in one word. */
MT_DEVICE_INLINE uint64_t write_deltas(uint32_t mask, uint32_t mine)
{
    uint32_t above = mask & ~((2u << mt_lane()) - 1), next = mt_lowest(above ? above : mask);
    return (uint64_t)mt_shuffle_half(mask, mine, next) << MT_DELTA_BITS | mine;
}

MT_DEVICE_INLINE int write_fits(int64_t value, uint32_t bits)
{
    return (uint64_t)value + (1ull << (bits - 1)) < 1ull << bits;
}

MT_DEVICE_INLINE struct write_shape write_shape_of(uint32_t mask, uint64_t address, uint32_t size)
{
    struct write_shape s = {0, size, 0, 0};
    uint32_t others = mask & (mask - 1), second = mt_lowest(others ? others : mask);
    uint64_t base = mt_shuffle(mask, address, mt_lowest(mask));
    /* If the two are further apart than 32 bits can express, the second lane will notice. */
    int32_t stride = (int32_t)(mt_shuffle_half(mask, (uint32_t)address, second) - (uint32_t)base);
    int small = size <= MT_REGULAR_MAX_SIZE && !(base >> MT_REGULAR_ADDRESS_BITS) &&
                (uint32_t)stride + (1u << (MT_REGULAR_STRIDE_BITS - 1)) <
                    1u << MT_REGULAR_STRIDE_BITS; /* a condition with the same value in all lanes */
    if (mt_all(mask, small && address == base + (uint64_t)((int64_t)stride * (int32_t)write_rank(mask)))) {
        uint64_t low = (uint32_t)stride & ((1u << MT_REGULAR_STRIDE_LOW) - 1);
        uint32_t high = (uint32_t)stride >> MT_REGULAR_STRIDE_LOW & 0xffff;
        s.kind = MT_PACKET_REGULAR;
        s.x = size << 16 | high;
        s.y = low << MT_REGULAR_ADDRESS_BITS | base;
        return s;
    }
    if (mt_all(mask, write_fits((int64_t)(address - base), MT_DELTA_BITS))) {
        uint32_t mine = (uint32_t)(address - base) & ((1u << MT_DELTA_BITS) - 1);
        s.kind = MT_PACKET_DELTAS;
        s.y = base;
        s.value = mine;
        return s;
    }
    s.kind = MT_PACKET_LANES;
    s.value = address & MT_WORD_MASK;
    return s;
}

/* Writes slots 1 and up of a packet with a body, including words that no lane needs. */
MT_DEVICE_INLINE void write_body(const struct write_ring *r, uint32_t mask, uint32_t at, uint32_t kind,
                                 uint64_t value)
{
    uint32_t i = write_rank(mask), words = mt_bits(mask);
    if (kind == MT_PACKET_DELTAS) { /* a lane of odd rank writes its own and the next lane's */
        uint64_t both = write_deltas(mask, (uint32_t)value);
        if (i % 2)
            write_word(r, at, i / 2, both);
        words /= 2;
        i += words;
        value = 0;
    }
    for (words = (words + MT_SLOT_WORDS - 1) & ~(MT_SLOT_WORDS - 1); i < words; i += mt_bits(mask))
        write_word(r, at, i, value);
}

/* Reserves the packet of an access, and writes it. */
MT_DEVICE_INLINE void write_whole(const struct write_ring *r, const struct write_head *h, uint64_t value)
{
    uint32_t mask = h->mask;
    uint32_t at = write_place(r, mask, mt_packet_slots(write_kind(h), mt_bits(mask)), 1);
    write_first(r, h, at);
    if (write_kind(h) != MT_PACKET_REGULAR)
        write_body(r, mask, at, write_kind(h), value);
}

/* Writes an access of one size by the lanes of `mask`. */
MT_DEVICE_INLINE void mt_write_access(struct mt_gpu_context *c, uint32_t mask, uint64_t address,
                                      uint32_t meta, uint32_t site)
{
    const struct write_ring r = write_ring_of(c);
    const struct write_shape s = write_shape_of(mask, address, meta & MT_RAW_MAX_SIZE);
    const struct write_head h = write_head_of(&r, mask, site, s.kind, meta >> 28, s.x, s.y);
    write_whole(&r, &h, s.value);
}

MT_DEVICE_INLINE void write_two(const struct write_ring *r, uint32_t at, uint32_t i, uint64_t a, uint64_t b)
{
    uint64_t tag, *to = write_word_at(r, at, i, &tag);
    mt_store_pair(to, (a & MT_WORD_MASK) | tag, (b & MT_WORD_MASK) | tag);
}

/* Writes blocks of any nonzero length, one per lane. */
MT_DEVICE_INLINE void mt_write_block(struct mt_gpu_context *c, uint32_t mask, uint64_t address,
                                     uint64_t bytes, uint32_t type, uint32_t site)
{
    const struct write_ring r = write_ring_of(c);
    const struct write_head h = write_head_of(&r, mask, site, MT_PACKET_BLOCKS, type, 0, 0);
    uint32_t slots = mt_packet_slots(MT_PACKET_BLOCKS, mt_bits(mask));
    uint32_t at = write_place(&r, mask, slots, 0);
    write_first(&r, &h, at);
    mt_count(r.counter,
             (bytes + MT_RAW_MAX_SIZE - 1) / MT_RAW_MAX_SIZE); /* number of records: long blocks are split */
    for (uint32_t i = write_rank(mask); i < (slots - 1) * MT_SLOT_WORDS / 2; i += mt_bits(mask))
        write_two(&r, at, 2 * i, address, bytes);
}

/* Writes MT_PACKET_EXIT, by one lane. */
MT_DEVICE_INLINE void mt_write_exit(struct mt_gpu_context *c)
{
    const struct write_ring r = write_ring_of(c);
    uint32_t mask = 1u << mt_lane();
    uint64_t records = 0;
    for (uint32_t i = 0; i < MT_GPU_COUNTERS; i++)
        records += mt_load(&c->records[i]);
    const struct write_head h = write_head_of(&r, mask, 0, MT_PACKET_EXIT, 0, 0, records);
    uint32_t at = write_place(&r, mask, mt_packet_slots(MT_PACKET_EXIT, 1), 0);
    write_first(&r, &h, at);
    write_two(&r, at, 0, mt_load(&c->untraced), mt_load(&c->repeated));
    write_two(&r, at, 2, 0, 0);
}
#endif
