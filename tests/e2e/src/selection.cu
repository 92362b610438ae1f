// Launches that can be distinguished: kernel `a` writes 1 float a thread, `space::b<int>` reads 1 and
// writes 2. a<<<1, 32>>> and b<<<1, 64>>> in turns, ROUNDS times; round 2 lies between MEMTRACE_STOP and
// MEMTRACE_START if the first argument is "marks", between cudaProfilerStart and cudaProfilerStop if it is
// "profiler". Prints the sum of all.
#include <cstdio>
#include <cstring>
#include <cuda_profiler_api.h>
#include <memtrace/annotate.h>

enum { ROUNDS = 5, THREADS = 64 };

__global__ void a(float *p, float v)
{
    p[threadIdx.x] = v;
}

namespace space
{
template <class T> __global__ void b(float *p, T v)
{
    float was = p[threadIdx.x];
    p[THREADS + threadIdx.x] = was + v;
    p[2 * THREADS + threadIdx.x] = v;
}
} // namespace space

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    float *p, sum = 0;
    cudaMallocManaged(&p, 3 * THREADS * sizeof *p);
    memset(p, 0, 3 * THREADS * sizeof *p);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 2 && !strcmp(how, "marks"))
            MEMTRACE_STOP;
        if (round == 2 && !strcmp(how, "profiler"))
            cudaProfilerStart();
        a<<<1, 32>>>(p, round);
        space::b<int><<<1, THREADS>>>(p, round);
        if (round == 2 && !strcmp(how, "marks"))
            MEMTRACE_START;
        if (round == 2 && !strcmp(how, "profiler"))
            cudaProfilerStop();
        if (cudaDeviceSynchronize())
            return 1;
        for (int i = 0; i < 3 * THREADS; i++)
            sum += p[i];
    }
    printf("%g\n", sum);
    return 0;
}
