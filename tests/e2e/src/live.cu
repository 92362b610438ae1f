// What MEMTRACE_SINK=extract must get right. The first argument says which part runs:
//   streams  kernel `slow` begins first and waits for `fast` on another stream, which begins later and ends
//   earlier;
//            then copies, fills and freed memory between launches, a stream that is destroyed, a launch that
//            is smaller. The second argument is how many stores each thread of `fast` makes.
//   killed   launches, waits, and kills itself
//   children counts its children and their signals, and leaves a child behind that outlives it
//   untraced no launch at all
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memtrace/annotate.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CTAS = 4, THREADS = 64, N = CTAS * THREADS };

#pragma memtrace off
static __device__ void wait_for(volatile int *flag, int value)
{
    while (*flag != value) {
    }
}
static __device__ void raise_to(volatile int *flag, int value)
{
    *flag = value;
    __threadfence_system();
}
#pragma memtrace on

__global__ void slow(int *p, int *flags)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    p[i] = i;
    if (i == 0)
        raise_to(flags, 1);
    wait_for(flags + 1, 1);
    p[i] += 1;
}

__global__ void fast(int *p, int *flags, int stores)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < stores; k++)
        ((volatile int *)p)[N + i] = k;
    __syncthreads();
    if (i == 0)
        raise_to(flags + 1, 1);
}

__global__ void shift(const int *from, int *to, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[(i + by) % N];
}

static int streams(int stores)
{
    int *p, *q, *flags, host[N];
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaMalloc(&p, 2 * N * sizeof *p);
    cudaMallocManaged(&flags, 2 * sizeof *flags);
    slow<<<1, THREADS, 0, a>>>(p, flags);
    while (*(volatile int *)flags != 1) {
    }
    fast<<<CTAS, THREADS, 0, b>>>(p, flags, stores);
    cudaDeviceSynchronize();
    for (int i = 0; i < N; i++)
        host[i] = i;
    for (int round = 0; round < 3; round++) {
        cudaMalloc(&q, N * sizeof *q);
        shift<<<CTAS, THREADS, 0, b>>>(p + N, q, 5); // of what `fast` or the host wrote
        cudaStreamSynchronize(b);
        cudaMemcpy(p + N, round ? host : q, N * sizeof *p,
                   round ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice);
        cudaMemset(q, 0, 16);
        shift<<<CTAS, THREADS, 0, a>>>(q, p, 70);
        cudaStreamSynchronize(a);
        cudaFree(q);
    }
    cudaStreamDestroy(b);
    shift<<<CTAS, THREADS>>>(p, p + N, 1);
    return cudaDeviceSynchronize();
}

static volatile int signals;
static void count_signal(int)
{
    signals++;
}

static int children()
{
    int *p;
    signal(SIGCHLD, count_signal);
    cudaMalloc(&p, 2 * N * sizeof *p);
    shift<<<CTAS, THREADS>>>(p, p + N, 1);
    cudaDeviceSynchronize();
    printf("%d children, %d signals\n", waitpid(-1, NULL, WNOHANG) >= 0, (int)signals);
    fflush(stdout);
    if (fork() == 0) {
        for (int i = 0; i < 3; i++)
            close(i);
        sleep(20);
        _exit(0);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "streams"))
        return streams(atoi(argv[2]));
    if (argc > 1 && !strcmp(argv[1], "children"))
        return children();
    if (argc > 1 && !strcmp(argv[1], "killed")) {
        int *p;
        cudaMalloc(&p, 2 * N * sizeof *p);
        shift<<<CTAS, THREADS>>>(p, p + N, 1);
        cudaDeviceSynchronize();
        kill(getpid(), SIGKILL);
    }
    return cudaDeviceSynchronize();
}
