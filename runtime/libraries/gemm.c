/* Products of matrices whose elements have any of the types: converted, computed by OpenBLAS in float or
 * double, and converted back. */
#include "call.h"
#include "element.h"
#include "library.h"
#include <stdlib.h>
#include <string.h>

/* The type to compute in. */
static char gemm_work(const struct mt_gemm *g)
{
    const char used[] = {g->types[0], g->types[1], g->types[2], g->scalar, 0};
    int wide = strpbrk(used, "DZI") != NULL;
    return strpbrk(used, "CZ") ? wide ? 'Z' : 'C' : wide ? 'D' : 'S';
}

/* A copy without gaps of a matrix with rows x cols elements; NULL: no memory. */
static void *gemm_in(char from, const void *p, int64_t rows, int64_t cols, int64_t ld, char work)
{
    void *out = malloc((size_t)rows * (size_t)cols * mt_blas_letter_bytes(work) + 1);
    for (int64_t j = 0; out && j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            mt_element_put(work, out, j * rows + i, mt_element_get(from, p, j * ld + i));
    return out;
}

static void gemm_out(const struct mt_gemm *g, const void *c, char work)
{
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++)
            mt_element_put(g->types[2], g->c, j * g->ldc + i, mt_element_get(work, c, j * g->m + i));
}

typedef void gemm_function(const char *, const char *, const int *, const int *, const int *, const void *,
                           const void *, const int *, const void *, const int *, const void *, void *,
                           const int *, size_t, size_t);

static int gemm_call(const struct mt_gemm *g, char work)
{
    char name[] = {
        work == 'S' ? 's' : work == 'D' ? 'd' : work == 'C' ? 'c' : 'z', 'g', 'e', 'm', 'm', '_', 0};
    gemm_function *f = (gemm_function *)mt_lib_function(MT_LIB_OPENBLAS, name, g->name);
    int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    if (!f)
        return -1;
    f(&"NTC"[g->transa], &"NTC"[g->transb], &m, &n, &k, g -> alpha, g -> a, &lda, g -> b, &ldb, g -> beta,
      g -> c, &ldc, 1, 1);
    return 0;
}

static int64_t gemm_least(int64_t n)
{
    return n > 1 ? n : 1;
}

/* What is not to be read (alpha or beta is 0) is left alone. */
static int gemm_converted(const struct mt_gemm *g, char work)
{
    struct mt_gemm w = *g;
    unsigned char alpha[16], beta[16];
    int product = !mt_blas_is_zero(g->scalar, g->alpha), sum = !mt_blas_is_zero(g->scalar, g->beta), rc = -1;
    mt_element_put(work, alpha, 0, mt_element_get(g->scalar, g->alpha, 0));
    mt_element_put(work, beta, 0, mt_element_get(g->scalar, g->beta, 0));
    int64_t rows_a = g->transa ? g->k : g->m, rows_b = g->transb ? g->n : g->k;
    void *a = gemm_in(g->types[0], g->a, rows_a, product ? g->m + g->k - rows_a : 0, g->lda, work);
    void *b = gemm_in(g->types[1], g->b, rows_b, product ? g->k + g->n - rows_b : 0, g->ldb, work);
    void *c = sum ? gemm_in(g->types[2], g->c, g->m, g->n, g->ldc, work)
                  : malloc((size_t)g->m * (size_t)g->n * mt_blas_letter_bytes(work) + 1);
    w.a = a, w.b = b, w.c = c, w.alpha = alpha, w.beta = beta;
    w.lda = gemm_least(rows_a), w.ldb = gemm_least(rows_b), w.ldc = gemm_least(g->m);
    if (a && b && c && !(rc = gemm_call(&w, work)))
        gemm_out(g, c, work);
    if (!a || !b || !c)
        mt_lib_say("%s: out of memory", g->name);
    free(a);
    free(b);
    free(c);
    return rc;
}

int mt_gemm_run(const struct mt_gemm *g)
{
    char work = gemm_work(g);
    const char same[] = {work, work, work};
    return !memcmp(g->types, same, sizeof same) && g->scalar == work ? gemm_call(g, work)
                                                                     : gemm_converted(g, work);
}

/* ---- cublasGemmEx and its kind */

/* The type of alpha and beta. */
static char gemm_scalar(int64_t compute, char c)
{
    int complex = c == 'C' || c == 'Z';
    switch (compute) {
    case 64: /* CUBLAS_COMPUTE_16F */
    case 65:
        return 'H';
    case 70: /* CUBLAS_COMPUTE_64F */
    case 71:
    case 79:
        return complex ? 'Z' : 'D';
    case 72: /* CUBLAS_COMPUTE_32I */
    case 73:
        return c == 'I' ? 'I' : 'S';
    default: /* CUBLAS_COMPUTE_32F and its kind */
        return complex ? 'C' : 'S';
    }
}

int mt_blas_ex_types(struct mt_blas *b);
int mt_blas_gemm_ex(struct mt_blas *b);

int mt_blas_ex_types(struct mt_blas *b)
{
    int at = -1, compute = mt_blas_find(b, 'c', 0);
    for (int i = 0; i < 3; i++) {
        at = mt_blas_find(b, 'y', at + 1);
        b->types[i] = at < 0 ? b->letter : mt_blas_letter(b->a[at]);
        if (!b->types[i]) {
            if (!__mt_library_on_gpu())
                mt_lib_say("%s: elements of cudaDataType %d are not there on the CPU device", b->call.name,
                           (int)b->a[at]);
            return MT_BLAS_NOT_SUPPORTED;
        }
        if (at < 0)
            at = MT_BLAS_ARGS; /* no types at all */
    }
    if (compute >= 0)
        b->scalar = gemm_scalar(b->a[compute], b->types[2]);
    return MT_BLAS_OK;
}

int mt_blas_gemm_ex(struct mt_blas *b)
{
    int at[3] = {-1, -1, -1}, ld[3], stride[3], scalar = mt_blas_find(b, 'A', 0), rc = 0;
    const char *kinds = b->f->row->kinds;
    for (int i = 0, n = 0; kinds[i] && n <= 3; i++) {
        if (strchr("PWMQ", kinds[i])) {
            at[n] = i;
            stride[n++] = -1;
        } else if (n && kinds[i] == 'i') {
            ld[n - 1] = i;
        } else if (n && kinds[i] == 'S') {
            stride[n - 1] = i;
        }
    }
    struct mt_gemm g = {.transa = b->a[0],
                        .transb = b->a[1],
                        .m = b->a[2],
                        .n = b->a[3],
                        .k = b->a[4],
                        .lda = b->a[ld[0]],
                        .ldb = b->a[ld[1]],
                        .ldc = b->a[ld[2]],
                        .alpha = mt_blas_scalar(b, scalar),
                        .beta = mt_blas_scalar(b, mt_blas_find(b, 'A', scalar + 1)),
                        .scalar = b->scalar,
                        .name = b->call.name};
    memcpy(g.types, b->types, sizeof g.types);
    for (int64_t i = 0; i < mt_blas_batches(b) && !rc; i++) {
        g.a = mt_blas_pointer(b, at[0], stride[0], mt_blas_letter_bytes(g.types[0]), i);
        g.b = mt_blas_pointer(b, at[1], stride[1], mt_blas_letter_bytes(g.types[1]), i);
        g.c = mt_blas_pointer(b, at[2], stride[2], mt_blas_letter_bytes(g.types[2]), i);
        rc = mt_gemm_run(&g);
    }
    return rc;
}
