/* Threads of memtrace within the program, which must not receive the program's signals. */
#ifndef MT_BASE_THREAD_H
#define MT_BASE_THREAD_H
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

/* Starts a thread with all signals blocked; with `faults`, all but fault signals, for threads that run the
 * program's code and whose faults its handlers must get. `thread` NULL: detached. Returns 0, or an errno
 * value as pthread_create does. */
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

/* Returns the time in `ms` milliseconds, for pthread_cond_clockwait with CLOCK_MONOTONIC. */
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
