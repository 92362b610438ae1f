// Operations of a warp: votes, shuffles, matches, reductions, masks; whole warps, parts, diverged ones.

// conformance: levels -O1 -O0
#include "kernel_row.h"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef unsigned u32;
typedef long long s64;
typedef unsigned long long u64;
constexpr u32 ALL = 0xffffffff;

// ---- votes ----
KERNEL_ROW("__all_sync", "true in warp 1 only", 64, int, __all_sync(ALL, i >= 31) != 0, i >= 32)
KERNEL_ROW("__any_sync", "true in warp 0 only", 64, int, __any_sync(ALL, i == 5) != 0, i < 32)
KERNEL_ROW("__uni_sync", "equal in warp 1 only", 64, int, __uni_sync(ALL, i == 5) != 0, i >= 32)
KERNEL_ROW("__ballot_sync", "bits of odd lanes", 64, u32, __ballot_sync(ALL, i & 1), 0xaaaaaaaa)
KERNEL_ROW("__ballot_sync, part of a warp", "lanes 0 to 9 of 10 threads", 10, u32,
           __ballot_sync(0x3ff, i < 4), 0xf)
KERNEL_ROW("__ballot_sync, two masks", "even and odd lanes vote apart, in two branches", 32, u32,
           i & 1 ? __ballot_sync(0xaaaaaaaa, i < 16) : __ballot_sync(0x55555555, i >= 16),
           i & 1 ? 0xaaaa : 0x55550000)
KERNEL_ROW("__activemask, no branch", "all lanes", 32, u32, __activemask(), ALL)
KERNEL_ROW("__activemask, half a warp", "lanes that exist", 16, u32, __activemask(), 0xffff)

// ---- shuffles ----
KERNEL_ROW("__shfl_sync of int", "lane 3 to all", 64, int, __shfl_sync(ALL, i * 7, 3), (i & 32 | 3) * 7)
KERNEL_ROW("__shfl_sync, width 8", "lane 2 of each group of 8; source beyond the width wraps", 32, int,
           __shfl_sync(ALL, i * 7, 10, 8), (i / 8 * 8 + 2) * 7)
KERNEL_ROW("__shfl_sync, varying source", "reverses a warp", 32, int, __shfl_sync(ALL, i * 7, 31 - i),
           (31 - i) * 7)
KERNEL_ROW("__shfl_up_sync of u32", "from 3 lanes below; the lowest keep theirs", 32, u32,
           __shfl_up_sync(ALL, i * 7u, 3), (i < 3 ? i : i - 3) * 7)
KERNEL_ROW("__shfl_up_sync, width 4", "within groups of 4", 32, int, __shfl_up_sync(ALL, i, 1, 4),
           i & 3 ? i - 1 : i)
KERNEL_ROW("__shfl_down_sync of long long", "from 5 lanes above; the highest keep theirs", 32, s64,
           __shfl_down_sync(ALL, i * 0x100000007ll, 5), (i < 27 ? i + 5 : i) * 0x100000007ll)
KERNEL_ROW("__shfl_down_sync, width 16", "within groups of 16", 32, int, __shfl_down_sync(ALL, i, 4, 16),
           (i & 15) < 12 ? i + 4 : i)
KERNEL_ROW("__shfl_xor_sync of float", "butterfly over 16", 32, float, __shfl_xor_sync(ALL, i * 0.5f, 16),
           (i ^ 16) * 0.5f)
KERNEL_ROW("__shfl_xor_sync of double", "neighbours", 32, double, __shfl_xor_sync(ALL, i * 0.1, 1),
           (i ^ 1) * 0.1)
KERNEL_ROW("__shfl_xor_sync, width 2", "a mask beyond the width leaves the value of a higher group", 32, int,
           __shfl_xor_sync(ALL, i, 1, 2), i ^ 1)
KERNEL_ROW("__shfl_sync of u64", "lane 31 to all", 32, u64, __shfl_sync(ALL, 0xf000000000000000ull + i, 31),
           0xf00000000000001full)
