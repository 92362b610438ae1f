// Has a kernel and never launches it.
#include "../../../examples/common/example.h"

__global__ void never(int *p)
{
    *p = 1;
}

int main(int argc, char **)
{
    int *p;
    CHECK(cudaMalloc(&p, 4));
    if (argc > 100)
        never<<<1, 1>>>(p);
    CHECK(cudaFree(p));
    printf("no_launch: passed\n");
    return 0;
}
