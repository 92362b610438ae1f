/* The analyses of locality.def together, and their concurrent feeding. */
#include "locality.h"
#include "reader/base/pool.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const struct mt_analysis *of;
    size_t at; /* offset of its struct in struct mt_locality */
    unsigned cost;
    int every;
} rows[MT_LOCALITY_OF_RUNS] = {
#define MT_ANALYSIS(NAME, name, cost, every, what)                                                           \
    {&mt_##name##_analysis, offsetof(struct mt_locality, name), cost, every},
#include "locality.def"
#undef MT_ANALYSIS
};

static void *locality_self(const struct mt_locality *m, int s)
{
    return (char *)m + rows[s].at;
}

const char *const mt_locality_names[MT_LOCALITY_SECTIONS] = {
#define MT_ANALYSIS(NAME, name, cost, every, what) #name,
#include "locality.def"
#undef MT_ANALYSIS
    "placement",
};

int mt_locality_init(struct mt_locality *m, const struct mt_locality_options *options,
                     const struct mt_alloc_event *allocs, size_t n)
{
    int rc = 0;
    memset(m, 0, sizeof *m);
    m->options = *options;
    m->options.analysis.allocs = m->allocs = allocs;
    m->options.analysis.nallocs = m->nallocs = n;
    for (int s = 0; s < MT_LOCALITY_OF_RUNS && rc == 0; s++)
        rc = rows[s].of->init(locality_self(m, s), &m->options.analysis);
    return rc ? -1 : 0;
}

static int locality_is_longer(const struct mt_access_run *r)
{
    return mt_run_size(r) > MT_LOCALITY_LONGEST;
}

/* Feeds all accesses but the longest, in ranges of runs. */
static int locality_feed_shorter(struct mt_locality *m, int s, const struct mt_access_run *runs, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && !locality_is_longer(&runs[end]);)
            end++;
        if (end > i && rows[s].of->runs(locality_self(m, s), runs + i, end - i) != 0)
            return -1;
        for (; end < n && locality_is_longer(&runs[end]); end++)
            m->longer[s] += runs[end].count;
    }
    return 0;
}

uint64_t mt_locality_longer(const struct mt_locality *m)
{
    uint64_t most = 0; /* each section leaves out the same ones */
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++)
        most = m->longer[s] > most ? m->longer[s] : most;
    return most;
}

/* Returns the section of the given rank by cost, most expensive first. */
static enum mt_locality_section locality_by_cost(unsigned rank)
{
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++) {
        unsigned dearer = 0;
        for (int k = 0; k < MT_LOCALITY_OF_RUNS; k++)
            dearer += rows[k].cost > rows[s].cost || (rows[k].cost == rows[s].cost && k < s);
        if (dearer == rank)
            return (enum mt_locality_section)s;
    }
    return MT_LOCALITY_OF_RUNS;
}

static int locality_tell(struct mt_locality *m, int s, const struct mt_run_launch *launch)
{
    if (!launch->moves)
        return rows[s].of->launch(locality_self(m, s), launch);
    if (rows[s].of->moves)
        rows[s].of->moves(locality_self(m, s), launch);
    return 0;
}

int mt_locality_feed(struct mt_locality *m, unsigned sections, const struct mt_run_launch *launch,
                     const struct mt_access_run *runs, size_t n)
{
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++) {
        if (!(m->options.chosen & sections & 1u << s))
            continue;
        if ((launch && locality_tell(m, s, launch) != 0) ||
            (rows[s].every ? rows[s].of->runs(locality_self(m, s), runs, n)
                           : locality_feed_shorter(m, s, runs, n)) != 0)
            return -1;
    }
    return 0;
}

int mt_locality_merge(struct mt_locality *into, struct mt_locality *from)
{
    int rc = 0;
    for (int s = 0; s < MT_LOCALITY_OF_RUNS && rc == 0; s++) {
        into->longer[s] += from->longer[s];
        rc = rows[s].of->merge ? rows[s].of->merge(locality_self(into, s), locality_self(from, s)) : 0;
    }
    return rc ? -1 : 0;
}

