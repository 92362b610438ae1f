/* Writes one compact trace, MemTrace-pipe-N.mtc: a container with the accesses of a stream's launches as runs
 * of warps and, in meta chunks, what its companion says. Regular file or FIFO. An output (output.h) of runs:
 * each append encodes and packs its own chunk. Each chunk is one write. When writing fails a regular file is
 * cut back to its last whole chunk; what comes later is only counted. */
#ifndef MT_COMMON_COMPACT_H
#define MT_COMMON_COMPACT_H
#include <stddef.h>
#include "output.h"

struct mt_compact;
struct mt_header_line;

/* Opens `path` (a FIFO waits for its reader) and writes the head; level: zstd's, 0 stores. NULL: *why is a
 * sentence for the user. */
struct mt_compact *mt_compact_open(const char *path, const struct mt_header_line *head, int level, char *why,
                                   size_t size);
/* The companion in the file: it gets what the one beside it gets. It goes with the output. */
struct mt_companion_writer *mt_compact_inside(const struct mt_compact *c);
#endif
