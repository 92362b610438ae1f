/* Order of the threads of a CTA. */
#include "clocks.h"
#include "memtrace/record.h"

#include <stdlib.h>
#include <string.h>

struct mt_clock_barrier {
    uint64_t key;                     /* kind and number: see the comment at KEY_WARP */
    uint32_t waiting[MT_CLOCK_WARPS]; /* mask of the waiting lanes, by warp */
    uint32_t arrived;                 /* warp barrier: lanes that arrived */
    uint32_t phase;                   /* phase of the latest arrivals: 0, 1 */
    uint32_t phases;                  /* number of completed phases */
    uint32_t by;                      /* position of its copies' time in a clock; 0: none */
    struct mt_clock_times clock[2];   /* clock of the threads that arrived, by phase; others: [0] */
    UT_hash_handle hh;
};

/* Word used by atomics, with the clock of the threads that updated it. */
struct mt_clock_word {
    uint64_t key; /* word: address / 4 */
    struct mt_clock_times clock;
    UT_hash_handle hh; /* table in order of last use */
};

static void clocks_drop(struct mt_clocks *o, struct mt_clock_group *g)
{
    g->next = o->spare;
    o->spare = g;
}

/* Returns the size of a group. */
static size_t clocks_size(const struct mt_clocks *o)
{
    return o->strict ? sizeof(struct mt_clock_group) : offsetof(struct mt_clock_group, hears);
}

static struct mt_clock_group *clocks_new(struct mt_clocks *o)
{
    struct mt_clock_group *g = o->spare;
    if (g) {
        o->spare = g->next;
    } else if ((g = malloc(clocks_size(o)))) {
        o->bytes += clocks_size(o);
    }
    return g;
}

static void words_reset(struct mt_clocks *o);

/* Makes all threads new. */
void mt_clocks_reset(struct mt_clocks *o)
{
    struct mt_clock_barrier *b, *after;
    for (uint32_t w = 0; w < MT_CLOCK_WARPS; w++)
        while (o->warp[w]) {
            struct mt_clock_group *g = o->warp[w];
            o->warp[w] = g->next;
            clocks_drop(o, g);
        }
    HASH_ITER(hh, o->barriers, b, after)
    {
        HASH_DELETE(hh, o->barriers, b);
        o->bytes -= sizeof *b;
        free(b);
    }
    words_reset(o);
    memset(o->clusters, 0, sizeof o->clusters);
    if (o->copies) {
        o->bytes -= MT_CLOCK_THREADS * sizeof *o->begun;
        free(o->begun);
        o->begun = NULL;
    }
    o->copies = o->objects = 0;
    o->threads = 0;
    o->fenced = 0;
    o->loose = 0;
}

void mt_clocks_free(struct mt_clocks *o)
{
    mt_clocks_reset(o);
    while (o->spare) {
        struct mt_clock_group *g = o->spare;
        o->spare = g->next;
        o->bytes -= clocks_size(o);
        free(g);
    }
}

/* Returns the group of a lane; NULL: no memory. */
struct mt_clock_group *mt_clocks_group(struct mt_clocks *o, uint32_t warp, uint32_t lane)
{
    struct mt_clock_group *g = o->warp[warp];
    while (g && !(g->lanes >> lane & 1))
        g = g->next;
    if (g || !(g = clocks_new(o)))
        return g;
    memset(g, 0, clocks_size(o));
    g->warp = warp;
    g->lanes = UINT32_MAX;
    g->time = 1;
    o->warp[warp] = g;
    if (o->threads < (warp + 1) * MT_CLOCK_LANES)
        o->threads = (warp + 1) * MT_CLOCK_LANES;
    return g;
}

/* Splits groups of the warp so that none has lanes both in `lanes` and outside. Returns 0 or -1. */
static int clocks_split(struct mt_clocks *o, uint32_t warp, uint32_t lanes)
{
    if (!mt_clocks_group(o, warp, (uint32_t)__builtin_ctz(lanes)))
        return -1;
    for (struct mt_clock_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes) || !(g->lanes & ~lanes))
            continue;
        struct mt_clock_group *part = clocks_new(o);
        if (!part)
            return -1;
        memcpy(part, g, clocks_size(o));
        part->lanes &= lanes;
        g->lanes &= ~lanes;
        g->next = part; /* the new part needs no splitting */
    }
    return 0;
}

