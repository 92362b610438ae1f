// Barriers in shared memory and the copies that complete them.
#include "conf.h"
typedef unsigned u32;
typedef unsigned long long u64;

static __device__ u32 shared_of(const void *p)
{
    return (u32)__cvta_generic_to_shared(p);
}
static __device__ void wait(u64 *bar, u32 phase)
{
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(
            shared_of(bar)),
        "r"(phase)
        : "memory");
}
static __global__ void rounds(int *out)
{
    __shared__ u64 bar;
    __shared__ int cell[64];
    int i = threadIdx.x;
    if (i == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(shared_of(&bar)) : "memory");
    __syncthreads();
    for (int round = 0; round < 4; round++) {
        u64 state;
        cell[i] = i + 100 * round;
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 1;"
                     : "=l"(state)
                     : "r"(shared_of(&bar))
                     : "memory");
        wait(&bar, round & 1);
        out[round * 64 + i] = cell[63 - i];
        __syncthreads();
    }
}
ROW_OUT("mbarrier init, arrive, try_wait.parity", "64 threads, four phases", int, 256,
        (rounds<<<1, 64>>>(out)), 63 - i % 64 + 100 * (i / 64))
// Each form of arrive counts once, or as often as it says; `drop` leaves the later phases, too. `forms`
// arrivals in all.
#define ARRIVE_FORM(name, text, count)                                                                       \
    static __global__ void JOINED(form_, name)(int *out)                                                     \
    {                                                                                                        \
        __shared__ u64 bar;                                                                                  \
        u64 state;                                                                                           \
        u32 before, after;                                                                                   \
        int i = threadIdx.x;                                                                                 \
        if (i == 0)                                                                                          \
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_of(&bar)), "r"(count * 2)    \
                         : "memory");                                                                        \
        __syncthreads();                                                                                     \
        if (i == 0)                                                                                          \
            arrive_##name(&bar, &state);                                                                     \
        __syncthreads();                                                                                     \
        before = done(&bar);                                                                                 \
        __syncthreads();                                                                                     \
        if (i == 1)                                                                                          \
            arrive_##name(&bar, &state);                                                                     \
        __syncthreads();                                                                                     \
        after = done(&bar);                                                                                  \
        out[i] = (int)(before * 10 + after);                                                                 \
    }                                                                                                        \
    ROW(text, "the phase ends with the second thread's arrival")                                             \
    {                                                                                                        \
        conf::buffer<int> out(r, 32);                                                                        \
        JOINED(form_, name)<<<1, 32>>>(out);                                                                 \
        out.is([](long) { return 1; });                                                                      \
        r.stores(32, 4);                                                                                     \
    }
#define JOINED(a, b) a##b
static __device__ u32 done(u64 *bar) // is phase 0 over?
{
    u32 d;
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(d)
        : "r"(shared_of(bar))
        : "memory");
    return d;
}
#define ARRIVE(name, text, count, address, reg)                                                              \
    static __device__ void arrive_##name(u64 *bar, u64 *state)                                               \
    {                                                                                                        \
        asm volatile(text ";" : "=l"(*state) : reg(address) : "memory");                                     \
    }                                                                                                        \
    ARRIVE_FORM(name, text, count)
ARRIVE(plain, "mbarrier.arrive.b64 %0, [%1]", 1, bar, "l")
ARRIVE(shared, "mbarrier.arrive.shared.b64 %0, [%1]", 1, shared_of(bar), "r")
ARRIVE(shared_cta, "mbarrier.arrive.shared::cta.b64 %0, [%1]", 1, shared_of(bar), "r")
ARRIVE(shared_3, "mbarrier.arrive.shared.b64 %0, [%1], 3", 3, shared_of(bar), "r")
ARRIVE(release, "mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1]", 1, shared_of(bar), "r")
ARRIVE(release_2, "mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1], 2", 2, shared_of(bar), "r")
ARRIVE(drop, "mbarrier.arrive_drop.shared::cta.b64 %0, [%1]", 1, shared_of(bar), "r")
ARRIVE(drop_2, "mbarrier.arrive_drop.shared::cta.b64 %0, [%1], 2", 2, shared_of(bar), "r")
ARRIVE(no_complete,
       "mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 1; mbarrier.arrive.shared::cta.b64 %0, [%1]", 2,
       shared_of(bar), "r")

static __global__ void bulk(const int *in, int *out)
{
    __shared__ __align__(16) int cell[64];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_of(&bar)) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    if (i == 0) {
        u64 state;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], 256;"
                     : "=l"(state)
                     : "r"(shared_of(&bar))
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_of(cell)),
            "l"(in), "r"(256), "r"(shared_of(&bar))
            : "memory");
    }
    wait(&bar, 0);
    out[i] = cell[63 - i];
}
ROW("cp.async.bulk, global to shared", "one load of 256 bytes by one thread, completes an mbarrier")
{
    conf::buffer<int> in(r, 64, [](long i) { return i * 9; }), out(r, 64);
    bulk<<<1, 64>>>(in, out);
    out.is([](long i) { return (63 - i) * 9; });
    r.loads(1, 256);
    r.stores(64, 4);
}
static __global__ void bulk_out(int *out)
{
    __shared__ __align__(16) int cell[64];
    cell[threadIdx.x] = threadIdx.x * 3;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(out),
                     "r"(shared_of(cell))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
ROW("cp.async.bulk, shared to global", "one store of 256 bytes by one thread")
{
    conf::buffer<int> out(r, 64);
    bulk_out<<<1, 64>>>(out);
    out.is([](long i) { return 3 * i; });
    r.stores(1, 256);
}
CONF_MAIN
