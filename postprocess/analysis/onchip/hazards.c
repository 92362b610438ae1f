/* See hazards.h. CTAs that are under way are in a table and in order of their last use; those that were not
 * used for longest make room. */
#include "hazards.h"
#include "hazard_cta.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_SIZE = 16, MOST_SHARE = 32, MOST_BYTES = 256 << 20, MOST_SEEN = 1 << 22 };

const char *const mt_hazard_words[] = {
    [MT_HAZARD_RAW] = "RAW", [MT_HAZARD_WAR] = "WAR", [MT_HAZARD_WAW] = "WAW"};

const char *const mt_hazard_between_words[] = {[MT_HAZARD_IN_CTA] = "warps",
                                               [MT_HAZARD_IN_WARP] = "lanes of a warp",
                                               [MT_HAZARD_THREAD] = "a thread and its copy"};

/* ---- the list ---- */

/* One side of it: where, and how. */
static uint64_t hazards_side(const struct mt_hazards *h, const struct mt_hazard *x, int i)
{
    const uint64_t *first = mt_pairmap_find(h->lines, x->site[i], x->input);
    return (first ? *first : x->site[i]) << 2 | x->type[i];
}

/* Is its word one that these two lines have not raced for yet? Each order of the two is a hazard. Global
 * memory is one, shared memory each CTA's. 1, 0, or -1 without memory. */
static int hazards_new_word(struct mt_hazards *h, const struct mt_hazard *x, uint32_t cta)
{
    if (!h->lines) /* nobody asks */
        return 1;
    uint64_t a = hazards_side(h, x, 0), b = hazards_side(h, x, 1), low = a < b ? a : b, high = a < b ? b : a;
    const uint64_t *pair = mt_pairmap_get(&h->pairs, low, high, h->npairs), *first;
    if (!pair || h->nseen >= MOST_SEEN)
        return pair ? 1 : -1;
    h->npairs += *pair == h->npairs;
    uint64_t of = x->space == MT_IN_GLOBAL ? 0 : 1 + (uint64_t)cta;
    if (!(first = mt_pairmap_get(&h->seen, x->address / 4, *pair << 33 | of, h->nseen)))
        return -1;
    int is = *first == h->nseen;
    h->nseen += (uint64_t)is;
    return is;
}

static int hazards_add(struct mt_hazards *h, const struct mt_hazard *x, uint32_t cta)
{
    uint32_t what = x->type[0] << 7 | x->type[1] << 5 | (uint32_t)x->kind << 3 | x->between << 1 | x->space;
    uint64_t *at = mt_pairmap_get(&h->places, (uint64_t)x->site[0] << 32 | x->site[1],
                                  (uint64_t)(uintptr_t)x->kernel << 9 | what, h->count);
    if (!at || mt_grow(&h->list, &h->room, h->count + 1, sizeof *h->list) != 0 ||
        mt_grow(&h->cells, &h->cell_room, h->ncells + 1, sizeof *h->cells) != 0)
        return -1;
    struct mt_hazard *y = &h->list[*at];
    int fresh = hazards_new_word(h, x, cta);
    if (fresh < 0)
        return -1;
    if (*at == h->count) {
        *y = *x;
        h->count++;
    }
    if (!y->launches || h->cells[y->cell].launch != x->launch) {
        y->launches++;
        y->cell = h->ncells++;
        h->cells[y->cell] = (struct mt_hazard_share){0, (uint32_t)*at, x->launch};
    }
    h->cells[y->cell].count++;
    y->count++;
    y->words += (uint64_t)fresh;
    return 0;
}

/* ---- CTAs ---- */

static void hazards_unlink(struct mt_hazards *h, struct mt_hazard_cta *c)
{
    *(c->newer ? &c->newer->older : &h->newest) = c->older;
    *(c->older ? &c->older->newer : &h->oldest) = c->newer;
    c->newer = c->older = NULL;
}