static void clocks_join_part(uint32_t *into, const uint32_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

/* Adds clock `from` to clock `into`. */
static void clocks_join(const struct mt_clocks *o, struct mt_clock_times *into,
                        const struct mt_clock_times *from)
{
    clocks_join_part(into->time, from->time, o->threads);
    if (o->views) {
        clocks_join_part(into->told, from->told, o->threads);
        into->seen = mt_view_join(o->views, into->seen, from->seen);
        into->passed = mt_view_join(o->views, into->passed, from->passed);
    }
    if (o->strict) {
        clocks_join_part(into->near, from->near, o->threads);
        into->nearby = o->views ? mt_view_join(o->views, into->nearby, from->nearby) : NULL;
    }
    if (!o->copies)
        return;
    for (uint32_t at = MT_CLOCK_BY_GROUP; at < MT_CLOCK_BY_OBJECT; at += MT_CLOCK_THREADS)
        clocks_join_part(into->time + at, from->time + at, o->threads);
    clocks_join_part(into->time + MT_CLOCK_BY_OBJECT, from->time + MT_CLOCK_BY_OBJECT, o->objects);
}

/* Clears the used part of a clock. */
static void clocks_clear(const struct mt_clocks *o, struct mt_clock_times *clock)
{
    memset(clock->time, 0, (o->copies ? (uint32_t)MT_CLOCK_TIMES : o->threads) * sizeof *clock->time);
    memset(clock->told, 0, o->threads * sizeof *clock->told);
    memset(clock->near, 0, o->strict ? o->threads * sizeof *clock->near : 0);
    clock->seen = clock->passed = clock->nearby = NULL;
}

/* Returns 1 if the two have other groups of copies, or wait for fences of their own. */
static int clocks_is_other(const struct mt_clocks *o, const struct mt_clock_group *a,
                           const struct mt_clock_group *b)
{
    return (o->copies && memcmp(a->copies, b->copies, sizeof a->copies) != 0) ||
           (o->strict && (a->hears || b->hears || a->far || b->far));
}

/* Merges the groups within `lanes` with equal clocks, except those that are other in something else. */
static void clocks_merge(struct mt_clocks *o, uint32_t warp, uint32_t lanes)
{
    struct mt_clock_group *into = NULL, **at = &o->warp[warp], *g;
    while ((g = *at)) {
        if (g->lanes & ~lanes || (into && clocks_is_other(o, into, g))) {
            at = &g->next;
        } else if (!into) {
            into = g;
            at = &g->next;
        } else {
            clocks_join(o, &into->known, &g->known);
            into->lanes |= g->lanes;
            into->time = g->time > into->time ? g->time : into->time;
            *at = g->next;
            clocks_drop(o, g);
        }
    }
}

/* Raises the lanes' own times to at least this one. */
static void clocks_put(uint32_t *clock, const struct mt_clock_group *g, uint32_t lanes, uint32_t time)
{
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t *at = &clock[g->warp * MT_CLOCK_LANES + (uint32_t)__builtin_ctz(m)];
        *at = time > *at ? time : *at;
    }
}

/* Adds what these lanes of the group have done so far to `clock`. */
static void clocks_release_lanes(const struct mt_clocks *o, struct mt_clock_group *g, uint32_t lanes,
                                 struct mt_clock_times *clock)
{
    lanes &= g->lanes;
    clocks_join(o, clock, &g->known);
    clocks_put(clock->time, g, lanes, g->time++);
    for (int i = 0; i < 2 && o->copies; i++)
        clocks_put(clock->time + MT_CLOCK_BY_GROUP + i * MT_CLOCK_THREADS, g, lanes, g->copies[i].done);
}

/* Adds everything the group has done so far to `clock`; its time advances. */
static void clocks_release(const struct mt_clocks *o, struct mt_clock_group *g, struct mt_clock_times *clock)
{
    clocks_release_lanes(o, g, g->lanes, clock);
}

static int clocks_within(const uint32_t *part, const uint32_t *of, uint32_t n)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < n; i++)
        more |= part[i] > of[i];
    return !more;
}

/* Returns 1 if the group's clock includes `clock`. */
static int clocks_knows(const struct mt_clocks *o, const struct mt_clock_group *g,
                        const struct mt_clock_times *clock)
{
    return clocks_within(clock->time, g->known.time, o->copies ? (uint32_t)MT_CLOCK_TIMES : o->threads);
}

/* Orders everything in `clock` before the group's later accesses. */
static void clocks_acquire(const struct mt_clocks *o, struct mt_clock_group *g,
                           const struct mt_clock_times *clock)
{
    clocks_join(o, &g->known, clock);
}

/* ---- words by which atomics and strong accesses order threads ---- */

enum { WORDS_WORD = 4 };

static struct mt_clock_word *words_find(const struct mt_clocks *o, uint64_t key)
{
    struct mt_clock_word *w = NULL;
    HASH_FIND(hh, o->words, &key, sizeof key, w);
    return w;
}

static struct mt_clock_word *words_new(struct mt_clocks *o)
{
    struct mt_clock_word *w = calloc(1, sizeof *w);
    o->bytes += w ? sizeof *w : 0;
    return w;
}

static void words_free(struct mt_clocks *o, struct mt_clock_word *w)
{
    o->bytes -= w ? sizeof *w : 0;
    free(w);
}

