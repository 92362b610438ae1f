// Kernels that wait for each other, or want memory, in a wrong way, chosen by name, and each one's right
// twin.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

__global__ void mask(int *p, unsigned m) // odd lanes shuffle
{
    int v = threadIdx.x;
    if (threadIdx.x & 1)
        v = __shfl_sync(m, v, 1);
    p[threadIdx.x] = v;
}
__global__ void gone(int *p, int from) // lane 3 has ended
{
    if (threadIdx.x == 3)
        return;
    p[threadIdx.x] = __shfl_sync(~8u, (int)threadIdx.x, from);
}
__global__ void sites(int *p, int n)
{
    if ((int)threadIdx.x < n) {
        p[threadIdx.x] = 1;
        __syncthreads();
        p[threadIdx.x] += 1;
    } else {
        p[threadIdx.x] = 3;
        __syncthreads();
        p[threadIdx.x] += 2;
    }
    p[threadIdx.x] *= 2;
}
__global__ void rounds(int *p, int n, int same) // a barrier in a loop that lanes leave at different times
{
    for (int i = 0; i < (same ? n : (int)threadIdx.x % n); i++) {
        p[threadIdx.x] += i;
        __syncthreads();
    }
    p[threadIdx.x] *= 2;
    __syncthreads();
    p[threadIdx.x] += p[threadIdx.x ^ 1];
}
__global__ void part(int *p, int n)
{
    if (threadIdx.x < 64)
        asm volatile("bar.sync 1, %0;" ::"r"(n) : "memory");
    else
        asm volatile("bar.sync 2, %0;" ::"r"(n) : "memory");
    p[threadIdx.x] = 1;
}
__global__ void heap(int *p, size_t n)
{
    int *q = (int *)malloc(n);
    p[threadIdx.x] = q != NULL;
    free(q);
}
__device__ int deep(int n, volatile int *p)
{
    int a[64], r;
    for (int i = 0; i < 64; i++)
        a[i] = p[i & 31] + n;
    r = n > 0 ? deep(n - 1, p) : 0;
    for (int i = 0; i < 64; i++)
        r += a[(i * n) & 63];
    return r;
}
__global__ void stack(int *p, int n)
{
    p[threadIdx.x] = deep(n, p);
}
// Right, though threads end before others meet.
__global__ void early(int *p, int n)
{
    if ((int)threadIdx.x >= n) {
        p[threadIdx.x] = 5;
        return;
    }
    p[threadIdx.x] = 1;
    __syncthreads();
    p[threadIdx.x] += p[(threadIdx.x + 1) % n];
}
__global__ void tree(int *p)
{
    __shared__ int s[256];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    for (int d = blockDim.x / 2; d; d >>= 1) {
        if ((int)threadIdx.x < d)
            s[threadIdx.x] += s[threadIdx.x + d];
        __syncthreads();
    }
    if (!threadIdx.x)
        *p = s[0];
}
__global__ void warps(int *p)
{
    int v = threadIdx.x;
    if (threadIdx.x & 32)
        return;
    for (int o = 16; o; o >>= 1)
        v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x < 16) {
        v += __shfl_xor_sync(0xffff, v, 1);
        __syncwarp(0xffff);
    }
    p[threadIdx.x] = v;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int right = !strcmp(how, "right"), *p;
    cudaMalloc(&p, 1024);
    cudaMemset(p, 0, 1024);
    if (right || !strcmp(how, "mask"))
        mask<<<1, 64>>>(p, right ? 0xaaaaaaaa : 2);
    if (right || !strcmp(how, "gone"))
        gone<<<1, 32>>>(p, right ? 2 : 3);
    if (right || !strcmp(how, "sites"))
        sites<<<2, 64>>>(p, right ? 64 : 40);
    if (right || !strcmp(how, "rounds"))
        rounds<<<2, 64>>>(p, 3, right);
    if (right || !strcmp(how, "part"))
        part<<<1, 128>>>(p, right ? 64 : 128);
    if (right || !strcmp(how, "heap"))
        heap<<<1, 64>>>(p, right ? 64 : (size_t)1 << 30);
    if (right || !strcmp(how, "stack"))
        stack<<<1, 32>>>(p, right ? 3 : 100000);
    if (right) {
        early<<<2, 100>>>(p, 70);
        tree<<<3, 256>>>(p);
        warps<<<1, 64>>>(p);
    }
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
