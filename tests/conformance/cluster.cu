// conformance: levels -O1 -O0
// Thread block clusters: shapes, distributed shared memory, barriers, what the runtime says of them.
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
ROW_OUT("map_shared_rank, query_shared_rank, barrier_arrive", "the CTA's own shared memory, rank 0", int, 32,
        (remote<<<1, 32>>>(out)), (31 - i) * 3)
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
static bool has_clusters(conf::row &r)
{
    int can = 0;
    CONF_CALL(r, cudaDeviceGetAttribute(&can, cudaDevAttrClusterLaunch, 0));
    if (!can)
        r.skip("the device has no clusters");
    return can != 0;
}
ROW("cudaLaunchKernelEx, clusters of two CTAs", "ranks, CTAs and threads of the cluster")
{
    if (!has_clusters(r))
        return;
    conf::buffer<u32> out(r, 24);
    cudaLaunchAttribute a;
    cudaLaunchConfig_t config = config_of(4, &a, 2);
    CONF_CALL(r, cudaLaunchKernelEx(&config, shape, (u32 *)out));
    out.is([](long i) { return i % 6 == 0 || i % 6 == 5 ? i / 6 % 2 : i % 6 == 2 ? 128 : 2; });
    r.stores(24, 4);
}

// ---- special registers ----

enum { WORDS = 15 };
static __device__ void registers(u32 *out)
{
    u32 *at = out + (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) * WORDS, word[WORDS];
    asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(word[0]));
    asm volatile("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(word[1]));
    asm volatile("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(word[2]));
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(word[3]));
    asm volatile("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(word[4]));
    asm volatile("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(word[5]));
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(word[6]));
    asm volatile("mov.u32 %0, %%clusterid.y;" : "=r"(word[7]));
    asm volatile("mov.u32 %0, %%clusterid.z;" : "=r"(word[8]));
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(word[9]));
    asm volatile("mov.u32 %0, %%nclusterid.y;" : "=r"(word[10]));
    asm volatile("mov.u32 %0, %%nclusterid.z;" : "=r"(word[11]));
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(word[12]));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(word[13]));
    asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }"
                 : "=r"(word[14]));
    for (int i = 0; i < WORDS; i++)
        at[i] = word[i];
}

static __global__ void plain_registers(u32 *out)
{
    registers(out);
}
static __global__ void __cluster_dims__(2, 1, 1) pair_registers(u32 *out)
{
    registers(out);
}
template <int Y> static __global__ void __cluster_dims__(2, Y, 1) square_registers(u32 *out)
{
    registers(out);
}
// CTA `i` of a grid, in clusters of `size`.
static u32 register_of(long i, int word, dim3 grid, dim3 size, bool given)
{
    u32 at[] = {(u32)(i % grid.x), (u32)(i / grid.x % grid.y), (u32)(i / grid.x / grid.y)};
    u32 n[] = {size.x, size.y, size.z}, all[] = {grid.x, grid.y, grid.z}, k = word % 3;
    if (word < 12)
        return word < 3 ? at[k] % n[k] : word < 6 ? n[k] : word < 9 ? at[k] / n[k] : all[k] / n[k];
    u32 rank = at[0] % n[0] + n[0] * (at[1] % n[1] + n[1] * (at[2] % n[2]));
    return word == 12 ? rank : word == 13 ? n[0] * n[1] * n[2] : given;
}
static void registers_are(conf::row &r, void (*kernel)(u32 *), dim3 grid, dim3 size, bool given,
                          bool by_launch)
{
    long ctas = (long)grid.x * grid.y * grid.z;
    conf::buffer<u32> out(r, ctas * WORDS);
    cudaLaunchAttribute a;
    cudaLaunchConfig_t config = config_of(1, &a, 1);
    config.gridDim = grid;
    config.blockDim = dim3(1);
    a.val.clusterDim.x = size.x;
    a.val.clusterDim.y = size.y;
    a.val.clusterDim.z = size.z;
    config.numAttrs = by_launch;
    CONF_CALL(r, cudaLaunchKernelEx(&config, kernel, (u32 *)out));
    out.is([&](long i) { return register_of(i / WORDS, (int)(i % WORDS), grid, size, given); });
    r.stores(ctas * WORDS, 4);
}
ROW_OF("%cluster_ctaid, %cluster_nctaid, %clusterid, %nclusterid, ranks, %is_explicit_cluster",
       "a launch without clusters",
       registers_are(r, plain_registers, dim3(3, 2, 2), dim3(1, 1, 1), false, false))
ROW_OF("the same with __cluster_dims__(2, 1, 1)", "six CTAs",
       if (has_clusters(r)) registers_are(r, pair_registers, dim3(6, 2, 1), dim3(2, 1, 1), true, false))
