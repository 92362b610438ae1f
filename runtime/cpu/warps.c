/* See warps.h. Work goes phase by phase: a phase is a stretch of entries of one warp in which each lane comes
 * once, in ascending order. In a loop over threads that is all that the warp does, with fibers what it does
 * between two waits. */
#include "warps.h"
#include "keys.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

#define LANES 32u
#define ADDRESSES (MT_WARPS_RUNS * 8u) /* room for those of uneven runs */

struct mt_warps {
    mt_warps_take take;
    void *ctx;
    uint64_t cta;
    uint32_t smid, site_base;
    struct mt_warp_keys *keys; /* NULL: not needed so far */
    size_t runs, addresses;
    uint64_t accesses;
    struct mt_access_run run[MT_WARPS_RUNS];
    uint64_t address[ADDRESSES];
};

/* What the lanes did in this phase. */
struct phase {
    uint32_t warp, mask, lanes;
    const uint64_t *at[LANES]; /* by active lane: its entries */
    size_t count[LANES];
};

struct mt_warps *mt_warps_new(void)
{
    struct mt_warps *w = malloc(sizeof *w);
    if (w) {
        w->take = NULL;
        w->runs = w->addresses = 0;
        w->accesses = w->cta = 0;
        w->smid = w->site_base = 0;
        w->keys = NULL;
    }
    return w;
}

void mt_warps_free(struct mt_warps *w)
{
    if (w)
        mt_keys_free(w->keys);
    free(w);
}

void mt_warps_open(struct mt_warps *w, uint32_t site_base, mt_warps_take take, void *ctx)
{
    w->site_base = site_base;
    w->take = take;
    w->ctx = ctx;
}

void mt_warps_flush(struct mt_warps *w)
{
    if (w->runs && w->take)
        w->take(w->ctx, w->run, w->runs, w->accesses);
    w->runs = w->addresses = 0;
    w->accesses = 0;
}

/* One access of `n` lanes: entry number `row` after at[0], at[1] … */
static inline void warps_emit(struct mt_warps *w, uint32_t warp, uint32_t mask, uint32_t n,
                              const uint64_t **at, size_t row)
{
    const size_t word = row * MT_ENTRY_WORDS + 1;
    uint64_t what = at[0][word - 1], base = at[0][word], stride = n > 1 ? at[1][word] - base : 0;
    uint64_t due = base, odd = 0;
    if (w->runs == MT_WARPS_RUNS || w->addresses + LANES > ADDRESSES ||
        w->accesses + LANES > MT_WARPS_ACCESSES)
        mt_warps_flush(w);
    struct mt_access_run *r = &w->run[w->runs++];
    w->accesses += n;
    for (uint32_t i = 0; i < n; i++, due += stride)
        odd |= at[i][word] ^ due;
    *r = (struct mt_access_run){.base = base,
                                .stride = (int64_t)stride,
                                .cta = w->cta,
                                .smid = w->smid,
                                .meta = (uint32_t)what,
                                .count = n,
                                .mask = mask,
                                .warp = warp,
                                .site = (uint32_t)(what >> 32) + w->site_base};
    if (!odd)
        return;
    uint64_t *list = &w->address[w->addresses];
    for (uint32_t i = 0; i < n; i++)
        list[i] = at[i][word];
    r->addresses = list;
    w->addresses += n;
}

/* The lanes did the same. */
static void emit_alike(struct mt_warps *w, struct phase *p)
{
    for (size_t row = 0; row < p->count[0]; row++)
        warps_emit(w, p->warp, p->mask, p->lanes, p->at, row);
}

/* ---- lanes that go different ways ---- */

/* The lanes of a phase by active lane: what each does next, and where. */
struct merge {
    uint64_t place[LANES], what[LANES]; /* place: all ones when nothing is left */
    const uint64_t *at[LANES];
    size_t left[LANES];
    uint32_t n, mask; /* mask: of the phase */
    struct mt_warp_keys *keys;
};

/* Lanes that go on together. */
struct party {
    uint32_t lane[LANES]; /* of struct merge */
    const uint64_t *at[LANES];
    uint32_t n, mask;
    uint64_t others; /* the lowest place of those who wait; all ones: nobody does */
};

static inline uint64_t place_of(const uint64_t *entry)
{
    return entry[2] >> MT_ENTRY_PLACE_AT;
}

static inline void merge_look(struct merge *g, uint32_t i)
{
    g->place[i] = g->left[i] ? place_of(g->at[i]) : UINT64_MAX;
    g->what[i] = g->left[i] ? g->at[i][0] : 0;
}

