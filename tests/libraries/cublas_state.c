/* cuBLAS: scalars on the device, graphs, errors, and what is no launch. */
#include "cublas.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

void test_device_scalars(void)
{
    struct memory *x = memory_new('D', 10), *y = memory_new('D', 10);
    struct memory *alpha = memory_of('D', 1, (number[]){3}), *sum = memory_of('D', 1, (number[]){0});
    int (*mode)(void *, int) = function("cublasSetPointerMode_v2");
    double s = 0;
    mode(handle, 1);
    snprintf(name, sizeof name, "cublasDaxpy");
    begin();
    for (long i = 0; i < 10; i++)
        put(y, i, get(alpha, 0) * get(x, i) + get(y, i));
    CALL(name, ((int (*)(void *, int, in, in, int, out, int))function("cublasDaxpy_v2"))(
                   handle, 10, alpha->device, x->device, 1, y->device, 1));
    done('D');
    snprintf(name, sizeof name, "cublasDasum");
    begin();
    for (long i = 0; i < 10; i++)
        s += cabs(get(x, i));
    put(sum, 0, s);
    CALL(name, ((int (*)(void *, int, in, int, out))function("cublasDasum_v2"))(handle, 10, x->device, 1,
                                                                                sum->device));
    done('D');
    mode(handle, 0);
}

/* Two launches of a graph with one call. */
void test_graph(void)
{
    struct memory *x = memory_new('S', 10), *y = memory_new('S', 10);
    float two = 2;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int (*set_stream)(void *, cudaStream_t) = function("cublasSetStream_v2");
    snprintf(name, sizeof name, "cublasSaxpy");
    check(!cudaStreamCreate(&stream) && !set_stream(handle, stream), "stream");
    check(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    CALL(name, ((int (*)(void *, int, in, in, int, out, int))function("cublasSaxpy_v2"))(
                   handle, 10, &two, x->device, 1, y->device, 1));
    two = 100; /* the call took it as it was */
    check(!cudaStreamEndCapture(stream, &graph) && !cudaGraphInstantiate(&exec, graph, 0), "graph");
    for (int k = 0; k < 2; k++) {
        begin();
        for (long i = 0; i < 10; i++)
            put(y, i, 2 * get(x, i) + get(y, i));
        check(!cudaGraphLaunch(exec, stream) && !cudaStreamSynchronize(stream), "launch of a graph");
        done('S');
    }
    check(!set_stream(handle, NULL), "default stream");
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
}

void test_errors(void)
{
    float one = 1;
    struct memory *x = memory_new('S', 16);
    int (*gemm)(void *, int, int, int, int, int, in, in, int, in, int, in, out, int) =
        function("cublasSgemm_v2");
    char *p = x->device;
    begin();
    check(gemm(NULL, 0, 0, 2, 2, 2, &one, p, 2, p, 2, &one, p, 2) == 1, "gemm without a handle");
    check(gemm(handle, 0, 0, -1, 2, 2, &one, p, 2, p, 2, &one, p, 2) == 7, "gemm with m < 0");
    check(gemm(handle, 0, 0, 2, 2, 2, &one, p, 1, p, 2, &one, p, 2) == 7, "gemm with lda < m");
    check(gemm(handle, 5, 0, 2, 2, 2, &one, p, 2, p, 2, &one, p, 2) == 7, "gemm with a bad op");
    check(gemm(handle, 0, 0, 2, 2, 2, NULL, p, 2, p, 2, &one, p, 2) == 7, "gemm without alpha");
    check(gemm(handle, 0, 0, 2, 2, 2, &one, NULL, 2, p, 2, &one, p, 2) == 7, "gemm without A");
    check(gemm(handle, 0, 0, 0, 2, 2, &one, NULL, 2, p, 2, &one, p, 2) == 0, "gemm of nothing");
    end_without();
}

void test_management(void)
{
    int v = -1;
    const char *(*status_name)(int) = function("cublasGetStatusName");
    check(!strcmp(status_name(13), "CUBLAS_STATUS_EXECUTION_FAILED"), "cublasGetStatusName");
    check(!((int (*)(void *, int *))function("cublasGetVersion_v2"))(handle, &v) && v >= 130000, "version %d",
          v);
    check(!((int (*)(void *, int))function("cublasSetMathMode"))(handle, 3), "cublasSetMathMode");
    check(!((int (*)(void *, int *))function("cublasGetMathMode"))(handle, &v) && v == 3, "math mode %d", v);
    float from[12], to[12] = {0}, *d;
    for (int i = 0; i < 12; i++)
        from[i] = (float)i;
    cudaMalloc((void **)&d, sizeof from);
    typedef int matrix(int, int, int, in, int, out, int);
    check(!((matrix *)function("cublasSetMatrix"))(2, 3, 4, from, 4, d, 3), "cublasSetMatrix");
    check(!((matrix *)function("cublasGetMatrix"))(2, 3, 4, d, 3, to, 2), "cublasGetMatrix");
    check(to[0] == 0 && to[1] == 1 && to[2] == 4 && to[3] == 5 && to[4] == 8 && to[5] == 9,
          "matrix there and back");
}
