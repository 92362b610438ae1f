/* Bits, and questions about addresses. */
#include "bits.h"

MT_BUILTIN uint32_t mtb_ptx_fns_b32(uint32_t mask, uint32_t base, int32_t offset)
{
    return mt_fns(mask, base, offset);
}

/* ---- addresses ---- */
MT_BUILTIN bool mtb_nvvm_isspacep_shared(const void *p)
{
    return (uint64_t)p - (uint64_t)mt_cpu_tls.shared < mt_cpu_tls.shared_bytes;
}
static MT_INLINE uint32_t cluster_ctas(void)
{
    return mt_cpu_tls.cluster[0] * mt_cpu_tls.cluster[1] * mt_cpu_tls.cluster[2];
}
/* The rank of the CTA whose shared memory p points into; the number of CTAs when it is in none's. */
static MT_INLINE uint32_t cluster_rank(uint64_t p)
{
    uint64_t offset = p - (uint64_t)mt_cpu_tls.cluster_shared, rank = offset / mt_cpu_tls.cluster_stride;
    int inside = rank < cluster_ctas() && offset - rank * mt_cpu_tls.cluster_stride < mt_cpu_tls.shared_bytes;
    return inside ? (uint32_t)rank : cluster_ctas();
}
MT_BUILTIN bool mtb_nvvm_isspacep_shared_cluster(const void *p)
{
    return cluster_rank((uint64_t)p) < cluster_ctas();
}
MT_BUILTIN bool mtb_nvvm_isspacep_local(const void *p)
{
    return (uint64_t)p - mt_cpu_tls.local_base < mt_cpu_tls.local_bytes &&
           !mtb_nvvm_isspacep_shared_cluster(p);
}
MT_BUILTIN bool mtb_nvvm_isspacep_const(const void *p)
{
    return (uint64_t)p - mt_cpu_tls.const_base < mt_cpu_tls.const_bytes && mt_cpu_is_constant(p);
}
MT_BUILTIN bool mtb_nvvm_isspacep_global(const void *p)
{
    return (uint64_t)p - mt_cpu_tls.local_base >= mt_cpu_tls.local_bytes && !mtb_nvvm_isspacep_const(p);
}
/* The same place in the shared memory of another CTA of the cluster; of one that it does not have, an address
 * that nobody may use. Compilers ask for addresses that are not used, so asking must not fail. */
static MT_INLINE uint64_t bits_mapa(uint64_t p, uint32_t rank)
{
    uint32_t from = cluster_rank(p), ctas = cluster_ctas();
    uint64_t start = (uint64_t)mt_cpu_tls.cluster_shared, stride = mt_cpu_tls.cluster_stride;
    uint64_t offset = from < ctas ? p - start - from * stride : 0;
    return offset + start + (from < ctas && rank < ctas ? rank * stride : -(uint64_t)MT_SHARED_NOWHERE);
}
MT_BUILTIN uint32_t mtb_ptx_mapa_shared__cluster_u32(uint32_t p, uint32_t rank)
{
    return (uint32_t)bits_mapa(mt_shared_whole(p, (uint64_t)mt_cpu_tls.shared), rank);
}
MT_BUILTIN uint64_t mtb_ptx_mapa_shared__cluster_u64(uint64_t p, uint32_t rank)
{
    return bits_mapa(p >> 32 ? p : mt_shared_whole((uint32_t)p, (uint64_t)mt_cpu_tls.shared), rank);
}
MT_BUILTIN uint64_t mtb_ptx_mapa_u64(uint64_t p, uint32_t rank)
{
    return bits_mapa(p, rank);
}
MT_BUILTIN uint32_t mtb_ptx_getctarank_shared__cluster_u32(uint32_t p)
{
    return cluster_rank(mt_shared_whole(p, (uint64_t)mt_cpu_tls.shared));
}
MT_BUILTIN uint32_t mtb_ptx_getctarank_shared__cluster_u64(uint64_t p)
{
    return cluster_rank(p >> 32 ? p : mt_shared_whole((uint32_t)p, (uint64_t)mt_cpu_tls.shared));
}
MT_BUILTIN uint32_t mtb_ptx_getctarank_u64(uint64_t p)
{
    return cluster_rank(p);
}
