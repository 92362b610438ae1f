// Arithmetic and conversions with a given rounding, and the fast approximations.
// References: the host's arithmetic with its rounding mode set; exact integers;
// long double for the approximations.
#include "map.h"
#include "rounding_reference.h"

MAP2(float, float, float, __fadd_rn(a, b), ROUND(float, FE_TONEAREST, x + y, a, b, 0))
MAP2(float, float, float, __fsub_rn(a, b), ROUND(float, FE_TONEAREST, x - y, a, b, 0))
MAP2(float, float, float, __fmul_rn(a, b), ROUND(float, FE_TONEAREST, x *y, a, b, 0))
MAP2(float, float, float, __fdiv_rn(a, b), ROUND(float, FE_TONEAREST, x / y, a, b, 0))
MAP3(float, float, float, float, __fmaf_rn(a, b, c), ROUND(float, FE_TONEAREST, fmaf(x, y, z), a, b, c))
MAP1(float, float, __fsqrt_rn(a), ROUND(float, FE_TONEAREST, sqrtf(x), a, 0, 0))
MAP1(float, float, __frcp_rn(a), ROUND(float, FE_TONEAREST, 1 / x, a, 0, 0))
MAP2(float, float, float, __fadd_rz(a, b), ROUND(float, FE_TOWARDZERO, x + y, a, b, 0))
MAP2(float, float, float, __fsub_rz(a, b), ROUND(float, FE_TOWARDZERO, x - y, a, b, 0))
MAP2(float, float, float, __fmul_rz(a, b), ROUND(float, FE_TOWARDZERO, x *y, a, b, 0))
MAP2(float, float, float, __fdiv_rz(a, b), ROUND(float, FE_TOWARDZERO, x / y, a, b, 0))
MAP3(float, float, float, float, __fmaf_rz(a, b, c), ROUND(float, FE_TOWARDZERO, fmaf(x, y, z), a, b, c))
MAP1(float, float, __fsqrt_rz(a), ROUND(float, FE_TOWARDZERO, sqrtf(x), a, 0, 0))
MAP1(float, float, __frcp_rz(a), ROUND(float, FE_TOWARDZERO, 1 / x, a, 0, 0))
MAP2(float, float, float, __fadd_ru(a, b), ROUND(float, FE_UPWARD, x + y, a, b, 0))
MAP2(float, float, float, __fsub_ru(a, b), ROUND(float, FE_UPWARD, x - y, a, b, 0))
MAP2(float, float, float, __fmul_ru(a, b), ROUND(float, FE_UPWARD, x *y, a, b, 0))
MAP2(float, float, float, __fdiv_ru(a, b), ROUND(float, FE_UPWARD, x / y, a, b, 0))
MAP3(float, float, float, float, __fmaf_ru(a, b, c), ROUND(float, FE_UPWARD, fmaf(x, y, z), a, b, c))
MAP1(float, float, __fsqrt_ru(a), ROUND(float, FE_UPWARD, sqrtf(x), a, 0, 0))
MAP1(float, float, __frcp_ru(a), ROUND(float, FE_UPWARD, 1 / x, a, 0, 0))
MAP2(float, float, float, __fadd_rd(a, b), ROUND(float, FE_DOWNWARD, x + y, a, b, 0))
MAP2(float, float, float, __fsub_rd(a, b), ROUND(float, FE_DOWNWARD, x - y, a, b, 0))
MAP2(float, float, float, __fmul_rd(a, b), ROUND(float, FE_DOWNWARD, x *y, a, b, 0))
MAP2(float, float, float, __fdiv_rd(a, b), ROUND(float, FE_DOWNWARD, x / y, a, b, 0))
MAP3(float, float, float, float, __fmaf_rd(a, b, c), ROUND(float, FE_DOWNWARD, fmaf(x, y, z), a, b, c))
MAP1(float, float, __fsqrt_rd(a), ROUND(float, FE_DOWNWARD, sqrtf(x), a, 0, 0))
MAP1(float, float, __frcp_rd(a), ROUND(float, FE_DOWNWARD, 1 / x, a, 0, 0))
MAP2(double, double, double, __dadd_rn(a, b), ROUND(double, FE_TONEAREST, x + y, a, b, 0))
MAP2(double, double, double, __dsub_rn(a, b), ROUND(double, FE_TONEAREST, x - y, a, b, 0))
MAP2(double, double, double, __dmul_rn(a, b), ROUND(double, FE_TONEAREST, x *y, a, b, 0))
MAP2(double, double, double, __ddiv_rn(a, b), ROUND(double, FE_TONEAREST, x / y, a, b, 0))
MAP3(double, double, double, double, __fma_rn(a, b, c), ROUND(double, FE_TONEAREST, fma(x, y, z), a, b, c))
MAP1(double, double, __dsqrt_rn(a), ROUND(double, FE_TONEAREST, sqrt(x), a, 0, 0))
MAP1(double, double, __drcp_rn(a), ROUND(double, FE_TONEAREST, 1 / x, a, 0, 0))
MAP2(double, double, double, __dadd_rz(a, b), ROUND(double, FE_TOWARDZERO, x + y, a, b, 0))
MAP2(double, double, double, __dsub_rz(a, b), ROUND(double, FE_TOWARDZERO, x - y, a, b, 0))
MAP2(double, double, double, __dmul_rz(a, b), ROUND(double, FE_TOWARDZERO, x *y, a, b, 0))
MAP2(double, double, double, __ddiv_rz(a, b), ROUND(double, FE_TOWARDZERO, x / y, a, b, 0))
MAP3(double, double, double, double, __fma_rz(a, b, c), ROUND(double, FE_TOWARDZERO, fma(x, y, z), a, b, c))
MAP1(double, double, __dsqrt_rz(a), ROUND(double, FE_TOWARDZERO, sqrt(x), a, 0, 0))
MAP1(double, double, __drcp_rz(a), ROUND(double, FE_TOWARDZERO, 1 / x, a, 0, 0))
MAP2(double, double, double, __dadd_ru(a, b), ROUND(double, FE_UPWARD, x + y, a, b, 0))
MAP2(double, double, double, __dsub_ru(a, b), ROUND(double, FE_UPWARD, x - y, a, b, 0))
MAP2(double, double, double, __dmul_ru(a, b), ROUND(double, FE_UPWARD, x *y, a, b, 0))
MAP2(double, double, double, __ddiv_ru(a, b), ROUND(double, FE_UPWARD, x / y, a, b, 0))
MAP3(double, double, double, double, __fma_ru(a, b, c), ROUND(double, FE_UPWARD, fma(x, y, z), a, b, c))
MAP1(double, double, __dsqrt_ru(a), ROUND(double, FE_UPWARD, sqrt(x), a, 0, 0))
MAP1(double, double, __drcp_ru(a), ROUND(double, FE_UPWARD, 1 / x, a, 0, 0))
MAP2(double, double, double, __dadd_rd(a, b), ROUND(double, FE_DOWNWARD, x + y, a, b, 0))
MAP2(double, double, double, __dsub_rd(a, b), ROUND(double, FE_DOWNWARD, x - y, a, b, 0))
MAP2(double, double, double, __dmul_rd(a, b), ROUND(double, FE_DOWNWARD, x *y, a, b, 0))
MAP2(double, double, double, __ddiv_rd(a, b), ROUND(double, FE_DOWNWARD, x / y, a, b, 0))
MAP3(double, double, double, double, __fma_rd(a, b, c), ROUND(double, FE_DOWNWARD, fma(x, y, z), a, b, c))
MAP1(double, double, __dsqrt_rd(a), ROUND(double, FE_DOWNWARD, sqrt(x), a, 0, 0))
MAP1(double, double, __drcp_rd(a), ROUND(double, FE_DOWNWARD, 1 / x, a, 0, 0))
ULP1(float, float, in(1e-30, 1e30), 0, __frsqrt_rn(a), 1 / sqrtl(a))
MAP1(int, float, __float2int_rn(a), conf_to_integer<int>(a, FE_TONEAREST, -0x1p31L, 0x1p31L - 1, (int)0))
MAP1(int, float, __float2int_rz(a), conf_to_integer<int>(a, FE_TOWARDZERO, -0x1p31L, 0x1p31L - 1, (int)0))
MAP1(int, float, __float2int_ru(a), conf_to_integer<int>(a, FE_UPWARD, -0x1p31L, 0x1p31L - 1, (int)0))
MAP1(int, float, __float2int_rd(a), conf_to_integer<int>(a, FE_DOWNWARD, -0x1p31L, 0x1p31L - 1, (int)0))
MAP1(unsigned, float, __float2uint_rn(a),
     conf_to_integer<unsigned>(a, FE_TONEAREST, 0, 0x1p32L - 1, (unsigned)0))
