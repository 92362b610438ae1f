/* Goes through the memory of a call of cuBLAS: are its shapes right, what is read, what is written. */
#include "call.h"

static size_t shapes_size(const struct mt_blas *b, const struct mt_blas_operand *o)
{
    size_t own = mt_blas_letter_bytes(b->letter);
    switch (o->type) {
    case -1:
        return own;
    case -2:
        return sizeof(int);
    case -3:
        return b->letter == 'C' || b->letter == 'Z' ? own / 2 : own;
    case -4:
        return sizeof(int64_t);
    default:
        return mt_blas_letter_bytes(mt_blas_letter(b->a[o->type]));
    }
}

/* The pointers of an array: once for all of a batch. */
static void shapes_array(struct mt_blas_walk *w, const struct mt_blas *b, int at)
{
    size_t bytes = (size_t)mt_blas_batches(b) * sizeof(void *);
    if (w->pass == MT_BLAS_READS && !w->batch)
        w->bad |=
            __mt_library_note(w->notes, MT_LIBRARY_READ, (const void *)(intptr_t)b->a[at], bytes, 1, 0) != 0;
}

static int shapes_wanted(const struct mt_blas_walk *w, const struct mt_blas *b,
                         const struct mt_blas_operand *o)
{
    int zero = o->scalar >= 0 && mt_blas_is_zero(b->scalar, mt_blas_scalar(b, o->scalar));
    if (w->pass == MT_BLAS_READS)
        return (o->mode & MT_BLAS_IN) && !zero;
    return (o->mode & MT_BLAS_OUT) && !(zero && o->zero);
}

int mt_blas_operand(struct mt_blas_walk *w, const struct mt_blas *b, const struct mt_blas_operand *o)
{
    w->size = shapes_size(b, o);
    if (w->pass == MT_BLAS_CHECK) {
        w->p = (const char *)(intptr_t)b->a[o->at];
        return 1;
    }
    if (o->array)
        shapes_array(w, b, o->at);
    if (w->bad || !shapes_wanted(w, b, o))
        return 0;
    w->p = mt_blas_pointer(b, o->at, o->stride, w->size, w->batch);
    return 1;
}

static void shapes_note(struct mt_blas_walk *w, int64_t first, int64_t elements, int64_t count,
                        int64_t stride)
{
    if (w->bad || elements <= 0 || count <= 0)
        return;
    w->bad |= __mt_library_note(w->notes, w->pass == MT_BLAS_READS ? MT_LIBRARY_READ : MT_LIBRARY_WRITE,
                                w->p + first * (int64_t)w->size, (size_t)elements * w->size, (size_t)count,
                                stride * (int64_t)w->size) != 0;
}

/* With a negative inc the vector is the same memory, from its end. */
void mt_blas_vec(struct mt_blas_walk *w, int64_t n, int64_t inc)
{
    if (w->pass == MT_BLAS_CHECK)
        w->bad |= !w->p && n > 0;
    else
        shapes_note(w, 0, 1, inc ? n : n > 0, inc < 0 ? -inc : inc);
}

void mt_blas_mat(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK)
        w->bad |= ld < (rows > 1 ? rows : 1) || (!w->p && rows > 0 && cols > 0);
    else
        shapes_note(w, 0, rows, cols, ld);
}

void mt_blas_opmat(struct mt_blas_walk *w, int64_t op, int64_t rows, int64_t cols, int64_t ld)
{
    mt_blas_mat(w, op ? cols : rows, op ? rows : cols, ld);
}

void mt_blas_tri(struct mt_blas_walk *w, int64_t fill, int64_t diag, int64_t n, int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK || fill == 2) {
        mt_blas_mat(w, n, n, ld);
        return;
    }
    for (int64_t j = 0; j < n && !w->bad; j++)
        if (fill)
            shapes_note(w, j * ld, j + 1 - diag, 1, 0);
        else
            shapes_note(w, j * ld + j + diag, n - j - diag, 1, 0);
}

/* Its eigenvectors come where a triangle was. */
void mt_blas_eig(struct mt_blas_walk *w, int64_t vectors, int64_t fill, int64_t n, int64_t ld)
{
    mt_blas_tri(w, vectors && w->pass == MT_BLAS_WRITES ? 2 : fill, 0, n, ld);
}

void mt_blas_sym(struct mt_blas_walk *w, int64_t fill, int64_t n, int64_t ld)
{
    mt_blas_tri(w, fill, 0, n, ld);
}

void mt_blas_under(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK)
        mt_blas_mat(w, rows, cols, ld);
    for (int64_t j = 0; w->pass != MT_BLAS_CHECK && j < cols && !w->bad; j++)
        shapes_note(w, j * ld + j + 1, rows - j - 1, 1, 0);
}

void mt_blas_band(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t below, int64_t above,
                  int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK) {
        w->bad |= ld <= below + above || (!w->p && rows > 0 && cols > 0);
        return;
    }
    for (int64_t j = 0; j < cols && !w->bad; j++) {
        int64_t first = j > above ? j - above : 0, end = j + below < rows ? j + below + 1 : rows;
        shapes_note(w, j * ld + above - j + first, end - first, 1, 0);
    }
}
