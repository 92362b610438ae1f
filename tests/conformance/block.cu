// Operations of a CTA: barriers in all forms, shared memory, what threads see of one another.

// conformance: levels -O1 -O0
#include "kernel_row.h"
typedef unsigned u32;

// ---- barriers ----
template <class Wait> static __global__ void exchange(int *out, Wait wait)
{
    __shared__ int cell[256];
    int i = threadIdx.x, n = blockDim.x;
    for (int round = 0; round < 3; round++) {
        cell[i] = i * 5 + round;
        wait();
        out[round * n + i] = cell[n - 1 - i];
        wait();
    }
}
template <class Wait> static void run_exchange(conf::row &r, int n, Wait wait)
{
    conf::buffer<int> out(r, 3 * n);
    exchange<<<1, n>>>(out, wait);
    out.is([n](long i) { return (n - 1 - i % n) * 5 + i / n; });
    r.stores(3 * n, 4);
}
struct wait_syncthreads {
    __device__ void operator()() const
    {
        __syncthreads();
    }
};
ROW_OF("__syncthreads", "256 threads exchange values through shared memory, three times",
       run_exchange(r, 256, wait_syncthreads()))
ROW_OF("__syncthreads, 100 threads", "a last warp that is not full", run_exchange(r, 100, wait_syncthreads()))
#define WAIT(name, text)                                                                                     \
    struct name {                                                                                            \
        __device__ void operator()() const                                                                   \
        {                                                                                                    \
            asm volatile(text ::: "memory");                                                                 \
        }                                                                                                    \
    };
WAIT(wait_bar0, "bar.sync 0;")
WAIT(wait_bar1, "bar.sync 1, 128;")
WAIT(wait_barrier, "barrier.sync 3;")
WAIT(wait_barrier_count, "barrier.sync 2, 128;")
WAIT(wait_aligned, "barrier.sync.aligned 0;")
WAIT(wait_cta, "barrier.cta.sync.aligned 4;")
ROW_OF("bar.sync 0", "all threads", run_exchange(r, 128, wait_bar0()))
ROW_OF("bar.sync 1, 128", "a named barrier with a count", run_exchange(r, 128, wait_bar1()))
ROW_OF("barrier.sync 3", "a named barrier for all", run_exchange(r, 128, wait_barrier()))
ROW_OF("barrier.sync 2, 128", "a named barrier with a count", run_exchange(r, 128, wait_barrier_count()))
ROW_OF("barrier.sync.aligned 0", "all threads", run_exchange(r, 96, wait_aligned()))
ROW_OF("barrier.cta.sync.aligned 4", "all threads", run_exchange(r, 96, wait_cta()))

// Two halves of a CTA, each with a barrier of its own, different numbers of rounds.
static __global__ void halves(int *out)
{
    __shared__ int cell[128];
    int i = threadIdx.x, half = i / 64, sum = 0;
    for (int round = 0; round < 2 + 3 * half; round++) {
        cell[i] = i + round;
        if (half)
            asm volatile("bar.sync 1, 64;" ::: "memory");
        else
            asm volatile("bar.sync 2, 64;" ::: "memory");
        sum += cell[i ^ 63];
        if (half)
            asm volatile("bar.sync 1, 64;" ::: "memory");
        else
            asm volatile("bar.sync 2, 64;" ::: "memory");
    }
    out[i] = sum;
}
ROW_OUT("two named barriers", "halves of a CTA, with different numbers of rounds", int, 128,
        (halves<<<1, 128>>>(out)), i < 64 ? 2 * (i ^ 63) + 1 : 5 * (i ^ 63) + 10)

// Producers arrive, consumers wait.
static __global__ void produce(int *out)
{
    __shared__ int cell[64];
    int i = threadIdx.x;
    if (i < 64) { // producers: two warps
        cell[i] = i * i;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[i - 64] = cell[127 - i];
    }
}
ROW_OUT("bar.arrive", "two warps fill, two wait for them", int, 64, (produce<<<1, 128>>>(out)),
        (63 - i) * (63 - i))
