// Device code of two files: what each knows of the other.
#pragma once
struct Shape {
    __device__ virtual int area(int) = 0;
    __device__ virtual ~Shape()
    {
    }
};
typedef int (*Function)(int);

extern __device__ int offset;
extern __constant__ int weights[4];
__device__ int add(const int *p, int i); // 2 * p[i]
__device__ Shape *make_shape(int kind);
__device__ Function pick(int odd);
__device__ int sum_of_block(int i);
__device__ void bump();
__device__ int choose(int i);     // parts.cu: weak; main.cu: the one that counts
inline __device__ int common = 5; // one variable in the program
__device__ int read_common();

template <typename T> __device__ T *in_shared(int i)
{
    __shared__ T values[64];
    values[i] = 7 * i;
    return &values[i];
}
template <typename T> __global__ void fill(T *out, T value)
{
    out[threadIdx.x] = value;
}
__global__ void scaled(int *out, int factor);
void launch_from_parts(int *out);
