#include "parts.h"
__device__ int offset = 7;
__constant__ int weights[4] = {1, 2, 3, 4};
extern __device__ int total;

__device__ int add(const int *p, int i)
{
    return 2 * p[i];
}
struct Double : Shape {
    __device__ int area(int i) override
    {
        return 2 * i;
    }
};
struct Square : Shape {
    __device__ int area(int i) override;
};
__device__ int Square::area(int i)
{
    return i * i;
}
__device__ Shape *make_shape(int kind)
{
    return kind ? (Shape *)new Square : (Shape *)new Double;
}
static __device__ int plus(int i)
{
    return i + 100;
}
static __device__ int minus(int i)
{
    return i - 100;
}
__device__ Function pick(int odd)
{
    return odd ? plus : minus;
}
__device__ int sum_of_block(int i)
{
    __shared__ int values[64];
    values[i] = 3 * i;
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < 64; k++)
        sum += values[k];
    __syncthreads();
    return sum;
}
__device__ void bump()
{
    atomicAdd(&total, 2);
}
__device__ __attribute__((weak)) int choose(int i)
{
    return -1;
}
__device__ int read_common()
{
    return common;
}
__device__ int relay(int i)
{
    return choose(i);
}
__global__ void scaled(int *out, int factor)
{
    out[threadIdx.x] = factor * threadIdx.x;
}
void launch_from_parts(int *out)
{
    scaled<<<1, 64>>>(out, 3);
    fill<float><<<1, 64>>>((float *)out, 1.5f);
}
