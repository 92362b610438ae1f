// Stream-ordered frees: the call returns while a kernel still waits for the host
// and uses the memory afterwards.
#include <cstdio>
#include <cuda_runtime.h>

#define OK(call)                                                                                             \
    do {                                                                                                     \
        cudaError_t e = (call);                                                                              \
        if (e)                                                                                               \
            printf("order.cu:%d: %s\n", __LINE__, cudaGetErrorName(e));                                      \
    } while (0)

__global__ void wait_and_write(volatile int *flag, int *p, int *out)
{
    while (!*flag)
        ;
    p[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = p[threadIdx.x] + 1;
}

int main()
{
    int *flag, *p, *out, host[32], sum = 0;
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    OK(cudaMallocHost(&flag, sizeof *flag));
    OK(cudaMalloc(&out, sizeof host));
    *flag = 0;
    OK(cudaMallocAsync(&p, sizeof host, s));
    wait_and_write<<<1, 32, 0, s>>>(flag, p, out);
    OK(cudaFreeAsync(p, s));
    printf("query %s\n", cudaGetErrorName(cudaStreamQuery(s)));
    printf("again %s\n", cudaGetErrorName(cudaFreeAsync(p, s)));
    printf("free %s\n", cudaGetErrorName(cudaFree(p)));
    *(volatile int *)flag = 1;
    OK(cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < 32; i++)
        sum += host[i];
    printf("sum %d\n", sum);
    return 0;
}
