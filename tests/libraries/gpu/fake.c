/* Stands in for NVIDIA's libraries where there is no GPU (tests/gpu/standin): a few functions, which wait for
 * their stream and compute in plain loops. Handles are its own, so that nobody can look into them. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handle {
    void *stream;
    int mode; /* of pointers; of a plan: elements, of a generator: the next number */
};

/* NVIDIA's libraries have a CUDA runtime of their own. What is captured is computed at once. */
static void fake_wait(void *stream)
{
    void *cudart = dlopen(getenv("MEMTRACE_CUDART"), RTLD_NOW);
    int (*wait)(void *) = cudart ? (int (*)(void *))dlsym(cudart, "cudaStreamSynchronize") : NULL;
    int (*captured)(void *, int *) =
        cudart ? (int (*)(void *, int *))dlsym(cudart, "cudaStreamIsCapturing") : NULL;
    int is = 0;
    if (!wait || !captured || captured(stream, &is) || (!is && wait(stream)))
        fprintf(stderr, "fake: the stream cannot be waited for\n");
}

int cublasCreate_v2(struct handle **h)
{
    *h = calloc(1, sizeof **h);
    return !*h;
}

int cublasSetStream_v2(struct handle *h, void *stream)
{
    h->stream = stream;
    return 0;
}

int cublasGetStream_v2(struct handle *h, void **stream)
{
    *stream = h->stream;
    return 0;
}

int cublasSetPointerMode_v2(struct handle *h, int mode)
{
    h->mode = mode;
    return 0;
}

int cublasGetPointerMode_v2(struct handle *h, int *mode)
{
    *mode = h->mode;
    return 0;
}

int cublasSaxpy_v2(struct handle *h, int n, const float *alpha, const float *x, int incx, float *y, int incy)
{
    fake_wait(h->stream);
    for (int i = 0; i < n; i++)
        y[i * incy] += *alpha * x[i * incx];
    return n < 0 ? 7 : 0;
}

/* Neither is transposed. */
int cublasSgemm_v2(struct handle *h, int transa, int transb, int m, int n, int k, const float *alpha,
                   const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    fake_wait(h->stream);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[l * lda + i] * b[j * ldb + l];
            c[j * ldc + i] = *alpha * sum + (*beta ? *beta * c[j * ldc + i] : 0);
        }
    return transa || transb ? 15 : 0;
}

int cublasSgemmBatched(struct handle *h, int transa, int transb, int m, int n, int k, const float *alpha,
                       const float *const *a, int lda, const float *const *b, int ldb, const float *beta,
                       float *const *c, int ldc, int count)
{
    fake_wait(h->stream);
    int status = 0;
    for (int i = 0; i < count; i++)
        status |= cublasSgemm_v2(h, transa, transb, m, n, k, alpha, a[i], lda, b[i], ldb, beta, c[i], ldc);
    return status;
}

/* A function that memtrace has no table for. */
int cublasSgelsBatched(struct handle *h)
{
    return h ? 0 : 1;
}

static struct handle plans[8];

int cufftPlan1d(int *plan, int n, int type, int batch)
{
    static int last = 2;
    *plan = ++last;
    plans[last].mode = n * batch;
    return type != 0x29;
}

int cufftSetStream(int plan, void *stream)
{
    plans[plan].stream = stream;
    return 0;
}

/* Not a transform, but each element is read and written. */
int cufftExecC2C(int plan, const uint64_t *in, uint64_t *out, int sign)
{
    fake_wait(plans[plan].stream);
    for (int i = 0; i < plans[plan].mode; i++)
        out[i] = in[i];
    return sign != 1 && sign != -1;
}

int curandCreateGenerator(struct handle **g, int type)
{
    return cublasCreate_v2(g) || !type;
}

int curandSetStream(struct handle *g, void *stream)
{
    return cublasSetStream_v2(g, stream);
}

int curandGenerateUniform(struct handle *g, float *out, size_t n)
{
    fake_wait(g->stream);
    for (size_t i = 0; i < n; i++)
        out[i] = 1.0F / (float)++g->mode;
    return 0;
}

/* Descriptors of cuBLASLt: an attribute is the beginning of a word. */
int cublasLtMatmulDescCreate(int64_t **out, int compute, int scale)
{
    *out = calloc(64, sizeof **out);
    (*out)[0] = compute;
    (*out)[1] = scale;
    (*out)[6] = 2;   /* both triangles */
    (*out)[7] = 1;   /* no epilogue */
    (*out)[26] = -1; /* the bias' type is the result's */
    return 0;
}

int cublasLtMatrixLayoutCreate(int64_t **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    *out = calloc(64, sizeof **out);
    (*out)[0] = type;
    (*out)[2] = (int64_t)rows;
    (*out)[3] = (int64_t)cols;
    (*out)[4] = ld;
    (*out)[5] = 1;
    return 0;
}

