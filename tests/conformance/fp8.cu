// 8-bit floating point: conversions in both formats.
#include "half_reference.h"
#include "map.h"
typedef unsigned char u8;

// e4m3: 4 bits of exponent, 3 of significand, no infinity, one NaN;
// e5m2: as IEEE.
static float from_e4m3(u8 x)
{
    int e = x >> 3 & 15, m = x & 7;
    float v = (x & 127) == 127 ? NAN : e ? ldexpf(8 + m, e - 10) : ldexpf(m, -9);
    return x >> 7 ? -v : v;
}
static float from_e5m2(u8 x)
{
    return (float)value(x, 5, 2);
}
// The nearest number of the format, ties to the even one, overflow to the
// largest; NaN as 0x7f.
static u8 to_fp8(float x, float (*from)(u8), u8 largest)
{
    if (x != x)
        return 0x7f;
    int best = fabsf(x) >= from(largest) ? largest : 0;
    for (int k = 0; k <= largest && fabsf(x) < from(largest); k++) {
        double new_error = fabs(fabs((double)x) - from(k)), old = fabs(fabs((double)x) - from(best));
        if (new_error < old || (new_error == old && !(k & 1)))
            best = k;
    }
    return (u8)(best | (signbit(x) ? 0x80 : 0));
}
static __host__ __device__ u8 one_nan(u8 x, u8 above)
{
    return (x & 0x7f) > above ? 0x7f : x;
}
MAP1_NAMED("__nv_cvt_float_to_fp8, e4m3", u8, float,
           one_nan(__nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E4M3), 0x7e), to_fp8(a, from_e4m3, 0x7e))
MAP1_NAMED("__nv_cvt_float_to_fp8, e5m2", u8, float,
           one_nan(__nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E5M2), 0x7c), to_fp8(a, from_e5m2, 0x7b))
MAP1_NAMED("(float)__nv_fp8_e4m3", float, u8, ({
               __nv_fp8_e4m3 f;
               f.__x = a;
               (float)f;
           }),
           from_e4m3(a))
MAP1_NAMED("(float)__nv_fp8_e5m2", float, u8, ({
               __nv_fp8_e5m2 f;
               f.__x = a;
               (float)f;
           }),
           from_e5m2(a))
MAP1_NAMED("__nv_fp8_e4m3(float)", u8, float, one_nan(__nv_fp8_e4m3(a).__x, 0x7e), to_fp8(a, from_e4m3, 0x7e))
MAP1_NAMED("__nv_fp8_e5m2(float)", u8, float, one_nan(__nv_fp8_e5m2(a).__x, 0x7c), to_fp8(a, from_e5m2, 0x7b))
MAP1_NAMED("__nv_fp8_e4m3(double)", u8, double, one_nan(__nv_fp8_e4m3((double)(float)a).__x, 0x7e),
           to_fp8((float)a, from_e4m3, 0x7e))
MAP1_NAMED("__nv_fp8_e4m3(__half)", u8, u16, one_nan(__nv_fp8_e4m3(h(a)).__x, 0x7e),
           to_fp8((float)half_of(a), from_e4m3, 0x7e))
MAP1_NAMED("(__half)__nv_fp8_e5m2", float, u8, ({
               __nv_fp8_e5m2 f;
               f.__x = a;
               __half2float((__half)f);
           }),
           from_e5m2(a))
MAP2_NAMED("__nv_cvt_float2_to_fp8x2, e4m3", u16, float, float, ({
               u16 p = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
               u16 lo = one_nan(p & 255, 0x7e), hi = one_nan(p >> 8, 0x7e);
               (u16)(lo | hi << 8);
           }),
           (u16)(to_fp8(a, from_e4m3, 0x7e) | to_fp8(b, from_e4m3, 0x7e) << 8))
CONF_MAIN
