/* Kernels for ../inject/play.c under the probe: what the probe's patches would write. */
#include "device.h"
#include "probe.h"

uint64_t device_code(const void *data)
{
    (void)data;
    return 0;
}

int device_totals(const void *data)
{
    (void)data;
    return 0;
}

void device_store(const void *data, uint32_t cta, uint32_t lanes, uint64_t address, uint32_t site)
{
    struct probe_counts *c = (struct probe_counts *)(uintptr_t)data;
    (void)cta, (void)address, (void)site;
    __atomic_fetch_add(&c->accesses, lanes, __ATOMIC_RELAXED);
    c->access_pc = 0x7f1234560040;
    ((volatile struct probe_seen *)(uintptr_t)c->seen)->began = 1;
}

void device_exit(const void *data, uint32_t cta, uint32_t lanes, uint64_t all)
{
    struct probe_counts *c = (struct probe_counts *)(uintptr_t)data;
    (void)cta, (void)all;
    ((volatile struct probe_seen *)(uintptr_t)c->seen)->ended =
        __atomic_add_fetch(&c->exits, lanes, __ATOMIC_RELAXED);
}
