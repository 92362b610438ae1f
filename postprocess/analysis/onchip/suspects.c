/* Words that may have hazards, by who accessed them since the last barrier and in which CTAs. */
#include "suspects.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum {
    WORD = 4,
    PAGE_WORDS = 1024,
    BARRIERS = 16,
    LANES = 32,
    WARPS = 32,
    MOST_SHARED = 1 << 20, /* bytes: more than any GPU has */
    MOST_CTAS = 1 << 13,   /* CTAs with a state; the oldest one makes room */
    MOST_PAGES = 1 << 18,  /* 1 GiB of global memory */
    MANY = UINT16_MAX      /* several threads */
};

/* What has been done to a word. */
enum { STORED = 1, LOADED = 2, STRONG = 4, NARROW = 8, SEVERAL = 16, FOUND = 32 };

struct suspect_cell {
    uint32_t epoch;               /* of the threads below */
    uint32_t owner;               /* the first CTA's number + 1 */
    uint16_t store, load, strong; /* thread + 1 since the epoch began, or MANY */
    uint16_t flags;               /* since the launch began */
};

struct mt_suspects_page {
    struct suspect_cell *cells;
    uint64_t first; /* number of its first word */
    uint32_t stamp;
};

struct mt_suspects_cta {
    uint64_t cta;
    uint32_t number, epoch;
    uint32_t arrived[BARRIERS]; /* threads that have arrived */
    uint32_t lanes[BARRIERS][WARPS];
    struct suspect_cell *cells; /* shared memory */
    size_t ncells, room;
    UT_hash_handle hh;
};

/* ---- found words ---- */

static int suspects_add(struct mt_suspects *s, struct suspect_cell *x, int shared, uint64_t word)
{
    uint64_t *mask = mt_pairmap_get(&s->found, (uint64_t)s->number << 1 | (unsigned)shared, word >> 6, 0);
    if (!mask || !mt_pairmap_get(&s->launches, s->number, 0, 1))
        return -1;
    *mask |= 1ull << (word & 63);
    x->flags |= FOUND;
    return 0;
}

int mt_suspects_launched(const struct mt_suspects *s, uint32_t number)
{
    return mt_pairmap_find(&s->launches, number, 0) != NULL;
}

/* ---- CTAs ---- */

static struct mt_suspects_cta *suspects_open(struct mt_suspects *s, uint64_t cta)
{
    struct mt_suspects_cta *c = NULL;
    if (HASH_COUNT(s->ctas) >= MOST_CTAS) {
        c = s->ctas; /* the oldest one */
        HASH_DELETE(hh, s->ctas, c);
    } else if (!(c = calloc(1, sizeof *c))) {
        return NULL;
    }
    c->cta = cta;
    c->number = s->opened++;
    c->epoch = ++s->epoch;
    memset(c->arrived, 0, sizeof c->arrived);
    memset(c->lanes, 0, sizeof c->lanes);
    HASH_ADD(hh, s->ctas, cta, sizeof c->cta, c);
    return c;
}

static struct mt_suspects_cta *suspects_cta(struct mt_suspects *s, uint64_t cta)
{
    struct mt_suspects_cta *c = s->current;
    if (c && c->cta == cta)
        return c;
    HASH_FIND(hh, s->ctas, &cta, sizeof cta, c);
    return s->current = c ? c : suspects_open(s, cta);
}

/* Ends the launch's CTAs. */
static void suspects_end(struct mt_suspects *s)
{
    struct mt_suspects_cta *c, *after;
    HASH_ITER(hh, s->ctas, c, after)
    {
        HASH_DELETE(hh, s->ctas, c);
        free(c->cells);
        free(c);
    }
    s->current = NULL;
    s->opened = 0;
}

/* ---- cells ---- */

/* Returns the page of that number, or NULL: too many, or no memory with *failed 1. */
static struct suspect_cell *suspects_page(struct mt_suspects *s, uint64_t number, int *failed)
{
    struct mt_suspects_page *p = s->last;
    if (!p || p->first != number * PAGE_WORDS) {
        uint64_t *at = mt_pairmap_get(&s->at, number, 0, s->npages + 1);
        *failed = !at || mt_grow(&s->pages, &s->pages_room, s->npages + 1, sizeof *s->pages) != 0;
        if (*failed || *at > MOST_PAGES)
            return NULL;
        p = &s->pages[*at - 1];
        if (*at == s->npages + 1) {
            *p = (struct mt_suspects_page){.first = number * PAGE_WORDS, .stamp = s->stamp};
            s->npages++;
            *failed = !(p->cells = calloc(PAGE_WORDS, sizeof *p->cells));
        }
        s->last = p;
    }
    if (p->cells && p->stamp != s->stamp) {
        memset(p->cells, 0, PAGE_WORDS * sizeof *p->cells);
        p->stamp = s->stamp;
    }
    return p->cells;
}

