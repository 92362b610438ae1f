/* Calls of cuSPARSE that make matrices of others. */
#include "sparse_job.h"
#include "call.h"
#include "element.h"
#include "library.h"
#include <stdlib.h>
#include <string.h>

int cudaStreamSynchronize(void *stream);

/* ---- entries */

void mt_triplets_add(struct mt_triplets *t, int64_t row, int64_t col, double _Complex value)
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

void mt_triplets_of(struct mt_triplets *t, const struct mt_sparse *a, int turned, double _Complex by)
{
    struct mt_sparse_entry e = {-1, 0, 0};
    int64_t row = 0;
    int more;
    while ((more = mt_sparse_next(a, turned, &row, &e)) > 0 && !t->bad)
        mt_triplets_add(t, e.row, e.col, a->letter ? by * mt_element_get(a->letter, a->values, e.at) : 0);
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

void mt_triplets_sort(struct mt_triplets *t)
{
    if (t->n)
        qsort(t->at, t->n, sizeof *t->at, triplets_order);
}

void mt_triplets_merge(struct mt_triplets *t)
{
    size_t n = 0;
    mt_triplets_sort(t);
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

int mt_triplets_put(const struct mt_triplets *t, const struct mt_sparse *to, int parts)
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

void mt_sparse_look(const struct mt_sparse *a, struct mt_library_notes *notes)
{
    struct mt_sparse_entry e = {-1, 0, 0};
    int64_t row = 0;
    int more = 0;
    while ((more = mt_sparse_next(a, 0, &row, &e)) > 0)
        ;
    if (more < 0)
        __mt_library_refuse(notes, "an index is outside of the sparse matrix");
}

/* ---- calls */

int mt_sparse_job(struct mt_sparse_job *j, void *handle, const char *name,
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

void mt_sparse_scalars(struct mt_sparse_job *j, char type, const void *alpha, const void *beta)
{
    const void *const p[] = {alpha, beta};
    j->scalar = type;
    j->alpha = alpha, j->beta = beta;
    for (int i = 0; i < 2 && !j->device; i++)
        if (p[i])
            memcpy(j->value[i], p[i], mt_blas_letter_bytes(type));
}

double _Complex mt_sparse_scalar(const struct mt_sparse_job *j, int i)
{
    return mt_element_get(j->scalar, !j->device ? j->value[i] : i ? j->beta : j->alpha, 0);
}

int mt_sparse_note_scalars(const struct mt_sparse_job *j, struct mt_library_notes *notes)
{
    size_t bytes = mt_blas_letter_bytes(j->scalar);
    return j->device && (__mt_library_note(notes, MT_LIBRARY_READ, j->alpha, bytes, 1, 0) ||
                         __mt_library_note(notes, MT_LIBRARY_READ, j->beta, bytes, 1, 0));
}

int mt_sparse_submit(struct mt_sparse_job *j, void *handle, int wait)
{
    void *stream = mt_blas_handle(handle)->stream;
    int e = __mt_library_submit(stream, &j->call);
    if (!e && wait)
        e = cudaStreamSynchronize(stream);
    return e ? MT_SPARSE_EXECUTION_FAILED : MT_SPARSE_OK;
}

struct mt_sparse mt_sparse_older(int m, int n, int entries, int base, char letter, const void *values,
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
