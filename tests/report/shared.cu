/* Shared and local memory whose figures are known (page_shared_test.py). "// name" is what the test calls the
 * line. */
#include <cstdio>

__global__ void banks(float *out)
{
    __shared__ float tile[1024];
    __shared__ int hits;
    unsigned t = threadIdx.x;
    tile[t * 32] = t; // column
    __syncwarp();
    out[t] = tile[t]; // row
    __syncwarp();
    tile[t * 2] = t;     // every second
    atomicAdd(&hits, 1); // one word
    __syncwarp();
    out[t] = tile[t * 2]; // every second again
}

__global__ void unordered(int *out)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;           // stored
    out[threadIdx.x] = s[63 - threadIdx.x]; // loaded
}

__global__ void local(int *out, int k)
{
    int a[8];
#pragma unroll 1
    for (int i = 0; i < 8; i++)
        a[i] = i * k; // local store
    int sum = 0;
#pragma unroll 1
    for (int i = 0; i < 12; i++)
        sum += a[(i * k + threadIdx.x) & 7]; // local load
    out[threadIdx.x] = sum;
}

int main()
{
    char *out;
    cudaMalloc(&out, 4096);
    banks<<<2, 32>>>((float *)out);
    banks<<<3, 32>>>((float *)out);
    unordered<<<1, 64>>>((int *)out);
    local<<<1, 64>>>((int *)out, 3);
    unordered<<<2, 64>>>((int *)out);
    return cudaDeviceSynchronize() != cudaSuccess;
}
