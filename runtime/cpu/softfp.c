/* Conversions that the x86-64 back end calls by name from an image and that the system's compiler runtime
 * may lack (libgcc before 13 has none for bfloat16). They round to nearest even. Half and bfloat16 values
 * are in the low 16 bits of an SSE register. */
#include <stdint.h>
#include <string.h>
#include <immintrin.h>

#define EXPORT __attribute__((visibility("default")))

static uint16_t bf16_from_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Converts to float and makes the last bit odd if anything was lost: a second rounding is then exact. */
static float round_to_odd(double x)
{
    float f = (float)x;
    uint32_t u;
    double back = f;
    if (back == x || x != x)
        return f;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffff) ==
        0x7f800000) /* beyond the largest float: stays there, or becomes infinity when rounded later */
        u -= 1;
    else if ((back > x) == (x > 0)) /* rounded away from zero: back towards it */
        u -= 1;
    u |= 1;
    memcpy(&f, &u, 4);
    return f;
}

static __m128i in_sse(uint16_t bits)
{
    return _mm_cvtsi32_si128(bits);
}

EXPORT __m128i __truncsfbf2(float x)
{
    return in_sse(bf16_from_float(x));
}

EXPORT __m128i __truncdfbf2(double x)
{
    return in_sse(bf16_from_float(round_to_odd(x)));
}

static float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023, u;
    float f;
    if (e == 31)
        u = sign | 0x7f800000 | m << 13 | (m ? 0x400000 : 0);
    else if (e)
        u = sign | (e + 112) << 23 | m << 13;
    else {
        f = (float)m * 0x1p-24f;
        memcpy(&u, &f, 4);
        u |= sign;
    }
    memcpy(&f, &u, 4);
    return f;
}

static uint16_t half_from_float(float x)
{
    uint32_t u, sign, m, half, rest;
    int e;
    memcpy(&u, &x, 4);
    sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    e = (int)(u >> 23) - 112;
    if (e <= 0) { /* denormal half: shift the whole significand down */
        if (e < -10)
            return (uint16_t)sign;
        m = (u & 0x7fffff) | 0x800000;
        int shift = 14 - e;
        half = m >> shift;
        rest = m & ((1u << shift) - 1);
        half += rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (half & 1));
        return (uint16_t)(sign | half);
    }
    half = (uint32_t)e << 10 | (u >> 13 & 0x3ff);
    rest = u & 0x1fff;
    half += rest > 0x1000 || (rest == 0x1000 && (half & 1));
    return (uint16_t)(sign | half);
}

EXPORT __m128i __truncsfhf2(float x)
{
    return in_sse(half_from_float(x));
}

EXPORT __m128i __truncdfhf2(double x)
{
    return in_sse(half_from_float(round_to_odd(x)));
}

EXPORT float __extendhfsf2(__m128i x)
{
    return half_to_float((uint16_t)_mm_cvtsi128_si32(x));
}