/* Moves the least recently used word's clock to `others`; returns the word for reuse. NULL: no memory. */
static struct mt_clock_word *words_oldest(struct mt_clocks *o)
{
    struct mt_clock_word *w = o->words;
    if (!o->others && !(o->others = words_new(o)))
        return NULL;
    HASH_DELETE(hh, o->words, w);
    clocks_join(o, &o->others->clock, &w->clock);
    return w;
}

/* Creates a word that is not in the table; it may be one of `others`. NULL: no memory. */
static struct mt_clock_word *words_make(struct mt_clocks *o, uint64_t key)
{
    struct mt_clock_word *w = HASH_COUNT(o->words) < MT_CLOCK_WORDS ? words_new(o) : words_oldest(o);
    if (!w)
        return NULL;
    if (o->others)
        w->clock = o->others->clock;
    w->key = key;
    return w;
}

/* Returns the word, as the most recently used; NULL: no memory. */
static struct mt_clock_word *words_get(struct mt_clocks *o, uint64_t key)
{
    struct mt_clock_word *w = words_find(o, key);
    if (w)
        HASH_DELETE(hh, o->words, w);
    else if (!(w = words_make(o, key)))
        return NULL;
    HASH_ADD(hh, o->words, key, sizeof w->key, w);
    return w;
}

static void words_reset(struct mt_clocks *o)
{
    struct mt_clock_word *w;
    while ((w = o->words)) {
        HASH_DELETE(hh, o->words, w);
        words_free(o, w);
    }
    words_free(o, o->others);
    o->others = NULL;
}

/* Keeps `clock` until the group's next fence. */
static void clocks_hear(const struct mt_clocks *o, struct mt_clock_group *g,
                        const struct mt_clock_times *clock)
{
    if (!g->hears)
        memset(&g->heard, 0, sizeof g->heard);
    g->hears = 1;
    clocks_join(o, &g->heard, clock);
}

/* Returns the lanes whose clocks do not include the word's. */
static uint32_t words_news(const struct mt_clocks *o, uint32_t warp, uint32_t lanes,
                           const struct mt_clock_word *w)
{
    uint32_t news = 0;
    for (const struct mt_clock_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes && !clocks_knows(o, g, &w->clock))
            news |= g->lanes & lanes;
    return news;
}

/* fenced: at once, without a fence of the lanes. */
static int words_acquire(struct mt_clocks *o, uint32_t warp, uint32_t lanes, const struct mt_clock_word *w,
                         int fenced)
{
    if (!mt_clocks_group(o, warp, (uint32_t)__builtin_ctz(lanes)))
        return -1;
    lanes = words_news(o, warp, lanes, w);
    if (!lanes)
        return 0;
    if (clocks_split(o, warp, lanes) != 0)
        return -1;
    for (struct mt_clock_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes)
            (fenced ? clocks_acquire : clocks_hear)(o, g, &w->clock);
    return 0;
}

/* Adds what a fence of the group's, or one known to it, precedes. */
static void words_release_fenced(const struct mt_clocks *o, const struct mt_clock_group *g,
                                 struct mt_clock_times *clock)
{
    clocks_join_part(clock->time, g->known.near, o->threads);
    clocks_join_part(clock->near, g->known.near, o->threads);
    if (!o->views)
        return;
    clocks_join_part(clock->told, g->known.told, o->threads);
    clock->seen = mt_view_join(o->views, clock->seen, g->known.nearby);
    clock->nearby = mt_view_join(o->views, clock->nearby, g->known.nearby);
    clock->passed = mt_view_join(o->views, clock->passed, g->known.passed);
}

/* Adds the lanes' clocks to the word. Lanes that also read it come one after the other in unknown order: all
 * get the same clock. */
static int words_release(struct mt_clocks *o, uint32_t warp, uint32_t lanes, const struct mt_clock_strong *s,
                         struct mt_clock_word *w)
{
    int acquires = s->acquires || !o->strict;
    for (struct mt_clock_group *g = o->warp[warp]; g; g = g->next) {
        if (g->lanes & lanes && (s->releases || !o->strict))
            clocks_release_lanes(o, g, lanes, &w->clock);
        else if (g->lanes & lanes)
            words_release_fenced(o, g, &w->clock);
    }
    if (!s->reads || !(lanes & (lanes - 1)))
        return 0;
    if (words_acquire(o, warp, lanes, w, acquires) != 0)
        return -1;
    if (acquires)
        clocks_merge(o, warp, lanes);
    return 0;
}

/* Returns the lanes of `left` whose access begins in the word of the first of them; *key: that word. */
static uint32_t words_alike(const struct mt_access_run *r, uint32_t left, uint64_t *key)
{
    uint32_t alike = 0, i = 0;
    for (uint32_t m = r->mask; m && i < r->count; m &= m - 1, i++) {
        uint64_t word = (r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i) / WORDS_WORD;
        if (!(m & -m & left))
            continue;
        *key = alike ? *key : word;
        alike |= word == *key ? m & -m : 0;
    }
    return alike;
}

