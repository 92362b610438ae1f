/* Threads of ours get no signals: those are the business of the program's first thread. */
#ifndef MT_LIB_THREAD_H
#define MT_LIB_THREAD_H
#include <pthread.h>
#include <signal.h>

/* 0, or an errno as of pthread_create. */
static inline int mt_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}
#endif
