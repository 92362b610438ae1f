/* A program under `memtrace run`, with what is to be checked. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int mt_check_wants_group(const struct mt_check_choice *c, enum mt_finding_group group)
{
    for (int i = 0; i < MT_FINDING_KINDS; i++)
        if (mt_check_wants(c, (enum mt_finding_kind)i) && mt_finding_rules[i].group == group)
            return 1;
    return 0;
}

/* The program beside this one. */
static int run_beside(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - sizeof "mt-run");
    char *slash = n > 0 ? (path[n] = 0, strrchr(path, '/')) : NULL;
    if (!slash)
        return mt_cli_fail("/proc/self/exe: %s", strerror(errno));
    strcpy(slash + 1, "mt-run");
    return 0;
}

static void run_environment(const struct mt_check_choice *choice, int stop)
{
    setenv("MEMTRACE_CHECK", stop ? "stop" : "1", 1);
    setenv("MEMTRACE_FORMAT", "compact", 1);
    setenv("MEMTRACE_ENABLE", "1", 1);
    setenv("MEMTRACE_QUIET", "1", 0);
    if (mt_check_wants_group(choice, MT_FINDING_RACE))
        setenv("MEMTRACE_CPU_THREADS", "1", 0); /* CTAs of a launch then have an order in the trace */
    else if (!mt_check_wants_group(choice, MT_FINDING_INIT) && !mt_check_wants_group(choice, MT_FINDING_USE))
        setenv("MEMTRACE_KERNELS", "!.", 0); /* the runtime finds them: no accesses are needed */
}

static int run_wait(pid_t child)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before[2];
    int status = 0;
    sigaction(SIGINT, &ignore, &before[0]); /* it is the program's to decide; what there is is told then */
    sigaction(SIGQUIT, &ignore, &before[1]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGQUIT, &before[1], NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int mt_check_run(char **argv, const char *folder, const struct mt_check_choice *choice, int stop, int *code)
{
    static char device[] = "-dcpu", shared[] = "--spaces=global,shared", global[] = "--spaces=global",
                end[] = "--";
    char run[PATH_MAX], output[PATH_MAX + 16];
    size_t n = 0, at = 0;
    pid_t child;
    while (argv[n])
        n++;
    char **words = calloc(n + 8, sizeof *words);
    if (!words)
        return mt_cli_fail("no memory");
    int rc = run_beside(run, sizeof run);
    snprintf(output, sizeof output, "--output=%s", folder);
    words[at++] = run;
    words[at++] = device;
    words[at++] = output;
    words[at++] = mt_check_wants_group(choice, MT_FINDING_RACE) ? shared : global;
    words[at++] = end;
    memcpy(words + at, argv, n * sizeof *words);
    run_environment(choice, stop);
    int e = rc ? 0 : posix_spawn(&child, run, NULL, NULL, words, environ);
    free(words);
    if (e)
        return mt_cli_fail("%s: %s", run, strerror(e));
    if (rc == 0)
        *code = run_wait(child);
    return rc;
}
