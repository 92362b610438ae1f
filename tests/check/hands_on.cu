// A CTA waits for what another one writes, and writes to it itself. "counts": both only update words of which
// nothing wrote. "last": a counter says who reads; "second": nothing does.
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

__global__ void last(int *a, unsigned *done, int *out,
                     int waits) // the last CTA, or the second one, reads what the other one wrote
{
    __shared__ unsigned before;
    int t = threadIdx.x;
    a[blockIdx.x * 64 + t] = t;
    __threadfence();
    __syncthreads();
    if (t == 0)
        before = waits ? atomicAdd(done, 1) : blockIdx.x;
    __syncthreads();
    if (before == 1)
        out[t] = a[t] + a[64 + t];
}

int main(int argc, char **argv)
{
    Buffer<int> a(64, false), flag(1), both(128, false), out(64);
    if (argc > 1 && (!strcmp(argv[1], "last") || !strcmp(argv[1], "second")))
        last<<<2, 64>>>(both, (unsigned *)flag.p, out, argv[1][0] == 'l');
    else if (argc > 1)
        counts<<<2, 64>>>(a);
    else
        hands_on<<<2, 64>>>(a, flag);
    return cudaDeviceSynchronize();
}
