#include "multi.h"
#include "multi_helper.cuh"

// The same name as in the other file, with other work.
__global__ static void kernel(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int sum = twice(in, i);
        if (i + 1 < n)
            sum += twice(in, i + 1);
        out[i] = sum;
    }
}

void run_second(const int *in, int *out, int n)
{
    kernel<<<(n + 63) / 64, 64>>>(in, out, n);
}