ROW_OF("the same with __cluster_dims__ of a template", "a grid of 4 x 4 x 2",
       if (has_clusters(r)) registers_are(r, square_registers<2>, dim3(4, 4, 2), dim3(2, 2, 1), true, false))
ROW("the same with the launch's attribute", "clusters of 1 x 2 x 3 CTAs; the size that __cluster_dims__ has")
{
    if (!has_clusters(r))
        return;
    registers_are(r, plain_registers, dim3(2, 4, 6), dim3(1, 2, 3), true, true);
    registers_are(r, pair_registers, dim3(4, 1, 1), dim3(2, 1, 1), true, true);
}

// ---- distributed shared memory ----

// Each CTA stores into the next one's shared memory and reads all others'.
static __global__ void __cluster_dims__(4, 1, 1) ring(int *out)
{
    __shared__ int cell[64];
    cg::cluster_group cluster = cg::this_cluster();
    u32 rank = cluster.block_rank(), n = cluster.num_blocks(), t = threadIdx.x;
    cluster.sync();
    cluster.map_shared_rank(cell, (rank + 1) % n)[t] = (int)(blockIdx.x * 100 + t);
    cluster.sync();
    int sum = 0;
    for (u32 k = 0; k < n; k++)
        sum += cluster.map_shared_rank(cell, k)[63 - t] * (int)(k + 1);
    out[blockIdx.x * 64 + t] = sum;
    cluster.sync();
}
ROW("map_shared_rank, cluster.sync", "stores into the next CTA's shared memory, loads of all four")
{
    if (!has_clusters(r))
        return;
    conf::buffer<int> out(r, 12 * 64);
    ring<<<12, 64>>>(out);
    out.is([](long i) {
        int sum = 0;
        for (int k = 0; k < 4; k++)
            sum += ((int)(i / 256) * 4 + (k + 3) % 4) * 100 * (k + 1) + (63 - (int)(i % 64)) * (k + 1);
        return sum;
    });
    r.stores(12 * 64, 4);
}
// Bins are spread over the CTAs of a cluster; a thread adds wherever its bin is.
static __global__ void bins(const int *in, int *out, int per_cta)
{
    extern __shared__ int bin[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < per_cta; i += blockDim.x)
        bin[i] = 0;
    cluster.sync();
    int v = in[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(cluster.map_shared_rank(bin, v / per_cta) + v % per_cta, 1);
    cluster.sync();
    for (int i = threadIdx.x; i < per_cta; i += blockDim.x)
        atomicAdd(out + cluster.block_rank() * per_cta + i, bin[i]);
}
ROW("atomicAdd in distributed shared memory",
    "a histogram of 4096 numbers in clusters of 8 CTAs, 60000 bytes each")
{
    if (!has_clusters(r))
        return;
    enum { N = 4096, EACH = 15000 };
    conf::buffer<int> in(r, N, [](long i) { return (int)(i * 7919 % (8 * EACH)); });
    conf::buffer<int> out(r, 8 * EACH, [](long) { return 0; });
    cudaLaunchAttribute a;
    cudaLaunchConfig_t config = config_of(N / 64, &a, 8);
    config.dynamicSmemBytes = EACH * sizeof(int);
    CONF_CALL(r, cudaFuncSetAttribute(bins, cudaFuncAttributeMaxDynamicSharedMemorySize, EACH * sizeof(int)));
    CONF_CALL(r, cudaLaunchKernelEx(&config, bins, (const int *)in, (int *)out, (int)EACH));
    static int want[8 * EACH];
    memset(want, 0, sizeof want);
    for (long i = 0; i < N; i++)
        want[i * 7919 % (8 * EACH)]++;
    out.is([](long i) { return want[i]; });
    r.loads(N, 4);
    r.atomics(N / 512 * 8 * EACH, 4);
}
static __global__ void __cluster_dims__(2, 1, 1) far_by_asm(int *out)
{
    __shared__ int cell[32];
    u32 own = (u32)__cvta_generic_to_shared(cell + threadIdx.x), rank, there, back, of, value, old;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(1 - rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(back) : "r"(there), "r"(rank));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of) : "r"(there));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(blockIdx.x * 50 + threadIdx.x)
                 : "memory");
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
    asm volatile("red.shared::cluster.add.u32 [%0], 1000;" ::"r"(there) : "memory");
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there));
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(old) : "r"(own));
    out[blockIdx.x * 32 + threadIdx.x] = (int)(value * 10 + of + (back == own ? 100000 : 0) + old * 1000000);
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
ROW("mapa, getctarank, ld, st and red.shared::cluster of the other CTA",
    "addresses of 32 bits; there and back")
{
    if (!has_clusters(r))
        return;
    conf::buffer<int> out(r, 128);
    far_by_asm<<<4, 32>>>(out);
    out.is([](long i) {
        long cta = i / 32, mate = cta ^ 1;
        u32 there = (u32)(cta * 50 + i % 32 + 1000), own = (u32)(mate * 50 + i % 32 + 1000);
        return (int)(there * 10 + (u32)(mate % 2) + 100000 + own * 1000000);
    });
    r.stores(128, 4);
}
static __global__ void __cluster_dims__(2, 1, 1) spaces(int *out)
{
    __shared__ int cell;
    int local = 0;
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    const void *p[] = {&cell, cluster.map_shared_rank(&cell, 1 - cluster.block_rank()), out, &local};
    for (int i = 0; i < 4; i++)
        out[blockIdx.x * 4 + i] = (int)(__isShared(p[i]) + 2 * __isClusterShared(p[i]) +
                                        4 * __isGlobal(p[i]) + 8 * __isLocal(p[i]));
    cluster.sync();
}
ROW("isspacep of own, the other CTA's, global and local memory",
    "the other CTA's is shared::cluster and no more")
{
    if (!has_clusters(r))
        return;
    conf::buffer<int> out(r, 8);
    spaces<<<2, 1>>>(out);
    out.is([](long i) {
        static const int want[] = {3, 2, 4, 8};
        return want[i % 4];
    });
    r.stores(8, 4);
}

