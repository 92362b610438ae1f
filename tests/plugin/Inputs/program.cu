#include "program.h"
#include <cstdio>
template <class T> __global__ void scale(T *values)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    values[i] = three_times(values[i]) + 1;
}
int main()
{
    const int n = 1024;
    static int host[n];
    int *values, *total, sum = 0;
    for (int i = 0; i < n; i++)
        host[i] = 1;
    cudaMalloc(&values, sizeof host);
    cudaMalloc(&total, sizeof sum);
    cudaMemcpy(values, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemcpy(total, &sum, sizeof sum, cudaMemcpyHostToDevice);
    scale<<<n / 64, 64>>>(values);
    launch_total(total, values, n);
    cudaMemcpy(&sum, total, sizeof sum, cudaMemcpyDeviceToHost);
    std::printf("sum %d\n", sum);
    return 0;
}
