/* mbarrier objects: 64-bit words in shared memory on which threads and asynchronous copies synchronise. A
 * phase ends when nobody is pending and no bytes are expected. Copies are done when the instruction that
 * starts them returns here; those that report to an mbarrier then subtract their bytes. A word holds, from
 * the top: the phase (1 bit), spare (2), bytes expected (21, signed), threads expected in each phase (20),
 * threads that have not arrived in this one (20). */
#include "builtin.h"

#define COUNT 0xfffffull
#define PHASE(w) ((w) >> 63)
#define BYTES(w) ((int64_t)((w) << 3) >> 43)
#define EXPECTED(w) ((w) >> 20 & COUNT)
#define PENDING(w) ((w) & COUNT)

/* Writes the state, going on to the next phase when this one is complete. A CTA stays on one OS thread, so
 * plain reads and writes do. */
static MT_INLINE void mbarrier_update(uint64_t *bar, uint64_t expected, uint64_t pending, int64_t bytes)
{
    uint64_t phase = PHASE(*bar);
    if (pending == 0 && bytes == 0) {
        phase ^= 1;
        pending = expected;
    }
    *bar = phase << 63 | ((uint64_t)bytes & 0x1fffff) << 40 | (expected & COUNT) << 20 | (pending & COUNT);
}

static MT_INLINE void mbarrier_init(uint64_t *bar, uint32_t count)
{
    *bar = (count & COUNT) << 20 | (count & COUNT);
}

/* `count` threads arrive, `drop` of them for good, and announce `bytes`. Returns the state before. */
static MT_INLINE uint64_t mbarrier_arrive(uint64_t *bar, uint64_t count, uint64_t drop, int64_t bytes)
{
    uint64_t old = *bar, pending = PENDING(old);
    mbarrier_update(bar, EXPECTED(old) - drop, count < pending ? pending - count : 0, BYTES(old) + bytes);
    return old;
}

static MT_INLINE void mbarrier_expect(uint64_t *bar, int64_t bytes)
{
    uint64_t old = *bar;
    mbarrier_update(bar, EXPECTED(old), PENDING(old), BYTES(old) + bytes);
}

static MT_INLINE bool mbarrier_over(const uint64_t *bar, uint64_t phase)
{
    if (PHASE(*bar) == (phase & 1))
        mt_cpu_yield(); /* a waiting loop comes back here: others must get their turn */
    return PHASE(*bar) != (phase & 1);
}

/* This thread's copies are complete: an arrival (noinc); without noinc the arrival was
 * first added to those pending. */
#define CP_ASYNC(noinc, inc)                                                                                 \
    MT_BUILTIN void noinc(uint64_t *bar)                                                                     \
    {                                                                                                        \
        mbarrier_arrive(bar, 1, 0, 0);                                                                       \
    }                                                                                                        \
    MT_BUILTIN void inc(uint64_t *bar)                                                                       \
    {                                                                                                        \
    }
MT_BUILTIN uint32_t mtb_ptx_mbarrier_pending_count_b64(uint64_t state)
{
    return (uint32_t)PENDING(state);
}
CP_ASYNC(mtb_ptx_cp_async_mbarrier_arrive_noinc_b64, mtb_ptx_cp_async_mbarrier_arrive_b64)
CP_ASYNC(mtb_ptx_cp_async_mbarrier_arrive_noinc_shared_b64, mtb_ptx_cp_async_mbarrier_arrive_shared_b64)

