// Thread block clusters as far as a device whose clusters are single CTAs goes.
#include "conf.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned u32;

// What the kernel is told about its cluster: rank, CTAs, index of the cluster, clusters in the grid.
static __global__ void shape(u32 *out)
{
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    if (threadIdx.x == 0) {
        u32 *at = out + blockIdx.x * 6, n, rank;
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        at[0] = cluster.block_rank();
        at[1] = cluster.num_blocks();
        at[2] = cluster.num_threads();
        at[3] = cluster.dim_blocks().x;
        at[4] = n;
        at[5] = rank;
    }
}
ROW("this_cluster() of a launch without clusters", "each CTA is its own: rank 0 of 1")
{
    conf::buffer<u32> out(r, 24);
    shape<<<4, 64>>>(out);
    out.is([](long i) {
        static const u32 want[] = {0, 1, 64, 1, 1, 0};
        return want[i % 6];
    });
    r.stores(24, 4);
}
static __global__ void remote(int *out)
{
    __shared__ int cell[32];
    cg::cluster_group cluster = cg::this_cluster();
    cell[threadIdx.x] = (int)threadIdx.x * 3;
    cluster.sync();
    int *mine = cluster.map_shared_rank(cell, 0);
    out[threadIdx.x] = mine[31 - threadIdx.x] + 1000 * (int)cluster.query_shared_rank(cell);
    cluster.barrier_wait(cluster.barrier_arrive());
}
ROW("map_shared_rank, query_shared_rank, barrier_arrive", "the CTA's own shared memory, rank 0")
{
    conf::buffer<int> out(r, 32);
    remote<<<1, 32>>>(out);
    out.is([](long i) { return (31 - i) * 3; });
    r.stores(32, 4);
}
static __global__ void by_asm(int *out)
{
    __shared__ int cell[32];
    u32 at = (u32)__cvta_generic_to_shared(cell + threadIdx.x), there, rank, value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(at));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(there));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(threadIdx.x * 7) : "memory");
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(at));
    asm volatile("red.shared::cluster.add.u32 [%0], 1;" ::"r"(there) : "memory");
    out[threadIdx.x] = (int)(value + rank * 1000) + cell[threadIdx.x] * 10000;
}
ROW("mapa, getctarank, ld, st and red.shared::cluster, barrier.cluster",
    "of rank 0; shared memory has no records")
{
    conf::buffer<int> out(r, 32);
    by_asm<<<1, 32>>>(out);
    out.is([](long i) { return i * 7 + (i * 7 + 1) * 10000; });
    r.stores(32, 4);
}
static cudaLaunchConfig_t config_of(int ctas, cudaLaunchAttribute *attribute, int per_cluster)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(ctas);
    config.blockDim = dim3(64);
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = per_cluster;
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    return config;
}
ROW("cudaLaunchKernelEx, clusters of one CTA", "runs as without")
{
    conf::buffer<u32> out(r, 24);
    cudaLaunchAttribute a;
    cudaLaunchConfig_t config = config_of(4, &a, 1);
    CONF_CALL(r, cudaLaunchKernelEx(&config, shape, (u32 *)out));
    out.is([](long i) { return i % 6 == 2 ? 64 : i % 6 == 1 || i % 6 == 3 || i % 6 == 4; });
    r.stores(24, 4);
}
ROW("cudaLaunchKernelEx, clusters of two CTAs",
    "as the device says (clusterLaunch): they are there, or the launch is an error")
{
    conf::buffer<u32> out(r, 24, [](long) { return 0; });
    cudaLaunchAttribute a;
    cudaLaunchConfig_t config = config_of(4, &a, 2);
    int can = -1;
    CONF_CALL(r, cudaDeviceGetAttribute(&can, cudaDevAttrClusterLaunch, 0));
    cudaError_t e = cudaLaunchKernelEx(&config, shape, (u32 *)out);
    if (!can) {
        r.check(e == cudaErrorNotSupported, "got %s", cudaGetErrorName(e));
        cudaGetLastError();
        return;
    }
    r.check(e == cudaSuccess, "got %s", cudaGetErrorName(e));
    out.is([](long i) { return i % 6 == 0 || i % 6 == 5 ? i / 6 % 2 : i % 6 == 2 ? 128 : 2; });
    r.stores(24, 4);
}
CONF_MAIN