/* ---- words that CTAs share ---- */

struct mt_clock_far_word {
    uint64_t key;
    const struct mt_view *view;
    UT_hash_handle hh;
};

void mt_clock_far_clear(struct mt_clock_far *f)
{
    struct mt_clock_far_word *w, *after;
    HASH_ITER(hh, f->words, w, after)
    {
        HASH_DELETE(hh, f->words, w);
        free(w);
    }
}

static struct mt_clock_far_word *far_find(const struct mt_clock_far *f, uint64_t key)
{
    struct mt_clock_far_word *w = NULL;
    HASH_FIND(hh, f->words, &key, sizeof key, w);
    return w;
}

static struct mt_clock_far_word *far_get(struct mt_clock_far *f, uint64_t key)
{
    struct mt_clock_far_word *w = far_find(f, key);
    if (w || !(w = calloc(1, sizeof *w)))
        return w;
    w->key = key;
    HASH_ADD(hh, f->words, key, sizeof w->key, w);
    return w;
}

/* Orders what the view has before the lanes' later accesses; fenced: at once, without a fence of theirs. */
static int far_acquire(struct mt_clocks *o, uint32_t warp, uint32_t lanes, const struct mt_view *view,
                       int fenced)
{
    uint32_t news = 0;
    if (!mt_clocks_group(o, warp, (uint32_t)__builtin_ctz(lanes)))
        return -1;
    for (const struct mt_clock_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes && mt_view_join(o->views, g->known.seen, view) != g->known.seen)
            news |= g->lanes & lanes;
    if (!news)
        return 0;
    if (clocks_split(o, warp, news) != 0)
        return -1;
    for (struct mt_clock_group *g = o->warp[warp]; g; g = g->next) {
        const struct mt_view **to = fenced ? &g->known.seen : &g->far;
        if (g->lanes & news)
            *to = mt_view_join(o->views, *to, view);
    }
    return 0;
}

/* Adds what the group's lanes have done so far to the view, all of it or what a fence precedes. */
static const struct mt_view *far_tell(struct mt_clocks *o, const struct mt_clock_group *g, uint32_t lanes,
                                      int all, const struct mt_view *view)
{
    struct mt_clock_times told;
    if (!all) {
        view = mt_view_add(o->views, view, o->number, g->known.told, o->threads);
        return mt_view_join(o->views, view, g->known.passed);
    }
    memcpy(told.time, g->known.time, o->threads * sizeof *told.time);
    clocks_put(told.time, g, lanes & g->lanes, g->time);
    view = mt_view_add(o->views, view, o->number, told.time, o->threads);
    return mt_view_join(o->views, view, g->known.seen);
}

static int far_release(struct mt_clocks *o, struct mt_clock_far *f, uint64_t key, uint32_t warp,
                       uint32_t lanes, int all)
{
    struct mt_clock_far_word *w = far_get(f, key);
    for (const struct mt_clock_group *g = w ? o->warp[warp] : NULL; g; g = g->next)
        if (g->lanes & lanes)
            w->view = far_tell(o, g, lanes, all, w->view);
    return w ? 0 : -1;
}

static int far_before(struct mt_clocks *o, const struct mt_clock_far *f, uint64_t key, uint32_t warp,
                      uint32_t lanes, int fenced)
{
    const struct mt_clock_far_word *w = far_find(f, key);
    return w ? far_acquire(o, warp, lanes, w->view, fenced) : 0;
}

int mt_clocks_before(struct mt_clocks *o, const struct mt_access_run *r, const struct mt_clock_strong *s)
{
    int wide = s->wide && o->views && o->far->words, fenced = s->acquires || !o->strict;
    uint64_t key;
    uint32_t lanes;
    for (uint32_t left = s->reads && (o->words || wide) ? r->mask : 0; left; left &= ~lanes) {
        if (!(lanes = words_alike(r, left, &key)))
            return 0;
        const struct mt_clock_word *w = words_find(o, key);
        w = w ? w : o->others;
        if ((w && words_acquire(o, r->warp, lanes, w, fenced) != 0) ||
            (wide && far_before(o, o->far, key, r->warp, lanes, fenced) != 0))
            return -1;
    }
    return 0;
}

int mt_clocks_after(struct mt_clocks *o, const struct mt_access_run *r, const struct mt_clock_strong *s)
{
    int all = s->releases, wide = s->wide && o->views && (all || o->fenced);
    uint64_t key;
    uint32_t lanes;
    for (uint32_t left = s->writes ? r->mask : 0; left; left &= ~lanes) {
        if (!(lanes = words_alike(r, left, &key)))
            return 0;
        if (!mt_clocks_group(o, r->warp, (uint32_t)__builtin_ctz(lanes)) ||
            (wide && far_release(o, o->far, key, r->warp, lanes, all) != 0))
            return -1;
        struct mt_clock_word *w = words_get(o, key);
        if (!w || words_release(o, r->warp, lanes, s, w) != 0)
            return -1;
    }
    return 0;
}

