// Runtime API calls: what they do, and the error codes that CUDA documents for wrong use.

// conformance: flags -arch=sm_80
#include "conf.h"
#include <string.h>

static void gives(conf::row &r, cudaError_t got, cudaError_t want, const char *call)
{
    r.check(got == want, "%s: got %s, expected %s", call, cudaGetErrorName(got), cudaGetErrorName(want));
    cudaGetLastError();
}
#define GIVES(want, call) gives(r, (call), (want), #call)
static __global__ void fill(int *p, int v)
{
    p[threadIdx.x] = v;
}
static __global__ void __launch_bounds__(128) bounded(int *p)
{
    __shared__ int cell[100];
    cell[threadIdx.x % 100] = 1;
    __syncthreads();
    p[threadIdx.x] = cell[threadIdx.x / 2];
}
static __device__ int symbol[64];
static __constant__ int table[16];

// ---- devices ----

ROW("cudaGetDeviceCount, cudaSetDevice, cudaGetDevice",
    "there is one at least; wrong numbers are cudaErrorInvalidDevice")
{
    int n = 0, d = -1;
    CONF_CALL(r, cudaGetDeviceCount(&n));
    r.check(n >= 1, "%d devices", n);
    CONF_CALL(r, cudaSetDevice(0));
    CONF_CALL(r, cudaGetDevice(&d));
    r.same(0, d, 0);
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(n));
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(-1));
    GIVES(cudaErrorInvalidValue, cudaGetDevice(nullptr));
}
ROW("cudaGetDeviceProperties, cudaDeviceGetAttribute", "say the same")
{
    cudaDeviceProp p;
    int v = 0;
    CONF_CALL(r, cudaGetDeviceProperties(&p, 0));
    CONF_CALL(r, cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 0));
    r.same(0, v, 32);
    r.same(1, p.warpSize, 32);
    CONF_CALL(r, cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0));
    r.same(2, v, p.multiProcessorCount);
    CONF_CALL(r, cudaDeviceGetAttribute(&v, cudaDevAttrMaxThreadsPerBlock, 0));
    r.same(3, v, p.maxThreadsPerBlock);
    CONF_CALL(r, cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0));
    r.same(4, v, p.major);
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 1000));
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&v, (cudaDeviceAttr)100000, 0));
}
ROW("cudaRuntimeGetVersion, cudaDriverGetVersion", "the driver is as new as the runtime")
{
    int runtime = 0, driver = 0;
    CONF_CALL(r, cudaRuntimeGetVersion(&runtime));
    CONF_CALL(r, cudaDriverGetVersion(&driver));
    r.same(0, runtime, CUDART_VERSION);
    r.check(driver >= runtime, "%d < %d", driver, runtime);
    GIVES(cudaErrorInvalidValue, cudaRuntimeGetVersion(nullptr));
}
ROW("cudaDeviceCanAccessPeer, cudaDeviceEnablePeerAccess", "a device is not its own peer")
{
    int can = -1;
    CONF_CALL(r, cudaDeviceCanAccessPeer(&can, 0, 0));
    r.same(0, can, 0);
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, 1000));
}
ROW("cudaDeviceSetLimit, cudaDeviceGetLimit", "the heap of device code is as large as asked")
{
    size_t now = 0;
    CONF_CALL(r, cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    CONF_CALL(r, cudaDeviceGetLimit(&now, cudaLimitMallocHeapSize));
    r.check(now >= 16 << 20, "%zu", now);
    GIVES(cudaErrorInvalidValue, cudaDeviceGetLimit(nullptr, cudaLimitMallocHeapSize));
}

// ---- memory ----

ROW("cudaMalloc, cudaFree", "0 bytes, too many, no block, twice")
{
    void *p = &p;
    size_t left, total;
    CONF_CALL(r, cudaMalloc(&p, 0));
    r.check(!p, "0 bytes give %p", p);
    CONF_CALL(r, cudaFree(nullptr));
    CONF_CALL(r, cudaMemGetInfo(&left, &total));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&p, total + 1));
    GIVES(cudaErrorInvalidValue, cudaMalloc(nullptr, 8));
    CONF_CALL(r, cudaMalloc(&p, 1000));
    r.same(0, (long long)((uintptr_t)p % 256), 0);
    GIVES(cudaErrorInvalidValue, cudaFree((char *)p + 4));
    CONF_CALL(r, cudaFree(p));
    GIVES(cudaErrorInvalidValue, cudaFree(p));
}
ROW("cudaMemcpy", "all directions; a wrong direction, too many bytes, nothing to copy")
{
    conf::buffer<int> a(r, 8, [](long i) { return i * 7; }), b(r, 8);
    int h[8];
    CONF_CALL(r, cudaMemcpy(b.d, a.d, 32, cudaMemcpyDeviceToDevice));
    CONF_CALL(r, cudaMemcpy(h, b.d, 32, cudaMemcpyDefault));
    for (int i = 0; i < 8; i++)
        r.same(i, h[i], i * 7);
    CONF_CALL(r, cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(b.d, a.d, 32, (cudaMemcpyKind)9));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(b.d, nullptr, 32, cudaMemcpyHostToDevice));
}
ROW("cudaMemset, cudaMemset2D", "bytes; the pitch is left alone")
{
    conf::buffer<unsigned char> a(r, 64);
    CONF_CALL(r, cudaMemset(a.d, 1, 64));
    CONF_CALL(r, cudaMemset2D(a.d, 16, 7, 5, 4));
    a.is([](long i) { return i % 16 < 5 ? 7 : 1; });
    GIVES(cudaErrorInvalidValue, cudaMemset(nullptr, 1, 64));
}
ROW("cudaMemcpy2D, cudaMallocPitch", "a rectangle out of a larger one")
{
    void *p;
    size_t pitch = 0;
    unsigned char from[40], to[12];
    for (int i = 0; i < 40; i++)
        from[i] = (unsigned char)i;
    CONF_CALL(r, cudaMallocPitch(&p, &pitch, 10, 4));
    r.check(pitch >= 10 && pitch % 32 == 0, "pitch %zu", pitch);
    CONF_CALL(r, cudaMemcpy2D(p, pitch, from, 10, 10, 4, cudaMemcpyHostToDevice));
    CONF_CALL(r, cudaMemcpy2D(to, 4, (char *)p + pitch + 3, pitch, 4, 3, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 12; i++)
        r.same(i, to[i], (1 + i / 4) * 10 + 3 + i % 4);
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(to, 3, p, pitch, 4, 3, cudaMemcpyDeviceToHost));
    CONF_CALL(r, cudaFree(p));
}
ROW("cudaMemcpyToSymbol, cudaMemcpyFromSymbol, cudaGetSymbolAddress, cudaGetSymbolSize",
    "a variable, a constant, no symbol")
{
    int in[4] = {1, 2, 3, 4}, out[4] = {0};
    void *at = nullptr;
    size_t bytes = 0;
    CONF_CALL(r, cudaMemcpyToSymbol(symbol, in, sizeof in, 16));
    CONF_CALL(r, cudaMemcpyFromSymbol(out, symbol, sizeof out, 16));
    for (int i = 0; i < 4; i++)
        r.same(i, out[i], i + 1);
    CONF_CALL(r, cudaGetSymbolAddress(&at, symbol));
    CONF_CALL(r, cudaGetSymbolSize(&bytes, table));
    r.same(4, (long long)bytes, 64);
    CONF_CALL(r, cudaMemcpy(out, (char *)at + 20, 4, cudaMemcpyDeviceToHost));
    r.same(5, out[0], 2);
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&at, (const void *)in));
    GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(symbol, in, sizeof in, 250));
}
ROW("cudaPointerGetAttributes", "device, pinned, managed, registered and plain memory")
{
    int *device, *pinned, *managed, own = 0;
    cudaPointerAttributes a;
    CONF_CALL(r, cudaMalloc(&device, 64));
    CONF_CALL(r, cudaMallocHost(&pinned, 64));
    CONF_CALL(r, cudaMallocManaged(&managed, 64));
    CONF_CALL(r, cudaPointerGetAttributes(&a, device + 3));
    r.same(0, a.type, cudaMemoryTypeDevice);
    CONF_CALL(r, cudaPointerGetAttributes(&a, pinned));
    r.same(1, a.type, cudaMemoryTypeHost);
    CONF_CALL(r, cudaPointerGetAttributes(&a, managed));
    r.same(2, a.type, cudaMemoryTypeManaged);
    CONF_CALL(r, cudaPointerGetAttributes(&a, &own));
    r.same(3, a.type, cudaMemoryTypeUnregistered);
    CONF_CALL(r, cudaFree(device));
    GIVES(cudaErrorInvalidValue, cudaFree(pinned));
    CONF_CALL(r, cudaFreeHost(pinned));
    CONF_CALL(r, cudaFree(managed));
}
ROW("cudaHostRegister, cudaHostUnregister, cudaHostGetDevicePointer", "twice, and not at all")
{
    static char page[8192];
    void *d = nullptr;
    CONF_CALL(r, cudaHostRegister(page, sizeof page, cudaHostRegisterMapped));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(page, sizeof page, cudaHostRegisterMapped));
    CONF_CALL(r, cudaHostGetDevicePointer(&d, page, 0));
    r.check(d != nullptr, "no device pointer");
    CONF_CALL(r, cudaHostUnregister(page));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(page));
}

