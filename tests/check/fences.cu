// Fences that --strict requires (see faults.cu): within a CTA, and after the read that is told something.
#include <cuda/atomic>
#include "faults.h"

__global__ void untold(int *a, int right) // read after the flag, and no fence in between
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        a[0] = 5; // !untold: global-race
        __threadfence();
        atomicExch(a + 32, 1);
    } else {
        while (!atomicAdd(a + 32, 0))
            ;
        if (right)
            __threadfence();
        else
            __threadfence_block();
        a[64] = a[0];
    }
}
__global__ void told_one(int *a, int right) // the fence is another thread's than what was told
{
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            a[0] = 5; // !told_one: global-race
            __threadfence();
            atomicExch(a + 32, 1);
        }
        return;
    }
    if (threadIdx.x == 0)
        while (!atomicAdd(a + 32, 0))
            ;
    if (right)
        __threadfence();
    __syncthreads();
    __threadfence();
    a[64 + threadIdx.x] = a[0];
}
__global__ void handed_on(int *a, int right) // from CTA to thread to thread: the one in between needs a fence
{
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            a[0] = 5; // !handed_on: global-race
            __threadfence();
            atomicExch(a + 32, 1);
        }
    } else if (threadIdx.x == 0) {
        while (!atomicAdd(a + 32, 0))
            ;
        if (right)
            __threadfence();
        atomicExch_block(a + 33, 1);
    } else if (threadIdx.x == 32) {
        while (!atomicAdd_block(a + 33, 0))
            ;
        __threadfence_block();
        a[64] = a[0];
    }
}
__global__ void near_lock(int *a, int right) // given back without a fence
{
    if (threadIdx.x % 32)
        return;
    while (atomicCAS_block(a, 0, 1))
        ;
    __threadfence_block();
    a[1] = a[1] + 1; // !near_lock: global-race
    if (right)
        __threadfence_block();
    atomicExch_block(a, 0);
}
__global__ void near_flag(int *a, int right)
{
    __shared__ int data, ready;
    if (threadIdx.x == 0)
        ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        data = a[1]; // !near_flag: shared-race
        __threadfence_block();
        atomicExch_block(&ready, 1);
    } else if (threadIdx.x == 32) {
        while (!atomicAdd_block(&ready, 0))
            ;
        if (right)
            __threadfence_block();
        a[0] = data;
    }
}
__global__ void relaxed(int *a, int right) // an acquire is a fence by itself
{
    cuda::atomic_ref<int, cuda::thread_scope_block> ready(a[32]);
    if (threadIdx.x == 0) {
        a[0] = 3; // !relaxed: global-race
        ready.store(1, cuda::memory_order_release);
    } else if (threadIdx.x == 32) {
        if (right)
            while (!ready.load(cuda::memory_order_acquire))
                ;
        else
            while (!ready.load(cuda::memory_order_relaxed))
                ;
        a[64] = a[0];
    }
}

template <void (*kernel)(int *, int), int ctas> static void of_ctas(int right)
{
    Buffer<int> a(128);
    kernel<<<ctas, 64>>>(a, right);
    get(a, 512);
}

static const Fault faults[] = {
    {"untold", of_ctas<untold, 2>},       {"told_one", of_ctas<told_one, 2>},
    {"handed_on", of_ctas<handed_on, 2>}, {"near_lock", of_ctas<near_lock, 1>},
    {"near_flag", of_ctas<near_flag, 1>}, {"relaxed", of_ctas<relaxed, 1>},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
