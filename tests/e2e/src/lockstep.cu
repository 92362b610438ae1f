// Code for the warps of old: lanes that exchange data through shared memory without volatile and without
// __syncwarp, because a warp ran in step. Right with lockstep=on only.
#include <cstdio>

__global__ void rotate(const int *in, int *out)
{
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = in[t];
    int next = s[(t + 1) % 32]; // what another lane has just written
    s[t] = next + 100;          // what another lane has just read
    out[t] = s[(t + 31) % 32];
}

__global__ void count(int *out)
{
    __shared__ int n;
    if (threadIdx.x == 0)
        n = 0;
    atomicAdd(&n, 1);
    out[threadIdx.x] = n;
}

int main()
{
    int in[32], *a, *b, rotated = 0, counted = 0;
    for (int i = 0; i < 32; i++)
        in[i] = i * i;
    cudaMalloc(&a, sizeof in);
    cudaMalloc(&b, sizeof in);
    cudaMemcpy(a, in, sizeof in, cudaMemcpyHostToDevice);
    rotate<<<1, 32>>>(a, b);
    int out[32];
    cudaMemcpy(out, b, sizeof out, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++)
        rotated += out[i] == in[i] + 100;
    count<<<1, 32>>>(b);
    cudaMemcpy(out, b, sizeof out, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++)
        counted += out[i] == 32;
    printf("rotate: %d of 32, count: %d of 32\n", rotated, counted);
    return 0;
}
