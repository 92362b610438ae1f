/* MEMTRACE_CHANNEL=warp: the CPU device records as a GPU does. Lanes of a warp that are at the same access
 * meet there and run runtime/device/record.c, compiled for the CPU with channel_warp.h; the rings are in host
 * memory, runtime/gpu reads them. */
#ifndef MT_CPU_CHANNEL_H
#define MT_CPU_CHANNEL_H
#include <stdint.h>

extern int mt_channel_on;
/* An access of the running device thread. Returns where mt_cpu_trace_room's caller may write its record,
 * which nobody reads. */
uint64_t *mt_channel_access(uint64_t address, uint32_t meta, uint32_t site, uint64_t place);
void mt_channel_block(uint64_t address, uint64_t bytes, uint32_t type, uint32_t site, uint64_t place);
/* A launch with a channel has failed. */
void mt_channel_fail(void);
#endif
