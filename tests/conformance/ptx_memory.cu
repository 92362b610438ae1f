// Accesses to global memory in inline assembly: loads, stores, atomics with their modifiers.

// conformance: levels -O1 -O0
#include "copy_row.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned u32;
typedef long long s64;
typedef unsigned long long u64;

#define PTX_COPY(name, T, load, store, reg, register)                                                        \
    COPY(name, T, ({                                                                                         \
             register v;                                                                                     \
             asm volatile(load " %0, [%1];" : "=" reg(v) : "l"(in + i));                                     \
             asm volatile(store " [%0], %1;" ::"l"(out + i), reg(v));                                        \
         }))

PTX_COPY("ld.global.u32, st.global.u32", int, "ld.global.u32", "st.global.u32", "r", u32)
PTX_COPY("ld.u32, st.u32", int, "ld.u32", "st.u32", "r", u32)
PTX_COPY("ld.global.nc.u32, st.global.cg.u32", int, "ld.global.nc.u32", "st.global.cg.u32", "r", u32)
PTX_COPY("ld.global.L1::no_allocate.u32, st.global.wt.b32", int, "ld.global.L1::no_allocate.u32",
         "st.global.wt.b32", "r", u32)
PTX_COPY("ld.global.u8, st.global.u8", char, "ld.global.u8", "st.global.u8", "r", u32)
PTX_COPY("ld.global.s16, st.global.u16", short, "ld.global.s16", "st.global.u16", "h", unsigned short)
PTX_COPY("ld.global.u64, st.global.u64", s64, "ld.global.u64", "st.global.u64", "l", u64)
PTX_COPY("ld.global.cs.b64, st.global.cs.b64", s64, "ld.global.cs.b64", "st.global.cs.b64", "l", u64)
PTX_COPY("ld.global.ca.f32, st.global.wb.f32", float, "ld.global.ca.f32", "st.global.wb.f32", "f", float)
PTX_COPY("ld.global.lu.f64, st.global.f64", double, "ld.global.lu.f64", "st.global.f64", "d", double)
PTX_COPY("ld.relaxed.gpu.global.u32, st.relaxed.gpu.global.u32", int, "ld.relaxed.gpu.global.u32",
         "st.relaxed.gpu.global.u32", "r", u32)
PTX_COPY("ld.acquire.sys.u32, st.release.sys.u32", int, "ld.acquire.sys.u32", "st.release.sys.u32", "r", u32)
PTX_COPY("ld.volatile.global.u32, st.volatile.global.u32", int, "ld.volatile.global.u32",
         "st.volatile.global.u32", "r", u32)
PTX_COPY("ld.global.L2::128B.u64, st.global.b64", s64, "ld.global.L2::128B.u64", "st.global.b64", "l", u64)
PTX_COPY("ld.weak.global.u32, st.weak.global.u32", int, "ld.weak.global.u32", "st.weak.global.u32", "r", u32)
PTX_COPY("ld.mmio.relaxed.sys.global.u32, st.mmio.relaxed.sys.global.u32", int,
         "ld.mmio.relaxed.sys.global.u32", "st.mmio.relaxed.sys.global.u32", "r", u32)
PTX_COPY("ldu.global.u32, st.global.s32", int, "ldu.global.u32", "st.global.s32", "r", u32)

COPY("ld.global.v2.u32, st.global.v2.u32", int2, ({
         u32 a, b;
         asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(in + i));
         asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(out + i), "r"(a), "r"(b));
     }))
COPY("ld.global.nc.v4.f32, st.global.cs.v4.f32", float4, ({
         float a, b, c, d;
         asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                      : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
                      : "l"(in + i));
         asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(out + i), "f"(a), "f"(b), "f"(c),
                      "f"(d));
     }))
COPY("ld.global.v2.f64", double2, ({
         double a, b;
         asm volatile("ld.global.v2.f64 {%0, %1}, [%2];" : "=d"(a), "=d"(b) : "l"(in + i));
         asm volatile("st.global.v2.f64 [%0], {%1, %2};" ::"l"(out + i), "d"(a), "d"(b));
     }))
