/* Hazards of a launch. Open CTAs are in a table and in order of their last use; the least recently used ones
 * are dropped to make room. */
#include "hazards.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"

#include <stdlib.h>
#include <string.h>

/* Limits, and ways of access; `lanes` are groups without other lanes. */

enum {
    MT_HAZARD_MOST_SHARED = 1 << 20, /* bytes: more than any GPU has */
    MT_HAZARD_MOST_FAR = 1 << 24, /* maximum number of words of global memory that are checked in a launch */
    MT_HAZARD_FAR = 64            /* words of global memory in a page */
};

/* Way of an access: its type, or a strong access (PTX's memory model). Two strong accesses make no hazard; an
 * update is a strong store or an atomic. */
enum {
    MT_HAZARD_LOAD = MT_LOAD,
    MT_HAZARD_STORE = MT_STORE,
    MT_HAZARD_UPDATE = MT_ATOMIC,
    MT_HAZARD_STRONG_LOAD,
    MT_HAZARD_NARROW_UPDATE, /* of a scope without other CTAs */
    MT_HAZARD_NARROW_LOAD,
    MT_HAZARD_WAYS
};

/* Earlier accesses to a word by these lanes of these warps, or by their copies, at time `time` and one site;
 * element of a list. */
struct mt_hazard_past {
    uint32_t time, site, lanes, warps;
    uint32_t cta;  /* number of the CTA in the launch */
    uint32_t by;   /* part of the clock that has the time: 0, MT_CLOCK_BY_…, or an mbarrier's */
    uint32_t next; /* number of the next element; 0: none */
};

/* Accesses to a word, or to a byte, that may be unordered with a later one: since the last plain store, and
 * for each way without those ordered before a later access of that way. */
struct mt_hazard_cell {
    uint32_t past[MT_HAZARD_WAYS]; /* number of the latest element, or 0 */
    uint32_t bytes; /* index of the 4 cells of the bytes, if smaller accesses share the word; 0: none */
    uint64_t run;   /* instruction of the latest stores */
};

/* Cells of a CTA's shared memory, or of global memory. */
struct mt_hazard_cells {
    struct mt_hazard_cell *words, *bytes, *far; /* of shared memory, of parts of words, of global memory */
    size_t nwords, words_room, nbytes, bytes_room, nfar, far_room;
    struct mt_pairmap pages;     /* pages of global memory: address / (4 * MT_HAZARD_FAR) to the first cell */
    struct mt_hazard_past *past; /* by number, from 1 */
    size_t npast, past_room;
    uint32_t spare; /* list of free numbers */
};

struct mt_hazard_cta {
    uint32_t number; /* number of the CTA in the launch */
    int parted;      /* 1: its clocks were dropped before; nothing of it is checked any more */
    uint64_t cta;
    struct mt_clocks order;
    struct mt_hazard_cells shared;
    UT_hash_handle hh;
    struct mt_hazard_cta *newer, *older;
};

struct mt_hazard_access {
    uint64_t address;
    uint32_t warp, lane, size, way, site, space;
    uint32_t by, time;                  /* part of the clock, and time in it, of a copy */
    uint64_t run;                       /* number of the instruction */
    int reads;                          /* 1: it reads */
    const struct mt_clock_group *group; /* group of the lane that accesses */
    const struct mt_hazard_cta *cta;
    struct mt_hazards *of;
};

/* Steps: compare an access with earlier ones; keep it for later ones. Lanes that store to the same bytes in
 * one instruction are all compared before the first is kept: they make no hazard among themselves. */
enum { MT_HAZARD_COMPARE = 1, MT_HAZARD_KEEP = 2 };

enum { MOST_SIZE = 16, MOST_SHARE = 32, HAZARDS_MOST_BYTES = 256 << 20, MOST_SEEN = 1 << 22 };

const char *const mt_hazard_words[] = {
    [MT_HAZARD_RAW] = "RAW", [MT_HAZARD_WAR] = "WAR", [MT_HAZARD_WAW] = "WAW"};

const char *const mt_hazard_between_words[] = {[MT_HAZARD_IN_CTA] = "warps",
                                               [MT_HAZARD_IN_WARP] = "lanes of a warp",
                                               [MT_HAZARD_THREAD] = "a thread and its copy",
                                               [MT_HAZARD_CTAS] = "CTAs"};

enum { HAZARDS_LANES = MT_CLOCK_LANES, HAZARD_CTA_WORD = 4 };
#define ALL UINT32_MAX
#define NOBODY UINT32_MAX

static void cells_reset(struct mt_hazard_cells *t)
{
    t->nwords = 0;
    t->nbytes = 0;
    t->nfar = 0;
    mt_pairmap_clear(&t->pages);
    t->npast = 0;
    t->spare = 0;
}

