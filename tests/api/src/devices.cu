// Several devices (MEMTRACE_CPU_DEVICES=4), as CUDA's programming guide describes them. Each part prints
// nothing, or what is not as it should be; at the end "N wrong". "foreign" reads another device's memory
// without being its peer.
#include <cstdio>
#include <cstring>
#include <thread>
#include <cuda_runtime.h>

enum { N = 4, CELLS = 256, BYTES = CELLS * (int)sizeof(int) };
static int wrong;

static void same(int line, long got, long want)
{
    if (got != want)
        printf("line %d: %ld, expected %ld\n", line, got, want), wrong++;
    cudaGetLastError();
}
#define SAME(got, want) same(__LINE__, (long)(got), (long)(want))
#define OK(call) SAME(call, cudaSuccess)

__global__ void set(int *p, int v)
{
    p[threadIdx.x] = v + (int)threadIdx.x;
}
__global__ void add(int *to, const int *from)
{
    to[threadIdx.x] += from[threadIdx.x]; // FOREIGN
}
__global__ void wait_for(volatile int *flag)
{
    while (!*flag)
        ;
}

static int device_of(const void *p)
{
    cudaPointerAttributes a;
    OK(cudaPointerGetAttributes(&a, p));
    return a.device;
}

static void count()
{
    int n = 0, d = -1;
    cudaDeviceProp p[N];
    char id[N][16];
    OK(cudaGetDeviceCount(&n));
    SAME(n, N);
    SAME(cudaSetDevice(N), cudaErrorInvalidDevice);
    SAME(cudaSetDevice(-1), cudaErrorInvalidDevice);
    SAME(cudaGetDeviceProperties(p, N), cudaErrorInvalidDevice);
    for (int i = 0; i < N; i++) {
        OK(cudaGetDeviceProperties(&p[i], i));
        OK(cudaDeviceGetPCIBusId(id[i], 16, i));
        OK(cudaDeviceGetByPCIBusId(&d, id[i]));
        SAME(d, i);
        for (int k = 0; k < i; k++)
            SAME(p[k].pciBusID == p[i].pciBusID || !memcmp(&p[k].uuid, &p[i].uuid, sizeof p[i].uuid), 0);
    }
    OK(cudaSetDevice(3));
    std::thread([] { // another thread begins with device 0
        int d = -1;
        OK(cudaGetDevice(&d));
        SAME(d, 0);
        OK(cudaSetDevice(1));
    })
        .join();
    OK(cudaGetDevice(&d));
    SAME(d, 3);
}

