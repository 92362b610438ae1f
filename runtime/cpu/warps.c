/* See warps.h. Work goes phase by phase: a phase is a stretch of entries of one warp in which each lane comes
 * once, in ascending order. With fibers that is what the warp does between two waits of all its lanes. Where
 * some wait for some, entries are gathered in a unit, which is brought into that form. */
#include "warps.h"
#include "join.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

#define LANES MT_LANES
#define WARPS ((1u << MT_ENTRY_PLACE_AT) / LANES)
#define UNITS_MOST ((size_t)1 << 18) /* entries in all units of a worker: 6 MiB */
#define UNIT_LEAST 64u

/* What a warp's lanes have done that do not come in order. */
struct unit {
    uint64_t *entry;
    size_t count, room;
    size_t kept;    /* entries that were left when it was looked at last */
    uint32_t lanes; /* that may bring more; 0: they come in order */
};

struct mt_warps {
    struct mt_joined joined;
    struct unit unit[WARPS];
    size_t held;      /* entries in them */
    uint64_t parted;  /* times that one ended before all its lanes were there */
    uint64_t *sorted; /* a unit's, lane by lane */
    size_t sorted_room;
};

struct mt_warps *mt_warps_new(void)
{
    return calloc(1, sizeof(struct mt_warps));
}

void mt_warps_free(struct mt_warps *w)
{
    if (w) {
        mt_keys_free(w->joined.keys);
        for (unsigned i = 0; i < WARPS; i++)
            free(w->unit[i].entry);
        free(w->sorted);
    }
    free(w);
}

