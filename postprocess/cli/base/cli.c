/* What the mt- programs share: words on stderr, exit codes, filters, interruption, progress. */
#define _GNU_SOURCE
#include "cli.h"
#include "memtrace/grow.h"
#include "kind.h"
#include "reader/text.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS_DEFAULT = 32 };

const char *mt_cli_name = "mt";
volatile sig_atomic_t mt_cli_stop;

enum { PATIENCE = 3 }; /* seconds */
static volatile sig_atomic_t stopped_by, results_begun, all_end_together;
static const char *volatile made; /* the output, while it is made and empty */

/* What has been read is analysed and reported; alarm() may be called here. */
static void on_signal(int number)
{
    __atomic_store_n(&mt_cli_stop, 1, __ATOMIC_RELAXED);
    stopped_by = number;
    if (!all_end_together)
        alarm(PATIENCE);
}

/* Unless that takes long: a small file can ask for years of work. */
static void on_alarm(int number)
{
    static const char words[] = ": interrupted; what was read takes too long: no results\n";
    ssize_t wrote;
    (void)number;
    if (results_begun)
        return;
    if (made)
        unlink(made);
    if (!mt_cli_quiet && (wrote = write(STDERR_FILENO, mt_cli_name, strlen(mt_cli_name))) >= 0)
        wrote = write(STDERR_FILENO, words, sizeof words - 1);
    (void)wrote;
    kill(getpid(), stopped_by); /* its action is the default again */
}

void mt_cli_results(void)
{
    results_begun = 1;
}

void mt_cli_start(const char *name)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction late = {.sa_handler = on_alarm};
    mt_cli_name = name;
    sigaction(SIGALRM, &late, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old;
        /* nohup and background jobs of a script have these ignored: so they stay. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    }
}

int mt_cli_quiet;

/* One line, whatever is in the names and files that it speaks of. */
static void cli_line(const char *format, va_list args, const char *end, const char *name)
{
    static char spare[1024]; /* under stderr's lock: what is to be said may be that there is no memory */
    char *text = NULL;
    va_list again;
    if (mt_cli_quiet)
        return;
    flockfile(stderr);
    va_copy(again, args);
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
        vsnprintf(spare, sizeof spare, format, again);
    }
    va_end(again);
    fprintf(stderr, "%s: ", mt_cli_name);
    mt_text_put(stderr, text ? text : spare);
    fprintf(stderr, end, name);
    funlockfile(stderr);
    free(text);
}

void mt_cli_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_line(format, args, "\n", NULL);
    va_end(args);
}

int mt_cli_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_line(format, args, "\n", NULL);
    va_end(args);
    return MT_EXIT_FAILURE;
}

void mt_cli_version(void)
{
    printf("%s (memtrace) %s\n", mt_cli_name, MEMTRACE_VERSION);
}

int mt_cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_line(format, args, " (see %s --help)\n", mt_cli_name);
    va_end(args);
    return MT_EXIT_USAGE;
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

/* ---- filters ---- */

void mt_filter_init(struct mt_filter *f)
{
    memset(f, 0, sizeof *f);
    f->end = UINT64_MAX;
}

int mt_filter_kernels(struct mt_filter *f, const char *text)
{
    if (f->has_kernels)
        regfree(&f->kernels);
    int e = regcomp(&f->kernels, text, REG_EXTENDED | REG_NOSUB);
    f->has_kernels = e == 0;
    if (e) {
        char why[200];
        regerror(e, &f->kernels, why, sizeof why);
        return mt_cli_usage("'%s' is not a regular expression: %s", text, why);
    }
    f->kernels_text = text;
    return 0;
}

static int cli_number(const char *text, const char **end, uint64_t *n)
{
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    *n = strtoull(text, (char **)end, 10);
    return errno ? -1 : 0;
}

int mt_filter_supersteps(struct mt_filter *f, const char *text)
{
    const char *p = text;
    f->first = 0;
    f->end = UINT64_MAX;
    int bad = *p != ':' && cli_number(p, &p, &f->first) != 0;
    if (!bad && *p == 0 && p != text)
        f->end = f->first + 1;
    else if (!bad && *p++ == ':')
        bad = *p && (cli_number(p, &p, &f->end) != 0 || *p);
    else
        bad = 1;
    if (bad || f->first > f->end)
        return mt_cli_usage("'%s' is not a range of supersteps: give A:B (A included, B not), A:, :B or A",
                            text);
    f->supersteps_text = text;
    return 0;
}

