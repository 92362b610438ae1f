// Cooperative groups.
#include "kernel_row.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
typedef unsigned u32;
typedef unsigned long long u64;

KERNEL_ROW("thread_block size, rank", "of a CTA of 96", 96, int, ({
               auto b = cg::this_thread_block();
               b.size() == 96 && b.num_threads() == 96 ? (int)b.thread_rank() : -1;
           }),
           i)
KERNEL_ROW("thread_block group_index, thread_index", "as blockIdx and threadIdx", 64, int, ({
               auto b = cg::this_thread_block();
               (int)(b.thread_index().x + 1000 * b.group_index().x);
           }),
           i)
static __device__ int through_block(int i, int n)
{
    __shared__ int cell[128];
    auto b = cg::this_thread_block();
    cell[i] = i * 3;
    b.sync();
    int v = cell[n - 1 - i];
    cg::sync(b);
    return v;
}
KERNEL_ROW("thread_block sync", "exchange through shared memory", 128, int, through_block(i, 128),
           (127 - i) * 3)

template <int N> static __device__ int tile_sum(int v)
{
    auto tile = cg::tiled_partition<N>(cg::this_thread_block());
    for (int d = N / 2; d; d /= 2)
        v += tile.shfl_xor(v, d);
    return v;
}
#define TILE(N)                                                                                              \
    KERNEL_ROW("tiled_partition<" #N "> shfl_xor", "sums of tiles", 64, int, tile_sum<N>(i),                 \
               i / N * N * N + N * (N - 1) / 2)                                                              \
    KERNEL_ROW("tiled_partition<" #N "> rank", "thread_rank, size, meta_group_rank", 64, int, ({             \
                   auto t = cg::tiled_partition<N>(cg::this_thread_block());                                 \
                   (int)(t.thread_rank() + 100 * t.size() + 10000 * t.meta_group_rank());                    \
               }),                                                                                           \
               i % N + 100 * N + 10000 * (i / N))                                                            \
    KERNEL_ROW("tiled_partition<" #N "> reduce", "cg::reduce with plus", 64, int, ({                         \
                   auto t = cg::tiled_partition<N>(cg::this_thread_block());                                 \
                   cg::reduce(t, i, cg::plus<int>());                                                        \
               }),                                                                                           \
               i / N * N * N + N * (N - 1) / 2)                                                              \
    KERNEL_ROW("tiled_partition<" #N "> inclusive_scan", "sums up to the own rank", 64, int, ({              \
                   auto t = cg::tiled_partition<N>(cg::this_thread_block());                                 \
                   cg::inclusive_scan(t, 2);                                                                 \
               }),                                                                                           \
               2 * (i % N + 1))
TILE(1)
TILE(2)
TILE(4)
TILE(8)
TILE(16)
TILE(32)
#define TILE32 auto t = cg::tiled_partition<32>(cg::this_thread_block())
KERNEL_ROW("tile shfl", "rank 5 to all", 64, int, ({
               TILE32;
               t.shfl(i, 5);
           }),
           i / 32 * 32 + 5)
KERNEL_ROW("tile shfl_up", "from 2 below", 64, int, ({
               TILE32;
               t.shfl_up(i, 2);
           }),
           i % 32 < 2 ? i : i - 2)
KERNEL_ROW("tile shfl_down", "from 2 above", 64, int, ({
               TILE32;
               t.shfl_down(i, 2);
           }),
           i % 32 > 29 ? i : i + 2)
struct large {
    double d[3];
};
KERNEL_ROW("tile shfl of a struct", "24 bytes", 32, double, ({
               TILE32;
               large v = {{i * 0.5, i * 1.5, i * 2.5}};
               v = t.shfl(v, 3);
               v.d[0] + v.d[1] + v.d[2];
           }),
           13.5)
KERNEL_ROW("tile any, all, ballot", "votes", 32, int, ({
               TILE32;
               t.any(i == 3) + 2 * t.all(i >= 0) + 4 * (t.ballot(i < 8) == 0xff);
           }),
           7)
KERNEL_ROW("tile match_any, match_all", "lanes of equal value", 32, u32, ({
               TILE32;
               int same;
               u32 all = t.match_all(4, same);
               t.match_any(i / 16) ^ (all == ~0u && same ? 0 : 1);
           }),
           i < 16 ? 0xffff : 0xffff0000)
KERNEL_ROW("tile ballot, 8 lanes", "bits of the tile only", 32, u32, ({
               auto t = cg::tiled_partition<8>(cg::this_thread_block());
               t.ballot(i & 1);
           }),
           0xaa)
KERNEL_ROW("reduce less, greater", "minimum and maximum", 32, int, ({
               TILE32;
               cg::reduce(t, (i * 7) % 32 - 5, cg::less<int>()) * 100 +
                   cg::reduce(t, (i * 7) % 32 - 5, cg::greater<int>());
           }),
           -500 + 26)
KERNEL_ROW("reduce bit_and, bit_or, bit_xor", "bits", 32, u32, ({
               TILE32;
               u32 v = 1u << i;
               cg::reduce(t, ~v, cg::bit_and<u32>()) ^ cg::reduce(t, v, cg::bit_or<u32>()) ^
                   cg::reduce(t, v, cg::bit_xor<u32>());
           }),
           0)
