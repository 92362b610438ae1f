// Kernels whose warps wait for others: barriers of the grid, of clusters and of some warps, mbarriers, locks,
// flags of other CTAs, sleep. Results are known beforehand.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cstdio>
#include <cstdlib>
namespace cg = cooperative_groups;

#define CLUSTER 4
#define ROUNDS 3

// Each thread takes its neighbour's number and adds one, five times.
__global__ void grid_turns(int *a, int n)
{
    auto grid = cg::this_grid();
    for (int r = 0; r < 5; r++) {
        int i = grid.thread_rank(), next = a[(i + 1) % n];
        grid.sync();
        a[i] = next + 1;
        grid.sync();
    }
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) cluster_mirror(int *o)
{
    __shared__ int own[64];
    auto cluster = cg::this_cluster();
    int n = blockDim.x, t = threadIdx.x, rank = cluster.block_rank();
    own[t] = rank * 100 + t;
    cluster.sync();
    const int *other = cluster.map_shared_rank(own, (rank + 1) % CLUSTER);
    o[blockIdx.x * n + t] = other[n - 1 - t];
    cluster.sync();
}

__device__ void add_one(int *sum)
{
    *(volatile int *)sum += 1;
    __threadfence();
}

__global__ void lock_of_one(int *lock, int *sum)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1))
            ;
        add_one(sum);
        atomicExch(lock, 0);
    }
}

__device__ void lock_by_flag(int *lock, int *sum)
{
    bool done = false;
    while (!done)
        if (atomicCAS(lock, 0, 1) == 0) {
            add_one(sum);
            atomicExch(lock, 0);
            done = true;
        }
}

// Lanes of a warp want the same lock.
__global__ void lock_of_all(int *lock, int *sum)
{
    lock_by_flag(lock, sum);
}

// Odd lanes leave their loop by a flag that the exchange has set, even ones by what it has read.
__global__ void lock_two_ways(int *lock, int *sum)
{
    if (threadIdx.x & 1) {
        lock_by_flag(lock, sum);
    } else {
        while (atomicCAS(lock, 0, 1))
            ;
        add_one(sum);
        atomicExch(lock, 0);
    }
}

__global__ void lock_behind(int *lock, int *sum)
{
    while (atomicCAS(lock, 0, 1))
        ;
    if (threadIdx.x % 3)
        add_one(sum);
    __threadfence();
    atomicExch(lock, 0);
}

// In the order of threads: who has its turn gives it to the next one, of the same warp.
__global__ void in_turn(volatile int *turn, int *o)
{
    int t = threadIdx.x;
    while (*turn != t)
        ;
    o[t] = t ? o[t - 1] + t : 0;
    __threadfence();
    *turn = t + 1;
}

// Each waits for the thread before it, by a flag of its own.
__global__ void own_flags(volatile int *flag, int *o)
{
    int t = threadIdx.x;
    if (t > 0)
        while (!flag[t - 1])
            ;
    o[t] = t ? o[t - 1] + 1 : 0;
    __threadfence();
    flag[t] = 1;
}

// … for some threads before it: it looks at all of them each time,
__global__ void own_lists(volatile int *flag, int *o)
{
    int t = threadIdx.x, all = 0;
    while (!all) {
        all = 1;
        for (int k = 1; k <= t % 4; k++)
            all &= flag[t - k];
    }
    o[t] = t % 4 ? o[t - 1] + 1 : 0;
    __threadfence();
    flag[t] = 1;
}

// … or goes on to the next one when one is there.
__global__ void own_steps(volatile int *flag, int *o)
{
    int t = threadIdx.x, k = 1, sum = 0;
    while (k <= t % 4)
        if (flag[t - k])
            sum += o[t - k++] + 1;
    o[t] = sum;
    __threadfence();
    flag[t] = 1;
}

// The same without a branch.
__global__ void own_counts(volatile int *flag, int *o)
{
    int t = threadIdx.x, k = 1;
    while (k <= t % 4)
        k += flag[t - k];
    o[t] = k;
    __threadfence();
    flag[t] = 1;
}

// Who gives up after a long time.
__global__ void own_limits(volatile int *flag, int *o)
{
    int t = threadIdx.x;
    for (int n = 0; t > 0 && n < 1 << 30 && !flag[t - 1]; n++)
        ;
    o[t] = t ? flag[t - 1] * (o[t - 1] + 1) : 0;
    __threadfence();
    flag[t] = 1;
}