void mt_locality_pack(struct mt_parcel *p, const struct mt_locality *m)
{
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++)
        if (rows[s].of->pack)
            rows[s].of->pack(p, locality_self(m, s));
    mt_parcel_bytes(p, m->longer, sizeof m->longer);
}

void mt_locality_unpack(struct mt_unpack *u, struct mt_locality *m)
{
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++)
        if (rows[s].of->unpack)
            rows[s].of->unpack(u, locality_self(m, s));
    mt_unpack_bytes(u, m->longer, sizeof m->longer);
    u->failed |= u->at != u->end;
}

int mt_locality_finish(struct mt_locality *m)
{
    int rc = 0;
    for (int s = 0; s < MT_LOCALITY_OF_RUNS && rc == 0; s++)
        rc = rows[s].of->finish ? rows[s].of->finish(locality_self(m, s)) : 0;
    return rc ? -1 : 0;
}

void mt_locality_free(struct mt_locality *m)
{
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++)
        rows[s].of->free(locality_self(m, s));
    memset(m, 0, sizeof *m);
}

/* ---- concurrent feeding in a pool ----
 * Each analysis takes all runs of a round at once; an idle thread takes the most expensive one that is left,
 * since actual costs depend on the trace. */

enum { WORTH = 64 }; /* minimum number of runs for which a thread is woken */

struct mt_crew {
    struct mt_locality *more;
    struct mt_pool *pool;
    struct mt_work work;
    enum mt_locality_section sections[MT_LOCALITY_OF_RUNS]; /* chosen sections, most expensive first */
    unsigned nsections;
    unsigned taken, ended; /* numbers of sections in this round; both nsections: nothing is in progress */
    int failed;
    /* input of the round */
    const struct mt_run_launch *launch;
    const struct mt_access_run *runs;
    size_t nruns;
};

static int crew_piece(void *self)
{
    struct mt_crew *c = self;
    if (c->taken == c->nsections)
        return 0;
    const unsigned section = 1u << c->sections[c->taken++];
    int failed = c->failed;
    pthread_mutex_unlock(&c->pool->lock);
    if (!failed)
        failed = mt_locality_feed(c->more, section, c->launch, c->runs, c->nruns);
    pthread_mutex_lock(&c->pool->lock);
    c->failed |= failed != 0;
    c->ended++;
    return 1;
}

static void crew_list(struct mt_crew *c)
{
    for (unsigned i = 0; i < MT_LOCALITY_OF_RUNS; i++)
        if (mt_locality_has(c->more, locality_by_cost(i)))
            c->sections[c->nsections++] = locality_by_cost(i);
    c->taken = c->ended = c->nsections;
}

struct mt_crew *mt_crew_new(struct mt_locality *m, struct mt_pool *pool)
{
    struct mt_crew *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->more = m;
    c->pool = pool;
    c->work = (struct mt_work){.piece = crew_piece, .self = c};
    crew_list(c);
    mt_pool_add(pool, &c->work);
    return c;
}

void mt_crew_begin(struct mt_crew *c, const struct mt_run_launch *launch, const struct mt_access_run *runs,
                   size_t n)
{
    pthread_mutex_lock(&c->pool->lock);
    c->launch = launch;
    c->runs = runs;
    c->nruns = n;
    c->taken = c->ended = 0;
    if (n >= WORTH) /* otherwise mt_crew_wait finishes before a thread would wake up */
        mt_pool_wake(c->pool, c->nsections);
    pthread_mutex_unlock(&c->pool->lock);
}

int mt_crew_wait(struct mt_crew *c)
{
    pthread_mutex_lock(&c->pool->lock);
    while (c->ended < c->nsections)
        mt_pool_help(c->pool, &c->work);
    int failed = c->failed;
    pthread_mutex_unlock(&c->pool->lock);
    return failed ? -1 : 0;
}

void mt_crew_free(struct mt_crew *c)
{
    if (!c)
        return;
    mt_pool_remove(c->pool, &c->work);
    free(c);
}
