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
#include <stddef.h>
#include <stdint.h>
#include "companion.h"

struct mt_trace;

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
struct mt_access_run;
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
#endif
