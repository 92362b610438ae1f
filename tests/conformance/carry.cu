// Numbers of many words: chains of carries in inline assembly, and what compilers make of __int128.
#include "conf.h"
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;
typedef __int128 s128;
typedef unsigned __int128 u128;

// ---- the model: bytes, lowest first, as at school ----

struct big {
    unsigned char at[80];
};
// r = a + b or a - b of bytes `from` to `to`; what is carried or borrowed at the end.
static int add(big *r, const big &a, const big &b, int from, int to, int carry = 0)
{
    for (int i = from; i < to; i++) {
        carry += a.at[i] + b.at[i];
        r->at[i] = carry & 255;
        carry >>= 8;
    }
    return carry;
}
static int subtract(big *r, const big &a, const big &b, int from, int to, int borrow = 0)
{
    for (int i = from; i < to; i++) {
        int d = a.at[i] - b.at[i] - borrow;
        borrow = d < 0;
        r->at[i] = (unsigned char)(d + 256 * borrow);
    }
    return borrow;
}
static big times(const big &a, const big &b, int n)
{
    big r = {};
    for (int i = 0; i < n; i++)
        for (int k = 0, carry = 0; k < n || carry; k++) {
            carry += r.at[i + k] + (k < n ? a.at[i] * b.at[k] : 0);
            r.at[i + k] = carry & 255;
            carry >>= 8;
        }
    return r;
}
template <class T> static T word(const big &x, int i)
{
    T w;
    memcpy(&w, x.at + i * sizeof w, sizeof w);
    return w;
}
template <class T> static void put(big *x, int i, T w)
{
    memcpy(x->at + i * sizeof w, &w, sizeof w);
}

// ---- rows: each of 128 threads makes R words of two numbers of N words ----

constexpr int NUMBERS = 128;
template <class T> static T input(long i)
{
    u64 x = (u64)(i + 1) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 32;
    return x & 1 ? (T)(x >> 3) : x & 2 ? (T)0 : x & 4 ? (T)1 : (T)~0ull;
}

template <class T, int N, int R, class MODEL>
static void chain(conf::row &r, void (*kernel)(T *, const T *, const T *), MODEL model)
{
    conf::buffer<T> a(r, NUMBERS * N, input<T>);
    conf::buffer<T> b(r, NUMBERS * N, [](long i) { return input<T>(i % 3 ? i + 77777 : i); });
    conf::buffer<T> out(r, NUMBERS * R);
    r.only_bytes();
    r.loads(2 * NUMBERS * N, sizeof(T));
    r.stores(NUMBERS * R, sizeof(T));
    kernel<<<1, NUMBERS>>>(out, a, b);
    out.get();
    for (int i = 0; i < NUMBERS; i++) {
        big want = {}, x = {}, y = {};
        memcpy(x.at, &a.h[i * N], N * sizeof(T));
        memcpy(y.at, &b.h[i * N], N * sizeof(T));
        model(&want, x, y);
        for (int k = 0; k < R; k++)
            if (!r.same(i * R + k, (long long)out.h[i * R + k], (long long)word<T>(want, k)))
                return;
    }
}

// The device's code makes d of x and y, the model `want` of the same; W is the size of a word.
#define CHAIN_(id, name, what, T, N, R, code, model)                                                         \
    static __global__ void CONF_JOIN(chain_, id)(T * out, const T *a, const T *b)                            \
    {                                                                                                        \
        T x[N], y[N], d[R];                                                                                  \
        for (int i = 0; i < N; i++) {                                                                        \
            x[i] = a[threadIdx.x * N + i];                                                                   \
            y[i] = b[threadIdx.x * N + i];                                                                   \
        }                                                                                                    \
        code;                                                                                                \
        for (int i = 0; i < R; i++)                                                                          \
            out[threadIdx.x * (R) + i] = d[i];                                                               \
    }                                                                                                        \
    ROW(name, what)                                                                                          \
    {                                                                                                        \
        chain<T, N, (R)>(r, CONF_JOIN(chain_, id), [](big *want, const big &x, const big &y) {               \
            constexpr int W = sizeof(T);                                                                     \
            (void)W;                                                                                         \
            model;                                                                                           \
        });                                                                                                  \
    }
#define CHAIN_ID(id, ...) CHAIN_(id, __VA_ARGS__)
#define CHAIN(...) CHAIN_ID(__COUNTER__, __VA_ARGS__)

// ---- chains: each step a statement of its own, which hands the flag on ----

