// Places of calls, of a program that nvcc built: lines where there is -g.
#include <cuda_runtime.h>

__global__ void put(int *a)
{
    a[threadIdx.x] = 1;
}
__global__ void get(const int *a, int *out)
{
    out[threadIdx.x] = a[threadIdx.x];
}

int main()
{
    int *a, *out, h[64];
    cudaStream_t s, t;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaMalloc(&a, 256);          // A
    cudaMalloc(&out, 256);        // LEAK
    put<<<1, 64, 0, s>>>(a);      // PUT
    get<<<1, 64, 0, t>>>(a, out); // GET
    cudaDeviceSynchronize();
    cudaMemcpy(h, a, 256, cudaMemcpyDeviceToHost);
    cudaFree(a);
    return 0;
}
