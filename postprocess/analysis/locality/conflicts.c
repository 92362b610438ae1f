/* Races between CTAs of a launch, and between threads of a host program.
 *
 * A cell describes the accesses of its byte (or word). Nearly all cells have one side only, by one or several
 * CTAs: such a cell has the side and the numbers of the first two CTAs, without any lookup. Other cells have
 * the number of a list of sides. */
#include "conflicts.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "analysis/base/order.h"
#include "analysis/base/pairmap.h"
#include "memtrace/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MT_STATE_FAILED UINT32_MAX

struct mt_byte_side {
    uint64_t cta[2]; /* ascending z-major numbers; equal if there is only one CTA */
    uint32_t side;
};

struct mt_byte_states {
    struct mt_byte_side *sides; /* sides of all states; of each state together, ascending */
    struct mt_byte_state {
        size_t first, count; /* range of the state in `sides` */
    } *states;               /* states[0] is that of an untouched byte */
    size_t nsides, nstates, sides_room, states_room;
    struct mt_hash numbers;  /* map from hash of the sides to number of the state */
    struct mt_pairmap steps; /* map from (state << 32 | side, CTA) to the next state */
};

/* States of bytes in one launch, numbered: bytes with the same accesses have the same number. */

enum { BYTE_STATES_MOST_SIDES = 4096 }; /* maximum sides of a byte */

static uint64_t byte_states_mixed(uint64_t h, uint64_t n)
{
    h = mt_hash_number(h ^ n);
    return h ^ h >> 29;
}

static uint64_t byte_states_hash(const struct mt_byte_side *sides, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = byte_states_mixed(byte_states_mixed(byte_states_mixed(h, sides[i].side), sides[i].cta[0]),
                              sides[i].cta[1]);
    return h;
}

static int byte_states_equal(const struct mt_byte_side *a, const struct mt_byte_side *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].side != b[i].side || a[i].cta[0] != b[i].cta[0] || a[i].cta[1] != b[i].cta[1])
            return 0;
    return 1;
}

static int conflicts_make_room(struct mt_byte_states *s, size_t sides)
{
    if (mt_grow(&s->sides, &s->sides_room, s->nsides + sides, sizeof *s->sides) != 0 ||
        mt_grow(&s->states, &s->states_room, s->nstates + 1, sizeof *s->states) != 0)
        return -1;
    return s->nstates < MT_STATE_FAILED ? 0 : -1;
}

/* Returns the state with these sides, ascending, created if necessary. FAILED without memory. */
static uint32_t byte_states_intern(struct mt_byte_states *s, const struct mt_byte_side *sides, size_t n)
{
    uint64_t known, key = byte_states_hash(sides, n);
    for (; (known = mt_hash_find(&s->numbers, key)); key++) {
        const struct mt_byte_state *t = &s->states[known];
        if (t->count == n && byte_states_equal(s->sides + t->first, sides, n))
            return (uint32_t)known;
    }
    if (conflicts_make_room(s, n) != 0 || mt_hash_put(&s->numbers, key, s->nstates) != 0)
        return MT_STATE_FAILED;
    s->states[s->nstates] = (struct mt_byte_state){s->nsides, n};
    memcpy(s->sides + s->nsides, sides, n * sizeof *sides);
    s->nsides += n;
    return (uint32_t)s->nstates++;
}

static void byte_states_free(struct mt_byte_states *s);

/* Returns 0, or -1 without memory. */
static int byte_states_init(struct mt_byte_states *s)
{
    memset(s, 0, sizeof *s);
    if (conflicts_make_room(s, 0) != 0) {
        byte_states_free(s);
        return -1;
    }
    s->states[s->nstates++] = (struct mt_byte_state){0};
    return 0;
}

static void add_cta(struct mt_byte_side *b, uint64_t cta)
{
    if (cta < b->cta[0]) {
        b->cta[1] = b->cta[0];
        b->cta[0] = cta;
    } else if (cta != b->cta[0] && (b->cta[1] == b->cta[0] || cta < b->cta[1])) {
        b->cta[1] = cta;
    }
}

static uint32_t byte_states_step(struct mt_byte_states *s, uint32_t state, uint32_t side, uint64_t cta)
{
    struct mt_byte_side sides[BYTE_STATES_MOST_SIDES + 1];
    size_t n = s->states[state].count, i = 0;
    if (n)
        memcpy(sides, s->sides + s->states[state].first, n * sizeof *sides);
    while (i < n && sides[i].side < side)
        i++;
    if (i == n || sides[i].side != side) {
        if (n == BYTE_STATES_MOST_SIDES)
            return MT_STATE_FAILED;
        memmove(sides + i + 1, sides + i, (n - i) * sizeof *sides);
        memset(&sides[i], 0, sizeof *sides);
        sides[i] = (struct mt_byte_side){{cta, cta}, side};
        n++;
    } else {
        add_cta(&sides[i], cta);
    }
    return byte_states_intern(s, sides, n);
}

/* Returns the state of a byte in `state` after an access by this CTA (z-major); FAILED without memory. */
static uint32_t mt_byte_states_step(struct mt_byte_states *s, uint32_t state, uint32_t side, uint64_t cta)
{
    uint64_t *known = mt_pairmap_get(&s->steps, (uint64_t)state << 32 | side, cta, MT_STATE_FAILED);
    if (!known)
        return MT_STATE_FAILED;
    if (*known == MT_STATE_FAILED)
        *known = byte_states_step(s, state, side, cta);
    return (uint32_t)*known;
}

static void byte_states_free(struct mt_byte_states *s)
{
    free(s->sides);
    free(s->states);
    mt_hash_free(&s->numbers);
    mt_pairmap_free(&s->steps);
    memset(s, 0, sizeof *s);
}

/* ---- races of host programs: a clock for each thread and for each word used by atomics ---- */

struct mt_race_access {
    uint32_t thread, clock, side, runtime;
};

static uint32_t *races_clock(const struct mt_races *x, size_t thread)
{
    return x->clock + thread * MT_RACE_THREADS;
}

