/* See warps.h. Work goes phase by phase: a phase is a stretch of entries of one warp in which each lane comes
 * once, in ascending order. With fibers that is what the warp does between two waits of all its lanes. Where
 * some wait for some, entries are gathered in a unit, which is brought into that form. */
#include "warps.h"
#include "join.h"
#include "memtrace/record.h"
#include "memtrace/hash.h"
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
    uint32_t age;   /* how often it has been handed on as a whole */
    uint32_t after; /* warps whose units come before this one */
    int polls;      /* MT_ENTRY_POLLS */
};

/* A word of memory that a thread has written; it is in the unit of the thread's warp if that is as old. */
struct written {
    uint64_t word; /* 0: free */
    uint64_t place;
    uint32_t thread, age;
    int atomic;
};

struct mt_warps {
    struct mt_joined joined;
    struct unit unit[WARPS];
    size_t held; /* entries in them */
    struct {
        struct written *slot; /* room: a power of 2 */
        size_t room, count;
    } written;        /* by units that poll, in the last place of the code */
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
        free(w->written.slot);
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

/* All of the unit has been handed on. */
static void warps_unit_done(struct mt_warps *w, uint32_t warp)
{
    w->unit[warp].age++;
    for (uint32_t i = 0; i < WARPS; i++)
        w->unit[i].after &= ~(1u << warp);
}

/* Puts a unit together, as far as no lane can come to it any more; over: all of it. Where places do not rise,
 * it is not known before what can come. A lane that waits for what is behind it in the code keeps the order
 * of the run: then it goes by phases. */
static void warps_unit_work(struct mt_warps *w, uint32_t warp, int over)
{
    struct unit *u = &w->unit[warp];
    struct mt_warp_phase p = {.warp = warp};
    size_t n = u->count;
    if (!n || (u->after && !over))
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
    if (!u->count)
        warps_unit_done(w, warp);
}

/* No more comes to the unit. */
static void warps_unit_end(struct mt_warps *w, uint32_t warp)
{
    for (uint32_t m; (m = w->unit[warp].after);) {
        w->unit[warp].after = m & (m - 1);
        warps_unit_end(w, (uint32_t)__builtin_ctz(m));
    }
    if (w->unit[warp].lanes) {
        warps_unit_work(w, warp, 0);
        w->parted += w->unit[warp].count != 0;
    }
    warps_unit_work(w, warp, 1);
}

static void warps_units_end(struct mt_warps *w)
{
    for (uint32_t i = 0; i < WARPS; i++) {
        warps_unit_end(w, i);
        w->unit[i].lanes = 0;
    }
}

static void warps_unit_append(struct mt_warps *w, struct unit *u, const uint64_t *e, size_t n)
{
    if (warps_unit_room(&u->entry, &u->room, u->count + n)) {
        warps_phases(w, e, n);
        return;
    }
    memcpy(u->entry + u->count * MT_ENTRY_WORDS, e, n * MT_ENTRY_WORDS * sizeof *e);
    u->count += n;
    w->held += n;
}

/* ---- who goes on as another thread has written ---- */

#define WORDS_MOST 64u /* of an access that are looked at */

static uint32_t warps_thread(const uint64_t *entry)
{
    return (uint32_t)(entry[2] % (1u << MT_ENTRY_PLACE_AT));
}

/* How many words of memory that others see the entry's access touches; 0: it is none. */
static uint32_t warps_words(const uint64_t *entry)
{
    uint64_t size = entry[0] & MT_RAW_MAX_SIZE, words = (entry[1] % 4 + size + 3) / 4;
    return mt_rec_space((uint32_t)entry[0] >> 28) > MT_IN_SHARED ? 0
           : words < WORDS_MOST                                  ? (uint32_t)words
                                                                 : WORDS_MOST;
}

static uint64_t warps_word(const uint64_t *entry, uint32_t i)
{
    return (entry[1] / 4 + i) << 2 | (mt_rec_space((uint32_t)entry[0] >> 28) + 1);
}

/* Is it a barrier, an arrival or a wait, and no access? */
static int warps_orders(const uint64_t *entry)
{
    return mt_rec_space((uint32_t)entry[0] >> 28) > MT_IN_LOCAL;
}

/* The word's slot, or a free one. */
static struct written *warps_written_find(struct mt_warps *w, uint64_t word)
{
    size_t i = (size_t)(mt_hash_number(word) >> 20) & (w->written.room - 1);
    while (w->written.slot[i].word && w->written.slot[i].word != word)
        i = (i + 1) & (w->written.room - 1);
    return &w->written.slot[i];
}

static int warps_written_is_held(const struct mt_warps *w, const struct written *s)
{
    return s->word && s->age == w->unit[s->thread / LANES].age;
}

/* Room for an access's words, without those that are in no unit any more. 0, or -1: no memory. */
static int warps_written_room(struct mt_warps *w)
{
    struct written *old = w->written.slot;
    size_t n = w->written.room, room = n ? n : 512;
    if (2 * (w->written.count + WORDS_MOST) < n)
        return 0;
    w->written.count = 0;
    for (size_t i = 0; i < n; i++)
        w->written.count += (size_t)warps_written_is_held(w, &old[i]);
    while (room < 4 * (w->written.count + WORDS_MOST))
        room *= 2;
    struct written *slot = calloc(room, sizeof *slot);
    if (slot) {
        w->written.slot = slot;
        w->written.room = room;
        for (size_t i = 0; i < n; i++)
            if (warps_written_is_held(w, &old[i]))
                *warps_written_find(w, old[i].word) = old[i];
        free(old);
    }
    return slot ? 0 : -1;
}

static void warps_written_note(struct mt_warps *w, const uint64_t *e)
{
    uint32_t type = (uint32_t)e[0] >> 28 & 3, thread = warps_thread(e);
    for (uint32_t i = 0, n = type == MT_LOAD ? 0 : warps_words(e); i < n; i++) {
        struct written *s = warps_written_find(w, warps_word(e, i));
        w->written.count += !s->word;
        if (!warps_written_is_held(w, s) || s->thread / LANES != thread / LANES ||
            s->place <= mt_entry_place(e))
            *s = (struct written){warps_word(e, i), mt_entry_place(e), thread, w->unit[thread / LANES].age,
                                  type == MT_ATOMIC};
    }
}

/* A write in a unit that this access comes after, and may not by its place. NULL: none. */
static const struct written *warps_written_before(struct mt_warps *w, const uint64_t *e)
{
    uint32_t thread = warps_thread(e), warp = thread / LANES;
    for (uint32_t i = 0, n = warps_words(e); i < n; i++) {
        const struct written *s = warps_written_find(w, warps_word(e, i));
        uint32_t writer = s->thread / LANES;
        if (warps_written_is_held(w, s) && s->thread != thread &&
            (writer == warp ? s->place > mt_entry_place(e) : !(w->unit[warp].after >> writer & 1)))
            return s;
    }
    return NULL;
}

/* Does warp b's unit come before a's, as it stands? */
static int warps_is_after(const struct mt_warps *w, uint32_t a, uint32_t b)
{
    uint32_t seen = 0, next = w->unit[a].after;
    for (uint32_t m; (m = next & ~seen);) {
        seen |= m & -m;
        next |= w->unit[__builtin_ctz(m)].after;
    }
    return seen >> b & 1;
}

/* The warp's access comes after a write that is in a unit. 0: it need not, as both are atomics, and each warp
 * has one before the other's. */
static int warps_unit_order(struct mt_warps *w, uint32_t warp, const struct written *s, const uint64_t *e)
{
    uint32_t writer = s->thread / LANES;
    if (writer != warp && !warps_is_after(w, writer, warp)) {
        w->unit[warp].after |= 1u << writer;
        return 1;
    }
    if (writer != warp && s->atomic && ((uint32_t)e[0] >> 28 & 3) == MT_ATOMIC)
        return 0;
    warps_unit_end(w, writer);
    return 1;
}

/* Entries of the warp, which come after all that is there. */
static void warps_unit_add(struct mt_warps *w, uint32_t warp, const uint64_t *e, size_t n)
{
    struct unit *u = &w->unit[warp];
    size_t from = 0;
    for (size_t k = 0; u->polls && k < n; k++) {
        const uint64_t *at = e + k * MT_ENTRY_WORDS;
        if (warps_written_room(w)) {
            warps_units_end(w);
            break;
        }
        if (warps_orders(at)) { /* threads of any warps: what was before is handed on before */
            warps_unit_append(w, u, e + from * MT_ENTRY_WORDS, k - from);
            from = k;
            for (uint32_t i = 0; i < WARPS; i++)
                warps_unit_end(w, i);
        }
        const struct written *s;
        for (int settled = 1; settled && (s = warps_written_before(w, at)); from = k) {
            warps_unit_append(w, u, e + from * MT_ENTRY_WORDS, k - from);
            settled = warps_unit_order(w, warp, s, at);
        }
        warps_written_note(w, at);
    }
    warps_unit_append(w, u, e + from * MT_ENTRY_WORDS, n - from);
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
        if (w->joined.cta != mark[1]) /* else it goes on, and no other one has been here */
            warps_units_end(w);
        w->joined.smid = (uint32_t)mark[0];
        w->joined.cta = mark[1];
    } else if (mark[1] == MT_ENTRY_ALL) {
        for (uint32_t i = 0; i < WARPS; i++)
            warps_unit_end(w, i);
    } else {
        uint32_t lanes = (uint32_t)mark[0], warp = mark[1] % WARPS;
        w->unit[warp].lanes = lanes;
        w->unit[warp].polls = (mark[0] & MT_ENTRY_POLLS) != 0;
        if (mark[0] & MT_ENTRY_CUT || (!lanes && !w->unit[warp].after))
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
        uint32_t warp = warps_thread(at) / LANES;
        struct unit *u = &w->unit[warp];
        size_t n = u->lanes ? warps_find_stretch(at, end) : warps_find_phase(&p, at, end, all, &same);
        if (!n)
            break;
        next = at + n * MT_ENTRY_WORDS;
        int opening = !u->lanes && next < end && warps_is_opening(next, warp);
        u->polls = opening ? (next[0] & MT_ENTRY_POLLS) != 0 : u->polls;
        if (u->count && !u->lanes)
            warps_unit_end(w, warp);
        if (u->lanes || opening)
            warps_unit_add(w, warp, at, n);
        else
            next = at + (n = warps_phase(w, &p, same, n)) * MT_ENTRY_WORDS;
        w->parted += next == end && all == MT_WARPS_FULL && !u->lanes;
        *accesses += n;
    }
    if (w->held)
        warps_units_shrink(w);
    return (size_t)(at - entries) / MT_ENTRY_WORDS;
}
