// Barriers and masks (see faults.cu).
#include "faults.h"
#include <cooperative_groups.h>

// ---- barriers ----

__global__ void rounds(int *a, int n)
{
    for (int i = threadIdx.x; i < n; i += 64) {
        a[i] += 1;
        __syncthreads();
    }
    __syncthreads(); // !rounds: barrier
    a[threadIdx.x] *= 2;
}
__global__ void one_warp(int *a, int right)
{
    int t = threadIdx.x;
    if (right || t < 32) {
        a[t] = t;
        __syncthreads();
    }
    a[t] += 1;
    __syncthreads(); // !one_warp: barrier
    a[t] *= 2;
}
__global__ void branches(int *a, int right)
{
    int t = threadIdx.x;
    if (t >= 32 && !right) {
        a[t] = 1;
        __syncthreads(); // !branches: barrier
        a[t] += 1;
    } else {
        a[t] = 2;
        __syncthreads();
        a[t] *= 3;
    }
}
__global__ void too_many(int *a, int right)
{
    int t = threadIdx.x, n = right ? 64 : 96;
    a[t] = 1;
    if (t < 64)
        asm volatile("bar.sync 1, %0;" ::"r"(n) : "memory"); // !too_many: barrier
    else
        asm volatile("bar.sync 2, %0;" ::"r"(n) : "memory"); // !too_many: barrier
    a[t ^ 32] += 1;
}

// the grid's: 8 CTAs
__global__ void grid_half(int *a, int right)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = a[i];
    if (right || blockIdx.x % 2)
        cooperative_groups::this_grid().sync(); // !grid_half: barrier
    a[i] = v + 1;
}
__global__ void grid_but_first(int *a, int right)
{
    if (right || blockIdx.x)
        cooperative_groups::this_grid().sync(); // !grid_but_first: barrier
    a[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
__global__ void grid_again(int *a, int right)
{
    auto grid = cooperative_groups::this_grid();
    grid.sync();
    if (right && blockIdx.x < 6) // others end before that
        a[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    if (!right && blockIdx.x % 3 == 0)
        grid.sync(); // !grid_again: barrier
}

template <void (*kernel)(int *, int)> static void of_grid(int right)
{
    Buffer<int> a(8 * 64);
    int *p = a;
    void *args[] = {&p, &right};
    cudaLaunchCooperativeKernel((void *)kernel, 8, 64, args, 0, 0);
    get(a, 8 * 256);
}

static void rounds(int right)
{
    Buffer<int> a(128);
    rounds<<<1, 64>>>(a, right ? 128 : 96);
    get(a, 512);
}
// ---- masks ----

__global__ void half_sum(int *a, int right)
{
    int v = a[threadIdx.x];
    if (threadIdx.x < 16)
        for (int by = 8; by; by /= 2)
            v += __shfl_down_sync(right ? 0xffffu : 0xffff0000u, v, by, 16); // !half_sum: mask
    a[threadIdx.x] = v;
}
__global__ void outside(int *a, int right)
{
    unsigned some = __ballot_sync(~0u, threadIdx.x < 20);
    if (!right || threadIdx.x < 20)
        a[threadIdx.x] = __any_sync(some, a[threadIdx.x] > 0); // !outside: mask
}
__global__ void leader(int *a, int right)
{
    int v = threadIdx.x;
    if (threadIdx.x >= 8)
        v = __shfl_sync(0xffffff00u, v, right ? 8 : 0); // !leader: mask
    a[threadIdx.x] = v;
}
__global__ void by_warps(int *a, int right) // each warp lets others come to the barrier before its sum
{
    __shared__ int s[2];
    int v = __shfl_down_sync(right ? ~0u : 0xffffu, a[threadIdx.x], 1); // !by_warps: mask
    if (threadIdx.x % 32 == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x / 32];
}
__global__ void half_warp(int *a, int right)
{
    __syncwarp(right ? ~0u : 0xffffu); // !half_warp: mask
    a[threadIdx.x] = 1;
}
__global__ void gone(int *a, int right)
{
    if (!right && threadIdx.x == 5)
        return;
    a[threadIdx.x] = __shfl_sync(right ? ~0u : ~0x20u, a[threadIdx.x], 5); // !gone: mask
}

__global__ void both(int *a, int right)
{
    int v = threadIdx.x;
    if (threadIdx.x < 16) // a lane that does not come, and lanes that the mask lacks
        v += __shfl_sync(right ? 0xffffu : 0xffu, v, right ? 0 : 20); // !both: mask
    a[threadIdx.x] = v;
}

static const Fault faults[] = {
    {"rounds", rounds},
    {"one_warp", of<one_warp, 64>},
    {"branches", of<branches, 64>},
    {"too_many", of<too_many, 128>},
    {"half_sum", of<half_sum, 32>},
    {"outside", of<outside, 32>},
    {"leader", of<leader, 32>},
    {"half_warp", of<half_warp, 32>},
    {"by_warps", of<by_warps, 64>},
    {"gone", of<gone, 32>},
    {"both", of<both, 32>},
    {"grid_half", of_grid<grid_half>},
    {"grid_but_first", of_grid<grid_but_first>},
    {"grid_again", of_grid<grid_again>},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
