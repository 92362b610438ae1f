// Shifts by the width of their operand or more, and conversions out of range: PTX says what shl, shr and cvt
// give. C leaves both open, so the host computes the reference without them.
// conformance: levels -O1 -O2
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

// Neighbours whose results are stored together: from -O2 on the optimiser computes with vectors.
template <class To, class Whole, class From> __global__ void neighbours(To *out, const From *in)
{
    int i = 4 * threadIdx.x;
    out[i] = (To)(Whole)in[i];
    out[i + 1] = (To)(Whole)in[i + 1];
    out[i + 2] = (To)(Whole)in[i + 2];
    out[i + 3] = (To)(Whole)in[i + 3];
}
template <class To, class Whole, class From> void convert_neighbours(conf::row &r)
{
    conf::buffer<From> in(r, 512, [](long i) { return (From)conf::float_input<float>(i, 0, conf::all()); });
    conf::buffer<To> out(r, 512);
    neighbours<To, Whole, From><<<1, 128>>>(out, in);
    out.is([&](long i) {
        return (To)whole<Whole>((std::conditional_t < sizeof(From) == 8, double, float >) in.h[i]);
    });
    r.loads(512, sizeof(From));
    r.stores(512, sizeof(To));
    r.only_bytes(); // neighbours may be one access
}
#define NEIGHBOURS(To, Whole, From)                                                                          \
    ROW("(" #To ")(" #Whole ")(" #From ")a, four neighbours", "512 conversions, many out of range")          \
    {                                                                                                        \
        convert_neighbours<To, Whole, From>(r);                                                              \
    }
typedef unsigned char u8;
typedef unsigned short u16;
NEIGHBOURS(short, int, float)
NEIGHBOURS(u16, u32, float)
NEIGHBOURS(short, s64, float)
NEIGHBOURS(u8, int, float)
NEIGHBOURS(u8, u32, float)
NEIGHBOURS(u16, int, double)
NEIGHBOURS(short, u32, double)
NEIGHBOURS(short, short, float)
NEIGHBOURS(u8, u16, double)
NEIGHBOURS(int, int, _Float16)
NEIGHBOURS(u32, u32, _Float16)
NEIGHBOURS(short, short, _Float16)
NEIGHBOURS(u16, u32, _Float16)
NEIGHBOURS(u64, u64, _Float16)
NEIGHBOURS(s64, s64, _Float16)

// Of two zeros the smaller is the negative one (PTX: +0 > -0); one NaN does not count.
template <class T> static T smaller(T a, T b, bool larger)
{
    if (a != a || b != b)
        return a != a ? b : a;
    bool less = a < b || (a == b && signbit(a));
    return less != larger ? a : b;
}
MAP2_NAMED("fminf(a, b), zeros of both signs", float, float, float, fminf(a, b), smaller(a, b, false))
MAP2_NAMED("fmaxf(a, b), zeros of both signs", float, float, float, fmaxf(a, b), smaller(a, b, true))
MAP2_NAMED("fmin(a, b), zeros of both signs", double, double, double, fmin(a, b), smaller(a, b, false))
MAP2_NAMED("fmax(a, b), zeros of both signs", double, double, double, fmax(a, b), smaller(a, b, true))
MAP1_NAMED("fmaxf(a, 0)", float, float, fmaxf(a, 0.0f), smaller(a, 0.0f, true))
MAP1_NAMED("fminf(-0.0f, a)", float, float, fminf(-0.0f, a), smaller(-0.0f, a, false))

// What C leaves open and PTX does not.
MAP1_NAMED("__builtin_clz(a)", int, u32, __builtin_clz(a), a ? __builtin_clz(a) : 32)
MAP1_NAMED("__builtin_ctz(a)", int, u32, __builtin_ctz(a), a ? __builtin_ctz(a) : 32)

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
