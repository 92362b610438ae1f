/* Factors of square and tall matrices where LAPACK's functions are not enough: without exchanges of rows,
 * with pivots of 64 bits, and batches with an info for each. */
#include "call.h"
#include "element.h"
#include "library.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mt_solver_getrf(struct mt_blas *b);
int mt_solver_getrs(struct mt_blas *b);
int mt_solver_potrf_batched(struct mt_blas *b);
int mt_solver_getrf_batched(struct mt_blas *b);
int mt_solver_gels_info(struct mt_blas *b);
int mt_solver_gels_batched(struct mt_blas *b);

/* OpenBLAS's function of this name for the call's type; NULL after saying that there is none. */
static void (*factors_find(const struct mt_blas *b, const char *name))(void)
{
    char full[16];
    snprintf(full, sizeof full, "%c%s_", b->letter | 0x20, name);
    return mt_lib_function(MT_LIB_OPENBLAS, full, b->call.name);
}

/* The k-th argument of these kinds: its number. */
static int factors_at(const struct mt_blas *b, const char *of, int k)
{
    const char *kinds = b->f->row->kinds;
    int i = 0;
    while (kinds[i] && (!strchr(of, kinds[i]) || k-- > 0))
        i++;
    return i;
}

static int factors_number(const struct mt_blas *b, const char *of, int k)
{
    return (int)b->a[factors_at(b, of, k)];
}

static void *factors_memory(const struct mt_blas *b, int k)
{
    return (void *)(intptr_t)b->a[factors_at(b, "PWMQ", k)];
}

static int factors_failed(const struct mt_blas *b)
{
    mt_lib_say("%s: out of memory", b->call.name);
    return -1;
}

/* ---- A = P L U */

struct factors {
    int m, n, lda;
    char *a;
    int *info; /* the first pivot that is 0, or 0 */
};

static char *factors_element(const struct mt_blas *b, const struct factors *f, int row, int column)
{
    return f->a + ((size_t)column * (size_t)f->lda + (size_t)row) * mt_blas_letter_bytes(b->letter);
}

/* Column k of L; 0 if there is none, because its pivot is 0. */
static int factors_column(const struct mt_blas *b, const struct factors *f, int k)
{
    char *column = factors_element(b, f, 0, k);
    double _Complex pivot = mt_element_get(b->letter, column, k);
    if (pivot == 0)
        return 0;
    for (int i = k + 1; i < f->m; i++)
        mt_element_put(b->letter, column, i, mt_element_get(b->letter, column, i) / pivot);
    return 1;
}

/* Rows stay where they are: column by column, what is right of it loses its part. */
static int factors_unexchanged(const struct mt_blas *b, const struct factors *f)
{
    typedef void ger(const int *, const int *, const void *, const void *, const int *, const void *,
                     const int *, void *, const int *);
    static const int one = 1;
    int complex = b->letter == 'C' || b->letter == 'Z';
    ger *update = (ger *)factors_find(b, complex ? "geru" : "ger");
    double _Complex minus; /* room for any type */
    if (!update)
        return -1;
    mt_element_put(b->letter, &minus, 0, -1);
    *f->info = 0;
    for (int k = 0; k < f->m && k < f->n; k++) {
        int rows = f->m - k - 1, columns = f->n - k - 1;
        if (!factors_column(b, f, k) && !*f->info)
            *f->info = k + 1;
        if (rows && columns)
            update(&rows, &columns, &minus, factors_element(b, f, k + 1, k), &one,
                   factors_element(b, f, k, k + 1), &f->lda, factors_element(b, f, k + 1, k + 1), &f->lda);
    }
    return 0;
}

static int factors_lu(const struct mt_blas *b, const struct factors *f, int *pivots)
{
    typedef void getrf(const int *, const int *, void *, const int *, int *, int *);
    if (!pivots)
        return factors_unexchanged(b, f);
    getrf *lapack = (getrf *)factors_find(b, "getrf");
    if (lapack)
        lapack(&f->m, &f->n, f->a, &f->lda, pivots, f->info);
    return lapack ? 0 : -1;
}

int mt_solver_getrf(struct mt_blas *b)
{
    struct factors f = {.m = factors_number(b, "n", 0),
                        .n = factors_number(b, "n", 1),
                        .lda = factors_number(b, "i", 0),
                        .a = factors_memory(b, 0),
                        .info = (int *)(intptr_t)b->a[factors_at(b, "F", 0)]};
    int least = f.m < f.n ? f.m : f.n, *pivots;
    void *out = factors_memory(b, 1);
    if (!b->wide || !out)
        return factors_lu(b, &f, out);
    if (!(pivots = calloc((size_t)least + 1, sizeof *pivots)))
        return factors_failed(b);
    int rc = factors_lu(b, &f, pivots);
    for (int i = 0; !rc && i < least; i++)
        ((int64_t *)out)[i] = pivots[i];
    free(pivots);
    return rc;
}

