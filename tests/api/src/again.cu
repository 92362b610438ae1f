// The same mistake in each of 100 launches; with an argument a kernel that faults where no access is looked
// at.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void beyond(int *p)
{
    p[threadIdx.x] = 1;
    p[threadIdx.x + 64] = 2; // ANOTHER
}
__global__ void far_away(int *out, int step)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[threadIdx.x * step];
}

int main(int argc, char **argv)
{
    int *p;
    cudaMalloc(&p, 4 * 60);
    if (argc > 1)
        far_away<<<1, 60>>>(p, 1 << 23);
    for (int i = 0; i < 100 && argc < 2; i++)
        beyond<<<1, 64>>>(p);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
