/* MEMTRACE_SINK=extract:FILE: traces go to an mt-extract that runs beside the program, and touch no disk.
 *
 * mt-extract is a process of its own (docs/design/decisions.md). It reads one socket, in which launches of
 * all streams are whole, one after the other, in the order of their numbers, and before each the lines of
 * what happened before it (memtrace/live.h). Accesses of a launch that is not first wait in memory and, if
 * they are many, in an unnamed file. Who writes waits for mt-extract; it waits for nothing but its socket.
 *
 * What it is asked for may need more than one look. Then it wants whole traces: compact ones, which are made
 * in memory and given to it when their streams end. */
#ifndef MT_COMMON_LIVE_H
#define MT_COMMON_LIVE_H
#include <stddef.h>
#include <stdint.h>
#include "output.h"

struct mt_companion_writer;
struct mt_live; /* one stream's part */

/* 1 when MEMTRACE_SINK asks for it. Thread-safe. A text that is not understood is reported, once. */
int mt_live_wanted(void);
/* Starts mt-extract at the first call. 0 with what it wants: *whole, traces by mt_live_give; else runs, by
 * an output (output.h) that takes runs. -1: *why is a sentence for the user. */
int mt_live_start(int *whole, char *why, size_t size);
/* A whole trace, with the path that it would have. The descriptor stays the caller's; -1: it is gone, which
 * is told. */
void mt_live_give(uint32_t number, const char *path, int trace);
/* The stream whose trace would have this path. NULL: *why is a sentence for the user. */
struct mt_live *mt_live_open(const char *path, char *why, size_t size);
/* Where its lines are; before the first launch. */
void mt_live_lines_of(struct mt_live *s, struct mt_companion_writer *c);
/* All is sent: waits until mt-extract has written its result. */
void mt_live_finish(void);
#endif