KERNEL_ROW("__syncthreads_count", "how many are true", 100, int, __syncthreads_count(i % 3 == 0), 34)
KERNEL_ROW("__syncthreads_and, all", "all true", 100, int, __syncthreads_and(i >= 0) != 0, 1)
KERNEL_ROW("__syncthreads_and, not all", "one false", 100, int, __syncthreads_and(i != 77) != 0, 0)
KERNEL_ROW("__syncthreads_or, one", "one true", 100, int, __syncthreads_or(i == 77) != 0, 1)
KERNEL_ROW("__syncthreads_or, none", "none true", 100, int, __syncthreads_or(i > 100) != 0, 0)
static __device__ u32 popc_asm(int v)
{
    u32 d;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; bar.red.popc.u32 %0, 0, p; }" : "=r"(d) : "r"(v));
    return d;
}
KERNEL_ROW("bar.red.popc.u32", "how many are true", 128, u32, popc_asm(i & 1), 64)
static __device__ u32 and_asm(int v)
{
    u32 d;
    asm volatile(
        "{ .reg .pred p, q; setp.ne.s32 p, %1, 0; barrier.red.and.pred q, 0, p; selp.u32 %0, 1, 0, q; }"
        : "=r"(d)
        : "r"(v));
    return d;
}
KERNEL_ROW("barrier.red.and.pred", "one false", 128, u32, and_asm(i != 3), 0)
static __global__ void early(int *out)
{
    __shared__ int cell[64];
    if (threadIdx.x >= 64)
        return;
    cell[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = cell[63 - threadIdx.x];
}
ROW_OUT("__syncthreads after exits", "whole warps have left before the barrier", int, 64,
        (early<<<1, 128>>>(out)), 63 - i)

// ---- shared memory: no record of its own ----
static __global__ void dynamic(int *out, int n)
{
    extern __shared__ char bytes[];
    int *word = (int *)bytes;
    double *number = (double *)(bytes + n * 4);
    word[threadIdx.x] = threadIdx.x;
    number[threadIdx.x] = 0.5 * threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = word[n - 1 - threadIdx.x] + (int)(2 * number[threadIdx.x]);
}
ROW("dynamic shared memory", "two arrays in one; only the results are global")
{
    conf::buffer<int> out(r, 128);
    dynamic<<<1, 128, 128 * 12>>>(out, 128);
    out.is([](long) { return 127; });
    r.stores(128, 4);
}
static __global__ void large(int *out, int n)
{
    extern __shared__ int cells[];
    for (int k = threadIdx.x; k < n; k += blockDim.x)
        cells[k] = k;
    __syncthreads();
    out[threadIdx.x] = cells[n - 1 - threadIdx.x];
}
ROW("opt-in shared memory", "96 KiB after cudaFuncSetAttribute")
{
    conf::buffer<int> out(r, 64);
    if (!CONF_CALL(r, cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024)))
        return;
    large<<<1, 64, 96 * 1024>>>(out, 24 * 1024);
    out.is([](long i) { return 24 * 1024 - 1 - i; });
    r.stores(64, 4);
}
static __global__ void generic(int *out, int *global)
{
    __shared__ int shared[32];
    int i = threadIdx.x;
    shared[i] = i;
    int *p = i & 1 ? &shared[i] : &global[i]; // a generic pointer: global for the even lanes only
    *p += 10;
    __syncwarp();
    out[i] = i & 1 ? shared[i] : 0;
}
ROW("generic pointer", "shared or global, decided at run time: global accesses have records")
{
    conf::buffer<int> out(r, 32), global(r, 32, [](long i) { return 2 * i; });
    generic<<<1, 32>>>(out, global);
    out.is([](long i) { return i & 1 ? i + 10 : 0; });
    global.is([](long i) { return i & 1 ? 2 * i : 2 * i + 10; });
    r.loads(16, 4);
    r.stores(16 + 32, 4);
}
static __global__ void local(int *out, int seed)
{
    int cell[40]; // indexed at run time: local memory, not global
    for (int k = 0; k < 40; k++)
        cell[k] = k * seed;
    int sum = 0;
    for (int k = 0; k < 40; k++)
        sum += cell[(k * 7 + threadIdx.x) % 40] * k;
    out[threadIdx.x] = sum;
}
ROW("local array", "indexed at run time; no record")
{
    conf::buffer<int> out(r, 32);
    local<<<1, 32>>>(out, 3);
    out.is([](long i) {
        int sum = 0;
        for (int k = 0; k < 40; k++)
            sum += (k * 7 + i) % 40 * 3 * k;
        return sum;
    });
    r.stores(32, 4);
}
__constant__ int table[64];
static __global__ void constant(int *out)
{
    out[threadIdx.x] = table[threadIdx.x ^ 1];
}
ROW("__constant__", "written by cudaMemcpyToSymbol; reads have no record")
{
    int h[64];
    for (int i = 0; i < 64; i++)
        h[i] = i * 11;
    CONF_CALL(r, cudaMemcpyToSymbol(table, h, sizeof h));
    conf::buffer<int> out(r, 64);
    constant<<<1, 64>>>(out);
    out.is([](long i) { return (i ^ 1) * 11; });
    r.stores(64, 4);
}
__device__ int counter = 5;
__device__ int line[32];
static __global__ void variables()
{
    line[threadIdx.x] = counter + threadIdx.x;
}
ROW("__device__ variables", "initial value, cudaMemcpyFromSymbol; they lie in global memory")
{
    variables<<<1, 32>>>();
    int h[32];
    CONF_CALL(r, cudaMemcpyFromSymbol(h, line, sizeof h));
    for (int i = 0; i < 32; i++)
        r.same(i, h[i], i + 5);
    r.loads(32, 4);
    r.stores(32, 4);
}
struct arguments {
    int values[20];
};
static __global__ void by_value(int *out, arguments a)
{
    out[threadIdx.x] = a.values[threadIdx.x];
}
ROW("struct parameter", "indexed at run time; parameters have no record")
{
    arguments a;
    for (int i = 0; i < 20; i++)
        a.values[i] = i * i;
    conf::buffer<int> out(r, 20);
    by_value<<<1, 20>>>(out, a);
    out.is([](long i) { return i * i; });
    r.stores(20, 4);
}

