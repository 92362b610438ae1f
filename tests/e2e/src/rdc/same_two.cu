// Launches what same_one.cu has, and then its own; prints "1001 2025 6 9".
#include <cstdio>
void one(int *p);
template <class F> static __global__ void each(int *p, F f)
{
    p[threadIdx.x] += f(threadIdx.x);
}

namespace
{
__device__ int counter = 1000;
__global__ void own(int *p)
{
    p[0] += counter++;
}
} // namespace
static __device__ int step = 1000;
static __global__ void hid(int *p)
{
    p[1] += step++;
}
int main()
{
    int *p;
    cudaMallocManaged(&p, 16);
    for (int i = 0; i < 4; i++)
        p[i] = 0;
    one(p);
    hid<<<1, 1>>>(p);
    own<<<1, 1>>>(p);
    each<<<1, 4>>>(p, [] __device__(int i) { return 2 * i; });
    hid<<<1, 1>>>(p);
    cudaDeviceSynchronize();
    printf("%d %d %d %d\n", p[0], p[1], p[2], p[3]);
}
