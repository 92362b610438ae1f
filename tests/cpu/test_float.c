/* f32 and f64 builtins against the C library's rounding modes, long double, and hand-made saturation.
 * Compiled with -frounding-math; operands are volatile, so that nothing is computed
 * before the mode is set. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include "check.h"

static const struct {
    const char *name;
    int mode;
} modes[] = {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

static float float_ftz(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}
static int close_to(double got, long double want, long double ulps, int bits)
{
    if (want != want)
        return got != got;
    if (isinf((double)want) || want == 0)
        return got == (double)want;
    int e;
    frexpl(want, &e);
    return fabsl(got - want) <= ulps * ldexpl(1, e - bits);
}

/* ---- arithmetic in four modes ---- */
#define IN_MODE(m, type, expression)                                                                         \
    ({                                                                                                       \
        fesetround(modes[m].mode);                                                                           \
        volatile type r_ = (expression);                                                                     \
        fesetround(FE_TONEAREST);                                                                            \
        r_;                                                                                                  \
    })
#define FOUR(type, op, suffix, args)                                                                         \
    type mtb_nvvm_##op##_rn_##suffix args, mtb_nvvm_##op##_rz_##suffix args,                                 \
        mtb_nvvm_##op##_rm_##suffix args, mtb_nvvm_##op##_rp_##suffix args;                                  \
    static type(*const op##_##suffix[]) args = {mtb_nvvm_##op##_rn_##suffix, mtb_nvvm_##op##_rz_##suffix,    \
                                                mtb_nvvm_##op##_rm_##suffix, mtb_nvvm_##op##_rp_##suffix};
FOUR(float, add, f, (float, float))
FOUR(float, mul, f, (float, float))
FOUR(float, div, f, (float, float))
FOUR(float, rcp, f, (float))
FOUR(float, sqrt, f, (float))
FOUR(float, fma, f, (float, float, float))
FOUR(float, add, ftz_f, (float, float))
FOUR(float, mul, ftz_f, (float, float))
FOUR(float, div, ftz_f, (float, float))
FOUR(float, fma, ftz_f, (float, float, float))
FOUR(double, add, d, (double, double))
FOUR(double, mul, d, (double, double))
FOUR(double, div, d, (double, double))
FOUR(double, rcp, d, (double))
FOUR(double, sqrt, d, (double))
FOUR(double, fma, d, (double, double, double))

#define SAME32(got, want, ...)                                                                               \
    do {                                                                                                     \
        float g_ = (got), w_ = (want);                                                                       \
        CHECK(same_f32(g_, w_), "%s.%s(%a, %a, %a) = %a, expected %a", __VA_ARGS__, modes[m].name,           \
              (double)a, (double)b, (double)c, (double)g_, (double)w_);                                      \
    } while (0)
#define SAME64(got, want, ...)                                                                               \
    do {                                                                                                     \
        double g_ = (got), w_ = (want);                                                                      \
        CHECK(same_f64(g_, w_), "%s.%s(%a, %a, %a) = %a, expected %a", __VA_ARGS__, modes[m].name, a, b, c,  \
              g_, w_);                                                                                       \
    } while (0)

static void float_arithmetic(void)
{
    for (int i = 0; i < 100000; i++) {
        volatile float a = any_f32(), b = any_f32(), c = any_f32();
        for (int m = 0; m < 4; m++) {
            SAME32(add_f[m](a, b), IN_MODE(m, float, a + b), "add.f");
            SAME32(mul_f[m](a, b), IN_MODE(m, float, a *b), "mul.f");
            SAME32(div_f[m](a, b), IN_MODE(m, float, a / b), "div.f");
            SAME32(rcp_f[m](a), IN_MODE(m, float, 1 / a), "rcp.f");
            SAME32(sqrt_f[m](a), IN_MODE(m, float, sqrtf(a)), "sqrt.f");
            SAME32(fma_f[m](a, b, c), IN_MODE(m, float, fmaf(a, b, c)), "fma.f");
            volatile float x = float_ftz(a), y = float_ftz(b), z = float_ftz(c);
            SAME32(add_ftz_f[m](a, b), float_ftz(IN_MODE(m, float, x + y)), "add.ftz.f");
            SAME32(mul_ftz_f[m](a, b), float_ftz(IN_MODE(m, float, x *y)), "mul.ftz.f");
            SAME32(div_ftz_f[m](a, b), float_ftz(IN_MODE(m, float, x / y)), "div.ftz.f");
            SAME32(fma_ftz_f[m](a, b, c), float_ftz(IN_MODE(m, float, fmaf(x, y, z))), "fma.ftz.f");
        }
    }
    for (int i = 0; i < 100000; i++) {
        volatile double a = any_f64(), b = any_f64(), c = any_f64();
        for (int m = 0; m < 4; m++) {
            SAME64(add_d[m](a, b), IN_MODE(m, double, a + b), "add.d");
            SAME64(mul_d[m](a, b), IN_MODE(m, double, a *b), "mul.d");
            SAME64(div_d[m](a, b), IN_MODE(m, double, a / b), "div.d");
            SAME64(rcp_d[m](a), IN_MODE(m, double, 1 / a), "rcp.d");
            SAME64(sqrt_d[m](a), IN_MODE(m, double, sqrt(a)), "sqrt.d");
            SAME64(fma_d[m](a, b, c), IN_MODE(m, double, fma(a, b, c)), "fma.d");
        }
    }
}

/* ---- conversions ---- */
#define TO(type, to)                                                                                         \
    FOUR(type, f2##to, , (float))                                                                            \
    FOUR(type, d2##to, , (double))
#undef FOUR
#define FOUR(type, op, suffix, args)                                                                         \
    type mtb_nvvm_##op##_rn args, mtb_nvvm_##op##_rz args, mtb_nvvm_##op##_rm args, mtb_nvvm_##op##_rp args; \
    static type(*const op[])                                                                                 \
        args = {mtb_nvvm_##op##_rn, mtb_nvvm_##op##_rz, mtb_nvvm_##op##_rm, mtb_nvvm_##op##_rp};
TO(int32_t, i)
TO(uint32_t, ui)
TO(int64_t, ll)
TO(uint64_t, ull)
FOUR(float, d2f, , (double))
FOUR(float, i2f, , (int32_t))
FOUR(float, ui2f, , (uint32_t))
FOUR(float, ll2f, , (int64_t))
FOUR(float, ull2f, , (uint64_t))
FOUR(double, i2d, , (int32_t))
FOUR(double, ui2d, , (uint32_t))
FOUR(double, ll2d, , (int64_t))
FOUR(double, ull2d, , (uint64_t))

/* Rounded in the mode, then clamped; NaN as PTX says. Exact: long double has 64 bits of significand. */
static __int128 to_integer(long double x, int m, int bits, int is_signed, int from_f64)
{
    __int128 one = 1, min = is_signed ? -(one << (bits - 1)) : 0, max = (one << (bits - is_signed)) - 1;
    if (x != x)
        return from_f64 || bits == 64 ? (is_signed ? -(one << (bits - 1)) : one << (bits - 1)) : 0;
    x = m == 0 ? rintl(x) : m == 1 ? truncl(x) : m == 2 ? floorl(x) : ceill(x);
    if (x <= (long double)min)
        return min;
    if (x >= (long double)max)
        return max;
    return (__int128)x;
}
#define INT_CHECK(f, x, bits, is_signed, from_f64)                                                           \
    CHECK((__int128)f[m](x) == to_integer(x, m, bits, is_signed, from_f64), #f ".%s(%a) = %lld",             \
          modes[m].name, (double)(x), (long long)f[m](x))

static void float_conversions(void)
{
    for (int i = 0; i < 200000; i++)
        for (int m = 0; m < 4; m++) {
            float a = any_f32();
            double b = any_f64();
            INT_CHECK(f2i, a, 32, 1, 0);
            INT_CHECK(f2ui, a, 32, 0, 0);
            INT_CHECK(f2ll, a, 64, 1, 0);
            INT_CHECK(f2ull, a, 64, 0, 0);
            INT_CHECK(d2i, b, 32, 1, 1);
            INT_CHECK(d2ui, b, 32, 0, 1);
            INT_CHECK(d2ll, b, 64, 1, 1);
            INT_CHECK(d2ull, b, 64, 0, 1);
            volatile double vb = b;
            CHECK(same_f32(d2f[m](b), IN_MODE(m, float, (float)vb)), "d2f.%s(%a)", modes[m].name, b);
            /* Integers: an exact long double rounded to the type in the mode. */
            uint64_t u = any_u64();
            volatile long double s32 = (int32_t)u, u32 = (uint32_t)u, s64 = (int64_t)u, u64 = u;
            CHECK(i2f[m]((int32_t)u) == IN_MODE(m, float, (float)s32), "i2f.%s(%d)", modes[m].name, (int)u);
            CHECK(ui2f[m]((uint32_t)u) == IN_MODE(m, float, (float)u32), "ui2f.%s(%u)", modes[m].name,
                  (unsigned)u);
            CHECK(ll2f[m]((int64_t)u) == IN_MODE(m, float, (float)s64), "ll2f.%s(%lld)", modes[m].name,
                  (long long)u);
            CHECK(ull2f[m](u) == IN_MODE(m, float, (float)u64), "ull2f.%s(%llu)", modes[m].name,
                  (unsigned long long)u);
            CHECK(i2d[m]((int32_t)u) == IN_MODE(m, double, (double)s32), "i2d.%s(%d)", modes[m].name, (int)u);
            CHECK(ui2d[m]((uint32_t)u) == IN_MODE(m, double, (double)u32), "ui2d.%s(%u)", modes[m].name,
                  (unsigned)u);
            CHECK(ll2d[m]((int64_t)u) == IN_MODE(m, double, (double)s64), "ll2d.%s(%lld)", modes[m].name,
                  (long long)u);
            CHECK(ull2d[m](u) == IN_MODE(m, double, (double)u64), "ull2d.%s(%llu)", modes[m].name,
                  (unsigned long long)u);
        }
}

/* ---- approximations, rounding to whole numbers, extremes ---- */
float mtb_nvvm_rsqrt_approx_f(float), mtb_nvvm_ex2_approx_f(float), mtb_nvvm_lg2_approx_f(float),
    mtb_nvvm_sin_approx_f(float), mtb_nvvm_cos_approx_f(float), mtb_nvvm_rcp_approx_ftz_f(float),
    mtb_nvvm_sqrt_approx_f(float), mtb_nvvm_div_approx_f(float, float), mtb_ptx_tanh_approx_f32(float),
    mtb_nvvm_round_f(float), mtb_nvvm_saturate_f(float), mtb_nvvm_ceil_f(float), mtb_nvvm_floor_ftz_f(float),
    mtb_nvvm_fmin_f(float, float), mtb_nvvm_fmax_f(float, float), mtb_nvvm_fmin_nan_f(float, float),
    mtb_nvvm_fmax_xorsign_abs_f(float, float), mtb_nvvm_fmax_ftz_nan_f(float, float),
    mtb_ptx_max_NaN_f32(float, float), mtb_ptx_min_f32(float, float);
double mtb_nvvm_rsqrt_approx_d(double), mtb_nvvm_rcp_approx_ftz_d(double), mtb_nvvm_fmin_d(double, double),
    mtb_nvvm_round_d(double), mtb_nvvm_lohi_i2d(uint32_t, uint32_t);
uint32_t mtb_nvvm_d2i_hi(double), mtb_nvvm_d2i_lo(double), mtb_nvvm_f2tf32_rna(float);

uint32_t mtb_ptx_cvt_rn_satfinite_tf32_f32(float), mtb_ptx_cvt_rz_satfinite_tf32_f32(float),
    mtb_ptx_cvt_rn_satfinite_relu_tf32_f32(float), mtb_ptx_cvt_rz_relu_satfinite_tf32_f32(float);

/* What ptxas takes for sm_100 and above only: a multiple of a unit, at most the largest there is. */
static void saturating_tf32(float a)
{
    int x;
    const long double max = ldexpl(1, 128) - ldexpl(1, 117);
    if (isnan(a)) {
        CHECK(mtb_ptx_cvt_rn_satfinite_relu_tf32_f32(a) == 0x7fffffff, "tf32(NaN)");
        return;
    }
    frexpf(isinf(a) ? FLT_MAX : a, &x);
    long double unit = ldexpl(1, (x < -125 ? -125 : x) - 11), size = fabsl(a),
                even = isinf(a) ? max : rintl(size / unit) * unit, down = floorl(size / unit) * unit;
    even = copysignl(even < max ? even : max, a);
    down = copysignl(down < max ? down : max, a);
    CHECK(same_f32(as_f32(mtb_ptx_cvt_rn_satfinite_tf32_f32(a)), (float)even), "tf32.rn(%a)", (double)a);
    CHECK(same_f32(as_f32(mtb_ptx_cvt_rz_satfinite_tf32_f32(a)), (float)down), "tf32.rz(%a)", (double)a);
    CHECK(same_f32(as_f32(mtb_ptx_cvt_rn_satfinite_relu_tf32_f32(a)), a > 0 ? (float)even : 0),
          "tf32.rn.relu(%a)", (double)a);
    CHECK(same_f32(as_f32(mtb_ptx_cvt_rz_relu_satfinite_tf32_f32(a)), a > 0 ? (float)down : 0),
          "tf32.rz.relu(%a)", (double)a);
}

static float min_of(float a, float b, int max, int nan)
{
    if (isnan(a) && isnan(b))
        return NAN;
    if (isnan(a) || isnan(b))
        return nan ? NAN : isnan(a) ? b : a;
    int less = a < b || (a == b && signbit(a) && !signbit(b));
    return less != max ? a : b;
}

/* 2^x for all floats in steps, from those that become 0 to those that become infinity: one unit at most. */
static void float_powers(void)
{
    for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 977) {
        uint32_t bits = (uint32_t)u;
        float x, y;
        memcpy(&x, &bits, sizeof x);
        y = mtb_nvvm_ex2_approx_f(x);
        double want = exp2(x);
        int e;
        frexp(want, &e);
        double unit = ldexp(1, (e < -125 ? -125 : e) - 24);
        CHECK(isnan(x)          ? isnan(y)
              : want >= 0x1p128 ? isinf(y) && y > 0
              : want > FLT_MAX  ? y >= FLT_MAX
                                : fabs(y - want) < unit,
              "ex2(%a) = %a, not %a", (double)x, (double)y, want);
    }
}

/* The fma of CUDA's expf, in which a saturated number is multiplied: as the processor rounds it down. */
float mtb_fma_down_to_whole(float, float, float);
static void float_down(void)
{
    static const float by[] = {252, 251, 1, 0.3f, 4096}, to[] = {12582913, 12582912, 10000001, 14000000};
    for (int i = 0; i < 400000; i++) {
        volatile float a =
            i < 1000 ? (float)i / 252 / 4 : ldexpf((float)(rnd() >> 40), -24 - (int)(rnd() % 90 / 6));
        a = a > 1 ? 1 : a;
        volatile float b = by[rnd() % 5], c = to[rnd() % 4];
        float got = mtb_fma_down_to_whole(a, b, c), want = IN_MODE(2, float, fmaf(a, b, c));
        CHECK(got == want, "fma(%a, %a, %a) rounded down: %a, not %a", (double)a, (double)b, (double)c,
              (double)got, (double)want);
    }
}

static void float_others(void)
{
    for (int i = 0; i < 200000; i++) {
        float a = any_f32(), b = any_f32();
        double d = any_f64(), e = any_f64();
        float root = mtb_nvvm_rsqrt_approx_f(a);
        CHECK(isnan(a) || a < 0    ? isnan(root)
              : a == 0 || isinf(a) ? root == 1 / a || (a == 0 && isinf(root))
                                   : fabsl(root * sqrtl(a) - 1) < 0x1.12p-23, /* 2^-22.9 */
              "rsqrt(%a)", (double)a);
        CHECK(close_to(mtb_nvvm_sqrt_approx_f(a), sqrtl(a), 1, 24) || a == 0, "sqrt(%a)", (double)a);
        float mid = (float)(rnd() % 100000) / 800.0f - 62.5f;
        CHECK(close_to(mtb_nvvm_ex2_approx_f(mid), exp2l(mid), 1, 24), "ex2(%a)", (double)mid);
        CHECK(close_to(mtb_nvvm_lg2_approx_f(fabsf(b)), log2l(fabsl(b)), 2, 24) || b == 0, "lg2(%a)",
              (double)b);
        CHECK(fabsl(mtb_nvvm_sin_approx_f(mid) - sinl(mid)) < 0x1p-23, "sin(%a)", (double)mid);
        CHECK(fabsl(mtb_nvvm_cos_approx_f(mid) - cosl(mid)) < 0x1p-23, "cos(%a)", (double)mid);
        CHECK(fabsl(mtb_ptx_tanh_approx_f32(mid) - tanhl(mid)) < 0x1p-22, "tanh(%a)", (double)mid);
        CHECK(same_f32(mtb_nvvm_rcp_approx_ftz_f(a), float_ftz(1 / float_ftz(a))), "rcp.ftz(%a)", (double)a);
        CHECK(same_f64(mtb_nvvm_rsqrt_approx_d(d), 1 / sqrt(d)), "rsqrt.d(%a)", d);
        CHECK(same_f32(mtb_nvvm_round_f(a), rintf(a)), "round(%a)", (double)a);
        CHECK(same_f64(mtb_nvvm_round_d(d), rint(d)), "round(%a)", d);
        CHECK(same_f32(mtb_nvvm_ceil_f(a), ceilf(a)), "ceil(%a)", (double)a);
        CHECK(same_f32(mtb_nvvm_floor_ftz_f(a), floorf(float_ftz(a))), "floor.ftz(%a)", (double)a);
        CHECK(mtb_nvvm_saturate_f(a) == (isnan(a) ? 0 : fminf(fmaxf(a, 0), 1)), "sat(%a)", (double)a);
        CHECK(same_f32(mtb_nvvm_fmin_f(a, b), min_of(a, b, 0, 0)), "fmin(%a, %a)", (double)a, (double)b);
        CHECK(same_f32(mtb_ptx_min_f32(a, b), min_of(a, b, 0, 0)), "fmin(%a, %a)", (double)a, (double)b);
        CHECK(same_f32(mtb_nvvm_fmax_f(a, b), min_of(a, b, 1, 0)), "fmax(%a, %a)", (double)a, (double)b);
        CHECK(same_f32(mtb_nvvm_fmin_nan_f(a, b), min_of(a, b, 0, 1)), "fmin.nan(%a, %a)", (double)a,
              (double)b);
        CHECK(same_f32(mtb_ptx_max_NaN_f32(a, b), min_of(a, b, 1, 1)), "max.NaN(%a, %a)", (double)a,
              (double)b);
        CHECK(same_f32(mtb_nvvm_fmax_ftz_nan_f(a, b), float_ftz(min_of(float_ftz(a), float_ftz(b), 1, 1))),
              "fmax.ftz.nan(%a, %a)", (double)a, (double)b);
        float big = min_of(fabsf(a), fabsf(b), 1, 0);
        CHECK(same_f32(mtb_nvvm_fmax_xorsign_abs_f(a, b), signbit(a) != signbit(b) ? -big : big),
              "fmax.xorsign(%a, %a)", (double)a, (double)b);
        CHECK(same_f64(mtb_nvvm_fmin_d(d, e), isnan(d)                          ? e
                                              : isnan(e)                        ? d
                                              : d < e || (d == e && signbit(d)) ? d
                                                                                : e),
              "fmin(%a, %a)", d, e);
        CHECK(bits64(mtb_nvvm_lohi_i2d(mtb_nvvm_d2i_lo(d), mtb_nvvm_d2i_hi(d))) == bits64(d), "lohi(%a)", d);
        saturating_tf32(a);
        if (isfinite(a)) { /* tf32: a multiple of a unit, halves away from zero */
            int x;
            frexpf(a, &x);
            long double unit = ldexpl(1, (x < -125 ? -125 : x) - 11),
                        want = floorl(fabsl(a) / unit + 0.5L) * unit;
            CHECK(fabsl(as_f32(mtb_nvvm_f2tf32_rna(a))) == (float)want, "tf32(%a)", (double)a);
        }
    }
}

int main(void)
{
    float_arithmetic();
    float_conversions();
    float_powers();
    float_down();
    float_others();
    return report("f32 and f64");
}
