/* Matrices of cuSPARSE on a GPU: what NVIDIA's descriptors of them say, and their indices, which are there.
 */
#include "abi.h"
#include "call.h"
#include "library.h"
#include "sparse.h"
#include <stdlib.h>

enum { CSR = 1, COO = 3, ROW_MAJOR = 2 };

static void (*sparse_gpu_real(const char *name))(void)
{
    return mt_lib_real("cusparse", name);
}

/* How many matrices it describes; 0: that is not known. */
static int sparse_gpu_batches(const char *name, const void *real, int dense)
{
    int count = 0;
    int64_t stride;
    void (*f)(void) = sparse_gpu_real(name);
    int bad = !f || (dense ? ((int (*)(const void *, int *, int64_t *))f)(real, &count, &stride)
                           : ((int (*)(const void *, int *))f)(real, &count));
    return bad ? 0 : count > 1 ? count : 1;
}

int mt_sparse_read(struct mt_sparse *out, const void *real)
{
    typedef int get_csr(const void *, int64_t *, int64_t *, int64_t *, const void **, const void **,
                        const void **, int *, int *, int *, int *);
    typedef int get_coo(const void *, int64_t *, int64_t *, int64_t *, const void **, const void **,
                        const void **, int *, int *, int *);
    int (*get_format)(const void *, int *) =
        (int (*)(const void *, int *))sparse_gpu_real("cusparseSpMatGetFormat");
    get_csr *csr = (get_csr *)sparse_gpu_real("cusparseConstCsrGet");
    get_coo *coo = (get_coo *)sparse_gpu_real("cusparseConstCooGet");
    struct mt_sparse s = {0};
    int format, types[2] = {0, 0}, type;
    if (!get_format || !csr || !coo || get_format(real, &format) ||
        sparse_gpu_batches("cusparseSpMatGetStridedBatch", real, 0) != 1)
        return -1;
    s.coordinates = format == COO;
    if (format == CSR ? csr(real, &s.rows, &s.cols, &s.entries, &s.offsets, &s.columns, &s.values, &types[0],
                            &types[1], &s.base, &type)
                      : format != COO || coo(real, &s.rows, &s.cols, &s.entries, &s.offsets, &s.columns,
                                             &s.values, &types[0], &s.base, &type))
        return -1;
    types[1] = format == COO ? types[0] : types[1];
    s.offset_bytes = mt_sparse_index_bytes(types[0]);
    s.column_bytes = mt_sparse_index_bytes(types[1]);
    s.letter = mt_blas_letter(type);
    *out = s;
    return s.offset_bytes && s.column_bytes && s.letter ? 0 : -1;
}

int mt_dense_read(struct mt_dense *out, const void *real, int vector)
{
    typedef int get_vector(const void *, int64_t *, void **, int *);
    typedef int get_matrix(const void *, int64_t *, int64_t *, int64_t *, void **, int *, int *);
    get_vector *of_vector = (get_vector *)sparse_gpu_real("cusparseConstDnVecGet");
    get_matrix *of_matrix = (get_matrix *)sparse_gpu_real("cusparseConstDnMatGet");
    struct mt_dense d = {.cols = 1};
    int type = -1, order = 0;
    if (vector ? !of_vector || of_vector(real, &d.rows, &d.values, &type)
               : !of_matrix || of_matrix(real, &d.rows, &d.cols, &d.ld, &d.values, &type, &order) ||
                     sparse_gpu_batches("cusparseDnMatGetStridedBatch", real, 1) != 1)
        return -1;
    d.ld = vector ? d.rows : d.ld;
    d.letter = mt_blas_letter(type);
    d.row_major = order == ROW_MAJOR;
    *out = d;
    return d.letter ? 0 : -1;
}

static const void *sparse_gpu_copy(void *stream, const void *from, int64_t count, int bytes)
{
    size_t all = (size_t)count * (size_t)bytes;
    void *to = malloc(all + 1);
    if (!to || !all || !__mt_library_fetch(stream, to, from, all))
        return to;
    free(to);
    return NULL;
}

int mt_sparse_fetch(struct mt_sparse *a, void *stream)
{
    int64_t offsets = a->coordinates ? a->entries : a->rows + 1;
    a->read_offsets = sparse_gpu_copy(stream, a->offsets, offsets, a->offset_bytes);
    a->read_columns = sparse_gpu_copy(stream, a->columns, a->entries, a->column_bytes);
    return a->read_offsets && a->read_columns ? 0 : -1;
}

void mt_sparse_release(struct mt_sparse *a)
{
    free((void *)(uintptr_t)a->read_offsets);
    free((void *)(uintptr_t)a->read_columns);
}