/* As LAPACK wants them, whatever is there. */
static void factors_pivots(const struct mt_blas *b, int *pivots, int n)
{
    const void *in = factors_memory(b, 1);
    for (int i = 0; i < n; i++) {
        int64_t row = !in ? i + 1 : b->wide ? ((const int64_t *)in)[i] : ((const int *)in)[i];
        pivots[i] = row < 1 ? 1 : row > n ? n : (int)row;
    }
}

int mt_solver_getrs(struct mt_blas *b)
{
    typedef void getrs(const char *, const int *, const int *, const void *, const int *, const int *, void *,
                       const int *, int *, size_t);
    int n = factors_number(b, "n", 0), columns = factors_number(b, "n", 1);
    int lda = factors_number(b, "i", 0), ldb = factors_number(b, "i", 1);
    int *pivots = calloc((size_t)n + 1, sizeof *pivots);
    getrs *f = pivots ? (getrs *)factors_find(b, "getrs") : NULL;
    if (!pivots)
        return factors_failed(b);
    factors_pivots(b, pivots, n);
    if (f)
        f(&"NTC"[factors_number(b, "t", 0)], &n, &columns, factors_memory(b, 0), &lda, pivots,
          factors_memory(b, 2), &ldb, (int *)(intptr_t)b -> a[factors_at(b, "F", 0)], 1);
    free(pivots);
    return f ? 0 : -1;
}

/* ---- batches: an info for each */

int mt_solver_getrf_batched(struct mt_blas *b)
{
    int n = factors_number(b, "n", 0), *pivots = factors_memory(b, 1), *info = factors_memory(b, 2), rc = 0;
    for (int64_t i = 0; i < mt_blas_batches(b) && !rc; i++) {
        struct factors f = {n, n, factors_number(b, "i", 0),
                            mt_blas_pointer(b, factors_at(b, "Q", 0), -1, 0, i), info + i};
        rc = factors_lu(b, &f, pivots ? pivots + i * n : NULL);
    }
    return rc;
}

int mt_solver_potrf_batched(struct mt_blas *b)
{
    typedef void potrf(const char *, const int *, void *, const int *, int *, size_t);
    int n = factors_number(b, "n", 0), lda = factors_number(b, "i", 0), *info = factors_memory(b, 1);
    potrf *f = (potrf *)factors_find(b, "potrf");
    for (int64_t i = 0; f && i < mt_blas_batches(b); i++)
        f(&"LU"[factors_number(b, "u", 0)], &n, mt_blas_pointer(b, factors_at(b, "Q", 0), -1, 0, i), &lda,
          info + i, 1);
    return f ? 0 : -1;
}

/* What cuBLAS does not solve either is said as it says it. */
int mt_solver_gels_info(struct mt_blas *b)
{
    int *info = (int *)(intptr_t)b->a[factors_at(b, "v", 0)];
    if (!info)
        return MT_BLAS_INVALID_VALUE;
    *info = 0;
    return factors_number(b, "t", 0) || factors_number(b, "n", 0) < factors_number(b, "n", 1)
               ? MT_BLAS_NOT_SUPPORTED
               : MT_BLAS_OK;
}

int mt_solver_gels_batched(struct mt_blas *b)
{
    typedef void gels(const char *, const int *, const int *, const int *, void *, const int *, void *,
                      const int *, void *, const int *, int *, size_t);
    int m = factors_number(b, "n", 0), n = factors_number(b, "n", 1), columns = factors_number(b, "n", 2);
    int lda = factors_number(b, "i", 0), ldc = factors_number(b, "i", 1), *info = factors_memory(b, 2), none;
    int lwork = 64 * (n + columns) + 1;
    void *work = malloc((size_t)lwork * mt_blas_letter_bytes(b->letter));
    gels *f = work ? (gels *)factors_find(b, "gels") : NULL;
    if (!work)
        return factors_failed(b);
    for (int64_t i = 0; f && i < mt_blas_batches(b); i++)
        f("N", &m, &n, &columns, mt_blas_pointer(b, factors_at(b, "Q", 0), -1, 0, i), &lda,
          mt_blas_pointer(b, factors_at(b, "Q", 1), -1, 0, i), &ldc, work, &lwork, info ? info + i : &none,
          1);
    free(work);
    return f ? 0 : -1;
}
