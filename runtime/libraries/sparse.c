/* cuSPARSE: matrices and vectors, products, and conversions. */
#include "call.h"
#include "library.h"
#include "api/launch/library.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MT_SPARSE_OK = 0,
    MT_SPARSE_NOT_INITIALIZED = 1,
    MT_SPARSE_ALLOC_FAILED = 2,
    MT_SPARSE_INVALID_VALUE = 3,
    MT_SPARSE_EXECUTION_FAILED = 6,
    MT_SPARSE_NOT_SUPPORTED = 10,
};

/* A matrix in rows (offsets: rows + 1 of them) or coordinates (offsets: the row of each entry). by_column:
 * transpose of the program's. letter 0: without values. */
struct mt_sparse {
    int64_t rows, cols, entries;
    const void *offsets, *columns, *values;
    int coordinates, by_column, offset_bytes, column_bytes, base;
    char letter;
    int attribute[2]; /* stored for queries */
    const void *read_offsets,
        *read_columns; /* contents of offsets and columns, if those cannot be read directly */
};

/* A dense matrix, column-major or row-major. A vector has one column. */
struct mt_dense {
    int64_t rows, cols, ld;
    void *values;
    char letter;
    int row_major;
};

/* Descriptor of the older functions. */
struct mt_sparse_descriptor {
    int type, base, fill, diag;
};

/* ---- walk through a matrix */
struct mt_sparse_entry {
    int64_t at, row, col; /* index of the entry; its row and column in op(a), from 0 */
};

/* Notes its indices, and its values if any. Returns 0, or -1 if memory is not allocated. */
enum { MT_SPARSE_OFFSETS = 1, MT_SPARSE_COLUMNS = 2, MT_SPARSE_VALUES = 4, MT_SPARSE_ALL = 7 };

/* Arguments for NVIDIA's function on a GPU, the handle first. */
struct mt_sparse_arguments {
    int64_t list[11]; /* in order; cusparseSpMV has no last one */
    int opa, opb, compute;
    const void *alpha, *a, *b, *beta, *c;
};

/* Entries of a computed matrix. */
struct mt_triplet {
    int64_t row, col, order; /* order: position when added */
    double _Complex value;
};

struct mt_triplets {
    struct mt_triplet *at;
    size_t n, room;
    int bad; /* out of memory, or an invalid index */
};

struct mt_sparse_job {
    struct mt_library_call call;
    struct mt_sparse a, b, c;
    struct mt_dense dense;
    char scalar; /* type of alpha and beta */
    int device;
    const void *alpha, *beta;
    unsigned char value[2][16];
    int numeric;              /* with values */
    int *rows, *cols, *order; /* index arrays of sorts */
    int major;                /* sort key: 0 rows, 1 columns */
    void *count;              /* int: number of entries of the result */
    struct mt_sparse *target; /* matrix whose number of entries is set, on the host */
    struct mt_triplets *kept; /* on the host: a product between its two calls */
};

/* Matrices on a GPU: contents of NVIDIA's descriptors, and their indices in device memory. */

/* Returns the size of a cusparseIndexType_t, or 0 if unsupported. */
static int sparse_index_bytes(int type)
{
    return type == 2 ? 4 : type == 3 ? 8 : 0; /* CUSPARSE_INDEX_32I, 64I */
}

enum { CSR = 1, CSC = 2, COO = 3, ROW_MAJOR = 2 };

static void (*sparse_gpu_real(const char *name))(void)
{
    return mt_lib_real("cusparse", name);
}

/* Returns the number of matrices in a batch, or 0 if unknown. */
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
    s.offset_bytes = sparse_index_bytes(types[0]);
    s.column_bytes = sparse_index_bytes(types[1]);
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

/* Fetches a's indices as they are when the stream reaches the call. Returns -1 if that is impossible. */
static int sparse_fetch(struct mt_sparse *a, void *stream)
{
    int64_t offsets = a->coordinates ? a->entries : a->rows + 1;
    a->read_offsets = sparse_gpu_copy(stream, a->offsets, offsets, a->offset_bytes);
    a->read_columns = sparse_gpu_copy(stream, a->columns, a->entries, a->column_bytes);
    return a->read_offsets && a->read_columns ? 0 : -1;
}

static void sparse_release(struct mt_sparse *a)
{
    free((void *)(uintptr_t)a->read_offsets);
    free((void *)(uintptr_t)a->read_columns);
}

