// Loops that read memory as threads that wait for one another do, and that the lanes of a warp leave in
// rounds of their own: cases_polls.py knows the requests of each line with a mark. Argument: threads of a
// CTA.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define N 512 /* of p */
#define LOOP _Pragma("unroll 1")
#define HERE(what, s) asm volatile("// " what " %0" : "+r"(s)) /* what is in different places stays there */

struct places {
    int *p, *x, *flag;
};

__device__ int look(int *a)
{
    return *(volatile int *)a;
}
__device__ int look_relaxed(int *a)
{
    int v;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(a) : "memory");
    return v;
}

__global__ void walk(int *p, const int *x, int *o)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x, s = x[r], q; // walk: before
    while ((q = look(&p[r])) != r)                              // walk: -
        r = q;
    o[blockIdx.x * blockDim.x + threadIdx.x] = r + s; // walk: behind
    __syncthreads();
    o[N + blockIdx.x * blockDim.x + threadIdx.x] = s; // walk: past
}

__global__ void relaxed(int *p, const int *x, int *o)
{
    int r = threadIdx.x, s = x[r], q; // relaxed: before
    while ((q = look_relaxed(&p[r])) != r)
        r = q;
    o[threadIdx.x] = r + s; // relaxed: behind
    __syncthreads();
    o[N + threadIdx.x] = s; // relaxed: past
}

// `add`: 0.
__global__ void added(int *p, const int *x, int *o, int add)
{
    int r = threadIdx.x, s = x[r], q;      // added: before
    while ((q = atomicAdd(&p[r], 0)) != r) // added: looks
        r = q;
    o[threadIdx.x] = r + s; // added: behind
    __syncthreads();
    o[N + threadIdx.x] = s; // added: past
}

__global__ void nested(int *p, const int *x, int *o)
{
    int t = threadIdx.x;
    if (t == 3)
        return;
    LOOP for (int k = 0; k < 1 + t % 3; k++)
    {
        int r = t + k * 37, q;
        while ((q = *(volatile int *)&p[r]) != r) // nested: looks
            r = q;
        o[k * N + t] = r; // nested: each
    }
    o[t + 3 * N] = 1; // nested: behind
}

__global__ void twice(int *p, const int *x, int *o)
{
    int t = threadIdx.x, r = t, q;
    while ((q = *(volatile int *)&p[r]) != r) // twice: first
        r = q;
    o[t] = x[t] + r; // twice: between
    r = 300 - t % 256;
    while ((q = *(volatile int *)&p[r]) != r) // twice: second
        r = q;
    o[N + t] = r; // twice: behind
}

__global__ void jumps(int *p, const int *x, int *o)
{
    int t = threadIdx.x, r = t, q;
    LOOP for (;;)
    {
        q = *(volatile int *)&p[r]; // jumps: looks
        if (q == r)
            break;
        r = q;
        if (q % 4 == 1) {
            o[t] = 1; // jumps: continued
            continue;
        }
        switch (q % 3) {
        case 0:
            o[N + t] = q; // jumps: case 0
            HERE("case 0", r);
            break;
        case 1:
            o[2 * N + t] = q; // jumps: case 1
            HERE("case 1", r);
        case 2:
            o[3 * N + t] = q; // jumps: case 2
            HERE("case 2", r);
        }
        if (q % 11 == 7) {
            o[4 * N + t] = q; // jumps: returned
            HERE("returned", r);
            return;
        }
        if (q % 11 == 3) {
            o[5 * N + t] = q; // jumps: broken
            HERE("broken", r);
            break;
        }
    }
    o[6 * N + t] = r; // jumps: behind
}

// A switch over all there is, in a loop that is left in two ways.
__global__ void chosen(int *p, const int *x, volatile int *o)
{
    unsigned t = threadIdx.x, v = x[t], m = 1 + v % 4;
    LOOP for (unsigned i = 0; i < m; i++)
    {
        switch ((v + i) & 3) {
        case 0:
            o[t] = 1; // chosen: case 0
            break;
        case 1:
            o[N + t] = 2; // chosen: case 1
        case 2:
            o[2 * N + t] = 3; // chosen: case 2
            break;
        case 3:
            v += 4;
            break;
        }
        if (t % 32 < 20)
            break;
    }
    o[3 * N + t] = v; // chosen: behind
}

