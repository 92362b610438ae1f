// bfloat16 (__nv_bfloat16, __nv_bfloat162): arithmetic, comparisons, conversions, functions.
// References: float or long double arithmetic on the host, rounded once to the type.
#include "map.h"
#include "half_reference.h"

// A NaN has no particular bits.
static __host__ __device__ u16 canonical(u16 x)
{
    return (x & 0x7fff) > 0x7f80 ? 0x7fff : x;
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
        x = bf16_of(a & 0xffff), y = bf16_of(b & 0xffff), z = bf16_of(c & 0xffff), (void)z, (void)y,         \
        lo = to_bf16(e);                                                                                     \
        x = bf16_of(a >> 16), y = bf16_of(b >> 16), z = bf16_of(c >> 16), (void)z, (void)y, hi = to_bf16(e); \
        canonical2(lo | hi << 16);                                                                           \
    })
#define BITS2(e)                                                                                             \
    ({                                                                                                       \
        double x, y;                                                                                         \
        u32 lo, hi;                                                                                          \
        x = bf16_of(a & 0xffff), y = bf16_of(b & 0xffff), lo = (e);                                          \
        x = bf16_of(a >> 16), y = bf16_of(b >> 16), hi = (e);                                                \
        lo | hi << 16;                                                                                       \
    })

constexpr u16 INF = 0x7f80, FIRST = 0x3d80,
              SPAN = 0x4100 - 0x3d80; // infinity; 1/16, and how many numbers there are up to 8

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

MAP2_NAMED("__hadd", u16, u16, u16, DEV(__hadd(b16(a), b16(b))),
           canonical(to_bf16((long double)bf16_of(a) + bf16_of(b))))
MAP2_NAMED("__hsub", u16, u16, u16, DEV(__hsub(b16(a), b16(b))),
           canonical(to_bf16((long double)bf16_of(a) - bf16_of(b))))
MAP2_NAMED("__hmul", u16, u16, u16, DEV(__hmul(b16(a), b16(b))),
           canonical(to_bf16((long double)bf16_of(a) * bf16_of(b))))
MAP2_NAMED("__hdiv", u16, u16, u16, DEV(__hdiv(b16(a), b16(b))),
           canonical(to_bf16((long double)bf16_of(a) / bf16_of(b))))
MAP2_NAMED("__hadd_rn", u16, u16, u16, DEV(__hadd_rn(b16(a), b16(b))),
           canonical(to_bf16((long double)bf16_of(a) + bf16_of(b))))
MAP2_NAMED("__hsub_rn", u16, u16, u16, DEV(__hsub_rn(b16(a), b16(b))),
           canonical(to_bf16((long double)bf16_of(a) - bf16_of(b))))
MAP2_NAMED("__hmul_rn", u16, u16, u16, DEV(__hmul_rn(b16(a), b16(b))),
           canonical(to_bf16((long double)bf16_of(a) * bf16_of(b))))
MAP2_NAMED("__nv_bfloat16 a + b", u16, u16, u16, DEV(b16(a) + b16(b)),
           canonical(to_bf16((long double)bf16_of(a) + bf16_of(b))))
MAP2_NAMED("__nv_bfloat16 a - b", u16, u16, u16, DEV(b16(a) - b16(b)),
           canonical(to_bf16((long double)bf16_of(a) - bf16_of(b))))
MAP2_NAMED("__nv_bfloat16 a * b", u16, u16, u16, DEV(b16(a) * b16(b)),
           canonical(to_bf16((long double)bf16_of(a) * bf16_of(b))))
MAP2_NAMED("__nv_bfloat16 a / b", u16, u16, u16, DEV(b16(a) / b16(b)),
           canonical(to_bf16((long double)bf16_of(a) / bf16_of(b))))
MAP2_NAMED("__hadd_sat", u16, u16, u16, DEV(__hadd_sat(b16(a), b16(b))),
           conf_saturated(bf16_of(a) + bf16_of(b), to_bf16))
MAP2_NAMED("__hmul_sat", u16, u16, u16, DEV(__hmul_sat(b16(a), b16(b))),
           conf_saturated(bf16_of(a) * bf16_of(b), to_bf16))
MAP3_NAMED("__hfma", u16, u16, u16, u16, DEV(__hfma(b16(a), b16(b), b16(c))),
           canonical(to_bf16(conf_exact_fma(bf16_of(a), bf16_of(b), bf16_of(c)))))
