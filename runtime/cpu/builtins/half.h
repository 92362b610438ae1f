/* Half (f16) and bfloat16 (bf16) as bit patterns: conversions and exactly rounded arithmetic for the
 * intrinsics and the inline-asm builtins. A pair has its first value in the low half of a uint32_t. NaN
 * results are the canonical 0x7fff, as on the GPU. */
#ifndef MT_HALF_H
#define MT_HALF_H
#include <immintrin.h>
#include "builtin.h"

enum mt_mode { MT_RN, MT_MODE_RM, MT_MODE_RP, MT_MODE_RZ }; /* values of SSE's rounding control */

/* ---- wider types without double rounding ---- */

/* Adds with rounding to odd: truncates, then sets the last bit if anything was lost. A second rounding to
 * at least two bits fewer then equals one rounding of the exact value. */
static MT_INLINE double mt_odd_sum(double a, double b)
{
    double s = a + b, t = s - a, e = (a - (s - t)) + (b - t);
    uint64_t u = mt_u64(s), lost = (e < 0) | (e > 0); /* e is NaN or 0 if the sum is infinite or NaN */
    return mt_f64(u + (lost & ~u & 1) * ((e > 0) == (s > 0) ? 1ull : -1ull));
}

static MT_INLINE float mt_odd_float(double x)
{
    float f = (float)x;
    double back = f;
    uint32_t u = mt_u32(f), lost = (back < x) | (back > x);
    uint32_t away = x > 0 ? back > x : back < x; /* also if rounding made it infinite */
    return mt_f32((u - away) | lost);
}

static MT_INLINE double mt_odd_from_u64(uint64_t x)
{
    int extra = x >> 53 ? 64 - 53 - __builtin_clzll(x) : 0;
    return (double)(x >> extra | ((x & ((1ull << extra) - 1)) != 0)) * (double)(1ull << extra);
}

static MT_INLINE double mt_odd_from_s64(int64_t x)
{
    return x < 0 ? -mt_odd_from_u64(-(uint64_t)x) : mt_odd_from_u64((uint64_t)x);
}

/* ---- f16 ---- */

/* Converts by LLVM's half type, which rounds to nearest and has a vector form. */
static MT_INLINE float mt_f16_float(uint16_t h)
{
    _Float16 x;
    __builtin_memcpy(&x, &h, sizeof x);
    return (float)x;
}
static MT_INLINE uint16_t mt_f16_bits(float x)
{
    _Float16 h = (_Float16)x;
    uint16_t bits;
    __builtin_memcpy(&bits, &h, sizeof bits);
    return bits;
}

static MT_INLINE uint16_t mt_canonical(uint16_t bits, bool nan)
{
    return nan ? 0x7fff : bits;
}

/* Rounds in the given mode; `mode` must be constant. */
#define mt_f16_round(x, mode)                                                                                \
    ({                                                                                                       \
        float round_ = (x);                                                                                  \
        mt_canonical(_cvtss_sh(round_, mode), round_ != round_);                                             \
    })

static MT_INLINE uint16_t mt_f16_from(float x, enum mt_mode mode)
{
    switch (mode) {
    case MT_RN:
        return mt_canonical(mt_f16_bits(x), x != x);
    case MT_MODE_RM:
        return mt_f16_round(x, 1);
    case MT_MODE_RP:
        return mt_f16_round(x, 2);
    default:
        return mt_f16_round(x, 3);
    }
}

/* ---- bf16 ---- */

static MT_INLINE float mt_bf16_float(uint16_t b)
{
    return mt_f32((uint32_t)b << 16);
}

static MT_INLINE uint16_t mt_bf16_from(float x, enum mt_mode mode)
{
    uint32_t u = mt_u32(x), more = 0;
    if (mode == MT_RN)
        more = 0x7fff + (u >> 16 & 1);
    else if (mode != MT_MODE_RZ)
        more = (u >> 31) == (mode == MT_MODE_RM) ? 0xffff : 0;
    more = (u & 0x7fffffff) == 0x7f800000 ? 0 : more;
    return mt_canonical((uint16_t)((u + more) >> 16), x != x);
}

