// A function that is not inlined asks for the active lanes, called from both sides of a branch: the sides are
// no group, although the question is at one place.
#include <cstdio>

__device__ __noinline__ unsigned ask(unsigned salt)
{
    unsigned mask = __activemask();
    return mask ^ salt;
}

__device__ __noinline__ unsigned through(unsigned salt)
{
    return ask(salt) ^ salt;
}

__global__ void masks(unsigned *out)
{
    unsigned t = threadIdx.x;
    if (t < 7)
        out[t] = through(1);
    else if (t < 12)
        out[t] = through(2) + 1;
    else
        out[t] = ask(4) ^ 4;
}

int main()
{
    unsigned out[32], *p;
    cudaMalloc(&p, sizeof out);
    masks<<<1, 32>>>(p);
    cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++)
        printf("%x%c", out[i], i < 31 ? ' ' : '\n');
    return 0;
}
