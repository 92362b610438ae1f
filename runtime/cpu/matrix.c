/* Loads, stores and moves of matrices by a warp. Elements are in lanes as the PTX ISA defines it for mma,
 * ldmatrix and the like. For wmma, where PTX leaves it open, the order is the same. */
#include "matrix.h"
#include <immintrin.h>
#include <math.h>
#include <string.h>

/* d = a * b + c of a warp. Products of halves, bfloat16, tf32 and 8-bit floats are exact in float; they
 * are added to c one by one in the order of k, with each sum rounded to float, and a half result is
 * rounded once at the end. (A GPU adds several at a time, in an order that CUDA does not define: the last
 * bits differ.) Doubles: fused multiply-add in the order of k. Integers are exact, modulo 2^32 or clamped. */

#define A_MOST 1024 /* elements of a: m16n8k64 */
#define B_MOST 512  /* elements of b: m8n32k16, m16n8k64 */
#define C_MOST 256  /* elements of c and d; of a and b for doubles */

/* ---- values ---- */

/* Available, as CPU images need x86-64-v3. */
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

/* Converts a float with 1 sign bit and `mantissa` fraction bits; e4m3 has no infinity, and one NaN. */
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
    case MT_MATRIX_TF32: /* low bits are ignored */
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

/* ---- positions of elements ---- */

struct operand {
    struct mt_matrix_tile tile;
    unsigned type, first; /* first: register of `in` */
    int matrix, row_major;
    unsigned group; /* for MT_MATRIX_QUADS */
};

/* mma.m8n8k4 of halves: lanes 4g to 4g + 3 and 4g + 16 to 4g + 19 compute product g. */
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
    if (op->flags & MT_MATRIX_QUADS) /* a quarter of the lanes has the whole matrix */
        o.tile.held *= 4;
    return o;
}

/* Calls `body` for each element of an operand, with the lane's `value` and its position `at`. */
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

static unsigned matrix_bits(unsigned type)
{
    static const unsigned char bits[] = {
        [MT_MATRIX_F16] = 16, [MT_MATRIX_BF16] = 16, [MT_MATRIX_TF32] = 32, [MT_MATRIX_F32] = 32,
        [MT_MATRIX_F64] = 64, [MT_MATRIX_S8] = 8,    [MT_MATRIX_U8] = 8,    [MT_MATRIX_S4] = 4,
        [MT_MATRIX_U4] = 4,   [MT_MATRIX_B1] = 32, /* a word of them */
        [MT_MATRIX_S32] = 32, [MT_MATRIX_E4M3] = 8,  [MT_MATRIX_E5M2] = 8};
    return type < sizeof bits ? bits[type] : 0;
}

void mt_matrix_tile(const struct mt_matrix_op *op, int matrix, struct mt_matrix_tile *t)
{
    int is_factor = matrix == 'a' || matrix == 'b';
    unsigned at = matrix == 'd' ? 0 : (unsigned)(matrix - 'a') + 1;
    unsigned type = op->type[op->kind == MT_MATRIX_MULTIPLY ? at : 0], k = op->k;
    if (type == MT_MATRIX_B1)
        k /= 32;
    t->bits = matrix_bits(type);
    t->rows = matrix == 'b' ? op->n : op->m;
    t->cols = is_factor ? k : op->n;
    t->per = !is_factor ? 2 : t->bits >= 32 ? 1 : 32 / t->bits;
    t->held = t->rows * t->cols / MT_MATRIX_LANES;
    if (is_factor && type == MT_MATRIX_F16 && op->flags & MT_MATRIX_WMMA)
        t->held = 16;
}

/* ---- wmma.load, wmma.store ---- */

/* Returns the position of an element, counted from the matrix's first. */
static uint64_t index_of(const struct mt_matrix_op *op, uint64_t stride, unsigned row, unsigned col)
{
    int along = op->matrix == 'b' ? !op->row_a : op->row_a; /* elements of a tile's row are adjacent */
    if (op->type[0] == MT_MATRIX_B1)
        stride /= 32;
    return along ? row * stride + col : col * stride + row;
}

static uint64_t read_element(const char *p, uint64_t index, unsigned bits)
{
    uint64_t value = 0;
    if (bits < 8)
        return (uint64_t)(unsigned char)p[index * bits / 8] >> index * bits % 8 & ((1u << bits) - 1);
    memcpy(&value, p + index * (bits / 8), bits / 8);
    return value;
}

static void matrix_load(const struct mt_matrix_op *op, const struct mt_matrix_call *c, unsigned lane)
{
    struct mt_matrix_tile t;
    unsigned row, col;
    mt_matrix_tile(op, op->matrix, &t);
    memset(c->out, 0, op->nout * sizeof *c->out);
    for (unsigned i = 0; i < t.held; i++) {
        mt_matrix_position(&t, lane, i, &row, &col);
        mt_matrix_set(c->out, t.bits, i, read_element(c->p, index_of(op, c->stride, row, col), t.bits));
    }
}

