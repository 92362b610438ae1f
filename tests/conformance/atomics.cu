// Atomic operations: every operation, type and scope; one record of kind "atomic" per thread.

// conformance: levels -O1 -O0
#include "conf.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda/atomic>
typedef unsigned u32;
typedef long long s64;
typedef unsigned long long u64;

// ATOMIC("name", T, start, operation on p by thread i, final value): 64 threads of two CTAs on one address.
// The final value does not depend on the order.
#define ATOMIC_(id, name, T, start, operation, want)                                                         \
    static __global__ void CONF_JOIN(kernel_, id)(T * p)                                                     \
    {                                                                                                        \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                       \
        (void)i;                                                                                             \
        operation;                                                                                           \
    }                                                                                                        \
    ROW_(name, "64 threads on one address", false, CONF_JOIN(k, id))                                         \
    {                                                                                                        \
        conf::buffer<T> p(r, 1, [](long) { return (T)(start); });                                            \
        CONF_JOIN(kernel_, id)<<<2, 32>>>(p);                                                                \
        p.get();                                                                                             \
        T ref = (T)(want);                                                                                   \
        r.check(!memcmp(p.h, &ref, sizeof ref), "got %.17g, expected %.17g", (double)*p.h, (double)ref);     \
        r.atomics(64, sizeof(T));                                                                            \
    }
#define ATOMIC_ID(id, ...) ATOMIC_(id, __VA_ARGS__)
#define ATOMIC(...) ATOMIC_ID(__COUNTER__, __VA_ARGS__)

// TICKETS("name", T, start, operation, set of old values): the values before each operation, in any order,
// are start + step * 0 … 63.

