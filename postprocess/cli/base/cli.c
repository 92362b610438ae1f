/* Shared by all commands: filters, inputs, outputs, signals, progress. */
#define _GNU_SOURCE

#include "cli.h"
#include "memtrace/container.h"
#include "memtrace/grow.h"
#include "memtrace/host.h"
#include "kind.h"
#include "base/near.h"
#include "base/file.h"
#include "output/text/table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS_DEFAULT = 32 };

void mt_cli_waits(const char *path)
{
    struct stat st;
    if (isatty(STDERR_FILENO) && stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
        mt_cli_note("%s: is a pipe: waits until a program opens it to write", path);
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

/* Returns 1 if `path` names the companion of one of the others: a pattern like MemTrace-pipe-* finds both. */
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

static void stop_together(int together);

struct mt_source *mt_inputs_source(struct mt_inputs *in, int *code)
{
    *code = cli_fit(in);
    if (*code)
        return NULL;
    stop_together(in->on);
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
                                  .absent = in->absent,
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

/* ---- filters, common options, numbers and words ---- */

void mt_filter_init(struct mt_filter *f)
{
    memset(f, 0, sizeof *f);
    f->end = UINT64_MAX;
}

int mt_filter_kernels(struct mt_filter *f, const char *text)
{
    if (f->has_kernels)
        regfree(&f->kernels);
    char why[200];
    f->has_kernels = mt_regex(&f->kernels, text, why, sizeof why) == 0;
    if (!f->has_kernels)
        return mt_cli_usage("'%.200s' is not a regular expression: %s", text, why);
    f->kernels_text = text;
    return 0;
}

static int cli_options_number(const char *text, const char **end, uint64_t *n)
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
    int begins = *p != '.', bad = begins && cli_options_number(p, &p, &f->first) != 0;
    if (!bad && begins && *p == 0) {
        f->end = f->first + 1;
    } else if (!bad && strncmp(p, "..", 2) == 0 && (begins || p[2])) {
        if (p[2])
            bad = cli_options_number(p + 2, &p, &f->end) != 0 || *p || f->end < f->first || ++f->end == 0;
    } else {
        bad = 1;
    }
    if (bad)
        return mt_cli_usage("'%s' is not a range of launches: A..B (both included), A.., ..B, or A%s", text,
                            strchr(text, ':') ? "; A:B ended before B in older versions" : "");
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
    mt_cli_note("no launch matches%s%s%s%s: the trace has %llu, and memtrace dump --stat names their kernels",
                f->has_kernels ? " --kernels " : "", f->has_kernels ? f->kernels_text : "",
                f->supersteps_text ? " --launches " : "", f->supersteps_text ? f->supersteps_text : "",
                (unsigned long long)launches);
}

void mt_filter_free(struct mt_filter *f)
{
    if (f->has_kernels)
        regfree(&f->kernels);
    f->has_kernels = 0;
}

/* ---- options ---- */

int mt_cli_options(const struct mt_command *c, int argc, char **argv, int (*take)(void *arg, int option),
                   void *arg)
{
    mt_cli_quiet |= argc == 3 && strcmp(argv[1], "--completion-values") == 0;
    int rc = mt_command_options(c, argc, argv, take, arg);
    return rc < 0 && mt_near_told() ? MT_EXIT_FAILURE : rc;
}

int mt_cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *n)
{
    const char *end;
    return cli_options_number(text, &end, n) == 0 && !*end && *n >= least && *n <= most;
}

int mt_cli_word(const char *text, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(text, list[i]) == 0)
            return i;
    mt_cli_hint(text, strlen(text), list);
    return -1;
}

void mt_cli_hint(const char *text, size_t n, const char *const *list)
{
    const char *near = mt_near_word(text, n, list);
    if (near)
        mt_cli_say("'%.*s': did you mean '%s'?", (int)n, text, near);
}

