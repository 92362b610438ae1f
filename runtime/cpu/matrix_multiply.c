/* d = a * b + c of a warp. Products of halves, bfloat16, tf32 and 8-bit floats are exact in float; they are
 * added to c one by one in the order of k, each sum rounded to float, and a half result is rounded once at
 * the end. (A GPU adds several at a time, and CUDA says no order: the last bits differ.) Doubles: fused
 * multiply-add in the order of k. Integers are exact, modulo 2^32 or clamped. */
#include <immintrin.h>
#include <math.h>
#include <string.h>
#include "matrix.h"

#define A_MOST 1024 /* elements of a: m16n8k64 */
#define B_MOST 512  /* of b: m8n32k16, m16n8k64 */
#define C_MOST 256  /* of c and d; of a and b when they are doubles */

/* ---- values ---- */

/* CPU images need x86-64-v3, which has these. */
__attribute__((target("f16c"))) static float from_half(uint64_t bits)
{
    return _cvtsh_ss((uint16_t)bits);
}

__attribute__((target("f16c"))) static uint64_t to_half(float x)
{
    return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

/* 1 sign bit, `mantissa` bits at the end; e4m3 has no infinity, and one NaN. */
static float from_fp8(uint32_t bits, int mantissa, int bias, int has_infinity)
{
    uint32_t e = (bits & 127) >> mantissa, m = bits & ((1u << mantissa) - 1), top = 127u >> mantissa;
    float x;
    if (has_infinity && e == top)
        x = m ? NAN : INFINITY;
    else if (!has_infinity && (bits & 127) == 127)
        x = NAN;
    else
        x = ldexpf((float)(e ? m | 1u << mantissa : m), (int)(e ? e : 1) - bias - mantissa);
    return bits & 128 ? -x : x;
}

static float to_float(unsigned type, uint64_t bits)
{
    switch (type) {
    case MT_MATRIX_F16:
        return from_half(bits);
    case MT_MATRIX_BF16:
        return from_bits((uint32_t)bits << 16);
    case MT_MATRIX_TF32: /* the low bits do not count */
        return from_bits((uint32_t)bits & 0xffffe000);
    case MT_MATRIX_E4M3:
        return from_fp8((uint32_t)bits, 3, 7, 0);
    case MT_MATRIX_E5M2:
        return from_fp8((uint32_t)bits, 2, 15, 1);
    default:
        return from_bits((uint32_t)bits);
    }
}

static uint64_t of_float(const struct mt_matrix_op *op, float x)
{
    int half = op->type[0] == MT_MATRIX_F16;
    if (op->flags & MT_MATRIX_SATURATE) {
        float most = half ? 65504.0f : 0x1.fffffep127f;
        if (isnan(x))
            return 0;
        x = half ? from_half(to_half(x)) : x;
        x = x > most ? most : x < -most ? -most : x;
    }
    return half ? to_half(x) : to_bits(x);
}

static int32_t to_int(unsigned type, uint64_t bits)
{
    switch (type) {
    case MT_MATRIX_S8:
        return (int8_t)bits;
    case MT_MATRIX_S4:
        return (int32_t)(bits ^ 8) - 8;
    default:
        return (int32_t)bits;
    }
}

/* ---- where elements lie ---- */

struct operand {
    struct mt_matrix_tile tile;
    unsigned type, first; /* register of `in` */
    int matrix, row_major;
    unsigned group; /* of MT_MATRIX_QUADS */
};

/* mma.m8n8k4 of halves: lanes 4g to 4g + 3 and 4g + 16 to 4g + 19 make product g. */
static void place_quad(const struct operand *o, unsigned lane, unsigned i, unsigned *row, unsigned *col)
{
    unsigned t = lane % 4, high = lane >= 16 ? 4 : 0;
    if (o->matrix == 'a' || o->matrix == 'b') {
        int along = o->matrix == 'a' ? o->row_major : !o->row_major;
        *row = (along ? t : i) + high;
        *col = along ? i : t;
    } else if (o->tile.bits == 16) {
        *row = t + high;
        *col = i;
    } else {
        *row = (lane & 1) + (i & 2) + high;
        *col = (i & 4) + (lane & 2) + (i & 1);
    }
}

static int is_of_group(const struct mt_matrix_op *op, unsigned group, unsigned lane)
{
    return !(op->flags & MT_MATRIX_QUADS) || lane % 16 / 4 == group;
}

static unsigned matrix_multiply_place(const struct mt_matrix_op *op, const struct operand *o, unsigned lane,
                                      unsigned i, unsigned row_step, unsigned col_step)
{
    unsigned row, col;
    if (op->flags & MT_MATRIX_QUADS)
        place_quad(o, lane, i, &row, &col);
    else
        mt_matrix_position(&o->tile, lane, i, &row, &col);
    return row * row_step + col * col_step;
}

static unsigned registers_of(const struct mt_matrix_tile *t)
{
    return t->bits >= 32 ? t->held : t->held * t->bits / 32;
}

static struct operand matrix_multiply_operand(const struct mt_matrix_op *op, int matrix, unsigned group)
{
    static const char order[] = "dabc";
    struct operand o = {.matrix = matrix, .group = group, .type = op->type[strchr(order, matrix) - order]};
    mt_matrix_tile(op, matrix, &o.tile);
    o.row_major = matrix == 'a' ? op->row_a : op->row_b;
    if (op->flags & MT_MATRIX_QUADS) /* a quarter of the lanes has all of it */
        o.tile.held *= 4;
    return o;
}

/* Calls `body` with the lane's element `value` and its place `at`, for all elements of an operand. */
#define FOR_ELEMENTS(o, row_step, col_step, body)                                                            \
    for (unsigned lane = 0; lane < MT_MATRIX_LANES; lane++) {                                                \
        if (!call[lane] || !is_of_group(op, (o).group, lane))                                                \
            continue;                                                                                        \
        for (unsigned i = 0; i < (o).tile.held; i++) {                                                       \
            unsigned at = matrix_multiply_place(op, &(o), lane, i, row_step, col_step);                      \
            uint64_t value = mt_matrix_element(call[lane]->in + (o).first, (o).tile.bits, i);                \
            body;                                                                                            \
        }                                                                                                    \
    }
#define FOR_RESULTS(o, n, body)                                                                              \
    for (unsigned lane = 0; lane < MT_MATRIX_LANES; lane++) {                                                \
        if (!call[lane] || !is_of_group(op, (o).group, lane))                                                \
            continue;                                                                                        \
        memset(call[lane]->out, 0, op->nout * sizeof(uint64_t));                                             \
        for (unsigned i = 0; i < (o).tile.held; i++) {                                                       \
            unsigned at = matrix_multiply_place(op, &(o), lane, i, n, 1);                                    \
            mt_matrix_set(call[lane]->out, (o).tile.bits, i, body);                                          \
        }                                                                                                    \
    }

struct operands {
    struct operand a, b, c, d;
    unsigned m, n, k;
};

static struct operands matrix_multiply_operands(const struct mt_matrix_op *op, unsigned group)
{
    struct operands o = {matrix_multiply_operand(op, 'a', group),
                         matrix_multiply_operand(op, 'b', group),
                         matrix_multiply_operand(op, 'c', group),
                         matrix_multiply_operand(op, 'd', group),
                         op->m,
                         op->n,
                         op->k};
    o.b.first = registers_of(&o.a.tile);
    o.c.first = o.b.first + registers_of(&o.b.tile);
    o.k = o.a.tile.cols;
    return o;
}

/* ---- products ---- */

static void multiply_float(const struct mt_matrix_op *op, struct mt_matrix_call *const *call, unsigned group)
{
    struct operands o = matrix_multiply_operands(op, group);
    float a[A_MOST / 2] = {0}, b[B_MOST] = {0}, c[C_MOST] = {0};
    FOR_ELEMENTS(o.a, o.k, 1, a[at] = to_float(o.a.type, value));
    FOR_ELEMENTS(o.b, 1, o.n, b[at] = to_float(o.b.type, value));
    FOR_ELEMENTS(o.c, o.n, 1, c[at] = to_float(o.c.type, value));
    for (unsigned i = 0; i < o.m; i++)
        for (unsigned x = 0; x < o.k; x++)
            for (unsigned j = 0; j < o.n; j++)
                c[i * o.n + j] += a[i * o.k + x] * b[x * o.n + j];
    FOR_RESULTS(o.d, o.n, of_float(op, c[at]));
}

static void multiply_double(const struct mt_matrix_op *op, struct mt_matrix_call *const *call)
{
    struct operands o = matrix_multiply_operands(op, 0);
    double a[C_MOST] = {0}, b[C_MOST] = {0}, c[C_MOST] = {0};
    FOR_ELEMENTS(o.a, o.k, 1, memcpy(&a[at], &value, 8));
    FOR_ELEMENTS(o.b, 1, o.n, memcpy(&b[at], &value, 8));
    FOR_ELEMENTS(o.c, o.n, 1, memcpy(&c[at], &value, 8));
    for (unsigned i = 0; i < o.m; i++)
        for (unsigned x = 0; x < o.k; x++)
            for (unsigned j = 0; j < o.n; j++)
                c[i * o.n + j] = fma(a[i * o.k + x], b[x * o.n + j], c[i * o.n + j]);
    FOR_RESULTS(o.d, o.n, bits_of_double(c[at]));
}

static void multiply_int(const struct mt_matrix_op *op, struct mt_matrix_call *const *call)
{
    struct operands o = matrix_multiply_operands(op, 0);
    int32_t a[A_MOST] = {0}, b[B_MOST] = {0};
    int64_t c[C_MOST] = {0};
    FOR_ELEMENTS(o.a, o.k, 1, a[at] = to_int(o.a.type, value));
    FOR_ELEMENTS(o.b, 1, o.n, b[at] = to_int(o.b.type, value));
    FOR_ELEMENTS(o.c, o.n, 1, c[at] = (int32_t)value);
    for (unsigned i = 0; i < o.m; i++)
        for (unsigned x = 0; x < o.k; x++)
            for (unsigned j = 0; j < o.n; j++) {
                int32_t p = a[i * o.k + x], q = b[x * o.n + j];
                if (o.a.type == MT_MATRIX_B1)
                    c[i * o.n + j] +=
                        __builtin_popcount(op->flags & MT_MATRIX_AND ? (uint32_t)(p & q) : (uint32_t)(p ^ q));
                else
                    c[i * o.n + j] += (int64_t)p * q;
            }
    if (op->flags & MT_MATRIX_SATURATE)
        for (unsigned i = 0; i < o.m * o.n; i++)
            c[i] = c[i] > INT32_MAX ? INT32_MAX : c[i] < INT32_MIN ? INT32_MIN : c[i];
    FOR_RESULTS(o.d, o.n, (uint32_t)c[at]);
}

void mt_matrix_multiply(const struct mt_matrix_op *op, struct mt_matrix_call *const *call)
{
    switch (op->type[1]) {
    case MT_MATRIX_F64:
        multiply_double(op, call);
        break;
    case MT_MATRIX_S8:
    case MT_MATRIX_U8:
    case MT_MATRIX_S4:
    case MT_MATRIX_U4:
    case MT_MATRIX_B1:
        multiply_int(op, call);
        break;
    default:
        for (unsigned group = 0; group < (op->flags & MT_MATRIX_QUADS ? 4 : 1); group++)
            multiply_float(op, call, group);
    }
}
