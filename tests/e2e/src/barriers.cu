/* What barriers order and what they do not: mbarriers and their phases, parts of warps. How many words race
 * in each kernel is known (cases_barriers.py).
 * "// name" is what the cases call the line. */
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda/barrier>
#include "../../../examples/common/example.h"
#include "mbarrier.h"

__device__ __forceinline__ bool is_over(object *o, unsigned parity)
{
    unsigned over;
    asm volatile(
        "{ .reg .pred over; mbarrier.test_wait.parity.shared.b64 over, [%1], %2; selp.b32 %0, 1, 0, over; }"
        : "=r"(over)
        : "r"(place(o)), "r"(parity)
        : "memory");
    return over;
}

/* ---- objects ---- */

__global__ void same_object(int *out)
{
    __shared__ object o;
    __shared__ int s[32];
    int t = threadIdx.x;
    set_up(&o, 32);
    if (t < 32) {
        s[t] = t;
        arrive(&o);
    } else {
        wait_for(&o, 0);
        out[t] = s[t - 32];
    }
}

/* Warp 0 arrives at one, warp 1 waits for the other, at which warp 2 arrives. */
__global__ void other_object(int *out)
{
    __shared__ object o[2];
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 2)
        begin(&o[t], 32);
    __syncthreads();
    if (t < 32) {
        s[t] = t; // stored for one
        arrive(&o[0]);
    } else if (t < 64) {
        wait_for(&o[1], 0);
        out[t] = s[t - 32]; // loaded after the other
    } else {
        arrive(&o[1]);
    }
}

/* What comes before an arrival in the next phase is not over yet. */
__global__ void next_phase(int *out)
{
    __shared__ object o;
    __shared__ int first[32], second[32];
    int t = threadIdx.x;
    set_up(&o, 64);
    if (t < 32) {
        first[t] = t;
        arrive(&o);
        wait_for(&o, 0);
        second[t] = t; // stored in the next phase
        arrive(&o);
    } else {
        arrive(&o);
        wait_for(&o, 0);
        out[t] = first[t - 32];
        out[t + 64] = second[t - 32]; // loaded in this one
        arrive(&o);
    }
}

__global__ void not_over(int *out)
{
    __shared__ object o;
    __shared__ int s[32];
    int t = threadIdx.x;
    set_up(&o, 33);
    if (t < 32) {
        s[t] = t; // stored, and not waited for
        arrive(&o);
    } else {
        out[t] = is_over(&o, 0);
        out[t + 32] = s[t - 32]; // loaded all the same
    }
}

__global__ void polled(int *out)
{
    __shared__ object o;
    __shared__ int s[32];
    int t = threadIdx.x;
    set_up(&o, 32);
    if (t < 32) {
        s[t] = t;
        arrive(&o);
    } else {
        while (!is_over(&o, 0))
            ;
        out[t] = s[t - 32];
    }
}

__global__ void set_up_again(int *out)
{
    __shared__ object o;
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        set_up(&o, 32);
        if (t < 32) {
            s[32 * i + t] = t;
            arrive(&o);
        } else {
            wait_for(&o, 0);
            out[t] = s[32 * i + t - 32];
        }
        __syncthreads();
        if (t == 0)
            asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(place(&o)) : "memory");
    }
}

/* The producer does not ask whether what it overwrites has been read. */
__global__ void in_a_hurry(int *out)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full;
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t == 0)
        init(&full, 128);
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 2; i++) {
        if (t < 64) {
            s[t] = t + i; // overwritten early
            full.arrive_and_wait();
        } else {
            full.arrive_and_wait();
            out[t] = s[127 - t]; // read late
        }
    }
}

/* ---- parts of warps ---- */

/* One lane arrives for its warp, which has not met. */
__global__ void elected(int *out)
{
    __shared__ object o;
    __shared__ int s[32];
    int t = threadIdx.x;
    set_up(&o, 1);
    if (t < 32) {
        s[t] = t; // stored by all lanes
        if (t == 0)
            arrive(&o);
    } else {
        wait_for(&o, 0);
        out[t] = s[t - 32]; // loaded after one arrived
    }
}

