/* Starts the mt-extract of MEMTRACE_SINK. */
#define _GNU_SOURCE
#include "live_child.h"
#include "base/child.h"
#include "base/fd.h"
#include "live.h"
#include "base/options.h"
#include "base/report.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PREFIX "extract:"
#define WORDS 64

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

int mt_live_child(char *why, size_t size)
{
    int pair[2];
    if (!mt_live_wanted() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        snprintf(why, size, "mt-extract cannot be started: %s", strerror(errno));
        return -1;
    }
    pair[0] = mt_fd_up(pair[0]);
    pair[1] = mt_fd_up(pair[1]);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){4 << 20}, sizeof(int));
    struct mt_child c = {.words = words, .fd = {pair[1], -1, STDERR_FILENO, -1}};
    pid_t pid = mt_child_start(&c, why, size);
    close(pair[1]);
    if (pid > 0)
        return pair[0];
    close(pair[0]);
    return -1;
}