// ---- streams and events ----

ROW("cudaStreamCreate, cudaStreamQuery, cudaStreamSynchronize, cudaStreamDestroy",
    "work of a stream is done when it says so")
{
    conf::buffer<int> p(r, 32);
    cudaStream_t s;
    CONF_CALL(r, cudaStreamCreate(&s));
    fill<<<1, 32, 0, s>>>(p, 5);
    CONF_CALL(r, cudaStreamSynchronize(s));
    CONF_CALL(r, cudaStreamQuery(s));
    CONF_CALL(r, cudaStreamDestroy(s));
    p.is([](long) { return 5; });
    GIVES(cudaErrorInvalidValue, cudaStreamCreate(nullptr));
    r.stores(32, 4);
}
ROW("cudaEventRecord, cudaEventElapsedTime", "time passes; events that were not recorded, or keep no time")
{
    cudaEvent_t a, b, untimed;
    float ms = -1;
    CONF_CALL(r, cudaEventCreate(&a));
    CONF_CALL(r, cudaEventCreate(&b));
    CONF_CALL(r, cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, b));
    CONF_CALL(r, cudaEventRecord(a));
    CONF_CALL(r, cudaEventRecord(b));
    CONF_CALL(r, cudaEventSynchronize(b));
    CONF_CALL(r, cudaEventQuery(b));
    CONF_CALL(r, cudaEventElapsedTime(&ms, a, b));
    r.check(ms >= 0, "%g ms", ms);
    CONF_CALL(r, cudaEventRecord(untimed));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, untimed));
    CONF_CALL(r, cudaEventDestroy(a));
    CONF_CALL(r, cudaEventDestroy(b));
    CONF_CALL(r, cudaEventDestroy(untimed));
}
ROW("cudaLaunchHostFunc, cudaStreamWaitEvent", "a stream waits for what another one's host function has done")
{
    static int seen;
    seen = 0;
    cudaStream_t s, t;
    cudaEvent_t e;
    conf::buffer<int> p(r, 32);
    CONF_CALL(r, cudaStreamCreate(&s));
    CONF_CALL(r, cudaStreamCreate(&t));
    CONF_CALL(r, cudaEventCreate(&e));
    CONF_CALL(r, cudaLaunchHostFunc(s, [](void *n) { *(int *)n = 1; }, &seen));
    CONF_CALL(r, cudaEventRecord(e, s));
    CONF_CALL(r, cudaStreamWaitEvent(t, e, 0));
    fill<<<1, 32, 0, t>>>(p, 6);
    CONF_CALL(r, cudaStreamSynchronize(t));
    r.same(0, seen, 1);
    p.is([](long) { return 6; });
    CONF_CALL(r, cudaEventDestroy(e));
    CONF_CALL(r, cudaStreamDestroy(s));
    CONF_CALL(r, cudaStreamDestroy(t));
    r.stores(32, 4);
}

