/* Where the accesses of one stream's launches go: into a raw file (sink.c), into a compact one (compact.c).
 * Each has one row of functions, over what its own open function gave.
 *
 *   open { begin (append | fence)* end }* close
 *
 * begin, end and close come from one thread at a time; appends and fences of one launch come from many
 * threads at once, with none under way at begin and end. None of them fails but begin: what goes wrong is
 * reported once, and from then on the output is off and says why. */
#ifndef MT_TRACE_OUTPUT_H
#define MT_TRACE_OUTPUT_H
#include <stddef.h>
#include <stdint.h>

struct mt_access_run;
struct mt_launch_line;

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

extern const struct mt_output_ops mt_sink_ops, mt_compact_ops;
#endif
