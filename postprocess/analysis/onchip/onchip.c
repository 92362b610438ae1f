/* Shared and local memory: bank conflicts and hazards, from items to result rows. */
#include "onchip.h"
#include "memtrace/order.h"
#include "memtrace/record.h"
#include "memtrace/grow.h"
#include "memtrace/device.h"
#include "memtrace/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* Hazards of shared and global memory. Open CTAs are in a table and in order of their last use; the least
 * recently used ones are dropped to make room. */

enum {
    MT_HAZARD_LANES = 32,
    MT_HAZARD_WARPS = 32,
    MT_HAZARD_THREADS = MT_HAZARD_WARPS * MT_HAZARD_LANES,
    MT_HAZARD_MOST_BARRIERS = 1024, /* maximum per CTA; others share one */
    MT_HAZARD_OBJECTS = 64,         /* maximum per CTA: mbarriers that complete copies */
    MT_HAZARD_WORDS = 512, /* maximum per CTA: words by which atomics order threads; others share one */
    MT_HAZARD_GROUPS = 16, /* maximum closed groups of a thread that are distinguished */
    /* Parts of a clock: times of threads, of their groups, of mbarriers. */
    MT_HAZARD_BY_GROUP = MT_HAZARD_THREADS,
    MT_HAZARD_BY_BULK = 2 * MT_HAZARD_THREADS,
    MT_HAZARD_BY_OBJECT = 3 * MT_HAZARD_THREADS,
    MT_HAZARD_CLOCK = MT_HAZARD_BY_OBJECT + MT_HAZARD_OBJECTS,
    MT_HAZARD_BY_NOBODY = MT_HAZARD_CLOCK /* it is not known what completes the copy */
};

struct mt_hazard_barrier {
    uint64_t key;                       /* kind and number: see the comment at KEY_WARP */
    uint32_t waiting[MT_HAZARD_WARPS];  /* mask of the waiting lanes, by warp */
    uint32_t arrived;                   /* warp barrier: lanes that arrived */
    uint32_t phase;                     /* phase of the latest arrivals: 0, 1 */
    uint32_t phases;                    /* number of completed phases */
    uint32_t by;                        /* position of its copies' time in a clock; 0: none */
    uint32_t clock[2][MT_HAZARD_CLOCK]; /* clock of the threads that arrived, by phase; others: [0] */
    UT_hash_handle hh;
};

/* Word used by atomics, with the clock of the threads that updated it. */
struct mt_hazard_word {
    uint64_t key; /* word: address / 4 */
    uint32_t clock[MT_HAZARD_CLOCK];
    UT_hash_handle hh; /* table in order of last use */
};

/* Copies of a lane that are completed by groups. Copies that begin now have time `time` + 1. */
struct mt_hazard_copies {
    uint32_t time;
    uint32_t done;                   /* copies up to this time are completed */
    uint32_t groups;                 /* number of closed groups */
    uint32_t last[MT_HAZARD_GROUPS]; /* for the latest groups, by number: time of the last copy */
};

/* Lanes of a warp with the same clock and the same groups of copies. */
struct mt_hazard_group {
    uint32_t warp, lanes;
    uint32_t time;                     /* time of their current accesses, at least 1 */
    uint32_t known[MT_HAZARD_CLOCK];   /* clock: other accesses up to these times are ordered before the
                                        * group's */
    struct mt_hazard_copies copies[2]; /* groups of cp.async, groups of bulk copies */
    struct mt_hazard_barrier *at;      /* barrier at which they wait; or NULL */
    struct mt_hazard_group *next;      /* next group of this warp, or free one */
};

/* Copy announced for a lane's access at the next site. */
struct mt_hazard_begun {
    uint32_t site; /* site of the announcing record */
    uint32_t by;   /* MT_HAZARD_BY_…, or position of an mbarrier; 0: none */
    uint32_t time; /* time in the mbarrier's part */
};

struct mt_hazard_order {
    struct mt_hazard_group *warp[MT_HAZARD_WARPS]; /* groups of each warp; NULL: no lane of the warp has done
                                                    * anything */
    uint32_t threads;                              /* possible threads: 32 for each warp up to the last one */
    uint32_t clusters[MT_HAZARD_WARPS];            /* lanes in an odd phase of the cluster barrier */
    struct mt_hazard_barrier *barriers;
    struct mt_hazard_word *words, *others; /* others: shared by words that had no room */
    struct mt_hazard_begun *begun;         /* by thread; NULL: no copy so far */
    uint32_t copies;                       /* 1: there are copies */
    uint32_t objects;                      /* number of mbarriers with copies */
    struct mt_hazard_group *spare;
    size_t bytes;   /* bytes of memory in use */
    uint64_t loose; /* threads at barriers that are unknown, or at which waiting is unknown */
};

/* Limits, and ways of access; `lanes` are groups without other lanes. */

enum {
    MT_HAZARD_MOST_SHARED = 1 << 20, /* bytes: more than any GPU has */
    MT_HAZARD_MOST_FAR = 1 << 20,    /* maximum number of words of global memory that are checked */
    MT_HAZARD_FAR = 64               /* words of global memory in a page */
};

/* Way of an access: its type, or a strong access (PTX's memory model). Two strong accesses make no hazard; an
 * update is a strong store or an atomic. */
enum {
    MT_HAZARD_LOAD = MT_LOAD,
    MT_HAZARD_STORE = MT_STORE,
    MT_HAZARD_UPDATE = MT_ATOMIC,
    MT_HAZARD_STRONG_LOAD,
    MT_HAZARD_WAYS
};

/* Earlier accesses to a word by these lanes of these warps, or by their copies, at time `time` and one site;
 * element of a list. */
struct mt_hazard_past {
    uint32_t time, site, lanes, warps;
    uint32_t by;   /* part of the clock that has the time: 0, MT_HAZARD_BY_…, or an mbarrier's */
    uint32_t next; /* number of the next element; 0: none */
};

/* Accesses to a word, or to a byte, that may be unordered with a later one: since the last plain store, and
 * for each way without those ordered before a later access of that way. */
struct mt_hazard_cell {
    uint32_t past[MT_HAZARD_WAYS]; /* number of the latest element, or 0 */
    uint32_t run;                  /* instruction of the latest stores */
    uint32_t bytes; /* index of the 4 cells of the bytes, if smaller accesses share the word; 0: none */
};

struct mt_hazard_cta {
    uint32_t number; /* number of the CTA in the launch */
    uint64_t cta;
    struct mt_hazard_order order;
    uint32_t run; /* number of instructions so far */
    struct mt_hazard_cell *words, *bytes,
        *far; /* cells of shared memory, of parts of words, of global memory */
    size_t nwords, words_room, nbytes, bytes_room, nfar, far_room;
    struct mt_pairmap pages;     /* pages of global memory: address / (4 * MT_HAZARD_FAR) to the first cell */
    struct mt_hazard_past *past; /* by number, from 1 */
    size_t npast, past_room;
    uint32_t spare; /* list of free numbers */
    UT_hash_handle hh;
    struct mt_hazard_cta *newer, *older;
};

