/* Floating-point arithmetic: llvm.nvvm.{add,mul,fma,div,rcp,sqrt,rsqrt,…}.{rn,rz,rm,rp}{,.ftz}.{f,d}. */
#include "exp2.h"
#include "rounding.h"
#define F(x) mt_ftz(x)

/* ---- sums, products, quotients, roots in four rounding modes ---- */
#define BINARY(op, expression)                                                                               \
    MT_BUILTIN float mtb_nvvm_##op##_rn_f(float a, float b)                                                  \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_##op##_rn_ftz_f(float x, float y)                                              \
    {                                                                                                        \
        float a = F(x), b = F(y);                                                                            \
        return F(expression);                                                                                \
    }                                                                                                        \
    MT_BUILTIN double mtb_nvvm_##op##_rn_d(double a, double b)                                               \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    BINARY_MODE(op, rz, MT_RZ)                                                                               \
    BINARY_MODE(op, rm, MT_RM)                                                                               \
    BINARY_MODE(op, rp, MT_RP)
#define BINARY_MODE(op, mode, rc)                                                                            \
    MT_BUILTIN float mtb_nvvm_##op##_##mode##_f(float a, float b)                                            \
    {                                                                                                        \
        return mt_##op##_f(a, b, rc);                                                                        \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_##op##_##mode##_ftz_f(float a, float b)                                        \
    {                                                                                                        \
        return F(mt_##op##_f(F(a), F(b), rc));                                                               \
    }                                                                                                        \
    MT_BUILTIN double mtb_nvvm_##op##_##mode##_d(double a, double b)                                         \
    {                                                                                                        \
        return mt_##op##_d(a, b, rc);                                                                        \
    }
BINARY(add, a + b)
BINARY(mul, a *b)
BINARY(div, a / b)

#define UNARY(op, f_rn, d_rn)                                                                                \
    MT_BUILTIN float mtb_nvvm_##op##_rn_f(float a)                                                           \
    {                                                                                                        \
        return f_rn;                                                                                         \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_##op##_rn_ftz_f(float x)                                                       \
    {                                                                                                        \
        float a = F(x);                                                                                      \
        return F(f_rn);                                                                                      \
    }                                                                                                        \
    MT_BUILTIN double mtb_nvvm_##op##_rn_d(double a)                                                         \
    {                                                                                                        \
        return d_rn;                                                                                         \
    }                                                                                                        \
    UNARY_MODE(op, rz, MT_RZ)                                                                                \
    UNARY_MODE(op, rm, MT_RM)                                                                                \
    UNARY_MODE(op, rp, MT_RP)
#define UNARY_MODE(op, mode, rc)                                                                             \
    MT_BUILTIN float mtb_nvvm_##op##_##mode##_f(float a)                                                     \
    {                                                                                                        \
        return mt_##op##_f(a, rc);                                                                           \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_##op##_##mode##_ftz_f(float a)                                                 \
    {                                                                                                        \
        return F(mt_##op##_f(F(a), rc));                                                                     \
    }                                                                                                        \
    MT_BUILTIN double mtb_nvvm_##op##_##mode##_d(double a)                                                   \
    {                                                                                                        \
        return mt_##op##_d(a, rc);                                                                           \
    }
UNARY(rcp, 1 / a, 1 / a)
UNARY(sqrt, __builtin_sqrtf(a), __builtin_sqrt(a))

#define FMA_MODE(mode, rc)                                                                                   \
    MT_BUILTIN float mtb_nvvm_fma_##mode##_f(float a, float b, float c)                                      \
    {                                                                                                        \
        return mt_fma_f(a, b, c, rc);                                                                        \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_fma_##mode##_ftz_f(float a, float b, float c)                                  \
    {                                                                                                        \
        return F(mt_fma_f(F(a), F(b), F(c), rc));                                                            \
    }                                                                                                        \
    MT_BUILTIN double mtb_nvvm_fma_##mode##_d(double a, double b, double c)                                  \
    {                                                                                                        \
        return mt_fma_d(a, b, c, rc);                                                                        \
    }
FMA_MODE(rz, MT_RZ)
FMA_MODE(rm, MT_RM)
FMA_MODE(rp, MT_RP)
/* a * b + c rounded down, where a * b is not negative and much smaller than c and c's last place is 1: the
 * rest is exact. */
MT_BUILTIN float mtb_fma_down_to_whole(float a, float b, float c)
{
    float sum = __builtin_fmaf(a, b, c), rest = __builtin_fmaf(a, b, c - sum);
    return rest < 0 ? sum - 1 : sum;
}
MT_BUILTIN float mtb_nvvm_fma_rn_f(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
MT_BUILTIN float mtb_nvvm_fma_rn_ftz_f(float a, float b, float c)
{
    return F(__builtin_fmaf(F(a), F(b), F(c)));
}
MT_BUILTIN double mtb_nvvm_fma_rn_d(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

/* ---- approximations: at least as exact as the GPU's ---- */
#define APPROX(name, expression)                                                                             \
    MT_BUILTIN float mtb_nvvm_##name##_f(float a)                                                            \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_##name##_ftz_f(float x)                                                        \
    {                                                                                                        \
        float a = F(x);                                                                                      \
        return F(expression);                                                                                \
    }
APPROX(sqrt_approx, __builtin_sqrtf(a))
APPROX(rcp_approx, 1 / a)
APPROX(rsqrt_approx, 1 / __builtin_sqrtf(a)) /* two roundings: within 2^-23 */
APPROX(ex2_approx, mt_exp2f(a))
APPROX(lg2_approx, __builtin_log2f(a))
APPROX(sin_approx, __builtin_sinf(a))
APPROX(cos_approx, __builtin_cosf(a))
MT_BUILTIN float mtb_nvvm_sqrt_f(float a)
{
    return __builtin_sqrtf(a);
}
/* a times 1 / b, where 1 / b is zero above 2^126. */
static MT_INLINE float div_approx(float a, float b)
{
    float size = __builtin_fabsf(b);
    return size > 0x1p126f && size <= __FLT_MAX__ ? a * __builtin_copysignf(0, b) : a / b;
}
MT_BUILTIN float mtb_nvvm_div_approx_f(float a, float b)
{
    return div_approx(a, b);
}
MT_BUILTIN float mtb_nvvm_div_approx_ftz_f(float a, float b)
{
    return F(div_approx(F(a), F(b)));
}
static MT_INLINE double ftz_d(double x)
{
    return mt_u64(x) << 1 >> 53 ? x : mt_f64(mt_u64(x) & 1ull << 63);
}
MT_BUILTIN double mtb_nvvm_rcp_approx_ftz_d(double a)
{
    return ftz_d(1 / ftz_d(a));
}
MT_BUILTIN double mtb_nvvm_rsqrt_approx_d(double a)
{
    return 1 / __builtin_sqrt(a);
}
MT_BUILTIN double mtb_nvvm_rsqrt_approx_ftz_d(double a)
{
    return 1 / __builtin_sqrt(ftz_d(a));
}
MT_BUILTIN double mtb_nvvm_ex2_approx_d(double a)
{
    return __builtin_exp2(a);
}
MT_BUILTIN double mtb_nvvm_lg2_approx_d(double a)
{
    return __builtin_log2(a);
}

/* ---- rounding to integers, signs, clamping ---- */
#define WHOLE(name, f_expression, d_expression)                                                              \
    APPROX(name, f_expression)                                                                               \
    MT_BUILTIN double mtb_nvvm_##name##_d(double a)                                                          \
    {                                                                                                        \
        return d_expression;                                                                                 \
    }
WHOLE(ceil, __builtin_ceilf(a), __builtin_ceil(a))
WHOLE(floor, __builtin_floorf(a), __builtin_floor(a))
WHOLE(trunc, __builtin_truncf(a), __builtin_trunc(a))
WHOLE(round, __builtin_roundevenf(a), __builtin_roundeven(a)) /* cvt.rni: halves to even */
WHOLE(fabs, __builtin_fabsf(a), __builtin_fabs(a))
WHOLE(saturate, a > 0 ? a < 1 ? a : 1 : 0, a > 0 ? a < 1 ? a : 1 : 0) /* NaN becomes 0 */

/* ---- minimum and maximum: -0 < +0; one NaN loses, or (nan) wins ---- */
#define NAN_F mt_f32(0x7fffffff)
static MT_INLINE float pick_f(float a, float b, bool smaller, bool nan)
{
    if (a != a || b != b)
        return nan || (a != a && b != b) ? NAN_F : a != a ? b : a;
    if (a == b)
        return smaller ? mt_f32(mt_u32(a) | mt_u32(b)) : mt_f32(mt_u32(a) & mt_u32(b));
    return (a < b) == smaller ? a : b;
}
static MT_INLINE float xorsign_f(float a, float b, bool smaller, bool nan)
{
    float r = pick_f(__builtin_fabsf(a), __builtin_fabsf(b), smaller, nan);
    return r != r ? r : mt_f32(mt_u32(r) | ((mt_u32(a) ^ mt_u32(b)) & 0x80000000));
}
#define EXTREME(op, smaller)                                                                                 \
    EXTREME_F(op, , pick_f(a, b, smaller, false))                                                            \
    EXTREME_F(op, _nan, pick_f(a, b, smaller, true))                                                         \
    EXTREME_F(op, _xorsign_abs, xorsign_f(a, b, smaller, false))                                             \
    EXTREME_F(op, _nan_xorsign_abs, xorsign_f(a, b, smaller, true))                                          \
    MT_BUILTIN double mtb_nvvm_##op##_d(double a, double b)                                                  \
    {                                                                                                        \
        if (a != a)                                                                                          \
            return b;                                                                                        \
        if (b != b)                                                                                          \
            return a;                                                                                        \
        if (a == b)                                                                                          \
            return mt_f64(smaller ? mt_u64(a) | mt_u64(b) : mt_u64(a) & mt_u64(b));                          \
        return (a < b) == smaller ? a : b;                                                                   \
    }
#define EXTREME_F(op, variant, expression)                                                                   \
    MT_BUILTIN float mtb_nvvm_##op##variant##_f(float a, float b)                                            \
    {                                                                                                        \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN float mtb_nvvm_##op##_ftz##variant##_f(float x, float y)                                      \
    {                                                                                                        \
        float a = F(x), b = F(y);                                                                            \
        return F(expression);                                                                                \
    }
EXTREME(fmin, true)
EXTREME(fmax, false)
MT_BUILTIN float mtb_nvvm_tanh_approx_f32(float a)
{
    return __builtin_tanhf(a);
}
