/* Where accesses are that are not of global memory alone, as traces say it. */
#ifndef MT_BUILTIN_ACCESS_SPACES_H
#define MT_BUILTIN_ACCESS_SPACES_H
#include "access.h"
#include "memtrace/record.h"

/* Words are whole in compact traces; in raw ones only the lower half is. */
static MT_INLINE bool spaces_wanted(void)
{
    return mt_cpu_tls.site_mask >> 32 != 0;
}

/* Where in the CTA's shared memory an address lies: a pointer, or what PTX has in 32 bits (see
 * mt_asm_shared_address). In the memory of another CTA of the cluster: the CTA's number + 1 in the upper
 * half. */
static MT_INLINE uint64_t spaces_shared(uint64_t p)
{
    uint64_t base = (uint64_t)mt_cpu_tls.shared, stride = mt_cpu_tls.cluster_stride;
    if (p >> 32 == 0)
        p = mt_shared_whole((uint32_t)p, base);
    if (__builtin_expect(p - base < mt_cpu_tls.shared_bytes || !stride, 1))
        return p - base;
    uint64_t at = p - (uint64_t)mt_cpu_tls.cluster_shared;
    return (at / stride + 1) << 32 | at % stride;
}

/* Is it another CTA's shared memory? */
static MT_INLINE bool spaces_of_cluster(uint64_t p)
{
    const uint32_t *n = mt_cpu_tls.cluster;
    return p - (uint64_t)mt_cpu_tls.cluster_shared < mt_cpu_tls.cluster_stride * n[0] * n[1] * n[2];
}

/* A generic pointer. meta's type: what is done | spaces to be recorded besides global memory << 2.
 * 0: nothing to record; else the type, with *address as the trace has it. */
static MT_INLINE bool spaces_of(uint64_t *address, uint32_t *type)
{
    uint32_t wanted = *type >> 2, op = *type & 3;
    uint64_t p = *address;
    bool shared = p - (uint64_t)mt_cpu_tls.shared < mt_cpu_tls.shared_bytes || spaces_of_cluster(p);
    *type = op;
    if (mt_is_global(p))
        return true;
    if (!spaces_wanted() || mt_cpu_is_constant((const void *)p) || !(wanted & (shared ? 1 : 2)))
        return false;
    *type = mt_rec_type_in(op, shared ? MT_IN_SHARED : MT_IN_LOCAL);
    *address = shared ? spaces_shared(p) : p & 0xffffff;
    return true;
}

/* An mbarrier: its address with MT_MBARRIER_… in its lower bits. */
static MT_INLINE uint64_t spaces_object(uint64_t p)
{
    return spaces_shared(p & ~(uint64_t)MT_MBARRIER_FLAGS) | (p & MT_MBARRIER_FLAGS);
}

/* The same, which phase is to be found out: the one it is in, after a wait the one before. */
static MT_INLINE uint64_t spaces_phase(uint64_t p, uint32_t type)
{
    const uint64_t *object =
        (const uint64_t *)(p >> 32 ? p : mt_shared_whole((uint32_t)p, (uint64_t)mt_cpu_tls.shared));
    return spaces_shared(p) | (*object >> 63 ^ (type == MT_SYNC_BARRIER));
}
#endif
