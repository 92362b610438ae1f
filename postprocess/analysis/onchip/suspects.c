/* Words that may have hazards, by who accessed them since the last barrier and in which CTAs. */
#include "suspects.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGEST = 1 << 20, /* bytes of an access: more than any instruction moves */
    WORD = 4,
    GROUP = 16,
    GROUPS = 16,
    PAGE_WORDS = GROUP * GROUPS,
    BARRIERS = 16,
    LANES = 32,
    WARPS = 32,
    SHARED_PAGES = (1 << 20) / WORD / PAGE_WORDS, /* more than any GPU has */
    MOST_CTAS = 1 << 13,                          /* CTAs with a state; the oldest one makes room */
    MOST_PAGES = 1 << 20,                         /* 1 GiB of global memory */
    MANY = UINT16_MAX                             /* several threads */
};

/* What has been done to a word. */
enum { STORED = 1, LOADED = 2, STRONG = 4, NARROW = 8, SEVERAL = 16, FOUND = 32 };

/* Of words one after the other that were all accessed together, each by the next thread: what is known of the
 * first one. */
struct suspect_group {
    uint32_t epoch, owner;
    uint16_t store, load, strong, flags;
};

/* Words one after the other. */
struct mt_suspects_page {
    uint64_t first; /* number of the first word */
    uint32_t stamp;
    uint32_t apart; /* a bit for each group whose words are told apart below */
    struct suspect_group group[GROUPS];
    uint32_t epoch[PAGE_WORDS]; /* of the threads below */
    uint32_t owner[PAGE_WORDS]; /* the first CTA's number + 1 */
    uint16_t store[PAGE_WORDS], load[PAGE_WORDS],
        strong[PAGE_WORDS];     /* thread + 1 since the epoch began, or MANY */
    uint16_t flags[PAGE_WORDS]; /* since the launch began */
};

struct mt_suspects_cta {
    uint64_t cta;
    uint32_t number, epoch;
    uint32_t arrived[BARRIERS]; /* threads that have arrived */
    uint32_t lanes[BARRIERS][WARPS];
    struct mt_suspects_page *shared[SHARED_PAGES];
};

/* ---- found words ---- */

static int suspects_add(struct mt_suspects *s, const struct mt_suspects_page *p, int shared, uint32_t i)
{
    uint64_t word = p->first + i;
    uint64_t *mask = mt_pairmap_get(&s->found, (uint64_t)s->number << 1 | (unsigned)shared, word >> 6, 0);
    if (!mask || !mt_pairmap_get(&s->launches, s->number, 0, 1))
        return -1;
    *mask |= 1ull << (word & 63);
    return 0;
}

int mt_suspects_launched(const struct mt_suspects *s, uint32_t number)
{
    return mt_pairmap_find(&s->launches, number, 0) != NULL;
}

/* ---- CTAs ---- */

/* Begins a CTA in the place of the oldest one, or of one of an earlier launch. */
static struct mt_suspects_cta *suspects_open(struct mt_suspects *s, uint64_t cta)
{
    struct mt_suspects_cta **at = &s->ctas[s->opened % MOST_CTAS], *c = *at;
    if (!c && !(c = *at = calloc(1, sizeof *c)))
        return NULL;
    c->cta = cta;
    c->number = s->opened++;
    c->epoch = ++s->epoch;
    for (int i = 0; i < BARRIERS; i++) {
        if (c->arrived[i])
            memset(c->lanes[i], 0, sizeof c->lanes[i]);
        c->arrived[i] = 0;
    }
    return c;
}

static struct mt_suspects_cta *suspects_cta(struct mt_suspects *s, uint64_t cta)
{
    struct mt_suspects_cta *c = s->current;
    if (c && c->cta == cta)
        return c;
    uint64_t *at = mt_pairmap_get(&s->numbers, cta, 0, s->opened);
    if (!at || (!s->ctas && !(s->ctas = calloc(MOST_CTAS, sizeof *s->ctas))))
        return NULL;
    if (*at + MOST_CTAS < s->opened) { /* it made room: what it did before is forgotten */
        s->unseen++;
        *at = s->opened;
    }
    return s->current = *at == s->opened ? suspects_open(s, cta) : s->ctas[*at % MOST_CTAS];
}

