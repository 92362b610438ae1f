/* Elements of NCCL's types, and what is made of those of several ranks: in double or 64 bits, rounded once.
 */
#include "nccl.h"
#include <math.h>
#include <string.h>

size_t mt_nccl_size(int type)
{
    static const char sizes[MT_NCCL_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (size_t)sizes[type];
}

enum { PIECE = 1024 };

/* ---- small floats */

static double reduce_bf16(uint16_t v)
{
    float f;
    memcpy(&f, &(uint32_t){(uint32_t)v << 16}, sizeof f);
    return f;
}

/* A number of `mantissa` bits behind the point that is nearest, ties to even; `low`: the exponent of the
 * smallest that is not subnormal. */
static double reduce_round(double v, int mantissa, int low)
{
    int e;
    if (v == 0 || !isfinite(v))
        return v;
    frexp(v, &e);
    e = e - 1 < low ? low : e - 1;
    return ldexp(nearbyint(ldexp(v, mantissa - e)), e - mantissa);
}

static uint16_t reduce_to_bf16(double v)
{
    float f = (float)reduce_round(v, 7, -126);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return isnan(v) ? 0x7fff : (uint16_t)(bits >> 16);
}

/* FP8 with `mantissa` bits: E4M3 has NaN and no infinity, E5M2 is like half. */
static double reduce_fp8(uint8_t v, int mantissa)
{
    int bias = mantissa == 3 ? 7 : 15, e = (v & 0x7f) >> mantissa, m = v & ((1 << mantissa) - 1);
    double out = e ? ldexp((1 << mantissa) + m, e - bias - mantissa) : ldexp(m, 1 - bias - mantissa);
    if (mantissa == 3 ? (v & 0x7f) == 0x7f : e == 31 && m)
        out = NAN;
    else if (mantissa == 2 && e == 31)
        out = INFINITY;
    return v & 0x80 ? -out : out;
}

/* What is too large becomes the largest, as CUDA's conversions have it. */
static uint8_t reduce_to_fp8(double v, int mantissa)
{
    int bias = mantissa == 3 ? 7 : 15, e;
    double most = mantissa == 3 ? 448 : 57344, r = fabs(reduce_round(v, mantissa, 1 - bias));
    uint8_t sign = signbit(v) ? 0x80 : 0;
    if (isnan(v))
        return mantissa == 3 ? 0x7f : 0x7e;
    r = r > most ? most : r;
    if (r < ldexp(1, 1 - bias))
        return (uint8_t)(sign | (int)ldexp(r, bias - 1 + mantissa));
    frexp(r, &e);
    return (uint8_t)(sign | ((e - 1 + bias) << mantissa) |
                     ((int)ldexp(r, mantissa - e + 1) - (1 << mantissa)));
}

/* ---- as double, or as 64 bits */

#define EACH(what)                                                                                           \
    for (size_t i = 0; i < n; i++)                                                                           \
        what;                                                                                                \
    return

static void reduce_get(int type, const void *p, size_t n, double *out)
{
    switch (type) {
    case MT_NCCL_F16:
        EACH(out[i] = (double)((const _Float16 *)p)[i]);
    case MT_NCCL_F32:
        EACH(out[i] = ((const float *)p)[i]);
    case MT_NCCL_F64:
        EACH(out[i] = ((const double *)p)[i]);
    case MT_NCCL_BF16:
        EACH(out[i] = reduce_bf16(((const uint16_t *)p)[i]));
    default:
        EACH(out[i] = reduce_fp8(((const uint8_t *)p)[i], type == MT_NCCL_E4M3 ? 3 : 2));
    }
}

static void reduce_put(int type, void *p, size_t n, const double *in)
{
    switch (type) {
    case MT_NCCL_F16:
        EACH(((_Float16 *)p)[i] = (_Float16)in[i]);
    case MT_NCCL_F32:
        EACH(((float *)p)[i] = (float)in[i]);
    case MT_NCCL_F64:
        EACH(((double *)p)[i] = in[i]);
    case MT_NCCL_BF16:
        EACH(((uint16_t *)p)[i] = reduce_to_bf16(in[i]));
    default:
        EACH(((uint8_t *)p)[i] = reduce_to_fp8(in[i], type == MT_NCCL_E4M3 ? 3 : 2));
    }
}

static void reduce_get_int(int type, const void *p, size_t n, int64_t *out)
{
    switch (type) {
    case MT_NCCL_I8:
        EACH(out[i] = ((const int8_t *)p)[i]);
    case MT_NCCL_U8:
        EACH(out[i] = ((const uint8_t *)p)[i]);
    case MT_NCCL_I32:
        EACH(out[i] = ((const int32_t *)p)[i]);
    case MT_NCCL_U32:
        EACH(out[i] = ((const uint32_t *)p)[i]);
    default:
        EACH(out[i] = ((const int64_t *)p)[i]);
    }
}

static void reduce_put_int(int type, void *p, size_t n, const int64_t *in)
{
    switch (mt_nccl_size(type)) {
    case 1:
        EACH(((int8_t *)p)[i] = (int8_t)in[i]);
    case 4:
        EACH(((int32_t *)p)[i] = (int32_t)in[i]);
    default:
        EACH(((int64_t *)p)[i] = in[i]);
    }
}

/* ---- operations */

static void reduce_add(int op, double *acc, const double *v, size_t n)
{
    switch (op) {
    case MT_NCCL_PROD:
        EACH(acc[i] *= v[i]);
    case MT_NCCL_MAX:
        EACH(acc[i] = fmax(acc[i], v[i]));
    case MT_NCCL_MIN:
        EACH(acc[i] = fmin(acc[i], v[i]));
    default:
        EACH(acc[i] += v[i]);
    }
}

static void reduce_add_int(int op, int wide, int64_t *acc, const int64_t *v, size_t n)
{
    const uint64_t top = wide ? (uint64_t)1 << 63 : 0; /* unsigned numbers compare as signed ones less this */
#define LESS(a, b) ((int64_t)((uint64_t)(a) ^ top) < (int64_t)((uint64_t)(b) ^ top))
    switch (op) {
    case MT_NCCL_PROD:
        EACH(acc[i] = (int64_t)((uint64_t)acc[i] * (uint64_t)v[i]));
    case MT_NCCL_MAX:
        EACH(acc[i] = LESS(acc[i], v[i]) ? v[i] : acc[i]);
    case MT_NCCL_MIN:
        EACH(acc[i] = LESS(v[i], acc[i]) ? v[i] : acc[i]);
    default:
        EACH(acc[i] = (int64_t)((uint64_t)acc[i] + (uint64_t)v[i]));
    }
#undef LESS
}

static int64_t reduce_divide(int type, int64_t sum, int n)
{
    int64_t v;
    reduce_put_int(type, &v, 1, &sum); /* as the sum is in the type */
    reduce_get_int(type, &v, 1, &sum);
    return type == MT_NCCL_U64 ? (int64_t)((uint64_t)sum / (uint64_t)n) : sum / n;
}

static void reduce_floats(int type, int op, const void *const *in, int n, size_t at, void *out, size_t count)
{
    double acc[PIECE], v[PIECE];
    reduce_get(type, (const char *)in[0] + at, count, acc);
    for (int r = 1; r < n; r++) {
        reduce_get(type, (const char *)in[r] + at, count, v);
        reduce_add(op, acc, v, count);
    }
    for (size_t i = 0; op == MT_NCCL_AVG && i < count; i++)
        acc[i] /= n;
    reduce_put(type, (char *)out + at, count, acc);
}

static void reduce_ints(int type, int op, const void *const *in, int n, size_t at, void *out, size_t count)
{
    int64_t acc[PIECE], v[PIECE];
    reduce_get_int(type, (const char *)in[0] + at, count, acc);
    for (int r = 1; r < n; r++) {
        reduce_get_int(type, (const char *)in[r] + at, count, v);
        reduce_add_int(op, type == MT_NCCL_U64, acc, v, count);
    }
    for (size_t i = 0; op == MT_NCCL_AVG && i < count; i++)
        acc[i] = reduce_divide(type, acc[i], n);
    reduce_put_int(type, (char *)out + at, count, acc);
}

void mt_nccl_reduce(int type, int op, const void *const *in, int n, void *out, size_t count)
{
    size_t size = mt_nccl_size(type);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t some = count - i < PIECE ? count - i : PIECE;
        (type < MT_NCCL_F16 ? reduce_ints : reduce_floats)(type, op, in, n, i * size, out, some);
    }
}

void mt_nccl_scale(int type, const void *scalar, const void *in, void *out, size_t count)
{
    size_t size = mt_nccl_size(type);
    double by = 0, v[PIECE];
    int64_t by_int = 0, v_int[PIECE];
    if (type < MT_NCCL_F16)
        reduce_get_int(type, scalar, 1, &by_int);
    else
        reduce_get(type, scalar, 1, &by);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t some = count - i < PIECE ? count - i : PIECE;
        const char *from = (const char *)in + i * size;
        char *to = (char *)out + i * size;
        if (type < MT_NCCL_F16) {
            reduce_get_int(type, from, some, v_int);
            for (size_t k = 0; k < some; k++)
                v_int[k] = (int64_t)((uint64_t)v_int[k] * (uint64_t)by_int);
            reduce_put_int(type, to, some, v_int);
        } else {
            reduce_get(type, from, some, v);
            for (size_t k = 0; k < some; k++)
                v[k] *= by;
            reduce_put(type, to, some, v);
        }
    }
}
