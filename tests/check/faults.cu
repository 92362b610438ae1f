// Faults, each with its right twin: faults.cu NAME runs one. A line's remark says what `memtrace check` finds
// there when it is run under that name: "// !NAME: kind"; nothing else may be found in NAME, and nothing at
// all in NAME-right.
#include <cooperative_groups.h>
#include "faults.h"
namespace cg = cooperative_groups;

// ---- memory: outside of an allocation ----

__global__ void fill(int *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = i; // !end: out-of-bounds !freed: use-after-free
}
__global__ void neighbour(const int *a, int *b, int n, int right)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        b[i] = a[right && i == 0 ? 0 : i - 1]; // !before: out-of-bounds
}
__global__ void add(int *sum, int at)
{
    atomicAdd(sum + at, 1); // !atomic: out-of-bounds
}
__global__ void odd(char *p, int at)
{
    *(int *)(p + at) = 1; // !odd: misaligned
}
__global__ void wide(float *p, int at)
{
    *(float4 *)(p + at) = make_float4(1, 2, 3, 4); // !wide: misaligned
}

static void end(int right)
{
    Buffer<int> a;
    fill<<<8, 128>>>(a, right ? N : N + 1);
    get(a, 4 * N);
}
static void before(int right)
{
    Buffer<int> a, b;
    neighbour<<<8, 128>>>(a, b, N, right);
    get(b, 4 * N);
}
static void atomic(int right)
{
    Buffer<int> a(16);
    add<<<1, 32>>>(a, right ? 15 : 16);
    get(a, 64);
}
static void odd(int right)
{
    Buffer<char> a(16);
    odd<<<1, 1>>>(a, right ? 4 : 3);
    get(a, 16);
}
static void wide(int right)
{
    Buffer<float> a(16);
    wide<<<1, 1>>>(a, right ? 4 : 2);
    get(a, 64);
}
static void freed(int right)
{
    int *a;
    cudaMalloc(&a, 4 * N);
    if (!right)
        cudaFree(a);
    fill<<<8, 128>>>(a, N);
    cudaDeviceSynchronize();
    if (right) {
        get(a, 4 * N);
        cudaFree(a);
    }
}

// ---- init: read before it was written ----

__global__ void count_up(int *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] += 1; // !count_up: uninitialised
}
__global__ void sum_tail(const int *a, int n, int *out)
{
    int s = 0;
    for (int i = threadIdx.x; i < n; i += 32)
        s += a[i]; // !tail: uninitialised
    atomicAdd(out, s);
}
__global__ void add_each(int *sum)
{
    atomicAdd(sum, 1); // !counter: uninitialised
}
struct Pair {
    int x, y;
};
__global__ void first_of(Pair *p, int n, int both)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i].x = i;
    if (i < n && both)
        p[i].y = i;
}
__global__ void second_of(const Pair *p, int n, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = p[i].y; // !member: uninitialised
}

static void count_up(int right)
{
    Buffer<int> a(N, right);
    count_up<<<8, 128>>>(a, N);
    get(a, 4 * N);
}
static void tail(int right)
{
    Buffer<int> a(N, false), out(1);
    std::vector<int> h(N, 1);
    cudaMemcpy(a, h.data(), 4 * (right ? N : N - 3), cudaMemcpyHostToDevice);
    sum_tail<<<1, 32>>>(a, N, out);
    get(out, 4);
}
static void counter(int right)
{
    Buffer<int> sum(1, right);
    add_each<<<2, 64>>>(sum);
    get(sum, 4);
}
static void member(int right)
{
    Buffer<Pair> p(N, false);
    Buffer<int> out;
    first_of<<<8, 128>>>(p, N, right);
    second_of<<<8, 128>>>(p, N, out);
    get(out, 4 * N);
}
static void handed_on(int right)
{
    Buffer<int> a(N, right), b(N, false), out(1);
    cudaMemcpy(b, a, 4 * N, cudaMemcpyDeviceToDevice);
    sum_tail<<<1, 32>>>(b, N, out); // the line is that of `tail`
    get(out, 4);
}
static void copied(int right)
{
    Buffer<int> a(N, false);
    fill<<<8, 128>>>(a, right ? N : N - 1);
    std::vector<int> h(N);
    cudaMemcpy(h.data(), a, 4 * N, cudaMemcpyDeviceToHost); // !copied: uninitialised-copy
}

__global__ void sums(int *out, int n)
{
    __shared__ int s[64];
    if ((int)threadIdx.x < n)
        s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x]; // !unset: uninitialised
}
static void unset(int right)
{
    Buffer<int> out(64);
    sums<<<1, 64>>>(out, right ? 64 : 60);
    get(out, 256);
}

