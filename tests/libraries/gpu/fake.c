/* Stands in for NVIDIA's libraries where there is no GPU (tests/gpu/standin): a few functions, which wait for their stream and
 * compute in plain loops. Handles are its own, so that nobody can look into them. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handle {
    void *stream;
    int mode; /* of pointers; of a plan: elements, of a generator: the next number */
};

/* NVIDIA's libraries have a CUDA runtime of their own. */
static void fake_wait(void *stream)
{
    void *cudart = dlopen(getenv("MEMTRACE_CUDART"), RTLD_NOW);
    int (*wait)(void *) = cudart ? (int (*)(void *))dlsym(cudart, "cudaStreamSynchronize") : NULL;
    if (!wait || wait(stream))
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
int cublasSgemm_v2(struct handle *h, int transa, int transb, int m, int n, int k, const float *alpha, const float *a,
                   int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
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
                       const float *const *a, int lda, const float *const *b, int ldb, const float *beta, float *const *c,
                       int ldc, int count)
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