#define STEP(op, reg, d, a, b) asm volatile(op " %0, %1, %2;" : "=" reg(d) : reg(a), reg(b))
#define MAD(op, reg, d, a, b, c) asm volatile(op " %0, %1, %2, %3;" : "=" reg(d) : reg(a), reg(b), reg(c))
#define SUM(T, type, reg, N, first, next, flag)                                                              \
    CHAIN(first ".cc." type ", " next ".cc, addc", "numbers of " #N " words, and the flag", T, N, N + 1, ({  \
              STEP(first ".cc." type, reg, d[0], x[0], y[0]);                                                \
              for (int i = 1; i < N; i++)                                                                    \
                  STEP(next ".cc." type, reg, d[i], x[i], y[i]);                                             \
              STEP("addc." type, reg, d[N], (T)0, (T)0);                                                     \
          }),                                                                                                \
          put<T>(want, N, (T)(flag)))
// A step of the other kind after each: after a subtraction the flag says that nothing was borrowed.
#define MIXED(T, type, reg)                                                                                  \
    CHAIN("sub.cc." type ", addc.cc, subc.cc, madc.lo.cc, subc", "in turn", T, 5, 5, ({                      \
              STEP("sub.cc." type, reg, d[0], x[0], y[0]);                                                   \
              STEP("addc.cc." type, reg, d[1], x[1], y[1]);                                                  \
              STEP("subc.cc." type, reg, d[2], x[2], y[2]);                                                  \
              MAD("madc.lo.cc." type, reg, d[3], x[3], (T)1, y[3]);                                          \
              STEP("subc." type, reg, d[4], x[4], y[4]);                                                     \
          }),                                                                                                \
          ({                                                                                                 \
              int flag = 1;                                                                                  \
              for (int i = 0; i < 5; i++)                                                                    \
                  flag = i % 2 ? add(want, x, y, i * W, i * W + W, flag)                                     \
                               : !subtract(want, x, y, i * W, i * W + W, !flag);                             \
          }))
// (x1 x0) + (y1 y0) + product of y0 and y1, and the flag
#define PRODUCT(T, type, reg, wide)                                                                          \
    CHAIN("mad.lo.cc." type ", madc.hi.cc, addc", "a product of two words on top of two", T, 2, 3, ({        \
              MAD("mad.lo.cc." type, reg, d[0], y[0], y[1], x[0]);                                           \
              MAD("madc.hi.cc." type, reg, d[1], y[0], y[1], x[1]);                                          \
              STEP("addc." type, reg, d[2], (T)0, (T)0);                                                     \
          }),                                                                                                \
          ({                                                                                                 \
              big p = {};                                                                                    \
              put<wide>(&p, 0, (wide)word<T>(y, 0) * word<T>(y, 1));                                         \
              put<T>(want, 2, (T)add(want, x, p, 0, 2 * W));                                                 \
          }))
// All of a product, row by row: low halves, then high halves.
#define MULTIPLY(T, type, reg, N)                                                                            \
    CHAIN("mad.lo.cc." type ", madc.lo.cc, mad.hi.cc, madc.hi.cc", "two numbers of " #N " words multiplied", \
          T, N, 2 * N, ({                                                                                    \
              for (int i = 0; i < 2 * N; i++)                                                                \
                  d[i] = 0;                                                                                  \
              _Pragma("unroll") for (int i = 0; i < N; i++)                                                  \
              {                                                                                              \
                  MAD("mad.lo.cc." type, reg, d[i], x[i], y[0], d[i]);                                       \
                  _Pragma("unroll") for (int k = 1; k < N; k++)                                              \
                      MAD("madc.lo.cc." type, reg, d[i + k], x[i], y[k], d[i + k]);                          \
                  STEP("addc." type, reg, d[i + N], d[i + N], (T)0);                                         \
                  MAD("mad.hi.cc." type, reg, d[i + 1], x[i], y[0], d[i + 1]);                               \
                  _Pragma("unroll") for (int k = 1; k < N - 1; k++)                                          \
                      MAD("madc.hi.cc." type, reg, d[i + k + 1], x[i], y[k], d[i + k + 1]);                  \
                  MAD("madc.hi." type, reg, d[i + N], x[i], y[N - 1], d[i + N]);                             \
              }                                                                                              \
          }),                                                                                                \
          *want = times(x, y, N * W))
