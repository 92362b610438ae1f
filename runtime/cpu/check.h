/* MEMTRACE_CHECK=1: each recorded access is looked at before it happens. Internal to the CPU device; the
 * interface to the API layer is in cpu.h. */
#ifndef MT_CPU_CHECK_H
#define MT_CPU_CHECK_H
#include <stdint.h>

struct mt_pool_launch;

/* 1: on. Set before the first worker starts. */
extern int mt_check_on;
/* Before an access of this worker's device thread at `site` of the image that the code at `caller` is in:
 * returns when it is fine. Otherwise it is reported, the launch is marked and the thread ends. */
void mt_check_access(uint64_t address, uint32_t meta, uint32_t site, const void *caller);
/* … of the warp whose fiber runs, by these lanes, at address[lane]: the warp ends. */
void mt_check_warp(const uint64_t *address, uint32_t lanes, uint32_t meta, uint32_t site, const void *caller);
/* The launch has ended: tells the API layer if it had bad accesses. Returns the launch's status. */
int mt_check_result(struct mt_pool_launch *run);
#endif
