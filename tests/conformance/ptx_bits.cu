// Integer and bit instructions in inline assembly, against the PTX ISA's own words for them, bit by bit.
#include "map.h"
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;

#define ASM(T, reg, text, ...)                                                                               \
    ({                                                                                                       \
        T d_;                                                                                                \
        asm(text : "=" reg(d_) : __VA_ARGS__);                                                               \
        d_;                                                                                                  \
    })
#define U1(op, ref) MAP1_NAMED(op, u32, u32, ASM(u32, "r", op " %0, %1;", "r"(a)), ref)
#define U2(op, ref) MAP2_NAMED(op, u32, u32, u32, ASM(u32, "r", op " %0, %1, %2;", "r"(a), "r"(b)), ref)
#define U3(op, ref)                                                                                          \
    MAP3_NAMED(op, u32, u32, u32, u32, ASM(u32, "r", op " %0, %1, %2, %3;", "r"(a), "r"(b), "r"(c)), ref)
#define S2(op, ref) MAP2_NAMED(op, int, int, int, ASM(int, "r", op " %0, %1, %2;", "r"(a), "r"(b)), ref)
#define S3(op, ref)                                                                                          \
    MAP3_NAMED(op, int, int, int, int, ASM(int, "r", op " %0, %1, %2, %3;", "r"(a), "r"(b), "r"(c)), ref)
#define L1(op, R, reg, ref) MAP1_NAMED(op, R, u64, ASM(R, reg, op " %0, %1;", "l"(a)), ref)
#define L2(op, ref) MAP2_NAMED(op, u64, u64, u64, ASM(u64, "l", op " %0, %1, %2;", "l"(a), "l"(b)), ref)

// ---- fields of bits: position and length are the low bytes of their operands ----

static u64 field(u64 a, u32 b, u32 c, int width, bool is_signed)
{
    int pos = b & 255, len = c & 255, last = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
    u64 sign = is_signed && len ? a >> last & 1 : 0, d = 0;
    for (int i = 0; i < width; i++)
        d |= (i < len && pos + i < width ? a >> (pos + i) & 1 : sign) << i;
    return d;
}
static u64 insert(u64 a, u64 into, u32 c, u32 e, int width)
{
    int pos = c & 255, len = e & 255;
    for (int i = 0; i < len && pos + i < width; i++)
        into = (into & ~(1ull << (pos + i))) | (a >> i & 1) << (pos + i);
    return into;
}
U3("bfe.u32", (u32)field(a, b, c, 32, false))
S3("bfe.s32", (int)field((u32)a, (u32)b, (u32)c, 32, true))
MAP3_NAMED("bfe.u64", u64, u64, u32, u32, ASM(u64, "l", "bfe.u64 %0, %1, %2, %3;", "l"(a), "r"(b), "r"(c)),
           field(a, b, c, 64, false))
MAP3_NAMED("bfe.s64", s64, s64, u32, u32, ASM(s64, "l", "bfe.s64 %0, %1, %2, %3;", "l"(a), "r"(b), "r"(c)),
           (s64)field((u64)a, b, c, 64, true))
MAP3_NAMED("bfi.b32", u32, u32, u32, u32,
           ASM(u32, "r", "bfi.b32 %0, %1, %2, %3, %4;", "r"(a), "r"(b), "r"(c), "r"(c >> 8 & 31)),
           (u32)insert(a, b, c, c >> 8 & 31, 32))
MAP3_NAMED("bfi.b64", u64, u64, u64, u32,
           ASM(u64, "l", "bfi.b64 %0, %1, %2, %3, %4;", "l"(a), "l"(b), "r"(c), "r"(c >> 8 & 63)),
           insert(a, b, c, c >> 8 & 63, 64))
static u32 mask(u32 from, u32 count, bool wraps)
{
    u32 d = 0;
    if (wraps) {
        from &= 31;
        count &= 31;
    }
    for (u32 i = 0; i < 32; i++)
        d |= (u32)(i >= from && i - from < count) << i;
    return d;
}
U2("bmsk.clamp.b32", mask(a, b, false))
U2("bmsk.wrap.b32", mask(a, b, true))
static u32 extend(u32 a, u32 n, bool wraps, bool is_signed)
{
    n = wraps ? n & 31 : n;
    if (n > 31)
        return a;
    u32 low = n ? a & (0xffffffffu >> (32 - n)) : 0;
    return n && is_signed && low >> (n - 1) ? low | ~(0xffffffffu >> (32 - n)) : low;
}
U2("szext.clamp.u32", extend(a, b, false, false))
U2("szext.wrap.u32", extend(a, b, true, false))
S2("szext.clamp.s32", (int)extend((u32)a, (u32)b, false, true))
S2("szext.wrap.s32", (int)extend((u32)a, (u32)b, true, true))

// ---- logic ----

