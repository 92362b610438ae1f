// Inline assembly of CUDA's own headers: that of the number types is emitted whether called or not.
#include <cmath>
#include <cstring>
#include <nv/target>
#define inline inline __attribute__((used))
#define __inline__ __inline__ __attribute__((used))
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#undef inline
#undef __inline__
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cub/cub.cuh>
__global__ void keep(int *data, __half2 *h, __nv_bfloat162 *b)
{
    using Reduce = cub::BlockReduce<int, 128>;
    using Scan = cub::BlockScan<int, 128>;
    using Sort = cub::BlockRadixSort<int, 128, 4>;
    __shared__ typename Reduce::TempStorage reduce;
    __shared__ typename Scan::TempStorage scan;
    __shared__ typename Sort::TempStorage sort;
    int v = data[threadIdx.x], items[4] = {v, v + 1, v + 2, v + 3};
    v = Reduce(reduce).Sum(v);
    Scan(scan).ExclusiveSum(v, v);
    Sort(sort).Sort(items);
    cuda::atomic_ref<int, cuda::thread_scope_device> ref(data[0]);
    ref.fetch_add(v, cuda::memory_order_acq_rel);
    ref.store(items[0] + ref.load(cuda::memory_order_acquire), cuda::memory_order_release);
    auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
    data[threadIdx.x] = cooperative_groups::reduce(tile, v, cooperative_groups::plus<int>());
    data[threadIdx.x] += cooperative_groups::exclusive_scan(tile, v);
    atomicAdd(h, *h);
    atomicAdd(b, *b);
    cooperative_groups::this_grid().sync();
}
