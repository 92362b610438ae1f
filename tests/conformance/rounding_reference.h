// The host's arithmetic in a given rounding mode.
#ifndef CONF_ROUNDING_REFERENCE_H
#define CONF_ROUNDING_REFERENCE_H
#include <fenv.h>

// The expression of x, y, z (copies of a, b, c that the compiler does not know) in the type T, rounded as
// `mode` says.
#define ROUND(T, mode, expression, a, b, c)                                                                  \
    ({                                                                                                       \
        volatile T x = a, y = b, z = c;                                                                      \
        (void)x, (void)y, (void)z;                                                                           \
        fesetround(mode);                                                                                    \
        volatile T rounded = (expression);                                                                   \
        fesetround(FE_TONEAREST);                                                                            \
        (T) rounded;                                                                                         \
    })
#define ROUND_FROM(T, from, mode, a)                                                                         \
    ({                                                                                                       \
        volatile from x = a;                                                                                 \
        fesetround(mode);                                                                                    \
        volatile T rounded = std::is_integral<from>::value && x == 0 ? 0 : (T)x;                             \
        fesetround(FE_TONEAREST);                                                                            \
        (T) rounded;                                                                                         \
    })
#define FTZ(a) (fabsf(a) < FLT_MIN ? copysignf(0, a) : (a))

// To an integer: rounded, and kept in lo..hi; NaN gives `nan`.
template <class R> R conf_to_integer(long double a, int mode, long double lo, long double hi, R nan)
{
    if (a != a)
        return nan;
    fesetround(mode);
    volatile long double x = rintl(a);
    fesetround(FE_TONEAREST);
    return x < lo ? (R)lo : x > hi ? (R)hi : (R)x;
}
template <class T> __host__ __device__ T conf_zero(T a) // -0 and +0 are the same
{
    return a == 0 ? 0 : a;
}
#endif
