/* Wrappers for the ways out of a program: each closes the trace. (exit and a return from main: our
 * destructor, after all others.) */
#include "entry.h"
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t owner; /* a child of vfork shares our memory, and must not close the trace */

void mt_stop(int killed)
{
    int saved = errno;
    if (mt_phase != MT_PHASE_ON || (pid_t)syscall(SYS_getpid) != owner)
        return;
    struct mt_core_thread *t = NULL;
    if (killed && mt_self.inside) { /* a fault of the tracer: nobody will release this thread's locks */
        mt_phase = MT_PHASE_OFF;
        mt_core_incomplete("stopped inside the tracer; the trace has no end");
        return;
    }
    mt_enter();
    if (!killed)
        t = mt_llvm_thread();
    else if (mt_self.core)
        mt_handlers_end(); /* their entries would wait for an access that never comes */
    mt_self.busy++;
    mt_phase = MT_PHASE_OFF;
    if (t) { /* the thread that ends the program ends with it */
        mt_thread_off();
        mt_core_thread_end(t);
    }
    mt_core_stop(killed);
    mt_self.busy--;
    mt_leave();
    errno = saved;
}

static void exit_quick(void)
{
    mt_stop(0);
}

static void in_child(void)
{
    if (mt_phase != MT_PHASE_ON)
        return;
    mt_phase = MT_PHASE_OFF;
    mt_core_forked();
    mt_thread_off();
}

void mt_exit_open(void)
{
    owner = getpid();
    pthread_atfork(NULL, mt_core_child, in_child);
    at_quick_exit(exit_quick);
}

__attribute__((destructor)) static void at_unload(void)
{
    mt_stop(0);
}

MT_ENTRY void _exit(int status)
{
    mt_stop(0);
    for (;;)
        syscall(SYS_exit_group, status);
}

MT_ENTRY void _Exit(int status)
{
    _exit(status);
}

/* ---- exec: the program goes on only if it fails, untraced ---- */

#define EXEC(name, params, types, ...)                                                                       \
    MT_ENTRY int name params                                                                                 \
    {                                                                                                        \
        int(*real) types = (int(*) types)mt_next(#name);                                                     \
        mt_stop(0);                                                                                          \
        return real(__VA_ARGS__);                                                                            \
    }

EXEC(execve, (const char *path, char *const argv[], char *const env[]),
     (const char *, char *const *, char *const *), path, argv, env)
EXEC(execv, (const char *path, char *const argv[]), (const char *, char *const *), path, argv)
EXEC(execvp, (const char *file, char *const argv[]), (const char *, char *const *), file, argv)
EXEC(execvpe, (const char *file, char *const argv[], char *const env[]),
     (const char *, char *const *, char *const *), file, argv, env)
EXEC(fexecve, (int fd, char *const argv[], char *const env[]), (int, char *const *, char *const *), fd, argv,
     env)

/* Returns the number of words with the NULL after them. */
static size_t exit_count(const char *first, va_list args)
{
    size_t n = 1;
    for (const char *word = first; word; n++)
        word = va_arg(args, const char *);
    return n;
}

/* Copies the list that follows `first` into `argv`; the environment follows it if `env`. */
static void exit_gather(char **argv, const char *first, va_list args, char *const **env)
{
    argv[0] = (char *)(uintptr_t)first;
    for (size_t n = 0; argv[n]; n++)
        argv[n + 1] = va_arg(args, char *);
    if (env)
        *env = va_arg(args, char *const *);
}

/* A list of the length that the program passed: on its stack, as it may be between vfork and exec. */
#define EXEC_LIST(name, call, env)                                                                           \
    MT_ENTRY int name(const char *path, const char *first, ...)                                              \
    {                                                                                                        \
        char *const *environment = NULL;                                                                     \
        va_list args;                                                                                        \
        va_start(args, first);                                                                               \
        char *argv[exit_count(first, args)];                                                                 \
        va_end(args);                                                                                        \
        va_start(args, first);                                                                               \
        exit_gather(argv, first, args, env);                                                                 \
        va_end(args);                                                                                        \
        (void)environment;                                                                                   \
        return call;                                                                                         \
    }

EXEC_LIST(execl, execv(path, argv), NULL)
EXEC_LIST(execlp, execvp(path, argv), NULL)
EXEC_LIST(execle, execve(path, argv, environment), &environment)
