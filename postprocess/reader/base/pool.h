/* Thread pool of a source, for reading, decoding and analyses. A struct mt_work is done in pieces by any idle
 * thread; a thread that must wait does pieces meanwhile, so everything completes even without pool threads.
 * There is one lock for all: a piece should take some ten microseconds. */
#ifndef MT_READER_POOL_H
#define MT_READER_POOL_H
#include <pthread.h>

struct mt_work {
    /* Does a piece without the pool's lock and returns 1, or 0 at once if there is none. Called with the
     * lock. */
    int (*piece)(void *self);
    void *self;
    int alone; /* 1: a piece begins only after the one before has ended */
    /* fields of the pool */
    unsigned busy; /* number of pieces in progress */
    pthread_cond_t done;
    struct mt_work *next;
};

struct mt_pool {
    pthread_mutex_t lock;
    pthread_cond_t more; /* signalled when there is work, or at the end */
    struct mt_work *works;
    unsigned wanted, started, idle;
    int quit;
    pthread_t *threads;
};

/* Creates a pool of `threads`, in addition to threads that wait. They start on demand, as many as the system
 * allows. Returns NULL without memory. */
struct mt_pool *mt_pool_new(unsigned threads);
/* Frees the pool after its works are removed. NULL is allowed. */
void mt_pool_free(struct mt_pool *p);
/* Adds a work. Works are done in the order in which they were added. */
void mt_pool_add(struct mt_pool *p, struct mt_work *w);
/* Removes a work after waiting for its pieces in progress; none begins any more. */
void mt_pool_remove(struct mt_pool *p, struct mt_work *w);

/* Functions to be called with the lock: */
/* Announces `pieces` more pieces. */
void mt_pool_wake(struct mt_pool *p, unsigned pieces);
/* Does a piece, of this work if there is one; otherwise waits until a piece of this work is done. */
void mt_pool_help(struct mt_pool *p, struct mt_work *w);

/* Returns the pool of a source. It has mt_source_options.threads threads, at least one. */
struct mt_source;
struct mt_pool *mt_source_pool(struct mt_source *s);
#endif
