// Several GPUs: whose memory is whose, who reaches it, what goes from one to the other.
// conformance: environment MEMTRACE_CPU_DEVICES=3
#include "conf.h"

static bool two(conf::row &r)
{
    int n = 0, there = 0, back = 0;
    if (cudaGetDeviceCount(&n) || n < 2)
        r.skip("there is one GPU");
    else if (cudaDeviceCanAccessPeer(&there, 0, 1) || cudaDeviceCanAccessPeer(&back, 1, 0) || !there || !back)
        r.skip("the first two GPUs are no peers");
    return !r.skipped;
}

// Memory of a device; device 0 is current before and after.
struct on {
    conf::row &r;
    int device, *p = nullptr;
    on(conf::row &r_, int device_, int n, int value) : r(r_), device(device_)
    {
        CONF_CALL(r, cudaSetDevice(device));
        CONF_CALL(r, cudaMalloc((void **)&p, n * sizeof(int)));
        for (int i = 0; i < n; i++) {
            int v = value + i;
            CONF_CALL(r, cudaMemcpy(p + i, &v, sizeof v, cudaMemcpyHostToDevice));
        }
        CONF_CALL(r, cudaSetDevice(0));
    }
    on(const on &) = delete;
    ~on()
    {
        cudaFree(p);
    }
    template <class F> void is(int n, F want)
    {
        int h = 0;
        CONF_CALL(r, cudaSetDevice(device));
        CONF_CALL(r, cudaDeviceSynchronize());
        for (int i = 0; i < n; i++) {
            CONF_CALL(r, cudaMemcpy(&h, p + i, sizeof h, cudaMemcpyDeviceToHost));
            r.same(i, h, want(i));
        }
        CONF_CALL(r, cudaSetDevice(0));
    }
};

// Device `a` reaches the memory of `b` while it lives.
struct peers {
    conf::row &r;
    int a, b;
    peers(conf::row &r_, int a_, int b_) : r(r_), a(a_), b(b_)
    {
        CONF_CALL(r, cudaSetDevice(a));
        CONF_CALL(r, cudaDeviceEnablePeerAccess(b, 0));
        CONF_CALL(r, cudaSetDevice(0));
    }
    ~peers()
    {
        cudaSetDevice(a);
        cudaDeviceSynchronize();
        cudaDeviceDisablePeerAccess(b);
        cudaSetDevice(0);
    }
};

static __global__ void copy(int *to, const int *from)
{
    to[threadIdx.x] = from[threadIdx.x];
}
static __global__ void add(int *to)
{
    atomicAdd(to, (int)threadIdx.x);
}
static __global__ void triple(int *p)
{
    p[threadIdx.x] *= 3;
}

ROW("cudaSetDevice, cudaGetDevice", "the current one is the thread's; one that is not there is refused")
{
    int n = 0, now = -1;
    if (!two(r))
        return;
    CONF_CALL(r, cudaGetDeviceCount(&n));
    CONF_CALL(r, cudaSetDevice(1));
    CONF_CALL(r, cudaGetDevice(&now));
    r.check(now == 1, "device %d is current", now);
    r.check(cudaSetDevice(n) == cudaErrorInvalidDevice, "one too many is taken");
    r.check(cudaSetDevice(-1) == cudaErrorInvalidDevice, "-1 is taken");
    cudaGetLastError();
    CONF_CALL(r, cudaSetDevice(0));
}

ROW("a launch on each device", "memory of its own")
{
    if (!two(r))
        return;
    on a(r, 0, 32, 5), b(r, 1, 32, 100);
    triple<<<1, 32>>>(a.p);
    CONF_CALL(r, cudaSetDevice(1));
    triple<<<1, 32>>>(b.p);
    CONF_CALL(r, cudaSetDevice(0));
    a.is(32, [](int i) { return 3 * (5 + i); });
    b.is(32, [](int i) { return 3 * (100 + i); });
    r.loads(64, 4);
    r.stores(64, 4);
}

ROW("cudaPointerGetAttributes", "whose memory it is, whichever device is current")
{
    if (!two(r))
        return;
    on a(r, 0, 1, 0), b(r, 1, 1, 0);
    cudaPointerAttributes of;
    CONF_CALL(r, cudaPointerGetAttributes(&of, b.p));
    r.check(of.device == 1 && of.type == cudaMemoryTypeDevice, "device %d, type %d", of.device, of.type);
    CONF_CALL(r, cudaPointerGetAttributes(&of, a.p));
    r.check(of.device == 0, "device %d", of.device);
}

ROW("cudaDeviceEnablePeerAccess, cudaDeviceDisablePeerAccess", "twice, of itself, never")
{
    if (!two(r))
        return;
    CONF_CALL(r, cudaDeviceEnablePeerAccess(1, 0));
    r.check(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled, "it is enabled twice");
    CONF_CALL(r, cudaDeviceDisablePeerAccess(1));
    r.check(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled, "it is disabled twice");
    r.check(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice, "a device is its own peer");
    r.check(cudaDeviceEnablePeerAccess(1, 1) == cudaErrorInvalidValue, "flags are taken");
    cudaGetLastError();
}

ROW("loads from a peer", "pointers are of all devices")
{
    if (!two(r))
        return;
    on a(r, 0, 32, 0), b(r, 1, 32, 70);
    peers way(r, 0, 1);
    copy<<<1, 32>>>(a.p, b.p);
    a.is(32, [](int i) { return 70 + i; });
    r.loads(32, 4);
    r.stores(32, 4);
}

