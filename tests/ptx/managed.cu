// A managed variable, which host and kernels change in turn, and what nvcc takes and clang 19 does not, an
// alignment behind
// __shared__. Each launch has 33 loads and 33 stores of 4 bytes.
#include <cstdio>

__managed__ int values[4] = {1, 2, 3, 4};

__global__ void mirror(int *out)
{
    __shared__ alignas(64) int s[32];
    s[threadIdx.x] = values[threadIdx.x & 3];
    __syncthreads();
    out[threadIdx.x] = s[31 - threadIdx.x];
    if (threadIdx.x == 0)
        values[0] += 10;
}

int main()
{
    int *out, host[32], sum = 0;
    cudaMalloc(&out, sizeof host);
    mirror<<<1, 32>>>(out);
    if (cudaDeviceSynchronize())
        return 1;
    printf("%d %d %d %d\n", values[0], values[1], values[2], values[3]);
    values[1] = 7;
    mirror<<<1, 32>>>(out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (int v : host)
        sum += v;
    printf("%d %d %d\n", sum, host[30], values[0]);
    return 0;
}
