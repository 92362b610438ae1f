/* What descriptors of cuSPARSE say, and those of the older functions. */
#include "call.h"
#include "sparse.h"
#include <stdlib.h>

enum { CSR = 1, CSC = 2, COO = 3 };

static int sparse_get_index(int bytes)
{
    return bytes == 8 ? 3 : 2; /* CUSPARSE_INDEX_64I, 32I */
}

static int sparse_get_type(char letter)
{
    int type = 0;
    while (mt_blas_letter(type) != letter)
        type++;
    return type;
}

/* ---- matrices */

int impl_cusparseCreateCsr(void **out, int64_t rows, int64_t cols, int64_t entries, const void *offsets,
                           const void *columns, const void *values, int offset_type, int column_type,
                           int base, int type);

int impl_cusparseCreateCsc(void **out, int64_t rows, int64_t cols, int64_t entries, const void *offsets,
                           const void *row, const void *values, int offset_type, int row_type, int base,
                           int type)
{
    int status = impl_cusparseCreateCsr(out, cols, rows, entries, offsets, row, values, offset_type, row_type,
                                        base, type);
    if (!status)
        ((struct mt_sparse *)*out)->by_column = 1;
    return status;
}

int impl_cusparseCreateConstCsc(void **out, int64_t rows, int64_t cols, int64_t entries, const void *offsets,
                                const void *row, const void *values, int offset_type, int row_type, int base,
                                int type)
{
    return impl_cusparseCreateCsc(out, rows, cols, entries, offsets, row, values, offset_type, row_type, base,
                                  type);
}

static int sparse_get_format(const struct mt_sparse *m)
{
    return m->coordinates ? COO : m->by_column ? CSC : CSR;
}

int impl_cusparseSpMatGetSize(const struct mt_sparse *m, int64_t *rows, int64_t *cols, int64_t *entries)
{
    if (!m || !rows || !cols || !entries)
        return MT_SPARSE_INVALID_VALUE;
    *rows = m->by_column ? m->cols : m->rows;
    *cols = m->by_column ? m->rows : m->cols;
    *entries = m->entries;
    return MT_SPARSE_OK;
}

#define ONE(name, value)                                                                                     \
    int impl_cusparse##name(const struct mt_sparse *m, int *out)                                             \
    {                                                                                                        \
        if (!m || !out)                                                                                      \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        *out = value;                                                                                        \
        return MT_SPARSE_OK;                                                                                 \
    }
ONE(SpMatGetFormat, sparse_get_format(m))
ONE(SpMatGetIndexBase, m->base)
ONE(SpVecGetIndexBase, m->base)

static int sparse_get_all(const struct mt_sparse *m, int format, int64_t *rows, int64_t *cols,
                          int64_t *entries, const void **offsets, const void **columns, const void **values,
                          int *offset_type, int *column_type, int *base, int *type)
{
    int status = impl_cusparseSpMatGetSize(m, rows, cols, entries);
    if (status || sparse_get_format(m) != format)
        return MT_SPARSE_INVALID_VALUE;
    *offsets = m->offsets, *columns = m->columns, *values = m->values;
    *offset_type = sparse_get_index(m->offset_bytes);
    if (column_type)
        *column_type = sparse_get_index(m->column_bytes);
    *base = m->base;
    *type = sparse_get_type(m->letter);
    return MT_SPARSE_OK;
}

#define COMPRESSED(name, format)                                                                             \
    int impl_cusparse##name(const struct mt_sparse *m, int64_t *rows, int64_t *cols, int64_t *entries,       \
                            const void **offsets, const void **columns, const void **values,                 \
                            int *offset_type, int *column_type, int *base, int *type)                        \
    {                                                                                                        \
        return sparse_get_all(m, format, rows, cols, entries, offsets, columns, values, offset_type,         \
                              column_type, base, type);                                                      \
    }
COMPRESSED(CsrGet, CSR)
COMPRESSED(ConstCsrGet, CSR)
COMPRESSED(CscGet, CSC)
COMPRESSED(ConstCscGet, CSC)

#define COORDINATES(name)                                                                                    \
    int impl_cusparse##name(const struct mt_sparse *m, int64_t *rows, int64_t *cols, int64_t *entries,       \
                            const void **row, const void **col, const void **values, int *index_type,        \
                            int *base, int *type)                                                            \
    {                                                                                                        \
        return sparse_get_all(m, COO, rows, cols, entries, row, col, values, index_type, NULL, base, type);  \
    }
COORDINATES(CooGet)
COORDINATES(ConstCooGet)

#define POINTERS(name, format)                                                                               \
    int impl_cusparse##name(struct mt_sparse *m, const void *offsets, const void *columns,                   \
                            const void *values)                                                              \
    {                                                                                                        \
        if (!m || sparse_get_format(m) != format)                                                            \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        m->offsets = offsets, m->columns = columns, m->values = values;                                      \
        return MT_SPARSE_OK;                                                                                 \
    }
POINTERS(CsrSetPointers, CSR)
POINTERS(CscSetPointers, CSC)
POINTERS(CooSetPointers, COO)

/* CUSPARSE_SPMAT_FILL_MODE and DIAG_TYPE: kept. */
int impl_cusparseSpMatSetAttribute(struct mt_sparse *m, int which, const int *value, size_t bytes)
{
    if (!m || which < 0 || which > 1 || !value || bytes != sizeof *value)
        return MT_SPARSE_INVALID_VALUE;
    m->attribute[which] = *value;
    return MT_SPARSE_OK;
}

