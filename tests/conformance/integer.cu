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

// Selects bytes of b:a by nibbles of the selector; bit 3 of a nibble replicates the byte's sign.
static u32 permuted(u32 a, u32 b, u32 selector)
{
    u64 all = (u64)b << 32 | a;
    u32 r = 0;
    for (int i = 0; i < 4; i++) {
        u32 s = selector >> 4 * i, byte = (u32)(all >> 8 * (s & 7)) & 0xff;
        if (s & 8)
            byte = byte & 0x80 ? 0xff : 0;
        r |= byte << 8 * i;
    }
    return r;
}
MAP3(u32, u32, u32, u32, __byte_perm(a, b, c & 0x7777), permuted(a, b, c & 0x7777))
MAP1(u32, u32, __byte_perm(a, 0, 0x0123), a << 24 | (a & 0xff00) << 8 | (a >> 8 & 0xff00) | a >> 24)

// ---- products ----
static int low24(u32 x) // bits 0..23 as a signed number
{
    return x & 0x800000 ? (int)(x & 0x7fffff) - 0x800000 : (int)(x & 0x7fffff);
}
MAP2(int, int, int, __mul24(a, b), (int)((s64)low24(a) * low24(b)))
MAP2(u32, u32, u32, __umul24(a, b), (u32)((u64)(a & 0xffffff) * (b & 0xffffff)))
MAP2(int, int, int, __mulhi(a, b), (int)((s64)a *b >> 32))
MAP2(u32, u32, u32, __umulhi(a, b), (u32)((u64)a *b >> 32))
MAP2(s64, s64, s64, __mul64hi(a, b), (s64)((__int128)a *b >> 64))
MAP2(u64, u64, u64, __umul64hi(a, b), (u64)((unsigned __int128)a *b >> 64))
MAP2(int, int, int, a *b, (int)((u32)a *(u32)b))
MAP2(u64, u64, u64, a *b + 1, (u64)((unsigned __int128)a *b) + 1)

// ---- sums of differences, averages ----
static u32 distance(s64 a, s64 b)
{
    return (u32)(a > b ? a - b : b - a);
}
MAP3(u32, int, int, u32, __sad(a, b, c), distance(a, b) + c)
MAP3(u32, u32, u32, u32, __usad(a, b, c), distance(a, b) + c)
static s64 half_down(s64 x) // floor(x / 2)
{
    return (x - (x & 1)) / 2;
}
MAP2(int, int, int, __hadd(a, b), (int)half_down((s64)a + b))
MAP2(int, int, int, __rhadd(a, b), (int)half_down((s64)a + b + 1))
MAP2(u32, u32, u32, __uhadd(a, b), (u32)(((u64)a + b) / 2))
MAP2(u32, u32, u32, __urhadd(a, b), (u32)(((u64)a + b + 1) / 2))

// ---- funnel shifts ----
static u32 funnel_left(u32 lo, u32 hi, u32 n)
{
    return n == 0 ? hi : n == 32 ? lo : hi << n | lo >> (32 - n);
}
static u32 funnel_right(u32 lo, u32 hi, u32 n)
{
    return n == 0 ? lo : n == 32 ? hi : lo >> n | hi << (32 - n);
}
static u32 at_most_32(u32 n)
{
    return n < 32 ? n : 32;
}
MAP3(u32, u32, u32, u32, __funnelshift_l(a, b, c), funnel_left(a, b, c & 31))
MAP3(u32, u32, u32, u32, __funnelshift_lc(a, b, c), funnel_left(a, b, at_most_32(c)))
MAP3(u32, u32, u32, u32, __funnelshift_r(a, b, c), funnel_right(a, b, c & 31))
MAP3(u32, u32, u32, u32, __funnelshift_rc(a, b, c), funnel_right(a, b, at_most_32(c)))

// ---- the language's own ----
MAP2(int, int, int, min(a, b), a < b ? a : b)
MAP2(u32, u32, u32, max(a, b), a > b ? a : b)
MAP2(s64, s64, s64, llmin(a, b), a < b ? a : b)
MAP2(u64, u64, u64, ullmax(a, b), a > b ? a : b)
MAP2(u32, int, u32, umin(a, b), (u32)a < b ? (u32)a : b)
MAP1(int, int, abs(a), a < 0 ? (int)(0u - (u32)a) : a)
MAP1(s64, s64, llabs(a), a < 0 ? (s64)(0ull - (u64)a) : a)
MAP2(u32, u32, u32, a / (b | 1), a / (b | 1))
MAP2(int, int, int, a % (b & 0x7fffffff | 1), a % (b & 0x7fffffff | 1))
MAP2_NAMED("a / (b | 1) of u64", u64, u64, u64, a / (b | 1), a / (b | 1))
MAP2(s64, s64, s64, a % (b & 0x7fffffffffffffff | 1), a % (b & 0x7fffffffffffffff | 1))
// A division by zero does not stop a GPU; what it gives is not looked at. The compiler must not know that it
// is one, or it takes b for no zero anywhere.
static __device__ int unknown(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}
static __device__ u64 unknown(u64 x)
{
    asm volatile("" : "+l"(x));
    return x;
}
MAP2_NAMED("a / b, also by 0", int, int, int, b == -1 ? 1 : unknown(a / unknown(b)) | (b == 0 ? -1 : 0),
           b == -1 ? 1
           : b     ? a / b
                   : -1)
