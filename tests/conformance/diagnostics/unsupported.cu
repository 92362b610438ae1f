// clang-format off: a diagnostic and its row share a line
// Instructions that the CPU device does not run: a warning with the line, and an error of the launch that reaches them.
#include <cuda_runtime.h>

__global__ void video(unsigned *p)
{
    asm("vmad.u32.u32.u32 %0, %1.b0, %2.b3, %1;" : "=r"(p[0]) : "r"(p[1]), "r"(p[2])); // row vmad | the CPU device lacks it | warning memtrace: the CPU device cannot run this
    asm volatile("wgmma.fence.sync.aligned;"); // row wgmma.fence | the CPU device lacks it | warning memtrace: the CPU device cannot run this
}
__global__ void bulk(const void *map, int *p)
{
    __shared__ __align__(128) int cell[64];
    __shared__ unsigned long long bar;
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2}], [%3], {%4};" ::"r"((unsigned)__cvta_generic_to_shared(cell)), "l"(map), "r"(0), "r"((unsigned)__cvta_generic_to_shared(&bar)), "h"((short)1) : "memory"); // row cp.async.bulk.tensor, im2col | maps are of tiles | warning memtrace: the CPU device cannot run this: inline asm: cp.async.bulk.tensor.
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2, %2, %2}], [%3];" ::"r"((unsigned)__cvta_generic_to_shared(cell)), "l"(map), "r"(0), "r"((unsigned)__cvta_generic_to_shared(&bar)) : "memory"); // row cp.async.bulk.tensor, gather4 | four rows of a place each | warning memtrace: the CPU device cannot run this: inline asm: cp.async.bulk.tensor.
    p[0] = cell[0];
}
extern __device__ int elsewhere(int);
__global__ void outside(int *p)
{
    p[0] = elsewhere(p[1]); // row function of another file | without -fgpu-rdc nobody defines it | warning memtrace: the CPU device cannot run this: call of .*elsewhere
}
