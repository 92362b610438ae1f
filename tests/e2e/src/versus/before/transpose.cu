// A matrix product's two steps, before and after: 64 x 64 floats. Stores of transpose go down a column.
#include <cstdio>
#include <cstdlib>

enum { N = 64 };

__global__ void transpose(const float *in, float *out)
{
    int x = threadIdx.x + 32 * blockIdx.x, y = threadIdx.y + 8 * blockIdx.y;
    out[x * N + y] = in[y * N + x];
}

__global__ void scale(float *out, float factor, float *flag)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    out[i] *= factor;
#ifdef ONCE
    if (i == 0)
#endif
        *flag = factor;
}

int main()
{
    float *in, *out, *flag;
    if (cudaMalloc(&in, N * N * 4) || cudaMalloc(&out, N * N * 4) || cudaMalloc(&flag, 4))
        return 1;
    cudaMemset(in, 0, N * N * 4);
    transpose<<<dim3(N / 32, N / 8), dim3(32, 8)>>>(in, out);
    scale<<<N * N / 256, 256>>>(out, 2, flag);
    if (cudaDeviceSynchronize())
        return 1;
    puts("done");
}
