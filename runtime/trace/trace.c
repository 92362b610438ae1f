/* The trace of one CUDA stream: a sink and its companion, numbered in the order of first traced launches. */
#include "trace.h"
#include "base/attach.h"
#include "compact.h"
#include "events.h"
#include "base/file.h"
#include "job.h"
#include "base/json.h"
#include "base/options.h"
#include "base/report.h"
#include "base/short.h"
#include "selection.h"
#include "sink.h"
#include "memtrace/device.h"
#include "memtrace/record.h"
#include "base/fork.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mt_trace {
    uint64_t n;
    const struct mt_output_ops *ops;
    void *out;                             /* of ops; NULL: could not be opened, or closed */
    struct mt_companion_writer *companion; /* beside it, and the one in a compact trace, or NULL */
    struct mt_companion_writer *inside;
    char name[NAME_MAX + 1]; /* of its file */
    int refused;             /* it could never be opened: its launches are in all other companions */
    struct mt_trace *next;
    _Atomic int busy;                                   /* a launch is under way */
    uint64_t others;                                    /* written beside them: not of global memory */
    _Atomic uint64_t others_now;                        /* of the launch under way */
    uint64_t written, counted, lost, launches, dropped; /* dropped: launches that never ran */
    uint64_t disagree;                                  /* launches whose records and counters differ */
    _Atomic uint64_t missed;                            /* launches that ran without records */
    char why[512];                                      /* why something is lost */
    int told;                                           /* the lost line is written */
    int closed, whole;                                  /* closed, and nothing was missing then */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list */
MT_FORK_LOCK(lock, MT_FORK_TRACES);
static struct mt_trace *traces;
static uint64_t count;
static struct mt_header_line head = {.device = "cpu", .device_name = ""};

void mt_trace_device(const char *kind, const char *name, unsigned sms)
{
    head.device = kind;
    head.device_name = name;
    head.sms = sms;
}

void mt_trace_workers(unsigned n)
{
    head.workers = n;
}

int mt_trace_path(const char *dir, const char *pattern, uint64_t n, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "%s/", dir);
    for (; *pattern && at < size; pattern++) {
        if (*pattern == '?')
            at += (size_t)snprintf(out + at, size - at, "%llu", (unsigned long long)n);
        else if (pattern[0] == '%' && pattern[1] == 'p' && pattern++)
            at += (size_t)snprintf(out + at, size - at, "%ld", (long)getpid());
        else if (pattern[0] == '%' && pattern[1] == 'r' && pattern++)
            at += (size_t)snprintf(out + at, size - at, "%u", mt_job()->rank);
        else
            out[at++] = *pattern;
    }
    if (at >= size)
        return -1;
    out[at] = 0;
    return 0;
}

/* The default has no place for several processes. */
static const char *trace_pattern(void)
{
    const char *pattern = mt_options()->pattern;
    if (!*mt_job()->name || strcmp(pattern, "MemTrace-pipe-?") != 0)
        return pattern;
    return mt_job()->ranks > 1 ? "MemTrace-rank%r-pipe-?" : "MemTrace-%p-pipe-?";
}

/* ---- raw or compact ---- */

#define SUFFIX ".mtc"

int mt_trace_compact(void)
{
    return mt_options()->format == MT_FORMAT_COMPACT;
}

static int trace_is_on(const struct mt_trace *t)
{
    return t->out && t->ops->on(t->out);
}

static const char *trace_error(const struct mt_trace *t)
{
    return t->out ? t->ops->error(t->out) : "";
}

/* Returns how many records there are of the launch. */
static uint64_t trace_end_launch(struct mt_trace *t, struct mt_launch_line *l)
{
    uint64_t bytes, written = t->ops->end(t->out, &bytes);
    l->sampled = t->ops->sample && t->ops->sample(t->out, &l->sample);
    mt_selection_wrote(bytes);
    return written;
}

static void trace_close_output(struct mt_trace *t)
{
    void *out = t->out;
    if (!out || !t->ops->close)
        return;
    t->out = t->inside = NULL;
    t->ops->close(out);
}

static int has_suffix(const char *path)
{
    size_t n = strlen(path);
    return n >= strlen(SUFFIX) && !strcmp(path + n - strlen(SUFFIX), SUFFIX);
}

static void trace_refuse(struct mt_trace *t)
{
    mt_report_file("%s; stream %llu is not traced", *t->why ? t->why : "no memory", (unsigned long long)t->n);
}

