/* How accesses leave a GPU: what record.c (on the device) writes and runtime/gpu (on the host) reads.
 *
 * A device has a number of rings in pinned host memory that the GPU writes over the bus. One access of the
 * lanes of a warp that run it together is one packet, a run of 32-byte slots that may wrap around the ring's
 * end. A CTA always uses the same ring, so its packets are there in the order in which the device ran them.
 *
 *   device   reserve: position = head, head += slots (one atomic add, device memory)
 *            wait until position + slots - tail <= slots of the ring
 *            write all words of the packet, in any order, each with its tag
 *   host     at its position: a word without the tag: not whole yet; else take the packet, then move the tail
 *
 * The tag is one bit that changes from lap to lap of the ring, so nobody has to fence, nor to clean slots:
 * each word says itself whether it is new. Every word of a packet is written, the unused ones too: else one
 * would still have the tag of two laps ago.
 *
 * The oldest packet that is not yet whole never waits for room, since all before it has been taken: no
 * deadlock. The host reader makes no CUDA call, so it goes on whatever the program's threads wait for. */
#ifndef MT_DEVICE_PACKET_H
#define MT_DEVICE_PACKET_H
#include <stdint.h>

/* Functions of headers that a GPU runs, too, as nvcc wants to hear it. */
#ifdef __CUDACC__
#define MT_DEVICE_INLINE static __host__ __device__ __forceinline__
#else
#define MT_DEVICE_INLINE static inline
#endif

/* Bits that are set, and the number of the lowest one. */
MT_DEVICE_INLINE uint32_t mt_bits(uint32_t mask)
{
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
    return (uint32_t)__popc((int)mask);
#else
    return (uint32_t)__builtin_popcount(mask);
#endif
}
MT_DEVICE_INLINE uint32_t mt_lowest(uint32_t mask)
{
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
    return (uint32_t)__ffs((int)mask) - 1;
#else
    return (uint32_t)__builtin_ctz(mask);
#endif
}

#define MT_SLOT_WORDS 4u
#define MT_SLOT_BYTES 32u
struct mt_slot {
    uint64_t w[MT_SLOT_WORDS];
};

/* Slot 0 by words, bit 63 of each being the tag:
 *   0   kind 60..62 | type 56..59 | warp 51..55 | smid 40..50 | context 28..39 | x 0..27
 *   1   mask 31..62 | site 0..30
 *   2   CTA as in the raw record (x is below 2^31)
 *   3   y
 * Then by kind: */
enum mt_packet_kind {
    /* x: size << 16 | bits 14..29 of the stride; y: its bits 0..13 << 49 | address of the lowest active lane.
     * The stride is what to add per further active lane. */
    MT_PACKET_REGULAR = 1,
    /* x: size; y: address of the lowest active lane; slots 1…: of each further active lane its address less y
     * as 31 bits, two in a word, the lower lane's in the lower bits. */
    MT_PACKET_DELTAS = 2,
    MT_PACKET_LANES = 3,  /* x: size; slots 1…: one address per active lane */
    MT_PACKET_BLOCKS = 4, /* x: 0; slots 1…: address, bytes (not 0), of each active lane */
    MT_PACKET_EXIT = 5,   /* x, y: 0; the active lanes' threads have ended (runtime/gpu/patch) */
    MT_PACKET_NOTE = 6,   /* x: 0; y: so many accesses at this site that have no record */
};
/* Files that are linked into one program (-fgpu-rdc) add a base to their sites, which the host sets. Until it
 * has, sites are this and more: not known. */
#define MT_SITE_UNKNOWN 0x40000000u
/* Packets of patches have as their site where the instruction lies from `code` of the context on, in
 * instructions of 16 bytes: a signed number of this many bits, which reaches 8 GiB to both sides. */
#define MT_SITE_PC_BITS 30u
/* Bit of a site or note: there is nothing to record (llvm-pass/gpu/context.c). */
#define MT_SITE_LEFT_OUT 0x80000000u
#define MT_PACKET_MAX_SLOTS 17u /* head and 32 blocks */
#define MT_PACKET_CONTEXTS 4096u
#define MT_PACKET_NOBODY (MT_PACKET_CONTEXTS - 1) /* as context: of no launch, to be thrown away */
#define MT_REGULAR_ADDRESS_BITS 49u               /* what REGULAR has room for */
#define MT_REGULAR_STRIDE_BITS 30u
#define MT_REGULAR_STRIDE_LOW 14u
#define MT_REGULAR_MAX_SIZE 0xfffu
#define MT_DELTA_BITS 31u
#define MT_WORD_MASK (~0ull >> 1) /* a word without its tag */