KERNEL_ROW("__shfl_sync of half", "lane 4 to all", 32, float,
           __half2float(__shfl_sync(ALL, __float2half(i * 0.25f), 4)), 1)
KERNEL_ROW("__shfl_down_sync of half2", "both halves, from the next lane", 32, float,
           __high2float(__shfl_down_sync(ALL, __floats2half2_rn(1, i), 1)), i == 31 ? 31 : i + 1)
KERNEL_ROW("__shfl_xor_sync of bfloat16", "neighbours", 32, float,
           __bfloat162float(__shfl_xor_sync(ALL, __float2bfloat16(i), 1)), i ^ 1)
KERNEL_ROW("__shfl_sync, half of the lanes", "odd lanes among themselves", 32, int,
           i & 1 ? __shfl_sync(0xaaaaaaaa, i, 5) : -1, i & 1 ? 5 : -1)
static __device__ int warp_sum(int v)
{
    for (int d = 16; d; d /= 2)
        v += __shfl_down_sync(ALL, v, d);
    return v;
}
KERNEL_ROW("sum by __shfl_down_sync", "lane 0 of each of 4 warps has its sum", 128, int, ({
               int s = warp_sum(i);
               lane ? 0 : s;
           }),
           lane ? 0 : 496 + i * 32)

// ---- matches ----
KERNEL_ROW("__match_any_sync of u32", "lanes with the same i / 4", 32, u32, __match_any_sync(ALL, i / 4),
           0xfu << i / 4 * 4)
KERNEL_ROW("__match_any_sync of u64", "lanes with the same parity", 32, u32,
           __match_any_sync(ALL, (i & 1) + (1ull << 40)), i & 1 ? 0xaaaaaaaa : 0x55555555)
KERNEL_ROW("__match_all_sync, equal", "the mask, predicate true", 32, u32, ({
               int p;
               u32 m = __match_all_sync(ALL, 7, &p);
               m ^ (u32)(p != 0);
           }),
           ALL ^ 1)
KERNEL_ROW("__match_all_sync, unequal", "0, predicate false", 32, u32, ({
               int p;
               u32 m = __match_all_sync(ALL, i == 9, &p);
               m ^ (u32)(p != 0);
           }),
           0)

// ---- reductions ----
KERNEL_ROW("__reduce_add_sync of u32", "sum of 0 to 31", 32, u32, __reduce_add_sync(ALL, (u32)i), 496)
KERNEL_ROW("__reduce_add_sync of int", "negative sum", 32, int, __reduce_add_sync(ALL, -i), -496)
KERNEL_ROW("__reduce_min_sync of int", "signed", 32, int, __reduce_min_sync(ALL, i - 16), -16)
KERNEL_ROW("__reduce_min_sync of u32", "unsigned", 32, u32, __reduce_min_sync(ALL, (u32)(i - 16)), 0)
KERNEL_ROW("__reduce_max_sync of int", "signed", 32, int, __reduce_max_sync(ALL, i - 16), 15)
KERNEL_ROW("__reduce_max_sync of u32", "unsigned", 32, u32, __reduce_max_sync(ALL, (u32)(i - 16)), ALL)
KERNEL_ROW("__reduce_and_sync", "bits that all have", 32, u32, __reduce_and_sync(ALL, 0xff00u | i), 0xff00)
KERNEL_ROW("__reduce_or_sync", "bits that one has", 32, u32, __reduce_or_sync(ALL, 1u << lane), ALL)
KERNEL_ROW("__reduce_xor_sync", "parity", 32, u32, __reduce_xor_sync(ALL, i == 3 ? 12u : 5u), 12u ^ 5u)
KERNEL_ROW("__reduce_add_sync, two masks", "two halves, each in its branch", 32, u32,
           i < 16 ? __reduce_add_sync(0xffff, 1u) : __reduce_add_sync(0xffff0000, 2u), i < 16 ? 16 : 32)