COPY("ld.global.L1::evict_last.L2::cache_hint", int, ({
         u32 v;
         u64 policy;
         asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
         asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(in + i), "l"(policy));
         asm volatile("st.global.L2::cache_hint.u32 [%0], %1, %2;" ::"l"(out + i), "r"(v), "l"(policy));
     }))
COPY("ld.global.u32 with an offset", int, ({
         u32 v;
         asm volatile("ld.global.u32 %0, [%1+-8];" : "=r"(v) : "l"(in + i + 2));
         asm volatile("st.global.u32 [%0+4], %1;" ::"l"(out + i - 1), "r"(v));
     }))
COPY("cvta.to.global, ld.global", int, ({
         u32 v;
         asm volatile("{ .reg .u64 a; cvta.to.global.u64 a, %1; ld.global.u32 %0, [a]; }"
                      : "=r"(v)
                      : "l"(in + i));
         out[i] = v;
     }))
static __global__ void predicated(const int *in, int *out)
{
    int v = -1;
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u32 %0, [%1]; @!p st.global.u32 [%3], 7; }"
        : "+r"(v)
        : "l"(in + threadIdx.x), "r"((int)(threadIdx.x < 10)), "l"(out + threadIdx.x));
    if (threadIdx.x < 10)
        out[threadIdx.x] = v;
}
ROW("@p ld.global, @!p st.global", "records of those whose predicate holds")
{
    conf::buffer<int> in(r, 32, [](long i) { return i * 9; }), out(r, 32);
    predicated<<<1, 32>>>(in, out);
    out.is([](long i) { return i < 10 ? i * 9 : 7; });
    r.loads(10, 4);
    r.stores(32, 4);
}
static __global__ void compared(const int *in, int *out)
{
    int v = 7;
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %2, 10; @p ld.global.u32 %0, [%1]; }"
                 : "+r"(v)
                 : "l"(in + threadIdx.x), "r"(threadIdx.x));
    out[threadIdx.x] = v;
}
ROW("@p of a comparison", "10 loads: the comparison is made in front of the statement as well")
{
    conf::buffer<int> in(r, 32, [](long i) { return i * 9; }), out(r, 32);
    compared<<<1, 32>>>(in, out);
    out.is([](long i) { return i < 10 ? i * 9 : 7; });
    r.loads(10, 4);
    r.stores(32, 4);
}
static __global__ void hints(const int *in)
{
    const int *p = in + threadIdx.x;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
    asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
    asm volatile("prefetchu.L1 [%0];" ::"l"(p));
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(in));
}
ROW("prefetch, prefetchu, applypriority", "no access, no record")
{
    conf::buffer<int> in(r, 64, [](long i) { return i; });
    hints<<<1, 32>>>(in);
}
static __global__ void spaces(int *out, const int *in)
{
    __shared__ int cell;
    int local = threadIdx.x, *at_local = &local;
    asm volatile("" : "+l"(at_local));
    out[threadIdx.x] = __isGlobal(in) + 2 * __isShared(&cell) + 4 * __isLocal(at_local) +
                       8 * __isGlobal(&cell) + 16 * __isShared(in);
}
ROW("isspacep", "__isGlobal, __isShared, __isLocal")
{
    conf::buffer<int> out(r, 32), in(r, 1);
    spaces<<<1, 32>>>(out, in);
    out.is([](long) { return 7; });
    r.stores(32, 4);
}
static __global__ void shared_address(int *out)
{
    __shared__ int cell[32];
    cell[threadIdx.x] = threadIdx.x * 2;
    u32 at = (u32)__cvta_generic_to_shared(&cell[threadIdx.x]), v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v + 1));
    out[threadIdx.x] = cell[threadIdx.x];
}
ROW_OUT("__cvta_generic_to_shared, ld.shared, st.shared", "no record for shared memory", int, 32,
        (shared_address<<<1, 32>>>(out)), 2 * i + 1)

// ---- atomics and reductions in asm: ATOM("text", operands, start, final value for 32 threads) ----
#define ON_ONE(id, text, T, start, want)                                                                     \
    ROW_(text, "32 threads on one address", false, CONF_JOIN(k, id))                                         \
    {                                                                                                        \
        conf::buffer<T> p(r, 1, [](long) { return (T)(start); });                                            \
        CONF_JOIN(kernel_, id)<<<1, 32>>>(p);                                                                \
        p.get();                                                                                             \
        r.check(p.h[0] == (T)(want), "got %.17g, expected %.17g", (double)p.h[0], (double)(T)(want));        \
        r.atomics(32, sizeof(T));                                                                            \
    }
