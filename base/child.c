/* Starts programs of memtrace beside the traced one. */
#include "child.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK 65536

struct start {
    const struct mt_child *child;
    char path[PATH_MAX]; /* "": search PATH only */
    char **environment;
    int error;
    pid_t pid;
    char stack[2][STACK];
};

/* Moves the descriptors to their numbers, after moving all of them out of each other's way. Returns 0 or -1.
 */
static int child_descriptors(const int *from)
{
    int up[MT_CHILD_FDS], null = open("/dev/null", O_RDWR);
    for (int i = 0; i < MT_CHILD_FDS; i++) {
        int fd = from[i] >= 0 && fcntl(from[i], F_GETFD) >= 0 ? from[i] : null;
        up[i] = i == 3 && from[i] < 0 ? -1 : fcntl(fd, F_DUPFD, 2 * MT_CHILD_FDS);
        if (up[i] < 0 && i < 3)
            return -1;
    }
    for (int i = 0; i < MT_CHILD_FDS; i++)
        if (up[i] >= 0 && dup2(up[i], i) < 0)
            return -1;
    syscall(SYS_close_range, from[3] < 0 ? 3u : 4u, ~0u, 0u);
    return 0;
}

/* clone, by a name that sanitizers do not intercept. ThreadSanitizer's clone takes a child that shares memory
 * for a fork, and ends the program or ignores the calling thread from then on. */
extern int __clone(int (*run)(void *), void *stack, int flags, void *arg, ...);

/* Runs in the child, which shares the program's memory until exec. So it must not call sigaction or _exit of
 * a sanitizer, which keep state there. */
static int child_run(void *start)
{
    struct start *s = start;
    const long plain[4] = {0}; /* the kernel's struct sigaction, with SIG_DFL */
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        syscall(SYS_rt_sigaction, i, plain, NULL, NSIG / 8);
    setsid(); /* no Ctrl-C from the terminal */
    if (!child_descriptors(s->child->fd)) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (*s->path)
            execve(s->path, s->child->words, s->environment);
        if (!s->child->file || !*s->child->file)
            execvpe(s->child->words[0], s->child->words, s->environment);
    }
    s->error = errno ? errno : ENOENT;
    syscall(SYS_exit_group, 127);
    return 127;
}

/* Runs in the intermediate process, which exits at once so that the new process is not a child of the
 * program. */
static int child_between(void *start)
{
    struct start *s = start;
    s->pid = __clone(child_run, s->stack[1] + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (s->pid < 0)
        s->error = errno;
    syscall(SYS_exit_group, 0);
    return 0;
}

/* Returns the path of this library. Called when the library is loaded: later, another thread may hold the
 * dynamic linker's lock. */
static const char *child_self(void)
{
    static const char *_Atomic self;
    Dl_info info;
    if (!self && dladdr((void *)(uintptr_t)&mt_child_start, &info))
        self = info.dli_fname;
    return self;
}

__attribute__((constructor)) static void child_loaded(void)
{
    child_self();
}

void mt_child_file(const struct mt_child *c, char *path, size_t size)
{
    const char *self = child_self();
    char whole[PATH_MAX], *end;
    *path = 0;
    if (c->file && *c->file) {
        snprintf(path, size, "%s", c->file);
        return;
    }
    if (!self || !realpath(self, whole))
        return;
    for (int up = 0; up < 4 && (end = strrchr(whole, '/'));
         up++) { /* up from lib, or from lib/x86_64-linux-gnu/memtrace */
        *end = 0;
        snprintf(path, size, "%s/libexec/memtrace/%s", whole, c->words[0]);
        if (up && access(path, X_OK) == 0)
            return;
    }
    *path = 0;
}

/* Copies the program's environment without the variables that load libraries into it. The array is malloc'ed.
 */
static char **child_environment(void)
{
    static const char *const left_out[] = {"LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "LD_BIND_NOT="};
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    char **e = malloc((n + 1) * sizeof *e);
    for (size_t i = 0; e && i < n && environ[i]; i++) {
        int out = 0;
        for (size_t k = 0; k < sizeof left_out / sizeof *left_out; k++)
            out |= !strncmp(environ[i], left_out[k], strlen(left_out[k]));
        if (!out)
            e[kept++] = environ[i];
    }
    if (e)
        e[kept] = NULL;
    return e;
}

/* Starts the process. qemu refuses children without an exit signal and treats CLONE_VFORK as fork: there the
 * child gets SIGCHLD and a copy of the memory. */
static void child_begin(struct start *s)
{
    sigset_t all, old;
    sigfillset(&all); /* no handler of the program may run in the child */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int pid = __clone(child_between, s->stack[0] + STACK, CLONE_VM | CLONE_VFORK, s);
    if (pid < 0 && errno == EINVAL)
        pid = __clone(child_between, s->stack[0] + STACK, SIGCHLD, s);
    if (pid < 0)
        s->error = errno;
    else
        while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
        }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static pid_t child_failed(const struct mt_child *c, const char *path, int error, char *why, size_t size)
{
    snprintf(why, size, "%s cannot be started (%s): %s", c->words[0], *path ? path : "it is not in PATH",
             strerror(error));
    return -1;
}

pid_t mt_child_start(const struct mt_child *c, char *why, size_t size)
{
    /* shared memory, so that the result comes back from a fork as well */
    struct start *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s == MAP_FAILED)
        return child_failed(c, c->words[0], errno, why, size);
    s->child = c;
    s->environment = child_environment();
    mt_child_file(c, s->path, sizeof s->path);
    if (s->environment)
        child_begin(s);
    else
        s->error = ENOMEM;
    free(s->environment);
    pid_t pid = s->error ? child_failed(c, s->path, s->error, why, size) : s->pid;
    munmap(s, sizeof *s);
    return pid;
}
