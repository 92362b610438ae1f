// A good launch, then one that fails (as the argument says); prints the error that the program sees.
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

__global__ void bad_free(int *p)
{
    p[threadIdx.x] = 2;
    if (threadIdx.x == 3)
        free(p); // the host's
}

__global__ void bad_address(int *p)
{
    for (int i = 0; i < 2; i++)
        ((volatile int *)p)[threadIdx.x + 32 * i * (1ll << 40)] = 2;
}

int main(int argc, char **argv)
{
    int *p;
    CHECK(cudaMalloc(&p, 128));
    good<<<1, 32>>>(p);
    CHECK(cudaDeviceSynchronize());
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "trap"))
        bad_trap<<<1, 32>>>(p);
    else if (!strcmp(how, "free"))
        bad_free<<<1, 32>>>(p);
    else if (!strcmp(how, "address"))
        bad_address<<<1, 32>>>(p);
    else
        bad_assert<<<1, 32>>>(p);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return 0;
}