static void hazards_front(struct mt_hazards *h, struct mt_hazard_cta *c)
{
    c->older = h->newest;
    c->newer = NULL;
    *(h->newest ? &h->newest->newer : &h->oldest) = c;
    h->newest = c;
}

static void hazards_close(struct mt_hazards *h, struct mt_hazard_cta *c)
{
    size_t before = mt_hazard_cta_bytes(c);
    HASH_DELETE(hh, h->table, c);
    hazards_unlink(h, c);
    mt_hazard_cta_reset(c);
    h->bytes -= before - mt_hazard_cta_bytes(c);
    c->older = h->idle;
    h->idle = c;
    h->current = NULL;
}

static struct mt_hazard_cta *hazards_open(struct mt_hazards *h, uint64_t cta)
{
    struct mt_hazard_cta *c = h->idle;
    if (!c && h->bytes > MOST_BYTES && h->oldest) {
        h->parted++;
        hazards_close(h, h->oldest);
        c = h->idle;
    }
    if (c)
        h->idle = c->older;
    else if (!(c = calloc(1, sizeof *c)))
        return NULL;
    else
        h->bytes += sizeof *c;
    c->cta = cta;
    c->number = h->opened++;
    hazards_front(h, c);
    HASH_ADD(hh, h->table, cta, sizeof c->cta, c);
    return c;
}

static struct mt_hazard_cta *hazards_cta(struct mt_hazards *h, uint64_t cta)
{
    struct mt_hazard_cta *c = h->current;
    if (c && c->cta == cta)
        return c;
    HASH_FIND(hh, h->table, &cta, sizeof cta, c);
    if (c) {
        hazards_unlink(h, c);
        hazards_front(h, c);
    }
    return h->current = c ? c : hazards_open(h, cta);
}

void mt_hazards_launch(struct mt_hazards *h, uint32_t launch, uint32_t input, const char *kernel)
{
    while (h->oldest)
        hazards_close(h, h->oldest);
    h->launch = launch;
    h->input = input;
    h->kernel = kernel;
    h->opened = 0;
    if (h->nseen)
        mt_pairmap_clear(&h->seen);
    h->nseen = 0;
}

void mt_hazards_free(struct mt_hazards *h)
{
    mt_hazards_launch(h, 0, 0, NULL);
    while (h->idle) {
        struct mt_hazard_cta *c = h->idle;
        h->idle = c->older;
        mt_hazard_cta_free(c);
    }
    free(h->list);
    free(h->cells);
    mt_pairmap_free(&h->places);
    mt_pairmap_free(&h->pairs);
    mt_pairmap_free(&h->seen);
    memset(h, 0, sizeof *h);
}

/* ---- accesses ---- */

struct found {
    struct mt_hazards *h;
    const struct mt_hazard_cta *cta;
};

static int hazards_found(void *arg, const struct mt_hazard *what)
{
    struct found *f = arg;
    struct mt_hazard x = *what;
    x.kernel = f->h->kernel;
    x.launch = f->h->launch;
    x.input = f->h->input;
    x.cta = f->cta->cta;
    return hazards_add(f->h, &x, f->cta->number);
}

/* Is it known whose it is? */
static int hazards_known(const struct mt_access_run *r)
{
    return r->warp < MT_HAZARD_WARPS && r->mask;
}

/* A lane's access, its share of a warp's matrix, or a copy of which is known what ends it; in this CTA's
 * memory, or in global memory. */
static int hazards_judged(const struct mt_access_run *r, const struct mt_hazard_access *a)
{
    uint32_t most = a->by ? MT_HAZARD_MOST_SHARED : r->mask == UINT32_MAX ? MOST_SHARE : MOST_SIZE;
    return a->size <= most && a->by != MT_HAZARD_BY_NOBODY &&
           (a->space == MT_IN_GLOBAL || a->address <= MT_HAZARD_MOST_SHARED - a->size);
}

/* May lanes touch the same bytes? */
static int hazards_overlap(const struct mt_access_run *r)
{
    int64_t size = r->meta & MT_RAW_MAX_SIZE;
    return r->addresses || (r->stride < size && r->stride > -size);
}

