// Code for the warps of old: lanes that exchange data through shared memory without volatile and without
// __syncwarp, because a warp ran in step. rotate and count are found and run in step by themselves; of the
// trees the optimiser leaves one store, which only lockstep=on prevents.
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

// The last steps of a sum, as they were written for years.
// Without the flag the optimiser may keep s[t] in a register.
template <class T> static __device__ void add_up(T *s, int t)
{
    s[t] += s[t + 32];
    s[t] += s[t + 16];
    s[t] += s[t + 8];
    s[t] += s[t + 4];
    s[t] += s[t + 2];
    s[t] += s[t + 1];
}

__global__ void tree(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = in[t % 32] + t;
    __syncthreads();
    if (t < 32)
        add_up(s, t);
    if (t == 0)
        *out = s[0];
}

__global__ void tree_in_register(const int *in, int *out)
{
    extern __shared__ int s[];
    int t = threadIdx.x, sum = s[t] = in[t % 32] + t;
    __syncthreads();
    if (t < 32)
        for (int step = 32; step; step /= 2)
            s[t] = sum = sum + s[t + step];
    if (t == 0)
        *out = s[0];
}

int main()
{
    int in[32], *a, *b, rotated = 0, counted = 0, trees = 0, sum = 63 * 64 / 2;
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
    for (int i = 0; i < 32; i++)
        sum += 2 * in[i];
    tree<<<1, 64>>>(a, b);
    tree_in_register<<<1, 64, 64 * sizeof(int)>>>(a, b + 1);
    cudaMemcpy(out, b, sizeof out, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 2; i++)
        trees += out[i] == sum;
    printf("rotate: %d of 32, count: %d of 32, tree: %d of 2\n", rotated, counted, trees);
    return 0;
}
