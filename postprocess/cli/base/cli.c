/* What the mt- programs share: filters, inputs, exit codes. */
#define _GNU_SOURCE
#include "cli.h"
#include "memtrace/container.h"
#include "memtrace/grow.h"
#include "memtrace/host.h"
#include "kind.h"
#include "stop.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS_DEFAULT = 32 };

void mt_cli_waits(const char *path)
{
    struct stat st;
    if (isatty(STDERR_FILENO) && stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
        mt_cli_note("%s: is a pipe: waits until a program opens it to write", path);
}

void mt_cli_version(void)
{
    printf("%s (memtrace) %s\n", mt_cli_name, MEMTRACE_VERSION);
}

int mt_cli_exit_code(const struct mt_error *err)
{
    switch (err->code) {
    case MT_E_INPUT:
        return MT_EXIT_USAGE;
    case MT_E_TRUNCATED:
    case MT_E_CORRUPT:
    case MT_E_STOPPED:
        return MT_EXIT_INPUT;
    default:
        return MT_EXIT_FAILURE;
    }
}

int mt_cli_failed(const struct mt_error *err)
{
    mt_cli_say("%s", err->message);
    return mt_cli_exit_code(err);
}

/* ---- inputs ---- */

int mt_inputs_companion(struct mt_inputs *in, const char *path)
{
    if (mt_grow(&in->companions, &in->companion_room, in->ncompanions + 1, sizeof *in->companions) != 0)
        return mt_cli_fail("no memory");
    in->companions[in->ncompanions++] = path;
    mt_output_spare(path);
    return 0;
}

/* Does `path` name the companion of one of the others? A pattern like MemTrace-pipe-* finds both. */
static int is_companion(const char *path, char *const *others)
{
    size_t n = strlen(path);
    if (n < 6 || strcmp(path + n - 5, ".meta") != 0)
        return 0;
    for (; *others; others++)
        if (strlen(*others) == n - 5 && strncmp(*others, path, n - 5) == 0)
            return 1;
    return 0;
}

void mt_inputs_take(struct mt_inputs *in, int argc, char **argv)
{
    char **first = argv + optind, **to = first;
    for (int i = optind; i < argc; i++)
        if (!is_companion(argv[i], first))
            *to++ = argv[i];
    *to = NULL;
    in->paths = (const char *const *)first;
    in->npaths = (size_t)(to - first);
    for (size_t i = 0; i < in->npaths; i++)
        mt_output_spare(in->paths[i]);
}

static int cli_fit(const struct mt_inputs *in)
{
    if (in->fds)
        return 0;
    if (in->npaths == 0)
        return mt_cli_usage("no trace given");
    if (in->ncompanions > in->npaths)
        return mt_cli_usage("%zu companions for %zu traces", in->ncompanions, in->npaths);
    for (size_t i = 0; i < in->npaths; i++) {
        enum mt_kind kind = mt_kind_of(in->paths[i]);
        if (kind == MT_KIND_TRACE || (kind == MT_KIND_CONTAINER && in->flags & MT_SOURCE_HOST))
            continue;
        return mt_kind_refuse(in->paths[i], kind, mt_kind_name(MT_KIND_TRACE));
    }
    return 0;
}

unsigned mt_cli_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > THREADS_DEFAULT ? THREADS_DEFAULT : (unsigned)n;
}

struct mt_source *mt_inputs_source(struct mt_inputs *in, int *code)
{
    *code = cli_fit(in);
    if (*code)
        return NULL;
    mt_stop_together(in->on);
    for (size_t i = 0; !in->fds && i < in->npaths; i++)
        mt_cli_waits(in->paths[i]);
    struct mt_source_options o = {.flags = in->flags,
                                  .companions = in->companions,
                                  .ncompanions = in->ncompanions,
                                  .stop = in->on ? NULL : &mt_cli_stop,
                                  .ends = in->ends,
                                  .first = in->first,
                                  .end = in->end,
                                  .fds = in->fds,
                                  .threads = in->threads ? in->threads : mt_cli_processors()};
    struct mt_error err;
    struct mt_source *s = mt_source_open(in->paths, in->npaths, &o, &err);
    if (!s) {
        mt_cli_say("%s", err.message);
        if (err.code == MT_E_INPUT && err.sys == ENOENT && strstr(err.message, "MemTrace"))
            mt_cli_say(
                "a traced program writes its traces from its first kernel launch on, into MEMTRACE_DIR (/tmp "
                "by default); with MEMTRACE_VERBOSE=1 it says where");
        *code = mt_cli_exit_code(&err);
    }
    return s;
}

struct mt_source *mt_inputs_open(struct mt_inputs *in, int argc, char **argv, int *code)
{
    mt_inputs_take(in, argc, argv);
    return (*code = mt_inputs_folders(in)) ? NULL : mt_inputs_source(in, code);
}

int mt_inputs_spaces(const struct mt_inputs *in)
{
    for (size_t i = 0; i < in->npaths; i++)
        if (mt_container_features(in->paths[i]) & MT_MTC_HAS_SPACES)
            return 1;
    return 0;
}

int mt_inputs_finish(struct mt_source *s, int *complete)
{
    size_t notes, problems;
    const char *const *note = mt_source_notes(s, &notes, complete);
    const struct mt_error *problem = mt_source_problems(s, &problems);
    int lacks = mt_source_lacks(s);
    for (size_t i = 0; i < notes; i++)
        lacks ? mt_cli_say("%s", note[i]) : mt_cli_note("%s", note[i]);
    for (size_t i = 0; i < problems; i++)
        if (problem[i].code == MT_E_SYSTEM)
            return MT_EXIT_FAILURE;
    if (!*complete && !lacks)
        *complete = -1;
    return lacks < 0 ? mt_cli_fail("no memory for the notes on the trace")
           : lacks   ? MT_EXIT_INPUT
                     : MT_EXIT_OK;
}