int mt_filter_match(const struct mt_filter *f, const char *kernel, uint64_t superstep)
{
    return superstep >= f->first && superstep < f->end &&
           (!f->has_kernels || regexec(&f->kernels, kernel, 0, NULL, 0) == 0);
}

void mt_filter_explain(const struct mt_filter *f, uint64_t launches, uint64_t chosen)
{
    if (launches == 0 || chosen > 0 || (!f->has_kernels && !f->supersteps_text))
        return;
    mt_cli_say("no launch matches%s%s%s%s: the trace has %llu, and mt-dump --stat names their kernels",
               f->has_kernels ? " --kernels " : "", f->has_kernels ? f->kernels_text : "",
               f->supersteps_text ? " --supersteps " : "", f->supersteps_text ? f->supersteps_text : "",
               (unsigned long long)launches);
}

void mt_filter_free(struct mt_filter *f)
{
    if (f->has_kernels)
        regfree(&f->kernels);
    f->has_kernels = 0;
}

/* ---- inputs ---- */

int mt_inputs_companion(struct mt_inputs *in, const char *path)
{
    if (mt_grow(&in->companions, &in->companion_room, in->ncompanions + 1, sizeof *in->companions) != 0)
        return mt_cli_fail("no memory");
    in->companions[in->ncompanions++] = path;
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
        mt_cli_say("%s: is %s, not %s: %s", in->paths[i], mt_kind_name(kind), mt_kind_name(MT_KIND_TRACE),
                   mt_kind_readers(kind));
        return MT_EXIT_USAGE;
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
    all_end_together = in->on;
    struct mt_source_options o = {.flags = in->flags,
                                  .companions = in->companions,
                                  .ncompanions = in->ncompanions,
                                  .stop = in->on ? NULL : &mt_cli_stop,
                                  .ends = in->ends,
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

struct mt_source *mt_inputs_live(struct mt_inputs *in, int *code)
{
    struct mt_source_options o = {.flags = in->flags, .stop = &mt_cli_stop};
    struct mt_error err;
    *code = 0;
    struct mt_source *s = mt_source_open_live(STDIN_FILENO, &o, &err);
    if (!s)
        *code = mt_cli_failed(&err);
    return s;
}

struct mt_source *mt_inputs_open(struct mt_inputs *in, int argc, char **argv, int *code)
{
    mt_inputs_take(in, argc, argv);
    return (*code = mt_inputs_folders(in)) ? NULL : mt_inputs_source(in, code);
}

int mt_inputs_finish(struct mt_source *s, int *complete)
{
    size_t notes, problems;
    const char *const *note = mt_source_notes(s, &notes, complete);
    const struct mt_error *problem = mt_source_problems(s, &problems);
    for (size_t i = 0; i < notes; i++)
        mt_cli_say("%s", note[i]);
    for (size_t i = 0; i < problems; i++)
        if (problem[i].code == MT_E_SYSTEM)
            return MT_EXIT_FAILURE;
    int lacks = mt_source_lacks(s);
    if (!*complete && !lacks)
        *complete = -1;
    return lacks < 0 ? mt_cli_fail("no memory for the notes on the trace")
           : lacks   ? MT_EXIT_INPUT
                     : MT_EXIT_OK;
}

int mt_cli_options(int argc, char **argv, const char *letters, const struct option *list,
                   int (*take)(void *arg, int o), void *arg)
{
    int rc = 0, o;
    while (rc == 0 && (o = getopt_long(argc, argv, letters, list, NULL)) != -1)
        rc = take(arg, o);
    return rc;
}

int mt_cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *n)
{
    const char *end;
    return cli_number(text, &end, n) == 0 && !*end && *n >= least && *n <= most;
}

int mt_cli_word(const char *text, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(text, list[i]) == 0)
            return i;
    return -1;
}