static void open_compact(struct mt_trace *t, struct mt_compact *c)
{
    t->out = c;
    t->ops = &mt_compact_ops;
    t->inside = c ? mt_compact_inside(c) : NULL;
}

/* In a folder that is not there, or is a file, no stream gets a file: one message, not two for each. No
 * folder is made: in another's program a misspelt name would become one, and a sandbox may kill who tries. */
static int trace_no_folder(struct mt_trace *t, const char *path)
{
    static int said;
    char folder[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    int there = stat(folder, &st) == 0;
    if (there ? S_ISDIR(st.st_mode) : errno != ENOENT)
        return 0;
    snprintf(t->why, sizeof t->why,
             there ? "%.200s is no folder; set MEMTRACE_DIR"
                   : "%.200s does not exist; create this folder, or set MEMTRACE_DIR",
             folder);
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        mt_report_file("%s; nothing is traced", t->why);
    return 1;
}

static void open_files(struct mt_trace *t)
{
    char path[PATH_MAX - 8], meta[PATH_MAX];
    const struct mt_options *o = mt_options();
    int compact = mt_trace_compact();
    if (mt_trace_path(o->dir, trace_pattern(), t->n, path, sizeof path - strlen(SUFFIX))) {
        snprintf(t->why, sizeof t->why, "the path from MEMTRACE_DIR and MEMTRACE_PATTERN is too long");
        trace_refuse(t);
        return;
    }
    if (compact && !has_suffix(path))
        strcat(path, SUFFIX);
    snprintf(meta, sizeof meta, "%s.meta", path);
    snprintf(t->name, sizeof t->name, "%s", strrchr(path, '/') + 1);
    struct mt_header_line h = head;
    h.trace = t->name;
    h.stream = t->n;
    h.format = compact ? "compact" : "raw";
    if (trace_no_folder(t, path))
        return;
    t->companion = mt_companion_open(meta, &h, t->why, sizeof t->why);
    if (!t->companion)
        mt_report_file("%s; stream %llu has no companion", t->why, (unsigned long long)t->n);
    if (compact) {
        open_compact(t, mt_compact_open(path, &h, (int)o->level, t->why, sizeof t->why));
    } else {
        t->out = mt_sink_open(path, t->why, sizeof t->why);
        t->ops = &mt_sink_ops;
    }
    if (!t->out)
        trace_refuse(t);
    else
        mt_say("stream %llu is traced into %s", (unsigned long long)t->n, path);
}

struct mt_trace *mt_trace_open(void)
{
    if (!mt_tracing())
        return NULL;
    struct mt_trace *t = calloc(1, sizeof *t);
    if (!t) {
        mt_report("out of memory: a stream is not traced");
        return NULL;
    }
    pthread_mutex_lock(&lock);
    t->n = count++;
    pthread_mutex_unlock(&lock);
    open_files(t); /* may wait for a FIFO's reader: others go on */
    t->refused = !t->out;
    mt_event_stream(t->n, t->name, t->refused ? *t->why ? t->why : "no memory" : NULL);
    pthread_mutex_lock(&lock);
    t->next = traces;
    traces = t;
    pthread_mutex_unlock(&lock);
    return t;
}

int64_t mt_trace_number(const struct mt_trace *t)
{
    return t ? (int64_t)t->n : -1;
}

void mt_trace_open_launch(struct mt_trace *t, struct mt_launch_line *l)
{
    l->stream = mt_trace_number(t);
    l->traced = 0;
    if (!t || mt_forked())
        return;
    t->busy = 1;
    l->traced = 1; /* as a live one says ahead of the launch */
    l->traced = t->out && !t->ops->begin(t->out, l);
}

void mt_trace_begin(struct mt_trace *t, struct mt_launch_line *l)
{
    l->seq = mt_event_seq();
    l->op = mt_event_op();
    l->begin_ns = mt_now_ns();
    mt_trace_open_launch(t, l);
}

void mt_trace_append(void *trace, const void *records, size_t n)
{
    struct mt_trace *t = trace;
    if (t->out && t->ops->append)
        t->ops->append(t->out, records, n);
}

void mt_trace_fence(void *trace)
{
    struct mt_trace *t = trace;
    if (t->out && t->ops->fence)
        t->ops->fence(t->out);
}

/* To an output that takes accesses of global memory alone. */
static void trace_append_global(struct mt_trace *t, const struct mt_access_run *runs, size_t n)
{
    for (size_t i = 0, from; i < n; i++) {
        uint64_t accesses = 0;
        for (from = i; i < n && !mt_rec_space(runs[i].meta >> 28); i++)
            accesses += runs[i].count;
        if (i > from)
            t->ops->append_runs(t->out, runs + from, i - from, accesses);
    }
}

void mt_trace_append_runs(void *trace, const struct mt_access_run *runs, size_t n, uint64_t accesses)
{
    struct mt_trace *t = trace;
    uint64_t others = 0;
    if (!t->out || !t->ops->append_runs)
        return;
    for (size_t i = 0; mt_log_spaces() && i < n; i++)
        others += mt_rec_space(runs[i].meta >> 28) ? runs[i].count : 0;
    if (others)
        atomic_fetch_add(&t->others_now, others);
    if (others && !t->ops->spaces)
        trace_append_global(t, runs, n);
    else
        t->ops->append_runs(t->out, runs, n, accesses);
}

/* Do the records of a launch agree with the program's own count? What has no record may have been counted. A
 * launch that failed stopped somewhere. */
static int counts_agree(const struct mt_launch_line *l)
{
    if (!l->counted || l->no_records || !l->traced || l->status)
        return 1;
    for (unsigned i = 0; i < sizeof l->counts / sizeof *l->counts; i++)
        if (l->untraced ? l->counts[i] < l->recorded[i] : l->counts[i] != l->recorded[i])
            return 0;
    return 1;
}

static void check_counts(struct mt_trace *t, const struct mt_launch_line *l)
{
    const uint64_t *c = l->counts, *r = l->recorded;
    if (counts_agree(l))
        return;
    t->disagree++;
    if (!t->why[0])
        snprintf(t->why, sizeof t->why, "kernel %s: its records are not what its counters say",
                 mt_short(l->kernel).text);
    mt_report("kernel %s: accesses/bytes of loads, stores, atomics: records %llu/%llu, %llu/%llu, %llu/%llu, "
              "counters %llu/%llu, %llu/%llu, %llu/%llu; the trace is incomplete",
              mt_short(l->kernel).text, (unsigned long long)r[0], (unsigned long long)r[1],
              (unsigned long long)r[2], (unsigned long long)r[3], (unsigned long long)r[4],
              (unsigned long long)r[5], (unsigned long long)c[0], (unsigned long long)c[1],
              (unsigned long long)c[2], (unsigned long long)c[3], (unsigned long long)c[4],
              (unsigned long long)c[5]);
}

void mt_trace_end(struct mt_trace *t, struct mt_launch_line *l)
{
    if (!mt_tracing())
        return;
    l->end_ns = mt_now_ns();
    if (!t || t->refused) { /* for all companions */
        mt_launch_log(l);
        if (t) {
            t->counted += l->records;
            t->lost += l->records;
            t->launches++;
            t->busy = 0;
        }
        return;
    }
    uint64_t written = l->traced ? trace_end_launch(t, l) : 0, others = atomic_exchange(&t->others_now, 0);
    l->records -= others < l->records ? others : l->records;
    if (l->traced && t->ops->spaces) {
        written -= others < written ? others : written;
        l->others = others;
        t->others += others;
    }
    t->written += written;
    t->counted += l->records;
    t->launches++;
    if (l->records != written) {
        t->lost += l->records > written ? l->records - written : 0;
        if (!t->why[0] || t->out)
            snprintf(t->why, sizeof t->why, "%s",
                     *trace_error(t) ? trace_error(t) : "the device counted other records than arrived");
    }
    check_counts(t, l);
    mt_companion_launch(t->companion, l);
    mt_companion_launch(t->inside, l);
    t->busy = 0;
}

void mt_trace_drop(struct mt_trace *t, uint64_t launches)
{
    if (t)
        t->dropped += launches;
}

void mt_trace_miss(struct mt_trace *t, const char *why)
{
    if (!t)
        return;
    t->missed++;
    if (why && !t->why[0])
        snprintf(t->why, sizeof t->why, "%s", why);
}

static char missed_why[256];
static _Atomic int missed; /* 1: being written, 2: as missed_why says */

void mt_trace_miss_anywhere(const char *why)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&missed, &none, 1))
        return;
    snprintf(missed_why, sizeof missed_why, "%s", why);
    missed = 2;
}

