/* Inline PTX on f16 and bf16, single and packed: arithmetic, extremes, comparisons, approximations. */
#include "half.h"

/* ---- add, sub, mul, fma {.rn}{.ftz}{.sat|.relu} ---- */
#define Z(T, x) mt_##T##_ftz(x)
#define BINARY(op, T)                                                                                        \
    BINARY_ROUNDED(mtb_ptx_##op, op, T)                                                                      \
    BINARY_ROUNDED(mtb_ptx_##op##_rn, op, T)
#define BINARY_ROUNDED(prefix, op, T)                                                                        \
    MT_HALF2(prefix, T, mt_##T##_##op(a, b))                                                                 \
    MT_HALF2(prefix##_sat, T, mt_##T##_sat(mt_##T##_##op(a, b)))                                             \
    MT_HALF2(prefix##_ftz, T, Z(T, mt_##T##_##op(Z(T, a), Z(T, b))))                                         \
    MT_HALF2(prefix##_ftz_sat, T, mt_##T##_sat(Z(T, mt_##T##_##op(Z(T, a), Z(T, b)))))
#define FMA(T)                                                                                               \
    MT_HALF3(mtb_ptx_fma_rn, T, mt_##T##_fma(a, b, c))                                                       \
    MT_HALF3(mtb_ptx_fma_rn_sat, T, mt_##T##_sat(mt_##T##_fma(a, b, c)))                                     \
    MT_HALF3(mtb_ptx_fma_rn_relu, T, mt_##T##_relu(mt_##T##_fma(a, b, c)))                                   \
    MT_HALF3(mtb_ptx_fma_rn_ftz, T, Z(T, mt_##T##_fma(Z(T, a), Z(T, b), Z(T, c))))                           \
    MT_HALF3(mtb_ptx_fma_rn_ftz_sat, T, mt_##T##_sat(Z(T, mt_##T##_fma(Z(T, a), Z(T, b), Z(T, c)))))         \
    MT_HALF3(mtb_ptx_fma_rn_ftz_relu, T, mt_##T##_relu(Z(T, mt_##T##_fma(Z(T, a), Z(T, b), Z(T, c)))))

/* ---- min, max {.ftz}{.NaN}{.xorsign.abs} ---- */
#define EXTREME(op, T, smaller)                                                                              \
    EXTREME_NAN(mtb_ptx_##op, mtb_ptx_##op##_ftz, T, smaller, false)                                         \
    EXTREME_NAN(mtb_ptx_##op##_NaN, mtb_ptx_##op##_ftz_NaN, T, smaller, true)
#define EXTREME_NAN(prefix, prefix_ftz, T, smaller, nan)                                                     \
    MT_HALF2(prefix, T, mt_##T##_extreme(a, b, smaller, nan))                                                \
    MT_HALF2(prefix##_xorsign_abs, T, mt_##T##_extreme_abs(a, b, smaller, nan))                              \
    MT_HALF2(prefix_ftz, T, mt_##T##_extreme(Z(T, a), Z(T, b), smaller, nan))                                \
    MT_HALF2(prefix_ftz##_xorsign_abs, T, mt_##T##_extreme_abs(Z(T, a), Z(T, b), smaller, nan))

#define FORMAT(T)                                                                                            \
    BINARY(add, T)                                                                                           \
    BINARY(sub, T)                                                                                           \
    BINARY(mul, T)                                                                                           \
    FMA(T)                                                                                                   \
    EXTREME(min, T, true)                                                                                    \
    EXTREME(max, T, false)                                                                                   \
    MT_HALF1(mtb_ptx_abs, T, mt_##T##_abs(a))                                                                \
    MT_HALF1(mtb_ptx_abs_ftz, T, Z(T, mt_##T##_abs(a)))                                                      \
    MT_HALF1(mtb_ptx_neg, T, mt_##T##_neg(a))                                                                \
    MT_HALF1(mtb_ptx_neg_ftz, T, Z(T, mt_##T##_neg(a)))                                                      \
    MT_HALF1(mtb_ptx_tanh_approx, T, mt_##T##_from(__builtin_tanhf(mt_##T##_float(a)), MT_RN))               \
    MT_HALF1(mtb_ptx_ex2_approx, T, mt_##T##_from(__builtin_exp2f(mt_##T##_float(a)), MT_RN))                \
    MT_HALF1(mtb_ptx_ex2_approx_ftz, T, Z(T, mt_##T##_from(__builtin_exp2f(mt_##T##_float(Z(T, a))), MT_RN)))
FORMAT(f16)
FORMAT(bf16)

/* ---- comparisons: setp (a predicate), set (1.0 or all ones), {.ftz} ---- */
#define COMPARE(word, T, condition)                                                                          \
    COMPARE_FLUSHED(word, , T, condition, , )                                                                \
    COMPARE_FLUSHED(word, _ftz, T, condition, mt_##T##_ftz, mt_##T##_ftz)
#define COMPARE_FLUSHED(word, ftz, T, condition, za, zb)                                                     \
    static MT_INLINE bool is_##word##ftz##_##T(uint16_t a, uint16_t b)                                       \
    {                                                                                                        \
        float x = mt_##T##_float(za(a)), y = mt_##T##_float(zb(b));                                          \
        (void)y;                                                                                             \
        return condition;                                                                                    \
    }                                                                                                        \
    MT_BUILTIN bool mtb_ptx_setp_##word##ftz##_##T(uint16_t a, uint16_t b)                                   \
    {                                                                                                        \
        return is_##word##ftz##_##T(a, b);                                                                   \
    }                                                                                                        \
    MT_BUILTIN void mtb_ptx_setp_##word##ftz##_##T##x2(uint32_t a, uint32_t b, uint64_t *out)                \
    {                                                                                                        \
        out[0] = is_##word##ftz##_##T(MT_LO(a), MT_LO(b));                                                   \
        out[1] = is_##word##ftz##_##T(MT_HI(a), MT_HI(b));                                                   \
    }                                                                                                        \
    SET(word, ftz, T, T, ONE_##T)                                                                            \
    SET(word, ftz, u16, T, 0xffff)                                                                           \
    SET(word, ftz, s16, T, 0xffff)                                                                           \
    SET_WIDE(word, ftz, u32, T)                                                                              \
    SET_WIDE(word, ftz, s32, T)                                                                              \
    MT_BUILTIN uint32_t mtb_ptx_set_##word##ftz##_##T##x2_##T##x2(uint32_t a, uint32_t b)                    \
    {                                                                                                        \
        return MT_PAIR(is_##word##ftz##_##T(MT_LO(a), MT_LO(b)) ? ONE_##T : 0,                               \
                       is_##word##ftz##_##T(MT_HI(a), MT_HI(b)) ? ONE_##T : 0);                              \
    }
#define SET(word, ftz, to, T, yes)                                                                           \
    MT_BUILTIN uint16_t mtb_ptx_set_##word##ftz##_##to##_##T(uint16_t a, uint16_t b)                         \
    {                                                                                                        \
        return is_##word##ftz##_##T(a, b) ? yes : 0;                                                         \
    }
#define SET_WIDE(word, ftz, to, T)                                                                           \
    MT_BUILTIN uint32_t mtb_ptx_set_##word##ftz##_##to##_##T(uint16_t a, uint16_t b)                         \
    {                                                                                                        \
        return is_##word##ftz##_##T(a, b) ? ~0u : 0;                                                         \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_set_##word##ftz##_##to##_##T##x2(uint32_t a, uint32_t b)                     \
    {                                                                                                        \
        return MT_PAIR(is_##word##ftz##_##T(MT_LO(a), MT_LO(b)) ? 0xffff : 0,                                \
                       is_##word##ftz##_##T(MT_HI(a), MT_HI(b)) ? 0xffff : 0);                               \
    }
#define ONE_f16 MT_F16_ONE
#define ONE_bf16 MT_BF16_ONE
#define COMPARISONS(T)                                                                                       \
    COMPARE(eq, T, x == y)                                                                                   \
    COMPARE(ne, T, x<y || x> y)                                                                              \
    COMPARE(lt, T, x < y)                                                                                    \
    COMPARE(le, T, x <= y)                                                                                   \
    COMPARE(gt, T, x > y)                                                                                    \
    COMPARE(ge, T, x >= y)                                                                                   \
    COMPARE(equ, T, !(x < y || x > y))                                                                       \
    COMPARE(neu, T, x != y)                                                                                  \
    COMPARE(ltu, T, !(x >= y))                                                                               \
    COMPARE(leu, T, !(x > y))                                                                                \
    COMPARE(gtu, T, !(x <= y))                                                                               \
    COMPARE(geu, T, !(x < y))                                                                                \
    COMPARE(num, T, x == x && y == y)                                                                        \
    COMPARE(nan, T, x != x || y != y)
COMPARISONS(f16)
COMPARISONS(bf16)
