// Kernels whose CTAs can be distinguished, for MEMTRACE_CTAS and MEMTRACE_SAMPLE. Each CTA of each kernel
// makes the same accesses: `loop` 1 store a thread (16 threads), `waits` 1 load and 2 stores with barriers
// between (64 threads), `grid` 2 stores with a barrier of the whole grid between (32), `pointer` 1 load of 8
// bytes, and 1 store in a function that is called by the pointer that it loads (16). The argument is how
// often all of them are launched. Prints the sum of what they wrote.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>

static __device__ unsigned cta()
{
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

__global__ void loop(unsigned *p)
{
    p[cta() * 16 + threadIdx.x] = cta();
}

__global__ void waits(unsigned *p)
{
    __shared__ unsigned part[64];
    unsigned *mine = p + cta() * 64;
    mine[threadIdx.x] = threadIdx.x;
    __syncthreads();
    part[threadIdx.x] = mine[63 - threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = part[63 - threadIdx.x] + 1;
}

__global__ void grid(unsigned *p)
{
    p[cta() * 32 + threadIdx.x] = 1;
    cooperative_groups::this_grid().sync();
    p[(gridDim.x * gridDim.y * gridDim.z - 1 - cta()) * 32 + threadIdx.x] = 2;
}

typedef void (*writer)(unsigned *);
static __device__ __noinline__ void five(unsigned *p)
{
    *p = 5;
}
static __device__ __noinline__ void six(unsigned *p)
{
    *p = 6;
}
__device__ writer chosen[2] = {five, six};

__global__ void pointer(unsigned *p, int which)
{
    chosen[which](p + cta() * 16 + threadIdx.x);
}

int main(int argc, char **argv)
{
    enum { CTAS = 60 };
    unsigned *p, sum = 0;
    dim3 g(5, 4, 3), small(4, 2, 1);
    void *args[] = {&p};
    cudaMallocManaged(&p, CTAS * 64 * sizeof *p);
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); i++) {
        loop<<<g, 16>>>(p);
        waits<<<g, 64>>>(p);
        if (cudaLaunchCooperativeKernel((const void *)grid, small, 32, args, 0, 0))
            return 1;
        pointer<<<g, 16>>>(p, i % 2);
        if (cudaDeviceSynchronize())
            return 1;
        for (int k = 0; k < CTAS * 64; k++)
            sum += p[k];
    }
    printf("%u\n", sum);
    return 0;
}