/* ---- both formats under one name: T is f16 or bf16 ---- */

static MT_INLINE uint16_t mt_f16_ftz(uint16_t x)
{
    return x & 0x7c00 ? x : x & 0x8000;
}
static MT_INLINE uint16_t mt_bf16_ftz(uint16_t x)
{
    return x & 0x7f80 ? x : x & 0x8000;
}
#define MT_F16_ONE 0x3c00
#define MT_BF16_ONE 0x3f80

#define MT_HALF_FORMAT(T, ONE)                                                                               \
    static MT_INLINE bool mt_##T##_nan(uint16_t x)                                                           \
    {                                                                                                        \
        float f = mt_##T##_float(x);                                                                         \
        return f != f;                                                                                       \
    }                                                                                                        \
    static MT_INLINE uint16_t mt_##T##_from_double(double x, enum mt_mode mode)                              \
    {                                                                                                        \
        return mt_##T##_from(mt_odd_float(x), mode);                                                         \
    }                                                                                                        \
    static MT_INLINE uint16_t mt_##T##_add(uint16_t a, uint16_t b)                                           \
    {                                                                                                        \
        return mt_##T##_from(mt_##T##_float(a) + mt_##T##_float(b), MT_RN);                                  \
    }                                                                                                        \
    static MT_INLINE uint16_t mt_##T##_sub(uint16_t a, uint16_t b)                                           \
    {                                                                                                        \
        return mt_##T##_from(mt_##T##_float(a) - mt_##T##_float(b), MT_RN);                                  \
    }                                                                                                        \
    /* .sat clamps to [0, 1], NaN becomes 0; .relu clamps to at least 0, NaN stays. */                       \
    static MT_INLINE uint16_t mt_##T##_sat(uint16_t x)                                                       \
    {                                                                                                        \
        return mt_##T##_nan(x) || x >> 15 ? 0 : x > ONE ? ONE : x;                                           \
    }                                                                                                        \
    static MT_INLINE uint16_t mt_##T##_relu(uint16_t x)                                                      \
    {                                                                                                        \
        return mt_##T##_nan(x) ? 0x7fff : x >> 15 ? 0 : x;                                                   \
    }                                                                                                        \
    static MT_INLINE uint16_t mt_##T##_abs(uint16_t x)                                                       \
    {                                                                                                        \
        return x & 0x7fff;                                                                                   \
    }                                                                                                        \
    static MT_INLINE uint16_t mt_##T##_neg(uint16_t x)                                                       \
    {                                                                                                        \
        return x ^ 0x8000;                                                                                   \
    }                                                                                                        \
    /* Orders -0 below +0. One NaN loses, or wins if `nan`. */                                               \
    static MT_INLINE uint16_t mt_##T##_extreme(uint16_t a, uint16_t b, bool smaller, bool nan)               \
    {                                                                                                        \
        bool an = mt_##T##_nan(a), bn = mt_##T##_nan(b);                                                     \
        if (an || bn)                                                                                        \
            return nan || (an && bn) ? 0x7fff : an ? b : a;                                                  \
        float x = mt_##T##_float(a), y = mt_##T##_float(b);                                                  \
        if (x == y)                                                                                          \
            return smaller ? a | b : a & b;                                                                  \
        return (x < y) == smaller ? a : b;                                                                   \
    }                                                                                                        \
    static MT_INLINE uint16_t mt_##T##_extreme_abs(uint16_t a, uint16_t b, bool smaller, bool nan)           \
    {                                                                                                        \
        uint16_t r = mt_##T##_extreme(a & 0x7fff, b & 0x7fff, smaller, nan);                                 \
        return mt_##T##_nan(r) ? 0x7fff : r | ((a ^ b) & 0x8000);                                            \
    }