int mt_common_option(int o, struct mt_inputs *in, struct mt_filter *f)
{
    switch (o) {
    case MT_OPT_KERNELS:
        return mt_filter_kernels(f, optarg);
    case MT_OPT_LAUNCHES:
    case MT_OPT_SUPERSTEPS:
        return mt_filter_supersteps(f, optarg);
    case MT_OPT_COMPANION:
        return mt_inputs_companion(in, optarg);
    case MT_OPT_NO_COMPANION:
        in->flags |= MT_SOURCE_NO_COMPANION;
        return 0;
    case MT_OPT_QUIET:
        mt_cli_brief = 1;
        return 0;
    default:
        return mt_cli_usage("unknown or incomplete option");
    }
}

/* ---- Outputs: a file is complete, or it does not exist ---- */

/* ---- files that are read, and must not be overwritten ---- */

static const char **spared;
static size_t nspared, spared_room;
static int spared_lost;

void mt_output_spare(const char *path)
{
    char *own = strdup(path);
    if (!own || mt_grow(&spared, &spared_room, nspared + 1, sizeof *spared) != 0) {
        spared_lost = 1;
        free(own);
    } else {
        spared[nspared++] = own;
    }
}

int mt_output_other(const char *path)
{
    if (spared_lost)
        return mt_cli_fail("no memory for the names of the inputs");
    for (size_t i = 0; i < nspared; i++)
        if (mt_output_is_input(path, spared[i]))
            return mt_cli_usage("the output %s is one of the inputs%s%s", path,
                                strcmp(path, spared[i]) ? ", or belongs to one: " : "",
                                strcmp(path, spared[i]) ? spared[i] : "");
    return 0;
}

/* ---- outputs in progress ---- */

static struct mt_output *volatile under_way;
static volatile sig_atomic_t any_whole;

static void output_begins(struct mt_output *o)
{
    o->next = under_way;
    under_way = o;
}

/* Removes an output from the list, which is consistent at each step, since a signal may arrive at any time.
 */
static void output_ends(struct mt_output *o)
{
    struct mt_output *before = under_way;
    if (before == o)
        under_way = o->next;
    while (before && before->next != o)
        before = before->next;
    if (before)
        before->next = o->next;
}

static void output_remove(const struct mt_output *o)
{
    struct stat ours, there;
    /* A file that another process has put there meanwhile is kept. */
    if (o->fd != STDOUT_FILENO && fstat(o->fd, &ours) == 0 && S_ISREG(ours.st_mode) &&
        lstat(o->path, &there) == 0 && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
        unlink(o->path);
}

/* Removes incomplete outputs. Returns 1 if there were some, or nothing has been written yet. Signal-safe. */
static int output_cut(void)
{
    for (const struct mt_output *o = under_way; o; o = o->next)
        if (o->created || o->ready)
            output_remove(o);
    return under_way || !any_whole;
}

/* ---- opening, writing, closing ---- */

int mt_output_open(struct mt_output *o, const char *path)
{
    struct stat st;
    const char *why = NULL;
    int code;
    *o = (struct mt_output){.path = path, .fd = STDOUT_FILENO};
    if (!path || strcmp(path, "-") == 0) {
        output_begins(o);
        return 0;
    }
    if ((code = mt_output_other(path)) != 0)
        return code;
    o->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0666);
    o->created = o->fd >= 0;
    if (o->fd < 0 && errno == EEXIST)
        o->fd = mt_create(path, &why);
    else if (o->fd < 0)
        why = strerror(errno);
    if (o->fd < 0 || fstat(o->fd, &st) != 0)
        return mt_cli_refuse("%s: cannot write: %s", path, why ? why : strerror(errno));
    output_begins(o);
    return 0;
}

int mt_output_ready(struct mt_output *o)
{
    struct stat st;
    if (o->ready)
        return 0;
    int code =
        o->path && o->fd != STDOUT_FILENO ? mt_output_other(o->path) : 0; /* folders have been read by now */
    if (code)
        return code;
    o->created = 0;
    o->ready = 1;
    if (o->fd == STDOUT_FILENO || (fstat(o->fd, &st) == 0 && !S_ISREG(st.st_mode)) ||
        ftruncate(o->fd, 0) == 0)
        return 0;
    return mt_output_failed(o, errno);
}