static void handles()
{
    cudaStream_t s;
    cudaEvent_t e0, e1, e1b;
    int *p, v[CELLS];
    float ms;
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&s));
    OK(cudaEventCreate(&e1));
    OK(cudaEventCreate(&e1b));
    OK(cudaMalloc(&p, BYTES));
    SAME(device_of(p), 1);
    OK(cudaSetDevice(0));
    OK(cudaEventCreate(&e0));
    set<<<1, CELLS, 0, s>>>(p, 5); // the stream of device 1, and 0 is current
    SAME(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    SAME(cudaEventRecord(e0, s), cudaErrorInvalidResourceHandle);
    SAME(cudaEventRecord(e1, 0), cudaErrorInvalidResourceHandle);
    OK(cudaMemsetAsync(p, 0, BYTES, s));
    OK(cudaEventRecord(e1, s));
    OK(cudaEventRecord(e0, 0));
    OK(cudaStreamWaitEvent(0, e1, 0)); // across devices
    OK(cudaStreamWaitEvent(s, e0, 0));
    OK(cudaEventSynchronize(e1));
    SAME(cudaEventElapsedTime(&ms, e0, e1), cudaErrorInvalidResourceHandle);
    OK(cudaEventRecord(e1b, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaEventElapsedTime(&ms, e1, e1b));
    OK(cudaSetDevice(1));
    set<<<1, CELLS, 0, s>>>(p, 5);
    OK(cudaGetLastError());
    OK(cudaSetDevice(0));
    OK(cudaMemcpyAsync(v, p, BYTES, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    SAME(v[7], 12);
    OK(cudaFree(p));
    OK(cudaStreamDestroy(s));
    OK(cudaEventDestroy(e0));
    OK(cudaEventDestroy(e1));
    OK(cudaEventDestroy(e1b));
}

// What one device waits for holds no other one up.
static void waiting()
{
    volatile int *flag;
    cudaStream_t s;
    OK(cudaSetDevice(2));
    OK(cudaHostAlloc((void **)&flag, sizeof *flag, cudaHostAllocPortable));
    *flag = 0;
    OK(cudaStreamCreate(&s));
    wait_for<<<1, 1>>>(flag);
    OK(cudaGetLastError());
    SAME(cudaStreamQuery(0), cudaErrorNotReady);
    OK(cudaSetDevice(1));
    int *p, v[CELLS];
    OK(cudaMalloc(&p, BYTES));
    set<<<1, CELLS>>>(p, 1); // into a default stream of its own
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(v, p, BYTES, cudaMemcpyDeviceToHost));
    SAME(v[3], 4);
    OK(cudaFree(p)); // device 2 does not reach it
    OK(cudaSetDevice(2));
    SAME(cudaStreamQuery(0), cudaErrorNotReady);
    *flag = 1;
    OK(cudaDeviceSynchronize());
    SAME(cudaStreamQuery(0), cudaSuccess);
    OK(cudaStreamDestroy(s));
    OK(cudaFreeHost((void *)flag));
}

static void figures()
{
    size_t before[N], after, total, limit;
    int *p;
    for (int i = 0; i < N; i++) {
        OK(cudaSetDevice(i));
        OK(cudaMemGetInfo(&before[i], &total));
    }
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&p, 8 << 20));
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    for (int i = 0; i < N; i++) {
        OK(cudaSetDevice(i));
        OK(cudaMemGetInfo(&after, &total));
        SAME(before[i] - after, i == 1 ? 8 << 20 : 0);
        OK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
        SAME(limit, i == 1 ? 4096 : 1024);
    }
    OK(cudaSetDevice(1));
    OK(cudaFree(p));
}

static void reset()
{
    int *p[2];
    cudaStream_t s[2];
    for (int i = 0; i < 2; i++) {
        OK(cudaSetDevice(i));
        OK(cudaMalloc(&p[i], BYTES));
        OK(cudaStreamCreate(&s[i]));
    }
    OK(cudaDeviceReset()); // of device 1
    SAME(device_of(p[0]), 0);
    cudaPointerAttributes a;
    OK(cudaPointerGetAttributes(&a, p[1]));
    SAME(a.type, cudaMemoryTypeUnregistered);
    OK(cudaStreamSynchronize(s[0]));
    OK(cudaSetDevice(0));
    OK(cudaFree(p[0]));
    OK(cudaStreamDestroy(s[0]));
}

