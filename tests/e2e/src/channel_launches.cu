// Ways to launch and to wait that matter on the way of a GPU's records (cases_channel.py). The first argument
// says which:
//   together   CTAs that wait for one another, launched in three ways
//   attributes cudaLaunchKernelEx with the attributes there are, and one with a cluster
//   beside     a kernel runs until the host says so, while the host waits for another stream, and for events
//   devices    the same kernel on all devices at once
//   fork       a child is made while a kernel runs
//   spin       a kernel that stores for ever; says "ready" when it has begun
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

enum { CTAS = 3, THREADS = 64, N = CTAS * THREADS };

__global__ void together(int *a, int *b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = i;
    cooperative_groups::this_grid().sync();
    b[i] = a[(i + THREADS) % N];
}

__global__ void add(int *p, int by)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] += by;
}

#pragma memtrace off
static __device__ void wait_for(volatile int *flag)
{
    while (!*flag) {
    }
}
static __device__ void count(int *flag)
{
    if (threadIdx.x == 0)
        atomicAdd(flag, 1);
}
#pragma memtrace on

__global__ void until(int *p, int *flag)
{
    p[threadIdx.x] = 1;
    wait_for(flag);
    p[threadIdx.x] = 2;
}

__global__ void spin(int *p, int *begun)
{
    for (volatile int *q = p;; q[threadIdx.x] = 1)
        count(begun);
}

static int fail(const char *what, cudaError_t e)
{
    printf("%s: %s\n", what, cudaGetErrorName(e));
    return 1;
}
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_)                                                                                              \
            return fail(#call, e_);                                                                          \
    } while (0)

static int run_together(int *a, int *b)
{
    void *args[] = {&a, &b};
    cudaLaunchAttribute one[1] = {};
    one[0].id = cudaLaunchAttributeCooperative;
    one[0].val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = CTAS;
    config.blockDim = THREADS;
    config.attrs = one;
    config.numAttrs = 1;
    TRY(cudaLaunchCooperativeKernel((void *)together, CTAS, THREADS, args, 0, 0));
    TRY(cudaLaunchKernelEx(&config, together, a, b));
    TRY(cudaLaunchKernelExC(&config, (void *)together, args));
    TRY(cudaDeviceSynchronize());
    for (int i = 0; i < N; i++)
        if (b[i] != (i + THREADS) % N)
            return 1;
    return 0;
}