/* The barrier of a cooperative launch: a word that no program has. */
static int clocks_grid(struct mt_clocks *o, uint32_t warp, uint32_t lanes, int waits)
{
    enum { KEY = 0 };
    if (!o->views)
        return 0;
    return waits ? far_before(o, o->far, KEY, warp, lanes, 1) : far_release(o, o->far, KEY, warp, lanes, 1);
}

static void clock_move(struct mt_views *v, struct mt_clock_times *c)
{
    mt_views_move(v, &c->seen);
    mt_views_move(v, &c->passed);
    mt_views_move(v, &c->nearby);
}

void mt_clock_far_move(struct mt_clock_far *f, struct mt_views *v)
{
    for (struct mt_clock_far_word *w = f->words; w; w = w->hh.next)
        mt_views_move(v, &w->view);
}

void mt_clocks_move(struct mt_clocks *o)
{
    for (uint32_t i = 0; i < MT_CLOCK_WARPS; i++)
        for (struct mt_clock_group *g = o->warp[i]; g; g = g->next) {
            clock_move(o->views, &g->known);
            if (o->strict)
                mt_views_move(o->views, &g->far);
            if (o->strict && g->hears)
                clock_move(o->views, &g->heard);
        }
    for (struct mt_clock_barrier *b = o->barriers; b; b = b->hh.next)
        for (int i = 0; i < 2; i++)
            clock_move(o->views, &b->clock[i]);
    for (struct mt_clock_word *w = o->words; w; w = w->hh.next)
        clock_move(o->views, &w->clock);
    if (o->others)
        clock_move(o->views, &o->others->clock);
}

/* A fence by which the group acquires what words have told it, and threads of the CTA may rely on. */
static void fence_near(const struct mt_clocks *o, struct mt_clock_group *g, int wide)
{
    if (g->hears)
        clocks_acquire(o, g, &g->heard);
    g->hears = 0;
    if (wide && g->far) {
        g->known.seen = mt_view_join(o->views, g->known.seen, g->far);
        g->far = NULL;
    }
    clocks_join_part(g->known.near, g->known.time, o->threads);
    clocks_put(g->known.near, g, g->lanes, g->time);
    g->known.nearby = g->known.seen;
}

/* A fence; wide: other CTAs may rely on it. What precedes it may be told. */
static void clocks_fence(struct mt_clocks *o, uint32_t warp, uint32_t lanes, int wide)
{
    for (struct mt_clock_group *g = o->strict || (wide && o->views) ? o->warp[warp] : NULL; g; g = g->next) {
        if (!(g->lanes & lanes))
            continue;
        if (o->strict)
            fence_near(o, g, wide);
        if (wide && o->views) {
            clocks_join_part(g->known.told, g->known.time, o->threads);
            clocks_put(g->known.told, g, g->lanes, g->time);
            g->known.passed = g->known.seen;
            o->fenced = 1;
        }
        g->time++;
    }
}

/* ---- barriers ----
 *
 * Keys of barriers:
 *   of the CTA          its number, 0 to 15
 *   of the cluster      MT_BARRIER_CLUSTER: separate arrivals and waits, alternating
 *   unknown             MT_BARRIER_UNKNOWN: an arrival counts for all barriers, a wait waits for all
 *   of lanes of a warp  warp and mask
 *   in memory           (mbarrier) its address: separate arrivals and waits, each with its phase
 *
 * Threads that wait at a numbered barrier or at a warp's have passed it when one of them continues, or when
 * all lanes of the mask are there. */

enum { NUMBERS = 16 };
#define KEY_WARP (1ull << 62)
#define KEY_OBJECT (1ull << 63)
#define MOST_OBJECT (1ull << 32) /* larger: in another CTA of the cluster */

static struct mt_clock_barrier *sync_find(const struct mt_clocks *o, uint64_t key)
{
    struct mt_clock_barrier *b = NULL;
    HASH_FIND(hh, o->barriers, &key, sizeof key, b);
    return b;
}

/* Returns the barrier, created if necessary; NULL: no memory. */
static struct mt_clock_barrier *sync_get(struct mt_clocks *o, uint64_t key)
{
    struct mt_clock_barrier *b = sync_find(o, key);
    if (b || !(b = calloc(1, sizeof *b)))
        return b;
    b->key = key;
    o->bytes += sizeof *b;
    HASH_ADD(hh, o->barriers, key, sizeof b->key, b);
    return b;
}

/* ---- waiting ---- */

