/* cuSPARSE's conversions to and from dense matrices, its products of two sparse ones, and sparse vectors. */
#include "call.h"
#include "element.h"
#include "library.h"
#include "sparse_job.h"
#include <stdlib.h>
#include <string.h>

static int sparse_generic_say(const struct mt_sparse_job *j, int bad)
{
    if (bad)
        mt_lib_say("%s: no memory, or another number of entries than before", j->call.name);
    return bad ? -1 : 0;
}

static int sparse_generic_size(void *handle, size_t *bytes)
{
    if (!mt_blas_handle(handle) || !bytes)
        return bytes ? MT_SPARSE_NOT_INITIALIZED : MT_SPARSE_INVALID_VALUE;
    *bytes = 16; /* nobody uses it; without a buffer some calls only ask for its size */
    return MT_SPARSE_OK;
}

/* Row i, column j of the sparse matrix as it is here. */
static int64_t sparse_generic_place(const struct mt_sparse_job *j, int64_t row, int64_t col)
{
    int64_t i = j->a.by_column ? col : row, k = j->a.by_column ? row : col;
    return j->dense.row_major ? i * j->dense.ld + k : k * j->dense.ld + i;
}

static void sparse_generic_note_dense(const struct mt_dense *d, struct mt_library_notes *notes, int type)
{
    size_t element = mt_blas_letter_bytes(d->letter);
    int64_t run = d->row_major ? d->cols : d->rows, count = d->row_major ? d->rows : d->cols;
    __mt_library_note(notes, type, d->values, (size_t)run * element, (size_t)count, d->ld * (int64_t)element);
}

/* ---- to a dense matrix */

static void sparse_generic_spread_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    if (mt_sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_ALL))
        return;
    mt_sparse_look(&j->a, notes);
    sparse_generic_note_dense(&j->dense, notes, MT_LIBRARY_WRITE);
}

static int sparse_generic_spread(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_sparse_entry e = {-1, 0, 0};
    int64_t row = 0;
    for (int64_t r = 0; r < j->a.rows; r++)
        for (int64_t c = 0; c < j->a.cols; c++)
            mt_element_put(j->dense.letter, j->dense.values, sparse_generic_place(j, r, c), 0);
    while (mt_sparse_next(&j->a, 0, &row, &e) > 0)
        mt_element_put(j->dense.letter, j->dense.values, sparse_generic_place(j, e.row, e.col),
                       mt_element_get(j->a.letter, j->a.values, e.at));
    return 0;
}

static int sparse_generic_fits(const struct mt_sparse *a, const struct mt_dense *d)
{
    return a && d && (a->by_column ? a->cols : a->rows) == d->rows &&
           (a->by_column ? a->rows : a->cols) == d->cols;
}

int impl_cusparseSparseToDense(void *handle, const struct mt_sparse *a, const struct mt_dense *d,
                               int algorithm, void *buffer)
{
    struct mt_sparse_job j;
    int status = mt_sparse_job(&j, handle, "cusparseSparseToDense", sparse_generic_spread_ranges,
                               sparse_generic_spread);
    if (status || !sparse_generic_fits(a, d))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *a, j.dense = *d;
    return d->rows && d->cols ? mt_sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}

int impl_cusparseSparseToDense_bufferSize(void *handle, const void *a, const void *d, int algorithm,
                                          size_t *bytes)
{
    return sparse_generic_size(handle, bytes);
}

/* ---- from one: how many entries there are, then the entries */

static void sparse_generic_gather_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    sparse_generic_note_dense(&j->dense, notes, MT_LIBRARY_READ);
    if (j->numeric)
        mt_sparse_note(&j->a, notes, MT_LIBRARY_WRITE, MT_SPARSE_ALL);
    else if (!j->a.coordinates)
        mt_sparse_note(&j->a, notes, MT_LIBRARY_WRITE, MT_SPARSE_OFFSETS);
}

