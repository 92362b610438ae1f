/* Handles and descriptors of cuSPARSE. A handle is one of cuBLAS. */
#include "api/launch/library.h"
#include "call.h"
#include "library.h"
#include "sparse.h"
#include <stdlib.h>

int impl_cublasCreate_v2(void **out);
int impl_cublasDestroy_v2(void *handle);

int impl_cusparseCreate(void **out)
{
    return !out ? MT_SPARSE_INVALID_VALUE : impl_cublasCreate_v2(out) ? MT_SPARSE_ALLOC_FAILED : MT_SPARSE_OK;
}

int impl_cusparseDestroy(void *handle)
{
    return impl_cublasDestroy_v2(handle) ? MT_SPARSE_NOT_INITIALIZED : MT_SPARSE_OK;
}

#define FIELD(name, type, field)                                                                             \
    int impl_cusparseSet##name(void *handle, type value)                                                     \
    {                                                                                                        \
        struct mt_blas_handle *h = mt_blas_handle(handle);                                                   \
        if (!h)                                                                                              \
            return MT_SPARSE_NOT_INITIALIZED;                                                                \
        h->field = value;                                                                                    \
        return MT_SPARSE_OK;                                                                                 \
    }                                                                                                        \
    int impl_cusparseGet##name(void *handle, type *value)                                                    \
    {                                                                                                        \
        struct mt_blas_handle *h = mt_blas_handle(handle);                                                   \
        if (!h || !value)                                                                                    \
            return h ? MT_SPARSE_INVALID_VALUE : MT_SPARSE_NOT_INITIALIZED;                                  \
        *value = h->field;                                                                                   \
        return MT_SPARSE_OK;                                                                                 \
    }
FIELD(Stream, void *, stream)
FIELD(PointerMode, int, pointer_mode)

int impl_cusparseGetVersion(void *handle, int *version)
{
    if (!mt_blas_handle(handle) || !version)
        return MT_SPARSE_INVALID_VALUE;
    *version = 12600;
    return MT_SPARSE_OK;
}

int impl_cusparseGetProperty(int what, int *value)
{
    static const int parts[] = {12, 6, 0};
    if (what < 0 || what > 2 || !value)
        return MT_SPARSE_INVALID_VALUE;
    *value = parts[what];
    return MT_SPARSE_OK;
}

