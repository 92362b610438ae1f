// A CTA waits for what another one writes, and writes to it itself. "counts": both only update words of which
// nothing wrote.
#include "faults.h"

__global__ void hands_on(int *a, volatile int *flag)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        a[t] = t;
        __threadfence();
        __syncthreads();
        if (t == 0)
            *flag = 1;
        return;
    }
    if (t == 0)
        while (!*flag)
            ;
    __syncthreads();
    a[t] = a[t] + 1;
}
__global__ void counts(int *a)
{
    atomicAdd(a + threadIdx.x, 1);
}

int main(int argc, char **argv)
{
    Buffer<int> a(64, false), flag(1);
    if (argc > 1)
        counts<<<2, 64>>>(a);
    else
        hands_on<<<2, 64>>>(a, flag);
    return cudaDeviceSynchronize();
}