/* Lets all waiting groups pass. */
static void sync_pass(struct mt_clocks *o, struct mt_clock_barrier *b)
{
    for (uint32_t w = 0; w < MT_CLOCK_WARPS; w++) {
        uint32_t lanes = b->waiting[w];
        for (struct mt_clock_group *g = lanes ? o->warp[w] : NULL; g; g = g->next) {
            if (g->at != b)
                continue;
            clocks_acquire(o, g, &b->clock[0]);
            g->at = NULL;
        }
        if (lanes)
            clocks_merge(o, w, lanes);
    }
    if (b->key & KEY_WARP) {
        HASH_DELETE(hh, o->barriers, b);
        o->bytes -= sizeof *b;
        free(b);
        return;
    }
    memset(b->waiting, 0, sizeof b->waiting);
    clocks_clear(o, &b->clock[0]);
}

/* Lets one group pass a cluster, unknown or mbarrier barrier, at which others may already have arrived for
 * the next phase. */
static void sync_pass_alone(struct mt_clocks *o, struct mt_clock_group *g)
{
    struct mt_clock_barrier *b = g->at, *other, *after;
    g->at = NULL;
    b->waiting[g->warp] &= ~g->lanes;
    if (b->key == MT_BARRIER_CLUSTER) {
        int odd = (o->clusters[g->warp] & g->lanes) != 0;
        clocks_acquire(o, g, &b->clock[odd]);
        if (o->cluster && o->views)
            g->known.seen = mt_view_join(o->views, g->known.seen, o->cluster->told[odd]);
        o->clusters[g->warp] ^= g->lanes;
        return;
    }
    HASH_ITER(hh, o->barriers, other, after)
    {
        if (other->key != MT_BARRIER_UNKNOWN && !(other->key & KEY_OBJECT))
            continue;
        clocks_acquire(o, g, &other->clock[0]);
        clocks_acquire(o, g, &other->clock[1]);
    }
}

/* Continues lanes: those that waited have passed their barrier, and so have all that waited with them. */
void mt_clocks_go_on(struct mt_clocks *o, uint32_t warp, uint32_t lanes)
{
    struct mt_clock_group *g = o->warp[warp];
    while (g) {
        if (!g->at || !(g->lanes & lanes)) {
            g = g->next;
        } else if (g->at->key >= NUMBERS && !(g->at->key & KEY_WARP)) {
            sync_pass_alone(o, g);
        } else {
            sync_pass(o, g->at);
            g = o->warp[warp]; /* some groups may have been merged */
        }
    }
}

/* ---- arrivals; the groups of the lanes have no other lanes ---- */

/* Adds the lanes' clocks to the barrier's. */
static void sync_each(struct mt_clocks *o, uint32_t warp, uint32_t lanes, struct mt_clock_barrier *b,
                      int phase, int waits)
{
    for (struct mt_clock_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes))
            continue;
        clocks_release(o, g, &b->clock[phase]);
        if (waits)
            g->at = b;
    }
    if (waits)
        b->waiting[warp] |= lanes;
}

/* Tells the cluster's other CTAs what the lanes have done so far. */
static void cluster_tell(struct mt_clocks *o, uint32_t warp, uint32_t lanes, int odd)
{
    for (const struct mt_clock_group *g = o->cluster && o->views ? o->warp[warp] : NULL; g; g = g->next)
        if (g->lanes & lanes)
            o->cluster->told[odd] = far_tell(o, g, lanes, 1, o->cluster->told[odd]);
}

/* Handles arrivals and waits at the cluster barrier, whose two phases alternate, by lane. */
static int sync_cluster(struct mt_clocks *o, uint32_t warp, uint32_t lanes, int waits)
{
    struct mt_clock_barrier *b = sync_get(o, MT_BARRIER_CLUSTER);
    uint32_t odd = o->clusters[warp] & lanes, even = lanes & ~odd;
    if (!b || (odd && even && clocks_split(o, warp, odd) != 0))
        return -1;
    if (waits) {
        for (struct mt_clock_group *g = o->warp[warp]; g; g = g->next)
            g->at = g->lanes & lanes ? b : g->at;
        b->waiting[warp] |= lanes;
        return 0;
    }
    cluster_tell(o, warp, odd, 1);
    cluster_tell(o, warp, even, 0);
    if (odd)
        sync_each(o, warp, odd, b, 1, 0);
    if (even)
        sync_each(o, warp, even, b, 0, 0);
    return 0;
}

static void copy_release(struct mt_clock_group *g, struct mt_clock_times *clock);

static int sync_unknown(struct mt_clocks *o, uint32_t warp, uint32_t lanes, int waits)
{
    struct mt_clock_barrier *b = sync_get(o, MT_BARRIER_UNKNOWN);
    o->loose += (uint64_t)__builtin_popcount(lanes);
    if (b)
        sync_each(o, warp, lanes, b, 0, waits);
    for (struct mt_clock_group *g = b && !waits ? o->warp[warp] : NULL; g; g = g->next)
        if (g->lanes & lanes)
            copy_release(g, &b->clock[0]);
    return b ? 0 : -1;
}

/* Makes later arrivals belong to this phase. */
static void sync_enter(const struct mt_clocks *o, struct mt_clock_barrier *b, uint32_t phase)
{
    if (b->phase == phase)
        return;
    b->phase = phase; /* the previous phase of the same parity is long over */
    b->phases++;
    clocks_clear(o, &b->clock[phase]);
}

