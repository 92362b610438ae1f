/* See hazard_cta.h. */
#include "hazard_cta.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

enum { LANES = MT_HAZARD_LANES, WORD = 4 };
#define ALL UINT32_MAX
#define NOBODY UINT32_MAX

void mt_hazard_cta_reset(struct mt_hazard_cta *c)
{
    mt_hazard_order_reset(&c->order);
    c->run = 0;
    c->nwords = 0;
    c->nbytes = 0;
    c->npast = 0;
    c->spare = 0;
}

void mt_hazard_cta_free(struct mt_hazard_cta *c)
{
    mt_hazard_order_free(&c->order);
    free(c->words);
    free(c->bytes);
    free(c->past);
    free(c);
}

size_t mt_hazard_cta_bytes(const struct mt_hazard_cta *c)
{
    return sizeof *c + c->order.bytes + (c->words_room + c->bytes_room) * sizeof *c->words +
           c->past_room * sizeof *c->past;
}

/* ---- what was done ---- */

/* A new one at the front. 0, or -1 without memory. */
static int past_add(struct mt_hazard_cta *c, uint32_t *at, struct mt_hazard_past p)
{
    uint32_t new = c->spare;
    if (new) {
        c->spare = c->past[new].next;
    } else {
        if (mt_grow(&c->past, &c->past_room, c->npast + 2, sizeof *c->past) != 0)
            return -1;
        new = (uint32_t)++c->npast;
    }
    p.next = *at;
    c->past[new] = p;
    *at = new;
    return 0;
}

static void past_drop(struct mt_hazard_cta *c, uint32_t *at)
{
    struct mt_hazard_past *p = &c->past[*at];
    uint32_t next = p->next;
    p->next = c->spare;
    c->spare = *at;
    *at = next;
}

/* Is what the access's own thread did ordered before it? Its own copy is only when it is waited for. An
 * access that is kept stands for copies of the same thread that end before it does. */
static int past_is_own(const struct mt_hazard_past *p, const struct mt_hazard_access *a, int which)
{
    return !p->by || (which == MT_HAZARD_KEEP && p->by == a->by) ||
           (p->by < MT_HAZARD_BY_OBJECT && a->group->copies[p->by == MT_HAZARD_BY_BULK].done >= p->time);
}

/* Is what that thread did ordered before what the access's group does now? */
static inline int past_is_before(const struct mt_hazard_past *p, const struct mt_hazard_group *g,
                                 uint32_t thread)
{
    return g->known[p->by < MT_HAZARD_BY_OBJECT ? p->by + thread : p->by] >= p->time;
}

/* Its lanes in that warp, but for the access's own. */
static inline uint32_t past_others(const struct mt_hazard_past *p, uint32_t warp,
                                   const struct mt_hazard_access *a, int which)
{
    return warp == a->warp && past_is_own(p, a, which) ? p->lanes & ~(1u << a->lane) : p->lanes;
}

/* Of its lanes in that warp those that nothing orders before this access, which is kept. */
static uint32_t past_lanes(const struct mt_hazard_past *p, uint32_t warp, const struct mt_hazard_access *a)
{
    uint32_t left = 0;
    for (uint32_t m = past_others(p, warp, a, MT_HAZARD_KEEP); m; m &= m - 1)
        if (!past_is_before(p, a->group, warp * LANES + (uint32_t)__builtin_ctz(m)))
            left |= m & -m;
    return left;
}

/* The first of its threads that nothing orders before this access, or NOBODY. */
static uint32_t past_unordered(const struct mt_hazard_past *p, const struct mt_hazard_access *a, int which)
{
    for (uint32_t w = p->warps; w; w &= w - 1) {
        uint32_t warp = (uint32_t)__builtin_ctz(w);
        for (uint32_t m = past_others(p, warp, a, which); m; m &= m - 1) {
            uint32_t thread = warp * LANES + (uint32_t)__builtin_ctz(m);
            if (!past_is_before(p, a->group, thread))
                return thread;
        }
    }
    return NOBODY;
}

/* Is it so by now? Warps that do the same, as those of a tile do, have one in common: this keeps lists short.
 */
static int past_takes(struct mt_hazard_past *p, const struct mt_hazard_past *now, int whole)
{
    if (p->time != now->time || p->site != now->site || p->by != now->by)
        return 0;
    if (p->warps == now->warps || (p->warps & now->warps && p->lanes & now->lanes))
        p->lanes |= p->warps == now->warps ? now->lanes : 0;
    else if (whole && p->lanes == now->lanes)
        p->warps |= now->warps;
    else
        return 0;
    return 1;
}

/* What an access is ordered after, it stands for: what is unordered with that will be so with it. */
static int past_keep(struct mt_hazard_cta *c, uint32_t *at, const struct mt_hazard_access *a)
{
    struct mt_hazard_past now = {a->time, a->site, 1u << a->lane, 1u << a->warp, a->by, 0};
    for (uint32_t *i = at; *i;) {
        struct mt_hazard_past *p = &c->past[*i], *q = &c->past[p->next];
        if (p->next && p->lanes == ALL && q->lanes == ALL && p->time == q->time && p->site == q->site &&
            p->by == q->by) {
            p->warps |= q->warps;
            past_drop(c, &p->next);
        }
        if (past_takes(p, &now, a->group->lanes == ALL))
            return 0;
        if (p->warps == now.warps)
            p->lanes = past_lanes(p, a->warp, a);
        else if (p->warps & now.warps && !past_lanes(p, a->warp, a))
            p->warps ^= now.warps;
        if (p->lanes && past_unordered(p, a, MT_HAZARD_KEEP) != NOBODY)
            i = &p->next;
        else
            past_drop(c, i);
    }
    return past_add(c, at, now);
}