struct sparse_call {
    struct mt_library_call call;
    struct mt_sparse a;
    struct mt_dense b, c;
    int opa, opb, device; /* opa: a is used transposed */
    int conjugated;
    char scalar;
    const void *alpha, *beta; /* on the device */
    unsigned char value[2][16];
    int fetched; /* alpha and beta are on the device, with copies in `value` */
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

static int64_t sparse_index(const void *p, int bytes, int64_t i)
{
    return bytes == 8 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

/* Moves to the next entry; e->at begins at -1, *row at 0 (with rows: of the matrix itself). Returns 1, 0 at
 * the end, or -1 for an invalid index. */
static int sparse_next(const struct mt_sparse *a, int op, int64_t *row, struct mt_sparse_entry *e)
{
    if (++e->at >= a->entries)
        return 0;
    const void *offsets = a->read_offsets ? a->read_offsets : a->offsets;
    const void *columns = a->read_columns ? a->read_columns : a->columns;
    int64_t col = columns ? sparse_index(columns, a->column_bytes, e->at) - a->base : 0;
    if (a->coordinates)
        *row = sparse_index(offsets, a->offset_bytes, e->at) - a->base;
    while (!a->coordinates && *row < a->rows &&
           sparse_index(offsets, a->offset_bytes, *row + 1) - a->base <= e->at)
        ++*row;
    if (!a->coordinates && *row < a->rows &&
        (sparse_index(offsets, a->offset_bytes, *row) - a->base > e->at ||
         sparse_index(offsets, a->offset_bytes, *row + 1) - a->base > a->entries))
        return -1;
    if (*row < 0 || *row >= a->rows || col < 0 || col >= a->cols)
        return -1;
    e->row = op ? col : *row;
    e->col = op ? *row : col;
    return 1;
}

/* ---- accesses */

static int64_t sparse_inner(const struct sparse_call *c)
{
    return c->opa ? c->a.rows : c->a.cols;
}

static int sparse_note(const struct mt_sparse *a, struct mt_library_notes *notes, int type, int parts)
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

/* Notes `count` rows of op(b) from `first` on. */
static void sparse_note_rows(const struct sparse_call *c, struct mt_library_notes *notes, int64_t first,
                             int64_t count)
{
    size_t element = mt_blas_letter_bytes(c->b.letter);
    size_t columns = (size_t)(c->opb ? c->b.rows : c->b.cols);
    const char *p = c->b.values;
    int64_t ld = c->b.ld * (int64_t)element;
    if (c->b.row_major == (c->opb != 0)) /* rows of op(b) are adjacent */
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

/* Returns the rows of op(b) for which a has entries, ascending, with *count set, or NULL if the call is
 * refused. */
static int64_t *sparse_used(const struct sparse_call *c, struct mt_library_notes *notes, size_t *count)
{
    int64_t row = 0, *used = malloc(((size_t)c->a.entries + 1) * sizeof *used);
    struct mt_sparse_entry e = {-1, 0, 0};
    int more = -1;
    *count = 0;
    while (used && (more = sparse_next(&c->a, c->opa, &row, &e)) > 0)
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
        if (sparse_note(&c->a, notes, MT_LIBRARY_READ, MT_SPARSE_ALL))
            return;
        sparse_note_b(c, notes);
    }
    if (sparse_number(c, 1) != 0)
        sparse_note_c(&c->c, notes, MT_LIBRARY_READ);
    sparse_note_c(&c->c, notes, MT_LIBRARY_WRITE);
}

/* ---- computation */

static int64_t sparse_place(const struct mt_dense *m, int op, int64_t i, int64_t j)
{
    return (op != 0) == m->row_major ? j * m->ld + i : i * m->ld + j;
}

static double _Complex sparse_conjugate_if(int op, double _Complex v)
{
    return op == 2 ? ~v : v;
}

/* Computes the sums by row and column of c. Returns 0, or -1 for an invalid index. */
static int sparse_sum(const struct sparse_call *c, double _Complex *sums)
{
    struct mt_sparse_entry e = {-1, 0, 0};
    int64_t row = 0;
    int more = 0;
    while (sparse_number(c, 0) != 0 && (more = sparse_next(&c->a, c->opa, &row, &e)) > 0) {
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

/* ---- calls */

static int sparse_fits(const struct sparse_call *c)
{
    int64_t rows = c->opa ? c->a.cols : c->a.rows;
    return rows == c->c.rows && sparse_inner(c) == (c->opb ? c->b.cols : c->b.rows) &&
           (c->opb ? c->b.rows : c->b.cols) == c->c.cols;
}

/* Computes c = alpha op(a) op(b) + beta c as a call of `name`. Returns a status. */
static int sparse_multiply(void *handle, const char *name, int opa, int opb, const void *alpha,
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

/* Reads handle and descriptors. Returns 0, or -1 if the accesses are unknown. */
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

static int sparse_multiply_gpu(const char *name, const struct mt_sparse_arguments *s)
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

/* ---- Calls of cuSPARSE that make matrices from others ---- */

int cudaStreamSynchronize(void *stream);

/* ---- entries */

static void triplets_add(struct mt_triplets *t, int64_t row, int64_t col, double _Complex value)
{
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 256;
        struct mt_triplet *more = realloc(t->at, room * sizeof *more);
        if (!more) {
            t->bad = 1;
            return;
        }
        t->at = more;
        t->room = room;
    }
    t->at[t->n] = (struct mt_triplet){row, col, (int64_t)t->n, value};
    t->n++;
}

/* Adds all entries of a, times `by`. turned: of its transpose. */
static void triplets_of(struct mt_triplets *t, const struct mt_sparse *a, int turned, double _Complex by)
{
    struct mt_sparse_entry e = {-1, 0, 0};
    int64_t row = 0;
    int more;
    while ((more = sparse_next(a, turned, &row, &e)) > 0 && !t->bad)
        triplets_add(t, e.row, e.col, a->letter ? by * mt_element_get(a->letter, a->values, e.at) : 0);
    t->bad |= more < 0;
}

static int triplets_order(const void *a, const void *b)
{
    const struct mt_triplet *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->col != y->col)
        return x->col < y->col ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Sorts by rows, then columns, and merges entries at one place. */
static void triplets_sort(struct mt_triplets *t)
{
    if (t->n)
        qsort(t->at, t->n, sizeof *t->at, triplets_order);
}

static void triplets_merge(struct mt_triplets *t)
{
    size_t n = 0;
    triplets_sort(t);
    for (size_t i = 0; i < t->n; i++)
        if (n && t->at[n - 1].row == t->at[i].row && t->at[n - 1].col == t->at[i].col)
            t->at[n - 1].value += t->at[i].value;
        else
            t->at[n++] = t->at[i];
    t->n = n;
}

static void sparse_put_index(const void *p, int bytes, int64_t i, int64_t value)
{
    if (bytes == 8)
        ((int64_t *)(uintptr_t)p)[i] = value;
    else
        ((int32_t *)(uintptr_t)p)[i] = (int32_t)value;
}

/* Stores the entries in a matrix with room for n of them. Returns 0, or -1 if its room is for another number.
 */
static int triplets_put(const struct mt_triplets *t, const struct mt_sparse *to, int parts)
{
    if (t->n != (size_t)to->entries && parts & (MT_SPARSE_COLUMNS | MT_SPARSE_VALUES))
        return -1;
    size_t next = 0;
    for (int64_t row = 0; parts & MT_SPARSE_OFFSETS && !to->coordinates && row <= to->rows; row++) {
        while (next < t->n && t->at[next].row < row)
            next++;
        sparse_put_index(to->offsets, to->offset_bytes, row, (int64_t)next + to->base);
    }
    for (size_t i = 0; i < t->n; i++) {
        if (parts & MT_SPARSE_OFFSETS && to->coordinates)
            sparse_put_index(to->offsets, to->offset_bytes, (int64_t)i, t->at[i].row + to->base);
        if (parts & MT_SPARSE_COLUMNS)
            sparse_put_index(to->columns, to->column_bytes, (int64_t)i, t->at[i].col + to->base);
        if (parts & MT_SPARSE_VALUES && to->letter)
            mt_element_put(to->letter, (void *)(uintptr_t)to->values, (int64_t)i, t->at[i].value);
    }
    return 0;
}

/* Refuses the call if an index is invalid. */
static void sparse_look(const struct mt_sparse *a, struct mt_library_notes *notes)
{
    struct mt_sparse_entry e = {-1, 0, 0};
    int64_t row = 0;
    int more = 0;
    while ((more = sparse_next(a, 0, &row, &e)) > 0)
        ;
    if (more < 0)
        __mt_library_refuse(notes, "an index is outside of the sparse matrix");
}

/* ---- calls */

/* Initialises a job of a handle. Returns 0 or NOT_INITIALIZED. */
static int sparse_job(struct mt_sparse_job *j, void *handle, const char *name,
                      void (*ranges)(struct mt_library_call *, struct mt_library_notes *),
                      int (*run)(struct mt_library_call *))
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h)
        return MT_SPARSE_NOT_INITIALIZED;
    *j =
        (struct mt_sparse_job){.call = {sizeof *j, name, "cusparse", ranges, run}, .device = h->pointer_mode};
    return MT_SPARSE_OK;
}

static void sparse_scalars(struct mt_sparse_job *j, char type, const void *alpha, const void *beta)
{
    const void *const p[] = {alpha, beta};
    j->scalar = type;
    j->alpha = alpha, j->beta = beta;
    for (int i = 0; i < 2 && !j->device; i++)
        if (p[i])
            memcpy(j->value[i], p[i], mt_blas_letter_bytes(type));
}

static double _Complex mt_sparse_scalar(const struct mt_sparse_job *j, int i)
{
    return mt_element_get(j->scalar, !j->device ? j->value[i] : i ? j->beta : j->alpha, 0);
}

/* Notes the scalars if they are on the device. */
static int sparse_note_scalars(const struct mt_sparse_job *j, struct mt_library_notes *notes)
{
    size_t bytes = mt_blas_letter_bytes(j->scalar);
    return j->device && (__mt_library_note(notes, MT_LIBRARY_READ, j->alpha, bytes, 1, 0) ||
                         __mt_library_note(notes, MT_LIBRARY_READ, j->beta, bytes, 1, 0));
}

/* wait: it has run on return. */
static int sparse_submit(struct mt_sparse_job *j, void *handle, int wait)
{
    void *stream = mt_blas_handle(handle)->stream;
    int e = __mt_library_submit(stream, &j->call);
    if (!e && wait)
        e = cudaStreamSynchronize(stream);
    return e ? MT_SPARSE_EXECUTION_FAILED : MT_SPARSE_OK;
}

/* Returns the matrix of an older function, with 32-bit indices. */
static struct mt_sparse sparse_older(int m, int n, int entries, int base, char letter, const void *values,
                                     const void *offsets, const void *columns)
{
    return (struct mt_sparse){.rows = m,
                              .cols = n,
                              .entries = entries,
                              .offsets = offsets,
                              .columns = columns,
                              .values = values,
                              .offset_bytes = 4,
                              .column_bytes = 4,
                              .base = base,
                              .letter = letter};
}

/* ---- Handles, which are those of cuBLAS, and descriptors of cuSPARSE ---- */

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

static int sparse_handle_keep(void **out, const struct mt_sparse *s, int row_type, int column_type)
{
    if (!out || s->rows < 0 || s->cols < 0 || s->entries < 0 ||
        (s->entries && (!s->offsets || !s->columns || !s->values)))
        return MT_SPARSE_INVALID_VALUE;
    if (!sparse_index_bytes(row_type) || !sparse_index_bytes(column_type) || !s->letter) {
        mt_lib_say("cusparse: this type of indices or elements is not there on the CPU device");
        return MT_SPARSE_NOT_SUPPORTED;
    }
    struct mt_sparse *m = malloc(sizeof *m);
    if (!m)
        return MT_SPARSE_ALLOC_FAILED;
    *m = *s;
    m->offset_bytes = sparse_index_bytes(row_type);
    m->column_bytes = sparse_index_bytes(column_type);
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
        return sparse_multiply_gpu(
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
    return sparse_multiply(handle, "cusparseSpMV", op, 0, alpha, a, x, beta, y, compute);
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
        return sparse_multiply_gpu(
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
    return sparse_multiply(handle, "cusparseSpMM", opa, opb, alpha, a, b, beta, c, compute);
}

/* ---- Queries of cuSPARSE's descriptors, and those of the older functions ---- */

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

/* CUSPARSE_SPMAT_FILL_MODE and DIAG_TYPE: stored. */
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
    int bytes = sparse_index_bytes(index_type);
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

/* ---- descriptors of the older functions: only their base matters here */

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

#undef FIELD
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

/* Older functions of cuSPARSE: conversion of indices and their order, transposition, and sums. Indices have
 * 32 bits. */

static int sparse_say(const struct mt_sparse_job *j, int bad)
{
    if (bad)
        mt_lib_say("%s: no memory, or another number of entries than before", j->call.name);
    return bad ? -1 : 0;
}

static int sparse_buffer_size(void *handle, size_t *bytes)
{
    if (!mt_blas_handle(handle) || !bytes)
        return bytes ? MT_SPARSE_NOT_INITIALIZED : MT_SPARSE_INVALID_VALUE;
    *bytes = 16; /* not used, but a program may take 0 for "nothing to do", and without a buffer some calls
                  * only query its size */
    return MT_SPARSE_OK;
}

/* ---- rows and offsets: a has one form, c the other */

static void sparse_index_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    if (sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_OFFSETS))
        return;
    sparse_look(&j->a, notes);
    sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_OFFSETS);
}

static int sparse_index_run(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    triplets_of(&t, &j->a, 0, 0);
    triplets_sort(&t);
    int bad = t.bad || triplets_put(&t, &j->c, MT_SPARSE_OFFSETS);
    free(t.at);
    return sparse_say(j, bad);
}

static int sparse_index_form(void *handle, const char *name, const int *from, int n, int m, int *to, int base,
                             int coordinates)
{
    struct mt_sparse_job j;
    int status = sparse_job(&j, handle, name, sparse_index_ranges, sparse_index_run);
    if (status || n < 0 || m < 0 || (n && (!from || !to)))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = sparse_older(m, 1, n, base, 0, NULL, from, NULL);
    j.c = sparse_older(m, 1, n, base, 0, NULL, to, NULL);
    j.a.coordinates = coordinates;
    j.c.coordinates = !coordinates;
    return sparse_submit(&j, handle, 0);
}

int impl_cusparseXcoo2csr(void *handle, const int *rows, int n, int m, int *offsets, int base)
{
    return sparse_index_form(handle, "cusparseXcoo2csr", rows, n, m, offsets, base, 1);
}

int impl_cusparseXcsr2coo(void *handle, const int *offsets, int n, int m, int *rows, int base)
{
    return sparse_index_form(handle, "cusparseXcsr2coo", offsets, n, m, rows, base, 0);
}

/* ---- orders */

static void sparse_index_order_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    size_t bytes = (size_t)j->a.entries * sizeof(int);
    int *const list[] = {j->rows, j->cols, j->order};
    if (j->a.offsets && sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_OFFSETS))
        return;
    for (int type = MT_LIBRARY_READ; type <= MT_LIBRARY_WRITE; type++)
        for (int i = 0; i < 3; i++)
            if (list[i] && (type == MT_LIBRARY_WRITE || j->numeric))
                __mt_library_note(notes, type, list[i], bytes, 1, 0);
}

