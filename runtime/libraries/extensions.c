/* The extensions of cuBLAS: functions that BLAS does not have, or has otherwise. */
#include "call.h"
#include "element.h"
#include "library.h"
#include <string.h>

int mt_blas_dot(struct mt_blas *b);
int mt_blas_trmm(struct mt_blas *b);
int mt_blas_geam(struct mt_blas *b);
int mt_blas_dgmm(struct mt_blas *b);

int mt_blas_is_zero(char letter, const void *p)
{
    return mt_element_get(letter, p, 0) == 0;
}

static void *extensions_at(const struct mt_blas *b, int i)
{
    return (void *)(intptr_t)b->a[i];
}

/* n x incx y incy result; Fortran's way of returning complex numbers differs between compilers. */
int mt_blas_dot(struct mt_blas *b)
{
    int conjugated = b->call.name[strlen(b->call.name) - 1] == 'c'; /* cublasCdotc */
    const char *x = extensions_at(b, 1), *y = extensions_at(b, 3);
    int64_t n = b->a[0], incx = b->a[2], incy = b->a[4];
    double _Complex sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double _Complex u = mt_element_get(b->letter, x, incx < 0 ? (i - n + 1) * incx : i * incx);
        double _Complex v = mt_element_get(b->letter, y, incy < 0 ? (i - n + 1) * incy : i * incy);
        sum += (conjugated ? ~u : u) * v;
    }
    mt_element_put(b->letter, extensions_at(b, 5), 0, sum);
    return 0;
}

/* side uplo trans diag m n alpha A lda B ldb C ldc. Fortran's overwrites B, so C begins as a copy of it. */
int mt_blas_trmm(struct mt_blas *b)
{
    typedef void trmm(const char *, const char *, const char *, const char *, const int *, const int *,
                      const void *, const void *, const int *, void *, const int *, size_t, size_t, size_t,
                      size_t);
    char name[] = {(char)(b->letter | 0x20), 't', 'r', 'm', 'm', '_', 0};
    trmm *f = (trmm *)mt_lib_function(MT_LIB_OPENBLAS, name, b->call.name);
    int m = (int)b->a[4], n = (int)b->a[5], lda = (int)b->a[8], ldc = (int)b->a[12];
    size_t element = mt_blas_letter_bytes(b->letter);
    const char *from = extensions_at(b, 9);
    char *to = extensions_at(b, 11);
    if (!f)
        return -1;
    int zero = mt_blas_is_zero(b->scalar, mt_blas_scalar(b, 6));
    for (int64_t j = 0; j < n; j++) {
        char *column = to + (size_t)(j * ldc) * element;
        if (zero)
            memset(column, 0, (size_t)m * element);
        else if (to != from)
            memmove(column, from + (size_t)(j * b->a[10]) * element, (size_t)m * element);
    }
    if (!zero)
        f(&"LR"[b->a[0]], &"LU"[b->a[1]], &"NTC"[b->a[2]], &"NU"[b->a[3]], &m, &n, mt_blas_scalar(b, 6),
          extensions_at(b, 7), &lda, to, &ldc, 1, 1, 1, 1);
    return 0;
}

/* Element i, j of op(p). */
static double _Complex extensions_op(const struct mt_blas *b, const void *p, int64_t op, int64_t ld,
                                     int64_t i, int64_t j)
{
    double _Complex v = mt_element_get(b->letter, p, op ? i * ld + j : j * ld + i);
    return op == 2 ? ~v : v;
}

/* transa transb m n alpha A lda beta B ldb C ldc. C may be A or B where that is not transposed. */
int mt_blas_geam(struct mt_blas *b)
{
    double _Complex alpha = mt_element_get(b->scalar, mt_blas_scalar(b, 4), 0);
    double _Complex beta = mt_element_get(b->scalar, mt_blas_scalar(b, 7), 0);
    for (int64_t j = 0; j < b->a[3]; j++)
        for (int64_t i = 0; i < b->a[2]; i++) {
            double _Complex v =
                alpha == 0 ? 0 : alpha * extensions_op(b, extensions_at(b, 5), b->a[0], b->a[6], i, j);
            v += beta == 0 ? 0 : beta * extensions_op(b, extensions_at(b, 8), b->a[1], b->a[9], i, j);
            mt_element_put(b->letter, extensions_at(b, 10), j * b->a[11] + i, v);
        }
    return 0;
}

/* mode m n A lda x incx C ldc: the rows (mode 0) or columns of A times the elements of x. */
int mt_blas_dgmm(struct mt_blas *b)
{
    int64_t m = b->a[1], n = b->a[2], inc = b->a[6], count = b->a[0] ? n : m;
    int64_t first = inc < 0 ? (1 - count) * inc : 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            double _Complex x =
                mt_element_get(b->letter, extensions_at(b, 5), first + (b->a[0] ? j : i) * inc);
            double _Complex v = x * mt_element_get(b->letter, extensions_at(b, 3), j * b->a[4] + i);
            mt_element_put(b->letter, extensions_at(b, 7), j * b->a[8] + i, v);
        }
    return 0;
}
