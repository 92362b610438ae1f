// What GPUs run and CUDA does not promise: found only with --strict (see faults.cu).
#include "faults.h"

// ---- threads that end before a barrier ----

__global__ void early(int *a, int right)
{
    int t = threadIdx.x;
    if (!right && t >= 40)
        return;
    a[t] += 1;
    __syncthreads(); // !early: left-out
    if (t < 40)
        a[64 + t] = a[39 - t];
}
__global__ void early_warp(int *a, int right)
{
    __shared__ int part[96];
    int t = threadIdx.x;
    part[t] = a[t];
    if (!right && t >= 64)
        return;
    __syncthreads(); // !early_warp: left-out
    a[t] = part[t ^ 1];
}
__global__ void last_round(int *a, int right)
{
    for (int n = 64; n > 16; n /= 2) {
        if (threadIdx.x < n)
            a[threadIdx.x] += 1;
        else if (!right)
            return;
        __syncthreads(); // !last_round: left-out
    }
}

// ---- lanes that write to one word ----

__global__ void who(int *a, int right)
{
    a[64] = right ? 7 : (int)threadIdx.x; // !who: same-word
}
__global__ void who_shared(int *a, int right)
{
    __shared__ int last;
    last = right ? 7 : (int)threadIdx.x; // !who_shared: same-word
    __syncthreads();
    a[threadIdx.x] = last;
}
__global__ void pairs(int *a, int right)
{
    int t = threadIdx.x;
    a[t / 2] = right ? t / 2 : t; // !pairs: same-word
}
__global__ void winner(int *a, int right)
{
    __shared__ int best[4];
    int t = threadIdx.x, v = a[t] + t;
    if (t < 4)
        best[t] = 0;
    __syncthreads();
    best[right ? t % 4 : v % 3] = right ? t % 4 : v; // !winner: same-word
    __syncthreads();
    a[t] = best[t % 3];
}

static const Fault faults[] = {
    {"early", of<early, 64>},   {"early_warp", of<early_warp, 96>}, {"last_round", of<last_round, 64>},
    {"who", of<who, 32>},       {"who_shared", of<who_shared, 32>}, {"pairs", of<pairs, 32>},
    {"winner", of<winner, 32>},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
