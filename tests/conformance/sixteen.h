// The rows of a type of 16 bits, which half.cu and bfloat16.cu describe by these words:
//   NUMBER, WORD    its name, and what it is called in those of conversions
//   ONE, PAIR       one and two of them of their bits
//   VALUE, NEAREST  from bits to a double; from a long double to the bits of the nearest one
//   INF, UNIT, LARGEST, ULPS   bits of infinity, of 1 and of the largest number; how exact functions are
//   FIRST, SPAN     bits of 1/16, and how many numbers there are up to 8
// References: float or long double arithmetic on the host, rounded once to the type.
#ifndef CONF_SIXTEEN_H
#define CONF_SIXTEEN_H
#include "map.h"
#include "half_reference.h"

// Conversions, as CUDA calls them: FROM(float, _rn) is __float2half_rn, TO(int, _rz) is __half2int_rz.
#define CONF_PASTE2(a, b, c) a##b##c
#define CONF_PASTE(a, b, c) CONF_PASTE2(a, b, c)
#define FROM(type, how) CONF_PASTE(CONF_PASTE(__, type, 2), WORD, how)
#define TO(type, how) CONF_PASTE(CONF_PASTE(__, WORD, 2), type, how)
#define ROW_FROM(type, how, A, want)                                                                         \
    MAP1_NAMED("DEV(" CONF_TEXT(FROM(type, how)) "(a))", u16, A, DEV(FROM(type, how)(a)), want)
#define ROW_TO(type, how, R, round, low, high)                                                               \
    MAP1_NAMED(CONF_TEXT(TO(type, how)) "(" CONF_TEXT(ONE) "(conf_number(a)))", R, u16,                      \
               TO(type, how)(ONE(conf_number(a))), (R)conf_clamp(round(VALUE(conf_number(a))), low, high))
#define ROWS_WHOLE(type, C, low, high)                                                                       \
    ROW_TO(type, _rn, C, rintl, low, high)                                                                   \
    ROW_TO(type, _rz, C, truncl, low, high)                                                                  \
    ROW_TO(type, _ru, C, ceill, low, high)                                                                   \
    ROW_TO(type, _rd, C, floorl, low, high)                                                                  \
    ROW_FROM(type, _rn, C, NEAREST((long double)a))
#define ROW_DIRECTED(how, mode)                                                                              \
    ROW_FROM(float, how, float, canonical(conf_directed(a, NEAREST(a), VALUE(NEAREST(a)), mode, LARGEST)))

// A NaN has no particular bits.
static __host__ __device__ u16 canonical(u16 x)
{
    return (x & 0x7fff) > INF ? 0x7fff : x;
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
        x = VALUE(a & 0xffff), y = VALUE(b & 0xffff), z = VALUE(c & 0xffff), (void)z, (void)y,               \
        lo = NEAREST(e);                                                                                     \
        x = VALUE(a >> 16), y = VALUE(b >> 16), z = VALUE(c >> 16), (void)z, (void)y, hi = NEAREST(e);       \
        canonical2(lo | hi << 16);                                                                           \
    })
#define BITS2(e)                                                                                             \
    ({                                                                                                       \
        double x, y;                                                                                         \
        u32 lo, hi;                                                                                          \
        x = VALUE(a & 0xffff), y = VALUE(b & 0xffff), lo = (e);                                              \
        x = VALUE(a >> 16), y = VALUE(b >> 16), hi = (e);                                                    \
        lo | hi << 16;                                                                                       \
    })

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

MAP2_NAMED("__hadd", u16, u16, u16, DEV(__hadd(ONE(a), ONE(b))),
           canonical(NEAREST((long double)VALUE(a) + VALUE(b))))
MAP2_NAMED("__hsub", u16, u16, u16, DEV(__hsub(ONE(a), ONE(b))),
           canonical(NEAREST((long double)VALUE(a) - VALUE(b))))
MAP2_NAMED("__hmul", u16, u16, u16, DEV(__hmul(ONE(a), ONE(b))),
           canonical(NEAREST((long double)VALUE(a) * VALUE(b))))
MAP2_NAMED("__hdiv", u16, u16, u16, DEV(__hdiv(ONE(a), ONE(b))),
           canonical(NEAREST((long double)VALUE(a) / VALUE(b))))
