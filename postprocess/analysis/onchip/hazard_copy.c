/* Asynchronous copies (hazard_order.h). */
#include "hazard_order.h"
#include "memtrace/record.h"
#include <stdlib.h>

int mt_hazard_copy_begin(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, struct mt_hazard_begun x)
{
    size_t bytes = MT_HAZARD_THREADS * sizeof *o->begun;
    if (!o->copies && !(o->begun = calloc(1, bytes)))
        return -1;
    o->bytes += o->copies ? 0 : bytes;
    o->copies = 1;
    for (; lanes; lanes &= lanes - 1)
        o->begun[warp * MT_HAZARD_LANES + (uint32_t)__builtin_ctz(lanes)] = x;
    return 0;
}

uint32_t mt_hazard_copy_time(const struct mt_hazard_order *o, const struct mt_hazard_group *g, uint32_t lane,
                             uint32_t site, uint32_t *by)
{
    const struct mt_hazard_begun *x = &o->begun[g->warp * MT_HAZARD_LANES + lane];
    *by = site == x->site + 1 ? x->by : 0;
    if (!*by)
        return g->time;
    return *by < MT_HAZARD_BY_OBJECT ? g->copies[*by == MT_HAZARD_BY_BULK].time + 1 : x->time;
}

static void copy_commit(struct mt_hazard_copies *c)
{
    c->last[c->groups++ % MT_HAZARD_GROUPS] = ++c->time;
}

/* For all but so many of the newest groups; of more than are told apart, for more than it does. 0: it does.
 */
static int copy_wait(struct mt_hazard_copies *c, uint64_t left)
{
    int more = left >= MT_HAZARD_GROUPS && c->groups > MT_HAZARD_GROUPS;
    left = more ? MT_HAZARD_GROUPS - 1 : left;
    uint32_t last = left < c->groups ? c->last[(c->groups - 1 - left) % MT_HAZARD_GROUPS] : 0;
    c->done = last > c->done ? last : c->done;
    return more;
}

void mt_hazard_copy_group(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, uint32_t size,
                          uint64_t what)
{
    for (struct mt_hazard_group *g = o->copies ? o->warp[warp] : NULL; g; g = g->next) {
        struct mt_hazard_copies *c = &g->copies[what & MT_COPY_BULK];
        if (!(g->lanes & lanes))
            continue;
        if (size == MT_COPY_COMMITS || what & MT_COPY_ALL)
            copy_commit(c);
        if (size == MT_COPY_WAITS && copy_wait(c, what / MT_COPY_WAIT(1)))
            o->loose += (uint64_t)__builtin_popcount(g->lanes & lanes);
    }
}

void mt_hazard_copy_release(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t *clock)
{
    uint32_t time = ++g->copies[0].time;
    for (uint32_t m = g->lanes; m; m &= m - 1)
        clock[MT_HAZARD_BY_GROUP + g->warp * MT_HAZARD_LANES + (uint32_t)__builtin_ctz(m)] = time;
}
