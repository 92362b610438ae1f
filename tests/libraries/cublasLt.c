/* cublasLtMatmul next to a triple loop: orders, transposes, batches, epilogues. */
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>

enum { M = 4, N = 3, K = 5, BATCHES = 2 };
static void *handle;

struct matrix {
    struct memory *m;
    void *layout;
    int order;
    long ld, stride;
};

static int cuda_type(char t)
{
    return t == 'S' ? 0 : t == 'D' ? 1 : t == 'H' ? 2 : t == 'i' ? 3 : t == 'I' ? 10 : 14;
}

static void set_attribute(const char *of, void *d, int number, const void *value, size_t bytes)
{
    int (*f)(void *, int, const void *, size_t) = function("cublasLt%sSetAttribute", of);
    check(!f(d, number, value, bytes), "attribute %d of a %s", number, of);
}

static struct matrix cublasLt_matrix(char t, int order, long rows, long cols)
{
    struct matrix a = {memory_new(t, 120), NULL, order, (order ? cols : rows) + 2, 55};
    int (*create)(void **, int, uint64_t, uint64_t, int64_t) = function("cublasLtMatrixLayoutCreate");
    int batches = BATCHES;
    check(!create(&a.layout, cuda_type(t), (uint64_t)rows, (uint64_t)cols, a.ld), "layout");
    set_attribute("MatrixLayout", a.layout, 1, &order, sizeof order);
    set_attribute("MatrixLayout", a.layout, 5, &batches, sizeof batches);
    set_attribute("MatrixLayout", a.layout, 6, &(int64_t){a.stride}, sizeof(int64_t));
    return a;
}

static long cublasLt_at(const struct matrix *a, long i, long j, long batch)
{
    return batch * a->stride + (a->order ? i * a->ld + j : j * a->ld + i);
}

static number cublasLt_after(unsigned epilogue, number v)
{
    double x = creal(v);
    if (epilogue & 2)
        return x > 0 ? x : 0;
    return epilogue & 32 ? 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) : v;
}

struct product {
    char ab, cd, scalar;
    int compute, transa, transb, order_a, order_b, order_d;
    unsigned epilogue;
    double alpha, beta;
};

static void cublasLt_test(struct product p)
{
    struct matrix A = cublasLt_matrix(p.ab, p.order_a, p.transa ? K : M, p.transa ? M : K);
    struct matrix B = cublasLt_matrix(p.ab, p.order_b, p.transb ? N : K, p.transb ? K : N);
    struct matrix C = cublasLt_matrix(p.cd, p.order_d, M, N), D = cublasLt_matrix(p.cd, p.order_d, M, N);
    struct memory *bias = memory_new(p.cd, M);
    void *desc;
    char alpha[8], beta[8];
    set(p.scalar, alpha, 0, p.alpha);
    set(p.scalar, beta, 0, p.beta);
    check(!((int (*)(void **, int, int))function("cublasLtMatmulDescCreate"))(&desc, p.compute,
                                                                              cuda_type(p.scalar)),
          "desc");
    set_attribute("MatmulDesc", desc, 3, &p.transa, sizeof p.transa);
    set_attribute("MatmulDesc", desc, 4, &p.transb, sizeof p.transb);
    set_attribute("MatmulDesc", desc, 7, &p.epilogue, sizeof p.epilogue);
    set_attribute("MatmulDesc", desc, 8, &bias->device, sizeof bias->device);
    begin();
    for (long b = 0; b < BATCHES; b++)
        for (long i = 0; i < M; i++)
            for (long j = 0; j < N; j++) {
                number sum = 0;
                for (long k = 0; k < K; k++)
                    sum += get(A.m, p.transa ? cublasLt_at(&A, k, i, b) : cublasLt_at(&A, i, k, b)) *
                           get(B.m, p.transb ? cublasLt_at(&B, j, k, b) : cublasLt_at(&B, k, j, b));
                sum = p.alpha * sum + (p.beta != 0 ? p.beta * get(C.m, cublasLt_at(&C, i, j, b)) : 0);
                sum += p.epilogue & 4 ? get(bias, i) : 0;
                put(D.m, cublasLt_at(&D, i, j, b), cublasLt_after(p.epilogue, sum));
            }
    int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *, const void *,
                  const void *, void *, void *, void *, const void *, void *, size_t, cudaStream_t) =
        function("cublasLtMatmul");
    int status = matmul(handle, desc, alpha, A.m->device, A.layout, B.m->device, B.layout, beta, C.m->device,
                        C.layout, D.m->device, D.layout, NULL, NULL, 0, NULL);
    check(!status, "cublasLtMatmul: status %d", status);
    end("cublasLtMatmul", tolerance_of(p.cd));
}

/* A program asks for a way to compute, and gets one. */
static void test_heuristic(void)
{
    struct matrix A = cublasLt_matrix('S', 0, M, K), B = cublasLt_matrix('S', 0, K, N),
                  D = cublasLt_matrix('S', 0, M, N);
    void *desc, *preference;
    char results[96];
    int count = -1;
    ((int (*)(void **, int, int))function("cublasLtMatmulDescCreate"))(&desc, 68, 0);
    check(!((int (*)(void **))function("cublasLtMatmulPreferenceCreate"))(&preference), "preference");
    set_attribute("MatmulPreference", preference, 1, &(size_t){1 << 20}, sizeof(size_t));
    int (*heuristic)(void *, void *, void *, void *, void *, void *, void *, int, void *, int *) =
        function("cublasLtMatmulAlgoGetHeuristic");
    check(!heuristic(handle, desc, A.layout, B.layout, D.layout, D.layout, preference, 1, results, &count) &&
              count == 1,
          "heuristic: %d", count);
    check(heuristic(handle, desc, B.layout, B.layout, D.layout, D.layout, preference, 1, results, &count) ==
              7,
          "shapes");
}

int main(void)
{
    check(!((int (*)(void **))function("cublasLtCreate"))(&handle), "cublasLtCreate");
    for (int i = 0; i < 32; i++)
        cublasLt_test((struct product){'D', 'D', 'D', 70, i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3 & 1, i >> 4,
                                       1, 2, i % 3});
    for (unsigned e = 0; e < 2; e++) {
        cublasLt_test((struct product){'S', 'S', 'S', 68, 1, 0, 0, 0, (int)e, 4, 1, 0});
        cublasLt_test((struct product){'S', 'S', 'S', 68, 1, 0, 0, 0, (int)e, 2 | 4, 1, 1});
        cublasLt_test((struct product){'S', 'S', 'S', 68, 1, 0, 0, 0, (int)e, 32 | 4, 0.125, 0});
    }
    cublasLt_test((struct product){'H', 'H', 'S', 68, 1, 0, 0, 0, 0, 32, 0.125, 1});
    cublasLt_test((struct product){'B', 'B', 'S', 68, 1, 0, 0, 0, 0, 1, 0.125, 0});
    cublasLt_test((struct product){'i', 'I', 'I', 72, 1, 0, 0, 0, 0, 1, 1, 0});
    test_heuristic();
    check(!((int (*)(void *))function("cublasLtDestroy"))(handle), "cublasLtDestroy");
    return failures ? 1 : 0;
}