#define PTX(space)                                                                                           \
    MT_BUILTIN void mtb_ptx_mbarrier_init##space##_b64(uint64_t *bar, uint32_t count)                        \
    {                                                                                                        \
        mbarrier_init(bar, count);                                                                           \
    }                                                                                                        \
    MT_BUILTIN void mtb_ptx_mbarrier_inval##space##_b64(uint64_t *bar)                                       \
    {                                                                                                        \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_mbarrier_arrive_noComplete##space##_b64(uint64_t *bar, uint32_t count)       \
    {                                                                                                        \
        return mbarrier_arrive(bar, count, 0, 0);                                                            \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_mbarrier_arrive_drop##space##_b64(uint64_t *bar, uint32_t count)             \
    {                                                                                                        \
        return mbarrier_arrive(bar, count, count, 0);                                                        \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_mbarrier_arrive_drop_noComplete##space##_b64(uint64_t *bar, uint32_t count)  \
    {                                                                                                        \
        return mbarrier_arrive(bar, count, count, 0);                                                        \
    }                                                                                                        \
    WAITS(space)                                                                                             \
    ARRIVES(space)
#define WAITS(form)                                                                                          \
    WAIT(test_wait, form)                                                                                    \
    WAIT(try_wait, form)
#define WAIT(word, form)                                                                                     \
    MT_BUILTIN bool mtb_ptx_mbarrier_##word##form##_b64(uint64_t *bar, uint64_t state)                       \
    {                                                                                                        \
        return mbarrier_over(bar, PHASE(state));                                                             \
    }                                                                                                        \
    MT_BUILTIN bool mtb_ptx_mbarrier_##word##_parity##form##_b64(uint64_t *bar, uint32_t parity)             \
    {                                                                                                        \
        return mbarrier_over(bar, parity);                                                                   \
    }
/* The pass adds a count of 1 where the instruction names none. */
#define ARRIVE(form)                                                                                         \
    MT_BUILTIN uint64_t mtb_ptx_mbarrier_arrive##form##_b64(uint64_t *bar, uint32_t count)                   \
    {                                                                                                        \
        return mbarrier_arrive(bar, count, 0, 0);                                                            \
    }
#define ARRIVES(form)                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_mbarrier_arrive_expect_tx##form##_b64(uint64_t *bar, uint32_t bytes)         \
    {                                                                                                        \
        return mbarrier_arrive(bar, 1, 0, bytes);                                                            \
    }                                                                                                        \
    MT_BUILTIN void mtb_ptx_mbarrier_expect_tx##form##_b64(uint64_t *bar, uint32_t bytes)                    \
    {                                                                                                        \
        mbarrier_expect(bar, bytes);                                                                         \
    }                                                                                                        \
    MT_BUILTIN void mtb_ptx_mbarrier_complete_tx##form##_b64(uint64_t *bar, uint32_t bytes)                  \
    {                                                                                                        \
        mbarrier_expect(bar, -(int64_t)bytes);                                                               \
    }
PTX()
PTX(_shared)
PTX(_shared__cta)
ARRIVE()
ARRIVE(_shared)
ARRIVE(_shared__cta)
#define SCOPED(scope, space)                                                                                 \
    WAITS(_acquire_##scope##space)                                                                           \
    WAITS(_relaxed_##scope##space)                                                                           \
    ARRIVE(_release_##scope##space)                                                                          \
    ARRIVE(_relaxed_##scope##space)                                                                          \
    ARRIVES(_release_##scope##space)                                                                         \
    ARRIVES(_relaxed_##scope##space)
SCOPED(cta, _shared__cta)
SCOPED(cluster, _shared__cta)
SCOPED(cta, _shared__cluster)
SCOPED(cluster, _shared__cluster)

/* ---- bulk copies that report to an mbarrier ---- */
#define BULK(to, from)                                                                                       \
    MT_BUILTIN void mtb_ptx_cp_async_bulk_##to##_##from##_mbarrier__complete_tx__bytes(                      \
        void *dst, const void *src, uint32_t bytes, uint64_t *bar)                                           \
    {                                                                                                        \
        __builtin_memcpy(dst, src, bytes);                                                                   \
        mbarrier_expect(bar, -(int64_t)bytes);                                                               \
    }
BULK(shared__cluster, global)
BULK(shared__cta, global)
BULK(shared__cluster, shared__cta)

/* Into the same place of several CTAs of the cluster, each with its barrier. */
uint64_t mtb_ptx_mapa_u64(uint64_t p, uint32_t rank);
MT_BUILTIN void mtb_ptx_cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes_multicast__cluster(
    void *dst, const void *src, uint32_t bytes, uint64_t *bar, uint32_t ctas)
{
    for (ctas &= 0xffff; ctas; ctas &= ctas - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(ctas);
        __builtin_memcpy((void *)mtb_ptx_mapa_u64((uint64_t)dst, rank), src, bytes);
        mbarrier_expect((uint64_t *)mtb_ptx_mapa_u64((uint64_t)bar, rank), -(int64_t)bytes);
    }
}
