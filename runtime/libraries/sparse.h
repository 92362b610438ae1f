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

/* In rows (offsets: rows + 1 of them) or as coordinates (offsets: the row of each). by_column: it is the
 * transpose of the program's. letter 0: without values. */
struct mt_sparse {
    int64_t rows, cols, entries;
    const void *offsets, *columns, *values;
    int coordinates, by_column, offset_bytes, column_bytes, base;
    char letter;
    int attribute[2]; /* kept for who asks */
    const void *read_offsets,
        *read_columns; /* what is in offsets and columns, if that is not to be read there */
};

/* Column-major, or row-major. A vector has one column. */
struct mt_dense {
    int64_t rows, cols, ld;
    void *values;
    char letter;
    int row_major;
};

/* Of the older functions. */
struct mt_sparse_descriptor {
    int type, base, fill, diag;
};

/* Of a cusparseIndexType_t; 0: it is not there. */
int mt_sparse_index_bytes(int type);

/* ---- sparse.c: going through a matrix */
struct mt_sparse_entry {
    int64_t at, row, col; /* of op(a), from 0 */
};
/* The next one; e->at begins at -1, *row at 0 (with rows: of the matrix as it is). 0: there is none; -1: an
 * index is not one. */
int mt_sparse_next(const struct mt_sparse *a, int op, int64_t *row, struct mt_sparse_entry *e);
int64_t mt_sparse_index(const void *p, int bytes, int64_t i);
/* Notes its indices, and its values if it has some. 0, or -1: memory is not there. */
enum { MT_SPARSE_OFFSETS = 1, MT_SPARSE_COLUMNS = 2, MT_SPARSE_VALUES = 4, MT_SPARSE_ALL = 7 };
struct mt_library_notes;
int mt_sparse_note(const struct mt_sparse *a, struct mt_library_notes *notes, int type, int parts);

/* c = alpha op(a) op(b) + beta c as a call of `name`. A status. */
int mt_sparse_multiply(void *handle, const char *name, int opa, int opb, const void *alpha,
                       const struct mt_sparse *a, const struct mt_dense *b, const void *beta,
                       const struct mt_dense *c, int compute);
/* The same on a GPU by NVIDIA's function, whose arguments these are, the handle first. */
struct mt_sparse_arguments {
    int64_t list[11]; /* in their order; of cusparseSpMV the last is none */
    int opa, opb, compute;
    const void *alpha, *a, *b, *beta, *c;
};
int mt_sparse_multiply_gpu(const char *name, const struct mt_sparse_arguments *s);
#endif