static void cells_free(struct mt_hazard_cells *t)
{
    free(t->words);
    free(t->bytes);
    free(t->far);
    mt_pairmap_free(&t->pages);
    free(t->past);
}

static void hazard_cta_reset(struct mt_hazard_cta *c)
{
    mt_clocks_reset(&c->order);
    cells_reset(&c->shared);
    c->parted = 0;
}

static void hazard_cta_free(struct mt_hazard_cta *c)
{
    mt_clocks_free(&c->order);
    cells_free(&c->shared);
    free(c);
}

/* Returns the bytes of the CTA's cells and clocks. */
static size_t hazard_cta_bytes(const struct mt_hazard_cta *c)
{
    const struct mt_hazard_cells *t = &c->shared;
    return sizeof *c + c->order.bytes + (t->words_room + t->bytes_room) * sizeof *t->words +
           t->past_room * sizeof *t->past;
}

/* ---- list of hazards ---- */

/* Returns one side of a hazard: line and type. */
static uint64_t hazards_side(const struct mt_hazards *h, const struct mt_hazard *x, int i)
{
    const struct mt_site_table *t = h->sites;
    const uint64_t line = t && x->site[i] < t->count ? t->line[x->site[i]] : 1ull << 32 | x->site[i];
    return line << 3 | (uint64_t)(x->between == MT_HAZARD_CTAS) << 2 | x->type[i];
}

/* Returns 1 if these two lines, in either order, had no hazard at its word before. Global memory is common,
 * but threads of one CTA and CTAs are told apart; shared memory counts per CTA. -1 without memory. */
static int hazards_new_word(struct mt_hazards *h, const struct mt_hazard *x, uint32_t cta)
{
    if (!h->words) /* nobody needs the number of words */
        return 1;
    uint64_t a = hazards_side(h, x, 0), b = hazards_side(h, x, 1), low = a < b ? a : b, high = a < b ? b : a;
    const uint64_t *pair = mt_pairmap_get(&h->pairs, low, high, h->npairs), *first;
    if (!pair || h->nseen >= MOST_SEEN)
        return pair ? 1 : -1;
    h->npairs += *pair == h->npairs;
    uint64_t of = x->space != MT_IN_GLOBAL       ? 1 + (uint64_t)cta
                  : x->between == MT_HAZARD_CTAS ? 1ull << 32
                                                 : 0;
    if (!(first = mt_pairmap_get(&h->seen, x->address / 4, *pair << 33 | of, h->nseen)))
        return -1;
    int is = *first == h->nseen;
    h->nseen += (uint64_t)is;
    return is;
}

