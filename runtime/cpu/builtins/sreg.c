/* Special registers: llvm.nvvm.read.ptx.sreg.*. */
#include "builtin.h"
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

/* What the driver passes to cooperative groups: the grid barrier's address,
 * high half first. Absent otherwise. */
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

/* Names that only inline PTX has. */
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