/* Lanes whose access has all its lanes there; all, where there is none. */
static uint32_t merge_complete(const struct merge *g)
{
    uint32_t complete = 0;
    for (uint32_t i = 0; i < g->n; i++)
        complete |= (uint32_t)(g->left[i] && mt_keys_complete(g->keys, g->at[i])) << i;
    return complete ? complete : UINT32_MAX;
}

/* Of the lanes at the lowest place those of the same, lowest type and size. Each step counts: in some kernels
 * it is done for each access. */
static void warps_gather(struct party *party, const struct merge *g)
{
    uint32_t who = g->keys ? merge_complete(g) : UINT32_MAX, here = 0, lanes = g->mask;
    uint64_t least = UINT64_MAX, others = UINT64_MAX, what = UINT64_MAX;
    for (uint32_t i = 0; i < g->n; i++) {
        uint64_t place = who >> i & 1 ? g->place[i] : UINT64_MAX;
        least = place < least ? place : least;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        int is = g->place[i] == least && who >> i & 1;
        here |= (uint32_t)is << i;
        others = !is && g->place[i] < others ? g->place[i] : others;
    }
    for (uint32_t m = here; m; m &= m - 1)
        what = g->what[__builtin_ctz(m)] < what ? g->what[__builtin_ctz(m)] : what;
    party->n = party->mask = 0;
    for (uint32_t i = 0; i < g->n; i++, lanes &= lanes - 1) {
        if (!(here >> i & 1))
            continue;
        if (g->what[i] != what) {
            others = least;
            continue;
        }
        party->at[party->n] = g->at[i];
        party->lane[party->n++] = i;
        party->mask |= lanes & -lanes;
    }
    party->others = g->keys ? 0 : others;
}

/* Everyone in the party takes its access. 1: all have the same next one,
 * and none that wait are further back. */
static int warps_advance(struct merge *g, struct party *party)
{
    uint32_t first = party->lane[0];
    int together = 1;
    for (uint32_t k = 0; k < party->n; k++) {
        uint32_t i = party->lane[k];
        g->left[i]--;
        party->at[k] = g->at[i] += MT_ENTRY_WORDS;
        merge_look(g, i);
        if (g->keys && g->left[i])
            mt_keys_arrive(g->keys, g->at[i]);
        together &= g->left[i] && g->what[i] == g->what[first] && g->place[i] == g->place[first];
    }
    return together && g->place[first] < party->others;
}

/* Do places rise in each lane's sequence? Not where code calls itself, or loops go on for very long. */
static int is_rising(const struct phase *p)
{
    for (uint32_t i = 0; i < p->lanes; i++) {
        const uint64_t *at = p->at[i];
        for (size_t k = 1; k < p->count[i]; k++, at += MT_ENTRY_WORDS)
            if (place_of(at + MT_ENTRY_WORDS) < place_of(at))
                return 0;
    }
    return 1;
}

/* Who is at which access, for lanes whose places do not say who is further back. NULL: they do,
 * or no memory. */
static struct mt_warp_keys *warps_keys(struct mt_warps *w, const struct phase *p)
{
    if (is_rising(p))
        return NULL;
    if (!w->keys)
        w->keys = mt_keys_new();
    return w->keys && !mt_keys_fill(w->keys, p->at, p->count, p->lanes) ? w->keys : NULL;
}

/* A merge of their sequences. */
static void emit_different(struct mt_warps *w, struct phase *p)
{
    struct merge g = {.n = p->lanes, .mask = p->mask, .keys = warps_keys(w, p)};
    struct party party;
    uint64_t left = 0;
    for (uint32_t i = 0; i < p->lanes; i++) {
        g.at[i] = p->at[i];
        g.left[i] = p->count[i];
        merge_look(&g, i);
        left += p->count[i];
    }
    while (left) {
        warps_gather(&party, &g);
        do { /* until they part, or those who wait are no longer further back */
            warps_emit(w, p->warp, party.mask, party.n, party.at, 0);
            left -= party.n;
        } while (warps_advance(&g, &party));
    }
}

#define THREAD                                                                                               \
    (1ull << 63 | ((1ull << MT_ENTRY_PLACE_AT) - 1)) /* bits of the third word; a mark is not a thread */

/* Are the `count` entries at `b` but for addresses those at `a`? apart:
 * what the threads' numbers differ in. */