static void peers()
{
    int can = -1, value = -1, *p[2], v[CELLS];
    OK(cudaSetDevice(0));
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    SAME(can, 1);
    OK(cudaDeviceCanAccessPeer(&can, 0, 0));
    SAME(can, 0);
    SAME(cudaDeviceCanAccessPeer(&can, 0, N), cudaErrorInvalidDevice);
    SAME(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
    SAME(cudaDeviceEnablePeerAccess(N, 0), cudaErrorInvalidDevice);
    SAME(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
    SAME(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    SAME(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    OK(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 1));
    SAME(value, 1);
    SAME(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 1, 1), cudaErrorInvalidDevice);
    for (int i = 1; i >= 0; i--) {
        OK(cudaSetDevice(i));
        OK(cudaMalloc(&p[i], BYTES));
        set<<<1, CELLS>>>(p[i], 100 * (i + 1));
        OK(cudaDeviceSynchronize());
    }
    add<<<1, CELLS>>>(p[0], p[1]); // device 0 reads device 1's
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(v, p[0], BYTES, cudaMemcpyDefault));
    SAME(v[9], 100 + 9 + 200 + 9);
    OK(cudaMemcpyPeer(p[1], 1, p[0], 0, BYTES));
    OK(cudaMemcpy(v, p[1], BYTES, cudaMemcpyDefault));
    SAME(v[9], 318);
    SAME(cudaMemcpyPeer(p[1], N, p[0], 0, BYTES), cudaErrorInvalidDevice);
    OK(cudaMemset(p[1], 0, BYTES));
    OK(cudaMemcpyPeerAsync(p[1], 1, p[0], 0, BYTES, 0));
    OK(cudaMemcpy(v, p[1], BYTES, cudaMemcpyDeviceToHost));
    SAME(v[10], 320);
    OK(cudaDeviceDisablePeerAccess(1));
    OK(cudaMemcpy(p[1], p[0], BYTES, cudaMemcpyDeviceToDevice)); // copies need no peers
    OK(cudaFree(p[0]));
    OK(cudaFree(p[1]));
}

// Memory of all: managed and pinned.
static void common()
{
    int *m, *h;
    OK(cudaSetDevice(0));
    OK(cudaMallocManaged(&m, BYTES));
    OK(cudaMallocHost(&h, BYTES));
    for (int i = 0; i < CELLS; i++)
        m[i] = 1, h[i] = i;
    for (int d = 0; d < N; d++) {
        OK(cudaSetDevice(d));
        add<<<1, CELLS>>>(m, h);
        OK(cudaDeviceSynchronize());
    }
    SAME(m[20], 1 + N * 20);
    OK(cudaFree(m));
    OK(cudaFreeHost(h));
}

// Of pools, who may touch their memory is said of the pool.
static void pools()
{
    int *p, *q, v[CELLS];
    cudaMemPool_t pool;
    cudaMemAccessFlags flags;
    cudaMemAccessDesc who = {};
    cudaMemLocation where = {};
    who.location.type = where.type = cudaMemLocationTypeDevice;
    who.location.id = where.id = 1;
    who.flags = cudaMemAccessFlagsProtReadWrite;
    OK(cudaSetDevice(0));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolGetAccess(&flags, pool, &where));
    SAME(flags, cudaMemAccessFlagsProtNone);
    OK(cudaMallocAsync(&p, BYTES, 0));
    SAME(device_of(p), 0);
    set<<<1, CELLS>>>(p, 3);
    OK(cudaMemPoolSetAccess(pool, &who, 1));
    OK(cudaMemPoolGetAccess(&flags, pool, &where));
    SAME(flags, cudaMemAccessFlagsProtReadWrite);
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(1));
    OK(cudaMallocAsync(&q, BYTES, 0));
    SAME(device_of(q), 1);
    set<<<1, CELLS>>>(q, 0);
    add<<<1, CELLS>>>(q, p);
    OK(cudaMemcpy(v, q, BYTES, cudaMemcpyDeviceToHost));
    SAME(v[5], 3 + 5 + 5);
    OK(cudaFreeAsync(q, 0));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(0));
    OK(cudaFreeAsync(p, 0));
    OK(cudaDeviceSynchronize());
}

// The launch fails, and its device with it; others go on.
static void foreign(bool skipped)
{
    int *p[2], v[CELLS];
    for (int i = 0; i < 2; i++) {
        OK(cudaSetDevice(i));
        OK(cudaMalloc(&p[i], BYTES));
        set<<<1, CELLS>>>(p[i], i);
        OK(cudaDeviceSynchronize());
    }
    OK(cudaSetDevice(0));
    add<<<1, CELLS>>>(p[0], p[1]);
    SAME(cudaDeviceSynchronize(), skipped ? cudaSuccess : cudaErrorIllegalAddress);
    SAME(cudaMalloc(&p[0], BYTES), skipped ? cudaSuccess : cudaErrorIllegalAddress);
    OK(cudaSetDevice(1));
    set<<<1, CELLS>>>(p[1], 50);
    OK(cudaMemcpy(v, p[1], BYTES, cudaMemcpyDeviceToHost));
    SAME(v[1], 51);
    SAME(cudaSetDevice(0), skipped ? cudaSuccess : cudaErrorIllegalAddress);
    OK(cudaDeviceReset());
    OK(cudaMalloc(&p[0], BYTES));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        foreign(!strcmp(argv[1], "skipped"));
    } else {
        count();
        handles();
        waiting();
        figures();
        reset();
        peers();
        common();
        pools();
    }
    printf("%d wrong\n", wrong);
    return 0;
}