struct mt_hazard_access {
    uint64_t address;
    uint32_t warp, lane, size, way, site, space;
    uint32_t by, time;                   /* part of the clock, and time in it, of a copy */
    const struct mt_hazard_group *group; /* group of the lane that accesses */
    /* Called for a hazard, without kernel, launch, input and cta. Returns 0, or -1 without memory. */
    int (*found)(void *arg, const struct mt_hazard *h);
    void *arg;
};

/* Steps: compare an access with earlier ones; keep it for later ones. Lanes that store to the same bytes in
 * one instruction are all compared before the first is kept: they make no hazard among themselves. */
enum { MT_HAZARD_COMPARE = 1, MT_HAZARD_KEEP = 2 };

static void order_drop(struct mt_hazard_order *o, struct mt_hazard_group *g)
{
    g->next = o->spare;
    o->spare = g;
}

static struct mt_hazard_group *onchip_order_new(struct mt_hazard_order *o)
{
    struct mt_hazard_group *g = o->spare;
    if (g) {
        o->spare = g->next;
    } else if ((g = malloc(sizeof *g))) {
        o->bytes += sizeof *g;
    }
    return g;
}

static void hazard_words_reset(struct mt_hazard_order *o);

/* Makes all threads new. */
static void hazard_order_reset(struct mt_hazard_order *o)
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
    hazard_words_reset(o);
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

static void hazard_order_free(struct mt_hazard_order *o)
{
    hazard_order_reset(o);
    while (o->spare) {
        struct mt_hazard_group *g = o->spare;
        o->spare = g->next;
        o->bytes -= sizeof *g;
        free(g);
    }
}

/* Returns the group of a lane; NULL: no memory. */
static struct mt_hazard_group *hazard_group_of(struct mt_hazard_order *o, uint32_t warp, uint32_t lane)
{
    struct mt_hazard_group *g = o->warp[warp];
    while (g && !(g->lanes >> lane & 1))
        g = g->next;
    if (g || !(g = onchip_order_new(o)))
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

/* Splits groups of the warp so that none has lanes both in `lanes` and outside. Returns 0 or -1. */
static int hazard_split(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes)
{
    if (!hazard_group_of(o, warp, (uint32_t)__builtin_ctz(lanes)))
        return -1;
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes) || !(g->lanes & ~lanes))
            continue;
        struct mt_hazard_group *part = onchip_order_new(o);
        if (!part)
            return -1;
        *part = *g;
        part->lanes &= lanes;
        g->lanes &= ~lanes;
        g->next = part; /* the new part needs no splitting */
    }
    return 0;
}

static void order_join_part(uint32_t *into, const uint32_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

/* Adds clock `from` to clock `into`. */
static void hazard_join(const struct mt_hazard_order *o, uint32_t *into, const uint32_t *from)
{
    order_join_part(into, from, o->threads);
    if (!o->copies)
        return;
    for (uint32_t at = MT_HAZARD_BY_GROUP; at < MT_HAZARD_BY_OBJECT; at += MT_HAZARD_THREADS)
        order_join_part(into + at, from + at, o->threads);
    order_join_part(into + MT_HAZARD_BY_OBJECT, from + MT_HAZARD_BY_OBJECT, o->objects);
}

/* Clears the used part of a clock. */
static void hazard_clear(const struct mt_hazard_order *o, uint32_t *clock)
{
    memset(clock, 0, (o->copies ? (uint32_t)MT_HAZARD_CLOCK : o->threads) * sizeof *clock);
}

static int order_is_other(const struct mt_hazard_order *o, const struct mt_hazard_group *a,
                          const struct mt_hazard_group *b)
{
    return o->copies && memcmp(a->copies, b->copies, sizeof a->copies) != 0;
}

/* Merges the groups within `lanes` with equal clocks, except those with other groups of copies. */
static void hazard_merge(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes)
{
    struct mt_hazard_group *into = NULL, **at = &o->warp[warp], *g;
    while ((g = *at)) {
        if (g->lanes & ~lanes || (into && order_is_other(o, into, g))) {
            at = &g->next;
        } else if (!into) {
            into = g;
            at = &g->next;
        } else {
            hazard_join(o, into->known, g->known);
            into->lanes |= g->lanes;
            into->time = g->time > into->time ? g->time : into->time;
            *at = g->next;
            order_drop(o, g);
        }
    }
}

/* Raises the lanes' own times to at least this one. */
static void order_put(uint32_t *clock, const struct mt_hazard_group *g, uint32_t lanes, uint32_t time)
{
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t *at = &clock[g->warp * MT_HAZARD_LANES + (uint32_t)__builtin_ctz(m)];
        *at = time > *at ? time : *at;
    }
}

/* Adds what these lanes of the group have done so far to `clock`. */
static void hazard_release_lanes(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t lanes,
                                 uint32_t *clock)
{
    lanes &= g->lanes;
    hazard_join(o, clock, g->known);
    order_put(clock, g, lanes, g->time++);
    for (int i = 0; i < 2 && o->copies; i++)
        order_put(clock + MT_HAZARD_BY_GROUP + i * MT_HAZARD_THREADS, g, lanes, g->copies[i].done);
}

/* Adds everything the group has done so far to `clock`; its time advances. */
static void hazard_release(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t *clock)
{
    hazard_release_lanes(o, g, g->lanes, clock);
}

static int order_within(const uint32_t *part, const uint32_t *of, uint32_t n)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < n; i++)
        more |= part[i] > of[i];
    return !more;
}

/* Returns 1 if the group's clock includes `clock`. */
static int hazard_knows(const struct mt_hazard_order *o, const struct mt_hazard_group *g,
                        const uint32_t *clock)
{
    return order_within(clock, g->known, o->copies ? (uint32_t)MT_HAZARD_CLOCK : o->threads);
}

/* Orders everything in `clock` before the group's later accesses. */
static void hazard_acquire(const struct mt_hazard_order *o, struct mt_hazard_group *g, const uint32_t *clock)
{
    hazard_join(o, g->known, clock);
}

/* ---- words by which atomics and strong accesses order threads ---- */

enum { HAZARD_WORDS_WORD = 4 };

static struct mt_hazard_word *words_find(const struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_word *w = NULL;
    HASH_FIND(hh, o->words, &key, sizeof key, w);
    return w;
}

static struct mt_hazard_word *words_new(struct mt_hazard_order *o)
{
    struct mt_hazard_word *w = calloc(1, sizeof *w);
    o->bytes += w ? sizeof *w : 0;
    return w;
}

static void onchip_words_free(struct mt_hazard_order *o, struct mt_hazard_word *w)
{
    o->bytes -= w ? sizeof *w : 0;
    free(w);
}

