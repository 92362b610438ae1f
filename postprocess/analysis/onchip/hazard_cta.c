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
    c->nfar = 0;
    mt_pairmap_clear(&c->pages);
    c->npast = 0;
    c->spare = 0;
}

void mt_hazard_cta_free(struct mt_hazard_cta *c)
{
    mt_hazard_order_free(&c->order);
    free(c->words);
    free(c->bytes);
    free(c->far);
    mt_pairmap_free(&c->pages);
    free(c->past);
    free(c);
}

size_t mt_hazard_cta_bytes(const struct mt_hazard_cta *c)
{
    return sizeof *c + c->order.bytes + (c->words_room + c->bytes_room + c->far_room) * sizeof *c->words +
           c->past_room * sizeof *c->past + (c->pages.slot ? (sizeof *c->pages.slot) << c->pages.bits : 0);
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

/* What people call it. */
static uint32_t cell_type(uint32_t way)
{
    return way == MT_HAZARD_STRONG_LOAD ? MT_LOAD : way;
}

static int cell_tell(const struct mt_hazard_access *a, const struct mt_hazard_past *p, uint32_t thread,
                     uint32_t way, uint64_t address)
{
    uint32_t type = cell_type(way), later = cell_type(a->way);
    int kind = later == MT_LOAD ? MT_HAZARD_RAW : type == MT_LOAD ? MT_HAZARD_WAR : MT_HAZARD_WAW;
    uint32_t own = a->warp * LANES + a->lane;
    struct mt_hazard x = {.site = {p->site, a->site},
                          .type = {type, later},
                          .kind = (uint8_t)kind,
                          .between = thread == own               ? MT_HAZARD_THREAD
                                     : thread / LANES == a->warp ? MT_HAZARD_IN_WARP
                                                                 : MT_HAZARD_IN_CTA,
                          .space = (uint8_t)a->space,
                          .thread = {thread, own},
                          .address = address};
    return a->found(a->arg, &x);
}

/* One pair at most. */
static int cell_compare(const struct mt_hazard_cta *c, const struct mt_hazard_cell *x,
                        const struct mt_hazard_access *a, uint64_t address)
{
    enum { NO = MT_HAZARD_WAYS };
    static const uint32_t order[][MT_HAZARD_WAYS] = {
        [MT_HAZARD_LOAD] = {MT_HAZARD_STORE, MT_HAZARD_UPDATE, NO},
        [MT_HAZARD_STORE] = {MT_HAZARD_STORE, MT_HAZARD_UPDATE, MT_HAZARD_LOAD, MT_HAZARD_STRONG_LOAD},
        [MT_HAZARD_UPDATE] = {MT_HAZARD_STORE, MT_HAZARD_LOAD, NO},
        [MT_HAZARD_STRONG_LOAD] = {MT_HAZARD_STORE, NO}};
    const uint32_t *with = order[a->way];
    int all = a->space == MT_IN_SHARED || a->way == MT_HAZARD_STORE;
    for (int i = 0; i < (all ? (int)MT_HAZARD_WAYS : 1) && with[i] != NO; i++)
        for (uint32_t at = x->past[with[i]]; at; at = c->past[at].next) {
            uint32_t thread = past_unordered(&c->past[at], a, MT_HAZARD_COMPARE);
            if (thread != NOBODY)
                return cell_tell(a, &c->past[at], thread, with[i], address);
        }
    return 0;
}

/* What a plain store is not ordered after was found as a hazard; what it is ordered after, it stands for. */
static int cell_keep(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a)
{
    if (a->way == MT_HAZARD_STORE && x->run != c->run) {
        for (int i = 0; i < MT_HAZARD_WAYS; i++)
            while (x->past[i])
                past_drop(c, &x->past[i]);
        x->run = c->run;
    }
    return past_keep(c, &x->past[a->way], a);
}

static int cell_touch(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address, int which)
{
    if (which & MT_HAZARD_COMPARE && cell_compare(c, x, a, address) != 0)
        return -1;
    return which & MT_HAZARD_KEEP ? cell_keep(c, x, a) : 0;
}

/* At least so many cells. */
static int cta_reach(struct mt_hazard_cell **cells, size_t *n, size_t *room, size_t words)
{
    if (words <= *n)
        return 0;
    if (mt_grow(cells, room, words, sizeof **cells) != 0)
        return -1;
    memset(*cells + *n, 0, (words - *n) * sizeof **cells);
    *n = words;
    return 0;
}

/* The cell of a word of global memory; *word is NULL if there are too many. */
static int cta_far(struct mt_hazard_cta *c, uint64_t at, struct mt_hazard_cell **word)
{
    uint64_t *first = mt_pairmap_get(&c->pages, at / MT_HAZARD_FAR, 0, c->nfar);
    *word = NULL;
    if (!first)
        return -1;
    if (*first >= MT_HAZARD_MOST_FAR)
        return 0;
    if (*first == c->nfar && cta_reach(&c->far, &c->nfar, &c->far_room, c->nfar + MT_HAZARD_FAR) != 0)
        return -1;
    *word = &c->far[*first + at % MT_HAZARD_FAR];
    return 0;
}

/* The same of any. */
static int cta_word(struct mt_hazard_cta *c, uint32_t space, uint64_t at, struct mt_hazard_cell **word)
{
    if (space == MT_IN_GLOBAL)
        return cta_far(c, at, word);
    if (cta_reach(&c->words, &c->nwords, &c->words_room, at + 1) != 0)
        return -1;
    *word = &c->words[at];
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
        for (int k = 0; i && k < MT_HAZARD_WAYS; k++)
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
    int rc = 0;
    while (rc == 0 && at < end) {
        struct mt_hazard_cell *word, *bytes;
        uint64_t next = at / WORD * WORD + WORD, stop = next < end ? next : end;
        if ((rc = cta_word(c, a->space, at / WORD, &word)) != 0 || !word) {
            at = stop;
            continue;
        }
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