/* Returns the cells of `n` words from this one on, of which *n remain; NULL as above. */
static struct suspect_cell *suspects_cells(struct mt_suspects *s, struct mt_suspects_cta *c, int shared,
                                           uint64_t word, uint64_t *n, int *failed)
{
    if (!shared) {
        uint64_t left = PAGE_WORDS - word % PAGE_WORDS;
        struct suspect_cell *page = suspects_page(s, word / PAGE_WORDS, failed);
        *n = *n < left ? *n : left;
        return page ? page + word % PAGE_WORDS : NULL;
    }
    if (word + *n > MOST_SHARED / WORD)
        return NULL;
    if (word + *n > c->ncells) {
        *failed = mt_grow(&c->cells, &c->room, word + *n, sizeof *c->cells) != 0;
        if (*failed)
            return NULL;
        memset(c->cells + c->ncells, 0, (word + *n - c->ncells) * sizeof *c->cells);
        c->ncells = word + *n;
    }
    return c->cells + word;
}

/* ---- accesses ---- */

struct suspect_access {
    unsigned way;      /* STORED, LOADED, STRONG, STRONG | NARROW */
    int shared, mixed; /* mixed: a plain load and a strong access count */
    uint16_t thread;   /* number + 1; MANY: not known */
};

static int other(uint16_t have, uint16_t thread)
{
    return have && have != thread;
}

/* Returns 1 if threads of the CTA may race at the word, as of this access. */
static int suspect_in_cta(struct suspect_cell *x, const struct suspect_access *a)
{
    uint16_t t = a->thread, *mine = a->way == STORED ? &x->store : a->way == LOADED ? &x->load : &x->strong;
    int found = other(x->store, t);
    if (a->way == STORED)
        found |= other(x->load, t) | other(x->strong, t);
    else if (a->mixed)
        found |= a->way == LOADED ? other(x->strong, t) : other(x->load, t);
    *mine = !*mine || *mine == t ? t : MANY;
    return found;
}

/* Returns 1 if CTAs may race at the word. */
static int suspect_of_ctas(const struct suspect_cell *x, const struct suspect_access *a)
{
    unsigned f = x->flags;
    if (!(f & SEVERAL) || a->shared)
        return 0;
    return f & (STORED | NARROW) || (a->mixed && f & LOADED && f & STRONG);
}

static inline int suspect_touch(struct suspect_cell *x, const struct mt_suspects_cta *c,
                                const struct suspect_access *a)
{
    if (x->epoch != c->epoch) {
        x->epoch = c->epoch;
        x->store = x->load = x->strong = 0;
        if (x->owner != c->number + 1) {
            x->flags |= x->owner ? SEVERAL : 0;
            x->owner = c->number + 1;
        }
    }
    x->flags |= a->way;
    return suspect_in_cta(x, a) | suspect_of_ctas(x, a);
}

static int suspects_touch(struct mt_suspects *s, struct mt_suspects_cta *c, const struct suspect_access *a,
                          uint64_t address, uint64_t bytes, int copy)
{
    uint64_t word = address / WORD, left = (address + bytes - 1) / WORD - word + 1, n;
    int failed = 0;
    for (; left; left -= n, word += n) {
        n = left;
        struct suspect_cell *x = suspects_cells(s, c, a->shared, word, &n, &failed);
        if (failed)
            return -1;
        for (uint64_t i = 0; x && i < n; i++)
            if ((suspect_touch(&x[i], c, a) || copy) && !(x[i].flags & FOUND) &&
                suspects_add(s, &x[i], a->shared, word + i) != 0)
                return -1;
    }
    return 0;
}

static unsigned suspects_way(const struct mt_suspects *s, const struct mt_access_run *r)
{
    uint32_t type = mt_run_type(r) & 3;
    if (type != MT_ATOMIC && !mt_site_strong(s->sites, r->site))
        return type == MT_STORE ? STORED : LOADED;
    enum mt_scope scope = mt_site_scope(s->sites, r->site);
    return scope == MT_SCOPE_CTA || scope == MT_SCOPE_CLUSTER ? STRONG | NARROW : STRONG;
}

