/* One warp, one kernel a pattern; tests/e2e/cases_lanes.py knows the requests of each. `x` is read where it
 * says so. */
#include <cstdio>
#include <cuda_runtime.h>
#define LOOP _Pragma("unroll 1")
#define HERE(s) asm volatile("// %0" : "+r"(s)) /* what is in different places stays there */
#define T ((int)threadIdx.x)

__global__ void one_at_a_time(const int *x, int *o)
{
    int s = 0;
    LOOP for (int k = 0; k < 32; k++) if (T == k) s += x[k]; // one
    o[T] = s;
}
__global__ void checker(const int *x, int *o)
{
    int s = 0;
    LOOP for (int k = 0; k < 32; k++) if ((T + k) & 1) s += x[k * 64 + T]; // half
    o[T] = s;
}
__global__ void band(const int *x, int *o)
{
    int s = 0;
    LOOP for (int d = -16; d <= 16; d++)
    {
        int c = T + d;
        if (c >= 0 && c < 32)
            s += x[c]; // band
    }
    o[T] = s;
}
__global__ void nested(const int *x, int *o)
{
    int s = 0;
    LOOP for (int i = 0; i < 4; i++)
    {
        HERE(s);
        LOOP for (int k = 0; k <= T % 4; k++)
        {
            if (k != i)
                s += x[i * 256 + k * 32 + T]; // nested
        }
        HERE(s);
    }
    o[T] = s;
}
__global__ void leaves(const int *x, int *o)
{
    int s = 0;
    LOOP for (int k = 0; k < 16; k++)
    {
        HERE(s);
        if (k == T / 2) {
            s += x[T]; // at break
            HERE(s);
            break;
        }
        HERE(s);
    }
    HERE(s);
    s += x[T]; // behind
    o[T] = s;
}
__global__ void skips(const int *x, int *o)
{
    int s = 0;
    LOOP for (int k = 0; k < 8; k++)
    {
        HERE(s);
        if (k % 4 != T % 4)
            continue;
        HERE(s);
        s += x[k * 32 + T]; // continued
    }
    o[T] = s;
}
__global__ void trips(const int *x, int *o) /* Collatz: as many steps as it takes */
{
    int s = 0;
    unsigned n = (unsigned)T + 1;
    LOOP while (n != 1)
    {
        HERE(s);
        if (n & 1) {
            s += x[T]; // odd
            n = 3 * n + 1;
        } else {
            n /= 2;
        }
        HERE(n);
    }
    o[T] = s;
}
__device__ __noinline__ int fetch(const int *x, int i)
{
    return x[i]; // fetched
}
__global__ void calls(const int *x, int *o)
{
    int s = 0;
    if (T % 2) {
        HERE(s);
        s += fetch(x, T);
        HERE(s);
    } else {
        HERE(s);
        s += fetch(x, T + 64);
        HERE(s);
    }
    LOOP for (int k = 0; k < 4; k++)
    {
        HERE(s);
        switch ((T + k) % 4) {
        case 0:
            s += fetch(x, T);
            HERE(s);
            break;
        case 1:
            s += 2 * fetch(x, T + 32);
            HERE(s);
            break;
        default:
            HERE(s);
        }
    }
    o[T] = s;
}
__device__ __noinline__ int tree(const int *x, int node,
                                 int depth) /* a lane goes left, right, or both ways */
{
    int s = x[node]; // node
    if (depth && T % 3 != 0)
        s += tree(x, 2 * node + 1, depth - 1);
    if (depth && T % 3 != 1)
        s += 3 * tree(x, 2 * node + 2, depth - 1);
    return s;
}
__global__ void trees(const int *x, int *o)
{
    o[T] = tree(x, 0, 3);
}
int main()
{
    int *x, *o;
    cudaMalloc(&x, 1 << 16);
    cudaMalloc(&o, 128);
    cudaMemset(x, 0, 1 << 16);
    one_at_a_time<<<1, 32>>>(x, o);
    checker<<<1, 32>>>(x, o);
    band<<<1, 32>>>(x, o);
    nested<<<1, 32>>>(x, o);
    leaves<<<1, 32>>>(x, o);
    skips<<<1, 32>>>(x, o);
    trips<<<1, 32>>>(x, o);
    calls<<<1, 32>>>(x, o);
    trees<<<1, 32>>>(x, o);
    int rc = cudaDeviceSynchronize();
    printf("%d\n", rc);
    return rc;
}
