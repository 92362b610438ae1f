// A thread's own array, larger than the stack of a device thread: in a kernel whose threads wait for each
// other, and in one whose threads do not.
#include <cstdio>

enum { N = 100000, THREADS = 64 };

__device__ int use(volatile int *own, int t)
{
    int sum = 0;
    for (int i = t; i < N; i += 4999)
        own[i] = i;
    own[t] += 1;
    for (int i = t; i < N; i += 4999)
        sum += own[i];
    return sum;
}

__global__ void waits(int *out)
{
    volatile int own[N];
    int sum = use(own, threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = sum + own[threadIdx.x];
}

__global__ void runs(int *out)
{
    volatile int own[8 * N];
    out[threadIdx.x] = use(own + 7 * N, threadIdx.x) + use(own, threadIdx.x);
}

int main(int argc, char **argv)
{
    int *out, bad = 0, waiting = argc > 1;
    cudaMallocManaged(&out, THREADS * sizeof(int));
    if (waiting)
        waits<<<1, THREADS>>>(out);
    else
        runs<<<1, THREADS>>>(out);
    cudaError_t e = cudaDeviceSynchronize();
    for (int t = 0; t < THREADS && !e; t++) {
        int sum = 1;
        for (int i = t; i < N; i += 4999)
            sum += i;
        bad += out[t] != (waiting ? sum + t + 1 : 2 * sum);
    }
    printf("%s, %d wrong\n", cudaGetErrorName(e), bad);
    return 0;
}
