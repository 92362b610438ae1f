// Races whose words are counted by hand (cases.py).
#include "faults.h"

enum { CTAS = 4, THREADS = 64, ALL = CTAS * THREADS };

// One thread reads what all have written: of some that is before, of others after.
template <int WHO> __global__ void sums(int *out)
{
    __shared__ int s[2 * THREADS];
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == WHO) {
        int sum = 0;
#pragma unroll 1
        for (int i = 0; i < 2 * THREADS; i++)
            sum += ((volatile int *)s)[i];
        out[0] = sum;
    }
}
__global__ void both_sides(int *out) // two reads of one line have most words in common
{
    __shared__ int s[2 * THREADS];
    int t = threadIdx.x, n = blockDim.x;
    s[t] = t;
    out[t] = (t > 0 ? s[t - 1] : 0) + (t < n - 1 ? s[t + 1] : 0);
}
__global__ void rounds(int *out) // each word again and again, in both orders
{
    __shared__ int s[2 * THREADS];
    int t = threadIdx.x, n = blockDim.x;
#pragma unroll 1
    for (int i = 0; i < 3; i++) {
        s[t] = i;
        out[t] += s[(t + 1) % n];
    }
}
template <int MODE> __global__ void next_one(int *a, int *out) // 0: of all, 1: of the CTA, 2: of the next CTA
{
    int t = threadIdx.x, n = blockDim.x, i = blockIdx.x * n + t;
    a[i] = i;
    if (MODE == 0)
        out[i] = a[(i + 1) % ALL];
    else if (MODE == 1)
        out[i] = a[i - t + (t + 1) % n];
    else if (t == n - 1)
        out[i] = a[(i + 1) % ALL];
}
__global__ void next_byte(char *a, char *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = i;
    out[i] = a[(i + THREADS / 2) % ALL];
}

int main()
{
    Buffer<int> a(ALL), out(ALL);
    Buffer<char> b(ALL), c(ALL);
    sums<0><<<1, 2 * THREADS>>>(out);
    sums<THREADS><<<1, 2 * THREADS>>>(out);
    both_sides<<<1, 2 * THREADS>>>(out);
    rounds<<<1, 2 * THREADS>>>(out);
    next_one<0><<<CTAS, THREADS>>>(a, out);
    next_one<1><<<CTAS, THREADS>>>(a, out);
    next_one<2><<<CTAS, THREADS>>>(a, out);
    next_byte<<<CTAS, THREADS>>>(b, c);
    return cudaDeviceSynchronize();
}