/* Of a ring with `slots` slots (a power of two): the tag at a position. */
MT_DEVICE_INLINE uint64_t mt_packet_tag(uint64_t position, uint64_t slots)
{
    return position & slots ? 0 : 1ull << 63;
}

MT_DEVICE_INLINE uint64_t mt_packet_first(uint32_t kind, uint32_t type, uint32_t warp, uint32_t smid,
                                          uint32_t context, uint32_t x)
{
    return (uint64_t)(kind << 28 | (type & 15) << 24 | (warp & 31) << 19 | (smid & 0x7ff) << 8) << 32 |
           (uint64_t)(context & 0xfff) << 28 | x;
}

/* The site of an instruction, and back. */
MT_DEVICE_INLINE uint32_t mt_packet_site_of(uint64_t pc, uint64_t code)
{
    uint64_t at = pc - code, half = 16ull << (MT_SITE_PC_BITS - 1);
    return at % 16 || at + half >= 2 * half ? MT_SITE_UNKNOWN
                                            : (uint32_t)(at / 16) & ((1u << MT_SITE_PC_BITS) - 1);
}

/* 0: the site is not known. */
MT_DEVICE_INLINE uint64_t mt_packet_pc_of(uint32_t site, uint64_t code)
{
    uint32_t sign = 1u << (MT_SITE_PC_BITS - 1);
    int64_t at = (int64_t)((site & ((1u << MT_SITE_PC_BITS) - 1)) ^ sign) - (int64_t)sign;
    return site & MT_SITE_UNKNOWN ? 0 : code + (uint64_t)(at * 16);
}

/* Slots of a packet of this kind with n active lanes; 0 for no such kind. */
MT_DEVICE_INLINE uint32_t mt_packet_slots(uint32_t kind, uint32_t n)
{
    switch (kind) {
    case MT_PACKET_REGULAR:
    case MT_PACKET_EXIT:
    case MT_PACKET_NOTE:
        return 1;
    case MT_PACKET_DELTAS:
        return 1 + (n / 2 + 3) / 4; /* n - 1 of them, two in a word */
    case MT_PACKET_LANES:
        return 1 + (n + 3) / 4;
    case MT_PACKET_BLOCKS:
        return 1 + (n + 1) / 2;
    default:
        return 0;
    }
}

/* ---- in device memory --------------------------------------------------------------------------- */

struct mt_gpu_ring {
    uint64_t head;      /* slots reserved since the start */
    uint64_t tail_seen; /* a tail that some thread has read: never ahead of the real one */
    uint64_t slots;     /* struct mt_slot[mask + 1], in host memory; read together with: */
    uint64_t mask;      /* slots of the ring - 1; a power of two less one, below 2^MT_RING_BITS */
    uint64_t tail;      /* uint64_t, in host memory: slots taken since the start */
    uint64_t pad[11];   /* a line of its own */
};
#define MT_RING_CLOSED (~0ull) /* as tail: nobody reads any more, and there is room for all */
#define MT_RING_BITS 30u       /* place and lap of a slot are known from 32 bits of its position */

#define MT_GPU_COUNTERS 16u
/* Added to the context's address in the hidden parameter (contexts are 256-byte aligned): only some CTAs are
 * traced. So a kernel that is traced whole, or not at all, reads no memory to find that out. */
#define MT_CONTEXT_IN_PARTS 1u
/* What a kernel's hidden parameter points to. Contexts are made once; a launch borrows one.
 * Counters only grow. */
struct mt_gpu_context {
    uint64_t rings;     /* struct mt_gpu_ring[ring_mask + 1]; read together with: */
    uint32_t ring_mask; /* a power of two less one */
    uint32_t id;        /* what packets have as their context */
    uint64_t untraced;  /* accesses that have no record */
    uint64_t counts[6]; /* without records: accesses and bytes of loads, stores, atomics */
    uint64_t ctas;      /* struct mt_cta_rule, read when the parameter has MT_CONTEXT_IN_PARTS */
    uint64_t spaces;    /* not 0: of shared and local memory, too, and of barriers */
    uint64_t code;      /* patches: the pc from which sites count */
    uint64_t pad[4];
    uint64_t records[MT_GPU_COUNTERS]; /* records made, by CTA number */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct mt_slot) == MT_SLOT_BYTES, "slots are 32 bytes: what a bus writes at once");
_Static_assert(sizeof(struct mt_gpu_ring) == 128, "rings keep to lines of their own");
_Static_assert(sizeof(struct mt_gpu_context) == 256, "contexts are copied as 256 bytes");
#endif
#endif
