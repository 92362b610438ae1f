// Calls that fail, each on a line of its own, and what is no failure. The program asks for none of the
// errors.
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void fill(int *p)
{
    p[threadIdx.x] = threadIdx.x;
}
__global__ void trap(int *p)
{
    if (*p == 0)
        __trap();
}

static void freed(void *p)
{
    cudaFree(p); // FREED
}

int main(int argc, char **argv)
{
    int *p, *q, host[16];
    void *pinned;
    cudaStream_t stream;
    if (argc > 1 && argv[1][0] == 'n') { // no launch
        cudaFree(host);                  // ALONE
        return 0;
    }
    if (argc > 1) { // an end that is not tidy
        cudaMalloc(&p, 128);
        fill<<<1, 32>>>(p);
        cudaDeviceSynchronize();
        cudaFree(p + 1); // ABORT
        abort();
    }
    cudaMalloc(&p, 4096);                              // ALLOC
    cudaMalloc(&q, (size_t)1 << 60);                   // MEMORY
    cudaMemcpy(host, p, 5000, cudaMemcpyDeviceToHost); // COPY
    for (int i = 0; i < 7; i++)
        cudaMemset(p, 0, 4097);                                 // FILL
    cudaMemcpy(p, host, 16, cudaMemcpyDeviceToHost);            // TURNED
    cudaMemcpy(host, p, 16, cudaMemcpyHostToDevice);            // BACK
    cudaMemcpyAsync(p + 1024, host, 4, cudaMemcpyHostToDevice); // BEHIND
    fill<<<1, 2000>>>(p);                                       // LAUNCH
    fill<<<1, 32>>>(p);
    cudaMallocHost(&pinned, 10);
    cudaFreeHost((char *)pinned + 1); // MIDDLE
    cudaFree(pinned);                 // KIND
    freed(p);
    cudaFree(p);    // TWICE
    cudaFree(host); // HOST
    cudaMallocAsync(&q, 64, 0);
    cudaFreeAsync(q, 0); // QUEUED
    cudaFreeAsync(q, 0); // ASYNC
#ifdef __clang__         // nvcc's programs would need libcuda.so to be linked
    cuInit(0);
    cuMemFree((CUdeviceptr)64);
#endif
    // No failures: what is asked for, what is not ready, what only tells of errors.
    cudaStreamCreate(&stream);
    cudaStreamQuery(stream);
    cudaGetLastError();
    cudaPeekAtLastError();
    cudaGetErrorName((cudaError_t)12345);
    // A launch that fails, once, and not in each call after it.
    cudaMalloc(&p, 4);
    cudaMemset(p, 0, 4);
    trap<<<1, 1>>>(p); // TRAP
    cudaDeviceSynchronize();
    cudaMemset(p, 0, 4);
    cudaDeviceSynchronize();
    return 0;
}
