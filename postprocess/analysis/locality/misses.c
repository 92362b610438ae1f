/* Cache misses of host programs, by source line. */
#include "misses.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

/* Cache line that is present. */
struct way {
    uint64_t line;  /* number of the line + 1; 0: none */
    uint64_t bytes; /* accessed bytes: a bit for each 1/64 of the line */
    size_t row;     /* row of the source line that fetched it */
};

struct mt_miss_cache {
    struct way *ways; /* sets one after the other; in a set, most recently used first */
};

static int misses_init(void *self, const struct mt_run_options *o)
{
    struct mt_misses *x = self;
    memset(x, 0, sizeof *x);
    x->options = *o;
    return 0;
}

static void misses_used(struct mt_misses *x, const struct way *w)
{
    const unsigned shift = x->options.line_bits > 6 ? x->options.line_bits - 6 : 0;
    if (w->line)
        x->list[w->row].used += (uint64_t)__builtin_popcountll(w->bytes) << shift;
}

/* Counts the used bytes of lines that are still present, and frees the caches. */
static void misses_close(struct mt_misses *x)
{
    for (size_t i = 0; i < x->ncaches; i++) {
        for (size_t k = 0; k < x->sets * x->options.cache_ways; k++)
            misses_used(x, &x->caches[i].ways[k]);
        free(x->caches[i].ways);
    }
    x->ncaches = 0;
    x->last = NULL;
    mt_pairmap_clear(&x->of_thread);
    mt_pairmap_clear(&x->of_line);
}

static int misses_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_misses *x = self;
    misses_close(x);
    x->launch = *launch;
    x->known |= launch->host != 0;
    x->sets = launch->host ? x->options.cache_bytes / x->options.cache_ways >> x->options.line_bits : 0;
    x->sets += x->sets == 0;
    return 0;
}

static struct mt_miss_cache *misses_cache(struct mt_misses *x, uint64_t thread)
{
    if (x->last && x->last_thread == thread)
        return x->last;
    uint64_t *at = mt_pairmap_get(&x->of_thread, thread, 0, x->ncaches);
    if (!at)
        return NULL;
    if (*at == x->ncaches) {
        if (mt_grow(&x->caches, &x->cache_room, x->ncaches + 1, sizeof *x->caches) != 0 ||
            !(x->caches[x->ncaches].ways = calloc(x->sets * x->options.cache_ways, sizeof(struct way))))
            return NULL;
        x->ncaches++;
    }
    x->last_thread = thread;
    return x->last = &x->caches[*at];
}

static size_t misses_row(struct mt_misses *x, uint32_t line)
{
    uint64_t *at = mt_pairmap_get(&x->of_line, line, 0, x->count);
    if (!at)
        return SIZE_MAX;
    if (*at == x->count) {
        if (mt_grow(&x->list, &x->room, x->count + 1, sizeof *x->list) != 0)
            return SIZE_MAX;
        x->list[x->count++] = (struct mt_miss){.kernel = x->launch.kernel, .line = line};
    }
    return *at;
}

/* Accesses bytes [from, to] of a cache line, both included. Returns 1 for a miss. */
static int misses_touch(struct mt_misses *x, struct mt_miss_cache *c, size_t row, uint64_t line,
                        uint64_t from, uint64_t to)
{
    const unsigned shift = x->options.line_bits > 6 ? x->options.line_bits - 6 : 0, n = x->options.cache_ways;
    const uint64_t bytes = (UINT64_MAX << (from >> shift)) & (UINT64_MAX >> (63 - (to >> shift)));
    struct way *set = c->ways + line % x->sets * n, w = {line + 1, 0, row};
    unsigned i = 0;
    while (i < n - 1 && set[i].line != line + 1)
        i++;
    const int missed = set[i].line != line + 1;
    if (missed) {
        misses_used(x, &set[i]);
        x->list[row].fetched += 1ull << x->options.line_bits;
    } else {
        w = set[i];
    }
    w.bytes |= bytes;
    memmove(set + 1, set, i * sizeof *set);
    set[0] = w;
    return missed;
}

static int misses_access(struct mt_misses *x, struct mt_miss_cache *c, size_t row, uint64_t address,
                         uint64_t size)
{
    const uint64_t line = 1ull << x->options.line_bits;
    int missed = 0;
    for (uint64_t n; size > 0; size -= n, address += n) {
        const uint64_t in = address & (line - 1);
        n = line - in < size ? line - in : size;
        missed |= misses_touch(x, c, row, address >> x->options.line_bits, in, in + n - 1);
    }
    return missed;
}

static int misses_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_misses *x = self;
    if (!x->launch.selected || !x->launch.host)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        if (mt_run_type(r) > MT_ATOMIC)
            continue;
        struct mt_miss_cache *c = misses_cache(x, r->cta);
        size_t row = misses_row(x, mt_site_line(x->launch.sites, r->site));
        if (!c || row == SIZE_MAX)
            return -1;
        uint64_t missed = 0;
        for (uint32_t k = 0; k < r->count; k++)
            missed += (uint64_t)misses_access(x, c, row, mt_run_address(r, k), mt_run_size(r));
        x->list[row].accesses += r->count;
        x->list[row].misses += missed;
        x->list[row].store_misses += mt_run_type(r) == MT_STORE ? missed : 0;
    }
    return 0;
}

static int misses_finish(void *self)
{
    misses_close(self);
    return 0;
}

static void misses_free(void *self)
{
    struct mt_misses *x = self;
    misses_close(x);
    free(x->list);
    free(x->caches);
    mt_pairmap_free(&x->of_thread);
    mt_pairmap_free(&x->of_line);
    memset(x, 0, sizeof *x);
}

const struct mt_analysis mt_misses_analysis = {
    .init = misses_init,
    .launch = misses_launch,
    .runs = misses_runs,
    .finish = misses_finish,
    .free = misses_free,
};
