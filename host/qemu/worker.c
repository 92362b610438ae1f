/* A thread of our own inside qemu, for mt_core_engine.spawn and join. It takes no signals, as those are
 * the guest's. */
#define _GNU_SOURCE
#include "worker.h"
#include "base/thread.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct worker {
    pthread_t thread;
    void (*run)(void *);
    void *arg;
};

static void *worker_work(void *worker)
{
    struct worker *w = worker;
    w->run(w->arg);
    return NULL;
}

int mt_worker_spawn(void (*run)(void *), void *arg, void **handle)
{
    struct worker *w = malloc(sizeof *w);
    if (!w)
        return ENOMEM;
    *w = (struct worker){.run = run, .arg = arg};
    int e = mt_base_thread_start(&w->thread, 0, worker_work, w); /* signals are the guest's */
    if (e)
        free(w);
    else
        *handle = w;
    return e;
}

void mt_worker_join(void *handle)
{
    struct worker *w = handle;
    pthread_join(w->thread, NULL);
    free(w);
}