/* Sorts by `major` and `minor`, row and column, so that one function does both orders. */
static int sparse_index_sort(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    int64_t n = j->a.entries, row = 0;
    struct mt_triplets t = {0};
    const int *major = j->major ? j->cols : j->rows, *minor = j->major ? j->rows : j->cols;
    for (int64_t i = 0; i < n && !t.bad; i++) {
        while (j->a.offsets && row < j->a.rows && sparse_index(j->a.offsets, 4, row + 1) - j->a.base <= i)
            row++;
        triplets_add(&t, j->a.offsets ? row : major[i], minor[i], j->order ? j->order[i] : 0);
    }
    triplets_sort(&t);
    for (int64_t i = 0; i < n && !t.bad; i++) {
        if (j->rows)
            j->rows[i] = (int)(j->major ? t.at[i].col : t.at[i].row);
        j->cols[i] = (int)(j->major ? t.at[i].row : t.at[i].col);
        if (j->order)
            j->order[i] = (int)__real__ t.at[i].value;
    }
    free(t.at);
    return sparse_say(j, t.bad);
}

/* offsets NULL: sorts coordinates by `major`. */
static int sparse_index_order(void *handle, const char *name, int lines, int n,
                              const struct mt_sparse_descriptor *d, const int *offsets, int *rows, int *cols,
                              int *order, int major)
{
    struct mt_sparse_job j;
    int status = sparse_job(&j, handle, name, sparse_index_order_ranges, sparse_index_sort);
    if (status || n < 0 || lines < 0 || (n && !cols))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = sparse_older(lines, 0, n, d ? d->base : 0, 0, NULL, offsets, NULL);
    j.rows = rows, j.cols = cols, j.order = order, j.major = major;
    j.numeric = 1; /* they are read, too */
    return n ? sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}

