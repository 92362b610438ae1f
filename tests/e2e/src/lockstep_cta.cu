// All warps of a CTA add to the same elements, without atomics: each element comes out right only where no
// warp is a round ahead of another.
#include <cstdio>

__global__ void rows(float *x, const float *a, int n)
{
    int i = threadIdx.x;
    for (int j = 0; j < n; j++)
        x[i] += a[j];
}

// Each thread hands its number on to the next one through shared memory: what it reads, its neighbour
// overwrites in the same round, and the neighbour may be of another warp.
__global__ void relay(int *out, int rounds)
{
    extern __shared__ int cell[];
    int t = threadIdx.x;
    cell[t] = 0;
    __syncthreads();
    for (int n = 0; n < rounds; n++) {
        int v = t == 0 ? n + 1 : cell[t - 1];
        cell[t] = v;
        __syncthreads();
    }
    out[t] = cell[t];
}

int main()
{
    const int n = 50;
    float *x, *a;
    int good = 0;
    cudaMallocManaged(&x, 32 * sizeof *x);
    cudaMallocManaged(&a, n * sizeof *a);
    for (int i = 0; i < 32; i++)
        x[i] = 0;
    for (int j = 0; j < n; j++)
        a[j] = 1;
    rows<<<1, dim3(32, 8)>>>(x, a, n);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        good += x[i] == n;
    int *last, handed = 0;
    cudaMallocManaged(&last, 96 * sizeof *last);
    relay<<<1, 96, 96 * sizeof(int)>>>(last, 150);
    cudaDeviceSynchronize();
    for (int i = 0; i < 96; i++)
        handed += last[i] == 150 - i;
    printf("rows: %d of 32, relay: %d of 96\n", good, handed);
    return 0;
}
