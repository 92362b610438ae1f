// Sums of rows by warp functions, through one shared array with one barrier a row: a warp that ran ahead to
// the next row would overwrite what others have not read yet. Warps of a GPU come to each warp function about
// alike.
#include <cstdio>

__device__ int over_warp(int v)
{
    for (int i = 16; i; i /= 2)
        v += __shfl_xor_sync(~0u, v, i);
    return v;
}

__global__ void totals(const int *in, int *out, int rows)
{
    __shared__ int part[32];
    int t = threadIdx.x;
    if (t < 32)
        part[t] = 0;
    __syncthreads();
    for (int r = 0; r < rows; r++) {
        part[t / 32] = over_warp(in[r * blockDim.x + t]);
        __syncthreads();
        out[r * blockDim.x + t] = over_warp(part[t % 32]);
    }
}

int main()
{
    const int rows = 20, threads = 1024;
    int *in, *out, good = 0;
    cudaMallocManaged(&in, rows * threads * sizeof *in);
    cudaMallocManaged(&out, rows * threads * sizeof *out);
    for (int i = 0; i < rows * threads; i++)
        in[i] = i / threads + 1;
    totals<<<1, threads>>>(in, out, rows);
    cudaDeviceSynchronize();
    for (int i = 0; i < rows * threads; i++)
        good += out[i] == (i / threads + 1) * threads;
    printf("%d of %d\n", good, rows * threads);
    return 0;
}