// One waits for another one, which went another way and comes to it behind the place where all meet.
__global__ void later(volatile int *flag, int *o)
{
    int t = threadIdx.x;
    if (t == 0)
        while (!flag[0])
            ;
    o[t] = t;
    if (t == 1)
        flag[0] = 1;
}

// Whoever finds one of few locks open takes it, and gives it back.
__global__ void lock_of_some(int *lock, int *sum)
{
    int i = threadIdx.x % 4;
    while (atomicCAS(&lock[i], 0, 1))
        i = (i + 1) % 4;
    add_one(&sum[i]);
    atomicExch(&lock[i], 0);
}

// Nobody waits here: each round looks at the next place of a table.
__global__ void table(int *keys, int *values)
{
    int key = threadIdx.x + 1, s = key * 7 % 256;
    for (int was; (was = atomicCAS(&keys[s], 0, key)) != 0 && was != key; s = (s + 1) % 256)
        ;
    values[s] = key;
}

__device__ int root(volatile int *parent, int i)
{
    for (int up; (up = parent[i]) != i; i = up)
        ;
    return i;
}

// Nor here: who finds that its root has got a parent goes on from there.
__global__ void unite(int *parent)
{
    int a = root(parent, threadIdx.x), b = root(parent, threadIdx.x + 1), was;
    while (a != b) {
        int high = a > b ? a : b, low = a + b - high;
        if ((was = atomicCAS(&parent[high], high, low)) == high)
            break;
        a = was;
        b = low;
    }
}

__global__ void roots(int *parent, int *o)
{
    o[threadIdx.x] = root(parent, threadIdx.x);
}

__global__ void mbarriers(int *o)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier b;
    __shared__ int s[128];
    int t = threadIdx.x, n = blockDim.x;
    if (t == 0)
        init(&b, n);
    __syncthreads();
    for (int r = 0; r < ROUNDS; r++) {
        s[t] = t + r;
        b.arrive_and_wait();
        o[blockIdx.x * n + t] += s[(t + 33) % n];
        b.arrive_and_wait();
    }
}

