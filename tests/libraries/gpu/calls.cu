// Kernels and calls of libraries in one stream of a GPU; prints what each call must read and write. argv[1]:
// one of them is not known.
#include <cstdio>
#include <curand.h> // which clang includes itself
extern "C" {
int cublasCreate_v2(void **handle);
int cublasSetStream_v2(void *handle, cudaStream_t stream);
int cublasSetPointerMode_v2(void *handle, int mode);
int cublasSaxpy_v2(void *handle, int n, const float *alpha, const float *x, int incx, float *y, int incy);
int cublasSgemm_v2(void *handle, int transa, int transb, int m, int n, int k, const float *alpha,
                   const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
int cublasSgemmBatched(void *handle, int transa, int transb, int m, int n, int k, const float *alpha,
                       float **a, int lda, float **b, int ldb, const float *beta, float **c, int ldc,
                       int count);
int cublasSgelsBatched(void *handle);
int cublasLtMatmulDescCreate(void **d, int compute, int scale);
int cublasLtMatmulDescSetAttribute(void *d, int number, const void *value, size_t bytes);
int cublasLtMatrixLayoutCreate(void **l, int type, size_t rows, size_t cols, long ld);
int cublasLtMatmul(void *handle, void *d, const float *alpha, const float *a, void *la, const float *b,
                   void *lb, const float *beta, const float *c, void *lc, float *out, void *lout,
                   void *algorithm, void *workspace, size_t bytes, cudaStream_t stream);
int cusparseCreate(void **handle);
int cusparseSetStream(void *handle, cudaStream_t stream);
int cusparseCreateCsr(void **m, long rows, long cols, long entries, void *offsets, void *columns,
                      void *values, int, int, int, int);
int cusparseCreateDnVec(void **v, long rows, void *values, int type);
int cusparseSpMV(void *handle, int op, const float *alpha, void *a, void *x, const float *beta, void *y,
                 int type, int, void *);
int cusolverDnCreate(void **handle);
int cusolverDnSetStream(void *handle, cudaStream_t stream);
int cusolverDnSpotrf(void *handle, int upper, int n, float *a, int lda, float *work, int lwork, int *info);
int cufftPlan1d(int *plan, int n, int type, int batch);
int cufftSetStream(int plan, cudaStream_t stream);
int cufftExecC2C(int plan, void *in, void *out, int sign);
}

__global__ void fill(float *p, float v)
{
    p[threadIdx.x] = v;
}
__global__ void twice(float *p)
{
    p[threadIdx.x] *= 2;
}

static int bad;
static void calls_expect(int good, const char *what)
{
    if (!good)
        std::fprintf(stderr, "%s\n", what);
    bad |= !good;
}

static void calls_columns(char kind, const float *p, int rows, int cols, int ld)
{
    for (int j = 0; j < cols; j++)
        std::printf(" %c%p+%d", kind, (const void *)(p + j * ld), rows * 4);
}

static void calls_gemm(const float *a, const float *b, const float *c, int sum)
{
    calls_columns('r', a, 2, 4, 3);
    calls_columns('r', b, 4, 3, 5);
    if (sum)
        calls_columns('r', c, 2, 3, 4);
    calls_columns('w', c, 2, 3, 4);
}

/* As the batch before, of one; with `scale` something that memtrace does not know takes part. */
static void calls_lt(void *handle, cudaStream_t s, const float *a, const float *b, float *c,
                     const float *scale)
{
    void *d, *la, *lb, *lc;
    float one = 1, zero = 0;
    calls_expect(!cublasLtMatmulDescCreate(&d, 68, 0) && !cublasLtMatrixLayoutCreate(&la, 0, 2, 4, 3) &&
                     !cublasLtMatrixLayoutCreate(&lb, 0, 4, 3, 5) &&
                     !cublasLtMatrixLayoutCreate(&lc, 0, 2, 3, 4),
                 "descriptors");
    if (scale)
        cublasLtMatmulDescSetAttribute(d, 17, &scale, sizeof scale);
    else {
        std::printf("call cublasLtMatmul");
        calls_gemm(a, b, c, 0);
        std::printf("\n");
    }
    calls_expect(!cublasLtMatmul(handle, d, &one, a, la, b, lb, &zero, c, lc, c, lc, nullptr, nullptr, 0, s),
                 "Lt");
}

/* 1 2 0 0 / 0 0 0 3 times x: its third element is not read. */
static void calls_sparse(cudaStream_t s, float *x, float *y)
{
    int *indices, host[] = {0, 2, 3, 0, 1, 3};
    float *values, one = 1, zero = 0, of_host[] = {1, 2, 3}, got[2];
    void *handle, *m, *vx, *vy;
    cudaMalloc(&indices, sizeof host);
    cudaMalloc(&values, sizeof of_host);
    cudaMemcpy(indices, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemcpy(values, of_host, sizeof of_host, cudaMemcpyHostToDevice);
    calls_expect(!cusparseCreate(&handle) && !cusparseSetStream(handle, s) &&
                     !cusparseCreateCsr(&m, 2, 4, 3, indices, indices + 3, values, 2, 2, 0, 0) &&
                     !cusparseCreateDnVec(&vx, 4, x, 0) && !cusparseCreateDnVec(&vy, 2, y, 0),
                 "sparse matrix");
    std::printf("call cusparseSpMV r%p+24 r%p+12 r%p+8 r%p+4 w%p+8\n", (void *)indices, (void *)values,
                (void *)x, (void *)(x + 3), (void *)y);
    calls_expect(!cusparseSpMV(handle, 0, &one, m, vx, &zero, vy, 0, 0, nullptr), "sparse product");
    cudaMemcpy(got, y, sizeof got, cudaMemcpyDeviceToHost);
    calls_expect(got[0] == 2 && got[1] == 0.75F, "sums of the sparse product");
}

static void calls_solver(cudaStream_t s, float *a, float *work)
{
    void *handle;
    int *info;
    cudaMalloc(&info, sizeof *info);
    calls_expect(!cusolverDnCreate(&handle) && !cusolverDnSetStream(handle, s), "solver");
    std::printf("call cusolverDnSpotrf w%p+4", (void *)info);
    for (int j = 0; j < 3; j++)
        std::printf(" r%p+%d w%p+%d", (void *)(a + 6 * j), 4 * (3 - j), (void *)(a + 6 * j), 4 * (3 - j));
    std::printf("\n");
    calls_expect(!cusolverDnSpotrf(handle, 0, 3, a, 5, work, 8, info), "potrf");
}

static void calls_captured(void *handle, cudaStream_t s, float *x, float *y)
{
    cudaGraph_t graph;
    float one = 1;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    calls_expect(!cublasSaxpy_v2(handle, 4, &one, x, 1, y, 1), "captured");
    calls_expect(!cudaStreamEndCapture(s, &graph), "graph");
}

int main(int argc, char **argv)
{
    cudaStream_t s;
    void *handle;
    curandGenerator_t generator;
    int plan;
    float *x, *a, *b, *c, *scalars, **pointers, alpha = 3, host[256];
    cudaStreamCreate(&s);
    cudaMalloc(&x, 1024);
    cudaMalloc(&a, 1024);
    cudaMalloc(&b, 1024);
    cudaMalloc(&c, 1024);
    cudaMalloc(&scalars, 8);
    cudaMalloc(&pointers, 6 * sizeof *pointers);
    calls_expect(!cublasCreate_v2(&handle) && !cublasSetStream_v2(handle, s) &&
                     !cufftPlan1d(&plan, 8, 0x29, 2) && !cufftSetStream(plan, s) &&
                     !curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_XORWOW) &&
                     !curandSetStream(generator, s),
                 "handles");
    fill<<<1, 256, 0, s>>>(x, 1);
    fill<<<1, 256, 0, s>>>(a, 2);
    fill<<<1, 256, 0, s>>>(b, 3);
    fill<<<1, 256, 0, s>>>(c, 4);
    std::printf("call cublasSaxpy");
    for (int i = 0; i < 8; i++)
        std::printf(" r%p+4", (void *)(x + 2 * i));
    std::printf(" r%p+32 w%p+32\n", (void *)c, (void *)c);
    calls_expect(!cublasSaxpy_v2(handle, 8, &alpha, x, 2, c, 1), "axpy");
    twice<<<1, 64, 0, s>>>(c);
    cudaMemcpyAsync(host, c, 256, cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    for (int i = 0; i < 64; i++)
        calls_expect(host[i] == (i < 8 ? 14 : 8), "axpy between kernels");
    // alpha and beta are on the device: beta is 0 there when the stream comes to it, and then 1
    cublasSetPointerMode_v2(handle, 1);
    for (int sum = 0; sum < 2; sum++) {
        fill<<<1, 1, 0, s>>>(scalars, 1);
        fill<<<1, 1, 0, s>>>(scalars + 1, (float)sum);
        std::printf("call cublasSgemm r%p+8", (void *)scalars);
        calls_gemm(a, b, c, sum);
        std::printf("\n");
        calls_expect(!cublasSgemm_v2(handle, 0, 0, 2, 3, 4, scalars, a, 3, b, 5, scalars + 1, c, 4), "gemm");
    }
    cudaMemcpy(host, c, 64, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 12; i++)
        calls_expect(host[i] == (i % 4 < 2 ? 48 : i < 8 ? 14 : 8), "gemm with gaps");
    cublasSetPointerMode_v2(handle, 0);
    float one = 1, zero = 0, *batch[6] = {a, a + 64, b, b + 64, c, c + 64};
    cudaMemcpy(pointers, batch, sizeof batch, cudaMemcpyHostToDevice);
    std::printf("call cublasSgemmBatched r%p+48", (void *)pointers);
    calls_gemm(a, b, c, 0);
    calls_gemm(a + 64, b + 64, c + 64, 0);
    std::printf("\n");
    calls_expect(!cublasSgemmBatched(handle, 0, 0, 2, 3, 4, &one, pointers, 3, pointers + 2, 5, &zero,
                                     pointers + 4, 4, 2),
                 "batch");
    std::printf("call curandGenerateUniform w%p+60\n", (void *)x);
    calls_expect(!curandGenerateUniform(generator, x, 15), "numbers");
    std::printf("call cufftExecC2C r%p+128 w%p+128\n", (void *)x, (void *)b);
    calls_expect(!cufftExecC2C(plan, x, b, -1), "transform");
    cudaMemcpy(host, b, 64, cudaMemcpyDeviceToHost);
    calls_expect(host[0] == 1 && host[14] == 1.0F / 15 && host[15] == 1, "numbers, transformed");
    calls_lt(handle, s, a, b, c, nullptr);
    calls_sparse(s, x, c);
    calls_solver(s, a, x);
    if (argc > 3)
        calls_captured(handle, s, x, c);
    else if (argc > 2)
        calls_lt(handle, s, a, b, c, scalars);
    else if (argc > 1)
        calls_expect(!cublasSgelsBatched(handle), "what is not known");
    twice<<<1, 64, 0, s>>>(b);
    calls_expect(!cudaDeviceSynchronize(), "end");
    return bad;
}