/* Ends the launch's CTAs. */
static void suspects_end(struct mt_suspects *s)
{
    s->current = NULL;
    s->opened = 0;
    mt_pairmap_clear(&s->numbers);
}

/* ---- pages ---- */

/* Begins the launch in a page, which may be new. */
static struct mt_suspects_page *suspects_fresh(struct mt_suspects_page **at, uint64_t number, uint32_t stamp)
{
    struct mt_suspects_page *p = *at;
    if (p && p->stamp == stamp)
        return p;
    if (!p && !(p = *at = malloc(sizeof *p)))
        return NULL;
    memset(p->group, 0, sizeof p->group);
    p->apart = 0;
    p->first = number * PAGE_WORDS;
    p->stamp = stamp;
    return p;
}

/* Returns the page of that number, or NULL: too many, or no memory with *failed 1. */
static struct mt_suspects_page *suspects_page_new(struct mt_suspects *s, struct mt_suspects_cta *c,
                                                  int shared, uint64_t number, int *failed)
{
    if (shared && number >= SHARED_PAGES)
        return NULL;
    if (shared) {
        struct mt_suspects_page *p = suspects_fresh(&c->shared[number], number, s->stamp);
        *failed = !p;
        return p;
    }
    uint64_t *at = mt_pairmap_get(&s->at, number, 0, s->npages);
    *failed = !at || mt_grow(&s->pages, &s->pages_room, s->npages + 1, sizeof *s->pages) != 0;
    if (*failed || *at >= MOST_PAGES)
        return NULL;
    if (*at == s->npages)
        s->pages[s->npages++] = NULL;
    *failed = !(s->last = suspects_fresh(&s->pages[*at], number, s->stamp));
    return s->last;
}

static inline struct mt_suspects_page *suspects_page(struct mt_suspects *s, struct mt_suspects_cta *c,
                                                     int shared, uint64_t number, int *failed)
{
    struct mt_suspects_page *p = !shared ? s->last : number < SHARED_PAGES ? c->shared[number] : NULL;
    return p && p->first == number * PAGE_WORDS && p->stamp == s->stamp
               ? p
               : suspects_page_new(s, c, shared, number, failed);
}

/* ---- accesses ---- */

struct suspect_access {
    unsigned way;      /* STORED, LOADED, STRONG, STRONG | NARROW */
    int shared, mixed; /* mixed: a plain load and a strong access count */
    int copy;          /* 1: asynchronous copies, which happen later */
    uint32_t epoch, owner;
};

/* Touches a word. Returns 0 unless threads may race at it, as of this access. Without branches, so that rows
 * of words are made of vectors. */
static inline __attribute__((always_inline)) uint16_t suspect_word(uint32_t *epoch, uint32_t *owner,
                                                                   uint16_t *store, uint16_t *load,
                                                                   uint16_t *strong, uint16_t *flags,
                                                                   const struct suspect_access *a,
                                                                   unsigned way, uint16_t t)
{
    const uint16_t mixed = a->mixed ? MANY : 0, across = a->shared ? 0 : SEVERAL;
    const uint16_t kept = *epoch == a->epoch ? MANY : 0;
    uint16_t s = *store & kept, l = *load & kept, g = *strong & kept;
    const uint16_t of_s = s && s != t ? 1 : 0, of_l = l && l != t ? 1 : 0, of_g = g && g != t ? 1 : 0;
    const uint16_t f = (uint16_t)(*flags | way | (*owner && *owner != a->owner ? SEVERAL : 0));
    uint16_t bad = of_s | (way == STORED ? of_l | of_g : way == LOADED ? of_g & mixed : of_l & mixed);
    bad |= f & across && f & (STORED | NARROW) ? 1 : 0;
    bad |= f & across && mixed && (f & (LOADED | STRONG)) == (LOADED | STRONG) ? 1 : 0;
    const uint16_t found = bad && !(f & FOUND) ? 1 : 0;
    *store = way != STORED ? s : !s || s == t ? t : MANY;
    *load = way != LOADED ? l : !l || l == t ? t : MANY;
    *strong = !(way & STRONG) ? g : !g || g == t ? t : MANY;
    *epoch = a->epoch;
    *owner = *owner ? *owner : a->owner;
    *flags = found ? f | FOUND : f;
    return found;
}

