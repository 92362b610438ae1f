/* See join.h. */
#include "join.h"
#include "warps.h"
#include "memtrace/hash.h"
#include <stdlib.h>
#include <string.h>

static void keys_arrive(struct mt_warp_keys *k, const uint64_t *entry);

/* ---- Which lanes of a warp come to which access, known before they are put together. An access is the same
 * for two lanes when site, type, size and place are, and when each has come to such a one as often before. */

struct key {
    uint64_t what, place, order;
    uint32_t nth;            /* of this lane's accesses of the same name, from 0 */
    uint32_t lanes, arrived; /* lanes: 0: the slot is free */
    uint32_t newest, times;  /* of the first: the lane that came last, and how often */
};

struct mt_warp_keys {
    struct key *slot;
    uint32_t *of; /* by entry: its slot */
    size_t room, entries, mask;
    const uint64_t *first;
};

/* NULL: no memory */
static struct mt_warp_keys *keys_new(void)
{
    return calloc(1, sizeof(struct mt_warp_keys));
}

void mt_keys_free(struct mt_warp_keys *k)
{
    if (k) {
        free(k->slot);
        free(k->of);
    }
    free(k);
}

static int keys_make_room(struct mt_warp_keys *k, size_t entries)
{
    size_t slots = 64;
    while (slots < 2 * entries)
        slots *= 2;
    if (slots > k->room) {
        free(k->slot);
        k->slot = malloc(slots * sizeof *k->slot);
        k->room = k->slot ? slots : 0;
    }
    if (entries > k->entries) {
        free(k->of);
        k->of = malloc(entries * sizeof *k->of);
        k->entries = k->of ? entries : 0;
    }
    if (!k->slot || !k->of)
        return -1;
    memset(k->slot, 0, slots * sizeof *k->slot);
    k->mask = slots - 1;
    return 0;
}

static struct key *keys_find(struct mt_warp_keys *k, uint64_t what, uint64_t place, uint32_t nth)
{
    uint64_t h = (what ^ mt_hash_number(place) ^ nth) * 0xbf58476d1ce4e5b9u;
    for (size_t i = (h ^ h >> 32) & k->mask;; i = (i + 1) & k->mask) {
        struct key *s = &k->slot[i];
        if (!s->lanes)
            *s = (struct key){.what = what, .place = place, .order = place, .nth = nth, .newest = UINT32_MAX};
        else if (s->what != what || s->place != place || s->nth != nth)
            continue;
        return s;
    }
}

static size_t keys_number(const struct mt_warp_keys *k, const uint64_t *entry)
{
    return (size_t)(entry - k->first) / MT_ENTRY_WORDS;
}

/* Takes what `lanes` lanes do: count[i] entries (warps.h) at at[i], one lane's after the other's. Each lane
 * has arrived at its first one then. when: by entry, when it was made; NULL: not known. 0, or -1: no memory.
 */
static int keys_fill(struct mt_warp_keys *k, const uint64_t *const *at, const size_t *count, uint32_t lanes,
                     const uint32_t *when)
{
    size_t entries = 0;
    for (uint32_t i = 0; i < lanes; i++)
        entries += count[i];
    if (keys_make_room(k, entries))
        return -1;
    k->first = at[0];
    for (uint32_t i = 0; i < lanes; i++) {
        const uint64_t *e = at[i];
        for (size_t n = count[i]; n; n--, e += MT_ENTRY_WORDS) {
            struct key *s = keys_find(k, e[0], e[2] >> MT_ENTRY_PLACE_AT, 0);
            s->times = s->newest == i ? s->times + 1 : 0;
            s->newest = i;
            if (s->times)
                s = keys_find(k, e[0], e[2] >> MT_ENTRY_PLACE_AT, s->times);
            size_t number = keys_number(k, e);
            if (when && (!s->lanes || s->order < when[number]))
                s->order = when[number];
            s->lanes++;
            k->of[number] = (uint32_t)(s - k->slot);
        }
    }
    for (uint32_t i = 0; i < lanes; i++)
        keys_arrive(k, at[i]);
    return 0;
}

/* A lane has come to this entry of its own. */
static void keys_arrive(struct mt_warp_keys *k, const uint64_t *entry)
{
    k->slot[k->of[keys_number(k, entry)]].arrived++;
}

/* Have all lanes that ever come to this entry's access arrived there? */
static int keys_complete(const struct mt_warp_keys *k, const uint64_t *entry)
{
    const struct key *s = &k->slot[k->of[keys_number(k, entry)]];
    return s->arrived == s->lanes;
}

/* The lower, the earlier, of those that are complete: when the last of its lanes made it, or its place. */
static uint64_t keys_order(const struct mt_warp_keys *k, const uint64_t *entry)
{
    return k->slot[k->of[keys_number(k, entry)]].order;
}

void mt_join_hand_on(struct mt_joined *j)
{
    if (j->runs && j->take)
        j->take(j->ctx, j->run, j->runs, j->accesses);
    j->runs = j->addresses = 0;
    j->accesses = 0;
}

