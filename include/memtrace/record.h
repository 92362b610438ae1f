/* The raw trace record: three little-endian u64, 24 bytes. Pure header, C11 and C++, host and device.
 * Normative text: docs/trace-format.md. Layout macros: record.def. */
#ifndef MEMTRACE_RECORD_H
#define MEMTRACE_RECORD_H
#include <stdint.h>

/* As nvcc and clang want to hear it that a GPU may call a function. */
#ifdef __CUDACC__
#define MT_RECORD_INLINE static inline __host__ __device__
#else
#define MT_RECORD_INLINE static inline
#endif

#define MT_RAW_RECORD_SIZE 24u
#define MT_RAW_MAX_SIZE ((1u << 28) - 1) /* bytes one record can say; longer accesses are split */

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
/* What the address of a barrier's record is, by its size: a number, 0 to 15 or one of these; */
#define MT_SYNC_OF_NUMBER 1u
#define MT_BARRIER_CLUSTER 0xfeu
#define MT_BARRIER_UNKNOWN 0xffu
/* of __syncwarp, the lanes that are to come; */
#define MT_SYNC_OF_LANES 4u
/* of an mbarrier, where it is in shared memory, with the phase it is in (arrivals) or was in (waits, recorded
 * when they are over); or it is set up. */
#define MT_SYNC_OF_OBJECT 8u
#define MT_MBARRIER_ODD 1u /* the phase */
#define MT_MBARRIER_INIT 2u
#define MT_MBARRIER_FLAGS 7u
/* Of copies the size says what happens. What an access of shared memory by the same lanes does, whose site
 * has the next number, is done later: it belongs to the lane's open group (address: 0, of bulk copies 1, or
 * MT_BARRIER_UNKNOWN: not known what ends it), or with MT_SYNC_OF_OBJECT it ends with that phase of the
 * mbarrier. */
#define MT_COPY_BEGINS 1u
/* The open group is closed; address: as above. */
#define MT_COPY_COMMITS 2u
/* All groups but the newest ones are waited for; address: MT_COPY_WAIT and the flags. */
#define MT_COPY_WAITS 4u
#define MT_COPY_WAIT(left) ((uint64_t)(left) << 2)
#define MT_COPY_ALL 2u /* the open group is closed first */
#define MT_COPY_BULK 1u
/* The mbarrier (address: as of MT_SYNC_OF_OBJECT) is arrived at when the lane's copies so far have ended. */
#define MT_COPY_ARRIVES 16u

/* Is there such a type in compact traces? */
MT_RECORD_INLINE int mt_rec_known(uint32_t type)
{
    return type < 16 && 0xf77fu >> type & 1;
}
/* Of a type as compact traces have it: the space (3: not an access), and the type in that space. */
MT_RECORD_INLINE uint32_t mt_rec_space(uint32_t type)
{
    return type >> 2;
}
MT_RECORD_INLINE uint32_t mt_rec_type_in(uint32_t type, enum mt_access_space space)
{
    return type | (uint32_t)space << 2;
}

/* One record as it is on disk. All zeros is the end-of-kernel mark (EOT). */
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

/* The low half of w[0]: type and size. `size` in bytes, 1 .. MT_RAW_MAX_SIZE. */
MT_RECORD_INLINE uint32_t mt_rec_meta(uint32_t type, uint32_t size)
{
    return type << 28 | size;
}

/* w[2] of a CTA: x has 32 bits, y and z 16 each, as CUDA's grid limits need. */
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
