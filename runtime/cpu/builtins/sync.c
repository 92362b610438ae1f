/* Barriers, fences, warp collectives: llvm.nvvm.*. */
#include "builtin.h"

/* ---- CTA barriers ---- */
MT_BUILTIN void mtb_nvvm_barrier0(void)
{
    mt_cpu_barrier(0, 0, 0, 0);
}
MT_BUILTIN uint32_t mtb_nvvm_barrier0_popc(uint32_t p)
{
    return mt_cpu_barrier(1, 0, 0, p);
}
MT_BUILTIN uint32_t mtb_nvvm_barrier0_and(uint32_t p)
{
    return mt_cpu_barrier(2, 0, 0, p);
}
MT_BUILTIN uint32_t mtb_nvvm_barrier0_or(uint32_t p)
{
    return mt_cpu_barrier(3, 0, 0, p);
}
MT_BUILTIN void mtb_nvvm_bar_sync(uint32_t id)
{
    mt_cpu_barrier(0, id, 0, 0);
}
MT_BUILTIN void mtb_nvvm_barrier_n(uint32_t id)
{
    mt_cpu_barrier(0, id, 0, 0);
}
MT_BUILTIN void mtb_nvvm_barrier(uint32_t id, uint32_t count)
{
    mt_cpu_barrier(0, id, count, 0);
}
MT_BUILTIN void mtb_nvvm_barrier_sync(uint32_t id)
{
    mt_cpu_barrier(0, id, 0, 0);
}
MT_BUILTIN void mtb_nvvm_barrier_sync_cnt(uint32_t id, uint32_t count)
{
    mt_cpu_barrier(0, id, count, 0);
}
MT_BUILTIN void mtb_nvvm_bar_warp_sync(uint32_t mask)
{
    mt_cpu_syncwarp(mask);
}
#define CLUSTER_BARRIER(suffix)                                                                              \
    MT_BUILTIN void mtb_nvvm_barrier_cluster_arrive##suffix(void)                                            \
    {                                                                                                        \
        mt_cpu_cluster_arrive();                                                                             \
    }                                                                                                        \
    MT_BUILTIN void mtb_nvvm_barrier_cluster_arrive_relaxed##suffix(void)                                    \
    {                                                                                                        \
        mt_cpu_cluster_arrive();                                                                             \
    }                                                                                                        \
    MT_BUILTIN void mtb_nvvm_barrier_cluster_wait##suffix(void)                                              \
    {                                                                                                        \
        mt_cpu_cluster_wait();                                                                               \
    }
CLUSTER_BARRIER()
CLUSTER_BARRIER(_aligned)

/* ---- fences: CTAs run on several OS threads ---- */
#define FENCE(name)                                                                                          \
    MT_BUILTIN void mtb_nvvm_##name(void)                                                                    \
    {                                                                                                        \
        __atomic_thread_fence(__ATOMIC_SEQ_CST);                                                             \
    }
FENCE(membar_gl)
FENCE(membar_sys)
FENCE(fence_sc_cluster)
MT_BUILTIN void mtb_nvvm_membar_cta(void) /* a CTA stays on one OS thread */
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* ---- shuffles ---- */
#define SHFL(name, mode)                                                                                     \
    MT_BUILTIN uint32_t mtb_nvvm_shfl_sync_##name##_i32(uint32_t mask, uint32_t v, uint32_t lane,            \
                                                        uint32_t c)                                          \
    {                                                                                                        \
        return (uint32_t)mt_cpu_shfl(mask, v, lane, c, mode);                                                \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_shfl_sync_##name##_f32(uint32_t mask, float v, uint32_t lane, uint32_t c)      \
    {                                                                                                        \
        return mt_f32((uint32_t)mt_cpu_shfl(mask, mt_u32(v), lane, c, mode));                                \
    }                                                                                                        \
    MT_BUILTIN void mtb_nvvm_shfl_sync_##name##_i32p(uint32_t mask, uint32_t v, uint32_t lane, uint32_t c,   \
                                                     uint64_t *out)                                          \
    {                                                                                                        \
        uint64_t r = mt_cpu_shfl(mask, v, lane, c, mode);                                                    \
        out[0] = (uint32_t)r;                                                                                \
        out[1] = r >> 32;                                                                                    \
    }                                                                                                        \
    MT_BUILTIN void mtb_nvvm_shfl_sync_##name##_f32p(uint32_t mask, float v, uint32_t lane, uint32_t c,      \
                                                     uint64_t *out)                                          \
    {                                                                                                        \
        uint64_t r = mt_cpu_shfl(mask, mt_u32(v), lane, c, mode);                                            \
        out[0] = (uint32_t)r;                                                                                \
        out[1] = r >> 32;                                                                                    \
    }                                                                                                        \
    MT_INLINED void mtb_nvvm_shfl_##name##_i32p(uint32_t v, uint32_t lane, uint32_t c, uint64_t *out)        \
    {                                                                                                        \
        uint64_t r = mt_cpu_shfl(mt_cpu_activemask(), v, lane, c, mode);                                     \
        out[0] = (uint32_t)r;                                                                                \
        out[1] = r >> 32;                                                                                    \
    }                                                                                                        \
    MT_INLINED void mtb_nvvm_shfl_##name##_f32p(float v, uint32_t lane, uint32_t c, uint64_t *out)           \
    {                                                                                                        \
        mtb_nvvm_shfl_##name##_i32p(mt_u32(v), lane, c, out);                                                \
    }                                                                                                        \
    MT_INLINED uint32_t mtb_nvvm_shfl_##name##_i32(uint32_t v, uint32_t lane, uint32_t c)                    \
    {                                                                                                        \
        return (uint32_t)mt_cpu_shfl(mt_cpu_activemask(), v, lane, c, mode);                                 \
    }                                                                                                        \
    MT_INLINED float mtb_nvvm_shfl_##name##_f32(float v, uint32_t lane, uint32_t c)                          \
    {                                                                                                        \
        return mt_f32((uint32_t)mt_cpu_shfl(mt_cpu_activemask(), mt_u32(v), lane, c, mode));                 \
    }
