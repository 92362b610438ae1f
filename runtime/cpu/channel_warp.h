/* Stands in for runtime/device/warp.h: record.c compiled for the threads of the CPU device.
 * Included before everything. */
#ifndef MT_DEVICE_WARP_H
#define MT_DEVICE_WARP_H
#include <stdint.h>
#include "abi.h"
#include "../device/memory_host.h"

uint32_t mt_channel_active(void);
uint32_t mt_channel_lane(void);
uint32_t mt_channel_warp(void);
uint64_t mt_channel_shuffle(uint32_t mask, uint64_t value, uint32_t lane);
uint32_t mt_channel_ballot(uint32_t mask, int condition);
void mt_channel_sleep(void);

static inline uint32_t mt_active(void)
{
    return mt_channel_active();
}
static inline uint32_t mt_lane(void)
{
    return mt_channel_lane();
}
static inline uint32_t mt_warp(void)
{
    return mt_channel_warp();
}
static inline uint32_t mt_sm(void)
{
    return mt_cpu_tls.smid;
}
static inline uint32_t mt_cta_x(void)
{
    return mt_cpu_tls.ctaid[0];
}
static inline uint32_t mt_cta_y(void)
{
    return mt_cpu_tls.ctaid[1];
}
static inline uint32_t mt_cta_z(void)
{
    return mt_cpu_tls.ctaid[2];
}
static inline uint32_t mt_grid_x(void)
{
    return mt_cpu_tls.nctaid[0];
}
static inline uint32_t mt_grid_y(void)
{
    return mt_cpu_tls.nctaid[1];
}
static inline uint64_t mt_shuffle(uint32_t mask, uint64_t value, uint32_t lane)
{
    return mt_channel_shuffle(mask, value, lane);
}
static inline uint32_t mt_shuffle_half(uint32_t mask, uint32_t value, uint32_t lane)
{
    return (uint32_t)mt_channel_shuffle(mask, value, lane);
}
static inline uint32_t mt_ballot(uint32_t mask, int condition)
{
    return mt_channel_ballot(mask, condition);
}
static inline int mt_all(uint32_t mask, int condition)
{
    return mt_channel_ballot(mask, condition) == mask;
}
/* The image has added it. */
static inline uint32_t mt_site_base(void)
{
    return 0;
}

static inline void mt_store_pair(uint64_t *p, uint64_t a, uint64_t b)
{
    mt_store(&p[0], a);
    mt_store(&p[1], b);
}
static inline void mt_sleep(uint32_t ns)
{
    (void)ns;
    mt_channel_sleep();
}
#endif
