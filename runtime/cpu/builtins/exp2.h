/* 2^x for floats, without branches or calls, so that loops over threads and warps vectorise: less than one
 * unit in the last place from the exact result (PTX allows 2^-22, four of them). */
#ifndef MT_EXP2_H
#define MT_EXP2_H
#include "builtin.h"

static MT_INLINE float mt_power_of_two(int n)
{
    return mt_f32((uint32_t)(n + 127) << 23);
}

/* x = k + r with |r| <= 1/2; 2^r by a polynomial through six points, whose own error is 2^-27; 2^k in two
 * steps, as neither 2^128 nor 2^-151 is a float. Beyond the clamps the float is infinite or zero anyway; a
 * NaN passes the comparisons. */
static MT_INLINE float mt_exp2f(float x)
{
    const float shift = 0x1.8p23f; /* adding it leaves the nearest whole number in the low bits */
    float d = x > 128 ? 128 : x;
    d = d < -151 ? -151 : d;
    float t = d + shift, r = d - (t - shift), p = 0x1.44138ap-13f;
    int k = (int)(mt_u32(t) - mt_u32(shift)), half = k >> 1;
    p = __builtin_fmaf(p, r, 0x1.5f0890p-10f);
    p = __builtin_fmaf(p, r, 0x1.3b2a54p-7f);
    p = __builtin_fmaf(p, r, 0x1.c6af6cp-5f);
    p = __builtin_fmaf(p, r, 0x1.ebfbe0p-3f);
    p = __builtin_fmaf(p, r, 0x1.62e430p-1f);
    p = __builtin_fmaf(p, r, 1.0f);
    return p * mt_power_of_two(half) * mt_power_of_two(k - half);
}
#endif
