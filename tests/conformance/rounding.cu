// Arithmetic and conversions with a given rounding, and the fast approximations.
// References: the host's arithmetic with its rounding mode set; exact integers;
// long double for the approximations.
#include "map.h"
#include "rounding_reference.h"

// X(suffix of the function, rounding mode of the host, …) for each mode.
#define MODES(X, ...)                                                                                        \
    X(rn, FE_TONEAREST, __VA_ARGS__)                                                                         \
    X(rz, FE_TOWARDZERO, __VA_ARGS__) X(ru, FE_UPWARD, __VA_ARGS__) X(rd, FE_DOWNWARD, __VA_ARGS__)

#define ARITHMETIC(m, mode, T, prefix, fma, sqrt)                                                            \
    MAP2(T, T, T, __##prefix##add_##m(a, b), ROUND(T, mode, x + y, a, b, 0))                                 \
    MAP2(T, T, T, __##prefix##sub_##m(a, b), ROUND(T, mode, x - y, a, b, 0))                                 \
    MAP2(T, T, T, __##prefix##mul_##m(a, b), ROUND(T, mode, x *y, a, b, 0))                                  \
    MAP2(T, T, T, __##prefix##div_##m(a, b), ROUND(T, mode, x / y, a, b, 0))                                 \
    MAP3(T, T, T, T, __##fma##_##m(a, b, c), ROUND(T, mode, fma(x, y, z), a, b, c))                          \
    MAP1(T, T, __##prefix##sqrt_##m(a), ROUND(T, mode, sqrt(x), a, 0, 0))                                    \
    MAP1(T, T, __##prefix##rcp_##m(a), ROUND(T, mode, 1 / x, a, 0, 0))
MODES(ARITHMETIC, float, f, fmaf, sqrtf)
MODES(ARITHMETIC, double, d, fma, sqrt)
ULP1(float, float, in(1e-30, 1e30), 0, __frsqrt_rn(a), 1 / sqrtl(a))

// `nan`: what NaN becomes; from float, an integer of 32 bits has 0 for it.
#define TO_INTEGER(m, mode, T, F, name, lo, hi, nan)                                                         \
    MAP1(T, F, __##F##2##name##_##m(a), conf_to_integer<T>(a, mode, lo, hi, (T)nan))
MODES(TO_INTEGER, int, float, int, -0x1p31L, 0x1p31L - 1, 0)
MODES(TO_INTEGER, unsigned, float, uint, 0, 0x1p32L - 1, 0)
MODES(TO_INTEGER, long long, float, ll, -0x1p63L, 0x1p63L - 1, INT64_MIN)
MODES(TO_INTEGER, unsigned long long, float, ull, 0, 0x1p64L - 1, 0x8000000000000000ull)
MODES(TO_INTEGER, int, double, int, -0x1p31L, 0x1p31L - 1, INT32_MIN)
MODES(TO_INTEGER, unsigned, double, uint, 0, 0x1p32L - 1, 0x80000000u)
MODES(TO_INTEGER, long long, double, ll, -0x1p63L, 0x1p63L - 1, INT64_MIN)
MODES(TO_INTEGER, unsigned long long, double, ull, 0, 0x1p64L - 1, 0x8000000000000000ull)

#define TO_FLOATING(m, mode, T, F, name) MAP1(T, F, __##name##2##T##_##m(a), ROUND_FROM(T, F, mode, a))
MODES(TO_FLOATING, float, int, int)
MODES(TO_FLOATING, float, unsigned, uint)
MODES(TO_FLOATING, float, long long, ll)
MODES(TO_FLOATING, double, long long, ll)
MODES(TO_FLOATING, float, unsigned long long, ull)
MODES(TO_FLOATING, double, unsigned long long, ull)
MODES(TO_FLOATING, float, double, double)
MAP1(double, int, __int2double_rn(a), (double)a)
MAP1(double, unsigned, __uint2double_rn(a), (double)a)

#define CAST(T, F)                                                                                           \
    MAP1_NAMED("(" #T ")a of " #F, T, F, (T)(a > 0 && a < 100 ? a : 7.5f), (T)(a > 0 && a < 100 ? a : 7.5f))
#define CASTS(F)                                                                                             \
    CAST(int, F)                                                                                             \
    CAST(unsigned, F)                                                                                        \
    CAST(long long, F) CAST(unsigned long long, F) CAST(short, F) CAST(unsigned char, F)
CASTS(float)
CASTS(double)
MAP1_NAMED("(float)a of double", float, double, (float)a, (float)a)
MAP1_NAMED("(double)a of float", double, float, (double)a, (double)a)
MAP1(float, float, __saturatef(a), a > 0 ? a < 1 ? a : 1 : 0)
// ---- fast approximations, bounds of the programming guide ----
ULP1(float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-21 * 0.753, ref), __sinf(a), sinl(a))
ULP1(float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-21 * 0.877, ref), __cosf(a), cosl(a))
ULP1(float, float, in(0.5, 2), conf::absolute<float>(0x1p-21 * 0.753, ref), __logf(a), logl(a))
ULP1_NAMED("__logf(a), a > 2", float, float, in(2, 1e30), 3, __logf(a), logl(a))
ULP1(float, float, in(0.5, 2), conf::absolute<float>(0x1p-22, ref), __log2f(a), log2l(a))
ULP1_NAMED("__log2f(a), a > 2", float, float, in(2, 1e30), 2, __log2f(a), log2l(a))
ULP1(float, float, in(0.5, 2), conf::absolute<float>(0x1p-24, ref), __log10f(a), log10l(a))
ULP1_NAMED("__log10f(a), a > 2", float, float, in(2, 1e30), 3, __log10f(a), log10l(a))
ULP1(float, float, in(-80, 80), 2 + floor(fabs(1.173 * a)), __expf(a), expl(a))
ULP1(float, float, in(-35, 35), 2 + floor(fabs(2.97 * a)), __exp10f(a), powl(10, a))
ULP2(float, float, float, in(0.001, 1000), 2, __fdividef(a, b), (long double)a / b)
// __powf is exp2f(b * __log2f(a)), __tanf is __sinf / __cosf; no bound of their own is documented.
ULP2(float, float, float, in(0.5, 4), 16, __powf(a, b), powl(a, b))
ULP1(float, float, in(-1, 1), 16, __tanf(a), tanl(a))
MAP1_NAMED("__sincosf", float, float,
           ({
               float s, c;
               __sincosf(a, &s, &c);
               s == __sinf(a) && c == __cosf(a);
           }) ||
               a - a != 0,
           1)

// ---- the instructions after them ----
#define ASM1F(op, a)                                                                                         \
    ({                                                                                                       \
        float d_;                                                                                            \
        asm(op " %0, %1;" : "=f"(d_) : "f"(a));                                                              \
        d_;                                                                                                  \
    })
ULP1_NAMED("sin.approx.f32", float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-20, ref),
           ASM1F("sin.approx.f32", a), sinl(a))
ULP1_NAMED("cos.approx.f32", float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-20, ref),
           ASM1F("cos.approx.f32", a), cosl(a))
ULP1_NAMED("ex2.approx.f32", float, float, in(-100, 100), 2 + 0.5, ASM1F("ex2.approx.f32", a), exp2l(a))
ULP1_NAMED("ex2.approx.ftz.f32", float, float, in(-100, 100), 2 + 0.5, ASM1F("ex2.approx.ftz.f32", a),
           exp2l(a))
ULP1_NAMED("lg2.approx.f32", float, float, in(2, 1e30), 4, ASM1F("lg2.approx.f32", a), log2l(a))
ULP1_NAMED("rcp.approx.f32", float, float, in(1e-30, 1e30), 1, ASM1F("rcp.approx.f32", a), 1 / (long double)a)
ULP1_NAMED("rcp.approx.ftz.f32", float, float, in(1e-30, 1e30), 1, ASM1F("rcp.approx.ftz.f32", a),
           1 / (long double)a)
ULP1_NAMED("rsqrt.approx.f32", float, float, in(1e-30, 1e30), 2, ASM1F("rsqrt.approx.f32", a), 1 / sqrtl(a))
ULP1_NAMED("rsqrt.approx.ftz.f32", float, float, in(1e-30, 1e30), 2, ASM1F("rsqrt.approx.ftz.f32", a),
           1 / sqrtl(a))
ULP1_NAMED("sqrt.approx.f32", float, float, in(1e-30, 1e30), 3, ASM1F("sqrt.approx.f32", a), sqrtl(a))
ULP1_NAMED("tanh.approx.f32", float, float, in(-5, 5), 0x1p13, ASM1F("tanh.approx.f32", a),
           tanhl(a)) // relative 2^-11
ULP2_NAMED("div.full.f32", float, float, float, in(0.001, 1000), 2, ({
               float d_;
               asm("div.full.f32 %0, %1, %2;" : "=f"(d_) : "f"(a), "f"(b));
               d_;
           }),
           (long double)a / b)
ULP2_NAMED("div.approx.f32", float, float, float, in(0.001, 1000), 2, ({
               float d_;
               asm("div.approx.f32 %0, %1, %2;" : "=f"(d_) : "f"(a), "f"(b));
               d_;
           }),
           (long double)a / b)
#define ASM2(T, letter, op, a, b)                                                                            \
    ({                                                                                                       \
        T d_;                                                                                                \
        asm(op " %0, %1, %2;" : "=" letter(d_) : letter(a), letter(b));                                      \
        d_;                                                                                                  \
    })
#define ASM2F(op, a, b) ASM2(float, "f", op, a, b)
#define ASM2D(op, a, b) ASM2(double, "d", op, a, b)

#define INSTRUCTION(op, sign, m, mode)                                                                       \
    MAP2_NAMED(op m ".f32", float, float, float, ASM2F(op m ".f32", a, b),                                   \
               ROUND(float, mode, x sign y, a, b, 0))                                                        \
    MAP2_NAMED(op m ".f64", double, double, double, ASM2D(op m ".f64", a, b),                                \
               ROUND(double, mode, x sign y, a, b, 0))
#define INSTRUCTIONS(m, mode)                                                                                \
    INSTRUCTION("add", +, m, mode)                                                                           \
    INSTRUCTION("sub", -, m, mode) INSTRUCTION("mul", *, m, mode) INSTRUCTION("div", /, m, mode)
INSTRUCTIONS(".rn", FE_TONEAREST)
INSTRUCTIONS(".rz", FE_TOWARDZERO)
INSTRUCTIONS(".rp", FE_UPWARD)
INSTRUCTIONS(".rm", FE_DOWNWARD)
MAP2_NAMED("add.ftz.f32", float, float, float, ASM2F("add.ftz.f32", a, b), FTZ(FTZ(a) + FTZ(b)))
MAP2_NAMED("mul.ftz.f32", float, float, float, ASM2F("mul.ftz.f32", a, b), FTZ(FTZ(a) * FTZ(b)))
MAP2_NAMED("add.sat.f32", float, float, float, ASM2F("add.sat.f32", a, b),
           a + b > 0 ? a + b < 1 ? a + b : 1 : 0)
MAP2_NAMED("min.f32", float, float, float, conf_zero(ASM2F("min.f32", a, b)), conf_zero(fminf(a, b)))
MAP2_NAMED("max.NaN.f32", float, float, float, conf_zero(ASM2F("max.NaN.f32", a, b)),
           a != a || b != b ? NAN : conf_zero(fmaxf(a, b)))
MAP2_NAMED("copysign.f32", float, float, float, ASM2F("copysign.f32", a, b), copysignf(b, a))
MAP2_NAMED("max.f64", double, double, double, conf_zero(ASM2D("max.f64", a, b)), conf_zero(fmax(a, b)))

// ---- tf32: an f32 with 10 bits after the point ----

// Bits of any f32; of every four two lie halfway between two tf32 or beside that, and some are special.
static __host__ __device__ unsigned tf32_input(unsigned a)
{
    if (a % 16 <
        2) { // infinity, NaN, the largest, halfway to infinity, just below; 0, the smallest; either sign
        unsigned k = a / 16 % 7, b = k == 0   ? 0x7f800000
                                     : k == 1 ? 0x7fc00000
                                     : k == 2 ? 0x7f7fffff
                                     : k == 3 ? 0x7f7ff000
                                     : k == 4 ? 0x7f7fefff
                                              : k - 5;
        return b | a << 31;
    }
    return a % 4 == 2 ? (a & ~0x1fffu) | 0x1000 : a % 4 == 3 ? (a & ~0x1fffu) + (a & 16 ? 0xfff : 0x1001) : a;
}
// In double, where all of it is exact: a multiple of the unit that the exponent has.
static unsigned tf32_of(unsigned bits, double whole(double), bool finite, bool relu)
{
    float a, d;
    unsigned out;
    int e;
    memcpy(&a, &bits, sizeof a);
    if (a != a)
        return 0x7fffffff;
    if (relu && !(a > 0))
        return 0;
    frexp((double)a, &e);
    double unit = ldexp(1, (e < -125 ? -125 : e) - 11), size = fabs((double)a);
    size = isinf(size) ? size : whole(size / unit) * unit;
    if (size >= ldexp(1, 128))
        size = finite ? ldexp(1, 128) - ldexp(1, 117) : HUGE_VAL;
    d = (float)copysign(size, (double)a);
    memcpy(&out, &d, sizeof out);
    return out;
}
static double tf32_away(double x)
{
    return floor(x + 0.5);
}
static double tf32_even(double x)
{
    return nearbyint(x);
}
static double tf32_zero(double x)
{
    return floor(x);
}
#define TF32(op, whole, finite, relu)                                                                        \
    MAP1_NAMED(op, unsigned, unsigned, ({                                                                    \
                   unsigned d_;                                                                              \
                   asm(op " %0, %1;" : "=r"(d_) : "f"(__uint_as_float(tf32_input(a))));                      \
                   d_;                                                                                       \
               }),                                                                                           \
               tf32_of(tf32_input(a), whole, finite, relu))
TF32("cvt.rna.tf32.f32", tf32_away, false, false)
TF32("cvt.rna.satfinite.tf32.f32", tf32_away, true, false)
TF32("cvt.rn.tf32.f32", tf32_even, false, false)
TF32("cvt.rz.tf32.f32", tf32_zero, false, false)
TF32("cvt.rn.relu.tf32.f32", tf32_even, false, true)
TF32("cvt.rz.relu.tf32.f32", tf32_zero, false, true)
CONF_MAIN
