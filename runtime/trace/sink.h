/* Writes one raw trace, MemTrace-pipe-N: byte-exact to docs/trace-format.md. Regular file or FIFO. An output
 * (output.h) of records: each append is written in one piece, straight from the caller's memory. When writing
 * fails a regular file is cut back to its last whole record; what comes later is only counted. */
#ifndef MT_COMMON_SINK_H
#define MT_COMMON_SINK_H
#include <stddef.h>
#include <stdint.h>
#include "output.h"

struct mt_sink;

/* Opens `path` (a FIFO waits for its reader) and writes the file header. NULL:
 * *why is a sentence for the user. */
struct mt_sink *mt_sink_open(const char *path, char *why, size_t size);
#endif