MAP3_NAMED("__hfma_relu", u16, u16, u16, u16, DEV(__hfma_relu(b16(a), b16(b), b16(c))) & 0x7fff, ({
               u16 f = canonical(to_bf16(conf_exact_fma(bf16_of(a), bf16_of(b), bf16_of(c))));
               f >> 15 ? 0 : f;
           }))
MAP1_NAMED("__hneg", u16, u16, DEV(__hneg(b16(a))), canonical(a ^ 0x8000))
MAP1_NAMED("__habs", u16, u16, DEV(__habs(b16(a))), canonical(a & 0x7fff))
MAP2_NAMED("__hmax", u16, u16, u16, conf_no_zero_sign(DEV(__hmax(b16(a), b16(b)))),
           conf_no_zero_sign(canonical(to_bf16((bf16_of(a) != bf16_of(a)   ? bf16_of(b)
                                                : bf16_of(b) != bf16_of(b) ? bf16_of(a)
                                                : bf16_of(a) > bf16_of(b)  ? bf16_of(a)
                                                                           : bf16_of(b))))))
MAP2_NAMED("__hmax_nan", u16, u16, u16, conf_no_zero_sign(DEV(__hmax_nan(b16(a), b16(b)))),
           bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)
               ? 0x7fff
               : conf_no_zero_sign(canonical(to_bf16((bf16_of(a) != bf16_of(a)   ? bf16_of(b)
                                                      : bf16_of(b) != bf16_of(b) ? bf16_of(a)
                                                      : bf16_of(a) > bf16_of(b)  ? bf16_of(a)
                                                                                 : bf16_of(b))))))
MAP2_NAMED("__hmin", u16, u16, u16, conf_no_zero_sign(DEV(__hmin(b16(a), b16(b)))),
           conf_no_zero_sign(canonical(to_bf16((bf16_of(a) != bf16_of(a)   ? bf16_of(b)
                                                : bf16_of(b) != bf16_of(b) ? bf16_of(a)
                                                : bf16_of(a) < bf16_of(b)  ? bf16_of(a)
                                                                           : bf16_of(b))))))
MAP2_NAMED("__hmin_nan", u16, u16, u16, conf_no_zero_sign(DEV(__hmin_nan(b16(a), b16(b)))),
           bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)
               ? 0x7fff
               : conf_no_zero_sign(canonical(to_bf16((bf16_of(a) != bf16_of(a)   ? bf16_of(b)
                                                      : bf16_of(b) != bf16_of(b) ? bf16_of(a)
                                                      : bf16_of(a) < bf16_of(b)  ? bf16_of(a)
                                                                                 : bf16_of(b))))))
MAP2_NAMED("__heq", int, u16, u16, __heq(b16(a), b16(b)), (bf16_of(a) == bf16_of(b)))
MAP2_NAMED("__hequ", int, u16, u16, __hequ(b16(a), b16(b)),
           (bf16_of(a) == bf16_of(b)) || (bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)))
MAP2_NAMED("__heq2", u32, u32, u32, bits(__heq2(b162(a), b162(b))), BITS2(x == y ? 0x3f80 : 0))
MAP2_NAMED("__heq2_mask", u32, u32, u32, __heq2_mask(b162(a), b162(b)), BITS2(x == y ? 0xffff : 0))
MAP2_NAMED("__hbeq2", int, u32, u32, __hbeq2(b162(a), b162(b)), BITS2(x == y) == 0x10001)
MAP2_NAMED("__hne", int, u16, u16, __hne(b16(a), b16(b)),
           (bf16_of(a) != bf16_of(b) && !(bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b))))
MAP2_NAMED("__hneu", int, u16, u16, __hneu(b16(a), b16(b)),
           (bf16_of(a) != bf16_of(b) && !(bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b))) ||
               (bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)))
MAP2_NAMED("__hne2", u32, u32, u32, bits(__hne2(b162(a), b162(b))),
           BITS2(x != y && x == x && y == y ? 0x3f80 : 0))
MAP2_NAMED("__hne2_mask", u32, u32, u32, __hne2_mask(b162(a), b162(b)),
           BITS2(x != y && x == x && y == y ? 0xffff : 0))
