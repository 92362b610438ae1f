// Shifts by the width of their operand or more, and conversions out of range: PTX says what shl, shr and cvt
// give. C leaves both open, so the host computes the reference without them.
#include "map.h"
typedef unsigned u32;
typedef long long s64;
typedef unsigned long long u64;

template <class T> static T left(T x, u32 n)
{
    for (; n && x; n--)
        x += x;
    return x;
}
template <class T> static T right(T x, u32 n)
{
    for (u32 i = 0; i < n && i < 64; i++)
        x = x < 0 && x % 2 ? x / 2 - 1 : x / 2; // rounds down
    return x;
}
MAP2_NAMED("unsigned a << b", u32, u32, u32, a << b, left(a, b))
MAP2_NAMED("unsigned a >> b", u32, u32, u32, a >> b, right(a, b))
MAP2_NAMED("int a >> b", int, int, u32, a >> b, right(a, b))
MAP2_NAMED("unsigned long long a << b", u64, u64, u32, a << b, left(a, b))
MAP2_NAMED("unsigned long long a >> b", u64, u64, u32, a >> b, right(a, b))
MAP2_NAMED("long long a >> b", s64, s64, u32, a >> b, right(a, b))
// the low n bits, and those above them, for n from 0 to 32
MAP2_NAMED("(1 << n) - 1, n = b % 33", u32, u32, u32, (1u << b % 33) - 1,
           b % 33 == 32 ? ~0u : (u32)((1ull << b % 33) - 1))
MAP2_NAMED("a << (32 - n), n = b % 33", u32, u32, u32, a << (32 - b % 33), (u32)((u64)a << (32 - b % 33)))

template <class T>
static T whole(long double x, bool wide, long double lowest, long double largest, T lo, T hi)
{
    if (x != x)
        return wide ? (T)(1ull << (sizeof(T) * 8 - 1)) : 0;
    return x <= lowest ? lo : x >= largest ? hi : (T)x;
}
template <class T> static T whole(float x)
{
    typedef std::numeric_limits<T> L;
    return whole<T>(x, sizeof(T) == 8, L::min(), L::max(), L::min(), L::max());
}
template <class T> static T whole(double x)
{
    typedef std::numeric_limits<T> L;
    return whole<T>(x, true, L::min(), L::max(), L::min(), L::max());
}
MAP1_NAMED("(int)(float)a", int, float, (int)a, whole<int>(a))
MAP1_NAMED("(unsigned)(float)a", u32, float, (u32)a, whole<u32>(a))
MAP1_NAMED("(long long)(float)a", s64, float, (s64)a, whole<s64>(a))
MAP1_NAMED("(unsigned long long)(float)a", u64, float, (u64)a, whole<u64>(a))
MAP1_NAMED("(int)(double)a", int, double, (int)a, whole<int>(a))
MAP1_NAMED("(unsigned)(double)a", u32, double, (u32)a, whole<u32>(a))
MAP1_NAMED("(long long)(double)a", s64, double, (s64)a, whole<s64>(a))
MAP1_NAMED("(unsigned long long)(double)a", u64, double, (u64)a, whole<u64>(a))

// Addresses of shared memory have 32 bits: an unsigned index that wraps around lies before the pointer.
__global__ void backwards(int *p)
{
    __shared__ int s[128];
    unsigned i = threadIdx.x;
    int *middle = s + 64;
    s[i] = 5 * i;
    s[i + 64] = -1;
    __syncthreads();
    p[i] = middle[~i]; // s[63 - i]
}
ROW("s[~i]", "an index into shared memory that wraps at 32 bits")
{
    conf::buffer<int> p(r, 64);
    backwards<<<1, 64>>>(p);
    p.is([](long i) { return 5 * (63 - i); });
    r.stores(64, 4);
}
CONF_MAIN
