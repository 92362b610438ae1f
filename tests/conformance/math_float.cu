// The math library of CUDA in single precision, with the bounds that the CUDA C++ programming guide
// documents. References: the host's library in long double.
#include "map.h"
#include "math_reference.h"
static __device__ float conf_norm2(float a, float b)
{
    float v[2] = {a, b};
    return normf(2, v);
}
MAP1(float, float, sqrtf(a), sqrtf(a))
ULP1(float, float, in(1e-30, 1e30), 2, rsqrtf(a), 1 / sqrtl(a))
ULP1(float, float, all(), 1, cbrtf(a), cbrtl(a))
ULP1(float, float, in(-1e30, 1e30), 1, rcbrtf(a), 1 / cbrtl(a))
ULP2(float, float, float, in(-1e15, 1e15), 3, hypotf(a, b), hypotl(a, b))
ULP2(float, float, float, in(-1e15, 1e15), 2, rhypotf(a, b), 1 / hypotl(a, b))
ULP3(float, float, float, float, in(-1e10, 1e10), 3, norm3df(a, b, c),
     sqrtl((long double)a *a + (long double)b * b + (long double)c * c))
ULP3(float, float, float, float, in(-1e10, 1e10), 2, rnorm3df(a, b, c),
     1 / sqrtl((long double)a * a + (long double)b * b + (long double)c * c))
ULP3(float, float, float, float, in(-1e10, 1e10), 3, norm4df(a, b, c, a),
     sqrtl((long double)a *a * 2 + (long double)b * b + (long double)c * c))
ULP3(float, float, float, float, in(-1e10, 1e10), 2, rnorm4df(a, b, c, b),
     1 / sqrtl((long double)a * a + (long double)b * b * 2 + (long double)c * c))
