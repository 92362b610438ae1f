/* Products with sparse matrices: cusparseSpMV and cusparseSpMM. Of the dense factor only those rows are read
 * that the sparse one has entries for: its indices are looked at when the call runs. */
#include "sparse.h"
#include "call.h"
#include "element.h"
#include "library.h"
#include "api/launch/library.h"
#include <stdlib.h>
#include <string.h>

/* Matrices of cuSPARSE on a GPU: what NVIDIA's descriptors of them say, and their indices, which are there.
 */

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

static int sparse_read(struct mt_sparse *out, const void *real)
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

static int dense_read(struct mt_dense *out, const void *real, int vector)
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

static int sparse_fetch(struct mt_sparse *a, void *stream)
{
    int64_t offsets = a->coordinates ? a->entries : a->rows + 1;
    a->read_offsets = sparse_gpu_copy(stream, a->offsets, offsets, a->offset_bytes);
    a->read_columns = sparse_gpu_copy(stream, a->columns, a->entries, a->column_bytes);
    return a->read_offsets && a->read_columns ? 0 : -1;
}

/* Brings a's indices, as they are when the stream comes to the call. -1: that cannot be known. */
static void sparse_release(struct mt_sparse *a)
{
    free((void *)(uintptr_t)a->read_offsets);
    free((void *)(uintptr_t)a->read_columns);
}

struct sparse_call {
    struct mt_library_call call;
    struct mt_sparse a;
    struct mt_dense b, c;
    int opa, opb, device; /* opa: a as it is here is transposed */
    int conjugated;
    char scalar;
    const void *alpha, *beta; /* on the device */
    unsigned char value[2][16];
    int fetched; /* alpha and beta are on the device, but what they are is in `value` */
    void (*real)(void);
    int64_t arguments[11]; /* on a GPU */
};

static const void *sparse_scalar(const struct sparse_call *c, int i)
{
    return c->device && !c->fetched ? i ? c->beta : c->alpha : c->value[i];
}

static double _Complex sparse_number(const struct sparse_call *c, int i)
{
    return mt_element_get(c->scalar, sparse_scalar(c, i), 0);
}

/* ---- entries */

