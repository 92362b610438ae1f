// The same through a tile in shared memory, and scale stores its flag once. The lines are others.
#include <cstdio>
#include <cstdlib>

enum { N = 64 };

static float *allocate(size_t bytes)
{
    float *p = nullptr;
    return cudaMalloc(&p, bytes) ? nullptr : p;
}

__global__ void scale(float *out, float factor, float *flag)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i == 0)
        *flag = factor;
    out[i] *= factor;
}

__global__ void transpose(const float *in, float *out)
{
    __shared__ float tile[32][33];
    int x = 32 * blockIdx.x + threadIdx.x, y = 32 * blockIdx.y + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * N + x];
    __syncthreads();
    x = 32 * blockIdx.y + threadIdx.x, y = 32 * blockIdx.x + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        out[(y + i) * N + x] = tile[threadIdx.x][threadIdx.y + i];
}

int main()
{
    float *flag = allocate(4), *out = allocate(N * N * 4), *in = allocate(N * N * 4);
    if (!in || !out || !flag)
        return 1;
    cudaMemset(in, 0, N * N * 4);
    transpose<<<dim3(N / 32, N / 32), dim3(32, 8)>>>(in, out);
    scale<<<N * N / 256, 256>>>(out, 2, flag);
    if (cudaDeviceSynchronize())
        return 1;
    puts("done");
}
