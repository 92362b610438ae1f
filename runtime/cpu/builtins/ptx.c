/* Arithmetic PTX instructions. */
#include "builtin.h"
#include "half.h"

/* 2^x for floats without branches or calls, so that loops over threads and warps vectorise. The error is
 * less than one unit in the last place (PTX allows 2^-22, four units). */
static MT_INLINE float mt_power_of_two(int n)
{
    return mt_f32((uint32_t)(n + 127) << 23);
}

/* x = k + r with |r| <= 1/2. 2^r is a polynomial through six points with an error of 2^-27; 2^k takes two
 * steps, as neither 2^128 nor 2^-151 is a float. Beyond the clamps the float is infinite or zero anyway; a
 * NaN passes the comparisons. */
static MT_INLINE float mt_exp2f(float x)
{
    const float shift = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    float d = x > 128 ? 128 : x;
    d = d < -151 ? -151 : d;
    float t = d + shift, r = d - (t - shift), p = 0x1.44138ap-13f;
    int k = (int)(mt_u32(t) - mt_u32(shift)), half = k >> 1;
    p = __builtin_fmaf(p, r, 0x1.5f0890p-10f);
    p = __builtin_fmaf(p, r, 0x1.3b2a54p-7f);
    p = __builtin_fmaf(p, r, 0x1.c6af6cp-5f);
    p = __builtin_fmaf(p, r, 0x1.ebfbe0p-3f);
    p = __builtin_fmaf(p, r, 0x1.62e430p-1f);
    p = __builtin_fmaf(p, r, 1.0f);
    return p * mt_power_of_two(half) * mt_power_of_two(k - half);
}

/* IEEE operations in the four rounding modes of PTX. Nearest is plain C. The directed modes set MXCSR for the
 * one instruction, all inside one asm statement, so that no optimiser can move the operation out of it. */
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

/* An operation of two operands. */
#define MT_DIRECTED_OF_TWO(type, name, instruction)                                                          \
    static MT_INLINE type name(type a, type b, uint32_t rc)                                                  \
    {                                                                                                        \
        type r;                                                                                              \
        MT_ROUNDED(rc, instruction " %[b], %[a], %[r]", r, [a] "x"(a), [b] "x"(b));                          \
        return r;                                                                                            \
    }