int impl_cusparseXcsrsort(void *handle, int m, int n, int entries, const struct mt_sparse_descriptor *d,
                          const int *offsets, int *columns, int *order, void *buffer)
{
    return sparse_index_order(handle, "cusparseXcsrsort", m, entries, d, offsets, NULL, columns, order, 0);
}

int impl_cusparseXcscsort(void *handle, int m, int n, int entries, const struct mt_sparse_descriptor *d,
                          const int *offsets, int *rows, int *order, void *buffer)
{
    return sparse_index_order(handle, "cusparseXcscsort", n, entries, d, offsets, NULL, rows, order, 0);
}

int impl_cusparseXcoosortByRow(void *handle, int m, int n, int entries, int *rows, int *cols, int *order,
                               void *buffer)
{
    return sparse_index_order(handle, "cusparseXcoosortByRow", m, entries, NULL, NULL, rows, cols, order, 0);
}

int impl_cusparseXcoosortByColumn(void *handle, int m, int n, int entries, int *rows, int *cols, int *order,
                                  void *buffer)
{
    return sparse_index_order(handle, "cusparseXcoosortByColumn", m, entries, NULL, NULL, rows, cols, order,
                              1);
}

#define SORT_BUFFER(name)                                                                                    \
    int impl_cusparse##name##_bufferSizeExt(void *handle, int m, int n, int entries, const int *a,           \
                                            const int *b, size_t *bytes)                                     \
    {                                                                                                        \
        return sparse_buffer_size(handle, bytes);                                                            \
    }
