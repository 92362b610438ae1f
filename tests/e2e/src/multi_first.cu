#include "multi.h"
#include "multi_helper.cuh"

__global__ static void kernel(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = twice(in, i) + 1;
}

void run_first(const int *in, int *out, int n)
{
    kernel<<<(n + 31) / 32, 32>>>(in, out, n);
}
