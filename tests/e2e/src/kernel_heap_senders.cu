// Blocks that kernels allocate, and who wrote what is read in them; then a block that is freed and allocated
// again in one launch.
#include "../../../examples/common/example.h"

__global__ void make(int **p)
{
    int *q = (int *)malloc(64);
    q[0] = 1;
    p[blockIdx.x] = q;
}

// Of the other CTA's block.
__global__ void use(int **p, int *o)
{
    o[blockIdx.x] = p[1 - blockIdx.x][0];
}

__global__ void again(int **p)
{
    int *q = p[blockIdx.x], v = q[0];
    free(q);
    q = (int *)malloc(64);
    q[0] = v + 1;
    p[blockIdx.x] = q;
}

int main()
{
    int **p, *o, first[2], second[2];
    CHECK(cudaMalloc(&p, 2 * sizeof *p));
    CHECK(cudaMalloc(&o, sizeof first));
    make<<<2, 1>>>(p);
    use<<<2, 1>>>(p, o);
    CHECK(cudaMemcpy(first, o, sizeof first, cudaMemcpyDeviceToHost));
    again<<<2, 1>>>(p);
    use<<<2, 1>>>(p, o);
    CHECK(cudaMemcpy(second, o, sizeof second, cudaMemcpyDeviceToHost));
    printf("%d %d %d %d\n", first[0], first[1], second[0], second[1]);
    return 0;
}
