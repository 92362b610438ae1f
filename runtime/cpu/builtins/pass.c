/* Builtins that the pass itself calls (llvm-pass/lower/shared.c, kernels.c),
 * beside those that stand for intrinsics. */
#include "format/image.h"

/* Start of this CTA's shared memory. */
void *mtb_shared_base(void)
{
    return mt_cpu_tls.shared;
}

/* Which warps of the CTA a call is to run. */
uint32_t mtb_warp_first(void)
{
    return mt_cpu_tls.warp_first;
}
uint32_t mtb_warp_end(void)
{
    return mt_cpu_tls.warp_end;
}

/* Where a warp's lanes call one after the other: these are the thread's coordinates now. */
void mtb_set_thread(uint32_t x, uint32_t y, uint32_t z, uint32_t linear)
{
    mt_cpu_tls.tid[0] = x;
    mt_cpu_tls.tid[1] = y;
    mt_cpu_tls.tid[2] = z;
    mt_cpu_tls.laneid = linear & 31;
    mt_cpu_tls.warpid = linear >> 5;
}
