/* Stands in for runtime/device/warp.h: record.c compiled for host threads, one per lane. Lanes of a warp meet
 * at warp operations like those of a GPU; which lanes run together is what the test says. Included before
 * everything. */
#ifndef MT_DEVICE_WARP_H
#define MT_DEVICE_WARP_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include "device/memory_host.h"
#include "device/packet.h"

struct host_warp {
    pthread_barrier_t meet; /* of the lanes in `mask` */
    uint32_t mask;
    uint64_t values[32];
};
struct host_thread {
    struct host_warp *warp;
    uint32_t lane, warp_index, sm, cta[3], grid[2];
    uint64_t context;                         /* of the launch: the kernel's hidden parameter */
    uintptr_t not_global_from, not_global_to; /* addresses of other memory */
    const uint32_t *site_base;                /* of the file that the code is in; NULL: 0 */
};
extern _Thread_local struct host_thread host_thread;

static inline uint32_t mt_active(void)
{
    pthread_barrier_wait(&host_thread.warp->meet); /* these lanes are all here, as on a GPU */
    return host_thread.warp->mask;
}
static inline uint32_t mt_lane(void)
{
    return host_thread.lane;
}
static inline uint32_t mt_warp(void)
{
    return host_thread.warp_index;
}
static inline uint32_t mt_sm(void)
{
    return host_thread.sm;
}
static inline uint32_t mt_cta_x(void)
{
    return host_thread.cta[0];
}
static inline uint32_t mt_cta_y(void)
{
    return host_thread.cta[1];
}
static inline uint32_t mt_cta_z(void)
{
    return host_thread.cta[2];
}
static inline uint32_t mt_grid_x(void)
{
    return host_thread.grid[0];
}
static inline uint32_t mt_grid_y(void)
{
    return host_thread.grid[1];
}
static inline uint64_t mt_shuffle(uint32_t mask, uint64_t value, uint32_t lane)
{
    struct host_warp *w = host_thread.warp;
    w->values[host_thread.lane] = value;
    pthread_barrier_wait(&w->meet);
    uint64_t got = w->values[lane];
    pthread_barrier_wait(&w->meet);
    return got;
}
static inline uint32_t mt_shuffle_half(uint32_t mask, uint32_t value, uint32_t lane)
{
    return (uint32_t)mt_shuffle(mask, value, lane);
}
static inline int mt_all(uint32_t mask, int condition)
{
    struct host_warp *w = host_thread.warp;
    int all = 1;
    w->values[host_thread.lane] = condition != 0;
    pthread_barrier_wait(&w->meet);
    for (uint32_t i = 0; i < 32; i++)
        if (mask >> i & 1)
            all &= (int)w->values[i];
    pthread_barrier_wait(&w->meet);
    return all;
}
static inline uint32_t mt_site_base(void)
{
    return host_thread.site_base ? *host_thread.site_base : 0;
}
static inline int mt_is_global(const void *p)
{
    return (uintptr_t)p < host_thread.not_global_from || (uintptr_t)p >= host_thread.not_global_to;
}

static inline void mt_store_pair(uint64_t *p, uint64_t a, uint64_t b)
{
    mt_store(&p[1], b);
    mt_store(&p[0], a);
}
static inline void mt_sleep(uint32_t ns)
{
    struct timespec t = {0, ns};
    nanosleep(&t, NULL);
}
#endif