/* Touches n words, the first by this thread and the others by `step` further ones each. Returns 0 if no
 * found[i] is 1. */
static inline __attribute__((always_inline)) uint16_t suspect_words(struct mt_suspects_page *p,
                                                                    uint32_t first, uint32_t n,
                                                                    const struct suspect_access *a,
                                                                    unsigned way, uint16_t thread,
                                                                    uint16_t step, uint16_t *found)
{
    uint16_t *store = p->store + first, *load = p->load + first, *strong = p->strong + first,
             *flags = p->flags + first, any = 0;
    uint32_t *epoch = p->epoch + first, *owner = p->owner + first;
    for (uint32_t i = 0; i < n; i++)
        any |= found[i] = suspect_word(&epoch[i], &owner[i], &store[i], &load[i], &strong[i], &flags[i], a,
                                       way, (uint16_t)(thread + i * step));
    return any;
}

/* The same for several processors: what is chosen when the program starts. */
#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__
#define FOR_PROCESSORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_PROCESSORS
#endif

FOR_PROCESSORS static uint16_t suspect_row(struct mt_suspects_page *p, uint32_t first, uint32_t n,
                                           const struct suspect_access *a, uint16_t thread, uint16_t step,
                                           uint16_t *found)
{
    if (a->way == STORED)
        return suspect_words(p, first, n, a, STORED, thread, step, found);
    if (a->way == LOADED)
        return suspect_words(p, first, n, a, LOADED, thread, step, found);
    return suspect_words(p, first, n, a, a->way, thread, step, found);
}

/* ---- groups ---- */

/* Gives the words of a group what is known of the first one. */
static void suspects_spread(uint16_t *words, uint16_t of, uint16_t step)
{
    const uint16_t by = of && of != MANY ? step : 0;
    for (uint16_t i = 0; i < GROUP; i++)
        words[i] = (uint16_t)(of + i * by);
}

/* Tells the words of a group apart from now on. */
static void suspects_part(const struct mt_suspects *s, struct mt_suspects_page *p, uint32_t group)
{
    const struct suspect_group *g = &p->group[group];
    const uint32_t at = group * GROUP;
    p->apart |= 1u << group;
    for (uint32_t i = at; i < at + GROUP; i++) {
        p->epoch[i] = g->epoch;
        p->owner[i] = g->owner;
    }
    suspects_spread(&p->store[at], g->store, !s->alone);
    suspects_spread(&p->load[at], g->load, !s->alone);
    suspects_spread(&p->strong[at], g->strong, !s->alone);
    suspects_spread(&p->flags[at], g->flags, 0);
}

static void suspects_part_all(const struct mt_suspects *s, struct mt_suspects_page *p, uint32_t first,
                              uint32_t n)
{
    for (uint32_t g = first / GROUP; g <= (first + n - 1) / GROUP; g++)
        if (!(p->apart >> g & 1))
            suspects_part(s, p, g);
}

/* Touches the words of a page from this one on: a group, or at most `n`. *done: how many. step: the next
 * thread, or 0 for one thread. */