/* Moves the least recently used word's clock to `others`; returns the word for reuse. NULL: no memory. */
static struct mt_hazard_word *words_oldest(struct mt_hazard_order *o)
{
    struct mt_hazard_word *w = o->words;
    if (!o->others && !(o->others = words_new(o)))
        return NULL;
    HASH_DELETE(hh, o->words, w);
    hazard_join(o, o->others->clock, w->clock);
    return w;
}

/* Creates a word that is not in the table; it may be one of `others`. NULL: no memory. */
static struct mt_hazard_word *words_make(struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_word *w = HASH_COUNT(o->words) < MT_HAZARD_WORDS ? words_new(o) : words_oldest(o);
    if (!w)
        return NULL;
    if (o->others)
        memcpy(w->clock, o->others->clock, sizeof w->clock);
    w->key = key;
    return w;
}

/* Returns the word, as the most recently used; NULL: no memory. */
static struct mt_hazard_word *words_get(struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_word *w = words_find(o, key);
    if (w)
        HASH_DELETE(hh, o->words, w);
    else if (!(w = words_make(o, key)))
        return NULL;
    HASH_ADD(hh, o->words, key, sizeof w->key, w);
    return w;
}

static void hazard_words_reset(struct mt_hazard_order *o)
{
    struct mt_hazard_word *w;
    while ((w = o->words)) {
        HASH_DELETE(hh, o->words, w);
        onchip_words_free(o, w);
    }
    onchip_words_free(o, o->others);
    o->others = NULL;
}

/* Returns the lanes whose clocks do not include the word's. */
static uint32_t words_news(const struct mt_hazard_order *o, uint32_t warp, uint32_t lanes,
                           const struct mt_hazard_word *w)
{
    uint32_t news = 0;
    for (const struct mt_hazard_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes && !hazard_knows(o, g, w->clock))
            news |= g->lanes & lanes;
    return news;
}

static int words_acquire(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes,
                         const struct mt_hazard_word *w)
{
    if (!hazard_group_of(o, warp, (uint32_t)__builtin_ctz(lanes)))
        return -1;
    lanes = words_news(o, warp, lanes, w);
    if (!lanes)
        return 0;
    if (hazard_split(o, warp, lanes) != 0)
        return -1;
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes)
            hazard_acquire(o, g, w->clock);
    return 0;
}

/* Adds the lanes' clocks to the word. Lanes that also read it come one after the other in unknown order: all
 * get the same clock. */
static int words_release(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int reads,
                         struct mt_hazard_word *w)
{
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes)
            hazard_release_lanes(o, g, lanes, w->clock);
    if (!reads || !(lanes & (lanes - 1)))
        return 0;
    if (words_acquire(o, warp, lanes, w) != 0)
        return -1;
    hazard_merge(o, warp, lanes);
    return 0;
}

/* Returns the lanes of `left` whose access begins in the word of the first of them; *key: that word. */
static uint32_t words_alike(const struct mt_access_run *r, uint32_t left, uint64_t *key)
{
    uint32_t alike = 0, i = 0;
    for (uint32_t m = r->mask; m && i < r->count; m &= m - 1, i++) {
        uint64_t word =
            (r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i) / HAZARD_WORDS_WORD;
        if (!(m & -m & left))
            continue;
        *key = alike ? *key : word;
        alike |= word == *key ? m & -m : 0;
    }
    return alike;
}

/* Order by words: everything before an update precedes everything after a later read or update of that word.
 * Called before such an access, and after one that updates; `r` is its run. reads: it reads. Returns 0, or -1
 * without memory. */
static int hazard_words_before(struct mt_hazard_order *o, const struct mt_access_run *r, int reads)
{
    uint64_t key;
    uint32_t lanes;
    for (uint32_t left = reads && o->words ? r->mask : 0; left; left &= ~lanes) {
        if (!(lanes = words_alike(r, left, &key)))
            return 0;
        const struct mt_hazard_word *w = words_find(o, key);
        w = w ? w : o->others;
        if (w && words_acquire(o, r->warp, lanes, w) != 0)
            return -1;
    }
    return 0;
}

