// Wrong use of the runtime, and what CUDA says to it. Prints what differs; exit code 1 then.
#include <cassert>
#include <cstdio>
#include <cstring>
#include <vector>
#include <cuda_runtime.h>

static int bad;

static void expect_at(int line, const char *what, cudaError_t got, cudaError_t want)
{
    if (got == want)
        return;
    bad = 1;
    printf("errors.cu:%d: %s: %s instead of %s\n", line, what, cudaGetErrorName(got), cudaGetErrorName(want));
}

// The call's own result, and the thread's last error, which is cleared.
#define EXPECT(want, call)                                                                                   \
    do {                                                                                                     \
        expect_at(__LINE__, #call, (call), want);                                                            \
        expect_at(__LINE__, #call ", last error", cudaGetLastError(), want);                                 \
    } while (0)
#define OK(call) EXPECT(cudaSuccess, call)
#define SAME(a, b)                                                                                           \
    do {                                                                                                     \
        long long x = (a), y = (b);                                                                          \
        if (x != y) {                                                                                        \
            bad = 1;                                                                                         \
            printf("errors.cu:%d: %s is %lld, not %lld\n", __LINE__, #a, x, y);                              \
        }                                                                                                    \
    } while (0)

__device__ int table[16];
__constant__ float factors[8];
static int no_symbol;

__global__ void store(int *p)
{
    p[threadIdx.x] = threadIdx.x;
}
__global__ void __launch_bounds__(128) bounded(int *p)
{
    p[threadIdx.x] = 1;
}
__global__ void shared(int *p)
{
    extern __shared__ int s[];
    __shared__ int fixed[256];
    fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    s[threadIdx.x] = fixed[blockDim.x - 1 - threadIdx.x];
    p[threadIdx.x] = s[threadIdx.x];
}
__global__ void die(int how)
{
    if (how == 0)
        assert(how == 1);
    else if (how == 1)
        __trap();
    else
        *(volatile int *)nullptr = 1;
}
static void no_kernel()
{
}

static void launches(int *p)
{
    store<<<0, 32>>>(p);
    EXPECT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    store<<<1, 0>>>(p);
    EXPECT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    store<<<1, 1025>>>(p);
    EXPECT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    store<<<1, dim3(1, 1, 65)>>>(p);
    EXPECT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    store<<<dim3(1, 65536), 32>>>(p);
    EXPECT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    store<<<1, 32, 49153>>>(p);
    EXPECT(cudaErrorInvalidValue, cudaPeekAtLastError());
    shared<<<1, 32, 49152 - 1023>>>(p); // 1 KiB of it is static
    EXPECT(cudaErrorInvalidValue, cudaPeekAtLastError());
    shared<<<1, 32, 49152 - 1024>>>(p);
    EXPECT(cudaSuccess, cudaPeekAtLastError());
    OK(cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    shared<<<1, 32, 100 << 10>>>(p);
    EXPECT(cudaSuccess, cudaPeekAtLastError());
    shared<<<1, 32, (100 << 10) + 1>>>(p);
    EXPECT(cudaErrorInvalidValue, cudaPeekAtLastError());
    EXPECT(cudaErrorInvalidValue,
           cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10));
    OK(cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 226 << 10));
    OK(cudaFuncSetAttribute(shared, cudaFuncAttributePreferredSharedMemoryCarveout,
                            cudaSharedmemCarveoutMaxShared));
    EXPECT(cudaErrorInvalidValue,
           cudaFuncSetAttribute(shared, cudaFuncAttributePreferredSharedMemoryCarveout, 101));
    void *args[] = {&p};
    EXPECT(cudaErrorInvalidDeviceFunction,
           cudaLaunchKernel((const void *)no_kernel, dim3(1), dim3(1), args, 0, 0));
    EXPECT(cudaErrorInvalidResourceHandle,
           cudaLaunchKernel((const void *)store, dim3(1), dim3(1), args, 0, (cudaStream_t)p));
    OK(cudaDeviceSynchronize()); // nothing of this stays
}

static void functions()
{
    cudaFuncAttributes a;
    cudaFunction_t f;
    const char *name = "";
    OK(cudaFuncGetAttributes(&a, store));
    SAME(a.sharedSizeBytes, 0);
    SAME(a.maxThreadsPerBlock, 1024);
    SAME(a.maxDynamicSharedSizeBytes, 48 << 10);
    OK(cudaFuncGetAttributes(&a, shared));
    SAME(a.sharedSizeBytes, 1024);
    SAME(a.maxDynamicSharedSizeBytes, 226 << 10);
    SAME(a.preferredShmemCarveout, 100);
    OK(cudaFuncGetAttributes(&a, bounded));
    SAME(a.maxThreadsPerBlock, 128);
    SAME(a.numRegs > 0, 1);
    EXPECT(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&a, (const void *)no_kernel));
    EXPECT(cudaErrorInvalidDeviceFunction,
           cudaFuncSetCacheConfig((const void *)no_kernel, cudaFuncCachePreferL1));
    OK(cudaFuncSetCacheConfig(store, cudaFuncCachePreferL1));
    OK(cudaFuncGetName(&name, (const void *)store));
    SAME(strcmp(name, "_Z5storePi"), 0);
    OK(cudaGetFuncBySymbol(&f, (const void *)store));
}

static size_t shared_for(int block)
{
    return block * 400; // 1024 threads would want 400 KiB
}

static void occupancy()
{
    int n = -1, grid = 0, block = 0;
    size_t bytes = 0;
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, store, 64, 0));
    SAME(n, 32); // 2048 threads an SM, 32 blocks
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, store, 1024, 0));
    SAME(n, 2);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, shared, 256, 100 << 10));
    SAME(n, 2); // 228 KiB an SM; each takes 100 + 1 static + 1 reserved
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, store, 33, 0,
                                                              cudaOccupancyDisableCachingOverride));
    SAME(n, 32); // two warps each
    EXPECT(cudaErrorInvalidValue,
           cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, store, 32, 0, 8));
    EXPECT(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, store, 0, 0));
    EXPECT(cudaErrorInvalidDeviceFunction,
           cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, (const void *)no_kernel, 32, 0));
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, store, 0, 0));
    SAME(block, 1024);
    SAME(grid, 2 * p.multiProcessorCount);
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded, 0, 0));
    SAME(block, 128);
    SAME(grid, 16 * p.multiProcessorCount);
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, store, 0, 256));
    SAME(block, 256);
    OK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, store, shared_for));
    SAME(block > 0 && block % 32 == 0 && shared_for(block) <= 48 << 10, 1);
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, store, 32, 64));
    SAME(bytes, (228 << 10) / 32 - 1024);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(8);
    config.blockDim = dim3(256);
    OK(cudaOccupancyMaxPotentialClusterSize(&n, store, &config));
    SAME(n, 8);
    OK(cudaOccupancyMaxActiveClusters(&n, store, &config));
    SAME(n, 8 * p.multiProcessorCount);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {4, 1, 1};
    config.attrs = &cluster;
    config.numAttrs = 1;
    OK(cudaOccupancyMaxActiveClusters(&n, store, &config));
    SAME(n, 2 * p.multiProcessorCount);
    cluster.val.clusterDim.x = 9;
    EXPECT(cudaErrorInvalidClusterSize, cudaOccupancyMaxActiveClusters(&n, store, &config));
    OK(cudaFuncSetAttribute(store, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    OK(cudaOccupancyMaxActiveClusters(&n, store, &config));
    SAME(n, 8 * p.multiProcessorCount / 9);
    OK(cudaOccupancyMaxPotentialClusterSize(&n, store, &config));
    SAME(n, 16);
    OK(cudaFuncSetAttribute(store, cudaFuncAttributeNonPortableClusterSizeAllowed, 0));
    EXPECT(cudaErrorInvalidValue, cudaFuncSetAttribute(store, cudaFuncAttributeRequiredClusterWidth, -1));
    EXPECT(cudaErrorInvalidValue,
           cudaFuncSetAttribute(store, cudaFuncAttributeClusterSchedulingPolicyPreference, 3));
}

static void symbols()
{
    int host[16] = {0};
    void *at;
    size_t size = 0;
    OK(cudaGetSymbolSize(&size, table));
    SAME(size, 64);
    OK(cudaGetSymbolAddress(&at, factors));
    EXPECT(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&at, no_symbol));
    EXPECT(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(no_symbol, host, 4));
    OK(cudaMemcpyToSymbol(table, host, 60, 4));
    EXPECT(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, host, 64, 4));
    EXPECT(cudaErrorInvalidValue, cudaMemcpyFromSymbol(host, table, 4, 64));
    EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(table, host, 4, 0, cudaMemcpyDeviceToHost));
    EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromSymbol(host, table, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpyFromSymbol(host, table, 64));
}