// ---- __syncwarp and what it orders ----
static __device__ int through_shared(int i, u32 mask, int step)
{
    __shared__ int cell[64];
    cell[i] = i * 3;
    __syncwarp(mask);
    int v = cell[i ^ step];
    __syncwarp(mask);
    return v;
}
KERNEL_ROW("__syncwarp", "neighbour's value through shared memory", 64, int, through_shared(i, ALL, 1),
           (i ^ 1) * 3)
KERNEL_ROW("__syncwarp, part", "two branches with a mask each", 32, int,
           i < 8 ? through_shared(i, 0xff, 1) : through_shared(i, 0xffffff00, 2), (i < 8 ? i ^ 1 : i ^ 2) * 3)

// A tree in volatile shared memory without __syncwarp: stores and loads of a warp happen in step.
static __global__ void volatile_tree(int *out)
{
    __shared__ volatile int cell[64];
    int i = threadIdx.x;
    cell[i] = i;
    if (i < 32) {
        cell[i] += cell[i + 32];
        cell[i] += cell[i + 16];
        cell[i] += cell[i + 8];
        cell[i] += cell[i + 4];
        cell[i] += cell[i + 2];
        cell[i] += cell[i + 1];
    }
    if (i == 0)
        *out = cell[0];
}
ROW("warp-synchronous volatile",
    "sum of 32 numbers by a tree without barriers; the cells above 31 are not waited for")
{
    conf::buffer<int> out(r, 1);
    volatile_tree<<<1, 32>>>(out);
    out.get();
    r.stores(1, 4);
}

// ---- loops that lanes leave at different times ----
static __global__ void leave(u32 *out)
{
    u32 votes = 0;
    for (u32 n = 0; n < 32; n++) {
        if (n > threadIdx.x)
            break;
        votes += __popc(__ballot_sync(ALL << n, 1));
    }
    out[threadIdx.x] = votes;
}
ROW("__ballot_sync in a loop", "each round has one lane less")
{
    conf::buffer<u32> out(r, 32);
    leave<<<1, 32>>>(out);
    out.is([](long i) {
        u32 sum = 0;
        for (int n = 0; n <= i; n++)
            sum += 32 - n;
        return sum;
    });
    r.stores(32, 4);
}
static __global__ void exited(u32 *out)
{
    if (threadIdx.x >= 20)
        return;
    out[threadIdx.x] = __ballot_sync(0xfffff, threadIdx.x & 1) + __popc(__activemask());
}
ROW_OUT("lanes that have left", "12 lanes return, 20 vote", u32, 20, (exited<<<1, 32>>>(out)), 0xaaaaa + 20)
static __device__ __noinline__ u32 pick_leader(u32 mask, int v)
{
    return __shfl_sync(mask, v, __ffs(mask) - 1);
}
static __global__ void called(u32 *out)
{
    out[threadIdx.x] = pick_leader(threadIdx.x & 1 ? 0xaaaaaaaa : 0x55555555, threadIdx.x + 100);
}
ROW_OUT("__shfl_sync in a function", "masks of the caller's choice", u32, 32, (called<<<1, 32>>>(out)),
        100 + (i & 1))

// ---- instructions ----
static __device__ u32 elected(u32 mask)
{
    u32 lane, is;
    asm volatile("{ .reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p; }"
                 : "=r"(lane), "=r"(is)
                 : "r"(mask));
    return is;
}
KERNEL_ROW("elect.sync", "one leader", 32, u32, __popc(__ballot_sync(ALL, elected(ALL))), 1)
#define SHFL_ASM(mode, v, b, c)                                                                              \
    ({                                                                                                       \
        u32 d_;                                                                                              \
        asm volatile("shfl.sync." mode ".b32 %0, %1, %2, %3, %4;"                                            \
                     : "=r"(d_)                                                                              \
                     : "r"(v), "r"(b), "r"(c), "r"(ALL));                                                    \
        d_;                                                                                                  \
    })
