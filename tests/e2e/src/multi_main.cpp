// Plain C++: calls the CUDA runtime, holds no kernel.
#include "multi.h"
#include <cuda_runtime_api.h>
#include <stdio.h>

int main()
{
    const int n = 100;
    int in[n], mid[n], out[n], *a, *b, *c;
    for (int i = 0; i < n; i++)
        in[i] = i * i;
    if (cudaMalloc((void **)&a, sizeof in) || cudaMalloc((void **)&b, sizeof in) ||
        cudaMalloc((void **)&c, sizeof in) || cudaMemcpy(a, in, sizeof in, cudaMemcpyHostToDevice))
        return 1;
    run_first(a, b, n);
    run_second(b, c, n);
    if (cudaMemcpy(mid, b, sizeof mid, cudaMemcpyDeviceToHost) ||
        cudaMemcpy(out, c, sizeof out, cudaMemcpyDeviceToHost))
        return 1;
    long wrong = 0;
    for (int i = 0; i < n; i++) {
        wrong += mid[i] != 2 * in[i] + 1;
        wrong += out[i] != 2 * mid[i] + (i + 1 < n ? 2 * mid[i + 1] : 0);
    }
    if (cudaFree(a) || cudaFree(b) || cudaFree(c) || wrong)
        return 1;
    printf("multi: passed\n");
    return 0;
}
