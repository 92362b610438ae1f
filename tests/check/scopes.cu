// Races between CTAs by scopes and fences (see faults.cu): the rules of PTX's memory model.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include "faults.h"

namespace cg = cooperative_groups;

// ---- scopes: an atomic is one only for the threads of its scope ----

__global__ void tally(int *sum, int right) // all CTAs count together
{
    if (right)
        atomicAdd(sum, 1);
    else
        atomicAdd_block(sum, 1); // !tally: global-race
}
__global__ void tally_mixed(int *sum, int right) // one of them believes that it is alone
{
    if (blockIdx.x || right)
        atomicAdd(sum, 1);
    else
        atomicAdd_block(sum, 1); // !tally_mixed: global-race
}
__global__ void tally_own(int *sum, int right) // a counter of each CTA
{
    atomicAdd_block(sum + (right ? blockIdx.x : blockIdx.x / 2), 1); // !tally_own: global-race
}
__global__ void narrow_lock(int *lock, int *data,
                            int right) // the lock is taken by all, and given back to the CTA's own
{
    if (threadIdx.x)
        return;
    while (atomicCAS(lock, 0, 1))
        ;
    __threadfence();
    *data = *data + 1; // !narrow_lock: global-race
    __threadfence();
    if (right)
        atomicExch(lock, 0);
    else
        atomicExch_block(lock, 0); // !narrow_lock: global-race
}
template <cuda::thread_scope scope> __global__ void handed(int *data, int *flag, int *out)
{
    cuda::atomic_ref<int, scope> ready(*flag);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *data = 5; // !handed: global-race
        ready.store(1, cuda::memory_order_release);
    } else if (blockIdx.x == 1 && threadIdx.x == 0) {
        while (!ready.load(cuda::memory_order_acquire)) // !handed: global-race
            ;
        *out = *data;
    }
}

// ---- fences: what comes before one is what an atomic tells ----

__global__ void unfenced_lock(int *lock, int *data, int right)
{
    if (threadIdx.x)
        return;
    while (atomicCAS(lock, 0, 1))
        ;
    *data = *data + 1; // !unfenced_lock: global-race
    if (right)
        __threadfence();
    atomicExch(lock, 0);
}
__global__ void narrow_fence(int *data, volatile int *flag, int *out, int right)
{
    if (blockIdx.x == 0) {
        data[threadIdx.x] = 3; // !narrow_fence: global-race
        if (right)
            __threadfence();
        else
            __threadfence_block();
        __syncthreads();
        if (threadIdx.x == 0)
            *flag = 1;
    } else {
        if (threadIdx.x == 0)
            while (!*flag)
                ;
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];
    }
}
__global__ void fence_of_one(int *data, int *done, int *out,
                             int right) // one thread's fence covers what a barrier brought it
{
    __shared__ int last;
    data[blockIdx.x * 64 + threadIdx.x] = 1; // !fence_of_one: global-race
    if (!right && threadIdx.x == 0)
        __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        if (right)
            __threadfence();
        last = atomicAdd(done, 1) == 3;
    }
    __syncthreads();
    if (last)
        out[threadIdx.x] =
            data[threadIdx.x] + data[64 + threadIdx.x] + data[128 + threadIdx.x] + data[192 + threadIdx.x];
}
__global__ void late_store(int *data, int *flag, int *out,
                           int right) // the second store comes after the fence
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        data[0] = 1;
        if (right)
            data[1] = 2;
        __threadfence();
        if (!right)
            data[1] = 2; // !late_store: global-race
        atomicExch(flag, 1);
    } else {
        while (!atomicAdd(flag, 0))
            ;
        __threadfence();
        *out = data[0] + data[1];
    }
}
__global__ void chain(int *data, int *flags, int *out,
                      int right) // the third one knows of the first one by the second
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        *data = 7; // !chain: global-race
        __threadfence();
        atomicExch(flags, 1);
    } else if (blockIdx.x == 1) {
        while (right && !atomicAdd(flags, 0))
            ;
        __threadfence();
        atomicExch(flags + 1, 1);
    } else {
        while (!atomicAdd(flags + 1, 0))
            ;
        __threadfence();
        *out = *data;
    }
}
__global__ void waves(int *data, volatile int *flags,
                      int right) // each CTA goes on from where the one before is
{
    for (int step = 0; step < 4; step++) {
        if (threadIdx.x == 0 && blockIdx.x)
            while (flags[blockIdx.x - 1] <= step)
                ;
        __syncthreads();
        int before = blockIdx.x ? data[(blockIdx.x - 1) * 128 + step * 32 + threadIdx.x] : 1;
        data[blockIdx.x * 128 + step * 32 + threadIdx.x] = before + step; // !waves: global-race
        if (right)
            __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            flags[blockIdx.x] = step + 1;
    }
}

