// Half precision (__half, __half2): arithmetic, comparisons, conversions, functions.
// References: float or long double arithmetic on the host, rounded once to the type.
#include "map.h"
#include "half_reference.h"

// A NaN has no particular bits.
static __host__ __device__ u16 canonical(u16 x)
{
    return (x & 0x7fff) > 0x7c00 ? 0x7fff : x;
}
static __host__ __device__ u32 canonical2(u32 x)
{
    return canonical(x & 0xffff) | (u32)canonical(x >> 16) << 16;
}
#define DEV(e) canonical(bits(e))
#define DEV2(e) canonical2(bits(e))
#define BOTH(e)                                                                                              \
    ({                                                                                                       \
        double x, y, z;                                                                                      \
        u32 lo, hi;                                                                                          \
        x = half_of(a & 0xffff), y = half_of(b & 0xffff), z = half_of(c & 0xffff), (void)z, (void)y,         \
        lo = to_half(e);                                                                                     \
        x = half_of(a >> 16), y = half_of(b >> 16), z = half_of(c >> 16), (void)z, (void)y, hi = to_half(e); \
        canonical2(lo | hi << 16);                                                                           \
    })
#define BITS2(e)                                                                                             \
    ({                                                                                                       \
        double x, y;                                                                                         \
        u32 lo, hi;                                                                                          \
        x = half_of(a & 0xffff), y = half_of(b & 0xffff), lo = (e);                                          \
        x = half_of(a >> 16), y = half_of(b >> 16), hi = (e);                                                \
        lo | hi << 16;                                                                                       \
    })

constexpr u16 INF = 0x7c00, FIRST = 0x2c00,
              SPAN = 0x4800 - 0x2c00; // infinity; 1/16, and how many numbers there are up to 8

static u16 conf_saturated(double x, u16 (*to)(long double))
{
    return x > 0 ? x < 1 ? to(x) : to(1) : 0;
}
// a * b + c in long double is exact enough for these types: products have 22 bits at most. Sums far apart are
// made odd so that rounding to nearest sees on which side they are.
static long double conf_exact_fma(double a, double b, double c)
{
    long double p = (long double)a * b, s = p + c, rest;
    if (!(s - s == 0) || s == 0)
        return s;
    rest = fabsl(p) > fabsl(c) ? (long double)c - (s - p) : p - (s - (long double)c);
    return rest == 0 ? s : nextafterl(s, rest > 0 ? INFINITY : -INFINITY);
}
static __host__ __device__ u16 conf_no_zero_sign(u16 x)
{
    return x & 0x7fff ? x : 0;
}
static __host__ __device__ u16 conf_positive(u16 x) // between about 1/16 and 8
{
    return FIRST + x % SPAN;
}
static __host__ __device__ u16 conf_number(u16 x) // not a NaN
{
    return (x & 0x7fff) > INF ? x & (0x8000 | ~INF) : x;
}
static long double conf_clamp(long double x, long double lo, long double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}
// Rounded to nearest, but on the side that the mode asks for: 'z', 'u', 'd'; `largest` finite number's bits.
static u16 conf_directed(double x, u16 near, double v, char mode, u16 largest)
{
    if (x != x || isinf(x) || v == x)
        return near;
    bool up = mode == 'u' || (mode == 'z' && x < 0);
    if (up ? v > x : v < x)
        return near;
    bool away = up == (x > 0); // the magnitude grows
    u16 sign = signbit(x) ? 0x8000 : 0, size = near & 0x7fff;
    if (size > largest) // infinity, and the mode wants the finite side
        return sign | largest;
    return sign | (away ? size + 1 : size - 1);
}

MAP2_NAMED("__hadd", u16, u16, u16, DEV(__hadd(h(a), h(b))),
           canonical(to_half((long double)half_of(a) + half_of(b))))
MAP2_NAMED("__hsub", u16, u16, u16, DEV(__hsub(h(a), h(b))),
           canonical(to_half((long double)half_of(a) - half_of(b))))
