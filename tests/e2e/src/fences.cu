/* Scopes and orders of accesses, and fences. "// = op space scope order" says what PTX's manual says of the
 * line's instruction ("-": none); "// name" is what the cases call the line (cases_fences.py). */
#include <cstdio>
#include <cuda/atomic>
#include <cuda_fp16.h>
#include "../../../examples/common/example.h"

__device__ __forceinline__ unsigned place(void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

/* clang-format off */
#define LOAD(op, p) asm volatile(op " %0, [%1];" : "=r"(v) : "l"(p) : "memory")
#define STORE(op, p) asm volatile(op " [%0], %1;" ::"l"(p), "r"(v) : "memory")
#define ATOM(op, p) asm volatile(op " %0, [%1], %2;" : "=r"(v) : "l"(p), "r"(2) : "memory")
#define SHARED_LOAD(op, p) asm volatile(op " %0, [%1];" : "=r"(v) : "r"(place(p)) : "memory")
#define SHARED_STORE(op, p) asm volatile(op " [%0], %1;" ::"r"(place(p)), "r"(v) : "memory")
#define SHARED_ATOM(op, p) asm volatile(op " %0, [%1], %2;" : "=r"(v) : "r"(place(p)), "r"(2) : "memory")
#define FENCE(op) asm volatile(op ";" ::: "memory")

__global__ void loads(int *p, int *out)
{
    __shared__ int s[32];
    int v, sum = 0;
    s[threadIdx.x] = threadIdx.x;                // = store shared - -
    LOAD("ld.global.b32", p); sum += v;          // = load global - -
    LOAD("ld.weak.global.b32", p); sum += v;     // = load global - -
    LOAD("ld.global.cg.b32", p); sum += v;       // = load global - -
    LOAD("ld.global.nc.b32", p); sum += v;       // = load global - -
    LOAD("ld.volatile.global.b32", p); sum += v; // = load global sys volatile
    LOAD("ld.volatile.b32", p); sum += v;        // = load global sys volatile
    LOAD("ld.relaxed.cta.global.b32", p); sum += v;     // = load global cta relaxed
    LOAD("ld.relaxed.cluster.global.b32", p); sum += v; // = load global cluster relaxed
    LOAD("ld.relaxed.gpu.b32", p); sum += v;            // = load global gpu relaxed
    LOAD("ld.relaxed.sys.b32", p); sum += v;            // = load global sys relaxed
    LOAD("ld.acquire.cta.b32", p); sum += v;            // = load global cta acquire
    LOAD("ld.acquire.cluster.b32", p); sum += v;        // = load global cluster acquire
    LOAD("ld.acquire.gpu.global.b32", p); sum += v;     // = load global gpu acquire
    LOAD("ld.acquire.sys.global.b32", p); sum += v;     // = load global sys acquire
    LOAD("ld.mmio.relaxed.sys.global.b32", p); sum += v;      // = load global sys relaxed
    SHARED_LOAD("ld.shared.b32", s); sum += v;                // = load shared - -
    SHARED_LOAD("ld.volatile.shared.b32", s); sum += v;       // = load shared sys volatile
    SHARED_LOAD("ld.relaxed.cta.shared.b32", s); sum += v;    // = load shared cta relaxed
    SHARED_LOAD("ld.acquire.cta.shared::cta.b32", s); sum += v; // = load shared cta acquire
    sum += *(volatile int *)p;                   // = load global sys volatile
    sum += __ldcg(p);                            // = load global - -
    out[threadIdx.x] = sum;                      // = store global - -
}

__global__ void stores(int *p)
{
    __shared__ int s[32];
    int v = 3;
    STORE("st.global.b32", p);                     // = store global - -
    STORE("st.weak.b32", p);                       // = store global - -
    STORE("st.global.wt.b32", p);                  // = store global - -
    STORE("st.volatile.global.b32", p);            // = store global sys volatile
    STORE("st.relaxed.cta.b32", p);                // = store global cta relaxed
    STORE("st.relaxed.cluster.global.b32", p);     // = store global cluster relaxed
    STORE("st.relaxed.gpu.global.b32", p);         // = store global gpu relaxed
    STORE("st.relaxed.sys.b32", p);                // = store global sys relaxed
    STORE("st.release.cta.global.b32", p);         // = store global cta release
    STORE("st.release.cluster.b32", p);            // = store global cluster release
    STORE("st.release.gpu.b32", p);                // = store global gpu release
    STORE("st.release.sys.global.b32", p);         // = store global sys release
    STORE("st.mmio.relaxed.sys.global.b32", p);    // = store global sys relaxed
    SHARED_STORE("st.shared.b32", s);              // = store shared - -
    SHARED_STORE("st.volatile.shared.b32", s);     // = store shared sys volatile
    SHARED_STORE("st.relaxed.gpu.shared.b32", s);  // = store shared gpu relaxed
    SHARED_STORE("st.release.cta.shared.b32", s);  // = store shared cta release
    *(volatile int *)p = v;                        // = store global sys volatile
    *(volatile int *)(s + threadIdx.x % 2) = v;    // = store shared sys volatile
}

__global__ void atomics(int *p)
{
    __shared__ int s[32];
    int v;
    ATOM("atom.global.add.u32", p);                    // = atomic global gpu relaxed
    ATOM("atom.max.s32", p);                           // = atomic global gpu relaxed
    ATOM("atom.global.inc.u32", p);                    // = atomic global gpu relaxed
    ATOM("atom.cta.global.add.u32", p);                // = atomic global cta relaxed
    ATOM("atom.cluster.global.exch.b32", p);           // = atomic global cluster relaxed
    ATOM("atom.sys.global.min.u32", p);                // = atomic global sys relaxed
    ATOM("atom.relaxed.gpu.global.or.b32", p);         // = atomic global gpu relaxed
    ATOM("atom.acquire.cta.global.and.b32", p);        // = atomic global cta acquire
    ATOM("atom.release.cluster.global.add.u32", p);    // = atomic global cluster release
    ATOM("atom.acq_rel.sys.exch.b32", p);              // = atomic global sys acq_rel
    SHARED_ATOM("atom.shared.add.u32", s);             // = atomic shared gpu relaxed
    SHARED_ATOM("atom.cta.shared.xor.b32", s);         // = atomic shared cta relaxed
    SHARED_ATOM("atom.release.cta.shared.exch.b32", s);// = atomic shared cta release
    STORE("red.global.add.u32", p);                    // = atomic global gpu relaxed
    STORE("red.cta.global.max.u32", p);                // = atomic global cta relaxed
    STORE("red.relaxed.sys.global.add.u32", p);        // = atomic global sys relaxed
    STORE("red.release.gpu.or.b32", p);                // = atomic global gpu release
    SHARED_STORE("red.shared.add.u32", s);             // = atomic shared gpu relaxed
    atomicAdd(p, 1);                                   // = atomic global gpu relaxed
    atomicAdd_block(p, 1);                             // = atomic global cta relaxed
    atomicAdd_system(p, 1);                            // = atomic global sys relaxed
    atomicCAS(p, 1, 2);                                // = atomic global gpu relaxed
    atomicExch_block(p, v);                            // = atomic global cta relaxed
    atomicAdd((float *)p, 1.f);                        // = atomic global gpu relaxed
    atomicAdd(&s[1], 1);                               // = atomic shared gpu relaxed
    atomicAdd_block(&s[1], 1);                         // = atomic shared cta relaxed
}
/* clang-format on */

__global__ void references(int *p)
{
    cuda::atomic_ref<int, cuda::thread_scope_block> block(p[0]);
    cuda::atomic_ref<int, cuda::thread_scope_device> device(p[1]);
    cuda::atomic_ref<int, cuda::thread_scope_system> everywhere(p[2]);
    int v = block.load(cuda::memory_order_relaxed);     // = load global cta relaxed
    v += device.load(cuda::memory_order_acquire);       // = load global gpu acquire
    everywhere.store(v, cuda::memory_order_relaxed);    // = store global sys relaxed
    device.store(v, cuda::memory_order_release);        // = store global gpu release
    block.fetch_add(v, cuda::memory_order_acq_rel);     // = atomic global cta acq_rel
    device.fetch_or(v, cuda::memory_order_relaxed);     // = atomic global gpu relaxed
    everywhere.exchange(v, cuda::memory_order_release); // = atomic global sys release
}

/* Two CTAs of 48 threads: a warp and a half. */
__global__ void fences()
{
    int t = threadIdx.x;
    FENCE("fence.acq_rel.cta");     // = fence - cta acq_rel
    FENCE("fence.acq_rel.cluster"); // = fence - cluster acq_rel
    if (t % 3 == 0)
        FENCE("fence.acq_rel.gpu"); // = fence - gpu acq_rel
    if (t >= 32)
        FENCE("fence.acq_rel.sys"); // = fence - sys acq_rel
    FENCE("fence.sc.cta");          // = fence - cta sc
    FENCE("fence.sc.cluster");      // = fence - cluster sc
    for (int i = 0; i < blockIdx.x + 1; i++)
        FENCE("fence.sc.gpu"); // = fence - gpu sc
    FENCE("fence.sc.sys");     // = fence - sys sc
    FENCE("membar.cta");       // = fence - cta sc
    FENCE("membar.gl");        // = fence - gpu sc
    FENCE("membar.sys");       // = fence - sys sc
    FENCE("fence.proxy.async");
    FENCE("fence.proxy.alias");
    FENCE("fence.mbarrier_init.release.cluster");
}

/* A fence is where it was in the program. */
__global__ void published(int *p)
{
    p[threadIdx.x] = 1;
    __threadfence();
    p[32 + threadIdx.x] = 2;
    __threadfence_block();
    p[64 + threadIdx.x] = 3;
    __threadfence_system();
}

/* A fence is no barrier: nothing orders the two warps. */
__global__ void fenced_only(int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t; // stored before the fence
    __threadfence_block();
    out[t] = s[63 - t]; // loaded after the fence
}

/* With a barrier, which the fence must not be taken for. */
__global__ void fenced_and_met(int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t;
    __threadfence_block();
    __syncthreads();
    __threadfence_block();
    out[t] = s[63 - t];
}

int main()
{
    int *p;
    CHECK(cudaMalloc(&p, 1 << 16));
    CHECK(cudaMemset(p, 0, 1 << 16));
    loads<<<1, 32>>>(p, p + 1024);
    stores<<<1, 32>>>(p);
    atomics<<<1, 32>>>(p);
    references<<<1, 32>>>(p);
    fences<<<2, 48>>>();
    published<<<1, 32>>>(p + 2048);
    fenced_only<<<1, 64>>>(p + 4096);
    fenced_and_met<<<1, 64>>>(p + 4096);
    CHECK(cudaDeviceSynchronize());
    puts("done");
    return 0;
}
