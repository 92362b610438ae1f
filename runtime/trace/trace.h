/* The trace of one CUDA stream: a sink and its companion, numbered in the order of first traced launches.
 *
 *   t = mt_trace_open()                      first traced launch of a stream
 *   { mt_trace_begin, mt_trace_append*, mt_trace_end }*   launches of one stream: one after the other
 *   mt_trace_close(t)                        the stream is destroyed
 *   mt_trace_finish()                        the process ends
 *
 * All of it may be called whatever went wrong before; what is lost is counted and said. */
#ifndef MT_COMMON_TRACE_H
#define MT_COMMON_TRACE_H
#include "base/line.h"
#include "site.h"
#include <stddef.h>
#include <stdint.h>

struct mt_trace;
struct mt_access_run;

/* What headers say of the device; before the first mt_trace_open. Strings must last. */
void mt_trace_device(const char *kind, const char *name, unsigned sms);
/* So many threads write what its CTAs do. */
void mt_trace_workers(unsigned n);
/* Never blocks on anything but a FIFO without reader. NULL: out of memory, or this process is not traced. */
struct mt_trace *mt_trace_open(void);
/* N, or -1 for NULL. */
int64_t mt_trace_number(const struct mt_trace *t);
/* Fills seq, stream, begin_ns and traced of *l. t NULL: a launch that is not to be traced. */
void mt_trace_begin(struct mt_trace *t, struct mt_launch_line *l);
/* The same of a launch that has its seq and begin_ns already. */
void mt_trace_open_launch(struct mt_trace *t, struct mt_launch_line *l);
/* Under MEMTRACE_FORMAT=compact: traces take runs (mt_trace_append_runs), not records. */
int mt_trace_compact(void);
/* Has the signature of mt_cpu_launch.flush_runs. */
void mt_trace_append_runs(void *trace, const struct mt_access_run *runs, size_t count, uint64_t accesses);
/* Has the signature of mt_cpu_launch.flush; `trace` is the struct mt_trace. */
void mt_trace_append(void *trace, const void *records, size_t count);
/* Has the signature of mt_cpu_launch.fence. */
void mt_trace_fence(void *trace);
/* l->records, untraced and status are the device's; writes the launch line. */
void mt_trace_end(struct mt_trace *t, struct mt_launch_line *l);
/* A launch that should have been in it ran without records, which was said, or not at all: the trace is
 * incomplete. `why`: a sentence, or NULL. */
void mt_trace_miss(struct mt_trace *t, const char *why);
/* The same of what has no stream: all traces that are not closed are incomplete. The first reason stays. */
void mt_trace_miss_anywhere(const char *why);
/* `launches` that should have been in it will not run: the trace is incomplete. */
void mt_trace_drop(struct mt_trace *t, uint64_t launches);
void mt_trace_close(struct mt_trace *t);
/* At synchronisation points: companions on disk shall not be old. all: nothing shall be missing. */
void mt_trace_flush(int all);
/* The process ends: if there are findings (mt_event_findings) and no trace, there is one, without launches.
 */
void mt_trace_needed(void);
/* A kernel without record calls was launched, which no trace is to have. */
void mt_trace_bare(void);
/* The process ends. One that copied and launched nothing at all has a trace without launches. */
void mt_trace_finish(void);

/* The path of trace n under the options `dir` and `pattern`. 0, or -1 when it does not fit. */
int mt_trace_path(const char *dir, const char *pattern, uint64_t n, char *out, size_t size);

/* Bytes of the log that companions after the process's first one may repeat, all together (default 256 MiB).
 * Beyond it they name the first one in a `shared` line and leave the process's events to it: many streams
 * times many events would fill any disk. */
extern uint64_t mt_companion_repeats;

/* ---- Where the accesses of one stream's launches go: into a raw file or into a compact one. Each has one
 * row of functions, over what its own open function gave:
 *
 *   open { begin (append | fence)* end }* close
 *
 * begin, end and close come from one thread at a time; appends and fences of one launch come from many
 * threads at once, with none under way at begin and end. None of them fails but begin: what goes wrong is
 * reported once, and from then on the output is off and says why. ---- */

struct mt_output_ops {
    int spaces; /* takes runs of other memory than global, and of barriers (record.def), too */
    /* Begins the launch of this line. 0, or -1 when it is off. */
    int (*begin)(void *self, const struct mt_launch_line *l);
    /* One of the two is NULL: `count` whole records of 24 bytes; or `accesses` of threads,
     * in `count` runs. */
    void (*append)(void *self, const void *records, size_t count);
    void (*append_runs)(void *self, const struct mt_access_run *runs, size_t count, uint64_t accesses);
    /* What the calling thread has appended comes before what any thread appends from now on. NULL: it does so
     * anyway. */
    void (*fence)(void *self);
    /* Ends the launch. Returns how many of its accesses are there; *bytes: how much they take. */
    uint64_t (*end)(void *self, uint64_t *bytes);
    /* What the line of the launch that has just ended knows its records by (memtrace/sample.h): 1, or 0 if
     * nothing does. NULL: the output itself says of which run it is. */
    int (*sample)(const void *self, uint64_t *hash);
    /* 1 while it writes; why it does not, or "". */
    int (*on)(const void *self);
    const char *(*error)(const void *self);
    /* Ends it and frees all. NULL: it stays until the process ends. */
    void (*close)(void *self);
};

/* A raw trace, MemTrace-pipe-N, byte-exact to docs/trace-format.md: an output of records, into a regular file
 * or FIFO. Each append is written in one piece, straight from the caller's memory. When writing fails a
 * regular file is cut back to its last whole record; what comes later is only counted. */
struct mt_sink;
extern const struct mt_output_ops mt_sink_ops;
/* Opens `path` (a FIFO waits for its reader) and writes the file header. NULL:
 * *why is a sentence for the user. */
struct mt_sink *mt_sink_open(const char *path, char *why, size_t size);
#endif