// One warp makes, one uses: bar.arrive does not wait.
__global__ void named_barriers(int *o)
{
    __shared__ int s[32];
    int t = threadIdx.x % 32;
    for (int r = 0; r < ROUNDS; r++)
        if (threadIdx.x < 32) {
            s[t] = r * 10 + t;
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            o[t] += s[t];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
}

// Each CTA waits for the one before.
__global__ void flags(volatile int *flag, int *o)
{
    int b = blockIdx.x, t = threadIdx.x;
    if (b > 0)
        while (flag[b - 1] == 0)
            ;
    o[b * blockDim.x + t] = b ? o[(b - 1) * blockDim.x + t] + 1 : 0;
    __threadfence();
    __syncthreads();
    if (t == 0)
        flag[b] = 1;
}

__global__ void sleepers(int *o)
{
    int t = threadIdx.x;
    if (t & 1)
        __nanosleep(100 * t);
    o[t] = t;
    if (t % 5 == 2)
        asm volatile("exit;");
    o[t] += 5;
}

// Lanes of a warp that name different members meet with those alone.
__global__ void members(int *o)
{
    int t = threadIdx.x, n = blockDim.x, all;
    unsigned own = t % 32 < 11 ? 0x7ff : ~0x7ffu;
    o[t] = __reduce_add_sync(own, t);
    o[n + t] = __reduce_max_sync(own, t ^ 5);
    __match_all_sync(own, t % 32 < 11 ? 7 : t, &all);
    o[2 * n + t] = all;
}

static int *a, wrong;
#define N 4096

static void waits_begin(int first)
{
    for (int i = 0; i < N; i++)
        a[i] = first * i;
}

template <typename F> static void waits_check(const char *what, int n, F want)
{
    cudaError_t e = cudaDeviceSynchronize();
    int bad = e != cudaSuccess;
    for (int i = 0; i < n; i++)
        bad += a[i] != want(i);
    printf("%s: %s, %d wrong\n", what, cudaGetErrorString(e), bad);
    wrong |= bad;
}

static void waits_grids(dim3 block)
{
    int n = 6 * block.x * block.y;
    void *args[] = {&a, &n};
    waits_begin(1);
    cudaLaunchCooperativeKernel((void *)grid_turns, dim3(6), block, args);
    waits_check("grid_turns", n, [=](int i) { return (i + 5) % n + 5; });
}

static void waits_flags(int n)
{
    int *flag = a + N / 2;
    waits_begin(0);
    own_flags<<<1, n>>>(flag, a);
    waits_check("own_flags", n, [](int i) { return i; });
    waits_begin(0);
    own_lists<<<1, n>>>(flag, a);
    waits_check("own_lists", n, [](int i) { return i % 4; });
    waits_begin(0);
    own_steps<<<1, n>>>(flag, a);
    waits_check("own_steps", n, [](int i) { return (1 << i % 4) - 1; });
    waits_begin(0);
    own_counts<<<1, n>>>(flag, a);
    waits_check("own_counts", n, [](int i) { return i % 4 + 1; });
    waits_begin(0);
    own_limits<<<1, n>>>(flag, a);
    waits_check("own_limits", n, [](int i) { return i; });
    waits_begin(0);
    later<<<1, n>>>(flag, a);
    waits_check("later", n, [](int i) { return i; });
    waits_begin(0);
    lock_of_some<<<20, n>>>(flag, a + 1);
    cudaDeviceSynchronize();
    a[0] = a[1] + a[2] + a[3] + a[4];
    waits_check("lock_of_some", 1, [=](int) { return 20 * n; });
}

static void waits_chases(int n)
{
    int *values = a + N / 2, there = 0;
    waits_begin(0);
    table<<<1, n>>>(a, values);
    cudaDeviceSynchronize();
    for (int i = 0; i < 256; i++)
        there += a[i] != 0;
    waits_check("table", 256, [=](int i) { return there == n ? values[i] : -1; });
    waits_begin(1);
    for (int i = 0; i <= n; i++)
        values[i] = i;
    unite<<<1, n>>>(values);
    roots<<<1, n + 1>>>(values, a);
    waits_check("unite", n + 1, [](int) { return 0; });
}

int main()
{
    cudaMallocManaged(&a, N * sizeof *a);
    for (dim3 block : {dim3(64), dim3(48), dim3(33), dim3(8, 6), dim3(16, 4)})
        waits_grids(block);
    for (int n : {64, 50, 7}) {
        cluster_mirror<<<2 * CLUSTER, n>>>(a);
        waits_check("cluster_mirror", 2 * CLUSTER * n,
                    [=](int i) { return (i / n + 1) % CLUSTER * 100 + n - 1 - i % n; });
    }
    for (int n : {128, 40}) {
        waits_begin(0);
        lock_of_one<<<20, n>>>(a + 1, a);
        waits_check("lock_of_one", 1, [](int) { return 20; });
        waits_begin(0);
        lock_of_all<<<20, n>>>(a + 1, a);
        waits_check("lock_of_all", 1, [=](int) { return 20 * n; });
        waits_begin(0);
        lock_behind<<<20, n>>>(a + 1, a);
        waits_check("lock_behind", 1, [=](int) { return 20 * (n - (n + 2) / 3); });
        waits_begin(0);
        lock_two_ways<<<20, n>>>(a + 1, a);
        waits_check("lock_two_ways", 1, [=](int) { return 20 * n; });
        waits_begin(0);
        in_turn<<<1, n>>>(a + N - 1, a);
        waits_check("in_turn", n, [](int i) { return i * (i + 1) / 2; });
        waits_flags(n);
        waits_chases(n);
        waits_begin(0);
        mbarriers<<<2, n>>>(a);
        waits_check("mbarriers", 2 * n,
                    [=](int i) { return ROUNDS * ((i % n + 33) % n) + ROUNDS * (ROUNDS - 1) / 2; });
        sleepers<<<1, n>>>(a);
        waits_check("sleepers", n, [](int i) { return i + 5 * (i % 5 != 2); });
    }
    waits_begin(0);
    named_barriers<<<1, 64>>>(a);
    waits_check("named_barriers", 32, [](int i) { return ROUNDS * i + 10 * ROUNDS * (ROUNDS - 1) / 2; });
    waits_begin(0);
    flags<<<40, 32>>>(a + N - 100, a);
    waits_check("flags", 40 * 32, [](int i) { return i / 32; });
    waits_begin(0);
    members<<<1, 64>>>(a);
    waits_check("members", 192, [](int i) {
        int t = i % 64, first = t / 32 * 32, few = t % 32 < 11;
        int sum = few ? 55 + 11 * first : 441 + 21 * first;
        return i < 64 ? sum : i < 128 ? first + (few ? 15 : 31) : few;
    });
    puts(wrong ? "wrong" : "all right");
    return wrong != 0;
}