static int run_attributes(int *a)
{
    cudaStream_t s;
    cudaLaunchAttribute all[3] = {}, cluster[1] = {};
    all[0].id = cudaLaunchAttributePriority;
    all[0].val.priority = 0;
    all[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    all[1].val.programmaticStreamSerializationAllowed = 1;
    all[2].id = cudaLaunchAttributeClusterDimension;
    all[2].val.clusterDim.x = all[2].val.clusterDim.y = all[2].val.clusterDim.z = 1;
    cluster[0].id = cudaLaunchAttributeClusterDimension;
    cluster[0].val.clusterDim.x = CTAS;
    cluster[0].val.clusterDim.y = cluster[0].val.clusterDim.z = 1;
    TRY(cudaStreamCreate(&s));
    cudaLaunchConfig_t config = {};
    config.gridDim = CTAS;
    config.blockDim = THREADS;
    config.stream = s;
    config.attrs = all;
    for (config.numAttrs = 0; config.numAttrs <= 3; config.numAttrs++)
        TRY(cudaLaunchKernelEx(&config, add, a, 1));
    config.attrs = cluster;
    config.numAttrs = 1;
    cudaError_t e = cudaLaunchKernelEx(&config, add, a, 100);
    TRY(cudaStreamSynchronize(s));
    printf("clusters: %s, ", cudaGetErrorName(e));
    return a[N - 1] != (e ? 4 : 104);
}

static int run_beside(int *a, int *flags)
{
    cudaStream_t runs, other;
    cudaEvent_t before, event;
    TRY(cudaStreamCreateWithFlags(&runs, cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    TRY(cudaEventCreate(&before));
    TRY(cudaEventCreate(&event));
    add<<<1, 32, 0, runs>>>(a, 1);
    TRY(cudaEventRecord(before, runs));
    until<<<1, 32, 0, runs>>>(a, flags);
    add<<<1, 32, 0, other>>>(a + THREADS, 1);
    TRY(cudaEventRecord(event, other));
    TRY(cudaEventSynchronize(before));
    TRY(cudaEventSynchronize(event));
    TRY(cudaStreamSynchronize(other));
    *(volatile int *)flags = 1;
    TRY(cudaDeviceSynchronize());
    return a[31] != 2 || a[THREADS + 31] != 1;
}

// A child that is made while kernels run waits for nothing of its parent's, and ends.
static int run_fork(int *a, int *flags)
{
    cudaStream_t runs;
    int status = -1;
    TRY(cudaStreamCreateWithFlags(&runs, cudaStreamNonBlocking));
    until<<<1, 32, 0, runs>>>(a, flags);
    add<<<1, 32, 0, runs>>>(a, 1);
    pid_t child = fork();
    if (child == 0) {
        cudaDeviceSynchronize();
        cudaStreamDestroy(runs);
        cudaDeviceReset();
        exit(7);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    *(volatile int *)flags = 1;
    TRY(cudaDeviceSynchronize());
    return !WIFEXITED(status) || WEXITSTATUS(status) != 7 || a[31] != 3;
}

// The same kernel on all devices at once, from a thread each, in their default streams;
// a copy from device to device.
static int run_devices()
{
    int n = 0, bad = 0, host[N];
    TRY(cudaGetDeviceCount(&n));
    std::vector<int *> data(n);
    std::vector<int> wrong(n, 1);
    std::vector<std::thread> threads;
    for (int d = 0; d < n; d++)
        threads.emplace_back([&, d] {
            int *&p = data[d], mine[N] = {};
            if (cudaSetDevice(d) || cudaMalloc(&p, sizeof mine) || cudaMemset(p, 0, sizeof mine))
                return;
            for (int i = 0; i < 5; i++)
                add<<<CTAS, THREADS>>>(p, d + 1);
            wrong[d] = cudaDeviceSynchronize() || cudaMemcpy(mine, p, sizeof mine, cudaMemcpyDeviceToHost) ||
                       mine[N - 1] != 5 * (d + 1);
        });
    for (auto &t : threads)
        t.join();
    for (int d = 0; d < n; d++)
        bad |= wrong[d];
    TRY(cudaMemcpyPeer(data[0], 0, data[n - 1], n - 1, sizeof host));
    TRY(cudaMemcpy(host, data[0], sizeof host, cudaMemcpyDeviceToHost));
    printf("devices: %d, ", n);
    return bad || host[0] != 5 * n;
}

static int run_spin(int *a, int *flags)
{
    spin<<<2, 32>>>(a, flags);
    while (*(volatile int *)flags < 1000) {
    }
    printf("ready\n");
    fflush(stdout);
    TRY(cudaDeviceSynchronize());
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int *a, *b, *flags;
    TRY(cudaMallocManaged(&a, N * sizeof(int)));
    TRY(cudaMallocManaged(&b, N * sizeof(int)));
    TRY(cudaHostAlloc(&flags, sizeof(int), cudaHostAllocMapped)); // what a kernel that runs can see
    *flags = 0;
    int bad = !strcmp(how, "together")     ? run_together(a, b)
              : !strcmp(how, "attributes") ? run_attributes(a)
              : !strcmp(how, "beside")     ? run_beside(a, flags)
              : !strcmp(how, "fork")       ? run_fork(a, flags)
              : !strcmp(how, "devices")    ? run_devices()
              : !strcmp(how, "spin")       ? run_spin(a, flags)
                                           : 1;
    printf("%s\n", bad ? "failed" : "passed");
    return bad;
}