static int sparse_generic_collect(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    for (int64_t r = 0; r < j->a.rows; r++)
        for (int64_t c = 0; c < j->a.cols && !t.bad; c++) {
            double _Complex v =
                mt_element_get(j->dense.letter, j->dense.values, sparse_generic_place(j, r, c));
            if (v != 0)
                mt_triplets_add(&t, r, c, v);
        }
    if (j->target && !t.bad)
        j->target->entries = (int64_t)t.n;
    int parts = j->numeric ? MT_SPARSE_ALL : j->a.coordinates ? 0 : MT_SPARSE_OFFSETS;
    int bad = t.bad || mt_triplets_put(&t, &j->a, parts);
    free(t.at);
    return sparse_generic_say(j, bad);
}

static int sparse_generic_dense(void *handle, const char *name, const struct mt_dense *d, struct mt_sparse *a,
                                int numeric)
{
    struct mt_sparse_job j;
    int status = mt_sparse_job(&j, handle, name, sparse_generic_gather_ranges, sparse_generic_collect);
    if (status || !sparse_generic_fits(a, d))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *a, j.dense = *d, j.numeric = numeric;
    j.target = numeric ? NULL : a;
    return mt_sparse_submit(&j, handle, !numeric);
}

int impl_cusparseDenseToSparse_analysis(void *handle, const struct mt_dense *d, struct mt_sparse *a,
                                        int algorithm, void *buffer)
{
    return sparse_generic_dense(handle, "cusparseDenseToSparse_analysis", d, a, 0);
}

int impl_cusparseDenseToSparse_convert(void *handle, const struct mt_dense *d, struct mt_sparse *a,
                                       int algorithm, void *buffer)
{
    return sparse_generic_dense(handle, "cusparseDenseToSparse_convert", d, a, 1);
}

int impl_cusparseDenseToSparse_bufferSize(void *handle, const void *d, const void *a, int algorithm,
                                          size_t *bytes)
{
    return sparse_generic_size(handle, bytes);
}

/* ---- products: a descriptor keeps the entries between two calls, which both wait */

int impl_cusparseSpGEMM_createDescr(void **out)
{
    if (!out)
        return MT_SPARSE_INVALID_VALUE;
    *out = calloc(1, sizeof(struct mt_triplets));
    return *out ? MT_SPARSE_OK : MT_SPARSE_ALLOC_FAILED;
}

int impl_cusparseSpGEMM_destroyDescr(struct mt_triplets *kept)
{
    if (kept)
        free(kept->at);
    free(kept);
    return MT_SPARSE_OK;
}

static void sparse_generic_gemm_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    if (j->numeric) {
        mt_sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_ALL);
        return;
    }
    if (mt_sparse_note_scalars(j, notes) || mt_sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_ALL) ||
        mt_sparse_note(&j->b, notes, MT_LIBRARY_READ, MT_SPARSE_ALL))
        return;
    mt_sparse_look(&j->a, notes);
    mt_sparse_look(&j->b, notes);
    if (mt_sparse_scalar(j, 1) != 0)
        mt_sparse_note(&j->c, notes, MT_LIBRARY_READ, MT_SPARSE_ALL);
}

/* c's pattern has what a b has, and what it had if beta is not 0. */
static int sparse_generic_gemm(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    struct mt_sparse_entry e = {-1, 0, 0};
    double _Complex alpha = mt_sparse_scalar(j, 0), beta = mt_sparse_scalar(j, 1);
    int64_t row = 0;
    while (mt_sparse_next(&j->a, 0, &row, &e) > 0 && !t.bad) {
        double _Complex v = alpha * mt_element_get(j->a.letter, j->a.values, e.at);
        int64_t from = mt_sparse_index(j->b.offsets, j->b.offset_bytes, e.col) - j->b.base,
                to = mt_sparse_index(j->b.offsets, j->b.offset_bytes, e.col + 1) - j->b.base;
        for (int64_t i = from; i < to && !t.bad; i++)
            mt_triplets_add(&t, e.row, mt_sparse_index(j->b.columns, j->b.column_bytes, i) - j->b.base,
                            v * mt_element_get(j->b.letter, j->b.values, i));
    }
    if (beta != 0)
        mt_triplets_of(&t, &j->c, 0, beta);
    mt_triplets_merge(&t);
    free(j->kept->at);
    *j->kept = t;
    if (!t.bad)
        j->target->entries = (int64_t)t.n;
    return sparse_generic_say(j, t.bad);
}