int mt_output_failed(struct mt_output *o, int error)
{
    o->cut = o->ready;
    return mt_cli_fail("%s: cannot write: %s", o->fd == STDOUT_FILENO ? "standard output" : o->path,
                       strerror(error));
}

/* stdio drops its buffer if a signal interrupts a write to a full pipe, so this repeats the write. */
static ssize_t output_write(void *arg, const char *bytes, size_t n)
{
    int fd = (int)(intptr_t)arg;
    size_t done = 0;
    while (done < n) {
        ssize_t now = write(fd, bytes + done, n - done);
        if (now < 0 && errno != EINTR)
            return 0;
        done += now > 0 ? (size_t)now : 0;
    }
    return (ssize_t)n;
}

static int output_close(void *arg)
{
    return close((int)(intptr_t)arg);
}

FILE *mt_output_whole(int fd)
{
    cookie_io_functions_t io = {.write = output_write, .close = output_close};
    FILE *f = fopencookie((void *)(intptr_t)fd, "w", io);
    if (f && isatty(fd))
        setvbuf(f, NULL, _IOLBF, BUFSIZ);
    return f;
}

static ssize_t output_write_ready(void *arg, const char *bytes, size_t n)
{
    struct mt_output *o = arg;
    ssize_t done = mt_output_ready(o) == 0 ? output_write((void *)(intptr_t)o->fd, bytes, n) : 0;
    if (done == 0)
        o->error = errno;
    return done;
}

/* Closes a copy of the descriptor, since some file systems report a full disk only on close. The descriptor
 * itself is needed to remove the file. */
static int output_close_copy(void *arg)
{
    return close(fcntl(((struct mt_output *)arg)->fd, F_DUPFD_CLOEXEC, 0));
}

FILE *mt_output_stream(struct mt_output *o)
{
    cookie_io_functions_t io = {.write = output_write_ready, .close = output_close_copy};
    FILE *f = fopencookie(o, "w", io);
    if (!f)
        mt_output_failed(o, errno);
    else if (isatty(o->fd))
        setvbuf(f, NULL, _IOLBF, BUFSIZ);
    return f;
}

int mt_output_close(struct mt_output *o, FILE *f)
{
    int bad = ferror(f);
    bad |= fclose(f) != 0;
    return mt_output_end(o, bad, o->error ? o->error : errno);
}

int mt_output_end(struct mt_output *o, int failed, int error)
{
    if (failed)
        return mt_output_failed(o, error);
    any_whole = 1;
    output_ends(o);
    return 0;
}

int mt_output_json(struct mt_output *o, struct mt_json *j)
{
    int failed = mt_json_close(j) != 0;
    return mt_output_end(o, failed, j->error);
}

void mt_output_abandon(struct mt_output *o)
{
    output_ends(o);
    if (o->created || o->cut)
        output_remove(o);
    o->created = o->cut = 0;
}

/* ---- Signals: reading stops, the results so far are written, and the program ends within three seconds ----
 */

enum { LIMIT_MS = 2000, READ_MS = 800 };

volatile sig_atomic_t mt_cli_stop;
static volatile sig_atomic_t stopped_by, all_together;
static const char *volatile scratch;

/* together 1: other processes stop at the same place, agreed between them, so there is no time limit. */
static void stop_together(int together)
{
    all_together = together;
}

void mt_stop_scratch(const char *folder)
{
    scratch = folder;
}

/* Directory entry as the kernel returns it: a signal handler must not call readdir. */
struct entry {
    uint64_t inode;
    int64_t next;
    unsigned short length;
    unsigned char kind;
    char name[];
};

void mt_stop_remove(const char *folder)
{
    _Alignas(struct entry) char list[4096];
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    long n;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, list, sizeof list)) > 0)
        for (long at = 0; at < n; at += ((struct entry *)(list + at))->length)
            unlinkat(fd, ((struct entry *)(list + at))->name, 0); /* fails for . and .. */
    if (fd >= 0)
        close(fd);
    rmdir(folder);
}

static void stop_write(const char *text)
{
    ssize_t wrote = write(STDERR_FILENO, text, strlen(text));
    (void)wrote;
}

