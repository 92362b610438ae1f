/* The raw trace record: three little-endian u64, 24 bytes. Header only, C11 and C++, host and device.
 * Specification: docs/trace-format.md. Fields: record.def. */
#ifndef MEMTRACE_RECORD_H
#define MEMTRACE_RECORD_H
#include <stdint.h>

/* Marks functions that also run on a GPU, for nvcc and clang. */
#ifdef __CUDACC__
#define MT_RECORD_INLINE static inline __host__ __device__
#else
#define MT_RECORD_INLINE static inline
#endif

#define MT_RAW_RECORD_SIZE 24u
#define MT_RAW_MAX_SIZE ((1u << 28) - 1) /* maximum bytes of one record; longer accesses are split */

enum mt_access_type {
#define MT_ACCESS_TYPE(name, code, text) MT_##name = code,
#include "memtrace/record.def"
};

enum mt_access_space {
#define MT_ACCESS_SPACE(name, code, text) MT_IN_##name = code,
#include "memtrace/record.def"
};
enum mt_access_sync {
#define MT_ACCESS_SYNC(name, code, text) MT_SYNC_##name = code,
#include "memtrace/record.def"
};
/* Scope and order of strong accesses, atomics and fences: keys of `site` lines. */
enum mt_scope {
#define MT_ACCESS_SCOPE(name, code, text) MT_SCOPE_##name = code,
#include "memtrace/record.def"
};
enum mt_order_kind {
#define MT_ACCESS_ORDER(name, code, text) MT_ORDER_##name = code,
#include "memtrace/record.def"
};
/* Address of a barrier's record, by the record's size. Size 1: number of the barrier, 0 to 15 or one
 * below. */
#define MT_SYNC_OF_NUMBER 1u
/* No barrier, but a fence (type MT_SYNC_ARRIVE): this number plus its scope. */
#define MT_BARRIER_FENCE 0xf0u
#define MT_BARRIER_CLUSTER 0xfeu
#define MT_BARRIER_UNKNOWN 0xffu
/* Size 4, __syncwarp: mask of the lanes that must arrive. */
#define MT_SYNC_OF_LANES 4u
/* Size 4, types MT_SYNC_ARRIVE and MT_SYNC_BARRIER: an update and a load of the counter of the barrier of a
 * cooperative launch; address 0. */
#define MT_SYNC_OF_GRID 4u
/* Size 8, mbarrier: its address in shared memory, with the phase it is in (arrivals) or was in (waits,
 * recorded when they are over), or a flag that it is initialised. */
#define MT_SYNC_OF_OBJECT 8u
#define MT_MBARRIER_ODD 1u /* parity of the phase */
#define MT_MBARRIER_INIT 2u
#define MT_MBARRIER_FLAGS 7u
/* Records of asynchronous copies: the size tells the step. BEGINS: the same lanes' access of shared memory at
 * the next site (number + 1) is a copy, which happens later. It belongs to the lane's open group (address: 0,
 * 1 for bulk copies, MT_BARRIER_UNKNOWN if its completion is unknown), or with MT_SYNC_OF_OBJECT it completes
 * with that phase of the mbarrier. */
#define MT_COPY_BEGINS 1u
/* Closes the open group; address as above. */
#define MT_COPY_COMMITS 2u
/* Waits for all groups except the newest ones; address: MT_COPY_WAIT and the flags. */
#define MT_COPY_WAITS 4u
#define MT_COPY_WAIT(left) ((uint64_t)(left) << 2)
#define MT_COPY_ALL 2u /* flag: the open group is closed first */
#define MT_COPY_BULK 1u
/* Arrives at the mbarrier (address as for MT_SYNC_OF_OBJECT) when the lane's copies so far have ended. */
#define MT_COPY_ARRIVES 16u

/* Returns 1 if compact traces have this type. */
MT_RECORD_INLINE int mt_rec_known(uint32_t type)
{
    return type < 16 && 0xf77fu >> type & 1;
}
/* Returns 1 if a record of type MT_SYNC_ARRIVE, of this size and address, is a fence. */
MT_RECORD_INLINE int mt_rec_is_fence(uint32_t size, uint64_t address)
{
    return size == MT_SYNC_OF_NUMBER && address > MT_BARRIER_FENCE &&
           address <= MT_BARRIER_FENCE + MT_SCOPE_SYS;
}
/* Space of a type of a compact trace (3: not an access), and the code of a type in a space. */
MT_RECORD_INLINE uint32_t mt_rec_space(uint32_t type)
{
    return type >> 2;
}
MT_RECORD_INLINE uint32_t mt_rec_type_in(uint32_t type, enum mt_access_space space)
{
    return type | (uint32_t)space << 2;
}

/* One record as stored on disk. All zeros is the end-of-kernel mark (EOT). */
struct mt_raw_record {
    uint64_t w[3];
};

/* Field getters: mt_rec_smid(&r), mt_rec_type, mt_rec_size, mt_rec_address, mt_rec_cta_x, _y, _z. */
#define MT_RECORD_FIELD(name, word, shift, bits)                                                             \
    MT_RECORD_INLINE uint64_t mt_rec_##name(const struct mt_raw_record *r)                                   \
    {                                                                                                        \
        return (r->w[word] >> (shift)) & (~0ull >> (64 - (bits)));                                           \
    }
#include "memtrace/record.def"

/* Returns the low half of w[0], type and size. `size` is in bytes, 1 .. MT_RAW_MAX_SIZE. */
MT_RECORD_INLINE uint32_t mt_rec_meta(uint32_t type, uint32_t size)
{
    return type << 28 | size;
}

/* Returns w[2], the CTA. x has 32 bits, y and z 16 each, matching CUDA's grid limits. */
MT_RECORD_INLINE uint64_t mt_rec_cta(uint32_t x, uint32_t y, uint32_t z)
{
    return (uint64_t)x << 32 | (uint64_t)(y & 0xffff) << 16 | (z & 0xffff);
}

MT_RECORD_INLINE struct mt_raw_record mt_rec_pack(uint32_t smid, uint32_t type, uint32_t size,
                                                  uint64_t address, uint64_t cta)
{
    struct mt_raw_record r = {{(uint64_t)smid << 32 | mt_rec_meta(type, size), address, cta}};
    return r;
}

MT_RECORD_INLINE int mt_rec_is_eot(const struct mt_raw_record *r)
{
    return (r->w[0] | r->w[1] | r->w[2]) == 0;
}

#ifndef __cplusplus
_Static_assert(sizeof(struct mt_raw_record) == MT_RAW_RECORD_SIZE, "raw record is 24 bytes");
#endif
#endif