#define ALL(T, type, reg, N, wide)                                                                           \
    SUM(T, type, reg, N, "add", "addc", add(want, x, y, 0, N *W))                                            \
    SUM(T, type, reg, N, "sub", "subc", !subtract(want, x, y, 0, N * W))                                     \
    MIXED(T, type, reg)                                                                                      \
    PRODUCT(T, type, reg, wide)
ALL(u32, "u32", "r", 16, u64)
ALL(int, "s32", "r", 4, s64)
ALL(u64, "u64", "l", 8, u128)
ALL(s64, "s64", "l", 2, s128)
MULTIPLY(u32, "u32", "r", 8)
MULTIPLY(u64, "u64", "l", 4)

// Half of the threads take the statement in the middle; the others keep the flag of the one before.
static void guarded(big *want, const big &x, const big &y)
{
    u32 a = word<u32>(x, 0), b = word<u32>(x, 1);
    bool taken = a < word<u32>(y, 0);
    put<u32>(want, 0, taken ? a - b : 7);
    put<u32>(want, 1, taken ? a >= b : (u64)b + word<u32>(y, 1) > 0xffffffffu);
}
CHAIN("@p sub.cc, addc", "the flag under a predicate", u32, 2, 2, ({
          asm volatile("{ .reg .pred p; .reg .u32 t; setp.lt.u32 p, %2, %4; add.cc.u32 t, %3, %5;\n"
                       "mov.u32 %0, 7; @p sub.cc.u32 %0, %2, %3; addc.u32 %1, 0, 0; }"
                       : "=&r"(d[0]), "=&r"(d[1])
                       : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]));
      }),
      guarded(want, x, y))
CHAIN("@p bra, sub.cc, addc", "the flag across a branch that divides the warp", u32, 2, 2, ({
          asm volatile("{ .reg .pred p; .reg .u32 t; setp.ge.u32 p, %2, %4; add.cc.u32 t, %3, %5;\n"
                       "mov.u32 %0, 7; @p bra L; sub.cc.u32 %0, %2, %3; L: addc.u32 %1, 0, 0; }"
                       : "=&r"(d[0]), "=&r"(d[1])
                       : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]));
      }),
      guarded(want, x, y))

// ---- __int128 ----

template <class T> static __device__ T whole(const u64 *x)
{
    return (T)((u128)x[1] << 64 | x[0]);
}
#define WIDE(name, what, expression, model)                                                                  \
    CHAIN(name, what, u64, 2, 2, ({                                                                          \
              u128 a = whole<u128>(x), b = whole<u128>(y), v = (expression);                                 \
              d[0] = (u64)v;                                                                                 \
              d[1] = (u64)(v >> 64);                                                                         \
          }),                                                                                                \
          ({                                                                                                 \
              u128 a = word<u128>(x, 0), b = word<u128>(y, 0);                                               \
              (void)a, (void)b;                                                                              \
              put<u128>(want, 0, (u128)(model));                                                             \
          }))
// Bit by bit: what is left of a after b was taken away wherever it fits, and where it did.
static u128 divided(u128 a, u128 b, bool rest)
{
    u128 left = 0, quotient = 0;
    for (int i = 127; i >= 0; i--) {
        bool out = left >> 127;
        left = left << 1 | (a >> i & 1);
        if (out || left >= b) {
            left -= b;
            quotient |= (u128)1 << i;
        }
    }
    return rest ? left : quotient;
}
static u128 size_of(s128 a)
{
    return a < 0 ? -(u128)a : (u128)a;
}
WIDE("__int128 *", "128 bits", a *b, word<u128>(times(x, y, 16), 0))
WIDE("unsigned __int128 /", "128 bits", a / (b | 1), divided(a, b | 1, false))
WIDE("unsigned __int128 %", "128 bits", a % (b | 1), divided(a, b | 1, true))
WIDE("unsigned __int128 / 64 bits", "and 128 bits added", a / ((u64)b | 1) + b,
     divided(a, (u64)b | 1, false) + b)
WIDE("unsigned __int128 / 7", "and 128 bits added", a / 7 + b, divided(a, 7, false) + b)
WIDE("__int128 /", "128 bits", (s128)a / (s128)(b | 2),
     ((s128)a < 0) != ((s128)b < 0) ? -divided(size_of(a), size_of(b | 2), false)
                                    : divided(size_of(a), size_of(b | 2), false))
WIDE("__int128 %", "128 bits", (s128)a % (s128)(b | 2),
     (s128)a < 0 ? -divided(size_of(a), size_of(b | 2), true) : divided(size_of(a), size_of(b | 2), true))
CONF_MAIN
