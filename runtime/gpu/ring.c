#include "ring.h"

static struct mt_slot *slot(const struct mt_ring *r, uint64_t i)
{
    return &r->slots[(r->at + i) & r->mask];
}

/* Slots that a packet of this kind and mask must have; 0 for no such kind. */
static uint32_t slots_of(uint32_t kind, uint32_t mask)
{
    uint32_t n = (uint32_t)__builtin_popcount(mask);
    switch (kind) {
    case MT_PACKET_REGULAR:
        return MT_PACKET_HEAD + 1;
    case MT_PACKET_LANES:
        return MT_PACKET_HEAD + (n + 1) / 2;
    case MT_PACKET_BLOCKS:
        return MT_PACKET_HEAD + n;
    default:
        return 0;
    }
}

int mt_ring_take(struct mt_ring *r, struct mt_packet *p)
{
    if (r->damaged)
        return -1;
    uint64_t first = __atomic_load_n(&slot(r, 0)->a, __ATOMIC_ACQUIRE);
    if (!first)
        return 0;
    uint64_t second = slot(r, 0)->b;
    uint32_t n = (uint32_t)(first >> 8) & 0xff;
    p->kind = (uint32_t)first & 0xff;
    p->smid = (uint32_t)(first >> 16) & 0xffff;
    p->context = (uint32_t)(first >> 32);
    p->mask = (uint32_t)second;
    p->meta = (uint32_t)(second >> 32);
    if (!p->mask || n != slots_of(p->kind, p->mask) || n > r->mask + 1) {
        r->damaged = 1;
        return -1;
    }
    p->cta = slot(r, 1)->a;
    p->site = (uint32_t)slot(r, 1)->b;
    p->warp = (uint32_t)(slot(r, 1)->b >> 32);
    for (uint32_t i = MT_PACKET_HEAD; i < n; i++) {
        p->words[2 * (i - MT_PACKET_HEAD)] = slot(r, i)->a;
        p->words[2 * (i - MT_PACKET_HEAD) + 1] = slot(r, i)->b;
    }
    for (uint32_t i = 0; i < n; i++)
        slot(r, i)->a = 0;
    r->at += n;
    return 1;
}

void mt_ring_publish(struct mt_ring *r)
{
    __atomic_store_n(r->tail, r->at, __ATOMIC_RELEASE);
}

/* ---- expansion ---------------------------------------------------------------------------------- */

static uint64_t pieces(uint64_t bytes)
{
    return bytes / MT_RAW_MAX_SIZE + (bytes % MT_RAW_MAX_SIZE != 0);
}

uint64_t mt_packet_count(const struct mt_packet *p)
{
    uint32_t n = (uint32_t)__builtin_popcount(p->mask);
    uint64_t sum = 0;
    if (p->kind != MT_PACKET_BLOCKS)
        return n;
    for (uint32_t i = 0; i < n; i++)
        sum += pieces(p->words[2 * i + 1]);
    return sum;
}

static size_t expand_blocks(const struct mt_packet *p, uint64_t from, struct mt_raw_record *out, size_t cap)
{
    uint32_t n = (uint32_t)__builtin_popcount(p->mask);
    size_t made = 0;
    for (uint32_t i = 0; i < n && made < cap; i++) {
        uint64_t address = p->words[2 * i], bytes = p->words[2 * i + 1], k = pieces(bytes);
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
    uint32_t n = (uint32_t)__builtin_popcount(p->mask);
    size_t made = 0;
    if (p->kind == MT_PACKET_BLOCKS)
        return expand_blocks(p, from, out, cap);
    uint64_t w0 = (uint64_t)p->smid << 32 | p->meta;
    for (uint64_t i = from; i < n && made < cap; i++) {
        uint64_t address = p->kind == MT_PACKET_REGULAR ? p->words[0] + i * p->words[1] : p->words[i];
        out[made++] = (struct mt_raw_record){{w0, address, p->cta}};
    }
    return made;
}