// ---- launches ----

ROW("launch with wrong sizes", "no threads, too many, a grid of none, too much shared memory")
{
    conf::buffer<int> p(r, 32);
    fill<<<1, 0>>>(p, 1);
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    fill<<<1, 1025>>>(p, 1);
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    fill<<<0, 32>>>(p, 1);
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    fill<<<dim3(1, 65536), 32>>>(p, 1);
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    fill<<<1, 32, 100 << 10>>>(p, 1);
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    bounded<<<1, 256>>>(p);
    GIVES(cudaErrorLaunchOutOfResources, cudaGetLastError());
}
ROW("cudaGetLastError, cudaPeekAtLastError", "peeking keeps the error, getting takes it")
{
    conf::buffer<int> p(r, 32);
    fill<<<1, 1025>>>(p, 1);
    r.check(cudaPeekAtLastError() == cudaErrorInvalidConfiguration, "peek");
    r.check(cudaGetLastError() == cudaErrorInvalidConfiguration, "get");
    r.check(cudaGetLastError() == cudaSuccess, "get again");
}
ROW("cudaFuncGetAttributes",
    "shared memory, launch bounds, the architecture that it was compiled for; no kernel")
{
    cudaFuncAttributes a;
    int none = 0;
    CONF_CALL(r, cudaFuncGetAttributes(&a, bounded));
    r.same(0, (long long)a.sharedSizeBytes, 400);
    r.same(1, a.maxThreadsPerBlock, 128);
    r.same(2, a.ptxVersion, 80);
    GIVES(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&a, (const void *)&none));
}
ROW("cudaFuncSetAttribute", "dynamic shared memory beyond 48 KiB, as far as the device goes")
{
    conf::buffer<int> p(r, 32);
    int most = 0;
    CONF_CALL(r, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CONF_CALL(r, cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    fill<<<1, 32, 64 << 10>>>(p, 9);
    p.is([](long) { return 9; });
    GIVES(cudaErrorInvalidValue,
          cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1));
    r.stores(32, 4);
}
ROW("cudaOccupancyMaxActiveBlocksPerMultiprocessor, …MaxPotentialBlockSize",
    "as many as fit; a shape that runs")
{
    int n = 0, grid = 0, block = 0;
    conf::buffer<int> p(r, 1024);
    CONF_CALL(r, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, fill, 1024, 0));
    r.check(n >= 1 && n <= 2, "%d CTAs of 1024 threads", n);
    CONF_CALL(r, cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill));
    r.check(grid >= 1 && block >= 32 && block <= 1024, "%d x %d", grid, block);
    fill<<<1, block>>>(p, 2);
    CONF_CALL(r, cudaDeviceSynchronize());
    r.stores(block, 4);
    GIVES(cudaErrorInvalidDeviceFunction,
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, (const void *)&grid, 32, 0));
}
ROW("cudaLaunchKernel", "arguments by address; no function")
{
    conf::buffer<int> p(r, 32);
    int v = 11, none = 0;
    void *args[] = {&p.d, &v};
    CONF_CALL(r, cudaLaunchKernel((const void *)fill, dim3(1), dim3(32), args, 0, nullptr));
    p.is([](long) { return 11; });
    GIVES(cudaErrorInvalidDeviceFunction,
          cudaLaunchKernel((const void *)&none, dim3(1), dim3(32), args, 0, nullptr));
    r.stores(32, 4);
}