MAP2_NAMED("__hmul", u16, u16, u16, DEV(__hmul(h(a), h(b))),
           canonical(to_half((long double)half_of(a) * half_of(b))))
MAP2_NAMED("__hdiv", u16, u16, u16, DEV(__hdiv(h(a), h(b))),
           canonical(to_half((long double)half_of(a) / half_of(b))))
MAP2_NAMED("__hadd_rn", u16, u16, u16, DEV(__hadd_rn(h(a), h(b))),
           canonical(to_half((long double)half_of(a) + half_of(b))))
MAP2_NAMED("__hsub_rn", u16, u16, u16, DEV(__hsub_rn(h(a), h(b))),
           canonical(to_half((long double)half_of(a) - half_of(b))))
MAP2_NAMED("__hmul_rn", u16, u16, u16, DEV(__hmul_rn(h(a), h(b))),
           canonical(to_half((long double)half_of(a) * half_of(b))))
MAP2_NAMED("__half a + b", u16, u16, u16, DEV(h(a) + h(b)),
           canonical(to_half((long double)half_of(a) + half_of(b))))
MAP2_NAMED("__half a - b", u16, u16, u16, DEV(h(a) - h(b)),
           canonical(to_half((long double)half_of(a) - half_of(b))))
MAP2_NAMED("__half a * b", u16, u16, u16, DEV(h(a) * h(b)),
           canonical(to_half((long double)half_of(a) * half_of(b))))
MAP2_NAMED("__half a / b", u16, u16, u16, DEV(h(a) / h(b)),
           canonical(to_half((long double)half_of(a) / half_of(b))))
MAP2_NAMED("__hadd_sat", u16, u16, u16, DEV(__hadd_sat(h(a), h(b))),
           conf_saturated(half_of(a) + half_of(b), to_half))
MAP2_NAMED("__hmul_sat", u16, u16, u16, DEV(__hmul_sat(h(a), h(b))),
           conf_saturated(half_of(a) * half_of(b), to_half))
MAP3_NAMED("__hfma", u16, u16, u16, u16, DEV(__hfma(h(a), h(b), h(c))),
           canonical(to_half(conf_exact_fma(half_of(a), half_of(b), half_of(c)))))
MAP3_NAMED("__hfma_relu", u16, u16, u16, u16, DEV(__hfma_relu(h(a), h(b), h(c))) & 0x7fff, ({
               u16 f = canonical(to_half(conf_exact_fma(half_of(a), half_of(b), half_of(c))));
               f >> 15 ? 0 : f;
           }))
MAP1_NAMED("__hneg", u16, u16, DEV(__hneg(h(a))), canonical(a ^ 0x8000))
MAP1_NAMED("__habs", u16, u16, DEV(__habs(h(a))), canonical(a & 0x7fff))
MAP2_NAMED("__hmax", u16, u16, u16, conf_no_zero_sign(DEV(__hmax(h(a), h(b)))),
           conf_no_zero_sign(canonical(to_half((half_of(a) != half_of(a)   ? half_of(b)
                                                : half_of(b) != half_of(b) ? half_of(a)
                                                : half_of(a) > half_of(b)  ? half_of(a)
                                                                           : half_of(b))))))
MAP2_NAMED("__hmax_nan", u16, u16, u16, conf_no_zero_sign(DEV(__hmax_nan(h(a), h(b)))),
           half_of(a) != half_of(a) || half_of(b) != half_of(b)
               ? 0x7fff
               : conf_no_zero_sign(canonical(to_half((half_of(a) != half_of(a)   ? half_of(b)
                                                      : half_of(b) != half_of(b) ? half_of(a)
                                                      : half_of(a) > half_of(b)  ? half_of(a)
                                                                                 : half_of(b))))))
