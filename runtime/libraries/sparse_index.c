/* The older functions of cuSPARSE: indices into other forms and orders, the transpose, and sums. Indices have
 * 32 bits. */
#include "call.h"
#include "library.h"
#include "sparse_job.h"
#include <stdlib.h>

static int sparse_index_say(const struct mt_sparse_job *j, int bad)
{
    if (bad)
        mt_lib_say("%s: no memory, or another number of entries than before", j->call.name);
    return bad ? -1 : 0;
}

static int sparse_index_buffer(void *handle, size_t *bytes)
{
    if (!mt_blas_handle(handle) || !bytes)
        return bytes ? MT_SPARSE_NOT_INITIALIZED : MT_SPARSE_INVALID_VALUE;
    *bytes = 16; /* nobody uses it, but a program may take 0 for "nothing to be done" */
    return MT_SPARSE_OK;
}

/* ---- rows and offsets: a has the one form, c the other */

static void sparse_index_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    if (mt_sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_OFFSETS))
        return;
    mt_sparse_look(&j->a, notes);
    mt_sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_OFFSETS);
}

static int sparse_index_run(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    mt_triplets_of(&t, &j->a, 0, 0);
    mt_triplets_sort(&t);
    int bad = t.bad || mt_triplets_put(&t, &j->c, MT_SPARSE_OFFSETS);
    free(t.at);
    return sparse_index_say(j, bad);
}

static int sparse_index_form(void *handle, const char *name, const int *from, int n, int m, int *to, int base,
                             int coordinates)
{
    struct mt_sparse_job j;
    int status = mt_sparse_job(&j, handle, name, sparse_index_ranges, sparse_index_run);
    if (status || n < 0 || m < 0 || (n && (!from || !to)))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = mt_sparse_older(m, 1, n, base, 0, NULL, from, NULL);
    j.c = mt_sparse_older(m, 1, n, base, 0, NULL, to, NULL);
    j.a.coordinates = coordinates;
    j.c.coordinates = !coordinates;
    return mt_sparse_submit(&j, handle, 0);
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
    if (j->a.offsets && mt_sparse_note(&j->a, notes, MT_LIBRARY_READ, MT_SPARSE_OFFSETS))
        return;
    for (int type = MT_LIBRARY_READ; type <= MT_LIBRARY_WRITE; type++)
        for (int i = 0; i < 3; i++)
            if (list[i] && (type == MT_LIBRARY_WRITE || j->numeric))
                __mt_library_note(notes, type, list[i], bytes, 1, 0);
}

/* `major` and `minor` become row and column, so that both orders are one. */
static int sparse_index_sort(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    int64_t n = j->a.entries, row = 0;
    struct mt_triplets t = {0};
    const int *major = j->major ? j->cols : j->rows, *minor = j->major ? j->rows : j->cols;
    for (int64_t i = 0; i < n && !t.bad; i++) {
        while (j->a.offsets && row < j->a.rows && mt_sparse_index(j->a.offsets, 4, row + 1) - j->a.base <= i)
            row++;
        mt_triplets_add(&t, j->a.offsets ? row : major[i], minor[i], j->order ? j->order[i] : 0);
    }
    mt_triplets_sort(&t);
    for (int64_t i = 0; i < n && !t.bad; i++) {
        if (j->rows)
            j->rows[i] = (int)(j->major ? t.at[i].col : t.at[i].row);
        j->cols[i] = (int)(j->major ? t.at[i].row : t.at[i].col);
        if (j->order)
            j->order[i] = (int)__real__ t.at[i].value;
    }
    free(t.at);
    return sparse_index_say(j, t.bad);
}

/* offsets NULL: of coordinates, by `major`. */
static int sparse_index_order(void *handle, const char *name, int lines, int n,
                              const struct mt_sparse_descriptor *d, const int *offsets, int *rows, int *cols,
                              int *order, int major)
{
    struct mt_sparse_job j;
    int status = mt_sparse_job(&j, handle, name, sparse_index_order_ranges, sparse_index_sort);
    if (status || n < 0 || lines < 0 || (n && !cols))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = mt_sparse_older(lines, 0, n, d ? d->base : 0, 0, NULL, offsets, NULL);
    j.rows = rows, j.cols = cols, j.order = order, j.major = major;
    j.numeric = 1; /* they are read, too */
    return n ? mt_sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
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
        return sparse_index_buffer(handle, bytes);                                                           \
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
    int status = mt_sparse_job(&j, handle, "cusparseCreateIdentityPermutation", sparse_index_order_ranges,
                               sparse_index_count_up);
    if (status || n < 0 || (n && !order))
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a.entries = n;
    j.order = order;
    return n ? mt_sparse_submit(&j, handle, 0) : MT_SPARSE_OK;
}

/* ---- the transpose */

static int sparse_index_parts(const struct mt_sparse_job *j)
{
    return j->numeric ? MT_SPARSE_ALL : MT_SPARSE_OFFSETS | MT_SPARSE_COLUMNS;
}

static void sparse_index_turn_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct mt_sparse_job *j = (const struct mt_sparse_job *)call;
    if (mt_sparse_note(&j->a, notes, MT_LIBRARY_READ, sparse_index_parts(j)))
        return;
    mt_sparse_look(&j->a, notes);
    mt_sparse_note(&j->c, notes, MT_LIBRARY_WRITE, sparse_index_parts(j));
}

static int sparse_index_turn(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    mt_triplets_of(&t, &j->a, 1, 1);
    mt_triplets_sort(&t);
    int bad = t.bad || mt_triplets_put(&t, &j->c, sparse_index_parts(j));
    free(t.at);
    return sparse_index_say(j, bad);
}

