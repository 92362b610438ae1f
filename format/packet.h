/* Packets: accesses on their way from a GPU, where record.c writes them, to the host, where runtime/gpu reads
 * them.
 *
 * A device has several rings in pinned host memory, which the GPU writes over the bus. A packet is one access
 * by the lanes of a warp that execute it together. It occupies consecutive 32-byte slots, which may wrap
 * around the ring's end. A CTA always uses the same ring, so its packets arrive in the order of execution.
 *
 *   device   reserve: position = head, head += slots (one atomic add, device memory)
 *            wait until position + slots - tail <= slots of the ring
 *            write all words of the packet, in any order, each with its tag
 *   host     at its position: a word without the tag means an incomplete packet; else take it, move the tail
 *
 * The tag is a bit that changes with each lap of the ring. So each word shows by itself whether it is new,
 * and neither fences nor clearing of slots are needed. Every word of a packet is written, even unused ones:
 * otherwise a word could have the tag of two laps ago.
 *
 * The oldest incomplete packet never waits for room, since all before it have been taken: no deadlock. The
 * host reader makes no CUDA call, so it never waits for the program's threads. */
#ifndef MT_DEVICE_PACKET_H
#define MT_DEVICE_PACKET_H
#include <stdint.h>

/* Marks functions of headers that also run on a GPU, for nvcc. */
#ifdef __CUDACC__
#define MT_DEVICE_INLINE static __host__ __device__ __forceinline__
#else
#define MT_DEVICE_INLINE static inline
#endif

/* Number of bits set, and index of the lowest one. */
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

/* Words of slot 0, with the tag in bit 63 of each:
 *   0  kind 60..62 | type 56..59 | warp 51..55 | smid 40..50 | context 28..39 | x 0..27
 *   1  mask 31..62 | site 0..30
 *   2  CTA as in the raw record (x is below 2^31)
 *   3  y
 * x, y and further slots depend on the kind: */
enum mt_packet_kind {
    /* x: size << 16 | bits 14..29 of the stride; y: bits 0..13 of the stride << 49 | address of the lowest
     * active lane. The stride is the distance from one active lane to the next. */
    MT_PACKET_REGULAR = 1,
    /* x: size; y: address of the lowest active lane; slots 1…: for each further active lane its address minus
     * y as 31 bits, two in a word, the lower lane in the lower bits. */
    MT_PACKET_DELTAS = 2,
    MT_PACKET_LANES = 3,  /* x: size; slots 1…: one address per active lane */
    MT_PACKET_BLOCKS = 4, /* x: 0; slots 1…: address and bytes (not 0) of each active lane */
    /* Written once, when all threads of a launch have ended (runtime/gpu/patch). x: 0; the counters of its
     * context, modulo 2^63: y: records; slot 1: untraced, repeated, 0, 0. */
    MT_PACKET_EXIT = 5,
    MT_PACKET_NOTHING = 6, /* x, y: 0; fills a place that is not needed after all */
};
/* Flag of a site that is not known yet: files that are linked into one program (-fgpu-rdc) add a base to
 * their sites, which the host sets. */
#define MT_SITE_UNKNOWN 0x40000000u
/* Bits of a site in packets of patches. Such a site is the signed distance of the instruction from `code` of
 * the context, in instructions of 16 bytes; it reaches 8 GiB in both directions. */
#define MT_SITE_PC_BITS 30u
/* Flag of a site or note that needs no record (llvm-pass/gpu/context.c). */
#define MT_SITE_LEFT_OUT 0x80000000u
#define MT_PACKET_MAX_SLOTS 17u /* maximum slots of a packet: head and 32 blocks */
#define MT_PACKET_CONTEXTS 4096u
#define MT_PACKET_NOBODY (MT_PACKET_CONTEXTS - 1) /* context of packets to discard */
#define MT_REGULAR_ADDRESS_BITS 49u               /* maximum bits of the fields of REGULAR */
#define MT_REGULAR_STRIDE_BITS 30u
#define MT_REGULAR_STRIDE_LOW 14u
#define MT_REGULAR_MAX_SIZE 0xfffu
#define MT_DELTA_BITS 31u
#define MT_WORD_MASK (~0ull >> 1) /* mask of a word without its tag */

/* Returns the tag at a position of a ring with `slots` slots (a power of two). */
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

/* Returns the site of an instruction. */
MT_DEVICE_INLINE uint32_t mt_packet_site_of(uint64_t pc, uint64_t code)
{
    uint64_t at = pc - code, half = 16ull << (MT_SITE_PC_BITS - 1);
    return at % 16 || at + half >= 2 * half ? MT_SITE_UNKNOWN
                                            : (uint32_t)(at / 16) & ((1u << MT_SITE_PC_BITS) - 1);
}

/* Returns the instruction of a site, or 0 if the site is not known. */
MT_DEVICE_INLINE uint64_t mt_packet_pc_of(uint32_t site, uint64_t code)
{
    uint32_t sign = 1u << (MT_SITE_PC_BITS - 1);
    int64_t at = (int64_t)((site & ((1u << MT_SITE_PC_BITS) - 1)) ^ sign) - (int64_t)sign;
    return site & MT_SITE_UNKNOWN ? 0 : code + (uint64_t)(at * 16);
}

