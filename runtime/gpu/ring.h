/* Reading end of the rings that a GPU writes (format/packet.h), and the expansion of packets to raw
 * records and runs. No CUDA, no threads: one reader per ring. */
#ifndef MT_GPU_RING_H
#define MT_GPU_RING_H
#include <stddef.h>
#include <stdint.h>
#include "format/packet.h"
#include "memtrace/device.h"
#include "memtrace/record.h"

/* Bits that are set: nearly always all, and processors of which nothing is asked have no instruction for it.
 */
static inline uint32_t mt_ring_lanes(uint32_t mask)
{
    return mask == UINT32_MAX ? 32 : (uint32_t)__builtin_popcount(mask);
}

struct mt_ring {
    const struct mt_slot *slots; /* mask + 1 of them, zeroed at the start */
    uint64_t *tail;              /* what the GPU reads */
    uint64_t mask;
    uint64_t at; /* slots taken */
    int damaged; /* a packet made no sense, or it is the end: the ring is not read any more */
};

/* A packet, unpacked. words[], by kind: REGULAR address of the lowest active lane, what to add per further
 * one; LANES one address per active lane, ascending; BLOCKS address and bytes of each; EXIT none; NOTE how
 * many accesses. There are no other kinds here. */
struct mt_packet {
    uint32_t kind, context, smid, mask, meta, site, warp;
    uint64_t cta;
    uint64_t words[MT_SLOT_WORDS * MT_PACKET_MAX_SLOTS];
};

/* Takes the next whole packet. 1: *p holds it; 0: there is none yet; -1: the ring is damaged. The GPU gets
 * the room back with mt_ring_publish; that of a damaged ring makes writers go on, so that no kernel waits. */
int mt_ring_take(struct mt_ring *r, struct mt_packet *p);
void mt_ring_publish(struct mt_ring *r);
/* Has a packet begun to arrive? Cheap. */
int mt_ring_waits(const struct mt_ring *r);

/* Raw records that a packet stands for: none of EXIT and NOTE. */
uint64_t mt_packet_count(const struct mt_packet *p);
/* Writes the records from number `from` on, at most `cap` of them, lanes ascending; returns how many. */
size_t mt_packet_expand(const struct mt_packet *p, uint64_t from, struct mt_raw_record *out, size_t cap);

/* ---- runs, for compact traces: a packet is what a warp did already ---- */

#define MT_GATHER_RUNS 4096u
#define MT_GATHER_ADDRESSES (8u * MT_GATHER_RUNS)

struct mt_gather {
    size_t runs, addresses;
    uint64_t accesses; /* of threads, in the runs */
    struct mt_gather *next;
    struct mt_access_run run[MT_GATHER_RUNS];
    uint64_t address[MT_GATHER_ADDRESSES];
};

/* Puts the packet's records from number `from` on after those that are there, as far as there is room, and
 * returns how many. `site`: the number that readers know, 0: none. */
uint64_t mt_gather_put(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site);
void mt_gather_clear(struct mt_gather *g);
/* Puts what is in the other one behind it. 0: there is no room. */
int mt_gather_join(struct mt_gather *g, const struct mt_gather *more);
#endif
