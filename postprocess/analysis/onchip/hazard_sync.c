/* Barriers (hazard_order.h). A barrier is known by a key:
 *
 *     the CTA's            its number, 0 to 15
 *     the cluster's        MT_BARRIER_CLUSTER: arrivals and waits apart, in turns
 *     not known which      MT_BARRIER_UNKNOWN: whoever arrives there arrives at all, whoever waits there
 * waits for all of lanes of a warp   warp and mask in memory (mbarrier) its address: arrivals and waits
 * apart, each with its phase
 *
 * Those who wait at a numbered barrier or at one of a warp have passed it when one of them goes on, or when
 * all lanes of the mask are there. */
#include "hazard_order.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 16 };
#define KEY_WARP (1ull << 62)
#define KEY_OBJECT (1ull << 63)
#define MOST_OBJECT (1ull << 32) /* above: of another CTA of the cluster */

static struct mt_hazard_barrier *sync_find(const struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_barrier *b = NULL;
    HASH_FIND(hh, o->barriers, &key, sizeof key, b);
    return b;
}

/* NULL: no memory. */
static struct mt_hazard_barrier *sync_get(struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_barrier *b = sync_find(o, key);
    if (b || !(b = calloc(1, sizeof *b)))
        return b;
    b->key = key;
    o->bytes += sizeof *b;
    HASH_ADD(hh, o->barriers, key, sizeof b->key, b);
    return b;
}

static int sync_is_full(const struct mt_hazard_order *o)
{
    return HASH_COUNT(o->barriers) >= MT_HAZARD_MOST_BARRIERS;
}

/* ---- waiting ---- */

/* All that wait there have passed it. */
static void sync_pass(struct mt_hazard_order *o, struct mt_hazard_barrier *b)
{
    for (uint32_t w = 0; w < MT_HAZARD_WARPS; w++) {
        uint32_t lanes = b->waiting[w];
        for (struct mt_hazard_group *g = lanes ? o->warp[w] : NULL; g; g = g->next) {
            if (g->at != b)
                continue;
            mt_hazard_acquire(o, g, b->clock[0]);
            g->at = NULL;
        }
        if (lanes)
            mt_hazard_merge(o, w, lanes);
    }
    if (b->key & KEY_WARP) {
        HASH_DELETE(hh, o->barriers, b);
        o->bytes -= sizeof *b;
        free(b);
        return;
    }
    memset(b->waiting, 0, sizeof b->waiting);
    mt_hazard_clear(o, b->clock[0]);
}

/* Waits where others may already have come for what is yet to come. */
static void sync_pass_alone(struct mt_hazard_order *o, struct mt_hazard_group *g)
{
    struct mt_hazard_barrier *b = g->at, *other, *after;
    g->at = NULL;
    b->waiting[g->warp] &= ~g->lanes;
    if (b->key == MT_BARRIER_CLUSTER) {
        int odd = (o->clusters[g->warp] & g->lanes) != 0;
        mt_hazard_acquire(o, g, b->clock[odd]);
        o->clusters[g->warp] ^= g->lanes;
        return;
    }
    HASH_ITER(hh, o->barriers, other, after)
    {
        if (other->key != MT_BARRIER_UNKNOWN && !(other->key & KEY_OBJECT))
            continue;
        mt_hazard_acquire(o, g, other->clock[0]);
        mt_hazard_acquire(o, g, other->clock[1]);
    }
}

void mt_hazard_go_on(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes)
{
    struct mt_hazard_group *g = o->warp[warp];
    while (g) {
        if (!g->at || !(g->lanes & lanes)) {
            g = g->next;
        } else if (g->at->key >= NUMBERS && !(g->at->key & KEY_WARP)) {
            sync_pass_alone(o, g);
        } else {
            sync_pass(o, g->at);
            g = o->warp[warp]; /* some of them may be gone */
        }
    }
}

/* ---- arrivals; the groups of the lanes are theirs alone ---- */

/* What they did is in the barrier's clock. */
static void sync_each(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, struct mt_hazard_barrier *b,
                      int phase, int waits)
{
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes))
            continue;
        mt_hazard_release(o, g, b->clock[phase]);
        if (waits)
            g->at = b;
    }
    if (waits)
        b->waiting[warp] |= lanes;
}

