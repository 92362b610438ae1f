/* Machine operations used by record.c, in PTX 6.3 (sm_70 and later). Memory shared with the host is written
 * at system scope, counters and rings at device scope. tests/gpu has the same names for host threads,
 * runtime/cpu for threads of the CPU device. */
#ifndef MT_DEVICE_WARP_H
#define MT_DEVICE_WARP_H
#include <stdint.h>
#include "format/packet.h"

/* A special register, as spelt by the compiler: clang's form, which is C, and nvcc's. */
#ifdef __CUDACC__
#define MT_SREG_tid threadIdx
#define MT_SREG_ntid blockDim
#define MT_SREG_nctaid gridDim
#define MT_SREG(name, way) ((uint32_t)MT_SREG_##name.way)
#else
#define MT_SREG(name, way) __nvvm_read_ptx_sreg_##name##_##way()
#endif

/* ---- the warp ----------------------------------------------------------------------------------- */

MT_DEVICE_INLINE uint32_t mt_active(void)
{
    uint32_t mask;
    __asm__ volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}
/* Reads a special register again at each use: volatile keeps the compiler from holding the value in a
 * register meanwhile. */
#define MT_READ_ANEW(name)                                                                                   \
    ({                                                                                                       \
        uint32_t value_;                                                                                     \
        __asm__ volatile("mov.u32 %0, %" name ";" : "=r"(value_));                                           \
        value_;                                                                                              \
    })
MT_DEVICE_INLINE uint32_t mt_lane(void)
{
    return MT_READ_ANEW("%laneid");
}
/* Returns the index of the warp in its CTA, from the thread index, as %warpid may change. */
MT_DEVICE_INLINE uint32_t mt_warp(void)
{
    uint32_t x = MT_SREG(tid, x), y = MT_SREG(tid, y), z = MT_SREG(tid, z);
    return (x + MT_SREG(ntid, x) * (y + MT_SREG(ntid, y) * z)) / 32;
}
MT_DEVICE_INLINE uint32_t mt_sm(void)
{
    return MT_READ_ANEW("%smid");
}
MT_DEVICE_INLINE uint32_t mt_cta_x(void)
{
    return MT_READ_ANEW("%ctaid.x");
}
MT_DEVICE_INLINE uint32_t mt_cta_y(void)
{
    return MT_READ_ANEW("%ctaid.y");
}
MT_DEVICE_INLINE uint32_t mt_cta_z(void)
{
    return MT_READ_ANEW("%ctaid.z");
}
MT_DEVICE_INLINE uint32_t mt_grid_x(void)
{
    return MT_SREG(nctaid, x);
}
MT_DEVICE_INLINE uint32_t mt_grid_y(void)
{
    return MT_SREG(nctaid, y);
}
/* Returns the number of threads of a CTA. */
MT_DEVICE_INLINE uint32_t mt_cta_threads(void)
{
    return MT_SREG(ntid, x) * MT_SREG(ntid, y) * MT_SREG(ntid, z);
}
/* Returns the number of threads of the launch. */
MT_DEVICE_INLINE uint64_t mt_threads(void)
{
    uint64_t ctas = (uint64_t)mt_grid_x() * mt_grid_y() * MT_SREG(nctaid, z);
    return ctas * mt_cta_threads();
}
/* Waits for the lanes of the mask; what each has done before is done for all of them. */
MT_DEVICE_INLINE void mt_meet(uint32_t mask)
{
    __asm__ volatile("bar.warp.sync %0;" ::"r"(mask) : "memory");
}
MT_DEVICE_INLINE uint64_t mt_shuffle(uint32_t mask, uint64_t value, uint32_t lane)
{
    uint32_t low, high;
    __asm__ volatile("shfl.sync.idx.b32 %0, %2, %4, 0x1f, %5;\n\t"
                     "shfl.sync.idx.b32 %1, %3, %4, 0x1f, %5;"
                     : "=&r"(low), "=r"(high)
                     : "r"((uint32_t)value), "r"((uint32_t)(value >> 32)), "r"(lane), "r"(mask));
    return (uint64_t)high << 32 | low;
}
MT_DEVICE_INLINE uint32_t mt_shuffle_half(uint32_t mask, uint32_t value, uint32_t lane)
{
    uint32_t got;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, %3;"
                     : "=r"(got)
                     : "r"(value), "r"(lane), "r"(mask));
    return got;
}
MT_DEVICE_INLINE int mt_all(uint32_t mask, int condition)
{
    uint32_t all;
    __asm__ volatile("{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tvote.sync.all.pred q, p, %2;\n\t"
                     "selp.u32 %0, 1, 0, q;\n\t}"
                     : "=r"(all)
                     : "r"((uint32_t)condition), "r"(mask));
    return (int)all;
}
MT_DEVICE_INLINE uint32_t mt_ballot(uint32_t mask, int condition)
{
    uint32_t set;
    __asm__ volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, %2;\n\t}"
                     : "=r"(set)
                     : "r"((uint32_t)condition), "r"(mask));
    return set;
}
#ifdef __CUDACC__
MT_DEVICE_INLINE uint32_t mt_site_base(void)
{
    return 0;
}
/* Returns this CTA's rank in its cluster, or 0 without clusters. */
MT_DEVICE_INLINE uint32_t mt_cluster_rank(void)
{
#if __CUDA_ARCH__ >= 900
    return MT_READ_ANEW("%cluster_ctarank");
#else
    return 0;
#endif
}
#else
/* Offset added to the file's sites. With -fgpu-rdc the pass gives the variable a name per file, and the
 * runtime a value; else it is removed (llvm-pass/gpu/context.c). */
