/* Handles of cuBLAS, and what it says of itself. */
#include "call.h"
#include "library.h"
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x6d74626c61730001ull
enum { VERSION_MAJOR = 13, VERSION_MINOR = 0, VERSION_PATCH = 0 };

struct mt_blas_handle *mt_blas_handle(void *handle)
{
    struct mt_blas_handle *h = handle;
    return h && h->magic == MAGIC ? h : NULL;
}

int impl_cublasCreate_v2(void **out)
{
    if (!out)
        return MT_BLAS_INVALID_VALUE;
    struct mt_blas_handle *h = calloc(1, sizeof *h);
    if (!h)
        return MT_BLAS_ALLOC_FAILED;
    h->magic = MAGIC;
    *out = h;
    return MT_BLAS_OK;
}

/* As the library does, it waits for what it has under way. */
int impl_cublasDestroy_v2(void *handle)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h)
        return MT_BLAS_NOT_INITIALIZED;
    h->magic = 0;
    free(h);
    return MT_BLAS_OK;
}

/* Set and get of one field; `good` is about the value. */
#define FIELD(set, get, type, field, good)                                                                   \
    int impl_##set(void *handle, type value)                                                                 \
    {                                                                                                        \
        struct mt_blas_handle *h = mt_blas_handle(handle);                                                   \
        if (!h)                                                                                              \
            return MT_BLAS_NOT_INITIALIZED;                                                                  \
        if (!(good))                                                                                         \
            return MT_BLAS_INVALID_VALUE;                                                                    \
        h->field = value;                                                                                    \
        return MT_BLAS_OK;                                                                                   \
    }                                                                                                        \
    int impl_##get(void *handle, type *value)                                                                \
    {                                                                                                        \
        struct mt_blas_handle *h = mt_blas_handle(handle);                                                   \
        if (!h)                                                                                              \
            return MT_BLAS_NOT_INITIALIZED;                                                                  \
        if (!value)                                                                                          \
            return MT_BLAS_INVALID_VALUE;                                                                    \
        *value = h->field;                                                                                   \
        return MT_BLAS_OK;                                                                                   \
    }

FIELD(cublasSetStream_v2, cublasGetStream_v2, void *, stream, 1)
FIELD(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode, value == 0 || value == 1)
FIELD(cublasSetMathMode, cublasGetMathMode, int, math_mode, value >= 0)
FIELD(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode, value == 0 || value == 1)
FIELD(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sms, value >= 0)

/* Kept, and not needed: nothing is written to it. */
int impl_cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h)
        return MT_BLAS_NOT_INITIALIZED;
    if ((uintptr_t)workspace % 256)
        return MT_BLAS_INVALID_VALUE;
    h->workspace = workspace;
    h->workspace_bytes = bytes;
    return MT_BLAS_OK;
}

int impl_cublasGetVersion_v2(void *handle, int *version)
{
    if (!version)
        return MT_BLAS_INVALID_VALUE;
    *version = VERSION_MAJOR * 10000 + VERSION_MINOR * 100 + VERSION_PATCH;
    return MT_BLAS_OK;
}

size_t impl_cublasGetCudartVersion(void)
{
    return VERSION_MAJOR * 1000 + VERSION_MINOR * 10;
}

int impl_cublasGetProperty(int what, int *value)
{
    static const int parts[] = {VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH};
    if (what < 0 || what > 2 || !value)
        return MT_BLAS_INVALID_VALUE;
    *value = parts[what];
    return MT_BLAS_OK;
}

