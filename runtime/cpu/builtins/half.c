/* Half and bfloat16: llvm.nvvm.{fma,fmin,fmax,abs,neg,ex2,f2h,…}. Values come and go as bit patterns. */
#include "half.h"

/* ---- fma{.ftz}{.sat|.relu} ---- */
#define FMA(T)                                                                                               \
    MT_HALF3(mtb_nvvm_fma_rn, T, mt_##T##_fma(a, b, c))                                                      \
    MT_HALF3(mtb_nvvm_fma_rn_sat, T, mt_##T##_sat(mt_##T##_fma(a, b, c)))                                    \
    MT_HALF3(mtb_nvvm_fma_rn_relu, T, mt_##T##_relu(mt_##T##_fma(a, b, c)))                                  \
    MT_HALF3(mtb_nvvm_fma_rn_ftz, T, FLUSHED_FMA(T))                                                         \
    MT_HALF3(mtb_nvvm_fma_rn_ftz_sat, T, mt_##T##_sat(FLUSHED_FMA(T)))                                       \
    MT_HALF3(mtb_nvvm_fma_rn_ftz_relu, T, mt_##T##_relu(FLUSHED_FMA(T)))
#define FLUSHED_FMA(T) mt_##T##_ftz(mt_##T##_fma(mt_##T##_ftz(a), mt_##T##_ftz(b), mt_##T##_ftz(c)))
FMA(f16)
FMA(bf16)

/* ---- fmin, fmax {.ftz}{.nan}{.xorsign.abs} ---- */
#define EXTREME(op, T, smaller)                                                                              \
    EXTREME_NAN(op, , T, smaller, false)                                                                     \
    EXTREME_NAN(op, _nan, T, smaller, true)
#define EXTREME_NAN(op, nan_word, T, smaller, nan)                                                           \
    MT_HALF2(mtb_nvvm_##op##nan_word, T, mt_##T##_extreme(a, b, smaller, nan))                               \
    MT_HALF2(mtb_nvvm_##op##nan_word##_xorsign_abs, T, mt_##T##_extreme_abs(a, b, smaller, nan))             \
    MT_HALF2(mtb_nvvm_##op##_ftz##nan_word, T,                                                               \
             mt_##T##_extreme(mt_##T##_ftz(a), mt_##T##_ftz(b), smaller, nan))                               \
    MT_HALF2(mtb_nvvm_##op##_ftz##nan_word##_xorsign_abs, T,                                                 \
             mt_##T##_extreme_abs(mt_##T##_ftz(a), mt_##T##_ftz(b), smaller, nan))
EXTREME(fmin, f16, true)
EXTREME(fmax, f16, false)
EXTREME(fmin, bf16, true)
EXTREME(fmax, bf16, false)

MT_HALF1(mtb_nvvm_abs, bf16, mt_bf16_abs(a))
MT_HALF1(mtb_nvvm_neg, bf16, mt_bf16_neg(a))
MT_HALF1(mtb_nvvm_ex2_approx, f16, mt_f16_from(__builtin_exp2f(mt_f16_float(a)), MT_RN))

/* ---- conversions ---- */
MT_BUILTIN uint16_t mtb_nvvm_f2h_rn(float a)
{
    return mt_f16_from(a, MT_RN);
}
MT_BUILTIN uint16_t mtb_nvvm_f2h_rn_ftz(float a)
{
    return mt_f16_from(mt_ftz(a), MT_RN);
}
MT_BUILTIN uint16_t mtb_nvvm_bf2h_rn(uint16_t a)
{
    return mt_f16_from(mt_bf16_float(a), MT_RN);
}
MT_BUILTIN uint16_t mtb_nvvm_bf2h_rn_ftz(uint16_t a)
{
    return mt_f16_from(mt_bf16_float(mt_bf16_ftz(a)), MT_RN);
}
/* Pairs: the first argument becomes the upper half. */
#define NARROW(T, mode, value)                                                                               \
    MT_BUILTIN uint32_t mtb_nvvm_ff2##T##x2_##mode(float a, float b)                                         \
    {                                                                                                        \
        return MT_PAIR(mt_##T##_from(b, value), mt_##T##_from(a, value));                                    \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_nvvm_ff2##T##x2_##mode##_relu(float a, float b)                                  \
    {                                                                                                        \
        return MT_PAIR(mt_##T##_relu(mt_##T##_from(b, value)), mt_##T##_relu(mt_##T##_from(a, value)));      \
    }
NARROW(f16, rn, MT_RN)
NARROW(f16, rz, MT_MODE_RZ)
NARROW(bf16, rn, MT_RN)
NARROW(bf16, rz, MT_MODE_RZ)
#define NARROW_BF16(mode, value)                                                                             \
    MT_BUILTIN uint16_t mtb_nvvm_f2bf16_##mode(float a)                                                      \
    {                                                                                                        \
        return mt_bf16_from(a, value);                                                                       \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_nvvm_f2bf16_##mode##_relu(float a)                                               \
    {                                                                                                        \
        return mt_bf16_relu(mt_bf16_from(a, value));                                                         \
    }
NARROW_BF16(rn, MT_RN)
NARROW_BF16(rz, MT_MODE_RZ)
