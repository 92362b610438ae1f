// References for functions that the host's library lacks, in long double.
#ifndef CONF_MATH_REFERENCE_H
#define CONF_MATH_REFERENCE_H
#include <math.h>

static inline long double conf_sinpi(long double a)
{
    long double r = remainderl(a, 2); // exact, in [-1, 1]
    if (fabsl(r) > 0.5L)
        r = copysignl(1, r) - r;
    return fabsl(r) <= 0.25L ? sinl(M_PIl * r) : copysignl(cosl(M_PIl * (0.5L - fabsl(r))), r);
}
static inline long double conf_cospi(long double a)
{
    long double r = fabsl(remainderl(a, 2));
    return r <= 0.25L ? cosl(M_PIl * r) : r <= 0.75L ? sinl(M_PIl * (0.5L - r)) : -cosl(M_PIl * (1 - r));
}

// exp(a*a) * erfc(a); for large a by its continued fraction.
static inline long double conf_erfcx(long double a)
{
    if (a < 10)
        return expl(a * a) * erfcl(a);
    long double f = a;
    for (int k = 60; k > 0; k--)
        f = a + k / 2.0L / f;
    return 1 / (f * sqrtl(M_PIl));
}

// The zero of a falling (sign -1) or rising function by bisection.
template <class F> long double conf_solve(F f, long double lo, long double hi)
{
    bool rises = f(hi) > f(lo);
    for (int i = 0; i < 200; i++) {
        long double mid = (lo + hi) / 2;
        if ((f(mid) < 0) == rises)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}
static inline long double conf_erfcinv(long double a)
{
    return conf_solve([a](long double x) { return erfcl(x) - a; }, -10, 30);
}
static inline long double conf_erfinv(long double a)
{
    if (a == 0)
        return a;
    return copysignl(conf_solve([a](long double x) { return erfl(x) - fabsl(a); }, 0, 10), a);
}

// Modified Bessel function of the first kind, order 0 or 1: its power series has positive terms only.
static inline long double conf_bessel_i(int order, long double a)
{
    long double q = a * a / 4, term = order ? a / 2 : 1, sum = term;
    for (int k = 1; k < 400; k++)
        sum += term *= q / k / (k + order);
    return sum;
}

// Inside the range of what can be compared.
template <class T> __host__ __device__ T conf_bounded(T a)
{
    return a > -1e5 && a < 1e5 ? a : (T)0.75;
}
// -0 and +0 are the same: fmin and fmax may give either.
template <class T> __host__ __device__ T conf_zero(T a)
{
    return a == 0 ? 0 : a;
}
// The low bits of the quotient that remquo gives; 0 where it is not defined.
template <class T> __host__ __device__ int conf_quotient(T a, T b)
{
    int q = 0;
    if (!(a - a == 0) || !(b - b == 0) || b == 0)
        return 0;
    remquo(a, b, &q);
    return q & 7;
}
#endif
