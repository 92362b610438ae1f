/* Asynchronous copies to and from shared memory, waited for and not: each kernel that races beside one that
 * does not. How many words race in each is known (cases_copies.py). All have 64 threads; thread t reads what
 * thread t ^ 33 copied, which is one of the other warp.
 * "// name" is what the cases call the line. */
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cstdio>
#include <cuda/barrier>
#include <cuda/pipeline>
#include "../../../examples/common/example.h"
#include "mbarrier.h"

/* As macros: the line is that of the call. */
#define COPY(to, from)                                                                                       \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place(to)), "l"(from) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(left) asm volatile("cp.async.wait_group " #left ";" ::: "memory")
#define WAIT_ALL() asm volatile("cp.async.wait_all;" ::: "memory")
#define BULK(to, from, bytes, o)                                                                             \
    asm volatile(                                                                                            \
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(     \
            place(to)),                                                                                      \
        "l"(from), "r"((unsigned)(bytes)), "r"(place(o))                                                     \
        : "memory")
#define BULK_OUT(to, from, bytes)                                                                            \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(place(from)),  \
                 "r"((unsigned)(bytes))                                                                      \
                 : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT(left) asm volatile("cp.async.bulk.wait_group.read " #left ";" ::: "memory")

__device__ __forceinline__ void arrive_with_copies(object *o)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(place(o)) : "memory");
}

__device__ __forceinline__ void expect(object *o, unsigned bytes)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(place(o)),
                 "r"((unsigned)(bytes))
                 : "memory");
}

/* ---- groups ---- */

__global__ void waited(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]);
    COMMIT();
    WAIT(0);
    __syncthreads();
    out[t] = s[t ^ 33];
}

__global__ void waited_for_all(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]);
    WAIT_ALL();
    out[t] = s[t];
    __syncthreads();
    out[t] += s[t ^ 33];
}

__global__ void unwaited(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]); // copied, never waited for
    COMMIT();
    __syncthreads();
    out[t] = s[t ^ 33]; // loaded from the other warp
}

__global__ void late(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]); // copied, waited for behind the barrier
    COMMIT();
    __syncthreads();
    WAIT(0);
    out[t] = s[t];       // its own one
    out[t] += s[t ^ 33]; // loaded too early
}

__global__ void not_committed(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]); // copied, in no group
    WAIT(0);
    __syncthreads();
    out[t] = s[t ^ 33]; // loaded all the same
}

__global__ void no_barrier(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]); // copied, waited for by one
    COMMIT();
    WAIT(0);
    out[t] = s[t ^ 33]; // loaded by another
}

__global__ void own(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]);
    COMMIT();
    WAIT(0);
    out[t] = s[t];
}

__global__ void own_unwaited(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]); // copied by itself
    COMMIT();
    out[t] = s[t]; // loaded by itself
}

__global__ void second_group(const int *in, int *out)
{
    __shared__ int s[2][64];
    int t = threadIdx.x;
    COPY(&s[0][t], &in[t]);
    COMMIT();
    COPY(&s[1][t], &in[64 + t]); // copied by the second group
    COMMIT();
    WAIT(1);
    __syncthreads();
    out[t] = s[1][t ^ 33]; // loaded after the first
}

__global__ void first_group(const int *in, int *out)
{
    __shared__ int s[2][64];
    int t = threadIdx.x;
    COPY(&s[0][t], &in[t]);
    COMMIT();
    COPY(&s[1][t], &in[64 + t]);
    COMMIT();
    WAIT(1);
    __syncthreads();
    out[t] = s[0][t ^ 33];
}

/* What was waited for stays so, whatever is waited for next. */
__global__ void weaker_wait(const int *in, int *out)
{
    __shared__ int s[2][64];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        COPY(&s[i][t], &in[64 * i + t]);
        COMMIT();
    }
    WAIT(0);
    WAIT(1);
    __syncthreads();
    out[t] = s[0][t ^ 33] + s[1][t ^ 33];
}

/* Half of each warp copies; all close groups. */
__global__ void by_half(const int *in, int *out)
{
    __shared__ int s[2][64];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        if (t % 32 < 16)
            COPY(&s[i][t], &in[64 * i + t]); // copied by half a warp
        COMMIT();
    }
    WAIT(1);
    __syncthreads();
    out[t] = t % 32 < 16 ? s[0][t ^ 33] : 0;
    out[t] += t % 32 < 16 ? s[1][t ^ 33] : 0; // loaded by half a warp
}

__global__ void copied_twice(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    COPY(&s[t], &in[t]); // copied once
    COMMIT();
    COPY(&s[t], &in[64 + t]); // and once more
    COMMIT();
    WAIT(0);
    out[t] = s[t];
}

__global__ void stored_before(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t;
    out[t] = s[t];
    COPY(&s[t], &in[t]); // copied over its own
    COMMIT();
    s[t] = 1; // stored while it is copied
    WAIT(0);
    s[t] = 2;
    out[t] = s[t];
}

