/* The ways out of a program: each closes the trace. (exit and a return from main: our destructor, after all
 * others.) */
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
    struct mt_core_thread *t = killed ? NULL : mt_thread();
    mt_self.busy++;
    mt_phase = MT_PHASE_OFF;
    if (t) { /* whoever ends the program ends with it */
        mt_thread_off();
        mt_core_thread_end(t);
    }
    mt_core_stop(killed);
    mt_self.busy--;
    errno = saved;
}

static void quick(void)
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
    pthread_atfork(NULL, NULL, in_child);
    at_quick_exit(quick);
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

/* The list that follows `first` as an array, in `argv` of `room`; the environment behind it if `env`. -1: too
 * long. */
static int gather(char **argv, unsigned room, const char *first, va_list args, char *const **env)
{
    unsigned n = 0;
    argv[n++] = (char *)first;
    while (argv[n - 1]) {
        if (n == room)
            return -1;
        argv[n++] = va_arg(args, char *);
    }
    if (env)
        *env = va_arg(args, char *const *);
    return 0;
}

#define EXEC_LIST(name, call, env)                                                                           \
    MT_ENTRY int name(const char *path, const char *first, ...)                                              \
    {                                                                                                        \
        char *argv[4096], *const *environment = NULL;                                                        \
        va_list args;                                                                                        \
        va_start(args, first);                                                                               \
        int rc = gather(argv, sizeof argv / sizeof *argv, first, args, env);                                 \
        va_end(args);                                                                                        \
        (void)environment;                                                                                   \
        if (rc) {                                                                                            \
            errno = E2BIG;                                                                                   \
            return -1;                                                                                       \
        }                                                                                                    \
        return call;                                                                                         \
    }

EXEC_LIST(execl, execv(path, argv), NULL)
EXEC_LIST(execlp, execvp(path, argv), NULL)
EXEC_LIST(execle, execve(path, argv, environment), &environment)
