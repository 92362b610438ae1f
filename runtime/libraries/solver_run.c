/* cuSOLVER's functions whose parameters are not LAPACK's: eigenvalues and singular values. */
#include "call.h"
#include "element.h"
#include "library.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mt_solver_type(struct mt_blas *b);
int mt_solver_eigen(struct mt_blas *b);
int mt_solver_singular(struct mt_blas *b);

/* The first type is that of the elements; those of the others follow from it. */
int mt_solver_type(struct mt_blas *b)
{
    int at = mt_blas_find(b, 'y', 0);
    char letter = mt_blas_letter(b->a[at]);
    if (!letter || !strchr("SDCZ", letter)) {
        if (!__mt_library_on_gpu())
            mt_lib_say("%s: elements of cudaDataType %d are not there on the CPU device", b->call.name,
                       (int)b->a[at]);
        return MT_BLAS_NOT_SUPPORTED;
    }
    b->letter = letter;
    return MT_BLAS_OK;
}

static int solver_is_complex(const struct mt_blas *b)
{
    return b->letter == 'C' || b->letter == 'Z';
}

/* LAPACK's function of this name for the call's type. */
static void (*solver_find(const struct mt_blas *b, const char *name))(void)
{
    char full[16];
    snprintf(full, sizeof full, "%c%s_", b->letter | 0x20, name);
    return mt_lib_function(MT_LIB_OPENBLAS, full, b->call.name);
}

/* The k-th argument of this kind: as a number, and as an address. */
static int64_t solver_number(const struct mt_blas *b, char kind, int k)
{
    int at = mt_blas_find(b, kind, 0);
    while (k-- > 0)
        at = mt_blas_find(b, kind, at + 1);
    return b->a[at];
}

static void *solver_address(const struct mt_blas *b, char kind, int k)
{
    return (void *)(intptr_t)solver_number(b, kind, k);
}

static int solver_memory(const struct mt_blas *b, int bad)
{
    if (bad)
        mt_lib_say("%s: out of memory", b->call.name);
    return bad ? -1 : 0;
}

int mt_solver_eigen(struct mt_blas *b)
{
    typedef void real(const char *, const char *, const int *, void *, const int *, void *, void *,
                      const int *, int *, size_t, size_t);
    typedef void complex(const char *, const char *, const int *, void *, const int *, void *, void *,
                         const int *, void *, int *, size_t, size_t);
    int n = (int)solver_number(b, 'n', 0), lda = (int)solver_number(b, 'i', 0), lwork = 66 * n + 1;
    const char *job = solver_number(b, 'j', 0) ? "V" : "N", *uplo = solver_number(b, 'u', 0) ? "U" : "L";
    void *a = solver_address(b, 'W', 0), *w = solver_address(b, 'W', 1), *info = solver_address(b, 'F', 0);
    void (*f)(void) = solver_find(b, solver_is_complex(b) ? "heev" : "syev");
    void *work = malloc((size_t)lwork * mt_blas_letter_bytes(b->letter));
    void *rwork = malloc((size_t)(3 * n + 1) * sizeof(double));
    if (f && work && rwork && solver_is_complex(b))
        ((complex *)f)(job, uplo, &n, a, &lda, w, work, &lwork, rwork, info, 1, 1);
    else if (f && work && rwork)
        ((real *)f)(job, uplo, &n, a, &lda, w, work, &lwork, info, 1, 1);
    int rc = f ? solver_memory(b, !work || !rwork) : -1;
    free(work);
    free(rwork);
    return rc;
}

struct singular {
    char jobs[2];
    int m, n, lda, ldu, ldvt;
    void *a, *s, *u, *vt, *info;
};

static int solver_gesvd(const struct mt_blas *b, const struct singular *g)
{
    typedef void real(const char *, const char *, const int *, const int *, void *, const int *, void *,
                      void *, const int *, void *, const int *, void *, const int *, int *, size_t, size_t);
    typedef void complex(const char *, const char *, const int *, const int *, void *, const int *, void *,
                         void *, const int *, void *, const int *, void *, const int *, void *, int *, size_t,
                         size_t);
    int least = g->m < g->n ? g->m : g->n, most = g->m < g->n ? g->n : g->m, lwork = 70 * (most + least) + 1;
    void (*f)(void) = solver_find(b, "gesvd");
    void *work = malloc((size_t)lwork * mt_blas_letter_bytes(b->letter));
    void *rwork = malloc((size_t)(5 * least + 1) * sizeof(double));
    if (f && work && rwork && solver_is_complex(b))
        ((complex *)f)(&g->jobs[0], &g->jobs[1], &g->m, &g->n, g->a, &g->lda, g->s, g->u, &g->ldu, g->vt,
                       &g->ldvt, work, &lwork, rwork, g->info, 1, 1);
    else if (f && work && rwork)
        ((real *)f)(&g->jobs[0], &g->jobs[1], &g->m, &g->n, g->a, &g->lda, g->s, g->u, &g->ldu, g->vt,
                    &g->ldvt, work, &lwork, g->info, 1, 1);
    int rc = f ? solver_memory(b, !work || !rwork) : -1;
    free(work);
    free(rwork);
    return rc;
}

/* gesvdj gives V, not its conjugate transpose. */
static int solver_jacobi(const struct mt_blas *b, struct singular *g)
{
    int vectors = (int)solver_number(b, 'j', 0), econ = (int)solver_number(b, 'e', 0);
    int rows = econ && g->m < g->n ? g->m : g->n, ldv = g->ldvt;
    char *v = g->vt;
    g->jobs[0] = g->jobs[1] = vectors ? econ ? 'S' : 'A' : 'N';
    g->ldvt = g->n > 1 ? g->n : 1;
    g->vt = malloc((size_t)g->ldvt * (size_t)g->n * mt_blas_letter_bytes(b->letter) + 1);
    int rc = g->vt ? solver_gesvd(b, g) : solver_memory(b, 1);
    for (int64_t i = 0; !rc && vectors && i < rows; i++)
        for (int64_t j = 0; j < g->n; j++)
            mt_element_put(b->letter, v, i * ldv + j, ~mt_element_get(b->letter, g->vt, j * g->ldvt + i));
    free(g->vt);
    return rc;
}

int mt_solver_singular(struct mt_blas *b)
{
    int jacobi = mt_blas_find(b, 'j', 0) >= 0;
    struct singular g = {.m = (int)solver_number(b, 'n', 0),
                         .n = (int)solver_number(b, 'n', 1),
                         .lda = (int)solver_number(b, 'i', 0),
                         .ldu = (int)solver_number(b, 'i', 1),
                         .ldvt = (int)solver_number(b, 'i', 2),
                         .a = solver_address(b, 'W', 0),
                         .s = solver_address(b, 'W', 1),
                         .u = solver_address(b, 'W', 2),
                         .vt = solver_address(b, 'W', 3),
                         .info = solver_address(b, 'F', 0)};
    for (int i = 0; i < 2 && !jacobi; i++)
        g.jobs[i] = (char)solver_number(b, 'b', i);
    return jacobi ? solver_jacobi(b, &g) : solver_gesvd(b, &g);
}