/* Ends the process by the signal, after removing incomplete outputs. `late`: not if all is written and only
 * memory remains to be freed. */
static void stop_end(int number, int late)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t only;
    int cut = output_cut();
    if (scratch)
        mt_stop_remove(scratch);
    if (late && !cut)
        _exit(MT_EXIT_INPUT);
    if (cut && !mt_cli_quiet) {
        stop_write(mt_cli_name);
        stop_write(
            ": interrupted, and no results: they take longer than three seconds, or a second signal came "
            "(--launches=A..B reads less)\n");
    }
    sigaction(number, &by_default, NULL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
}

static void stop_arm(int ms, int again)
{
    struct itimerval t = {.it_value = {ms / 1000, ms % 1000 * 1000},
                          .it_interval = {again / 1000, again % 1000 * 1000}};
    setitimer(ITIMER_REAL, &t, NULL);
}

static void stop_on_signal(int number)
{
    if (mt_cli_stop)
        stop_end(number, 0);
    stopped_by = number;
    __atomic_store_n(&mt_cli_stop, 1, __ATOMIC_RELAXED);
    if (!all_together)
        stop_arm(LIMIT_MS, 0);
}

/* Ends the process late in the stop: a few records may require very long work. */
static void stop_on_alarm(int number)
{
    if (mt_cli_stop)
        stop_end(stopped_by, 1);
    __atomic_store_n(&mt_cli_stop, 1, __ATOMIC_RELAXED);
}

void mt_stop_soon(int number)
{
    stopped_by = number;
    stop_arm(READ_MS, LIMIT_MS - READ_MS);
}

/* Catches signals from now on; ignored ones stay ignored. */
void mt_stop_begin(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = stop_on_signal}, late = {.sa_handler = stop_on_alarm};
    sigfillset(&sa.sa_mask);
    sigfillset(&late.sa_mask);
    sigaction(SIGALRM, &late, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old;
        /* nohup and background jobs of a script ignore some signals: these stay ignored. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    }
}

/* ---- Progress: a line that is overwritten on a terminal, or a line now and then in a log ---- */

enum { LOG_SECONDS = 10 };

static double progress_seconds(const struct timespec *a, const struct timespec *b)
{
    return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) * 1e-9;
}

void mt_progress_init(struct mt_progress *p)
{
    memset(p, 0, sizeof *p);
    p->on = !mt_cli_brief;
    p->terminal = isatty(STDERR_FILENO);
    clock_gettime(CLOCK_MONOTONIC, &p->begin);
    p->last = p->begin;
}

static void progress_show(struct mt_progress *p, uint64_t records, double share, double seconds)
{
    fprintf(stderr, "\r%s: %.1f million records, %.1f million/s", mt_cli_name, (double)records * 1e-6,
            (double)records * 1e-6 / seconds);
    if (share > 0)
        fprintf(stderr, ", %.0f %%", 100 * share);
    fputs("\033[K", stderr);
    p->shown = 1;
}

/* Estimates the remaining time from the bytes so far; launches differ, so this is a guess. */
static void progress_log(uint64_t records, double share, double seconds)
{
    const struct mt_number n = mt_number_count(records);
    if (share > 0)
        mt_cli_note("%.0f %% read, %s accesses, about %.0f s left", 100 * share, n.text,
                    seconds / share - seconds);
    else
        mt_cli_note("%s accesses read in %.0f s", n.text, seconds);
}

void mt_progress_step(struct mt_progress *p, struct mt_source *s, uint64_t records)
{
    struct timespec now;
    uint64_t done, total;
    if (!p->on)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double all = progress_seconds(&p->begin, &now), since = progress_seconds(&p->last, &now);
    if (p->terminal ? all < 2 || since < 0.2 : since < LOG_SECONDS)
        return;
    mt_source_progress(s, &done, &total);
    const double share = total ? (double)done / (double)total : 0;
    if (p->terminal)
        progress_show(p, records, share, all);
    else
        progress_log(records, share, all);
    p->last = now;
}

void mt_progress_end(struct mt_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}
