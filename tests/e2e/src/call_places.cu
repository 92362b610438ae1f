// Calls of the runtime whose place in the source is written down. What each makes comes after "@": the kind
// of line in the companion, once for each that it writes.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstring>

__device__ int words[64];

__global__ void kernel(int *p)
{
    p[threadIdx.x] = threadIdx.x;
}

static int failed;
#define MUST(call) failed += (call) != cudaSuccess

int main()
{
    int *a, *b, *c, *d, *e, host[64];
    size_t pitch;
    cudaPitchedPtr box;
    cudaArray_t array;
    cudaStream_t s;
    cudaMemPool_t pool;
    memset(host, 0, sizeof host);
    MUST(cudaStreamCreate(&s));
    MUST(cudaMalloc(&a, 256));                           // @alloc
    MUST(cudaMallocManaged(&b, 256));                    // @alloc
    MUST(cudaMallocHost(&c, 256));                       // @alloc
    MUST(cudaHostAlloc(&d, 256, cudaHostAllocDefault));  // @alloc
    MUST(cudaMallocPitch((void **)&e, &pitch, 16, 4));   // @alloc
    MUST(cudaMalloc3D(&box, make_cudaExtent(16, 4, 2))); // @alloc
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    MUST(cudaMallocArray(&array, &format, 8, 2)); // @alloc
    MUST(cudaFree(b));
    MUST(cudaMallocAsync((void **)&b, 256, s)); // @alloc
    MUST(cudaFreeAsync(b, s));
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMallocFromPoolAsync((void **)&b, 256, pool, s));                        // @alloc
    MUST(cudaMemset(a, 0, 256));                                                     // @memset
    MUST(cudaMemsetAsync(b, 0, 256, s));                                             // @memset
    MUST(cudaMemset2D(e, pitch, 0, 16, 4));                                          // @memset
    MUST(cudaMemset2DAsync(e, pitch, 0, 16, 4, s));                                  // @memset
    MUST(cudaMemset3D(box, 0, make_cudaExtent(16, 4, 1)));                           // @memset
    MUST(cudaMemset3DAsync(box, 0, make_cudaExtent(16, 4, 1), s));                   // @memset
    MUST(cudaMemcpy(a, host, 256, cudaMemcpyHostToDevice));                          // @memcpy
    MUST(cudaMemcpyAsync(b, c, 256, cudaMemcpyHostToDevice, s));                     // @memcpy
    MUST(cudaMemcpy2D(e, pitch, host, 16, 16, 4, cudaMemcpyHostToDevice));           // @memcpy
    MUST(cudaMemcpy2DAsync(e, pitch, c, 16, 16, 4, cudaMemcpyHostToDevice, s));      // @memcpy
    MUST(cudaMemcpyToSymbol(words, host, 256));                                      // @memcpy
    MUST(cudaMemcpyFromSymbol(host, words, 256));                                    // @memcpy
    MUST(cudaMemcpyPeer(a, 0, b, 0, 128));                                           // @memcpy
    MUST(cudaMemcpy2DToArray(array, 0, 0, host, 32, 32, 2, cudaMemcpyHostToDevice)); // @memcpy
    kernel<<<1, 32, 0, s>>>(a);                                                      // @launch
    void *args[] = {&a};
    MUST(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(32), args, 0, s));            // @launch
    MUST(cudaLaunchCooperativeKernel((const void *)kernel, dim3(1), dim3(32), args, 0, s)); // @launch
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    config.stream = s;
    MUST(cudaLaunchKernelExC(&config, (const void *)kernel, args)); // @launch
    MUST(cudaLaunchKernelEx(&config, kernel, a));                   // @launch
    MUST(cudaStreamSynchronize(s));
    MUST(cudaMemcpy(host, a, 256, cudaMemcpyDeviceToHost)); // @memcpy
    printf("%d failed, %d\n", failed, host[31]);
    return failed;
}
