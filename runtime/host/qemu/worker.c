#define _GNU_SOURCE
#include "worker.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
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
    sigset_t all, before;
    if (!w)
        return ENOMEM;
    *w = (struct worker){.run = run, .arg = arg};
    sigfillset(&all); /* signals are the guest's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&w->thread, NULL, worker_work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
