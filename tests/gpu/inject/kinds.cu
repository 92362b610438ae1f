// One kernel for each kind of access, of one warp. ../cases_inject.py has the counts, by hand. Prints the
// kernels that ran: those that the GPU is too old for are left out.
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            printf("%s: %s\n", #call, cudaGetErrorName(e_));                                                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#if __CUDA_ARCH__ >= 800
#define HAS_80
#endif
#if __CUDA_ARCH__ >= 900
#define HAS_90
#endif

__device__ unsigned in_shared(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// Loads of 1, 2, 4, 8 and 16 bytes of each lane, and one store of 4, without which ptxas would drop them.
__global__ void loads(char *a)
{
    unsigned short h, i;
    unsigned v, w, x, y, z;
    unsigned long long d;
    char *at = a + 16 * threadIdx.x;
    asm volatile("ld.global.u8 %0, [%1];" : "=h"(h) : "l"(at));
    asm volatile("ld.global.u16 %0, [%1+512];" : "=h"(i) : "l"(at));
    asm volatile("ld.global.u32 %0, [%1+1024];" : "=r"(v) : "l"(at));
    asm volatile("ld.global.u64 %0, [%1+1536];" : "=l"(d) : "l"(at));
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4+2048];"
                 : "=r"(w), "=r"(x), "=r"(y), "=r"(z)
                 : "l"(at));
    v += h + i + w + x + y + z + (unsigned)d + (unsigned)(d >> 32);
    asm volatile("st.global.u32 [%0+4096], %1;" ::"l"(at), "r"(v));
}

__global__ void stores(char *a)
{
    char *at = a + 16 * threadIdx.x;
    asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "h"((short)1));
    asm volatile("st.global.u16 [%0+512], %1;" ::"l"(at), "h"((short)2));
    asm volatile("st.global.u32 [%0+1024], %1;" ::"l"(at), "r"(3));
    asm volatile("st.global.u64 [%0+1536], %1;" ::"l"(at), "l"(4ll));
    asm volatile("st.global.v4.u32 [%0+2048], {%1, %1, %1, %1};" ::"l"(at), "r"(5));
}

// Three of 4 bytes, one of 8; each lane has its own word, so that ptxas joins none.
__global__ void atomics(char *a)
{
    [[maybe_unused]] unsigned w;
    [[maybe_unused]] unsigned long long d;
    char *at = a + 16 * threadIdx.x;
    asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(w) : "l"(at));
    asm volatile("red.global.add.u32 [%0+512], 1;" ::"l"(at));
    asm volatile("atom.global.cas.b32 %0, [%1+1024], 0, 1;" : "=r"(w) : "l"(at));
    asm volatile("atom.global.add.u64 %0, [%1+1536], 1;" : "=l"(d) : "l"(at));
}

// cp.async of 4, 8 and 16 bytes of each lane.
__global__ void copies(const char *a)
{
#ifdef HAS_80
    __shared__ __align__(16) char s[3 * 512];
    unsigned to = in_shared(s) + 16 * threadIdx.x;
    const char *at = a + 16 * threadIdx.x;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(at));
    asm volatile("cp.async.ca.shared.global [%0+512], [%1+512], 8;" ::"r"(to), "l"(at));
    asm volatile("cp.async.cg.shared.global [%0+1024], [%1+1024], 16;" ::"r"(to), "l"(at));
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// One lane copies 512 bytes into shared memory and out again.
__global__ void bulk(char *a)
{
#ifdef HAS_90
    __shared__ __align__(128) char s[512];
    __shared__ __align__(8) unsigned long long barrier;
    if (threadIdx.x)
        return;
    unsigned at = in_shared(&barrier), done = 0;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], 512; }" ::"r"(at));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(
            in_shared(s)),
        "l"(a), "r"(at)
        : "memory");
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(at)
                     : "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(a + 1024),
                 "r"(in_shared(s))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

// Shared memory: a store and a load of 4 bytes, an atomic, a barrier between them.
__global__ void on_chip(unsigned *out)
{
    __shared__ unsigned s[64];
    unsigned v, w, at = in_shared(s) + 4 * threadIdx.x;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(threadIdx.x));
    __syncthreads();
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
    asm volatile("atom.shared.add.u32 %0, [%1+128], 1;" : "=r"(w) : "r"(at));
    out[threadIdx.x] = v + w;
}

// ldmatrix, four matrices of 8 by 8: each lane gives the address of a row of 16 bytes.
__global__ void matrix(unsigned *out)
{
    __shared__ __align__(16) unsigned s[128];
    unsigned x, y, z, w;
    for (int i = 0; i < 4; i++)
        s[threadIdx.x + 32 * i] = threadIdx.x;
    __syncthreads();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "r"(in_shared(s) + 16 * threadIdx.x));
    out[threadIdx.x] = x + y + z + w;
}

// An array that must be in local memory: `n` stores and one load of 4 bytes.
__global__ void local(unsigned *out, int n)
{
    unsigned array[64];
    for (int k = 0; k < n; k++)
        array[(k * 7 + threadIdx.x) % 64] = k;
    out[threadIdx.x] = array[(n / 2 * 7 + threadIdx.x) % 64];
}

// Each CTA of a cluster of two stores into the other's shared memory.
__global__ void cluster(unsigned *out)
{
#ifdef HAS_90
    __shared__ unsigned s[32];
    unsigned rank, at;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"(in_shared(s) + 4 * threadIdx.x), "r"(rank ^ 1));
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at), "r"(rank) : "memory");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    out[32 * blockIdx.x + threadIdx.x] = s[threadIdx.x];
#endif
}

static int version;

static int ran(const char *name, int needs)
{
    if (version < needs)
        return 0;
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    printf("%s\n", name);
    return 1;
}

static void launch_cluster(unsigned *out)
{
    cudaLaunchAttribute of = {};
    cudaLaunchConfig_t config = {};
    of.id = cudaLaunchAttributeClusterDimension;
    of.val.clusterDim.x = 2, of.val.clusterDim.y = of.val.clusterDim.z = 1;
    config.gridDim = 2, config.blockDim = 32, config.attrs = &of, config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, cluster, out));
}

int main()
{
    char *a;
    int major, minor;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    version = 10 * major + minor;
    CHECK(cudaMalloc(&a, 1 << 16));
    CHECK(cudaMemset(a, 0, 1 << 16));
    loads<<<1, 32>>>(a), ran("loads", 0);
    stores<<<1, 32>>>(a), ran("stores", 0);
    atomics<<<1, 32>>>(a), ran("atomics", 0);
    copies<<<1, 32>>>(a), ran("copies", 80);
    bulk<<<1, 32>>>(a), ran("bulk", 90);
    on_chip<<<1, 32>>>((unsigned *)a), ran("on_chip", 0);
    matrix<<<1, 32>>>((unsigned *)a), ran("matrix", 0);
    local<<<1, 32>>>((unsigned *)a, 8), ran("local", 0);
    if (version >= 90)
        launch_cluster((unsigned *)a), ran("cluster", 90);
    return 0;
}
