// Accesses in a row, and a loop, of which one faults in the second CTA: what was not accessed is in no trace.
#include <cstdio>
#include <cstdlib>
typedef unsigned u;

__global__ void row(const u *in, u *out)
{
    const u *bad = blockIdx.x ? (const u *)16 : in;
    u i = threadIdx.x, a = in[i];
    a += bad[i + 64];
    a += in[i + 128];
    out[i] = a;
}

__global__ void loop(const u *in, u *out, u n)
{
    u a = 0, last = blockIdx.x ? 1u << 30 : n;
#pragma unroll 1
    for (u i = 0; i < last; i++)
        a += in[threadIdx.x + 1024ull * i];
    out[threadIdx.x] = a;
}

// Ends after hours.
__global__ void hours(volatile u *out, u n)
{
#pragma unroll 1
    for (u i = 0; i < n; i++) {
        out[threadIdx.x] += i;
        out[threadIdx.x + 64] += 1;
    }
}

int main(int argc, char **argv)
{
    u *in, *out;
    cudaMalloc(&in, 1 << 20);
    cudaMalloc(&out, 1 << 12);
    cudaMemset(in, 0, 1 << 20);
    if (atoi(argv[1]) == 2)
        hours<<<2, 32>>>(out, ~0u);
    else if (atoi(argv[1]))
        loop<<<2, 32>>>(in, out, 9);
    else
        row<<<2, 32>>>(in, out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return argc == 2 ? 0 : 1;
}
