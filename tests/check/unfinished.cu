// A launch that does not end: unfinished.cu COUNT reads COUNT elements of 100, says so, and waits (cases.py).
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

__global__ void waits(const int *p, int *sum, int n, volatile int *flags)
{
    for (int i = threadIdx.x; i < n; i += 32)
        atomicAdd(sum, p[i]); // bad
    flags[0] = 1;
    while (flags[1] == 0)
        __nanosleep(1000);
}

int main(int argc, char **argv)
{
    int *p, *sum, *flags, n = argc > 1 ? atoi(argv[1]) : 100;
    cudaMalloc(&p, 100 * sizeof *p);
    cudaMalloc(&sum, sizeof *sum);
    cudaMemset(p, 0, 100 * sizeof *p);
    cudaMemset(sum, 0, sizeof *sum);
    cudaHostAlloc(&flags, 2 * sizeof *flags, cudaHostAllocMapped);
    flags[0] = flags[1] = 0;
    waits<<<1, 32>>>(p, sum, n, flags);
    while (*(volatile int *)flags == 0)
        usleep(1000);
    puts("waits");
    fflush(stdout);
    return cudaDeviceSynchronize();
}
