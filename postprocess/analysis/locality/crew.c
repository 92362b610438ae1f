/* Threads that feed the analyses of runs side by side: each has some of them and takes all runs. */
#include "crew.h"
#include "reader/base/thread.h"
#include <stdlib.h>

struct member {
    struct mt_crew *crew;
    unsigned sections;
    pthread_t thread;
};

struct mt_crew {
    struct mt_locality *more;
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    uint64_t round;   /* tasks begun so far */
    unsigned working; /* members that are not done with the last one */
    int quit, failed;
    /* the task */
    const struct mt_run_launch *launch;
    const struct mt_access_run *runs;
    size_t nruns;
    unsigned count;
    struct member members[MT_LOCALITY_OF_RUNS];
};

static void *crew_work(void *arg)
{
    struct member *m = arg;
    struct mt_crew *c = m->crew;
    pthread_mutex_lock(&c->lock);
    for (uint64_t round = 1;; round++) {
        while (c->round < round && !c->quit)
            pthread_cond_wait(&c->begun, &c->lock);
        if (c->round < round)
            break;
        int failed = c->failed;
        pthread_mutex_unlock(&c->lock);
        if (!failed)
            failed = mt_locality_feed(c->more, m->sections, c->launch, c->runs, c->nruns);
        pthread_mutex_lock(&c->lock);
        c->failed |= failed != 0;
        if (--c->working == 0)
            pthread_cond_signal(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* The dear ones go to different threads. */
static void crew_deal(struct mt_crew *c, unsigned threads)
{
    unsigned next = 0;
    for (unsigned i = 0; i < MT_LOCALITY_OF_RUNS; i++)
        if (mt_locality_has(c->more, mt_locality_by_cost(i))) {
            c->members[next].sections |= 1u << mt_locality_by_cost(i);
            if (next == c->count)
                c->count++;
            next = next + 1 == threads ? 0 : next + 1;
        }
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
    crew_deal(c, threads ? threads : 1);
    unsigned started = 0;
    for (; started < c->count; started++) {
        c->members[started].crew = c;
        if (mt_thread_start(&c->members[started].thread, crew_work, &c->members[started]) != 0)
            break;
    }
    if (started == c->count)
        return c;
    c->count = started;
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
    c->round++;
    c->working = c->count;
    pthread_cond_broadcast(&c->begun);
    pthread_mutex_unlock(&c->lock);
}

int mt_crew_wait(struct mt_crew *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->working)
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
        pthread_join(c->members[i].thread, NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->begun);
    pthread_cond_destroy(&c->done);
    free(c);
}