/* Finds the object of an address with MT_MBARRIER_…; *b NULL: unknown. Returns 0, or -1 without memory. */
static int sync_find_object(struct mt_clocks *o, uint64_t what, struct mt_clock_barrier **b)
{
    uint64_t key = KEY_OBJECT | (what & ~(uint64_t)MT_MBARRIER_FLAGS);
    *b = what < MOST_OBJECT ? sync_find(o, key) : NULL;
    if (*b || what >= MOST_OBJECT || HASH_COUNT(o->barriers) >= MT_CLOCK_MOST_BARRIERS)
        return 0;
    return (*b = sync_get(o, key)) ? 0 : -1;
}

/* Handles arrivals and waits at an mbarrier, given by its address and MT_MBARRIER_…; copies: arrivals include
 * those of the lanes' copies. */
static int sync_object(struct mt_clocks *o, uint32_t warp, uint32_t lanes, int waits, int copies,
                       uint64_t what)
{
    uint32_t phase = what & MT_MBARRIER_ODD;
    struct mt_clock_barrier *b, *any = sync_find(o, MT_BARRIER_UNKNOWN);
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
    for (struct mt_clock_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes))
            continue;
        if (copies)
            copy_release(g, &b->clock[phase]);
        if (waits)
            clocks_acquire(o, g, &b->clock[phase]);
        if (waits && any)
            clocks_acquire(o, g, &any->clock[0]);
    }
    return 0;
}

static int copy_begin(struct mt_clocks *o, uint32_t warp, uint32_t lanes, struct mt_clock_begun x);

/* Begins a copy that is completed by that phase of the object. */
static int sync_copy_of_object(struct mt_clocks *o, uint32_t warp, uint32_t lanes, uint32_t site,
                               uint64_t what)
{
    uint32_t phase = what & MT_MBARRIER_ODD;
    struct mt_clock_begun x = {site, MT_CLOCK_BY_NOBODY, 0};
    struct mt_clock_barrier *b;
    if (sync_find_object(o, what, &b) != 0)
        return -1;
    if (b && !b->by && o->objects < MT_CLOCK_OBJECTS)
        b->by = MT_CLOCK_BY_OBJECT + o->objects++;
    if (b && b->by) {
        sync_enter(o, b, phase);
        x.by = b->by;
        x.time = b->clock[phase].time[b->by] = b->phases + 1;
    }
    return copy_begin(o, warp, lanes, x);
}

static void copy_group(struct mt_clocks *o, uint32_t warp, uint32_t lanes, uint32_t size, uint64_t what);

/* Handles a record of type MT_SYNC_COPY: start of a copy, closed or awaited groups. */
static int sync_copy(struct mt_clocks *o, const struct mt_access_run *r, uint32_t lanes, uint64_t what)
{
    static const uint32_t by[] = {MT_CLOCK_BY_GROUP, MT_CLOCK_BY_BULK};
    uint32_t size = r->meta & MT_RAW_MAX_SIZE;
    struct mt_clock_begun x = {r->site, what <= MT_COPY_BULK ? by[what] : MT_CLOCK_BY_NOBODY, 0};
    switch (size) {
    case MT_COPY_BEGINS:
        return copy_begin(o, r->warp, lanes, x);
    case MT_SYNC_OF_OBJECT:
        return sync_copy_of_object(o, r->warp, lanes, r->site, what);
    case MT_COPY_ARRIVES:
        return sync_object(o, r->warp, lanes, 0, 1, what);
    default:
        copy_group(o, r->warp, lanes, size, what);
        return 0;
    }
}