__global__ void reused(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        COPY(&s[t], &in[64 * i + t]); // copied while others read
        COMMIT();
        WAIT(0);
        __syncthreads();
        out[64 * i + t] = s[t ^ 33]; // read
    }
}

__global__ void reused_after_all(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        COPY(&s[t], &in[64 * i + t]);
        COMMIT();
        WAIT(0);
        __syncthreads();
        out[64 * i + t] = s[t ^ 33];
        __syncthreads();
    }
}

/* ---- pipelines ---- */

enum { ROUNDS = 6 };

__global__ void three_stages(const int *in, int *out)
{
    __shared__ int s[3][64];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        COPY(&s[i][t], &in[64 * i + t]);
        COMMIT();
    }
    for (int i = 0; i < ROUNDS; i++) {
        WAIT(1);
        __syncthreads();
        out[64 * i + t] = s[i % 3][t ^ 33];
        if (i + 2 < ROUNDS)
            COPY(&s[(i + 2) % 3][t], &in[64 * (i + 2) + t]);
        COMMIT();
    }
}

__global__ void three_stages_weak(const int *in, int *out)
{
    __shared__ int s[3][64];
    int t = threadIdx.x;
    for (int i = 0; i < ROUNDS + 2; i++) {
        if (i >= 2) {
            WAIT(2);
            __syncthreads();
            out[64 * (i - 2) + t] = s[(i - 2) % 3][t ^ 33]; // loaded a stage too early
        }
        if (i < ROUNDS)
            COPY(&s[i % 3][t], &in[64 * i + t]); // copied into a stage
        COMMIT();
    }
}

/* libcu++'s and cooperative groups' own. */
__global__ void pipeline_of_threads(const int *in, int *out)
{
    __shared__ int s[2][64];
    int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    for (int i = 0; i < ROUNDS + 1; i++) {
        if (i < ROUNDS) {
            pipe.producer_acquire();
            cuda::memcpy_async(&s[i % 2][t], &in[64 * i + t], cuda::aligned_size_t<4>(4), pipe);
            pipe.producer_commit();
        }
        if (i) {
            if (i < ROUNDS)
                cuda::pipeline_consumer_wait_prior<1>(pipe);
            else
                cuda::pipeline_consumer_wait_prior<0>(pipe);
            __syncthreads();
            out[64 * (i - 1) + t] = s[(i - 1) % 2][t ^ 33];
            __syncthreads();
            pipe.consumer_release();
        }
    }
}

__global__ void pipeline_of_block(const int *in, int *out)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int s[2][64];
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int t = threadIdx.x;
    for (int i = 0; i < ROUNDS + 1; i++) {
        if (i < ROUNDS) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[i % 2], &in[64 * i], sizeof s[0], pipe);
            pipe.producer_commit();
        }
        if (i) {
            pipe.consumer_wait();
            out[64 * (i - 1) + t] = s[(i - 1) % 2][t ^ 33];
            pipe.consumer_release();
        }
    }
}

__global__ void block_barrier(const int *in, int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ __align__(16) int s[64];
    auto block = cooperative_groups::this_thread_block();
    int t = threadIdx.x;
    if (t == 0)
        init(&b, 64);
    block.sync();
    for (int i = 0; i < 2; i++) {
        cuda::memcpy_async(block, s, &in[64 * i], cuda::aligned_size_t<16>(sizeof s), b);
        b.arrive_and_wait();
        out[64 * i + t] = s[t ^ 33];
        block.sync();
    }
}

__global__ void group_copies(const int *in, int *out)
{
    __shared__ int s[64];
    auto block = cooperative_groups::this_thread_block();
    int t = threadIdx.x;
    cooperative_groups::memcpy_async(block, s, in, sizeof s);
    cooperative_groups::wait(block);
    out[t] = s[t ^ 33];
}

/* ---- mbarriers ---- */

__global__ void arrived_with(const int *in, int *out)
{
    __shared__ object o;
    __shared__ int s[64];
    int t = threadIdx.x;
    set_up(&o, 64);
    COPY(&s[t], &in[t]);
    arrive_with_copies(&o);
    wait_for(&o, 0);
    out[t] = s[t];
    out[t] += s[t ^ 33];
}

__global__ void arrived_without(const int *in, int *out)
{
    __shared__ object o;
    __shared__ int s[64];
    int t = threadIdx.x;
    set_up(&o, 64);
    COPY(&s[t], &in[t]); // copied, and a plain arrival
    arrive(&o);
    wait_for(&o, 0);
    out[t] = s[t ^ 33]; // loaded after plain arrivals
    WAIT_ALL();
}

__global__ void arrived_before(const int *in, int *out)
{
    __shared__ object o;
    __shared__ int s[64];
    int t = threadIdx.x;
    set_up(&o, 64);
    arrive_with_copies(&o);
    COPY(&s[t], &in[t]); // copied after the arrival
    wait_for(&o, 0);
    out[t] = s[t ^ 33]; // loaded after copies of before
    WAIT_ALL();
}

