/* A CUDA runtime for the tests of runtime/gpu: memory is host memory, a stream is a thread that runs what is
 * put into it in order. And the trace side: what reaches a trace is kept. */
#ifndef MT_TEST_FAKE_CUDA_H
#define MT_TEST_FAKE_CUDA_H
#include <stddef.h>
#include <stdint.h>
#include <cuda_runtime_api.h>
#include "trace/trace.h"
#include "memtrace/device.h"
#include "memtrace/record.h"

struct fake_stream;
struct fake_stream *fake_stream_new(void);
void fake_stream_free(struct fake_stream *s);
/* Puts a piece of work into a stream. */
void fake_stream_run(struct fake_stream *s, void (*f)(void *), void *data);
void fake_stream_wait(struct fake_stream *s);
extern int fake_no_write_value;       /* the driver has no stream-ordered write */
extern int fake_capturing;            /* all streams are being captured */
extern cudaError_t fake_stream_error; /* what StreamQuery and MemcpyAsync say from now on */
/* Variables of the program's code, by name (NULL: there is no such one); loaded anew they have this value. */
extern const char *fake_variable_names[2];
extern uint32_t fake_variables[2];
/* The driver's exit handler takes what it gave, once kernels are done; and each packet takes so long to get
 * into a trace. */
extern int fake_unmaps_at_exit;
extern unsigned fake_sink_us;
extern struct fake_stream *fake_allocation_waits_for; /* until it is empty, as some drivers do */
/* The current context (NULL: none yet), and each device's primary one: it is there, and so often retained. */
extern void *fake_context, *fake_primary;
extern int fake_primary_active, fake_retained;
extern int fake_no_memory;  /* for what host and device share */
extern int fake_drop_marks; /* work put into a stream by the library itself is lost: the device died */

extern int fake_compact;    /* MEMTRACE_FORMAT=compact */
extern unsigned fake_every; /* MEMTRACE_SAMPLE=cta:N; before the first launch */

struct fake_launch {
    char kernel[64];
    struct mt_launch_line line;
    struct mt_raw_record *records;
    uint32_t *sites; /* of each record, in compact traces */
    size_t count;
};
/* What is in a trace. Valid while nothing is under way. */
struct mt_trace *fake_trace_new(void);
const struct fake_launch *fake_trace_launches(struct mt_trace *t, size_t *count);
void fake_trace_free(struct mt_trace *t);
unsigned fake_untraced(void);                   /* launches that ended without a trace */
unsigned fake_missed(const struct mt_trace *t); /* of these, those that should have been in this one */
extern int fake_forked;                         /* this is a child */
extern unsigned fake_reports;                   /* lines for the user so far */
extern char fake_report[512];                   /* the last one */
#endif
