// Host writes, copy, kernel, copy, host reads, several times over:
// which host accesses lie between which calls?
#include <cstdio>
#include <cuda_runtime.h>

enum { N = 64, ROUNDS = 5 };
static int in[N], out[N];

__global__ void twice(int *p)
{
    p[threadIdx.x] *= 2;
}

int main()
{
    int *d;
    long sum = 0;
    cudaMalloc(&d, sizeof in);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            in[i] = i + round;
        cudaMemcpy(d, in, sizeof in, cudaMemcpyHostToDevice);
        twice<<<1, N>>>(d);
        in[0] = -1; // between launch and copy
        cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost);
        for (int i = 0; i < N; i++)
            sum += out[i];
    }
    cudaFree(d);
    std::printf("%p %p %ld\n", (void *)in, (void *)out, sum);
}