SHFL(up, MT_SHFL_UP)
SHFL(down, MT_SHFL_DOWN)
SHFL(bfly, MT_SHFL_BFLY)
SHFL(idx, MT_SHFL_IDX)

/* ---- votes ---- */
MT_BUILTIN bool mtb_nvvm_vote_all_sync(uint32_t mask, bool p)
{
    return mt_cpu_vote(mask, p, MT_VOTE_ALL);
}
MT_BUILTIN bool mtb_nvvm_vote_any_sync(uint32_t mask, bool p)
{
    return mt_cpu_vote(mask, p, MT_VOTE_ANY);
}
MT_BUILTIN bool mtb_nvvm_vote_uni_sync(uint32_t mask, bool p)
{
    return mt_cpu_vote(mask, p, MT_VOTE_UNI);
}
MT_BUILTIN uint32_t mtb_nvvm_vote_ballot_sync(uint32_t mask, bool p)
{
    return mt_cpu_vote(mask, p, MT_VOTE_BALLOT);
}
MT_INLINED bool mtb_nvvm_vote_all(bool p)
{
    return mt_cpu_vote(mt_cpu_activemask(), p, MT_VOTE_ALL);
}
MT_INLINED bool mtb_nvvm_vote_any(bool p)
{
    return mt_cpu_vote(mt_cpu_activemask(), p, MT_VOTE_ANY);
}
MT_INLINED bool mtb_nvvm_vote_uni(bool p)
{
    return mt_cpu_vote(mt_cpu_activemask(), p, MT_VOTE_UNI);
}
MT_INLINED uint32_t mtb_nvvm_vote_ballot(bool p)
{
    return mt_cpu_vote(mt_cpu_activemask(), p, MT_VOTE_BALLOT);
}
/* The call site says which lanes are together: it must be the user's. */
MT_INLINED uint32_t mtb_nvvm_activemask(void)
{
    return mt_cpu_activemask();
}

/* ---- match and redux ---- */
MT_BUILTIN uint32_t mtb_nvvm_match_any_sync_i32(uint32_t mask, uint32_t v)
{
    return mt_cpu_match_any(mask, v);
}
MT_BUILTIN uint32_t mtb_nvvm_match_any_sync_i64(uint32_t mask, uint64_t v)
{
    return mt_cpu_match_any(mask, v);
}
MT_BUILTIN void mtb_nvvm_match_all_sync_i32p(uint32_t mask, uint32_t v, uint64_t *out)
{
    out[0] = mt_cpu_match_all(mask, v);
    out[1] = out[0] != 0;
}
MT_BUILTIN void mtb_nvvm_match_all_sync_i64p(uint32_t mask, uint64_t v, uint64_t *out)
{
    out[0] = mt_cpu_match_all(mask, v);
    out[1] = out[0] != 0;
}
#define REDUX(name, op)                                                                                      \
    MT_BUILTIN uint32_t mtb_nvvm_redux_sync_##name(uint32_t v, uint32_t mask)                                \
    {                                                                                                        \
        return mt_cpu_redux(mask, v, op);                                                                    \
    }
REDUX(add, MT_REDUX_ADD)
REDUX(umin, MT_REDUX_UMIN)
REDUX(umax, MT_REDUX_UMAX)
REDUX(min, MT_REDUX_MIN)
REDUX(max, MT_REDUX_MAX)
REDUX(and, MT_REDUX_AND)
REDUX(or, MT_REDUX_OR)
REDUX(xor, MT_REDUX_XOR)

/* What the pass makes of wmma, mma, ldmatrix and their like. */
MT_BUILTIN void mtb_matrix(const struct mt_matrix_op *op, void *p, uint64_t stride, const uint64_t *in,
                           uint64_t *out)
{
    mt_cpu_matrix(op, p, stride, in, out);
}

/* ---- the rest ---- */
MT_BUILTIN void mtb_nvvm_nanosleep(uint32_t ns)
{
    mt_cpu_nanosleep(ns);
}
MT_BUILTIN void mtb_nvvm_exit(void)
{
    mt_cpu_exit_thread();
}