/* One access of `n` lanes: entry number `row` after at[0], at[1] … */
static inline void join_emit(struct mt_joined *j, uint32_t warp, uint32_t mask, uint32_t n,
                             const uint64_t *const *at, size_t row)
{
    const size_t word = row * MT_ENTRY_WORDS + 1;
    uint64_t what = at[0][word - 1], base = at[0][word], stride = n > 1 ? at[1][word] - base : 0;
    uint64_t due = base, odd = 0;
    if (j->runs == MT_WARPS_RUNS || j->addresses + MT_LANES > MT_JOINED_ADDRESSES ||
        j->accesses + MT_LANES > MT_WARPS_ACCESSES)
        mt_join_hand_on(j);
    struct mt_access_run *r = &j->run[j->runs++];
    j->accesses += n;
    for (uint32_t i = 0; i < n; i++, due += stride)
        odd |= at[i][word] ^ due;
    *r = (struct mt_access_run){.base = base,
                                .stride = (int64_t)stride,
                                .cta = j->cta,
                                .smid = j->smid,
                                .meta = (uint32_t)what,
                                .count = n,
                                .mask = mask,
                                .warp = warp,
                                .site = (uint32_t)(what >> 32) + j->site_base};
    if (!odd)
        return;
    uint64_t *list = &j->address[j->addresses];
    for (uint32_t i = 0; i < n; i++)
        list[i] = at[i][word];
    r->addresses = list;
    j->addresses += n;
}

void mt_join_alike(struct mt_joined *j, const struct mt_warp_phase *p)
{
    for (size_t row = 0; row < p->count[0]; row++)
        join_emit(j, p->warp, p->mask, p->lanes, p->at, row);
}

/* ---- lanes that go different ways ---- */

/* The lanes of a phase by active lane: what each does next, and where. */
struct merge {
    uint64_t place[MT_LANES], what[MT_LANES]; /* place: all ones when nothing is left */
    const uint64_t *at[MT_LANES];
    size_t left[MT_LANES];
    uint32_t n, mask; /* mask: of the phase */
    uint32_t later;   /* those that may have more to come than is here */
    struct mt_warp_keys *keys;
};

/* Lanes that go on together. */
struct party {
    uint32_t lane[MT_LANES]; /* of struct merge */
    const uint64_t *at[MT_LANES];
    uint32_t n, mask;
    uint64_t others; /* the lowest place of those who wait; all ones: nobody does */
};

static inline void join_look(struct merge *g, uint32_t i)
{
    g->place[i] = !g->left[i] ? UINT64_MAX
                  : g->keys   ? keys_order(g->keys, g->at[i])
                              : mt_entry_place(g->at[i]);
    g->what[i] = g->left[i] ? g->at[i][0] : 0;
}

/* Lanes whose access has all its lanes there; all, where there is none. */
static uint32_t join_is_complete(const struct merge *g)
{
    uint32_t complete = 0;
    for (uint32_t i = 0; i < g->n; i++)
        complete |= (uint32_t)(g->left[i] && keys_complete(g->keys, g->at[i])) << i;
    return complete ? complete : UINT32_MAX;
}

/* Of the lanes at the lowest place those of the same, lowest type and size. Each step counts: in some kernels
 * it is done for each access. */
static void join_gather(struct party *party, const struct merge *g)
{
    uint32_t who = g->keys ? join_is_complete(g) : UINT32_MAX, here = 0, lanes = g->mask;
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
static int join_advance(struct merge *g, struct party *party)
{
    uint32_t first = party->lane[0];
    int together = 1;
    for (uint32_t k = 0; k < party->n; k++) {
        uint32_t i = party->lane[k];
        g->left[i]--;
        party->at[k] = g->at[i] += MT_ENTRY_WORDS;
        join_look(g, i);
        if (g->keys && g->left[i])
            keys_arrive(g->keys, g->at[i]);
        together &= g->left[i] && g->what[i] == g->what[first] && g->place[i] == g->place[first];
    }
    return together && g->place[first] < party->others;
}

int mt_join_is_rising(const struct mt_warp_phase *p)
{
    for (uint32_t i = 0; i < p->lanes; i++) {
        const uint64_t *at = p->at[i];
        for (size_t k = 1; k < p->count[i]; k++, at += MT_ENTRY_WORDS)
            if (mt_entry_place(at + MT_ENTRY_WORDS) < mt_entry_place(at))
                return 0;
    }
    return 1;
}

/* Who is at which access, for lanes whose places do not say who is further back. NULL: they do,
 * or no memory. */
static struct mt_warp_keys *join_keys(struct mt_joined *j, const struct mt_warp_phase *p)
{
    if (mt_join_is_rising(p))
        return NULL;
    if (!j->keys)
        j->keys = keys_new();
    return j->keys && !keys_fill(j->keys, p->at, p->count, p->lanes, p->when) ? j->keys : NULL;
}

/* Is a lane at the end of what is here that may come to what the others are at? */
static int join_waits(const struct merge *g)
{
    for (uint32_t m = g->later; m; m &= m - 1)
        if (!g->left[__builtin_ctz(m)])
            return 1;
    return 0;
}

/* A merge of their sequences. */
void mt_join_different(struct mt_joined *j, struct mt_warp_phase *p, uint32_t later)
{
    struct merge g = {.n = p->lanes, .mask = p->mask, .keys = later ? NULL : join_keys(j, p)};
    struct party party;
    uint64_t left = 0;
    for (uint32_t i = 0, lanes = p->mask; i < p->lanes; i++, lanes &= lanes - 1) {
        g.at[i] = p->at[i];
        g.left[i] = p->count[i];
        g.later |= (uint32_t)((later & lanes & -lanes) != 0) << i;
        join_look(&g, i);
        left += p->count[i];
    }
    while (left && !(later & ~p->mask) && !join_waits(&g)) {
        join_gather(&party, &g);
        do { /* until they part, or those who wait are no longer further back */
            join_emit(j, p->warp, party.mask, party.n, party.at, 0);
            left -= party.n;
        } while (join_advance(&g, &party));
    }
    for (uint32_t i = 0; i < p->lanes; i++) {
        p->at[i] = g.at[i];
        p->count[i] = g.left[i];
    }
}
