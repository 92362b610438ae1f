// The only stream is destroyed before memory is freed: its trace ends, and the companion goes on.
#include <cuda_runtime.h>

__global__ void one(float *p)
{
    atomicAdd(p, 1.f);
}

int main()
{
    float *first, *second;
    cudaStream_t stream;
    cudaMalloc(&first, 12);
    cudaMalloc(&second, 64);
    cudaStreamCreate(&stream);
    one<<<1, 32, 0, stream>>>(first);
    one<<<1, 16, 0, stream>>>(second);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    cudaFree(second);
    return cudaFree(first);
}
