/* Writes one compact trace, MemTrace-pipe-N.mtc: a container with the accesses of a stream's launches as runs
 * of warps and, in meta chunks, what its companion says. Regular file or FIFO.
 *
 *   open { begin append* end }* close
 *
 * begin, end and close come from one thread at a time and with no append under way; appends of one launch may
 * come from many threads at once: each encodes and packs its own chunk. Each chunk is one write. When writing
 * fails the reason is reported once, a regular file is cut back to its last whole chunk, and the trace is
 * off: what comes later is only counted. */
#ifndef MT_COMMON_COMPACT_H
#define MT_COMMON_COMPACT_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/device.h"

struct mt_compact;
struct mt_companion_head;
struct mt_launch_line;
struct mt_companion_end;

/* Opens `path` (a FIFO waits for its reader) and writes the head; level: zstd's, 0 stores. NULL: *why is a
 * sentence for the user. */
struct mt_compact *mt_compact_open(const char *path, const struct mt_companion_head *head, int level,
                                   char *why, size_t size);
/* The same in memory, for an extractor that is given the descriptor; `path`: what it would be called. */
struct mt_compact *mt_compact_in_memory(const char *path, const struct mt_companion_head *head, int level,
                                        char *why, size_t size);
/* A new descriptor of the file, the caller's; -1: there is none. */
int mt_compact_descriptor(const struct mt_compact *c);
/* Begins the launch of this line. 0, or -1 when the trace is off. */
int mt_compact_begin(struct mt_compact *c, const struct mt_launch_line *l);
/* `accesses` of threads, in `count` runs. */
void mt_compact_append(struct mt_compact *c, const struct mt_access_run *runs, size_t count,
                       uint64_t accesses);
/* Ends the launch's accesses. Returns how many of them stand in the file. */
uint64_t mt_compact_end(struct mt_compact *c);
/* What companions are told: launch, lost and end lines; flush as in companion.h. */
void mt_compact_launch(struct mt_compact *c, const struct mt_launch_line *l);
void mt_compact_lost(struct mt_compact *c, uint64_t count, const char *why);
void mt_compact_last(struct mt_compact *c, const struct mt_companion_end *e);
void mt_compact_flush(struct mt_compact *c);
/* 1 while it writes. */
int mt_compact_on(const struct mt_compact *c);
/* Why it is off, or "". */
const char *mt_compact_error(const struct mt_compact *c);
/* Bytes in the file. */
uint64_t mt_compact_bytes(const struct mt_compact *c);
/* Writes index and tail, closes the file and frees all. */
void mt_compact_close(struct mt_compact *c);
#endif
