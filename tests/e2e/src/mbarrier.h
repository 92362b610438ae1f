/* mbarriers in shared memory. */
#pragma once

typedef unsigned long long object;

__device__ __forceinline__ unsigned place(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void begin(object *o, unsigned count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(place(o)), "r"(count) : "memory");
}

/* By thread 0, for all. */
__device__ __forceinline__ void set_up(object *o, unsigned count)
{
    if (threadIdx.x == 0)
        begin(o, count);
    __syncthreads();
}

__device__ __forceinline__ void arrive(object *o)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(place(o)) : "memory");
}

/* As many programs have it: a loop within the assembly. */
__device__ __forceinline__ void wait_for(object *o, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n"
                 "@over bra DONE;\n"
                 "bra AGAIN;\n"
                 "DONE:\n"
                 "}" ::"r"(place(o)),
                 "r"(parity)
                 : "memory");
}
