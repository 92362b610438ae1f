/* See races.h: a clock for each thread and for each word that atomics are used on. */
#include "races.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

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

/* It begins after all that the first one has done. */
static int races_begin(struct mt_races *x, uint64_t cta)
{
    const size_t n = x->nthreads;
    if (!x->clock) {
        x->clock = calloc(MT_RACE_THREADS * (size_t)MT_RACE_THREADS, sizeof *x->clock);
        x->name = calloc(MT_RACE_THREADS, sizeof *x->name);
        x->live = calloc(MT_RACE_THREADS, 1);
        x->loads = calloc(MT_RACE_THREADS, 1);
        if (!x->clock || !x->name || !x->live || !x->loads)
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

/* Its number; SIZE_MAX without memory. */
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

int mt_races_began(struct mt_races *x, uint64_t cta)
{
    return races_thread(x, cta) == SIZE_MAX ? -1 : 0;
}

void mt_races_ended(struct mt_races *x, uint64_t cta)
{
    const uint64_t *at = mt_pairmap_find(&x->threads, cta, 0);
    if (!at || !x->live[*at] || *at == MT_RACE_THREADS - 1)
        return;
    x->live[*at] = 0;
    x->nlive--;
    races_join(races_clock(x, 0), races_clock(x, *at));
}

void mt_races_new(struct mt_races *x, uint64_t base, uint64_t bytes)
{
    const uint64_t end = base + bytes;
    const uint64_t pages = (bytes >> MT_CELLS_BITS) + 2;
    if (end <= base || !x->cells.count)
        return;
    for (uint64_t at = base, n; at < end && pages < (uint64_t)1 << 32; at += n) {
        struct mt_cells_page *p = mt_cells_find(&x->cells, at >> MT_CELLS_BITS);
        n = MT_CELLS_PAGE - (at & (MT_CELLS_PAGE - 1));
        n = n < end - at ? n : end - at;
        if (p && ((at | n) & ((1u << p->shift) - 1)) && mt_cells_refine(p) != 0)
            return;
        if (p)
            memset(p->cell + ((at & (MT_CELLS_PAGE - 1)) >> p->shift), 0, (n >> p->shift) * sizeof *p->cell);
    }
}

/* ---- words that order ---- */

/* The word's number; SIZE_MAX: atomics are not used on it, or there is no memory. */
static size_t races_word(struct mt_races *x, uint64_t address, int strong)
{
    const uint64_t *at = mt_pairmap_find(&x->words, address >> 3, 0);
    if (at || !strong)
        return at ? *at : SIZE_MAX;
    const size_t n = x->nwords < MT_RACE_WORDS ? x->nwords : MT_RACE_WORDS - 1;
    if (mt_grow(&x->seen, &x->word_room, (n + 1) * MT_RACE_THREADS, sizeof *x->seen) != 0)
        return SIZE_MAX;
    if (n == x->nwords)
        memset(x->seen + n * MT_RACE_THREADS, 0, MT_RACE_THREADS * sizeof *x->seen);
    x->nwords = n + 1;
    const uint64_t *made = mt_pairmap_get(&x->words, address >> 3, 0, n);
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

/* The place + 1 of this access; 0 without memory. */
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

/* A load of what `other` stored that nothing orders: does it show that this thread was made by that one, or
 * waited for its end? Then it comes after it from now on. */
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

/* Access `place` (+ 1; 0: none) and this one, if nothing orders them. 0, or -1 without memory. */
static int races_pair(struct mt_races *x, uint32_t place, size_t thread, uint32_t side, uint32_t runtime,
                      uint64_t address, uint64_t bytes)
{
    if (!place)
        return 0;
    const struct mt_race_access *a = &x->accesses[place - 1];
    if (a->thread == thread || races_clock(x, thread)[a->thread] >= a->clock ||
        (a->runtime && runtime)) /* between the C library and itself, as in a lock */
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
        struct mt_cells_page *p = mt_cells_at(&x->cells, address + at, size - at, &n);
        if (!p)
            return -1;
        uint64_t *c = p->cell + (((address + at) & (MT_CELLS_PAGE - 1)) >> p->shift);
        for (uint64_t i = 0; i < n >> p->shift; i++) {
            const uint64_t where = address + at + (i << p->shift), cell = c[i];
            if (races_pair(x, (uint32_t)(cell >> 32), thread, side, runtime, where, 1ull << p->shift) != 0 ||
                (stores &&
                 races_pair(x, (uint32_t)cell, thread, side, runtime, where, 1ull << p->shift) != 0))
                return -1;
            c[i] = stores ? mine << 32 : (cell & ~(uint64_t)UINT32_MAX) | mine;
        }
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
        if (word != SIZE_MAX)
            races_meet(x, thread, word, mt_run_type(r));
        else if (strong)
            return -1;
        else if (x->nlive > 1 && races_touch(x, thread, side, runtime, address, mt_run_size(r)) != 0)
            return -1;
    }
    return 0;
}

int mt_races_runs(struct mt_races *x, const struct mt_site_table *sites, const struct mt_access_run *runs,
                  size_t n)
{
    x->cells.pool = &x->pool;
    for (size_t i = 0; i < n; i++) {
        const uint32_t type = mt_run_type(&runs[i]);
        if (type > MT_ATOMIC)
            continue;
        const size_t thread = races_thread(x, runs[i].cta);
        /* what is not strong reads and writes one after the other */
        const uint32_t side = mt_site_line(sites, runs[i].site) << 2 | (type == MT_ATOMIC ? MT_STORE : type);
        if (thread == SIZE_MAX || races_run(x, &runs[i], thread, side, sites) != 0)
            return -1;
    }
    return 0;
}

void mt_races_free(struct mt_races *x)
{
    mt_cells_free(&x->cells);
    mt_cells_pool_free(&x->pool);
    mt_pairmap_free(&x->known);
    mt_pairmap_free(&x->pairs);
    mt_pairmap_free(&x->counted);
    mt_pairmap_free(&x->threads);
    mt_pairmap_free(&x->words);
    free(x->list);
    free(x->accesses);
    free(x->clock);
    free(x->name);
    free(x->live);
    free(x->loads);
    free(x->seen);
    memset(x, 0, sizeof *x);
}