static int hazard_words_after(struct mt_hazard_order *o, const struct mt_access_run *r, int reads)
{
    uint64_t key;
    uint32_t lanes;
    for (uint32_t left = r->mask; left; left &= ~lanes) {
        if (!(lanes = words_alike(r, left, &key)))
            return 0;
        struct mt_hazard_word *w = words_get(o, key);
        if (!w || words_release(o, r->warp, lanes, reads, w) != 0)
            return -1;
    }
    return 0;
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

static struct mt_hazard_barrier *sync_find(const struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_barrier *b = NULL;
    HASH_FIND(hh, o->barriers, &key, sizeof key, b);
    return b;
}

/* Returns the barrier, created if necessary; NULL: no memory. */
static struct mt_hazard_barrier *onchip_sync_get(struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_barrier *b = sync_find(o, key);
    if (b || !(b = calloc(1, sizeof *b)))
        return b;
    b->key = key;
    o->bytes += sizeof *b;
    HASH_ADD(hh, o->barriers, key, sizeof b->key, b);
    return b;
}

/* ---- waiting ---- */

/* Lets all waiting groups pass. */
static void sync_pass(struct mt_hazard_order *o, struct mt_hazard_barrier *b)
{
    for (uint32_t w = 0; w < MT_HAZARD_WARPS; w++) {
        uint32_t lanes = b->waiting[w];
        for (struct mt_hazard_group *g = lanes ? o->warp[w] : NULL; g; g = g->next) {
            if (g->at != b)
                continue;
            hazard_acquire(o, g, b->clock[0]);
            g->at = NULL;
        }
        if (lanes)
            hazard_merge(o, w, lanes);
    }
    if (b->key & KEY_WARP) {
        HASH_DELETE(hh, o->barriers, b);
        o->bytes -= sizeof *b;
        free(b);
        return;
    }
    memset(b->waiting, 0, sizeof b->waiting);
    hazard_clear(o, b->clock[0]);
}

/* Lets one group pass a cluster, unknown or mbarrier barrier, at which others may already have arrived for
 * the next phase. */
static void sync_pass_alone(struct mt_hazard_order *o, struct mt_hazard_group *g)
{
    struct mt_hazard_barrier *b = g->at, *other, *after;
    g->at = NULL;
    b->waiting[g->warp] &= ~g->lanes;
    if (b->key == MT_BARRIER_CLUSTER) {
        int odd = (o->clusters[g->warp] & g->lanes) != 0;
        hazard_acquire(o, g, b->clock[odd]);
        o->clusters[g->warp] ^= g->lanes;
        return;
    }
    HASH_ITER(hh, o->barriers, other, after)
    {
        if (other->key != MT_BARRIER_UNKNOWN && !(other->key & KEY_OBJECT))
            continue;
        hazard_acquire(o, g, other->clock[0]);
        hazard_acquire(o, g, other->clock[1]);
    }
}

/* Continues lanes: those that waited have passed their barrier, and so have all that waited with them. */
static void hazard_go_on(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes)
{
    struct mt_hazard_group *g = o->warp[warp];
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
static void sync_each(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, struct mt_hazard_barrier *b,
                      int phase, int waits)
{
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next) {
        if (!(g->lanes & lanes))
            continue;
        hazard_release(o, g, b->clock[phase]);
        if (waits)
            g->at = b;
    }
    if (waits)
        b->waiting[warp] |= lanes;
}

/* Handles arrivals and waits at the cluster barrier, whose two phases alternate, by lane. */
static int sync_cluster(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int waits)
{
    struct mt_hazard_barrier *b = onchip_sync_get(o, MT_BARRIER_CLUSTER);
    uint32_t odd = o->clusters[warp] & lanes, even = lanes & ~odd;
    if (!b || (odd && even && hazard_split(o, warp, odd) != 0))
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

static void hazard_copy_release(struct mt_hazard_group *g, uint32_t *clock);

static int sync_unknown(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int waits)
{
    struct mt_hazard_barrier *b = onchip_sync_get(o, MT_BARRIER_UNKNOWN);
    o->loose += (uint64_t)__builtin_popcount(lanes);
    if (b)
        sync_each(o, warp, lanes, b, 0, waits);
    for (struct mt_hazard_group *g = b && !waits ? o->warp[warp] : NULL; g; g = g->next)
        if (g->lanes & lanes)
            hazard_copy_release(g, b->clock[0]);
    return b ? 0 : -1;
}

/* Makes later arrivals belong to this phase. */
static void sync_enter(const struct mt_hazard_order *o, struct mt_hazard_barrier *b, uint32_t phase)
{
    if (b->phase == phase)
        return;
    b->phase = phase; /* the previous phase of the same parity is long over */
    b->phases++;
    hazard_clear(o, b->clock[phase]);
}

/* Finds the object of an address with MT_MBARRIER_…; *b NULL: unknown. Returns 0, or -1 without memory. */
static int sync_find_object(struct mt_hazard_order *o, uint64_t what, struct mt_hazard_barrier **b)
{
    uint64_t key = KEY_OBJECT | (what & ~(uint64_t)MT_MBARRIER_FLAGS);
    *b = what < MOST_OBJECT ? sync_find(o, key) : NULL;
    if (*b || what >= MOST_OBJECT || HASH_COUNT(o->barriers) >= MT_HAZARD_MOST_BARRIERS)
        return 0;
    return (*b = onchip_sync_get(o, key)) ? 0 : -1;
}

/* Handles arrivals and waits at an mbarrier, given by its address and MT_MBARRIER_…; copies: arrivals include
 * those of the lanes' copies. */
static int onchip_sync_object(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int waits, int copies,
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
            hazard_copy_release(g, b->clock[phase]);
        if (waits)
            hazard_acquire(o, g, b->clock[phase]);
        if (waits && any)
            hazard_acquire(o, g, any->clock[0]);
    }
    return 0;
}

static int hazard_copy_begin(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes,
                             struct mt_hazard_begun x);

/* Begins a copy that is completed by that phase of the object. */
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
    return hazard_copy_begin(o, warp, lanes, x);
}

static void hazard_copy_group(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, uint32_t size,
                              uint64_t what);

/* Handles a record of type MT_SYNC_COPY: start of a copy, closed or awaited groups. */
static int sync_copy(struct mt_hazard_order *o, const struct mt_access_run *r, uint32_t lanes, uint64_t what)
{
    static const uint32_t by[] = {MT_HAZARD_BY_GROUP, MT_HAZARD_BY_BULK};
    uint32_t size = r->meta & MT_RAW_MAX_SIZE;
    struct mt_hazard_begun x = {r->site, what <= MT_COPY_BULK ? by[what] : MT_HAZARD_BY_NOBODY, 0};
    switch (size) {
    case MT_COPY_BEGINS:
        return hazard_copy_begin(o, r->warp, lanes, x);
    case MT_SYNC_OF_OBJECT:
        return sync_copy_of_object(o, r->warp, lanes, r->site, what);
    case MT_COPY_ARRIVES:
        return onchip_sync_object(o, r->warp, lanes, 0, 1, what);
    default:
        hazard_copy_group(o, r->warp, lanes, size, what);
        return 0;
    }
}

/* Handles __syncwarp. mask: lanes that must arrive; 0: not known, the present ones. */
static int sync_warp(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, uint32_t mask)
{
    uint64_t key = KEY_WARP | (uint64_t)warp << 32 | mask;
    struct mt_hazard_barrier *b;
    struct mt_hazard_group *g = o->warp[warp];
    if (!mask || (lanes & mask) == mask) {
        while (g && !(g->lanes & lanes))
            g = g->next;
        if (g->lanes == lanes) { /* nothing new except their own accesses */
            hazard_release(o, g, g->known);
            return 0;
        }
        mask = 0;
    }
    b = mask ? onchip_sync_get(o, key) : onchip_sync_get(o, KEY_WARP | (uint64_t)warp << 32);
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
    struct mt_hazard_barrier *b = onchip_sync_get(o, number);
    if (b)
        sync_each(o, warp, lanes, b, 0, waits);
    return b ? 0 : -1;
}

/* Handles lanes of a warp that name the same barrier. */
static int sync_lanes(struct mt_hazard_order *o, const struct mt_access_run *r, uint32_t lanes, uint64_t what)
{
    uint32_t type = r->meta >> 28, size = r->meta & MT_RAW_MAX_SIZE;
    int waits = type == MT_SYNC_BARRIER;
    int begins = type == MT_SYNC_COPY && (size == MT_COPY_BEGINS || size == MT_SYNC_OF_OBJECT);
    hazard_go_on(o, r->warp, lanes);
    if (type == MT_SYNC_ARRIVE && mt_rec_is_fence(size, what))
        return 0;
    if (!begins && hazard_split(o, r->warp, lanes) != 0)
        return -1;
    if (type == MT_SYNC_COPY)
        return sync_copy(o, r, lanes, what);
    if (type == MT_SYNC_WARP)
        return sync_warp(o, r->warp, lanes, size == MT_SYNC_OF_LANES ? (uint32_t)what : 0);
    return size == MT_SYNC_OF_OBJECT ? onchip_sync_object(o, r->warp, lanes, waits, 0, what)
                                     : sync_number(o, r->warp, lanes, waits, what);
}

/* Handles barriers of a warp's lanes, given as a run of type MT_SYNC_…. Returns 0, or -1 without memory. */
static int mt_hazard_sync(struct mt_hazard_order *o, const struct mt_access_run *r)
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

/* ---- asynchronous copies ---- */

/* Announces that the lanes' access at the next site is a copy. Returns 0, or -1 without memory. */
static int hazard_copy_begin(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes,
                             struct mt_hazard_begun x)
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

/* Returns the time of a lane's access at the site; *by is the part of the clock, 0: the thread's own. Only if
 * there are copies. */
