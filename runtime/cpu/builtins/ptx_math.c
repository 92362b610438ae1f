/* Inline PTX on f32 and f64 that the translator does not do in plain IR: directed roundings, flushed and
 * clamped forms, approximations, extremes with NaN. */
#include "exp2.h"
#include "rounding.h"
#define F(x) mt_ftz(x)
#define S(x) math_saturate(x)
#define NAN_F mt_f32(0x7fffffff)

static MT_INLINE float math_saturate(float x)
{
    return x > 0 ? x < 1 ? x : 1 : 0; /* NaN becomes 0 */
}

/* ---- directed roundings {.ftz}{.sat} ---- */
#define MODES(DO, ...)                                                                                       \
    DO(rz, MT_RZ, __VA_ARGS__)                                                                               \
    DO(rm, MT_RM, __VA_ARGS__)                                                                               \
    DO(rp, MT_RP, __VA_ARGS__)
#define BINARY(mode, rc, op)                                                                                 \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_f32(float a, float b)                                           \
    {                                                                                                        \
        return mt_##op##_f(a, b, rc);                                                                        \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_ftz_f32(float a, float b)                                       \
    {                                                                                                        \
        return F(mt_##op##_f(F(a), F(b), rc));                                                               \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_sat_f32(float a, float b)                                       \
    {                                                                                                        \
        return S(mt_##op##_f(a, b, rc));                                                                     \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_ftz_sat_f32(float a, float b)                                   \
    {                                                                                                        \
        return S(F(mt_##op##_f(F(a), F(b), rc)));                                                            \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_##op##_##mode##_f64(uint64_t a, uint64_t b)                                  \
    {                                                                                                        \
        return mt_u64(mt_##op##_d(mt_f64(a), mt_f64(b), rc));                                                \
    }
MODES(BINARY, add)
MODES(BINARY, sub)
MODES(BINARY, mul)
MODES(BINARY, div)
#define UNARY(mode, rc, op)                                                                                  \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_f32(float a)                                                    \
    {                                                                                                        \
        return mt_##op##_f(a, rc);                                                                           \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_ftz_f32(float x)                                                \
    {                                                                                                        \
        float a = F(x);                                                                                      \
        return F(mt_##op##_f(a, rc));                                                                        \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_##op##_##mode##_f64(uint64_t x)                                              \
    {                                                                                                        \
        double a = mt_f64(x);                                                                                \
        return mt_u64(mt_##op##_d(a, rc));                                                                   \
    }
MODES(UNARY, rcp)
MODES(UNARY, sqrt)
#define FMA(mode, rc, op)                                                                                    \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_f32(float a, float b, float c)                                  \
    {                                                                                                        \
        return mt_fma_f(a, b, c, rc);                                                                        \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_ftz_f32(float a, float b, float c)                              \
    {                                                                                                        \
        return F(mt_fma_f(F(a), F(b), F(c), rc));                                                            \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_sat_f32(float a, float b, float c)                              \
    {                                                                                                        \
        return S(mt_fma_f(a, b, c, rc));                                                                     \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_##mode##_ftz_sat_f32(float a, float b, float c)                          \
    {                                                                                                        \
        return S(F(mt_fma_f(F(a), F(b), F(c), rc)));                                                         \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_##op##_##mode##_f64(uint64_t a, uint64_t b, uint64_t c)                      \
    {                                                                                                        \
        return mt_u64(mt_fma_d(mt_f64(a), mt_f64(b), mt_f64(c), rc));                                        \
    }
MODES(FMA, fma)
MODES(FMA, mad)

/* a * b + c rounded down, where a * b is not negative and much smaller than c and c's last place is 1: the
 * rest is exact. */
MT_BUILTIN float mtb_fma_down_to_whole(float a, float b, float c)
{
    float sum = __builtin_fmaf(a, b, c), rest = __builtin_fmaf(a, b, c - sum);
    return rest < 0 ? sum - 1 : sum;
}

/* ---- pairs of f32 in 64 bits, from sm_100 on ---- */
static MT_INLINE float pair_low(uint64_t a)
{
    return mt_f32((uint32_t)a);
}

static MT_INLINE float pair_high(uint64_t a)
{
    return mt_f32((uint32_t)(a >> 32));
}

static MT_INLINE uint64_t pair_of(float low, float high)
{
    return mt_u32(low) | (uint64_t)mt_u32(high) << 32;
}

/* The expression is of x, y and z, which are an element each of a, b and c. */
#define PAIR(name, expression)                                                                               \
    static MT_INLINE float pair_##name(float x, float y, float z)                                            \
    {                                                                                                        \
        return expression;                                                                                   \
    }
#define PAIR2(name, expression)                                                                              \
    PAIR(name, expression)                                                                                   \
    MT_BUILTIN uint64_t mtb_ptx_##name##_f32x2(uint64_t a, uint64_t b)                                       \
    {                                                                                                        \
        return pair_of(pair_##name(pair_low(a), pair_low(b), 0),                                             \
                       pair_##name(pair_high(a), pair_high(b), 0));                                          \
    }
#define PAIR3(name, expression)                                                                              \
    PAIR(name, expression)                                                                                   \
    MT_BUILTIN uint64_t mtb_ptx_##name##_f32x2(uint64_t a, uint64_t b, uint64_t c)                           \
    {                                                                                                        \
        return pair_of(pair_##name(pair_low(a), pair_low(b), pair_low(c)),                                   \
                       pair_##name(pair_high(a), pair_high(b), pair_high(c)));                               \
    }
#define PAIR_NEAREST(op, sign)                                                                               \
    PAIR2(op, x sign y)                                                                                      \
    PAIR2(op##_rn, x sign y)                                                                                 \
    PAIR2(op##_ftz, F(F(x) sign F(y)))                                                                       \
    PAIR2(op##_rn_ftz, F(F(x) sign F(y)))
#define PAIR_BINARY(mode, rc, op)                                                                            \
    PAIR2(op##_##mode, mt_##op##_f(x, y, rc))                                                                \
    PAIR2(op##_##mode##_ftz, F(mt_##op##_f(F(x), F(y), rc)))
#define PAIR_FMA(mode, rc, op)                                                                               \
    PAIR3(op##_##mode, mt_fma_f(x, y, z, rc))                                                                \
    PAIR3(op##_##mode##_ftz, F(mt_fma_f(F(x), F(y), F(z), rc)))
PAIR_NEAREST(add, +)
PAIR_NEAREST(sub, -)
PAIR_NEAREST(mul, *)
PAIR3(fma_rn, __builtin_fmaf(x, y, z))
PAIR3(fma_rn_ftz, F(__builtin_fmaf(F(x), F(y), F(z))))
MODES(PAIR_BINARY, add)
MODES(PAIR_BINARY, sub)
MODES(PAIR_BINARY, mul)
MODES(PAIR_FMA, fma)

/* ---- approximations: at least as exact as the GPU's ---- */
#define APPROX(op, expression)                                                                               \
    MT_BUILTIN float mtb_ptx_##op##_approx_f32(float a)                                                      \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_##op##_approx_ftz_f32(float x)                                                  \
    {                                                                                                        \
        float a = F(x);                                                                                      \
        return F(expression);                                                                                \
    }
APPROX(sqrt, __builtin_sqrtf(a))
APPROX(rcp, 1 / a)
APPROX(rsqrt, 1 / __builtin_sqrtf(a))
APPROX(ex2, mt_exp2f(a))
APPROX(lg2, __builtin_log2f(a))
APPROX(sin, __builtin_sinf(a))
APPROX(cos, __builtin_cosf(a))
APPROX(tanh, __builtin_tanhf(a))
/* a times 1 / b, where 1 / b is zero above 2^126. */
static MT_INLINE float divide_approx(float a, float b)
{
    float size = __builtin_fabsf(b);
    return size > 0x1p126f && size <= __FLT_MAX__ ? a * __builtin_copysignf(0, b) : a / b;
}
static MT_INLINE float divide_full(float a, float b)
{
    return a / b;
}
#define DIVIDE(word)                                                                                         \
    MT_BUILTIN float mtb_ptx_div_##word##_f32(float a, float b)                                              \
    {                                                                                                        \
        return divide_##word(a, b);                                                                          \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_div_##word##_ftz_f32(float a, float b)                                          \
    {                                                                                                        \
        return F(divide_##word(F(a), F(b)));                                                                 \
    }
DIVIDE(approx)
DIVIDE(full)
static MT_INLINE double ftz_d(double x)
{
    return mt_u64(x) << 1 >> 53 ? x : mt_f64(mt_u64(x) & 1ull << 63);
}
MT_BUILTIN uint64_t mtb_ptx_rcp_approx_ftz_f64(uint64_t a)
{
    return mt_u64(ftz_d(1 / ftz_d(mt_f64(a))));
}
MT_BUILTIN uint64_t mtb_ptx_rsqrt_approx_ftz_f64(uint64_t a)
{
    return mt_u64(1 / __builtin_sqrt(ftz_d(mt_f64(a))));
}
MT_BUILTIN uint64_t mtb_ptx_rsqrt_approx_f64(uint64_t a)
{
    return mt_u64(1 / __builtin_sqrt(mt_f64(a)));
}

/* ---- min, max: -0 < +0; one NaN loses, or (.NaN) wins ---- */
static MT_INLINE float math_extreme(float a, float b, bool smaller, bool nan)
{
    if (a != a || b != b)
        return nan || (a != a && b != b) ? NAN_F : a != a ? b : a;
    if (a == b)
        return mt_f32(smaller ? mt_u32(a) | mt_u32(b) : mt_u32(a) & mt_u32(b));
    return (a < b) == smaller ? a : b;
}
static MT_INLINE float extreme_abs(float a, float b, bool smaller, bool nan)
{
    float r = math_extreme(__builtin_fabsf(a), __builtin_fabsf(b), smaller, nan);
    return r != r ? r : mt_f32(mt_u32(r) | ((mt_u32(a) ^ mt_u32(b)) & 0x80000000));
}
#define EXTREME(op, smaller)                                                                                 \
    EXTREME_NAN(mtb_ptx_##op, mtb_ptx_##op##_ftz, smaller, false)                                            \
    EXTREME_NAN(mtb_ptx_##op##_NaN, mtb_ptx_##op##_ftz_NaN, smaller, true)
#define EXTREME_NAN(prefix, prefix_ftz, smaller, nan)                                                        \
    MT_BUILTIN float prefix##_f32(float a, float b)                                                          \
    {                                                                                                        \
        return math_extreme(a, b, smaller, nan);                                                             \
    }                                                                                                        \
    MT_BUILTIN float prefix_ftz##_f32(float a, float b)                                                      \
    {                                                                                                        \
        return math_extreme(F(a), F(b), smaller, nan);                                                       \
    }                                                                                                        \
    MT_BUILTIN float prefix##_xorsign_abs_f32(float a, float b)                                              \
    {                                                                                                        \
        return extreme_abs(a, b, smaller, nan);                                                              \
    }                                                                                                        \
    MT_BUILTIN float prefix_ftz##_xorsign_abs_f32(float a, float b)                                          \
    {                                                                                                        \
        return extreme_abs(F(a), F(b), smaller, nan);                                                        \
    }
EXTREME(min, true)
EXTREME(max, false)