int impl_cusparseSpMatGetAttribute(const struct mt_sparse *m, int which, int *value, size_t bytes)
{
    if (!m || which < 0 || which > 1 || !value || bytes != sizeof *value)
        return MT_SPARSE_INVALID_VALUE;
    *value = m->attribute[which];
    return MT_SPARSE_OK;
}

#define VALUES(name, matrix)                                                                                 \
    int impl_cusparse##name(const struct matrix *m, const void **out)                                        \
    {                                                                                                        \
        if (!m || !out)                                                                                      \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        *out = m->values;                                                                                    \
        return MT_SPARSE_OK;                                                                                 \
    }
VALUES(SpMatGetValues, mt_sparse)
VALUES(ConstSpMatGetValues, mt_sparse)
VALUES(SpVecGetValues, mt_sparse)
VALUES(ConstSpVecGetValues, mt_sparse)
VALUES(DnVecGetValues, mt_dense)
VALUES(ConstDnVecGetValues, mt_dense)
VALUES(DnMatGetValues, mt_dense)
VALUES(ConstDnMatGetValues, mt_dense)

#define DENSE(vector, matrix)                                                                                \
    int impl_cusparse##vector(const struct mt_dense *m, int64_t *size, const void **values, int *type)       \
    {                                                                                                        \
        if (!m || !size || !values || !type)                                                                 \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        *size = m->rows, *values = m->values, *type = sparse_get_type(m->letter);                            \
        return MT_SPARSE_OK;                                                                                 \
    }                                                                                                        \
    int impl_cusparse##matrix(const struct mt_dense *m, int64_t *rows, int64_t *cols, int64_t *ld,           \
                              const void **values, int *type, int *order)                                    \
    {                                                                                                        \
        if (!m || !rows || !cols || !ld || !values || !type || !order)                                       \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        *rows = m->rows, *cols = m->cols, *ld = m->ld, *values = m->values;                                  \
        *type = sparse_get_type(m->letter), *order = m->row_major ? 2 : 1;                                   \
        return MT_SPARSE_OK;                                                                                 \
    }
DENSE(DnVecGet, DnMatGet)
DENSE(ConstDnVecGet, ConstDnMatGet)

/* ---- sparse vectors: one row without offsets */

int impl_cusparseCreateSpVec(void **out, int64_t size, int64_t entries, const void *indices,
                             const void *values, int index_type, int base, int type)
{
    int bytes = mt_sparse_index_bytes(index_type);
    if (!out || size < 0 || entries < 0 || entries > size || (entries && (!indices || !values)))
        return MT_SPARSE_INVALID_VALUE;
    if (!bytes || !mt_blas_letter(type))
        return MT_SPARSE_NOT_SUPPORTED;
    struct mt_sparse *v = calloc(1, sizeof *v);
    if (!v)
        return MT_SPARSE_ALLOC_FAILED;
    v->cols = size, v->entries = entries, v->columns = indices, v->values = values;
    v->column_bytes = bytes, v->base = base, v->letter = mt_blas_letter(type);
    *out = v;
    return MT_SPARSE_OK;
}

int impl_cusparseCreateConstSpVec(void **out, int64_t size, int64_t entries, const void *indices,
                                  const void *values, int index_type, int base, int type)
{
    return impl_cusparseCreateSpVec(out, size, entries, indices, values, index_type, base, type);
}

int impl_cusparseDestroySpVec(void *v)
{
    free(v);
    return MT_SPARSE_OK;
}

int impl_cusparseSpVecSetValues(struct mt_sparse *v, void *values)
{
    if (!v)
        return MT_SPARSE_INVALID_VALUE;
    v->values = values;
    return MT_SPARSE_OK;
}

#define VECTOR(name)                                                                                         \
    int impl_cusparse##name(const struct mt_sparse *v, int64_t *size, int64_t *entries,                      \
                            const void **indices, const void **values, int *index_type, int *base,           \
                            int *type)                                                                       \
    {                                                                                                        \
        if (!v || !size || !entries || !indices || !values || !index_type || !base || !type)                 \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        *size = v->cols, *entries = v->entries, *indices = v->columns, *values = v->values;                  \
        *index_type = sparse_get_index(v->column_bytes), *base = v->base;                                    \
        *type = sparse_get_type(v->letter);                                                                  \
        return MT_SPARSE_OK;                                                                                 \
    }
VECTOR(SpVecGet)
VECTOR(ConstSpVecGet)

/* ---- descriptors of the older functions: only their base has a meaning here */

int impl_cusparseCreateMatDescr(void **out)
{
    if (!out)
        return MT_SPARSE_INVALID_VALUE;
    *out = calloc(1, sizeof(struct mt_sparse_descriptor));
    return *out ? MT_SPARSE_OK : MT_SPARSE_ALLOC_FAILED;
}

int impl_cusparseDestroyMatDescr(void *d)
{
    free(d);
    return MT_SPARSE_OK;
}

#define FIELD(name, field, most)                                                                             \
    int impl_cusparseSetMat##name(struct mt_sparse_descriptor *d, int value)                                 \
    {                                                                                                        \
        if (!d || value < 0 || value > (most))                                                               \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        d->field = value;                                                                                    \
        return MT_SPARSE_OK;                                                                                 \
    }                                                                                                        \
    int impl_cusparseGetMat##name(const struct mt_sparse_descriptor *d)                                      \
    {                                                                                                        \
        return d ? d->field : 0;                                                                             \
    }
FIELD(Type, type, 3)
FIELD(IndexBase, base, 1)
FIELD(FillMode, fill, 1)
FIELD(DiagType, diag, 1)
