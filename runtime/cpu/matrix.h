/* Matrix operations of a warp, shared by worker.c and matrix.c. */
#ifndef MT_CPU_MATRIX_H
#define MT_CPU_MATRIX_H
#include "format/image.h"

#define MT_MATRIX_LANES 32u

/* Arguments of one lane. Lies on the lane's own stack until all lanes have arrived. */
struct mt_matrix_call {
    const struct mt_matrix_op *op;
    char *p;
    uint64_t stride;
    const uint64_t *in;
    uint64_t *out;
};

/* Layout of a matrix in the lanes' registers: cores of 8 rows, each row held by four lanes with `per`
 * elements each; cores are numbered down first, then to the right. Rows are those of a, c and d, and the
 * columns of b; binary matrices count words of 32 elements. */
struct mt_matrix_tile {
    unsigned rows, cols, per;
    unsigned bits; /* bits of an element */
    unsigned held; /* elements in a lane: more than rows * cols / 32 if lanes hold copies */
};
void mt_matrix_tile(const struct mt_matrix_op *op, int matrix, struct mt_matrix_tile *t);
/* Computes row and column of the lane's element i. */
static inline void mt_matrix_position(const struct mt_matrix_tile *t, unsigned lane, unsigned i,
                                      unsigned *row, unsigned *col)
{
    unsigned down = t->rows / 8, natural = t->rows * t->cols / MT_MATRIX_LANES;
    i %= natural;
    unsigned core = i / t->per;
    *row = core % down * 8 + lane / 4;
    *col = (core / down * 4 + lane % 4) * t->per + i % t->per;
}
static inline uint64_t mt_matrix_element(const uint64_t *registers, unsigned bits, unsigned i)
{
    if (bits >= 32)
        return registers[i];
    unsigned per = 32 / bits;
    return registers[i / per] >> i % per * bits & ((1u << bits) - 1);
}
static inline void mt_matrix_set(uint64_t *registers, unsigned bits, unsigned i, uint64_t value)
{
    if (bits >= 32)
        registers[i] = value;
    else
        registers[i / (32 / bits)] |= value << i % (32 / bits) * bits;
}

/* Multiplies for a warp. call[lane] is NULL for absent lanes; the others have the same operation. Writes
 * their `out`. */
void mt_matrix_multiply(const struct mt_matrix_op *op, struct mt_matrix_call *const *call);
/* Multiplies for all lanes of a warp that arrived, whatever operation each has. */
void mt_matrix_meet(struct mt_matrix_call *const *call);
#endif