static void copies()
{
    int *d, *gone, host[100] = {0}, other[100];
    size_t pitch;
    char *wide;
    OK(cudaMalloc(&d, 400));
    OK(cudaMalloc(&gone, 400));
    OK(cudaFree(gone));
    OK(cudaMemcpy(d, host, 400, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d, host, 401, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d + 1, host, 400, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(host, d, 500, cudaMemcpyDeviceToHost));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(gone, host, 4, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(host, d, 4, cudaMemcpyHostToDevice)); // the wrong way round
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d, host, 4, cudaMemcpyDeviceToHost));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d, host, 4, cudaMemcpyDeviceToDevice));
    EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d, host, 4, (cudaMemcpyKind)7));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(d, host, 400, cudaMemcpyDefault)); // pageable memory is the host's
    OK(cudaMemcpy(other, host, 400, cudaMemcpyDefault));
    OK(cudaMemcpy(other, d, 400, cudaMemcpyDefault));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(other, d, 404, cudaMemcpyDefault));
    EXPECT(cudaErrorInvalidValue, cudaMemset(d, 0, 401));
    EXPECT(cudaErrorInvalidValue, cudaMemset(host, 0, 4));
    EXPECT(cudaErrorInvalidValue, cudaMemset(gone, 0, 4));
    EXPECT(cudaErrorInvalidValue, cudaFree(gone)); // twice
    EXPECT(cudaErrorInvalidValue, cudaFree(d + 1));
    EXPECT(cudaErrorInvalidValue, cudaFree(host));
    OK(cudaMallocPitch(&wide, &pitch, 100, 4));
    SAME(pitch >= 100, 1);
    OK(cudaMemcpy2D(wide, pitch, host, 100, 100, 4, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(wide, 99, host, 100, 100, 4, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(wide, pitch, host, 99, 100, 4, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy2D(wide, pitch, host, 100, 100, 5, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemset2D(wide, pitch, 0, 100, 5));
    OK(cudaFree(wide));
    OK(cudaFree(d));
}

static void handles()
{
    cudaStream_t s;
    cudaEvent_t e, f;
    float ms;
    OK(cudaStreamCreate(&s));
    OK(cudaEventCreate(&e));
    OK(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));
    OK(cudaEventRecord(e, s));
    OK(cudaEventRecord(f, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, e, f)); // f has no time
    EXPECT(cudaErrorInvalidValue, cudaEventCreateWithFlags(&f, 0x80));
    OK(cudaEventDestroy(e));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventRecord(e, s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaMemsetAsync(nullptr, 0, 4, s));
    EXPECT(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&s, 0x40));
}

// A kernel that went wrong: each call says so until the device is reset.
static void sticky(int how, cudaError_t want, int *p)
{
    cudaStream_t s;
    int host[4], *q = nullptr;
    OK(cudaStreamCreate(&s));
    die<<<1, 32, 0, s>>>(how);
    expect_at(__LINE__, "cudaStreamSynchronize", cudaStreamSynchronize(s), want);
    expect_at(__LINE__, "cudaPeekAtLastError", cudaPeekAtLastError(), want);
    expect_at(__LINE__, "cudaGetLastError", cudaGetLastError(), want);
    expect_at(__LINE__, "cudaDeviceSynchronize", cudaDeviceSynchronize(), want);
    expect_at(__LINE__, "cudaMalloc", cudaMalloc(&q, 4), want);
    expect_at(__LINE__, "cudaMemcpy", cudaMemcpy(host, p, 4, cudaMemcpyDeviceToHost), want);
    expect_at(__LINE__, "cudaMemset", cudaMemset(p, 0, 4), want);
    expect_at(__LINE__, "cudaStreamQuery", cudaStreamQuery(s), want);
    store<<<1, 1>>>(p);
    expect_at(__LINE__, "a launch", cudaGetLastError(), want);
    expect_at(__LINE__, "cudaDeviceReset", cudaDeviceReset(), cudaSuccess);
    cudaGetLastError();
    OK(cudaMalloc(&q, 4));
    store<<<1, 1>>>(q);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(q));
}

int main()
{
    int *p;
    OK(cudaMalloc(&p, 4096));
    launches(p);
    functions();
    occupancy();
    symbols();
    copies();
    handles();
    sticky(0, cudaErrorAssert, p);
    sticky(1, cudaErrorLaunchFailure, p);
    sticky(2, cudaErrorIllegalAddress, p);
    puts(bad ? "differs" : "as CUDA");
    return bad;
}