static uint32_t hazard_copy_time(const struct mt_hazard_order *o, const struct mt_hazard_group *g,
                                 uint32_t lane, uint32_t site, uint32_t *by)
{
    const struct mt_hazard_begun *x = &o->begun[g->warp * MT_HAZARD_LANES + lane];
    *by = site == x->site + 1 ? x->by : 0;
    if (!*by)
        return g->time;
    return *by < MT_HAZARD_BY_OBJECT ? g->copies[*by == MT_HAZARD_BY_BULK].time + 1 : x->time;
}

/* Waits for all groups except the `left` newest; if that is more than are distinguished, waits for more.
 * Returns 0 if all are awaited. */
static int copy_wait(struct mt_hazard_copies *c, uint64_t left)
{
    int more = left >= MT_HAZARD_GROUPS && c->groups > MT_HAZARD_GROUPS;
    left = more ? MT_HAZARD_GROUPS - 1 : left;
    uint32_t last = left < c->groups ? c->last[(c->groups - 1 - left) % MT_HAZARD_GROUPS] : 0;
    c->done = last > c->done ? last : c->done;
    return more;
}

/* Closes or awaits groups, by size and address of the record. */
static void hazard_copy_group(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, uint32_t size,
                              uint64_t what)
{
    for (struct mt_hazard_group *g = o->copies ? o->warp[warp] : NULL; g; g = g->next) {
        struct mt_hazard_copies *c = &g->copies[what & MT_COPY_BULK];
        if (!(g->lanes & lanes))
            continue;
        if (size == MT_COPY_COMMITS || what & MT_COPY_ALL)
            c->last[c->groups++ % MT_HAZARD_GROUPS] = ++c->time;
        if (size == MT_COPY_WAITS && copy_wait(c, what / MT_COPY_WAIT(1)))
            o->loose += (uint64_t)__builtin_popcount(g->lanes & lanes);
    }
}

/* Adds the cp.async copies of the group's lanes so far to `clock`. */
static void hazard_copy_release(struct mt_hazard_group *g, uint32_t *clock)
{
    uint32_t time = ++g->copies[0].time;
    for (uint32_t m = g->lanes; m; m &= m - 1)
        clock[MT_HAZARD_BY_GROUP + g->warp * MT_HAZARD_LANES + (uint32_t)__builtin_ctz(m)] = time;
}

enum { HAZARDS_LANES = MT_HAZARD_LANES, HAZARD_CTA_WORD = 4 };
#define ALL UINT32_MAX
#define NOBODY UINT32_MAX

static void hazard_cta_reset(struct mt_hazard_cta *c)
{
    hazard_order_reset(&c->order);
    c->run = 0;
    c->nwords = 0;
    c->nbytes = 0;
    c->nfar = 0;
    mt_pairmap_clear(&c->pages);
    c->npast = 0;
    c->spare = 0;
}

static void hazard_cta_free(struct mt_hazard_cta *c)
{
    hazard_order_free(&c->order);
    free(c->words);
    free(c->bytes);
    free(c->far);
    mt_pairmap_free(&c->pages);
    free(c->past);
    free(c);
}

/* Returns the bytes of the CTA's cells. */
static size_t hazard_cta_bytes(const struct mt_hazard_cta *c)
{
    return sizeof *c + c->order.bytes + (c->words_room + c->bytes_room + c->far_room) * sizeof *c->words +
           c->past_room * sizeof *c->past + (c->pages.slot ? (sizeof *c->pages.slot) << c->pages.bits : 0);
}

/* ---- earlier accesses ---- */

/* Adds an element at the front of a list. Returns 0, or -1 without memory. */
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

/* Returns 1 if an earlier access of the same thread is ordered before this one. A copy of the thread is
 * ordered only after it is awaited. A kept access also covers copies of the same thread that end before
 * it. */
static int past_is_own(const struct mt_hazard_past *p, const struct mt_hazard_access *a, int which)
{
    return !p->by || (which == MT_HAZARD_KEEP && p->by == a->by) ||
           (p->by < MT_HAZARD_BY_OBJECT && a->group->copies[p->by == MT_HAZARD_BY_BULK].done >= p->time);
}

/* Returns 1 if the earlier access of that thread is ordered before the group's current one. */
static inline int past_is_before(const struct mt_hazard_past *p, const struct mt_hazard_group *g,
                                 uint32_t thread)
{
    return g->known[p->by < MT_HAZARD_BY_OBJECT ? p->by + thread : p->by] >= p->time;
}

/* Returns its lanes in that warp, except the current access's own. */
static inline uint32_t past_others(const struct mt_hazard_past *p, uint32_t warp,
                                   const struct mt_hazard_access *a, int which)
{
    return warp == a->warp && past_is_own(p, a, which) ? p->lanes & ~(1u << a->lane) : p->lanes;
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
            if (!past_is_before(p, a->group, thread))
                return thread;
        }
    }
    return NOBODY;
}

/* Adds an access to an element if it fits. Warps that do the same, such as those of a tile, share an element:
 * this keeps lists short. */
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

/* Keeps an access and removes those that are ordered before it: an access unordered with them is also
 * unordered with it. */
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

/* Returns 0, or -1 without memory. */
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

/* Returns the type shown for a way of access. */
static uint32_t cell_type(uint32_t way)
{
    return way == MT_HAZARD_STRONG_LOAD ? MT_LOAD : way;
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
                          .between = thread == own                       ? MT_HAZARD_THREAD
                                     : thread / HAZARDS_LANES == a->warp ? MT_HAZARD_IN_WARP
                                                                         : MT_HAZARD_IN_CTA,
                          .space = (uint8_t)a->space,
                          .thread = {thread, own},
                          .address = address};
    return a->found(a->arg, &x);
}

/* Compares an access with a cell; reports at most one pair. */
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

/* Keeps a plain store and removes all others: unordered ones were reported, the rest is covered by it. */
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

/* Finds the cell of a word of any space. */
static int cta_word(struct mt_hazard_cta *c, uint32_t space, uint64_t at, struct mt_hazard_cell **word)
{
    if (space == MT_IN_GLOBAL)
        return cta_far(c, at, word);
    if (cta_reach(&c->words, &c->nwords, &c->words_room, at + 1) != 0)
        return -1;
    *word = &c->words[at];
    return 0;
}

