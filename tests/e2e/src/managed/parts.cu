#include "parts.h"
__managed__ int theirs[N] = {7, 8};
static __managed__ int hidden = 50;

__device__ int read_theirs(int i)
{
    return theirs[i];
}
static __global__ void add_hidden(int by)
{
    hidden += by;
}
int *address_of_theirs()
{
    return theirs;
}
int add_to_hidden(int by)
{
    hidden += 1;
    add_hidden<<<1, 1>>>(by);
    cudaDeviceSynchronize();
    return hidden;
}
