// Threads of a warp that go different ways: loops of different lengths, branches in loops, block copies of
// different lengths, a wait in between. Prints a sum of what they computed. Usage: divergent [threads]
#include "../../../examples/common/example.h"
#include <string.h>

// Row i has i * 7 % 13 elements, as a sparse matrix has.
__global__ void rows(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int sum = in[i];
    for (int k = 0; k < i * 7 % 13; k++)
        sum += in[(i + k * k) % n];
    out[i] = sum;
}

__global__ void branches(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 5; k++) {
        int v = in[(i * 3 + k) % n];
        if (v % 3 == 0)
            atomicAdd(&out[i % n], v);
        else if (v % 3 == 1)
            out[(i + 1) % n + n] = v;
        for (int j = 0; j < (i + k) % 3; j++)
            out[2 * n + i % n] += in[(i + j) % n];
    }
}

__global__ void copies(const char *in, char *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        memcpy(out + 32 * i, in + 32 * i, i % 33);
}

__global__ void waits(const int *in, int *out, int n)
{
    __shared__ int part[1024];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = in[i % n];
    __syncthreads();
    if (threadIdx.x % 5 == 0)
        out[i % n] = part[blockDim.x - 1 - threadIdx.x];
    __syncwarp();
    int other = __shfl_xor_sync(0xffffffff, part[threadIdx.x], 1);
    if (threadIdx.x % 2)
        out[n + i % n] = other;
    __syncthreads();
    out[2 * n + i % n] = in[(i + 1) % n];
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 500, *in, *out, *host = new int[8 * n];
    for (int i = 0; i < 8 * n; i++)
        host[i] = i * 2654435761u >> 20;
    CHECK(cudaMalloc(&in, 8 * n * sizeof *in));
    CHECK(cudaMalloc(&out, 8 * n * sizeof *out));
    CHECK(cudaMemset(out, 0, 8 * n * sizeof *out));
    CHECK(cudaMemcpy(in, host, 8 * n * sizeof *in, cudaMemcpyHostToDevice));
    rows<<<(n + 95) / 96, 96>>>(in, out, n);
    branches<<<1, 70>>>(in, out, n);
    copies<<<(n + 63) / 64, 64>>>((char *)in, (char *)out, n);
    waits<<<2, 128>>>(in, out, n);
    CHECK(cudaMemcpy(host, out, 8 * n * sizeof *out, cudaMemcpyDeviceToHost));
    long sum = 0;
    for (int i = 0; i < 8 * n; i++)
        sum += host[i];
    printf("%ld\n", sum);
    return 0;
}
