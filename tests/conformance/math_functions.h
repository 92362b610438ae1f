// The math library of CUDA in one precision: math_float.cu and math_double.cu define REAL, F(name of the
// function in double precision) and BY(what float has, what double has). The bounds are those that the CUDA
// C++ programming guide documents. References: the host's library in long double.
#include "math_reference.h"

// EXACT1(f), EXACT2(f): as the host's function of one and of two operands. U1(f, inputs and bound in float,
// in double, reference), U2 and U3 the same for two and three operands.
#define EXACT1(f) EXACT1_(F(f))
#define EXACT1_(f) MAP1(REAL, REAL, f(a), f(a))
#define EXACT2(f) EXACT2_(F(f))
#define EXACT2_(f) MAP2(REAL, REAL, REAL, f(a, b), f(a, b))
#define LONG(f) LONG_(F(f))
#define LONG_(f) MAP1(long long, REAL, f(conf_bounded(a)), f(conf_bounded(a)))
#define ZERO(f) ZERO_(F(f))
#define ZERO_(f) MAP2(REAL, REAL, REAL, conf_zero(f(a, b)), conf_zero(f(a, b)))
#define U1(f, in_float, float_ulp, in_double, double_ulp, want)                                              \
    U1_(F(f), BY(in_float, in_double), BY(float_ulp, double_ulp), want)
#define U1_(f, domain, ulp, want) ULP1(REAL, REAL, domain, ulp, f(a), want)
#define U2(f, domain, float_ulp, double_ulp, want) U2_(F(f), domain, BY(float_ulp, double_ulp), want)
#define U2_(f, domain, ulp, want) ULP2(REAL, REAL, REAL, domain, ulp, f(a, b), want)
#define U3(f, float_ulp, double_ulp, want, ...) U3_(F(f), BY(float_ulp, double_ulp), want, __VA_ARGS__)
#define U3_(f, ulp, want, ...) ULP3(REAL, REAL, REAL, REAL, in(-1e10, 1e10), ulp, f(__VA_ARGS__), want)
#define ORDER(f, domain, want)                                                                               \
    ORDER_(F(f), domain, BY(conf::absolute<float>(2.2e-6, ref), conf::absolute<double>(5e-12, ref)), want)
#define ORDER_(f, domain, ulp, want) ULP1(REAL, REAL, domain, ulp, f(3, a), want)
#define BIG(f) BIG_(F(f), BY(conf::absolute<float>(2.2e-6, ref), conf::absolute<double>(5e-12, ref)), f##l(a))
#define BIG_(f, ulp, want) BIG__(f, ulp, want)
#define BIG__(f, ulp, want) ULP1_NAMED(#f "(a), a > 8", REAL, REAL, in(8, 500), ulp, f(a), want)