__global__ void elected_after_all(int *out)
{
    __shared__ object o;
    __shared__ int s[32];
    int t = threadIdx.x;
    set_up(&o, 1);
    if (t < 32) {
        s[t] = t;
        __syncwarp();
        if (t == 0)
            arrive(&o);
    } else {
        wait_for(&o, 0);
        out[t] = s[t - 32];
    }
}

/* One lane waits for its warp. */
__global__ void waited_by_one(int *out)
{
    __shared__ object o;
    __shared__ int s[32];
    int t = threadIdx.x;
    set_up(&o, 32);
    if (t < 32) {
        s[t] = t; // stored for one lane
        arrive(&o);
    } else {
        if (t == 32)
            wait_for(&o, 0);
        out[t] = s[t - 32]; // loaded by those who have not waited
    }
}

/* Those who wait stand before those who arrive, in one warp. */
__global__ void within_a_warp(int *out)
{
    __shared__ object o;
    __shared__ int s[16];
    int t = threadIdx.x;
    if (t == 0)
        begin(&o, 16);
    __syncwarp();
    if (t >= 16) {
        wait_for(&o, 0);
        out[t] = s[t - 16];
    } else {
        s[t] = t;
        arrive(&o);
    }
}

/* Half a warp returns, and takes part in nothing. */
__global__ void gone(int *out)
{
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32)
        s[t] = t; // stored by half a warp that leaves
    if (t >= 16 && t < 32)
        return;
    __syncthreads();
    if (t >= 32)
        out[t] = s[t - 32]; // loaded after they left
}

__global__ void half_a_warp(int *out)
{
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = t; // stored by a warp
    if (t < 16) {
        __syncwarp(0xffff);
        out[t] = s[t ^ 1];
        out[t + 32] = s[t + 16]; // loaded from the other half
    }
}

/* The lanes of a warp come to its barrier in two parts. */
__global__ void two_parts(int *out)
{
    __shared__ int s[16];
    int t = threadIdx.x;
    if (t >= 16) {
        asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
        out[t] = s[t - 16];
    } else {
        s[t] = t;
        asm volatile("// another one\n\tbar.warp.sync 0xffffffff;" ::: "memory");
    }
}

/* Warps 0 and 1 meet, warps 2 and 3 meet elsewhere. */
__global__ void pairs(int *out)
{
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = t; // stored by pairs
    if (t < 64)
        asm volatile("barrier.sync 1, 64;" ::: "memory");
    else
        asm volatile("barrier.sync 2, 64;" ::: "memory");
    out[t] = s[t ^ 32];
    if (t < 64)
        out[t + 128] = s[t + 64]; // loaded from the other pair
}

/* Tiles of two warps meet at a word of shared memory. */
__global__ void tile_of_two(int *out, int early)
{
    namespace cg = cooperative_groups;
    __shared__ cg::block_tile_memory<128> memory;
    __shared__ int s[128];
    auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        s[t] = t;
        tile.sync();
        out[t] = s[t ^ 63];
        tile.sync();
    }
    if (early) {
        *(volatile int *)&s[t] = 1;           // stored by the tile
        out[t] = *(volatile int *)&s[t ^ 63]; // loaded before it met
    }
}

/* Warp 2 waits for warp 1, which counted after warp 0 did. */
__global__ void counted_by_two(int *out)
{
    __shared__ int count;
    int t = threadIdx.x;
    if (t == 0)
        count = 0;
    __syncthreads();
    if (t == 0)
        atomicAdd(&count, 1); // counted by warp 0
    if (t == 32)
        atomicAdd(&count, 1); // counted by warp 1
    if (t >= 32)
        asm volatile("barrier.sync 1, 64;" ::: "memory");
    if (t == 64)
        out[0] = count; // loaded after warp 1
}

