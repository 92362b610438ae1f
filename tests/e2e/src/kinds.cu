// One kernel per kind of access; each thread makes it once. Prints the results' sums for comparison.
#include "../../../examples/common/example.h"

constexpr int N = 32;

__global__ void volatile_access(volatile int *p)
{
    int value = p[threadIdx.x];
    p[threadIdx.x] = value + 1;
}

__global__ void read_only(const int *__restrict__ in, int *out)
{
    out[threadIdx.x] = __ldg(&in[threadIdx.x]);
}

__global__ void vectors(const float4 *in, float4 *out)
{
    out[threadIdx.x] = in[threadIdx.x];
}

__global__ void add(int *p)
{
    atomicAdd(p, 2);
}

__global__ void subtract(int *p)
{
    atomicSub(p, 1);
}

__global__ void exchange(int *p)
{
    atomicExch(p, 7);
}

__global__ void minimum(int *p)
{
    atomicMin(p, (int)threadIdx.x);
}

__global__ void maximum(unsigned *p)
{
    atomicMax(p, threadIdx.x);
}

__global__ void increment(unsigned *p)
{
    atomicInc(p, 1000u);
}

__global__ void decrement(unsigned *p)
{
    atomicDec(p, 1000u);
}

__global__ void bits(unsigned *p)
{
    atomicAnd(p, ~threadIdx.x);
    atomicOr(p, threadIdx.x);
    atomicXor(p, 1u);
}

__global__ void compare_and_swap(unsigned *p)
{
    atomicCAS(p + threadIdx.x, 0u, 5u);
}

__global__ void add_wide(unsigned long long *p)
{
    atomicAdd(p, 3ull);
}

__global__ void add_float(float *p)
{
    atomicAdd(p, 0.5f);
}

__global__ void add_double(double *p)
{
    atomicAdd(p, 0.25);
}

__global__ void add_scoped(int *p)
{
    atomicAdd_system(p, 1);
    atomicAdd_block(p, 1);
}

// Old values are used: a read-modify-write and not a reduction; still one access.
__global__ void take_ticket(int *p, int *out)
{
    out[atomicAdd(p, 1)] = 1;
}

__global__ void fill(char *p, int bytes)
{
    memset(p + threadIdx.x * 64, threadIdx.x, bytes);
}

// Half of the threads are switched off: no records from them.
__global__ void predicated(int *p, int n)
{
    if ((int)threadIdx.x < n)
        p[threadIdx.x] = n;
}

__global__ void narrow(const unsigned char *in, unsigned short *out)
{
    out[threadIdx.x] = in[threadIdx.x] + 1;
}

int main()
{
    const size_t bytes = 64 * N;
    char *a, *b;
    static unsigned char back[2][64 * N];
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMemset(a, 0, bytes));
    CHECK(cudaMemset(b, 0, bytes));
    volatile_access<<<1, N>>>((int *)a);
    read_only<<<1, N>>>((int *)a, (int *)b);
    vectors<<<1, N>>>((float4 *)a, (float4 *)b);
    add<<<1, N>>>((int *)a);
    subtract<<<1, N>>>((int *)a);
    exchange<<<1, N>>>((int *)a + 1);
    minimum<<<1, N>>>((int *)a + 2);
    maximum<<<1, N>>>((unsigned *)a + 3);
    increment<<<1, N>>>((unsigned *)a + 4);
    decrement<<<1, N>>>((unsigned *)a + 5);
    bits<<<1, N>>>((unsigned *)a + 6);
    compare_and_swap<<<1, N>>>((unsigned *)b);
    add_wide<<<1, N>>>((unsigned long long *)b + 20);
    add_float<<<1, N>>>((float *)b + 50);
    add_double<<<1, N>>>((double *)b + 30);
    add_scoped<<<1, N>>>((int *)b + 70);
    take_ticket<<<1, N>>>((int *)b + 71, (int *)b + 80);
    predicated<<<1, N>>>((int *)b + 130, N / 2);
    narrow<<<1, N>>>((unsigned char *)a, (unsigned short *)b + 400);
    CHECK(cudaMemcpy(back[0], a, bytes, cudaMemcpyDeviceToHost));
    fill<<<1, N>>>(a, 48);
    fill<<<1, N>>>(a, 0);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(back[1], a, bytes, cudaMemcpyDeviceToHost));
    int *ints = (int *)back[0];
    long wrong = 0;
    wrong += ints[0] != 1 + 2 * N - N; // volatile_access, add, subtract
    wrong += (ints[1] != 7) + (ints[2] != 0) + (ints[3] != N - 1);
    wrong += (ints[4] != 1 + N) + (ints[5] != 1001 - N + 1);
    for (int k = 0; k < 64 * N; k++)
        if (k % 64 < 48)
            wrong += back[1][k] != k / 64;
    CHECK(cudaMemcpy(back[1], b, bytes, cudaMemcpyDeviceToHost));
    ints = (int *)back[1];
    wrong += ((unsigned long long *)back[1])[20] != 3ull * N;
    wrong += ((float *)back[1])[50] != 0.5f * N || ((double *)back[1])[30] != 0.25 * N;
    wrong += (ints[70] != 2 * N) + (ints[71] != N);
    for (int k = 0; k < N; k++) {
        wrong += ints[80 + k] != 1;
        wrong += ints[130 + k] != (k < N / 2 ? N / 2 : 0);
        wrong += ((unsigned short *)back[1])[400 + k] != back[0][k] + 1;
    }
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    return verdict("kinds", wrong);
}