static int suspects_run(struct mt_suspects *s, struct mt_suspects_cta *c, const struct mt_access_run *r)
{
    int shared = mt_rec_space(mt_run_type(r)) == MT_IN_SHARED, known = r->mask && r->warp < WARPS;
    struct suspect_access a = {suspects_way(s, r), shared, shared || s->strict, 1};
    if (s->shuffled && a.way & STRONG && !shared && !mt_pairmap_get(&s->orders, s->number, c->cta, 1))
        return -1;
    int copy = s->copies && mt_pairmap_find(&s->announced, r->site - 1, 0) != NULL;
    uint32_t mask = r->mask, size = mt_run_size(r);
    if (!size)
        return 0;
    for (uint32_t i = 0; i < r->count; i++, mask &= mask - 1) {
        if (!s->alone)
            a.thread =
                known ? (uint16_t)(r->warp * LANES + (uint32_t)__builtin_ctz(mask) + 1) : (uint16_t)MANY;
        if (suspects_touch(s, c, &a, mt_run_address(r, i), size, copy) != 0)
            return -1;
    }
    return 0;
}

/* ---- barriers ---- */

/* A barrier at which all threads of the CTA have arrived begins an epoch; others are left to the second pass.
 */
static void suspects_barrier(struct mt_suspects *s, struct mt_suspects_cta *c, uint64_t number, uint32_t warp,
                             uint32_t lanes)
{
    if (number >= BARRIERS || warp >= WARPS)
        return;
    lanes &= ~c->lanes[number][warp];
    c->lanes[number][warp] |= lanes;
    c->arrived[number] += (uint32_t)__builtin_popcount(lanes);
    if (c->arrived[number] < s->most)
        return;
    c->epoch = ++s->epoch;
    c->arrived[number] = 0;
    memset(c->lanes[number], 0, sizeof c->lanes[number]);
}

static int suspects_sync(struct mt_suspects *s, struct mt_suspects_cta *c, const struct mt_access_run *r)
{
    uint32_t type = mt_run_type(r), size = mt_run_size(r), mask = r->mask;
    if (type == MT_SYNC_COPY && (size == MT_COPY_BEGINS || size == MT_SYNC_OF_OBJECT)) {
        s->copies = 1;
        return mt_pairmap_get(&s->announced, r->site, 0, 1) ? 0 : -1;
    }
    if (type != MT_SYNC_BARRIER || size != MT_SYNC_OF_NUMBER)
        return 0;
    for (uint32_t i = 0; i < r->count && mask; i++, mask &= mask - 1)
        suspects_barrier(s, c, mt_run_address(r, i), r->warp, mask & -mask);
    return 0;
}

/* ---- row ---- */

static int suspects_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_suspects *s = self;
    const struct mt_launch_event *e = l->event;
    suspects_end(s);
    s->number = s->stamp++;
    s->alone = !(e && e->barriers);
    s->most = e ? e->block[0] * e->block[1] * e->block[2] : UINT64_MAX;
    s->copies = 0;
    mt_pairmap_clear(&s->announced);
    return 0;
}

static int suspects_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_suspects *s = self;
    for (const struct mt_access_run *r = runs, *end = runs + n; r < end; r++) {
        uint32_t type = mt_run_type(r), space = mt_rec_space(type);
        int sync = type >= MT_SYNC_BARRIER;
        if (!sync && ((type & 3) > MT_ATOMIC || space == MT_IN_LOCAL || (s->alone && space != MT_IN_GLOBAL)))
            continue;
        struct mt_suspects_cta *c = suspects_cta(s, r->cta);
        if (!c || (sync ? suspects_sync(s, c, r) : suspects_run(s, c, r)) != 0)
            return -1;
    }
    return 0;
}

static void suspects_free(void *self)
{
    struct mt_suspects *s = self;
    suspects_end(s);
    for (size_t i = 0; i < s->npages; i++)
        free(s->pages[i].cells);
    free(s->pages);
    mt_pairmap_free(&s->at);
    mt_pairmap_free(&s->announced);
    mt_pairmap_free(&s->found);
    mt_pairmap_free(&s->launches);
    mt_pairmap_free(&s->orders);
    memset(s, 0, sizeof *s);
}

const struct mt_analysis mt_suspects_analysis = {
    .needs = MT_NEEDS_SPACES, .launch = suspects_launch, .runs = suspects_runs, .free = suspects_free};
