// Indices of 32 bits that wrap round within a warp, carried on by a loop's pointer; the host does the same.
// Prints "walks: N wrong".
#include <cstdio>
#include <cuda_runtime.h>
__global__ void walk(const unsigned char *mid, unsigned *out, unsigned from, int n)
{
    int at = (int)(from + threadIdx.x);
    const unsigned char *p = mid + at;
    unsigned sum = 0;
    for (int i = threadIdx.x; i < n; i += 32, p += 32)
        sum = sum * 31 + *p;
    out[threadIdx.x] = sum;
}
__global__ void fill(unsigned char *p, size_t n)
{
    for (size_t i = blockIdx.x * 256ull + threadIdx.x; i < n; i += gridDim.x * 256ull)
        p[i] = (unsigned char)(i * 7 + (i >> 8));
}
int main()
{
    unsigned char *p;
    unsigned *out, host[32];
    size_t half = 1ull << 31;
    if (cudaMalloc(&p, 2 * half + 8192))
        return puts("no memory"), 0;
    unsigned char *mid = p + half + 4096;
    cudaMalloc(&out, 128);
    fill<<<1, 256>>>(p, 8192);
    fill<<<1, 256>>>(mid + half - 4096, 8192);
    int wrong = 0;
    for (int f = 0; f < 3; f++) {
        unsigned from = 0x7ffffff0u + 8 * f - 20;
        walk<<<1, 32>>>(mid, out, from, 96);
        cudaMemcpy(host, out, 128, cudaMemcpyDeviceToHost);
        for (int t = 0; t < 32; t++) {
            long at = (int)(from + t);
            unsigned sum = 0;
            unsigned char byte;
            for (int i = t; i < 96; i += 32, at += 32) {
                cudaMemcpy(&byte, mid + at, 1, cudaMemcpyDeviceToHost);
                sum = sum * 31 + byte;
            }
            wrong += sum != host[t];
        }
    }
    printf("walks: %d wrong, %s\n", wrong, cudaGetErrorString(cudaGetLastError()));
}
