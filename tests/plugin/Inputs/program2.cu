#include "program.h"
[[memtrace::skip]] static __device__ int quietly(const int *values, int i)
{
    return values[i];
}
__global__ void total(int *sum, const int *values)
{
    atomicAdd(sum, quietly(values, blockIdx.x * blockDim.x + threadIdx.x));
}
void launch_total(int *sum, const int *values, int n)
{
    total<<<n / 64, 64>>>(sum, values);
}