#define ATOM_(id, text, T, reg, argument, start, want)                                                       \
    static __global__ void CONF_JOIN(kernel_, id)(T * p)                                                     \
    {                                                                                                        \
        int i = threadIdx.x;                                                                                 \
        T old;                                                                                               \
        asm volatile(text " %0, [%1], %2;" : "=" reg(old) : "l"(p), reg((T)(argument)) : "memory");          \
        (void)i;                                                                                             \
    }                                                                                                        \
    ON_ONE(id, text, T, start, want)
#define ATOM_ID(id, ...) ATOM_(id, __VA_ARGS__)
#define ATOM(...) ATOM_ID(__COUNTER__, __VA_ARGS__)
#define RED_(id, text, T, reg, argument, start, want)                                                        \
    static __global__ void CONF_JOIN(kernel_, id)(T * p)                                                     \
    {                                                                                                        \
        int i = threadIdx.x;                                                                                 \
        asm volatile(text " [%0], %1;" ::"l"(p), reg((T)(argument)) : "memory");                             \
        (void)i;                                                                                             \
    }                                                                                                        \
    ON_ONE(id, text, T, start, want)
#define RED_ID(id, ...) RED_(id, __VA_ARGS__)
#define RED(...) RED_ID(__COUNTER__, __VA_ARGS__)
#define BOTH(operation, ...) ATOM("atom." #operation, __VA_ARGS__) RED("red." #operation, __VA_ARGS__)

BOTH(global.add.u32, u32, "r", i, 5, 501)
BOTH(global.add.s32, int, "r", i - 20, 5, 5 + 496 - 640)
BOTH(add.u64, u64, "l", i, 5, 501)
BOTH(global.add.f32, float, "f", i, 5, 501)
BOTH(global.add.f64, double, "d", i, 5, 501)
BOTH(relaxed.gpu.global.add.u32, u32, "r", i, 5, 501)
BOTH(global.min.s32, int, "r", i - 20, 5, -20)
BOTH(global.max.u32, u32, "r", i, 5, 31)
BOTH(global.min.u64, u64, "l", i + 3, 5, 3)
BOTH(global.max.s64, s64, "l", i - 100, -500, -69)
BOTH(global.and.b32, u32, "r", ~(1u << i % 8), -1, 0xffffff00)
BOTH(global.or.b64, u64, "l", 1ull << 2 * i, 0, 0x5555555555555555)
BOTH(global.xor.b32, u32, "r", i, 9, 9)
BOTH(global.inc.u32, u32, "r", 10, 0, 32 % 11)
BOTH(global.dec.u32, u32, "r", 10, 0, (0 + 33 - 32) % 11)
ATOM("atom.acq_rel.sys.global.add.u32", u32, "r", i, 5, 501)
ATOM("atom.global.exch.b32", u32, "r", 9, 5, 9)
ATOM("atom.cta.global.exch.b64", u64, "l", 9, 5, 9)
RED("red.release.gpu.global.add.u32", u32, "r", i, 5, 501)

