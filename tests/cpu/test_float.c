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
} modes[] = {{"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}, {"rn", FE_TONEAREST}};

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

/* ---- arithmetic in the three modes that are not the translator's own ---- */
#define IN_MODE(m, type, expression)                                                                         \
    ({                                                                                                       \
        fesetround(modes[m].mode);                                                                           \
        volatile type r_ = (expression);                                                                     \
        fesetround(FE_TONEAREST);                                                                            \
        r_;                                                                                                  \
    })
#define THREE(type, op, suffix, args)                                                                        \
    type mtb_ptx_##op##_rz_##suffix args, mtb_ptx_##op##_rm_##suffix args, mtb_ptx_##op##_rp_##suffix args;  \
    static type(*const op##_##suffix[])                                                                      \
        args = {mtb_ptx_##op##_rz_##suffix, mtb_ptx_##op##_rm_##suffix, mtb_ptx_##op##_rp_##suffix};
THREE(float, add, f32, (float, float))
THREE(float, sub, f32, (float, float))
THREE(float, mul, f32, (float, float))
THREE(float, div, f32, (float, float))
THREE(float, rcp, f32, (float))
THREE(float, sqrt, f32, (float))
THREE(float, fma, f32, (float, float, float))
THREE(float, add, ftz_f32, (float, float))
THREE(float, mul, ftz_f32, (float, float))
THREE(float, div, ftz_f32, (float, float))
THREE(float, fma, ftz_f32, (float, float, float))
THREE(uint64_t, add, f64, (uint64_t, uint64_t))
THREE(uint64_t, mul, f64, (uint64_t, uint64_t))
THREE(uint64_t, div, f64, (uint64_t, uint64_t))
THREE(uint64_t, rcp, f64, (uint64_t))
THREE(uint64_t, sqrt, f64, (uint64_t))
THREE(uint64_t, fma, f64, (uint64_t, uint64_t, uint64_t))

static double float_of(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

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
        for (int m = 0; m < 3; m++) {
            SAME32(add_f32[m](a, b), IN_MODE(m, float, a + b), "add.f32");
            SAME32(sub_f32[m](a, b), IN_MODE(m, float, a - b), "sub.f32");
            SAME32(mul_f32[m](a, b), IN_MODE(m, float, a *b), "mul.f32");
            SAME32(div_f32[m](a, b), IN_MODE(m, float, a / b), "div.f32");
            SAME32(rcp_f32[m](a), IN_MODE(m, float, 1 / a), "rcp.f32");
            SAME32(sqrt_f32[m](a), IN_MODE(m, float, sqrtf(a)), "sqrt.f32");
            SAME32(fma_f32[m](a, b, c), IN_MODE(m, float, fmaf(a, b, c)), "fma.f32");
            volatile float x = float_ftz(a), y = float_ftz(b), z = float_ftz(c);
            SAME32(add_ftz_f32[m](a, b), float_ftz(IN_MODE(m, float, x + y)), "add.ftz.f32");
            SAME32(mul_ftz_f32[m](a, b), float_ftz(IN_MODE(m, float, x *y)), "mul.ftz.f32");
            SAME32(div_ftz_f32[m](a, b), float_ftz(IN_MODE(m, float, x / y)), "div.ftz.f32");
            SAME32(fma_ftz_f32[m](a, b, c), float_ftz(IN_MODE(m, float, fmaf(x, y, z))), "fma.ftz.f32");
        }
    }
    for (int i = 0; i < 100000; i++) {
        volatile double a = any_f64(), b = any_f64(), c = any_f64();
        uint64_t u = bits64(a), v = bits64(b), w = bits64(c);
        for (int m = 0; m < 3; m++) {
            SAME64(float_of(add_f64[m](u, v)), IN_MODE(m, double, a + b), "add.f64");
            SAME64(float_of(mul_f64[m](u, v)), IN_MODE(m, double, a *b), "mul.f64");
            SAME64(float_of(div_f64[m](u, v)), IN_MODE(m, double, a / b), "div.f64");
            SAME64(float_of(rcp_f64[m](u)), IN_MODE(m, double, 1 / a), "rcp.f64");
            SAME64(float_of(sqrt_f64[m](u)), IN_MODE(m, double, sqrt(a)), "sqrt.f64");
            SAME64(float_of(fma_f64[m](u, v, w)), IN_MODE(m, double, fma(a, b, c)), "fma.f64");
        }
    }
}

/* ---- conversions ---- */
#define TO(type, to)                                                                                         \
    WHOLE(type, to, f32, float)                                                                              \
    WHOLE(type, to, f64, uint64_t)
/* In the order of the modes. */
#define WHOLE(type, to, from, argument)                                                                      \
    type mtb_ptx_cvt_rzi_##to##_##from(argument), mtb_ptx_cvt_rmi_##to##_##from(argument),                   \
        mtb_ptx_cvt_rpi_##to##_##from(argument), mtb_ptx_cvt_rni_##to##_##from(argument);                    \
    static type (*const from##_##to[])(argument) = {                                                         \
        mtb_ptx_cvt_rzi_##to##_##from, mtb_ptx_cvt_rmi_##to##_##from, mtb_ptx_cvt_rpi_##to##_##from,         \
        mtb_ptx_cvt_rni_##to##_##from};
TO(int32_t, s32)
TO(uint32_t, u32)
TO(int64_t, s64)
TO(uint64_t, u64)
#define FROM(type, to, from, argument)                                                                       \
    type mtb_ptx_cvt_rz_##to##_##from(argument), mtb_ptx_cvt_rm_##to##_##from(argument),                     \
        mtb_ptx_cvt_rp_##to##_##from(argument);                                                              \
    static type (*const from##_##to[])(argument) = {                                                         \
        mtb_ptx_cvt_rz_##to##_##from, mtb_ptx_cvt_rm_##to##_##from, mtb_ptx_cvt_rp_##to##_##from};
FROM(float, f32, f64, uint64_t)
FROM(float, f32, s32, int32_t)
FROM(float, f32, u32, uint32_t)
FROM(float, f32, s64, int64_t)
FROM(float, f32, u64, uint64_t)
FROM(uint64_t, f64, s32, int32_t)
FROM(uint64_t, f64, u32, uint32_t)
FROM(uint64_t, f64, s64, int64_t)
FROM(uint64_t, f64, u64, uint64_t)

/* Rounded in the mode, then clamped; NaN as PTX says. Exact: long double has 64 bits of significand. */
static __int128 to_integer(long double x, int m, int bits, int is_signed, int from_f64)
{
    __int128 one = 1, min = is_signed ? -(one << (bits - 1)) : 0, max = (one << (bits - is_signed)) - 1;
    if (x != x)
        return from_f64 || bits == 64 ? (is_signed ? -(one << (bits - 1)) : one << (bits - 1)) : 0;
    x = m == 3 ? rintl(x) : m == 0 ? truncl(x) : m == 1 ? floorl(x) : ceill(x);
    if (x <= (long double)min)
        return min;
    if (x >= (long double)max)
        return max;
    return (__int128)x;
}
#define INT_CHECK(f, x, argument, bits, is_signed, from_f64)                                                 \
    CHECK((__int128)f[m](argument) == to_integer(x, m, bits, is_signed, from_f64), #f ".%s(%a) = %lld",      \
          modes[m].name, (double)(x), (long long)f[m](argument))
#define FROM_CHECK(from, argument, exact)                                                                    \
    CHECK(from##_f32[m](argument) == IN_MODE(m, float, (float)exact), #from " to f32.%s(%Lg)",               \
          modes[m].name, exact);                                                                             \
    CHECK(float_of(from##_f64[m](argument)) == IN_MODE(m, double, (double)exact), #from " to f64.%s(%Lg)",   \
          modes[m].name, exact)

static void float_conversions(void)
{
    for (int i = 0; i < 200000; i++)
        for (int m = 0; m < 4; m++) {
            float a = any_f32();
            double b = any_f64();
            uint64_t v = bits64(b), u = any_u64();
            INT_CHECK(f32_s32, a, a, 32, 1, 0);
            INT_CHECK(f32_u32, a, a, 32, 0, 0);
            INT_CHECK(f32_s64, a, a, 64, 1, 0);
            INT_CHECK(f32_u64, a, a, 64, 0, 0);
            INT_CHECK(f64_s32, b, v, 32, 1, 1);
            INT_CHECK(f64_u32, b, v, 32, 0, 1);
            INT_CHECK(f64_s64, b, v, 64, 1, 1);
            INT_CHECK(f64_u64, b, v, 64, 0, 1);
            if (m == 3)
                continue;
            volatile double vb = b;
            CHECK(same_f32(f64_f32[m](v), IN_MODE(m, float, (float)vb)), "f64 to f32.%s(%a)", modes[m].name,
                  b);
            /* Integers: an exact long double rounded to the type in the mode. */
            volatile long double s32 = (int32_t)u, u32 = (uint32_t)u, s64 = (int64_t)u, u64 = u;
            FROM_CHECK(s32, (int32_t)u, s32);
            FROM_CHECK(u32, (uint32_t)u, u32);
            FROM_CHECK(s64, (int64_t)u, s64);
            FROM_CHECK(u64, u, u64);
        }
}

/* ---- approximations, rounding to whole numbers, extremes ---- */
float mtb_ptx_rsqrt_approx_f32(float), mtb_ptx_ex2_approx_f32(float), mtb_ptx_lg2_approx_f32(float),
    mtb_ptx_sin_approx_f32(float), mtb_ptx_cos_approx_f32(float), mtb_ptx_rcp_approx_ftz_f32(float),
    mtb_ptx_sqrt_approx_f32(float), mtb_ptx_div_approx_f32(float, float), mtb_ptx_div_full_f32(float, float),
    mtb_ptx_tanh_approx_f32(float), mtb_ptx_min_f32(float, float), mtb_ptx_max_f32(float, float),
    mtb_ptx_min_NaN_f32(float, float), mtb_ptx_max_xorsign_abs_f32(float, float),
    mtb_ptx_max_ftz_NaN_f32(float, float), mtb_ptx_max_NaN_f32(float, float);
uint64_t mtb_ptx_rsqrt_approx_f64(uint64_t);
uint32_t mtb_ptx_cvt_rna_tf32_f32(float);

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
        y = mtb_ptx_ex2_approx_f32(x);
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
        float got = mtb_fma_down_to_whole(a, b, c), want = IN_MODE(1, float, fmaf(a, b, c));
        CHECK(got == want, "fma(%a, %a, %a) rounded down: %a, not %a", (double)a, (double)b, (double)c,
              (double)got, (double)want);
    }
}

static void float_others(void)
{
    for (int i = 0; i < 200000; i++) {
        float a = any_f32(), b = any_f32();
        double d = any_f64();
        float root = mtb_ptx_rsqrt_approx_f32(a);
        CHECK(isnan(a) || a < 0    ? isnan(root)
              : a == 0 || isinf(a) ? root == 1 / a || (a == 0 && isinf(root))
                                   : fabsl(root * sqrtl(a) - 1) < 0x1.12p-23, /* 2^-22.9 */
              "rsqrt(%a)", (double)a);
        CHECK(close_to(mtb_ptx_sqrt_approx_f32(a), sqrtl(a), 1, 24) || a == 0, "sqrt(%a)", (double)a);
        float mid = (float)(rnd() % 100000) / 800.0f - 62.5f;
        CHECK(close_to(mtb_ptx_ex2_approx_f32(mid), exp2l(mid), 1, 24), "ex2(%a)", (double)mid);
        CHECK(close_to(mtb_ptx_lg2_approx_f32(fabsf(b)), log2l(fabsl(b)), 2, 24) || b == 0, "lg2(%a)",
              (double)b);
        CHECK(fabsl(mtb_ptx_sin_approx_f32(mid) - sinl(mid)) < 0x1p-23, "sin(%a)", (double)mid);
        CHECK(fabsl(mtb_ptx_cos_approx_f32(mid) - cosl(mid)) < 0x1p-23, "cos(%a)", (double)mid);
        CHECK(fabsl(mtb_ptx_tanh_approx_f32(mid) - tanhl(mid)) < 0x1p-22, "tanh(%a)", (double)mid);
        CHECK(same_f32(mtb_ptx_rcp_approx_ftz_f32(a), float_ftz(1 / float_ftz(a))), "rcp.ftz(%a)", (double)a);
        CHECK(same_f64(float_of(mtb_ptx_rsqrt_approx_f64(bits64(d))), 1 / sqrt(d)), "rsqrt.f64(%a)", d);
        volatile float over = a / b; /* 1 / b is zero above 2^126 */
        CHECK(same_f32(mtb_ptx_div_full_f32(a, b), over), "div.full(%a, %a)", (double)a, (double)b);
        CHECK(same_f32(mtb_ptx_div_approx_f32(a, b),
                       fabsf(b) > 0x1p126f && !isinf(b) ? a * copysignf(0, b) : over),
              "div.approx(%a, %a)", (double)a, (double)b);
        CHECK(same_f32(mtb_ptx_min_f32(a, b), min_of(a, b, 0, 0)), "min(%a, %a)", (double)a, (double)b);
        CHECK(same_f32(mtb_ptx_max_f32(a, b), min_of(a, b, 1, 0)), "max(%a, %a)", (double)a, (double)b);
        CHECK(same_f32(mtb_ptx_min_NaN_f32(a, b), min_of(a, b, 0, 1)), "min.NaN(%a, %a)", (double)a,
              (double)b);
        CHECK(same_f32(mtb_ptx_max_NaN_f32(a, b), min_of(a, b, 1, 1)), "max.NaN(%a, %a)", (double)a,
              (double)b);
        CHECK(same_f32(mtb_ptx_max_ftz_NaN_f32(a, b), float_ftz(min_of(float_ftz(a), float_ftz(b), 1, 1))),
              "max.ftz.NaN(%a, %a)", (double)a, (double)b);
        float big = min_of(fabsf(a), fabsf(b), 1, 0);
        CHECK(same_f32(mtb_ptx_max_xorsign_abs_f32(a, b), signbit(a) != signbit(b) ? -big : big),
              "max.xorsign(%a, %a)", (double)a, (double)b);
        saturating_tf32(a);
        if (isfinite(a)) { /* tf32: a multiple of a unit, halves away from zero */
            int x;
            frexpf(a, &x);
            long double unit = ldexpl(1, (x < -125 ? -125 : x) - 11),
                        want = floorl(fabsl(a) / unit + 0.5L) * unit;
            CHECK(fabsl(as_f32(mtb_ptx_cvt_rna_tf32_f32(a))) == (float)want, "tf32(%a)", (double)a);
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
