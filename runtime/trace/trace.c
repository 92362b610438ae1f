/* The trace of one CUDA stream: a sink and its companion, numbered in the order of first traced launches. */
#include "trace.h"
#include "compact.h"
#include "events.h"
#include "base/file.h"
#include "base/json.h"
#include "live.h"
#include "base/options.h"
#include "base/report.h"
#include "selection.h"
#include "sink.h"
#include "memtrace/record.h"
#include "base/fork.h"
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mt_trace {
    uint64_t n;
    /* One of the three; NULL: could not be opened, or closed. */
    struct mt_sink *sink;
    struct mt_compact *compact;
    uint64_t bytes; /* of the compact trace before this launch */
    struct mt_live *live;
    char *path; /* of a compact trace in memory, for an extractor; else NULL */
    struct mt_companion_writer *companion;
    char name[NAME_MAX + 1]; /* of its file */
    int refused;             /* it could never be opened: its launches stand in all other companions */
    struct mt_trace *next;
    _Atomic int busy;                                   /* a launch is under way */
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
static struct mt_companion_head head = {.device = "cpu", .device_name = ""};

void mt_trace_device(const char *kind, const char *name, unsigned sms)
{
    head.device = kind;
    head.device_name = name;
    head.sms = sms;
}

int mt_trace_path(const char *dir, const char *pattern, uint64_t n, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "%s/", dir);
    for (; *pattern && at < size; pattern++) {
        if (*pattern == '?')
            at += (size_t)snprintf(out + at, size - at, "%llu", (unsigned long long)n);
        else if (pattern[0] == '%' && pattern[1] == 'p' && pattern++)
            at += (size_t)snprintf(out + at, size - at, "%ld", (long)getpid());
        else
            out[at++] = *pattern;
    }
    if (at >= size)
        return -1;
    out[at] = 0;
    return 0;
}

/* ---- raw or compact, or to an extractor ---- */

#define SUFFIX ".mtc"

int mt_trace_compact(void)
{
    return mt_live_wanted() || mt_options()->format == MT_FORMAT_COMPACT;
}

static int is_open(const struct mt_trace *t)
{
    return t->sink || t->compact || t->live;
}

static int is_on(const struct mt_trace *t)
{
    if (t->live)
        return mt_live_on();
    return t->compact ? mt_compact_on(t->compact) : t->sink && mt_sink_on(t->sink);
}

static const char *error_of(const struct mt_trace *t)
{
    if (t->live)
        return mt_live_error();
    return t->compact ? mt_compact_error(t->compact) : t->sink ? mt_sink_error(t->sink) : "";
}

/* 1 when the launch's accesses will stand in the file. */
static int begin_file(struct mt_trace *t, struct mt_launch_line *l)
{
    if (t->live) {
        l->traced = 1; /* this goes ahead of the launch */
        return !mt_live_begin(t->live, l);
    }
    if (!t->compact)
        return t->sink && !mt_sink_begin(t->sink, l->kernel);
    t->bytes = mt_compact_bytes(t->compact);
    return !mt_compact_begin(t->compact, l);
}

/* Returns how many records there are of the launch. */
static uint64_t end_file(struct mt_trace *t)
{
    uint64_t written = t->live      ? mt_live_end(t->live)
                       : t->compact ? mt_compact_end(t->compact)
                                    : mt_sink_end(t->sink);
    mt_selection_wrote(t->compact ? mt_compact_bytes(t->compact) - t->bytes : written * MT_RAW_RECORD_SIZE);
    return written;
}

/* A whole trace, or as much as there is, to the extractor. */
static void trace_give(struct mt_trace *t, int memory)
{
    mt_live_give((uint32_t)t->n, t->path, memory);
    close(memory);
    free(t->path);
    t->path = NULL;
}

static void close_file(struct mt_trace *t)
{
    struct mt_sink *sink = t->sink;
    struct mt_compact *compact = t->compact;
    t->sink = NULL;
    t->compact = NULL;
    mt_sink_close(sink);
    int memory = t->path ? mt_compact_descriptor(compact) : -1;
    mt_compact_close(compact);
    if (memory >= 0)
        trace_give(t, memory);
}

