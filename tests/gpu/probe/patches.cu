// The probe's patches: they count what they are called for.
#include "probe.h"

extern "C" __device__ __noinline__ int probe_exit(void *data, uint64_t pc)
{
    probe_counts *c = (probe_counts *)data;
    if (!c)
        return 0;
    uint32_t n = atomicAdd(&c->exits, 1) + 1;
    c->exit_pc = pc;
    ((volatile probe_seen *)c->seen)->ended = n;
    return 0;
}

extern "C" __device__ __noinline__ int probe_access(void *data, uint64_t pc, void *address, uint32_t size,
                                                    uint32_t flags, const void *value)
{
    probe_counts *c = (probe_counts *)data;
    if (!c)
        return 0;
    atomicAdd(&c->accesses, 1);
    c->access_pc = pc;
    ((volatile probe_seen *)c->seen)->began = 1;
    return 0;
}