static __global__ void atom_cas(u32 *p, u64 *q)
{
    u32 old;
    u64 wide;
    asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p + threadIdx.x), "r"(threadIdx.x), "r"(77));
    asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(wide)
                 : "l"(q + threadIdx.x), "l"(5ull), "l"(6ull));
    p[threadIdx.x + 32] = old + (u32)wide;
}
ROW("atom.global.cas", "b32 and b64; half of the comparisons fail")
{
    conf::buffer<u32> p(r, 64, [](long i) { return i & 1 ? i : 1000; });
    conf::buffer<u64> q(r, 32, [](long) { return 5; });
    atom_cas<<<1, 32>>>(p, q);
    p.is([](long i) { return i >= 32 ? (i & 1 ? i - 32 : 1000) + 5 : i & 1 ? 77 : 1000; });
    q.is([](long) { return 6; });
    r.atomics(32, 4);
    r.atomics(32, 8);
    r.stores(32, 4);
}
// Without `volatile` and without a "memory" clobber: what clang takes for a function of its operands.
static __global__ void not_volatile(u32 *p, u32 *q, int *out)
{
    u32 old;
    asm("atom.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(threadIdx.x));
    asm("{ st.global.u32 [%1], %2; mov.u32 %0, 1; }" : "=r"(old) : "l"(q + threadIdx.x), "r"(threadIdx.x));
    if (threadIdx.x == 0) {
        u32 before, after;
        asm("ld.global.u32 %0, [%1];" : "=r"(before) : "l"(out + 2));
        out[2] = before + 5;
        asm("ld.global.u32 %0, [%1];" : "=r"(after) : "l"(out + 2));
        out[0] = before;
        out[1] = after;
    }
}
ROW("asm without volatile", "an atomic and a store without a used result, loads around a store")
{
    conf::buffer<u32> p(r, 1, [](long) { return 5; }), q(r, 32);
    conf::buffer<int> out(r, 3, [](long) { return 7; });
    not_volatile<<<1, 32>>>(p, q, out);
    p.is([](long) { return 501; });
    q.is([](long i) { return i; });
    out.is([](long i) { return i ? 12 : 7; });
    r.atomics(32, 4);
    r.stores(32 + 3, 4);
    r.loads(2, 4);
}
static __global__ void hints(int *p)
{
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(p) : "memory");
    asm volatile("discard.L2 [%0], 128;" ::"l"(p) : "memory");
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(p) : "memory");
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(p));
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" ::"l"(p));
    p[threadIdx.x] = 7;
}
ROW("discard, applypriority, cp.async.bulk.prefetch", "no access, no record; what is written then, stays")
{
    conf::buffer<int> p(r, 64);
    hints<<<1, 32>>>(p);
    p.get();
    for (int i = 0; i < 32; i++)
        r.same(i, p.h[i], 7);
    r.stores(32, 4);
}

// ---- atomics of 128 bits ----

struct alignas(16) wide {
    u64 low, high;
};
static __global__ void exchange(wide *p, wide *old)
{
    u64 low, high, t = threadIdx.x;
    asm volatile(
        "{ .reg .b128 v, d; mov.b128 v, {%3, %4}; atom.global.exch.b128 d, [%2], v; mov.b128 {%0, %1}, d; }"
        : "=l"(low), "=l"(high)
        : "l"(p), "l"(t + 1), "l"(~t)
        : "memory");
    old[t] = {low, high};
}
ROW("atom.exch.b128", "each of 64 threads' values comes out once, in one piece")
{
    conf::buffer<wide> p(r, 1, [](long) { return wide{0, 77}; }), old(r, 64);
    exchange<<<1, 64>>>(p, old);
    p.get();
    old.get();
    u64 sum = p.h->low;
    for (int i = 0; i < 64; i++) {
        sum += old.h[i].low;
        r.check(old.h[i].high == (old.h[i].low ? ~(old.h[i].low - 1) : 77), "[%d]: %llu, %llx", i,
                old.h[i].low, old.h[i].high);
    }
    r.check(sum == 64 * 65 / 2, "sum %llu", sum);
    r.atomics(64, 16);
    r.stores(64, 16);
    r.only_bytes();
}
static __global__ void add_wide(wide *p, wide by)
{
    u64 low = 0, high = 0, was_low, was_high;
    for (;;) {
        unsigned __int128 sum =
            ((unsigned __int128)high << 64 | low) + ((unsigned __int128)by.high << 64 | by.low);
        asm volatile("{ .reg .b128 c, v, d; mov.b128 c, {%3, %4}; mov.b128 v, {%5, %6};\n"
                     "atom.global.cas.b128 d, [%2], c, v; mov.b128 {%0, %1}, d; }"
                     : "=l"(was_low), "=l"(was_high)
                     : "l"(p), "l"(low), "l"(high), "l"((u64)sum), "l"((u64)(sum >> 64))
                     : "memory");
        if (was_low == low && was_high == high)
            return;
        low = was_low;
        high = was_high;
    }
}
ROW("atom.cas.b128", "8 CTAs of 64 threads add a number of 128 bits")
{
    conf::buffer<wide> p(r, 1, [](long) { return wide{0, 0}; });
    add_wide<<<8, 64>>>(p, {1ull << 63, 3});
    p.get();
    r.check(p.h->low == 0 && p.h->high == 512 * 3 + 256, "%llx, %llx", p.h->high, p.h->low);
    r.at_least(conf::ATOMIC, 512, 16);
}
// One thread writes pairs that belong together, others look: they must never see half of one.
struct alignas(16) quad {
    u32 part[4];
};
static __global__ void publish(quad *p, u32 *torn, u32 rounds)
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        for (u32 i = 1; i <= rounds; i++) {
            asm volatile("st.relaxed.gpu.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(i), "r"(~i) : "memory");
            asm volatile("st.relaxed.gpu.v4.u32 [%0], {%1, %2, %2, %1};" ::"l"(p + 1), "r"(i), "r"(~i)
                         : "memory");
        }
        return;
    }
    u32 a, b, c, d, bad = 0;
    for (u32 i = 0; i < rounds; i++) {
        asm volatile("ld.relaxed.gpu.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(p) : "memory");
        bad += a != ~b;
        asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "l"(p + 1)
                     : "memory");
        bad += a != ~b || c != b || d != a;
    }
    *torn = bad;
}
ROW("ld.relaxed.v2.u32, ld.relaxed.v4.u32, st.relaxed", "another CTA sees all of a vector or nothing of it")
{
    const int rounds = 20000;
    conf::buffer<quad> p(r, 2, [](long i) { return i ? quad{{0, ~0u, ~0u, 0}} : quad{{0, ~0u, 0, 0}}; });
    conf::buffer<u32> torn(r, 1);
    publish<<<2, 32>>>(p, torn, rounds);
    torn.is([](long) { return 0; });
    r.loads(rounds, 8);
    r.loads(rounds, 16);
    r.stores(rounds, 8);
    r.stores(rounds, 16);
    r.stores(1, 4);
}

