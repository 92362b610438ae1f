// libcu++ in device code: barriers, asynchronous copies, pipelines, atomics and semaphores.

// conformance: needs cuda/barrier
#include "conf.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
namespace cg = cooperative_groups;

#pragma nv_diag_suppress static_var_with_dynamic_init

// Threads write shared memory and read each other's after the barrier, three times.
static __global__ void phases(int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int cell[64];
    int t = (int)threadIdx.x, sum = 0;
    if (t == 0)
        init(&bar, 64);
    __syncthreads();
    for (int phase = 0; phase < 3; phase++) {
        cell[t] = t * (phase + 1);
        bar.arrive_and_wait();
        sum += cell[(t + phase + 1) % 64];
        bar.wait(bar.arrive());
    }
    out[t] = sum;
}
ROW("cuda::barrier arrive_and_wait, arrive, wait", "64 threads, six phases")
{
    conf::buffer<int> out(r, 64);
    phases<<<1, 64>>>(out);
    out.is([](long t) {
        long sum = 0;
        for (long phase = 0; phase < 3; phase++)
            sum += (t + phase + 1) % 64 * (phase + 1);
        return sum;
    });
    r.stores(64, 4);
}

// Half of the threads leave for good.
static __global__ void drops(int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int sum;
    int t = (int)threadIdx.x;
    if (t == 0) {
        init(&bar, 64);
        sum = 0;
    }
    __syncthreads();
    if (t >= 32) {
        atomicAdd_block(&sum, 1);
        bar.arrive_and_drop();
        return;
    }
    bar.arrive_and_wait(); // all 64
    int first = sum;
    bar.arrive_and_wait(); // the 32 that stayed
    out[t] = first;
}
ROW_OUT("cuda::barrier arrive_and_drop", "those that stay go on without the others", int, 32,
        (drops<<<1, 64>>>(out)), 32)

static __global__ void completion(int *out)
{
    struct add {
        int *n;
        __device__ void operator()() noexcept
        {
            *n += 1;
        }
    };
    __shared__ int n;
    __shared__ cuda::std::aligned_storage<sizeof(cuda::barrier<cuda::thread_scope_block, add>),
                                          alignof(cuda::barrier<cuda::thread_scope_block, add>)>::type room;
    auto *bar = reinterpret_cast<cuda::barrier<cuda::thread_scope_block, add> *>(&room);
    if (threadIdx.x == 0) {
        n = 0;
        new (bar) cuda::barrier<cuda::thread_scope_block, add>(32, add{&n});
    }
    __syncthreads();
    for (int i = 0; i < 5; i++)
        bar->arrive_and_wait();
    out[threadIdx.x] = n;
}
ROW_OUT("cuda::barrier with a completion function", "it runs once in each of five phases", int, 32,
        (completion<<<1, 32>>>(out)), 5)

static __global__ void copied_by_barrier(const int *in, int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ __align__(16) int cell[256];
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0)
        init(&bar, 64);
    block.sync();
    cuda::memcpy_async(block, cell, in, cuda::aligned_size_t<16>(sizeof cell), bar);
    bar.arrive_and_wait();
    for (int i = (int)threadIdx.x; i < 256; i += 64)
        out[i] = cell[255 - i];
}
ROW("cuda::memcpy_async(group, …, cuda::barrier)", "1 KiB by 64 threads")
{
    conf::buffer<int> in(r, 256, [](long i) { return i * 3 + 1; }), out(r, 256);
    copied_by_barrier<<<1, 64>>>(in, out);
    out.is([](long i) { return (255 - i) * 3 + 1; });
    r.loads(256, 4);
    r.stores(256, 4);
    r.only_bytes();
}

static __global__ void copied_by_threads(const int4 *in, int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int4 cell[64];
    int t = (int)threadIdx.x;
    if (t == 0)
        init(&bar, 64);
    __syncthreads();
    cuda::memcpy_async(&cell[t], &in[t], cuda::aligned_size_t<16>(16), bar);
    bar.arrive_and_wait();
    int4 v = cell[63 - t];
    out[t] = v.x + v.y + v.z + v.w;
}
ROW("cuda::memcpy_async(…, cuda::barrier)", "16 bytes by each of 64 threads")
{
    conf::buffer<int4> in(r, 64, [](long i) { return make_int4((int)i, 1, 2, 3); });
    conf::buffer<int> out(r, 64);
    copied_by_threads<<<1, 64>>>(in, out);
    out.is([](long i) { return 63 - i + 6; });
    r.loads(64, 16);
    r.stores(64, 4);
}