static __device__ REAL conf_norm2(REAL a, REAL b)
{
    REAL v[2] = {a, b};
    return F(norm)(2, v);
}
EXACT1(sqrt)
U1(rsqrt, in(1e-30, 1e30), 2, in(1e-30, 1e30), 1, 1 / sqrtl(a))
U1(cbrt, all(), 1, all(), 1, cbrtl(a))
U1(rcbrt, in(-1e30, 1e30), 1, in(-1e30, 1e30), 1, 1 / cbrtl(a))
U2(hypot, in(-1e15, 1e15), 3, 2, hypotl(a, b))
U2(rhypot, in(-1e15, 1e15), 2, 1, 1 / hypotl(a, b))
U3(norm3d, 3, 2, sqrtl((long double)a *a + (long double)b * b + (long double)c * c), a, b, c)
U3(rnorm3d, 2, 1, 1 / sqrtl((long double)a * a + (long double)b * b + (long double)c * c), a, b, c)
U3(norm4d, 3, 2, sqrtl((long double)a *a * 2 + (long double)b * b + (long double)c * c), a, b, c, a)
U3(rnorm4d, 2, 1, 1 / sqrtl((long double)a * a + (long double)b * b * 2 + (long double)c * c), a, b, c, b)
U1(exp, in(-110, 95), 2, in(-750, 715), 1, expl(a))
U1(exp2, in(-152, 130), 2, in(-1080, 1030), 1, exp2l(a))
U1(exp10, in(-46, 39), 2, in(-325, 309), 1, powl(10, a))
U1(expm1, in(-30, 89), 1, in(-50, 710), 1, expm1l(a))
U1(log, in(1e-44, 1e38), 1, in(1e-310, 1e308), 1, logl(a))
U1(log2, in(1e-44, 1e38), 1, in(1e-310, 1e308), 1, log2l(a))
U1(log10, in(1e-44, 1e38), 2, in(1e-310, 1e308), 1, log10l(a))
U1(log1p, in(-0.999, 1e6), 1, in(-0.999, 1e6), 1, log1pl(a))
U1(sin, in(-1e5, 1e5), 2, in(-1e5, 1e5), 2, sinl(a))
U1(cos, in(-1e5, 1e5), 2, in(-1e5, 1e5), 2, cosl(a))
U1(tan, in(-1e5, 1e5), 4, in(-1e5, 1e5), 2, tanl(a))
U1(sinpi, in(-1000, 1000), 1, in(-1000, 1000), 2, conf_sinpi(a))
U1(cospi, in(-1000, 1000), 1, in(-1000, 1000), 2, conf_cospi(a))
U1(asin, in(-1, 1), 4, in(-1, 1), 2, asinl(a))
U1(acos, in(-1, 1), 2, in(-1, 1), 2, acosl(a))
U1(atan, all(), 2, all(), 2, atanl(a))
U2(atan2, all(), 3, 2, atan2l(a, b))
U1(sinh, in(-80, 80), 3, in(-80, 80), 2, sinhl(a))
U1(cosh, in(-80, 80), 2, in(-80, 80), 1, coshl(a))
U1(tanh, in(-20, 20), 2, in(-20, 20), 2, tanhl(a))
U1(asinh, in(-1e10, 1e10), 3, in(-1e10, 1e10), 3, asinhl(a))
U1(acosh, in(1, 1e10), 4, in(1, 1e10), 3, acoshl(a))
U1(atanh, in(-0.9999, 0.9999), 3, in(-0.9999, 0.9999), 2, atanhl(a))
// CUDA says 4 for float. LLVM 19 takes the products and sums of libdevice that are to round for ordinary ones
// and fuses them, with the plugin and without.
U2(pow, in(1e-3, 40), 8, 2, powl(a, b))
U1(erf, in(-5, 5), 2, in(-5, 5), 2, erfl(a))
U1(erfc, in(-4, 10), 4, in(-5, 27), 5, erfcl(a))
U1(erfcx, in(-9, 50), 4, in(-20, 50), 4, conf_erfcx(a))
U1(erfinv, in(-0.999, 0.999), 2, in(-0.999, 0.999), 5, conf_erfinv(a))
U1(erfcinv, in(1e-6, 1.999), 4, in(1e-6, 1.999), 6, conf_erfcinv(a))
U1(normcdf, in(-14, 5), 5, in(-38, 8), 5, erfcl(-a / sqrtl(2)) / 2)
U1(normcdfinv, in(1e-6, 0.999), 5, in(1e-6, 0.999), 8, -sqrtl(2) * conf_erfcinv(2 * (long double)a))
U1(lgamma, in(0.01, 1e6), 6, in(0.01, 1e6), 4, lgammal(a))
U1(tgamma, in(-10, 33), 11, in(-20, 170), 10, tgammal(a))
U1(j0, in(-8, 8), 9, in(-8, 8), 7, j0l(a))
U1(j1, in(-8, 8), 9, in(-8, 8), 7, j1l(a))
U1(y0, in(0.001, 8), 9, in(0.001, 8), 7, y0l(a))
U1(y1, in(0.001, 8), 9, in(0.001, 8), 7, y1l(a))
U1(cyl_bessel_i0, in(-30, 30), 6, in(-30, 30), 6, conf_bessel_i(0, a))
U1(cyl_bessel_i1, in(-30, 30), 6, in(-30, 30), 6, conf_bessel_i(1, a))
ORDER(jn, in(1, 200), jnl(3, a))
ORDER(yn, in(3, 100), ynl(3, a))
ULP2(REAL, REAL, REAL, in(1e-15, 1e15), BY(3, 2), conf_norm2(a, b), hypotl(a, b))
EXACT1(floor)
EXACT1(ceil)
EXACT1(trunc)
EXACT1(round)
EXACT1(rint)
EXACT1(nearbyint)
EXACT1(fabs)
EXACT1(logb)
#define ILOGB(f) MAP1(int, REAL, f(a), a != a || a == 0 ? INT32_MIN : isinf(a) ? INT32_MAX : f(a))
#define ILOGB_(f) ILOGB(f)
ILOGB_(F(ilogb))
LONG(llrint)
LONG(lround)
LONG(llround)
LONG(lrint)
EXACT2(copysign)
EXACT2(fdim)
EXACT2(fmod)
EXACT2(remainder)
EXACT2(nextafter)
ZERO(fmax)
ZERO(fmin)
#define REST_(fma, ldexp, scalbn, scalbln)                                                                   \
    MAP3(REAL, REAL, REAL, REAL, fma(a, b, c), fma(a, b, c))                                                 \
    MAP2(REAL, REAL, int, ldexp(a, b % 300), ldexp(a, b % 300))                                              \
    MAP2(REAL, REAL, int, scalbn(a, b % 300), scalbn(a, b % 300))                                            \
    MAP2(REAL, REAL, int, scalbln(a, (long)b % 100), scalbn(a, b % 100))
