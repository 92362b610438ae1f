// What is traced can be chosen in the source: attributes and pragmas.
#include "../../../examples/common/example.h"

__global__ void plain(int *p)
{
    p[threadIdx.x] = 1;
}

[[memtrace::skip]] __global__ void skipped(int *p)
{
    p[threadIdx.x] += 1;
}

[[memtrace::skip]] __device__ __noinline__ void quiet_helper(int *p)
{
    p[threadIdx.x] += 1;
}

// Its own load and store are traced, the helper's are not.
__global__ void calls_quiet_helper(int *p)
{
    quiet_helper(p);
    int value = p[threadIdx.x + 32];
    p[threadIdx.x + 64] = value;
}

__global__ void partly(const int *in, int *p)
{
    p[threadIdx.x] = in[0];
#pragma memtrace off
    p[threadIdx.x + 32] = in[1];
    p[threadIdx.x + 64] = in[2];
#pragma memtrace on
    p[threadIdx.x + 96] = in[3];
}

#pragma memtrace off
__global__ void in_a_quiet_region(int *p)
{
    p[threadIdx.x] = 4;
}

// An attribute is stronger than the pragma around it.
[[memtrace::trace]] __global__ void in_spite_of_region(int *p)
{
    p[threadIdx.x] = 5;
}
#pragma memtrace on

__global__ void last(int *p)
{
    atomicAdd(p, 1);
    p[threadIdx.x + 1] = 6;
}

int main()
{
    int *p, out[256];
    CHECK(cudaMalloc(&p, sizeof out));
    CHECK(cudaMemset(p, 0, sizeof out));
    plain<<<1, 32>>>(p);
    skipped<<<1, 32>>>(p);
    calls_quiet_helper<<<1, 32>>>(p);
    partly<<<1, 32>>>(p, p + 128);
    in_a_quiet_region<<<1, 32>>>(p);
    in_spite_of_region<<<1, 32>>>(p);
    last<<<1, 32>>>(p);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(p));
    unsigned long long sum = 0;
    for (int k = 0; k < 256; k++)
        sum = sum * 31 + out[k];
    printf("sum %llu\n", sum);
    return 0;
}
