/* Integer and bit operations, and questions about addresses: llvm.nvvm.*. */
#include "bits.h"

/* ---- products ---- */
MT_BUILTIN int32_t mtb_nvvm_mul24_i(int32_t a, int32_t b)
{
    return (int32_t)((int64_t)((int32_t)((uint32_t)a << 8) >> 8) * ((int32_t)((uint32_t)b << 8) >> 8));
}
MT_BUILTIN uint32_t mtb_nvvm_mul24_ui(uint32_t a, uint32_t b)
{
    return (a & 0xffffff) * (b & 0xffffff);
}
MT_BUILTIN int16_t mtb_nvvm_mulhi_s(int16_t a, int16_t b)
{
    return (int16_t)((int32_t)a * b >> 16);
}
MT_BUILTIN uint16_t mtb_nvvm_mulhi_us(uint16_t a, uint16_t b)
{
    return (uint16_t)((uint32_t)a * b >> 16);
}
MT_BUILTIN int32_t mtb_nvvm_mulhi_i(int32_t a, int32_t b)
{
    return (int32_t)((int64_t)a * b >> 32);
}
MT_BUILTIN uint32_t mtb_nvvm_mulhi_ui(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
MT_BUILTIN int64_t mtb_nvvm_mulhi_ll(int64_t a, int64_t b)
{
    return (int64_t)((__int128)a * b >> 64);
}
MT_BUILTIN uint64_t mtb_nvvm_mulhi_ull(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* ---- sum of absolute differences: c + |a - b| ---- */
#define SAD(name, type, wide)                                                                                \
    MT_BUILTIN type mtb_nvvm_sad_##name(type a, type b, type c)                                              \
    {                                                                                                        \
        wide d = a < b ? (wide)b - (wide)a : (wide)a - (wide)b;                                              \
        return (type)((wide)c + d);                                                                          \
    }
SAD(s, int16_t, uint32_t)
SAD(us, uint16_t, uint32_t)
SAD(i, int32_t, uint32_t)
SAD(ui, uint32_t, uint32_t)
SAD(ll, int64_t, uint64_t)
SAD(ull, uint64_t, uint64_t)

/* ---- rotation, permutation, search ---- */
MT_BUILTIN uint32_t mtb_nvvm_rotate_b32(uint32_t a, uint32_t n)
{
    return a << (n & 31) | a >> (-n & 31);
}
MT_BUILTIN uint64_t mtb_nvvm_rotate_b64(uint64_t a, uint32_t n)
{
    return a << (n & 63) | a >> (-n & 63);
}
MT_BUILTIN uint64_t mtb_nvvm_rotate_right_b64(uint64_t a, uint32_t n)
{
    return a >> (n & 63) | a << (-n & 63);
}
MT_BUILTIN uint64_t mtb_nvvm_swap_lo_hi_b64(uint64_t a)
{
    return a >> 32 | a << 32;
}
MT_BUILTIN uint32_t mtb_nvvm_prmt(uint32_t a, uint32_t b, uint32_t selector)
{
    return mt_prmt(a, b, selector);
}
MT_BUILTIN uint32_t mtb_nvvm_fns(uint32_t mask, uint32_t base, int32_t offset)
{
    return mt_fns(mask, base, offset);
}
MT_BUILTIN uint32_t mtb_ptx_fns_b32(uint32_t mask, uint32_t base, int32_t offset)
{
    return mt_fns(mask, base, offset);
}

/* ---- values as they are ---- */
#define MOVE(name, type)                                                                                     \
    MT_BUILTIN type mtb_nvvm_move_##name(type a)                                                             \
    {                                                                                                        \
        return a;                                                                                            \
    }
MOVE(i16, uint16_t)
MOVE(i32, uint32_t)
MOVE(i64, uint64_t)
MOVE(float, float)
MOVE(double, double)
MOVE(ptr, void *)

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
MT_BUILTIN void *mtb_nvvm_mapa(void *p, uint32_t rank)
{
    return (void *)bits_mapa((uint64_t)p, rank);
}
MT_BUILTIN void *mtb_nvvm_mapa_shared_cluster(void *p, uint32_t rank)
{
    return (void *)bits_mapa((uint64_t)p, rank);
}
MT_BUILTIN uint32_t mtb_nvvm_getctarank(const void *p)
{
    return cluster_rank((uint64_t)p);
}
MT_BUILTIN uint32_t mtb_nvvm_getctarank_shared_cluster(const void *p)
{
    return cluster_rank((uint64_t)p);
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
MT_BUILTIN bool mtb_nvvm_is_explicit_cluster(void)
{
    return mt_cpu_tls.in_cluster;
}

/* ---- hints that mean nothing here ---- */
MT_BUILTIN void mtb_nvvm_setmaxnreg_inc_sync_aligned_u32(uint32_t n)
{
}
MT_BUILTIN void mtb_nvvm_setmaxnreg_dec_sync_aligned_u32(uint32_t n)
{
}
