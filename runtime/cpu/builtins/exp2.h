/* 2^x for floats, computed in double precision without branches or calls, so that loops over threads
 * vectorise: at most 0.501 units in the last place from the exact result. */
#ifndef MT_EXP2_H
#define MT_EXP2_H
#include "builtin.h"

/* x = k + r with |r| <= 1/2; 2^r by its power series, ln(2)^n / n!, of which the eleventh term is below
 * 2^-41. Beyond the clamps the float is infinite or zero anyway; a NaN passes the comparisons, and its low
 * bits are 0. */
static MT_INLINE float mt_exp2f(float x)
{
    const double shift = 0x1.8p52; /* adding it leaves the nearest whole number in the low bits */
    double d = x;
    d = d > 130 ? 130 : d;
    d = d < -160 ? -160 : d;
    double t = d + shift, r = d - (t - shift), p = 0x1.e4cf5158b8ecap-28;
    p = __builtin_fma(p, r, 0x1.b5253d395e7c4p-24);
    p = __builtin_fma(p, r, 0x1.62c0223a5c824p-20);
    p = __builtin_fma(p, r, 0x1.ffcbfc588b0c7p-17);
    p = __builtin_fma(p, r, 0x1.430912f86c787p-13);
    p = __builtin_fma(p, r, 0x1.5d87fe78a6731p-10);
    p = __builtin_fma(p, r, 0x1.3b2ab6fba4e77p-7);
    p = __builtin_fma(p, r, 0x1.c6b08d704a0c0p-5);
    p = __builtin_fma(p, r, 0x1.ebfbdff82c58fp-3);
    p = __builtin_fma(p, r, 0x1.62e42fefa39efp-1);
    p = __builtin_fma(p, r, 1.0);
    return (float)mt_f64(mt_u64(p) + (mt_u64(t) << 52));
}
#endif