/* Handles __syncwarp. mask: lanes that must arrive; 0: not known, the present ones. */
static int sync_warp(struct mt_clocks *o, uint32_t warp, uint32_t lanes, uint32_t mask)
{
    uint64_t key = KEY_WARP | (uint64_t)warp << 32 | mask;
    struct mt_clock_barrier *b;
    struct mt_clock_group *g = o->warp[warp];
    if (!mask || (lanes & mask) == mask) {
        while (g && !(g->lanes & lanes))
            g = g->next;
        if (g->lanes == lanes) { /* nothing new except their own accesses */
            clocks_release(o, g, &g->known);
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

static int sync_number(struct mt_clocks *o, uint32_t warp, uint32_t lanes, int waits, uint64_t number)
{
    if (number == MT_BARRIER_CLUSTER)
        return sync_cluster(o, warp, lanes, waits);
    if (number >= NUMBERS)
        return sync_unknown(o, warp, lanes, waits);
    struct mt_clock_barrier *b = sync_get(o, number);
    if (b)
        sync_each(o, warp, lanes, b, 0, waits);
    return b ? 0 : -1;
}

/* Handles lanes of a warp that name the same barrier. */
static int sync_lanes(struct mt_clocks *o, const struct mt_access_run *r, uint32_t lanes, uint64_t what)
{
    uint32_t type = r->meta >> 28, size = r->meta & MT_RAW_MAX_SIZE;
    int waits = type == MT_SYNC_BARRIER;
    int begins = type == MT_SYNC_COPY && (size == MT_COPY_BEGINS || size == MT_SYNC_OF_OBJECT);
    mt_clocks_go_on(o, r->warp, lanes);
    if (!begins && clocks_split(o, r->warp, lanes) != 0)
        return -1;
    if (type == MT_SYNC_COPY)
        return sync_copy(o, r, lanes, what);
    if ((type == MT_SYNC_ARRIVE || waits) && size == MT_SYNC_OF_GRID)
        return clocks_grid(o, r->warp, lanes, waits);
    if (type == MT_SYNC_ARRIVE && mt_rec_is_fence(size, what)) {
        clocks_fence(o, r->warp, lanes, what > MT_BARRIER_FENCE + MT_SCOPE_CTA);
        return 0;
    }
    if (type == MT_SYNC_WARP)
        return sync_warp(o, r->warp, lanes, size == MT_SYNC_OF_LANES ? (uint32_t)what : 0);
    return size == MT_SYNC_OF_OBJECT ? sync_object(o, r->warp, lanes, waits, 0, what)
                                     : sync_number(o, r->warp, lanes, waits, what);
}

/* Handles barriers of a warp's lanes, given as a run of type MT_SYNC_…. Returns 0, or -1 without memory. */
int mt_clocks_sync(struct mt_clocks *o, const struct mt_access_run *r)
{
    uint64_t what[MT_CLOCK_LANES];
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

/* ---- asynchronous copies ---- */

/* Announces that the lanes' access at the next site is a copy. Returns 0, or -1 without memory. */
static int copy_begin(struct mt_clocks *o, uint32_t warp, uint32_t lanes, struct mt_clock_begun x)
{
    size_t bytes = MT_CLOCK_THREADS * sizeof *o->begun;
    if (!o->copies && !(o->begun = calloc(1, bytes)))
        return -1;
    o->bytes += o->copies ? 0 : bytes;
    o->copies = 1;
    for (; lanes; lanes &= lanes - 1)
        o->begun[warp * MT_CLOCK_LANES + (uint32_t)__builtin_ctz(lanes)] = x;
    return 0;
}

/* Returns the time of a lane's access at the site; *by is the part of the clock, 0: the thread's own. Only if
 * there are copies. */
uint32_t mt_clocks_copy_time(const struct mt_clocks *o, const struct mt_clock_group *g, uint32_t lane,
                             uint32_t site, uint32_t *by)
{
    const struct mt_clock_begun *x = &o->begun[g->warp * MT_CLOCK_LANES + lane];
    *by = site == x->site + 1 ? x->by : 0;
    if (!*by)
        return g->time;
    return *by < MT_CLOCK_BY_OBJECT ? g->copies[*by == MT_CLOCK_BY_BULK].time + 1 : x->time;
}

/* Waits for all groups except the `left` newest; if that is more than are distinguished, waits for more.
 * Returns 0 if all are awaited. */
static int copy_wait(struct mt_clock_copies *c, uint64_t left)
{
    int more = left >= MT_CLOCK_GROUPS && c->groups > MT_CLOCK_GROUPS;
    left = more ? MT_CLOCK_GROUPS - 1 : left;
    uint32_t last = left < c->groups ? c->last[(c->groups - 1 - left) % MT_CLOCK_GROUPS] : 0;
    c->done = last > c->done ? last : c->done;
    return more;
}

/* Closes or awaits groups, by size and address of the record. */
static void copy_group(struct mt_clocks *o, uint32_t warp, uint32_t lanes, uint32_t size, uint64_t what)
{
    for (struct mt_clock_group *g = o->copies ? o->warp[warp] : NULL; g; g = g->next) {
        struct mt_clock_copies *c = &g->copies[what & MT_COPY_BULK];
        if (!(g->lanes & lanes))
            continue;
        if (size == MT_COPY_COMMITS || what & MT_COPY_ALL)
            c->last[c->groups++ % MT_CLOCK_GROUPS] = ++c->time;
        if (size == MT_COPY_WAITS && copy_wait(c, what / MT_COPY_WAIT(1)))
            o->loose += (uint64_t)__builtin_popcount(g->lanes & lanes);
    }
}

/* Adds the cp.async copies of the group's lanes so far to `clock`. */
static void copy_release(struct mt_clock_group *g, struct mt_clock_times *clock)
{
    uint32_t time = ++g->copies[0].time;
    for (uint32_t m = g->lanes; m; m &= m - 1)
        clock->time[MT_CLOCK_BY_GROUP + g->warp * MT_CLOCK_LANES + (uint32_t)__builtin_ctz(m)] = time;
}
