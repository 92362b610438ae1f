/* Conversions between numbers: llvm.nvvm.{d2f,f2i,i2f,…}. From floating point to integers PTX saturates; NaN
 * becomes 0, or the integer with only its top bit set when either side has 64 bits. */
#include "rounding.h"

/* ---- floating point to integers ---- */
#define TO_INT(name, from, to, min, max, nan)                                                                \
    static MT_INLINE to name(from whole)                                                                     \
    {                                                                                                        \
        if (whole != whole)                                                                                  \
            return (to)(nan);                                                                                \
        if (whole <= (from)(min))                                                                            \
            return min;                                                                                      \
        if (whole >=                                                                                         \
            (from)(max)) /* max rounds up in a type with fewer bits: then equality is out of range */        \
            return max;                                                                                      \
        return (to)whole;                                                                                    \
    }
TO_INT(f_to_i, float, int32_t, INT32_MIN, INT32_MAX, 0)
TO_INT(f_to_ui, float, uint32_t, 0, UINT32_MAX, 0)
TO_INT(f_to_ll, float, int64_t, INT64_MIN, INT64_MAX, 1ull << 63)
TO_INT(f_to_ull, float, uint64_t, 0, UINT64_MAX, 1ull << 63)
TO_INT(d_to_i, double, int32_t, INT32_MIN, INT32_MAX, 1u << 31)
TO_INT(d_to_ui, double, uint32_t, 0, UINT32_MAX, 1u << 31)
TO_INT(d_to_ll, double, int64_t, INT64_MIN, INT64_MAX, 1ull << 63)
TO_INT(d_to_ull, double, uint64_t, 0, UINT64_MAX, 1ull << 63)

#define F2(to, type, mode, whole)                                                                            \
    MT_BUILTIN type mtb_nvvm_f2##to##_##mode(float a)                                                        \
    {                                                                                                        \
        return f_to_##to(__builtin_##whole##f(a));                                                           \
    }                                                                                                        \
    MT_BUILTIN type mtb_nvvm_f2##to##_##mode##_ftz(float a)                                                  \
    {                                                                                                        \
        return f_to_##to(__builtin_##whole##f(mt_ftz(a)));                                                   \
    }                                                                                                        \
    MT_BUILTIN type mtb_nvvm_d2##to##_##mode(double a)                                                       \
    {                                                                                                        \
        return d_to_##to(__builtin_##whole(a));                                                              \
    }
#define F2_MODES(to, type)                                                                                   \
    F2(to, type, rn, roundeven) F2(to, type, rz, trunc) F2(to, type, rm, floor) F2(to, type, rp, ceil)
F2_MODES(i, int32_t)
F2_MODES(ui, uint32_t)
F2_MODES(ll, int64_t)
F2_MODES(ull, uint64_t)

/* ---- integers to floating point ---- */
#define I2(from, type, sign)                                                                                 \
    MT_BUILTIN float mtb_nvvm_##from##2f_rn(type a)                                                          \
    {                                                                                                        \
        return (float)a;                                                                                     \
    }                                                                                                        \
    MT_BUILTIN double mtb_nvvm_##from##2d_rn(type a)                                                         \
    {                                                                                                        \
        return (double)a;                                                                                    \
    }                                                                                                        \
    I2_MODE(from, type, sign, rz, MT_RZ)                                                                     \
    I2_MODE(from, type, sign, rm, MT_RM)                                                                     \
    I2_MODE(from, type, sign, rp, MT_RP)
#define I2_MODE(from, type, sign, mode, rc)                                                                  \
    MT_BUILTIN float mtb_nvvm_##from##2f_##mode(type a)                                                      \
    {                                                                                                        \
        return mt_from_##sign##64_f(a, rc);                                                                  \
    }                                                                                                        \
    MT_BUILTIN double mtb_nvvm_##from##2d_##mode(type a)                                                     \
    {                                                                                                        \
        return mt_from_##sign##64_d(a, rc);                                                                  \
    }
I2(i, int32_t, s)
I2(ui, uint32_t, s)
I2(ll, int64_t, s)
I2(ull, uint64_t, u)

/* ---- between floating-point types ---- */
MT_BUILTIN float mtb_nvvm_d2f_rn(double a)
{
    return (float)a;
}
MT_BUILTIN float mtb_nvvm_d2f_rn_ftz(double a)
{
    return mt_ftz((float)a);
}
#define D2F(mode, rc)                                                                                        \
    MT_BUILTIN float mtb_nvvm_d2f_##mode(double a)                                                           \
    {                                                                                                        \
        return mt_narrow(a, rc);                                                                             \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_d2f_##mode##_ftz(double a)                                                     \
    {                                                                                                        \
        return mt_ftz(mt_narrow(a, rc));                                                                     \
    }
D2F(rz, MT_RZ)
D2F(rm, MT_RM)
D2F(rp, MT_RP)

MT_BUILTIN uint32_t mtb_nvvm_f2tf32_rna(float a)
{
    return mt_tf32(a, MT_TF32_AWAY, false);
}

/* ---- bits ---- */
MT_BUILTIN uint32_t mtb_nvvm_bitcast_f2i(float a)
{
    return mt_u32(a);
}
MT_BUILTIN float mtb_nvvm_bitcast_i2f(uint32_t a)
{
    return mt_f32(a);
}
MT_BUILTIN uint64_t mtb_nvvm_bitcast_d2ll(double a)
{
    return mt_u64(a);
}
MT_BUILTIN double mtb_nvvm_bitcast_ll2d(uint64_t a)
{
    return mt_f64(a);
}
MT_BUILTIN uint32_t mtb_nvvm_d2i_lo(double a)
{
    return (uint32_t)mt_u64(a);
}
MT_BUILTIN uint32_t mtb_nvvm_d2i_hi(double a)
{
    return (uint32_t)(mt_u64(a) >> 32);
}
MT_BUILTIN double mtb_nvvm_lohi_i2d(uint32_t lo, uint32_t hi)
{
    return mt_f64((uint64_t)hi << 32 | lo);
}
