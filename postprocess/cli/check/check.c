/* memtrace check: the command line, and what is told. */
#define _GNU_SOURCE
#include "check.h"
#include "cli/base/commands.h"
#include "cli/base/kind.h"
#include "cli/base/stop.h"
#include "base/files.h"
#include "output/findings/findings_out.h"
#include "output/text/numbers.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct mt_command command = {
    .of = MT_OF_CHECK,
    .before =
        "Usage: memtrace check [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
        "       memtrace check [OPTION]... TRACE...\n"
        "Runs a CUDA program on the CPU device and says what it does that it should not: accesses outside "
        "of buffers,\n"
        "reads of what nobody wrote, races, calls that fail, memory that leaks. No GPU is needed.\n"
        "\n"
        "  memtrace check ./app                          as it is; python3 script.py, too\n"
        "  memtrace check -f sarif -o app.sarif ./app    for a pipeline: exit code 1 if there is something\n"
        "  memtrace check --kinds race ./app             races alone\n"
        "  memtrace check run-1                          what a trace that is there says (the newest in a "
        "folder)\n",
    .after =
        "Exit code: 1 there are errors or warnings; 2 wrong usage; else the program's own (of traces: 0, "
        "or 3 when one is\n"
        "damaged or incomplete). Hints make no difference.\n",
    .stops = 1,
    .wrong = mt_cli_usage,
};

enum format { TEXT, JSON, SARIF };
enum { KEPT_NAMED = 8 }; /* traces of a run that are named */

struct options {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_check_choice choice;
    const char *output, *suppress, *keep;
    enum format format;
    int stop;
};

/* "race,uninitialised": words of kinds and of groups, with ! in front to leave them out. 0, or MT_EXIT_USAGE
 * after saying why. */
static int check_choose(struct mt_check_choice *c, const char *list)
{
    const char *words[MT_FINDING_KINDS + MT_FINDING_GROUPS + 2] = {NULL};
    int n = 0, first = 1;
    for (int i = 0; i < MT_FINDING_GROUPS; i++)
        words[n++] = mt_finding_groups[i];
    for (int i = 0; i < MT_FINDING_KINDS; i++)
        words[n++] = mt_finding_rules[i].word;
    words[n] = "all";
    for (; *list; first = 0) {
        int leave = *list == '!';
        size_t length = strcspn(list += leave, ",");
        int at = 0;
        while (words[at] && (strlen(words[at]) != length || strncmp(words[at], list, length) != 0))
            at++;
        if (!words[at]) {
            mt_cli_hint(list, length, words);
            return mt_cli_usage("'%.*s' is no kind of finding", (int)length, list);
        }
        uint32_t bits = 0;
        for (int i = 0; i < MT_FINDING_KINDS; i++)
            if (at == n ||
                (at < MT_FINDING_GROUPS ? (int)mt_finding_rules[i].group == at : i == at - MT_FINDING_GROUPS))
                bits |= 1u << i;
        c->kinds = leave ? c->kinds & ~bits : (first ? 0 : c->kinds) | bits;
        list += length + (list[length] == ',');
    }
    return c->kinds && !first ? 0 : mt_cli_usage("--kinds leaves nothing to look for");
}

static int check_option(void *arg, int o)
{
    static const char *const formats[] = {"text", "json", "sarif", NULL};
    struct options *x = arg;
    int format;
    switch (o) {
    case MT_OPT_FORMAT:
        if ((format = mt_cli_word(optarg, formats)) < 0)
            return mt_cli_usage("'%s' is not a format: text, json or sarif", optarg);
        x->format = (enum format)format;
        return 0;
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_KINDS:
        return check_choose(&x->choice, optarg);
    case MT_OPT_SUPPRESS:
        x->suppress = optarg;
        return 0;
    case MT_OPT_KEEP:
        x->keep = optarg;
        return 0;
    case MT_OPT_STOP:
        x->stop = 1;
        return 0;
    default:
        return mt_common_option(o, &x->inputs, &x->filter);
    }
}

/* ---- where the trace of a run is ---- */

static int check_is_entry(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* Which traces are there now, beside those of earlier runs. */
static void check_kept(const char *keep, struct dirent *const *list, int n)
{
    int traces = 0;
    for (int i = 0; i < n; i++) {
        const char *end = strrchr(list[i]->d_name, '.');
        if (end && strcmp(end, ".mtc") == 0 && ++traces <= KEPT_NAMED)
            mt_cli_note("kept: %s/%s", keep, list[i]->d_name);
    }
    if (traces > KEPT_NAMED)
        mt_cli_note("kept: %d more traces in %s", traces - KEPT_NAMED, keep);
}

/* What is in the folder, to the one above, where it is to be kept. */
static void check_move(const char *folder, const char *keep)
{
    struct dirent **list = NULL;
    int from = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC),
        to = open(keep, O_PATH | O_DIRECTORY | O_CLOEXEC),
        n = from >= 0 && to >= 0 ? scandir(folder, &list, check_is_entry, alphasort) : 0;
    for (int i = 0; i < n; i++)
        if (renameat(from, list[i]->d_name, to, list[i]->d_name) != 0)
            mt_cli_say("%s/%s: %s", keep, list[i]->d_name, strerror(errno));
    check_kept(keep, list, n);
    for (int i = 0; i < n; i++)
        free(list[i]);
    free((void *)list);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
}

