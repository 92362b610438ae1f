/* How accesses leave a GPU: what record.c (on the device) writes and runtime/gpu (on the host) reads.
 *
 * A device has a number of rings in pinned host memory that the GPU writes over the bus. One access of the
 * lanes of a warp that run it together is one packet, a run of 16-byte slots that may wrap around the ring's
 * end. A CTA always uses the same ring, so its packets stand there in the order in which the device ran them.
 *
 *   device   reserve: position = head, head += slots (one atomic add, device memory)
 *            wait until position + slots - tail <= slots of the ring
 *            write all but the first word, fence for the whole system, write the first word (never 0)
 *   host     at its position: the first word 0: nothing there yet; else take the packet, set the first word
 * of each of its slots back to 0, then move the tail
 *
 * The oldest packet that is not yet whole never waits for room, since all before it has been taken: no
 * deadlock. The host reader makes no CUDA call, so it goes on whatever the program's threads wait for. */
#ifndef MT_DEVICE_PACKET_H
#define MT_DEVICE_PACKET_H
#include <stdint.h>

#define MT_SLOT_BYTES 16u
struct mt_slot {
    uint64_t a, b;
};

/* Slot 0: a = kind | slots << 8 | smid << 16 | context << 32, b = mask | meta << 32 (type << 28 | size;
 * blocks: the type alone, in bits 28..31 of meta). Slot 1: a = CTA as in the raw record, b = site | warp
 * << 32. Then by kind: */
enum mt_packet_kind {
    MT_PACKET_REGULAR =
        1, /* slot 2: a = address of the lowest active lane, b = what to add per further active lane */
    MT_PACKET_LANES =
        2, /* slots 2…: two addresses each, in ascending order of active lanes; the last b may be void */
    MT_PACKET_BLOCKS = 3, /* slots 2…: a = address, b = bytes (not 0), one per active lane */
};
#define MT_PACKET_HEAD 2u       /* slots */
#define MT_PACKET_MAX_SLOTS 34u /* head and 32 blocks */

static inline uint64_t mt_packet_first(uint32_t kind, uint32_t slots, uint32_t smid, uint32_t context)
{
    return (uint64_t)context << 32 | (uint64_t)(smid & 0xffff) << 16 | slots << 8 | kind;
}

/* ---- in device memory --------------------------------------------------------------------------- */

struct mt_gpu_ring {
    uint64_t head;      /* slots reserved since the start */
    uint64_t tail_seen; /* a tail that some thread has read: never ahead of the real one */
    uint64_t slots;     /* struct mt_slot[mask + 1], in host memory */
    uint64_t tail;      /* uint64_t, in host memory: slots taken since the start */
    uint64_t mask;      /* slots of the ring - 1; a power of two less one */
    uint64_t pad[11];   /* a line of its own */
};

#define MT_GPU_COUNTERS 16u
/* What a kernel's hidden parameter points to. Contexts are made once; a launch borrows one. Counters only
 * grow. */
struct mt_gpu_context {
    uint64_t rings;     /* struct mt_gpu_ring[ring_mask + 1] */
    uint32_t ring_mask; /* a power of two less one */
    uint32_t id;        /* index of this context */
    uint64_t untraced;  /* accesses that have no record */
    uint64_t counts[6]; /* without records: accesses and bytes of loads, stores, atomics */
    uint64_t pad[7];
    uint64_t records[MT_GPU_COUNTERS]; /* records made, by CTA number */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct mt_slot) == MT_SLOT_BYTES, "slots are 16 bytes");
_Static_assert(sizeof(struct mt_gpu_ring) == 128, "rings keep to lines of their own");
_Static_assert(sizeof(struct mt_gpu_context) == 256, "contexts are copied as 256 bytes");
#endif
#endif