// ---- shared memory of a CTA that the cluster does not have ----

static bool no_clusters(conf::row &r)
{
    int can = 0;
    CONF_CALL(r, cudaDeviceGetAttribute(&can, cudaDevAttrClusterLaunch, 0));
    if (!can)
        r.skip("the device has no clusters");
    return !can;
}
// Each lane has the address in the CTA of its own number; those without such a CTA leave it alone, if `limit`
// says so. Compilers make it before they ask.
static __global__ void __cluster_dims__(2, 1, 1) lanes_far(int *out, u32 limit, bool by_words)
{
    __shared__ int cell;
    cg::cluster_group cluster = cg::this_cluster();
    u32 t = threadIdx.x, own = (u32)__cvta_generic_to_shared(&cell), there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(t < 3 ? t : t * 1000003));
    if (t == 0)
        cell = (int)blockIdx.x + 1;
    cluster.sync();
    int value = 0;
    if (t < limit) {
        if (by_words)
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
        else
            value = *cluster.map_shared_rank(&cell, t);
    }
    out[blockIdx.x * 32 + t] = value;
    cluster.sync();
}
ROW("map_shared_rank, mapa of CTAs that the cluster does not have", "no lane uses the address")
{
    if (no_clusters(r))
        return;
    for (int by_words = 0; by_words < 2; by_words++) {
        conf::buffer<int> out(r, 128);
        lanes_far<<<4, 32>>>(out, 2, by_words);
        out.is([](long i) { return i % 32 < 2 ? i / 64 * 2 + i % 32 + 1 : 0; });
    }
    r.stores(256, 4);
}
static void fails_far(conf::row &r, bool by_words)
{
    if (no_clusters(r))
        return;
    conf::buffer<int> out(r, 64);
    lanes_far<<<2, 32>>>(out, 3, by_words);
    r.check(cudaDeviceSynchronize() != cudaSuccess, "the launch succeeded");
    r.launch_fails();
    r.at_least(conf::STORE, 0, 4);
}
ROW_ALONE("map_shared_rank of a CTA that the cluster does not have", "an access through it ends the launch")
{
    fails_far(r, false);
}
ROW_ALONE("mapa of a CTA that the cluster does not have", "an access through 32 bits of it ends the launch")
{
    fails_far(r, true);
}
CONF_MAIN