KERNEL_ROW("reduce of double", "sum of halves", 32, double, ({
               TILE32;
               cg::reduce(t, i * 0.5, cg::plus<double>());
           }),
           248)
KERNEL_ROW("exclusive_scan", "maxima of lower ranks", 32, int, ({
               TILE32;
               cg::exclusive_scan(t, i, cg::plus<int>());
           }),
           i *(i - 1) / 2)
KERNEL_ROW("inclusive_scan, maximum", "over zigzag values", 32, int, ({
               TILE32;
               cg::inclusive_scan(t, i & 1 ? 0 : i, cg::greater<int>());
           }),
           i & ~1)

// ---- groups of those who are there ----
KERNEL_ROW("coalesced_threads in a branch", "size and rank among the odd lanes", 32, int, ({
               int v = -1;
               if (i & 1) {
                   auto g = cg::coalesced_threads();
                   v = g.size() * 100 + g.thread_rank();
               }
               v;
           }),
           i & 1 ? 1600 + i / 2 : -1)
KERNEL_ROW("coalesced_threads shfl, reduce", "among lanes 0 to 9", 32, int, ({
               int v = -1;
               if (i < 10) {
                   auto g = cg::coalesced_threads();
                   v = g.shfl(i, 4) * 100 + cg::reduce(g, i, cg::plus<int>());
               }
               v;
           }),
           i < 10 ? 445 : -1)
KERNEL_ROW("binary_partition", "odd and even lanes", 32, int, ({
               TILE32;
               auto g = cg::binary_partition(t, i % 4 == 0);
               (int)(g.size() * 100 + g.thread_rank());
           }),
           i % 4 == 0 ? 800 + i / 4 : 2400 + i - i / 4 - 1)
KERNEL_ROW("labeled_partition", "four labels", 32, int, ({
               TILE32;
               auto g = cg::labeled_partition(t, i & 3);
               cg::reduce(g, i, cg::plus<int>());
           }),
           8 * (i & 3) + 4 * 28)
static __device__ int aggregated(int *counter)
{
    auto g = cg::coalesced_threads();
    int first = 0;
    if (g.thread_rank() == 0)
        first = atomicAdd(counter, (int)g.size());
    return g.shfl(first, 0) + g.thread_rank();
}
static __global__ void aggregate(int *counter, int *out)
{
    if (threadIdx.x % 3 == 0)
        out[aggregated(counter)] = threadIdx.x;
}
ROW("warp-aggregated atomics", "one atomic for the 11 lanes of a branch")
{
    conf::buffer<int> counter(r, 1, [](long) { return 0; }), out(r, 11);
    aggregate<<<1, 32>>>(counter, out);
    counter.is([](long) { return 11; });
    out.is([](long i) { return 3 * i; });
    r.atomics(1, 4);
    r.stores(11, 4);
}
KERNEL_ROW("invoke_one", "one thread runs it", 32, int, ({
               __shared__ int n;
               n = 0;
               __syncwarp();
               TILE32;
               cg::invoke_one(t, [&] { atomicAdd(&n, 5); });
               t.sync();
               n;
           }),
           5)

// ---- grids ----
static __global__ void grid_steps(int *a, int *b, int steps)
{
    auto grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    for (int s = 0; s < steps; s++) {
        b[i] = a[(i + 1) % n] + 1;
        grid.sync();
        int *t = a;
        a = b;
        b = t;
    }
}
ROW("grid.sync", "4 CTAs shift an array five times; the barrier's own accesses are the library's")
{
    conf::buffer<int> a(r, 256, [](long i) { return i; }), b(r, 256);
    int steps = 5, *pa = a, *pb = b;
    void *args[] = {&pa, &pb, &steps};
    CONF_CALL(r, cudaLaunchCooperativeKernel((void *)grid_steps, dim3(4), dim3(64), args, 0, 0));
    b.is([](long i) { return (i + 5) % 256 + 5; });
    r.at_least(conf::LOAD, 5 * 256, 4);
    r.stores(5 * 256, 4);
    r.at_least(conf::ATOMIC, 0, 4);
}
static __global__ void grid_ranks(int *out)
{
    auto grid = cg::this_grid();
    out[grid.thread_rank()] = grid.is_valid() + 10 * grid.num_blocks() + 1000 * grid.block_rank();
}
ROW("this_grid", "is_valid, num_blocks, block_rank")
{
    conf::buffer<int> out(r, 96);
    int *p = out;
    void *args[] = {&p};
    CONF_CALL(r, cudaLaunchCooperativeKernel((void *)grid_ranks, dim3(3), dim3(32), args, 0, 0));
    out.is([](long i) { return 1 + 30 + 1000 * (i / 32); });
    r.stores(96, 4);
}
static __global__ void copy_async(const int *in, int *out)
{
    __shared__ int cell[64];
    auto b = cg::this_thread_block();
    cg::memcpy_async(b, cell, in, sizeof cell);
    cg::wait(b);
    out[threadIdx.x] = cell[63 - threadIdx.x];
}
ROW("cg::memcpy_async", "256 bytes to shared memory by all threads of the CTA")
{
    conf::buffer<int> in(r, 64, [](long i) { return i * 7; }), out(r, 64);
    copy_async<<<1, 64>>>(in, out);
    out.is([](long i) { return (63 - i) * 7; });
    r.loads(64, 4);
    r.stores(64, 4);
    r.only_bytes();
}
CONF_MAIN
