/* Clusters: CTAs that run side by side on one worker, with shared memory that each can reach, and a barrier
 * of their own. Without clusters a CTA is one by itself. */
#include "local.h"
#include "scheduler.h"
#include <stdlib.h>
#include <string.h>

#define MARGIN (16u << 20)

/* Device code may keep the low half of a shared address, or an offset from the start. Low halves of a whole
 * cluster are less than 8 MiB apart, and offsets below 1 MiB: they are distinguished where no low half is
 * near 0 or 2^32. Shared memory lies there only. Below it is nothing (MT_SHARED_HOLE). */
char *mt_cluster_memory(uint64_t bytes, uint32_t ctas, uint64_t *stride)
{
    size_t skip = MT_SHARED_HOLE;
    char *p;
    do {
        p = mt_local_skip(skip) ? NULL : mt_local_alloc(bytes, ctas, stride, NULL);
        skip = MARGIN;
    } while (p && (uint32_t)(uintptr_t)p + MARGIN < 2 * MARGIN);
    return p;
}

struct mt_cluster *mt_cluster_take(struct mt_worker *w, const struct mt_pool_launch *run)
{
    const uint32_t *dims = run->launch->cluster;
    struct mt_cluster **p = &w->free_clusters, *c;
    uint32_t ctas = dims[0] * dims[1] * dims[2];
    while (*p && ((*p)->room < ctas || (*p)->stride < run->shared_bytes))
        p = &(*p)->next;
    c = *p;
    if (c) {
        *p = c->next;
    } else {
        c = calloc(1, sizeof *c);
        uint64_t bytes = run->shared_bytes < 16384 ? 16384 : run->shared_bytes;
        if (c && !(c->shared = mt_cluster_memory(bytes, ctas, &c->stride))) {
            free(c);
            c = NULL;
        }
        if (!c)
            return NULL;
        c->room = ctas;
    }
    c->ctas = c->left = ctas;
    c->alive = ctas * run->nthreads;
    c->arrived = c->phase = c->stalled = 0;
    memset(c->cta, 0, sizeof c->cta);
    return c;
}

int mt_cluster_left(struct mt_cta *cta)
{
    struct mt_cluster *c = cta->cluster;
    if (!c)
        return 1;
    cta->cluster = NULL;
    c->cta[cta->rank] = NULL;
    if (--c->left)
        return 0;
    c->next = cta->worker->free_clusters;
    cta->worker->free_clusters = c;
    return 1;
}

/* ---- the barrier ------------------------------------------------------------------------------------- */

/* The threads of one CTA that wait go on. */
static void cluster_wake(struct mt_cta *cta)
{
    struct mt_queue *q = &cta->cluster_waiters;
    cta->stalled = 0;
    if (cta->nwarps) {
        mt_warp_wake(cta, q, 1);
        return;
    }
    for (struct mt_fiber *f = q->head, *next; f; f = next) {
        next = f->next;
        mt_queue_append(&cta->ready, f);
        cta->nready++;
    }
    q->head = q->tail = NULL;
}

static uint32_t *cluster_phase(struct mt_cta *cta)
{
    return cta->cluster ? &cta->cluster->phase : &cta->cluster_phase;
}

/* All threads that have not exited have arrived? Then the next phase begins. */
static void cluster_check(struct mt_cta *cta)
{
    struct mt_cluster *c = cta->cluster;
    uint32_t *arrived = c ? &c->arrived : &cta->cluster_arrived;
    if (!*arrived || *arrived < (c ? c->alive : cta->alive))
        return;
    *arrived = 0;
    ++*cluster_phase(cta);
    if (!c) {
        cluster_wake(cta);
        return;
    }
    c->stalled = 0;
    for (uint32_t i = 0; i < c->ctas; i++)
        if (c->cta[i])
            cluster_wake(c->cta[i]);
}

void mt_cpu_cluster_arrive(void)
{
    struct mt_cta *cta = mt_cta_waiting("a barrier of a cluster");
    cta->current->cluster_phase = *cluster_phase(cta);
    ++*(cta->cluster ? &cta->cluster->arrived : &cta->cluster_arrived);
    cluster_check(cta);
}

void mt_cpu_cluster_wait(void)
{
    struct mt_cta *cta = mt_cta_waiting("a barrier of a cluster");
    struct mt_fiber *self = cta->current;
    struct mt_warp *w = &cta->warp[self->warp];
    if (self->cluster_phase != *cluster_phase(cta))
        return;
    mt_queue_append(&cta->cluster_waiters, self);
    if (!cta->run->warps)
        w->blocked |= 1u << self->lane;
    if (MT_UNLIKELY(!cta->run->warps && w->parked != 0))
        mt_warp_parked_check(cta, w, self->warp);
    mt_cta_block(cta, self);
}

void mt_cluster_exited(struct mt_cta *cta)
{
    if (cta->cluster)
        cta->cluster->alive--;
    cluster_check(cta);
}
