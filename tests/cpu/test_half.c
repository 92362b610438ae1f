/* f16, bf16 and 8-bit float builtins against a search through all values of the format: the result is the
 * value nearest to the exact one (128-bit arithmetic), ties to the even code. */
#include <math.h>
#include "check.h"
typedef __float128 exact;

/* ---- formats as tables: values of the non-negative finite codes, ascending ---- */
struct format {
    const char *name;
    int exponent_bits, fraction_bits, bias;
    uint32_t finite, inf, nan; /* largest finite code, infinity (0: none), canonical NaN */
    exact *value;
};
static struct format f16 = {"f16", 5, 10, 15, 0x7bff, 0x7c00, 0x7fff, NULL},
                     bf16 = {"bf16", 8, 7, 127, 0x7f7f, 0x7f80, 0x7fff, NULL},
                     e4m3 = {"e4m3", 4, 3, 7, 0x7e, 0, 0x7f, NULL},
                     e5m2 = {"e5m2", 5, 2, 15, 0x7b, 0, 0x7f, NULL};

static exact power_of_two(int e)
{
    exact r = 1;
    for (; e > 0; e--)
        r *= 2;
    for (; e < 0; e++)
        r /= 2;
    return r;
}

static void half_fill(struct format *f)
{
    f->value = malloc((f->finite + 1) * sizeof *f->value);
    for (uint32_t c = 0; c <= f->finite; c++) {
        int e = (int)(c >> f->fraction_bits), m = (int)(c & ((1u << f->fraction_bits) - 1));
        f->value[c] =
            e ? ((exact)m + power_of_two(f->fraction_bits)) * power_of_two(e - f->bias - f->fraction_bits)
              : (exact)m * power_of_two(1 - f->bias - f->fraction_bits);
    }
}

enum mode { RN, RZ, RM, RP };

static uint32_t sign_bit(const struct format *f)
{
    return 1u << (f->exponent_bits + f->fraction_bits);
}

/* `negative` is the sign of a zero result. */
static uint32_t half_nearest(const struct format *f, exact x, enum mode mode, int negative)
{
    if (x != x)
        return f->nan;
    uint32_t sign = x < 0 || (x == 0 && negative) ? sign_bit(f) : 0, lo = 0, hi = f->finite;
    exact a = x < 0 ? -x : x, last = f->value[f->finite];
    if (mode == RM)
        mode = sign ? RP : RZ;
    else if (mode == RP && sign)
        mode = RZ;
    if (a > last) { /* as if the next value existed; infinite only from infinity or by rounding */
        exact next = last + (last - f->value[f->finite - 1]);
        int up = mode == RP || (mode == RN && a >= (last + next) / 2) || a - a != 0;
        return sign | (up ? f->inf ? f->inf : f->finite : f->finite);
    }
    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        if (f->value[mid] <= a)
            lo = mid;
        else
            hi = mid;
    }
    if (f->value[hi] <= a)
        lo = hi;
    if (f->value[lo] == a)
        return sign | lo;
    exact below = a - f->value[lo], above = f->value[lo + 1] - a;
    int up = mode == RP || (mode == RN && (above < below || (above == below && (lo & 1))));
    return sign | (lo + (uint32_t)up);
}

static exact value_of(const struct format *f, uint32_t code)
{
    uint32_t m = code & (sign_bit(f) - 1);
    exact v = m <= f->finite ? f->value[m] : m == f->inf ? (exact)INFINITY : (exact)NAN;
    return code & sign_bit(f) ? -v : v;
}

static int is_nan(const struct format *f, uint32_t c)
{
    uint32_t m = c & (sign_bit(f) - 1);
    return m > f->finite && m != f->inf;
}

static int half_same(const struct format *f, uint32_t a, uint32_t b)
{
    return a == b || (is_nan(f, a) && is_nan(f, b));
}