// A table of 64 places, of which each thread looks for its key.
__global__ void found(int *p, const int *x, int *o)
{
    int t = threadIdx.x, s = t * 7 % 64, key;
    while ((key = *(volatile int *)&x[s]) != t % 50 && key >= 0) // found: looks
        s = (s + 1) % 64;
    o[t] = s; // found: behind
}

__global__ void counted(int *p, const int *x, int *o)
{
    int t = threadIdx.x, k = 0;
    LOOP for (k = 0; k < 9; k++) if (*(volatile int *)&p[t] % 9 == k) // counted: looks
        break;
    o[t] = k; // counted: behind
}

// All warps but the last wait for it, each lane for a thread of its own.
__global__ void waits(int *p, const int *x, int *o, volatile int *flag)
{
    int t = threadIdx.x, last = (blockDim.x - 1) / 32, s = x[t]; // waits: before
    if (t / 32 == last)
        flag[t % 32] = 1; // waits: sets
    else
        while (!flag[t % (blockDim.x - 32 * last)])
            ;
    o[t] = s; // waits: behind
    __syncthreads();
    o[N + t] = s; // waits: past
}

// One after the other, in a warp and from warp to warp.
__global__ void in_turn(int *p, const int *x, int *o, volatile int *turn)
{
    int t = threadIdx.x, s = x[t]; // in_turn: before
    while (*turn != t)
        ;
    o[t] = t ? o[t - 1] + 1 : 0; // in_turn: turn
    __threadfence();
    *turn = t + 1; // in_turn: turn
    __syncthreads();
    o[N + t] = s; // in_turn: past
}

int main(int argc, char **argv)
{
    static int h[N], x[N], o[8 * N];
    int threads = argc > 1 ? atoi(argv[1]) : 64, bad = 0, *p, *d, *out, *flag;
    for (int i = 0; i < N; i++) {
        h[i] = i < 8 ? i : i - (i * 5 % 7 + 1);
        x[i] = i < 50 && i % 3 ? i : i * 13 % 50;
    }
    int table[64];
    for (int &key : table)
        key = -1;
    for (int i = 0; i < 50; i++) {
        int s = i * 7 % 64;
        for (; table[s] >= 0; s = (s + 1) % 64)
            ;
        table[s] = i;
    }
    cudaMalloc(&p, sizeof h);
    cudaMalloc(&d, sizeof x);
    cudaMalloc(&out, sizeof o);
    cudaMalloc(&flag, 64 * sizeof *flag);
    cudaMemcpy(p, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(d, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemset(flag, 0, 64 * sizeof *flag);
    walk<<<2, threads>>>(p, d, out);
    relaxed<<<1, threads>>>(p, d, out);
    added<<<1, threads>>>(p, d, out, 0);
    nested<<<1, threads>>>(p, d, out);
    twice<<<1, threads>>>(p, d, out);
    jumps<<<1, threads>>>(p, d, out);
    chosen<<<1, threads>>>(p, d, out);
    counted<<<1, threads>>>(p, d, out);
    waits<<<1, threads>>>(p, d, out, flag);
    in_turn<<<1, threads>>>(p, d, out, flag + 63);
    cudaMemcpy(o, out, sizeof o, cudaMemcpyDeviceToHost);
    for (int t = 0; t < threads; t++)
        bad += o[t] != t;
    cudaMemcpy(d, table, sizeof table, cudaMemcpyHostToDevice);
    found<<<1, threads>>>(p, d, out);
    cudaMemcpy(o, out, sizeof o, cudaMemcpyDeviceToHost);
    for (int t = 0; t < threads; t++)
        bad += o[t] < 0 || o[t] >= 64 || (table[o[t]] != t % 50 && (t < 50 || table[o[t]] >= 0));
    printf("%d wrong\n", bad + (cudaDeviceSynchronize() != cudaSuccess));
    return 0;
}