// ---- barriers ----

// Between arriving and waiting the CTA has barriers of its own; some threads exit before, some between.
static __global__ void __cluster_dims__(2, 2, 1) split(int *out, int rounds)
{
    __shared__ int said, seen;
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, cta = blockIdx.x + gridDim.x * blockIdx.y, sum = 0;
    if (t % 7 == 6)
        return;
    for (int i = 0; i < rounds; i++) {
        if (t == 0)
            said = cta * 1000 + i;
        cg::cluster_group::arrival_token token = cluster.barrier_arrive();
        asm volatile("bar.sync 0;");
        if (t == 0)
            seen = said;
        asm volatile("bar.sync 0;");
        int own = seen;
        cluster.barrier_wait(static_cast<cg::cluster_group::arrival_token &&>(token));
        for (u32 k = 0; k < 4; k++)
            sum += *cluster.map_shared_rank(&said, k) * (int)(k + 1) - own % 1000;
        cluster.sync();
        if (t == 20 + i)
            return;
    }
    out[cta * 64 + t] = sum;
}
ROW("barrier.cluster.arrive, bar.sync, barrier.cluster.wait", "20 rounds; threads exit before and in between")
{
    if (!has_clusters(r))
        return;
    enum { ROUNDS = 20 };
    conf::buffer<int> out(r, 8 * 64, [](long) { return -1; });
    split<<<dim3(4, 2), 64>>>(out, ROUNDS);
    auto stays = [](int t) { return t % 7 != 6 && !(t >= 20 && t < 20 + ROUNDS); };
    out.is([&](long i) {
        int cta = (int)i / 64, x = cta % 4 / 2 * 2, sum = 0;
        for (int k = 0; k < ROUNDS; k++)
            for (int rank = 0; rank < 4; rank++)
                sum += ((x + rank % 2 + rank / 2 * 4) * 1000 + k) * (rank + 1) - k;
        return stays((int)i % 64) ? sum : -1;
    });
    int n = 0;
    for (int t = 0; t < 64; t++)
        n += stays(t);
    r.stores(8 * n, 4);
}
// CTAs of a cluster hand a number round and round by spinning on each other's shared memory.
static __global__ void __cluster_dims__(8, 1, 1) relay(int *out, int rounds)
{
    __shared__ volatile int turn;
    cg::cluster_group cluster = cg::this_cluster();
    u32 rank = cluster.block_rank();
    if (threadIdx.x == 0)
        turn = -1;
    cluster.sync();
    volatile int *next = cluster.map_shared_rank((int *)&turn, (rank + 1) % 8);
    if (threadIdx.x == 0) {
        if (rank == 0)
            turn = 0;
        for (int i = 0; i < rounds; i++) {
            while (turn != i * 8 + (int)rank)
                ;
            *next = i * 8 + (int)rank + 1;
        }
    }
    cluster.sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = turn;
}
ROW("spinning on distributed shared memory", "8 CTAs of 1024 threads, 10 rounds, three clusters")
{
    if (!has_clusters(r))
        return;
    conf::buffer<int> out(r, 24 * 1024);
    relay<<<24, 1024>>>(out, 10);
    out.is([](long i) { return i / 1024 % 8 ? 72 + (int)(i / 1024 % 8) : 80; });
    r.stores(24 * 1024, 4);
}
// Threads of all CTAs arrive at an mbarrier of the first one.
static __global__ void __cluster_dims__(4, 1, 1) remote_mbarrier(int *out)
{
    __shared__ unsigned long long bar;
    __shared__ int cell[4];
    cg::cluster_group cluster = cg::this_cluster();
    u32 at = (u32)__cvta_generic_to_shared(&bar), far, done = 0, rank = cluster.block_rank();
    if (threadIdx.x == 0 && rank == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(at) : "memory");
    cluster.sync();
    if (threadIdx.x == 0) {
        cluster.map_shared_rank(cell, 0)[rank] = (int)(blockIdx.x * 10 + 1);
        asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(far) : "r"(at));
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far) : "memory");
    }
    if (rank == 0) {
        while (!done)
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; "
                "selp.u32 %0, 1, 0, p; }"
                : "=r"(done)
                : "r"(at)
                : "memory");
        out[blockIdx.x / 4 * 32 + threadIdx.x] = cell[0] + cell[1] * 2 + cell[2] * 3 + cell[3] * 4;
    }
    cluster.sync();
}
ROW("mbarrier.arrive.shared::cluster of another CTA", "the first CTA waits for one thread of each of four")
{
    if (!has_clusters(r))
        return;
    conf::buffer<int> out(r, 64);
    remote_mbarrier<<<8, 32>>>(out);
    out.is([](long i) {
        int first = (int)i / 32 * 4, sum = 0;
        for (int k = 0; k < 4; k++)
            sum += ((first + k) * 10 + 1) * (k + 1);
        return sum;
    });
    r.stores(64, 4);
}

