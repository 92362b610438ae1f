// SIMD intrinsics: two or four integers in a word, and the three-operand minima and maxima.
#include "map.h"
typedef unsigned u32;

// f on each lane of `width` bits; lanes are signed or unsigned numbers; the low bits of f's result are kept.
template <class F> static u32 lanes(int width, bool sign, u32 a, u32 b, u32 c, F f)
{
    u32 r = 0, mask = width == 32 ? ~0u : (1u << width) - 1;
    for (int at = 0; at < 32; at += width) {
        int64_t v[3] = {a >> at & mask, b >> at & mask, c >> at & mask};
        for (int64_t &x : v)
            if (sign && x >> (width - 1))
                x -= 1ll << width;
        r |= ((u32)f(v[0], v[1], v[2]) & mask) << at;
    }
    return r;
}
static int64_t clamp(int64_t x, int width, bool sign)
{
    int64_t hi = (1ll << (width - sign)) - 1, lo = sign ? -(1ll << (width - 1)) : 0;
    return x < lo ? lo : x > hi ? hi : x;
}
static int64_t low(int64_t x, int width) // wraps as signed
{
    x &= (1ll << width) - 1;
    return x >> (width - 1) ? x - (1ll << width) : x;
}
#define L2(width, sign, expr)                                                                                \
    lanes(width, sign, a, b, 0, [](int64_t x, int64_t y, int64_t) -> int64_t { return expr; })
#define L1(width, sign, expr)                                                                                \
    lanes(width, sign, a, 0, 0, [](int64_t x, int64_t, int64_t) -> int64_t { return expr; })
#define L3(width, sign, expr)                                                                                \
    lanes(width, sign, a, b, c, [](int64_t x, int64_t y, int64_t z) -> int64_t { return expr; })

static u32 sum(int width, u32 v) // of the lanes
{
    u32 r = 0;
    for (int at = 0; at < 32; at += width)
        r += v >> at & ((1u << width) - 1);
    return r;
}
// Signed average: halves away from zero, as vavrg of PTX.
#define AVGS(x, y) (int64_t)round((double)(x + y) / 2)