static uint16_t any_code(const struct format *f)
{
    uint64_t r = rnd();
    if (r % 8 == 0)
        return (uint16_t)rnd();
    if (r % 8 == 1)
        return (uint16_t)(rnd() & 0x8003);
    /* exponents near each other, so that the exact sums have few bits */
    int e = f->bias + (int)(rnd() % 24) - 12;
    return (uint16_t)((rnd() & 0x8000) | (uint32_t)(e < 0 ? 0 : e) << f->fraction_bits |
                      (rnd() & ((1u << f->fraction_bits) - 1)));
}

static uint32_t half_clamp01(const struct format *f, uint32_t c)
{
    exact v = value_of(f, c);
    return is_nan(f, c) || v <= 0 ? 0 : v > 1 ? half_nearest(f, 1, RN, 0) : c;
}
static uint32_t not_negative(const struct format *f, uint32_t c)
{
    return is_nan(f, c) ? f->nan : c & sign_bit(f) ? 0 : c;
}
static uint32_t half_flush(const struct format *f, uint32_t c)
{
    uint32_t m = c & (sign_bit(f) - 1);
    return m >> f->fraction_bits ? c : c & sign_bit(f);
}

/* ---- builtins ---- */
#define DECLARE(T)                                                                                           \
    uint16_t mtb_ptx_add_##T(uint16_t, uint16_t), mtb_ptx_sub_rn_##T(uint16_t, uint16_t),                    \
        mtb_ptx_mul_##T(uint16_t, uint16_t), mtb_ptx_mul_sat_##T(uint16_t, uint16_t),                        \
        mtb_ptx_add_ftz_##T(uint16_t, uint16_t), mtb_ptx_fma_rn_##T(uint16_t, uint16_t, uint16_t),           \
        mtb_ptx_fma_rn_relu_##T(uint16_t, uint16_t, uint16_t), mtb_ptx_min_##T(uint16_t, uint16_t),          \
        mtb_ptx_max_NaN_##T(uint16_t, uint16_t), mtb_ptx_neg_##T(uint16_t), mtb_ptx_abs_##T(uint16_t),       \
        mtb_ptx_set_ltu_##T##_##T(uint16_t, uint16_t), mtb_ptx_cvt_rpi_##T##_##T(uint16_t);                  \
    uint32_t mtb_ptx_add_##T##x2(uint32_t, uint32_t),                                                        \
        mtb_ptx_fma_rn_sat_##T##x2(uint32_t, uint32_t, uint32_t),                                            \
        mtb_ptx_set_gt_u32_##T##x2(uint32_t, uint32_t), mtb_ptx_set_ne_##T##x2_##T##x2(uint32_t, uint32_t),  \
        mtb_ptx_cvt_rn_##T##x2_f32(float, float), mtb_ptx_cvt_rz_relu_##T##x2_f32(float, float);             \
    _Bool mtb_ptx_setp_le_##T(uint16_t, uint16_t), mtb_ptx_setp_nan_##T(uint16_t, uint16_t);                 \
    uint16_t mtb_ptx_cvt_rn_##T##_f32(float), mtb_ptx_cvt_rz_##T##_f32(float),                               \
        mtb_ptx_cvt_rm_##T##_f32(float), mtb_ptx_cvt_rp_##T##_f32(float),                                    \
        mtb_ptx_cvt_rn_##T##_f64(uint64_t), mtb_ptx_cvt_rp_##T##_f64(uint64_t),                              \
        mtb_ptx_cvt_rn_##T##_s64(int64_t), mtb_ptx_cvt_rm_##T##_s64(int64_t),                                \
        mtb_ptx_cvt_rp_##T##_u64(uint64_t), mtb_ptx_cvt_rz_##T##_u32(uint32_t),                              \
        mtb_ptx_cvt_rn_##T##_s16(int16_t);                                                                   \
    int8_t mtb_ptx_cvt_rzi_s8_##T(uint16_t);                                                                 \
    int64_t mtb_ptx_cvt_rmi_s64_##T(uint16_t);                                                               \
    uint16_t mtb_ptx_cvt_rni_u16_##T(uint16_t);                                                              \
    float mtb_ptx_cvt_f32_##T(uint16_t);