#define MT_DIRECTED(type, s, one)                                                                            \
    MT_DIRECTED_OF_TWO(type, mt_add_##s, "vadds" one)                                                        \
    MT_DIRECTED_OF_TWO(type, mt_sub_##s, "vsubs" one)                                                        \
    MT_DIRECTED_OF_TWO(type, mt_mul_##s, "vmuls" one)                                                        \
    MT_DIRECTED_OF_TWO(type, mt_div_##s, "vdivs" one)                                                        \
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
        /* Half of the value, with a sticky last bit that only affects rounding. */                          \
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

/* CUDA's expf and its relatives round an fma down: done without MXCSR, so that loops over threads
 * vectorise. The product is exact in double precision, and sum + error is the exact result, so the float
 * nearest to the sum is at most one float away. Infinity and NaN make all comparisons false. */
static MT_INLINE float mt_fma_f(float a, float b, float c, uint32_t rc)
{
    double product = (double)a * b, sum = product + c;
    double of_c = sum - product, error = (product - (sum - of_c)) + (c - of_c);
    float r = (float)sum;
    bool above = (r > sum) | ((r == sum) & (error < 0)), below = (r < sum) | ((r == sum) & (error > 0));
    uint32_t u = mt_u32(r), sign = u & 0x80000000, zero = (u << 1) == 0;
    uint32_t lower = zero ? 0x80000001 : sign ? u + 1 : u - 1, upper = zero ? 1 : sign ? u - 1 : u + 1;
    if (rc == MT_RM) /* +0 - 0 and x - x are -0, too */
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
/* Rounds to tf32, as f32 whose 13 last bits are 0: to nearest with halves away from zero or to even, or
 * towards zero. finite: the largest value instead of infinity. */
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

/* Bit operations. */
/* PTX fns: position of the offset-th set bit counted from `base` upwards (offset > 0) or downwards (< 0);
 * offset 0 tests bit `base` itself. Returns 0xffffffff if there is none. */
static MT_INLINE uint32_t mt_fns(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == 0)
        return base < 32 && mask >> base & 1 ? base : ~0u;
    int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int32_t i = (int32_t)base; i >= 0 && i < 32; i += step)
        if ((mask >> i & 1) && --left == 0)
            return (uint32_t)i;
    return ~0u;
}

/* Inline PTX on f32 and f64 that the translator does not turn into plain IR: directed roundings, flushed
 * and clamped forms, approximations, extremes with NaN. */

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

/* a * b + c rounded down, where a * b is not negative and much smaller than c, whose last place is 1;
 * everything else is exact. */
MT_BUILTIN float mtb_fma_down_to_whole(float a, float b, float c)
{
    float sum = __builtin_fmaf(a, b, c), rest = __builtin_fmaf(a, b, c - sum);
    return rest < 0 ? sum - 1 : sum;
}

/* ---- pairs of f32 in 64 bits, since sm_100 ---- */
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

/* `expression` uses x, y and z, one element each of a, b and c. */
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

/* Inline PTX on f16 and bf16, single and packed: arithmetic, extremes, comparisons, approximations. */

/* ---- add, sub, mul, fma {.rn}{.ftz}{.sat|.relu} ---- */
#define Z(T, x) mt_##T##_ftz(x)
#undef BINARY
#define BINARY(op, T)                                                                                        \
    BINARY_ROUNDED(mtb_ptx_##op, op, T)                                                                      \
    BINARY_ROUNDED(mtb_ptx_##op##_rn, op, T)
#define BINARY_ROUNDED(prefix, op, T)                                                                        \
    MT_HALF2(prefix, T, mt_##T##_##op(a, b))                                                                 \
    MT_HALF2(prefix##_sat, T, mt_##T##_sat(mt_##T##_##op(a, b)))                                             \
    MT_HALF2(prefix##_ftz, T, Z(T, mt_##T##_##op(Z(T, a), Z(T, b))))                                         \
    MT_HALF2(prefix##_ftz_sat, T, mt_##T##_sat(Z(T, mt_##T##_##op(Z(T, a), Z(T, b)))))
#undef FMA
#define FMA(T)                                                                                               \
    MT_HALF3(mtb_ptx_fma_rn, T, mt_##T##_fma(a, b, c))                                                       \
    MT_HALF3(mtb_ptx_fma_rn_sat, T, mt_##T##_sat(mt_##T##_fma(a, b, c)))                                     \
    MT_HALF3(mtb_ptx_fma_rn_relu, T, mt_##T##_relu(mt_##T##_fma(a, b, c)))                                   \
    MT_HALF3(mtb_ptx_fma_rn_ftz, T, Z(T, mt_##T##_fma(Z(T, a), Z(T, b), Z(T, c))))                           \
    MT_HALF3(mtb_ptx_fma_rn_ftz_sat, T, mt_##T##_sat(Z(T, mt_##T##_fma(Z(T, a), Z(T, b), Z(T, c)))))         \
    MT_HALF3(mtb_ptx_fma_rn_ftz_relu, T, mt_##T##_relu(Z(T, mt_##T##_fma(Z(T, a), Z(T, b), Z(T, c)))))

/* ---- min, max {.ftz}{.NaN}{.xorsign.abs} ---- */
#undef EXTREME
#define EXTREME(op, T, smaller)                                                                              \
    EXTREME_NAN(mtb_ptx_##op, mtb_ptx_##op##_ftz, T, smaller, false)                                         \
    EXTREME_NAN(mtb_ptx_##op##_NaN, mtb_ptx_##op##_ftz_NaN, T, smaller, true)
#undef EXTREME_NAN
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

/* Inline PTX cvt with a floating-point side: directed roundings, 16-bit and 8-bit formats, and conversions
 * of NaN to an integer other than 0. Sources arrive as the register's bits or as float and double. */

/* ---- to integers: saturating ---- */
#define INTEGERS(DO, ...)                                                                                    \
    DO(s8, int8_t, INT8_MIN, INT8_MAX, 0, __VA_ARGS__)                                                       \
    DO(u8, uint8_t, 0, UINT8_MAX, 0, __VA_ARGS__)                                                            \
    DO(s16, int16_t, INT16_MIN, INT16_MAX, 0, __VA_ARGS__)                                                   \
    DO(u16, uint16_t, 0, UINT16_MAX, 0, __VA_ARGS__)                                                         \
    DO(s32, int32_t, INT32_MIN, INT32_MAX, 0, __VA_ARGS__)                                                   \
    DO(u32, uint32_t, 0, UINT32_MAX, 0, __VA_ARGS__)                                                         \
    DO(s64, int64_t, INT64_MIN, INT64_MAX, 1, __VA_ARGS__)                                                   \
    DO(u64, uint64_t, 0, UINT64_MAX, 1, __VA_ARGS__)

/* wide: NaN becomes the top bit instead of 0; always so for f64. */
#define CLAMP(to, type, min, max, wide, from, ftype)                                                         \
    static MT_INLINE type clamp_##to##_##from(ftype x, bool top)                                             \
    {                                                                                                        \
        if (x != x)                                                                                          \
            return top ? (type)(1ull << (8 * sizeof(type) - 1)) : 0;                                         \
        return x <= (ftype)(min) ? min : x >= (ftype)(max) ? max : (type)x;                                  \
    }
INTEGERS(CLAMP, f32, float)
INTEGERS(CLAMP, f64, double)

#define TO_INT(to, type, min, max, wide, mode, whole)                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_f16(uint16_t a)                                              \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(mt_f16_float(a)), wide);                                \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_bf16(uint16_t a)                                             \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(mt_bf16_float(a)), wide);                               \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_f32(float a)                                                 \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(a), wide);                                              \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_ftz_##to##_f32(float a)                                             \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(mt_ftz(a)), wide);                                      \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_f64(uint64_t a)                                              \
    {                                                                                                        \
        return clamp_##to##_f64(__builtin_##whole(mt_f64(a)), true);                                         \
    }
INTEGERS(TO_INT, rni, roundeven)
INTEGERS(TO_INT, rzi, trunc)
INTEGERS(TO_INT, rmi, floor)
INTEGERS(TO_INT, rpi, ceil)

/* ---- rounding within a type ---- */
#define WHOLE(mode, whole)                                                                                   \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_f16_f16(uint16_t a)                                             \
    {                                                                                                        \
        return mt_f16_from(__builtin_##whole##f(mt_f16_float(a)), MT_RN);                                    \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_bf16_bf16(uint16_t a)                                           \
    {                                                                                                        \
        return mt_bf16_from(__builtin_##whole##f(mt_bf16_float(a)), MT_RN);                                  \
    }
WHOLE(rni, roundeven)
WHOLE(rzi, trunc)
WHOLE(rmi, floor)
WHOLE(rpi, ceil)

/* ---- from integers and wider types, in four roundings ---- */
#undef MODES
#define MODES(DO, ...)                                                                                       \
    DO(rn, MT_RN, __VA_ARGS__)                                                                               \
    DO(rz, MT_MODE_RZ, __VA_ARGS__)                                                                          \
    DO(rm, MT_MODE_RM, __VA_ARGS__)                                                                          \
    DO(rp, MT_MODE_RP, __VA_ARGS__)
#define FROM_INT(mode, value, from, type, wide, T)                                                           \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_##from(type a)                                            \
    {                                                                                                        \
        return mt_##T##_from_double(mt_odd_from_##wide(a), value);                                           \
    }
#define FROM_INTS(T)                                                                                         \
    MODES(FROM_INT, s8, int8_t, s64, T)                                                                      \
    MODES(FROM_INT, u8, uint8_t, u64, T)                                                                     \
    MODES(FROM_INT, s16, int16_t, s64, T)                                                                    \
    MODES(FROM_INT, u16, uint16_t, u64, T)                                                                   \
    MODES(FROM_INT, s32, int32_t, s64, T)                                                                    \
    MODES(FROM_INT, u32, uint32_t, u64, T)                                                                   \
    MODES(FROM_INT, s64, int64_t, s64, T)                                                                    \
    MODES(FROM_INT, u64, uint64_t, u64, T)
FROM_INTS(f16)
FROM_INTS(bf16)

#define NARROW(mode, value, T, X)                                                                            \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_f32(float a)                                              \
    {                                                                                                        \
        return mt_##T##_from(a, value);                                                                      \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_relu_##T##_f32(float a)                                         \
    {                                                                                                        \
        return mt_##T##_relu(mt_##T##_from(a, value));                                                       \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_f64(uint64_t a)                                           \
    {                                                                                                        \
        return mt_##T##_from_double(mt_f64(a), value);                                                       \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_##X(uint16_t a)                                           \
    {                                                                                                        \
        return mt_##T##_from(mt_##X##_float(a), value);                                                      \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_##mode##_##T##x2_f32(float a, float b)                                   \
    {                                                                                                        \
        return MT_PAIR(mt_##T##_from(b, value), mt_##T##_from(a, value));                                    \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_##mode##_relu_##T##x2_f32(float a, float b)                              \
    {                                                                                                        \
        return MT_PAIR(mt_##T##_relu(mt_##T##_from(b, value)), mt_##T##_relu(mt_##T##_from(a, value)));      \
    }
MODES(NARROW, f16, bf16)
MODES(NARROW, bf16, f16)
MT_BUILTIN float mtb_ptx_cvt_f32_f16(uint16_t a)
{
    return mt_f16_float(a);
}
MT_BUILTIN float mtb_ptx_cvt_f32_bf16(uint16_t a)
{
    return mt_bf16_float(a);
}
MT_BUILTIN uint64_t mtb_ptx_cvt_f64_f16(uint16_t a)
{
    return mt_u64(mt_f16_float(a));
}
MT_BUILTIN uint64_t mtb_ptx_cvt_f64_bf16(uint16_t a)
{
    return mt_u64(mt_bf16_float(a));
}

/* f32 and f64 in directed roundings; the translator does nearest. */
#define WIDE(mode, rc)                                                                                       \
    MT_BUILTIN float mtb_ptx_cvt_##mode##_f32_f64(uint64_t a)                                                \
    {                                                                                                        \
        return mt_narrow(mt_f64(a), rc);                                                                     \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_cvt_##mode##_ftz_f32_f64(uint64_t a)                                            \
    {                                                                                                        \
        return mt_ftz(mt_narrow(mt_f64(a), rc));                                                             \
    }                                                                                                        \
    WIDE_INT(mode, rc, s32, int32_t, s64)                                                                    \
    WIDE_INT(mode, rc, u32, uint32_t, u64)                                                                   \
    WIDE_INT(mode, rc, s64, int64_t, s64)                                                                    \
    WIDE_INT(mode, rc, u64, uint64_t, u64)
#define WIDE_INT(mode, rc, from, type, wide)                                                                 \
    MT_BUILTIN float mtb_ptx_cvt_##mode##_f32_##from(type a)                                                 \
    {                                                                                                        \
        return mt_from_##wide##_f(a, rc);                                                                    \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_cvt_##mode##_f64_##from(type a)                                              \
    {                                                                                                        \
        return mt_u64(mt_from_##wide##_d(a, rc));                                                            \
    }
WIDE(rz, MT_RZ)
WIDE(rm, MT_RM)
WIDE(rp, MT_RP)

/* ---- tf32: f32 with 10 fraction bits ---- */
#define TF32(name, mode, finite, relu)                                                                       \
    MT_BUILTIN uint32_t mtb_ptx_cvt_##name##_tf32_f32(float a)                                               \
    {                                                                                                        \
        return mt_tf32(relu && a <= 0 ? 0 : a, mode, finite);                                                \
    }
#define TF32_MODE(name, mode)                                                                                \
    TF32(name, mode, false, false)                                                                           \
    TF32(name##_satfinite, mode, true, false)
#define TF32_RELU(name, mode)                                                                                \
    TF32_MODE(name, mode)                                                                                    \
    TF32(name##_relu, mode, false, true)                                                                     \
    TF32(name##_satfinite_relu, mode, true, true)                                                            \
    TF32(name##_relu_satfinite, mode, true, true)
TF32_MODE(rna, MT_TF32_AWAY)
TF32_RELU(rn, MT_TF32_EVEN)
TF32_RELU(rz, MT_TF32_ZERO)

/* ---- 8-bit floats: e4m3 (bias 7, no infinity, NaN 0x7f) and e5m2 (bias 15, the upper half of f16) ---- */

static MT_INLINE float from_e4m3(uint8_t x)
{
    uint32_t e = x >> 3 & 15, m = x & 7;
    float f = e ? mt_f32((e + 120) << 23 | m << 20) : (float)m * 0x1p-9f;
    if ((x & 0x7f) == 0x7f)
        f = mt_f32(0x7fffffff);
    return x >> 7 ? -f : f;
}

static MT_INLINE float from_e5m2(uint8_t x)
{
    return mt_f16_float((uint16_t)(x << 8));
}

/* Rounds to nearest even with `bits` fraction bits above 2^min; |x| is finite. Returns a multiple of the
 * format's unit. */
static MT_INLINE float to_grid(float x, int bits, int min)
{
    int e;
    uint32_t u = mt_u32(x) & 0x7fffffff;
    e = (int)(u >> 23) - 127;
    if (e < min)
        e = min;
    float unit = mt_f32((uint32_t)(e - bits + 127) << 23); /* e - bits >= -17: normal */
    return __builtin_roundevenf(x / unit) * unit;
}

static MT_INLINE uint8_t to_e4m3(float x)
{
    uint32_t sign = mt_u32(x) >> 31 << 7, u;
    float f = __builtin_fabsf(x);
    if (x != x)
        return 0x7f;
    if (f > 448)
        f = 448;
    f = to_grid(f, 3, -6);
    if (f >= 448)
        return (uint8_t)(sign | 0x7e);
    if (f < 0x1p-6f)
        return (uint8_t)(sign | (uint32_t)(f * 0x1p9f));
    u = mt_u32(f);
    return (uint8_t)(sign | ((u >> 23) - 120) << 3 | (u >> 20 & 7));
}

static MT_INLINE uint8_t to_e5m2(float x)
{
    uint32_t sign = mt_u32(x) >> 31 << 7;
    float f = __builtin_fabsf(x);
    if (x != x)
        return 0x7f;
    if (f > 57344)
        f = 57344;
    f = to_grid(f, 2, -14);
    return (uint8_t)(sign | (f >= 57344 ? 0x7b : mt_f16_from(f, MT_RN) >> 8));
}

#define FP8(T)                                                                                               \
    MT_BUILTIN uint16_t mtb_ptx_cvt_rn_satfinite_##T##x2_f32(float a, float b)                               \
    {                                                                                                        \
        return (uint16_t)(to_##T(b) | to_##T(a) << 8);                                                       \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_rn_satfinite_relu_##T##x2_f32(float a, float b)                          \
    {                                                                                                        \
        return (uint16_t)(to_##T(b < 0 ? 0 : b) | to_##T(a < 0 ? 0 : a) << 8);                               \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_rn_satfinite_##T##x2_f16x2(uint32_t a)                                   \
    {                                                                                                        \
        return (uint16_t)(to_##T(mt_f16_float(MT_LO(a))) | to_##T(mt_f16_float(MT_HI(a))) << 8);             \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_rn_f16x2_##T##x2(uint16_t a)                                             \
    {                                                                                                        \
        return MT_PAIR(mt_f16_from(from_##T((uint8_t)a), MT_RN),                                             \
                       mt_f16_from(from_##T((uint8_t)(a >> 8)), MT_RN));                                     \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_rn_relu_f16x2_##T##x2(uint16_t a)                                        \
    {                                                                                                        \
        return MT_PAIR(mt_f16_relu(mt_f16_from(from_##T((uint8_t)a), MT_RN)),                                \
                       mt_f16_relu(mt_f16_from(from_##T((uint8_t)(a >> 8)), MT_RN)));                        \
    }
FP8(e4m3)
FP8(e5m2)

/* Inline PTX on packed integers: the SIMD video instructions v{add,sub,avrg,absdiff,min,max,set}{2,4}, and
 * the x2 arithmetic of recent GPUs. The video forms take a third source, which is kept in lanes outside of
 * the mask, or added to the lane results (.add). Only the form without a mask is here, as used by CUDA's
 * headers. */

#define LANES2(DO, ...) DO(2, 16, __VA_ARGS__)
#define LANES4(DO, ...) DO(4, 8, __VA_ARGS__)

static MT_INLINE int32_t video_lane(uint32_t x, int i, int bits, bool is_signed)
{
    uint32_t v = x >> i * bits & ((1u << bits) - 1);
    return is_signed ? (int32_t)(v << (32 - bits)) >> (32 - bits) : (int32_t)v;
}

static MT_INLINE int32_t ptx_video_clamp(int32_t v, int bits, bool is_signed)
{
    int32_t max = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1,
            min = is_signed ? -(1 << (bits - 1)) : 0;
    return v < min ? min : v > max ? max : v;
}

/* op(x, y) per lane; `wrap` truncates, otherwise the result saturates to the type. */
#undef EACH
#define EACH(n, bits, is_signed, saturate, expression)                                                       \
    uint32_t r = 0;                                                                                          \
    for (int i = 0; i < n; i++) {                                                                            \
        int32_t x = video_lane(a, i, bits, is_signed), y = video_lane(b, i, bits, is_signed),                \
                v = expression;                                                                              \
        if (saturate)                                                                                        \
            v = ptx_video_clamp(v, bits, is_signed);                                                         \
        r |= ((uint32_t)v & ((1u << bits) - 1)) << i * bits;                                                 \
    }                                                                                                        \
    return r;
#define ADDED(n, bits, is_signed, expression)                                                                \
    for (int i = 0; i < n; i++) {                                                                            \
        int32_t x = video_lane(a, i, bits, is_signed), y = video_lane(b, i, bits, is_signed);                \
        c += (uint32_t)(expression);                                                                         \
    }                                                                                                        \
    return c;

#define VIDEO(n, bits, op, word, is_signed, expression)                                                      \
    MT_BUILTIN uint32_t mtb_ptx_v##op##n##_##word##_##word##_##word(uint32_t a, uint32_t b, uint32_t c){     \
        EACH(n, bits, is_signed, false, expression)} MT_BUILTIN uint32_t                                     \
        mtb_ptx_v##op##n##_##word##_##word##_##word##_sat(uint32_t a, uint32_t b, uint32_t c){               \
            EACH(n, bits, is_signed, true, expression)} MT_BUILTIN uint32_t                                  \
            mtb_ptx_v##op##n##_##word##_##word##_##word##_add(uint32_t a, uint32_t b, uint32_t c)            \
    {                                                                                                        \
        ADDED(n, bits, is_signed, expression)                                                                \
    }
#define VIDEO_OP(op, expression)                                                                             \
    LANES2(VIDEO, op, u32, false, expression)                                                                \
    LANES2(VIDEO, op, s32, true, expression)                                                                 \
    LANES4(VIDEO, op, u32, false, expression)                                                                \
    LANES4(VIDEO, op, s32, true, expression)
VIDEO_OP(add, x + y)
VIDEO_OP(sub, x - y)
VIDEO_OP(avrg, (x + y + (x + y >= 0)) >> 1) /* the mean, halves away from zero */
VIDEO_OP(absdiff, x < y ? y - x : x - y)
VIDEO_OP(min, x < y ? x : y)
VIDEO_OP(max, x > y ? x : y)

#undef COMPARE
#define COMPARE(n, bits, word, is_signed, cmp, expression)                                                   \
    MT_BUILTIN uint32_t mtb_ptx_vset##n##_##word##_##word##_##cmp(uint32_t a, uint32_t b, uint32_t c){       \
        EACH(n, bits, is_signed, false, expression)} MT_BUILTIN uint32_t                                     \
        mtb_ptx_vset##n##_##word##_##word##_##cmp##_add(uint32_t a, uint32_t b, uint32_t c)                  \
    {                                                                                                        \
        ADDED(n, bits, is_signed, expression)                                                                \
    }
#define COMPARE_OP(cmp, expression)                                                                          \
    LANES2(COMPARE, u32, false, cmp, expression)                                                             \
    LANES2(COMPARE, s32, true, cmp, expression)                                                              \
    LANES4(COMPARE, u32, false, cmp, expression)                                                             \
    LANES4(COMPARE, s32, true, cmp, expression)
COMPARE_OP(eq, x == y)
COMPARE_OP(ne, x != y)
COMPARE_OP(lt, x < y)
COMPARE_OP(le, x <= y)
COMPARE_OP(gt, x > y)
COMPARE_OP(ge, x >= y)

/* ---- add, min, max on pairs of 16-bit integers; relu ---- */
#define PACKED(name, is_signed, expression)                                                                  \
    MT_BUILTIN uint32_t mtb_ptx_##name(uint32_t a, uint32_t b)                                               \
    {                                                                                                        \
        EACH(2, 16, is_signed, false, expression)                                                            \
    }
PACKED(add_u16x2, false, x + y)
PACKED(add_s16x2, true, x + y)
PACKED(min_u16x2, false, x < y ? x : y)
PACKED(max_u16x2, false, x > y ? x : y)
PACKED(min_s16x2, true, x < y ? x : y)
PACKED(max_s16x2, true, x > y ? x : y)
PACKED(min_s16x2_relu, true, (x < y ? x : y) < 0 ? 0 : x < y ? x : y)
PACKED(max_s16x2_relu, true, (x > y ? x : y) < 0 ? 0 : x > y ? x : y)
PACKED(min_relu_s16x2, true, (x < y ? x : y) < 0 ? 0 : x < y ? x : y)
PACKED(max_relu_s16x2, true, (x > y ? x : y) < 0 ? 0 : x > y ? x : y)
#define RELU(name)                                                                                           \
    MT_BUILTIN int32_t mtb_ptx_min_##name(int32_t a, int32_t b)                                              \
    {                                                                                                        \
        int32_t r = a < b ? a : b;                                                                           \
        return r < 0 ? 0 : r;                                                                                \
    }                                                                                                        \
    MT_BUILTIN int32_t mtb_ptx_max_##name(int32_t a, int32_t b)                                              \
    {                                                                                                        \
        int32_t r = a > b ? a : b;                                                                           \
        return r < 0 ? 0 : r;                                                                                \
    }
RELU(s32_relu)
RELU(relu_s32)

/* Bit operations, and queries about addresses. */

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
/* Returns the rank of the CTA whose shared memory p points into, or the number of CTAs if there is none. */
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
/* Returns the same location in the shared memory of another CTA of the cluster. For a CTA that does not
 * exist, returns an address that faults when used: compilers compute addresses that are never used, so
 * this must not fail. */
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