/* A folder of our own, in the one that is to be kept; to be freed. NULL after saying why. */
static char *check_folder(const char *keep)
{
    const char *above = keep ? keep : getenv("TMPDIR");
    char *folder;
    struct stat st;
    if (keep && ((mkdir(keep, 0777) != 0 && errno != EEXIST) || stat(keep, &st) != 0)) {
        mt_cli_say("%s: %s", keep, strerror(errno));
        return NULL;
    }
    if (keep && !S_ISDIR(st.st_mode)) {
        mt_cli_say("%s: is no folder", keep);
        return NULL;
    }
    if (asprintf(&folder, "%s/memtrace-check-XXXXXX", above && *above ? above : "/tmp") < 0)
        return NULL;
    if (!mkdtemp(folder)) {
        mt_cli_say(
            "%s: cannot be made: %s; the trace lies there while the program runs: set TMPDIR to a folder "
            "that is there, or give --keep=FOLDER",
            folder, strerror(errno));
        free(folder);
        return NULL;
    }
    if (!keep)
        mt_stop_scratch(folder);
    return folder;
}

/* ---- what is told ---- */

static void check_sum(const struct mt_findings *f, size_t suppressed)
{
    size_t errors = mt_findings_of(f, MT_FINDING_ERROR), warnings = mt_findings_of(f, MT_FINDING_WARNING),
           n = mt_findings_of(f, MT_FINDING_HINT);
    char more[80] = "", gone[64] = "";
    if (n)
        snprintf(more, sizeof more, ", %s", mt_number_many(n, "hint", "hints").text);
    if (suppressed)
        snprintf(gone, sizeof gone, ", %zu suppressed", suppressed);
    mt_cli_note("%s, %s%s%s", mt_number_many(errors, "error", "errors").text,
                mt_number_many(warnings, "warning", "warnings").text, more, gone);
    if (f->unjudged)
        mt_cli_note("note: %s not recorded wholly, and what memory held after it was not looked at",
                    mt_number_many(f->unjudged, "launch was", "launches were").text);
}

static int check_write(const struct options *x, const struct mt_findings *f,
                       const struct mt_findings_head *head, struct mt_output *out)
{
    static struct mt_json json;
    int rc, code = mt_output_ready(out);
    if (code)
        return code;
    if (x->format == TEXT) {
        int colours = !x->output && isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
        FILE *to = mt_output_stream(out);
        rc = to ? mt_findings_write_text(to, f, !mt_cli_brief, colours) : 0;
        code = to ? mt_output_close(out, to) : MT_EXIT_FAILURE;
    } else {
        mt_json_open(&json, out->fd);
        rc = x->format == JSON ? mt_findings_write_json(&json, f, head)
                               : mt_findings_write_sarif(&json, f, head);
        code = mt_output_json(out, &json);
    }
    return rc != 0 ? mt_cli_fail("no memory for the findings") : code;
}

/* Places of host code that are known by their addresses alone. */
static void check_lines(const struct mt_findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct mt_finding_side *s = &f->list[i].here;
        if (s->at && strstr(s->at, "+0x") && !*s->file && !s->known) {
            mt_cli_note("note: places of host code are known by their addresses alone: build with -g for its "
                        "lines");
            return;
        }
    }
}

static int check_tell(const struct options *x, struct mt_check_answer *a, struct mt_output *out)
{
    size_t taken = 0;
    mt_findings_finish(&a->findings);
    int code = x->suppress ? mt_check_suppress(&a->findings, x->suppress, &taken) : 0;
    struct mt_findings_head head = {.program = a->program,
                                    .notes = a->notes,
                                    .nnotes = a->nnotes,
                                    .suppressed = taken,
                                    .complete = a->complete};
    if (code == 0)
        code = check_write(x, &a->findings, &head, out);
    if (code == 0)
        check_sum(&a->findings, taken);
    if (code == 0)
        check_lines(&a->findings);
    return code;
}

static void check_spaces(const struct options *x, const struct mt_check_answer *a)
{
    if (a->blind && mt_check_wants(&x->choice, MT_FINDING_OF_SHARED_RACE))
        mt_cli_note("note: no barrier and no access to shared memory is in the trace, so that races of a "
                    "CTA's threads are not found (of what mt-cc builds they are in it with "
                    "--mt-spaces=global,shared)");
}