DECLARE(f16)
DECLARE(bf16)
uint16_t mtb_ptx_cvt_rn_bf16_f16(uint16_t), mtb_ptx_tanh_approx_f16(uint16_t),
    mtb_ptx_ex2_approx_f16(uint16_t);

static long long half_whole(const struct format *f, uint32_t c, int round, long long min, long long max,
                            long long nan)
{
    if (is_nan(f, c))
        return nan;
    exact v = value_of(f, c);
    long double l = (long double)v;
    l = round == 0 ? rintl(l) : round == 1 ? truncl(l) : floorl(l);
    return l <= (long double)min ? min : l >= (long double)max ? max : (long long)l;
}

/* a + b; when the addition loses something, the neighbour with an odd last (113th) bit: rounds as the exact
 * sum does. */
static exact sum_of(exact a, exact b)
{
    exact s = a + b, t = s - a, e = (a - (s - t)) + (b - t);
    if (e != 0 && e == e) {
        unsigned __int128 u;
        memcpy(&u, &s, sizeof u);
        if (u % 2 == 0)
            u = (e > 0) == (s > 0) ? u + 1 : u - 1;
        memcpy(&s, &u, sizeof s);
    }
    return s;
}

/* Is a zero sum negative? */
static int zero_sign(exact a, exact b)
{
    return a == 0 && b == 0 && 1 / a < 0 && 1 / b < 0;
}

#define SAME(T, got, want, name)                                                                             \
    CHECK(half_same(&T, got, want), name "." #T "(%04x, %04x, %04x) = %04x, expected %04x", a, b, c,         \
          (unsigned)(got), (unsigned)(want))
