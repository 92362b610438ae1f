// Half precision (__half, __half2): arithmetic, comparisons, conversions, functions.
#define NUMBER __half
#define WORD half
#define ONE h
#define PAIR h2
#define VALUE half_of
#define NEAREST to_half
#define ULPS 2 * 8192
enum { INF = 0x7c00, UNIT = 0x3c00, LARGEST = 0x7bff, FIRST = 0x2c00, SPAN = 0x4800 - 0x2c00 };
#include "sixteen.h"

MAP1_NAMED("__half22float2", float, u32, __half22float2(h2(a)).x + 2 * __half22float2(h2(a)).y,
           (float)half_of(a & 0xffff) + 2 * (float)half_of(a >> 16))
MAP2(u32, u32, u32, bits(__highs2half2(h2(a), h2(b))), a >> 16 | (b & 0xffff0000))
MAP1(u16, u16, (u16)__half_as_short(h(a)), a)
MAP1(u16, u16, bits(__ushort_as_half(a)), a)
CONF_MAIN
