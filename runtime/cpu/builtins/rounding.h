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
    static MT_INLINE type mt_fma_##s(type a, type b, type c, uint32_t rc)                                    \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, "vmovap" one " %[a], %[r]\n\tvfmadd213s" one " %[c], %[b], %[r]",                     \
                   r, [a] "x"(a), [b] "x"(b), [c] "x"(c));                                                   \
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
#endif