static u32 logic(u32 a, u32 b, u32 c, u32 table)
{
    u32 d = 0;
    for (int i = 0; i < 32; i++)
        d |= (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
    return d;
}
#define LOP3(table)                                                                                          \
    MAP3_NAMED("lop3.b32, table " #table, u32, u32, u32, u32,                                                \
               ASM(u32, "r", "lop3.b32 %0, %1, %2, %3, " #table ";", "r"(a), "r"(b), "r"(c)),                \
               logic(a, b, c, table))
LOP3(0x00)
LOP3(0x1a)
LOP3(0x80)
LOP3(0x96)
LOP3(0xe8)
LOP3(0xfe)
LOP3(0xff)
U1("cnot.b32", a == 0)
U1("not.b32", ~a)
MAP2_NAMED("xor.pred, and.pred, or.pred", u32, u32, u32,
           ASM(u32, "r",
               "{ .reg .pred p, q, s; setp.lt.u32 p, %1, %2; setp.ne.u32 q, %1, 3; xor.pred s, p, q;\n"
               "and.pred p, p, s; or.pred p, p, q; selp.u32 %0, 5, 6, p; }",
               "r"(a), "r"(b)),
           (a < b && ((a < b) != (a != 3))) || a != 3 ? 5 : 6)

// ---- counting and finding ----

static u32 nth(u32 word, u32 base, int offset)
{
    u32 seen = 0, n = (u32)(offset < 0 ? -offset : offset), at = base;
    if (!offset)
        return word >> base & 1 ? base : 0xffffffffu;
    for (; at < 32; at += offset > 0 ? 1 : 0xffffffffu)
        if (word >> at & 1 && ++seen == n)
            return at;
    return 0xffffffffu;
}
MAP3_NAMED("fns.b32", u32, u32, u32, int,
           ASM(u32, "r", "fns.b32 %0, %1, %2, %3;", "r"(a), "r"(b & 31), "r"(c % 7)), nth(a, b & 31, c % 7))
static u32 highest(u64 a, int width, bool is_signed, bool shift)
{
    if (is_signed && a >> (width - 1) & 1)
        a = ~a;
    for (int i = width - 1; i >= 0; i--)
        if (a >> i & 1)
            return shift ? (u32)(width - 1 - i) : (u32)i;
    return 0xffffffffu;
}
U1("bfind.u32", highest(a, 32, false, false))
U1("bfind.s32", highest(a, 32, true, false))
U1("bfind.shiftamt.u32", highest(a, 32, false, true))
U1("bfind.shiftamt.s32", highest(a, 32, true, true))
L1("bfind.u64", u32, "r", highest(a, 64, false, false))
L1("bfind.shiftamt.s64", u32, "r", highest(a, 64, true, true))
static u32 leading(u64 a, int width)
{
    u32 n = 0;
    while ((int)n < width && !(a >> (width - 1 - (int)n) & 1))
        n++;
    return n;
}
static u32 ones(u64 a)
{
    u32 n = 0;
    for (; a; a >>= 1)
        n += a & 1;
    return n;
}
static u64 reversed(u64 a, int width)
{
    u64 d = 0;
    for (int i = 0; i < width; i++)
        d |= (a >> i & 1) << (width - 1 - i);
    return d;
}
U1("clz.b32", leading(a, 32))
U1("popc.b32", ones(a))
U1("brev.b32", (u32)reversed(a, 32))
L1("clz.b64", u32, "r", leading(a, 64))
L1("popc.b64", u32, "r", ones(a))
L1("brev.b64", u64, "l", reversed(a, 64))

// ---- shifts ----

U2("shl.b32", b > 31 ? 0 : a << b)
U2("shr.u32", b > 31 ? 0 : a >> b)
S2("shr.s32", (u32)b > 31 ? (a < 0 ? -1 : 0) : a >> b)
static u32 funnel(u32 low, u32 high, u32 n, bool left, bool wraps)
{
    n = wraps ? n & 31 : n > 32 ? 32 : n;
    u64 both = (u64)high << 32 | low;
    return left ? (u32)(both << n >> 32) : (u32)(both >> n);
}
U3("shf.l.clamp.b32", funnel(a, b, c, true, false))
U3("shf.l.wrap.b32", funnel(a, b, c, true, true))
U3("shf.r.clamp.b32", funnel(a, b, c, false, false))
U3("shf.r.wrap.b32", funnel(a, b, c, false, true))

// ---- bytes ----

static u32 byte_of(u32 a, u32 b, u32 selector)
{
    u64 both = (u64)b << 32 | a;
    u32 byte = (u32)(both >> (selector & 7) * 8) & 255;
    return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}
static u32 permuted(u32 a, u32 b, const int *from)
{
    u32 d = 0;
    for (int i = 0; i < 4; i++)
        d |= byte_of(a, b, (u32)from[i]) << i * 8;
    return d;
}
U3("prmt.b32", byte_of(a, b, c & 15) | byte_of(a, b, c >> 4 & 15) << 8 | byte_of(a, b, c >> 8 & 15) << 16 |
                   byte_of(a, b, c >> 12 & 15) << 24)
// The forms' tables: which bytes, lowest first, for selectors 0 to 3.
#define PRMT(mode, ...)                                                                                      \
    U3("prmt.b32." mode, ({                                                                                  \
           static const int from[4][4] = __VA_ARGS__;                                                        \
           permuted(a, b, from[c & 3]);                                                                      \
       }))
PRMT("f4e", {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}})
PRMT("b4e", {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}})
PRMT("rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}})
PRMT("ecl", {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}})
PRMT("ecr", {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}})
PRMT("rc16", {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}})