static int warps_alike(const uint64_t *a, const uint64_t *b, size_t count, uint64_t apart)
{
    uint64_t odd = 0;
    for (; count >= 4; count -= 4, a += 4 * MT_ENTRY_WORDS, b += 4 * MT_ENTRY_WORDS) {
        odd = (a[0] ^ b[0]) | (a[3] ^ b[3]) | (a[6] ^ b[6]) | (a[9] ^ b[9]) | (a[2] ^ b[2] ^ apart) |
              (a[5] ^ b[5] ^ apart) | (a[8] ^ b[8] ^ apart) | (a[11] ^ b[11] ^ apart);
        if (odd)
            return 0;
    }
    for (; count; count--, a += MT_ENTRY_WORDS, b += MT_ENTRY_WORDS)
        odd |= (a[0] ^ b[0]) | (a[2] ^ b[2] ^ apart);
    return !odd;
}

/* The phase that begins at `e`. Returns how many entries it has; 0: it may go on after `end`. */
static size_t find_phase(struct phase *p, const uint64_t *e, const uint64_t *end, int all, int *same)
{
    const uint64_t *at = e;
    uint64_t thread, first_thread = e[2] & THREAD, warp = first_thread / LANES;
    p->warp = (uint32_t)warp;
    p->mask = p->lanes = 0;
    *same = 1;
    do {
        const uint64_t *begin = at;
        size_t first = p->lanes ? p->count[0] : 0;
        thread = at[2] & THREAD;
        if (p->lanes) {
            *same = *same && (size_t)(end - at) >= first * MT_ENTRY_WORDS &&
                    warps_alike(e, at, first, first_thread ^ thread);
            at += *same ? first * MT_ENTRY_WORDS : 0;
        }
        for (; at < end && (at[2] & THREAD) == thread; at += MT_ENTRY_WORDS)
            ;
        p->at[p->lanes] = begin;
        p->count[p->lanes] = (size_t)(at - begin) / MT_ENTRY_WORDS;
        *same &= p->count[p->lanes] == p->count[0];
        p->lanes++;
        p->mask |= 1u << thread % LANES;
    } while (at < end && (at[2] & THREAD) / LANES == warp && (at[2] & THREAD) > thread);
    return at == end && !all ? 0 : (size_t)(at - e) / MT_ENTRY_WORDS;
}

/* ---- barriers in memory ---- */

/* Of an entry: the object's address, without its phase; 0: it is of no such barrier. */
static uint64_t cut_object(const uint64_t *entry, uint32_t type)
{
    uint32_t meta = (uint32_t)entry[0];
    return meta == mt_rec_meta(type, MT_SYNC_OF_OBJECT) ? (entry[1] | MT_MBARRIER_FLAGS) + 1 : 0;
}

/* Has one of the first `lanes` lanes arrived at this object, at a place behind this wait's? */
static int cut_is_needed(const struct phase *p, uint32_t lanes, const uint64_t *wait, uint64_t object)
{
    for (uint32_t i = 0; i < lanes; i++)
        for (size_t k = 0; k < p->count[i]; k++) {
            const uint64_t *at = p->at[i] + k * MT_ENTRY_WORDS;
            if (cut_object(at, MT_SYNC_ARRIVE) == object && place_of(at) >= place_of(wait))
                return 1;
        }
    return 0;
}

/* A lane that goes on because one before it in the phase has arrived comes after that one, wherever the two
 * are in the code: the phase ends there. Returns its entries. */
static size_t warps_cut(struct phase *p, size_t n)
{
    for (uint32_t i = 1; i < p->lanes; i++)
        for (size_t k = 0; k < p->count[i]; k++) {
            const uint64_t *at = p->at[i] + k * MT_ENTRY_WORDS;
            uint64_t object = cut_object(at, MT_SYNC_BARRIER);
            if (!object || !cut_is_needed(p, i, at, object))
                continue;
            n = (size_t)(at - p->at[0]) / MT_ENTRY_WORDS;
            p->count[i] = k;
            p->lanes = i + (k > 0);
            for (p->mask = 0, i = 0; i < p->lanes; i++)
                p->mask |= 1u << (p->at[i][2] & THREAD) % LANES;
            return n;
        }
    return n;
}

size_t mt_warps_put(struct mt_warps *w, const uint64_t *entries, size_t count, int all, uint64_t *accesses)
{
    const uint64_t *at = entries, *end = entries + count * MT_ENTRY_WORDS;
    *accesses = 0;
    while (at < end) {
        struct phase p;
        int same;
        if (at[2] == MT_ENTRY_MARK) {
            w->smid = (uint32_t)at[0];
            w->cta = at[1];
            at += MT_ENTRY_WORDS;
            continue;
        }
        size_t n = find_phase(&p, at, end, all, &same);
        if (!n)
            break;
        if (same) {
            emit_alike(w, &p);
        } else {
            n = warps_cut(&p, n);
            emit_different(w, &p);
        }
        *accesses += n;
        at += n * MT_ENTRY_WORDS;
    }
    return (size_t)(at - entries) / MT_ENTRY_WORDS;
}
