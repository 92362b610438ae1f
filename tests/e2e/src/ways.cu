// Loops that lanes leave in rounds of their own, and what they do before they meet: the requests of each line
// with a mark are counted in cases_lanes.py. In round i of a loop t[i * 32 + lane] is 1 for lanes that leave.
#include <cstdio>
#include <cuda_runtime.h>
#define LOOP _Pragma("unroll 1")
#define HERE(i) asm volatile("// %0" : "+r"(i)) /* what is in different places stays there */
#define L ((int)threadIdx.x)

// Its first test is asked before the loop, when LLVM has rotated it.
__global__ void rotated(const int *t, int *o, int n)
{
    int i = 0;
    LOOP for (;;)
    {
        if (t[i * 32 + L] == 1) {
            o[L] = i; // rotated: left
            break;
        }
        if (++i >= n)
            break;
        o[i * 32 + L] = i; // rotated: rounds
    }
    o[L + 32] = 7; // rotated: behind
}

__global__ void either(const int *t, int *o, int n)
{
    LOOP for (int i = 0; i < n; i++) if (t[i * 32 + L] == 1 || t[i * 32 + (L ^ 1)] == 1)
    {
        o[L] = i; // either: left
        break;
    }
    o[L + 32] = 7; // either: behind
}

__global__ void returned(const int *t, int *o, int n)
{
    int i;
    LOOP for (i = 0; i < n + (L & 3); i++)
    {
        HERE(i);
        if (i < n && t[i * 32 + L] == 1) {
            HERE(i);
            o[L] = i; // returned: left
            HERE(i);
            return;
        }
        o[i * 32 + L] = i; // returned: rounds
        HERE(i);
    }
    HERE(i);
    o[L + 32] = 7; // returned: behind
}

__global__ void nested(const int *t, int *o, int n)
{
    int i = 0, j;
    LOOP for (j = 0; j < 4; j++)
    {
        HERE(i);
        LOOP for (i = 0; i < 3; i++)
        {
            HERE(i);
            if (t[((j * 3 + i) & 3) * 32 + (L ^ j)] == 1)
                goto leave;
            HERE(i);
        }
        HERE(i);
        o[j * 32 + L + 96] = i; // nested: inner
        HERE(i);
    }
    HERE(i);
    goto end;
leave:
    HERE(i);
    o[L] = j; // nested: left
    HERE(i);
end:
    HERE(i);
    o[L + 32] = i; // nested: behind
}

__global__ void loops(const int *t, int *o, int n)
{
    int i = 0, j;
    LOOP for (;;)
    {
        HERE(i);
        if (t[i * 32 + L] == 1)
            goto leave;
        if (++i >= n)
            goto end;
    }
leave:
    HERE(i);
    LOOP for (j = i + 1; j > 0; j--)
    {
        HERE(j);
        o[L + j + 300] = j; // loops: left
        HERE(j);
    }
    HERE(i);
    o[L + 7] = i; // loops: more
    HERE(i);
end:
    HERE(i);
    o[L + 32] = i; // loops: behind
}

__global__ void gotos(const int *t, int *o, int n)
{
    int i = 0;
    if (L % 3 == 0)
        goto shared;
    HERE(i);
    o[L] = i; // gotos: first
    if (t[L] == 1)
        goto skip;
    HERE(i);
    o[L + 32] = i; // gotos: second
shared:
    HERE(i);
    o[L + 64] = i; // gotos: shared
    HERE(i);
skip:
    HERE(i);
    o[L + 96] = i; // gotos: behind
}

__global__ void unrolled(const int *t, volatile int *o, int n)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (t[i * 32 + L] == 1) {
            o[L] = i; // unrolled: left
            break;
        }
    o[L + 32] = 7; // unrolled: behind
}

// A guard that all lanes take alike goes past the loop, to what two of its ways out share.
__global__ void guarded(const int *t, int *o, int n)
{
    int i;
    LOOP for (i = 0; i < n; i++)
    {
        HERE(i);
        if (t[i * 32 + L] == 1)
            goto end;
        HERE(i);
        if (t[i * 32 + (L ^ 1)] == 1)
            break;
        HERE(i);
    }
    HERE(i);
    o[L] = i; // guarded: shared
    HERE(i);
end:
    HERE(i);
    o[L + 32] = i; // guarded: behind
}

// LLVM makes two loops of such a one.
__global__ void continued(const int *t, int *o, int n)
{
    int i = 0, sum = 0;
    while (i++ < n) {
        if (t[(i & 3) * 32 + L] == 1) // continued: asks
            continue;
        sum += t[((i & 3) + 4) * 32 + L]; // continued: rounds
    }
    o[L] = sum; // continued: behind
}

int main()
{
    static int h[12 * 32];
    int *t, *o, n = 12;
    for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < 32; lane++)
            h[i * 32 + lane] = lane % 5 != 4 && lane % 4 == i;
    cudaMalloc(&t, sizeof h);
    cudaMalloc(&o, 4 * sizeof h);
    cudaMemcpy(t, h, sizeof h, cudaMemcpyHostToDevice);
    rotated<<<1, 32>>>(t, o, n);
    either<<<1, 32>>>(t, o, n);
    returned<<<1, 32>>>(t, o, n);
    nested<<<1, 32>>>(t, o, n);
    loops<<<1, 32>>>(t, o, n);
    gotos<<<1, 32>>>(t, o, n);
    unrolled<<<1, 32>>>(t, o, n);
    guarded<<<1, 32>>>(t, o, n);
    continued<<<1, 32>>>(t, o, 4);
    int rc = cudaDeviceSynchronize();
    printf("%d\n", rc);
    return rc;
}
