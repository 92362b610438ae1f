/* Calls that fail on the device, one each run: what is in the trace then (cases.py). Memory is A, B and C
 * with 64 floats each, filled before; a copy and a fill are behind the call, in its stream. */
#include "model.h"
#include <cuda_runtime_api.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { FLOATS = 64 };
static float *a, *b, *c;
static void *blas, *sparse;
static const float one = 1;

static sem_t go_on;

static void failed_wait(void *unused)
{
    sem_wait(&go_on);
}

/* From here on, what the stream gets waits until all of it is there. */
static void failed_hold(void)
{
    cudaLaunchHostFunc(NULL, failed_wait, NULL);
}

static void failed_fft(void)
{
    int plan, (*make)(int *, int, int, int) = function("cufftPlan1d");
    int (*run)(int, void *, void *, int) = function("cufftExecC2C");
    check(!make(&plan, 8, 0x29, 5), "cufftPlan1d"); /* four fit */
    failed_hold();
    check(!run(plan, a, b, -1), "cufftExecC2C");
}

static void failed_batch(void)
{
    int (*run)(void *, int, int, int, int, int, const void *, void *, int, void *, int, const void *, void *,
               int, int) = function("cublasSgemmBatched");
    void *lists[3][2] = {{a, a + 16}, {b, b + 16}, {c, c + 52}}, *device; /* the last one is 4 too long */
    cudaMalloc(&device, sizeof lists);
    cudaMemcpy(device, lists, sizeof lists, cudaMemcpyHostToDevice);
    char *p = device;
    failed_hold();
    check(!run(blas, 0, 0, 4, 4, 4, &one, p, 4, p + 16, 4, &one, p + 32, 4, 2), "cublasSgemmBatched");
}

static void failed_sparse(const int *starts, const int *columns)
{
    int (*csr)(void **, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int, int) =
        function("cusparseCreateCsr");
    int (*vector)(void **, int64_t, void *, int) = function("cusparseCreateDnVec");
    int (*run)(void *, int, const void *, void *, void *, const void *, void *, int, int, void *) =
        function("cusparseSpMV");
    void *m, *x, *y;
    cudaMemcpy(a, starts, 12, cudaMemcpyHostToDevice);
    cudaMemcpy(a + 8, columns, 16, cudaMemcpyHostToDevice);
    failed_hold();
    check(!csr(&m, 2, 4, 4, a, a + 8, a + 16, 2, 2, 0, 0) && !vector(&x, 4, b, 0) && !vector(&y, 2, c, 0) &&
              !run(sparse, 0, &one, m, x, &one, y, 0, 0, NULL),
          "cusparseSpMV");
}

int main(int argc, char **argv)
{
    float back[FLOATS] = {7};
    int (*create)(void **) = function("cublasCreate_v2"), (*of_sparse)(void **) = function("cusparseCreate");
    float **all[] = {&a, &b, &c};
    for (int i = 0; i < 3; i++)
        check(!cudaMalloc((void **)all[i], FLOATS * sizeof *a) && !cudaMemset(*all[i], 0, FLOATS * sizeof *a),
              "memory");
    check(!create(&blas) && !of_sparse(&sparse), "handles");
    sem_init(&go_on, 0, 0);
    switch (argc > 1 ? *argv[1] : 0) {
    case 'f':
        failed_fft();
        break;
    case 'b':
        failed_batch();
        break;
    case 'c':
        failed_sparse((const int[]){0, 2, 4}, (const int[]){0, 1, 2, 4});
        break;
    default: /* 4 entries, and a row that goes on behind them */
        failed_sparse((const int[]){0, 2000, 4}, (const int[]){0, 1, 2, 3});
    }
    cudaMemsetAsync(c, 1, 4, NULL);
    sem_post(&go_on);
    check(cudaMemcpy(back, c, sizeof back, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress, "the copy");
    check(back[0] == 7, "the copy was made");
    check(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "the device");
    return failures ? 1 : 0;
}
