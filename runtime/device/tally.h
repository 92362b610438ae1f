/* Totals of a site's accesses, made by the GPU in place of records (format/packet.h). Included after write.h,
 * by the patches and by tests. The lanes of a request have one size and their addresses are multiples of it,
 * as hardware demands: so each lies in one sector and one line, and two overlap only if they are equal. */
#ifndef MT_DEVICE_TALLY_H
#define MT_DEVICE_TALLY_H
#include "device/write.h"

#define MT_TALLY_PROBES 64u

/* Returns the entry of this key, or NULL if there is no room near its place. */
MT_DEVICE_INLINE struct mt_gpu_tally *tally_find(struct mt_gpu_tallies *t, uint64_t key, uint32_t meta)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15ull >> 20;
    for (uint32_t i = 0; i < MT_TALLY_PROBES; i++) {
        struct mt_gpu_tally *e = (struct mt_gpu_tally *)(t + 1) + (hash + i) % t->entries;
        uint64_t there = mt_load(&e->key);
        if (!there && mt_replace(&e->key, 0, key)) {
            mt_store(&e->meta, meta);
            return e;
        }
        if ((there ? there : mt_load(&e->key)) == key)
            return e;
    }
    return 0;
}

/* Counts a request with a constant stride by this stride; the entry has room for a few different ones. */
MT_DEVICE_INLINE void tally_stride(struct mt_gpu_tally *e, int64_t stride)
{
    uint64_t word = (uint64_t)stride << 1 | 1;
    for (uint32_t i = 0; i < MT_TALLY_STRIDES; i++) {
        uint64_t there = mt_load(&e->stride[i]);
        if (!there && !mt_replace(&e->stride[i], 0, word))
            there = mt_load(&e->stride[i]);
        if (!there || there == word) {
            mt_count(&e->times[i], 1);
            return;
        }
    }
    mt_count(&e->other, 1);
}

/* What a lane adds to the lanes below it. */
struct tally_new {
    int address, sector, line;
};

MT_DEVICE_INLINE void tally_compare(struct tally_new *n, uint64_t mine, uint64_t other)
{
    uint64_t differ = mine ^ other;
    n->address &= differ != 0;
    n->sector &= differ >> MT_TALLY_SECTOR_BITS != 0;
    n->line &= differ >> MT_TALLY_LINE_BITS != 0;
}

/* Lanes with a constant stride ascend or descend: the lane before is the only one to compare with. */
MT_DEVICE_INLINE struct tally_new tally_of_lane(uint32_t mask, uint64_t address, int regular, int64_t stride)
{
    struct tally_new n = {1, 1, 1};
    if (regular) {
        if (write_rank(mask))
            tally_compare(&n, address, address - (uint64_t)stride);
        return n;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t lane = mt_lowest(left);
        uint64_t other = mt_shuffle(mask, address, lane);
        if (lane < mt_lane())
            tally_compare(&n, address, other);
    }
    return n;
}

/* Counts a request of the lanes of the mask at this site of the context's kernel. */
MT_DEVICE_INLINE void mt_tally_access(struct mt_gpu_context *c, uint32_t mask, uint64_t address,
                                      uint32_t meta, uint64_t pc)
{
    uint32_t others = mask & (mask - 1), second = mt_lowest(others ? others : mask);
    uint64_t base = mt_shuffle(mask, address, mt_lowest(mask));
    int64_t stride = (int64_t)(mt_shuffle(mask, address, second) - base);
    int regular = mt_all(mask, address == base + (uint64_t)stride * write_rank(mask));
    struct tally_new n = tally_of_lane(mask, address, regular, stride);
    uint32_t addresses = mt_bits(mt_ballot(mask, n.address)), sectors = mt_bits(mt_ballot(mask, n.sector)),
             lines = mt_bits(mt_ballot(mask, n.line)), lanes = mt_bits(mask);
    if (write_rank(mask))
        return;
    struct mt_gpu_tallies *t = (struct mt_gpu_tallies *)c->tallies;
    struct mt_gpu_tally *e = tally_find(t, c->kernel << MT_TALLY_PC_BITS | pc >> 4, meta);
    if (!e) {
        mt_count(&t->lost, lanes);
        return;
    }
    mt_count(&e->requests, 1);
    mt_count(&e->accesses, lanes);
    mt_count(&e->bytes, (uint64_t)lanes * (meta & MT_RAW_MAX_SIZE));
    mt_count(&e->distinct, (uint64_t)addresses * (meta & MT_RAW_MAX_SIZE));
    mt_count(&e->sectors, sectors);
    mt_count(&e->lines, lines);
    if (lanes == 1)
        mt_count(&e->single, 1);
    else if (regular)
        tally_stride(e, stride);
    else
        mt_count(&e->irregular, 1);
}

/* Counts a block of any length, made by one lane. */
MT_DEVICE_INLINE void mt_tally_block(struct mt_gpu_context *c, uint64_t address, uint64_t bytes,
                                     uint32_t type, uint64_t pc)
{
    struct mt_gpu_tallies *t = (struct mt_gpu_tallies *)c->tallies;
    struct mt_gpu_tally *e =
        tally_find(t, c->kernel << MT_TALLY_PC_BITS | pc >> 4, mt_rec_meta(type, MT_RAW_MAX_SIZE));
    uint64_t last = address + bytes - 1;
    if (!e) {
        mt_count(&t->lost, 1);
        return;
    }
    mt_count(&e->requests, 1);
    mt_count(&e->accesses, 1);
    mt_count(&e->single, 1);
    mt_count(&e->bytes, bytes);
    mt_count(&e->distinct, bytes);
    mt_count(&e->sectors, (last >> MT_TALLY_SECTOR_BITS) - (address >> MT_TALLY_SECTOR_BITS) + 1);
    mt_count(&e->lines, (last >> MT_TALLY_LINE_BITS) - (address >> MT_TALLY_LINE_BITS) + 1);
}
#endif
