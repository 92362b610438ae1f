/* Writes one companion, MemTrace-pipe-N.meta: JSON lines as docs/trace-format.md says. Lines of the process's
 * log (events.h) are copied in before each line of its own, so a companion that begins late has them all.
 * Regular file or FIFO; a FIFO without reader holds nothing up: lines wait in memory until one comes.
 * Calls on one companion may come from many threads. When writing fails the reason is reported once and the
 * companion is off. */
#ifndef MT_COMMON_COMPANION_H
#define MT_COMMON_COMPANION_H
#include <stddef.h>
#include <stdint.h>
#include "base/line.h"
#include "site.h"

struct mt_companion_writer;

/* head: of its keys `device` to `workers`, `trace`, `format` and `stream`. NULL: *why is a sentence for the
 * user. */
struct mt_companion_writer *mt_companion_open(const char *path, const struct mt_header_line *head, char *why,
                                              size_t size);
/* The same lines into a compact trace: `write` gets whole lines and returns 0 or an errno value; the
 * companion is then off without a word. One call at a time. */
struct mt_companion_writer *mt_companion_inside(const struct mt_header_line *head,
                                                int (*write)(void *self, const char *lines, size_t bytes),
                                                void *self, char *why, size_t size);
/* A `kernel` line: what the chunks of a compact trace call it. */
void mt_companion_kernel(struct mt_companion_writer *c, uint64_t id, const char *name);
void mt_companion_launch(struct mt_companion_writer *c, const struct mt_launch_line *l);
void mt_companion_lost(struct mt_companion_writer *c, uint64_t count, const char *why);
/* Writes what waits in memory. force 0: only if the last time is a while ago; 1: the log, too. */
void mt_companion_flush(struct mt_companion_writer *c, int force);
/* Catches up with the log and writes an `end` line, unless nothing came since the last one. */
void mt_companion_end(struct mt_companion_writer *c, const struct mt_end_line *e);
/* Gives the file descriptor back (regular files); a later flush opens the same file again. */
void mt_companion_park(struct mt_companion_writer *c);
void mt_companion_close(struct mt_companion_writer *c);

/* Bytes of the log that companions after the process's first one may repeat, all together (default 256 MiB).
 * Beyond it they name the first one in a `shared` line and leave the process's events to it: many streams
 * times many events would fill any disk. */
extern uint64_t mt_companion_repeats;

/* A line of the log, for all companions. */
void mt_launch_log(const struct mt_launch_line *l);
#endif