SORT_BUFFER(Xcsrsort)
SORT_BUFFER(Xcscsort)
SORT_BUFFER(Xcoosort)

static int sparse_index_count_up(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    for (int i = 0; i < j->a.entries; i++)
        j->order[i] = i;
    return 0;
}

int impl_cusparseCreateIdentityPermutation(void *handle, int n, int *order)
{
    struct mt_sparse_job j;
    int status = sparse_job(&j, handle, "cusparseCreateIdentityPermutation", sparse_index_order_ranges,
                            sparse_index_count_up);
    if (status || n < 0 || (n && !order))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a.entries = n;
    j.order = order;
    return n ? sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}

/* ---- the transpose */

static int sparse_index_parts(const struct mt_sparse_job *j)
{
    return j->numeric ? MT_SPARSE_ALL : MT_SPARSE_OFFSETS | MT_SPARSE_COLUMNS;
}

static void sparse_index_turn_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    if (sparse_note(&j->a, notes, MT_LIBRARY_READ, sparse_index_parts(j)))
        return;
    sparse_look(&j->a, notes);
    sparse_note(&j->c, notes, MT_LIBRARY_WRITE, sparse_index_parts(j));
}

static int sparse_index_turn(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    triplets_of(&t, &j->a, 1, 1);
    triplets_sort(&t);
    int bad = t.bad || triplets_put(&t, &j->c, sparse_index_parts(j));
    free(t.at);
    return sparse_say(j, bad);
}

int impl_cusparseCsr2cscEx2(void *handle, int m, int n, int entries, const void *values, const int *offsets,
                            const int *columns, void *to_values, int *to_offsets, int *to_rows, int type,
                            int copy, int base, int algorithm, void *buffer)
{
    struct mt_sparse_job j;
    char letter = mt_blas_letter(type);
    int status = sparse_job(&j, handle, "cusparseCsr2cscEx2", sparse_index_turn_ranges, sparse_index_turn);
    if (status || m < 0 || n < 0 || entries < 0)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    if (!letter)
        return MT_SPARSE_NOT_SUPPORTED;
    j.numeric = copy == 1; /* CUSPARSE_ACTION_NUMERIC */
    letter = j.numeric ? letter : 0;
    j.a = sparse_older(m, n, entries, base, letter, values, offsets, columns);
    j.c = sparse_older(n, m, entries, base, letter, to_values, to_offsets, to_rows);
    return sparse_submit(&j, handle, 0);
}

