// Launches until it is killed; says "ready" when some launches are done.
#include "../../../examples/common/example.h"

__global__ void touch(int *p)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

int main()
{
    int *p;
    CHECK(cudaMalloc(&p, 1024 * sizeof(int)));
    for (long k = 0;; k++) {
        touch<<<4, 256>>>(p);
        CHECK(cudaDeviceSynchronize());
        if (k == 50) {
            printf("ready\n");
            fflush(stdout);
        }
    }
}