// A row of the operation in the scope `s` (empty: device) on the type T, which the row's name calls t.
#define OF(s, name, T, t, start, operand, want)                                                              \
    ATOMIC("atomic" #name #s " of " #t, T, start, atomic##name##s(p, (T)(operand)), want)
#define INTEGERS(s, X) X(s, int, int) X(s, u32, unsigned) X(s, u64, unsigned long long)
#define SUM(s, T, t) OF(s, Add, T, t, 5, i + 1, 5 + 2080)
#define DIFFERENCE(s, T, t) OF(s, Sub, T, t, 5000, i + 1, 5000 - 2080)
#define EXTREMES(s, T, t, least, most)                                                                       \
    OF(s, Min, T, t, 40, i - 20, least)                                                                      \
    OF(s, Max, T, t, 40, i - 20, most)
#define BITS(s, T, t)                                                                                        \
    OF(s, And, T, t, ~(1ull << 40), ~(1ull << i % 16), ~(1ull << 40) & ~0xffffull)                           \
    OF(s, Or, T, t, 1ull << 20, 1 << i % 16, 1ull << 20 | 0xffff)                                            \
    OF(s, Xor, T, t, 0x100, i + 1, 0x100 ^ 64)
#define EXCHANGE(s, T, t) OF(s, Exch, T, t, 5, 77, 77)
#define SWAP(s, T, t) ATOMIC("atomicCAS" #s " of " #t, T, 5, atomicCAS##s(p, (T)5, (T)66), 66)
#define SCOPE(s)                                                                                             \
    INTEGERS(s, SUM)                                                                                         \
    SUM(s, float, float)                                                                                     \
    SUM(s, double, double)                                                                                   \
    DIFFERENCE(s, int, int)                                                                                  \
    DIFFERENCE(s, u32, unsigned)                                                                             \
    EXTREMES(s, int, int, -20, 43)                                                                           \
    EXTREMES(s, u32, unsigned, 0, -1ll)                                                                      \
    EXTREMES(s, u64, unsigned long long, 0, -1ll)                                                            \
    EXTREMES(s, s64, long long, -20, 43)                                                                     \
    INTEGERS(s, BITS)                                                                                        \
    INTEGERS(s, EXCHANGE)                                                                                    \
    EXCHANGE(s, float, float)                                                                                \
    INTEGERS(s, SWAP)                                                                                        \
    ATOMIC("atomicInc" #s, u32, 5, atomicInc##s(p, 20u), (5 + 64) % 21)                                      \
    ATOMIC("atomicDec" #s, u32, 5, atomicDec##s(p, 20u), (5 + 21 * 4 - 64) % 21)
SCOPE()
SCOPE(_block)
SCOPE(_system)
// LLVM 19 makes a loop over the whole word of it: a load of the word, then compare-and-swap of 4 bytes until
// it is done.
static __global__ void cas_half_word(unsigned short *p)
{
    atomicCAS(p, (unsigned short)5, (unsigned short)66);
}
ROW("atomicCAS of unsigned short", "64 threads on one address: the word is loaded and swapped")
{
    conf::buffer<unsigned short> p(r, 2, [](long) { return 5; });
    cas_half_word<<<2, 32>>>(p);
    p.get();
    r.check(p.h[0] == 66 && p.h[1] == 5, "got %d, %d", p.h[0], p.h[1]);
    r.at_least(conf::LOAD, 64, 4);
    r.at_least(conf::ATOMIC, 64, 4);
}

// ---- what an operation returns: each thread gets another old value ----
#define TICKETS(name, T, operation, old) TICKETS_ID(__COUNTER__, name, T, operation, old)
#define TICKETS_ID(id, ...) TICKETS_(id, __VA_ARGS__)
#define TICKETS_(id, name, T, operation, old)                                                                \
    static __global__ void CONF_JOIN(kernel_, id)(T * p, T * got)                                            \
    {                                                                                                        \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                       \
        got[i] = operation;                                                                                  \
    }                                                                                                        \
    ROW_(name, "64 threads get the values in between, each one once", false, CONF_JOIN(k, id))               \
    {                                                                                                        \
        conf::buffer<T> p(r, 1, [](long) { return (T)100; }), got(r, 64);                                    \
        CONF_JOIN(kernel_, id)<<<2, 32>>>(p, got);                                                           \
        got.get();                                                                                           \
        for (int k = 0; k < 64; k++) {                                                                       \
            int found = 0;                                                                                   \
            for (int i = 0; i < 64; i++)                                                                     \
                found += got.h[i] == (T)(old);                                                               \
            if (!r.check(found == 1, "%.17g came %d times", (double)(T)(old), found))                        \
                break;                                                                                       \
        }                                                                                                    \
        r.atomics(64, sizeof(T));                                                                            \
        r.stores(64, sizeof(T));                                                                             \
    }

#define OLD_SUMS(s, T, t) TICKETS("atomicAdd of " #t ", old values", T, atomicAdd(p, (T)3), 100 + 3 * k)
INTEGERS(, OLD_SUMS)
OLD_SUMS(, float, float)
OLD_SUMS(, double, double)
TICKETS("atomicSub of int, old values", int, atomicSub(p, 3), 100 - 3 * k)
TICKETS("atomicInc, old values", u32, atomicInc(p, 1000u), 100 + k)
TICKETS("atomicDec, old values", u32, atomicDec(p, 1000u), k <= 100 ? 100 - k : 0)

// ---- compare and swap in a loop: the number of rounds is the device's ----
static __global__ void cas_loop(u64 *p)
{
    u64 seen = *p, old;
    do {
        old = seen;
        seen = atomicCAS(p, old, old * 3 + 1);
    } while (seen != old);
}
ROW("atomicCAS in a loop", "64 threads apply x -> 3x + 1")
{
    conf::buffer<u64> p(r, 1, [](long) { return 7; });
    cas_loop<<<2, 32>>>(p);
    p.is([](long) {
        u64 x = 7;
        for (int i = 0; i < 64; i++)
            x = x * 3 + 1;
        return x;
    });
    r.loads(64, 8);
    r.at_least(conf::ATOMIC, 64, 8);
}
static __global__ void spin_lock(int *lock, int *value)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        *(volatile int *)value = *(volatile int *)value + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
ROW("spin lock between CTAs", "16 CTAs add 1 under a lock")
{
    conf::buffer<int> lock(r, 1, [](long) { return 0; }), value(r, 1, [](long) { return 0; });
    spin_lock<<<16, 32>>>(lock, value);
    value.is([](long) { return 16; });
    r.loads(16, 4);
    r.stores(16, 4);
    r.at_least(conf::ATOMIC, 32, 4);
}
static __global__ void last_cta(u32 *tickets, int *parts, int *sum)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x * 3;
        __threadfence();
        last = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int s = 0;
        for (int k = 0; k < gridDim.x; k++)
            s += ((volatile int *)parts)[k];
        *sum = s;
    }
}
ROW("__threadfence", "the last of 10 CTAs sees what the others stored")
{
    conf::buffer<u32> tickets(r, 1, [](long) { return 0; });
    conf::buffer<int> parts(r, 10), sum(r, 1);
    last_cta<<<10, 32>>>(tickets, parts, sum);
    sum.is([](long) { return 135; });
    tickets.is([](long) { return 0; });
    r.atomics(10, 4);
    r.stores(11, 4);
    r.loads(10, 4);
}

// ---- small and wide types ----
#define SUMS(name, T, lanes, threads, make, value, size)                                                     \
    SUMS_ID(__COUNTER__, name, T, lanes, threads, make, value, size)
#define SUMS_ID(id, ...) SUMS_(id, __VA_ARGS__)
#define SUMS_(id, name, T, lanes, threads, make, value, size)                                                \
    static __global__ void CONF_JOIN(kernel_, id)(T * p)                                                     \
    {                                                                                                        \
        atomicAdd(p + (threadIdx.x & 1), make);                                                              \
    }                                                                                                        \
    ROW_(name, "two addresses side by side, sums of small whole numbers", false, CONF_JOIN(k, id))           \
    {                                                                                                        \
        conf::buffer<T> p(r, 2);                                                                             \
        memset((void *)p.h, 0, sizeof(T) * 2);                                                               \
        p.put();                                                                                             \
        CONF_JOIN(kernel_, id)<<<1, threads>>>(p);                                                           \
        p.get();                                                                                             \
        for (int k = 0; k < 2; k++)                                                                          \
            for (int lane = 0; lane < lanes; lane++)                                                         \
                r.check(value(p.h[k], lane) == threads / 2 * (lane + 1), "[%d], part %d: %g", k, lane,       \
                        (double)value(p.h[k], lane));                                                        \
        r.atomics(threads, size);                                                                            \
    }
#define FIRST_OF(x, lane) (float)(x)
#define HALF2_OF(x, lane) (lane ? __high2float(x) : __low2float(x))
#define MEMBER_OF(x, lane) (((const float *)&(x))[lane])
SUMS("atomicAdd of __half", __half, 1, 32, __float2half(1), FIRST_OF, 2)
SUMS("atomicAdd of __nv_bfloat16", __nv_bfloat16, 1, 32, __float2bfloat16(1), FIRST_OF, 2)
SUMS("atomicAdd of __half2", __half2, 2, 32, __floats2half2_rn(1, 2), HALF2_OF, 4)
SUMS("atomicAdd of __nv_bfloat162", __nv_bfloat162, 2, 32, __floats2bfloat162_rn(1, 2), HALF2_OF, 4)
SUMS("atomicAdd of float2", float2, 2, 32, make_float2(1, 2), MEMBER_OF, 8)
SUMS("atomicAdd of float4", float4, 4, 32, make_float4(1, 2, 3, 4), MEMBER_OF, 16)

// ---- shared memory: no record ----
static __global__ void in_shared(int *out)
{
    __shared__ int sum;
    __shared__ u64 wide;
    if (threadIdx.x == 0)
        sum = 0, wide = 0;
    __syncthreads();
    atomicAdd(&sum, (int)threadIdx.x);
    atomicMax(&wide, (u64)threadIdx.x << 33);
    __syncthreads();
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = (int)(wide >> 33);
    }
}
ROW_OUT("atomics in shared memory", "right, and without a record", int, 2, (in_shared<<<1, 100>>>(out)),
        i ? 99 : 4950)