MAP2_NAMED("__hadd_rn", u16, u16, u16, DEV(__hadd_rn(ONE(a), ONE(b))),
           canonical(NEAREST((long double)VALUE(a) + VALUE(b))))
MAP2_NAMED("__hsub_rn", u16, u16, u16, DEV(__hsub_rn(ONE(a), ONE(b))),
           canonical(NEAREST((long double)VALUE(a) - VALUE(b))))
MAP2_NAMED("__hmul_rn", u16, u16, u16, DEV(__hmul_rn(ONE(a), ONE(b))),
           canonical(NEAREST((long double)VALUE(a) * VALUE(b))))
MAP2_NAMED(CONF_TEXT(NUMBER) " a + b", u16, u16, u16, DEV(ONE(a) + ONE(b)),
           canonical(NEAREST((long double)VALUE(a) + VALUE(b))))
MAP2_NAMED(CONF_TEXT(NUMBER) " a - b", u16, u16, u16, DEV(ONE(a) - ONE(b)),
           canonical(NEAREST((long double)VALUE(a) - VALUE(b))))
MAP2_NAMED(CONF_TEXT(NUMBER) " a * b", u16, u16, u16, DEV(ONE(a) * ONE(b)),
           canonical(NEAREST((long double)VALUE(a) * VALUE(b))))
MAP2_NAMED(CONF_TEXT(NUMBER) " a / b", u16, u16, u16, DEV(ONE(a) / ONE(b)),
           canonical(NEAREST((long double)VALUE(a) / VALUE(b))))
MAP2_NAMED("__hadd_sat", u16, u16, u16, DEV(__hadd_sat(ONE(a), ONE(b))),
           conf_saturated(VALUE(a) + VALUE(b), NEAREST))
MAP2_NAMED("__hmul_sat", u16, u16, u16, DEV(__hmul_sat(ONE(a), ONE(b))),
           conf_saturated(VALUE(a) * VALUE(b), NEAREST))
MAP3_NAMED("__hfma", u16, u16, u16, u16, DEV(__hfma(ONE(a), ONE(b), ONE(c))),
           canonical(NEAREST(conf_exact_fma(VALUE(a), VALUE(b), VALUE(c)))))
MAP3_NAMED("__hfma_relu", u16, u16, u16, u16, DEV(__hfma_relu(ONE(a), ONE(b), ONE(c))) & 0x7fff, ({
               u16 f = canonical(NEAREST(conf_exact_fma(VALUE(a), VALUE(b), VALUE(c))));
               f >> 15 ? 0 : f;
           }))
MAP1_NAMED("__hneg", u16, u16, DEV(__hneg(ONE(a))), canonical(a ^ 0x8000))
MAP1_NAMED("__habs", u16, u16, DEV(__habs(ONE(a))), canonical(a & 0x7fff))
MAP2_NAMED("__hmax", u16, u16, u16, conf_no_zero_sign(DEV(__hmax(ONE(a), ONE(b)))),
           conf_no_zero_sign(canonical(NEAREST((VALUE(a) != VALUE(a)   ? VALUE(b)
                                                : VALUE(b) != VALUE(b) ? VALUE(a)
                                                : VALUE(a) > VALUE(b)  ? VALUE(a)
                                                                       : VALUE(b))))))
MAP2_NAMED("__hmax_nan", u16, u16, u16, conf_no_zero_sign(DEV(__hmax_nan(ONE(a), ONE(b)))),
           VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)
               ? 0x7fff
               : conf_no_zero_sign(canonical(NEAREST((VALUE(a) != VALUE(a)   ? VALUE(b)
                                                      : VALUE(b) != VALUE(b) ? VALUE(a)
                                                      : VALUE(a) > VALUE(b)  ? VALUE(a)
                                                                             : VALUE(b))))))
MAP2_NAMED("__hmin", u16, u16, u16, conf_no_zero_sign(DEV(__hmin(ONE(a), ONE(b)))),
           conf_no_zero_sign(canonical(NEAREST((VALUE(a) != VALUE(a)   ? VALUE(b)
                                                : VALUE(b) != VALUE(b) ? VALUE(a)
                                                : VALUE(a) < VALUE(b)  ? VALUE(a)
                                                                       : VALUE(b))))))
