/* Reader of the rings that a GPU writes (format/packet.h), and expansion of packets to raw records, or to
 * runs for compact traces. */
#include "ring.h"
#include <string.h>

static const uint64_t *ring_slot(const struct mt_ring *r, uint64_t i)
{
    return r->slots[(r->at + i) & r->mask].w;
}

/* Reads word i of the packet at r->at. Returns 0 if its tag is not there yet. The acquire also makes visible,
 * on the CPU device, what was written before the launch. */
static int ring_word(const struct mt_ring *r, uint32_t i, uint64_t *out)
{
    uint64_t w = __atomic_load_n(&ring_slot(r, i / MT_SLOT_WORDS)[i % MT_SLOT_WORDS], __ATOMIC_ACQUIRE);
    *out = w & MT_WORD_MASK;
    return (w & ~MT_WORD_MASK) == mt_packet_tag(r->at + i / MT_SLOT_WORDS, r->mask + 1);
}

static uint64_t sign_extended(uint64_t value, uint32_t bits)
{
    return (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits));
}

/* ---- bodies, to words[]; functions return 0 if not yet complete ---------------------------------- */

static int take_words(const struct mt_ring *r, uint32_t slots, uint64_t *words)
{
    for (uint32_t i = 0; i < (slots - 1) * MT_SLOT_WORDS; i++)
        if (!ring_word(r, MT_SLOT_WORDS + i, &words[i]))
            return 0;
    return 1;
}

static int take_deltas(const struct mt_ring *r, uint32_t slots, uint64_t base, uint64_t *words)
{
    uint32_t at = 0;
    words[at++] = base;
    for (uint32_t i = 0; i < (slots - 1) * MT_SLOT_WORDS; i++) {
        uint64_t w;
        if (!ring_word(r, MT_SLOT_WORDS + i, &w))
            return 0;
        words[at++] = base + sign_extended(w, MT_DELTA_BITS);
        words[at++] = base + sign_extended(w >> MT_DELTA_BITS, MT_DELTA_BITS);
    }
    return 1;
}

static int take_body(const struct mt_ring *r, uint32_t slots, uint64_t y, struct mt_packet *p)
{
    switch (p->kind) {
    case MT_PACKET_REGULAR:
        p->words[0] = y & ((1ull << MT_REGULAR_ADDRESS_BITS) - 1);
        p->words[1] =
            sign_extended((p->meta & 0xffffull) << MT_REGULAR_STRIDE_LOW | y >> MT_REGULAR_ADDRESS_BITS,
                          MT_REGULAR_STRIDE_BITS);
        p->meta = (p->meta & ~MT_RAW_MAX_SIZE) | (p->meta & MT_RAW_MAX_SIZE) >> 16;
        return 1;
    case MT_PACKET_DELTAS:
        p->kind = MT_PACKET_LANES;
        return take_deltas(r, slots, y, p->words);
    case MT_PACKET_EXIT:
    case MT_PACKET_NOTE:
        p->words[0] = y;
        return 1;
    default:
        return take_words(r, slots, p->words);
    }
}

int mt_ring_take(struct mt_ring *r, struct mt_packet *p)
{
    uint64_t w[MT_SLOT_WORDS];
    if (r->damaged)
        return -1;
    for (uint32_t i = 0; i < MT_SLOT_WORDS; i++)
        if (!ring_word(r, i, &w[i]))
            return 0;
    p->kind = (uint32_t)(w[0] >> 60);
    p->warp = (uint32_t)(w[0] >> 51) & 31;
    p->smid = (uint32_t)(w[0] >> 40) & 0x7ff;
    p->context = (uint32_t)(w[0] >> 28) & 0xfff;
    p->meta = ((uint32_t)(w[0] >> 56) & 15) << 28 | (uint32_t)(w[0] & MT_RAW_MAX_SIZE);
    p->mask = (uint32_t)(w[1] >> 31);
    p->site = (uint32_t)w[1] & 0x7fffffff;
    p->cta = w[2];
    uint32_t slots = mt_packet_slots(p->kind, mt_ring_lanes(p->mask));
    if (!p->mask || !slots || slots > r->mask + 1) {
        r->damaged = 1;
        return -1;
    }
    if (!take_body(r, slots, w[3], p))
        return 0;
    r->at += slots;
    return 1;
}

int mt_ring_waits(const struct mt_ring *r)
{
    uint64_t word;
    return !r->damaged && ring_word(r, 0, &word);
}

void mt_ring_publish(struct mt_ring *r)
{
    __atomic_store_n(r->tail, r->damaged ? MT_RING_CLOSED : r->at, __ATOMIC_RELEASE);
}

/* ---- expansion ---------------------------------------------------------------------------------- */

static uint64_t ring_pieces(uint64_t bytes)
{
    return bytes / MT_RAW_MAX_SIZE + (bytes % MT_RAW_MAX_SIZE != 0);
}

static int ring_has_records(const struct mt_packet *p)
{
    return p->kind != MT_PACKET_EXIT && p->kind != MT_PACKET_NOTE;
}

