/* What a program gets where OpenBLAS is not installed, and of a function that is not there. */
#include "model.h"
#include <cuda_runtime_api.h>

int cublasCreate_v2(void **handle);
int cublasSaxpy_v2(void *handle, int n, const float *alpha, const float *x, int incx, float *y, int incy);
int cublasSgemmGroupedBatched(void);

int main(void)
{
    void *handle;
    float alpha = 1, *x;
    check(!cublasCreate_v2(&handle) && !cudaMalloc((void **)&x, 64), "cublasCreate");
    for (int i = 0; i < 2; i++) /* said once */
        check(cublasSaxpy_v2(handle, 4, &alpha, x, 1, x, 1) == 15, "without OpenBLAS");
    for (int i = 0; i < 2; i++)
        check(cublasSgemmGroupedBatched() == 15, "a function that is not there");
    check(!cudaDeviceSynchronize(), "the device is well");
    return failures ? 1 : 0;
}