// A comparison of lanes, as a mask and as 0 or 1.
#define COMPARED(n, w, op, sign, is)                                                                         \
    MAP2(u32, u32, u32, __vcmp##op##n(a, b), L2(w, sign, x is y ? -1 : 0))                                   \
    MAP2(u32, u32, u32, __vset##op##n(a, b), L2(w, sign, x is y ? 1 : 0))
#define SIGNED_AND_UNSIGNED(n, w, u, sign)                                                                   \
    MAP2(u32, u32, u32, __vabsdiff##u##n(a, b), L2(w, sign, x > y ? x - y : y - x))                          \
    MAP2(u32, u32, u32, __vmax##u##n(a, b), L2(w, sign, x > y ? x : y))                                      \
    MAP2(u32, u32, u32, __vmin##u##n(a, b), L2(w, sign, x < y ? x : y))                                      \
    MAP2(u32, u32, u32, __vsad##u##n(a, b), sum(w, L2(w, sign, x > y ? x - y : y - x)))                      \
    MAP2(u32, u32, u32, __vadd##u##s##n(a, b), L2(w, sign, clamp(x + y, w, sign)))                           \
    MAP2(u32, u32, u32, __vsub##u##s##n(a, b), L2(w, sign, clamp(x - y, w, sign)))                           \
    COMPARED(n, w, ge##u, sign, >=)                                                                          \
    COMPARED(n, w, gt##u, sign, >)                                                                           \
    COMPARED(n, w, le##u, sign, <=)                                                                          \
    COMPARED(n, w, lt##u, sign, <)
#define LANES(n, w)                                                                                          \
    MAP1(u32, u32, __vabs##n(a), L1(w, true, x < 0 ? -x : x))                                                \
    MAP1(u32, u32, __vabsss##n(a), L1(w, true, clamp(x < 0 ? -x : x, w, true)))                              \
    MAP1(u32, u32, __vneg##n(a), L1(w, true, -x))                                                            \
    MAP1(u32, u32, __vnegss##n(a), L1(w, true, clamp(-x, w, true)))                                          \
    MAP2(u32, u32, u32, __vadd##n(a, b), L2(w, false, x + y))                                                \
    MAP2(u32, u32, u32, __vsub##n(a, b), L2(w, false, x - y))                                                \
    MAP2(u32, u32, u32, __vavgs##n(a, b), L2(w, true, AVGS(x, y)))                                           \
    MAP2(u32, u32, u32, __vavgu##n(a, b), L2(w, false, (x + y + 1) / 2))                                     \
    MAP2(u32, u32, u32, __vhaddu##n(a, b), L2(w, false, (x + y) / 2))                                        \
    COMPARED(n, w, eq, false, ==)                                                                            \
    COMPARED(n, w, ne, false, !=)                                                                            \
    SIGNED_AND_UNSIGNED(n, w, s, true)                                                                       \
    SIGNED_AND_UNSIGNED(n, w, u, false)
LANES(2, 16)
LANES(4, 8)

// ---- minima and maxima of three operands, of sums, with a floor of zero ----
#define FLOOR(x) [&](int64_t v) { return v > 0 ? v : 0; }(x)
#define UNSIGNED_SUM(w) ((x + y) & ((1ll << w) - 1))
#define THREE(T, m, is, type, w, sign, sum)                                                                  \
    MAP3(T, T, T, T, __vi##m##3_##type(a, b, c),                                                             \
         (T)L3(w, sign, (x is(y is z ? y : z) ? x : (y is z ? y : z))))                                      \
    MAP3(T, T, T, T, __viadd##m##_##type(a, b, c), (T)L3(w, sign, (sum is z ? sum : z)))
#define WITH_FLOOR(T, m, is, type, w)                                                                        \
    MAP2(T, T, T, __vi##m##_##type##_relu(a, b), (T)L2(w, true, FLOOR((x is y ? x : y))))                    \
    MAP3(T, T, T, T, __vi##m##3_##type##_relu(a, b, c),                                                      \
         (T)L3(w, true, FLOOR((x is(y is z ? y : z) ? x : (y is z ? y : z)))))                               \
    MAP3(T, T, T, T, __viadd##m##_##type##_relu(a, b, c),                                                    \
         (T)L3(w, true, FLOOR((low(x + y, w) is z ? low(x + y, w) : z))))
// The extreme, and which operand it is.
#define OF_WHICH(T, m, is, or_same, type)                                                                    \
    MAP2_NAMED("__vib" #m "_" #type "(a, b, &p)", T, T, T, ({                                                \
                   bool p;                                                                                   \
                   T r = __vib##m##_##type(a, b, &p);                                                        \
                   r ^ (p ? 0x5a5a5a5a : 0);                                                                 \
               }),                                                                                           \
               (T)((a is b ? a : b) ^ (a or_same b ? 0x5a5a5a5a : 0)))
#define OF_WHICH_PAIR(m, is, or_same, type, sign)                                                            \
    MAP2_NAMED("__vib" #m "_" #type "(a, b, &hi, &lo)", u32, u32, u32, ({                                    \
                   bool h, l;                                                                                \
                   u32 r = __vib##m##_##type(a, b, &h, &l);                                                  \
                   r ^ (h ? 0x5a5a0000 : 0) ^ (l ? 0xa5a5 : 0);                                              \
               }),                                                                                           \
               L2(16, sign, x is y ? x : y) ^ (L2(16, sign, x or_same y ? -1 : 0) & 0x5a5aa5a5))
#define EXTREMES(m, is, or_same)                                                                             \
    THREE(int, m, is, s32, 32, true, low(x + y, 32))                                                         \
    THREE(u32, m, is, u32, 32, false, UNSIGNED_SUM(32))                                                      \
    THREE(u32, m, is, s16x2, 16, true, low(x + y, 16))                                                       \
    THREE(u32, m, is, u16x2, 16, false, UNSIGNED_SUM(16))                                                    \
    WITH_FLOOR(int, m, is, s32, 32)                                                                          \
    WITH_FLOOR(u32, m, is, s16x2, 16)                                                                        \
    OF_WHICH(int, m, is, or_same, s32)                                                                       \
    OF_WHICH(u32, m, is, or_same, u32)                                                                       \
    OF_WHICH_PAIR(m, is, or_same, s16x2, true)                                                               \
    OF_WHICH_PAIR(m, is, or_same, u16x2, false)
EXTREMES(max, >, >=)
EXTREMES(min, <, <=)

// ---- scalar video instructions (PTX), and others of the kind ----
#define ASM2(op, a, b)                                                                                       \
    ({                                                                                                       \
        u32 d_;                                                                                              \
        asm(op " %0, %1, %2;" : "=r"(d_) : "r"(a), "r"(b));                                                  \
        d_;                                                                                                  \
    })
#define ASM3(op, a, b, c)                                                                                    \
    ({                                                                                                       \
        u32 d_;                                                                                              \
        asm(op " %0, %1, %2, %3;" : "=r"(d_) : "r"(a), "r"(b), "r"(c));                                      \
        d_;                                                                                                  \
    })
static int64_t part(u32 x, int at, int width, bool sign)
{
    int64_t v = width == 32 ? x : x >> at & ((1u << width) - 1);
    return sign && v >> (width - 1) ? v - (1ll << width) : v;
}
MAP2_NAMED("vadd.s32.s32.s32.sat", u32, u32, u32, ASM2("vadd.s32.s32.s32.sat", a, b),
           (u32)clamp(part(a, 0, 32, true) + part(b, 0, 32, true), 32, true))
MAP2_NAMED("vsub.u32.u32.u32.sat", u32, u32, u32, ASM2("vsub.u32.u32.u32.sat", a, b),
           (u32)clamp((int64_t)a - (int64_t)b, 32, false))
MAP2_NAMED("vmax.s32.s32.s32", u32, u32, u32, ASM2("vmax.s32.s32.s32", a, b), (int)a > (int)b ? a : b)
MAP2_NAMED("vmin.u32.u32.u32", u32, u32, u32, ASM2("vmin.u32.u32.u32", a, b), a < b ? a : b)
MAP3_NAMED("vabsdiff.u32.u32.u32.add", u32, u32, u32, u32, ASM3("vabsdiff.u32.u32.u32.add", a, b, c),
           (a > b ? a - b : b - a) + c)
MAP3_NAMED("vabsdiff4.u32.u32.u32.add", u32, u32, u32, u32, ASM3("vabsdiff4.u32.u32.u32.add", a, b, c),
           sum(8, L2(8, false, x > y ? x - y : y - x)) + c)
MAP3_NAMED("vadd4.u32.u32.u32.sat", u32, u32, u32, u32, ASM3("vadd4.u32.u32.u32.sat", a, b, c),
           L2(8, false, clamp(x + y, 8, false)))
MAP3_NAMED("vset2.s32.s32.gt", u32, u32, u32, u32, ASM3("vset2.s32.s32.gt", a, b, c),
           L2(16, true, x > y ? 1 : 0))
MAP2_NAMED("vshl.u32.u32.u32.wrap", u32, u32, u32, ASM2("vshl.u32.u32.u32.wrap", a, b), a << (b & 31))
MAP2_NAMED("vshr.u32.u32.u32.clamp", u32, u32, u32, ASM2("vshr.u32.u32.u32.clamp", a, b), b > 31 ? 0 : a >> b)
// Types that differ, parts of registers, a part of c that the result takes the place of, and a second
// operation on what is saturated.
static u32 merged(u32 c, int64_t v, int at, int width)
{
    u32 mask = (u32)(((1ull << width) - 1) << at);
    return (c & ~mask) | ((u32)v << at & mask);
}
MAP2_NAMED("vadd.u32.s32.u32.sat", u32, u32, u32, ASM2("vadd.u32.s32.u32.sat", a, b),
           (u32)clamp(part(a, 0, 32, true) + (int64_t)b, 32, false))
MAP2_NAMED("vsub.s32.u32.s32.sat", u32, u32, u32, ASM2("vsub.s32.u32.s32.sat", a, b),
           (u32)clamp((int64_t)a - part(b, 0, 32, true), 32, true))
MAP2_NAMED("vadd.s32.u32.u32.sat", u32, u32, u32, ASM2("vadd.s32.u32.u32.sat", a, b),
           (u32)clamp((int64_t)a + b, 32, true))
MAP2_NAMED("vabsdiff.u32.s32.s32.sat", u32, u32, u32, ASM2("vabsdiff.u32.s32.s32.sat", a, b),
           (u32)llabs(part(a, 0, 32, true) - part(b, 0, 32, true)))
MAP2_NAMED("vmax.s32.u32.s32.sat", u32, u32, u32, ASM2("vmax.s32.u32.s32.sat", a, b),
           (u32)clamp((int64_t)a > part(b, 0, 32, true) ? (int64_t)a : part(b, 0, 32, true), 32, true))
MAP2_NAMED("vadd.s32.s32.s32 .b3 .h1", u32, u32, u32, ({
               u32 d_;
               asm("vadd.s32.s32.s32 %0, %1.b3, %2.h1;" : "=r"(d_) : "r"(a), "r"(b));
               d_;
           }),
           (u32)(part(a, 24, 8, true) + part(b, 16, 16, true)))
#define MERGE(name, d, x, y)                                                                                 \
    ({                                                                                                       \
        u32 d_ = 0;                                                                                          \
        asm(name " %0" d ", %1" x ", %2" y ", %3;" : "+r"(d_) : "r"(a), "r"(b), "r"(c));                     \
        d_;                                                                                                  \
    })
MAP3_NAMED("vadd.s32.s32.u32.sat .b2", u32, u32, u32, u32, MERGE("vadd.s32.s32.u32.sat", ".b2", ".b1", ".h0"),
           merged(c, clamp(part(a, 8, 8, true) + part(b, 0, 16, false), 8, true), 16, 8))
MAP3_NAMED("vsub.u32.u32.u32.sat .h1", u32, u32, u32, u32, MERGE("vsub.u32.u32.u32.sat", ".h1", "", ".b0"),
           merged(c, clamp((int64_t)a - part(b, 0, 8, false), 16, false), 16, 16))
MAP3_NAMED("vadd.u32.u32.u32.sat.min", u32, u32, u32, u32, ASM3("vadd.u32.u32.u32.sat.min", a, b, c),
           (u32)(clamp((int64_t)a + b, 32, false) < c ? clamp((int64_t)a + b, 32, false) : c))
MAP3_NAMED("vmin.s32.s32.s32.sat.add", u32, u32, u32, u32, ASM3("vmin.s32.s32.s32.sat.add", a, b, c),
           ((int)a < (int)b ? a : b) + c)
MAP2_NAMED("vshl.s32.s32.u32.sat.clamp", u32, u32, u32, ASM2("vshl.s32.s32.u32.sat.clamp", a, b),
           (u32)clamp(part(a, 0, 32, true) * (b > 31 ? 1ll << 32 : 1ll << b), 32, true))
MAP2_NAMED("vshr.s32.s32.u32.wrap", u32, u32, u32, ASM2("vshr.s32.s32.u32.wrap", a, b),
           (u32)((int)a >> (b & 31)))
MAP2_NAMED("vset.s32.u32.lt", u32, u32, u32, ASM2("vset.s32.u32.lt", a, b), part(a, 0, 32, true) < (int64_t)b)
MAP3_NAMED("vset.u32.u32.ge.add", u32, u32, u32, u32, ASM3("vset.u32.u32.ge.add", a, b, c), (a >= b) + c)
MAP2_NAMED("cvt.pack.sat.u16.s32", u32, u32, u32, ASM2("cvt.pack.sat.u16.s32", a, b),
           (u32)(clamp((int)a, 16, false) << 16 | clamp((int)b, 16, false)))
MAP2_NAMED("cvt.pack.sat.s16.s32", u32, u32, u32, ASM2("cvt.pack.sat.s16.s32", a, b),
           (u32)clamp((int)a, 16, true) << 16 | ((u32)clamp((int)b, 16, true) & 0xffff))
MAP3_NAMED("cvt.pack.sat.u8.s32.b32", u32, u32, u32, u32, ASM3("cvt.pack.sat.u8.s32.b32", a, b, c),
           c << 16 | (u32)(clamp((int)a, 8, false) << 8 | clamp((int)b, 8, false)))
MAP3_NAMED("cvt.pack.sat.s4.s32.b32", u32, u32, u32, u32, ASM3("cvt.pack.sat.s4.s32.b32", a, b, c),
           c << 8 | ((u32)clamp((int)a, 4, true) & 15) << 4 | ((u32)clamp((int)b, 4, true) & 15))
MAP3_NAMED("cvt.pack.sat.u2.s32.b32", u32, u32, u32, u32, ASM3("cvt.pack.sat.u2.s32.b32", a, b, c),
           c << 4 | (u32)(clamp((int)a, 2, false) << 2 | clamp((int)b, 2, false)))

// ---- constant expressions, as C has them ----
MAP1_NAMED("mov.u32 (expression)", u32, u32, ({
               u32 d_, e_;
               asm("mov.u32 %0, (7 + 5) * 3 - 40 / (2 + 2) %% 7;" : "=r"(d_));
               asm("add.u32 %0, %1, (1 << 20 | 0x30) ^ ~(5 & 6) + (3 > 2 ? 11 : -9);" : "=r"(e_) : "r"(a));
               d_ ^ e_;
           }),
           (u32)((7 + 5) * 3 - 40 / (2 + 2) % 7) ^
               (a + (u32)((1 << 20 | 0x30) ^ (~(5 & 6) + (3 > 2 ? 11 : -9)))))
MAP1_NAMED("mov.b64 -expression", u32, u32, ({
               long long d_;
               asm("mov.b64 %0, -3 + 5 * (.s64)(-(1 << 4)) / 3;" : "=l"(d_));
               (u32)(d_ ^ d_ >> 32) + a;
           }),
           (u32)((-3 + 5 * (int64_t)-(1 << 4) / 3) ^ (-3 + 5 * (int64_t)-(1 << 4) / 3) >> 32) + a)
MAP2_NAMED("add.u16x2", u32, u32, u32, ASM2("add.u16x2", a, b), L2(16, false, x + y))
MAP2_NAMED("min.s16x2", u32, u32, u32, ASM2("min.s16x2", a, b), L2(16, true, x < y ? x : y))
MAP2_NAMED("max.s16x2.relu", u32, u32, u32, ASM2("max.relu.s16x2", a, b),
           L2(16, true,
              x > y   ? x > 0 ? x : 0
              : y > 0 ? y
                      : 0))
CONF_MAIN