/* libmemtrace-attach.so writes it. */
__attribute__((visibility("default"))) struct mt_attach_left __mt_attach_left;

/* 1: there is CUDA code of the process that is not traced at all, as `why` then says. */
static int trace_left_code(char *why, size_t size)
{
    unsigned n = __atomic_load_n(&__mt_attach_left.count, __ATOMIC_ACQUIRE);
    char more[40] = "";
    if (n > 1)
        snprintf(more, sizeof more, ", and %u more files", n - 1);
    if (n)
        snprintf(why, size,
                 "%s%s: the CUDA runtime in it could not be taken over: its CUDA calls are not traced",
                 __mt_attach_left.path, more);
    else if (missed == 2)
        snprintf(why, size, "%s", missed_why);
    return n || missed == 2;
}

/* The companion before the trace is closed: whoever reads that to its end shall find it whole. The lines
 * inside a compact trace first: the companion says whether they could be written. */
static void end_companion(struct mt_trace *t)
{
    int whole = t->closed ? t->whole
                          : trace_is_on(t) && t->written == t->counted && !t->busy && !t->dropped &&
                                !t->disagree && !t->missed;
    char left[512];
    if (whole && !t->closed && trace_left_code(left, sizeof left)) {
        memcpy(t->why, left, sizeof t->why);
        whole = 0;
    }
    t->whole = whole;
    if (t->dropped)
        snprintf(t->why, sizeof t->why, "the program ended before %llu launches of this stream did",
                 (unsigned long long)t->dropped);
    else if (t->busy)
        snprintf(t->why, sizeof t->why, "the program ended during a launch");
    else if (t->missed && !t->why[0])
        snprintf(t->why, sizeof t->why, "%llu launches of this stream ran without records",
                 (unsigned long long)t->missed);
    if (!t->told && !whole) {
        if (t->out && !trace_is_on(t))
            snprintf(t->why, sizeof t->why, "%s", trace_error(t));
        mt_companion_lost(t->companion, t->lost, t->why);
        mt_companion_lost(t->inside, t->lost, t->why);
        t->told = 1;
    }
    struct mt_end_line e = {.records_written = t->written,
                            .records_counted = t->counted,
                            .others_written = t->others,
                            .launches = t->launches,
                            .complete = whole && !mt_log_dropped()};
    mt_companion_end(t->inside, &e);
    if (t->inside && whole && !trace_is_on(t)) { /* these lines did not fit any more */
        t->whole = e.complete = 0;
        mt_companion_lost(t->companion, t->lost, trace_error(t));
        t->told = 1;
    }
    mt_companion_end(t->companion, &e);
}