void mt_warps_open(struct mt_warps *w, uint32_t site_base, mt_warps_take take, void *ctx)
{
    w->joined.site_base = site_base;
    w->joined.take = take;
    w->joined.ctx = ctx;
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
static size_t warps_find_phase(struct mt_warp_phase *p, const uint64_t *e, const uint64_t *end, int all,
                               int *same)
{
    const uint64_t *at = e;
    uint64_t thread, first_thread = e[2] & THREAD, warp = first_thread / LANES;
    p->warp = (uint32_t)warp;
    p->mask = p->lanes = 0;
    p->when = NULL;
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

/* Of an entry: the object's address, without its phase; 0: it is no wait for one, or none that it may end. */
static uint64_t warps_cut_object(const uint64_t *entry, int wait)
{
    uint32_t meta = (uint32_t)entry[0];
    int is = wait ? meta == mt_rec_meta(MT_SYNC_BARRIER, MT_SYNC_OF_OBJECT)
                  : meta == mt_rec_meta(MT_SYNC_ARRIVE, MT_SYNC_OF_OBJECT) ||
                        meta == mt_rec_meta(MT_SYNC_COPY, MT_SYNC_OF_OBJECT) ||
                        meta == mt_rec_meta(MT_SYNC_COPY, MT_COPY_ARRIVES);
    return is ? (entry[1] | MT_MBARRIER_FLAGS) + 1 : 0;
}

/* Has one of the first `lanes` lanes, or its copy, arrived at this object, at a place behind this wait's? */
static int warps_cut_is_needed(const struct mt_warp_phase *p, uint32_t lanes, const uint64_t *wait,
                               uint64_t object)
{
    for (uint32_t i = 0; i < lanes; i++)
        for (size_t k = 0; k < p->count[i]; k++) {
            const uint64_t *at = p->at[i] + k * MT_ENTRY_WORDS;
            if (warps_cut_object(at, 0) == object && mt_entry_place(at) >= mt_entry_place(wait))
                return 1;
        }
    return 0;
}

/* A lane that goes on because one before it in the phase has arrived comes after that one, wherever the two
 * are in the code: the phase ends there. Returns its entries. */
static size_t warps_cut(struct mt_warp_phase *p, size_t n)
{
    for (uint32_t i = 1; i < p->lanes; i++)
        for (size_t k = 0; k < p->count[i]; k++) {
            const uint64_t *at = p->at[i] + k * MT_ENTRY_WORDS;
            uint64_t object = warps_cut_object(at, 1);
            if (!object || !warps_cut_is_needed(p, i, at, object))
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

/* Puts a phase together; of its n entries those up to where it has to be cut. Returns how many. */
static size_t warps_phase(struct mt_warps *w, struct mt_warp_phase *p, int same, size_t n)
{
    if (same) {
        mt_join_alike(&w->joined, p);
        return n;
    }
    n = warps_cut(p, n);
    mt_join_different(&w->joined, p, 0);
    return n;
}

/* Entries of which no more will come, without marks. */
static void warps_phases(struct mt_warps *w, const uint64_t *e, size_t count)
{
    const uint64_t *end = e + count * MT_ENTRY_WORDS;
    while (e < end) {
        struct mt_warp_phase p;
        int same;
        size_t n = warps_find_phase(&p, e, end, 1, &same);
        e += warps_phase(w, &p, same, n) * MT_ENTRY_WORDS;
    }
}

/* ---- lanes that do not come in order ---- */

/* Room for `count` entries. */
static int warps_unit_room(uint64_t **entry, size_t *room, size_t count)
{
    size_t more = *room ? *room : 1024;
    while (more < count)
        more *= 2;
    if (more > *room) {
        uint64_t *p = realloc(*entry, more * MT_ENTRY_WORDS * sizeof *p);
        if (!p)
            return -1;
        *entry = p;
        *room = more;
    }
    return 0;
}

/* The unit's entries lane by lane, as a phase. */
static int warps_unit_sort(struct mt_warps *w, const struct unit *u, struct mt_warp_phase *p)
{
    size_t count[LANES] = {0};
    uint64_t *to[LANES], *at;
    const uint64_t *end = u->entry + u->count * MT_ENTRY_WORDS;
    if (warps_unit_room(&w->sorted, &w->sorted_room, u->count))
        return -1;
    for (const uint64_t *e = u->entry; e < end; e += MT_ENTRY_WORDS)
        count[e[2] % LANES]++;
    at = w->sorted;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        to[lane] = at;
        if (!count[lane])
            continue;
        p->mask |= 1u << lane;
        p->at[p->lanes] = at;
        p->count[p->lanes++] = count[lane];
        at += count[lane] * MT_ENTRY_WORDS;
    }
    for (const uint64_t *e = u->entry; e < end; e += MT_ENTRY_WORDS) {
        at = to[e[2] % LANES];
        memcpy(at, e, MT_ENTRY_WORDS * sizeof *at);
        to[e[2] % LANES] = at + MT_ENTRY_WORDS;
    }
    return 0;
}

/* Of each entry in the phase: the how manieth of the unit it is. NULL: no memory. */
static uint32_t *warps_unit_when(const struct unit *u, const struct mt_warp_phase *p)
{
    uint32_t *when = malloc(u->count * sizeof *when);
    size_t to[LANES];
    for (uint32_t i = 0, m = p->mask; m; i++, m &= m - 1)
        to[__builtin_ctz(m)] = (size_t)(p->at[i] - p->at[0]) / MT_ENTRY_WORDS;
    for (size_t k = 0; when && k < u->count; k++)
        when[to[u->entry[k * MT_ENTRY_WORDS + 2] % LANES]++] = (uint32_t)k;
    return when;
}

/* Puts a unit together, as far as no lane can come to it any more; over: all of it. Where places do not rise,
 * it is not known before what can come. A lane that waits for what is behind it in the code keeps the order
 * of the run: then it goes by phases. */
static void warps_unit_work(struct mt_warps *w, uint32_t warp, int over)
{
    struct unit *u = &w->unit[warp];
    struct mt_warp_phase p = {.warp = warp};
    size_t n = u->count;
    if (!n)
        return;
    uint32_t *when = NULL;
    int sorted = !warps_unit_sort(w, u, &p) && warps_cut(&p, n) == n;
    if (sorted && over && !mt_join_is_rising(&p))
        sorted = (p.when = when = warps_unit_when(u, &p)) != NULL;
    if (sorted && (over || mt_join_is_rising(&p))) {
        mt_join_different(&w->joined, &p, over ? 0 : u->lanes);
        u->count = 0;
        for (uint32_t i = 0; i < p.lanes; i++) {
            memcpy(u->entry + u->count * MT_ENTRY_WORDS, p.at[i],
                   p.count[i] * MT_ENTRY_WORDS * sizeof *u->entry);
            u->count += p.count[i];
        }
    } else if (over) {
        warps_phases(w, u->entry, n);
        u->count = 0;
    }
    free(when);
    w->held -= n - u->count;
    u->kept = u->count;
}

/* No more comes to the unit. */
static void warps_unit_end(struct mt_warps *w, uint32_t warp)
{
    if (w->unit[warp].lanes) {
        warps_unit_work(w, warp, 0);
        w->parted += w->unit[warp].count != 0;
    }
    warps_unit_work(w, warp, 1);
}

static void warps_unit_add(struct mt_warps *w, struct unit *u, const uint64_t *e, size_t n)
{
    if (warps_unit_room(&u->entry, &u->room, u->count + n)) {
        warps_phases(w, e, n);
        return;
    }
    memcpy(u->entry + u->count * MT_ENTRY_WORDS, e, n * MT_ENTRY_WORDS * sizeof *e);
    u->count += n;
    w->held += n;
}

/* What can be put together is, at times that are worth it. */
static void warps_units_shrink(struct mt_warps *w)
{
    for (uint32_t i = 0; i < WARPS; i++)
        if (w->unit[i].count > 2 * w->unit[i].kept + UNIT_LEAST)
            warps_unit_work(w, i, 0);
    if (w->held <= UNITS_MOST)
        return;
    for (uint32_t i = 0; i < WARPS; i++)
        warps_unit_work(w, i, 0);
    for (uint32_t i = 0; i < WARPS && w->held > UNITS_MOST / 2; i++)
        warps_unit_end(w, i);
}

static void warps_units_end(struct mt_warps *w)
{
    for (uint32_t i = 0; i < WARPS; i++) {
        warps_unit_end(w, i);
        w->unit[i].lanes = 0;
    }
}

void mt_warps_flush(struct mt_warps *w)
{
    warps_units_end(w);
    mt_join_hand_on(&w->joined);
}

uint64_t mt_warps_parted(struct mt_warps *w)
{
    uint64_t parted = w->parted;
    w->parted = 0;
    return parted;
}

static void warps_mark(struct mt_warps *w, const uint64_t *mark)
{
    if (mark[2] == MT_ENTRY_MARK) {
        warps_units_end(w);
        w->joined.smid = (uint32_t)mark[0];
        w->joined.cta = mark[1];
    } else if (mark[1] == MT_ENTRY_ALL) {
        for (uint32_t i = 0; i < WARPS; i++)
            warps_unit_end(w, i);
    } else {
        uint32_t lanes = (uint32_t)mark[0], warp = mark[1] % WARPS;
        w->unit[warp].lanes = lanes;
        if (!lanes || mark[0] & MT_ENTRY_CUT)
            warps_unit_end(w, warp);
    }
}

/* Entries of one warp in a row. */
static size_t warps_find_stretch(const uint64_t *e, const uint64_t *end)
{
    const uint64_t *at = e;
    while (at < end && (at[2] & THREAD) / LANES == (e[2] & THREAD) / LANES)
        at += MT_ENTRY_WORDS;
    return (size_t)(at - e) / MT_ENTRY_WORDS;
}

/* Does the mark say that lanes of the warp have gone out of order since all of them met? */
static int warps_is_opening(const uint64_t *mark, uint32_t warp)
{
    return mark[2] == MT_ENTRY_LANES && mark[1] == warp && (uint32_t)mark[0] && !(mark[0] & MT_ENTRY_CUT);
}

size_t mt_warps_put(struct mt_warps *w, const uint64_t *entries, size_t count, int all, uint64_t *accesses)
{
    const uint64_t *at = entries, *end = entries + count * MT_ENTRY_WORDS, *next;
    *accesses = 0;
    for (; at < end; at = next) {
        struct mt_warp_phase p;
        int same;
        next = at + MT_ENTRY_WORDS;
        if (at[2] >= MT_ENTRY_LANES) {
            warps_mark(w, at);
            continue;
        }
        struct unit *u = &w->unit[at[2] % (1u << MT_ENTRY_PLACE_AT) / LANES];
        size_t n = u->lanes ? warps_find_stretch(at, end) : warps_find_phase(&p, at, end, all, &same);
        if (!n)
            break;
        next = at + n * MT_ENTRY_WORDS;
        if (u->lanes || (next < end && warps_is_opening(next, p.warp)))
            warps_unit_add(w, u, at, n);
        else
            next = at + (n = warps_phase(w, &p, same, n)) * MT_ENTRY_WORDS;
        w->parted += next == end && all == MT_WARPS_FULL && !u->lanes;
        *accesses += n;
    }
    if (w->held)
        warps_units_shrink(w);
    return (size_t)(at - entries) / MT_ENTRY_WORDS;
}
