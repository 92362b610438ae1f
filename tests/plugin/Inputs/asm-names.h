// As nvcc takes it: one % before a name of PTX, where there are operands.
#define RANK(r) asm volatile("mov.u32 %0, %cluster_ctarank;\n" : "=r"(r))
static __device__ unsigned header_rank()
{
    unsigned r;
    RANK(r);
    return r;
}
