/* Appends one record of the running thread: a run of one lane (memtrace/device.h). */
#ifndef MT_BUILTIN_ACCESS_H
#define MT_BUILTIN_ACCESS_H
#include "builtin.h"
#include "memtrace/device.h"
#include "memtrace/record.h"
#define RECORD_MAX ((1u << 28) - 1) /* most bytes of one record */

/* Number of the image's first site, defined by the pass. It is 0, except in programs of several images
 * (-fgpu-rdc), where a kernel of one image runs functions of another. */
extern uint32_t __mt_site_base;

/* Returns the number of the running code's first site. */
static MT_INLINE uint32_t access_site_base(void)
{
    return __mt_site_base + mt_cpu_tls.site_base;
}

/* Records an access at `address`. Returns 1 if the access is bad and must not be made. */
static MT_INLINE bool access_append(uint64_t address, uint32_t meta, uint32_t site)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    struct mt_run_room room = {t->run, 0};
    uint32_t mask = 1u << t->laneid;
    site += access_site_base();
    if (__builtin_expect(room.run == t->run_end, 0))
        room = mt_cpu_run_room(address, 0, 0, mask, meta, site);
    *room.run = (struct mt_access_run){.base = address,
                                       .cta = t->run_cta,
                                       .smid = t->smid,
                                       .warp = t->warpid,
                                       .meta = meta,
                                       .site = site,
                                       .count = 1,
                                       .mask = mask};
    t->run = room.run + 1;
    return __builtin_expect(room.bad != 0, 0);
}

static MT_INLINE void access_record(uint64_t address, uint32_t meta, uint32_t site)
{
    if (access_append(address, meta, site))
        mt_cpu_run_bad();
}

/* Records an access at `address`. Returns the address to use for the access. */
static MT_INLINE uint64_t access_place(uint64_t address, uint32_t meta, uint32_t site)
{
    return access_append(address, meta, site) ? mt_cpu_run_nowhere(meta) : address;
}

/* Records a long block, as several records if it needs them. */
static MT_INLINE void access_block(uint64_t address, uint64_t bytes, uint32_t type, uint32_t site)
{
    while (bytes) {
        uint64_t n = bytes < RECORD_MAX ? bytes : RECORD_MAX;
        access_record(address, (uint32_t)(type << 28 | n), site);
        address += n;
        bytes -= n;
    }
}

/* ---- accesses to memory other than global, as traces state them ---- */
/* Returns whether non-global accesses are recorded: only compact traces have them. */
static MT_INLINE bool spaces_wanted(void)
{
    return mt_cpu_tls.compact != 0;
}

/* Returns whether the address is in another CTA's shared memory. */
static MT_INLINE bool spaces_of_cluster(uint64_t p)
{
    const uint32_t *n = mt_cpu_tls.cluster;
    return p - (uint64_t)mt_cpu_tls.cluster_shared < mt_cpu_tls.cluster_stride * n[0] * n[1] * n[2];
}

/* Returns the offset of an address in the CTA's shared memory. The address is a pointer, or PTX's 32-bit
 * form (see mt_asm_shared_address). For the memory of another CTA of the cluster, the upper half is that
 * CTA's number + 1. */
static MT_INLINE uint64_t spaces_shared(uint64_t p)
{
    uint64_t base = (uint64_t)mt_cpu_tls.shared, stride = mt_cpu_tls.cluster_stride;
    if (p >> 32 == 0)
        p = mt_shared_whole((uint32_t)p, base);
    if (__builtin_expect(p - base < mt_cpu_tls.shared_bytes || !spaces_of_cluster(p), 1))
        return p - base;
    uint64_t at = p - (uint64_t)mt_cpu_tls.cluster_shared;
    return (at / stride + 1) << 32 | at % stride;
}

/* Makes an access to the counter of the grid's barrier one of the barrier itself. Returns false for a store.
 */
static MT_INLINE bool spaces_grid(uint64_t *address, uint32_t *type)
{
    uint32_t op = *type;
    *address = 0;
    *type = op == MT_ATOMIC ? MT_SYNC_ARRIVE : MT_SYNC_BARRIER;
    return op != MT_STORE;
}

/* Classifies a generic pointer. *type holds the operation and, << 2, the spaces to record besides global
 * memory. Returns false if there is nothing to record; else *type and *address become those of the trace. */
static MT_INLINE bool spaces_of(uint64_t *address, uint32_t *type)
{
    uint32_t wanted = *type >> 2, op = *type & 3;
    uint64_t p = *address;
    bool shared = p - (uint64_t)mt_cpu_tls.shared < mt_cpu_tls.shared_bytes || spaces_of_cluster(p);
    *type = op;
    if (mt_is_global(p))
        return true;
    if (!spaces_wanted() || mt_cpu_is_constant((const void *)p))
        return false;
    if (wanted & 1 && mt_cpu_tls.grid_workspace && p - (uint64_t)mt_cpu_tls.grid_workspace < MT_WORKSPACE)
        return spaces_grid(address, type);
    if (!(wanted & (shared ? 1 : 2)))
        return false;
    *type = mt_rec_type_in(op, shared ? MT_IN_SHARED : MT_IN_LOCAL);
    *address = shared ? spaces_shared(p) : p & 0xffffff;
    return true;
}

/* Returns the address of an mbarrier with MT_MBARRIER_… in its lower bits. */
static MT_INLINE uint64_t spaces_object(uint64_t p)
{
    return spaces_shared(p & ~(uint64_t)MT_MBARRIER_FLAGS) | (p & MT_MBARRIER_FLAGS);
}

/* Returns the address of an mbarrier with its phase: the present one, or after a wait the one before. */
static MT_INLINE uint64_t access_phase(uint64_t p, uint32_t type)
{
    const uint64_t *object =
        (const uint64_t *)(p >> 32 ? p : mt_shared_whole((uint32_t)p, (uint64_t)mt_cpu_tls.shared));
    return spaces_shared(p) | (*object >> 63 ^ (type == MT_SYNC_BARRIER));
}
#endif
