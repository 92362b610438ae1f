/* Stands in for runtime/device/warp.h: record.c compiled for host threads, one per lane. Lanes of a warp meet
 * at warp operations like those of a GPU; which lanes run together is what the test says.
 * Included before everything. */
#ifndef MT_DEVICE_WARP_H
#define MT_DEVICE_WARP_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#define mt_load_acquire_system load_from_host /* counted below */
#include "device/memory_host.h"
#undef mt_load_acquire_system
#include "format/packet.h"

struct host_warp {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    struct {
        uint32_t mask, here,
            times; /* lanes that meet under this mask: how many are here, how often they met */
    } meets[64];
    uint32_t mask;
    uint64_t values[32];
};
struct host_thread {
    struct host_warp *warp;
    uint32_t lane, warp_index, sm, cta[3], grid[2], cluster_rank;
    uint64_t threads;          /* of the launch, */
    uint32_t block;            /* and of a CTA */
    uint64_t context;          /* what record functions get as their context, */
    uint32_t left_out;         /* and in their site */
    const uint32_t *site_base; /* of the file that the code is in; NULL: 0 */
    void (*stall)(void);       /* called between a packet's place and what is in it; NULL: nothing is */
    uint32_t asked, slept;     /* how often it asked host memory for the tail, and waited */
};
extern _Thread_local struct host_thread host_thread;

static inline void host_meet(uint32_t mask)
{
    struct host_warp *w = host_thread.warp;
    unsigned i = 0;
    pthread_mutex_lock(&w->lock);
    while (w->meets[i].mask && w->meets[i].mask != mask)
        i++;
    w->meets[i].mask = mask;
    uint32_t times = w->meets[i].times;
    if (++w->meets[i].here == (uint32_t)__builtin_popcount(mask)) {
        w->meets[i].here = 0;
        w->meets[i].times++;
        pthread_cond_broadcast(&w->all_here);
    }
    while (w->meets[i].times == times)
        pthread_cond_wait(&w->all_here, &w->lock);
    pthread_mutex_unlock(&w->lock);
}
static inline uint32_t mt_active(void)
{
    host_meet(host_thread.warp->mask); /* these lanes are all here, as on a GPU */
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
static inline uint32_t mt_cta_threads(void)
{
    return host_thread.block;
}
static inline uint64_t mt_threads(void)
{
    return host_thread.threads;
}
static inline void mt_meet(uint32_t mask)
{
    host_meet(mask);
}
static inline uint32_t mt_cluster_rank(void)
{
    return host_thread.cluster_rank;
}
static inline uint64_t mt_shuffle(uint32_t mask, uint64_t value, uint32_t lane)
{
    struct host_warp *w = host_thread.warp;
    w->values[host_thread.lane] = value;
    host_meet(mask);
    uint64_t got = w->values[lane];
    host_meet(mask);
    return got;
}
static inline uint32_t mt_shuffle_half(uint32_t mask, uint32_t value, uint32_t lane)
{
    return (uint32_t)mt_shuffle(mask, value, lane);
}
static inline uint32_t mt_ballot(uint32_t mask, int condition)
{
    struct host_warp *w = host_thread.warp;
    uint32_t set = 0;
    w->values[host_thread.lane] = condition != 0;
    host_meet(mask);
    for (uint32_t i = 0; i < 32; i++)
        if (mask >> i & 1)
            set |= (uint32_t)w->values[i] << i;
    host_meet(mask);
    return set;
}
static inline int mt_all(uint32_t mask, int condition)
{
    return mt_ballot(mask, condition) == mask;
}
static inline uint32_t mt_site_base(void)
{
    return host_thread.site_base ? *host_thread.site_base : 0;
}

static inline void mt_store_pair(uint64_t *p, uint64_t a, uint64_t b)
{
    if (host_thread.stall)
        host_thread.stall();
    mt_store(&p[1], b);
    mt_store(&p[0], a);
}
static inline uint64_t mt_load_acquire_system(const uint64_t *p)
{
    __atomic_fetch_add(&host_thread.asked, 1, __ATOMIC_RELAXED);
    return load_from_host(p);
}
static inline void mt_sleep(uint32_t ns)
{
    struct timespec t = {0, ns};
    __atomic_fetch_add(&host_thread.slept, 1, __ATOMIC_RELAXED);
    nanosleep(&t, NULL);
}
#endif