static void matrix_store(const struct mt_matrix_op *op, const struct mt_matrix_call *c, unsigned lane)
{
    struct mt_matrix_tile t;
    unsigned row, col;
    mt_matrix_tile(op, op->matrix, &t);
    for (unsigned i = 0; i < t.held; i++) { /* results are whole bytes */
        mt_matrix_position(&t, lane, i, &row, &col);
        uint64_t value = mt_matrix_element(c->in, t.bits, i);
        memcpy(c->p + index_of(op, c->stride, row, col) * (t.bits / 8), &value, t.bits / 8);
    }
}

/* ---- ldmatrix, stmatrix, movmatrix: 8 x 8 elements of 16 bits ---- */

/* Returns the address of the lane's element i (0, 1) in a matrix whose rows are given by 8 lanes from
 * `first` on; NULL if that lane is absent. */
static char *element_16(const struct mt_matrix_op *op, struct mt_matrix_call *const *call, unsigned first,
                        unsigned lane, unsigned i)
{
    unsigned row = lane / 4, col = lane % 4 * 2 + i;
    if (op->flags & MT_MATRIX_TRANS) {
        unsigned other = row;
        row = col;
        col = other;
    }
    return call[first + row] ? call[first + row]->p + col * 2 : NULL;
}

static void matrix_ldmatrix(const struct mt_matrix_op *op, struct mt_matrix_call *const *call, unsigned lane)
{
    for (unsigned j = 0; j < op->count; j++) {
        uint16_t pair[2] = {0, 0};
        for (unsigned i = 0; i < 2; i++) {
            const char *p = element_16(op, call, j * 8, lane, i);
            if (p)
                memcpy(&pair[i], p, 2);
        }
        call[lane]->out[j] = pair[0] | (uint64_t)pair[1] << 16;
    }
}

static void matrix_stmatrix(const struct mt_matrix_op *op, struct mt_matrix_call *const *call, unsigned lane)
{
    for (unsigned j = 0; j < op->count; j++)
        for (unsigned i = 0; i < 2; i++) {
            uint16_t value = (uint16_t)(call[lane]->in[j] >> i * 16);
            char *p = element_16(op, call, j * 8, lane, i);
            if (p)
                memcpy(p, &value, 2);
        }
}

/* Transposed: element (g, 2t + i) comes from (2t + i, g). */
static void matrix_movmatrix(struct mt_matrix_call *const *call, unsigned lane)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < 2; i++) {
        unsigned row = lane % 4 * 2 + i, col = lane / 4, from = row * 4 + col / 2;
        if (call[from])
            out |= (call[from]->in[0] >> col % 2 * 16 & 0xffff) << i * 16;
    }
    call[lane]->out[0] = out;
}

/* ---- all of them ---- */

static void matrix_do(const struct mt_matrix_op *op, struct mt_matrix_call *const *call)
{
    if (op->kind == MT_MATRIX_MULTIPLY) {
        mt_matrix_multiply(op, call);
        return;
    }
    for (unsigned lane = 0; lane < MT_MATRIX_LANES; lane++) {
        if (!call[lane])
            continue;
        switch (op->kind) {
        case MT_MATRIX_LOAD:
            matrix_load(op, call[lane], lane);
            break;
        case MT_MATRIX_STORE:
            matrix_store(op, call[lane], lane);
            break;
        case MT_MATRIX_LDMATRIX:
            matrix_ldmatrix(op, call, lane);
            break;
        case MT_MATRIX_STMATRIX:
            matrix_stmatrix(op, call, lane);
            break;
        case MT_MATRIX_MOVMATRIX:
            matrix_movmatrix(call, lane);
            break;
        }
    }
}

/* Lanes should all be at the same operation; a lane with another one runs it without the others. */
void mt_cpu_warp_matrix(const struct mt_matrix_op *op, void *const *p, const uint64_t *stride,
                        const uint64_t *const *in, uint64_t *const *out, uint32_t lanes)
{
    struct mt_matrix_call list[MT_MATRIX_LANES], *call[MT_MATRIX_LANES] = {NULL};
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        list[i] = (struct mt_matrix_call){op, p[i], stride[i], in[i], out[i]};
        call[i] = &list[i];
    }
    mt_matrix_meet(call);
}

void mt_matrix_meet(struct mt_matrix_call *const *call)
{
    uint32_t left = 0;
    for (unsigned i = 0; i < MT_MATRIX_LANES; i++)
        left |= (uint32_t)(call[i] != NULL) << i;
    while (left) {
        struct mt_matrix_call *same[MT_MATRIX_LANES] = {NULL};
        const struct mt_matrix_op *op = call[__builtin_ctz(left)]->op;
        for (uint32_t m = left; m; m &= m - 1) {
            unsigned i = (unsigned)__builtin_ctz(m);
            if (call[i]->op == op || !memcmp(call[i]->op, op, sizeof *op)) {
                same[i] = call[i];
                left &= ~(1u << i);
            }
        }
        matrix_do(op, same);
    }
}
