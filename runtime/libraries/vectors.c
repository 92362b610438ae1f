/* cublasAxpyEx and its kind: operations on vectors whose types are arguments. Computed in double, rounded
 * once. */
#include "call.h"
#include "element.h"
#include "library.h"
#include <math.h>
#include <string.h>

int mt_blas_vector_types(struct mt_blas *b);
int mt_blas_axpy_ex(struct mt_blas *b);
int mt_blas_scal_ex(struct mt_blas *b);
int mt_blas_dot_ex(struct mt_blas *b);
int mt_blas_norm_ex(struct mt_blas *b);
int mt_blas_move_ex(struct mt_blas *b);
int mt_blas_extreme_ex(struct mt_blas *b);
int mt_blas_rot_ex(struct mt_blas *b);

/* The types have to be known here; that of a scalar or a result is `scalar`. */
int mt_blas_vector_types(struct mt_blas *b)
{
    for (int i = 0; b->f->row->kinds[i]; i++) {
        char kind = b->f->row->kinds[i], letter = strchr("yz", kind) ? mt_blas_letter(b->a[i]) : 'S';
        if (!letter) {
            if (!__mt_library_on_gpu())
                mt_lib_say("%s: elements of cudaDataType %d are not there on the CPU device", b->call.name,
                           (int)b->a[i]);
            return MT_BLAS_NOT_SUPPORTED;
        }
        if (kind == 'z')
            b->scalar = letter;
    }
    return MT_BLAS_OK;
}

struct vector {
    char letter, *p;
    int64_t n, inc;
};

/* Pointer, type and increment are arguments one after the other; how long it is, the first one. */
static struct vector vectors_take(const struct mt_blas *b, int at)
{
    return (struct vector){mt_blas_letter(b->a[at + 1]), (char *)(intptr_t)b->a[at], b->a[0], b->a[at + 2]};
}

static int64_t vectors_at(const struct vector *v, int64_t i)
{
    return v->inc < 0 ? (i - v->n + 1) * v->inc : i * v->inc;
}

static double _Complex vectors_get(const struct vector *v, int64_t i)
{
    return mt_element_get(v->letter, v->p, vectors_at(v, i));
}

static void vectors_put(const struct vector *v, int64_t i, double _Complex value)
{
    mt_element_put(v->letter, v->p, vectors_at(v, i), value);
}

static double _Complex vectors_scalar(const struct mt_blas *b, int at)
{
    return mt_element_get(b->scalar, mt_blas_scalar(b, at), 0);
}

/* n alpha type x type incx y type incy execution */
int mt_blas_axpy_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 3), y = vectors_take(b, 6);
    double _Complex alpha = vectors_scalar(b, 1);
    for (int64_t i = 0; alpha != 0 && i < x.n; i++)
        vectors_put(&y, i, alpha * vectors_get(&x, i) + vectors_get(&y, i));
    return 0;
}

/* n alpha type x type incx execution */
int mt_blas_scal_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 3);
    double _Complex alpha = vectors_scalar(b, 1);
    for (int64_t i = 0; i < x.n; i++)
        vectors_put(&x, i, alpha * vectors_get(&x, i));
    return 0;
}

/* n x type incx y type incy result type execution */
int mt_blas_dot_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1), y = vectors_take(b, 4);
    int conjugated = strstr(b->call.name, "Dotc") != NULL;
    double _Complex sum = 0;
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex u = vectors_get(&x, i);
        sum += (conjugated ? ~u : u) * vectors_get(&y, i);
    }
    mt_element_put(b->scalar, (void *)(intptr_t)b->a[7], 0, sum);
    return 0;
}

static double vectors_length(double _Complex v)
{
    return fabs(__real__ v) + fabs(__imag__ v);
}

/* n x type incx result type execution */
int mt_blas_norm_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1);
    int squares = strstr(b->call.name, "Nrm2") != NULL;
    double sum = 0;
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex v = vectors_get(&x, i);
        sum += squares ? __real__(v * ~v) : vectors_length(v);
    }
    mt_element_put(b->scalar, (void *)(intptr_t)b->a[4], 0, squares ? sqrt(sum) : sum);
    return 0;
}

/* n x type incx y type incy */
int mt_blas_move_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1), y = vectors_take(b, 4);
    int both = strstr(b->call.name, "Swap") != NULL;
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex u = vectors_get(&x, i), v = both ? vectors_get(&y, i) : 0;
        vectors_put(&y, i, u);
        if (both)
            vectors_put(&x, i, v);
    }
    return 0;
}

/* n x type incx result: a number from 1; 0: of nothing. */
int mt_blas_extreme_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1);
    int least = strstr(b->call.name, "Iamin") != NULL;
    int64_t best = 0;
    for (int64_t i = 1; i < x.n; i++) {
        double have = vectors_length(vectors_get(&x, best)), other = vectors_length(vectors_get(&x, i));
        best = least ? (other < have ? i : best) : (other > have ? i : best);
    }
    best += x.n > 0;
    memcpy((void *)(intptr_t)b->a[4], &best, b->wide ? sizeof(int64_t) : sizeof(int));
    return 0;
}

/* n x type incx y type incy c s type execution */
int mt_blas_rot_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1), y = vectors_take(b, 4);
    double _Complex c = vectors_scalar(b, 7), s = vectors_scalar(b, 8);
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex u = vectors_get(&x, i), v = vectors_get(&y, i);
        vectors_put(&x, i, c * u + s * v);
        vectors_put(&y, i, c * v - ~s * u);
    }
    return 0;
}