static void races_join(uint32_t *into, const uint32_t *from)
{
    for (size_t i = 0; i < MT_RACE_THREADS; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

/* ---- threads ---- */

/* Adds a thread, which starts after everything the first one has done. */
static int races_begin(struct mt_races *x, uint64_t cta)
{
    const size_t n = x->nthreads;
    if (!x->clock) {
        x->clock = calloc(MT_RACE_THREADS * (size_t)MT_RACE_THREADS, sizeof *x->clock);
        x->name = calloc(MT_RACE_THREADS, sizeof *x->name);
        x->live = calloc(MT_RACE_THREADS, 1);
        x->loads = calloc(MT_RACE_THREADS, 1);
        x->began = calloc(MT_RACE_THREADS, 1);
        if (!x->clock || !x->name || !x->live || !x->loads || !x->began)
            return -1;
    }
    if (n > 0) {
        races_join(races_clock(x, n), races_clock(x, 0));
        races_clock(x, 0)[0]++;
    }
    races_clock(x, n)[n] = 1;
    x->name[n] = cta;
    x->live[n] = 1;
    x->nlive++;
    x->nthreads++;
    return 0;
}

/* Returns the number of a thread; SIZE_MAX without memory. */
static size_t races_thread(struct mt_races *x, uint64_t cta)
{
    const size_t next = x->nthreads < MT_RACE_THREADS ? x->nthreads : MT_RACE_THREADS - 1;
    const uint64_t *at = mt_pairmap_get(&x->threads, cta, 0, next);
    if (!at || (*at == x->nthreads && races_begin(x, cta) != 0))
        return SIZE_MAX;
    if (!x->live[*at]) {
        x->live[*at] = 1;
        x->nlive++;
    }
    return *at;
}

static void races_ended(struct mt_races *x, uint64_t cta)
{
    const uint64_t *at = mt_pairmap_find(&x->threads, cta, 0);
    if (!at || !x->live[*at] || *at == MT_RACE_THREADS - 1)
        return;
    x->live[*at] = 0;
    x->nlive--;
    races_join(races_clock(x, 0), races_clock(x, *at));
}

/* ---- cache lines ---- */

struct mt_race_use {
    uint32_t thread, next;            /* next: next use of the line + 1; 0: none */
    uint32_t clock[2], side[2];       /* of the last loads, of the last stores */
    uint64_t bytes[2];                /* a bit for each 1/64 of the line, since the clock has this value */
    uint64_t address[2], strong_ever; /* strong_ever: bytes of its strong accesses at any time */
};

/* Returns bits for the bytes [from, to] of a line, both included. */
static uint64_t lines_bits_of(const struct mt_races *x, uint64_t from, uint64_t to)
{
    const unsigned shift = x->line_bits > 6 ? x->line_bits - 6 : 0;
    return (UINT64_MAX << (from >> shift)) & (UINT64_MAX >> (63 - (to >> shift)));
}

/* Forgets what was done in a line to bytes [from, to], which are new memory. */
static void lines_forget(struct mt_races *x, uint64_t line, uint64_t from, uint64_t to)
{
    const uint64_t *at = mt_pairmap_find(&x->lines, line, 0);
    for (uint32_t u = at ? (uint32_t)*at : 0; u; u = x->uses[u - 1].next)
        for (int k = 0; k < 2; k++)
            x->uses[u - 1].bytes[k] &= ~lines_bits_of(x, from, to);
}

struct lines_range {
    struct mt_races *x;
    uint64_t base, end;
};

static void lines_each(void *arg, uint64_t line, uint64_t unused, uint64_t value)
{
    const struct lines_range *r = arg;
    const uint64_t begin = line << r->x->line_bits, last = begin + ((1ull << r->x->line_bits) - 1);
    (void)unused;
    (void)value;
    if (last >= r->base && begin < r->end)
        lines_forget(r->x, line, begin > r->base ? 0 : r->base - begin,
                     last < r->end ? last - begin : r->end - 1 - begin);
}

static void lines_new(struct mt_races *x, uint64_t base, uint64_t end)
{
    struct lines_range r = {x, base, end};
    if (!x->lines.count)
        return;
    if ((end - base) >> x->line_bits > x->lines.count) { /* fewer lines are known than the range has */
        mt_pairmap_each(&x->lines, lines_each, &r);
        return;
    }
    for (uint64_t line = base >> x->line_bits; line <= (end - 1) >> x->line_bits; line++)
        lines_each(&r, line, 0, 0);
}

/* Handles new memory: earlier accesses to these bytes race with nobody. */
static void races_new(struct mt_races *x, uint64_t base, uint64_t bytes)
{
    const uint64_t end = base + bytes;
    const uint64_t pages = (bytes >> MT_CELLS_BITS) + 2;
    struct mt_cells_page *p = NULL;
    if (end <= base)
        return;
    lines_new(x, base, end);
    if (!x->cells.count)
        return;
    for (uint64_t at = base, n; at < end && pages < (uint64_t)1 << 32; at += n) {
        const uint64_t in = at & (MT_CELLS_PAGE - 1);
        if (at == base || !in)
            p = mt_cells_find(&x->cells, at >> MT_CELLS_BITS);
        n = p ? MT_CELLS_PIECE - (at & (MT_CELLS_PIECE - 1)) : MT_CELLS_PAGE - in;
        n = n < end - at ? n : end - at;
        if (!p || !p->cell[in >> MT_CELLS_PIECE_BITS])
            continue;
        const struct mt_cells_span c = mt_cells_at(&x->cells, at, n);
        if (!c.page)
            return;
        memset(c.cell, 0, (n >> c.shift) * sizeof *c.cell);
    }
}

/* ---- words that order threads ---- */

/* Returns the word's number; SIZE_MAX: not used by atomics, or no memory. */
static size_t races_word(struct mt_races *x, uint64_t address, int strong)
{
    const uint64_t *at = mt_pairmap_find(&x->words, address >> 2, 0);
    if (at || !strong)
        return at ? *at : SIZE_MAX;
    const size_t n = x->nwords < MT_RACE_WORDS ? x->nwords : MT_RACE_WORDS - 1;
    if (mt_grow(&x->seen, &x->word_room, (n + 1) * MT_RACE_THREADS, sizeof *x->seen) != 0)
        return SIZE_MAX;
    if (n == x->nwords)
        memset(x->seen + n * MT_RACE_THREADS, 0, MT_RACE_THREADS * sizeof *x->seen);
    x->nwords = n + 1;
    const uint64_t *made = mt_pairmap_get(&x->words, address >> 2, 0, n);
    return made ? *made : SIZE_MAX;
}

static void races_meet(struct mt_races *x, size_t thread, size_t word, uint32_t type)
{
    uint32_t *mine = races_clock(x, thread), *its = x->seen + word * MT_RACE_THREADS;
    if (type != MT_STORE)
        races_join(mine, its);
    if (type != MT_LOAD) {
        races_join(its, mine);
        mine[thread]++;
    }
}

/* ---- bytes ---- */

/* Returns the index + 1 of this access; 0 without memory. */
static uint32_t races_access(struct mt_races *x, size_t thread, uint32_t side, uint32_t runtime)
{
    const uint32_t clock = races_clock(x, thread)[thread];
    const uint64_t *at = mt_pairmap_get(&x->known, (uint64_t)thread << 32 | side,
                                        (uint64_t)clock << 1 | runtime, x->naccesses);
    if (!at || *at >= UINT32_MAX - 1)
        return 0;
    if (*at == x->naccesses) {
        if (mt_grow(&x->accesses, &x->access_room, x->naccesses + 1, sizeof *x->accesses) != 0)
            return 0;
        x->accesses[x->naccesses++] = (struct mt_race_access){(uint32_t)thread, clock, side, runtime};
    }
    return (uint32_t)*at + 1;
}

/* Examines an unordered load of data that `other` stored: if it shows that this thread was created by that
 * one, or waited for its end, the thread is ordered after it from now on. */
static int races_shows(struct mt_races *x, size_t thread, size_t other)
{
    if (!x->live[other]) {
        races_join(races_clock(x, thread), races_clock(x, other));
        return 1;
    }
    if (x->loads[thread] > MT_RACE_FIRST)
        return 0;
    races_clock(x, thread)[other] = races_clock(x, other)[other]++;
    return 1;
}

/* Reports a race of access `place` (+ 1; 0: none) with this one if unordered. Returns 0, or -1 without
 * memory. */
static int races_pair(struct mt_races *x, uint32_t place, size_t thread, uint32_t side, uint32_t runtime,
                      uint64_t address, uint64_t bytes)
{
    if (!place)
        return 0;
    const struct mt_race_access *a = &x->accesses[place - 1];
    if (a->thread == thread || races_clock(x, thread)[a->thread] >= a->clock ||
        (a->runtime && runtime)) /* both accesses are in the C library, as in a lock */
        return 0;
    if ((side & 3) == MT_LOAD && races_shows(x, thread, a->thread))
        return 0;
    const int swap = a->side > side;
    struct mt_race r = {.side = {swap ? side : a->side, swap ? a->side : side},
                        .address = address,
                        .thread = {x->name[swap ? thread : a->thread], x->name[swap ? a->thread : thread]}};
    const uint64_t *at = mt_pairmap_get(&x->pairs, (uint64_t)r.side[0] << 32 | r.side[1], 0, x->count);
    if (!at)
        return -1;
    const uint64_t pair = *at;
    if (pair == x->count) {
        if (mt_grow(&x->list, &x->room, x->count + 1, sizeof *x->list) != 0)
            return -1;
        x->list[x->count++] = r;
    }
    uint64_t *before = mt_pairmap_get(&x->counted, pair, address, 0);
    if (!before)
        return -1;
    if (!*before) {
        *before = 1;
        x->list[pair].bytes += bytes;
        if (address < x->list[pair].address) {
            r.bytes = x->list[pair].bytes;
            x->list[pair] = r;
        }
    }
    return 0;
}

static int races_touch(struct mt_races *x, size_t thread, uint32_t side, uint32_t runtime, uint64_t address,
                       uint64_t size)
{
    const int stores = (side & 3) == MT_STORE;
    if (!stores && x->loads[thread] <= MT_RACE_FIRST)
        x->loads[thread]++;
    const uint64_t mine = races_access(x, thread, side, runtime);
    if (!mine)
        return -1;
    for (uint64_t at = 0, n; at < size; at += n) {
        const struct mt_cells_span c = mt_cells_at(&x->cells, address + at, size - at);
        if (!c.page)
            return -1;
        n = c.n;
        for (uint64_t i = 0; i < n >> c.shift; i++) {
            const uint64_t where = address + at + (i << c.shift), cell = c.cell[i];
            if (races_pair(x, (uint32_t)(cell >> 32), thread, side, runtime, where, 1ull << c.shift) != 0 ||
                (stores && races_pair(x, (uint32_t)cell, thread, side, runtime, where, 1ull << c.shift) != 0))
                return -1;
            c.cell[i] = stores ? mine << 32 : (cell & ~(uint64_t)UINT32_MAX) | mine;
        }
    }
    return 0;
}

/* An access, or its part in one cache line. */
struct lines_access {
    size_t thread;
    uint32_t side, clock; /* clock: the thread's */
    int strong;
    uint64_t address, bytes; /* bytes: bits of the line */
};

/* Returns the use of the line at *at by this thread, created if necessary; NULL without memory. */
static struct mt_race_use *lines_use(struct mt_races *x, uint64_t *at, size_t thread)
{
    uint32_t u = (uint32_t)*at;
    while (u && x->uses[u - 1].thread != thread)
        u = x->uses[u - 1].next;
    if (u)
        return &x->uses[u - 1];
    if (x->nuses >= UINT32_MAX - 1 || mt_grow(&x->uses, &x->use_room, x->nuses + 1, sizeof *x->uses) != 0)
        return NULL;
    x->uses[x->nuses++] = (struct mt_race_use){.thread = (uint32_t)thread, .next = (uint32_t)*at};
    *at = (*at & ~(uint64_t)UINT32_MAX) | x->nuses;
    return &x->uses[x->nuses - 1];
}

static uint64_t lines_apart(const uint64_t address[2])
{
    return address[0] < address[1] ? address[1] - address[0] : address[0] - address[1];
}

/* Counts false sharing of the access with loads (k 0) or stores (k 1) of another thread. */
static int lines_pair(struct mt_races *x, const struct lines_access *a, const struct mt_race_use *u, int k,
                      int handed)
{
    const int swap = u->side[k] > a->side, other = !swap;
    struct mt_false_pair f = {.side = {swap ? a->side : u->side[k], swap ? u->side[k] : a->side}};
    f.thread[swap] = x->name[u->thread];
    f.thread[other] = x->name[a->thread];
    f.address[swap] = u->address[k];
    f.address[other] = a->address;
    const uint64_t *at = mt_pairmap_get(&x->near_pairs, (uint64_t)f.side[0] << 32 | f.side[1], 0, x->nnear);
    if (!at)
        return -1;
    const uint64_t pair = *at;
    if (pair == x->nnear) {
        if (mt_grow(&x->near_list, &x->near_room, x->nnear + 1, sizeof *x->near_list) != 0)
            return -1;
        x->near_list[x->nnear++] = f;
    }
    struct mt_false_pair *known = &x->near_list[pair];
    if (lines_apart(f.address) < lines_apart(known->address)) {
        memcpy(known->address, f.address, sizeof f.address);
        memcpy(known->thread, f.thread, sizeof f.thread);
    }
    uint64_t *line = mt_pairmap_get(&x->near_counted, pair, a->address >> x->line_bits, 0);
    if (!line)
        return -1;
    known->lines += !*line;
    *line = 1;
    known->accesses++;
    known->handed += (uint64_t)handed;
    return 0;
}

/* Returns 1 if the bytes that one of the two accesses by an atomic are used by the other in that way, too:
 * a lock and what it guards, or a flag. */
static int lines_meet(const struct lines_access *a, const struct mt_race_use *u, int k,
                      const struct mt_race_use *mine)
{
    return (a->strong && (u->strong_ever & a->bytes)) || (u->strong_ever & u->bytes[k] & mine->strong_ever);
}

/* Compares an access with what other threads last did in its line, and takes note of it. */
static int lines_touch(struct mt_races *x, const struct lines_access *a)
{
    uint64_t *at = mt_pairmap_get(&x->lines, a->address >> x->line_bits, 0, 0);
    struct mt_race_use *mine = at ? lines_use(x, at, a->thread) : NULL;
    if (!mine)
        return -1;
    const int stores = mt_side_type(a->side) != MT_LOAD;
    const uint64_t owner = *at >> 32;
    for (uint32_t i = (uint32_t)*at; i; i = x->uses[i - 1].next) {
        const struct mt_race_use *u = &x->uses[i - 1];
        for (int k = !stores; k < 2 && u != mine; k++)
            if (u->bytes[k] && !(u->bytes[k] & a->bytes) && x->began[a->thread] > MT_RACE_FIRST &&
                races_clock(x, a->thread)[u->thread] < u->clock[k] && !lines_meet(a, u, k, mine) &&
                lines_pair(x, a, u, k, k && owner == (uint64_t)u->thread + 1) != 0)
                return -1;
    }
    if (mine->clock[stores] != a->clock || mine->side[stores] != a->side)
        mine->bytes[stores] = 0;
    mine->bytes[stores] |= a->bytes;
    mine->clock[stores] = a->clock;
    mine->side[stores] = a->side;
    mine->address[stores] = a->address;
    mine->strong_ever |= a->strong ? a->bytes : 0;
    if (stores)
        *at = (uint64_t)(a->thread + 1) << 32 | (uint32_t)*at;
    else if (owner != a->thread + 1)
        *at = (uint32_t)*at;
    return 0;
}

static int races_lines(struct mt_races *x, struct lines_access *a, uint64_t size)
{
    const uint64_t line = 1ull << x->line_bits;
    a->clock = races_clock(x, a->thread)[a->thread];
    for (uint64_t n; size > 0; size -= n, a->address += n) {
        const uint64_t in = a->address & (line - 1);
        n = line - in < size ? line - in : size;
        a->bytes = lines_bits_of(x, in, in + n - 1);
        if (lines_touch(x, a) != 0)
            return -1;
    }
    return 0;
}

static int races_run(struct mt_races *x, const struct mt_access_run *r, size_t thread, uint32_t side,
                     const struct mt_site_table *sites)
{
    const int strong = mt_site_strong(sites, r->site);
    const uint32_t runtime = (uint32_t)mt_site_runtime(sites, r->site);
    for (uint32_t i = 0; i < r->count; i++) {
        const uint64_t address = mt_run_address(r, i);
        const size_t word = races_word(x, address, strong);
        struct lines_access a = {.thread = thread,
                                 .side = (side & ~3u) | mt_run_type(r),
                                 .strong = word != SIZE_MAX,
                                 .address = address};
        x->began[thread] += x->began[thread] <= MT_RACE_FIRST;
        if (word == SIZE_MAX && strong)
            return -1;
        if (word == SIZE_MAX && x->nlive > 1 &&
            races_touch(x, thread, side, runtime, address, mt_run_size(r)) != 0)
            return -1;
        /* before the word orders the threads: its other bytes may be another atomic */
        if (x->nlive > 1 && !runtime && races_lines(x, &a, mt_run_size(r)) != 0)
            return -1;
        if (word != SIZE_MAX)
            races_meet(x, thread, word, mt_run_type(r));
    }
    return 0;
}

/* Zero-initialised is empty. Returns 0, or -1 without memory. */
static int races_runs(struct mt_races *x, const struct mt_site_table *sites, const struct mt_access_run *runs,
                      size_t n)
{
    x->cells.pool = &x->pool;
    for (size_t i = 0; i < n; i++) {
        const uint32_t type = mt_run_type(&runs[i]);
        if (type > MT_ATOMIC)
            continue;
        const size_t thread = races_thread(x, runs[i].cta);
        /* an update that is not strong is a read and a write */
        const uint32_t side = mt_site_line(sites, runs[i].site) << 2 | (type == MT_ATOMIC ? MT_STORE : type);
        if (thread == SIZE_MAX || races_run(x, &runs[i], thread, side, sites) != 0)
            return -1;
    }
    return 0;
}

static void races_free(struct mt_races *x)
{
    mt_cells_free(&x->cells);
    mt_cells_pool_free(&x->pool);
    mt_pairmap_free(&x->known);
    mt_pairmap_free(&x->pairs);
    mt_pairmap_free(&x->counted);
    mt_pairmap_free(&x->threads);
    mt_pairmap_free(&x->words);
    mt_pairmap_free(&x->lines);
    mt_pairmap_free(&x->near_pairs);
    mt_pairmap_free(&x->near_counted);
    free(x->uses);
    free(x->near_list);
    free(x->began);
    free(x->list);
    free(x->accesses);
    free(x->clock);
    free(x->name);
    free(x->live);
    free(x->loads);
    free(x->seen);
    memset(x, 0, sizeof *x);
}

/* Cell: LISTED | number of the state; or side + 1, first and second CTA (equal if there is only one). */
#define LISTED (1ull << 63)
enum { CTA_BITS = 24, SIDE_SHIFT = 2 * CTA_BITS, MOST_CTAS = 1 << CTA_BITS, MOST_SIDES = (1 << 15) - 1 };

struct state {
    struct mt_launch_window_state w;
    struct mt_cells cells;
    struct mt_byte_states states;
    struct mt_pairmap ctas, sides; /* numbers of CTAs and of sides */
    uint64_t *order;               /* by CTA number: z-major number */
    uint32_t *side;                /* by number */
    size_t nctas, nsides, cta_room, side_room;
    /* current CTA and side, by number; last step from one cell value to another (never 0 to 0) */
    uint32_t cta_number, side_number;
    uint64_t from, to;
};

static void conflicts_drop(struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    s->cells.pool = NULL; /* the pool may belong to a part that no longer exists */
    mt_cells_free(&s->cells);
    byte_states_free(&s->states);
    mt_pairmap_free(&s->ctas);
    mt_pairmap_free(&s->sides);
    free(s->order);
    free(s->side);
    free(s);
}

/* ---- CTAs and sides ---- */

/* Sets the current side and CTA (its z-major number). Returns 0, or -1 without memory. */
static int conflicts_by(struct state *s, uint32_t side, uint64_t cta)
{
    if (s->nctas && s->nsides && s->order[s->cta_number] == cta && s->side[s->side_number] == side)
        return 0;
    const uint64_t same = s->cta_number;
    const uint64_t *c =
        s->nctas && s->order[same] == cta ? &same : mt_pairmap_get(&s->ctas, cta, 0, s->nctas);
    const uint64_t *i = mt_pairmap_get(&s->sides, side, 0, s->nsides);
    if (!c || !i || mt_grow(&s->order, &s->cta_room, s->nctas + 1, sizeof *s->order) != 0 ||
        mt_grow(&s->side, &s->side_room, s->nsides + 1, sizeof *s->side) != 0 || *c >= UINT32_MAX)
        return -1;
    s->order[*c] = cta;
    s->side[*i] = side;
    s->nctas += *c == s->nctas;
    s->nsides += *i == s->nsides;
    s->cta_number = (uint32_t)*c;
    s->side_number = (uint32_t)*i;
    s->from = s->to = 0;
    return 0;
}

static uint64_t single_of(uint64_t side, uint64_t first, uint64_t second)
{
    return (side + 1) << SIDE_SHIFT | first << CTA_BITS | second;
}
static uint32_t single_side(uint64_t cell)
{
    return (uint32_t)(cell >> SIDE_SHIFT) - 1;
}
static uint32_t single_first(uint64_t cell)
{
    return (uint32_t)(cell >> CTA_BITS) & (MOST_CTAS - 1);
}
static uint32_t single_second(uint64_t cell)
{
    return (uint32_t)cell & (MOST_CTAS - 1);
}

/* Returns the *n sides of a cell that is not 0; `one` has room for one. */
static const struct mt_byte_side *sides_of(const struct state *s, uint64_t cell, struct mt_byte_side *one,
                                           size_t *n)
{
    if (cell & LISTED) {
        const struct mt_byte_state *t = &s->states.states[(uint32_t)cell];
        *n = t->count;
        return s->states.sides + t->first;
    }
    *n = 1;
    memset(one, 0, sizeof *one);
    *one = (struct mt_byte_side){{s->order[single_first(cell)], s->order[single_second(cell)]},
                                 s->side[single_side(cell)]};
    return one;
}

/* Returns the cell after an access by the current CTA and side; 0 without memory. */
static uint64_t conflicts_step(struct state *s, uint64_t cell)
{
    const uint32_t cta = s->cta_number, side = s->side_number;
    if (!cell && cta < MOST_CTAS && side < MOST_SIDES)
        return single_of(side, cta, cta);
    if (cell && !(cell & LISTED) && single_side(cell) == side && cta < MOST_CTAS) {
        const uint32_t a = single_first(cell), b = single_second(cell);
        if (cta == a || cta == b)
            return cell;
        if (s->order[cta] < s->order[a])
            return single_of(side, cta, a);
        return a == b || s->order[cta] < s->order[b] ? single_of(side, a, cta) : cell;
    }
    uint32_t state = (uint32_t)cell;
    if (cell && !(cell & LISTED)) {
        struct mt_byte_side one;
        size_t n;
        sides_of(s, cell, &one, &n);
        state = byte_states_intern(&s->states, &one, 1);
    }
    if (state != MT_STATE_FAILED)
        state = mt_byte_states_step(&s->states, state, s->side[side], s->order[cta]);
    return state == MT_STATE_FAILED ? 0 : LISTED | state;
}

static int conflicts_touch(struct state *s, const struct mt_piece *piece)
{
    for (uint64_t at = 0, n; at < piece->bytes; at += n) {
        const struct mt_cells_span c = mt_cells_at(&s->cells, piece->address + at, piece->bytes - at);
        if (!c.page)
            return -1;
        n = c.n;
        for (uint64_t i = 0; i < n >> c.shift; i++) {
            if (c.cell[i] != s->from || !s->to) {
                s->from = c.cell[i];
                if (!(s->to = conflicts_step(s, c.cell[i])))
                    return -1;
            }
            c.cell[i] = s->to;
        }
    }
    return 0;
}

static int conflicts_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_conflicts *x = self;
    if (x->program.host) /* without an order of its threads nothing is known */
        return !x->program.selected || x->program.host < 2 ? 0
                                                           : races_runs(&x->races, x->program.sites, runs, n);
    struct state *s = (struct state *)x->window.tail;
    const struct mt_run_launch *l = &s->w.launch;
    if (!l->selected)
        return 0;
    s->cells.pool = &x->pool;
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        uint32_t at = 0;
        struct mt_piece piece;
        if (i + MT_RUNS_AHEAD < n)
            mt_cells_soon(&s->cells, runs[i + MT_RUNS_AHEAD].base);
        if (mt_run_type(r) > MT_ATOMIC)
            continue;
        for (uint32_t k = 0; r->addresses && k < r->count; k++)
            mt_cells_soon(&s->cells, r->addresses[k]);
        if (conflicts_by(s, mt_site_line(l->sites, r->site) << 2 | mt_run_type(r), mt_cta_order(r->cta)) != 0)
            return -1;
        while (mt_run_piece(r, &at, &piece)) {
            if (!r->addresses && r->stride == 0)
                at = r->count; /* all accesses touch the same bytes */
            if (conflicts_touch(s, &piece) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- end of a launch ---- */

/* Finds two different CTAs, *a with side i and *b with side j. Returns 1 if there are such. */
static int conflicts_two(const struct mt_byte_side *i, const struct mt_byte_side *j, uint64_t *a, uint64_t *b)
{
    *a = i->cta[0];
    *b = i == j || j->cta[0] == *a ? j->cta[1] : j->cta[0];
    if (*b == *a) {
        *a = i->cta[1];
        *b = j->cta[0];
    }
    return *a != *b;
}

static struct mt_conflict *conflict_of(struct mt_conflicts *x, struct mt_pairmap *pairs,
                                       const struct mt_run_launch *l, uint32_t a, uint32_t b)
{
    uint64_t *i = mt_pairmap_get(pairs, a, b, UINT64_MAX);
    if (!i)
        return NULL;
    if (*i == UINT64_MAX) {
        if (mt_grow(&x->list, &x->room, x->count + 1, sizeof *x->list) != 0)
            return NULL;
        *i = x->count++;
        x->list[*i] = (struct mt_conflict){.superstep = l->superstep,
                                           .seq = l->seq,
                                           .kernel = l->kernel,
                                           .cooperative = l->cooperative,
                                           .side = {a, b},
                                           .address = UINT64_MAX};
    }
    return &x->list[*i];
}

/* Bytes with the same sides: their number, the number of their words, the lowest one. */
struct where {
    uint64_t bytes, words, address;
};

/* Adds the races of bytes with these sides. */
static int conflicts_of(struct mt_conflicts *x, struct mt_pairmap *pairs, const struct mt_run_launch *l,
                        const struct mt_byte_side *sides, size_t n, const struct where *where)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++) {
            uint64_t a, b;
            if (mt_side_type(sides[i].side) != MT_STORE && mt_side_type(sides[j].side) != MT_STORE)
                continue;
            if (!conflicts_two(&sides[i], &sides[j], &a, &b))
                continue;
            struct mt_conflict *c = conflict_of(x, pairs, l, sides[i].side, sides[j].side);
            if (!c)
                return -1;
            if (!c->bytes || where->address < c->address) {
                c->address = where->address;
                c->cta[0] = mt_cta_of_order(a);
                c->cta[1] = mt_cta_of_order(b);
            }
            c->bytes += where->bytes;
            c->words += where->words;
        }
    return 0;
}

/* Counts the words of the equal cells first .. end - 1 of a piece, except one that is counted already. */
static uint64_t close_words(const struct mt_cells_span *c, size_t first, size_t end)
{
    const size_t word = first << c->shift >> MT_CELLS_WORD;
    uint64_t words = (((end << c->shift) - 1) >> MT_CELLS_WORD) - word + 1;
    for (size_t i = word << MT_CELLS_WORD >> c->shift; i < first; i++)
        if (c->cell[i] == c->cell[first])
            return words - 1;
    return words;
}

/* Adds the races of a piece at `address`; equal cells are counted together. Cells with one side race if two
 * CTAs stored. */
static int close_piece(struct mt_conflicts *x, struct mt_pairmap *pairs, const struct state *s,
                       const struct mt_cells_span *c, uint64_t address, struct where *where)
{
    const size_t cells = MT_CELLS_PIECE >> c->shift;
    for (size_t i = 0, end; i < cells; i = end) {
        const uint64_t cell = c->cell[i];
        for (end = i + 1; end < cells && c->cell[end] == cell;)
            end++;
        const struct where here = {(end - i) << c->shift, close_words(c, i, end), address + (i << c->shift)};
        if (cell & LISTED) {
            struct where *w = &where[(uint32_t)cell];
            w->address = w->bytes ? w->address : here.address;
            w->bytes += here.bytes;
            w->words += here.words;
        } else if (cell && single_first(cell) != single_second(cell) &&
                   mt_side_type(s->side[single_side(cell)]) == MT_STORE) {
            struct mt_byte_side one;
            size_t n;
            sides_of(s, cell, &one, &n);
            if (conflicts_of(x, pairs, &s->w.launch, &one, n, &here) != 0)
                return -1;
        }
    }
    return 0;
}

static int close_page(struct mt_conflicts *x, struct mt_pairmap *pairs, const struct state *s,
                      struct mt_cells_page *page, struct where *where)
{
    int rc = 0;
    for (unsigned k = 0; k < MT_CELLS_PIECES && rc == 0; k++) {
        const struct mt_cells_span c = {page, page->cell[k], MT_CELLS_PIECE, mt_cells_shift(page, k)};
        if (c.cell)
            rc = close_piece(x, pairs, s, &c,
                             (page->number << MT_CELLS_BITS) + ((uint64_t)k << MT_CELLS_PIECE_BITS), where);
    }
    return rc;
}

static int conflicts_close_launch(void *arg, struct mt_launch_window_state *w)
{
    struct mt_conflicts *x = arg;
    struct state *s = (struct state *)w;
    struct mt_pairmap pairs = {0};
    struct where *where = calloc(s->states.nstates, sizeof *where);
    int rc = where ? 0 : -1;
    mt_cells_sort(&s->cells);
    for (size_t p = 0; rc == 0 && p < s->cells.count; p++)
        rc = close_page(x, &pairs, s, s->cells.pages[p], where);
    for (size_t i = 1; rc == 0 && i < s->states.nstates; i++) {
        const struct mt_byte_state *t = &s->states.states[i];
        if (where[i].bytes)
            rc = conflicts_of(x, &pairs, &s->w.launch, s->states.sides + t->first, t->count, &where[i]);
    }
    free(where);
    mt_pairmap_free(&pairs);
    s->cells.pool = &x->pool;
    mt_cells_free(&s->cells);
    return rc;
}

/* ---- merging and packing ---- */

/* Returns the union of a byte's `cell` and cell `b` of another part; 0 without memory. */
static uint64_t conflicts_joined(struct state *s, uint64_t cell, const struct state *other, uint64_t b)
{
    struct mt_byte_side one;
    size_t n;
    const struct mt_byte_side *side = sides_of(other, b, &one, &n);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 1 + (side[i].cta[1] != side[i].cta[0]); k++)
            if (conflicts_by(s, side[i].side, side[i].cta[k]) != 0 || !(cell = conflicts_step(s, cell)))
                return 0;
    return cell;
}

static int conflicts_merge_piece(struct state *a, const struct state *b, struct mt_cells_page *p,
                                 const struct mt_cells_page *page, unsigned k)
{
    uint64_t was = 0, with = 0, now = 0;
    if (mt_cells_piece(&a->cells, p, k, page->fine >> k & 1) != 0)
        return -1;
    const unsigned shift = mt_cells_shift(p, k), from = mt_cells_shift(page, k);
    for (size_t i = 0; i < (size_t)MT_CELLS_PIECE >> shift; i++) {
        const uint64_t cell = page->cell[k][i << shift >> from];
        if (!cell)
            continue;
        if (!now || p->cell[k][i] != was || cell != with) {
            was = p->cell[k][i];
            with = cell;
            if (!(now = conflicts_joined(a, was, b, with)))
                return -1;
        }
        p->cell[k][i] = now;
    }
    return 0;
}

static int conflicts_merge_page(struct state *a, const struct state *b, const struct mt_cells_page *page)
{
    struct mt_cells_page *p = mt_cells_page(&a->cells, page->number);
    int rc = p ? 0 : -1;
    for (unsigned k = 0; k < MT_CELLS_PIECES && rc == 0; k++)
        if (page->cell[k])
            rc = conflicts_merge_piece(a, b, p, page, k);
    return rc;
}

static int conflicts_merge_launch(void *arg, struct mt_launch_window_state *into,
                                  struct mt_launch_window_state *from)
{
    struct mt_conflicts *x = arg;
    struct state *a = (struct state *)into, *b = (struct state *)from;
    a->cells.pool = &x->pool;
    for (size_t p = 0; p < b->cells.count; p++)
        if (conflicts_merge_page(a, b, b->cells.pages[p]) != 0)
            return -1;
    return 0;
}

/* Writes the lists before the cells that refer to them. */
static void conflicts_pack_state(struct mt_parcel *p, const struct mt_launch_window_state *w)
{
    const struct state *s = (const struct state *)w;
    mt_parcel_u64(p, s->states.nstates);
    for (size_t i = 1; i < s->states.nstates; i++) {
        const struct mt_byte_state *t = &s->states.states[i];
        mt_parcel_u64(p, t->count);
        mt_parcel_bytes(p, s->states.sides + t->first, t->count * sizeof *s->states.sides);
    }
    mt_parcel_u64(p, s->nctas);
    mt_parcel_bytes(p, s->order, s->nctas * sizeof *s->order);
    mt_parcel_u64(p, s->nsides);
    for (size_t i = 0; i < s->nsides; i++)
        mt_parcel_u64(p, s->side[i]);
    mt_parcel_cells(p, &s->cells);
}

static void unpack_names(struct mt_unpack *u, struct state *s)
{
    s->nctas = mt_unpack_count(u, sizeof *s->order);
    s->order = mt_unpack_array(u, s->nctas, sizeof *s->order);
    s->cta_room = s->nctas;
    for (size_t i = 0; i < s->nctas && !u->failed; i++)
        u->failed |= !mt_pairmap_get(&s->ctas, s->order[i], 0, i);
    size_t n = mt_unpack_count(u, sizeof(uint64_t));
    u->failed |= mt_grow(&s->side, &s->side_room, n + 1, sizeof *s->side) != 0;
    for (; s->nsides < n && !u->failed; s->nsides++) {
        s->side[s->nsides] = (uint32_t)mt_unpack_u64(u);
        u->failed |= !mt_pairmap_get(&s->sides, s->side[s->nsides], 0, s->nsides);
    }
}

static void conflicts_unpack_state(struct mt_unpack *u, struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    size_t n = mt_unpack_count(u, sizeof(uint64_t));
    for (size_t i = 1; i < n && !u->failed; i++) {
        size_t count = mt_unpack_count(u, sizeof *s->states.sides);
        struct mt_byte_side *sides = mt_unpack_array(u, count, sizeof *sides);
        u->failed = u->failed || byte_states_intern(&s->states, sides, count) != i;
        free(sides);
    }
    unpack_names(u, s);
    if (u->failed)
        s->nctas = s->nsides = 0;
    else
        mt_unpack_cells(u, &s->cells);
}

static struct mt_launch_window_state *conflicts_make(const struct mt_run_launch *launch)
{
    struct mt_launch_window_state *s = mt_launch_window_new(sizeof(struct state), launch);
    if (s && byte_states_init(&((struct state *)s)->states) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static const struct mt_launch_window_ops ops = {conflicts_merge_launch, conflicts_close_launch,
                                                conflicts_drop,         conflicts_pack_state,
                                                conflicts_make,         conflicts_unpack_state};

MT_ORDER_POINTED_2(by_seq, struct mt_alloc_event, seq, id)

static int conflicts_init(void *self, const struct mt_run_options *o)
{
    struct mt_conflicts *x = self;
    memset(x, 0, sizeof *x);
    x->window.ops = &ops;
    x->races.line_bits = o->line_bits;
    x->made = malloc((o->nallocs + 1) * sizeof *x->made);
    for (size_t i = 0; x->made && i < o->nallocs; i++)
        x->made[x->nallocs++] = &o->allocs[i];
    if (x->made)
        qsort(x->made, x->nallocs, sizeof *x->made, by_seq);
    return x->made ? 0 : -1;
}

/* ---- host programs ---- */

/* Collects the races of the current program. */
static int conflicts_program_ends(struct mt_conflicts *x)
{
    for (size_t i = 0; i < x->races.count; i++) {
        const struct mt_race *r = &x->races.list[i];
        if (mt_grow(&x->list, &x->room, x->count + 1, sizeof *x->list) != 0)
            return -1;
        x->list[x->count++] = (struct mt_conflict){.superstep = x->program.superstep,
                                                   .seq = x->program.seq,
                                                   .kernel = x->program.kernel,
                                                   .side = {r->side[0], r->side[1]},
                                                   .bytes = r->bytes,
                                                   .address = r->address,
                                                   .cta = {r->thread[0], r->thread[1]}};
    }
    for (size_t i = 0; i < x->races.nnear; i++) {
        if (mt_grow(&x->near_list, &x->near_room, x->nnear + 1, sizeof *x->near_list) != 0)
            return -1;
        struct mt_false_pair *f = &x->near_list[x->nnear++];
        *f = x->races.near_list[i];
        f->superstep = x->program.superstep;
        f->seq = x->program.seq;
        f->kernel = x->program.kernel;
    }
    const unsigned line_bits = x->races.line_bits;
    races_free(&x->races);
    x->races.line_bits = line_bits;
    return 0;
}

static void conflicts_moves(void *self, const struct mt_run_launch *launch)
{
    struct mt_conflicts *x = self;
    for (; x->nmade < x->nallocs && x->made[x->nmade]->seq <= launch->seq; x->nmade++)
        if (strcmp(x->made[x->nmade]->kind, "brk") != 0)
            races_new(&x->races, x->made[x->nmade]->base, x->made[x->nmade]->bytes);
    const uint64_t thread = ((launch->life & ~MT_THREAD_BEGAN) - 1) << 32;
    if (launch->life & MT_THREAD_BEGAN)
        races_thread(&x->races, thread); /* without memory the thread starts with its first access */
    else if (launch->life)
        races_ended(&x->races, thread);
}

static int conflicts_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_conflicts *x = self;
    if (launch->host) {
        int rc = conflicts_program_ends(x);
        x->program = *launch;
        x->nmade = 0;
        return rc;
    }
    struct mt_launch_window_state *s = conflicts_make(launch);
    return s ? mt_launch_window_next(&x->window, x, s) : -1;
}

static int conflicts_merge(void *self, void *other)
{
    struct mt_conflicts *into = self, *from = other;
    if (from->count) {
        if (mt_grow(&into->list, &into->room, into->count + from->count, sizeof *into->list) != 0)
            return -1;
        memcpy(into->list + into->count, from->list, from->count * sizeof *into->list);
        into->count += from->count;
    }
    if (from->nnear) {
        if (mt_grow(&into->near_list, &into->near_room, into->nnear + from->nnear, sizeof *into->near_list) !=
            0)
            return -1;
        memcpy(into->near_list + into->nnear, from->near_list, from->nnear * sizeof *into->near_list);
        into->nnear += from->nnear;
    }
    return mt_launch_window_merge(&into->window, into, &from->window);
}

static int conflicts_finish(void *self)
{
    struct mt_conflicts *x = self;
    return conflicts_program_ends(x) != 0 ? -1 : mt_launch_window_finish(&x->window, x);
}

static void conflicts_pack(struct mt_parcel *p, const void *self)
{
    const struct mt_conflicts *x = self;
    mt_parcel_u64(p, x->count);
    mt_parcel_bytes(p, x->list, x->count * sizeof *x->list);
    mt_parcel_u64(p, x->nnear);
    mt_parcel_bytes(p, x->near_list, x->nnear * sizeof *x->near_list);
    mt_launch_window_pack(p, &x->window);
}

static void conflicts_unpack(struct mt_unpack *u, void *self)
{
    struct mt_conflicts *x = self;
    size_t n = mt_unpack_count(u, sizeof *x->list);
    x->list = mt_unpack_array(u, n, sizeof *x->list);
    x->count = x->list ? n : 0;
    x->room = x->count;
    for (size_t i = 0; i < x->count; i++)
        x->list[i].kernel = mt_unpack_kernel_of(u, x->list[i].superstep);
    n = mt_unpack_count(u, sizeof *x->near_list);
    x->near_list = mt_unpack_array(u, n, sizeof *x->near_list);
    x->nnear = x->near_list ? n : 0;
    x->near_room = x->nnear;
    for (size_t i = 0; i < x->nnear; i++)
        x->near_list[i].kernel = mt_unpack_kernel_of(u, x->near_list[i].superstep);
    mt_launch_window_unpack(u, &x->window);
}

static void conflicts_free(void *self)
{
    struct mt_conflicts *x = self;
    mt_launch_window_free(&x->window);
    mt_cells_pool_free(&x->pool);
    races_free(&x->races);
    free(x->made);
    free(x->near_list);
    free(x->list);
    memset(x, 0, sizeof *x);
}

const struct mt_analysis mt_conflicts_analysis = {
    .init = conflicts_init,
    .launch = conflicts_launch,
    .moves = conflicts_moves,
    .runs = conflicts_runs,
    .merge = conflicts_merge,
    .finish = conflicts_finish,
    .pack = conflicts_pack,
    .unpack = conflicts_unpack,
    .free = conflicts_free,
};
