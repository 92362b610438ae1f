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

/* Thread-block clusters: there is one CTA in each. */
SREG(cluster_ctaid_x, 0)
SREG(cluster_ctaid_y, 0)
SREG(cluster_ctaid_z, 0)
SREG(cluster_ctaid_w, 0)
SREG(cluster_nctaid_x, 1)
SREG(cluster_nctaid_y, 1)
SREG(cluster_nctaid_z, 1)
SREG(cluster_nctaid_w, 1)
SREG(cluster_ctarank, 0)
SREG(cluster_nctarank, 1)
SREG(clusterid_x, mt_cpu_tls.ctaid[0])
SREG(clusterid_y, mt_cpu_tls.ctaid[1])
SREG(clusterid_z, mt_cpu_tls.ctaid[2])
SREG(clusterid_w, 0)
SREG(nclusterid_x, mt_cpu_tls.nctaid[0])
SREG(nclusterid_y, mt_cpu_tls.nctaid[1])
SREG(nclusterid_z, mt_cpu_tls.nctaid[2])
SREG(nclusterid_w, 0)