/* In turns: by lane. */
static int sync_cluster(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int waits)
{
    struct mt_hazard_barrier *b = sync_get(o, MT_BARRIER_CLUSTER);
    uint32_t odd = o->clusters[warp] & lanes, even = lanes & ~odd;
    if (!b || (odd && even && mt_hazard_split(o, warp, odd) != 0))
        return -1;
    if (waits) {
        for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next)
            g->at = g->lanes & lanes ? b : g->at;
        b->waiting[warp] |= lanes;
        return 0;
    }
    if (odd)
        sync_each(o, warp, odd, b, 1, 0);
    if (even)
        sync_each(o, warp, even, b, 0, 0);
    return 0;
}

static int sync_unknown(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int waits)
{
    struct mt_hazard_barrier *b = sync_get(o, MT_BARRIER_UNKNOWN);
    o->loose += (uint64_t)__builtin_popcount(lanes);
    if (b)
        sync_each(o, warp, lanes, b, 0, waits);
    for (struct mt_hazard_group *g = b && !waits ? o->warp[warp] : NULL; g; g = g->next)
        if (g->lanes & lanes)
            mt_hazard_copy_release(o, g, b->clock[0]);
    return b ? 0 : -1;
}

/* What comes to it comes to this phase. */
static void sync_enter(const struct mt_hazard_order *o, struct mt_hazard_barrier *b, uint32_t phase)
{
    if (b->phase == phase)
        return;
    b->phase = phase; /* the phase before this one's counterpart is long over */
    b->phases++;
    mt_hazard_clear(o, b->clock[phase]);
}

/* The object of an address with MT_MBARRIER_…; *b is NULL if it is taken as one of those that are not known.
 * 0, or -1 without memory. */
static int sync_find_object(struct mt_hazard_order *o, uint64_t what, struct mt_hazard_barrier **b)
{
    uint64_t key = KEY_OBJECT | (what & ~(uint64_t)MT_MBARRIER_FLAGS);
    *b = what < MOST_OBJECT ? sync_find(o, key) : NULL;
    if (*b || what >= MOST_OBJECT || sync_is_full(o))
        return 0;
    return (*b = sync_get(o, key)) ? 0 : -1;
}

/* An object's address and MT_MBARRIER_…; copies: their copies arrive with them. */
static int sync_object(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int waits, int copies,
                       uint64_t what)
{
    uint32_t phase = what & MT_MBARRIER_ODD;
    struct mt_hazard_barrier *b, *any = sync_find(o, MT_BARRIER_UNKNOWN);
    if (sync_find_object(o, what, &b) != 0)
        return -1;
    if (!b)
        return sync_unknown(o, warp, lanes, waits);
    if (what & MT_MBARRIER_INIT) {
        b->phase = 0;
        b->phases++;
        memset(b->clock, 0, sizeof b->clock);
        return 0;
    }
    if (!waits) {
        sync_enter(o, b, phase);
        sync_each(o, warp, lanes, b, (int)phase, 0);
    }
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes))
            continue;
        if (copies)
            mt_hazard_copy_release(o, g, b->clock[phase]);
        if (waits)
            mt_hazard_acquire(o, g, b->clock[phase]);
        if (waits && any)
            mt_hazard_acquire(o, g, any->clock[0]);
    }
    return 0;
}

/* A copy begins that ends with that phase of the object. */
static int sync_copy_of_object(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, uint32_t site,
                               uint64_t what)
{
    uint32_t phase = what & MT_MBARRIER_ODD;
    struct mt_hazard_begun x = {site, MT_HAZARD_BY_NOBODY, 0};
    struct mt_hazard_barrier *b;
    if (sync_find_object(o, what, &b) != 0)
        return -1;
    if (b && !b->by && o->objects < MT_HAZARD_OBJECTS)
        b->by = MT_HAZARD_BY_OBJECT + o->objects++;
    if (b && b->by) {
        sync_enter(o, b, phase);
        x.by = b->by;
        x.time = b->clock[phase][b->by] = b->phases + 1;
    }
    return mt_hazard_copy_begin(o, warp, lanes, x);
}