extern __attribute__((address_space(1))) uint32_t __mt_gpu_site_base;
MT_DEVICE_INLINE uint32_t mt_site_base(void)
{
    return __mt_gpu_site_base;
}
#endif

/* ---- memory ------------------------------------------------------------------------------------- */

MT_DEVICE_INLINE uint64_t mt_atomic_add(uint64_t *p, uint64_t v)
{
    uint64_t old;
    __asm__ volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
/* The same, after all that happened before. */
MT_DEVICE_INLINE uint64_t mt_atomic_add_last(uint64_t *p, uint64_t v)
{
    uint64_t old;
    __asm__ volatile("atom.release.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
/* Orders what was done before, by this thread and those that it has heard of, before all that follows, for
 * the host as well. */
MT_DEVICE_INLINE void mt_fence(void)
{
    __asm__ volatile("fence.acq_rel.sys;" ::: "memory");
}
/* Orders the accesses of the threads of a CTA. */
MT_DEVICE_INLINE void mt_fence_near(void)
{
    __asm__ volatile("fence.acq_rel.cta;" ::: "memory");
}
/* Replaces `old` by `v`. Returns whether it was there. */
MT_DEVICE_INLINE int mt_replace(uint64_t *p, uint64_t old, uint64_t v)
{
    uint64_t found;
    __asm__ volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                     : "=l"(found)
                     : "l"(p), "l"(old), "l"(v)
                     : "memory");
    return found == old;
}
/* The same, ordered with those who replaced it before and will after. */
MT_DEVICE_INLINE int mt_replace_ordered(uint64_t *p, uint64_t old, uint64_t v)
{
    uint64_t found;
    __asm__ volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
                     : "=l"(found)
                     : "l"(p), "l"(old), "l"(v)
                     : "memory");
    return found == old;
}
MT_DEVICE_INLINE void mt_atomic_max(uint64_t *p, uint64_t v)
{
    __asm__ volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
MT_DEVICE_INLINE void mt_count(uint64_t *p, uint64_t v)
{
    __asm__ volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
MT_DEVICE_INLINE uint64_t mt_load(const uint64_t *p)
{
    uint64_t v;
    __asm__ volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
MT_DEVICE_INLINE uint64_t mt_load_acquire_system(const uint64_t *p)
{
    uint64_t v;
    __asm__ volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
/* Loads two words that nobody writes while the kernel runs, aligned to 16 bytes. Not volatile: the compiler
 * may move it. */
MT_DEVICE_INLINE void mt_load_pair(const uint64_t *p, uint64_t *a, uint64_t *b)
{
    __asm__("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(*a), "=l"(*b) : "l"(p));
}
MT_DEVICE_INLINE void mt_store(uint64_t *p, uint64_t v)
{
    __asm__ volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
/* Stores two words; p is a multiple of 16. Not one store in the memory model: each word may be seen without
 * the other. */
MT_DEVICE_INLINE void mt_store_pair(uint64_t *p, uint64_t a, uint64_t b)
{
    __asm__ volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(a), "l"(b) : "memory");
}
MT_DEVICE_INLINE void mt_sleep(uint32_t ns)
{
    __asm__ volatile("nanosleep.u32 %0;" ::"r"(ns));
}
#endif
