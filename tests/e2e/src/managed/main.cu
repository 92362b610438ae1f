// __managed__ variables across files: -fgpu-rdc.
#include <cstdio>
#include "parts.h"

static __managed__ int hidden = 10; // parts.cu has another one
__managed__ int mine[N] = {1, 2, 3};

__global__ void both(int by)
{
    int i = threadIdx.x;
    mine[i] += by + hidden;
    theirs[i] += read_theirs(i); // loads and stores of the other file's
}
static int first()
{
    mine[1] = 20; // before its kernel runs
    both<<<1, N>>>(100);
    cudaDeviceSynchronize();
    return mine[1] + theirs[1];
}
#ifdef EARLY // before main, which nvcc's programs must not
static int seen = first();
#endif

int main()
{
#ifndef EARLY
    int seen = first();
#endif
    hidden++;
    theirs[0] = 1000;
    both<<<1, N>>>(0);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s first %d mine %d %d %d theirs %d %d same %d hidden %d\n", cudaGetErrorName(error), seen,
           mine[0], mine[1], mine[N - 1], theirs[0], theirs[1], address_of_theirs() == theirs,
           add_to_hidden(5));
    cudaPointerAttributes a;
    cudaPointerGetAttributes(&a, theirs + 3);
    printf("type %d\n%p %p\n", a.type, (void *)mine, (void *)theirs);
    return error;
}