MAP2_NAMED("__hbne2", int, u32, u32, __hbne2(b162(a), b162(b)), BITS2(x != y && x == x && y == y) == 0x10001)
MAP2_NAMED("__hlt", int, u16, u16, __hlt(b16(a), b16(b)), (bf16_of(a) < bf16_of(b)))
MAP2_NAMED("__hltu", int, u16, u16, __hltu(b16(a), b16(b)),
           (bf16_of(a) < bf16_of(b)) || (bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)))
MAP2_NAMED("__hlt2", u32, u32, u32, bits(__hlt2(b162(a), b162(b))), BITS2(x < y ? 0x3f80 : 0))
MAP2_NAMED("__hlt2_mask", u32, u32, u32, __hlt2_mask(b162(a), b162(b)), BITS2(x < y ? 0xffff : 0))
MAP2_NAMED("__hblt2", int, u32, u32, __hblt2(b162(a), b162(b)), BITS2(x < y) == 0x10001)
MAP2_NAMED("__hle", int, u16, u16, __hle(b16(a), b16(b)), (bf16_of(a) <= bf16_of(b)))
MAP2_NAMED("__hleu", int, u16, u16, __hleu(b16(a), b16(b)),
           (bf16_of(a) <= bf16_of(b)) || (bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)))
MAP2_NAMED("__hle2", u32, u32, u32, bits(__hle2(b162(a), b162(b))), BITS2(x <= y ? 0x3f80 : 0))
MAP2_NAMED("__hle2_mask", u32, u32, u32, __hle2_mask(b162(a), b162(b)), BITS2(x <= y ? 0xffff : 0))
MAP2_NAMED("__hble2", int, u32, u32, __hble2(b162(a), b162(b)), BITS2(x <= y) == 0x10001)
MAP2_NAMED("__hgt", int, u16, u16, __hgt(b16(a), b16(b)), (bf16_of(a) > bf16_of(b)))
MAP2_NAMED("__hgtu", int, u16, u16, __hgtu(b16(a), b16(b)),
           (bf16_of(a) > bf16_of(b)) || (bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)))
MAP2_NAMED("__hgt2", u32, u32, u32, bits(__hgt2(b162(a), b162(b))), BITS2(x > y ? 0x3f80 : 0))
MAP2_NAMED("__hgt2_mask", u32, u32, u32, __hgt2_mask(b162(a), b162(b)), BITS2(x > y ? 0xffff : 0))
MAP2_NAMED("__hbgt2", int, u32, u32, __hbgt2(b162(a), b162(b)), BITS2(x > y) == 0x10001)
MAP2_NAMED("__hge", int, u16, u16, __hge(b16(a), b16(b)), (bf16_of(a) >= bf16_of(b)))
MAP2_NAMED("__hgeu", int, u16, u16, __hgeu(b16(a), b16(b)),
           (bf16_of(a) >= bf16_of(b)) || (bf16_of(a) != bf16_of(a) || bf16_of(b) != bf16_of(b)))
MAP2_NAMED("__hge2", u32, u32, u32, bits(__hge2(b162(a), b162(b))), BITS2(x >= y ? 0x3f80 : 0))
MAP2_NAMED("__hge2_mask", u32, u32, u32, __hge2_mask(b162(a), b162(b)), BITS2(x >= y ? 0xffff : 0))
MAP2_NAMED("__hbge2", int, u32, u32, __hbge2(b162(a), b162(b)), BITS2(x >= y) == 0x10001)
MAP1_NAMED("__hisnan", int, u16, __hisnan(b16(a)), bf16_of(a) != bf16_of(a))
MAP1_NAMED("__hisinf", int, u16, __hisinf(b16(a)) != 0, isinf(bf16_of(a)) != 0)
MAP2_NAMED("__hadd2", u32, u32, u32, DEV2(__hadd2(b162(a), b162(b))), ({
               u32 c = 0;
               BOTH((long double)x + y);
           }))
MAP2_NAMED("__hsub2", u32, u32, u32, DEV2(__hsub2(b162(a), b162(b))), ({
               u32 c = 0;
               BOTH((long double)x - y);
           }))
MAP2_NAMED("__hmul2", u32, u32, u32, DEV2(__hmul2(b162(a), b162(b))), ({
               u32 c = 0;
               BOTH((long double)x * y);
           }))
