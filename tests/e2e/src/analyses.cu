// Access patterns whose sectors, strides, conflicts and shared lines are known. 4 CTAs of 64 threads; lines
// with a mark (at their end) are looked for by the test.
#include <cstdio>
#include <cooperative_groups.h>

constexpr int CTAS = 4, THREADS = 64, N = CTAS * THREADS;

__device__ int id()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

__global__ void coalesced(const int *in, int *out)
{
    int v = in[id()]; // @unit-load
    out[id()] = v;    // @unit-store
}

__global__ void strided(const int *in, int *out)
{
    int v = in[id() * 32]; // @wide-load
    out[id()] = v;
}

__global__ void shifted(const int *in, int *out)
{
    int v = in[id() + 1]; // @shifted-load
    out[id()] = v;
}

__global__ void uniform(const int *in, int *out)
{
    int v = in[blockIdx.x]; // @uniform-load
    out[id()] = v;
}

__global__ void wide(const double *in, double *out)
{
    double v = in[id()]; // @double-load
    out[id()] = v;
}

__global__ void gathered(const int *in, int *out)
{
    int lane = threadIdx.x % 32;
    int v = in[id() - lane + lane * lane % 32]; // @gather-load
    out[id()] = v;
}

__global__ void odd(const int *in, int *out)
{
    if (threadIdx.x % 2) {
        int v = in[id()]; // @odd-load
        out[id()] = v;
    }
}

__global__ void counted(unsigned *counters)
{
    atomicAdd(&counters[threadIdx.x % 4], 1u);       // @atomic
    atomicAdd(&counters[8], 1u);                     // @atomic-one
    atomicAdd(&counters[32 + threadIdx.x % 32], 1u); // @atomic-each
}

// Each CTA stores its own word; the four words lie in one line of 128 bytes, and in four of 32.
__global__ void neighbours(int *words)
{
    if (threadIdx.x == 0)
        words[blockIdx.x * 8] = 1; // @false-store
}

// The last CTA to store wins, and what is loaded may be anybody's.
__global__ void racy(volatile int *word, int *out)
{
    if (threadIdx.x == 0) {
        *word = blockIdx.x;           // @race-store
        out[blockIdx.x * 32] = *word; // @race-load
    }
}

__global__ void exchange(int *words, int *out)
{
    if (threadIdx.x == 0)
        words[blockIdx.x] = blockIdx.x; // @before
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0)
        out[blockIdx.x * 32] = words[(blockIdx.x + 1) % gridDim.x]; // @after
}

int main()
{
    int *in, *out;
    cudaMalloc(&in, N * 32 * sizeof(int));
    cudaMalloc(&out, N * 32 * sizeof(int));
    cudaMemset(in, 0, N * 32 * sizeof(int));
    coalesced<<<CTAS, THREADS>>>(in, out);
    strided<<<CTAS, THREADS>>>(in, out);
    shifted<<<CTAS, THREADS>>>(in, out);
    uniform<<<CTAS, THREADS>>>(in, out);
    wide<<<CTAS, THREADS>>>((const double *)in, (double *)out);
    gathered<<<CTAS, THREADS>>>(in, out);
    odd<<<CTAS, THREADS>>>(in, out);
    counted<<<CTAS, THREADS>>>((unsigned *)out);
    neighbours<<<CTAS, THREADS>>>(out);
    racy<<<CTAS, THREADS>>>(in, out);
    void *arguments[] = {&in, &out};
    cudaLaunchCooperativeKernel((const void *)exchange, CTAS, THREADS, arguments, 0, nullptr);
    bool bad = cudaDeviceSynchronize() != cudaSuccess;
    cudaFree(in);
    cudaFree(out);
    std::puts(bad ? "failed" : "passed");
    return bad;
}
