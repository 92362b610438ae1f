/* Inline PTX cvt with a floating-point side: directed roundings, 16-bit and 8-bit formats, and the cases in
 * which a NaN becomes an integer other than 0. Sources come as the register's bits or as float and double. */
#include "half.h"
#include "rounding.h"

/* ---- to integers: saturating ---- */
#define INTEGERS(DO, ...)                                                                                    \
    DO(s8, int8_t, INT8_MIN, INT8_MAX, 0, __VA_ARGS__)                                                       \
    DO(u8, uint8_t, 0, UINT8_MAX, 0, __VA_ARGS__)                                                            \
    DO(s16, int16_t, INT16_MIN, INT16_MAX, 0, __VA_ARGS__)                                                   \
    DO(u16, uint16_t, 0, UINT16_MAX, 0, __VA_ARGS__)                                                         \
    DO(s32, int32_t, INT32_MIN, INT32_MAX, 0, __VA_ARGS__)                                                   \
    DO(u32, uint32_t, 0, UINT32_MAX, 0, __VA_ARGS__)                                                         \
    DO(s64, int64_t, INT64_MIN, INT64_MAX, 1, __VA_ARGS__)                                                   \
    DO(u64, uint64_t, 0, UINT64_MAX, 1, __VA_ARGS__)

/* wide: NaN becomes the top bit instead of 0; so it does for every f64. */
#define CLAMP(to, type, min, max, wide, from, ftype)                                                         \
    static MT_INLINE type clamp_##to##_##from(ftype x, bool top)                                             \
    {                                                                                                        \
        if (x != x)                                                                                          \
            return top ? (type)(1ull << (8 * sizeof(type) - 1)) : 0;                                         \
        return x <= (ftype)(min) ? min : x >= (ftype)(max) ? max : (type)x;                                  \
    }
INTEGERS(CLAMP, f32, float)
INTEGERS(CLAMP, f64, double)

#define TO_INT(to, type, min, max, wide, mode, whole)                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_f16(uint16_t a)                                              \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(mt_f16_float(a)), wide);                                \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_bf16(uint16_t a)                                             \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(mt_bf16_float(a)), wide);                               \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_f32(float a)                                                 \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(a), wide);                                              \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_ftz_##to##_f32(float a)                                             \
    {                                                                                                        \
        return clamp_##to##_f32(__builtin_##whole##f(mt_ftz(a)), wide);                                      \
    }                                                                                                        \
    MT_BUILTIN type mtb_ptx_cvt_##mode##_##to##_f64(uint64_t a)                                              \
    {                                                                                                        \
        return clamp_##to##_f64(__builtin_##whole(mt_f64(a)), true);                                         \
    }
INTEGERS(TO_INT, rni, roundeven)
INTEGERS(TO_INT, rzi, trunc)
INTEGERS(TO_INT, rmi, floor)
INTEGERS(TO_INT, rpi, ceil)

