// Static kernels and variables, and those of unnamed namespaces, with the names that same_two.cu has, too.
#include <cuda_runtime.h>
template <class F> static __global__ void each(int *p, F f)
{
    p[threadIdx.x] += f(threadIdx.x);
}
namespace
{
__device__ int counter = 1;
__global__ void own(int *p)
{
    p[0] += counter++;
}
} // namespace
static __device__ int step = 10;
static __global__ void hid(int *p)
{
    p[1] += step++;
}
void one(int *p)
{
    each<<<1, 4>>>(p, [] __device__(int i) { return i; });
    own<<<1, 1>>>(p);
    hid<<<1, 1>>>(p);
    hid<<<1, 1>>>(p);
    cudaDeviceSynchronize();
}