/* 0, or -1 without memory. */
static int past_copy(struct mt_hazard_cta *c, uint32_t from, uint32_t *to)
{
    uint32_t first = 0;
    for (; from; from = c->past[from].next)
        if (past_add(c, &first, c->past[from]) != 0)
            return -1;
    *to = first;
    return 0;
}

/* ---- cells ---- */

static int cell_tell(const struct mt_hazard_access *a, const struct mt_hazard_past *p, uint32_t thread,
                     uint32_t type, uint64_t address)
{
    int kind = a->type == MT_LOAD ? MT_HAZARD_RAW : type == MT_LOAD ? MT_HAZARD_WAR : MT_HAZARD_WAW;
    uint32_t own = a->warp * LANES + a->lane;
    struct mt_hazard x = {.site = {p->site, a->site},
                          .type = {type, a->type},
                          .kind = (uint8_t)kind,
                          .between = thread == own               ? MT_HAZARD_THREAD
                                     : thread / LANES == a->warp ? MT_HAZARD_IN_WARP
                                                                 : MT_HAZARD_IN_CTA,
                          .thread = {thread, own},
                          .address = address};
    return a->found(a->arg, &x);
}

static int cell_tell_unwritten(const struct mt_hazard_access *a, uint64_t address)
{
    uint32_t own = a->warp * LANES + a->lane;
    struct mt_hazard x = {.site = {a->site, a->site},
                          .type = {a->type, a->type},
                          .kind = MT_HAZARD_UNWRITTEN,
                          .between = MT_HAZARD_THREAD,
                          .thread = {own, own},
                          .address = address};
    return a->found(a->arg, &x);
}

/* One pair at most. */
static int cell_compare(const struct mt_hazard_cta *c, const struct mt_hazard_cell *x,
                        const struct mt_hazard_access *a, uint64_t address)
{
    static const uint32_t order[] = {MT_STORE, MT_ATOMIC, MT_LOAD};
    if (a->fresh && a->type != MT_STORE && !x->past[MT_STORE] && !x->past[MT_ATOMIC])
        return cell_tell_unwritten(a, address);
    for (int i = 0; i < 3; i++) {
        if (a->type == order[i] && a->type != MT_STORE)
            continue;
        for (uint32_t at = x->past[order[i]]; at; at = c->past[at].next) {
            uint32_t thread = past_unordered(&c->past[at], a, MT_HAZARD_COMPARE);
            if (thread != NOBODY)
                return cell_tell(a, &c->past[at], thread, order[i], address);
        }
    }
    return 0;
}

/* What a plain store is not ordered after was found as a hazard; what it is ordered after, it stands for. */
static int cell_keep(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a)
{
    if (a->type == MT_STORE && x->run != c->run) {
        for (int i = 0; i < 3; i++)
            while (x->past[i])
                past_drop(c, &x->past[i]);
        x->run = c->run;
    }
    return past_keep(c, &x->past[a->type], a);
}

static int cell_touch(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address, int which)
{
    if (which & MT_HAZARD_COMPARE && cell_compare(c, x, a, address) != 0)
        return -1;
    return which & MT_HAZARD_KEEP ? cell_keep(c, x, a) : 0;
}

static int cta_reach(struct mt_hazard_cta *c, size_t words)
{
    if (words <= c->nwords)
        return 0;
    if (mt_grow(&c->words, &c->words_room, words, sizeof *c->words) != 0)
        return -1;
    while (c->nwords < words)
        c->words[c->nwords++] = (struct mt_hazard_cell){0};
    return 0;
}

/* The four cells of a word's bytes; they begin as the word is; the first takes its lists. NULL: no memory. */
static struct mt_hazard_cell *cta_split(struct mt_hazard_cta *c, struct mt_hazard_cell *word)
{
    size_t at = c->nbytes ? c->nbytes : WORD; /* 0: none */
    if (word->bytes)
        return &c->bytes[word->bytes];
    if (mt_grow(&c->bytes, &c->bytes_room, at + WORD, sizeof *c->bytes) != 0)
        return NULL;
    for (size_t i = 0; i < WORD; i++) {
        c->bytes[at + i] = *word;
        for (int k = 0; i && k < 3; k++)
            if (past_copy(c, word->past[k], &c->bytes[at + i].past[k]) != 0)
                return NULL;
    }
    c->nbytes = at + WORD;
    word->bytes = (uint32_t)at;
    return &c->bytes[at];
}

int mt_hazard_touch(struct mt_hazard_cta *c, const struct mt_hazard_access *a, int which)
{
    uint64_t at = a->address, end = a->address + a->size;
    int rc = cta_reach(c, (end + WORD - 1) / WORD);
    while (rc == 0 && at < end) {
        struct mt_hazard_cell *word = &c->words[at / WORD], *bytes;
        uint64_t next = at / WORD * WORD + WORD, stop = next < end ? next : end;
        if (at % WORD == 0 && stop == next && !word->bytes) {
            rc = cell_touch(c, word, a, at, which);
        } else if (!(bytes = cta_split(c, word))) {
            rc = -1;
        } else {
            for (uint64_t i = at; rc == 0 && i < stop; i++)
                rc = cell_touch(c, &bytes[i % WORD], a, i, which);
        }
        at = stop;
    }
    return rc;
}