// ---- shapes ----
static __global__ void indices(int *out)
{
    int cta = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[cta * 24 + thread] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x +
                             10000 * blockIdx.y + 100000 * blockIdx.z;
}
ROW("threadIdx, blockIdx, blockDim, gridDim", "a grid of 2x3x4 CTAs of 2x3x4 threads")
{
    conf::buffer<int> out(r, 576);
    indices<<<dim3(2, 3, 4), dim3(2, 3, 4)>>>(out);
    out.is([](long i) {
        int t = i % 24, c = i / 24;
        return t % 2 + 10 * (t / 2 % 3) + 100 * (t / 6) + 1000 * (c % 2) + 10000 * (c / 2 % 3) +
               100000 * (c / 6);
    });
    r.stores(576, 4);
}
static __global__ void factorial(long long *out)
{
    struct f {
        static __device__ __noinline__ long long of(int n)
        {
            return n < 2 ? 1 : n * of(n - 1);
        }
    };
    out[threadIdx.x] = f::of(threadIdx.x);
}
ROW("recursion", "factorials")
{
    conf::buffer<long long> out(r, 16);
    factorial<<<1, 16>>>(out);
    out.is([](long i) {
        long long f = 1;
        for (int k = 2; k <= i; k++)
            f *= k;
        return f;
    });
    r.stores(16, 8);
}
static __device__ int twice(int x)
{
    return 2 * x;
}
static __device__ int square(int x)
{
    return x * x;
}
static __global__ void indirect(int *out)
{
    int (*f)(int) = threadIdx.x & 1 ? square : twice;
    out[threadIdx.x] = f(threadIdx.x);
}
ROW_OUT("function pointer", "chosen at run time", int, 32, (indirect<<<1, 32>>>(out)), i & 1 ? i * i : 2 * i)
struct shape {
    __device__ virtual int area() const = 0;
    __device__ virtual ~shape()
    {
    }
};
struct rectangle : shape {
    int a, b;
    __device__ rectangle(int a_, int b_) : a(a_), b(b_)
    {
    }
    __device__ int area() const override
    {
        return a * b;
    }
};
struct triangle : rectangle {
    __device__ triangle(int a_, int b_) : rectangle(a_, b_)
    {
    }
    __device__ int area() const override
    {
        return a * b / 2;
    }
};
static __global__ void virtual_calls(int *out)
{
    rectangle q(threadIdx.x, 4);
    triangle t(threadIdx.x, 4);
    const shape *s = threadIdx.x & 1 ? (const shape *)&q : &t;
    out[threadIdx.x] = s->area();
}
ROW("virtual function",
    "objects in local memory; reading the table of functions in global memory has a record, if it is read")
{
    conf::buffer<int> out(r, 32);
    virtual_calls<<<1, 32>>>(out);
    out.is([](long i) { return i & 1 ? i * 4 : i * 2; });
    r.stores(32, 4);
    r.at_least(conf::LOAD, 0, 8);
}
CONF_MAIN
