// Types of 16 and 8 bits as bits: the kernels' operands are whole numbers,
// so that loads and stores have one size.
#ifndef CONF_HALF_REFERENCE_H
#define CONF_HALF_REFERENCE_H
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
typedef unsigned short u16;
typedef unsigned u32;

static __host__ __device__ __half h(u16 x)
{
    return __half(__half_raw{x});
}
static __host__ __device__ u16 bits(__half x)
{
    return ((__half_raw)x).x;
}
static __host__ __device__ __nv_bfloat16 b16(u16 x)
{
    return __nv_bfloat16(__nv_bfloat16_raw{x});
}
static __host__ __device__ u16 bits(__nv_bfloat16 x)
{
    return ((__nv_bfloat16_raw)x).x;
}
static __host__ __device__ __half2 h2(u32 x)
{
    return __half2(h(x & 0xffff), h(x >> 16));
}
static __host__ __device__ u32 bits(__half2 x)
{
    return bits(__low2half(x)) | (u32)bits(__high2half(x)) << 16;
}
static __host__ __device__ __nv_bfloat162 b162(u32 x)
{
    return __nv_bfloat162(b16(x & 0xffff), b16(x >> 16));
}
static __host__ __device__ u32 bits(__nv_bfloat162 x)
{
    return bits(__low2bfloat16(x)) | (u32)bits(__high2bfloat16(x)) << 16;
}

// A number of `exponent` and `digits` bits (of the significand, without the leading one) as a double.
static double value(u32 x, int exponent, int digits)
{
    int bias = (1 << (exponent - 1)) - 1, e = x >> digits & ((1 << exponent) - 1);
    double m = x & ((1 << digits) - 1), sign = x >> (exponent + digits) & 1 ? -1 : 1;
    if (e == (1 << exponent) - 1)
        return m ? NAN : sign * INFINITY;
    return sign * (e ? ldexp(m + (1 << digits), e - bias - digits) : ldexp(m, 1 - bias - digits));
}
// To the nearest such number, ties to even; bits. NaN: all bits below the sign set.
static u32 nearest(long double x, int exponent, int digits)
{
    int bias = (1 << (exponent - 1)) - 1, e;
    u32 sign = signbit(x) ? 1u << (exponent + digits) : 0, top = ((1u << exponent) - 1) << digits;
    if (x != x)
        return (1u << (exponent + digits)) - 1;
    x = fabsl(x);
    if (isinf(x))
        return sign | top;
    frexpl(x, &e);
    e = e - 1 < 1 - bias ? 1 - bias : e - 1;
    long double units = rintl(ldexpl(x, digits - e)); // of the last place
    u32 r = units < (1u << digits) ? (u32)units : (u32)units + ((u32)(e + bias - 1) << digits);
    return sign | (x == 0 ? 0 : r > top ? top : r);
}
static double half_of(u16 x)
{
    return value(x, 5, 10);
}
static double bf16_of(u16 x)
{
    return value(x, 8, 7);
}
static u16 to_half(long double x)
{
    return (u16)nearest(x, 5, 10);
}
static u16 to_bf16(long double x)
{
    return (u16)nearest(x, 8, 7);
}
#endif