int impl_cusparseCsr2cscEx2_bufferSize(void *handle, int m, int n, int entries, const void *values,
                                       const int *offsets, const int *columns, void *to_values,
                                       int *to_offsets, int *to_rows, int type, int copy, int base,
                                       int algorithm, size_t *bytes)
{
    return sparse_buffer_size(handle, bytes);
}

/* ---- sums: first the number of entries, then the entries */

static void sparse_index_geam_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    if ((j->numeric && sparse_note_scalars(j, notes)) ||
        sparse_note(&j->a, notes, MT_LIBRARY_READ, sparse_index_parts(j)) ||
        sparse_note(&j->b, notes, MT_LIBRARY_READ, sparse_index_parts(j)))
        return;
    sparse_look(&j->a, notes);
    sparse_look(&j->b, notes);
    if (!j->numeric) {
        sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_OFFSETS);
        if (j->device)
            __mt_library_note(notes, MT_LIBRARY_WRITE, j->count, sizeof(int), 1, 0);
        return;
    }
    if (sparse_note(&j->c, notes, MT_LIBRARY_READ, MT_SPARSE_OFFSETS))
        return;
    j->c.entries = sparse_index(j->c.offsets, 4, j->c.rows) - j->c.base;
    if (j->c.entries < 0)
        __mt_library_refuse(notes, "an offset is outside of the sparse matrix");
    else
        sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_COLUMNS | MT_SPARSE_VALUES);
}

static int sparse_index_geam(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    triplets_of(&t, &j->a, 0, j->numeric ? mt_sparse_scalar(j, 0) : 0);
    triplets_of(&t, &j->b, 0, j->numeric ? mt_sparse_scalar(j, 1) : 0);
    triplets_merge(&t);
    int bad = t.bad ||
              triplets_put(&t, &j->c, j->numeric ? MT_SPARSE_COLUMNS | MT_SPARSE_VALUES : MT_SPARSE_OFFSETS);
    if (!bad && !j->numeric)
        *(int *)j->count = (int)t.n;
    free(t.at);
    return sparse_say(j, bad);
}

int impl_cusparseXcsrgeam2Nnz(void *handle, int m, int n, const struct mt_sparse_descriptor *da, int na,
                              const int *oa, const int *ca, const struct mt_sparse_descriptor *db, int nb,
                              const int *ob, const int *cb, const struct mt_sparse_descriptor *dc, int *oc,
                              int *count, void *buffer)
{
    struct mt_sparse_job j;
    int status = sparse_job(&j, handle, "cusparseXcsrgeam2Nnz", sparse_index_geam_ranges, sparse_index_geam);
    if (status || m < 0 || n < 0 || na < 0 || nb < 0 || !da || !db || !dc || !count)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = sparse_older(m, n, na, da->base, 0, NULL, oa, ca);
    j.b = sparse_older(m, n, nb, db->base, 0, NULL, ob, cb);
    j.c = sparse_older(m, n, 0, dc->base, 0, NULL, oc, NULL);
    j.count = count;
    return sparse_submit(&j, handle, !j.device);
}

struct geam {
    const void *alpha, *values_a, *beta, *values_b;
    void *values_c;
    const struct mt_sparse_descriptor *da, *db, *dc;
    const int *oa, *ca, *ob, *cb, *oc;
    int *cc, m, n, na, nb;
};

static int sparse_index_geam_call(void *handle, const char *name, char letter, const struct geam *g)
{
    struct mt_sparse_job j;
    int status = sparse_job(&j, handle, name, sparse_index_geam_ranges, sparse_index_geam);
    if (status || g->m < 0 || g->n < 0 || g->na < 0 || g->nb < 0 || !g->da || !g->db || !g->dc || !g->alpha ||
        !g->beta)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.numeric = 1;
    sparse_scalars(&j, letter, g->alpha, g->beta);
    j.a = sparse_older(g->m, g->n, g->na, g->da->base, letter, g->values_a, g->oa, g->ca);
    j.b = sparse_older(g->m, g->n, g->nb, g->db->base, letter, g->values_b, g->ob, g->cb);
    j.c = sparse_older(g->m, g->n, 0, g->dc->base, letter, g->values_c, g->oc, g->cc);
    return sparse_submit(&j, handle, 0);
}

