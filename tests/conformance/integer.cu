// Integer intrinsics: bits, bytes, multiplication, averages, funnel shifts.
#include "map.h"
typedef unsigned u32;
typedef long long s64;
typedef unsigned long long u64;

static int bits(u64 x)
{
    int n = 0;
    for (; x; x >>= 1)
        n += x & 1;
    return n;
}
static int leading(u64 x, int width)
{
    int n = 0;
    while (n < width && !(x >> (width - 1 - n) & 1))
        n++;
    return n;
}
static int lowest(u64 x) // 1 for bit 0; 0: none
{
    for (int n = 0; n < 64; n++)
        if (x >> n & 1)
            return n + 1;
    return 0;
}
static u64 reversed(u64 x, int width)
{
    u64 y = 0;
    for (int n = 0; n < width; n++)
        y |= (x >> n & 1) << (width - 1 - n);
    return y;
}
MAP1(int, u32, __popc(a), bits(a))
MAP1(int, u64, __popcll(a), bits(a))
MAP1(int, int, __clz(a), leading((u32)a, 32))
MAP1(int, s64, __clzll(a), leading(a, 64))
MAP1(int, int, __ffs(a), lowest((u32)a))
MAP1(int, s64, __ffsll(a), lowest(a))
MAP1(u32, u32, __brev(a), (u32)reversed(a, 32))
MAP1(u64, u64, __brevll(a), reversed(a, 64))
CONF_MAIN
