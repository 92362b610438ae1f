// Races (see faults.cu): threads that atomics or strong accesses order, threads of one CTA in global memory,
// and CTAs.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <new>
#include "faults.h"

// ---- shared memory: order by words ----

__global__ void flag(int *out, int right) // one warp makes, the other one waits for its flag
{
    __shared__ int data[32];
    __shared__ volatile int ready;
    int t = threadIdx.x;
    if (t == 0)
        ready = 0;
    __syncthreads();
    if (t < 32) {
        data[t] = t; // !flag: shared-race
        __syncwarp();
        __threadfence_block();
        if (t == 0)
            ready = 1;
    } else {
        while (right && !ready)
            ;
        __threadfence_block();
        out[t - 32] = data[63 - t];
    }
}
__global__ void beside(int *out, int right) // the flag comes before the half of what it stands for
{
    __shared__ int data[2][32];
    __shared__ int ready;
    int t = threadIdx.x;
    if (t == 0)
        ready = 0;
    __syncthreads();
    if (t < 32) {
        data[0][t] = t;
        if (right)
            data[1][t] = t;
        __threadfence_block();
        atomicAdd(&ready, 1);
        if (!right)
            data[1][t] = t; // !beside: shared-race
    } else {
        while (atomicAdd(&ready, 0) < 32)
            ;
        __threadfence_block();
        out[t - 32] = data[0][63 - t] + data[1][63 - t];
    }
}
__global__ void crowded(int *out, int right) // more words than are kept, and then a flag
{
    __shared__ int bins[2048], data[32], ready;
    int t = threadIdx.x;
    for (int i = t; i < 2048; i += 64)
        bins[i] = 0;
    if (t == 0)
        ready = 0;
    __syncthreads();
    for (int i = 0; i < 32; i++)
        atomicAdd(&bins[t * 32 + i], t);
    if (t < 32) {
        data[t] = bins[t * 32];
        __threadfence_block();
        atomicAdd(&ready, 1);
        if (!right)
            data[t] += 1; // !crowded: shared-race
    } else {
        while (atomicAdd(&ready, 0) < 32)
            ;
        __threadfence_block();
        out[t - 32] = data[63 - t];
    }
}
__global__ void counted(int *out, int right) // a latch: all have come, or it is only counted down
{
    using Latch = cuda::latch<cuda::thread_scope_block>;
    __shared__ __align__(8) char room[sizeof(Latch)];
    __shared__ int data[64];
    auto &latch = *reinterpret_cast<Latch *>(room);
    int t = threadIdx.x;
    if (t == 0)
        new (&latch) Latch(64);
    __syncthreads();
    data[t] = t; // !counted: shared-race
    if (right)
        latch.arrive_and_wait();
    else
        latch.count_down();
    out[t] = data[63 - t];
}
__global__ void turns(int *out, int right) // warps hand over by a ticket
{
    __shared__ int turn, sum;
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        turn = sum = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        while (right && atomicAdd(&turn, 0) != warp)
            ;
        __threadfence_block();
        sum += warp; // !turns: shared-race
        __threadfence_block();
        atomicAdd(&turn, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        *out = sum;
}
__global__ void locked(int *out, int right)
{
    __shared__ int held, most;
    if (threadIdx.x == 0)
        held = most = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        while (right && atomicCAS(&held, 0, 1))
            ;
        __threadfence_block();
        if (most < (int)threadIdx.x)
            most = threadIdx.x; // !locked: shared-race
        __threadfence_block();
        if (right)
            atomicExch(&held, 0);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        *out = most;
}
__global__ void released(int *out, int right) // acquire and release, as words of the language
{
    __shared__ int value, state;
    cuda::atomic_ref<int, cuda::thread_scope_block> ref(state);
    if (threadIdx.x == 0)
        state = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = out[1]; // !released: shared-race
        ref.store(1, cuda::memory_order_release);
    }
    if (threadIdx.x == 32) {
        while (right && ref.load(cuda::memory_order_acquire) == 0)
            ;
        *out = value;
    }
}

// ---- global memory: threads of one CTA ----

