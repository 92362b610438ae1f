// The math library of CUDA in double precision, with the bounds that the CUDA C++ programming guide
// documents. References: the host's library in long double.
#include "map.h"
#include "math_reference.h"
static __device__ double conf_norm2(double a, double b)
{
    double v[2] = {a, b};
    return norm(2, v);
}
MAP1(double, double, sqrt(a), sqrt(a))
ULP1(double, double, in(1e-30, 1e30), 1, rsqrt(a), 1 / sqrtl(a))
ULP1(double, double, all(), 1, cbrt(a), cbrtl(a))
ULP1(double, double, in(-1e30, 1e30), 1, rcbrt(a), 1 / cbrtl(a))
ULP2(double, double, double, in(-1e15, 1e15), 2, hypot(a, b), hypotl(a, b))
ULP2(double, double, double, in(-1e15, 1e15), 1, rhypot(a, b), 1 / hypotl(a, b))
ULP3(double, double, double, double, in(-1e10, 1e10), 2, norm3d(a, b, c),
     sqrtl((long double)a *a + (long double)b * b + (long double)c * c))
ULP3(double, double, double, double, in(-1e10, 1e10), 1, rnorm3d(a, b, c),
     1 / sqrtl((long double)a * a + (long double)b * b + (long double)c * c))
ULP3(double, double, double, double, in(-1e10, 1e10), 2, norm4d(a, b, c, a),
     sqrtl((long double)a *a * 2 + (long double)b * b + (long double)c * c))
ULP3(double, double, double, double, in(-1e10, 1e10), 1, rnorm4d(a, b, c, b),
     1 / sqrtl((long double)a * a + (long double)b * b * 2 + (long double)c * c))
ULP1(double, double, in(-750, 715), 1, exp(a), expl(a))
ULP1(double, double, in(-1080, 1030), 1, exp2(a), exp2l(a))
ULP1(double, double, in(-325, 309), 1, exp10(a), powl(10, a))
ULP1(double, double, in(-50, 710), 1, expm1(a), expm1l(a))
ULP1(double, double, in(1e-310, 1e308), 1, log(a), logl(a))
ULP1(double, double, in(1e-310, 1e308), 1, log2(a), log2l(a))
ULP1(double, double, in(1e-310, 1e308), 1, log10(a), log10l(a))
ULP1(double, double, in(-0.999, 1e6), 1, log1p(a), log1pl(a))
ULP1(double, double, in(-1e5, 1e5), 2, sin(a), sinl(a))
ULP1(double, double, in(-1e5, 1e5), 2, cos(a), cosl(a))
ULP1(double, double, in(-1e5, 1e5), 2, tan(a), tanl(a))
ULP1(double, double, in(-1000, 1000), 2, sinpi(a), conf_sinpi(a))
ULP1(double, double, in(-1000, 1000), 2, cospi(a), conf_cospi(a))
ULP1(double, double, in(-1, 1), 2, asin(a), asinl(a))
ULP1(double, double, in(-1, 1), 2, acos(a), acosl(a))
ULP1(double, double, all(), 2, atan(a), atanl(a))
ULP2(double, double, double, all(), 2, atan2(a, b), atan2l(a, b))
ULP1(double, double, in(-80, 80), 2, sinh(a), sinhl(a))
ULP1(double, double, in(-80, 80), 1, cosh(a), coshl(a))
ULP1(double, double, in(-20, 20), 2, tanh(a), tanhl(a))
ULP1(double, double, in(-1e10, 1e10), 3, asinh(a), asinhl(a))
ULP1(double, double, in(1, 1e10), 3, acosh(a), acoshl(a))
ULP1(double, double, in(-0.9999, 0.9999), 2, atanh(a), atanhl(a))
ULP2(double, double, double, in(1e-3, 40), 2, pow(a, b), powl(a, b))
ULP1(double, double, in(-5, 5), 2, erf(a), erfl(a))
ULP1(double, double, in(-5, 27), 5, erfc(a), erfcl(a))
ULP1(double, double, in(-20, 50), 4, erfcx(a), conf_erfcx(a))
ULP1(double, double, in(-0.999, 0.999), 5, erfinv(a), conf_erfinv(a))
ULP1(double, double, in(1e-6, 1.999), 6, erfcinv(a), conf_erfcinv(a))
ULP1(double, double, in(-38, 8), 5, normcdf(a), erfcl(-a / sqrtl(2)) / 2)
ULP1(double, double, in(1e-6, 0.999), 8, normcdfinv(a), -sqrtl(2) * conf_erfcinv(2 * (long double)a))
ULP1(double, double, in(0.01, 1e6), 4, lgamma(a), lgammal(a))
ULP1(double, double, in(-20, 170), 10, tgamma(a), tgammal(a))
ULP1(double, double, in(-8, 8), 7, j0(a), j0l(a))
ULP1(double, double, in(-8, 8), 7, j1(a), j1l(a))
ULP1(double, double, in(0.001, 8), 7, y0(a), y0l(a))
ULP1(double, double, in(0.001, 8), 7, y1(a), y1l(a))
ULP1(double, double, in(-30, 30), 6, cyl_bessel_i0(a), conf_bessel_i(0, a))
ULP1(double, double, in(-30, 30), 6, cyl_bessel_i1(a), conf_bessel_i(1, a))
MAP1(double, double, floor(a), floor(a))
MAP1(double, double, ceil(a), ceil(a))
MAP1(double, double, trunc(a), trunc(a))
MAP1(double, double, round(a), round(a))
MAP1(double, double, rint(a), rint(a))
MAP1(double, double, nearbyint(a), nearbyint(a))
MAP1(double, double, fabs(a), fabs(a))
MAP1(double, double, logb(a), logb(a))
MAP1(int, double, ilogb(a), a != a || a == 0 ? INT32_MIN : isinf(a) ? INT32_MAX : ilogb(a))
MAP1(long long, double, llrint(conf_bounded(a)), llrint(conf_bounded(a)))
MAP1(long long, double, lround(conf_bounded(a)), lround(conf_bounded(a)))
MAP1(long long, double, llround(conf_bounded(a)), llround(conf_bounded(a)))
MAP1(long long, double, lrint(conf_bounded(a)), lrint(conf_bounded(a)))
MAP2(double, double, double, copysign(a, b), copysign(a, b))
MAP2(double, double, double, fdim(a, b), fdim(a, b))
MAP2(double, double, double, fmod(a, b), fmod(a, b))
MAP2(double, double, double, remainder(a, b), remainder(a, b))
MAP2(double, double, double, nextafter(a, b), nextafter(a, b))
MAP2(double, double, double, conf_zero(fmax(a, b)), conf_zero(fmax(a, b)))
MAP2(double, double, double, conf_zero(fmin(a, b)), conf_zero(fmin(a, b)))
MAP3(double, double, double, double, fma(a, b, c), fma(a, b, c))
MAP2(double, double, int, ldexp(a, b % 300), ldexp(a, b % 300))
MAP2(double, double, int, scalbn(a, b % 300), scalbn(a, b % 300))
MAP2(double, double, int, scalbln(a, (long)b % 100), scalbn(a, b % 100))
MAP1_NAMED("frexp(a, &e), e", int, double, ({
               int e;
               frexp(conf_bounded(a), &e);
               e;
           }),
           ({
               int e;
               frexp(conf_bounded(a), &e);
               e;
           }))