static const struct {
    int status;
    const char *name, *words;
} statuses[] = {
    {0, "CUBLAS_STATUS_SUCCESS", "success"},
    {1, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {3, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {7, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed to the function"},
    {8, "CUBLAS_STATUS_ARCH_MISMATCH", "the device lacks a feature that is needed"},
    {11, "CUBLAS_STATUS_MAPPING_ERROR", "memory could not be accessed"},
    {13, "CUBLAS_STATUS_EXECUTION_FAILED", "the program failed to execute on the device"},
    {14, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {15, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported"},
    {16, "CUBLAS_STATUS_LICENSE_ERROR", "a licence could not be checked"},
};

const char *impl_cublasGetStatusName(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "UNKNOWN";
}

const char *impl_cublasGetStatusString(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].words;
    return "unknown status";
}

/* There is no log: the settings have nothing to act upon. */
int impl_cublasLoggerConfigure(int on, int to_stdout, int to_stderr, const char *file)
{
    return MT_BLAS_OK;
}

static void (*logger)(const char *);

int impl_cublasSetLoggerCallback(void (*callback)(const char *))
{
    logger = callback;
    return MT_BLAS_OK;
}

int impl_cublasGetLoggerCallback(void (**callback)(const char *))
{
    if (!callback)
        return MT_BLAS_INVALID_VALUE;
    *callback = logger;
    return MT_BLAS_OK;
}

/* ---- vectors and matrices between host and device: copies, and recorded as such */

int cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                 int kind);
int cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                      int kind, void *stream);

enum { TO_DEVICE = 1, TO_HOST = 2 };

struct copy {
    const void *from;
    void *to;
    int64_t from_ld, to_ld; /* elements */
    size_t element;
    int64_t rows, cols;
    int kind, async;
    void *stream;
};

static int handle_copy(const struct copy *c)
{
    size_t dpitch = (size_t)c->to_ld * c->element, spitch = (size_t)c->from_ld * c->element;
    size_t width = (size_t)c->rows * c->element, height = (size_t)c->cols;
    if (c->rows < 0 || c->cols < 0 || !c->element || c->from_ld < 1 || c->to_ld < 1)
        return MT_BLAS_INVALID_VALUE;
    if (!c->rows || !c->cols)
        return MT_BLAS_OK;
    if (!c->from || !c->to || c->from_ld < c->rows || c->to_ld < c->rows)
        return MT_BLAS_INVALID_VALUE;
    int e = c->async ? cudaMemcpy2DAsync(c->to, dpitch, c->from, spitch, width, height, c->kind, c->stream)
                     : cudaMemcpy2D(c->to, dpitch, c->from, spitch, width, height, c->kind);
    return e ? MT_BLAS_MAPPING_ERROR : MT_BLAS_OK;
}

/* A vector is a matrix of one row. */
#define COPIES(name, kind_, number, suffix)                                                                  \
    int impl_cublas##name##Vector##suffix(number n, number bytes, const void *x, number incx, void *y,       \
                                          number incy)                                                       \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){x, y, incx, incy, bytes > 0 ? (size_t)bytes : 0, 1, n, kind_, 0, 0});             \
    }                                                                                                        \
    int impl_cublas##name##VectorAsync##suffix(number n, number bytes, const void *x, number incx, void *y,  \
                                               number incy, void *stream)                                    \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){x, y, incx, incy, bytes > 0 ? (size_t)bytes : 0, 1, n, kind_, 1, stream});        \
    }                                                                                                        \
    int impl_cublas##name##Matrix##suffix(number rows, number cols, number bytes, const void *a, number lda, \
                                          void *b, number ldb)                                               \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){a, b, lda, ldb, bytes > 0 ? (size_t)bytes : 0, rows, cols, kind_, 0, 0});         \
    }                                                                                                        \
    int impl_cublas##name##MatrixAsync##suffix(number rows, number cols, number bytes, const void *a,        \
                                               number lda, void *b, number ldb, void *stream)                \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){a, b, lda, ldb, bytes > 0 ? (size_t)bytes : 0, rows, cols, kind_, 1, stream});    \
    }

COPIES(Set, TO_DEVICE, int, )
COPIES(Get, TO_HOST, int, )
COPIES(Set, TO_DEVICE, int64_t, _64)
COPIES(Get, TO_HOST, int64_t, _64)