// ---- cuda::atomic_ref, cuda::atomic, cuda::std::atomic ----
using cuda::memory_order_acq_rel;
using cuda::memory_order_acquire;
using cuda::memory_order_relaxed;
using cuda::memory_order_release;
using cuda::memory_order_seq_cst;
template <class T> using ref = cuda::atomic_ref<T, cuda::thread_scope_device>;
typedef cuda::atomic_ref<u64, cuda::thread_scope_block> block_ref;
typedef cuda::atomic_ref<u64, cuda::thread_scope_device> device_ref;
typedef cuda::atomic_ref<u64, cuda::thread_scope_system> system_ref;

ATOMIC("atomic_ref fetch_add, relaxed", int, 5, ref<int>(*p).fetch_add(i + 1, memory_order_relaxed), 5 + 2080)
ATOMIC("atomic_ref fetch_add, acquire", int, 5, ref<int>(*p).fetch_add(i + 1, memory_order_acquire), 5 + 2080)
ATOMIC("atomic_ref fetch_add, release", int, 5, ref<int>(*p).fetch_add(i + 1, memory_order_release), 5 + 2080)
ATOMIC("atomic_ref fetch_add, acq_rel", int, 5, ref<int>(*p).fetch_add(i + 1, memory_order_acq_rel), 5 + 2080)
ATOMIC("atomic_ref fetch_add, seq_cst", int, 5, ref<int>(*p).fetch_add(i + 1, memory_order_seq_cst), 5 + 2080)
ATOMIC("atomic_ref fetch_add, scope block", u64, 5,
       block_ref(*p).fetch_add((u64)(i + 1), memory_order_relaxed), 5 + 2080)