/* Returns the number of slots of a packet of this kind with n active lanes, or 0 for an unknown kind. */
MT_DEVICE_INLINE uint32_t mt_packet_slots(uint32_t kind, uint32_t n)
{
    switch (kind) {
    case MT_PACKET_REGULAR:
    case MT_PACKET_NOTHING:
        return 1;
    case MT_PACKET_EXIT:
        return 2;
    case MT_PACKET_DELTAS:
        return 1 + (n / 2 + 3) / 4; /* n - 1 differences, two in a word */
    case MT_PACKET_LANES:
        return 1 + (n + 3) / 4;
    case MT_PACKET_BLOCKS:
        return 1 + (n + 1) / 2;
    default:
        return 0;
    }
}

/* ---- structures in device memory ------------------------------------------------------------------ */

struct mt_gpu_ring {
    uint64_t head;      /* slots reserved since the start */
    uint64_t tail_seen; /* a tail that some thread has read; never ahead of the real tail */
    uint64_t slots;     /* struct mt_slot[mask + 1], in host memory; read together with mask */
    uint64_t mask;      /* slots of the ring - 1; the slots are a power of two, below 2^MT_RING_BITS */
    uint64_t tail;      /* uint64_t, in host memory: slots taken since the start */
    uint64_t pad[11];   /* fills the cache line */
};
#define MT_RING_CLOSED (~0ull) /* tail of a ring that is no longer read: there is always room */
#define MT_RING_BITS 30u       /* 32 bits of a position determine place and lap of a slot */

#define MT_GPU_COUNTERS 16u
/* Flag added to the context's address in the hidden parameter (contexts are 256-byte aligned): only some CTAs
 * are traced. Without it a kernel need not read memory to know that it is traced whole or not at all. */
#define MT_CONTEXT_IN_PARTS 1u
#define MT_CONTEXT_EXITS 2u /* patches: exits of threads are counted, as their number is known */
#define MT_CONTEXT_POLLS 4u /* patches: repeats of an access are counted instead of recorded */
#define MT_CONTEXT_FLAGS 7ull
/* Target of a kernel's hidden parameter. Created once and lent to launches. Counters only grow. */
struct mt_gpu_context {
    uint64_t rings;     /* struct mt_gpu_ring[ring_mask + 1]; read together with ring_mask */
    uint32_t ring_mask; /* a power of two minus 1 */
    uint32_t id;        /* number of the context in packets */
    uint64_t untraced;  /* number of accesses without record */
    uint64_t counts[6]; /* count=only: accesses and bytes of loads, stores, atomics */
    uint64_t ctas;      /* struct mt_cta_rule, read when the parameter has MT_CONTEXT_IN_PARTS */
    uint64_t spaces;    /* not 0: shared and local memory and barriers are recorded as well */
    uint64_t code;      /* patches: the pc relative to which sites are given */
    uint64_t exits;     /* patches: threads of the current launch that have ended; 0 between launches */
    uint64_t repeated;  /* patches: accesses of threads that were counted as repeats, without record */
    union {
        uint64_t polls;   /* patches: struct mt_poll[MT_POLLS], read when the data has MT_CONTEXT_POLLS */
        uint64_t tallies; /* patches: struct mt_gpu_tallies, where there are totals and no records */
    };
    uint64_t kernel;                   /* patches: number of the kernel in keys of totals, from 1 */
    uint64_t records[MT_GPU_COUNTERS]; /* number of records, by CTA number */
};

/* The last access of a warp in flight, to find repeats (runtime/gpu/patch/polls.h). */
struct mt_poll {
    uint64_t state;
    uint64_t key[3]; /* word 0 of its packet without warp and SM; mask and site; word 3 */
    uint64_t pad[4];
};
#define MT_POLL_BITS 14u
#define MT_POLLS (1u << MT_POLL_BITS)

/* Totals of the accesses of an instruction of a kernel, in place of records: a table with open addressing,
 * where `entries` of struct mt_gpu_tally follow struct mt_gpu_tallies. Numbers only grow. */
#define MT_TALLY_PC_BITS                                                                                     \
    45u                     /* bits of a key with the instruction's address / 16, below the kernel's number */
#define MT_TALLY_STRIDES 4u /* strides counted apart */
#define MT_TALLY_SECTOR_BITS 5u
#define MT_TALLY_LINE_BITS 7u
struct mt_gpu_tallies {
    uint64_t entries;
    uint64_t lost; /* accesses of threads for which there was no room */
    uint64_t pad[30];
};
struct mt_gpu_tally {
    uint64_t key;  /* 0: free */
    uint64_t meta; /* type and size of an access; size MT_RAW_MAX_SIZE: blocks of different sizes */
    uint64_t requests, accesses;       /* of warps, of threads */
    uint64_t bytes, distinct;          /* requested; different ones within requests */
    uint64_t sectors, lines;           /* of 32 and of 128 bytes, summed over requests */
    uint64_t single, irregular;        /* requests of one lane; of several without a constant stride */
    uint64_t stride[MT_TALLY_STRIDES]; /* 0: free; stride << 1 | 1 */
    uint64_t times[MT_TALLY_STRIDES];  /* requests with this stride */
    uint64_t other;                    /* requests with yet other constant strides */
    uint64_t pad[5];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct mt_slot) == MT_SLOT_BYTES, "slots are 32 bytes: what a bus writes at once");
_Static_assert(sizeof(struct mt_gpu_ring) == 128, "rings keep to lines of their own");
_Static_assert(sizeof(struct mt_gpu_context) == 256, "contexts are copied as 256 bytes");
_Static_assert(sizeof(struct mt_gpu_tallies) == 256 && sizeof(struct mt_gpu_tally) == 192,
               "as on the device");
#endif
#endif