/* Lanes 0 and 1 store in one instruction; lane 2 waits for lane 1. */
__global__ void stored_by_two(int *out)
{
    __shared__ int word;
    int t = threadIdx.x;
    if (t < 2)
        *(volatile int *)&word = 7; // stored by two lanes
    if (t == 1 || t == 2)
        __syncwarp(6);
    if (t == 2)
        out[0] = *(volatile int *)&word; // loaded after lane 1
}

/* Programs by chance: steps of an operation and its argument for each thread (cases_barriers.py). */
__global__ void interpret(const int *steps, int n, int *out)
{
    __shared__ int words[4];
    volatile int *word = words;
    volatile char *byte = (volatile char *)words;
    int sum = 0, all = blockDim.x;
    for (int i = 0; i < n; i++) {
        int what = steps[2 * i * all + threadIdx.x], x = steps[(2 * i + 1) * all + threadIdx.x];
        if (what == 1)
            sum += word[x];
        if (what == 2)
            word[x] = i;
        if (what == 3)
            atomicAdd(&words[x], 1);
        if (what == 4)
            sum += byte[x];
        if (what == 5)
            byte[x] = (char)i;
        if (what == 6)
            __syncthreads();
        if (what == 7)
            __syncwarp(x);
        if (what == 8)
            asm volatile("bar.sync %0, %1;" ::"r"(i + 1), "r"(x) : "memory");
        if (what == 9)
            asm volatile("bar.arrive %0, %1;" ::"r"(i + 1), "r"(x) : "memory");
        if (what == 10)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place(&words[x])), "l"(steps)
                         : "memory");
        if (what == 11)
            asm volatile("cp.async.commit_group;" ::: "memory");
        if (what == 12 && x == 0)
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        if (what == 12 && x == 1)
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        if (what == 13)
            asm volatile("cp.async.wait_all;" ::: "memory");
    }
    out[threadIdx.x] = sum;
}

/* The file has threads, steps and their numbers, for each launch. */
static int run_file(const char *path, int *steps, int *out)
{
    int threads, n;
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%d %d", &threads, &n) == 2) {
        for (int i = 0; i < 2 * n * threads; i++)
            if (fscanf(f, "%d", &steps[i]) != 1)
                return 1;
        interpret<<<1, threads>>>(steps, n, out);
        CHECK(cudaDeviceSynchronize());
    }
    return !f || fclose(f) != 0;
}

int main(int argc, char **argv)
{
    char *out;
    CHECK(cudaMalloc(&out, 1 << 16));
    CHECK(cudaMemset(out, 0, 1 << 16));
    int *ints = (int *)out, *steps;
    if (argc > 1) {
        CHECK(cudaMallocManaged(&steps, 1 << 16));
        return run_file(argv[1], steps, ints);
    }
    same_object<<<2, 64>>>(ints);
    other_object<<<2, 96>>>(ints);
    next_phase<<<2, 64>>>(ints);
    not_over<<<1, 64>>>(ints);
    polled<<<1, 64>>>(ints);
    set_up_again<<<1, 64>>>(ints);
    in_a_hurry<<<1, 128>>>(ints);
    elected<<<1, 64>>>(ints);
    elected_after_all<<<1, 64>>>(ints);
    waited_by_one<<<1, 64>>>(ints);
    within_a_warp<<<1, 32>>>(ints);
    gone<<<1, 64>>>(ints);
    half_a_warp<<<1, 32>>>(ints);
    two_parts<<<1, 32>>>(ints);
    pairs<<<1, 128>>>(ints);
    tile_of_two<<<2, 128>>>(ints, 0);
    tile_of_two<<<2, 128>>>(ints, 1);
    counted_by_two<<<1, 96>>>(ints);
    stored_by_two<<<1, 32>>>(ints);
    CHECK(cudaDeviceSynchronize());
    puts("done");
    return 0;
}