#define ARITHMETIC(T)                                                                                        \
    static void arithmetic_##T(void)                                                                         \
    {                                                                                                        \
        for (int i = 0; i < 100000; i++) {                                                                   \
            uint16_t a = any_code(&T), b = any_code(&T), c = any_code(&T);                                   \
            exact x = value_of(&T, a), y = value_of(&T, b), z = value_of(&T, c);                             \
            int minus, sign = ((a ^ b) & 0x8000) != 0;                                                       \
            minus = zero_sign(x, y);                                                                         \
            uint32_t add = half_nearest(&T, sum_of(x, y), RN, minus);                                        \
            SAME(T, mtb_ptx_add_##T(a, b), add, "add");                                                      \
            minus = zero_sign(x, -y);                                                                        \
            SAME(T, mtb_ptx_sub_rn_##T(a, b), half_nearest(&T, sum_of(x, -y), RN, minus), "sub");            \
            uint32_t mul = half_nearest(&T, x * y, RN, sign);                                                \
            SAME(T, mtb_ptx_mul_##T(a, b), mul, "mul");                                                      \
            SAME(T, mtb_ptx_mul_sat_##T(a, b), half_clamp01(&T, mul), "mul.sat");                            \
            exact fx = value_of(&T, half_flush(&T, a)), fy = value_of(&T, half_flush(&T, b));                \
            minus = zero_sign(fx, fy);                                                                       \
            SAME(T, mtb_ptx_add_ftz_##T(a, b), half_flush(&T, half_nearest(&T, fx + fy, RN, minus)),         \
                 "add.ftz");                                                                                 \
            minus = zero_sign(x * y, z);                                                                     \
            uint32_t fma = half_nearest(&T, sum_of(x * y, z), RN, minus);                                    \
            SAME(T, mtb_ptx_fma_rn_##T(a, b, c), fma, "fma");                                                \
            SAME(T, mtb_ptx_fma_rn_relu_##T(a, b, c), not_negative(&T, fma), "fma.relu");                    \
            uint32_t pair = mtb_ptx_add_##T##x2(a | (uint32_t)c << 16, b | (uint32_t)b << 16);               \
            SAME(T, (uint16_t)pair, add, "addx2 low");                                                       \
            SAME(T, pair >> 16, mtb_ptx_add_##T(c, b), "addx2 high");                                        \
            pair = mtb_ptx_fma_rn_sat_##T##x2(a | (uint32_t)b << 16, b | (uint32_t)a << 16, c * 0x10001u);   \
            SAME(T, (uint16_t)pair, half_clamp01(&T, fma), "fmax2 low");                                     \
            SAME(T, pair >> 16, half_clamp01(&T, fma), "fmax2 high");                                        \
            int an = is_nan(&T, a), bn = is_nan(&T, b);                                                      \
            int less = x < y || (x == y && (a & 0x8000) > (b & 0x8000));                                     \
            SAME(T, mtb_ptx_min_##T(a, b), an ? (bn ? T.nan : b) : bn || less ? a : b, "min");               \
            SAME(T, mtb_ptx_max_NaN_##T(a, b), an || bn ? T.nan : less ? b : a, "max.NaN");                  \
            SAME(T, mtb_ptx_neg_##T(a), a ^ 0x8000u, "neg");                                                 \
            SAME(T, mtb_ptx_abs_##T(a), a & 0x7fffu, "abs");                                                 \
            CHECK(mtb_ptx_setp_le_##T(a, b) == (x <= y), "setp.le." #T "(%04x, %04x)", a, b);                \
            CHECK(mtb_ptx_setp_nan_##T(a, b) == (an || bn), "setp.nan." #T "(%04x, %04x)", a, b);            \
            uint32_t one = half_nearest(&T, 1, RN, 0);                                                       \
            CHECK(mtb_ptx_set_ltu_##T##_##T(a, b) == (an || bn || x < y ? one : 0), "set.ltu(%04x, %04x)",   \
                  a, b);                                                                                     \
            CHECK(mtb_ptx_set_gt_u32_##T##x2(a | (uint32_t)b << 16, b | (uint32_t)a << 16) ==                \
                      ((x > y ? 0xffffu : 0) | (y > x ? 0xffff0000u : 0)),                                   \
                  "set.gt.u32.x2(%04x, %04x)", a, b);                                                        \
            CHECK(mtb_ptx_set_ne_##T##x2_##T##x2(a | (uint32_t)b << 16, b | (uint32_t)b << 16) ==            \
                      (x < y || x > y ? one : 0),                                                            \
                  "set.ne.x2(%04x, %04x)", a, b);                                                            \
            SAME(T, mtb_ptx_cvt_rpi_##T##_##T(a),                                                            \
                 half_nearest(&T, an ? x : (exact)ceill((long double)x), RN, a >> 15), "rpi");               \
            CHECK(mtb_ptx_cvt_rzi_s8_##T(a) == half_whole(&T, a, 1, -128, 127, 0), "cvt.rzi.s8(%04x)", a);   \
            CHECK(mtb_ptx_cvt_rni_u16_##T(a) == half_whole(&T, a, 0, 0, 65535, 0), "cvt.rni.u16(%04x)", a);  \
            CHECK(mtb_ptx_cvt_rmi_s64_##T(a) == half_whole(&T, a, 2, INT64_MIN, INT64_MAX, INT64_MIN),       \
                  "cvt.rmi.s64(%04x)", a);                                                                   \
            CHECK(same_f32(mtb_ptx_cvt_f32_##T(a), (float)x), "cvt.f32(%04x)", a);                           \
        }                                                                                                    \
    }
ARITHMETIC(f16)
ARITHMETIC(bf16)

#define CONVERSIONS(T)                                                                                       \
    static void conversions_##T(void)                                                                        \
    {                                                                                                        \
        for (int i = 0; i < 100000; i++) {                                                                   \
            float a = any_f32(), b = any_f32();                                                              \
            double d = i % 2 ? any_f64()                                                                     \
                             : (double)value_of(&T, any_code(&T)) * (1 + ((int)(rnd() % 3) - 1) * 0x1p-50);  \
            uint64_t u = any_u64();                                                                          \
            int sa = signbit(a) != 0, sd = signbit(d) != 0;                                                  \
            TO(T, mtb_ptx_cvt_rn_##T##_f32(a), half_nearest(&T, a, RN, sa), (double)a);                      \
            TO(T, mtb_ptx_cvt_rz_##T##_f32(a), half_nearest(&T, a, RZ, sa), (double)a);                      \
            TO(T, mtb_ptx_cvt_rm_##T##_f32(a), half_nearest(&T, a, RM, sa), (double)a);                      \
            TO(T, mtb_ptx_cvt_rp_##T##_f32(a), half_nearest(&T, a, RP, sa), (double)a);                      \
            TO(T, mtb_ptx_cvt_rn_##T##_f64(bits64(d)), half_nearest(&T, d, RN, sd), d);                      \
            TO(T, mtb_ptx_cvt_rp_##T##_f64(bits64(d)), half_nearest(&T, d, RP, sd), d);                      \
            TO(T, mtb_ptx_cvt_rn_##T##_s64((int64_t)u), half_nearest(&T, (int64_t)u, RN, 0),                 \
               (double)(int64_t)u);                                                                          \
            TO(T, mtb_ptx_cvt_rm_##T##_s64((int64_t)u), half_nearest(&T, (int64_t)u, RM, 0),                 \
               (double)(int64_t)u);                                                                          \
            TO(T, mtb_ptx_cvt_rp_##T##_u64(u), half_nearest(&T, u, RP, 0), (double)u);                       \
            TO(T, mtb_ptx_cvt_rz_##T##_u32((uint32_t)u), half_nearest(&T, (uint32_t)u, RZ, 0),               \
               (double)(uint32_t)u);                                                                         \
            TO(T, mtb_ptx_cvt_rn_##T##_s16((int16_t)u), half_nearest(&T, (int16_t)u, RN, 0),                 \
               (double)(int16_t)u);                                                                          \
            uint32_t pair = mtb_ptx_cvt_rn_##T##x2_f32(a, b);                                                \
            TO(T, pair >> 16, half_nearest(&T, a, RN, sa), (double)a);                                       \
            TO(T, (uint16_t)pair, half_nearest(&T, b, RN, signbit(b) != 0), (double)b);                      \
            pair = mtb_ptx_cvt_rz_relu_##T##x2_f32(a, b);                                                    \
            TO(T, pair >> 16, not_negative(&T, half_nearest(&T, a, RZ, sa)), (double)a);                     \
        }                                                                                                    \
    }
#define TO(T, got, want, from)                                                                               \
    CHECK(half_same(&T, got, want), "to " #T " from %a: %04x, expected %04x", from, (unsigned)(got),         \
          (unsigned)(want))
CONVERSIONS(f16)
CONVERSIONS(bf16)

/* ---- 8-bit formats, exhaustively where they are the source ---- */
#define DECLARE8(T)                                                                                          \
    uint16_t mtb_ptx_cvt_rn_satfinite_##T##x2_f32(float, float),                                             \
        mtb_ptx_cvt_rn_satfinite_##T##x2_f16x2(uint32_t);                                                    \
    uint32_t mtb_ptx_cvt_rn_f16x2_##T##x2(uint16_t);
DECLARE8(e4m3)
DECLARE8(e5m2)
#define EIGHT(T)                                                                                             \
    static void eight_##T(void)                                                                              \
    {                                                                                                        \
        for (int i = 0; i < 100000; i++) {                                                                   \
            float a = i % 2 ? any_f32() : (float)(int)(rnd() % 2000) * 0.37f, b = any_f32();                 \
            uint16_t r = mtb_ptx_cvt_rn_satfinite_##T##x2_f32(a, b);                                         \
            TO(T, r >> 8, a != a ? T.nan : half_nearest(&T, a, RN, signbit(a) != 0), (double)a);             \
            TO(T, r & 255, b != b ? T.nan : half_nearest(&T, b, RN, signbit(b) != 0), (double)b);            \
            uint16_t h = any_code(&f16), k = any_code(&f16);                                                 \
            r = mtb_ptx_cvt_rn_satfinite_##T##x2_f16x2(h | (uint32_t)k << 16);                               \
            TO(T, r & 255, half_nearest(&T, value_of(&f16, h), RN, h >> 15), (double)value_of(&f16, h));     \
            TO(T, r >> 8, half_nearest(&T, value_of(&f16, k), RN, k >> 15), (double)value_of(&f16, k));      \
        }                                                                                                    \
        for (uint32_t c = 0; c < 256; c++) {                                                                 \
            uint32_t m = c & 127, r = mtb_ptx_cvt_rn_f16x2_##T##x2((uint16_t)(c | c << 8));                  \
            exact v = m <= T.finite                       ? T.value[m]                                       \
                      : T.fraction_bits == 2 && m == 0x7c ? (exact)INFINITY                                  \
                                                          : (exact)NAN;                                      \
            uint32_t want = half_nearest(&f16, c & 128 ? -v : v, RN, (c & 128) != 0);                        \
            CHECK(half_same(&f16, r & 0xffff, want) && half_same(&f16, r >> 16, want),                       \
                  "f16 from " #T " %02x: %08x", c, r);                                                       \
        }                                                                                                    \
    }
EIGHT(e4m3)
EIGHT(e5m2)

/* ---- the compiler's helpers ---- */
typedef float sse __attribute__((vector_size(16)));
sse __truncsfbf2(float), __truncdfbf2(double), __truncsfhf2(float), __truncdfhf2(double);
float __extendhfsf2(sse);

static uint16_t half_low16(sse v)
{
    uint16_t r;
    memcpy(&r, &v, 2);
    return r;
}

static void half_helpers(void)
{
    for (int i = 0; i < 100000; i++) {
        float a = any_f32();
        double d = i % 2 ? any_f64()
                         : (double)value_of(&f16, any_code(&f16)) * (1 + ((int)(rnd() % 3) - 1) * 0x1p-50);
        int sa = signbit(a) != 0, sd = signbit(d) != 0;
        TO(bf16, half_low16(__truncsfbf2(a)), half_nearest(&bf16, a, RN, sa), (double)a);
        TO(bf16, half_low16(__truncdfbf2(d)), half_nearest(&bf16, d, RN, sd), d);
        TO(f16, half_low16(__truncsfhf2(a)), half_nearest(&f16, a, RN, sa), (double)a);
        TO(f16, half_low16(__truncdfhf2(d)), half_nearest(&f16, d, RN, sd), d);
    }
    for (uint32_t c = 0; c < 65536; c++) {
        sse v = {0};
        memcpy(&v, &c, 2);
        CHECK(same_f32(__extendhfsf2(v), (float)value_of(&f16, c)), "extend %04x", c);
        CHECK(half_same(&f16, mtb_ptx_cvt_rn_f16_f32((float)value_of(&f16, c)), c), "f16 %04x and back", c);
    }
}

int main(void)
{
    half_fill(&f16);
    half_fill(&bf16);
    half_fill(&e4m3);
    half_fill(&e5m2);
    arithmetic_f16();
    arithmetic_bf16();
    conversions_f16();
    conversions_bf16();
    eight_e4m3();
    eight_e5m2();
    half_helpers();
    return report("f16, bf16 and 8-bit floats");
}