KERNEL_ROW("shfl.sync.idx.b32", "lane 9 to all", 32, u32, SHFL_ASM("idx", i, 9, 31), 9)
KERNEL_ROW("shfl.sync.up.b32", "clamps at lane 0", 32, u32, SHFL_ASM("up", i, 2, 0), i < 2 ? i : i - 2)
KERNEL_ROW("shfl.sync.down.b32", "clamps at lane 31", 32, u32, SHFL_ASM("down", i, 2, 31), i > 29 ? i : i + 2)
KERNEL_ROW("shfl.sync.bfly.b32", "neighbours", 32, u32, SHFL_ASM("bfly", i, 1, 31), i ^ 1)
static __device__ u32 shfl_in_range(int v)
{
    u32 d, in;
    asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 4, 0, -1; selp.u32 %1, 1, 0, p; }"
                 : "=r"(d), "=r"(in)
                 : "r"(v));
    return in;
}
KERNEL_ROW("shfl.sync with a predicate", "tells who had a source", 32, u32, shfl_in_range(i), i >= 4)
static __device__ u32 vote_asm(int v)
{
    u32 d;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, -1; }"
                 : "=r"(d)
                 : "r"(v));
    return d;
}
KERNEL_ROW("vote.sync.ballot.b32", "lanes 0 to 7", 32, u32, vote_asm(i < 8), 0xff)
static __device__ u32 redux_asm(u32 v)
{
    u32 d;
    asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(d) : "r"(v));
    return d;
}
KERNEL_ROW("redux.sync.add.u32", "sum", 32, u32, redux_asm(i), 496)
static __device__ u32 activemask_asm()
{
    u32 d;
    asm volatile("activemask.b32 %0;" : "=r"(d));
    return d;
}
KERNEL_ROW("activemask.b32", "all lanes", 32, u32, activemask_asm(), ALL)
static __device__ u32 match_asm(u32 v)
{
    u32 d;
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(d) : "r"(v));
    return d;
}
KERNEL_ROW("match.any.sync.b32", "same i / 8", 32, u32, match_asm(i / 8), 0xffu << i / 8 * 8)

// ---- special registers ----
#define SREG(name, what, threads, want)                                                                      \
    KERNEL_ROW(name, what, threads, u32, ({                                                                  \
                   u32 d_;                                                                                   \
                   asm volatile("mov.u32 %0, %" name ";" : "=r"(d_));                                        \
                   d_;                                                                                       \
               }),                                                                                           \
               want)
SREG("%laneid", "thread index modulo 32", 64, i & 31)
SREG("%tid.x", "thread index", 64, i)
SREG("%ntid.x", "threads of the CTA", 64, 64)
SREG("%ctaid.x", "the only CTA", 32, 0)
SREG("%nctaid.x", "one CTA", 32, 1)
SREG("%lanemask_eq", "own bit", 32, 1u << lane)
SREG("%lanemask_lt", "bits below", 32, (1u << lane) - 1)
SREG("%lanemask_le", "bits up to the own", 32, (2u << lane) - 1)
SREG("%lanemask_gt", "bits above", 32, ~((2u << lane) - 1))
SREG("%lanemask_ge", "bits from the own", 32, ~((1u << lane) - 1))
KERNEL_ROW("%warpid", "constant in a warp, other in the other", 64, u32, ({
               u32 d_;
               asm volatile("mov.u32 %0, %%warpid;" : "=r"(d_));
               __match_any_sync(ALL, d_);
           }),
           ALL)
KERNEL_ROW("%smid < %nsmid", "holds", 32, u32, ({
               u32 s, n;
               asm volatile("mov.u32 %0, %%smid; mov.u32 %1, %%nsmid;" : "=r"(s), "=r"(n));
               s < n;
           }),
           1)
KERNEL_ROW("warpSize", "32", 32, int, warpSize, 32)
CONF_MAIN
