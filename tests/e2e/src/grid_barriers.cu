// Values that go from CTA to CTA over barriers of the grid, in cooperative launches of two styles.
#include "../../../examples/common/example.h"
#include <cooperative_groups.h>

__global__ void swap(int *p, int n)
{
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    p[i] = i;
    grid.sync();
    int v = p[n - 1 - i];
    grid.sync();
    p[i] = v;
}

// The same with a barrier in two parts.
__global__ void parts(int *p, int n)
{
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    p[i] = i;
    grid.barrier_wait(grid.barrier_arrive());
    int v = p[n - 1 - i];
    grid.barrier_wait(grid.barrier_arrive());
    p[i] = v;
}

int main()
{
    int *p, n = 256, out[256];
    CHECK(cudaMalloc(&p, sizeof out));
    void *args[] = {&p, &n};
    cudaLaunchAttribute one[1] = {};
    one[0].id = cudaLaunchAttributeCooperative;
    one[0].val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4);
    config.blockDim = dim3(64);
    config.attrs = one;
    config.numAttrs = 1;
    for (int i = 0; i < 10; i++) {
        CHECK(cudaLaunchCooperativeKernel((const void *)swap, dim3(4), dim3(64), args, 0, 0));
        CHECK(cudaLaunchKernelEx(&config, parts, p, n));
    }
    CHECK(cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost));
    long wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += out[i] != n - 1 - i;
    return verdict("grid_barriers", wrong);
}