/* As a record of MT_SYNC_COPY says. */
static int sync_copy(struct mt_hazard_order *o, const struct mt_access_run *r, uint32_t lanes, uint64_t what)
{
    static const uint32_t by[] = {MT_HAZARD_BY_GROUP, MT_HAZARD_BY_BULK};
    uint32_t size = r->meta & MT_RAW_MAX_SIZE;
    struct mt_hazard_begun x = {r->site, what <= MT_COPY_BULK ? by[what] : MT_HAZARD_BY_NOBODY, 0};
    switch (size) {
    case MT_COPY_BEGINS:
        return mt_hazard_copy_begin(o, r->warp, lanes, x);
    case MT_SYNC_OF_OBJECT:
        return sync_copy_of_object(o, r->warp, lanes, r->site, what);
    case MT_COPY_ARRIVES:
        return sync_object(o, r->warp, lanes, 0, 1, what);
    default:
        mt_hazard_copy_group(o, r->warp, lanes, size, what);
        return 0;
    }
}

/* mask: lanes that are to come; 0: not known, those that have. */
static int sync_warp(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, uint32_t mask)
{
    uint64_t key = KEY_WARP | (uint64_t)warp << 32 | mask;
    struct mt_hazard_barrier *b;
    struct mt_hazard_group *g = o->warp[warp];
    if (!mask || (lanes & mask) == mask) {
        while (g && !(g->lanes & lanes))
            g = g->next;
        if (g->lanes == lanes) { /* nothing new but their own */
            mt_hazard_release(o, g, g->known);
            return 0;
        }
        mask = 0;
    }
    b = mask ? sync_get(o, key) : sync_get(o, KEY_WARP | (uint64_t)warp << 32);
    if (!b)
        return -1;
    sync_each(o, warp, lanes, b, 0, 1);
    b->arrived |= lanes;
    if (!mask || (b->arrived & mask) == mask)
        sync_pass(o, b);
    return 0;
}

static int sync_number(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int waits, uint64_t number)
{
    if (number == MT_BARRIER_CLUSTER)
        return sync_cluster(o, warp, lanes, waits);
    if (number >= NUMBERS)
        return sync_unknown(o, warp, lanes, waits);
    struct mt_hazard_barrier *b = sync_get(o, number);
    if (b)
        sync_each(o, warp, lanes, b, 0, waits);
    return b ? 0 : -1;
}

/* Lanes that name the same. */
static int sync_lanes(struct mt_hazard_order *o, const struct mt_access_run *r, uint32_t lanes, uint64_t what)
{
    uint32_t type = r->meta >> 28, size = r->meta & MT_RAW_MAX_SIZE;
    int waits = type == MT_SYNC_BARRIER;
    int begins = type == MT_SYNC_COPY && (size == MT_COPY_BEGINS || size == MT_SYNC_OF_OBJECT);
    mt_hazard_go_on(o, r->warp, lanes);
    if (!begins && mt_hazard_split(o, r->warp, lanes) != 0)
        return -1;
    if (type == MT_SYNC_COPY)
        return sync_copy(o, r, lanes, what);
    if (type == MT_SYNC_WARP)
        return sync_warp(o, r->warp, lanes, size == MT_SYNC_OF_LANES ? (uint32_t)what : 0);
    return size == MT_SYNC_OF_OBJECT ? sync_object(o, r->warp, lanes, waits, 0, what)
                                     : sync_number(o, r->warp, lanes, waits, what);
}

int mt_hazard_sync(struct mt_hazard_order *o, const struct mt_access_run *r)
{
    uint64_t what[MT_HAZARD_LANES];
    uint32_t n = 0, left = r->mask;
    for (uint32_t m = r->mask; m && n < r->count; m &= m - 1, n++)
        what[__builtin_ctz(m)] = r->addresses ? r->addresses[n] : r->base + (uint64_t)r->stride * n;
    while (left) {
        uint32_t first = (uint32_t)__builtin_ctz(left), lanes = 0;
        for (uint32_t m = left; m; m &= m - 1)
            if (what[__builtin_ctz(m)] == what[first])
                lanes |= m & -m;
        if (sync_lanes(o, r, lanes, what[first]) != 0)
            return -1;
        left &= ~lanes;
    }
    return 0;
}