MAP2_NAMED("__hmin", u16, u16, u16, conf_no_zero_sign(DEV(__hmin(h(a), h(b)))),
           conf_no_zero_sign(canonical(to_half((half_of(a) != half_of(a)   ? half_of(b)
                                                : half_of(b) != half_of(b) ? half_of(a)
                                                : half_of(a) < half_of(b)  ? half_of(a)
                                                                           : half_of(b))))))
MAP2_NAMED("__hmin_nan", u16, u16, u16, conf_no_zero_sign(DEV(__hmin_nan(h(a), h(b)))),
           half_of(a) != half_of(a) || half_of(b) != half_of(b)
               ? 0x7fff
               : conf_no_zero_sign(canonical(to_half((half_of(a) != half_of(a)   ? half_of(b)
                                                      : half_of(b) != half_of(b) ? half_of(a)
                                                      : half_of(a) < half_of(b)  ? half_of(a)
                                                                                 : half_of(b))))))
MAP2_NAMED("__heq", int, u16, u16, __heq(h(a), h(b)), (half_of(a) == half_of(b)))
MAP2_NAMED("__hequ", int, u16, u16, __hequ(h(a), h(b)),
           (half_of(a) == half_of(b)) || (half_of(a) != half_of(a) || half_of(b) != half_of(b)))
MAP2_NAMED("__heq2", u32, u32, u32, bits(__heq2(h2(a), h2(b))), BITS2(x == y ? 0x3c00 : 0))
MAP2_NAMED("__heq2_mask", u32, u32, u32, __heq2_mask(h2(a), h2(b)), BITS2(x == y ? 0xffff : 0))
MAP2_NAMED("__hbeq2", int, u32, u32, __hbeq2(h2(a), h2(b)), BITS2(x == y) == 0x10001)
MAP2_NAMED("__hne", int, u16, u16, __hne(h(a), h(b)),
           (half_of(a) != half_of(b) && !(half_of(a) != half_of(a) || half_of(b) != half_of(b))))
MAP2_NAMED("__hneu", int, u16, u16, __hneu(h(a), h(b)),
           (half_of(a) != half_of(b) && !(half_of(a) != half_of(a) || half_of(b) != half_of(b))) ||
               (half_of(a) != half_of(a) || half_of(b) != half_of(b)))
MAP2_NAMED("__hne2", u32, u32, u32, bits(__hne2(h2(a), h2(b))),
           BITS2(x != y && x == x && y == y ? 0x3c00 : 0))
MAP2_NAMED("__hne2_mask", u32, u32, u32, __hne2_mask(h2(a), h2(b)),
           BITS2(x != y && x == x && y == y ? 0xffff : 0))
MAP2_NAMED("__hbne2", int, u32, u32, __hbne2(h2(a), h2(b)), BITS2(x != y && x == x && y == y) == 0x10001)
MAP2_NAMED("__hlt", int, u16, u16, __hlt(h(a), h(b)), (half_of(a) < half_of(b)))
MAP2_NAMED("__hltu", int, u16, u16, __hltu(h(a), h(b)),
           (half_of(a) < half_of(b)) || (half_of(a) != half_of(a) || half_of(b) != half_of(b)))
MAP2_NAMED("__hlt2", u32, u32, u32, bits(__hlt2(h2(a), h2(b))), BITS2(x < y ? 0x3c00 : 0))
MAP2_NAMED("__hlt2_mask", u32, u32, u32, __hlt2_mask(h2(a), h2(b)), BITS2(x < y ? 0xffff : 0))
MAP2_NAMED("__hblt2", int, u32, u32, __hblt2(h2(a), h2(b)), BITS2(x < y) == 0x10001)
MAP2_NAMED("__hle", int, u16, u16, __hle(h(a), h(b)), (half_of(a) <= half_of(b)))
MAP2_NAMED("__hleu", int, u16, u16, __hleu(h(a), h(b)),
           (half_of(a) <= half_of(b)) || (half_of(a) != half_of(a) || half_of(b) != half_of(b)))