MAP2_NAMED("__hmin_nan", u16, u16, u16, conf_no_zero_sign(DEV(__hmin_nan(ONE(a), ONE(b)))),
           VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)
               ? 0x7fff
               : conf_no_zero_sign(canonical(NEAREST((VALUE(a) != VALUE(a)   ? VALUE(b)
                                                      : VALUE(b) != VALUE(b) ? VALUE(a)
                                                      : VALUE(a) < VALUE(b)  ? VALUE(a)
                                                                             : VALUE(b))))))
MAP2_NAMED("__heq", int, u16, u16, __heq(ONE(a), ONE(b)), (VALUE(a) == VALUE(b)))
MAP2_NAMED("__hequ", int, u16, u16, __hequ(ONE(a), ONE(b)),
           (VALUE(a) == VALUE(b)) || (VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)))
MAP2_NAMED("__heq2", u32, u32, u32, bits(__heq2(PAIR(a), PAIR(b))), BITS2(x == y ? UNIT : 0))
MAP2_NAMED("__heq2_mask", u32, u32, u32, __heq2_mask(PAIR(a), PAIR(b)), BITS2(x == y ? 0xffff : 0))
MAP2_NAMED("__hbeq2", int, u32, u32, __hbeq2(PAIR(a), PAIR(b)), BITS2(x == y) == 0x10001)
MAP2_NAMED("__hne", int, u16, u16, __hne(ONE(a), ONE(b)),
           (VALUE(a) != VALUE(b) && !(VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b))))
MAP2_NAMED("__hneu", int, u16, u16, __hneu(ONE(a), ONE(b)),
           (VALUE(a) != VALUE(b) && !(VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b))) ||
               (VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)))
MAP2_NAMED("__hne2", u32, u32, u32, bits(__hne2(PAIR(a), PAIR(b))),
           BITS2(x != y && x == x && y == y ? UNIT : 0))
MAP2_NAMED("__hne2_mask", u32, u32, u32, __hne2_mask(PAIR(a), PAIR(b)),
           BITS2(x != y && x == x && y == y ? 0xffff : 0))
MAP2_NAMED("__hbne2", int, u32, u32, __hbne2(PAIR(a), PAIR(b)), BITS2(x != y && x == x && y == y) == 0x10001)
MAP2_NAMED("__hlt", int, u16, u16, __hlt(ONE(a), ONE(b)), (VALUE(a) < VALUE(b)))
MAP2_NAMED("__hltu", int, u16, u16, __hltu(ONE(a), ONE(b)),
           (VALUE(a) < VALUE(b)) || (VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)))
MAP2_NAMED("__hlt2", u32, u32, u32, bits(__hlt2(PAIR(a), PAIR(b))), BITS2(x < y ? UNIT : 0))
MAP2_NAMED("__hlt2_mask", u32, u32, u32, __hlt2_mask(PAIR(a), PAIR(b)), BITS2(x < y ? 0xffff : 0))
MAP2_NAMED("__hblt2", int, u32, u32, __hblt2(PAIR(a), PAIR(b)), BITS2(x < y) == 0x10001)
MAP2_NAMED("__hle", int, u16, u16, __hle(ONE(a), ONE(b)), (VALUE(a) <= VALUE(b)))
MAP2_NAMED("__hleu", int, u16, u16, __hleu(ONE(a), ONE(b)),
           (VALUE(a) <= VALUE(b)) || (VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)))
MAP2_NAMED("__hle2", u32, u32, u32, bits(__hle2(PAIR(a), PAIR(b))), BITS2(x <= y ? UNIT : 0))
MAP2_NAMED("__hle2_mask", u32, u32, u32, __hle2_mask(PAIR(a), PAIR(b)), BITS2(x <= y ? 0xffff : 0))
MAP2_NAMED("__hble2", int, u32, u32, __hble2(PAIR(a), PAIR(b)), BITS2(x <= y) == 0x10001)
MAP2_NAMED("__hgt", int, u16, u16, __hgt(ONE(a), ONE(b)), (VALUE(a) > VALUE(b)))
MAP2_NAMED("__hgtu", int, u16, u16, __hgtu(ONE(a), ONE(b)),
           (VALUE(a) > VALUE(b)) || (VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)))
