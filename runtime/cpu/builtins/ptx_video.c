/* Inline PTX on packed integers: the SIMD video instructions v{add,sub,avrg,absdiff,min,max,set}{2,4}, and
 * the x2 arithmetic of recent GPUs. The video forms take a third source: kept where the mask of selected
 * lanes does not reach, or added to the lane results (.add). Only the form without a mask is here, as CUDA's
 * headers use it. */
#include "builtin.h"

#define LANES2(DO, ...) DO(2, 16, __VA_ARGS__)
#define LANES4(DO, ...) DO(4, 8, __VA_ARGS__)

static MT_INLINE int32_t video_lane(uint32_t x, int i, int bits, bool is_signed)
{
    uint32_t v = x >> i * bits & ((1u << bits) - 1);
    return is_signed ? (int32_t)(v << (32 - bits)) >> (32 - bits) : (int32_t)v;
}

static MT_INLINE int32_t video_clamp(int32_t v, int bits, bool is_signed)
{
    int32_t max = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1,
            min = is_signed ? -(1 << (bits - 1)) : 0;
    return v < min ? min : v > max ? max : v;
}

/* op(x, y) lane by lane; `wrap` cuts, else the result saturates in the type. */
#define EACH(n, bits, is_signed, saturate, expression)                                                       \
    uint32_t r = 0;                                                                                          \
    for (int i = 0; i < n; i++) {                                                                            \
        int32_t x = video_lane(a, i, bits, is_signed), y = video_lane(b, i, bits, is_signed),                \
                v = expression;                                                                              \
        if (saturate)                                                                                        \
            v = video_clamp(v, bits, is_signed);                                                             \
        r |= ((uint32_t)v & ((1u << bits) - 1)) << i * bits;                                                 \
    }                                                                                                        \
    return r;
#define ADDED(n, bits, is_signed, expression)                                                                \
    for (int i = 0; i < n; i++) {                                                                            \
        int32_t x = video_lane(a, i, bits, is_signed), y = video_lane(b, i, bits, is_signed);                \
        c += (uint32_t)(expression);                                                                         \
    }                                                                                                        \
    return c;

#define VIDEO(n, bits, op, word, is_signed, expression)                                                      \
    MT_BUILTIN uint32_t mtb_ptx_v##op##n##_##word##_##word##_##word(uint32_t a, uint32_t b, uint32_t c){     \
        EACH(n, bits, is_signed, false, expression)} MT_BUILTIN uint32_t                                     \
        mtb_ptx_v##op##n##_##word##_##word##_##word##_sat(uint32_t a, uint32_t b, uint32_t c){               \
            EACH(n, bits, is_signed, true, expression)} MT_BUILTIN uint32_t                                  \
            mtb_ptx_v##op##n##_##word##_##word##_##word##_add(uint32_t a, uint32_t b, uint32_t c)            \
    {                                                                                                        \
        ADDED(n, bits, is_signed, expression)                                                                \
    }
#define VIDEO_OP(op, expression)                                                                             \
    LANES2(VIDEO, op, u32, false, expression)                                                                \
    LANES2(VIDEO, op, s32, true, expression)                                                                 \
    LANES4(VIDEO, op, u32, false, expression)                                                                \
    LANES4(VIDEO, op, s32, true, expression)
VIDEO_OP(add, x + y)
VIDEO_OP(sub, x - y)
VIDEO_OP(avrg, (x + y + (x + y >= 0)) >> 1) /* the mean, halves away from zero */
VIDEO_OP(absdiff, x < y ? y - x : x - y)
VIDEO_OP(min, x < y ? x : y)
VIDEO_OP(max, x > y ? x : y)

#define COMPARE(n, bits, word, is_signed, cmp, expression)                                                   \
    MT_BUILTIN uint32_t mtb_ptx_vset##n##_##word##_##word##_##cmp(uint32_t a, uint32_t b, uint32_t c){       \
        EACH(n, bits, is_signed, false, expression)} MT_BUILTIN uint32_t                                     \
        mtb_ptx_vset##n##_##word##_##word##_##cmp##_add(uint32_t a, uint32_t b, uint32_t c)                  \
    {                                                                                                        \
        ADDED(n, bits, is_signed, expression)                                                                \
    }
#define COMPARE_OP(cmp, expression)                                                                          \
    LANES2(COMPARE, u32, false, cmp, expression)                                                             \
    LANES2(COMPARE, s32, true, cmp, expression)                                                              \
    LANES4(COMPARE, u32, false, cmp, expression)                                                             \
    LANES4(COMPARE, s32, true, cmp, expression)
COMPARE_OP(eq, x == y)
COMPARE_OP(ne, x != y)
COMPARE_OP(lt, x < y)
COMPARE_OP(le, x <= y)
COMPARE_OP(gt, x > y)
COMPARE_OP(ge, x >= y)

/* ---- add, min, max on pairs of 16-bit integers; relu ---- */
#define PACKED(name, is_signed, expression)                                                                  \
    MT_BUILTIN uint32_t mtb_ptx_##name(uint32_t a, uint32_t b)                                               \
    {                                                                                                        \
        EACH(2, 16, is_signed, false, expression)                                                            \
    }
PACKED(add_u16x2, false, x + y)
PACKED(add_s16x2, true, x + y)
PACKED(min_u16x2, false, x < y ? x : y)
PACKED(max_u16x2, false, x > y ? x : y)
PACKED(min_s16x2, true, x < y ? x : y)
PACKED(max_s16x2, true, x > y ? x : y)
PACKED(min_s16x2_relu, true, (x < y ? x : y) < 0 ? 0 : x < y ? x : y)
PACKED(max_s16x2_relu, true, (x > y ? x : y) < 0 ? 0 : x > y ? x : y)
PACKED(min_relu_s16x2, true, (x < y ? x : y) < 0 ? 0 : x < y ? x : y)
PACKED(max_relu_s16x2, true, (x > y ? x : y) < 0 ? 0 : x > y ? x : y)
#define RELU(name)                                                                                           \
    MT_BUILTIN int32_t mtb_ptx_min_##name(int32_t a, int32_t b)                                              \
    {                                                                                                        \
        int32_t r = a < b ? a : b;                                                                           \
        return r < 0 ? 0 : r;                                                                                \
    }                                                                                                        \
    MT_BUILTIN int32_t mtb_ptx_max_##name(int32_t a, int32_t b)                                              \
    {                                                                                                        \
        int32_t r = a > b ? a : b;                                                                           \
        return r < 0 ? 0 : r;                                                                                \
    }
RELU(s32_relu)
RELU(relu_s32)