// ---- the runtime ----

ROW("cudaFuncGetAttributes, cudaFuncSetAttribute of clusters",
    "required sizes, compiled in or set; occupancy")
{
    if (!has_clusters(r))
        return;
    cudaFuncAttributes a = {};
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = config_of(4, &attribute, 2);
    int n = 0;
    CONF_CALL(r, cudaFuncGetAttributes(&a, square_registers<2>));
    r.check(a.requiredClusterWidth == 2 && a.requiredClusterHeight == 2 && a.requiredClusterDepth == 1,
            "required %d %d %d", a.requiredClusterWidth, a.requiredClusterHeight, a.requiredClusterDepth);
    cudaError_t e = cudaFuncSetAttribute(pair_registers, cudaFuncAttributeRequiredClusterWidth, 4);
    r.check(e == cudaErrorNotPermitted && e == cudaGetLastError(), "set: %s", cudaGetErrorName(e));
    CONF_CALL(r, cudaOccupancyMaxPotentialClusterSize(&n, square_registers<2>, &config));
    r.check(n == 4, "potential size %d", n);
    CONF_CALL(r, cudaOccupancyMaxPotentialClusterSize(&n, plain_registers, &config));
    r.check(n >= 8, "potential size %d", n);
    CONF_CALL(r, cudaOccupancyMaxActiveClusters(&n, plain_registers, &config));
    r.check(n >= 1, "active %d", n);
    CONF_CALL(r, cudaFuncSetAttribute(shape, cudaFuncAttributeRequiredClusterWidth, 2));
    CONF_CALL(r, cudaFuncSetAttribute(shape, cudaFuncAttributeRequiredClusterHeight, 1));
    CONF_CALL(r, cudaFuncSetAttribute(shape, cudaFuncAttributeRequiredClusterDepth, 1));
    conf::buffer<u32> out(r, 24);
    shape<<<4, 64>>>(out);
    out.is([](long i) { return i % 6 == 0 || i % 6 == 5 ? i / 6 % 2 : i % 6 == 2 ? 128 : 2; });
    r.stores(24, 4);
    for (int k = 0; k < 3; k++)
        CONF_CALL(r, cudaFuncSetAttribute(shape,
                                          (cudaFuncAttribute)(cudaFuncAttributeRequiredClusterWidth + k), 0));
}
ROW("launches with clusters that cannot be", "each is an error, and nothing runs")
{
    if (!has_clusters(r))
        return;
    conf::buffer<u32> out(r, 32 * WORDS, [](long) { return 7; });
    const struct {
        void (*kernel)(u32 *);
        int ctas, per_cluster;
    } bad[] = {{plain_registers, 3, 2}, {plain_registers, 32, 16}, {plain_registers, 9, 9},
               {pair_registers, 8, 4},  {pair_registers, 3, 0},    {square_registers<2>, 4, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cudaLaunchAttribute a;
        cudaLaunchConfig_t config = config_of(bad[i].ctas, &a, bad[i].per_cluster);
        config.numAttrs = bad[i].per_cluster != 0;
        cudaError_t e = cudaLaunchKernelEx(&config, bad[i].kernel, (u32 *)out);
        r.check(e != cudaSuccess && e == cudaGetLastError(), "launch %d: %s", (int)i, cudaGetErrorName(e));
    }
    CONF_CALL(r, cudaDeviceSynchronize());
    out.is([](long) { return 7; });
}
CONF_MAIN
