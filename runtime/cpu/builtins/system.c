/* Special registers, waits, and other work of the runtime or the processor. */
#include "builtin.h"
#include "format/image.h"

/* Special registers: llvm.nvvm.read.ptx.sreg.*. */

#define SREG(name, expression)                                                                               \
    MT_BUILTIN uint32_t mtb_nvvm_read_ptx_sreg_##name(void)                                                  \
    {                                                                                                        \
        return (uint32_t)(expression);                                                                       \
    }
#define SREG64(name, expression)                                                                             \
    MT_BUILTIN uint64_t mtb_nvvm_read_ptx_sreg_##name(void)                                                  \
    {                                                                                                        \
        return (uint64_t)(expression);                                                                       \
    }
#define SREG3(name, field)                                                                                   \
    SREG(name##_x, mt_cpu_tls.field[0])                                                                      \
    SREG(name##_y, mt_cpu_tls.field[1])                                                                      \
    SREG(name##_z, mt_cpu_tls.field[2])                                                                      \
    SREG(name##_w, 0)

SREG3(tid, tid)
SREG3(ntid, ntid)
SREG3(ctaid, ctaid)
SREG3(nctaid, nctaid)
SREG(laneid, mt_cpu_tls.laneid)
SREG(warpid, mt_cpu_tls.warpid)
SREG(nwarpid, 32)
SREG(smid, mt_cpu_tls.smid)
SREG(nsmid, mt_cpu_tls.nsmid)
SREG(gridid, mt_cpu_tls.grid_id)
SREG(warpsize, 32)
SREG(lanemask_eq, 1u << mt_cpu_tls.laneid)
SREG(lanemask_lt, (1u << mt_cpu_tls.laneid) - 1)
SREG(lanemask_le, (2u << mt_cpu_tls.laneid) - 1)
SREG(lanemask_gt, ~((2u << mt_cpu_tls.laneid) - 1))
SREG(lanemask_ge, ~((1u << mt_cpu_tls.laneid) - 1))
SREG(clock, __builtin_readcyclecounter())
SREG64(clock64, __builtin_readcyclecounter())
SREG64(globaltimer, mt_cpu_globaltimer())
SREG(pm0, 0)
SREG(pm1, 0)
SREG(pm2, 0)
SREG(pm3, 0)

/* Thread-block clusters. */
static MT_INLINE uint32_t in_cluster(int i)
{
    return mt_cpu_tls.ctaid[i] % mt_cpu_tls.cluster[i];
}
#define SREG_CLUSTER(i, x)                                                                                   \
    SREG(cluster_ctaid_##x, in_cluster(i))                                                                   \
    SREG(cluster_nctaid_##x, mt_cpu_tls.cluster[i])                                                          \
    SREG(clusterid_##x, mt_cpu_tls.ctaid[i] / mt_cpu_tls.cluster[i])                                         \
    SREG(nclusterid_##x, mt_cpu_tls.nctaid[i] / mt_cpu_tls.cluster[i])
SREG_CLUSTER(0, x)
SREG_CLUSTER(1, y)
SREG_CLUSTER(2, z)
SREG(cluster_ctaid_w, 0)
SREG(cluster_nctaid_w, 1)
SREG(clusterid_w, 0)
SREG(nclusterid_w, 0)
SREG(cluster_ctarank,
     in_cluster(0) + mt_cpu_tls.cluster[0] * (in_cluster(1) + mt_cpu_tls.cluster[1] * in_cluster(2)))
SREG(cluster_nctarank, mt_cpu_tls.cluster[0] * mt_cpu_tls.cluster[1] * mt_cpu_tls.cluster[2])

/* Values that the driver passes to cooperative groups: the grid barrier's address, high half first. Absent
 * otherwise. */
SREG(envreg1, (uint64_t)mt_cpu_tls.grid_workspace >> 32)
SREG(envreg2, (uint64_t)mt_cpu_tls.grid_workspace)
#define ENVREG(n) SREG(envreg##n, 0)
ENVREG(0)
ENVREG(3)
ENVREG(4)
ENVREG(5)
ENVREG(6)
ENVREG(7)
ENVREG(8)
ENVREG(9)
ENVREG(10)
ENVREG(11)
ENVREG(12)
ENVREG(13)
ENVREG(14)
ENVREG(15)
ENVREG(16)
ENVREG(17)
ENVREG(18)
ENVREG(19)
ENVREG(20)
ENVREG(21)
ENVREG(22)
ENVREG(23)
ENVREG(24)
ENVREG(25)
ENVREG(26)
ENVREG(27)
ENVREG(28)
ENVREG(29)
ENVREG(30)
ENVREG(31)

/* Names that exist in inline PTX only. */
MT_BUILTIN uint32_t mtb_ptx_sreg_dynamic_smem_size(void)
{
    return mt_cpu_tls.dyn_shared;
}
static MT_INLINE uint32_t sreg_reserved(void)
{
    return (uint32_t)mt_cpu_tls.shared_bytes - MT_SHARED_RESERVED;
}
#define PTX(name, expression)                                                                                \
    MT_BUILTIN uint32_t mtb_ptx_sreg_##name(void)                                                            \
    {                                                                                                        \
        return (uint32_t)(expression);                                                                       \
    }
PTX(total_smem_size, sreg_reserved())
PTX(aggr_smem_size, mt_cpu_tls.shared_bytes)
PTX(reserved_smem_offset_begin, sreg_reserved())
PTX(reserved_smem_offset_end, mt_cpu_tls.shared_bytes)
PTX(reserved_smem_offset_cap, MT_SHARED_RESERVED)
PTX(reserved_smem_offset_0, sreg_reserved())
PTX(reserved_smem_offset_1, sreg_reserved() + 512)
MT_BUILTIN uint32_t mtb_ptx_sreg_clock_hi(void)
{
    return (uint32_t)(__builtin_readcyclecounter() >> 32);
}
MT_BUILTIN uint32_t mtb_ptx_sreg_globaltimer_lo(void)
{
    return (uint32_t)mt_cpu_globaltimer();
}
MT_BUILTIN uint32_t mtb_ptx_sreg_globaltimer_hi(void)
{
    return (uint32_t)(mt_cpu_globaltimer() >> 32);
}
MT_BUILTIN uint32_t mtb_ptx_sreg_is_explicit_cluster(void)
{
    return mt_cpu_tls.in_cluster;
}

/* Builtins that the pass itself calls (llvm-pass/lower.c), in addition to those for
 * intrinsics. */

/* Returns the start of this CTA's shared memory. */
void *mtb_shared_base(void)
{
    return mt_cpu_tls.shared;
}

/* Return the range of the CTA's warps that a call runs. */
uint32_t mtb_warp_first(void)
{
    return mt_cpu_tls.warp_first;
}
uint32_t mtb_warp_end(void)
{
    return mt_cpu_tls.warp_end;
}

/* Sets the current thread's coordinates, where a warp's lanes call one after the other. */
void mtb_set_thread(uint32_t x, uint32_t y, uint32_t z, uint32_t linear)
{
    mt_cpu_tls.tid[0] = x;
    mt_cpu_tls.tid[1] = y;
    mt_cpu_tls.tid[2] = z;
    mt_cpu_tls.laneid = linear & 31;
    mt_cpu_tls.warpid = linear >> 5;
}

/* Matrix operations of a warp. */

/* Runs wmma, mma, ldmatrix and the like, as the pass describes them. */
MT_BUILTIN void mtb_matrix(const struct mt_matrix_op *op, void *p, uint64_t stride, const uint64_t *in,
                           uint64_t *out)
{
    mt_cpu_matrix(op, p, stride, in, out);
}

/* Loads and stores of a warp's lanes with scattered addresses, for processors without mask registers: one
 * call is a tenth of the code and compile time of 32 conditional loads. Inactive lanes get zeros. Of
 * several lanes that store to one address the last one wins. */

#define LANES 32
struct sixteen {
    uint64_t word[2];
};

/* A function of its own, as it makes its caller save all registers. */
static MT_KEPT void store_check(void *const *at, uint32_t mask, const void *from, uint32_t size)
{
    mt_cpu_same_word(at, mask, from, size);
}

/* Checks a store of lanes to one address (MEMTRACE_CHECK). */
MT_BUILTIN MT_KEPT void mtb_store_same(void *at, uint32_t mask, const void *from, uint32_t size)
{
    if (__builtin_expect(mt_cpu_tls.run != mt_cpu_tls.run_end, 1))
        return;
    void *lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = at;
    store_check(lane, mask, from, size);
}

#define EACH(type, size)                                                                                     \
    typedef type lane_##size __attribute__((aligned(1), may_alias));                                         \
    MT_BUILTIN MT_KEPT void mtb_gather_##size(void *const *at, uint32_t mask, void *to)                      \
    {                                                                                                        \
        lane_##size *out = to;                                                                               \
        if (mask == ~0u) {                                                                                   \
            _Pragma("clang loop unroll_count(8) vectorize(disable)") for (int i = 0; i < LANES; i++)         \
                out[i] = *(const lane_##size *)at[i];                                                        \
            return;                                                                                          \
        }                                                                                                    \
        __builtin_memset(to, 0, LANES *size);                                                                \
        for (; mask; mask &= mask - 1) {                                                                     \
            int i = __builtin_ctz(mask);                                                                     \
            out[i] = *(const lane_##size *)at[i];                                                            \
        }                                                                                                    \
    }                                                                                                        \
    MT_BUILTIN MT_KEPT void mtb_scatter_##size(void *const *at, uint32_t mask, void *from)                   \
    {                                                                                                        \
        const lane_##size *in = from;                                                                        \
        if (__builtin_expect(mt_cpu_tls.run == mt_cpu_tls.run_end, 0))                                       \
            store_check(at, mask, from, size);                                                               \
        for (; mask; mask &= mask - 1) {                                                                     \
            int i = __builtin_ctz(mask);                                                                     \
            *(lane_##size *)at[i] = in[i];                                                                   \
        }                                                                                                    \
    }
EACH(uint8_t, 1)
EACH(uint16_t, 2)
EACH(uint32_t, 4)
EACH(uint64_t, 8)
EACH(struct sixteen, 16)

static MT_INLINE uint64_t gather_at(uint64_t base, uint64_t base1, int64_t stride, uint32_t i)
{
    return i < LANES / 2 ? base + i * (uint64_t)stride : base1 + (i - LANES / 2) * (uint64_t)stride;
}

/* Stores the addresses of n lanes: those of a row whose first one is `base`, where lane i adds i * rest, and
 * `scale` times as much as the number first + i * step has risen in a narrower type (how: its bits, and 256
 * if it is signed), in which it may have wrapped. */
MT_BUILTIN MT_KEPT void mtb_addresses(uint64_t *to, uint32_t n, uint64_t base, uint64_t first, int64_t step,
                                      int64_t scale, int64_t rest, uint32_t how)
{
    uint32_t up = 64 - (how & 255);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t number = (first + i * (uint64_t)step) << up;
        number = how & 256 ? (uint64_t)((int64_t)number >> up) : number >> up;
        to[i] = base + (number - first) * (uint64_t)scale + i * (uint64_t)rest;
    }
}

/* Loads some lanes of two rows of 16. Not time-critical: used for accesses of which some are bad. */
MT_BUILTIN MT_KEPT void mtb_load_rows(uint64_t base, uint64_t base1, int64_t stride, uint32_t mask,
                                      uint32_t size, char *to)
{
    __builtin_memset(to, 0, LANES * (uint64_t)size);
    for (; mask; mask &= mask - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(mask);
        const char *at = (const char *)gather_at(base, base1, stride, i);
        for (uint32_t k = 0; k < size; k++)
            to[i * size + k] = at[k];
    }
}

MT_BUILTIN MT_KEPT void mtb_store_rows(uint64_t base, uint64_t base1, int64_t stride, uint32_t mask,
                                       uint32_t size, const char *from)
{
    for (; mask; mask &= mask - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(mask);
        char *at = (char *)gather_at(base, base1, stride, i);
        for (uint32_t k = 0; k < size; k++)
            at[k] = from[i * size + k];
    }
}

/* mbarrier objects: 64-bit words in shared memory on which threads and asynchronous copies synchronise. A
 * phase ends when no thread is pending and no bytes are expected. A copy is complete when its instruction
 * returns here; if it reports to an mbarrier, it then subtracts its bytes. Fields of a word from the top:
 * phase (1 bit), spare (2), bytes expected (21, signed), threads expected per phase (20), threads still
 * missing in this phase (20). */

#define COUNT 0xfffffull
#define PHASE(w) ((w) >> 63)
#define BYTES(w) ((int64_t)((w) << 3) >> 43)
#define EXPECTED(w) ((w) >> 20 & COUNT)
#define PENDING(w) ((w) & COUNT)

/* Writes the state, and starts the next phase if this one is complete. A CTA stays on one OS thread, so
 * plain reads and writes suffice. */
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

/* Arrives for `count` threads, `drop` of them for good, and announces `bytes`. Returns the previous state. */
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
        mt_cpu_yield(); /* a waiting loop returns here: other threads must run */
    return PHASE(*bar) != (phase & 1);
}

/* Signals that this thread's copies are complete: an arrival (noinc); without noinc the arrival was first
 * added to those pending. */
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

#undef PTX
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
/* The pass adds a count of 1 if the instruction names none. */
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

/* Copies to the same offset in several CTAs of the cluster, each with its barrier. */
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

/* Device library calls: printf, the heap, assertions, and the device runtime that cooperative groups use. */

uint32_t mtb_nvvm_read_ptx_sreg_tid_x(void);
uint32_t mtb_nvvm_read_ptx_sreg_tid_y(void);
uint32_t mtb_nvvm_read_ptx_sreg_tid_z(void);

MT_BUILTIN int32_t mtb_vprintf(const char *format, const void *args)
{
    return mt_cpu_vprintf(format, args);
}
MT_BUILTIN void *mtb_malloc(uint64_t bytes)
{
    return mt_cpu_malloc(bytes);
}
MT_BUILTIN void mtb_free(void *p)
{
    mt_cpu_free(p);
}
MT_BUILTIN void mtb___assertfail(const char *message, const char *file, uint32_t line, const char *function,
                                 uint64_t char_size)
{
    mt_cpu_assertfail(message, file, line, function);
}
MT_BUILTIN void mtb___assert_fail(const char *message, const char *file, uint32_t line, const char *function)
{
    mt_cpu_assertfail(message, file, line, function);
}

/* Answers libdevice's queries about the compilation that were left open at compile time: no flushing,
 * exact division and square roots. */
MT_BUILTIN int32_t mtb___nvvm_reflect(const char *what)
{
    return !__builtin_strcmp(what, "__CUDA_PREC_DIV") || !__builtin_strcmp(what, "__CUDA_PREC_SQRT");
}

/* Grid barrier of libcudadevrt, which Numba calls. It uses the same word and count as cooperative groups'
 * own barrier: the top bit flips when the last CTA has arrived. Its accesses belong to the library, so
 * they are not recorded. */
#define CG_SCOPE_GRID 1
#define CG_INVALID_VALUE 1

MT_BUILTIN uint64_t mtb_cudaCGGetIntrinsicHandle(uint32_t scope)
{
    return scope == CG_SCOPE_GRID ? (uint64_t)mt_cpu_tls.grid_workspace : 0;
}

/* The handle of a conditional node of a graph is the address of its value (api/graphs/graph.c). */
MT_BUILTIN void mtb_cudaGraphSetConditional(uint64_t handle, uint32_t value)
{
    __atomic_store_n((uint32_t *)handle, value, __ATOMIC_RELEASE);
}

MT_BUILTIN uint32_t mtb_cudaCGSynchronize(uint64_t handle, uint32_t flags)
{
    uint32_t *barrier = (uint32_t *)handle + MT_GRID_BARRIER;
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    if (!handle || flags) /* not a cooperative launch */
        return CG_INVALID_VALUE;
    mt_cpu_barrier(0, 0, 0, 0);
    if (!(mtb_nvvm_read_ptx_sreg_tid_x() | mtb_nvvm_read_ptx_sreg_tid_y() | mtb_nvvm_read_ptx_sreg_tid_z())) {
        uint32_t ctas = t->nctaid[0] * t->nctaid[1] * t->nctaid[2];
        uint32_t first = !(t->ctaid[0] | t->ctaid[1] | t->ctaid[2]);
        uint32_t before = __atomic_fetch_add(barrier, first ? 0x80000000u - (ctas - 1) : 1, __ATOMIC_SEQ_CST);
        while (!((before ^ __atomic_load_n(barrier, __ATOMIC_SEQ_CST)) >> 31))
            mt_cpu_yield();
    }
    mt_cpu_barrier(0, 0, 0, 0);
    return 0;
}
