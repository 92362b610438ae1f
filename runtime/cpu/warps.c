/* See warps.h. Work goes phase by phase: a phase is a stretch of entries of one warp in which each lane comes
 * once, in ascending order. In a loop over threads that is all that the warp does, with fibers what it does
 * between two waits. */
#include "warps.h"
#include <stdlib.h>

#define LANES 32u
#define ADDRESSES (MT_WARPS_RUNS * 8u) /* room for those of uneven runs */
#define DONE UINT64_MAX

struct mt_warps {
    mt_warps_take take;
    void *ctx;
    uint64_t cta;
    uint32_t smid, site_base;
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
    }
    return w;
}

void mt_warps_free(struct mt_warps *w)
{
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

/* One access of `n` lanes: entry number `row` behind at[0], at[1] … */
static inline void emit(struct mt_warps *w, uint32_t warp, uint32_t mask, uint32_t n, const uint64_t **at,
                        size_t row)
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
        emit(w, p->warp, p->mask, p->lanes, p->at, row);
}

/* A subset of the lanes that goes on. */
struct party {
    const uint64_t *at[LANES]; /* where they are */
    uint32_t who[LANES];       /* index in the phase */
    uint32_t n, mask;
};

static void gather(const struct phase *p, const uint64_t *key, const uint32_t *lane, struct party *party,
                   uint64_t *others)
{
    uint64_t lowest = DONE;
    for (uint32_t i = 0; i < p->lanes; i++)
        lowest = key[i] < lowest ? key[i] : lowest;
    *others = DONE;
    party->n = party->mask = 0;
    for (uint32_t i = 0; i < p->lanes; i++) {
        if (key[i] != lowest) {
            *others = key[i] < *others ? key[i] : *others;
            continue;
        }
        party->at[party->n] = p->at[i];
        party->who[party->n++] = i;
        party->mask |= 1u << lane[i];
    }
}

/* They did not: a merge of their sequences. */
static void emit_different(struct mt_warps *w, struct phase *p)
{
    uint64_t key[LANES], left = 0, others; /* key: site and meta of the next access */
    uint32_t lane[LANES], m = p->mask;
    for (uint32_t i = 0; i < p->lanes; i++, m &= m - 1) {
        lane[i] = (uint32_t)__builtin_ctz(m);
        key[i] = p->at[i][0];
        left += p->count[i];
    }
    while (left) {
        struct party party;
        uint64_t next;
        int together;
        gather(p, key, lane, &party, &others);
        do { /* until they part, or those who wait are no longer behind */
            emit(w, p->warp, party.mask, party.n, party.at, 0);
            left -= party.n;
            together = 1;
            for (uint32_t i = 0; i < party.n; i++) {
                uint32_t k = party.who[i];
                party.at[i] = p->at[k] += MT_ENTRY_WORDS;
                key[k] = --p->count[k] ? p->at[k][0] : DONE;
                together &= key[k] == key[party.who[0]];
            }
            next = key[party.who[0]];
        } while (together && next < others);
    }
}

/* Are the `count` entries at `b` of this thread, and but for addresses those at `a`? */
static int alike(const uint64_t *a, const uint64_t *b, size_t count, uint64_t thread)
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
            *same = *same && (size_t)(end - at) >= first * MT_ENTRY_WORDS && alike(e, at, first, thread);
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