MAP2_NAMED("__hle2", u32, u32, u32, bits(__hle2(h2(a), h2(b))), BITS2(x <= y ? 0x3c00 : 0))
MAP2_NAMED("__hle2_mask", u32, u32, u32, __hle2_mask(h2(a), h2(b)), BITS2(x <= y ? 0xffff : 0))
MAP2_NAMED("__hble2", int, u32, u32, __hble2(h2(a), h2(b)), BITS2(x <= y) == 0x10001)
MAP2_NAMED("__hgt", int, u16, u16, __hgt(h(a), h(b)), (half_of(a) > half_of(b)))
MAP2_NAMED("__hgtu", int, u16, u16, __hgtu(h(a), h(b)),
           (half_of(a) > half_of(b)) || (half_of(a) != half_of(a) || half_of(b) != half_of(b)))
MAP2_NAMED("__hgt2", u32, u32, u32, bits(__hgt2(h2(a), h2(b))), BITS2(x > y ? 0x3c00 : 0))
MAP2_NAMED("__hgt2_mask", u32, u32, u32, __hgt2_mask(h2(a), h2(b)), BITS2(x > y ? 0xffff : 0))
MAP2_NAMED("__hbgt2", int, u32, u32, __hbgt2(h2(a), h2(b)), BITS2(x > y) == 0x10001)
MAP2_NAMED("__hge", int, u16, u16, __hge(h(a), h(b)), (half_of(a) >= half_of(b)))
MAP2_NAMED("__hgeu", int, u16, u16, __hgeu(h(a), h(b)),
           (half_of(a) >= half_of(b)) || (half_of(a) != half_of(a) || half_of(b) != half_of(b)))
MAP2_NAMED("__hge2", u32, u32, u32, bits(__hge2(h2(a), h2(b))), BITS2(x >= y ? 0x3c00 : 0))
MAP2_NAMED("__hge2_mask", u32, u32, u32, __hge2_mask(h2(a), h2(b)), BITS2(x >= y ? 0xffff : 0))
MAP2_NAMED("__hbge2", int, u32, u32, __hbge2(h2(a), h2(b)), BITS2(x >= y) == 0x10001)
MAP1_NAMED("__hisnan", int, u16, __hisnan(h(a)), half_of(a) != half_of(a))
MAP1_NAMED("__hisinf", int, u16, __hisinf(h(a)) != 0, isinf(half_of(a)) != 0)
MAP2_NAMED("__hadd2", u32, u32, u32, DEV2(__hadd2(h2(a), h2(b))), ({
               u32 c = 0;
               BOTH((long double)x + y);
           }))
MAP2_NAMED("__hsub2", u32, u32, u32, DEV2(__hsub2(h2(a), h2(b))), ({
               u32 c = 0;
               BOTH((long double)x - y);
           }))
MAP2_NAMED("__hmul2", u32, u32, u32, DEV2(__hmul2(h2(a), h2(b))), ({
               u32 c = 0;
               BOTH((long double)x * y);
           }))
MAP2_NAMED("__h2div", u32, u32, u32, DEV2(__h2div(h2(a), h2(b))), ({
               u32 c = 0;
               BOTH((long double)x / y);
           }))
MAP3_NAMED("__hfma2", u32, u32, u32, u32, DEV2(__hfma2(h2(a), h2(b), h2(c))), BOTH(conf_exact_fma(x, y, z)))
MAP1_NAMED("__hneg2", u32, u32, DEV2(__hneg2(h2(a))), canonical2(a ^ 0x80008000))
MAP1_NAMED("__habs2", u32, u32, DEV2(__habs2(h2(a))), canonical2(a & 0x7fff7fff))
MAP1_NAMED("hsqrt of __half", u16, u16, DEV(hsqrt(h(a))), canonical(to_half(sqrtl(half_of(a)))))
MAP1_NAMED("hfloor of __half", u16, u16, DEV(hfloor(h(a))), canonical(to_half(floorl(half_of(a)))))
MAP1_NAMED("hceil of __half", u16, u16, DEV(hceil(h(a))), canonical(to_half(ceill(half_of(a)))))
MAP1_NAMED("htrunc of __half", u16, u16, DEV(htrunc(h(a))), canonical(to_half(truncl(half_of(a)))))
MAP1_NAMED("hrint of __half", u16, u16, DEV(hrint(h(a))), canonical(to_half(rintl(half_of(a)))))
ULP1_NAMED("hexp of __half", float, u16, all(), 2 * 8192, __half2float(hexp(h(conf_positive(a)))),
           expl((long double)half_of(conf_positive(a))))
