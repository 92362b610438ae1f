// The same kernel through every launch entry point.
#include "../../../examples/common/example.h"
#include <cooperative_groups.h>

__global__ void bump(int *p, int by)
{
    p[threadIdx.x] += by;
}

// Needs all CTAs at once: a barrier over the grid between the two halves.
__global__ void meet(int *p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    p[i] = i;
    cooperative_groups::this_grid().sync();
    p[all + i] = p[all - 1 - i];
}

int main()
{
    const int n = 32, ctas = 3;
    int *p, by = 2, out[2 * n * ctas];
    CHECK(cudaMalloc(&p, sizeof out));
    CHECK(cudaMemset(p, 0, sizeof out));
    bump<<<1, n>>>(p, 1);
    CHECK_LAUNCH();
    void *args[] = {&p, &by};
    CHECK(cudaLaunchKernel((const void *)bump, dim3(1), dim3(n), args, 0, 0));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(n);
    CHECK(cudaLaunchKernelEx(&config, bump, p, 3));
    CHECK(cudaLaunchKernelExC(&config, (const void *)bump, args));
    CHECK(cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost));
    long wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += out[i] != 8;
    void *meeting[] = {&p};
    CHECK(cudaLaunchCooperativeKernel((const void *)meet, dim3(ctas), dim3(n), meeting, 0, 0));
    CHECK(cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n * ctas; i++)
        wrong += out[i] != i || out[n * ctas + i] != n * ctas - 1 - i;
    CHECK(cudaFree(p));
    return verdict("entries", wrong);
}
