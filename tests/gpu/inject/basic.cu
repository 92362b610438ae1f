// What run-gpu traces on a GPU as nvcc made it. ../cases_inject.py has the counts, by hand.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            printf("%s: %s\n", #call, cudaGetErrorName(e_));                                                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

// Two loads of 4 bytes and one store of each of the n threads.
__global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

// Threads end at three places; of 33, 11 do nothing and 22 store, 11 of them twice.
__global__ void early(int *a)
{
    if (threadIdx.x % 3 == 0)
        return;
    asm volatile("st.global.u32 [%0], %1;" ::"l"(a + threadIdx.x), "r"(1));
    if (threadIdx.x % 3 == 1)
        return;
    asm volatile("st.global.u32 [%0+1024], %1;" ::"l"(a + threadIdx.x), "r"(2));
}

#define STORE(k)                                                                                             \
    case k:                                                                                                  \
        asm volatile("st.global.u32 [%0+%2], %1;" ::"l"(a), "r"(k + 100 * threadIdx.x), "n"(4 * k)           \
                     : "memory");                                                                            \
        break;
#define FOUR(k)                                                                                              \
    STORE(k##0) STORE(k##1) STORE(k##2) STORE(k##3) STORE(k##4) STORE(k##5) STORE(k##6) STORE(k##7)

// Each lane stores by an instruction of its own: 32 sites in one warp.
__global__ void lanes(int *a)
{
    switch (threadIdx.x + 10 + 2 * (threadIdx.x / 8)) {
        FOUR(1)
        FOUR(2)
        FOUR(3)
        FOUR(4)
    }
}

// `rounds` stores of each thread, to words of its own: more than rings have room for.
__global__ void many(int *a, int rounds)
{
    for (int r = 0; r < rounds; r++)
        a[(r * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = r;
}

// Until the host says so, or for ten seconds.
__global__ void spin(volatile int *flag, int *done)
{
    for (int i = 0; i < 10000 && !*flag; i++)
        __nanosleep(1000000);
    *done = *flag;
}

// Stores 16 bytes a thread as a record would be: each of them once.
__global__ void fill(uint4 *to, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = make_uint4(i, i, i, i);
}

__global__ void large_shared(int *a)
{
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    a[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}

static float *a, *b, *c;
enum { N = 1 << 20 };

static void launch_add(cudaStream_t stream, int n)
{
    add<<<(n + 127) / 128, 128, 0, stream>>>(a, b, c, n);
}

static void fill_inputs()
{
    float *host = (float *)malloc(N * sizeof *host);
    for (int i = 0; i < N; i++)
        host[i] = (float)(i % 1000);
    CHECK(cudaMalloc(&a, N * sizeof *a));
    CHECK(cudaMalloc(&b, N * sizeof *b));
    CHECK(cudaMalloc(&c, N * sizeof *c));
    CHECK(cudaMemcpy(a, host, N * sizeof *a, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, host, N * sizeof *b, cudaMemcpyHostToDevice));
    free(host);
}

static int results_are_right(int n)
{
    float *host = (float *)malloc(n * sizeof *host);
    int right = 1;
    CHECK(cudaMemcpy(host, c, n * sizeof *host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        right &= host[i] == 2 * (float)(i % 1000);
    free(host);
    return right;
}

static int run_add()
{
    launch_add(0, 1000);
    return results_are_right(1000);
}

static int run_early()
{
    early<<<2, 33>>>((int *)a);
    early<<<dim3(3, 2, 2), dim3(11, 3)>>>((int *)a);
    CHECK(cudaDeviceSynchronize());
    return 1;
}

static int run_lanes()
{
    int host[64];
    CHECK(cudaMemset(a, 0, sizeof host));
    lanes<<<1, 32>>>((int *)a);
    CHECK(cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    int right = 1;
    for (int t = 0; t < 32; t++)
        right &= host[t + 10 + 2 * (t / 8)] == t + 10 + 2 * (t / 8) + 100 * t;
    return right;
}

static int run_many()
{
    many<<<64, 256>>>((int *)a, 32);
    CHECK(cudaDeviceSynchronize());
    return 1;
}

static int run_streams()
{
    cudaStream_t s[2];
    for (int i = 0; i < 2; i++)
        CHECK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
    for (int i = 0; i < 200; i++)
        launch_add(s[i % 2], 256);
    CHECK(cudaDeviceSynchronize());
    return results_are_right(256);
}

static int run_graph()
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    launch_add(s, 256);
    launch_add(s, 512);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    return results_are_right(512);
}

// A launch that the driver refuses, between two that it takes.
static int run_refused()
{
    large_shared<<<1, 32, 1000>>>((int *)c);
    large_shared<<<1, 32, 1 << 30>>>((int *)c);
    int refused = cudaGetLastError() != cudaSuccess;
    large_shared<<<1, 32, 2000>>>((int *)c);
    CHECK(cudaDeviceSynchronize());
    return refused;
}

// Copies and fills of the driver, which may run kernels of its own.
static int run_copies()
{
    launch_add(0, 1000);
    CHECK(cudaMemset(b, 1, N));
    CHECK(cudaMemset2D(b, 1000, 1, 333, 77));
    CHECK(cudaMemcpy(b, a, N, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpyPeer(b, 0, a, 0, N));
    return results_are_right(1000);
}

// Loads a library's module and launches from it, while a kernel of another stream goes on.
static int run_module(const char *library)
{
    cudaStream_t s[2];
    int *flag, *done;
    for (int i = 0; i < 2; i++)
        CHECK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
    CHECK(cudaHostAlloc((void **)&flag, 4, cudaHostAllocMapped));
    CHECK(cudaHostAlloc((void **)&done, 4, cudaHostAllocMapped));
    *flag = *done = 0;
    spin<<<1, 1, 0, s[0]>>>(flag, done);
    void *module = dlopen(library, RTLD_NOW);
    int (*go)(void *) = module ? (int (*)(void *))dlsym(module, "module_go") : NULL;
    int status = go ? go(s[1]) : -1;
    *(volatile int *)flag = 1;
    CHECK(cudaDeviceSynchronize());
    return status == 0 && *done == 1; // 0: the ten seconds were over: something waited for the kernel
}

// Milliseconds of a launch, and its accesses.
static int run_time(int launches)
{
    cudaEvent_t from, to;
    float ms;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    launch_add(0, N);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(from));
    for (int i = 0; i < launches; i++)
        launch_add(0, N);
    CHECK(cudaEventRecord(to));
    CHECK(cudaEventSynchronize(to));
    CHECK(cudaEventElapsedTime(&ms, from, to));
    printf("%g %d\n", ms / launches, 3 * N);
    return 1;
}

// GB/s to pinned memory of the host, of copies and of a kernel's stores.
static int run_bus()
{
    const int bytes = 64 << 20;
    void *from, *to;
    cudaEvent_t at[3];
    float copies, stores;
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaHostAlloc(&to, bytes, cudaHostAllocMapped));
    for (cudaEvent_t &e : at)
        CHECK(cudaEventCreate(&e));
    for (int warm = 0; warm < 2; warm++) {
        CHECK(cudaEventRecord(at[0]));
        CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost));
        CHECK(cudaEventRecord(at[1]));
        fill<<<1024, 256>>>((uint4 *)to, bytes / 16);
        CHECK(cudaEventRecord(at[2]));
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaEventElapsedTime(&copies, at[0], at[1]));
    CHECK(cudaEventElapsedTime(&stores, at[1], at[2]));
    printf("copies %.1f GB/s, a kernel's stores %.1f GB/s\n", bytes / 1e6 / copies, bytes / 1e6 / stores);
    return ((int *)to)[bytes / 4 - 1] == bytes / 16 - 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "add";
    fill_inputs();
    int right = !strcmp(what, "add")       ? run_add()
                : !strcmp(what, "early")   ? run_early()
                : !strcmp(what, "lanes")   ? run_lanes()
                : !strcmp(what, "many")    ? run_many()
                : !strcmp(what, "streams") ? run_streams()
                : !strcmp(what, "graph")   ? run_graph()
                : !strcmp(what, "refused") ? run_refused()
                : !strcmp(what, "copies")  ? run_copies()
                : !strcmp(what, "module")  ? run_module(argv[2])
                : !strcmp(what, "time")    ? run_time(atoi(argv[2]))
                : !strcmp(what, "bus")     ? run_bus()
                                           : 0;
    puts(right ? "passed" : "failed");
    return !right;
}
