/* Threads of ours in the program: its signals are for its own threads. */
#ifndef MT_BASE_THREAD_H
#define MT_BASE_THREAD_H
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

/* Starts one with all signals blocked, or all but those of faults, where it runs code of the program whose
 * handlers must get them. `thread` NULL: detached. 0, or an errno as of pthread_create. */
static inline int mt_base_thread_start(pthread_t *thread, int faults, void *(*run)(void *), void *arg)
{
    static const int of_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    pthread_attr_t attr;
    pthread_t detached;
    sigset_t blocked, old;
    sigfillset(&blocked);
    for (size_t i = 0; faults && i < sizeof of_faults / sizeof *of_faults; i++)
        sigdelset(&blocked, of_faults[i]);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, thread ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    int e = pthread_create(thread ? thread : &detached, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return e;
}

/* So many milliseconds from now, for pthread_cond_clockwait with CLOCK_MONOTONIC. */
static inline struct timespec mt_base_in_ms(unsigned ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}
#endif