/* Creates the cells of a word's four bytes as copies; the first takes over its lists. NULL: no memory. */
static struct mt_hazard_cell *cta_split(struct mt_hazard_cta *c, struct mt_hazard_cell *word)
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
static int hazard_touch(struct mt_hazard_cta *c, const struct mt_hazard_access *a, int which)
{
    uint64_t at = a->address, end = a->address + a->size;
    int rc = 0;
    while (rc == 0 && at < end) {
        struct mt_hazard_cell *word, *bytes;
        uint64_t next = at / HAZARD_CTA_WORD * HAZARD_CTA_WORD + HAZARD_CTA_WORD,
                 stop = next < end ? next : end;
        if ((rc = cta_word(c, a->space, at / HAZARD_CTA_WORD, &word)) != 0 || !word) {
            at = stop;
            continue;
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

enum { MOST_SIZE = 16, MOST_SHARE = 32, HAZARDS_MOST_BYTES = 256 << 20, MOST_SEEN = 1 << 22 };

const char *const mt_hazard_words[] = {
    [MT_HAZARD_RAW] = "RAW", [MT_HAZARD_WAR] = "WAR", [MT_HAZARD_WAW] = "WAW"};

const char *const mt_hazard_between_words[] = {[MT_HAZARD_IN_CTA] = "warps",
                                               [MT_HAZARD_IN_WARP] = "lanes of a warp",
                                               [MT_HAZARD_THREAD] = "a thread and its copy"};

/* ---- list of hazards ---- */

/* Returns one side of a hazard: line and type. */
static uint64_t hazards_side(const struct mt_hazards *h, const struct mt_hazard *x, int i)
{
    const struct mt_site_table *t = h->sites;
    const uint64_t line = t && x->site[i] < t->count ? t->line[x->site[i]] : 1ull << 32 | x->site[i];
    return line << 2 | x->type[i];
}

/* Returns 1 if these two lines, in either order, had no hazard at its word before. Global memory is common,
 * shared memory per CTA. -1 without memory. */
static int hazards_new_word(struct mt_hazards *h, const struct mt_hazard *x, uint32_t cta)
{
    if (!h->words) /* nobody needs the number of words */
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
    /* The bytes that the lanes of a warp stored together are unknown: it may be these. */
    if (h->single && x->between == MT_HAZARD_IN_WARP && x->site[0] == x->site[1] && x->type[0] == x->type[1])
        return 0;
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
    size_t before = hazard_cta_bytes(c);
    HASH_DELETE(hh, h->table, c);
    hazards_unlink(h, c);
    hazard_cta_reset(c);
    h->bytes -= before - hazard_cta_bytes(c);
    c->older = h->idle;
    h->idle = c;
    h->current = NULL;
}

static struct mt_hazard_cta *hazards_open(struct mt_hazards *h, uint64_t cta)
{
    struct mt_hazard_cta *c = h->idle;
    if (!c && h->bytes > HAZARDS_MOST_BYTES && h->oldest) {
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

/* Begins a launch: the CTAs of the previous one have ended. */
static void hazards_launch(struct mt_hazards *h, uint32_t launch, uint32_t input, const char *kernel)
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

static void hazards_free(struct mt_hazards *h)
{
    hazards_launch(h, 0, 0, NULL);
    while (h->idle) {
        struct mt_hazard_cta *c = h->idle;
        h->idle = c->older;
        hazard_cta_free(c);
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

/* Returns 1 if the access is checked: a lane's access, its share of a warp's matrix, or a copy with known
 * completion; in this CTA's memory, or in global memory. */
static int hazards_judged(const struct mt_access_run *r, const struct mt_hazard_access *a)
{
    uint32_t most = a->by ? MT_HAZARD_MOST_SHARED : r->mask == UINT32_MAX ? MOST_SHARE : MOST_SIZE;
    return a->size <= most && a->by != MT_HAZARD_BY_NOBODY &&
           (a->space == MT_IN_GLOBAL || a->address <= MT_HAZARD_MOST_SHARED - a->size);
}

/* Returns 1 if lanes may touch the same bytes. */
static int hazards_overlap(const struct mt_access_run *r)
{
    int64_t size = r->meta & MT_RAW_MAX_SIZE;
    return r->addresses || (r->stride < size && r->stride > -size);
}

/* Returns the way of a run's accesses. */
static uint32_t hazards_way(const struct mt_hazards *h, const struct mt_access_run *r)
{
    uint32_t type = r->meta >> 28 & 3;
    if (!h->words || !mt_site_strong(h->sites, r->site) || type == MT_ATOMIC)
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
        if (!(a.group = hazard_group_of(&c->order, r->warp, a.lane)))
            return -1;
        a.time = a.group->time;
        if (c->order.copies && a.space == MT_IN_SHARED)
            a.time = hazard_copy_time(&c->order, a.group, a.lane, a.site, &a.by);
        if (!hazards_judged(r, &a)) {
            h->unjudged += which & MT_HAZARD_KEEP ? 1 : 0;
        } else if (hazard_touch(c, &a, which) != 0) {
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
    hazard_go_on(&c->order, r->warp, r->mask);
    c->run++;
    if (orders && hazard_words_before(&c->order, r, reads) != 0)
        return -1;
    if (hazards_cells(h, c, r) != 0)
        return -1;
    return orders && way == MT_HAZARD_UPDATE ? hazard_words_after(&c->order, r, reads) : 0;
}

/* Returns 0, or -1 without memory. */
static int hazards_runs(struct mt_hazards *h, const struct mt_access_run *runs, size_t n)
{
    for (const struct mt_access_run *r = runs, *end = runs + n; r < end; r++) {
        uint32_t type = r->meta >> 28, space = mt_rec_space(type);
        int sync = type >= MT_SYNC_BARRIER;
        if (!sync && space != MT_IN_SHARED && (!h->global || type > MT_ATOMIC))
            continue;
        if (r->warp >= MT_HAZARD_WARPS || !r->mask) {
            h->unjudged += sync ? 0 : r->count;
            continue;
        }
        struct mt_hazard_cta *c = hazards_cta(h, r->cta);
        if (!c)
            return -1;
        size_t before = hazard_cta_bytes(c);
        if ((sync ? mt_hazard_sync(&c->order, r) : hazards_access(h, c, r)) != 0)
            return -1;
        h->bytes += hazard_cta_bytes(c) - before;
        h->loose += c->order.loose;
        c->order.loose = 0;
    }
    return 0;
}

enum { LANES = 32, WORD = 4, MOST_BYTES = 32, KNOWN_BITS = 10 };

/* Cache of the costs of evenly spaced accesses, which depend on few values. */
struct mt_bank_known {
    int64_t stride;
    uint32_t offset, mask, meta, wavefronts, least, worst;
};

/* Different words requested in a step, by bank. */
struct step {
    uint32_t words;            /* words of all lanes of the step */
    uint64_t word[LANES * 2];  /* 4 bytes of a lane may span two words, 8 bytes three */
    uint8_t in_bank[MT_BANKS]; /* number of different words in each bank */
};

static void banks_add(struct step *s, uint64_t word, int atomic)
{
    for (uint32_t i = 0; i < s->words && !atomic; i++)
        if (s->word[i] == word)
            return;
    s->word[s->words++] = word;
    s->in_bank[word % MT_BANKS]++;
}

static uint32_t banks_ways(const struct step *s)
{
    uint32_t most = 0;
    for (int i = 0; i < MT_BANKS; i++)
        most = s->in_bank[i] > most ? s->in_bank[i] : most;
    return most;
}

/* Computes the wavefronts of a warp's access to shared memory; *least: without bank conflicts; *worst: ways
 * of the worst step. Returns 0 if unknown (no lanes, more than 32 bytes each). */
static uint32_t bank_wavefronts(const struct mt_access_run *r, uint32_t *least, uint32_t *worst)
{
    uint32_t size = r->meta & MT_RAW_MAX_SIZE, sum = 0, i = 0;
    uint32_t together = size <= WORD       ? LANES
                        : size <= 2 * WORD ? LANES / 2
                        : size <= 4 * WORD ? LANES / 4
                                           : LANES / 8;
    int atomic = (r->meta >> 28 & 3) == MT_ATOMIC;
    *least = *worst = 0;
    if (!r->mask || !size || size > MOST_BYTES)
        return 0;
    for (uint32_t first = 0; first < LANES; first += together) {
        struct step s;
        s.words = 0;
        memset(s.in_bank, 0, sizeof s.in_bank);
        for (uint32_t lane = first; lane < first + together; lane++) {
            if (!(r->mask >> lane & 1))
                continue;
            uint64_t a = r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i;
            i++;
            for (uint64_t w = a / WORD; w <= (a + size - 1) / WORD && s.words < LANES * 2; w++)
                banks_add(&s, w, atomic);
        }
        uint32_t ways = banks_ways(&s);
        sum += ways;
        *least += ways != 0;
        *worst = ways > *worst ? ways : *worst;
    }
    return sum;
}

static uint32_t banks_cost(struct mt_banks *b, const struct mt_access_run *r, uint32_t *least,
                           uint32_t *worst)
{
    uint32_t offset = (uint32_t)(r->base % (MT_BANKS * WORD));
    if (r->addresses || !r->mask)
        return bank_wavefronts(r, least, worst);
    uint64_t h = mt_hash_number((uint64_t)r->stride) ^
                 ((uint64_t)r->mask << 20 ^ offset ^ r->meta) * 0xbf58476d1ce4e5b9u;
    struct mt_bank_known *k = &b->known[h >> (64 - KNOWN_BITS)];
    if (!k->mask || k->stride != r->stride || k->offset != offset || k->mask != r->mask ||
        k->meta != r->meta) {
        *k = (struct mt_bank_known){.stride = r->stride, .offset = offset, .mask = r->mask, .meta = r->meta};
        k->wavefronts = bank_wavefronts(r, &k->least, &k->worst);
    }
    *least = k->least;
    *worst = k->worst;
    return k->wavefronts;
}

/* ---- cells ---- */

/* Functions return 0, or -1 without memory. */
static int banks_init(struct mt_banks *b)
{
    memset(b, 0, sizeof *b);
    b->known = calloc(1u << KNOWN_BITS, sizeof *b->known);
    return b->known ? 0 : -1;
}

static void banks_free(struct mt_banks *b)
{
    free(b->cells);
    mt_pairmap_free(&b->places);
    free(b->known);
    memset(b, 0, sizeof *b);
}

static void banks_launch(struct mt_banks *b, uint32_t launch, uint32_t input, int single)
{
    b->single = single;
    b->launch = launch;
    b->input = input;
    b->last = SIZE_MAX;
}

static struct mt_bank_cell *banks_cell(struct mt_banks *b, uint32_t site, uint32_t type)
{
    if (b->last < b->count && b->cells[b->last].site == site && b->cells[b->last].type == type)
        return &b->cells[b->last];
    uint64_t *at = mt_pairmap_get(&b->places, (uint64_t)b->launch << 32 | site, type, b->count);
    if (!at || mt_grow(&b->cells, &b->room, b->count + 1, sizeof *b->cells) != 0)
        return NULL;
    if (*at == b->count)
        b->cells[b->count++] =
            (struct mt_bank_cell){.launch = b->launch, .input = b->input, .site = site, .type = type};
    b->last = *at;
    return &b->cells[b->last];
}

static int banks_runs(struct mt_banks *b, const struct mt_access_run *runs, size_t n)
{
    for (const struct mt_access_run *r = runs, *end = runs + n; r < end; r++) {
        uint32_t type = r->meta >> 28, space = mt_rec_space(type), least = 0, worst = 0, wavefronts = 0;
        if (space != MT_IN_SHARED && space != MT_IN_LOCAL)
            continue;
        struct mt_bank_cell *c = banks_cell(b, r->site, type);
        if (!c)
            return -1;
        if (b->single)
            b->ungrouped += space == MT_IN_SHARED ? r->count : 0;
        else if (space == MT_IN_SHARED && !(wavefronts = banks_cost(b, r, &least, &worst)))
            b->blocks += r->count;
        c->requests += !b->single;
        c->accesses += r->count;
        c->bytes += (uint64_t)r->count * (r->meta & MT_RAW_MAX_SIZE);
        c->wavefronts += wavefronts;
        c->least += least;
        c->worst = worst > c->worst ? worst : c->worst;
    }
    return 0;
}

/* ---- result rows, for tables and pages ---- */

const struct mt_site_event *mt_onchip_site(const struct mt_source *s, uint32_t input, uint32_t site)
{
    return site ? mt_companion_site(mt_source_companion(s, input), site) : NULL;
}

const char *mt_onchip_variable(const struct mt_site_event *site)
{
    const char *v = site ? site->var : "", *at;
    while ((at = strstr(v, "::")))
        v = at + 2;
    return v;
}

/* ---- places ---- */

/* Cell with its sort key. */
struct keyed {
    const struct mt_bank_cell *cell;
    const char *kernel;
    const struct mt_site_event *site;
};

/* Orders by line; machine code without lines by its location. */
static int keyed_line(const struct mt_site_event *a, const struct mt_site_event *b)
{
    if (!a || !b)
        return !a - !b;
    int d = strcmp(a->file, b->file);
    d = d ? d : (a->line > b->line) - (a->line < b->line);
    return d || *a->file ? d : strcmp(a->at, b->at);
}

static int keyed_site(const struct mt_site_event *a, const struct mt_site_event *b)
{
    int d = keyed_line(a, b);
    if (d || !a || !b)
        return d;
    d = (a->column > b->column) - (a->column < b->column);
    return d ? d : strcmp(a->var, b->var);
}

static int keyed_place(const struct keyed *x, const struct keyed *y)
{
    int d = x->kernel == y->kernel ? 0 : strcmp(x->kernel, y->kernel);
    d = d ? d : x->site == y->site ? 0 : keyed_site(x->site, y->site);
    return d ? d : (x->cell->type > y->cell->type) - (x->cell->type < y->cell->type);
}

static int keyed_order(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    int d = keyed_place(x, y);
    return d ? d : (x->cell->launch > y->cell->launch) - (x->cell->launch < y->cell->launch);
}

void mt_onchip_add(struct mt_bank_cell *sum, const struct mt_bank_cell *c)
{
    sum->requests += c->requests;
    sum->accesses += c->accesses;
    sum->bytes += c->bytes;
    sum->wavefronts += c->wavefronts;
    sum->least += c->least;
    sum->worst = c->worst > sum->worst ? c->worst : sum->worst;
}

/* Adds the next cell of a place, whose other cells precede it. */
static void place_add(struct mt_onchip_place *p, const struct mt_bank_cell *c)
{
    struct mt_bank_cell *s = &p->sum;
    if (p->end == p->first)
        *s = (struct mt_bank_cell){.launch = c->launch, .site = c->site, .type = c->type, .input = c->input};
    p->launches += p->end == p->first || c[-1].launch != c->launch;
    p->end++;
    mt_onchip_add(s, c);
}

static int rows_places(struct mt_onchip_rows *r, const struct mt_onchip *x, const struct mt_source *s)
{
    size_t n = x->banks.count;
    struct keyed *k = malloc((n + 1) * sizeof *k);
    r->places = malloc((n + 1) * sizeof *r->places);
    r->cells = malloc((n + 1) * sizeof *r->cells);
    if (!k || !r->places || !r->cells) {
        free(k);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const struct mt_bank_cell *c = &x->banks.cells[i];
        k[i] = (struct keyed){c, x->launches[c->launch].kernel, mt_onchip_site(s, c->input, c->site)};
    }
    qsort(k, n, sizeof *k, keyed_order);
    for (size_t i = 0; i < n; i++) {
        if (!i || keyed_place(&k[i - 1], &k[i]))
            r->places[r->nplaces++] =
                (struct mt_onchip_place){.kernel = k[i].kernel, .site = k[i].site, .first = i, .end = i};
        r->cells[i] = *k[i].cell;
        place_add(&r->places[r->nplaces - 1], &r->cells[i]);
    }
    free(k);
    return 0;
}

/* ---- hazards ---- */

static int hazard_order(const void *a, const void *b)
{
    const struct mt_onchip_hazard *x = a, *y = b;
    int d = strcmp(x->h.kernel, y->h.kernel);
    for (int i = 0; i < 2 && !d; i++)
        d = keyed_line(x->side[i], y->side[i]);
    for (int i = 0; i < 2 && !d; i++)
        d = (x->h.type[i] > y->h.type[i]) - (x->h.type[i] < y->h.type[i]);
    d = d ? d : x->h.kind - y->h.kind;
    d = d ? d : x->h.space - y->h.space;
    return d ? d : x->h.between - y->h.between;
}

MT_ORDER_2(hazard_cell_order, struct mt_hazard_share, hazard, launch)

/* Collects the cells of hazards. row: row of each hazard in the list. */
static int rows_hazard_cells(struct mt_onchip_rows *r, const struct mt_hazards *h, const uint32_t *row)
{
    struct mt_hazard_share *cells = r->hazard_cells = malloc((h->ncells + 1) * sizeof *cells);
    size_t n = 0;
    if (!cells)
        return -1;
    for (size_t i = 0; i < h->ncells; i++)
        cells[i] = (struct mt_hazard_share){h->cells[i].count, row[h->cells[i].hazard], h->cells[i].launch};
    qsort(cells, h->ncells, sizeof *cells, hazard_cell_order);
    for (size_t i = 0; i < h->ncells; i++) {
        struct mt_onchip_hazard *to = &r->hazards[cells[i].hazard];
        if (n && hazard_cell_order(&cells[n - 1], &cells[i]) == 0) {
            cells[n - 1].count += cells[i].count;
            continue;
        }
        to->first = to->end ? to->first : n;
        cells[n] = cells[i];
        to->end = ++n;
        to->h.launches = to->end - to->first;
    }
    return 0;
}

static int rows_hazards(struct mt_onchip_rows *r, const struct mt_onchip *x, const struct mt_source *s)
{
    size_t count = x->hazards.count;
    struct mt_onchip_hazard *rows = r->hazards = malloc((count + 1) * sizeof *rows);
    uint32_t *row = malloc((count + 1) * sizeof *row);
    for (size_t i = 0; rows && i < count; i++) {
        const struct mt_hazard *h = &x->hazards.list[i];
        rows[i] = (struct mt_onchip_hazard){
            *h, {mt_onchip_site(s, h->input, h->site[0]), mt_onchip_site(s, h->input, h->site[1])}, i, 0};
    }
    if (rows)
        qsort(rows, count, sizeof *rows, hazard_order);
    for (size_t i = 0; rows && row && i < count; i++) {
        int other = !r->nhazards || hazard_order(&rows[r->nhazards - 1], &rows[i]);
        row[rows[i].first] = (uint32_t)(r->nhazards - !other);
        if (other)
            rows[r->nhazards++] = rows[i];
        else
            rows[r->nhazards - 1].h.count += rows[i].h.count,
                rows[r->nhazards - 1].h.words += rows[i].h.words;
    }
    int rc = rows && row ? rows_hazard_cells(r, &x->hazards, row) : -1;
    free(row);
    return rc;
}

static void onchip_rows_free(struct mt_onchip_rows *r)
{
    free(r->places);
    free(r->cells);
    free(r->hazards);
    free(r->hazard_cells);
    memset(r, 0, sizeof *r);
}

static int onchip_init(void *self, const struct mt_run_options *o)
{
    struct mt_onchip *x = self;
    *x = (struct mt_onchip){.source = o->source};
    return banks_init(&x->banks);
}

static int onchip_finish(void *self)
{
    struct mt_onchip *x = self;
    return rows_places(&x->rows, x, x->source) == 0 && rows_hazards(&x->rows, x, x->source) == 0 ? 0 : -1;
}

static void onchip_free(void *self)
{
    struct mt_onchip *x = self;
    onchip_rows_free(&x->rows);
    banks_free(&x->banks);
    hazards_free(&x->hazards);
    free(x->launches);
    memset(x, 0, sizeof *x);
}

static int onchip_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_onchip *x = self;
    if (mt_grow(&x->launches, &x->launch_room, x->nlaunches + 1, sizeof *x->launches) != 0)
        return -1;
    x->launches[x->nlaunches] = (struct mt_onchip_launch){l->superstep, l->kernel, l->event};
    x->untraced += l->event ? l->event->untraced : 0;
    banks_launch(&x->banks, (uint32_t)x->nlaunches, (uint32_t)l->input, l->single);
    hazards_launch(&x->hazards, (uint32_t)x->nlaunches, (uint32_t)l->input, l->kernel);
    x->hazards.single = l->single;
    x->nlaunches++;
    return 0;
}

static int onchip_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_onchip *x = self;
    return banks_runs(&x->banks, runs, n) == 0 && hazards_runs(&x->hazards, runs, n) == 0 ? 0 : -1;
}

const struct mt_analysis mt_onchip_analysis = {.needs = MT_NEEDS_SPACES,
                                               .init = onchip_init,
                                               .launch = onchip_launch,
                                               .runs = onchip_runs,
                                               .finish = onchip_finish,
                                               .free = onchip_free};
