// Kernel `slow` begins first and waits for `fast` on another stream, which begins later and ends earlier;
// then copies, fills and freed memory between launches, a stream that is destroyed, a launch that is smaller.
#include <memtrace/annotate.h>

enum { CTAS = 4, THREADS = 64, N = CTAS * THREADS };

#pragma memtrace off
static __device__ void wait_for(volatile int *flag, int value)
{
    while (*flag != value) {
    }
}
static __device__ void raise_to(volatile int *flag, int value)
{
    *flag = value;
    __threadfence_system();
}
#pragma memtrace on

__global__ void slow(int *p, int *flags)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    p[i] = i;
    if (i == 0)
        raise_to(flags, 1);
    wait_for(flags + 1, 1);
    p[i] += 1;
}

__global__ void fast(int *p, int *flags, int stores)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < stores; k++)
        ((volatile int *)p)[N + i] = k;
    __syncthreads();
    if (i == 0)
        raise_to(flags + 1, 1);
}

__global__ void shift(const int *from, int *to, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[(i + by) % N];
}

int main()
{
    int *p, *q, *flags, host[N];
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaMalloc(&p, 2 * N * sizeof *p);
    cudaMallocManaged(&flags, 2 * sizeof *flags);
    slow<<<1, THREADS, 0, a>>>(p, flags);
    while (*(volatile int *)flags != 1) {
    }
    fast<<<CTAS, THREADS, 0, b>>>(p, flags, 10);
    cudaDeviceSynchronize();
    for (int i = 0; i < N; i++)
        host[i] = i;
    for (int round = 0; round < 3; round++) {
        cudaMalloc(&q, N * sizeof *q);
        shift<<<CTAS, THREADS, 0, b>>>(p + N, q, 5); // of what `fast` or the host wrote
        cudaStreamSynchronize(b);
        cudaMemcpy(p + N, round ? host : q, N * sizeof *p,
                   round ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice);
        cudaMemset(q, 0, 16);
        shift<<<CTAS, THREADS, 0, a>>>(q, p, 70);
        cudaStreamSynchronize(a);
        cudaFree(q);
    }
    cudaStreamDestroy(b);
    shift<<<CTAS, THREADS>>>(p, p + N, 1);
    return cudaDeviceSynchronize();
}