ULP1_NAMED("hexp2 of __half", float, u16, all(), 2 * 8192, __half2float(hexp2(h(conf_positive(a)))),
           exp2l((long double)half_of(conf_positive(a))))
ULP1_NAMED("hlog of __half", float, u16, all(), 2 * 8192, __half2float(hlog(h(conf_positive(a)))),
           logl((long double)half_of(conf_positive(a))))
ULP1_NAMED("hlog2 of __half", float, u16, all(), 2 * 8192, __half2float(hlog2(h(conf_positive(a)))),
           log2l((long double)half_of(conf_positive(a))))
ULP1_NAMED("hlog10 of __half", float, u16, all(), 2 * 8192, __half2float(hlog10(h(conf_positive(a)))),
           log10l((long double)half_of(conf_positive(a))))
ULP1_NAMED("hrcp of __half", float, u16, all(), 2 * 8192, __half2float(hrcp(h(conf_positive(a)))),
           1 / ((long double)half_of(conf_positive(a))))
ULP1_NAMED("hrsqrt of __half", float, u16, all(), 2 * 8192, __half2float(hrsqrt(h(conf_positive(a)))),
           1 / sqrtl((long double)half_of(conf_positive(a))))
ULP1_NAMED("hsin of __half", float, u16, all(), 2 * 8192, __half2float(hsin(h(conf_positive(a)))),
           sinl((long double)half_of(conf_positive(a))))
ULP1_NAMED("hcos of __half", float, u16, all(), 2 * 8192, __half2float(hcos(h(conf_positive(a)))),
           cosl((long double)half_of(conf_positive(a))))
MAP1(u16, float, DEV(__float2half(a)), canonical(to_half(a)))
MAP1(u16, float, DEV(__float2half_rn(a)), canonical(to_half(a)))
MAP1(float, u16, __half2float(h(a)), (float)half_of(a))
MAP1(u16, double, DEV(__double2half(a)), canonical(to_half(a)))
MAP1(u16, float, DEV(__float2half_rz(a)),
     canonical(conf_directed(a, to_half(a), half_of(to_half(a)), 'z', 0x7bff)))
MAP1(u16, float, DEV(__float2half_ru(a)),
     canonical(conf_directed(a, to_half(a), half_of(to_half(a)), 'u', 0x7bff)))
MAP1(u16, float, DEV(__float2half_rd(a)),
     canonical(conf_directed(a, to_half(a), half_of(to_half(a)), 'd', 0x7bff)))
