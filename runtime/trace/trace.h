/* Trace of one CUDA stream: an output and its companion file (the JSON lines beside a trace), numbered in the
 * order of first traced launches.
 *
 *   t = mt_trace_open()                      first traced launch of a stream
 *   { mt_trace_begin, mt_trace_append*, mt_trace_end }*   launches of one stream: one after the other
 *   mt_trace_close(t)                        the stream is destroyed
 *   mt_trace_finish()                        the process ends
 *
 * All functions may be called after any failure; losses are counted and reported. */
#ifndef MT_COMMON_TRACE_H
#define MT_COMMON_TRACE_H
#include "base/json.h"
#include "site.h"
#include <stddef.h>
#include <stdint.h>

struct mt_trace;
struct mt_access_run;

/* Describes the device for trace headers, before the first mt_trace_open. Strings must be constant. */
void mt_trace_device(const char *kind, const char *name, unsigned sms);
/* Sets the version of NVIDIA's library, and the instructions it cannot report (NULL: none), for headers
 * written from now on. The texts must live as long as the process. */
void mt_trace_sanitizer(const char *version, const char *refused);
/* There will be totals and no records: traces are raw, whose companion files have them in any case. */
void mt_trace_only(const char *results);
/* Sets the number of threads that write the accesses of its CTAs. */
void mt_trace_workers(unsigned n);
/* Opens the next trace. Blocks only on a FIFO without reader. Returns NULL if out of memory, or if this
 * process is not traced. */
struct mt_trace *mt_trace_open(void);
/* Returns N, or -1 for NULL. */
int64_t mt_trace_number(const struct mt_trace *t);
/* Fills seq, stream, begin_ns and traced of *l. t NULL: the launch is not traced. */
void mt_trace_begin(struct mt_trace *t, struct mt_launch_line *l);
/* Same for a launch that already has seq and begin_ns. */
void mt_trace_open_launch(struct mt_trace *t, struct mt_launch_line *l);
/* Returns 1 under MEMTRACE_FORMAT=compact: traces take runs (mt_trace_append_runs), not records. */
int mt_trace_compact(void);
/* Has the signature of mt_cpu_launch.flush_runs. */
uint64_t mt_trace_append_runs(void *trace, const struct mt_access_run *runs, size_t count, int single);
/* Has the signature of mt_cpu_launch.flush; `trace` is the struct mt_trace. */
void mt_trace_append(void *trace, const void *records, size_t count);
/* Has the signature of mt_cpu_launch.fence. */
void mt_trace_fence(void *trace);
/* Writes the launch line. l->records, untraced and status are set by the device. */
void mt_trace_end(struct mt_trace *t, struct mt_launch_line *l);
/* Marks the trace incomplete: a launch ran without records, as reported, or not at all. `why`: a sentence, or
 * NULL. */
void mt_trace_miss(struct mt_trace *t, const char *why);
/* Same without a stream: marks all open traces incomplete. The first reason is kept. */
void mt_trace_miss_anywhere(const char *why);
/* Marks the trace incomplete by `launches` that will not run. */
void mt_trace_drop(struct mt_trace *t, uint64_t launches);
void mt_trace_close(struct mt_trace *t);
/* Brings companion files on disk up to date at synchronisation points; all: completely. */
void mt_trace_flush(int all);
/* Makes a trace without launches if there is none, and there are findings (mt_event_findings) or may be some.
 */
void mt_trace_needed(void);
/* 1: a kernel without record calls was launched that belongs to no trace, so a trace without launches would
 * hide it. */
extern _Atomic int mt_trace_bare;
/* Closes all traces at process exit. A process with copies but no launches gets a trace without launches. */
void mt_trace_finish(void);

/* Makes the path of trace n for the options `dir` and `pattern`. Returns 0, or -1 if it does not fit. */
int mt_trace_path(const char *dir, const char *pattern, uint64_t n, char *out, size_t size);

/* Limit of the log bytes repeated in companion files after the process's first (default 4 MiB in total; of
 * more than two streams two shares of all). Beyond it, a `shared` line refers to the first one for
 * the process's events: many streams times many events would fill any disk. */
extern uint64_t mt_companion_repeats;

/* ---- Output of the accesses of one stream's launches: a raw or a compact file. Each has a table of
 * functions, which take the result of its own open function:
 *
 *   open { begin (append | fence)* end }* close
 *
 * begin, end and close are called by one thread at a time; append and fence by many threads at once, with
 * none under way at begin and end. Only begin returns errors: after a failure, reported once, the output is
 * off and knows the reason. ---- */

struct mt_output_ops {
    int spaces; /* takes runs of barriers and of non-global memory (record.def), too */
    /* Begins the launch of this line. Returns 0, or -1 if the output is off. */
    int (*begin)(void *self, const struct mt_launch_line *l);
    /* Append `count` records of 24 bytes; or `count` runs, which with `single` are accesses of one thread
     * each, not grouped by warp. One of the two is NULL. */
    void (*append)(void *self, const void *records, size_t count);
    uint64_t (*append_runs)(void *self, const struct mt_access_run *runs, size_t count, int single);
    /* Orders everything that the calling thread has appended before all later appends. NULL: no need. */
    void (*fence)(void *self);
    /* Ends the launch. Returns the number of its accesses in the output, with *bytes set to their size. */
    uint64_t (*end)(void *self, uint64_t *bytes);
    /* Gives the sample hash of the launch that has just ended, for its line (memtrace/sample.h). Returns 1,
     * or 0 if there is none. NULL: the output itself identifies the run. */
    int (*sample)(const void *self, uint64_t *hash);
    /* Returns 1 while it writes; `error` returns the reason if not, or "". */
    int (*on)(const void *self);
    const char *(*error)(const void *self);
    /* Ends the output and frees everything. NULL: it stays until the process ends. */
    void (*close)(void *self);
};

/* A raw trace, MemTrace-pipe-N, byte-exact to docs/trace-format.md: an output of records to a regular file or
 * FIFO. Each append is written in one piece, straight from the caller's memory. When writing fails, a regular
 * file is cut back to its last whole record, and later records are only counted. */
struct mt_sink;
extern const struct mt_output_ops mt_sink_ops;
/* Opens `path` (a FIFO waits for its reader) and writes the file header. Returns NULL with *why set to a
 * sentence for the user. */
struct mt_sink *mt_sink_open(const char *path, char *why, size_t size);
#endif