static int sparse_generic_gemm_copy(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    return sparse_generic_say(j, mt_triplets_put(j->kept, &j->c, MT_SPARSE_ALL));
}

struct product {
    const void *alpha, *beta;
    const struct mt_sparse *a, *b;
    struct mt_sparse *c;
    struct mt_triplets *kept;
    int opa, opb, compute, numeric;
};

static int sparse_generic_product(void *handle, const char *name, const struct product *p)
{
    struct mt_sparse_job j;
    int status = mt_sparse_job(&j, handle, name, sparse_generic_gemm_ranges,
                               p->numeric ? sparse_generic_gemm_copy : sparse_generic_gemm);
    if (status || !p->alpha || !p->beta || !p->a || !p->b || !p->c || !p->kept || p->a->cols != p->b->rows ||
        p->a->rows != p->c->rows || p->b->cols != p->c->cols)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    if (p->opa || p->opb || !mt_blas_letter(p->compute) || p->a->coordinates || p->b->coordinates ||
        p->c->coordinates || p->a->by_column || p->b->by_column || p->c->by_column)
        return MT_SPARSE_NOT_SUPPORTED;
    mt_sparse_scalars(&j, mt_blas_letter(p->compute), p->alpha, p->beta);
    j.a = *p->a, j.b = *p->b, j.c = *p->c;
    j.kept = p->kept, j.target = p->c, j.numeric = p->numeric;
    return mt_sparse_submit(&j, handle, 1);
}

int impl_cusparseSpGEMM_workEstimation(void *handle, int opa, int opb, const void *alpha, const void *a,
                                       const void *b, const void *beta, void *c, int compute, int algorithm,
                                       void *kept, size_t *bytes, void *buffer)
{
    return sparse_generic_size(handle, bytes);
}

int impl_cusparseSpGEMM_compute(void *handle, int opa, int opb, const void *alpha, const void *a,
                                const void *b, const void *beta, void *c, int compute, int algorithm,
                                void *kept, size_t *bytes, void *buffer)
{
    const struct product p = {alpha, beta, a, b, c, kept, opa, opb, compute, 0};
    int status = sparse_generic_size(handle, bytes);
    return status || !buffer ? status : sparse_generic_product(handle, "cusparseSpGEMM_compute", &p);
}

int impl_cusparseSpGEMM_copy(void *handle, int opa, int opb, const void *alpha, const void *a, const void *b,
                             const void *beta, void *c, int compute, int algorithm, void *kept)
{
    const struct product p = {alpha, beta, a, b, c, kept, opa, opb, compute, 1};
    return sparse_generic_product(handle, "cusparseSpGEMM_copy", &p);
}

/* ---- sparse vectors: j->a its indices, j->dense the other one */

static void sparse_generic_pick_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    size_t element = mt_blas_letter_bytes(j->dense.letter);
    int from_dense = j->major;
    if (mt_sparse_note(&j->a, notes, MT_LIBRARY_READ,
                       from_dense ? MT_SPARSE_COLUMNS : MT_SPARSE_COLUMNS | MT_SPARSE_VALUES))
        return;
    for (int64_t i = 0; i < j->a.entries; i++) {
        int64_t at = mt_sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
        if (at < 0 || at >= j->dense.rows) {
            __mt_library_refuse(notes, "an index is outside of the vector");
            return;
        }
        __mt_library_note(notes, from_dense ? MT_LIBRARY_READ : MT_LIBRARY_WRITE,
                          (char *)j->dense.values + at * (int64_t)element, element, 1, 0);
    }
    if (from_dense)
        mt_sparse_note(&j->a, notes, MT_LIBRARY_WRITE, MT_SPARSE_VALUES);
}