MAP2_NAMED("a % b, also by 0", u64, u64, u64, unknown(a % unknown(b)) | (b == 0 ? ~0ull : 0),
           b ? a % b : ~0ull)
MAP2(int, int, u32, a >> (b & 31), (int)floor((double)a / (double)(1ll << (b & 31))))

// ---- reading bits as another type ----
template <class R, class A> static R bits_as(A a)
{
    R r;
    memcpy(&r, &a, sizeof r);
    return r;
}
MAP1(float, int, __int_as_float(a), bits_as<float>(a))
MAP1(int, float, __float_as_int(a), bits_as<int>(a))
MAP1(float, u32, __uint_as_float(a), bits_as<float>(a))
MAP1(u32, float, __float_as_uint(a), bits_as<u32>(a))
MAP1(double, s64, __longlong_as_double(a), bits_as<double>(a))
MAP1(s64, double, __double_as_longlong(a), bits_as<s64>(a))
MAP1(int, double, __double2hiint(a), (int)(bits_as<u64>(a) >> 32))
MAP1(int, double, __double2loint(a), (int)bits_as<u64>(a))
MAP2(double, int, int, __hiloint2double(a, b), bits_as<double>((u64)(u32)a << 32 | (u32)b))

// ---- dot products of bytes and half words ----
static s64 dot(u32 a, u32 b, int n, int width_a, int width_b, bool sign_a, bool sign_b)
{
    s64 sum = 0;
    for (int i = 0; i < n; i++) {
        s64 x = a >> i * width_a & ((1u << width_a) - 1), y = b >> i * width_b & ((1u << width_b) - 1);
        if (sign_a && x >> (width_a - 1))
            x -= 1ll << width_a;
        if (sign_b && y >> (width_b - 1))
            y -= 1ll << width_b;
        sum += x * y;
    }
    return sum;
}
MAP3(int, int, int, int, __dp4a(a, b, c), (int)((u32)c + (u32)dot(a, b, 4, 8, 8, true, true)))
MAP3_NAMED("__dp4a(a, b, c) of u32", u32, u32, u32, u32, __dp4a(a, b, c),
           c + (u32)dot(a, b, 4, 8, 8, false, false))
MAP3(int, int, int, int, __dp2a_lo(a, b, c), (int)((u32)c + (u32)dot(a, b, 2, 16, 8, true, true)))
MAP3_NAMED("__dp2a_lo(a, b, c) of u32", u32, u32, u32, u32, __dp2a_lo(a, b, c),
           c + (u32)dot(a, b, 2, 16, 8, false, false))
MAP3(int, int, int, int, __dp2a_hi(a, b, c), (int)((u32)c + (u32)dot(a, (u32)b >> 16, 2, 16, 8, true, true)))
MAP3_NAMED("__dp2a_hi(a, b, c) of u32", u32, u32, u32, u32, __dp2a_hi(a, b, c),
           c + (u32)dot(a, b >> 16, 2, 16, 8, false, false))
static __device__ char4 bytes4(int x)
{
    return make_char4(x, x >> 8, x >> 16, x >> 24);
}
static __device__ uchar4 ubytes4(u32 x)
{
    return make_uchar4(x, x >> 8, x >> 16, x >> 24);
}
static __device__ short2 words2(int x)
{
    return make_short2(x, x >> 16);
}
static __device__ ushort2 uwords2(u32 x)
{
    return make_ushort2(x, x >> 16);
}
MAP3(int, int, int, int, __dp4a(bytes4(a), bytes4(b), c), (int)((u32)c + (u32)dot(a, b, 4, 8, 8, true, true)))
MAP3(u32, u32, u32, u32, __dp4a(ubytes4(a), ubytes4(b), c), c + (u32)dot(a, b, 4, 8, 8, false, false))
MAP3(int, int, int, int, __dp2a_lo(words2(a), bytes4(b), c),
     (int)((u32)c + (u32)dot(a, b, 2, 16, 8, true, true)))
MAP3(u32, u32, u32, u32, __dp2a_hi(uwords2(a), ubytes4(b), c),
     c + (u32)dot(a, b >> 16, 2, 16, 8, false, false))
#define ASM3(op, a, b, c)                                                                                    \
    ({                                                                                                       \
        int d_;                                                                                              \
        asm(op " %0, %1, %2, %3;" : "=r"(d_) : "r"(a), "r"(b), "r"(c));                                      \
        d_;                                                                                                  \
    })
MAP3_NAMED("dp4a.s32.u32", int, int, int, int, ASM3("dp4a.s32.u32", a, b, c),
           (int)((u32)c + (u32)dot(a, b, 4, 8, 8, true, false)))
MAP3_NAMED("dp4a.u32.s32", int, int, int, int, ASM3("dp4a.u32.s32", a, b, c),
           (int)((u32)c + (u32)dot(a, b, 4, 8, 8, false, true)))
MAP3_NAMED("dp2a.lo.s32.u32", int, int, int, int, ASM3("dp2a.lo.s32.u32", a, b, c),
           (int)((u32)c + (u32)dot(a, b, 2, 16, 8, true, false)))
MAP3_NAMED("dp2a.hi.u32.s32", int, int, int, int, ASM3("dp2a.hi.u32.s32", a, b, c),
           (int)((u32)c + (u32)dot(a, (u32)b >> 16, 2, 16, 8, false, true)))
CONF_MAIN