static __global__ void grouped(const int *in, int *out)
{
    __shared__ int cell[128];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, cell, in, sizeof cell);
    cg::wait(block);
    out[threadIdx.x] = cell[127 - threadIdx.x];
}
ROW("cooperative_groups::memcpy_async, wait", "512 bytes by a block")
{
    conf::buffer<int> in(r, 128, [](long i) { return i ^ 21; }), out(r, 128);
    grouped<<<1, 128>>>(in, out);
    out.is([](long i) { return (127 - i) ^ 21; });
    r.loads(128, 4);
    r.stores(128, 4);
    r.only_bytes();
}

// Two stages, four batches of 64 numbers: while one batch is added up, the next is fetched.
static __global__ void staged(const int *in, int *out)
{
    const int STAGES = 2, BATCHES = 4;
    __shared__ int cell[STAGES][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int t = (int)threadIdx.x, sum = 0;
    for (int batch = 0, fetched = 0; batch < BATCHES; batch++) {
        for (; fetched < BATCHES && fetched < batch + STAGES; fetched++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, cell[fetched % STAGES], in + fetched * 64, 64 * sizeof(int), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += cell[batch % STAGES][63 - t];
        pipe.consumer_release();
    }
    out[t] = sum;
}
ROW("cuda::pipeline of a block", "two stages, four batches")
{
    conf::buffer<int> in(r, 256, [](long i) { return i * i; }), out(r, 64);
    staged<<<1, 64>>>(in, out);
    out.is([](long t) {
        long sum = 0;
        for (long batch = 0; batch < 4; batch++)
            sum += (batch * 64 + 63 - t) * (batch * 64 + 63 - t);
        return sum;
    });
    r.loads(256, 4);
    r.stores(64, 4);
    r.only_bytes();
}

static __global__ void by_thread(const int *in, int *out)
{
    __shared__ int cell[2][32];
    auto pipe = cuda::make_pipeline();
    int t = (int)threadIdx.x;
    for (int i = 0; i < 2; i++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&cell[i][t], in + i * 32 + t, sizeof(int), pipe);
        pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    int first = cell[0][t];
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    out[t] = first * 100 + cell[1][t];
}
ROW("cuda::pipeline of a thread", "pipeline_consumer_wait_prior")
{
    conf::buffer<int> in(r, 64, [](long i) { return i; }), out(r, 32);
    by_thread<<<1, 32>>>(in, out);
    out.is([](long t) { return t * 100 + 32 + t; });
    r.loads(64, 4);
    r.stores(32, 4);
}

static __global__ void atomics(int *out)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[0]);
    sum.fetch_add(2, cuda::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_device>(out[1]).fetch_max((int)threadIdx.x);
}
ROW("cuda::atomic_ref fetch_add, fetch_max", "64 threads")
{
    conf::buffer<int> out(r, 2, [](long) { return 0; });
    atomics<<<2, 32>>>(out);
    out.is([](long i) { return i ? 31 : 128; });
    r.atomics(128, 4);
}

static __global__ void guarded(int *out)
{
    typedef cuda::binary_semaphore<cuda::thread_scope_block> semaphore;
    __shared__ cuda::std::aligned_storage<sizeof(semaphore), alignof(semaphore)>::type room;
    __shared__ int n;
    semaphore &lock = reinterpret_cast<semaphore &>(room);
    if (threadIdx.x == 0) {
        new (&room) semaphore(1);
        n = 0;
    }
    __syncthreads();
    lock.acquire();
    int seen = *(volatile int *)&n;
    *(volatile int *)&n = seen + 1;
    lock.release();
    __syncthreads();
    out[threadIdx.x] = n;
}
ROW_OUT("cuda::binary_semaphore", "64 threads add one by one", int, 64, (guarded<<<1, 64>>>(out)), 64)

static __global__ void latched(int *out)
{
    typedef cuda::latch<cuda::thread_scope_block> block_latch;
    __shared__ cuda::std::aligned_storage<sizeof(block_latch), alignof(block_latch)>::type room;
    __shared__ int cell[32];
    block_latch &latch = reinterpret_cast<block_latch &>(room);
    int t = (int)threadIdx.x;
    if (t == 0)
        new (&room) block_latch(32);
    __syncthreads();
    if (t >= 32) {
        cell[t - 32] = t;
        latch.count_down();
    } else {
        latch.wait();
        out[t] = cell[31 - t];
    }
}
ROW("cuda::latch", "one warp waits for the other")
{
    conf::buffer<int> out(r, 32);
    latched<<<1, 64>>>(out);
    out.is([](long t) { return 63 - t; });
    r.stores(32, 4);
}
CONF_MAIN
