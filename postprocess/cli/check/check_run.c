/* A program under `memtrace run`, with what is to be checked. */
#define _GNU_SOURCE
#include "check.h"
#include "cli/base/stop.h"
#include "base/part.h"
#include "base/run.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int mt_check_wants_group(const struct mt_check_choice *c, enum mt_finding_group group)
{
    for (int i = 0; i < MT_FINDING_KINDS; i++)
        if (mt_check_wants(c, (enum mt_finding_kind)i) && mt_finding_rules[i].group == group)
            return 1;
    return 0;
}

static void run_environment(const struct mt_check_choice *choice, int stop)
{
    setenv("MEMTRACE_CHECK", stop ? "stop" : "1", 1);
    setenv("MEMTRACE_FORMAT", "compact", 1);
    setenv("MEMTRACE_ENABLE", "1", 1);
    setenv("MEMTRACE_PATTERN", "MemTrace-%p-pipe-?", 1); /* of all programs that it runs */
    setenv("MEMTRACE_QUIET", "1", 0);
    if (mt_check_wants_group(choice, MT_FINDING_RACE))
        setenv("MEMTRACE_CPU_THREADS", "1", 0); /* CTAs of a launch then have an order in the trace */
    else if (!mt_check_wants_group(choice, MT_FINDING_INIT) && !mt_check_wants_group(choice, MT_FINDING_USE))
        setenv("MEMTRACE_KERNELS", "!.", 0); /* the runtime finds them: no accesses are needed */
}

/* Somebody wants an end of both: it was told to this program, or the terminal told it to both. */
static void run_stopped(const struct mt_program_run *child)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (child->passed == ends[i] || child->ended == ends[i]) {
            mt_cli_note("signal %d: what the program's trace has is told", ends[i]);
            mt_stop_soon(ends[i]);
            return;
        }
}

int mt_check_run(char **argv, const char *folder, const struct mt_check_choice *choice, int stop, int *code)
{
    static char device[] = "-dcpu", shared[] = "--spaces=global,shared", global[] = "--spaces=global",
                end[] = "--", called[] = "memtrace check";
    char run[PATH_MAX], output[PATH_MAX + 16];
    size_t n = 0, at = 0;
    while (argv[n])
        n++;
    char **words = calloc(n + 8, sizeof *words);
    if (!words)
        return mt_cli_fail("no memory");
    struct mt_program_run child = {.path = run, .argv = words};
    int rc = mt_files_beside(run, "mt-run") ? mt_cli_fail("%s: %s", run, strerror(errno)) : 0;
    snprintf(output, sizeof output, "--output=%s", folder);
    words[at++] = called; /* what it says is ours */
    words[at++] = device;
    words[at++] = output;
    words[at++] =
        mt_check_wants_group(choice, MT_FINDING_RACE) || mt_check_wants(choice, MT_FINDING_OF_UNWRITTEN)
            ? shared
            : global;
    words[at++] = end;
    memcpy(words + at, argv, n * sizeof *words);
    run_environment(choice, stop);
    *code = rc ? 0 : mt_child_run(&child);
    free(words);
    if (rc == 0 && *code < 0)
        return mt_cli_fail("%s: %s", run, strerror(child.why));
    if (rc == 0)
        run_stopped(&child);
    return rc;
}
