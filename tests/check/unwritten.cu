// Words of shared memory that nothing writes, counted by hand (cases_init.py).
#include <cstdlib>

__global__ void again(int *out) // 64 threads: half of the words, several times
{
    __shared__ int s[64];
    int t = threadIdx.x, sum = 0;
    if (t < 32)
        s[t] = t;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 3; i++)
        sum += ((volatile int *)s)[t];
    sum += ((volatile int *)s)[t];
    out[t] = sum;
}
__global__ void wide(double *out) // 32 threads; 16 elements of two words are not written
{
    __shared__ double s[32];
    int t = threadIdx.x;
    if (t < 16)
        s[t] = t;
    __syncthreads();
    out[t] = ((volatile double *)s)[t];
}
__global__ void narrow(char *out) // 64 threads; bytes, of which 32 lie in 8 words
{
    __shared__ char s[64];
    int t = threadIdx.x;
    if (t < 32)
        s[t] = t;
    __syncthreads();
    out[t] = ((volatile char *)s)[t];
}
__global__ void by_last(int4 *out) // 32 x 2 threads: the last one's
{
    __shared__ int4 s[64];
    int t = threadIdx.y * 32 + threadIdx.x;
    if (t < 63)
        s[t] = make_int4(t, t, t, t);
    __syncthreads();
    int4 v;
    unsigned from = (unsigned)__cvta_generic_to_shared(&s[t]);
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from));
    out[t] = v;
}

int main()
{
    void *out;
    cudaMalloc(&out, 1024);
    again<<<2, 64>>>((int *)out);
    wide<<<1, 32>>>((double *)out);
    narrow<<<1, 64>>>((char *)out);
    by_last<<<1, dim3(32, 2)>>>((int4 *)out);
    return cudaFree(out) || cudaDeviceSynchronize();
}
