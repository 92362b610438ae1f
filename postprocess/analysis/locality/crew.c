/* The analyses of runs side by side, in a pool. Each analysis takes all runs of a round in one go; who
 * is free takes the dearest one that nobody has taken yet: how dear they are, no table knows for every trace.
 */
#include "crew.h"
#include "reader/base/pool.h"
#include <stdlib.h>

enum { WORTH = 64 }; /* runs, for which a thread is worth waking */

struct mt_crew {
    struct mt_locality *more;
    struct mt_pool *pool;
    struct mt_work work;
    enum mt_locality_section sections[MT_LOCALITY_OF_RUNS]; /* those chosen, the dearest first */
    unsigned nsections;
    unsigned taken, ended; /* of the round's; both nsections: nothing is under way */
    int failed;
    /* the round */
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
        if (mt_locality_has(c->more, mt_locality_by_cost(i)))
            c->sections[c->nsections++] = mt_locality_by_cost(i);
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
    if (n >= WORTH) /* else mt_crew_wait does it all, before anyone would be awake */
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
