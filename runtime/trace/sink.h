/* Writes one raw trace, MemTrace-pipe-N: byte-exact to docs/trace-format.md. Regular file or FIFO.
 *
 *   open { begin append* end }* close
 *
 * begin, end and close come from one thread at a time and with no append under way; appends of one launch may
 * come from many threads at once, each is written in one piece, straight from the caller's memory. When
 * writing fails the reason is reported once, a regular file is cut back to its last whole record, and the
 * sink is off: what comes later is only counted. */
#ifndef MT_COMMON_SINK_H
#define MT_COMMON_SINK_H
#include <stddef.h>
#include <stdint.h>

struct mt_sink;

/* Opens `path` (a FIFO waits for its reader) and writes the file header. NULL: *why is a sentence for the
 * user. */
struct mt_sink *mt_sink_open(const char *path, char *why, size_t size);
/* Begins a launch; an LF in the name becomes a space. 0, or -1 when the sink is off. */
int mt_sink_begin(struct mt_sink *sink, const char *kernel);
/* `records` are `count` whole records of 24 bytes. */
void mt_sink_append(struct mt_sink *sink, const void *records, size_t count);
/* Ends the launch. Returns the records of this launch that stand in the file. */
uint64_t mt_sink_end(struct mt_sink *sink);
/* 1 while the sink writes. */
int mt_sink_on(const struct mt_sink *sink);
int mt_sink_is_fifo(const struct mt_sink *sink);
/* Records in the file, and records that came but are not in it. */
uint64_t mt_sink_written(const struct mt_sink *sink);
uint64_t mt_sink_lost(const struct mt_sink *sink);
/* Why the sink is off, or "". */
const char *mt_sink_error(const struct mt_sink *sink);
/* Closes the file and frees the sink. */
void mt_sink_close(struct mt_sink *sink);
#endif