/* Whoever leaves by _exit has no end of a trace, and a clean exit code all the same. */
static void check_left(const struct mt_check_answer *a, int status)
{
    if (a->left && status < 128)
        mt_cli_say("the program ended with code %d by _exit or quick_exit: what it did last may be missing, "
                   "and memory that leaks is not known",
                   status);
}

/* The traces of what ran and ended with `status`, in a folder, or (NULL) those that inputs name. `found`:
 * something was. */
static int check_traces(struct options *x, const char *folder, int status, struct mt_output *out, int *found)
{
    struct mt_check_answer a;
    int code = folder ? 0 : mt_inputs_folders(&x->inputs), told;
    mt_check_answer_init(&a);
    if (folder)
        code = mt_check_answer_folder(&a, folder, &x->inputs, &x->choice);
    else if (code == 0)
        code = mt_check_answer_read(&a, &x->inputs, &x->choice, 0);
    if (code == 0 || code == MT_EXIT_INPUT) {
        check_spaces(x, &a);
        if (folder && code == MT_EXIT_INPUT)
            check_left(&a, status);
        code = (told = check_tell(x, &a, out)) != 0 ? told : code;
        *found = (code == 0 || code == MT_EXIT_INPUT) && (mt_findings_of(&a.findings, MT_FINDING_ERROR) ||
                                                          mt_findings_of(&a.findings, MT_FINDING_WARNING));
    }
    mt_check_answer_free(&a);
    return code;
}

/* Has a program left a trace? */
static int check_any(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    int any = 0;
    while (d && (e = readdir(d)))
        any |= strncmp(e->d_name, "MemTrace-", 9) == 0;
    if (d)
        closedir(d);
    return any;
}

static int check_program(struct options *x, char **argv, struct mt_output *out, int *found)
{
    char *folder = check_folder(x->keep);
    int status = 0, code = folder ? mt_check_run(argv, folder, &x->choice, x->stop, &status) : MT_EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN); /* the folder is to be removed whatever happens */
    if (code == 0 && check_any(folder)) {
        code = check_traces(x, folder, status, out, found);
        code = code == 0 || code == MT_EXIT_INPUT ? status : code;
    } else if (code == 0) {
        if (status > 128)
            mt_cli_say("%s ended by signal %d before it left a trace", argv[0], status - 128);
        else if (status == 0)
            mt_cli_say("%s launched no kernel, and called nothing that can be checked", argv[0]);
        code = status;
    }
    if (folder && x->keep)
        check_move(folder, x->keep);
    if (folder) {
        mt_stop_scratch(NULL);
        mt_stop_remove(folder);
    }
    free(folder);
    return code;
}

/* Is it something to read rather than to run? */
static int check_is_trace(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return 0;
    enum mt_kind kind = S_ISREG(st.st_mode) ? mt_kind_of(path) : MT_KIND_OTHER;
    return S_ISDIR(st.st_mode) || S_ISFIFO(st.st_mode) || kind == MT_KIND_TRACE || kind == MT_KIND_CONTAINER;
}

/* What is read: traces, or a program and the files that it is given. */
static void check_spare(struct options *x, int argc, char **argv, int traces)
{
    static char program[PATH_MAX];
    if (x->suppress)
        mt_output_spare(x->suppress);
    if (x->keep)
        mt_output_spare(x->keep);
    if (traces)
        mt_inputs_take(&x->inputs, argc, argv);
    if (!traces && mt_files_executable(argv[optind], program) == 0)
        mt_output_spare(program);
    for (int i = optind; !traces && i < argc; i++)
        mt_output_spare(argv[i]);
}

int mt_check_command(int argc, char **argv)
{
    static struct options x;
    struct mt_output out = {.fd = -1};
    int found = 0;
    mt_cli_start("memtrace check");
    mt_filter_init(&x.filter);
    x.choice.kinds = (1u << MT_FINDING_KINDS) - 1;
    int code = mt_cli_options(&command, argc, argv, check_option, &x);
    x.inputs.flags |= MT_SOURCE_RUNS | MT_SOURCE_SPACES | MT_SOURCE_REWIND;
    if (code == 0 && optind == argc)
        code = mt_cli_usage("no program");
    int traces = code == 0 && check_is_trace(argv[optind]);
    if (code == 0)
        check_spare(&x, argc, argv, traces);
    if (code == 0)
        code = mt_output_open(&out, x.output);
    if (code == 0 && x.suppress) { /* what is wrong with it is said before anything runs */
        struct mt_findings none = {0};
        size_t taken = 0;
        code = mt_check_suppress(&none, x.suppress, &taken);
    }
    if (code == 0)
        code =
            traces ? check_traces(&x, NULL, 0, &out, &found) : check_program(&x, argv + optind, &out, &found);
    mt_output_abandon(&out);
    mt_filter_free(&x.filter);
    mt_inputs_free(&x.inputs);
    return code < 0 ? MT_EXIT_OK : found ? 1 : code;
}
