/* What a program gets where OpenBLAS and NVIDIA's cuRAND are not installed, and of a function that is not
 * there. */
#define _GNU_SOURCE
#include "model.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

int curandCreateGenerator(void **generator, int type);

/* The stand-in, too, comes here: wherever cuRAND is, it is not found. */
__attribute__((visibility("default"))) void *dlopen(const char *path, int mode)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return path && strstr(path, "libcurand") ? NULL : real(path, mode);
}

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
    for (int i = 0; i < 2; i++)
        check(curandCreateGenerator(&handle, 101) == 203, "without cuRAND");
    check(!cudaDeviceSynchronize(), "the device is well");
    return failures ? 1 : 0;
}