int mt_common_option(int o, struct mt_inputs *in, struct mt_filter *f, const char *help)
{
    switch (o) {
    case 'k':
        return mt_filter_kernels(f, optarg);
    case 't':
        return mt_filter_supersteps(f, optarg);
    case MT_OPT_COMPANION:
        return mt_inputs_companion(in, optarg);
    case MT_OPT_NO_COMPANION:
        in->flags |= MT_SOURCE_NO_COMPANION;
        return 0;
    case 'h':
        fputs(help, stdout);
        return -1;
    case 'V':
        mt_cli_version();
        return -1;
    default:
        return mt_cli_usage("unknown or incomplete option");
    }
}

/* ---- output ---- */

/* Whoever can write to the folder can put a link there that leads to a file of ours; root's /dev/stdout is
 * one that may be followed. */
static int output_is_anothers_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0;
}

int mt_output_open(struct mt_output *o, const char *path, const struct mt_inputs *in)
{
    struct stat st, other;
    *o = (struct mt_output){.path = path, .fd = STDOUT_FILENO};
    if (!path || strcmp(path, "-") == 0)
        return 0;
    o->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0666);
    o->created = o->fd >= 0;
    made = o->created ? path : made;
    if (o->fd < 0 && errno == EEXIST && output_is_anothers_link(path)) {
        mt_cli_say("%s: is a symbolic link of another user and is not followed; remove it, or name another "
                   "file",
                   path);
        return MT_EXIT_USAGE;
    }
    if (o->fd < 0 && errno == EEXIST)
        o->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (o->fd < 0 || fstat(o->fd, &st) != 0) {
        mt_cli_say("%s: cannot write: %s", path, strerror(errno));
        return MT_EXIT_USAGE;
    }
    for (size_t i = 0; i < in->npaths; i++)
        if (stat(in->paths[i], &other) == 0 && other.st_dev == st.st_dev && other.st_ino == st.st_ino) {
            close(o->fd);
            return mt_cli_usage("the output %s is one of the inputs", path);
        }
    return 0;
}

int mt_output_ready(struct mt_output *o)
{
    struct stat st;
    mt_cli_results();
    o->created = 0;
    if (o->fd == STDOUT_FILENO || (fstat(o->fd, &st) == 0 && !S_ISREG(st.st_mode)) ||
        ftruncate(o->fd, 0) == 0)
        return 0;
    return mt_output_failed(o, errno);
}

int mt_output_failed(const struct mt_output *o, int error)
{
    return mt_cli_fail("%s: cannot write: %s", o->fd == STDOUT_FILENO ? "standard output" : o->path,
                       strerror(error));
}

FILE *mt_output_stream(const struct mt_output *o)
{
    int fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f)
        mt_output_failed(o, errno);
    if (!f && fd >= 0)
        close(fd);
    return f;
}

int mt_output_close(const struct mt_output *o, FILE *f)
{
    int bad = ferror(f);
    if (fclose(f) != 0)
        return mt_output_failed(o, errno);
    return bad ? mt_output_failed(o, EIO) : 0;
}

void mt_output_abandon(struct mt_output *o)
{
    struct stat ours, there;
    /* What somebody else has put there meanwhile stays. */
    if (o->created && fstat(o->fd, &ours) == 0 && lstat(o->path, &there) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
        unlink(o->path);
    o->created = 0;
}

/* ---- progress ---- */

static double cli_seconds(const struct timespec *a, const struct timespec *b)
{
    return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) * 1e-9;
}

void mt_progress_init(struct mt_progress *p)
{
    memset(p, 0, sizeof *p);
    p->on = isatty(STDERR_FILENO);
    clock_gettime(CLOCK_MONOTONIC, &p->begin);
    p->last = p->begin;
}

void mt_progress_step(struct mt_progress *p, struct mt_source *s, uint64_t records)
{
    struct timespec now;
    if (!p->on || ++p->calls % 64 != 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (cli_seconds(&p->begin, &now) < 2 || cli_seconds(&p->last, &now) < 0.2)
        return;
    uint64_t done, total;
    mt_source_progress(s, &done, &total);
    fprintf(stderr, "\r%s: %.1f million records, %.1f million/s", mt_cli_name, (double)records * 1e-6,
            (double)records * 1e-6 / cli_seconds(&p->begin, &now));
    if (total)
        fprintf(stderr, ", %.0f %%", 100.0 * (double)done / (double)total);
    fputs("\033[K", stderr);
    p->last = now;
    p->shown = 1;
}

void mt_progress_end(struct mt_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}