static int suspects_some(struct mt_suspects *s, struct mt_suspects_page *p, const struct suspect_access *a,
                         uint32_t first, uint32_t n, uint16_t thread, uint16_t step, uint32_t *done)
{
    uint16_t found[LANES], any;
    struct suspect_group *g = &p->group[first / GROUP];
    if (first % GROUP == 0 && n >= GROUP && step == !s->alone && !(p->apart >> first / GROUP & 1)) {
        *done = GROUP;
        any =
            suspect_word(&g->epoch, &g->owner, &g->store, &g->load, &g->strong, &g->flags, a, a->way, thread);
        for (uint32_t i = 0; i < GROUP; i++)
            found[i] = any;
    } else {
        *done = n < LANES ? n : LANES;
        suspects_part_all(s, p, first, *done);
        any = suspect_row(p, first, *done, a, thread, step, found);
    }
    for (uint32_t i = 0; (any || a->copy) && i < *done; i++)
        if ((found[i] || a->copy) && suspects_add(s, p, a->shared, first + i) != 0)
            return -1;
    return 0;
}

/* Touches `n` words from this one on: of a row of threads, or of one. */
static int suspects_touch(struct mt_suspects *s, struct mt_suspects_cta *c, const struct suspect_access *a,
                          uint64_t word, uint64_t n, uint16_t thread, uint16_t step)
{
    int failed = 0;
    for (uint32_t part; n; n -= part, word += part, thread = (uint16_t)(thread + part * step)) {
        uint32_t first = (uint32_t)(word % PAGE_WORDS), left = PAGE_WORDS - first;
        struct mt_suspects_page *p = suspects_page(s, c, a->shared, word / PAGE_WORDS, &failed);
        part = n < left ? (uint32_t)n : left;
        if (failed || (p && suspects_some(s, p, a, first, part, thread, step, &part) != 0))
            return -1;
        s->unseen += !p;
    }
    return 0;
}

/* Touches one word. */
static inline int suspects_one(struct mt_suspects *s, struct mt_suspects_cta *c,
                               const struct suspect_access *a, uint64_t word, uint16_t thread)
{
    int failed = 0;
    const uint32_t i = (uint32_t)(word % PAGE_WORDS);
    struct mt_suspects_page *p = suspects_page(s, c, a->shared, word / PAGE_WORDS, &failed);
    if (!p) {
        s->unseen += !failed;
        return -failed;
    }
    if (!(p->apart >> i / GROUP & 1))
        suspects_part(s, p, i / GROUP);
    return !suspect_word(&p->epoch[i], &p->owner[i], &p->store[i], &p->load[i], &p->strong[i], &p->flags[i],
                         a, a->way, thread) &&
                   !a->copy
               ? 0
               : suspects_add(s, p, a->shared, i);
}

/* Returns how many accesses from i on are one after the other, or all of one word (*step 1, 0). */
static uint32_t suspects_alike(const struct mt_access_run *r, uint32_t i, uint16_t *step)
{
    uint64_t first = mt_run_address(r, i);
    uint32_t n = i + 1;
    *step = 0;
    if (n == r->count || first % WORD)
        return 1;
    uint64_t by = mt_run_address(r, n) - first;
    if (by != WORD && by)
        return 1;
    *step = by == WORD;
    if (!r->addresses)
        return r->count - i;
    while (n < r->count && r->addresses[n] - first == (n - i) * by)
        n++;
    return n - i;
}

/* Touches the words of accesses from i on, by the next lane of a mask. Returns how many accesses that were,
 * or 0 without memory. together: 1 if accesses one after the other are by lanes one after the other. */
static uint32_t suspects_next(struct mt_suspects *s, struct mt_suspects_cta *c,
                              const struct suspect_access *a, const struct mt_access_run *r, uint32_t i,
                              uint32_t mask, int together)
{
    uint64_t address = mt_run_address(r, i), word = address / WORD,
             last = (address + mt_run_size(r) - 1) / WORD;
    uint16_t step = 0, thread = s->alone ? 1 : (uint16_t)MANY;
    uint32_t n = together ? suspects_alike(r, i, &step) : 1;
    if (n > 1 && !step && a->way != LOADED) /* threads that write one word are told apart */
        n = 1;
    if (!s->alone && mask && r->warp < WARPS && (step || n == 1))
        thread = (uint16_t)(r->warp * LANES + (uint32_t)__builtin_ctz(mask) + 1);
    int rc = !step && word == last
                 ? suspects_one(s, c, a, word, thread)
                 : suspects_touch(s, c, a, word, step ? n : last - word + 1, thread, s->alone ? 0 : step);
    return rc == 0 ? n : 0;
}