static int has_suffix(const char *path)
{
    size_t n = strlen(path);
    return n >= strlen(SUFFIX) && !strcmp(path + n - strlen(SUFFIX), SUFFIX);
}

static void open_whole(struct mt_trace *t, const char *path, const struct mt_companion_head *h)
{
    t->path = strdup(path);
    t->compact =
        t->path ? mt_compact_in_memory(path, h, (int)mt_options()->level, t->why, sizeof t->why) : NULL;
    if (!t->compact)
        mt_report_file("%s; stream %llu is not traced", *t->why ? t->why : "no memory",
                       (unsigned long long)t->n);
}

static void open_live(struct mt_trace *t, const char *path, const struct mt_companion_head *h)
{
    t->live = mt_live_open(path, t->why, sizeof t->why);
    t->companion = t->live ? mt_companion_in_memory(h) : NULL;
    if (t->live)
        mt_live_lines_of(t->live, t->companion);
    if (t->live && !t->companion)
        snprintf(t->why, sizeof t->why, "no memory for its lines");
    if (!t->live || !t->companion)
        mt_report_file("%s; stream %llu is not traced", t->why, (unsigned long long)t->n);
}

static void open_files(struct mt_trace *t)
{
    char path[PATH_MAX - 8], meta[PATH_MAX];
    const struct mt_options *o = mt_options();
    int compact = o->format == MT_FORMAT_COMPACT, live = mt_live_wanted(), whole = 0;
    if (live && mt_live_start(&whole, t->why, sizeof t->why)) {
        mt_report_file("%s; stream %llu is not traced", t->why, (unsigned long long)t->n);
        return;
    }
    compact |= whole;
    if (mt_trace_path(o->dir, o->pattern, t->n, path, sizeof path - strlen(SUFFIX))) {
        snprintf(t->why, sizeof t->why, "the path from MEMTRACE_DIR and MEMTRACE_PATTERN is too long");
        mt_report_file("%s; stream %llu is not traced", t->why, (unsigned long long)t->n);
        return;
    }
    if (compact && !has_suffix(path))
        strcat(path, SUFFIX);
    snprintf(meta, sizeof meta, "%s.meta", path);
    snprintf(t->name, sizeof t->name, "%s", strrchr(path, '/') + 1);
    struct mt_companion_head h = head;
    h.trace = t->name;
    h.stream = t->n;
    h.format = compact ? "compact" : "raw";
    if (live) {
        whole ? open_whole(t, path, &h) : open_live(t, path, &h);
        return;
    }
    t->companion = mt_companion_open(meta, &h, t->why, sizeof t->why);
    if (!t->companion)
        mt_report_file("%s; stream %llu has no companion", t->why, (unsigned long long)t->n);
    if (compact)
        t->compact = mt_compact_open(path, &h, (int)o->level, t->why, sizeof t->why);
    else
        t->sink = mt_sink_open(path, t->why, sizeof t->why);
    if (!is_open(t))
        mt_report_file("%s; stream %llu is not traced", t->why, (unsigned long long)t->n);
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
    t->refused = !is_open(t);
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
    l->traced = begin_file(t, l);
}

void mt_trace_begin(struct mt_trace *t, struct mt_launch_line *l)
{
    l->seq = t && t->live && !mt_forked() ? mt_live_number(t->live) : mt_event_seq();
    l->begin_ns = mt_now_ns();
    mt_trace_open_launch(t, l);
}

void mt_trace_append(void *trace, const void *records, size_t n)
{
    struct mt_trace *t = trace;
    if (t->sink)
        mt_sink_append(t->sink, records, n);
}

void mt_trace_append_runs(void *trace, const struct mt_access_run *runs, size_t n, uint64_t accesses)
{
    struct mt_trace *t = trace;
    if (t->live)
        mt_live_append(t->live, runs, n, accesses);
    else if (t->compact)
        mt_compact_append(t->compact, runs, n, accesses);
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
        snprintf(t->why, sizeof t->why, "kernel %.200s: its records are not what its counters say",
                 l->kernel);
    mt_report("kernel %s: accesses/bytes of loads, stores, atomics: records %llu/%llu, %llu/%llu, %llu/%llu, "
              "counters %llu/%llu, %llu/%llu, %llu/%llu; the trace is incomplete",
              l->kernel, (unsigned long long)r[0], (unsigned long long)r[1], (unsigned long long)r[2],
              (unsigned long long)r[3], (unsigned long long)r[4], (unsigned long long)r[5],
              (unsigned long long)c[0], (unsigned long long)c[1], (unsigned long long)c[2],
              (unsigned long long)c[3], (unsigned long long)c[4], (unsigned long long)c[5]);
}

