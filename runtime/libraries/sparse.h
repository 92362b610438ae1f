/* Matrices of cuSPARSE. */
#ifndef MT_LIBRARIES_SPARSE_H
#define MT_LIBRARIES_SPARSE_H
#include <stddef.h>
#include <stdint.h>

enum {
    MT_SPARSE_OK = 0,
    MT_SPARSE_NOT_INITIALIZED = 1,
    MT_SPARSE_ALLOC_FAILED = 2,
    MT_SPARSE_INVALID_VALUE = 3,
    MT_SPARSE_EXECUTION_FAILED = 6,
    MT_SPARSE_NOT_SUPPORTED = 10,
};

/* In rows (offsets: rows + 1 of them) or as coordinates (offsets: the row of each). */
struct mt_sparse {
    int64_t rows, cols, entries;
    const void *offsets, *columns, *values;
    int coordinates, offset_bytes, column_bytes, base;
    char letter;
};

/* Column-major, or row-major. A vector has one column. */
struct mt_dense {
    int64_t rows, cols, ld;
    void *values;
    char letter;
    int row_major;
};

/* c = alpha op(a) op(b) + beta c as a call of `name`. A status. */
int mt_sparse_multiply(void *handle, const char *name, int opa, int opb, const void *alpha,
                       const struct mt_sparse *a, const struct mt_dense *b, const void *beta,
                       const struct mt_dense *c, int compute);
#endif