__global__ void object_unwaited(const int *in, int *out)
{
    __shared__ object o;
    __shared__ int s[64];
    int t = threadIdx.x;
    set_up(&o, 64);
    COPY(&s[t], &in[t]); // copied, and no wait for the object
    arrive_with_copies(&o);
    __syncthreads();
    out[t] = s[t ^ 33]; // loaded after another barrier
}

/* ---- bulk copies ---- */

__global__ void bulk(const int *in, int *out)
{
    __shared__ __align__(16) int s[64];
    __shared__ object o;
    int t = threadIdx.x;
    set_up(&o, 1);
    for (int i = 0; i < 3; i++) {
        if (t == 0) {
            expect(&o, sizeof s);
            BULK(s, &in[64 * i], sizeof s, &o);
        }
        wait_for(&o, i % 2);
        out[64 * i + t] = s[t ^ 33];
        __syncthreads();
    }
}

__global__ void bulk_unwaited(const int *in, int *out)
{
    __shared__ __align__(16) int s[64];
    __shared__ object o;
    int t = threadIdx.x;
    set_up(&o, 1);
    if (t == 0) {
        expect(&o, sizeof s);
        BULK(s, in, sizeof s, &o); // bulk copy
    }
    __syncthreads();
    out[t] = s[t]; // loaded while it goes on
}

__global__ void bulk_other_object(const int *in, int *out)
{
    __shared__ __align__(16) int s[64];
    __shared__ object o[2];
    int t = threadIdx.x;
    set_up(&o[0], 1);
    set_up(&o[1], 1);
    if (t == 0) {
        expect(&o[0], sizeof s);
        BULK(s, in, sizeof s, &o[0]); // bulk copy for one object
        arrive(&o[1]);
    }
    wait_for(&o[1], 0);
    out[t] = s[t]; // loaded after the other
}

__global__ void bulk_reused(const int *in, int *out)
{
    __shared__ __align__(16) int s[64];
    __shared__ object o[2];
    int t = threadIdx.x;
    set_up(&o[0], 1);
    set_up(&o[1], 1);
    for (int i = 0; i < 2; i++) {
        if (t == 0) {
            expect(&o[i], sizeof s);
            BULK(s, &in[64 * i], sizeof s, &o[i]); // bulk copy while others read
        }
        wait_for(&o[i], 0);
        out[64 * i + t] = s[t]; // read in both rounds
    }
}

__global__ void out_and_waited(const int *in, int *out)
{
    __shared__ __align__(16) int s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        BULK_OUT(out, s, sizeof s);
        BULK_COMMIT();
        BULK_WAIT(0);
    }
    __syncthreads();
    s[t] = t;
}

__global__ void out_and_overwritten(const int *in, int *out)
{
    __shared__ __align__(16) int s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        BULK_OUT(out, s, sizeof s); // bulk copy out
        BULK_COMMIT();
    }
    __syncthreads();
    s[t] = t; // overwritten
}

__global__ void out_second_group(const int *in, int *out)
{
    __shared__ __align__(16) int s[2][64];
    int t = threadIdx.x;
    s[0][t] = s[1][t] = in[t];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        BULK_OUT(out, s[0], sizeof s[0]);
        BULK_COMMIT();
        BULK_OUT(out + 64, s[1], sizeof s[1]); // second bulk copy out
        BULK_COMMIT();
        BULK_WAIT(1);
    }
    __syncthreads();
    s[0][t] = t;
    s[1][t] = t; // overwritten after the first
}

int main()
{
    int *in, *out;
    CHECK(cudaMalloc(&in, 8 * 64 * sizeof *in));
    CHECK(cudaMalloc(&out, 8 * 64 * sizeof *out));
    CHECK(cudaMemset(in, 0, 8 * 64 * sizeof *in));
#define RUN(kernel) kernel<<<1, 64>>>(in, out)
    RUN(waited);
    RUN(waited_for_all);
    RUN(unwaited);
    RUN(late);
    RUN(not_committed);
    RUN(no_barrier);
    RUN(own);
    RUN(own_unwaited);
    RUN(second_group);
    RUN(first_group);
    RUN(weaker_wait);
    RUN(by_half);
    RUN(copied_twice);
    RUN(stored_before);
    RUN(reused);
    RUN(reused_after_all);
    RUN(three_stages);
    RUN(three_stages_weak);
    RUN(pipeline_of_threads);
    RUN(pipeline_of_block);
    RUN(block_barrier);
    RUN(group_copies);
    RUN(arrived_with);
    RUN(arrived_without);
    RUN(arrived_before);
    RUN(object_unwaited);
    RUN(bulk);
    RUN(bulk_unwaited);
    RUN(bulk_other_object);
    RUN(bulk_reused);
    RUN(out_and_waited);
    RUN(out_and_overwritten);
    RUN(out_second_group);
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
    return 0;
}