/* ---- rounding within a type ---- */
#define WHOLE(mode, whole)                                                                                   \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_f16_f16(uint16_t a)                                             \
    {                                                                                                        \
        return mt_f16_from(__builtin_##whole##f(mt_f16_float(a)), MT_RN);                                    \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_bf16_bf16(uint16_t a)                                           \
    {                                                                                                        \
        return mt_bf16_from(__builtin_##whole##f(mt_bf16_float(a)), MT_RN);                                  \
    }
WHOLE(rni, roundeven)
WHOLE(rzi, trunc)
WHOLE(rmi, floor)
WHOLE(rpi, ceil)

/* ---- from integers and wider types, in four roundings ---- */
#define MODES(DO, ...)                                                                                       \
    DO(rn, MT_RN, __VA_ARGS__)                                                                               \
    DO(rz, MT_MODE_RZ, __VA_ARGS__)                                                                          \
    DO(rm, MT_MODE_RM, __VA_ARGS__)                                                                          \
    DO(rp, MT_MODE_RP, __VA_ARGS__)
#define FROM_INT(mode, value, from, type, wide, T)                                                           \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_##from(type a)                                            \
    {                                                                                                        \
        return mt_##T##_from_double(mt_odd_from_##wide(a), value);                                           \
    }
#define FROM_INTS(T)                                                                                         \
    MODES(FROM_INT, s8, int8_t, s64, T)                                                                      \
    MODES(FROM_INT, u8, uint8_t, u64, T)                                                                     \
    MODES(FROM_INT, s16, int16_t, s64, T)                                                                    \
    MODES(FROM_INT, u16, uint16_t, u64, T)                                                                   \
    MODES(FROM_INT, s32, int32_t, s64, T)                                                                    \
    MODES(FROM_INT, u32, uint32_t, u64, T)                                                                   \
    MODES(FROM_INT, s64, int64_t, s64, T)                                                                    \
    MODES(FROM_INT, u64, uint64_t, u64, T)
FROM_INTS(f16)
FROM_INTS(bf16)

#define NARROW(mode, value, T, X)                                                                            \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_f32(float a)                                              \
    {                                                                                                        \
        return mt_##T##_from(a, value);                                                                      \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_relu_##T##_f32(float a)                                         \
    {                                                                                                        \
        return mt_##T##_relu(mt_##T##_from(a, value));                                                       \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_f64(uint64_t a)                                           \
    {                                                                                                        \
        return mt_##T##_from_double(mt_f64(a), value);                                                       \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_##mode##_##T##_##X(uint16_t a)                                           \
    {                                                                                                        \
        return mt_##T##_from(mt_##X##_float(a), value);                                                      \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_##mode##_##T##x2_f32(float a, float b)                                   \
    {                                                                                                        \
        return MT_PAIR(mt_##T##_from(b, value), mt_##T##_from(a, value));                                    \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_##mode##_relu_##T##x2_f32(float a, float b)                              \
    {                                                                                                        \
        return MT_PAIR(mt_##T##_relu(mt_##T##_from(b, value)), mt_##T##_relu(mt_##T##_from(a, value)));      \
    }
MODES(NARROW, f16, bf16)
MODES(NARROW, bf16, f16)
MT_BUILTIN float mtb_ptx_cvt_f32_f16(uint16_t a)
{
    return mt_f16_float(a);
}
MT_BUILTIN float mtb_ptx_cvt_f32_bf16(uint16_t a)
{
    return mt_bf16_float(a);
}
MT_BUILTIN uint64_t mtb_ptx_cvt_f64_f16(uint16_t a)
{
    return mt_u64(mt_f16_float(a));
}
MT_BUILTIN uint64_t mtb_ptx_cvt_f64_bf16(uint16_t a)
{
    return mt_u64(mt_bf16_float(a));
}

/* f32 and f64 in directed roundings; nearest is the translator's. */
#define WIDE(mode, rc)                                                                                       \
    MT_BUILTIN float mtb_ptx_cvt_##mode##_f32_f64(uint64_t a)                                                \
    {                                                                                                        \
        return mt_narrow(mt_f64(a), rc);                                                                     \
    }                                                                                                        \
    MT_BUILTIN float mtb_ptx_cvt_##mode##_ftz_f32_f64(uint64_t a)                                            \
    {                                                                                                        \
        return mt_ftz(mt_narrow(mt_f64(a), rc));                                                             \
    }                                                                                                        \
    WIDE_INT(mode, rc, s32, int32_t, s64)                                                                    \
    WIDE_INT(mode, rc, u32, uint32_t, u64)                                                                   \
    WIDE_INT(mode, rc, s64, int64_t, s64)                                                                    \
    WIDE_INT(mode, rc, u64, uint64_t, u64)
#define WIDE_INT(mode, rc, from, type, wide)                                                                 \
    MT_BUILTIN float mtb_ptx_cvt_##mode##_f32_##from(type a)                                                 \
    {                                                                                                        \
        return mt_from_##wide##_f(a, rc);                                                                    \
    }                                                                                                        \
    MT_BUILTIN uint64_t mtb_ptx_cvt_##mode##_f64_##from(type a)                                              \
    {                                                                                                        \
        return mt_u64(mt_from_##wide##_d(a, rc));                                                            \
    }
WIDE(rz, MT_RZ)
WIDE(rm, MT_RM)
WIDE(rp, MT_RP)

/* ---- tf32: f32 with 10 bits after the point ---- */
#define TF32(name, mode, finite, relu)                                                                       \
    MT_BUILTIN uint32_t mtb_ptx_cvt_##name##_tf32_f32(float a)                                               \
    {                                                                                                        \
        return mt_tf32(relu && a <= 0 ? 0 : a, mode, finite);                                                \
    }
#define TF32_MODE(name, mode)                                                                                \
    TF32(name, mode, false, false)                                                                           \
    TF32(name##_satfinite, mode, true, false)
#define TF32_RELU(name, mode)                                                                                \
    TF32_MODE(name, mode)                                                                                    \
    TF32(name##_relu, mode, false, true)                                                                     \
    TF32(name##_satfinite_relu, mode, true, true)                                                            \
    TF32(name##_relu_satfinite, mode, true, true)
TF32_MODE(rna, MT_TF32_AWAY)
TF32_RELU(rn, MT_TF32_EVEN)
TF32_RELU(rz, MT_TF32_ZERO)

/* ---- 8-bit floats: e4m3 (bias 7, no infinity, NaN 0x7f) and e5m2 (bias 15, as f16 cut in half) ---- */

static MT_INLINE float from_e4m3(uint8_t x)
{
    uint32_t e = x >> 3 & 15, m = x & 7;
    float f = e ? mt_f32((e + 120) << 23 | m << 20) : (float)m * 0x1p-9f;
    if ((x & 0x7f) == 0x7f)
        f = mt_f32(0x7fffffff);
    return x >> 7 ? -f : f;
}

static MT_INLINE float from_e5m2(uint8_t x)
{
    return mt_f16_float((uint16_t)(x << 8));
}

/* Nearest even with `bits` fraction bits above 2^min; |x| is finite.
 * Returns a multiple of the format's unit. */
static MT_INLINE float to_grid(float x, int bits, int min)
{
    int e;
    uint32_t u = mt_u32(x) & 0x7fffffff;
    e = (int)(u >> 23) - 127;
    if (e < min)
        e = min;
    float unit = mt_f32((uint32_t)(e - bits + 127) << 23); /* e - bits >= -17: normal */
    return __builtin_roundevenf(x / unit) * unit;
}

static MT_INLINE uint8_t to_e4m3(float x)
{
    uint32_t sign = mt_u32(x) >> 31 << 7, u;
    float f = __builtin_fabsf(x);
    if (x != x)
        return 0x7f;
    if (f > 448)
        f = 448;
    f = to_grid(f, 3, -6);
    if (f >= 448)
        return (uint8_t)(sign | 0x7e);
    if (f < 0x1p-6f)
        return (uint8_t)(sign | (uint32_t)(f * 0x1p9f));
    u = mt_u32(f);
    return (uint8_t)(sign | ((u >> 23) - 120) << 3 | (u >> 20 & 7));
}

static MT_INLINE uint8_t to_e5m2(float x)
{
    uint32_t sign = mt_u32(x) >> 31 << 7;
    float f = __builtin_fabsf(x);
    if (x != x)
        return 0x7f;
    if (f > 57344)
        f = 57344;
    f = to_grid(f, 2, -14);
    return (uint8_t)(sign | (f >= 57344 ? 0x7b : mt_f16_from(f, MT_RN) >> 8));
}

#define FP8(T)                                                                                               \
    MT_BUILTIN uint16_t mtb_ptx_cvt_rn_satfinite_##T##x2_f32(float a, float b)                               \
    {                                                                                                        \
        return (uint16_t)(to_##T(b) | to_##T(a) << 8);                                                       \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_rn_satfinite_relu_##T##x2_f32(float a, float b)                          \
    {                                                                                                        \
        return (uint16_t)(to_##T(b < 0 ? 0 : b) | to_##T(a < 0 ? 0 : a) << 8);                               \
    }                                                                                                        \
    MT_BUILTIN uint16_t mtb_ptx_cvt_rn_satfinite_##T##x2_f16x2(uint32_t a)                                   \
    {                                                                                                        \
        return (uint16_t)(to_##T(mt_f16_float(MT_LO(a))) | to_##T(mt_f16_float(MT_HI(a))) << 8);             \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_rn_f16x2_##T##x2(uint16_t a)                                             \
    {                                                                                                        \
        return MT_PAIR(mt_f16_from(from_##T((uint8_t)a), MT_RN),                                             \
                       mt_f16_from(from_##T((uint8_t)(a >> 8)), MT_RN));                                     \
    }                                                                                                        \
    MT_BUILTIN uint32_t mtb_ptx_cvt_rn_relu_f16x2_##T##x2(uint16_t a)                                        \
    {                                                                                                        \
        return MT_PAIR(mt_f16_relu(mt_f16_from(from_##T((uint8_t)a), MT_RN)),                                \
                       mt_f16_relu(mt_f16_from(from_##T((uint8_t)(a >> 8)), MT_RN)));                        \
    }
FP8(e4m3)
FP8(e5m2)
