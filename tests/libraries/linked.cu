// A kernel, a call of cuBLAS, a kernel: linked by mt-cc with -lcublas. Not every toolkit has cublas_v2.h.
#include <cstdio>
extern "C" int cublasCreate_v2(void **handle);
extern "C" int cublasSaxpy_v2(void *handle, int n, const float *alpha, const float *x, int incx, float *y,
                              int incy);

__global__ void fill(float *p, float v)
{
    p[threadIdx.x] = v + threadIdx.x;
}
__global__ void twice(float *p)
{
    p[threadIdx.x] *= 2;
}

int main()
{
    void *handle;
    float *x, *y, alpha = 3, h[64];
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    fill<<<1, 64>>>(x, 1);
    fill<<<1, 64>>>(y, 2);
    int status = cublasCreate_v2(&handle);
    status |= cublasSaxpy_v2(handle, 32, &alpha, x, 2, y, 1); // line 25
    twice<<<1, 64>>>(y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 64; i++)
        if (h[i] != 2 * ((i < 32 ? 3 * (1 + 2 * i) : 0) + 2 + i))
            status |= 1 << 8;
    return status != 0;
}