MAP2_NAMED("__hgt2", u32, u32, u32, bits(__hgt2(PAIR(a), PAIR(b))), BITS2(x > y ? UNIT : 0))
MAP2_NAMED("__hgt2_mask", u32, u32, u32, __hgt2_mask(PAIR(a), PAIR(b)), BITS2(x > y ? 0xffff : 0))
MAP2_NAMED("__hbgt2", int, u32, u32, __hbgt2(PAIR(a), PAIR(b)), BITS2(x > y) == 0x10001)
MAP2_NAMED("__hge", int, u16, u16, __hge(ONE(a), ONE(b)), (VALUE(a) >= VALUE(b)))
MAP2_NAMED("__hgeu", int, u16, u16, __hgeu(ONE(a), ONE(b)),
           (VALUE(a) >= VALUE(b)) || (VALUE(a) != VALUE(a) || VALUE(b) != VALUE(b)))
MAP2_NAMED("__hge2", u32, u32, u32, bits(__hge2(PAIR(a), PAIR(b))), BITS2(x >= y ? UNIT : 0))
MAP2_NAMED("__hge2_mask", u32, u32, u32, __hge2_mask(PAIR(a), PAIR(b)), BITS2(x >= y ? 0xffff : 0))
MAP2_NAMED("__hbge2", int, u32, u32, __hbge2(PAIR(a), PAIR(b)), BITS2(x >= y) == 0x10001)
MAP1_NAMED("__hisnan", int, u16, __hisnan(ONE(a)), VALUE(a) != VALUE(a))
MAP1_NAMED("__hisinf", int, u16, __hisinf(ONE(a)) != 0, isinf(VALUE(a)) != 0)
MAP2_NAMED("__hadd2", u32, u32, u32, DEV2(__hadd2(PAIR(a), PAIR(b))), ({
               u32 c = 0;
               BOTH((long double)x + y);
           }))
MAP2_NAMED("__hsub2", u32, u32, u32, DEV2(__hsub2(PAIR(a), PAIR(b))), ({
               u32 c = 0;
               BOTH((long double)x - y);
           }))
MAP2_NAMED("__hmul2", u32, u32, u32, DEV2(__hmul2(PAIR(a), PAIR(b))), ({
               u32 c = 0;
               BOTH((long double)x * y);
           }))
MAP2_NAMED("__h2div", u32, u32, u32, DEV2(__h2div(PAIR(a), PAIR(b))), ({
               u32 c = 0;
               BOTH((long double)x / y);
           }))
MAP3_NAMED("__hfma2", u32, u32, u32, u32, DEV2(__hfma2(PAIR(a), PAIR(b), PAIR(c))),
           BOTH(conf_exact_fma(x, y, z)))
MAP1_NAMED("__hneg2", u32, u32, DEV2(__hneg2(PAIR(a))), canonical2(a ^ 0x80008000))
MAP1_NAMED("__habs2", u32, u32, DEV2(__habs2(PAIR(a))), canonical2(a & 0x7fff7fff))
MAP1_NAMED("hsqrt of " CONF_TEXT(NUMBER), u16, u16, DEV(hsqrt(ONE(a))), canonical(NEAREST(sqrtl(VALUE(a)))))
MAP1_NAMED("hfloor of " CONF_TEXT(NUMBER), u16, u16, DEV(hfloor(ONE(a))),
           canonical(NEAREST(floorl(VALUE(a)))))
MAP1_NAMED("hceil of " CONF_TEXT(NUMBER), u16, u16, DEV(hceil(ONE(a))), canonical(NEAREST(ceill(VALUE(a)))))
MAP1_NAMED("htrunc of " CONF_TEXT(NUMBER), u16, u16, DEV(htrunc(ONE(a))),
           canonical(NEAREST(truncl(VALUE(a)))))