__global__ void turned(int *a, int *out, int right) // written by one warp, read by the other
{
    int t = threadIdx.x;
    a[t] = t; // !turned: global-race
    if (right)
        __syncthreads();
    out[t] = a[63 - t];
}
__global__ void in_place(int *a, int right) // read before and after the neighbour writes
{
    int t = threadIdx.x, next = a[(t + 1) % 128];
    if (right)
        __syncthreads();
    a[t] = next; // !in_place: global-race
}
__global__ void most_of(const int *in, int *most, int right)
{
    int mine = in[threadIdx.x];
    if (right)
        atomicMax(most, mine);
    else if (mine > *most)
        *most = mine; // !most_of: global-race
}
__global__ void lanes(char *a, int right) // of one warp, bytes of a word
{
    int t = threadIdx.x;
    a[t] = (char)t; // !lanes: global-race
    if (right)
        __syncwarp();
    if (t == 0)
        a[32] = a[31];
}
__global__ void steps(int *a, int n, int right) // sums, each step of which needs the one before it
{
    int t = threadIdx.x;
    for (int step = 1; step < n; step *= 2) {
        int sum = t >= step ? a[t] + a[t - step] : a[t];
        __syncthreads();
        a[t] = sum; // !steps: global-race
        if (right)
            __syncthreads();
    }
}
__global__ void passed_on(int *data, int *flag, int right) // from warp to warp by an atomic
{
    int warp = threadIdx.x / 32;
    if (threadIdx.x % 32)
        return;
    while (right && atomicAdd(flag, 0) != warp)
        ;
    __threadfence();
    data[warp + 1] = data[warp] + 1; // !passed_on: global-race
    __threadfence();
    atomicAdd(flag, 1);
}
__global__ void told(int *found, int right) // all lanes of one warp, or all warps
{
    if (!right || threadIdx.x < 32)
        *found = 1; // !told: global-race
}

static void turned(int right)
{
    Buffer<int> a(64), out(64);
    turned<<<1, 64>>>(a, out, right);
    get(out, 256);
}
static void in_place(int right)
{
    Buffer<int> a(128);
    in_place<<<1, 128>>>(a, right);
    get(a, 512);
}
static void most_of(int right)
{
    Buffer<int> in(64, false), most(1);
    std::vector<int> h(64);
    for (int i = 0; i < 64; i++)
        h[i] = i + 1;
    cudaMemcpy(in, h.data(), 256, cudaMemcpyHostToDevice);
    most_of<<<1, 64>>>(in, most, right);
    get(most, 4);
}
static void lanes(int right)
{
    Buffer<char> a(33);
    lanes<<<1, 32>>>(a, right);
    get(a, 33);
}
static void steps(int right)
{
    Buffer<int> a(128);
    steps<<<1, 128>>>(a, 128, right);
    get(a, 512);
}
static void passed_on(int right)
{
    Buffer<int> data(5), flag(1);
    passed_on<<<1, 128>>>(data, flag, right);
    get(data, 20);
}
static void told(int right)
{
    Buffer<int> found(1);
    told<<<1, 64>>>(found, right);
    get(found, 4);
}

// ---- global memory: CTAs ----

__global__ void append(const int *in, int *out, int *n, int right) // a list that all add to
{
    int i = blockIdx.x;
    if (threadIdx.x)
        return;
    int at = right ? atomicAdd(n, 1) : (*n)++; // !append: global-race
    out[at] = in[i];
}
__global__ void published(int *data, int *flag, int *out, int right) // a flag that nothing waits for
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        *data = 7; // !published: global-race
        __threadfence();
        atomicExch(flag, 1);
    } else {
        while (right && !atomicAdd(flag, 0))
            ;
        __threadfence();
        *out = *data;
    }
}
__global__ void borders(float *a, const float *from, int n,
                        int right) // each CTA writes one more than its own
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = from[i];
    if (threadIdx.x == blockDim.x - 1 && i + 1 < n && !right)
        a[i + 1] = 0; // !borders: global-race
}

__global__ void scratch(int *out,
                        int right) // memory of each thread's own, one after the other at one place, or of all
{
    __shared__ int *of_all;
    int *own = (int *)malloc(64);
    if (threadIdx.x == 0)
        of_all = own;
    __syncthreads();
    int *p = right ? own : of_all;
    p[3] = threadIdx.x; // !scratch: global-race
    if (threadIdx.x < 32)
        out[blockIdx.x * 32 + threadIdx.x] = p[3];
    if (threadIdx.x)
        free(own);
    __syncthreads();
    if (!threadIdx.x)
        free(own);
}

static void scratch(int right)
{
    Buffer<int> out(64);
    scratch<<<2, 64>>>(out, right);
    get(out, 256);
}
static void append(int right)
{
    Buffer<int> in(4), out(4), n(1);
    append<<<4, 32>>>(in, out, n, right);
    get(n, 4);
    if (right)
        get(out, 16);
}
static void published(int right)
{
    Buffer<int> data(1), flag(1), out(1);
    published<<<2, 32>>>(data, flag, out, right);
    get(out, 4);
}
static void borders(int right)
{
    Buffer<float> a(256), from(256);
    borders<<<4, 64>>>(a, from, 256, right);
    get(a, 1024);
}

static const Fault faults[] = {
    {"flag", of<flag, 64>},
    {"beside", of<beside, 64>},
    {"crowded", of<crowded, 64>},
    {"counted", of<counted, 64>},
    {"turns", of<turns, 128>},
    {"locked", of<locked, 128>},
    {"released", of<released, 64>},
    {"turned", turned},
    {"in_place", in_place},
    {"most_of", most_of},
    {"lanes", lanes},
    {"steps", steps},
    {"passed_on", passed_on},
    {"told", told},
    {"scratch", scratch},
    {"append", append},
    {"published", published},
    {"borders", borders},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
