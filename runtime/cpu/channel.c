/* MEMTRACE_CHANNEL=warp: the CPU device records as a GPU does. */
#include "channel.h"
#include <stdatomic.h>
#include "channel_warp.h"
#include "device/packet.h"
#include "scheduler.h"

void __mt_gpu_access_global(const void *p, uint32_t meta, uint32_t site, struct mt_gpu_context *c);
void __mt_gpu_access_global_n(const void *p, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c);

struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter);

int mt_channel_on;
static _Atomic int failed;
/* Where the running thread is, from the call into record.c until its lanes have met: no switch in between. */
static _Thread_local struct here {
    uint64_t site, place;
} here;

void mt_cpu_set_channel(void)
{
    mt_channel_on = 1;
}

void mt_channel_fail(void)
{
    atomic_store(&failed, 1);
}

void mt_cpu_channel_reset(void)
{
    atomic_store(&failed, 0);
}

int mt_cpu_channel_failed(void)
{
    return atomic_load(&failed);
}

/* NULL: this CTA, or all of its launch, is not traced. */
static struct mt_gpu_context *channel_context(void)
{
    return __mt_gpu_begin(mt_cta_current()->run->launch->channel);
}

uint64_t *mt_channel_access(uint64_t address, uint32_t meta, uint32_t site, uint64_t place)
{
    struct mt_worker *w = mt_worker_self;
    here = (struct here){site, place};
    __mt_gpu_access_global((const void *)(uintptr_t)address, meta, site, channel_context());
    mt_cpu_tls.end = w->buffer + 3; /* full again when the caller has written */
    return mt_cpu_tls.cur = w->buffer;
}

void mt_channel_block(uint64_t address, uint64_t bytes, uint32_t type, uint32_t site, uint64_t place)
{
    here = (struct here){site, place};
    __mt_gpu_access_global_n((const void *)(uintptr_t)address, bytes, type, site, channel_context());
}

/* ---- for channel_warp.h -------------------------------------------------------------------------- */

/* A kernel without fibers runs its threads one after the other: each is alone. */
static int is_loop(void)
{
    return mt_cta_current()->run->loop != NULL;
}

uint32_t mt_channel_active(void)
{
    return is_loop() ? 1 : mt_warp_meet(here.site, here.place);
}

uint32_t mt_channel_lane(void)
{
    return is_loop() ? 0 : mt_cpu_tls.laneid;
}

uint32_t mt_channel_warp(void)
{
    return is_loop() ? 0 : mt_cpu_tls.warpid;
}

uint64_t mt_channel_shuffle(uint32_t mask, uint64_t value, uint32_t lane)
{
    return mask & (mask - 1) ? mt_warp_exchange(mask, value, lane) : value;
}

uint32_t mt_channel_ballot(uint32_t mask, int condition)
{
    return mask & (mask - 1) ? mt_cpu_vote(mask, condition != 0, MT_VOTE_BALLOT) : condition ? mask : 0;
}

/* Somebody waits for room in a ring. The packets before it may be those of other threads of this worker. */
void mt_channel_sleep(void)
{
    if (mt_cpu_channel_failed())
        mt_fault_fail(MT_ERR_LAUNCH, "another launch failed, and with it the channel of its records");
    sched_yield();
    mt_cpu_yield();
}
