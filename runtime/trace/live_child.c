/* Starts the mt-extract of MEMTRACE_SINK. */
#define _GNU_SOURCE
#include "live_child.h"
#include "base/fd.h"
#include "live.h"
#include "base/options.h"
#include "base/report.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIX "extract:"
#define WORDS 64
#define STACK 65536

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *words[WORDS + 1]; /* of mt-extract; NULL: MEMTRACE_SINK is not set, or no good */

/* ---- MEMTRACE_SINK ------------------------------------------------------------------------------ */

/* %p is the process's number. */
static char *file_name(const char *from, size_t n)
{
    char *name = malloc(PATH_MAX);
    size_t at = 0;
    for (size_t i = 0; name && i < n && at + 24 < PATH_MAX; i++)
        if (from[i] == '%' && i + 1 < n && from[i + 1] == 'p') {
            at += (size_t)snprintf(name + at, 24, "%ld", (long)getpid());
            i++;
        } else
            name[at++] = from[i];
    if (name)
        name[at] = 0;
    return name;
}

static void read_option(void)
{
    const char *text = mt_options()->sink;
    unsigned n = 0;
    if (!*text)
        return;
    size_t length = strncmp(text, PREFIX, strlen(PREFIX)) ? 0 : strcspn(text + strlen(PREFIX), " ");
    if (!length) {
        mt_report(
            "MEMTRACE_SINK=%s: not extract:FILE, or extract:FILE and options of mt-extract after blanks; "
            "traces go to files",
            text);
        return;
    }
    char *rest = strdup(text + strlen(PREFIX) + length), *save = NULL;
    words[n++] = (char *)"mt-extract";
    words[n++] = (char *)"--live";
    words[n++] = (char *)"-o";
    words[n++] = file_name(text + strlen(PREFIX), length);
    for (char *w = rest ? strtok_r(rest, " ", &save) : NULL; w && n < WORDS; w = strtok_r(NULL, " ", &save))
        words[n++] = w;
}

int mt_live_wanted(void)
{
    pthread_once(&once, read_option);
    return words[0] != NULL;
}

/* ---- the process -------------------------------------------------------------------------------- */

struct start {
    char path[PATH_MAX]; /* of mt-extract beside us; then the one in PATH is tried */
    int socket, error;
    char *top[2]; /* of two stacks */
};

/* It shares our memory until it runs mt-extract. */
static int live_child_extractor(void *start)
{
    struct start *s = start;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &plain, NULL);
    setsid();                               /* Ctrl-C is for the program */
    int null = open("/dev/null", O_WRONLY); /* any number: the program may have closed 0, 1 or 2 */
    if (dup2(null, 1) < 0 || (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0) || dup2(s->socket, 0) < 0)
        goto fail;
    syscall(SYS_close_range, 3u, ~0u, 0u);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(s->path, words);
    execvp(words[0], words);
fail:
    s->error = errno ? errno : ENOENT;
    _exit(127);
}

/* Its parent ends at once, so it is no child of the program. */
static int live_child_between(void *start)
{
    struct start *s = start;
    int pid = clone(live_child_extractor, s->top[1], CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (pid < 0)
        s->error = errno;
    _exit(0);
}

static void live_child_find(char *path, size_t size)
{
    Dl_info info;
    char *end;
    *path = 0;
    if (!dladdr((void *)(uintptr_t)&mt_live_child, &info) || !realpath(info.dli_fname, path) ||
        !(end = strrchr(path, '/')))
        return;
    *end = 0;
    end = strrchr(path, '/');
    if (end)
        snprintf(end, size - (size_t)(end - path), "/bin/mt-extract");
}

int mt_live_child(char *why, size_t size)
{
    struct start s = {.error = 0};
    int pair[2], pid = -1;
    sigset_t all, old;
    char *stacks = malloc(2 * STACK);
    if (!mt_live_wanted() || !stacks || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        snprintf(why, size, "mt-extract cannot be started: %s", strerror(stacks ? errno : ENOMEM));
        free(stacks);
        return -1;
    }
    pair[0] = mt_fd_up(pair[0]);
    pair[1] = mt_fd_up(pair[1]);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){4 << 20}, sizeof(int));
    live_child_find(s.path, sizeof s.path);
    s.socket = pair[1];
    s.top[0] = stacks + STACK;
    s.top[1] = stacks + 2 * STACK;
    sigfillset(&all); /* no handler of the program may run there */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = clone(live_child_between, s.top[0], CLONE_VM | CLONE_VFORK, &s);
    if (pid < 0)
        s.error = errno;
    else
        while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR) {
        }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    close(pair[1]);
    free(stacks);
    if (!s.error)
        return pair[0];
    close(pair[0]);
    snprintf(why, size, "mt-extract cannot be started (%s): %s", s.path, strerror(s.error));
    return -1;
}
