/* Inline PTX: the scalar video instructions on whole registers, v{add,sub,absdiff,min,max} with one type for
 * all operands, and v{shl,shr}. The second operation (.add, .min, .max) takes the third source. Forms that
 * select bytes of their operands are not here. */
#include "builtin.h"

#define NAME(op, word, suffix) mtb_ptx_v##op##_##word##_##word##_##word##suffix
#define FORMS(op, word, type, min, max, expression)                                                          \
    static MT_INLINE int64_t op##_##word(type a, type b)                                                     \
    {                                                                                                        \
        int64_t x = a, y = b;                                                                                \
        return expression;                                                                                   \
    }                                                                                                        \
    MT_BUILTIN type NAME(op, word, )(type a, type b)                                                         \
    {                                                                                                        \
        return (type)op##_##word(a, b);                                                                      \
    }                                                                                                        \
    MT_BUILTIN type NAME(op, word, _sat)(type a, type b)                                                     \
    {                                                                                                        \
        int64_t v = op##_##word(a, b);                                                                       \
        return v<(min) ? (min) : v>(max) ? (max) : (type)v;                                                  \
    }                                                                                                        \
    MT_BUILTIN type NAME(op, word, _add)(type a, type b, type c)                                             \
    {                                                                                                        \
        return (type)((uint32_t)op##_##word(a, b) + (uint32_t)c);                                            \
    }                                                                                                        \
    MT_BUILTIN type NAME(op, word, _min)(type a, type b, type c)                                             \
    {                                                                                                        \
        type v = (type)op##_##word(a, b);                                                                    \
        return v < c ? v : c;                                                                                \
    }                                                                                                        \
    MT_BUILTIN type NAME(op, word, _max)(type a, type b, type c)                                             \
    {                                                                                                        \
        type v = (type)op##_##word(a, b);                                                                    \
        return v > c ? v : c;                                                                                \
    }
#define OP(op, expression)                                                                                   \
    FORMS(op, u32, uint32_t, 0, UINT32_MAX, expression)                                                      \
    FORMS(op, s32, int32_t, INT32_MIN, INT32_MAX, expression)
OP(add, x + y)
OP(sub, x - y)
OP(absdiff, x < y ? y - x : x - y)
OP(min, x < y ? x : y)
OP(max, x > y ? x : y)

MT_BUILTIN uint32_t mtb_ptx_vshl_u32_u32_u32_wrap(uint32_t a, uint32_t b)
{
    return a << (b & 31);
}
MT_BUILTIN uint32_t mtb_ptx_vshl_u32_u32_u32_clamp(uint32_t a, uint32_t b)
{
    return b > 31 ? 0 : a << b;
}
MT_BUILTIN uint32_t mtb_ptx_vshr_u32_u32_u32_wrap(uint32_t a, uint32_t b)
{
    return a >> (b & 31);
}
MT_BUILTIN uint32_t mtb_ptx_vshr_u32_u32_u32_clamp(uint32_t a, uint32_t b)
{
    return b > 31 ? 0 : a >> b;
}