MAP1(unsigned, float, __float2uint_rz(a),
     conf_to_integer<unsigned>(a, FE_TOWARDZERO, 0, 0x1p32L - 1, (unsigned)0))
MAP1(unsigned, float, __float2uint_ru(a),
     conf_to_integer<unsigned>(a, FE_UPWARD, 0, 0x1p32L - 1, (unsigned)0))
MAP1(unsigned, float, __float2uint_rd(a),
     conf_to_integer<unsigned>(a, FE_DOWNWARD, 0, 0x1p32L - 1, (unsigned)0))
MAP1(long long, float, __float2ll_rn(a),
     conf_to_integer<long long>(a, FE_TONEAREST, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(long long, float, __float2ll_rz(a),
     conf_to_integer<long long>(a, FE_TOWARDZERO, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(long long, float, __float2ll_ru(a),
     conf_to_integer<long long>(a, FE_UPWARD, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(long long, float, __float2ll_rd(a),
     conf_to_integer<long long>(a, FE_DOWNWARD, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(unsigned long long, float, __float2ull_rn(a),
     conf_to_integer<unsigned long long>(a, FE_TONEAREST, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(unsigned long long, float, __float2ull_rz(a),
     conf_to_integer<unsigned long long>(a, FE_TOWARDZERO, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(unsigned long long, float, __float2ull_ru(a),
     conf_to_integer<unsigned long long>(a, FE_UPWARD, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(unsigned long long, float, __float2ull_rd(a),
     conf_to_integer<unsigned long long>(a, FE_DOWNWARD, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(int, double, __double2int_rn(a),
     conf_to_integer<int>(a, FE_TONEAREST, -0x1p31L, 0x1p31L - 1, (int)INT32_MIN))
MAP1(int, double, __double2int_rz(a),
     conf_to_integer<int>(a, FE_TOWARDZERO, -0x1p31L, 0x1p31L - 1, (int)INT32_MIN))
MAP1(int, double, __double2int_ru(a),
     conf_to_integer<int>(a, FE_UPWARD, -0x1p31L, 0x1p31L - 1, (int)INT32_MIN))
MAP1(int, double, __double2int_rd(a),
     conf_to_integer<int>(a, FE_DOWNWARD, -0x1p31L, 0x1p31L - 1, (int)INT32_MIN))
MAP1(unsigned, double, __double2uint_rn(a),
     conf_to_integer<unsigned>(a, FE_TONEAREST, 0, 0x1p32L - 1, (unsigned)0x80000000u))
MAP1(unsigned, double, __double2uint_rz(a),
     conf_to_integer<unsigned>(a, FE_TOWARDZERO, 0, 0x1p32L - 1, (unsigned)0x80000000u))
MAP1(unsigned, double, __double2uint_ru(a),
     conf_to_integer<unsigned>(a, FE_UPWARD, 0, 0x1p32L - 1, (unsigned)0x80000000u))
MAP1(unsigned, double, __double2uint_rd(a),
     conf_to_integer<unsigned>(a, FE_DOWNWARD, 0, 0x1p32L - 1, (unsigned)0x80000000u))
MAP1(long long, double, __double2ll_rn(a),
     conf_to_integer<long long>(a, FE_TONEAREST, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(long long, double, __double2ll_rz(a),
     conf_to_integer<long long>(a, FE_TOWARDZERO, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(long long, double, __double2ll_ru(a),
     conf_to_integer<long long>(a, FE_UPWARD, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(long long, double, __double2ll_rd(a),
     conf_to_integer<long long>(a, FE_DOWNWARD, -0x1p63L, 0x1p63L - 1, (long long)INT64_MIN))
MAP1(unsigned long long, double, __double2ull_rn(a),
     conf_to_integer<unsigned long long>(a, FE_TONEAREST, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(unsigned long long, double, __double2ull_rz(a),
     conf_to_integer<unsigned long long>(a, FE_TOWARDZERO, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(unsigned long long, double, __double2ull_ru(a),
     conf_to_integer<unsigned long long>(a, FE_UPWARD, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(unsigned long long, double, __double2ull_rd(a),
     conf_to_integer<unsigned long long>(a, FE_DOWNWARD, 0, 0x1p64L - 1,
                                         (unsigned long long)0x8000000000000000ull))
MAP1(float, int, __int2float_rn(a), ROUND_FROM(float, int, FE_TONEAREST, a))
MAP1(float, int, __int2float_rz(a), ROUND_FROM(float, int, FE_TOWARDZERO, a))
MAP1(float, int, __int2float_ru(a), ROUND_FROM(float, int, FE_UPWARD, a))
MAP1(float, int, __int2float_rd(a), ROUND_FROM(float, int, FE_DOWNWARD, a))
MAP1(float, unsigned, __uint2float_rn(a), ROUND_FROM(float, unsigned, FE_TONEAREST, a))
MAP1(float, unsigned, __uint2float_rz(a), ROUND_FROM(float, unsigned, FE_TOWARDZERO, a))
MAP1(float, unsigned, __uint2float_ru(a), ROUND_FROM(float, unsigned, FE_UPWARD, a))
MAP1(float, unsigned, __uint2float_rd(a), ROUND_FROM(float, unsigned, FE_DOWNWARD, a))
MAP1(float, long long, __ll2float_rn(a), ROUND_FROM(float, long long, FE_TONEAREST, a))
MAP1(double, long long, __ll2double_rn(a), ROUND_FROM(double, long long, FE_TONEAREST, a))
MAP1(float, long long, __ll2float_rz(a), ROUND_FROM(float, long long, FE_TOWARDZERO, a))
MAP1(double, long long, __ll2double_rz(a), ROUND_FROM(double, long long, FE_TOWARDZERO, a))
MAP1(float, long long, __ll2float_ru(a), ROUND_FROM(float, long long, FE_UPWARD, a))
MAP1(double, long long, __ll2double_ru(a), ROUND_FROM(double, long long, FE_UPWARD, a))
MAP1(float, long long, __ll2float_rd(a), ROUND_FROM(float, long long, FE_DOWNWARD, a))
MAP1(double, long long, __ll2double_rd(a), ROUND_FROM(double, long long, FE_DOWNWARD, a))
MAP1(float, unsigned long long, __ull2float_rn(a), ROUND_FROM(float, unsigned long long, FE_TONEAREST, a))
MAP1(double, unsigned long long, __ull2double_rn(a), ROUND_FROM(double, unsigned long long, FE_TONEAREST, a))
MAP1(float, unsigned long long, __ull2float_rz(a), ROUND_FROM(float, unsigned long long, FE_TOWARDZERO, a))
MAP1(double, unsigned long long, __ull2double_rz(a), ROUND_FROM(double, unsigned long long, FE_TOWARDZERO, a))
MAP1(float, unsigned long long, __ull2float_ru(a), ROUND_FROM(float, unsigned long long, FE_UPWARD, a))
MAP1(double, unsigned long long, __ull2double_ru(a), ROUND_FROM(double, unsigned long long, FE_UPWARD, a))
MAP1(float, unsigned long long, __ull2float_rd(a), ROUND_FROM(float, unsigned long long, FE_DOWNWARD, a))
MAP1(double, unsigned long long, __ull2double_rd(a), ROUND_FROM(double, unsigned long long, FE_DOWNWARD, a))
MAP1(double, int, __int2double_rn(a), (double)a)
MAP1(double, unsigned, __uint2double_rn(a), (double)a)
MAP1(float, double, __double2float_rn(a), ROUND_FROM(float, double, FE_TONEAREST, a))
MAP1(float, double, __double2float_rz(a), ROUND_FROM(float, double, FE_TOWARDZERO, a))
MAP1(float, double, __double2float_ru(a), ROUND_FROM(float, double, FE_UPWARD, a))
MAP1(float, double, __double2float_rd(a), ROUND_FROM(float, double, FE_DOWNWARD, a))
MAP1_NAMED("(int)a of float", int, float, (int)(a > 0 && a < 100 ? a : 7.5f),
           (int)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(unsigned)a of float", unsigned, float, (unsigned)(a > 0 && a < 100 ? a : 7.5f),
           (unsigned)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(long long)a of float", long long, float, (long long)(a > 0 && a < 100 ? a : 7.5f),
           (long long)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(unsigned long long)a of float", unsigned long long, float,
           (unsigned long long)(a > 0 && a < 100 ? a : 7.5f),
           (unsigned long long)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(short)a of float", short, float, (short)(a > 0 && a < 100 ? a : 7.5f),
           (short)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(unsigned char)a of float", unsigned char, float, (unsigned char)(a > 0 && a < 100 ? a : 7.5f),
           (unsigned char)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(int)a of double", int, double, (int)(a > 0 && a < 100 ? a : 7.5f),
           (int)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(unsigned)a of double", unsigned, double, (unsigned)(a > 0 && a < 100 ? a : 7.5f),
           (unsigned)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(long long)a of double", long long, double, (long long)(a > 0 && a < 100 ? a : 7.5f),
           (long long)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(unsigned long long)a of double", unsigned long long, double,
           (unsigned long long)(a > 0 && a < 100 ? a : 7.5f),
           (unsigned long long)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(short)a of double", short, double, (short)(a > 0 && a < 100 ? a : 7.5f),
           (short)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(unsigned char)a of double", unsigned char, double, (unsigned char)(a > 0 && a < 100 ? a : 7.5f),
           (unsigned char)(a > 0 && a < 100 ? a : 7.5f))
MAP1_NAMED("(float)a of double", float, double, (float)a, (float)a)
MAP1_NAMED("(double)a of float", double, float, (double)a, (double)a)
MAP1(float, float, __saturatef(a), a > 0 ? a < 1 ? a : 1 : 0)
// ---- fast approximations, bounds of the programming guide ----
ULP1(float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-21 * 0.753, ref), __sinf(a), sinl(a))
ULP1(float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-21 * 0.877, ref), __cosf(a), cosl(a))
ULP1(float, float, in(0.5, 2), conf::absolute<float>(0x1p-21 * 0.753, ref), __logf(a), logl(a))
ULP1_NAMED("__logf(a), a > 2", float, float, in(2, 1e30), 3, __logf(a), logl(a))
ULP1(float, float, in(0.5, 2), conf::absolute<float>(0x1p-22, ref), __log2f(a), log2l(a))
ULP1_NAMED("__log2f(a), a > 2", float, float, in(2, 1e30), 2, __log2f(a), log2l(a))
ULP1(float, float, in(0.5, 2), conf::absolute<float>(0x1p-24, ref), __log10f(a), log10l(a))
ULP1_NAMED("__log10f(a), a > 2", float, float, in(2, 1e30), 3, __log10f(a), log10l(a))
ULP1(float, float, in(-80, 80), 2 + floor(fabs(1.173 * a)), __expf(a), expl(a))
ULP1(float, float, in(-35, 35), 2 + floor(fabs(2.97 * a)), __exp10f(a), powl(10, a))
ULP2(float, float, float, in(0.001, 1000), 2, __fdividef(a, b), (long double)a / b)
// __powf is exp2f(b * __log2f(a)), __tanf is __sinf / __cosf; no bound of their own is documented.
ULP2(float, float, float, in(0.5, 4), 16, __powf(a, b), powl(a, b))
ULP1(float, float, in(-1, 1), 16, __tanf(a), tanl(a))
MAP1_NAMED("__sincosf", float, float,
           ({
               float s, c;
               __sincosf(a, &s, &c);
               s == __sinf(a) && c == __cosf(a);
           }) ||
               a - a != 0,
           1)

// ---- the instructions after them ----
#define ASM1F(op, a)                                                                                         \
    ({                                                                                                       \
        float d_;                                                                                            \
        asm(op " %0, %1;" : "=f"(d_) : "f"(a));                                                              \
        d_;                                                                                                  \
    })
ULP1_NAMED("sin.approx.f32", float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-20, ref),
           ASM1F("sin.approx.f32", a), sinl(a))
ULP1_NAMED("cos.approx.f32", float, float, in(-3.1415926, 3.1415926), conf::absolute<float>(0x1p-20, ref),
           ASM1F("cos.approx.f32", a), cosl(a))
ULP1_NAMED("ex2.approx.f32", float, float, in(-100, 100), 2 + 0.5, ASM1F("ex2.approx.f32", a), exp2l(a))
ULP1_NAMED("ex2.approx.ftz.f32", float, float, in(-100, 100), 2 + 0.5, ASM1F("ex2.approx.ftz.f32", a),
           exp2l(a))
ULP1_NAMED("lg2.approx.f32", float, float, in(2, 1e30), 4, ASM1F("lg2.approx.f32", a), log2l(a))
ULP1_NAMED("rcp.approx.f32", float, float, in(1e-30, 1e30), 1, ASM1F("rcp.approx.f32", a), 1 / (long double)a)
ULP1_NAMED("rcp.approx.ftz.f32", float, float, in(1e-30, 1e30), 1, ASM1F("rcp.approx.ftz.f32", a),
           1 / (long double)a)
ULP1_NAMED("rsqrt.approx.f32", float, float, in(1e-30, 1e30), 2, ASM1F("rsqrt.approx.f32", a), 1 / sqrtl(a))
ULP1_NAMED("rsqrt.approx.ftz.f32", float, float, in(1e-30, 1e30), 2, ASM1F("rsqrt.approx.ftz.f32", a),
           1 / sqrtl(a))
ULP1_NAMED("sqrt.approx.f32", float, float, in(1e-30, 1e30), 3, ASM1F("sqrt.approx.f32", a), sqrtl(a))
ULP1_NAMED("tanh.approx.f32", float, float, in(-5, 5), 0x1p13, ASM1F("tanh.approx.f32", a),
           tanhl(a)) // relative 2^-11
ULP2_NAMED("div.full.f32", float, float, float, in(0.001, 1000), 2, ({
               float d_;
               asm("div.full.f32 %0, %1, %2;" : "=f"(d_) : "f"(a), "f"(b));
               d_;
           }),
           (long double)a / b)
ULP2_NAMED("div.approx.f32", float, float, float, in(0.001, 1000), 2, ({
               float d_;
               asm("div.approx.f32 %0, %1, %2;" : "=f"(d_) : "f"(a), "f"(b));
               d_;
           }),
           (long double)a / b)
#define ASM2F(op, a, b)                                                                                      \
    ({                                                                                                       \
        float d_;                                                                                            \
        asm(op " %0, %1, %2;" : "=f"(d_) : "f"(a), "f"(b));                                                  \
        d_;                                                                                                  \
    })
#define ASM2D(op, a, b)                                                                                      \
    ({                                                                                                       \
        double d_;                                                                                           \
        asm(op " %0, %1, %2;" : "=d"(d_) : "d"(a), "d"(b));                                                  \
        d_;                                                                                                  \
    })

MAP2_NAMED("add.rn.f32", float, float, float, ASM2F("add.rn.f32", a, b),
           ROUND(float, FE_TONEAREST, x + y, a, b, 0))
MAP2_NAMED("add.rn.f64", double, double, double, ASM2D("add.rn.f64", a, b),
           ROUND(double, FE_TONEAREST, x + y, a, b, 0))
MAP2_NAMED("sub.rn.f32", float, float, float, ASM2F("sub.rn.f32", a, b),
           ROUND(float, FE_TONEAREST, x - y, a, b, 0))
MAP2_NAMED("sub.rn.f64", double, double, double, ASM2D("sub.rn.f64", a, b),
           ROUND(double, FE_TONEAREST, x - y, a, b, 0))
MAP2_NAMED("mul.rn.f32", float, float, float, ASM2F("mul.rn.f32", a, b),
           ROUND(float, FE_TONEAREST, x *y, a, b, 0))
MAP2_NAMED("mul.rn.f64", double, double, double, ASM2D("mul.rn.f64", a, b),
           ROUND(double, FE_TONEAREST, x *y, a, b, 0))
MAP2_NAMED("div.rn.f32", float, float, float, ASM2F("div.rn.f32", a, b),
           ROUND(float, FE_TONEAREST, x / y, a, b, 0))
MAP2_NAMED("div.rn.f64", double, double, double, ASM2D("div.rn.f64", a, b),
           ROUND(double, FE_TONEAREST, x / y, a, b, 0))
MAP2_NAMED("add.rz.f32", float, float, float, ASM2F("add.rz.f32", a, b),
           ROUND(float, FE_TOWARDZERO, x + y, a, b, 0))
MAP2_NAMED("add.rz.f64", double, double, double, ASM2D("add.rz.f64", a, b),
           ROUND(double, FE_TOWARDZERO, x + y, a, b, 0))
MAP2_NAMED("sub.rz.f32", float, float, float, ASM2F("sub.rz.f32", a, b),
           ROUND(float, FE_TOWARDZERO, x - y, a, b, 0))
MAP2_NAMED("sub.rz.f64", double, double, double, ASM2D("sub.rz.f64", a, b),
           ROUND(double, FE_TOWARDZERO, x - y, a, b, 0))
MAP2_NAMED("mul.rz.f32", float, float, float, ASM2F("mul.rz.f32", a, b),
           ROUND(float, FE_TOWARDZERO, x *y, a, b, 0))
MAP2_NAMED("mul.rz.f64", double, double, double, ASM2D("mul.rz.f64", a, b),
           ROUND(double, FE_TOWARDZERO, x *y, a, b, 0))
MAP2_NAMED("div.rz.f32", float, float, float, ASM2F("div.rz.f32", a, b),
           ROUND(float, FE_TOWARDZERO, x / y, a, b, 0))
MAP2_NAMED("div.rz.f64", double, double, double, ASM2D("div.rz.f64", a, b),
           ROUND(double, FE_TOWARDZERO, x / y, a, b, 0))
MAP2_NAMED("add.rp.f32", float, float, float, ASM2F("add.rp.f32", a, b),
           ROUND(float, FE_UPWARD, x + y, a, b, 0))
MAP2_NAMED("add.rp.f64", double, double, double, ASM2D("add.rp.f64", a, b),
           ROUND(double, FE_UPWARD, x + y, a, b, 0))
MAP2_NAMED("sub.rp.f32", float, float, float, ASM2F("sub.rp.f32", a, b),
           ROUND(float, FE_UPWARD, x - y, a, b, 0))
MAP2_NAMED("sub.rp.f64", double, double, double, ASM2D("sub.rp.f64", a, b),
           ROUND(double, FE_UPWARD, x - y, a, b, 0))
MAP2_NAMED("mul.rp.f32", float, float, float, ASM2F("mul.rp.f32", a, b),
           ROUND(float, FE_UPWARD, x *y, a, b, 0))
MAP2_NAMED("mul.rp.f64", double, double, double, ASM2D("mul.rp.f64", a, b),
           ROUND(double, FE_UPWARD, x *y, a, b, 0))
MAP2_NAMED("div.rp.f32", float, float, float, ASM2F("div.rp.f32", a, b),
           ROUND(float, FE_UPWARD, x / y, a, b, 0))
MAP2_NAMED("div.rp.f64", double, double, double, ASM2D("div.rp.f64", a, b),
           ROUND(double, FE_UPWARD, x / y, a, b, 0))
MAP2_NAMED("add.rm.f32", float, float, float, ASM2F("add.rm.f32", a, b),
           ROUND(float, FE_DOWNWARD, x + y, a, b, 0))
MAP2_NAMED("add.rm.f64", double, double, double, ASM2D("add.rm.f64", a, b),
           ROUND(double, FE_DOWNWARD, x + y, a, b, 0))
MAP2_NAMED("sub.rm.f32", float, float, float, ASM2F("sub.rm.f32", a, b),
           ROUND(float, FE_DOWNWARD, x - y, a, b, 0))
MAP2_NAMED("sub.rm.f64", double, double, double, ASM2D("sub.rm.f64", a, b),
           ROUND(double, FE_DOWNWARD, x - y, a, b, 0))
MAP2_NAMED("mul.rm.f32", float, float, float, ASM2F("mul.rm.f32", a, b),
           ROUND(float, FE_DOWNWARD, x *y, a, b, 0))
MAP2_NAMED("mul.rm.f64", double, double, double, ASM2D("mul.rm.f64", a, b),
           ROUND(double, FE_DOWNWARD, x *y, a, b, 0))
MAP2_NAMED("div.rm.f32", float, float, float, ASM2F("div.rm.f32", a, b),
           ROUND(float, FE_DOWNWARD, x / y, a, b, 0))
MAP2_NAMED("div.rm.f64", double, double, double, ASM2D("div.rm.f64", a, b),
           ROUND(double, FE_DOWNWARD, x / y, a, b, 0))
MAP2_NAMED("add.ftz.f32", float, float, float, ASM2F("add.ftz.f32", a, b), FTZ(FTZ(a) + FTZ(b)))
MAP2_NAMED("mul.ftz.f32", float, float, float, ASM2F("mul.ftz.f32", a, b), FTZ(FTZ(a) * FTZ(b)))
MAP2_NAMED("add.sat.f32", float, float, float, ASM2F("add.sat.f32", a, b),
           a + b > 0 ? a + b < 1 ? a + b : 1 : 0)
MAP2_NAMED("min.f32", float, float, float, conf_zero(ASM2F("min.f32", a, b)), conf_zero(fminf(a, b)))
MAP2_NAMED("max.NaN.f32", float, float, float, conf_zero(ASM2F("max.NaN.f32", a, b)),
           a != a || b != b ? NAN : conf_zero(fmaxf(a, b)))
MAP2_NAMED("copysign.f32", float, float, float, ASM2F("copysign.f32", a, b), copysignf(b, a))
MAP2_NAMED("max.f64", double, double, double, conf_zero(ASM2D("max.f64", a, b)), conf_zero(fmax(a, b)))

// ---- tf32: an f32 with 10 bits after the point ----

// Bits of any f32; of every four two lie halfway between two tf32 or beside that, and some are special.
static __host__ __device__ unsigned tf32_input(unsigned a)
{
    if (a % 16 <
        2) { // infinity, NaN, the largest, halfway to infinity, just below; 0, the smallest; either sign
        unsigned k = a / 16 % 7, b = k == 0   ? 0x7f800000
                                     : k == 1 ? 0x7fc00000
                                     : k == 2 ? 0x7f7fffff
                                     : k == 3 ? 0x7f7ff000
                                     : k == 4 ? 0x7f7fefff
                                              : k - 5;
        return b | a << 31;
    }
    return a % 4 == 2 ? (a & ~0x1fffu) | 0x1000 : a % 4 == 3 ? (a & ~0x1fffu) + (a & 16 ? 0xfff : 0x1001) : a;
}
// In double, where all of it is exact: a multiple of the unit that the exponent has.
static unsigned tf32_of(unsigned bits, double whole(double), bool finite, bool relu)
{
    float a, d;
    unsigned out;
    int e;
    memcpy(&a, &bits, sizeof a);
    if (a != a)
        return 0x7fffffff;
    if (relu && !(a > 0))
        return 0;
    frexp((double)a, &e);
    double unit = ldexp(1, (e < -125 ? -125 : e) - 11), size = fabs((double)a);
    size = isinf(size) ? size : whole(size / unit) * unit;
    if (size >= ldexp(1, 128))
        size = finite ? ldexp(1, 128) - ldexp(1, 117) : HUGE_VAL;
    d = (float)copysign(size, (double)a);
    memcpy(&out, &d, sizeof out);
    return out;
}
static double tf32_away(double x)
{
    return floor(x + 0.5);
}
static double tf32_even(double x)
{
    return nearbyint(x);
}
static double tf32_zero(double x)
{
    return floor(x);
}
#define TF32(op, whole, finite, relu)                                                                        \
    MAP1_NAMED(op, unsigned, unsigned, ({                                                                    \
                   unsigned d_;                                                                              \
                   asm(op " %0, %1;" : "=r"(d_) : "f"(__uint_as_float(tf32_input(a))));                      \
                   d_;                                                                                       \
               }),                                                                                           \
               tf32_of(tf32_input(a), whole, finite, relu))
TF32("cvt.rna.tf32.f32", tf32_away, false, false)
TF32("cvt.rna.satfinite.tf32.f32", tf32_away, true, false)
TF32("cvt.rn.tf32.f32", tf32_even, false, false)
TF32("cvt.rz.tf32.f32", tf32_zero, false, false)
TF32("cvt.rn.relu.tf32.f32", tf32_even, false, true)
TF32("cvt.rz.relu.tf32.f32", tf32_zero, false, true)
CONF_MAIN
