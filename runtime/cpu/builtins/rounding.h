/* IEEE operations in the four rounding modes of PTX. Nearest is plain C. The directed modes set MXCSR for the
 * one instruction, all inside one asm statement, so that no optimiser can move the operation out of it. */
#ifndef MT_ROUNDING_H
#define MT_ROUNDING_H
#include "builtin.h"

#define MT_RM 0x3f80u /* MXCSR: all exceptions masked, rounding control: down, up, to zero */
#define MT_RP 0x5f80u
#define MT_RZ 0x7f80u

#define MT_ROUNDED(rc, instruction, result, ...)                                                             \
    do {                                                                                                     \
        uint32_t old_, new_ = (rc);                                                                          \
        __asm__("vstmxcsr %[old]\n\tvldmxcsr %[new]\n\t" instruction "\n\tvldmxcsr %[old]"                   \
                : [r] "=&x"(result), [old] "=m"(old_)                                                        \
                : [new] "m"(new_), __VA_ARGS__);                                                             \
    } while (0)

#define MT_DIRECTED(type, s, one)                                                                            \
    static MT_INLINE type mt_add_##s(type a, type b, uint32_t rc)                                            \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, "vadds" one " %[b], %[a], %[r]", r, [a] "x"(a), [b] "x"(b));                          \
        return r;                                                                                            \
    }                                                                                                        \
    static MT_INLINE type mt_sub_##s(type a, type b, uint32_t rc)                                            \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, "vsubs" one " %[b], %[a], %[r]", r, [a] "x"(a), [b] "x"(b));                          \
        return r;                                                                                            \
    }                                                                                                        \
    static MT_INLINE type mt_mul_##s(type a, type b, uint32_t rc)                                            \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, "vmuls" one " %[b], %[a], %[r]", r, [a] "x"(a), [b] "x"(b));                          \
        return r;                                                                                            \
    }                                                                                                        \
    static MT_INLINE type mt_div_##s(type a, type b, uint32_t rc)                                            \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, "vdivs" one " %[b], %[a], %[r]", r, [a] "x"(a), [b] "x"(b));                          \
        return r;                                                                                            \
    }                                                                                                        \
    static MT_INLINE type mt_sqrt_##s(type a, uint32_t rc)                                                   \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, "vsqrts" one " %[a], %[a], %[r]", r, [a] "x"(a));                                     \
        return r;                                                                                            \
    }                                                                                                        \
    static MT_INLINE type mt_from_s64_##s(int64_t a, uint32_t rc)                                            \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, "vxorps %[r], %[r], %[r]\n\tvcvtsi2s" one "q %[a], %[r], %[r]", r, [a] "r"(a));       \
        return r;                                                                                            \
    }                                                                                                        \
    static MT_INLINE type mt_from_u64_##s(uint64_t a, uint32_t rc)                                           \
    {                                                                                                        \
        if ((int64_t)a >= 0)                                                                                 \
            return mt_from_s64_##s((int64_t)a, rc);                                                          \
        /* Half of it, with a sticky last bit that only rounding sees. */                                    \
        return 2 * mt_from_s64_##s((int64_t)(a >> 1 | (a & 1)), rc);                                         \
    }
MT_DIRECTED(double, d, "d")
MT_DIRECTED(float, f, "s")

static MT_INLINE double mt_fma_d(double a, double b, double c, uint32_t rc)
{
    double r;
    MT_ROUNDED(rc, "vmovapd %[a], %[r]\n\tvfmadd213sd %[c], %[b], %[r]",
               r, [a] "x"(a), [b] "x"(b), [c] "x"(c));
    return r;
}

/* CUDA's expf and its relatives round an fma down: without MXCSR, so that loops over threads vectorise. The
 * product is exact in double precision, and sum + error is the exact result, so the float nearest to the sum
 * is next to the right one at most. Infinity and NaN make all comparisons false. */
static MT_INLINE float mt_fma_f(float a, float b, float c, uint32_t rc)
{
    double product = (double)a * b, sum = product + c;
    double of_c = sum - product, error = (product - (sum - of_c)) + (c - of_c);
    float r = (float)sum;
    bool above = (r > sum) | ((r == sum) & (error < 0)), below = (r < sum) | ((r == sum) & (error > 0));
    uint32_t u = mt_u32(r), sign = u & 0x80000000, zero = (u << 1) == 0;
    uint32_t lower = zero ? 0x80000001 : sign ? u + 1 : u - 1, upper = zero ? 1 : sign ? u - 1 : u + 1;
    if (rc == MT_RM) /* and +0 - 0 or x - x is -0 */
        u = above ? lower : sum == 0 && !(mt_u64(product) == 0 && mt_u32(c) == 0) ? 0x80000000 : u;
    else if (rc == MT_RP)
        u = below ? upper : u;
    else
        u = sum < 0 ? (below ? upper : u) : (above ? lower : u);
    return mt_f32(u);
}

static MT_INLINE float mt_rcp_f(float a, uint32_t rc)
{
    return mt_div_f(1, a, rc);
}
static MT_INLINE double mt_rcp_d(double a, uint32_t rc)
{
    return mt_div_d(1, a, rc);
}

static MT_INLINE float mt_narrow(double a, uint32_t rc)
{
    float r;
    MT_ROUNDED(rc, "vcvtsd2ss %[a], %[a], %[r]", r, [a] "x"(a));
    return r;
}
/* The tf32 next to it, as f32 whose 13 last bits are 0: nearest with halves away from zero or to even, or
 * towards zero. finite: the largest instead of infinity. */
enum mt_tf32_mode { MT_TF32_AWAY, MT_TF32_EVEN, MT_TF32_ZERO };
static MT_INLINE uint32_t mt_tf32(float a, enum mt_tf32_mode mode, bool finite)
{
    uint32_t u = mt_u32(a), sign = u & 0x80000000, size = u & 0x7fffffff;
    if (a != a)
        return 0x7fffffff;
    if (size < 0x7f800000)
        size += mode == MT_TF32_AWAY ? 0x1000 : mode == MT_TF32_EVEN ? 0xfff + (size >> 13 & 1) : 0;
    if (size >= 0x7f800000)
        return sign | (finite ? 0x7f7fe000 : 0x7f800000);
    return sign | (size & ~0x1fffu);
}
#endif
