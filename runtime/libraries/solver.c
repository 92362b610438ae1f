/* Handles and sizes of cuSOLVER. A handle is one of cuBLAS; statuses are cuSOLVER's. */
#include "call.h"
#include <stdlib.h>

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

/* Workspaces are not used: any size will do, and a program may not allocate 0 bytes. */
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

/* ---- objects that say how: nothing of it changes a result here */

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