static const char *const names[][2] = {
    {"CUSPARSE_STATUS_SUCCESS", "success"},
    {"CUSPARSE_STATUS_NOT_INITIALIZED", "initialization error"},
    {"CUSPARSE_STATUS_ALLOC_FAILED", "out of memory"},
    {"CUSPARSE_STATUS_INVALID_VALUE", "invalid value"},
    {"CUSPARSE_STATUS_ARCH_MISMATCH", "architecture mismatch"},
    {"CUSPARSE_STATUS_MAPPING_ERROR", "memory could not be accessed"},
    {"CUSPARSE_STATUS_EXECUTION_FAILED", "execution failed"},
    {"CUSPARSE_STATUS_INTERNAL_ERROR", "internal error"},
    {"CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "matrix type not supported"},
    {"CUSPARSE_STATUS_ZERO_PIVOT", "zero pivot"},
    {"CUSPARSE_STATUS_NOT_SUPPORTED", "operation not supported"},
    {"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", "insufficient resources"}};

static const char *sparse_handle_words(int status, int which)
{
    return status >= 0 && status < (int)(sizeof names / sizeof *names) ? names[status][which]
                                                                       : "unrecognized error code";
}

const char *impl_cusparseGetErrorName(int status)
{
    return sparse_handle_words(status, 0);
}

const char *impl_cusparseGetErrorString(int status)
{
    return sparse_handle_words(status, 1);
}

/* ---- matrices */

int mt_sparse_index_bytes(int type)
{
    return type == 2 ? 4 : type == 3 ? 8 : 0; /* CUSPARSE_INDEX_32I, 64I */
}

static int sparse_handle_keep(void **out, const struct mt_sparse *s, int row_type, int column_type)
{
    if (!out || s->rows < 0 || s->cols < 0 || s->entries < 0 ||
        (s->entries && (!s->offsets || !s->columns || !s->values)))
        return MT_SPARSE_INVALID_VALUE;
    if (!mt_sparse_index_bytes(row_type) || !mt_sparse_index_bytes(column_type) || !s->letter) {
        mt_lib_say("cusparse: this type of indices or elements is not there on the CPU device");
        return MT_SPARSE_NOT_SUPPORTED;
    }
    struct mt_sparse *m = malloc(sizeof *m);
    if (!m)
        return MT_SPARSE_ALLOC_FAILED;
    *m = *s;
    m->offset_bytes = mt_sparse_index_bytes(row_type);
    m->column_bytes = mt_sparse_index_bytes(column_type);
    *out = m;
    return MT_SPARSE_OK;
}

int impl_cusparseCreateCsr(void **out, int64_t rows, int64_t cols, int64_t entries, const void *offsets,
                           const void *columns, const void *values, int offset_type, int column_type,
                           int base, int type)
{
    struct mt_sparse s = {.rows = rows,
                          .cols = cols,
                          .entries = entries,
                          .offsets = offsets,
                          .columns = columns,
                          .values = values,
                          .base = base,
                          .letter = mt_blas_letter(type)};
    return sparse_handle_keep(out, &s, offset_type, column_type);
}

int impl_cusparseCreateConstCsr(void **out, int64_t rows, int64_t cols, int64_t entries, const void *offsets,
                                const void *columns, const void *values, int offset_type, int column_type,
                                int base, int type)
{
    return impl_cusparseCreateCsr(out, rows, cols, entries, offsets, columns, values, offset_type,
                                  column_type, base, type);
}

int impl_cusparseCreateCoo(void **out, int64_t rows, int64_t cols, int64_t entries, const void *row,
                           const void *col, const void *values, int index_type, int base, int type)
{
    struct mt_sparse s = {.rows = rows,
                          .cols = cols,
                          .entries = entries,
                          .offsets = row,
                          .columns = col,
                          .values = values,
                          .coordinates = 1,
                          .base = base,
                          .letter = mt_blas_letter(type)};
    return sparse_handle_keep(out, &s, index_type, index_type);
}

int impl_cusparseCreateConstCoo(void **out, int64_t rows, int64_t cols, int64_t entries, const void *row,
                                const void *col, const void *values, int index_type, int base, int type)
{
    return impl_cusparseCreateCoo(out, rows, cols, entries, row, col, values, index_type, base, type);
}

int impl_cusparseCreateDnMat(void **out, int64_t rows, int64_t cols, int64_t ld, void *values, int type,
                             int order)
{
    struct mt_dense d = {rows, cols, ld, values, mt_blas_letter(type), order == 2};
    if (!out || rows < 0 || cols < 0 || ld < (order == 2 ? cols : rows) || order < 1 || order > 2)
        return MT_SPARSE_INVALID_VALUE;
    if (!d.letter)
        return MT_SPARSE_NOT_SUPPORTED;
    struct mt_dense *m = malloc(sizeof *m);
    if (!m)
        return MT_SPARSE_ALLOC_FAILED;
    *m = d;
    *out = m;
    return MT_SPARSE_OK;
}

int impl_cusparseCreateConstDnMat(void **out, int64_t rows, int64_t cols, int64_t ld, const void *values,
                                  int type, int order)
{
    return impl_cusparseCreateDnMat(out, rows, cols, ld, (void *)(uintptr_t)values, type, order);
}

int impl_cusparseCreateDnVec(void **out, int64_t size, void *values, int type)
{
    return impl_cusparseCreateDnMat(out, size, 1, size, values, type, 1);
}

int impl_cusparseCreateConstDnVec(void **out, int64_t size, const void *values, int type)
{
    return impl_cusparseCreateDnMat(out, size, 1, size, (void *)(uintptr_t)values, type, 1);
}

#define MATRIX(name, type)                                                                                   \
    int impl_cusparseDestroy##name(void *m)                                                                  \
    {                                                                                                        \
        free(m);                                                                                             \
        return MT_SPARSE_OK;                                                                                 \
    }                                                                                                        \
    int impl_cusparse##name##SetValues(struct type *m, void *values)                                         \
    {                                                                                                        \
        if (!m)                                                                                              \
            return MT_SPARSE_INVALID_VALUE;                                                                  \
        m->values = values;                                                                                  \
        return MT_SPARSE_OK;                                                                                 \
    }
MATRIX(SpMat, mt_sparse)
MATRIX(DnVec, mt_dense)
MATRIX(DnMat, mt_dense)

/* ---- products; buffers are not needed */

static int sparse_handle_buffer(void *handle, size_t *bytes)
{
    if (!mt_blas_handle(handle) || !bytes)
        return bytes ? MT_SPARSE_NOT_INITIALIZED : MT_SPARSE_INVALID_VALUE;
    *bytes = 0;
    return MT_SPARSE_OK;
}

int impl_cusparseSpMV_bufferSize(void *handle, int op, const void *alpha, const void *a, const void *x,
                                 const void *beta, void *y, int compute, int algorithm, size_t *bytes)
{
    return sparse_handle_buffer(handle, bytes);
}

int impl_cusparseSpMV_preprocess(void *handle, int op, const void *alpha, const void *a, const void *x,
                                 const void *beta, void *y, int compute, int algorithm, void *buffer)
{
    return mt_blas_handle(handle) ? MT_SPARSE_OK : MT_SPARSE_NOT_INITIALIZED;
}

#define WORD(p) ((int64_t)(intptr_t)(p))

int impl_cusparseSpMV(void *handle, int op, const void *alpha, const struct mt_sparse *a,
                      const struct mt_dense *x, const void *beta, const struct mt_dense *y, int compute,
                      int algorithm, void *buffer)
{
    if (__mt_library_on_gpu())
        return mt_sparse_multiply_gpu(
            "cusparseSpMV",
            &(struct mt_sparse_arguments){{WORD(handle), op, WORD(alpha), WORD(a), WORD(x), WORD(beta),
                                           WORD(y), compute, algorithm, WORD(buffer), 0},
                                          op,
                                          0,
                                          compute,
                                          alpha,
                                          a,
                                          x,
                                          beta,
                                          y});
    return mt_sparse_multiply(handle, "cusparseSpMV", op, 0, alpha, a, x, beta, y, compute);
}

int impl_cusparseSpMM_bufferSize(void *handle, int opa, int opb, const void *alpha, const void *a,
                                 const void *b, const void *beta, void *c, int compute, int algorithm,
                                 size_t *bytes)
{
    return sparse_handle_buffer(handle, bytes);
}

int impl_cusparseSpMM_preprocess(void *handle, int opa, int opb, const void *alpha, const void *a,
                                 const void *b, const void *beta, void *c, int compute, int algorithm,
                                 void *buffer)
{
    return mt_blas_handle(handle) ? MT_SPARSE_OK : MT_SPARSE_NOT_INITIALIZED;
}

int impl_cusparseSpMM(void *handle, int opa, int opb, const void *alpha, const struct mt_sparse *a,
                      const struct mt_dense *b, const void *beta, const struct mt_dense *c, int compute,
                      int algorithm, void *buffer)
{
    if (__mt_library_on_gpu())
        return mt_sparse_multiply_gpu(
            "cusparseSpMM",
            &(struct mt_sparse_arguments){{WORD(handle), opa, opb, WORD(alpha), WORD(a), WORD(b), WORD(beta),
                                           WORD(c), compute, algorithm, WORD(buffer)},
                                          opa,
                                          opb,
                                          compute,
                                          alpha,
                                          a,
                                          b,
                                          beta,
                                          c});
    return mt_sparse_multiply(handle, "cusparseSpMM", opa, opb, alpha, a, b, beta, c, compute);
}