ATOMIC("atomic_ref fetch_add, scope device", u64, 5,
       device_ref(*p).fetch_add((u64)(i + 1), memory_order_relaxed), 5 + 2080)
ATOMIC("atomic_ref fetch_add, scope system", u64, 5,
       system_ref(*p).fetch_add((u64)(i + 1), memory_order_relaxed), 5 + 2080)
ATOMIC("atomic_ref fetch_sub", int, 5000, ref<int>(*p).fetch_sub(i + 1), 5000 - 2080)
ATOMIC("atomic_ref fetch_and", u32, -1, ref<u32>(*p).fetch_and(~(1u << i % 16)), 0xffff0000)
ATOMIC("atomic_ref fetch_or", u64, 1ull << 40, ref<u64>(*p).fetch_or(1ull << i), -1ll)
ATOMIC("atomic_ref fetch_xor", u32, 0x100, ref<u32>(*p).fetch_xor(i + 1), 0x100 ^ 64)
ATOMIC("atomic_ref fetch_min", int, 40, ref<int>(*p).fetch_min(i - 20), -20)
ATOMIC("atomic_ref fetch_max", u64, 40, ref<u64>(*p).fetch_max((u64)i), 63)
ATOMIC("atomic_ref fetch_add of float", float, 5, ref<float>(*p).fetch_add((float)i), 5 + 2016)
ATOMIC("atomic_ref fetch_add of double", double, 5, ref<double>(*p).fetch_add((double)i), 5 + 2016)
ATOMIC("atomic_ref exchange", u64, 5, ref<u64>(*p).exchange(77), 77)
ATOMIC("atomic_ref compare_exchange_strong", int, 5, ({
           int e = 5;
           ref<int>(*p).compare_exchange_strong(e, 66);
       }),
       66)

static __global__ void ref_load_store(int *p)
{
    ref<int> cell(p[threadIdx.x]);
    int v = cell.load(memory_order_acquire);
    cell.store(v + 1, memory_order_release);
}
ROW("atomic_ref load, store", "acquire and release; loads and stores, not atomics")
{
    conf::buffer<int> p(r, 32, [](long i) { return i; });
    ref_load_store<<<1, 32>>>(p);
    p.is([](long i) { return i + 1; });
    r.loads(32, 4);
    r.stores(32, 4);
}
static __global__ void atomic_object(cuda::atomic<int, cuda::thread_scope_device> *a,
                                     cuda::std::atomic<u32> *b)
{
    a->fetch_add(2);
    (*b)++;
}
ROW("cuda::atomic, cuda::std::atomic", "objects in global memory")
{
    conf::buffer<u32> p(r, 2, [](long) { return 1; });
    atomic_object<<<2, 32>>>((cuda::atomic<int, cuda::thread_scope_device> *)p.d,
                             (cuda::std::atomic<u32> *)(p.d + 1));
    p.is([](long i) { return i ? 65 : 129; });
    r.atomics(128, 4);
}
static __global__ void handed_over(int *data, u32 *flag, int *out)
{
    ref<u32> f(*flag);
    if (blockIdx.x == 0) {
        *data = 42;
        f.store(1, memory_order_release);
    } else {
        while (f.load(memory_order_acquire) != 1)
            ;
        *out = *data;
    }
}
ROW("release and acquire between CTAs", "one CTA waits for another's flag")
{
    conf::buffer<int> data(r, 1), out(r, 1);
    conf::buffer<u32> flag(r, 1, [](long) { return 0; });
    handed_over<<<2, 1>>>(data, flag, out);
    out.is([](long) { return 42; });
    r.at_least(conf::LOAD, 2, 4);
    r.stores(3, 4);
}
CONF_MAIN