// ---- races in shared memory ----

__global__ void reverse(int *out, int right)
{
    __shared__ int s[256];
    s[threadIdx.x] = threadIdx.x; // !reverse: shared-race
    if (right)
        __syncthreads();
    out[threadIdx.x] = s[255 - threadIdx.x];
}
__global__ void total(const int *in, int *out, int right)
{
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    for (int w = 64; w > 0; w /= 2) {
        if (t < w)
            s[t] += s[t + w]; // !total: shared-race
        if (right)
            __syncthreads();
    }
    if (t == 0)
        *out = s[0];
}
__global__ void tiles(const int *in, int *out, int n, int right)
{
    __shared__ int s[64];
    int sum = 0;
    for (int at = 0; at < n; at += 64) {
        s[threadIdx.x] = in[at + threadIdx.x]; // !tiles: shared-race
        __syncthreads();
        for (int i = 0; i < 64; i++)
            sum += s[i];
        if (right)
            __syncthreads();
    }
    out[threadIdx.x] = sum;
}

static void reverse(int right)
{
    Buffer<int> out(256);
    reverse<<<1, 256>>>(out, right);
    get(out, 1024);
}
static void total(int right)
{
    Buffer<int> in(128), out(1);
    total<<<1, 128>>>(in, out, right);
    get(out, 4);
}
static void tiles(int right)
{
    Buffer<int> in(256), out(64);
    tiles<<<1, 64>>>(in, out, 256, right);
    get(out, 256);
}

// ---- races in global memory ----

__global__ void histogram(const int *in, int *bins, int n, int right)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (right)
        atomicAdd(&bins[in[i] & 15], 1);
    else
        bins[in[i] & 15] += 1; // !histogram: global-race
}
__global__ void smooth(int *a, const int *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1)
        a[i] = (from[i - 1] + from[i + 1]) / 2; // !smooth: global-race
}
__device__ int arrived;
__global__ void last_sums(const int *in, int *part, int *out, int right)
{
    __shared__ int s, last;
    if (threadIdx.x == 0)
        s = 0;
    __syncthreads();
    atomicAdd(&s, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s; // !last: global-race
        __threadfence();
        last = right ? atomicAdd(&arrived, 1) == (int)gridDim.x - 1 : blockIdx.x == gridDim.x - 1;
        if (last) {
            int sum = 0;
            for (unsigned i = 0; i < gridDim.x; i++)
                sum += part[i];
            *out = sum;
        }
    }
}

__global__ void relay(int *state, int right)
{
    volatile int *strong = state;
    int before = 0;
    if (right) {
        while (blockIdx.x && !(before = strong[blockIdx.x - 1]))
            ;
        strong[blockIdx.x] = before + 1;
    } else {
        state[blockIdx.x + 1] = state[blockIdx.x] + 1; // !relay: global-race
    }
}
__global__ void ticket(int *count, int *out, int right)
{
    if (threadIdx.x)
        return;
    int mine = atomicAdd(count, 1);
    if (right ? mine == (int)gridDim.x - 1 : blockIdx.x == 0) {
        *out = mine;
        *(right ? count : count + 1) = 0;
    }
    if (!right && blockIdx.x)
        count[1] = 1; // !ticket: global-race
}

static void relay(int right)
{
    Buffer<int> state(9);
    relay<<<8, 1>>>(state, right);
    get(state, 36);
}
static void ticket(int right)
{
    Buffer<int> count(2), out(1);
    ticket<<<4, 32>>>(count, out, right);
    get(count, 8);
    get(out, 4);
}
static void histogram(int right)
{
    Buffer<int> in, bins(16);
    histogram<<<8, 128>>>(in, bins, N, right);
    get(bins, 64);
}
static void smooth(int right)
{
    Buffer<int> a, b;
    smooth<<<8, 128>>>(a, right ? b : a, N);
    get(a, 4 * N);
}
static void last(int right)
{
    Buffer<int> in(512), part(4), out(1);
    last_sums<<<4, 128>>>(in, part, out, right);
    get(out, 4);
}

// ---- barriers and masks ----

__global__ void halves(int *a, int n)
{
    int t = threadIdx.x;
    if (t < n) {
        a[t] += 1;
        __syncthreads(); // !halves: barrier
    }
    __syncthreads();
    a[t] *= 2;
}
__global__ void odd_lanes(int *a, unsigned mask)
{
    int v = threadIdx.x;
    if (threadIdx.x & 1)
        v = __shfl_sync(mask, v, 1); // !lanes: mask
    a[threadIdx.x] = v;
}

