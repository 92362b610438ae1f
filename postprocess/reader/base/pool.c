/* Thread pool of a source. */
#define _GNU_SOURCE
#include "pool.h"
#include "base/thread.h"
#include <stdlib.h>

static int pool_try(struct mt_work *w)
{
    if (w->alone && w->busy)
        return 0;
    w->busy++;
    int did = w->piece(w->self);
    w->busy--;
    if (did)
        pthread_cond_broadcast(&w->done);
    return did;
}

static int pool_try_all(struct mt_pool *p)
{
    for (struct mt_work *w = p->works; w; w = w->next)
        if (pool_try(w))
            return 1;
    return 0;
}

static void *pool_work(void *arg)
{
    struct mt_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        if (pool_try_all(p))
            continue;
        p->idle++;
        pthread_cond_wait(&p->more, &p->lock);
        p->idle--;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct mt_pool *mt_pool_new(unsigned threads)
{
    struct mt_pool *p = calloc(1, sizeof *p);
    if (!p || !(p->threads = calloc(threads + 1, sizeof *p->threads))) {
        free(p);
        return NULL;
    }
    p->wanted = threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    return p;
}

void mt_pool_free(struct mt_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->threads[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->more);
    free(p->threads);
    free(p);
}

void mt_pool_add(struct mt_pool *p, struct mt_work *w)
{
    struct mt_work **at = &p->works;
    pthread_cond_init(&w->done, NULL);
    pthread_mutex_lock(&p->lock);
    while (*at)
        at = &(*at)->next;
    *at = w;
    pthread_mutex_unlock(&p->lock);
}

void mt_pool_remove(struct mt_pool *p, struct mt_work *w)
{
    struct mt_work **at = &p->works;
    pthread_mutex_lock(&p->lock);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    while (w->busy)
        pthread_cond_wait(&w->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
    pthread_cond_destroy(&w->done);
}

void mt_pool_wake(struct mt_pool *p, unsigned pieces)
{
    while (p->started < p->wanted && mt_base_thread_start(&p->threads[p->started], 0, pool_work, p) == 0)
        p->started++;
    p->wanted = p->started;
    for (unsigned i = 0; i < pieces && i < p->idle; i++)
        pthread_cond_signal(&p->more);
}

void mt_pool_help(struct mt_pool *p, struct mt_work *w)
{
    if (pool_try(w) || pool_try_all(p))
        mt_pool_wake(p, 1); /* another thread may have looked meanwhile and found nothing */
    else
        pthread_cond_wait(&w->done, &p->lock);
}
