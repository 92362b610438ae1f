/* The threads of one source, for all that is done beside each other: reading, decoding, analyses. What is to
 * be done is a struct mt_work, done in pieces by whoever is free; and who must wait does pieces meanwhile, so
 * that all of it ends with no thread at all. One lock for all: a piece should take some ten microseconds. */
#ifndef MT_READER_POOL_H
#define MT_READER_POOL_H
#include <pthread.h>

struct mt_work {
    /* Does a piece, without the pool's lock meanwhile: 1. There is none now: 0, at once. With the lock. */
    int (*piece)(void *self);
    void *self;
    int alone; /* a piece begins when the one before has ended */
    /* the pool's */
    unsigned busy; /* pieces under way */
    pthread_cond_t done;
    struct mt_work *next;
};

struct mt_pool {
    pthread_mutex_t lock;
    pthread_cond_t more; /* there is something to do, or to quit for */
    struct mt_work *works;
    unsigned wanted, started, idle;
    int quit;
    pthread_t *threads;
};

/* `threads` beside those of who waits. They start when they are needed, as many as can be had. NULL: no
 * memory. */
struct mt_pool *mt_pool_new(unsigned threads);
/* After its works are removed. NULL is fine. */
void mt_pool_free(struct mt_pool *p);
/* What was added first is done first. */
void mt_pool_add(struct mt_pool *p, struct mt_work *w);
/* Waits for the pieces that are under way; none begins any more. */
void mt_pool_remove(struct mt_pool *p, struct mt_work *w);

/* With the lock: */
/* There are `pieces` more to do. */
void mt_pool_wake(struct mt_pool *p, unsigned pieces);
/* Does a piece, of this work if there is one; or waits until one of this work is done. */
void mt_pool_help(struct mt_pool *p, struct mt_work *w);

/* Of what mt_source_options.threads says, one at least (source.c). */
struct mt_source;
struct mt_pool *mt_source_pool(struct mt_source *s);
#endif