ROW("stores to a peer", "")
{
    if (!two(r))
        return;
    on a(r, 0, 32, 9), b(r, 1, 32, 0);
    peers way(r, 0, 1);
    copy<<<1, 32>>>(b.p, a.p);
    CONF_CALL(r, cudaDeviceSynchronize());
    b.is(32, [](int i) { return 9 + i; });
    r.loads(32, 4);
    r.stores(32, 4);
}

ROW("atomics on a peer's memory", "both devices add")
{
    if (!two(r))
        return;
    on b(r, 1, 1, 1000);
    peers way(r, 0, 1);
    add<<<4, 32>>>(b.p);
    CONF_CALL(r, cudaSetDevice(1));
    add<<<2, 32>>>(b.p);
    CONF_CALL(r, cudaSetDevice(0));
    CONF_CALL(r, cudaDeviceSynchronize());
    b.is(1, [](int) { return 1000 + 6 * (31 * 32 / 2); });
    r.atomics(6 * 32, 4);
}

ROW("cudaMemcpyPeer, cudaMemcpyPeerAsync, cudaMemcpy", "between devices that are no peers, too")
{
    if (!two(r))
        return;
    on a(r, 0, 96, 0), b(r, 1, 96, 300);
    CONF_CALL(r, cudaMemcpyPeer(a.p, 0, b.p, 1, 32 * sizeof(int)));
    CONF_CALL(r, cudaMemcpyPeerAsync(a.p + 32, 0, b.p + 32, 1, 32 * sizeof(int), 0));
    CONF_CALL(r, cudaMemcpy(a.p + 64, b.p + 64, 32 * sizeof(int), cudaMemcpyDefault));
    a.is(96, [](int i) { return 300 + i; });
    r.check(cudaMemcpyPeer(a.p, 0, b.p, 99, 4) == cudaErrorInvalidDevice, "device 99 is taken");
    cudaGetLastError();
}

ROW("events of another device", "a stream waits for them")
{
    if (!two(r))
        return;
    on a(r, 0, 32, 0), b(r, 1, 32, 11);
    cudaStream_t s, t;
    cudaEvent_t done;
    peers way(r, 0, 1);
    CONF_CALL(r, cudaStreamCreate(&s));
    CONF_CALL(r, cudaSetDevice(1));
    CONF_CALL(r, cudaStreamCreate(&t));
    CONF_CALL(r, cudaEventCreate(&done));
    for (int i = 0; i < 3; i++)
        triple<<<1, 32, 0, t>>>(b.p);
    CONF_CALL(r, cudaEventRecord(done, t));
    CONF_CALL(r, cudaSetDevice(0));
    CONF_CALL(r, cudaStreamWaitEvent(s, done, 0));
    copy<<<1, 32, 0, s>>>(a.p, b.p);
    a.is(32, [](int i) { return 27 * (11 + i); });
    CONF_CALL(r, cudaEventDestroy(done));
    CONF_CALL(r, cudaStreamDestroy(s));
    CONF_CALL(r, cudaStreamDestroy(t));
    r.loads(4 * 32, 4);
    r.stores(4 * 32, 4);
}

ROW("a stream of another device", "nothing is launched into it, and no event of this one recorded")
{
    if (!two(r))
        return;
    cudaStream_t t;
    cudaEvent_t here;
    on a(r, 0, 32, 0);
    CONF_CALL(r, cudaSetDevice(1));
    CONF_CALL(r, cudaStreamCreate(&t));
    CONF_CALL(r, cudaSetDevice(0));
    CONF_CALL(r, cudaEventCreate(&here));
    triple<<<1, 32, 0, t>>>(a.p);
    r.check(cudaGetLastError() == cudaErrorInvalidResourceHandle, "it is launched");
    r.check(cudaEventRecord(here, t) == cudaErrorInvalidResourceHandle, "it is recorded");
    cudaGetLastError();
    CONF_CALL(r, cudaEventDestroy(here));
    CONF_CALL(r, cudaStreamDestroy(t));
}

__device__ int counter = 40;
__constant__ int step = 2;
static __global__ void count()
{
    counter += step;
}
ROW("__device__ and __constant__ variables", "each device's own, with their first values")
{
    int by = 7, got[2] = {0, 0};
    if (!two(r))
        return;
    CONF_CALL(r, cudaSetDevice(1));
    CONF_CALL(r, cudaMemcpyToSymbol(step, &by, sizeof by));
    count<<<1, 1>>>();
    CONF_CALL(r, cudaMemcpyFromSymbol(&got[1], counter, sizeof by));
    CONF_CALL(r, cudaSetDevice(0));
    count<<<1, 1>>>();
    CONF_CALL(r, cudaMemcpyFromSymbol(&got[0], counter, sizeof by));
    r.check(got[0] == 42 && got[1] == 47, "%d and %d", got[0], got[1]);
    r.loads(2, 4);
    r.stores(2, 4);
}

ROW("managed memory", "one for all devices")
{
    int *m = nullptr;
    if (!two(r))
        return;
    CONF_CALL(r, cudaMallocManaged((void **)&m, sizeof *m));
    *m = 5;
    add<<<1, 32>>>(m);
    CONF_CALL(r, cudaDeviceSynchronize());
    CONF_CALL(r, cudaSetDevice(1));
    add<<<1, 32>>>(m);
    CONF_CALL(r, cudaDeviceSynchronize());
    CONF_CALL(r, cudaSetDevice(0));
    r.check(*m == 5 + 31 * 32, "it is %d", *m);
    CONF_CALL(r, cudaFree(m));
    r.atomics(64, 4);
}

CONF_MAIN
