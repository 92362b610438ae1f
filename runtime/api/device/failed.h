/* MEMTRACE_CHECK=1: calls of CUDA that return an error to the program become `failed` lines of companions. A
 * call that is made within another one, by the runtime itself, is none of the program's. */
#ifndef MT_API_FAILED_H
#define MT_API_FAILED_H
#include <stddef.h>
#include <stdint.h>

/* 1: calls are watched, on the CPU device. */
int mt_failed_watched(void);
/* This thread enters the function `name`, and leaves it. caller: return address in the program's code; if
 * that is one of our own functions for per-thread default streams, what mt_failed_caller said counts. */
void mt_failed_enter(const char *name, const void *caller);
/* code: as returned, 0 for success; error: its name. */
void mt_failed_leave(int code, const char *error);
void mt_failed_caller(const void *caller);

struct mt_cpu_launch;
struct mt_launch_line;
/* A launch ended with this status: an event of its own, as the call returned long ago. */
void mt_failed_launch(const struct mt_cpu_launch *l, const struct mt_launch_line *line, int status);

/* ---- more exact words, for the call under way; nothing where it is not watched ---- */

void mt_failed_why(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* [p, p + bytes) is not in one allocation. what: "destination". */
void mt_failed_range(const char *what, const void *p, uint64_t bytes);
/* A copy of this kind ("DeviceToHost") has memory of the device where it says that of the host is, or of the
 * host where it says the device's. */
void mt_failed_turned(const char *kind, const char *what, const void *p);
/* No block of these kinds (1 << enum mt_heap_kind) begins at p. */
void mt_failed_free(const void *p, unsigned kinds);

/* The process ends: what was counted beyond the first of each place. */
void mt_failed_finish(void);
#endif