int cublasLtMatmulDescSetAttribute(int64_t *d, int number, const void *from, size_t bytes)
{
    memcpy(&d[number], from, bytes);
    return 0;
}

int cublasLtMatmulDescGetAttribute(const int64_t *d, int number, void *to, size_t bytes, size_t *written)
{
    *written = bytes;
    memcpy(to, &d[number], bytes);
    return 0;
}

int cublasLtMatrixLayoutGetAttribute(const int64_t *d, int number, void *to, size_t bytes, size_t *written)
{
    return cublasLtMatmulDescGetAttribute(d, number, to, bytes, written);
}

int cublasLtMatmul(struct handle *h, const int64_t *d, const float *alpha, const float *a, const int64_t *la,
                   const float *b, const int64_t *lb, const float *beta, const float *c, const int64_t *lc,
                   float *out, const int64_t *lout, const void *algorithm, void *workspace, size_t bytes,
                   void *stream)
{
    struct handle in = {stream, 0};
    return c != out || lc[4] != lout[4] || !h || !d || algorithm || workspace || bytes ||
           cublasSgemm_v2(&in, 0, 0, (int)la[2], (int)lb[3], (int)la[3], alpha, a, (int)la[4], b, (int)lb[4],
                          beta, out, (int)lout[4]);
}

/* Matrices of cuSPARSE: words, too. */
int cusparseCreate(struct handle **h)
{
    return cublasCreate_v2(h);
}

int cusparseGetStream(struct handle *h, void **stream)
{
    return cublasGetStream_v2(h, stream);
}

int cusparseSetStream(struct handle *h, void *stream)
{
    return cublasSetStream_v2(h, stream);
}

int cusparseGetPointerMode(struct handle *h, int *mode)
{
    return cublasGetPointerMode_v2(h, mode);
}

struct matrix {
    int64_t rows, cols, entries;
    const int *offsets, *columns;
    float *values;
};

int cusparseCreateCsr(struct matrix **out, int64_t rows, int64_t cols, int64_t entries, const int *offsets,
                      const int *columns, float *values, int offset_type, int column_type, int base, int type)
{
    *out = malloc(sizeof **out);
    **out = (struct matrix){rows, cols, entries, offsets, columns, values};
    return offset_type != 2 || column_type != 2 || base || type;
}

int cusparseConstCsrGet(const struct matrix *m, int64_t *rows, int64_t *cols, int64_t *entries,
                        const int **offsets, const int **columns, const float **values, int *offset_type,
                        int *column_type, int *base, int *type)
{
    *rows = m->rows, *cols = m->cols, *entries = m->entries;
    *offsets = m->offsets, *columns = m->columns, *values = m->values;
    *offset_type = *column_type = 2; /* 32 bits */
    *base = *type = 0;
    return 0;
}

int cusparseConstCooGet(void)
{
    return 3;
}

int cusparseSpMatGetFormat(const struct matrix *m, int *format)
{
    *format = 1;
    return !m;
}

int cusparseSpMatGetStridedBatch(const struct matrix *m, int *count)
{
    *count = 0;
    return !m;
}

int cusparseCreateDnVec(struct matrix **out, int64_t rows, float *values, int type)
{
    *out = malloc(sizeof **out);
    **out = (struct matrix){rows, 1, rows, NULL, NULL, values};
    return type;
}

int cusparseConstDnVecGet(const struct matrix *m, int64_t *rows, const float **values, int *type)
{
    *rows = m->rows, *values = m->values, *type = 0;
    return 0;
}

int cusparseSpMV(struct handle *h, int op, const float *alpha, const struct matrix *a, const struct matrix *x,
                 const float *beta, struct matrix *y, int type, int algorithm, void *buffer)
{
    fake_wait(h->stream);
    for (int64_t i = 0; i < a->rows; i++) {
        float sum = 0;
        for (int at = a->offsets[i]; at < a->offsets[i + 1]; at++)
            sum += a->values[at] * x->values[a->columns[at]];
        y->values[i] = *alpha * sum + (*beta ? *beta * y->values[i] : 0);
    }
    return op || type || algorithm || buffer;
}

int cusolverDnCreate(struct handle **h)
{
    return cublasCreate_v2(h);
}

int cusolverDnSetStream(struct handle *h, void *stream)
{
    return cublasSetStream_v2(h, stream);
}

int cusolverDnGetStream(struct handle *h, void **stream)
{
    return cublasGetStream_v2(h, stream);
}

/* Not a factorisation, but the lower triangle is read and written. */
int cusolverDnSpotrf(struct handle *h, int upper, int n, float *a, int lda, float *work, int lwork, int *info)
{
    fake_wait(h->stream);
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++)
            a[j * lda + i] += 1;
    *info = 0;
    return upper || !work || !lwork;
}
