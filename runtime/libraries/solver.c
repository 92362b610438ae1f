/* cuSOLVER: handles, which are those of cuBLAS, sizes and factorisations. Statuses are cuSOLVER's. */
#include "call.h"
#include "library.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Factorisations of square and tall matrices beyond LAPACK's functions: without row exchanges, with 64-bit
 * pivots, and batches with an info for each. */

int mt_solver_getrf(struct mt_blas *b);
int mt_solver_getrs(struct mt_blas *b);
int mt_solver_potrf_batched(struct mt_blas *b);
int mt_solver_getrf_batched(struct mt_blas *b);
int mt_solver_gels_info(struct mt_blas *b);
int mt_solver_gels_batched(struct mt_blas *b);

/* Returns OpenBLAS's function of this name for the call's type, or NULL after a report. */
static void (*factors_find(const struct mt_blas *b, const char *name))(void)
{
    char full[16];
    snprintf(full, sizeof full, "%c%s_", b->letter | 0x20, name);
    return mt_lib_function(MT_LIB_OPENBLAS, full, b->call.name);
}

/* Returns the number of the k-th argument of these kinds. */
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
    int *info; /* index of the first zero pivot, or 0 */
};

static char *factors_element(const struct mt_blas *b, const struct factors *f, int row, int column)
{
    return f->a + ((size_t)column * (size_t)f->lda + (size_t)row) * mt_blas_letter_bytes(b->letter);
}

/* Computes column k of L. Returns 0 if it is undefined because its pivot is 0. */
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

/* Factorises without row exchanges: column by column, everything to the right is updated. */
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

/* Reads pivots for LAPACK. Invalid ones are clamped, since the program's memory may hold anything. */
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

/* Errors that cuBLAS also returns are reported in its way. */
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

/* cuSOLVER's functions with parameters other than LAPACK's: eigenvalues and singular values. */

int mt_solver_type(struct mt_blas *b);
int mt_solver_eigen(struct mt_blas *b);
int mt_solver_singular(struct mt_blas *b);

/* Reads the types: the first is that of the elements, and determines the others. */
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

/* Returns LAPACK's function of this name for the call's type. */
static void (*solver_find(const struct mt_blas *b, const char *name))(void)
{
    char full[16];
    snprintf(full, sizeof full, "%c%s_", b->letter | 0x20, name);
    return mt_lib_function(MT_LIB_OPENBLAS, full, b->call.name);
}

/* Return the k-th argument of this kind, as a number and as an address. */
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

/* gesvdj returns V, not its conjugate transpose. */
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

int impl_cublasCreate_v2(void **out);
int impl_cublasDestroy_v2(void *handle);

enum { NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3 };

int impl_cusolverDnCreate(void **out)
{
    return !out ? INVALID_VALUE : impl_cublasCreate_v2(out) ? ALLOC_FAILED : 0;
}

int impl_cusolverDnDestroy(void *handle)
{
    return impl_cublasDestroy_v2(handle) ? NOT_INITIALIZED : 0;
}

int impl_cusolverDnSetStream(void *handle, void *stream)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h)
        return NOT_INITIALIZED;
    h->stream = stream;
    return 0;
}

int impl_cusolverDnGetStream(void *handle, void **stream)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h || !stream)
        return h ? INVALID_VALUE : NOT_INITIALIZED;
    *stream = h->stream;
    return 0;
}

int impl_cusolverGetVersion(int *version)
{
    if (!version)
        return INVALID_VALUE;
    *version = 12000;
    return 0;
}

int impl_cusolverGetProperty(int what, int *value)
{
    if (what < 0 || what > 2 || !value)
        return INVALID_VALUE;
    *value = what ? 0 : 12;
    return 0;
}

/* Workspaces are not used: any size will do, but a program may not be able to allocate 0 bytes. */
static int solver_size(void *handle, int *size)
{
    if (!mt_blas_handle(handle))
        return NOT_INITIALIZED;
    if (!size)
        return INVALID_VALUE;
    *size = 32;
    return 0;
}

#define SIZES(t, q)                                                                                          \
    int impl_cusolverDn##t##potrf_bufferSize(void *h, int uplo, int n, void *a, int lda, int *size)          \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##potri_bufferSize(void *h, int uplo, int n, void *a, int lda, int *size)          \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##getrf_bufferSize(void *h, int m, int n, void *a, int lda, int *size)             \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##geqrf_bufferSize(void *h, int m, int n, void *a, int lda, int *size)             \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##q##gqr_bufferSize(void *h, int m, int n, int k, const void *a, int lda,          \
                                              const void *tau, int *size)                                    \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##q##mqr_bufferSize(void *h, int side, int trans, int m, int n, int k,             \
                                              const void *a, int lda, const void *tau, const void *c,        \
                                              int ldc, int *size)                                            \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }

