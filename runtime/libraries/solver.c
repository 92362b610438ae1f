/* Handles and sizes of cuSOLVER. A handle is one of cuBLAS; statuses are cuSOLVER's. */
#include "blas.h"

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