__global__ void looks(int *count, int *out, int) // a plain look at what others count: for --strict alone
{
    atomicAdd(count, 1);
    out[blockIdx.x * 32 + threadIdx.x] = *count;
}

// ---- barriers of the grid and of clusters ----

__global__ void grid_steps(int *a, int *b, int right)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    a[i] = i; // !grid_steps: global-race
    if (right)
        cg::this_grid().sync();
    else
        __syncthreads();
    b[i] = a[n - 1 - i];
}
__global__ void grid_again(int *a, int right) // two steps with one barrier too few
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    a[i] = i;
    cg::this_grid().sync();
    int from = a[(i + 64) % n];
    if (right)
        cg::this_grid().sync();
    a[i] = from + 1; // !grid_again: global-race
}
__global__ void __cluster_dims__(2) cluster_steps(int *a, int *b, int right)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = i; // !cluster_steps: global-race
    if (right)
        cg::this_cluster().sync();
    else
        __syncthreads();
    b[i] = a[i ^ 32];
}

static void tally(int right)
{
    Buffer<int> sum(1);
    tally<<<4, 32>>>(sum, right);
    get(sum, 4);
}
static void tally_mixed(int right)
{
    Buffer<int> sum(1);
    tally_mixed<<<4, 32>>>(sum, right);
    get(sum, 4);
}
static void tally_own(int right)
{
    Buffer<int> sums(4);
    tally_own<<<4, 32>>>(sums, right);
    get(sums, 16);
}
static void narrow_lock(int right)
{
    Buffer<int> lock(1), data(1);
    narrow_lock<<<4, 32>>>(lock, data, right);
    get(data, 4);
}
static void handed(int right)
{
    Buffer<int> data(1), flag(1), out(1);
    if (right)
        handed<cuda::thread_scope_device><<<2, 32>>>(data, flag, out);
    else
        handed<cuda::thread_scope_block><<<2, 32>>>(data, flag, out);
    get(out, 4);
}
static void unfenced_lock(int right)
{
    Buffer<int> lock(1), data(1);
    unfenced_lock<<<4, 32>>>(lock, data, right);
    get(data, 4);
}
static void narrow_fence(int right)
{
    Buffer<int> data(32), flag(1), out(32);
    narrow_fence<<<2, 32>>>(data, flag, out, right);
    get(out, 128);
}
static void fence_of_one(int right)
{
    Buffer<int> data(256), done(1), out(64);
    fence_of_one<<<4, 64>>>(data, done, out, right);
    get(out, 256);
}
static void late_store(int right)
{
    Buffer<int> data(2), flag(1), out(1);
    late_store<<<2, 32>>>(data, flag, out, right);
    get(out, 4);
}
static void chain(int right)
{
    Buffer<int> data(1), flags(2), out(1);
    chain<<<3, 32>>>(data, flags, out, right);
    get(out, 4);
}
static void waves(int right)
{
    Buffer<int> data(4 * 128), flags(4);
    waves<<<4, 32>>>(data, flags, right);
    get(data, 2048);
}
static void looks(int right)
{
    Buffer<int> count(1), out(128);
    looks<<<4, 32>>>(count, out, right);
    get(out, 512);
}
template <typename... T> static void together(void (*kernel)(T...), T... words)
{
    void *arguments[] = {&words...};
    cudaLaunchCooperativeKernel((void *)kernel, dim3(4), dim3(64), arguments, 0, nullptr);
}
static void grid_steps(int right)
{
    Buffer<int> a(256), b(256);
    together<int *, int *, int>(grid_steps, a, b, right);
    get(b, 1024);
}
static void grid_again(int right)
{
    Buffer<int> a(256);
    together<int *, int>(grid_again, a, right);
    get(a, 1024);
}
static void cluster_steps(int right)
{
    Buffer<int> a(128), b(128);
    cluster_steps<<<4, 32>>>(a, b, right);
    get(b, 512);
}

static const Fault faults[] = {
    {"tally", tally},
    {"tally_mixed", tally_mixed},
    {"tally_own", tally_own},
    {"narrow_lock", narrow_lock},
    {"handed", handed},
    {"unfenced_lock", unfenced_lock},
    {"narrow_fence", narrow_fence},
    {"fence_of_one", fence_of_one},
    {"late_store", late_store},
    {"chain", chain},
    {"waves", waves},
    {"looks", looks},
    {"grid_steps", grid_steps},
    {"grid_again", grid_again},
    {"cluster_steps", cluster_steps},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