SIZES(S, or)
SIZES(D, or)
SIZES(C, un)
SIZES(Z, un)

/* ---- eigenvalues and singular values, and the functions with sizes of 64 bits */

#define MORE_SIZES(t, e)                                                                                     \
    int impl_cusolverDn##t##e##evd_bufferSize(void *h, int job, int uplo, int n, const void *a, int lda,     \
                                              const void *w, int *size)                                      \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##e##evj_bufferSize(void *h, int job, int uplo, int n, const void *a, int lda,     \
                                              const void *w, int *size, void *info)                          \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##gesvd_bufferSize(void *h, int m, int n, int *size)                               \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##gesvdj_bufferSize(void *h, int job, int econ, int m, int n, const void *a,       \
                                              int lda, const void *s, const void *u, int ldu, const void *v, \
                                              int ldv, int *size, void *info)                                \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }

MORE_SIZES(S, sy)
MORE_SIZES(D, sy)
MORE_SIZES(C, he)
MORE_SIZES(Z, he)

static int solver_sizes(void *handle, size_t *device, size_t *host)
{
    if (!mt_blas_handle(handle))
        return NOT_INITIALIZED;
    if (!device || !host)
        return INVALID_VALUE;
    *device = *host = 32;
    return 0;
}

int impl_cusolverDnXpotrf_bufferSize(void *h, void *params, int uplo, int64_t n, int type, const void *a,
                                     int64_t lda, int compute, size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXgetrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type, const void *a,
                                     int64_t lda, int compute, size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXgeqrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type, const void *a,
                                     int64_t lda, int type_tau, const void *tau, int compute, size_t *device,
                                     size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXsyevd_bufferSize(void *h, void *params, int job, int uplo, int64_t n, int type,
                                     const void *a, int64_t lda, int type_w, const void *w, int compute,
                                     size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXgesvd_bufferSize(void *h, void *params, signed char jobu, signed char jobvt, int64_t m,
                                     int64_t n, int type, const void *a, int64_t lda, int type_s,
                                     const void *s, int type_u, const void *u, int64_t ldu, int type_vt,
                                     const void *vt, int64_t ldvt, int compute, size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

/* ---- parameter objects: none of their settings changes a result here */

#define OBJECT(name)                                                                                         \
    int impl_cusolverDnCreate##name(void **out)                                                              \
    {                                                                                                        \
        if (!out)                                                                                            \
            return INVALID_VALUE;                                                                            \
        *out = malloc(1);                                                                                    \
        return *out ? 0 : ALLOC_FAILED;                                                                      \
    }                                                                                                        \
    int impl_cusolverDnDestroy##name(void *p)                                                                \
    {                                                                                                        \
        free(p);                                                                                             \
        return 0;                                                                                            \
    }
OBJECT(Params)
OBJECT(SyevjInfo)
OBJECT(GesvdjInfo)

int impl_cusolverDnSetAdvOptions(void *params, int function, int algorithm)
{
    return params ? 0 : INVALID_VALUE;
}

#define SWEEPS(name)                                                                                         \
    int impl_cusolverDnX##name##SetTolerance(void *p, double tolerance)                                      \
    {                                                                                                        \
        return p ? 0 : INVALID_VALUE;                                                                        \
    }                                                                                                        \
    int impl_cusolverDnX##name##SetMaxSweeps(void *p, int most)                                              \
    {                                                                                                        \
        return p ? 0 : INVALID_VALUE;                                                                        \
    }                                                                                                        \
    int impl_cusolverDnX##name##SetSortEig(void *p, int sorted)                                              \
    {                                                                                                        \
        return p ? 0 : INVALID_VALUE;                                                                        \
    }                                                                                                        \
    int impl_cusolverDnX##name##GetResidual(void *h, void *p, double *residual)                              \
    {                                                                                                        \
        if (residual)                                                                                        \
            *residual = 0;                                                                                   \
        return p && residual ? 0 : INVALID_VALUE;                                                            \
    }                                                                                                        \
    int impl_cusolverDnX##name##GetSweeps(void *h, void *p, int *sweeps)                                     \
    {                                                                                                        \
        if (sweeps)                                                                                          \
            *sweeps = 1;                                                                                     \
        return p && sweeps ? 0 : INVALID_VALUE;                                                              \
    }
SWEEPS(syevj)
SWEEPS(gesvdj)