MAP1_NAMED("frexp(a, &e)", double, double, ({
               int e;
               frexp(a, &e);
           }),
           ({
               int e;
               frexp(a, &e);
           }))
MAP1_NAMED("modf(a, &w)", double, double, ({
               double w;
               modf(a, &w);
           }),
           ({
               double w;
               modf(a, &w);
           }))
MAP1_NAMED("modf(a, &w), w", double, double, ({
               double w;
               modf(a, &w);
               w;
           }),
           ({
               double w;
               modf(a, &w);
               w;
           }))
MAP2_NAMED("remquo(a, b, &q), q", int, double, double, conf_quotient(a, b), conf_quotient(a, b))
MAP1(int, double, (int)isnan(a) + 2 * (int)isinf(a) + 4 * (int)isfinite(a) + 8 * (int)signbit(a),
     (int)(a != a) + 2 * (a == a && a - a != a - a) + 4 * (a - a == a - a) + 8 * (__builtin_signbit(a) != 0))
MAP2_NAMED("a + b", double, double, double, a + b, a + b)
MAP2_NAMED("a - b", double, double, double, a - b, a - b)
MAP2_NAMED("a * b", double, double, double, a *b, a *b)
MAP2_NAMED("a / b", double, double, double, a / b, a / b)
MAP1_NAMED("sincos, sine", double, double,
           ({
               double x, y;
               sincos(conf_bounded(a), &x, &y);
               x;
           }) == sin(conf_bounded(a)) ||
               a != a,
           1)
MAP1_NAMED("sincos, cosine", double, double,
           ({
               double x, y;
               sincos(conf_bounded(a), &x, &y);
               y;
           }) == cos(conf_bounded(a)) ||
               a != a,
           1)
MAP1_NAMED("sincospi", double, double,
           ({
               double x, y;
               sincospi(conf_bounded(a), &x, &y);
               x == sinpi(conf_bounded(a)) && y == cospi(conf_bounded(a));
           }) ||
               a != a,
           1)
ULP1_NAMED("j0(a), a > 8", double, double, in(8, 500), conf::absolute<double>(5e-12, ref), j0(a), j0l(a))
ULP1_NAMED("j1(a), a > 8", double, double, in(8, 500), conf::absolute<double>(5e-12, ref), j1(a), j1l(a))
ULP1_NAMED("y0(a), a > 8", double, double, in(8, 500), conf::absolute<double>(5e-12, ref), y0(a), y0l(a))
ULP1_NAMED("y1(a), a > 8", double, double, in(8, 500), conf::absolute<double>(5e-12, ref), y1(a), y1l(a))
ULP1(double, double, in(1, 200), conf::absolute<double>(5e-12, ref), jn(3, a), jnl(3, a))
ULP1(double, double, in(3, 100), conf::absolute<double>(5e-12, ref), yn(3, a), ynl(3, a))
ULP2(double, double, double, in(1e-15, 1e15), 2, conf_norm2(a, b), hypotl(a, b))
// Coefficients of sine and cosine lie in global memory.
TABLE("sin(a)", 3, 16)
TABLE("cos(a)", 3, 16)
TABLE("sinpi(a)", 3, 16)
TABLE("cospi(a)", 3, 16)
TABLE("sincos, sine", 3, 16)
TABLE("sincos, cosine", 3, 16)
TABLE("sincospi", 6, 16)
TABLE("tgamma(a)", -1, 16)
TABLE("j0(a), a > 8", -1, 16)
TABLE("j1(a), a > 8", -1, 16)
TABLE("y0(a), a > 8", -1, 16)
TABLE("y1(a), a > 8", -1, 16)
TABLE("jn(3, a)", -1, 16)
TABLE("yn(3, a)", -1, 16)
CONF_MAIN