int64_t mt_sparse_index(const void *p, int bytes, int64_t i)
{
    return bytes == 8 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

int mt_sparse_next(const struct mt_sparse *a, int op, int64_t *row, struct mt_sparse_entry *e)
{
    if (++e->at >= a->entries)
        return 0;
    const void *offsets = a->read_offsets ? a->read_offsets : a->offsets;
    const void *columns = a->read_columns ? a->read_columns : a->columns;
    int64_t col = columns ? mt_sparse_index(columns, a->column_bytes, e->at) - a->base : 0;
    if (a->coordinates)
        *row = mt_sparse_index(offsets, a->offset_bytes, e->at) - a->base;
    while (!a->coordinates && *row < a->rows &&
           mt_sparse_index(offsets, a->offset_bytes, *row + 1) - a->base <= e->at)
        ++*row;
    if (!a->coordinates && *row < a->rows &&
        (mt_sparse_index(offsets, a->offset_bytes, *row) - a->base > e->at ||
         mt_sparse_index(offsets, a->offset_bytes, *row + 1) - a->base > a->entries))
        return -1;
    if (*row < 0 || *row >= a->rows || col < 0 || col >= a->cols)
        return -1;
    e->row = op ? col : *row;
    e->col = op ? *row : col;
    return 1;
}

/* ---- what it touches */

static int64_t sparse_inner(const struct sparse_call *c)
{
    return c->opa ? c->a.rows : c->a.cols;
}

int mt_sparse_note(const struct mt_sparse *a, struct mt_library_notes *notes, int type, int parts)
{
    size_t offsets = (size_t)(a->coordinates ? a->entries : a->rows + 1), entries = (size_t)a->entries;
    const struct {
        const void *p;
        size_t bytes;
    } part[] = {{a->offsets, offsets * (size_t)a->offset_bytes},
                {a->columns, entries * (size_t)a->column_bytes},
                {a->values, a->letter ? entries * mt_blas_letter_bytes(a->letter) : 0}};
    int bad = 0;
    for (int i = 0; i < 3 && !bad; i++)
        if (parts >> i & 1)
            bad = __mt_library_note(notes, type, part[i].p, part[i].bytes, 1, 0);
    return bad;
}

/* `count` rows of op(b) from `first` on. */
static void sparse_note_rows(const struct sparse_call *c, struct mt_library_notes *notes, int64_t first,
                             int64_t count)
{
    size_t element = mt_blas_letter_bytes(c->b.letter);
    size_t columns = (size_t)(c->opb ? c->b.rows : c->b.cols);
    const char *p = c->b.values;
    int64_t ld = c->b.ld * (int64_t)element;
    if (c->b.row_major == (c->opb != 0)) /* rows of op(b) are next to each other */
        __mt_library_note(notes, MT_LIBRARY_READ, p + first * (int64_t)element, (size_t)count * element,
                          columns, ld);
    else
        __mt_library_note(notes, MT_LIBRARY_READ, p + first * ld, columns * element, (size_t)count, ld);
}

static int sparse_earlier(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Rows of op(b) that a has entries for, ascending; *count of them. NULL: refused. */
static int64_t *sparse_used(const struct sparse_call *c, struct mt_library_notes *notes, size_t *count)
{
    int64_t row = 0, *used = malloc(((size_t)c->a.entries + 1) * sizeof *used);
    struct mt_sparse_entry e = {-1, 0, 0};
    int more = -1;
    *count = 0;
    while (used && (more = mt_sparse_next(&c->a, c->opa, &row, &e)) > 0)
        used[(*count)++] = e.col;
    if (more < 0) {
        __mt_library_refuse(notes, used ? "an index is outside of the sparse matrix" : "out of memory");
        free(used);
        return NULL;
    }
    qsort(used, *count, sizeof *used, sparse_earlier);
    return used;
}

static void sparse_note_b(const struct sparse_call *c, struct mt_library_notes *notes)
{
    size_t n;
    int64_t *used = sparse_used(c, notes, &n);
    for (size_t i = 0, next; used && i < n; i = next) {
        for (next = i + 1; next < n && used[next] <= used[next - 1] + 1;)
            next++;
        sparse_note_rows(c, notes, used[i], used[next - 1] - used[i] + 1);
    }
    free(used);
}

static void sparse_note_c(const struct mt_dense *c, struct mt_library_notes *notes, int type)
{
    size_t element = mt_blas_letter_bytes(c->letter);
    int64_t run = c->row_major ? c->cols : c->rows, count = c->row_major ? c->rows : c->cols;
    __mt_library_note(notes, type, c->values, (size_t)run * element, (size_t)count, c->ld * (int64_t)element);
}

static void sparse_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct sparse_call *c = (struct sparse_call *)call;
    size_t scalar = mt_blas_letter_bytes(c->scalar);
    if (c->device && (__mt_library_note(notes, MT_LIBRARY_READ, c->alpha, scalar, 1, 0) ||
                      __mt_library_note(notes, MT_LIBRARY_READ, c->beta, scalar, 1, 0)))
        return;
    if (sparse_number(c, 0) != 0) {
        if (mt_sparse_note(&c->a, notes, MT_LIBRARY_READ, MT_SPARSE_ALL))
            return;
        sparse_note_b(c, notes);
    }
    if (sparse_number(c, 1) != 0)
        sparse_note_c(&c->c, notes, MT_LIBRARY_READ);
    sparse_note_c(&c->c, notes, MT_LIBRARY_WRITE);
}

/* ---- computing */

static int64_t sparse_place(const struct mt_dense *m, int op, int64_t i, int64_t j)
{
    return (op != 0) == m->row_major ? j * m->ld + i : i * m->ld + j;
}

static double _Complex sparse_conjugate_if(int op, double _Complex v)
{
    return op == 2 ? ~v : v;
}

/* Sums by row and column of c. 0; -1: an index is not one. */
static int sparse_sum(const struct sparse_call *c, double _Complex *sums)
{
    struct mt_sparse_entry e = {-1, 0, 0};
    int64_t row = 0;
    int more = 0;
    while (sparse_number(c, 0) != 0 && (more = mt_sparse_next(&c->a, c->opa, &row, &e)) > 0) {
        double _Complex v = mt_element_get(c->a.letter, c->a.values, e.at);
        v = c->conjugated ? ~v : v;
        for (int64_t j = 0; j < c->c.cols; j++)
            sums[e.row * c->c.cols + j] +=
                v * sparse_conjugate_if(c->opb, mt_element_get(c->b.letter, c->b.values,
                                                               sparse_place(&c->b, c->opb, e.col, j)));
    }
    return more;
}

static int sparse_run(struct mt_library_call *call)
{
    struct sparse_call *c = (struct sparse_call *)call;
    double _Complex alpha = sparse_number(c, 0), beta = sparse_number(c, 1);
    double _Complex *sums = calloc((size_t)(c->c.rows * c->c.cols) + 1, sizeof *sums);
    int rc = sums ? sparse_sum(c, sums) : -1;
    for (int64_t i = 0; !rc && i < c->c.rows; i++)
        for (int64_t j = 0; j < c->c.cols; j++) {
            int64_t at = sparse_place(&c->c, 0, i, j);
            double _Complex v = alpha * sums[i * c->c.cols + j];
            v += beta == 0 ? 0 : beta * mt_element_get(c->c.letter, c->c.values, at);
            mt_element_put(c->c.letter, c->c.values, at, v);
        }
    if (rc)
        mt_lib_say("%s: %s", c->call.name,
                   sums ? "an index is outside of the sparse matrix" : "out of memory");
    free(sums);
    return rc;
}

/* ---- calling */

static int sparse_fits(const struct sparse_call *c)
{
    int64_t rows = c->opa ? c->a.cols : c->a.rows;
    return rows == c->c.rows && sparse_inner(c) == (c->opb ? c->b.cols : c->b.rows) &&
           (c->opb ? c->b.rows : c->b.cols) == c->c.cols;
}

int mt_sparse_multiply(void *handle, const char *name, int opa, int opb, const void *alpha,
                       const struct mt_sparse *a, const struct mt_dense *b, const void *beta,
                       const struct mt_dense *c, int compute)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    struct sparse_call call = {.call = {sizeof call, name, "cusparse", sparse_ranges, sparse_run}};
    if (!h)
        return MT_SPARSE_NOT_INITIALIZED;
    if (!alpha || !a || !b || !beta || !c || opa < 0 || opa > 2 || opb < 0 || opb > 2)
        return MT_SPARSE_INVALID_VALUE;
    call.a = *a, call.b = *b, call.c = *c, call.opb = opb;
    call.opa = (opa != 0) ^ a->by_column;
    call.conjugated = opa == 2;
    call.scalar = mt_blas_letter(compute);
    if (!call.scalar)
        return MT_SPARSE_NOT_SUPPORTED;
    if (!sparse_fits(&call))
        return MT_SPARSE_INVALID_VALUE;
    call.device = h->pointer_mode;
    call.alpha = alpha, call.beta = beta;
    if (!call.device) {
        memcpy(call.value[0], alpha, mt_blas_letter_bytes(call.scalar));
        memcpy(call.value[1], beta, mt_blas_letter_bytes(call.scalar));
    }
    if (!c->rows || !c->cols)
        return MT_SPARSE_OK;
    return __mt_library_submit(h->stream, &call.call) ? MT_SPARSE_EXECUTION_FAILED : MT_SPARSE_OK;
}

