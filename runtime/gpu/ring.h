/* Reader of the rings that a GPU writes (format/packet.h), and expansion of packets to raw records and runs.
 * No CUDA, no threads: one reader per ring. */
#ifndef MT_GPU_RING_H
#define MT_GPU_RING_H
#include <stddef.h>
#include <stdint.h>
#include "format/packet.h"
#include "memtrace/device.h"
#include "memtrace/record.h"

/* Returns the number of bits set. Nearly always all are, and the baseline processor has no instruction for
 * it. */
static inline uint32_t mt_ring_lanes(uint32_t mask)
{
    return mask == UINT32_MAX ? 32 : (uint32_t)__builtin_popcount(mask);
}

struct mt_ring {
    const struct mt_slot *slots; /* mask + 1 of them, zeroed at the start */
    uint64_t *tail;              /* read position for the GPU */
    uint64_t mask;
    uint64_t at; /* number of slots read */
    int damaged; /* closed after an invalid packet or at the end: the ring is not read any more */
};

/* An unpacked packet. words[], by kind: REGULAR address of the lowest active lane, and stride per further
 * lane; LANES one address per active lane, ascending; BLOCKS address and bytes of each; EXIT none; NOTE
 * number of accesses. There are no other kinds here. */
struct mt_packet {
    uint32_t kind, context, smid, mask, meta, site, warp;
    uint64_t cta;
    uint64_t words[MT_SLOT_WORDS * MT_PACKET_MAX_SLOTS];
};

/* Takes the next whole packet. Returns 1 with *p set, 0 if there is none yet, or -1 if the ring is damaged.
 * mt_ring_publish returns the room to the GPU; for a damaged ring it lets writers go on, so that no kernel
 * waits. */
int mt_ring_take(struct mt_ring *r, struct mt_packet *p);
void mt_ring_publish(struct mt_ring *r);
/* Returns 1 if a packet has begun to arrive. Cheap. */
int mt_ring_waits(const struct mt_ring *r);

/* Returns the number of raw records in a packet; 0 for EXIT and NOTE. */
uint64_t mt_packet_count(const struct mt_packet *p);
/* Writes the records from number `from` on, at most `cap`, lanes ascending. Returns their number. */
size_t mt_packet_expand(const struct mt_packet *p, uint64_t from, struct mt_raw_record *out, size_t cap);

/* ---- runs, for compact traces: a packet already holds the accesses of a warp ---- */

#define MT_GATHER_RUNS 4096u
#define MT_GATHER_ADDRESSES (8u * MT_GATHER_RUNS)

struct mt_gather {
    size_t runs, addresses;
    uint64_t accesses; /* accesses of threads in the runs */
    struct mt_gather *next;
    struct mt_access_run run[MT_GATHER_RUNS];
    uint64_t address[MT_GATHER_ADDRESSES];
};

/* Appends the packet's records from number `from` on, as far as there is room. Returns their number. `site`:
 * number in the companion file, or 0. */
uint64_t mt_gather_put(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site);
void mt_gather_clear(struct mt_gather *g);
/* Appends the contents of `more`. Returns 0 if there is no room. */
int mt_gather_join(struct mt_gather *g, const struct mt_gather *more);
#endif
