// A good launch, then one that fails ("assert" or "trap"); prints the error that the program sees.
#include "../../../examples/common/example.h"
#include <assert.h>
#include <string.h>

__global__ void good(int *p)
{
    p[threadIdx.x] = threadIdx.x;
}

__global__ void bad_assert(int *p)
{
    p[threadIdx.x] = 2;
    assert(p[threadIdx.x] == (threadIdx.x == 3 ? 3 : 2));
}

__global__ void bad_trap(int *p)
{
    p[threadIdx.x] = 2;
    if (threadIdx.x == 3)
        __trap();
}

int main(int argc, char **argv)
{
    int *p;
    CHECK(cudaMalloc(&p, 128));
    good<<<1, 32>>>(p);
    CHECK(cudaDeviceSynchronize());
    if (argc > 1 && !strcmp(argv[1], "trap"))
        bad_trap<<<1, 32>>>(p);
    else
        bad_assert<<<1, 32>>>(p);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return 0;
}