void mt_trace_end(struct mt_trace *t, struct mt_launch_line *l)
{
    if (!mt_tracing())
        return;
    l->end_ns = mt_now_ns();
    if (!t || t->refused) { /* for all companions */
        struct mt_jsonl j = {0};
        mt_launch_text(&j, l);
        mt_jsonl_end(&j);
        mt_log_line(&j);
        mt_jsonl_free(&j);
        if (t) {
            t->counted += l->records;
            t->lost += l->records;
            t->launches++;
            t->busy = 0;
        }
        return;
    }
    uint64_t written = l->traced ? end_file(t) : 0;
    t->written += written;
    t->counted += l->records;
    t->launches++;
    if (l->records != written) {
        t->lost += l->records > written ? l->records - written : 0;
        if (!t->why[0] || is_open(t))
            snprintf(t->why, sizeof t->why, "%s",
                     *error_of(t) ? error_of(t) : "the device counted other records than arrived");
    }
    check_counts(t, l);
    mt_companion_launch(t->companion, l);
    if (t->compact)
        mt_compact_launch(t->compact, l);
    t->busy = 0;
}

void mt_trace_drop(struct mt_trace *t, uint64_t launches)
{
    if (t)
        t->dropped += launches;
}

void mt_trace_miss(struct mt_trace *t)
{
    if (t)
        t->missed++;
}

/* Companion first: whoever reads the trace to its end shall find it whole. */
static void end_companion(struct mt_trace *t)
{
    int whole = t->closed ? t->whole
                          : is_on(t) && t->written == t->counted && !t->busy && !t->dropped && !t->disagree &&
                                !t->missed;
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
        if (is_open(t) && !is_on(t))
            snprintf(t->why, sizeof t->why, "%s", error_of(t));
        mt_companion_lost(t->companion, t->lost, t->why);
        if (t->compact)
            mt_compact_lost(t->compact, t->lost, t->why);
        t->told = 1;
    }
    struct mt_companion_end e = {t->written, t->counted, t->launches, whole && !mt_log_dropped()};
    mt_companion_end(t->companion, &e);
    if (t->compact)
        mt_compact_last(t->compact, &e);
}

void mt_trace_close(struct mt_trace *t)
{
    if (!t || mt_forked())
        return;
    end_companion(t);
    mt_companion_park(t->companion);
    t->closed = 1;
    pthread_mutex_lock(&lock); /* mt_trace_flush may be at it, from another thread */
    close_file(t);
    pthread_mutex_unlock(&lock);
}

static void flush_lines(struct mt_trace *t)
{
    mt_companion_flush(t->companion, 0);
    if (t->compact)
        mt_compact_flush(t->compact);
}

void mt_trace_flush(void)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    for (struct mt_trace *t = traces; t; t = t->next)
        flush_lines(t);
    pthread_mutex_unlock(&lock);
}

void mt_trace_finish(void)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    for (struct mt_trace *t = traces; t; t = t->next) {
        end_companion(t);
        if (t->live)
            mt_live_close(t->live);
        if (t->busy && t->path) {
            flush_lines(t);
            trace_give(t, mt_compact_descriptor(t->compact));
        }
        if (t->busy)
            continue; /* a thread still writes; the process is about to end */
        mt_companion_close(t->companion);
        t->companion = NULL;
        close_file(t);
    }
    mt_live_finish();
    if (!count && mt_selection_left_out())
        mt_note("no launch is traced: %llu were left out (MEMTRACE_KERNELS, MEMTRACE_LAUNCHES or "
                "MEMTRACE_FROM_START)",
                (unsigned long long)mt_selection_left_out());
    pthread_mutex_unlock(&lock);
}