MAP1_NAMED("hrint of " CONF_TEXT(NUMBER), u16, u16, DEV(hrint(ONE(a))), canonical(NEAREST(rintl(VALUE(a)))))
ULP1_NAMED("hexp of " CONF_TEXT(NUMBER), float, u16, all(), ULPS, TO(float, )(hexp(ONE(conf_positive(a)))),
           expl((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hexp2 of " CONF_TEXT(NUMBER), float, u16, all(), ULPS, TO(float, )(hexp2(ONE(conf_positive(a)))),
           exp2l((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hlog of " CONF_TEXT(NUMBER), float, u16, all(), ULPS, TO(float, )(hlog(ONE(conf_positive(a)))),
           logl((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hlog2 of " CONF_TEXT(NUMBER), float, u16, all(), ULPS, TO(float, )(hlog2(ONE(conf_positive(a)))),
           log2l((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hlog10 of " CONF_TEXT(NUMBER), float, u16, all(), ULPS,
           TO(float, )(hlog10(ONE(conf_positive(a)))), log10l((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hrcp of " CONF_TEXT(NUMBER), float, u16, all(), ULPS, TO(float, )(hrcp(ONE(conf_positive(a)))),
           1 / ((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hrsqrt of " CONF_TEXT(NUMBER), float, u16, all(), ULPS,
           TO(float, )(hrsqrt(ONE(conf_positive(a)))), 1 / sqrtl((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hsin of " CONF_TEXT(NUMBER), float, u16, all(), ULPS, TO(float, )(hsin(ONE(conf_positive(a)))),
           sinl((long double)VALUE(conf_positive(a))))
ULP1_NAMED("hcos of " CONF_TEXT(NUMBER), float, u16, all(), ULPS, TO(float, )(hcos(ONE(conf_positive(a)))),
           cosl((long double)VALUE(conf_positive(a))))
ROW_FROM(float, , float, canonical(NEAREST(a)))
ROW_FROM(float, _rn, float, canonical(NEAREST(a)))
MAP1_NAMED(CONF_TEXT(TO(float, )) "(" CONF_TEXT(ONE) "(a))", float, u16, TO(float, )(ONE(a)), (float)VALUE(a))
ROW_FROM(double, , double, canonical(NEAREST(a)))
ROW_DIRECTED(_rz, 'z')
ROW_DIRECTED(_ru, 'u')
ROW_DIRECTED(_rd, 'd')
ROWS_WHOLE(int, int, -0x1p31L, 0x1p31L - 1)
ROWS_WHOLE(uint, u32, 0, 0x1p32L - 1)
ROWS_WHOLE(short, short, -32768, 32767)
ROWS_WHOLE(ushort, u16, 0, 65535)
ROWS_WHOLE(ll, long long, -0x1p63L, 0x1p63L - 1)
ROWS_WHOLE(ull, unsigned long long, 0, 0x1p64L - 1)
MAP1_NAMED("(int)(" CONF_TEXT(NUMBER) ")", int, u16, (int)ONE(conf_number(a)),
           (int)conf_clamp(truncl(VALUE(conf_number(a))), -0x1p31L, 0x1p31L - 1))
MAP1_NAMED(CONF_TEXT(NUMBER) "(float)", u16, float, DEV(NUMBER(a)), canonical(NEAREST(a)))
MAP1_NAMED("(float)" CONF_TEXT(NUMBER), float, u16, (float)ONE(a), (float)VALUE(a))
MAP2_NAMED(CONF_TEXT(CONF_PASTE(__floats2, WORD, 2_rn)), u32, float, float,
           DEV2(CONF_PASTE(__floats2, WORD, 2_rn)(a, b)), canonical2(NEAREST(a) | (u32)NEAREST(b) << 16))
MAP1_NAMED("bits(__lowhigh2highlow(" CONF_TEXT(PAIR) "(a)))", u32, u32, bits(__lowhigh2highlow(PAIR(a))),
           a >> 16 | a << 16)
MAP2_NAMED("bits(" CONF_TEXT(CONF_PASTE(__lows2, WORD,
                                        2)) "(" CONF_TEXT(PAIR) "(a), " CONF_TEXT(PAIR) "(b)))",
           u32, u32, u32, bits(CONF_PASTE(__lows2, WORD, 2)(PAIR(a), PAIR(b))), (a & 0xffff) | b << 16)
#endif