MT_HALF_FORMAT(f16, MT_F16_ONE)
MT_HALF_FORMAT(bf16, MT_BF16_ONE)

/* A product of two halves is exact in float. With a third half added it may be inexact in double if one of
 * the two is tiny. The other then has no more bits than a half, and is not midway between two halves. */
static MT_INLINE uint16_t mt_f16_mul(uint16_t a, uint16_t b)
{
    return mt_f16_from(mt_f16_float(a) * mt_f16_float(b), MT_RN);
}
static MT_INLINE uint16_t mt_f16_fma(uint16_t a, uint16_t b, uint16_t c)
{
    return mt_f16_from_double((double)(mt_f16_float(a) * mt_f16_float(b)) + mt_f16_float(c), MT_RN);
}
static MT_INLINE uint16_t mt_bf16_mul(uint16_t a, uint16_t b)
{
    return mt_bf16_from_double((double)mt_bf16_float(a) * mt_bf16_float(b), MT_RN);
}
static MT_INLINE uint16_t mt_bf16_fma(uint16_t a, uint16_t b, uint16_t c)
{
    double product = (double)mt_bf16_float(a) * mt_bf16_float(b);
    return mt_bf16_from_double(mt_odd_sum(product, mt_bf16_float(c)), MT_RN);
}

/* ---- pairs ---- */
#define MT_PAIR(lo, hi) ((uint32_t)(uint16_t)(lo) | (uint32_t)(uint16_t)(hi) << 16)
#define MT_LO(x) ((uint16_t)(x))
#define MT_HI(x) ((uint16_t)((x) >> 16))

/* Functions of one, two and three values under a common prefix, for single values and pairs. */
#define MT_HALF1(prefix, T, expression)                                                                      \
    static MT_INLINE uint16_t one_##prefix##_##T(uint16_t a)                                                 \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN uint16_t prefix##_##T(uint16_t a)                                                             \
    {                                                                                                        \
        return one_##prefix##_##T(a);                                                                        \
    }                                                                                                        \
    MT_BUILTIN uint32_t prefix##_##T##x2(uint32_t a)                                                         \
    {                                                                                                        \
        return MT_PAIR(one_##prefix##_##T(MT_LO(a)), one_##prefix##_##T(MT_HI(a)));                          \
    }
#define MT_HALF2(prefix, T, expression)                                                                      \
    static MT_INLINE uint16_t one_##prefix##_##T(uint16_t a, uint16_t b)                                     \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN uint16_t prefix##_##T(uint16_t a, uint16_t b)                                                 \
    {                                                                                                        \
        return one_##prefix##_##T(a, b);                                                                     \
    }                                                                                                        \
    MT_BUILTIN uint32_t prefix##_##T##x2(uint32_t a, uint32_t b)                                             \
    {                                                                                                        \
        return MT_PAIR(one_##prefix##_##T(MT_LO(a), MT_LO(b)), one_##prefix##_##T(MT_HI(a), MT_HI(b)));      \
    }
#define MT_HALF3(prefix, T, expression)                                                                      \
    static MT_INLINE uint16_t one_##prefix##_##T(uint16_t a, uint16_t b, uint16_t c)                         \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN uint16_t prefix##_##T(uint16_t a, uint16_t b, uint16_t c)                                     \
    {                                                                                                        \
        return one_##prefix##_##T(a, b, c);                                                                  \
    }                                                                                                        \
    MT_BUILTIN uint32_t prefix##_##T##x2(uint32_t a, uint32_t b, uint32_t c)                                 \
    {                                                                                                        \
        return MT_PAIR(one_##prefix##_##T(MT_LO(a), MT_LO(b), MT_LO(c)),                                     \
                       one_##prefix##_##T(MT_HI(a), MT_HI(b), MT_HI(c)));                                    \
    }
#endif
