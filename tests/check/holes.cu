// Right: barriers order all accesses of a CTA. The order of the elements is by chance, so that the trace is
// long.
#include <cstdio>

__global__ void turn(const int *to, int *out, int rounds)
{
    __shared__ int s[256];
    s[threadIdx.x] = threadIdx.x;
    for (int i = 0; i < rounds; i++) {
        __syncthreads();
        int v = s[to[i * 256 + threadIdx.x]];
        __syncthreads();
        s[threadIdx.x] = v + 1;
    }
    out[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x];
}

int main()
{
    enum { ROUNDS = 40, CTAS = 24 };
    static int to[ROUNDS * 256];
    int *device, *out;
    unsigned chance = 1;
    for (int &t : to)
        t = (chance = chance * 1103515245u + 12345u) >> 16 & 255;
    cudaMalloc(&device, sizeof to);
    cudaMalloc(&out, CTAS * 256 * sizeof *out);
    cudaMemcpy(device, to, sizeof to, cudaMemcpyHostToDevice);
    turn<<<CTAS, 256>>>(device, out, ROUNDS);
    static int back[CTAS * 256];
    cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost);
    cudaFree(device);
    cudaFree(out);
    return 0;
}
