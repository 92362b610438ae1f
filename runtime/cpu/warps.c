/* See warps.h. Work goes phase by phase: a phase is a stretch of entries of one warp in which each lane comes
 * once, in ascending order. In a loop over threads that is all that the warp does, with fibers what it does
 * between two waits. */
#include "warps.h"
#include <stdlib.h>
#include <string.h>

#define LANES 32u
#define ADDRESSES (MT_WARPS_RUNS * 8u) /* room for those of uneven runs */

struct mt_warps {
    mt_warps_take take;
    void *ctx;
    uint64_t cta;
    const struct mt_places *places;
    uint32_t smid, site_base;
    uint32_t depth; /* of places */
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

struct mt_places *mt_places_new(const struct mt_image_site *sites, uint32_t nsites,
                                const struct mt_image_loop *loops, uint32_t nloops)
{
    struct mt_places *all = nloops ? calloc(1, sizeof *all + nsites * sizeof *all->place) : NULL;
    uint32_t *first = all ? malloc((nloops + 1) * sizeof *first) : NULL;
    if (!first) {
        free(all);
        return NULL;
    }
    for (uint32_t i = nsites; i-- > 0;) /* the lowest site of each comes last */
        for (uint32_t l = sites[i].loop; l; l = loops[l - 1].parent)
            first[l] = i;
    all->count = nsites;
    for (uint32_t i = 0; i < nsites; i++) {
        struct mt_place *p = &all->place[i];
        uint32_t chain[64], n = 0;
        for (uint32_t l = sites[i].loop; l && n < sizeof chain / sizeof *chain; l = loops[l - 1].parent)
            chain[n++] = first[l];
        for (; n && p->depth < MT_PLACE_DEPTH; n--)
            p->first[p->depth++] = chain[n - 1];
        all->depth = p->depth > all->depth ? p->depth : all->depth;
    }
    free(first);
    return all;
}

struct mt_warps *mt_warps_new(void)
{
    struct mt_warps *w = malloc(sizeof *w);
    if (w) {
        w->take = NULL;
        w->runs = w->addresses = 0;
        w->accesses = w->cta = 0;
        w->smid = w->site_base = w->depth = 0;
        w->places = NULL;
    }
    return w;
}

void mt_warps_free(struct mt_warps *w)
{
    free(w);
}

void mt_warps_open(struct mt_warps *w, uint32_t site_base, const struct mt_places *places, mt_warps_take take,
                   void *ctx)
{
    w->site_base = site_base;
    w->places = places;
    w->depth = places ? places->depth : 0;
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

/* One access of `n` lanes: entry number `row` behind at[0], at[1] … */
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

/* How far a lane is, for comparison from the first word on: iterations << 32 | what comes next, the lowest
 * site of a loop or the site itself; iterations: of all loops that are not known at first, then of one loop
 * after the other, going in. */
struct position {
    uint64_t word[MT_PLACE_DEPTH + 1];
};

static const struct mt_place *place_of(const struct mt_warps *w, uint32_t site)
{
    static const struct mt_place none;
    return w->places && site < w->places->count ? &w->places->place[site] : &none;
}

static inline int warps_compare(const struct position *a, const struct position *b, uint32_t depth)
{
    for (uint32_t i = 0; i <= depth; i++)
        if (a->word[i] != b->word[i])
            return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

static inline void set_position(struct position *p, const struct mt_place *place, uint32_t site,
                                uint32_t from, uint32_t depth)
{
    for (uint32_t i = from; i <= depth; i++) {
        uint64_t count = i == from ? p->word[i] & ~(uint64_t)UINT32_MAX : 0;
        p->word[i] = i < place->depth ? count | place->first[i] : i == place->depth ? count | site : 0;
    }
}

/* From one site's access to the next one's. */
static void warps_move(const struct mt_warps *w, struct position *p, uint32_t from, uint32_t to)
{
    const struct mt_place *a = place_of(w, from), *b = place_of(w, to);
    uint32_t common = 0;
    while (common < a->depth && common < b->depth && a->first[common] == b->first[common])
        common++;
    if (to <= from)
        p->word[common] += 1ull << 32;
    set_position(p, b, to, common, w->depth);
}

struct lane {
    const uint64_t *at; /* its next access */
    size_t left;
    uint32_t number;
    struct position position;
};

/* Lanes that go on together. */
struct party {
    struct lane *lane[LANES];
    const uint64_t *at[LANES];
    uint32_t n, mask;
    struct position others; /* the lowest of those who wait; all ones: nobody does */
};

/* Before another one? With equal positions, by type and size. */
static inline int is_before(const struct lane *a, const struct lane *b, uint32_t depth)
{
    int order = warps_compare(&a->position, &b->position, depth);
    return order ? order < 0 : a->at[0] < b->at[0];
}

static void warps_gather(struct party *party, struct lane *lanes, uint32_t n, uint32_t depth)
{
    struct lane *least = NULL;
    party->n = party->mask = 0;
    memset(&party->others, 0xff, sizeof party->others);
    for (uint32_t i = 0; i < n; i++)
        if (lanes[i].left && (!least || is_before(&lanes[i], least, depth)))
            least = &lanes[i];
    for (uint32_t i = 0; i < n; i++) {
        struct lane *l = &lanes[i];
        if (!l->left)
            continue;
        if (l->at[0] == least->at[0] && !warps_compare(&l->position, &least->position, depth)) {
            party->at[party->n] = l->at;
            party->lane[party->n++] = l;
            party->mask |= 1u << l->number;
        } else if (warps_compare(&l->position, &party->others, depth) < 0) {
            party->others = l->position;
        }
    }
}

/* Everyone in the party takes its access. 1: all have the same next one, which is `next`. */
static int warps_advance(struct party *party, uint64_t *next)
{
    int together = 1;
    for (uint32_t i = 0; i < party->n; i++) {
        struct lane *l = party->lane[i];
        l->left--;
        party->at[i] = l->at += MT_ENTRY_WORDS;
        together &= l->left && (i == 0 || l->at[0] == *next);
        if (i == 0 && l->left)
            *next = l->at[0];
    }
    return together;
}

/* A merge of their sequences. */
static void emit_different(struct mt_warps *w, struct phase *p)
{
    struct lane lanes[LANES];
    struct party party;
    uint64_t left = 0, next = 0;
    uint32_t m = p->mask;
    for (uint32_t i = 0; i < p->lanes; i++, m &= m - 1) {
        uint32_t site = (uint32_t)(p->at[i][0] >> 32);
        lanes[i].at = p->at[i];
        lanes[i].left = p->count[i];
        lanes[i].number = (uint32_t)__builtin_ctz(m);
        lanes[i].position.word[0] = 0;
        set_position(&lanes[i].position, place_of(w, site), site, 0, w->depth);
        left += p->count[i];
    }
    while (left) {
        warps_gather(&party, lanes, p->lanes, w->depth);
        struct position at = party.lane[0]->position;
        uint32_t site = (uint32_t)(party.at[0][0] >> 32);
        int together;
        do { /* until they part, or those who wait are no longer behind */
            warps_emit(w, p->warp, party.mask, party.n, party.at, 0);
            left -= party.n;
            together = warps_advance(&party, &next);
            if (!together)
                break;
            warps_move(w, &at, site, (uint32_t)(next >> 32));
            site = (uint32_t)(next >> 32);
        } while (warps_compare(&at, &party.others, w->depth) < 0);
        for (uint32_t i = 0; i < party.n; i++) {
            struct lane *l = party.lane[i];
            l->position = at;
            if (!together && l->left)
                warps_move(w, &l->position, site, (uint32_t)(l->at[0] >> 32));
        }
    }
}

/* Are the `count` entries at `b` of this thread, and but for addresses those at `a`? */
static int warps_alike(const uint64_t *a, const uint64_t *b, size_t count, uint64_t thread)
{
    uint64_t odd = 0;
    for (; count >= 4; count -= 4, a += 4 * MT_ENTRY_WORDS, b += 4 * MT_ENTRY_WORDS) {
        odd = (a[0] ^ b[0]) | (a[3] ^ b[3]) | (a[6] ^ b[6]) | (a[9] ^ b[9]) | (b[2] ^ thread) |
              (b[5] ^ thread) | (b[8] ^ thread) | (b[11] ^ thread);
        if (odd)
            return 0;
    }
    for (; count; count--, a += MT_ENTRY_WORDS, b += MT_ENTRY_WORDS)
        odd |= (a[0] ^ b[0]) | (b[2] ^ thread);
    return !odd;
}

/* The phase that begins at `e`. Returns how many entries it has; 0: it may go on behind `end`. */
static size_t find_phase(struct phase *p, const uint64_t *e, const uint64_t *end, int all, int *same)
{
    const uint64_t *at = e;
    uint64_t thread, warp = e[2] / LANES;
    p->warp = (uint32_t)warp;
    p->mask = p->lanes = 0;
    *same = 1;
    do {
        const uint64_t *begin = at;
        size_t first = p->lanes ? p->count[0] : 0;
        thread = at[2];
        if (p->lanes) {
            *same =
                *same && (size_t)(end - at) >= first * MT_ENTRY_WORDS && warps_alike(e, at, first, thread);
            at += *same ? first * MT_ENTRY_WORDS : 0;
        }
        for (; at < end && at[2] == thread; at += MT_ENTRY_WORDS)
            ;
        p->at[p->lanes] = begin;
        p->count[p->lanes] = (size_t)(at - begin) / MT_ENTRY_WORDS;
        *same &= p->count[p->lanes] == p->count[0];
        p->lanes++;
        p->mask |= 1u << thread % LANES;
    } while (at < end && at[2] / LANES == warp && at[2] > thread);
    return at == end && !all ? 0 : (size_t)(at - e) / MT_ENTRY_WORDS;
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
        if (same)
            emit_alike(w, &p);
        else
            emit_different(w, &p);
        *accesses += n;
        at += n * MT_ENTRY_WORDS;
    }
    return (size_t)(at - entries) / MT_ENTRY_WORDS;
}