#define GEAM(t, letter)                                                                                      \
    int impl_cusparse##t##csrgeam2(                                                                          \
        void *handle, int m, int n, const void *alpha, const struct mt_sparse_descriptor *da, int na,        \
        const void *va, const int *oa, const int *ca, const void *beta,                                      \
        const struct mt_sparse_descriptor *db, int nb, const void *vb, const int *ob, const int *cb,         \
        const struct mt_sparse_descriptor *dc, void *vc, const int *oc, int *cc, void *buffer)               \
    {                                                                                                        \
        const struct geam g = {alpha, va, beta, vb, vc, da, db, dc, oa, ca, ob, cb, oc, cc, m, n, na, nb};   \
        return sparse_index_geam_call(handle, "cusparse" #t "csrgeam2", letter, &g);                         \
    }                                                                                                        \
    int impl_cusparse##t##csrgeam2_bufferSizeExt(                                                            \
        void *handle, int m, int n, const void *alpha, const void *da, int na, const void *va,               \
        const int *oa, const int *ca, const void *beta, const void *db, int nb, const void *vb,              \
        const int *ob, const int *cb, const void *dc, const void *vc, const int *oc, const int *cc,          \
        size_t *bytes)                                                                                       \
    {                                                                                                        \
        return sparse_buffer_size(handle, bytes);                                                            \
    }
GEAM(S, 'S')
GEAM(D, 'D')
GEAM(C, 'C')
GEAM(Z, 'Z')

/* Conversions to and from dense matrices, products of two sparse ones, and sparse vectors. */

/* Returns the index in the dense matrix of a row and column of the sparse one. */
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
    if (sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_ALL))
        return;
    sparse_look(&j->a, notes);
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
    while (sparse_next(&j->a, 0, &row, &e) > 0)
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
    int status =
        sparse_job(&j, handle, "cusparseSparseToDense", sparse_generic_spread_ranges, sparse_generic_spread);
    if (status || !sparse_generic_fits(a, d))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *a, j.dense = *d;
    return d->rows && d->cols ? sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}

int impl_cusparseSparseToDense_bufferSize(void *handle, const void *a, const void *d, int algorithm,
                                          size_t *bytes)
{
    return sparse_buffer_size(handle, bytes);
}

/* ---- from a dense matrix: first the number of entries, then the entries */

static void sparse_generic_gather_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    sparse_generic_note_dense(&j->dense, notes, MT_LIBRARY_READ);
    if (j->numeric)
        sparse_note(&j->a, notes, MT_LIBRARY_WRITE, MT_SPARSE_ALL);
    else if (!j->a.coordinates)
        sparse_note(&j->a, notes, MT_LIBRARY_WRITE, MT_SPARSE_OFFSETS);
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
                triplets_add(&t, r, c, v);
        }
    if (j->target && !t.bad)
        j->target->entries = (int64_t)t.n;
    int parts = j->numeric ? MT_SPARSE_ALL : j->a.coordinates ? 0 : MT_SPARSE_OFFSETS;
    int bad = t.bad || triplets_put(&t, &j->a, parts);
    free(t.at);
    return sparse_say(j, bad);
}

static int sparse_generic_dense(void *handle, const char *name, const struct mt_dense *d, struct mt_sparse *a,
                                int numeric)
{
    struct mt_sparse_job j;
    int status = sparse_job(&j, handle, name, sparse_generic_gather_ranges, sparse_generic_collect);
    if (status || !sparse_generic_fits(a, d))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *a, j.dense = *d, j.numeric = numeric;
    j.target = numeric ? NULL : a;
    return sparse_submit(&j, handle, !numeric);
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
    return sparse_buffer_size(handle, bytes);
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
        sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_ALL);
        return;
    }
    if (sparse_note_scalars(j, notes) || sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_ALL) ||
        sparse_note(&j->b, notes, MT_LIBRARY_READ, MT_SPARSE_ALL))
        return;
    sparse_look(&j->a, notes);
    sparse_look(&j->b, notes);
    if (mt_sparse_scalar(j, 1) != 0)
        sparse_note(&j->c, notes, MT_LIBRARY_READ, MT_SPARSE_ALL);
}

/* c's pattern is that of a b, plus its own if beta is not 0. */
static int sparse_generic_gemm(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    struct mt_sparse_entry e = {-1, 0, 0};
    double _Complex alpha = mt_sparse_scalar(j, 0), beta = mt_sparse_scalar(j, 1);
    int64_t row = 0;
    while (sparse_next(&j->a, 0, &row, &e) > 0 && !t.bad) {
        double _Complex v = alpha * mt_element_get(j->a.letter, j->a.values, e.at);
        int64_t from = sparse_index(j->b.offsets, j->b.offset_bytes, e.col) - j->b.base,
                to = sparse_index(j->b.offsets, j->b.offset_bytes, e.col + 1) - j->b.base;
        for (int64_t i = from; i < to && !t.bad; i++)
            triplets_add(&t, e.row, sparse_index(j->b.columns, j->b.column_bytes, i) - j->b.base,
                         v * mt_element_get(j->b.letter, j->b.values, i));
    }
    if (beta != 0)
        triplets_of(&t, &j->c, 0, beta);
    triplets_merge(&t);
    free(j->kept->at);
    *j->kept = t;
    if (!t.bad)
        j->target->entries = (int64_t)t.n;
    return sparse_say(j, t.bad);
}