/* Touches the words of a run by the threads of a warp, of which all between the first and the last take part,
 * or by unknown ones. */
static int suspects_each(struct mt_suspects *s, struct mt_suspects_cta *c, const struct suspect_access *a,
                         const struct mt_access_run *r, int dense)
{
    const int together = (s->alone || (dense && r->warp < WARPS)) && mt_run_size(r) == WORD &&
                         (r->addresses || r->stride == WORD || r->stride == 0);
    uint32_t mask = r->mask;
    for (uint32_t i = 0, n; i < r->count; i += n) {
        if (!(n = suspects_next(s, c, a, r, i, mask, together)))
            return -1;
        for (uint32_t k = 0; k < n && i + n < r->count; k++)
            mask &= mask - 1;
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
    int shared = mt_rec_space(mt_run_type(r)) == MT_IN_SHARED;
    struct suspect_access a = {.way = suspects_way(s, r),
                               .shared = shared,
                               .mixed = shared || s->strict,
                               .copy = s->copies && mt_pairmap_find(&s->announced, r->site - 1, 0) != NULL,
                               .epoch = c->epoch,
                               .owner = c->number + 1};
    if (!mt_run_size(r) || !r->count)
        return 0;
    if (s->shuffled && a.way & STRONG && !shared && !mt_pairmap_get(&s->orders, s->number, c->cta, 1))
        return -1;
    uint32_t lanes = r->mask ? r->mask >> __builtin_ctz(r->mask) : 0;
    return suspects_each(s, c, &a, r, lanes && !(lanes & (lanes + 1)));
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
    s->library = e && e->library && *e->library;
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
        if (!sync && mt_run_size(r) >
                         LARGEST) { /* of a damaged trace, mostly: its size would be no bound of the work */
            s->unseen += s->library ? 0 : r->count;
            continue;
        }
        struct mt_suspects_cta *c = suspects_cta(s, r->cta);
        if (!c || (sync ? suspects_sync(s, c, r) : suspects_run(s, c, r)) != 0)
            return -1;
    }
    return 0;
}

/* Frees what finding needs, but not what was found. */
static int suspects_finish(void *self)
{
    struct mt_suspects *s = self;
    suspects_end(s);
    for (size_t i = 0; s->ctas && i < MOST_CTAS && s->ctas[i]; i++) {
        for (size_t k = 0; k < SHARED_PAGES; k++)
            free(s->ctas[i]->shared[k]);
        free(s->ctas[i]);
    }
    for (size_t i = 0; i < s->npages; i++)
        free(s->pages[i]);
    free((void *)s->ctas);
    free((void *)s->pages);
    s->ctas = NULL;
    s->pages = NULL;
    s->last = NULL;
    s->npages = s->pages_room = 0;
    mt_pairmap_free(&s->at);
    mt_pairmap_free(&s->announced);
    mt_pairmap_free(&s->numbers);
    return 0;
}

static void suspects_free(void *self)
{
    struct mt_suspects *s = self;
    (void)suspects_finish(s);
    mt_pairmap_free(&s->found);
    mt_pairmap_free(&s->launches);
    mt_pairmap_free(&s->orders);
    memset(s, 0, sizeof *s);
}

const struct mt_analysis mt_suspects_analysis = {.needs = MT_NEEDS_SPACES,
                                                 .launch = suspects_launch,
                                                 .runs = suspects_runs,
                                                 .finish = suspects_finish,
                                                 .free = suspects_free};