// ---- graphs ----

ROW("cudaStreamBeginCapture, cudaGraphInstantiate, cudaGraphLaunch",
    "nothing runs before; then as often as it is launched")
{
    conf::buffer<int> p(r, 32, [](long) { return 0; });
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes = 0;
    CONF_CALL(r, cudaStreamCreate(&s));
    CONF_CALL(r, cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    fill<<<1, 32, 0, s>>>(p, 3);
    CONF_CALL(r, cudaMemsetAsync(p.d, 0, 4, s));
    CONF_CALL(r, cudaStreamEndCapture(s, &graph));
    CONF_CALL(r, cudaGraphGetNodes(graph, nullptr, &nodes));
    r.same(0, (long long)nodes, 2);
    p.is([](long) { return 0; });
    CONF_CALL(r, cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CONF_CALL(r, cudaGraphLaunch(exec, s));
    CONF_CALL(r, cudaStreamSynchronize(s));
    p.is([](long i) { return i ? 3 : 0; });
    CONF_CALL(r, cudaGraphExecDestroy(exec));
    CONF_CALL(r, cudaGraphDestroy(graph));
    CONF_CALL(r, cudaStreamDestroy(s));
    r.stores(96, 4);
}
ROW("cudaMallocAsync, cudaFreeAsync", "memory in the order of a stream")
{
    int *p, h[32];
    cudaStream_t s;
    CONF_CALL(r, cudaStreamCreate(&s));
    CONF_CALL(r, cudaMallocAsync(&p, 128, s));
    fill<<<1, 32, 0, s>>>(p, 4);
    CONF_CALL(r, cudaMemcpyAsync(h, p, 128, cudaMemcpyDeviceToHost, s));
    CONF_CALL(r, cudaFreeAsync(p, s));
    CONF_CALL(r, cudaStreamSynchronize(s));
    for (int i = 0; i < 32; i++)
        r.same(i, h[i], 4);
    CONF_CALL(r, cudaStreamDestroy(s));
    r.stores(32, 4);
}

// ---- words ----

ROW("cudaGetErrorName, cudaGetErrorString", "of a known code and of an unknown one")
{
    r.check(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"), "name");
    r.check(!strcmp(cudaGetErrorString(cudaSuccess), "no error"), "text of success");
    r.check(!strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument"), "text of an error");
    r.check(!strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code"), "no code");
}
static __global__ void wild(int *p)
{
    p[threadIdx.x] = 1;
}
ROW_ALONE("a store to an address that is nobody's", "cudaErrorIllegalAddress, and so does each call after it")
{
    r.launch_fails();
    void *p;
    wild<<<1, 1>>>((int *)8192);
    r.check(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "cudaDeviceSynchronize");
    r.check(cudaMalloc(&p, 64) == cudaErrorIllegalAddress, "cudaMalloc afterwards");
    r.stores(1, 4);
}
CONF_MAIN