static int sparse_generic_gemm_copy(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    return sparse_say(j, triplets_put(j->kept, &j->c, MT_SPARSE_ALL));
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
    int status = sparse_job(&j, handle, name, sparse_generic_gemm_ranges,
                            p->numeric ? sparse_generic_gemm_copy : sparse_generic_gemm);
    if (status || !p->alpha || !p->beta || !p->a || !p->b || !p->c || !p->kept || p->a->cols != p->b->rows ||
        p->a->rows != p->c->rows || p->b->cols != p->c->cols)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    if (p->opa || p->opb || !mt_blas_letter(p->compute) || p->a->coordinates || p->b->coordinates ||
        p->c->coordinates || p->a->by_column || p->b->by_column || p->c->by_column)
        return MT_SPARSE_NOT_SUPPORTED;
    sparse_scalars(&j, mt_blas_letter(p->compute), p->alpha, p->beta);
    j.a = *p->a, j.b = *p->b, j.c = *p->c;
    j.kept = p->kept, j.target = p->c, j.numeric = p->numeric;
    return sparse_submit(&j, handle, 1);
}

int impl_cusparseSpGEMM_workEstimation(void *handle, int opa, int opb, const void *alpha, const void *a,
                                       const void *b, const void *beta, void *c, int compute, int algorithm,
                                       void *kept, size_t *bytes, void *buffer)
{
    return sparse_buffer_size(handle, bytes);
}

int impl_cusparseSpGEMM_compute(void *handle, int opa, int opb, const void *alpha, const void *a,
                                const void *b, const void *beta, void *c, int compute, int algorithm,
                                void *kept, size_t *bytes, void *buffer)
{
    const struct product p = {alpha, beta, a, b, c, kept, opa, opb, compute, 0};
    int status = sparse_buffer_size(handle, bytes);
    return status || !buffer ? status : sparse_generic_product(handle, "cusparseSpGEMM_compute", &p);
}

int impl_cusparseSpGEMM_copy(void *handle, int opa, int opb, const void *alpha, const void *a, const void *b,
                             const void *beta, void *c, int compute, int algorithm, void *kept)
{
    const struct product p = {alpha, beta, a, b, c, kept, opa, opb, compute, 1};
    return sparse_generic_product(handle, "cusparseSpGEMM_copy", &p);
}

/* ---- sparse vectors: j->a the indices, j->dense the other vector */

static void sparse_generic_pick_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    size_t element = mt_blas_letter_bytes(j->dense.letter);
    int from_dense = j->major;
    if (sparse_note(&j->a, notes, MT_LIBRARY_READ,
                    from_dense ? MT_SPARSE_COLUMNS : MT_SPARSE_COLUMNS | MT_SPARSE_VALUES))
        return;
    for (int64_t i = 0; i < j->a.entries; i++) {
        int64_t at = sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
        if (at < 0 || at >= j->dense.rows) {
            __mt_library_refuse(notes, "an index is outside of the vector");
            return;
        }
        __mt_library_note(notes, from_dense ? MT_LIBRARY_READ : MT_LIBRARY_WRITE,
                          (char *)j->dense.values + at * (int64_t)element, element, 1, 0);
    }
    if (from_dense)
        sparse_note(&j->a, notes, MT_LIBRARY_WRITE, MT_SPARSE_VALUES);
}

static int sparse_generic_pick(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    void *values = (void *)(uintptr_t)j->a.values;
    for (int64_t i = 0; i < j->a.entries; i++) {
        int64_t at = sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
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
    int status = sparse_job(&j, handle, name, sparse_generic_pick_ranges, sparse_generic_pick);
    if (status || !v || !d || v->letter != d->letter || v->cols != d->rows)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *v, j.dense = *d, j.major = from_dense;
    return v->entries ? sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
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

/* With beta 1 only elements with entries in x are accessed; with beta 0, y is not read. */
static void sparse_generic_axpby_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    size_t element = mt_blas_letter_bytes(j->dense.letter), all = element * (size_t)j->dense.rows;
    if (sparse_note_scalars(j, notes) ||
        sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_COLUMNS | MT_SPARSE_VALUES))
        return;
    double _Complex beta = mt_sparse_scalar(j, 1);
    if (beta != 1 && beta != 0)
        __mt_library_note(notes, MT_LIBRARY_READ, j->dense.values, all, 1, 0);
    if (beta != 1)
        __mt_library_note(notes, MT_LIBRARY_WRITE, j->dense.values, all, 1, 0);
    for (int64_t i = 0; i < j->a.entries; i++) {
        int64_t at = sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
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
        int64_t at = sparse_index(j->a.columns, j->a.column_bytes, i) - j->a.base;
        mt_element_put(letter, y, at,
                       mt_element_get(letter, y, at) + alpha * mt_element_get(j->a.letter, j->a.values, i));
    }
    return 0;
}

int impl_cusparseAxpby(void *handle, const void *alpha, const struct mt_sparse *x, const void *beta,
                       const struct mt_dense *y)
{
    struct mt_sparse_job j;
    int status = sparse_job(&j, handle, "cusparseAxpby", sparse_generic_axpby_ranges, sparse_generic_axpby);
    if (status || !x || !y || !alpha || !beta || x->letter != y->letter || x->cols != y->rows)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = *x, j.dense = *y;
    sparse_scalars(&j, y->letter, alpha, beta);
    return y->rows ? sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}
