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
MT_BUILTIN bool mtb_nvvm_isspacep_shared_cluster(const void *p)
{
    return mtb_nvvm_isspacep_shared(p);
}
MT_BUILTIN bool mtb_nvvm_isspacep_local(const void *p)
{
    return (uint64_t)p - mt_cpu_tls.local_base < mt_cpu_tls.local_bytes && !mtb_nvvm_isspacep_shared(p);
}
MT_BUILTIN bool mtb_nvvm_isspacep_const(const void *p)
{
    return (uint64_t)p - mt_cpu_tls.const_base < mt_cpu_tls.const_bytes && mt_cpu_is_constant(p);
}
MT_BUILTIN bool mtb_nvvm_isspacep_global(const void *p)
{
    return (uint64_t)p - mt_cpu_tls.local_base >= mt_cpu_tls.local_bytes && !mtb_nvvm_isspacep_const(p);
}
/* A cluster is one CTA: shared memory of rank 0 is one's own, and there is no other. */
static MT_INLINE void check_rank(uint32_t rank)
{
    if (__builtin_expect(rank != 0, 0))
        mt_cpu_unsupported("mapa: a cluster of several CTAs", "", 0);
}
MT_BUILTIN void *mtb_nvvm_mapa(void *p, uint32_t rank)
{
    check_rank(rank);
    return p;
}
MT_BUILTIN void *mtb_nvvm_mapa_shared_cluster(void *p, uint32_t rank)
{
    check_rank(rank);
    return p;
}
MT_BUILTIN uint32_t mtb_nvvm_getctarank(const void *p)
{
    return 0;
}
MT_BUILTIN uint32_t mtb_nvvm_getctarank_shared_cluster(const void *p)
{
    return 0;
}
MT_BUILTIN uint32_t mtb_ptx_mapa_shared__cluster_u32(uint32_t p, uint32_t rank)
{
    check_rank(rank);
    return p;
}
MT_BUILTIN uint64_t mtb_ptx_mapa_shared__cluster_u64(uint64_t p, uint32_t rank)
{
    check_rank(rank);
    return p;
}
MT_BUILTIN uint64_t mtb_ptx_mapa_u64(uint64_t p, uint32_t rank)
{
    check_rank(rank);
    return p;
}
MT_BUILTIN uint32_t mtb_ptx_getctarank_shared__cluster_u32(uint32_t p)
{
    return 0;
}
MT_BUILTIN uint32_t mtb_ptx_getctarank_shared__cluster_u64(uint64_t p)
{
    return 0;
}
MT_BUILTIN uint32_t mtb_ptx_getctarank_u64(uint64_t p)
{
    return 0;
}
MT_BUILTIN bool mtb_nvvm_is_explicit_cluster(void)
{
    return false;
}

/* ---- hints that mean nothing here ---- */
MT_BUILTIN void mtb_nvvm_setmaxnreg_inc_sync_aligned_u32(uint32_t n)
{
}
MT_BUILTIN void mtb_nvvm_setmaxnreg_dec_sync_aligned_u32(uint32_t n)
{
}