/* How it is done. */
static uint32_t hazards_way(const struct mt_hazards *h, const struct mt_access_run *r)
{
    uint32_t type = r->meta >> 28 & 3;
    if (!h->words || r->site >= h->nstrong || !h->strong[r->site] || type == MT_ATOMIC)
        return type;
    return type == MT_LOAD ? MT_HAZARD_STRONG_LOAD : MT_HAZARD_UPDATE;
}

static int hazards_lanes(struct mt_hazards *h, struct mt_hazard_cta *c, const struct mt_access_run *r,
                         int which)
{
    struct found f = {h, c};
    struct mt_hazard_access a = {.warp = r->warp,
                                 .size = r->meta & MT_RAW_MAX_SIZE,
                                 .way = hazards_way(h, r),
                                 .site = r->site,
                                 .space = mt_rec_space(r->meta >> 28),
                                 .found = hazards_found,
                                 .arg = &f};
    uint32_t mask = r->mask;
    for (uint32_t i = 0; i < r->count; i++, mask &= mask - 1) {
        a.address = r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i;
        a.lane = (uint32_t)__builtin_ctz(mask);
        if (!(a.group = mt_hazard_group_of(&c->order, r->warp, a.lane)))
            return -1;
        a.time = a.group->time;
        if (c->order.copies && a.space == MT_IN_SHARED)
            a.time = mt_hazard_copy_time(&c->order, a.group, a.lane, a.site, &a.by);
        if (!hazards_judged(r, &a)) {
            h->unjudged += which & MT_HAZARD_KEEP ? 1 : 0;
        } else if (mt_hazard_touch(c, &a, which) != 0) {
            return -1;
        }
    }
    return 0;
}

static int hazards_cells(struct mt_hazards *h, struct mt_hazard_cta *c, const struct mt_access_run *r)
{
    if ((r->meta >> 28 & 3) != MT_STORE || !hazards_overlap(r))
        return hazards_lanes(h, c, r, MT_HAZARD_COMPARE | MT_HAZARD_KEEP);
    return hazards_lanes(h, c, r, MT_HAZARD_COMPARE) != 0 ? -1 : hazards_lanes(h, c, r, MT_HAZARD_KEEP);
}

static int hazards_access(struct mt_hazards *h, struct mt_hazard_cta *c, const struct mt_access_run *r)
{
    uint32_t way = hazards_way(h, r);
    int orders = h->words && way >= MT_HAZARD_UPDATE, reads = (r->meta >> 28 & 3) != MT_STORE;
    mt_hazard_go_on(&c->order, r->warp, r->mask);
    c->run++;
    if (orders && mt_hazard_words_before(&c->order, r, reads) != 0)
        return -1;
    if (hazards_cells(h, c, r) != 0)
        return -1;
    return orders && way == MT_HAZARD_UPDATE ? mt_hazard_words_after(&c->order, r, reads) : 0;
}

int mt_hazards_runs(struct mt_hazards *h, const struct mt_access_run *runs, size_t n)
{
    for (const struct mt_access_run *r = runs, *end = runs + n; r < end; r++) {
        uint32_t type = r->meta >> 28, space = mt_rec_space(type);
        int sync = type >= MT_SYNC_BARRIER;
        if (!sync && space != MT_IN_SHARED && (!h->global || type > MT_ATOMIC))
            continue;
        if (!hazards_known(r)) {
            h->unjudged += sync ? 0 : r->count;
            continue;
        }
        struct mt_hazard_cta *c = hazards_cta(h, r->cta);
        if (!c)
            return -1;
        size_t before = mt_hazard_cta_bytes(c);
        if ((sync ? mt_hazard_sync(&c->order, r) : hazards_access(h, c, r)) != 0)
            return -1;
        h->bytes += mt_hazard_cta_bytes(c) - before;
        h->loose += c->order.loose;
        c->order.loose = 0;
    }
    return 0;
}
