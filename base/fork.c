/* Makes fork safe in programs with several threads. The child has one thread, and locks that others held
 * would stay locked there, with their data half changed. */
#include "fork.h"
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

#define PATIENCE_NS 500000000 /* a thread that forks in a signal handler may hold a lock itself */
#define LOCKS_MAX 128

/* Bounds of the table of locks; programs linked with parts of the library have none. */
extern const struct mt_fork_lock __start_mt_fork_locks[] __attribute__((weak, visibility("hidden")));
extern const struct mt_fork_lock __stop_mt_fork_locks[] __attribute__((weak, visibility("hidden")));

const int mt_fork_taker = 1;
static unsigned char taken[LOCKS_MAX]; /* locks taken before fork, used only by the forking thread */
static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;

/* The C library's own functions. ThreadSanitizer puts others in front of them that count the locks a thread
 * holds, and end the program at the 65th. */
static int (*lock_mutex)(pthread_mutex_t *, const struct timespec *) = pthread_mutex_timedlock;
static int (*unlock_mutex)(pthread_mutex_t *) = pthread_mutex_unlock;
static int (*lock_table)(pthread_rwlock_t *, const struct timespec *) = pthread_rwlock_timedwrlock;
static int (*unlock_table)(pthread_rwlock_t *) = pthread_rwlock_unlock;

static size_t fork_count(void)
{
    size_t n = __start_mt_fork_locks ? (size_t)(__stop_mt_fork_locks - __start_mt_fork_locks) : 0;
    return n < LOCKS_MAX ? n : LOCKS_MAX;
}

static int fork_take(const struct mt_fork_lock *l, const struct timespec *until)
{
    return l->kind == MT_FORK_RWLOCK ? !lock_table(l->lock, until) : !lock_mutex(l->lock, until);
}

static void fork_give_back(const struct mt_fork_lock *l)
{
    if (l->kind == MT_FORK_RWLOCK)
        unlock_table(l->lock);
    else
        unlock_mutex(l->lock);
}

static void fork_before(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    lock_mutex(&forking, &until);
    for (int order = 0; order < MT_FORK_ORDERS; order++)
        for (size_t i = 0; i < fork_count(); i++)
            if ((int)__start_mt_fork_locks[i].order == order)
                taken[i] = (unsigned char)fork_take(&__start_mt_fork_locks[i], &until);
}

static void in_parent(void)
{
    for (size_t i = 0; i < fork_count(); i++) {
        int ours = taken[i];
        taken[i] = 0;
        if (ours)
            fork_give_back(&__start_mt_fork_locks[i]);
    }
    unlock_mutex(&forking);
}

/* Initialises the locks anew in the child: a lock remembers its owner by thread number, and that number
 * differs here. */
static void fork_in_child(void)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    for (size_t i = 0; i < fork_count(); i++) {
        const struct mt_fork_lock *l = &__start_mt_fork_locks[i];
        taken[i] = 0;
        if (l->kind == MT_FORK_RWLOCK)
            pthread_rwlock_init(l->lock, NULL);
        else
            pthread_mutex_init(l->lock, l->kind == MT_FORK_RECURSIVE ? &recursive : NULL);
    }
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&forking, NULL);
}

static void fork_find_functions(void)
{
    void *c = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *found[] = {
        c ? dlsym(c, "pthread_mutex_timedlock") : NULL, c ? dlsym(c, "pthread_mutex_unlock") : NULL,
        c ? dlsym(c, "pthread_rwlock_timedwrlock") : NULL, c ? dlsym(c, "pthread_rwlock_unlock") : NULL};
    if (!found[0] || !found[1] || !found[2] || !found[3])
        return;
    *(void **)&lock_mutex = found[0];
    *(void **)&unlock_mutex = found[1];
    *(void **)&lock_table = found[2];
    *(void **)&unlock_table = found[3];
}

__attribute__((constructor(101))) static void fork_install(void)
{
    fork_find_functions();
    pthread_atfork(fork_before, in_parent, fork_in_child);
}