MAP2_NAMED("__h2div", u32, u32, u32, DEV2(__h2div(b162(a), b162(b))), ({
               u32 c = 0;
               BOTH((long double)x / y);
           }))
MAP3_NAMED("__hfma2", u32, u32, u32, u32, DEV2(__hfma2(b162(a), b162(b), b162(c))),
           BOTH(conf_exact_fma(x, y, z)))
MAP1_NAMED("__hneg2", u32, u32, DEV2(__hneg2(b162(a))), canonical2(a ^ 0x80008000))
MAP1_NAMED("__habs2", u32, u32, DEV2(__habs2(b162(a))), canonical2(a & 0x7fff7fff))
MAP1_NAMED("hsqrt of __nv_bfloat16", u16, u16, DEV(hsqrt(b16(a))), canonical(to_bf16(sqrtl(bf16_of(a)))))
MAP1_NAMED("hfloor of __nv_bfloat16", u16, u16, DEV(hfloor(b16(a))), canonical(to_bf16(floorl(bf16_of(a)))))
MAP1_NAMED("hceil of __nv_bfloat16", u16, u16, DEV(hceil(b16(a))), canonical(to_bf16(ceill(bf16_of(a)))))
MAP1_NAMED("htrunc of __nv_bfloat16", u16, u16, DEV(htrunc(b16(a))), canonical(to_bf16(truncl(bf16_of(a)))))
MAP1_NAMED("hrint of __nv_bfloat16", u16, u16, DEV(hrint(b16(a))), canonical(to_bf16(rintl(bf16_of(a)))))
ULP1_NAMED("hexp of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hexp(b16(conf_positive(a)))), expl((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hexp2 of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hexp2(b16(conf_positive(a)))), exp2l((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hlog of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hlog(b16(conf_positive(a)))), logl((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hlog2 of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hlog2(b16(conf_positive(a)))), log2l((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hlog10 of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hlog10(b16(conf_positive(a)))), log10l((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hrcp of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hrcp(b16(conf_positive(a)))), 1 / ((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hrsqrt of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hrsqrt(b16(conf_positive(a)))), 1 / sqrtl((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hsin of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hsin(b16(conf_positive(a)))), sinl((long double)bf16_of(conf_positive(a))))
ULP1_NAMED("hcos of __nv_bfloat16", float, u16, all(), 2 * 65536,
           __bfloat162float(hcos(b16(conf_positive(a)))), cosl((long double)bf16_of(conf_positive(a))))
MAP1(u16, float, DEV(__float2bfloat16(a)), canonical(to_bf16(a)))
MAP1(u16, float, DEV(__float2bfloat16_rn(a)), canonical(to_bf16(a)))
MAP1(float, u16, __bfloat162float(b16(a)), (float)bf16_of(a))
MAP1(u16, double, DEV(__double2bfloat16(a)), canonical(to_bf16(a)))
MAP1(u16, float, DEV(__float2bfloat16_rz(a)),
     canonical(conf_directed(a, to_bf16(a), bf16_of(to_bf16(a)), 'z', 0x7f7f)))
MAP1(u16, float, DEV(__float2bfloat16_ru(a)),
     canonical(conf_directed(a, to_bf16(a), bf16_of(to_bf16(a)), 'u', 0x7f7f)))
MAP1(u16, float, DEV(__float2bfloat16_rd(a)),
     canonical(conf_directed(a, to_bf16(a), bf16_of(to_bf16(a)), 'd', 0x7f7f)))
MAP1(int, u16, __bfloat162int_rn(b16(conf_number(a))),
     (int)conf_clamp(rintl(bf16_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(int, u16, __bfloat162int_rz(b16(conf_number(a))),
     (int)conf_clamp(truncl(bf16_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(int, u16, __bfloat162int_ru(b16(conf_number(a))),
     (int)conf_clamp(ceill(bf16_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(int, u16, __bfloat162int_rd(b16(conf_number(a))),
     (int)conf_clamp(floorl(bf16_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1(u16, int, DEV(__int2bfloat16_rn(a)), to_bf16((long double)a))
MAP1(u32, u16, __bfloat162uint_rn(b16(conf_number(a))),
     (u32)conf_clamp(rintl(bf16_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u32, u16, __bfloat162uint_rz(b16(conf_number(a))),
     (u32)conf_clamp(truncl(bf16_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u32, u16, __bfloat162uint_ru(b16(conf_number(a))),
     (u32)conf_clamp(ceill(bf16_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u32, u16, __bfloat162uint_rd(b16(conf_number(a))),
     (u32)conf_clamp(floorl(bf16_of(conf_number(a))), 0, 0x1p32L - 1))
MAP1(u16, u32, DEV(__uint2bfloat16_rn(a)), to_bf16((long double)a))
MAP1(short, u16, __bfloat162short_rn(b16(conf_number(a))),
     (short)conf_clamp(rintl(bf16_of(conf_number(a))), -32768, 32767))
MAP1(short, u16, __bfloat162short_rz(b16(conf_number(a))),
     (short)conf_clamp(truncl(bf16_of(conf_number(a))), -32768, 32767))
MAP1(short, u16, __bfloat162short_ru(b16(conf_number(a))),
     (short)conf_clamp(ceill(bf16_of(conf_number(a))), -32768, 32767))
MAP1(short, u16, __bfloat162short_rd(b16(conf_number(a))),
     (short)conf_clamp(floorl(bf16_of(conf_number(a))), -32768, 32767))
MAP1(u16, short, DEV(__short2bfloat16_rn(a)), to_bf16((long double)a))
MAP1(u16, u16, __bfloat162ushort_rn(b16(conf_number(a))),
     (u16)conf_clamp(rintl(bf16_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, __bfloat162ushort_rz(b16(conf_number(a))),
     (u16)conf_clamp(truncl(bf16_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, __bfloat162ushort_ru(b16(conf_number(a))),
     (u16)conf_clamp(ceill(bf16_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, __bfloat162ushort_rd(b16(conf_number(a))),
     (u16)conf_clamp(floorl(bf16_of(conf_number(a))), 0, 65535))
MAP1(u16, u16, DEV(__ushort2bfloat16_rn(a)), to_bf16((long double)a))
MAP1(long long, u16, __bfloat162ll_rn(b16(conf_number(a))),
     (long long)conf_clamp(rintl(bf16_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(long long, u16, __bfloat162ll_rz(b16(conf_number(a))),
     (long long)conf_clamp(truncl(bf16_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(long long, u16, __bfloat162ll_ru(b16(conf_number(a))),
     (long long)conf_clamp(ceill(bf16_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(long long, u16, __bfloat162ll_rd(b16(conf_number(a))),
     (long long)conf_clamp(floorl(bf16_of(conf_number(a))), -0x1p63L, 0x1p63L - 1))
MAP1(u16, long long, DEV(__ll2bfloat16_rn(a)), to_bf16((long double)a))
MAP1(unsigned long long, u16, __bfloat162ull_rn(b16(conf_number(a))),
     (unsigned long long)conf_clamp(rintl(bf16_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(unsigned long long, u16, __bfloat162ull_rz(b16(conf_number(a))),
     (unsigned long long)conf_clamp(truncl(bf16_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(unsigned long long, u16, __bfloat162ull_ru(b16(conf_number(a))),
     (unsigned long long)conf_clamp(ceill(bf16_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(unsigned long long, u16, __bfloat162ull_rd(b16(conf_number(a))),
     (unsigned long long)conf_clamp(floorl(bf16_of(conf_number(a))), 0, 0x1p64L - 1))
MAP1(u16, unsigned long long, DEV(__ull2bfloat16_rn(a)), to_bf16((long double)a))
MAP1_NAMED("(int)(__nv_bfloat16)", int, u16, (int)b16(conf_number(a)),
           (int)conf_clamp(truncl(bf16_of(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1_NAMED("__nv_bfloat16(float)", u16, float, DEV(__nv_bfloat16(a)), canonical(to_bf16(a)))
MAP1_NAMED("(float)__nv_bfloat16", float, u16, (float)b16(a), (float)bf16_of(a))
MAP2_NAMED("__floats2bfloat162_rn", u32, float, float, DEV2(__floats2bfloat162_rn(a, b)),
           canonical2(to_bf16(a) | (u32)to_bf16(b) << 16))
MAP1(u32, u32, bits(__lowhigh2highlow(b162(a))), a >> 16 | a << 16)
MAP2(u32, u32, u32, bits(__lows2bfloat162(b162(a), b162(b))), (a & 0xffff) | b << 16)
CONF_MAIN
