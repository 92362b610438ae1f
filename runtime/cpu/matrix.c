/* Loads, stores and moves of matrices by a warp: which element lies in which lane, as the PTX ISA has it for
 * mma, ldmatrix and their like. For wmma, where PTX leaves it open, the same order is used. */
#include <string.h>
#include "matrix.h"

static unsigned bits_of(unsigned type)
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
    t->bits = bits_of(type);
    t->rows = matrix == 'b' ? op->n : op->m;
    t->cols = is_factor ? k : op->n;
    t->per = !is_factor ? 2 : t->bits >= 32 ? 1 : 32 / t->bits;
    t->held = t->rows * t->cols / MT_MATRIX_LANES;
    if (is_factor && type == MT_MATRIX_F16 && op->flags & MT_MATRIX_WMMA)
        t->held = 16;
}

/* ---- wmma.load, wmma.store ---- */

/* Where an element is, counted in elements from the matrix's first. */
static uint64_t index_of(const struct mt_matrix_op *op, uint64_t stride, unsigned row, unsigned col)
{
    int along = op->matrix == 'b' ? !op->row_a : op->row_a; /* elements of a tile's row lie side by side */
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

/* Where element i (0, 1) of the lane is in a matrix whose rows are given by 8 lanes from `first` on; NULL
 * when that lane is not there. */
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

/* All lanes ought to be at the same operation; those that are not get their own, without the others. */
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