ULP1(float, float, in(-110, 95), 2, expf(a), expl(a))
ULP1(float, float, in(-152, 130), 2, exp2f(a), exp2l(a))
ULP1(float, float, in(-46, 39), 2, exp10f(a), powl(10, a))
ULP1(float, float, in(-30, 89), 1, expm1f(a), expm1l(a))
ULP1(float, float, in(1e-44, 1e38), 1, logf(a), logl(a))
ULP1(float, float, in(1e-44, 1e38), 1, log2f(a), log2l(a))
ULP1(float, float, in(1e-44, 1e38), 2, log10f(a), log10l(a))
ULP1(float, float, in(-0.999, 1e6), 1, log1pf(a), log1pl(a))
ULP1(float, float, in(-1e5, 1e5), 2, sinf(a), sinl(a))
ULP1(float, float, in(-1e5, 1e5), 2, cosf(a), cosl(a))
ULP1(float, float, in(-1e5, 1e5), 4, tanf(a), tanl(a))
ULP1(float, float, in(-1000, 1000), 1, sinpif(a), conf_sinpi(a))
ULP1(float, float, in(-1000, 1000), 1, cospif(a), conf_cospi(a))
ULP1(float, float, in(-1, 1), 4, asinf(a), asinl(a))
ULP1(float, float, in(-1, 1), 2, acosf(a), acosl(a))
ULP1(float, float, all(), 2, atanf(a), atanl(a))
ULP2(float, float, float, all(), 3, atan2f(a, b), atan2l(a, b))
ULP1(float, float, in(-80, 80), 3, sinhf(a), sinhl(a))
ULP1(float, float, in(-80, 80), 2, coshf(a), coshl(a))
ULP1(float, float, in(-20, 20), 2, tanhf(a), tanhl(a))
ULP1(float, float, in(-1e10, 1e10), 3, asinhf(a), asinhl(a))
ULP1(float, float, in(1, 1e10), 4, acoshf(a), acoshl(a))
ULP1(float, float, in(-0.9999, 0.9999), 3, atanhf(a), atanhl(a))
// CUDA says 4. LLVM 19 takes the products and sums of libdevice that are to round for ordinary ones and fuses
// them, with the plugin and without.
ULP2(float, float, float, in(1e-3, 40), 8, powf(a, b), powl(a, b))
ULP1(float, float, in(-5, 5), 2, erff(a), erfl(a))
ULP1(float, float, in(-4, 10), 4, erfcf(a), erfcl(a))
ULP1(float, float, in(-9, 50), 4, erfcxf(a), conf_erfcx(a))
ULP1(float, float, in(-0.999, 0.999), 2, erfinvf(a), conf_erfinv(a))
ULP1(float, float, in(1e-6, 1.999), 4, erfcinvf(a), conf_erfcinv(a))
ULP1(float, float, in(-14, 5), 5, normcdff(a), erfcl(-a / sqrtl(2)) / 2)
ULP1(float, float, in(1e-6, 0.999), 5, normcdfinvf(a), -sqrtl(2) * conf_erfcinv(2 * (long double)a))
ULP1(float, float, in(0.01, 1e6), 6, lgammaf(a), lgammal(a))
ULP1(float, float, in(-10, 33), 11, tgammaf(a), tgammal(a))
ULP1(float, float, in(-8, 8), 9, j0f(a), j0l(a))
ULP1(float, float, in(-8, 8), 9, j1f(a), j1l(a))
ULP1(float, float, in(0.001, 8), 9, y0f(a), y0l(a))
ULP1(float, float, in(0.001, 8), 9, y1f(a), y1l(a))
ULP1(float, float, in(-30, 30), 6, cyl_bessel_i0f(a), conf_bessel_i(0, a))
ULP1(float, float, in(-30, 30), 6, cyl_bessel_i1f(a), conf_bessel_i(1, a))
MAP1(float, float, floorf(a), floorf(a))
MAP1(float, float, ceilf(a), ceilf(a))
MAP1(float, float, truncf(a), truncf(a))
MAP1(float, float, roundf(a), roundf(a))
MAP1(float, float, rintf(a), rintf(a))
MAP1(float, float, nearbyintf(a), nearbyintf(a))
MAP1(float, float, fabsf(a), fabsf(a))
MAP1(float, float, logbf(a), logbf(a))
MAP1(int, float, ilogbf(a), a != a || a == 0 ? INT32_MIN : isinf(a) ? INT32_MAX : ilogbf(a))
MAP1(long long, float, llrintf(conf_bounded(a)), llrintf(conf_bounded(a)))
MAP1(long long, float, lroundf(conf_bounded(a)), lroundf(conf_bounded(a)))
MAP1(long long, float, llroundf(conf_bounded(a)), llroundf(conf_bounded(a)))
MAP1(long long, float, lrintf(conf_bounded(a)), lrintf(conf_bounded(a)))
MAP2(float, float, float, copysignf(a, b), copysignf(a, b))
MAP2(float, float, float, fdimf(a, b), fdimf(a, b))
MAP2(float, float, float, fmodf(a, b), fmodf(a, b))
MAP2(float, float, float, remainderf(a, b), remainderf(a, b))
MAP2(float, float, float, nextafterf(a, b), nextafterf(a, b))
MAP2(float, float, float, conf_zero(fmaxf(a, b)), conf_zero(fmaxf(a, b)))
MAP2(float, float, float, conf_zero(fminf(a, b)), conf_zero(fminf(a, b)))
MAP3(float, float, float, float, fmaf(a, b, c), fmaf(a, b, c))
MAP2(float, float, int, ldexpf(a, b % 300), ldexpf(a, b % 300))
MAP2(float, float, int, scalbnf(a, b % 300), scalbnf(a, b % 300))
MAP2(float, float, int, scalblnf(a, (long)b % 100), scalbnf(a, b % 100))
MAP1_NAMED("frexpf(a, &e), e", int, float, ({
               int e;
               frexpf(conf_bounded(a), &e);
               e;
           }),
           ({
               int e;
               frexpf(conf_bounded(a), &e);
               e;
           }))
