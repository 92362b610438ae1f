/* What the mt- programs share: words on stderr, exit codes, filters, interruption, progress. */
#define _GNU_SOURCE
#include "cli.h"
#include "create.h"
#include "memtrace/container.h"
#include "memtrace/grow.h"
#include "memtrace/host.h"
#include "kind.h"
#include "reader/base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS_DEFAULT = 32 };

const char *mt_cli_name = "mt", *mt_cli_called;
volatile sig_atomic_t mt_cli_stop;

enum { PATIENCE = 6 }; /* seconds without a step */
static volatile sig_atomic_t stopped_by, results_begun, all_end_together, moved;
static const char *volatile made; /* the output, while it is made and empty */

/* What has been read is analysed and reported; alarm() may be called here. */
static void on_signal(int number)
{
    __atomic_store_n(&mt_cli_stop, 1, __ATOMIC_RELAXED);
    stopped_by = number;
    moved = 0;
    if (!all_end_together)
        alarm(PATIENCE);
}

/* Unless nothing moves: a few records can ask for years of work. */
static void on_alarm(int number)
{
    static const char words[] = ": interrupted; what was read takes too long: no results\n";
    ssize_t wrote;
    (void)number;
    if (results_begun)
        return;
    if (moved) {
        moved = 0;
        alarm(PATIENCE);
        return;
    }
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

void mt_cli_moves(void)
{
    moved = 1;
}

void mt_cli_start(const char *name)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction late = {.sa_handler = on_alarm};
    mt_cli_name = mt_cli_called ? mt_cli_called : name;
    sigaction(SIGALRM, &late, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old;
        /* nohup and background jobs of a script have these ignored: so they stay. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    }
}

int mt_cli_quiet, mt_cli_brief;

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

void mt_cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!mt_cli_brief)
        cli_line(format, args, "\n", NULL);
    va_end(args);
}

void mt_cli_waits(const char *path)
{
    struct stat st;
    if (isatty(STDERR_FILENO) && stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
        mt_cli_note("%s: is a pipe: waits until a program opens it to write", path);
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
    all_end_together = in->on;
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

/* ---- output ---- */

/* Is it one of them, what belongs to one, or a trace in a folder of them? */
static int output_is_input(const char *path, const struct stat *st, const struct mt_inputs *in)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *above = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("."), meta[PATH_MAX];
    struct stat other, folder;
    int found = 0, inside = above && strncmp(name, "MemTrace-", 9) == 0 && stat(above, &folder) == 0;
    free(above);
    for (size_t i = 0; i < in->npaths && !found; i++) {
        snprintf(meta, sizeof meta, "%s.meta", in->paths[i]);
        if (stat(in->paths[i], &other) == 0)
            found = (other.st_dev == st->st_dev && other.st_ino == st->st_ino) ||
                    (inside && other.st_dev == folder.st_dev && other.st_ino == folder.st_ino);
        if (!found && stat(meta, &other) == 0)
            found = other.st_dev == st->st_dev && other.st_ino == st->st_ino;
    }
    return found;
}

int mt_output_other(const char *path, const struct mt_inputs *in)
{
    struct stat st;
    return stat(path, &st) == 0 && output_is_input(path, &st, in)
               ? mt_cli_usage("the output %s is one of the inputs", path)
               : 0;
}

int mt_output_open(struct mt_output *o, const char *path, const struct mt_inputs *in)
{
    struct stat st;
    const char *why = NULL;
    *o = (struct mt_output){.path = path, .fd = STDOUT_FILENO};
    if (!path || strcmp(path, "-") == 0)
        return 0;
    o->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0666);
    o->created = o->fd >= 0;
    made = o->created ? path : made;
    if (o->fd < 0 && errno == EEXIST)
        o->fd = mt_create(path, &why);
    else if (o->fd < 0)
        why = strerror(errno);
    if (o->fd < 0 || fstat(o->fd, &st) != 0) {
        mt_cli_say("%s: cannot write: %s", path, why ? why : strerror(errno));
        return MT_EXIT_USAGE;
    }
    if (!o->created && output_is_input(path, &st, in)) {
        close(o->fd);
        return mt_cli_usage("the output %s is one of the inputs", path);
    }
    return 0;
}

int mt_output_ready(struct mt_output *o)
{
    struct stat st;
    if (o->ready)
        return 0;
    mt_cli_results();
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

/* stdio gives up what it has in its buffer when a signal interrupts a write into a full pipe. */
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

/* Some file systems say only now that they are full. The descriptor itself is needed to abandon the file. */
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
    if (fclose(f) != 0 || bad)
        return mt_output_failed(o, o->error ? o->error : errno);
    return 0;
}

void mt_output_abandon(struct mt_output *o)
{
    struct stat ours, there;
    /* What somebody else has put there meanwhile stays. */
    if ((o->created || o->cut) && o->fd != STDOUT_FILENO && fstat(o->fd, &ours) == 0 &&
        S_ISREG(ours.st_mode) && lstat(o->path, &there) == 0 && ours.st_dev == there.st_dev &&
        ours.st_ino == there.st_ino)
        unlink(o->path);
    o->created = o->cut = 0;
}