uint64_t mt_packet_count(const struct mt_packet *p)
{
    uint32_t n = mt_ring_lanes(p->mask);
    uint64_t sum = 0;
    if (p->kind != MT_PACKET_BLOCKS)
        return ring_has_records(p) ? n : 0;
    for (uint32_t i = 0; i < n; i++)
        sum += ring_pieces(p->words[2 * i + 1]);
    return sum;
}

static size_t expand_blocks(const struct mt_packet *p, uint64_t from, struct mt_raw_record *out, size_t cap)
{
    uint32_t n = mt_ring_lanes(p->mask);
    size_t made = 0;
    for (uint32_t i = 0; i < n && made < cap; i++) {
        uint64_t address = p->words[2 * i], bytes = p->words[2 * i + 1], k = ring_pieces(bytes);
        if (from >= k) {
            from -= k;
            continue;
        }
        for (; from < k && made < cap; from++) {
            uint64_t done = from * MT_RAW_MAX_SIZE, left = bytes - done;
            uint32_t size = left < MT_RAW_MAX_SIZE ? (uint32_t)left : MT_RAW_MAX_SIZE;
            out[made++] = mt_rec_pack(p->smid, p->meta >> 28, size, address + done, p->cta);
        }
        from = 0;
    }
    return made;
}

size_t mt_packet_expand(const struct mt_packet *p, uint64_t from, struct mt_raw_record *out, size_t cap)
{
    uint32_t n = mt_ring_lanes(p->mask);
    size_t made = 0;
    if (p->kind == MT_PACKET_BLOCKS)
        return expand_blocks(p, from, out, cap);
    if (!ring_has_records(p))
        return 0;
    uint64_t w0 = (uint64_t)p->smid << 32 | p->meta;
    for (uint64_t i = from; i < n && made < cap; i++) {
        uint64_t address = p->kind == MT_PACKET_REGULAR ? p->words[0] + i * p->words[1] : p->words[i];
        out[made++] = (struct mt_raw_record){{w0, address, p->cta}};
    }
    return made;
}

/* ---- runs ---------------------------------------------------------------------------------------- */

void mt_gather_clear(struct mt_gather *g)
{
    g->runs = g->addresses = 0;
    g->accesses = 0;
    g->next = NULL;
}

static struct mt_access_run *gather_add(struct mt_gather *g, const struct mt_packet *p, uint32_t site,
                                        uint32_t mask)
{
    struct mt_access_run *r = &g->run[g->runs++];
    *r = (struct mt_access_run){.cta = p->cta,
                                .smid = p->smid,
                                .meta = p->meta,
                                .count = mt_ring_lanes(mask),
                                .mask = mask,
                                .warp = p->warp,
                                .site = site};
    g->accesses += r->count;
    return r;
}

static uint64_t put_lanes(struct mt_gather *g, const struct mt_packet *p, uint32_t site)
{
    uint32_t n = mt_ring_lanes(p->mask);
    if (g->runs == MT_GATHER_RUNS || g->addresses + n > MT_GATHER_ADDRESSES)
        return 0;
    struct mt_access_run *r = gather_add(g, p, site, p->mask);
    r->base = p->words[0];
    if (p->kind == MT_PACKET_REGULAR) {
        r->stride = (int64_t)p->words[1];
    } else {
        uint64_t *list = &g->address[g->addresses];
        memcpy(list, p->words, n * sizeof *list);
        r->addresses = list;
        g->addresses += n;
    }
    return n;
}

/* Block copies, where each lane has its own length: an access has one size, so each lane is a run. */
static uint64_t put_blocks(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site)
{
    uint64_t made = 0;
    uint32_t mask = p->mask;
    for (uint32_t i = 0; mask; i++, mask &= mask - 1) {
        uint64_t address = p->words[2 * i], bytes = p->words[2 * i + 1], at = 0;
        for (; at < bytes; at += MT_RAW_MAX_SIZE) {
            if (from) {
                from--;
                continue;
            }
            if (g->runs == MT_GATHER_RUNS)
                return made;
            uint64_t left = bytes - at;
            struct mt_access_run *r = gather_add(g, p, site, mask & -mask);
            r->base = address + at;
            r->meta = mt_rec_meta(p->meta >> 28, left < MT_RAW_MAX_SIZE ? (uint32_t)left : MT_RAW_MAX_SIZE);
            made++;
        }
    }
    return made;
}

uint64_t mt_gather_put(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site)
{
    return p->kind == MT_PACKET_BLOCKS ? put_blocks(g, p, from, site) : put_lanes(g, p, site);
}

int mt_gather_join(struct mt_gather *g, const struct mt_gather *more)
{
    if (g->runs + more->runs > MT_GATHER_RUNS || g->addresses + more->addresses > MT_GATHER_ADDRESSES)
        return 0;
    uint64_t *list = memcpy(&g->address[g->addresses], more->address, more->addresses * sizeof *list);
    for (size_t i = 0; i < more->runs; i++) {
        struct mt_access_run *r = &g->run[g->runs++];
        *r = more->run[i];
        if (r->addresses)
            r->addresses = list + (r->addresses - more->address);
    }
    g->addresses += more->addresses;
    g->accesses += more->accesses;
    return 1;
}