static int sparse_generic_pick(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    void *values = (void *)(uintptr_t)j->a.values;
    for (int64_t i = 0; i < j->a.entries; i++) {
        int64_t at = mt_sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
        if (j->major)
            mt_element_put(j->a.letter, values, i, mt_element_get(j->dense.letter, j->dense.values, at));
        else
            mt_element_put(j->dense.letter, j->dense.values, at, mt_element_get(j->a.letter, values, i));
    }
    return 0;
}

static int sparse_generic_vector(void *handle, const char *name, const struct mt_sparse *v,
                                 const struct mt_dense *d, int from_dense)
{
    struct mt_sparse_job j;
    int status = mt_sparse_job(&j, handle, name, sparse_generic_pick_ranges, sparse_generic_pick);
    if (status || !v || !d || v->letter != d->letter || v->cols != d->rows)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *v, j.dense = *d, j.major = from_dense;
    return v->entries ? mt_sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}

int impl_cusparseGather(void *handle, const struct mt_dense *y, const struct mt_sparse *x)
{
    return sparse_generic_vector(handle, "cusparseGather", x, y, 1);
}

int impl_cusparseScatter(void *handle, const struct mt_sparse *x, const struct mt_dense *y)
{
    return sparse_generic_vector(handle, "cusparseScatter", x, y, 0);
}

/* ---- y = alpha x + beta y */

/* With a beta of 1 only what x has entries for is touched; with 0, y is not read. */
static void sparse_generic_axpby_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    size_t element = mt_blas_letter_bytes(j->dense.letter), all = element * (size_t)j->dense.rows;
    if (mt_sparse_note_scalars(j, notes) ||
        mt_sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_COLUMNS | MT_SPARSE_VALUES))
        return;
    double _Complex beta = mt_sparse_scalar(j, 1);
    if (beta != 1 && beta != 0)
        __mt_library_note(notes, MT_LIBRARY_READ, j->dense.values, all, 1, 0);
    if (beta != 1)
        __mt_library_note(notes, MT_LIBRARY_WRITE, j->dense.values, all, 1, 0);
    for (int64_t i = 0; i < j->a.entries; i++) {
        int64_t at = mt_sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
        if (at < 0 || at >= j->dense.rows) {
            __mt_library_refuse(notes, "an index is outside of the vector");
            return;
        }
        char *p = (char *)j->dense.values + at * (int64_t)element;
        if (beta == 1) {
            __mt_library_note(notes, MT_LIBRARY_READ, p, element, 1, 0);
            __mt_library_note(notes, MT_LIBRARY_WRITE, p, element, 1, 0);
        }
    }
}

static int sparse_generic_axpby(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    double _Complex alpha = mt_sparse_scalar(j, 0), beta = mt_sparse_scalar(j, 1);
    char letter = j->dense.letter;
    void *y = j->dense.values;
    for (int64_t i = 0; beta != 1 && i < j->dense.rows; i++)
        mt_element_put(letter, y, i, beta == 0 ? 0 : beta * mt_element_get(letter, y, i));
    for (int64_t i = 0; i < j->a.entries; i++) {
        int64_t at = mt_sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
        mt_element_put(letter, y, at,
                       mt_element_get(letter, y, at) + alpha * mt_element_get(j->a.letter, j->a.values, i));
    }
    return 0;
}

int impl_cusparseAxpby(void *handle, const void *alpha, const struct mt_sparse *x, const void *beta,
                       const struct mt_dense *y)
{
    struct mt_sparse_job j;
    int status =
        mt_sparse_job(&j, handle, "cusparseAxpby", sparse_generic_axpby_ranges, sparse_generic_axpby);
    if (status || !x || !y || !alpha || !beta || x->letter != y->letter || x->cols != y->rows)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *x, j.dense = *y;
    mt_sparse_scalars(&j, y->letter, alpha, beta);
    return y->rows ? mt_sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}