// ---- arithmetic with more than C has ----

static s64 clamp(s64 x)
{
    return x > INT_MAX ? INT_MAX : x < INT_MIN ? INT_MIN : x;
}
static int low24(int a)
{
    return (int)((u32)a << 8) >> 8;
}
S2("add.sat.s32", (int)clamp((s64)a + b))
S2("sub.sat.s32", (int)clamp((s64)a - b))
S3("mad.hi.s32", (int)((u32)((s64)a *b >> 32) + (u32)c))
S3("mad.hi.sat.s32", (int)clamp(((s64)a * b >> 32) + c))
U3("mad.hi.u32", (u32)((u64)a *b >> 32) + c)
S2("mul24.lo.s32", (int)((s64)low24(a) * low24(b)))
S2("mul24.hi.s32", (int)((s64)low24(a) * low24(b) >> 16))
U2("mul24.hi.u32", (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 16))
U3("mad24.lo.u32", (u32)((u64)(a & 0xffffff) * (b & 0xffffff)) + c)
U3("sad.u32", (a > b ? a - b : b - a) + c)
S3("sad.s32", (int)((u32)c + (u32)(a > b ? (s64)a - b : (s64)b - a)))
MAP2_NAMED("mul.wide.s32", s64, int, int, ASM(s64, "l", "mul.wide.s32 %0, %1, %2;", "r"(a), "r"(b)),
           (s64)a *b)
MAP3_NAMED("mad.wide.u32", u64, u32, u32, u64,
           ASM(u64, "l", "mad.wide.u32 %0, %1, %2, %3;", "r"(a), "r"(b), "l"(c)), (u64)a *b + c)
MAP3_NAMED("slct.u32.s32", u32, u32, u32, int,
           ASM(u32, "r", "slct.u32.s32 %0, %1, %2, %3;", "r"(a), "r"(b), "r"(c)), c >= 0 ? a : b)
MAP2_NAMED("set.lt.u32.s32", u32, int, int, ASM(u32, "r", "set.lt.u32.s32 %0, %1, %2;", "r"(a), "r"(b)),
           a < b ? 0xffffffffu : 0)

// ---- carries: 64 and 96 bits out of 32-bit words ----

MAP2_NAMED("add.cc.u32, addc.u32", u64, u64, u64, ({
               u32 lo, hi;
               asm("add.cc.u32 %0, %2, %4; addc.u32 %1, %3, %5;"
                   : "=&r"(lo), "=r"(hi)
                   : "r"((u32)a), "r"((u32)(a >> 32)), "r"((u32)b), "r"((u32)(b >> 32)));
               (u64) hi << 32 | lo;
           }),
           a + b)
MAP2_NAMED("sub.cc.u32, subc.u32", u64, u64, u64, ({
               u32 lo, hi;
               asm("sub.cc.u32 %0, %2, %4; subc.u32 %1, %3, %5;"
                   : "=&r"(lo), "=r"(hi)
                   : "r"((u32)a), "r"((u32)(a >> 32)), "r"((u32)b), "r"((u32)(b >> 32)));
               (u64) hi << 32 | lo;
           }),
           a - b)
MAP3_NAMED("mad.lo.cc.u32, madc.hi.u32", u64, u32, u32, u64, ({
               u32 lo, hi;
               asm("mad.lo.cc.u32 %0, %2, %3, %4; madc.hi.u32 %1, %2, %3, %5;"
                   : "=&r"(lo), "=r"(hi)
                   : "r"(a), "r"(b), "r"((u32)c), "r"((u32)(c >> 32)));
               (u64) hi << 32 | lo;
           }),
           (u64)a *b + c)
MAP2_NAMED("add.cc.u64, addc.cc.u64, addc.u32", u32, u64, u64, ({
               u64 lo, hi;
               u32 carry;
               asm("add.cc.u64 %0, %3, %4; addc.cc.u64 %1, %3, %4; addc.u32 %2, 0, 0;"
                   : "=&l"(lo), "=&l"(hi), "=r"(carry)
                   : "l"(a), "l"(b));
               carry;
           }),
           ({
               unsigned __int128 sum = (unsigned __int128)a + b;
               sum = (unsigned __int128)a + b + (u32)(sum >> 64);
               (u32)(sum >> 64);
           }))
L2("mul.hi.u64", (u64)((unsigned __int128)a *b >> 64))
CONF_MAIN