static int hazards_add(struct mt_hazards *h, const struct mt_hazard *x, uint32_t cta)
{
    /* The bytes that the lanes of a warp stored together are unknown: it may be these. */
    if (h->single && x->between == MT_HAZARD_IN_WARP && x->site[0] == x->site[1] && x->type[0] == x->type[1])
        return 0;
    uint32_t what = x->type[0] << 8 | x->type[1] << 6 | (uint32_t)x->kind << 4 | (uint32_t)x->between << 2 |
                    (uint32_t)x->narrow << 1 | x->space;
    uint64_t *at = mt_pairmap_get(&h->places, (uint64_t)x->site[0] << 32 | x->site[1],
                                  (uint64_t)(uintptr_t)x->kernel << 10 | what, h->count);
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

/* Returns 1 if the CTAs may have ordered each other, which records in no order do not show. */
static int hazards_hidden(const struct mt_hazards *h, uint64_t a, uint64_t b)
{
    const struct mt_suspects *s = h->suspects;
    return s && s->shuffled && mt_pairmap_find(&s->orders, h->launch, a) &&
           mt_pairmap_find(&s->orders, h->launch, b);
}

/* Adds a hazard between a CTA and the one of that number. `what` has no kernel, launch, input and CTAs. */
static int hazards_found(struct mt_hazards *h, const struct mt_hazard_cta *c, uint32_t other,
                         const struct mt_hazard *what)
{
    struct mt_hazard x = *what;
    if (x.between == MT_HAZARD_CTAS && hazards_hidden(h, c->cta, h->ctas[other]))
        return 0;
    x.kernel = h->kernel;
    x.known = !h->alone;
    x.launch = h->launch;
    x.event = h->event;
    x.input = h->input;
    x.cta[0] = h->ctas[other];
    x.cta[1] = c->cta;
    return hazards_add(h, &x, c->number);
}

static int hazards_suspects(struct mt_hazards *h, uint32_t space, uint64_t word)
{
    return !h->suspects || mt_suspects_has(&h->suspected, space, word);
}

/* ---- earlier accesses ---- */

/* Adds an element at the front of a list. Returns 0, or -1 without memory. */
static int past_add(struct mt_hazard_cells *c, uint32_t *at, struct mt_hazard_past p)
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

static void past_drop(struct mt_hazard_cells *c, uint32_t *at)
{
    struct mt_hazard_past *p = &c->past[*at];
    uint32_t next = p->next;
    p->next = c->spare;
    c->spare = *at;
    *at = next;
}

/* Returns 1 if an earlier access of the same thread is ordered before this one. A copy of the thread is
 * ordered only after it is awaited. A kept access also covers copies of the same thread that end before
 * it. */
static int past_is_own(const struct mt_hazard_past *p, const struct mt_hazard_access *a, int which)
{
    return !p->by || (which == MT_HAZARD_KEEP && p->by == a->by) ||
           (p->by < MT_CLOCK_BY_OBJECT && a->group->copies[p->by == MT_CLOCK_BY_BULK].done >= p->time);
}

/* Returns 1 if the earlier access of that thread is ordered before the group's current one. */
static inline int past_is_before(const struct mt_hazard_past *p, const struct mt_clock_group *g,
                                 uint32_t thread)
{
    return g->known.time[p->by < MT_CLOCK_BY_OBJECT ? p->by + thread : p->by] >= p->time;
}

/* Returns 1 if the earlier access, of another CTA, is ordered before this one. */
static int past_is_far_before(const struct mt_hazard_past *p, const struct mt_hazard_access *a,
                              uint32_t thread)
{
    const struct mt_clocks *o = &a->cta->order;
    return mt_view_time(o->views, a->group->known.seen, p->cta, thread) >= p->time;
}

/* Returns its lanes in that warp, except the current access's own. */
static inline uint32_t past_others(const struct mt_hazard_past *p, uint32_t warp,
                                   const struct mt_hazard_access *a, int which)
{
    return p->cta == a->cta->number && warp == a->warp && past_is_own(p, a, which)
               ? p->lanes & ~(1u << a->lane)
               : p->lanes;
}

/* Returns its lanes in that warp that are not ordered before this access, which is kept. */
static uint32_t past_lanes(const struct mt_hazard_past *p, uint32_t warp, const struct mt_hazard_access *a)
{
    uint32_t left = 0;
    for (uint32_t m = past_others(p, warp, a, MT_HAZARD_KEEP); m; m &= m - 1)
        if (!past_is_before(p, a->group, warp * HAZARDS_LANES + (uint32_t)__builtin_ctz(m)))
            left |= m & -m;
    return left;
}

/* Returns the first of its threads that is not ordered before this access, or NOBODY. */
static uint32_t past_unordered(const struct mt_hazard_past *p, const struct mt_hazard_access *a, int which)
{
    for (uint32_t w = p->warps; w; w &= w - 1) {
        uint32_t warp = (uint32_t)__builtin_ctz(w);
        for (uint32_t m = past_others(p, warp, a, which); m; m &= m - 1) {
            uint32_t thread = warp * HAZARDS_LANES + (uint32_t)__builtin_ctz(m);
            if (p->cta == a->cta->number ? !past_is_before(p, a->group, thread)
                                         : !past_is_far_before(p, a, thread))
                return thread;
        }
    }
    return NOBODY;
}

/* Adds an access to an element if it fits. Warps that do the same, such as those of a tile, share an element:
 * this keeps lists short. */
static int past_takes(struct mt_hazard_past *p, const struct mt_hazard_past *now, int whole)
{
    if (p->time != now->time || p->site != now->site || p->by != now->by || p->cta != now->cta)
        return 0;
    if (p->warps == now->warps || (p->warps & now->warps && p->lanes & now->lanes))
        p->lanes |= p->warps == now->warps ? now->lanes : 0;
    else if (whole && p->lanes == now->lanes)
        p->warps |= now->warps;
    else
        return 0;
    return 1;
}

/* Returns 1 if the access comes after all earlier updates by what it reads: updates of a word have an order,
 * and what follows the later one follows both. (An update of narrow scope that is in no order with this one
 * may then be missed with an earlier one.) */
static int past_is_observed(const struct mt_hazard_access *a)
{
    return a->of->words && a->way == MT_HAZARD_UPDATE && a->reads;
}

/* Removes what of an element is ordered before the access; `now`: the access. Returns 1 if nothing is left.
 */
static int past_shrink(struct mt_hazard_past *p, const struct mt_hazard_access *a,
                       const struct mt_hazard_past *now)
{
    if (p->cta == now->cta && p->warps == now->warps)
        p->lanes = past_lanes(p, a->warp, a);
    else if (p->cta == now->cta && p->warps & now->warps && !past_lanes(p, a->warp, a))
        p->warps ^= now->warps;
    return !p->lanes || past_is_observed(a) || past_unordered(p, a, MT_HAZARD_KEEP) == NOBODY;
}

/* Keeps an access and removes those that are ordered before it: an access unordered with them is also
 * unordered with it. */
static int past_keep(struct mt_hazard_cells *c, uint32_t *at, const struct mt_hazard_access *a)
{
    struct mt_hazard_past now = {.time = a->time,
                                 .site = a->site,
                                 .lanes = 1u << a->lane,
                                 .warps = 1u << a->warp,
                                 .cta = a->cta->number,
                                 .by = a->by};
    uint32_t others = 0;
    for (uint32_t *i = at; *i;) {
        struct mt_hazard_past *p = &c->past[*i], *q = &c->past[p->next];
        if (p->next && p->lanes == ALL && q->lanes == ALL && p->time == q->time && p->site == q->site &&
            p->by == q->by && p->cta == q->cta) {
            p->warps |= q->warps;
            past_drop(c, &p->next);
        }
        if (past_takes(p, &now, a->group->lanes == ALL))
            return 0;
        others += p->cta != now.cta;
        if (past_shrink(p, a, &now) || (p->cta != now.cta && others > MT_HAZARD_KEPT))
            past_drop(c, i);
        else
            i = &p->next;
    }
    return past_add(c, at, now);
}

/* Returns 0, or -1 without memory. */
static int past_copy(struct mt_hazard_cells *c, uint32_t from, uint32_t *to)
{
    uint32_t first = 0;
    for (; from; from = c->past[from].next)
        if (past_add(c, &first, c->past[from]) != 0)
            return -1;
    *to = first;
    return 0;
}

/* ---- cells ---- */

static int cell_strong(uint32_t way)
{
    return way >= MT_HAZARD_UPDATE;
}

/* Returns the type shown for a way of access. */
static uint32_t cell_type(uint32_t way)
{
    return way == MT_HAZARD_NARROW_UPDATE                                 ? MT_ATOMIC
           : way == MT_HAZARD_STRONG_LOAD || way == MT_HAZARD_NARROW_LOAD ? MT_LOAD
                                                                          : way;
}

static int cell_tell(const struct mt_hazard_access *a, const struct mt_hazard_past *p, uint32_t thread,
                     uint32_t way, uint64_t address)
{
    uint32_t type = cell_type(way), later = cell_type(a->way);
    int kind = later == MT_LOAD ? MT_HAZARD_RAW : type == MT_LOAD ? MT_HAZARD_WAR : MT_HAZARD_WAW;
    uint32_t own = a->warp * HAZARDS_LANES + a->lane;
    struct mt_hazard x = {.site = {p->site, a->site},
                          .type = {type, later},
                          .kind = (uint8_t)kind,
                          .between = p->cta != a->cta->number            ? MT_HAZARD_CTAS
                                     : thread == own                     ? MT_HAZARD_THREAD
                                     : thread / HAZARDS_LANES == a->warp ? MT_HAZARD_IN_WARP
                                                                         : MT_HAZARD_IN_CTA,
                          .space = (uint8_t)a->space,
                          .narrow = cell_strong(way) && cell_strong(a->way),
                          .thread = {thread, own},
                          .address = address};
    return hazards_found(a->of, a->cta, p->cta, &x);
}

/* Returns 1 if the access may be a hazard with an earlier one of that way. */
static int cell_meets(const struct mt_hazard_access *a, uint32_t way, const struct mt_hazard_past *p)
{
    if (a->way == MT_HAZARD_STORE || way == MT_HAZARD_STORE)
        return 1;
    if (cell_strong(a->way) && cell_strong(way)) /* one of them is narrow */
        return p->cta != a->cta->number;
    return a->space == MT_IN_SHARED || a->of->strict;
}

/* Compares an access with a cell; reports at most one pair. */
static int cell_compare(const struct mt_hazard_cells *c, const struct mt_hazard_cell *x,
                        const struct mt_hazard_access *a, uint64_t address)
{
    enum { NO = MT_HAZARD_WAYS };
    static const uint32_t order[][MT_HAZARD_WAYS] = {
        [MT_HAZARD_LOAD] = {MT_HAZARD_STORE, MT_HAZARD_UPDATE, MT_HAZARD_NARROW_UPDATE, NO},
        [MT_HAZARD_STORE] = {MT_HAZARD_STORE, MT_HAZARD_UPDATE, MT_HAZARD_LOAD, MT_HAZARD_STRONG_LOAD,
                             MT_HAZARD_NARROW_UPDATE, MT_HAZARD_NARROW_LOAD},
        [MT_HAZARD_UPDATE] = {MT_HAZARD_STORE, MT_HAZARD_LOAD, MT_HAZARD_NARROW_UPDATE, MT_HAZARD_NARROW_LOAD,
                              NO},
        [MT_HAZARD_STRONG_LOAD] = {MT_HAZARD_STORE, MT_HAZARD_NARROW_UPDATE, NO},
        [MT_HAZARD_NARROW_UPDATE] = {MT_HAZARD_STORE, MT_HAZARD_LOAD, MT_HAZARD_UPDATE, MT_HAZARD_STRONG_LOAD,
                                     MT_HAZARD_NARROW_UPDATE, MT_HAZARD_NARROW_LOAD},
        [MT_HAZARD_NARROW_LOAD] = {MT_HAZARD_STORE, MT_HAZARD_UPDATE, MT_HAZARD_NARROW_UPDATE, NO}};
    const uint32_t *with = order[a->way];
    for (int i = 0; i < MT_HAZARD_WAYS && with[i] != NO; i++)
        for (uint32_t at = x->past[with[i]]; at; at = c->past[at].next) {
            const struct mt_hazard_past *p = &c->past[at];
            uint32_t thread = cell_meets(a, with[i], p) ? past_unordered(p, a, MT_HAZARD_COMPARE) : NOBODY;
            if (thread != NOBODY)
                return cell_tell(a, p, thread, with[i], address);
        }
    return 0;
}

/* Keeps a plain store and removes all others: unordered ones were reported, the rest is covered by it. */
static int cell_keep(struct mt_hazard_cells *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a)
{
    if (a->way == MT_HAZARD_STORE && x->run != a->run) {
        for (int i = 0; i < MT_HAZARD_WAYS; i++)
            while (x->past[i])
                past_drop(c, &x->past[i]);
        x->run = a->run;
    }
    return past_keep(c, &x->past[a->way], a);
}

static int cell_touch(struct mt_hazard_cells *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address, int which)
{
    if (which & MT_HAZARD_COMPARE && cell_compare(c, x, a, address) != 0)
        return -1;
    return which & MT_HAZARD_KEEP ? cell_keep(c, x, a) : 0;
}

/* Makes room for at least `words` cells. */
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

/* Finds the cell of a word of global memory; *word is NULL if there are too many. */
static int cta_far(struct mt_hazard_cells *c, uint64_t at, struct mt_hazard_cell **word)
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

/* Finds the cell of a word of any space. */
static int cta_word(struct mt_hazard_cells *c, uint32_t space, uint64_t at, struct mt_hazard_cell **word)
{
    if (space == MT_IN_GLOBAL)
        return cta_far(c, at, word);
    if (cta_reach(&c->words, &c->nwords, &c->words_room, at + 1) != 0)
        return -1;
    *word = &c->words[at];
    return 0;
}

/* Creates the cells of a word's four bytes as copies; the first takes over its lists. NULL: no memory. */
static struct mt_hazard_cell *cta_split(struct mt_hazard_cells *c, struct mt_hazard_cell *word)
{
    size_t at = c->nbytes ? c->nbytes : HAZARD_CTA_WORD; /* index 0 means none */
    if (word->bytes)
        return &c->bytes[word->bytes];
    if (mt_grow(&c->bytes, &c->bytes_room, at + HAZARD_CTA_WORD, sizeof *c->bytes) != 0)
        return NULL;
    for (size_t i = 0; i < HAZARD_CTA_WORD; i++) {
        c->bytes[at + i] = *word;
        for (int k = 0; i && k < MT_HAZARD_WAYS; k++)
            if (past_copy(c, word->past[k], &c->bytes[at + i].past[k]) != 0)
                return NULL;
    }
    c->nbytes = at + HAZARD_CTA_WORD;
    word->bytes = (uint32_t)at;
    return &c->bytes[at];
}

/* Returns 0, or -1 without memory. */
static int hazard_touch(struct mt_hazard_cells *c, const struct mt_hazard_access *a, int which)
{
    uint64_t at = a->address, end = a->address + a->size;
    int rc = 0;
    while (rc == 0 && at < end) {
        struct mt_hazard_cell *word, *bytes;
        uint64_t next = at / HAZARD_CTA_WORD * HAZARD_CTA_WORD + HAZARD_CTA_WORD,
                 stop = next < end ? next : end;
        if (!hazards_suspects(a->of, a->space, at / HAZARD_CTA_WORD) ||
            (rc = cta_word(c, a->space, at / HAZARD_CTA_WORD, &word)) != 0) {
            at = stop;
            continue;
        }
        if (!word) {
            a->of->unjudged += which & MT_HAZARD_KEEP ? 1 : 0;
            return 0;
        }
        if (at % HAZARD_CTA_WORD == 0 && stop == next && !word->bytes) {
            rc = cell_touch(c, word, a, at, which);
        } else if (!(bytes = cta_split(c, word))) {
            rc = -1;
        } else {
            for (uint64_t i = at; rc == 0 && i < stop; i++)
                rc = cell_touch(c, &bytes[i % HAZARD_CTA_WORD], a, i, which);
        }
        at = stop;
    }
    return rc;
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
    size_t before = hazard_cta_bytes(c);
    HASH_DELETE(hh, h->table, c);
    hazards_unlink(h, c);
    hazard_cta_reset(c);
    h->bytes -= before - hazard_cta_bytes(c);
    c->older = h->idle;
    h->idle = c;
    h->current = NULL;
}

/* Returns the cluster of a CTA, or NULL; *failed: 1 without memory. */
static struct mt_clock_cluster *hazards_cluster(struct mt_hazards *h, uint64_t cta, int *failed)
{
    const uint64_t *n = h->event ? h->event->cluster : NULL;
    struct mt_clock_cluster *x = NULL;
    if (!n || !n[0] || !n[1] || !n[2] || n[0] * n[1] * n[2] == 1)
        return NULL;
    uint64_t key = (cta >> 32) / n[0] << 32 | (cta >> 16 & 0xffff) / n[1] << 16 | (cta & 0xffff) / n[2];
    HASH_FIND(hh, h->clusters, &key, sizeof key, x);
    if (x)
        return x;
    if (!(x = calloc(1, sizeof *x))) {
        *failed = 1;
        return NULL;
    }
    x->key = key;
    HASH_ADD(hh, h->clusters, key, sizeof x->key, x);
    return x;
}

/* Gives a CTA that begins, or one whose clocks were dropped, its number. Returns 0, or -1 without memory. */
static int hazards_number(struct mt_hazards *h, struct mt_hazard_cta *c)
{
    const uint64_t *number = mt_pairmap_get(&h->numbers, c->cta, 0, h->opened);
    int failed = 0;
    if (!number || mt_grow(&h->ctas, &h->ctas_room, h->opened + 1, sizeof *h->ctas) != 0)
        return -1;
    c->number = (uint32_t)*number;
    c->parted = c->number < h->opened;
    if (!c->parted)
        h->ctas[h->opened++] = c->cta;
    c->order.views = h->words ? &h->views : NULL;
    c->order.far = &h->far;
    c->order.number = c->number;
    c->order.strict = h->strict && h->words && !h->fenced;
    c->order.cluster = hazards_cluster(h, c->cta, &failed);
    return failed ? -1 : 0;
}

static struct mt_hazard_cta *hazards_open(struct mt_hazards *h, uint64_t cta)
{
    struct mt_hazard_cta *c = h->idle;
    if (!c && h->bytes > HAZARDS_MOST_BYTES && h->oldest) {
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
    hazards_front(h, c);
    HASH_ADD(hh, h->table, cta, sizeof c->cta, c);
    if (hazards_number(h, c) != 0)
        return NULL;
    h->parted += (uint64_t)c->parted;
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

/* Ends the launch: so have its CTAs. */
static void hazards_end(struct mt_hazards *h)
{
    struct mt_clock_cluster *x, *after;
    while (h->oldest)
        hazards_close(h, h->oldest);
    HASH_ITER(hh, h->clusters, x, after)
    {
        HASH_DELETE(hh, h->clusters, x);
        free(x);
    }
    if (h->global)
        cells_reset(h->global);
    mt_clock_far_clear(&h->far);
    mt_pairmap_clear(&h->numbers);
    if (h->nseen)
        mt_pairmap_clear(&h->seen);
    h->nseen = h->now = h->opened = 0;
}

void mt_hazards_launch(struct mt_hazards *h, uint32_t number, const struct mt_run_launch *l)
{
    const uint64_t *grid = l->event ? l->event->grid : NULL;
    hazards_end(h);
    h->next_views = 0;
    mt_views_clear(&h->views, grid ? grid[0] * grid[1] * grid[2] : UINT32_MAX);
    h->launch = number;
    h->input = (uint32_t)l->input;
    h->kernel = l->kernel;
    h->event = l->event;
    h->single = l->single;
    h->alone = h->words && !(l->event && l->event->barriers);
    h->suspected = (struct mt_suspects_launch){.of = h->suspects, .number = number};
}

void mt_hazards_free(struct mt_hazards *h)
{
    hazards_end(h);
    mt_views_clear(&h->views, 0);
    while (h->idle) {
        struct mt_hazard_cta *c = h->idle;
        h->idle = c->older;
        hazard_cta_free(c);
    }
    if (h->global)
        cells_free(h->global);
    free(h->global);
    free(h->list);
    free(h->cells);
    free(h->ctas);
    mt_pairmap_free(&h->places);
    mt_pairmap_free(&h->pairs);
    mt_pairmap_free(&h->seen);
    mt_pairmap_free(&h->numbers);
    memset(h, 0, sizeof *h);
}

/* ---- accesses ---- */

/* Returns 1 if the access is checked: a lane's access, its share of a warp's matrix, or a copy with known
 * completion; in this CTA's memory, or in global memory. */
static int hazards_judged(const struct mt_access_run *r, const struct mt_hazard_access *a)
{
    uint32_t most = a->by || a->of->alone   ? MT_HAZARD_MOST_SHARED
                    : r->mask == UINT32_MAX ? MOST_SHARE
                                            : MOST_SIZE;
    return a->size <= most && a->by != MT_CLOCK_BY_NOBODY &&
           (a->space == MT_IN_GLOBAL || a->address <= MT_HAZARD_MOST_SHARED - a->size);
}

/* Returns 1 if lanes may touch the same bytes. */
static int hazards_overlap(const struct mt_access_run *r)
{
    int64_t size = r->meta & MT_RAW_MAX_SIZE;
    return r->addresses || (r->stride < size && r->stride > -size);
}

/* Returns what a strong access orders. What does not say its scope counts as wide, and as fenced: its trace
 * has no fences. */
static struct mt_clock_strong hazards_strong(const struct mt_hazards *h, const struct mt_access_run *r)
{
    enum mt_scope scope = mt_site_scope(h->sites, r->site);
    enum mt_order_kind order = mt_site_order(h->sites, r->site);
    uint32_t type = r->meta >> 28 & 3;
    int assumed = scope == MT_SCOPE_NONE || h->alone || h->fenced;
    int clusters = h->event && h->event->cluster[0] * h->event->cluster[1] * h->event->cluster[2] > 1;
    return (struct mt_clock_strong){
        .reads = type != MT_STORE,
        .writes = type != MT_LOAD,
        .wide = scope == MT_SCOPE_NONE || scope >= MT_SCOPE_GPU || (scope == MT_SCOPE_CLUSTER && clusters),
        .releases = assumed || order == MT_ORDER_RELEASE || order == MT_ORDER_ACQ_REL,
        .acquires = assumed || order == MT_ORDER_ACQUIRE || order == MT_ORDER_ACQ_REL};
}

/* Returns the way of a run's accesses; s: what it orders, if it is strong. */
static uint32_t hazards_way(const struct mt_hazards *h, const struct mt_access_run *r,
                            const struct mt_clock_strong *s)
{
    uint32_t type = r->meta >> 28 & 3;
    int strong = h->words && mt_site_strong(h->sites, r->site);
    if (h->words && mt_rec_space(r->meta >> 28) == MT_IN_GLOBAL && (strong || type == MT_ATOMIC) && !s->wide)
        return type == MT_LOAD ? MT_HAZARD_NARROW_LOAD : MT_HAZARD_NARROW_UPDATE;
    if (!strong || type == MT_ATOMIC)
        return type;
    return type == MT_LOAD ? MT_HAZARD_STRONG_LOAD : MT_HAZARD_UPDATE;
}

static int hazards_lanes(struct mt_hazards *h, struct mt_hazard_cta *c, const struct mt_access_run *r,
                         const struct mt_clock_strong *strong, int which)
{
    struct mt_hazard_access a = {.warp = r->warp,
                                 .size = r->meta & MT_RAW_MAX_SIZE,
                                 .way = hazards_way(h, r, strong),
                                 .site = r->site,
                                 .space = mt_rec_space(r->meta >> 28),
                                 .run = h->now,
                                 .reads = strong->reads,
                                 .of = h,
                                 .cta = c};
    struct mt_hazard_cells *cells = a.space == MT_IN_GLOBAL ? h->global : &c->shared;
    uint32_t mask = r->mask;
    for (uint32_t i = 0; i < r->count; i++, mask &= mask - 1) {
        a.address = mt_run_address(r, i);
        a.lane = h->alone ? 0 : (uint32_t)__builtin_ctz(mask);
        if (!(a.group = mt_clocks_group(&c->order, r->warp, a.lane)))
            return -1;
        a.time = a.group->time;
        if (c->order.copies && a.space == MT_IN_SHARED)
            a.time = mt_clocks_copy_time(&c->order, a.group, a.lane, a.site, &a.by);
        if (!hazards_judged(r, &a)) {
            h->unjudged += which & MT_HAZARD_KEEP ? 1 : 0;
        } else if (hazard_touch(cells, &a, which) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Compares and keeps a run's accesses. Returns 0, or -1 without memory. */
static int hazards_both(struct mt_hazards *h, struct mt_hazard_cta *c, const struct mt_access_run *r,
                        const struct mt_clock_strong *s)
{
    if ((r->meta >> 28 & 3) != MT_STORE || !hazards_overlap(r))
        return hazards_lanes(h, c, r, s, MT_HAZARD_COMPARE | MT_HAZARD_KEEP);
    return hazards_lanes(h, c, r, s, MT_HAZARD_COMPARE) != 0 ? -1 : hazards_lanes(h, c, r, s, MT_HAZARD_KEEP);
}

static int hazards_access(struct mt_hazards *h, struct mt_hazard_cta *c, const struct mt_access_run *r)
{
    struct mt_clock_strong s = hazards_strong(h, r);
    int orders = h->words && cell_strong(hazards_way(h, r, &s));
    mt_clocks_go_on(&c->order, r->warp, r->mask);
    h->now++;
    if (orders && mt_clocks_before(&c->order, r, &s) != 0)
        return -1;
    if (hazards_both(h, c, r, &s) != 0)
        return -1;
    return orders ? mt_clocks_after(&c->order, r, &s) : 0;
}

/* Returns a run as one of the CTA's only thread: barriers are not known, or neither are lanes. */
static struct mt_access_run hazards_alone(const struct mt_access_run *r)
{
    struct mt_access_run x = *r;
    x.warp = 0;
    x.mask = 1;
    return x;
}

/* Keeps only the views in use, once there are many. */
static void hazards_views(struct mt_hazards *h)
{
    size_t most = h->most_views ? h->most_views : HAZARDS_MOST_BYTES;
    if (h->views.bytes < (h->next_views > most ? h->next_views : most))
        return;
    mt_views_move_begin(&h->views);
    for (struct mt_hazard_cta *c = h->newest; c; c = c->older)
        mt_clocks_move(&c->order);
    for (struct mt_clock_cluster *x = h->clusters; x; x = x->hh.next)
        for (int i = 0; i < 2; i++)
            mt_views_move(&h->views, &x->told[i]);
    mt_clock_far_move(&h->far, &h->views);
    mt_views_move_end(&h->views);
    h->next_views = 2 * h->views.bytes;
}

static int hazards_run(struct mt_hazards *h, const struct mt_access_run *r, int sync)
{
    struct mt_hazard_cta *c = hazards_cta(h, r->cta);
    if (!c)
        return -1;
    if (c->parted) {
        h->unjudged += sync ? 0 : r->count;
        return 0;
    }
    size_t before = hazard_cta_bytes(c);
    if ((sync ? mt_clocks_sync(&c->order, r) : hazards_access(h, c, r)) != 0)
        return -1;
    hazards_views(h);
    h->bytes += hazard_cta_bytes(c) - before;
    h->loose += c->order.loose;
    c->order.loose = 0;
    return h->views.failed ? -1 : 0;
}

int mt_hazards_runs(struct mt_hazards *h, const struct mt_access_run *runs, size_t n)
{
    if (h->words && !h->global && !(h->global = calloc(1, sizeof *h->global)))
        return -1;
    for (const struct mt_access_run *r = runs, *end = runs + n; r < end; r++) {
        uint32_t type = r->meta >> 28, space = mt_rec_space(type);
        int sync = type >= MT_SYNC_BARRIER;
        if (!sync && space != MT_IN_SHARED && (!h->words || type > MT_ATOMIC))
            continue;
        if (h->alone) {
            struct mt_access_run x = hazards_alone(r);
            if (!sync && space == MT_IN_GLOBAL && hazards_run(h, &x, 0) != 0)
                return -1;
            continue;
        }
        if (r->warp >= MT_CLOCK_WARPS || !r->mask)
            h->unjudged += sync ? 0 : r->count;
        else if (hazards_run(h, r, sync) != 0)
            return -1;
    }
    return 0;
}

int mt_hazards_has(const struct mt_hazards *h, const struct mt_hazard *x)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct mt_hazard *y = &h->list[i];
        int same = y->site[0] == x->site[0] && y->site[1] == x->site[1],
            turned = y->site[0] == x->site[1] && y->site[1] == x->site[0];
        if ((same || turned) && y->kernel == x->kernel && y->between == x->between && y->input == x->input)
            return 1;
    }
    return 0;
}

static int hazards_row_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_hazards *h = self;
    h->skips = h->suspects && !mt_suspects_launched(h->suspects, h->launches);
    mt_hazards_launch(h, h->launches++, l);
    return 0;
}

static int hazards_row_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_hazards *h = self;
    return h->skips ? 0 : mt_hazards_runs(h, runs, n);
}

static void hazards_row_free(void *self)
{
    mt_hazards_free(self);
}

const struct mt_analysis mt_hazards_analysis = {.needs = MT_NEEDS_SPACES,
                                                .launch = hazards_row_launch,
                                                .runs = hazards_row_runs,
                                                .free = hazards_row_free};