MAP1(int, u16, __half2int_rn(h(conf_number(a))),
     (int)conf_clamp(rintl(half_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(int, u16, __half2int_rz(h(conf_number(a))),
     (int)conf_clamp(truncl(half_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(int, u16, __half2int_ru(h(conf_number(a))),
     (int)conf_clamp(ceill(half_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(int, u16, __half2int_rd(h(conf_number(a))),
     (int)conf_clamp(floorl(half_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(u16, int, DEV(__int2half_rn(a)), to_half((long double)a))
MAP1(u32, u16, __half2uint_rn(h(conf_number(a))),
     (u32)conf_clamp(rintl(half_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u32, u16, __half2uint_rz(h(conf_number(a))),
     (u32)conf_clamp(truncl(half_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u32, u16, __half2uint_ru(h(conf_number(a))),
     (u32)conf_clamp(ceill(half_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u32, u16, __half2uint_rd(h(conf_number(a))),
     (u32)conf_clamp(floorl(half_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u16, u32, DEV(__uint2half_rn(a)), to_half((long double)a))
MAP1(short, u16, __half2short_rn(h(conf_number(a))),
     (short)conf_clamp(rintl(half_of(conf_number(a))), -32768, 32767))
MAP1(short, u16, __half2short_rz(h(conf_number(a))),
     (short)conf_clamp(truncl(half_of(conf_number(a))), -32768, 32767))
MAP1(short, u16, __half2short_ru(h(conf_number(a))),
     (short)conf_clamp(ceill(half_of(conf_number(a))), -32768, 32767))
MAP1(short, u16, __half2short_rd(h(conf_number(a))),
     (short)conf_clamp(floorl(half_of(conf_number(a))), -32768, 32767))
MAP1(u16, short, DEV(__short2half_rn(a)), to_half((long double)a))
MAP1(u16, u16, __half2ushort_rn(h(conf_number(a))), (u16)conf_clamp(rintl(half_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, __half2ushort_rz(h(conf_number(a))),
     (u16)conf_clamp(truncl(half_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, __half2ushort_ru(h(conf_number(a))), (u16)conf_clamp(ceill(half_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, __half2ushort_rd(h(conf_number(a))),
     (u16)conf_clamp(floorl(half_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, DEV(__ushort2half_rn(a)), to_half((long double)a))
MAP1(long long, u16, __half2ll_rn(h(conf_number(a))),
     (long long)conf_clamp(rintl(half_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(long long, u16, __half2ll_rz(h(conf_number(a))),
     (long long)conf_clamp(truncl(half_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(long long, u16, __half2ll_ru(h(conf_number(a))),
     (long long)conf_clamp(ceill(half_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(long long, u16, __half2ll_rd(h(conf_number(a))),
     (long long)conf_clamp(floorl(half_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(u16, long long, DEV(__ll2half_rn(a)), to_half((long double)a))
MAP1(unsigned long long, u16, __half2ull_rn(h(conf_number(a))),
     (unsigned long long)conf_clamp(rintl(half_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(unsigned long long, u16, __half2ull_rz(h(conf_number(a))),
     (unsigned long long)conf_clamp(truncl(half_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(unsigned long long, u16, __half2ull_ru(h(conf_number(a))),
     (unsigned long long)conf_clamp(ceill(half_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(unsigned long long, u16, __half2ull_rd(h(conf_number(a))),
     (unsigned long long)conf_clamp(floorl(half_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(u16, unsigned long long, DEV(__ull2half_rn(a)), to_half((long double)a))
MAP1_NAMED("(int)(__half)", int, u16, (int)h(conf_number(a)),
           (int)conf_clamp(truncl(half_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1_NAMED("__half(float)", u16, float, DEV(__half(a)), canonical(to_half(a)))
MAP1_NAMED("(float)__half", float, u16, (float)h(a), (float)half_of(a))
MAP2_NAMED("__floats2half2_rn", u32, float, float, DEV2(__floats2half2_rn(a, b)),
           canonical2(to_half(a) | (u32)to_half(b) << 16))
MAP1_NAMED("__half22float2", float, u32, __half22float2(h2(a)).x + 2 * __half22float2(h2(a)).y,
           (float)half_of(a & 0xffff) + 2 * (float)half_of(a >> 16))
MAP1(u32, u32, bits(__lowhigh2highlow(h2(a))), a >> 16 | a << 16)
MAP2(u32, u32, u32, bits(__lows2half2(h2(a), h2(b))), (a & 0xffff) | b << 16)
MAP2(u32, u32, u32, bits(__highs2half2(h2(a), h2(b))), a >> 16 | (b & 0xffff0000))
MAP1(u16, u16, (u16)__half_as_short(h(a)), a)
MAP1(u16, u16, bits(__ushort_as_half(a)), a)
CONF_MAIN