MAP1_NAMED("frexpf(a, &e)", float, float, ({
               int e;
               frexpf(a, &e);
           }),
           ({
               int e;
               frexpf(a, &e);
           }))
MAP1_NAMED("modff(a, &w)", float, float, ({
               float w;
               modff(a, &w);
           }),
           ({
               float w;
               modff(a, &w);
           }))
MAP1_NAMED("modff(a, &w), w", float, float, ({
               float w;
               modff(a, &w);
               w;
           }),
           ({
               float w;
               modff(a, &w);
               w;
           }))
MAP2_NAMED("remquof(a, b, &q), q", int, float, float, conf_quotient(a, b), conf_quotient(a, b))
MAP1(int, float, (int)isnan(a) + 2 * (int)isinf(a) + 4 * (int)isfinite(a) + 8 * (int)signbit(a),
     (int)(a != a) + 2 * (a == a && a - a != a - a) + 4 * (a - a == a - a) + 8 * (__builtin_signbit(a) != 0))
MAP2_NAMED("a + b", float, float, float, a + b, a + b)
MAP2_NAMED("a - b", float, float, float, a - b, a - b)
MAP2_NAMED("a * b", float, float, float, a *b, a *b)
MAP2_NAMED("a / b", float, float, float, a / b, a / b)
MAP1_NAMED("sincosf, sine", float, float,
           ({
               float x, y;
               sincosf(conf_bounded(a), &x, &y);
               x;
           }) == sinf(conf_bounded(a)) ||
               a != a,
           1)
MAP1_NAMED("sincosf, cosine", float, float,
           ({
               float x, y;
               sincosf(conf_bounded(a), &x, &y);
               y;
           }) == cosf(conf_bounded(a)) ||
               a != a,
           1)
MAP1_NAMED("sincospif", float, float,
           ({
               float x, y;
               sincospif(conf_bounded(a), &x, &y);
               x == sinpif(conf_bounded(a)) && y == cospif(conf_bounded(a));
           }) ||
               a != a,
           1)
ULP1_NAMED("j0f(a), a > 8", float, float, in(8, 500), conf::absolute<float>(2.2e-6, ref), j0f(a), j0l(a))
ULP1_NAMED("j1f(a), a > 8", float, float, in(8, 500), conf::absolute<float>(2.2e-6, ref), j1f(a), j1l(a))
ULP1_NAMED("y0f(a), a > 8", float, float, in(8, 500), conf::absolute<float>(2.2e-6, ref), y0f(a), y0l(a))
ULP1_NAMED("y1f(a), a > 8", float, float, in(8, 500), conf::absolute<float>(2.2e-6, ref), y1f(a), y1l(a))
ULP1(float, float, in(1, 200), conf::absolute<float>(2.2e-6, ref), jnf(3, a), jnl(3, a))
ULP1(float, float, in(3, 100), conf::absolute<float>(2.2e-6, ref), ynf(3, a), ynl(3, a))
ULP2(float, float, float, in(1e-15, 1e15), 3, conf_norm2(a, b), hypotl(a, b))
// Beyond 105615 the reduction reads the six words of 2/pi from global memory.
ULP1_NAMED("sinf(a), a > 2e5", float, float, in(2e5, 1e30), 2, sinf(a), sinl(a))
ULP1_NAMED("cosf(a), a > 2e5", float, float, in(2e5, 1e30), 2, cosf(a), cosl(a))
ULP1_NAMED("tanf(a), a > 2e5", float, float, in(2e5, 1e30), 4, tanf(a), tanl(a))
TABLE("sinf(a), a > 2e5", 6, 4)
TABLE("cosf(a), a > 2e5", 6, 4)
TABLE("tanf(a), a > 2e5", 6, 4)
CONF_MAIN