#define REST(...) REST_(__VA_ARGS__)
REST(F(fma), F(ldexp), F(scalbn), F(scalbln))
// The value of statements, as on the host.
#define TWICE(name, R, value) MAP1_NAMED(name, R, REAL, ({ value; }), ({ value; }))
#define SPLIT_(frexp, modf)                                                                                  \
    TWICE(CONF_TEXT(frexp) "(a, &e), e", int, int e; frexp(conf_bounded(a), &e); e)                          \
    TWICE(CONF_TEXT(frexp) "(a, &e)", REAL, int e; frexp(a, &e))                                             \
    TWICE(CONF_TEXT(modf) "(a, &w)", REAL, REAL w; modf(a, &w))                                              \
    TWICE(CONF_TEXT(modf) "(a, &w), w", REAL, REAL w; modf(a, &w); w)
#define SPLIT(...) SPLIT_(__VA_ARGS__)
SPLIT(F(frexp), F(modf))
MAP2_NAMED(CONF_TEXT(F(remquo)) "(a, b, &q), q", int, REAL, REAL, conf_quotient(a, b), conf_quotient(a, b))
MAP1(int, REAL, (int)isnan(a) + 2 * (int)isinf(a) + 4 * (int)isfinite(a) + 8 * (int)signbit(a),
     (int)(a != a) + 2 * (a == a && a - a != a - a) + 4 * (a - a == a - a) + 8 * (__builtin_signbit(a) != 0))
MAP2_NAMED("a + b", REAL, REAL, REAL, a + b, a + b)
MAP2_NAMED("a - b", REAL, REAL, REAL, a - b, a - b)
MAP2_NAMED("a * b", REAL, REAL, REAL, a *b, a *b)
MAP2_NAMED("a / b", REAL, REAL, REAL, a / b, a / b)
// Sine and cosine at once, or one of the two: as by their own functions.
#define BOTH_(name, f, holds)                                                                                \
    MAP1_NAMED(name, REAL, REAL,                                                                             \
               ({                                                                                            \
                   REAL x, y;                                                                                \
                   f(conf_bounded(a), &x, &y);                                                               \
                   holds;                                                                                    \
               }) ||                                                                                         \
                   a != a,                                                                                   \
               1)
#define BOTH(...) BOTH_(__VA_ARGS__)
BOTH(CONF_TEXT(F(sincos)) ", sine", F(sincos), x == F(sin)(conf_bounded(a)))
BOTH(CONF_TEXT(F(sincos)) ", cosine", F(sincos), y == F(cos)(conf_bounded(a)))
BOTH(CONF_TEXT(F(sincospi)), F(sincospi), x == F(sinpi)(conf_bounded(a)) && y == F(cospi)(conf_bounded(a)))
BIG(j0)
BIG(j1)
BIG(y0)
BIG(y1)
