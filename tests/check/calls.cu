// Calls that fail, and launches and copies that nothing orders (see faults.cu).
#include "faults.h"

__global__ void fill(int *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = i;
}
__global__ void add(int *to, const int *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] += from[i];
}
__global__ void dynamic(int *a)
{
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}

// ---- freed twice ----

static void owners(int right) // a copy of the structure owns the same memory
{
    struct {
        int *p;
    } a, b;
    cudaMalloc(&a.p, 256);
    b = a;
    cudaFree(a.p);
    if (right)
        b.p = nullptr;
    cudaFree(b.p); // !owners: double-free
}
static void pinned(int right)
{
    int *h;
    cudaMallocHost(&h, 256);
    h[0] = 1;
    cudaFreeHost(h);
    if (!right)
        cudaFreeHost(h); // !pinned: double-free
}
static void mixed(int right) // in the stream, and at the end again
{
    int *a;
    cudaMallocAsync(&a, 256, 0);
    fill<<<1, 64>>>(a, 64);
    if (!right)
        cudaFreeAsync(a, 0);
    cudaStreamSynchronize(0);
    cudaFree(a); // !mixed: double-free
}
static void on_error(int right) // the way out frees what is freed already
{
    int *a = nullptr;
    cudaMalloc(&a, 256);
    if (cudaMemset(a, 0, 256) == cudaSuccess) {
        cudaFree(a);
        if (right)
            a = nullptr;
    }
    cudaFree(a); // !on_error: double-free
}

// ---- calls that fail ----

static void too_long(int right)
{
    Buffer<int> a;
    cudaMemset(a, 0, right ? 4 * N : 8 * N); // !too_long: failed-call
}
static void no_device(int right)
{
    cudaSetDevice(right ? 0 : 99); // !no_device: failed-call
    Buffer<int> a;
}
static void direction(int right) // a host pointer where the device's should be
{
    Buffer<int> a;
    std::vector<int> h(N);
    if (right)
        cudaMemcpy(h.data(), a, 4 * N, cudaMemcpyDeviceToHost);
    else
        cudaMemcpy(a, h.data(), 4 * N, cudaMemcpyDeviceToHost); // !direction: failed-call
}
static void shared_size(int right) // more than 48 KiB need leave
{
    Buffer<int> a(64);
    if (right)
        cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    dynamic<<<1, 64, 64 << 10>>>(a); // !shared_size: failed-call
    cudaDeviceSynchronize();
}
static void no_threads(int right)
{
    Buffer<int> a;
    int n = right ? N : 0;
    fill<<<(n + 127) / 128, 128>>>(a, n); // !no_threads: failed-call
}
static void event_early(int right) // a time between events that were not recorded
{
    float ms;
    cudaEvent_t from, to;
    Buffer<int> a;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    if (right)
        cudaEventRecord(from);
    fill<<<8, 128>>>(a, N);
    if (right)
        cudaEventRecord(to);
    cudaDeviceSynchronize();
    cudaEventElapsedTime(&ms, from, to); // !event_early: failed-call
    cudaEventDestroy(from);
    cudaEventDestroy(to);
}

// ---- not ordered ----

struct Streams {
    cudaStream_t s, t;
    Streams()
    {
        cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
        cudaDeviceSynchronize();
    }
    ~Streams()
    {
        cudaDeviceSynchronize();
        cudaStreamDestroy(s);
        cudaStreamDestroy(t);
    }
};

static void two_kernels(int right) // both add to the same sums
{
    Buffer<int> sums, a, b;
    Streams of;
    add<<<8, 128, 0, of.s>>>(sums, a, N);
    add<<<8, 128, 0, right ? of.s : of.t>>>(sums, b, N); // !two_kernels: unordered
}
static void set_late(int right) // filled in one stream, set in the other
{
    Buffer<int> a;
    Streams of;
    fill<<<8, 128, 0, of.s>>>(a, N);
    cudaMemsetAsync(a, 0, 4 * N, right ? of.s : of.t); // !set_late: unordered
}
static void event_first(int right) // recorded before what it should wait for
{
    Buffer<int> a, b;
    Streams of;
    cudaEvent_t e;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    if (!right)
        cudaEventRecord(e, of.s);
    fill<<<8, 128, 0, of.s>>>(a, N);
    if (right)
        cudaEventRecord(e, of.s);
    cudaStreamWaitEvent(of.t, e, 0);
    add<<<8, 128, 0, of.t>>>(b, a, N); // !event_first: unordered
    cudaEventDestroy(e);
}
static void upload(int right) // the next block comes while the kernel reads this one
{
    Buffer<int> a(2 * N), sums;
    int *h, *to = a + (right ? N : N / 2);
    cudaMallocHost(&h, 4 * N);
    memset(h, 0, 4 * N);
    {
        Streams of;
        add<<<8, 128, 0, of.s>>>(sums, a, N);
        cudaMemcpyAsync(to, h, 4 * N, cudaMemcpyHostToDevice, of.t); // !upload: unordered
    }
    cudaFreeHost(h);
}

static const Fault faults[] = {
    {"owners", owners},           {"pinned", pinned},           {"mixed", mixed},
    {"on_error", on_error},       {"too_long", too_long},       {"no_device", no_device},
    {"direction", direction},     {"shared_size", shared_size}, {"no_threads", no_threads},
    {"event_early", event_early}, {"two_kernels", two_kernels}, {"set_late", set_late},
    {"event_first", event_first}, {"upload", upload},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
