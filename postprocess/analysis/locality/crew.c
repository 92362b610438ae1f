/* Threads that feed the analyses of runs side by side. Each analysis takes all runs of a round in one go; who
 * is free takes the dearest one that nobody has taken yet: how dear they are, no table knows for every trace.
 */
#include "crew.h"
#include "base/thread.h"
#include <stdlib.h>

enum { WORTH = 64 }; /* runs, of which a member is worth waking */

struct mt_crew {
    struct mt_locality *more;
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    enum mt_locality_section sections[MT_LOCALITY_OF_RUNS]; /* those chosen, the dearest first */
    unsigned nsections;
    unsigned taken, ended; /* of the round's; both nsections: nothing is under way */
    int quit, failed;
    /* the round */
    const struct mt_run_launch *launch;
    const struct mt_access_run *runs;
    size_t nruns;
    unsigned count;
    pthread_t members[MT_LOCALITY_OF_RUNS];
};

/* Takes analyses until all are taken. With the lock, which is given up meanwhile. */
static void crew_take(struct mt_crew *c)
{
    while (c->taken < c->nsections) {
        const unsigned section = 1u << c->sections[c->taken++];
        int failed = c->failed;
        pthread_mutex_unlock(&c->lock);
        if (!failed)
            failed = mt_locality_feed(c->more, section, c->launch, c->runs, c->nruns);
        pthread_mutex_lock(&c->lock);
        c->failed |= failed != 0;
        if (++c->ended == c->nsections)
            pthread_cond_signal(&c->done);
    }
}

static void *crew_work(void *arg)
{
    struct mt_crew *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->quit) {
        crew_take(c);
        if (!c->quit)
            pthread_cond_wait(&c->begun, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void crew_list(struct mt_crew *c)
{
    for (unsigned i = 0; i < MT_LOCALITY_OF_RUNS; i++)
        if (mt_locality_has(c->more, mt_locality_by_cost(i)))
            c->sections[c->nsections++] = mt_locality_by_cost(i);
    c->taken = c->ended = c->nsections;
}

struct mt_crew *mt_crew_new(struct mt_locality *m, unsigned threads)
{
    struct mt_crew *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->more = m;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->begun, NULL);
    pthread_cond_init(&c->done, NULL);
    crew_list(c);
    const unsigned wanted = threads < c->nsections ? threads : c->nsections;
    while (c->count < wanted && mt_base_thread_start(&c->members[c->count], 0, crew_work, c) == 0)
        c->count++;
    if (c->count == wanted)
        return c;
    mt_crew_free(c);
    return NULL;
}

void mt_crew_begin(struct mt_crew *c, const struct mt_run_launch *launch, const struct mt_access_run *runs,
                   size_t n)
{
    pthread_mutex_lock(&c->lock);
    c->launch = launch;
    c->runs = runs;
    c->nruns = n;
    c->taken = c->ended = 0;
    if (n >= WORTH) /* else mt_crew_wait does it all, before anyone would be awake */
        pthread_cond_broadcast(&c->begun);
    pthread_mutex_unlock(&c->lock);
}

int mt_crew_wait(struct mt_crew *c)
{
    pthread_mutex_lock(&c->lock);
    crew_take(c); /* rather than stand by */
    while (c->ended < c->nsections)
        pthread_cond_wait(&c->done, &c->lock);
    int failed = c->failed;
    pthread_mutex_unlock(&c->lock);
    return failed ? -1 : 0;
}

void mt_crew_free(struct mt_crew *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->quit = 1;
    pthread_cond_broadcast(&c->begun);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->count; i++)
        pthread_join(c->members[i], NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->begun);
    pthread_cond_destroy(&c->done);
    free(c);
}