void mt_trace_close(struct mt_trace *t)
{
    if (!t || mt_forked())
        return;
    pthread_mutex_lock(&lock); /* mt_trace_flush or mt_trace_finish may be at it, from another thread */
    end_companion(t);
    mt_companion_park(t->companion);
    t->closed = 1;
    trace_close_output(t);
    pthread_mutex_unlock(&lock);
}

static void flush_lines(struct mt_trace *t, int all)
{
    mt_companion_flush(t->companion, all);
    mt_companion_flush(t->inside, all);
}

void mt_trace_flush(int all)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    for (struct mt_trace *t = traces; t; t = t->next)
        flush_lines(t, all);
    pthread_mutex_unlock(&lock);
}

void mt_trace_needed(void)
{
    if (mt_tracing() && mt_event_findings() && !__atomic_load_n(&count, __ATOMIC_RELAXED))
        mt_trace_open();
}

static _Atomic int bare; /* launches that no trace has: one without launches would hide them */

void mt_trace_bare(void)
{
    bare = 1;
}

void mt_trace_finish(void)
{
    if (!mt_tracing())
        return;
    /* What was checked stands in a companion, and so do copies of a program without kernels. */
    if (!count &&
        ((mt_options()->check && mt_log_size()) || (mt_event_copies() && !bare && !mt_selection_left_out())))
        mt_trace_open();
    pthread_mutex_lock(&lock);
    for (struct mt_trace *t = traces; t; t = t->next) {
        end_companion(t);
        if (t->busy)
            continue; /* a thread still writes; the process is about to end */
        mt_companion_close(t->companion);
        t->companion = NULL;
        trace_close_output(t);
    }
    if (!count && mt_selection_left_out())
        mt_note("no launch is traced: %llu were left out (MEMTRACE_KERNELS, MEMTRACE_LAUNCHES or "
                "MEMTRACE_FROM_START)",
                (unsigned long long)mt_selection_left_out());
    pthread_mutex_unlock(&lock);
}
