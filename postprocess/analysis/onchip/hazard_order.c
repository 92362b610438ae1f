/* See hazard_order.h. */
#include "hazard_order.h"
#include <stdlib.h>
#include <string.h>

static void order_drop(struct mt_hazard_order *o, struct mt_hazard_group *g)
{
    g->next = o->spare;
    o->spare = g;
}

static struct mt_hazard_group *order_new(struct mt_hazard_order *o)
{
    struct mt_hazard_group *g = o->spare;
    if (g) {
        o->spare = g->next;
    } else if ((g = malloc(sizeof *g))) {
        o->bytes += sizeof *g;
    }
    return g;
}

void mt_hazard_order_reset(struct mt_hazard_order *o)
{
    struct mt_hazard_barrier *b, *after;
    for (uint32_t w = 0; w < MT_HAZARD_WARPS; w++)
        while (o->warp[w]) {
            struct mt_hazard_group *g = o->warp[w];
            o->warp[w] = g->next;
            order_drop(o, g);
        }
    HASH_ITER(hh, o->barriers, b, after)
    {
        HASH_DELETE(hh, o->barriers, b);
        o->bytes -= sizeof *b;
        free(b);
    }
    mt_hazard_words_reset(o);
    memset(o->clusters, 0, sizeof o->clusters);
    if (o->copies) {
        o->bytes -= MT_HAZARD_THREADS * sizeof *o->begun;
        free(o->begun);
        o->begun = NULL;
    }
    o->copies = o->objects = 0;
    o->threads = 0;
    o->loose = 0;
}

void mt_hazard_order_free(struct mt_hazard_order *o)
{
    mt_hazard_order_reset(o);
    while (o->spare) {
        struct mt_hazard_group *g = o->spare;
        o->spare = g->next;
        o->bytes -= sizeof *g;
        free(g);
    }
}

struct mt_hazard_group *mt_hazard_group_of(struct mt_hazard_order *o, uint32_t warp, uint32_t lane)
{
    struct mt_hazard_group *g = o->warp[warp];
    while (g && !(g->lanes >> lane & 1))
        g = g->next;
    if (g || !(g = order_new(o)))
        return g;
    memset(g, 0, sizeof *g);
    g->warp = warp;
    g->lanes = UINT32_MAX;
    g->time = 1;
    o->warp[warp] = g;
    if (o->threads < (warp + 1) * MT_HAZARD_LANES)
        o->threads = (warp + 1) * MT_HAZARD_LANES;
    return g;
}

int mt_hazard_split(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes)
{
    if (!mt_hazard_group_of(o, warp, (uint32_t)__builtin_ctz(lanes)))
        return -1;
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes) || !(g->lanes & ~lanes))
            continue;
        struct mt_hazard_group *part = order_new(o);
        if (!part)
            return -1;
        *part = *g;
        part->lanes &= lanes;
        g->lanes &= ~lanes;
        g->next = part; /* which needs no splitting */
    }
    return 0;
}

static void order_join_part(uint32_t *into, const uint32_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

void mt_hazard_join(const struct mt_hazard_order *o, uint32_t *into, const uint32_t *from)
{
    order_join_part(into, from, o->threads);
    if (!o->copies)
        return;
    for (uint32_t at = MT_HAZARD_BY_GROUP; at < MT_HAZARD_BY_OBJECT; at += MT_HAZARD_THREADS)
        order_join_part(into + at, from + at, o->threads);
    order_join_part(into + MT_HAZARD_BY_OBJECT, from + MT_HAZARD_BY_OBJECT, o->objects);
}

void mt_hazard_clear(const struct mt_hazard_order *o, uint32_t *clock)
{
    memset(clock, 0, (o->copies ? (uint32_t)MT_HAZARD_CLOCK : o->threads) * sizeof *clock);
}

static int order_is_other(const struct mt_hazard_order *o, const struct mt_hazard_group *a,
                          const struct mt_hazard_group *b)
{
    return o->copies && memcmp(a->copies, b->copies, sizeof a->copies) != 0;
}

void mt_hazard_merge(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes)
{
    struct mt_hazard_group *into = NULL, **at = &o->warp[warp], *g;
    while ((g = *at)) {
        if (g->lanes & ~lanes || (into && order_is_other(o, into, g))) {
            at = &g->next;
        } else if (!into) {
            into = g;
            at = &g->next;
        } else {
            mt_hazard_join(o, into->known, g->known);
            into->lanes |= g->lanes;
            into->time = g->time > into->time ? g->time : into->time;
            *at = g->next;
            order_drop(o, g);
        }
    }
}

/* The lanes' own time is at least this one. */
static void order_put(uint32_t *clock, const struct mt_hazard_group *g, uint32_t lanes, uint32_t time)
{
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t *at = &clock[g->warp * MT_HAZARD_LANES + (uint32_t)__builtin_ctz(m)];
        *at = time > *at ? time : *at;
    }
}

void mt_hazard_release_lanes(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t lanes,
                             uint32_t *clock)
{
    lanes &= g->lanes;
    mt_hazard_join(o, clock, g->known);
    order_put(clock, g, lanes, g->time++);
    for (int i = 0; i < 2 && o->copies; i++)
        order_put(clock + MT_HAZARD_BY_GROUP + i * MT_HAZARD_THREADS, g, lanes, g->copies[i].done);
}

void mt_hazard_release(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t *clock)
{
    mt_hazard_release_lanes(o, g, g->lanes, clock);
}

static int order_within(const uint32_t *part, const uint32_t *of, uint32_t n)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < n; i++)
        more |= part[i] > of[i];
    return !more;
}

int mt_hazard_knows(const struct mt_hazard_order *o, const struct mt_hazard_group *g, const uint32_t *clock)
{
    return order_within(clock, g->known, o->copies ? (uint32_t)MT_HAZARD_CLOCK : o->threads);
}

void mt_hazard_acquire(const struct mt_hazard_order *o, struct mt_hazard_group *g, const uint32_t *clock)
{
    mt_hazard_join(o, g->known, clock);
}