static void halves(int right)
{
    Buffer<int> a(64);
    halves<<<1, 64>>>(a, right ? 64 : 48);
    get(a, 256);
}
static void lanes(int right)
{
    Buffer<int> a(32);
    odd_lanes<<<1, 32>>>(a, right ? 0xaaaaaaaau : 0x55555555u);
    get(a, 128);
}

// ---- calls ----

static void twice(int right)
{
    int *a;
    cudaMalloc(&a, 4 * N);
    fill<<<8, 128>>>(a, N);
    get(a, 4 * N);
    cudaFree(a);
    if (!right)
        cudaFree(a); // !twice: double-free
}
static void large(int right)
{
    Buffer<int> a;
    fill<<<1, right ? 1000 : 1025>>>(a, N); // !large: failed-call
    if (right)
        get(a, 4 * N);
}
static void short_copy(int right)
{
    Buffer<int> a;
    std::vector<int> h(N + 1);
    fill<<<8, 128>>>(a, N);
    cudaMemcpy(h.data(), a, 4 * (right ? N : N + 1), cudaMemcpyDeviceToHost); // !short_copy: failed-call
}

// ---- launches that nothing orders ----

static void streams(int right)
{
    Buffer<int> a, b;
    cudaStream_t s, t;
    cudaEvent_t e;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaDeviceSynchronize();
    fill<<<8, 128, 0, s>>>(a, N);
    cudaEventRecord(e, s);
    if (right)
        cudaStreamWaitEvent(t, e, 0);
    smooth<<<8, 128, 0, t>>>(b, a, N); // !streams: unordered
    cudaDeviceSynchronize();
    get(b, 4 * N);
    cudaEventDestroy(e);
    cudaStreamDestroy(s);
    cudaStreamDestroy(t);
}
static void copy_early(int right)
{
    Buffer<int> a;
    int *h;
    cudaStream_t s, t;
    cudaMallocHost(&h, 4 * N);
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    fill<<<8, 128, 0, s>>>(a, N);
    if (right)
        cudaStreamSynchronize(s);
    cudaMemcpyAsync(h, a, 4 * N, cudaMemcpyDeviceToHost, t); // !copy_early: unordered
    cudaDeviceSynchronize();
    cudaFreeHost(h);
    cudaStreamDestroy(s);
    cudaStreamDestroy(t);
}
static void recorded_again(int right) // a wait is for the latest record before it
{
    Buffer<int> a, b, c;
    cudaStream_t s, t;
    cudaEvent_t e;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaDeviceSynchronize();
    fill<<<8, 128, 0, s>>>(a, N);
    cudaEventRecord(e, s);
    cudaStreamWaitEvent(t, e, 0);
    smooth<<<8, 128, 0, t>>>(c, a, N);
    fill<<<8, 128, 0, s>>>(b, N);
    if (right)
        cudaEventRecord(e, s);
    cudaStreamWaitEvent(t, e, 0);
    if (!right)
        cudaEventRecord(e, s);         // too late
    smooth<<<8, 128, 0, t>>>(c, b, N); // !recorded_again: unordered
    cudaDeviceSynchronize();
    get(c, 4 * N);
    cudaEventDestroy(e);
    cudaStreamDestroy(s);
    cudaStreamDestroy(t);
}
static void default_stream(int right)
{
    Buffer<int> a, b;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, right ? cudaStreamDefault : cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    fill<<<8, 128, 0, s>>>(a, N);
    smooth<<<8, 128>>>(b, a, N); // !default_stream: unordered
    cudaDeviceSynchronize();
    get(b, 4 * N);
    cudaStreamDestroy(s);
}

static const Fault faults[] = {
    {"end", end},
    {"before", before},
    {"atomic", atomic},
    {"odd", odd},
    {"wide", wide},
    {"freed", freed},
    {"count_up", count_up},
    {"tail", tail},
    {"counter", counter},
    {"member", member},
    {"handed_on", handed_on},
    {"copied", copied},
    {"reverse", reverse},
    {"total", total},
    {"tiles", tiles},
    {"histogram", histogram},
    {"smooth", smooth},
    {"last", last},
    {"streams", streams},
    {"copy_early", copy_early},
    {"recorded_again", recorded_again},
    {"default_stream", default_stream},
    {"halves", halves},
    {"lanes", lanes},
    {"twice", twice},
    {"large", large},
    {"short_copy", short_copy},
    {"relay", relay},
    {"ticket", ticket},
    {"unset", unset},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
