/* Kernels of one signature, whose host stubs are the same code but for the address of each. Prints the digits
 * of the kernels that ran, and the last error. */
#include <cstdio>

__global__ void first(int *v)
{
    *v = *v * 10 + 1;
}

__global__ void second(int *v)
{
    *v = *v * 10 + 2;
}

template <int N> __global__ void more(int *v)
{
    *v = *v * 10 + N;
}

int main()
{
    int *v;
    cudaMallocManaged(&v, sizeof *v);
    *v = 0;
    first<<<1, 1>>>(v);
    second<<<1, 1>>>(v);
    more<3><<<1, 1>>>(v);
    more<4><<<1, 1>>>(v);
    cudaDeviceSynchronize();
    printf("%d %d\n", *v, (int)cudaGetLastError());
}