/* ---- on a GPU */

static int sparse_run_gpu(struct mt_library_call *call)
{
    const struct sparse_call *c = (const struct sparse_call *)call;
    const int64_t *a = c->arguments;
    typedef int multiply(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t);
    return ((multiply *)c->real)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
}

/* What the handle and the descriptors say. 0, or -1: what it touches is not known. */
static int sparse_know(struct sparse_call *c, const struct mt_sparse_arguments *s, void **stream, int vector)
{
    void *handle = (void *)(intptr_t)s->list[0];
    int (*of_stream)(void *, void **) =
        (int (*)(void *, void **))mt_lib_real("cusparse", "cusparseGetStream");
    int (*of_mode)(void *, int *) = (int (*)(void *, int *))mt_lib_real("cusparse", "cusparseGetPointerMode");
    c->opa = s->opa, c->opb = s->opb, c->alpha = s->alpha, c->beta = s->beta;
    c->scalar = mt_blas_letter(s->compute);
    if (!of_stream || !of_mode || of_stream(handle, stream) || of_mode(handle, &c->device) || !c->scalar ||
        sparse_read(&c->a, s->a) || dense_read(&c->b, s->b, vector) || dense_read(&c->c, s->c, vector) ||
        !sparse_fits(c))
        return -1;
    const void *const scalars[] = {s->alpha, s->beta};
    size_t bytes = mt_blas_letter_bytes(c->scalar);
    for (int i = 0; i < 2; i++)
        if (!c->device)
            memcpy(c->value[i], scalars[i], bytes);
        else if (__mt_library_fetch(*stream, c->value[i], scalars[i], bytes))
            return -1;
    c->fetched = 1;
    return sparse_fetch(&c->a, *stream);
}

int mt_sparse_multiply_gpu(const char *name, const struct mt_sparse_arguments *s)
{
    struct sparse_call c = {.call = {sizeof c, name, "cusparse", sparse_ranges, sparse_run_gpu}};
    void *stream = NULL;
    memcpy(c.arguments, s->list, sizeof c.arguments);
    c.real = mt_lib_real("cusparse", name);
    int known = !sparse_know(&c, s, &stream, strcmp(name, "cusparseSpMV") == 0);
    int status = known ? __mt_library_submit(stream, &c.call) : __mt_library_forward(&c.call);
    if (!known && !status)
        __mt_library_miss(name);
    sparse_release(&c.a);
    return status;
}