int impl_cusparseCsr2cscEx2(void *handle, int m, int n, int entries, const void *values, const int *offsets,
                            const int *columns, void *to_values, int *to_offsets, int *to_rows, int type,
                            int copy, int base, int algorithm, void *buffer)
{
    struct mt_sparse_job j;
    char letter = mt_blas_letter(type);
    int status = mt_sparse_job(&j, handle, "cusparseCsr2cscEx2", sparse_index_turn_ranges, sparse_index_turn);
    if (status || m < 0 || n < 0 || entries < 0)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    if (!letter)
        return MT_SPARSE_NOT_SUPPORTED;
    j.numeric = copy == 1; /* CUSPARSE_ACTION_NUMERIC */
    letter = j.numeric ? letter : 0;
    j.a = mt_sparse_older(m, n, entries, base, letter, values, offsets, columns);
    j.c = mt_sparse_older(n, m, entries, base, letter, to_values, to_offsets, to_rows);
    return mt_sparse_submit(&j, handle, 0);
}

int impl_cusparseCsr2cscEx2_bufferSize(void *handle, int m, int n, int entries, const void *values,
                                       const int *offsets, const int *columns, void *to_values,
                                       int *to_offsets, int *to_rows, int type, int copy, int base,
                                       int algorithm, size_t *bytes)
{
    return sparse_index_buffer(handle, bytes);
}

/* ---- sums: first how many entries they have, then the entries */

static void sparse_index_geam_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    if ((j->numeric && mt_sparse_note_scalars(j, notes)) ||
        mt_sparse_note(&j->a, notes, MT_LIBRARY_READ, sparse_index_parts(j)) ||
        mt_sparse_note(&j->b, notes, MT_LIBRARY_READ, sparse_index_parts(j)))
        return;
    mt_sparse_look(&j->a, notes);
    mt_sparse_look(&j->b, notes);
    if (!j->numeric) {
        mt_sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_OFFSETS);
        if (j->device)
            __mt_library_note(notes, MT_LIBRARY_WRITE, j->count, sizeof(int), 1, 0);
        return;
    }
    if (mt_sparse_note(&j->c, notes, MT_LIBRARY_READ, MT_SPARSE_OFFSETS))
        return;
    j->c.entries = mt_sparse_index(j->c.offsets, 4, j->c.rows) - j->c.base;
    if (j->c.entries < 0)
        __mt_library_refuse(notes, "an offset is outside of the sparse matrix");
    else
        mt_sparse_note(&j->c, notes, MT_LIBRARY_WRITE, MT_SPARSE_COLUMNS | MT_SPARSE_VALUES);
}

static int sparse_index_geam(struct mt_library_call *call)
{
    struct mt_sparse_job *j = (struct mt_sparse_job *)call;
    struct mt_triplets t = {0};
    mt_triplets_of(&t, &j->a, 0, j->numeric ? mt_sparse_scalar(j, 0) : 0);
    mt_triplets_of(&t, &j->b, 0, j->numeric ? mt_sparse_scalar(j, 1) : 0);
    mt_triplets_merge(&t);
    int bad = t.bad || mt_triplets_put(&t, &j->c,
                                       j->numeric ? MT_SPARSE_COLUMNS | MT_SPARSE_VALUES : MT_SPARSE_OFFSETS);
    if (!bad && !j->numeric)
        *(int *)j->count = (int)t.n;
    free(t.at);
    return sparse_index_say(j, bad);
}

int impl_cusparseXcsrgeam2Nnz(void *handle, int m, int n, const struct mt_sparse_descriptor *da, int na,
                              const int *oa, const int *ca, const struct mt_sparse_descriptor *db, int nb,
                              const int *ob, const int *cb, const struct mt_sparse_descriptor *dc, int *oc,
                              int *count, void *buffer)
{
    struct mt_sparse_job j;
    int status =
        mt_sparse_job(&j, handle, "cusparseXcsrgeam2Nnz", sparse_index_geam_ranges, sparse_index_geam);
    if (status || m < 0 || n < 0 || na < 0 || nb < 0 || !da || !db || !dc || !count)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.a = mt_sparse_older(m, n, na, da->base, 0, NULL, oa, ca);
    j.b = mt_sparse_older(m, n, nb, db->base, 0, NULL, ob, cb);
    j.c = mt_sparse_older(m, n, 0, dc->base, 0, NULL, oc, NULL);
    j.count = count;
    return mt_sparse_submit(&j, handle, !j.device);
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
    int status = mt_sparse_job(&j, handle, name, sparse_index_geam_ranges, sparse_index_geam);
    if (status || g->m < 0 || g->n < 0 || g->na < 0 || g->nb < 0 || !g->da || !g->db || !g->dc || !g->alpha ||
        !g->beta)
        return status ? status : MT_SPARSE_INVALID_VALUE;
    j.numeric = 1;
    mt_sparse_scalars(&j, letter, g->alpha, g->beta);
    j.a = mt_sparse_older(g->m, g->n, g->na, g->da->base, letter, g->values_a, g->oa, g->ca);
    j.b = mt_sparse_older(g->m, g->n, g->nb, g->db->base, letter, g->values_b, g->ob, g->cb);
    j.c = mt_sparse_older(g->m, g->n, 0, g->dc->base, letter, g->values_c, g->oc, g->cc);
    return mt_sparse_submit(&j, handle, 0);
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
        return sparse_index_buffer(handle, bytes);                                                           \
    }
GEAM(S, 'S')
GEAM(D, 'D')
GEAM(C, 'C')
GEAM(Z, 'Z')
