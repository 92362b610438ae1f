/* Runs of warps as well-known kernels make them, without running kernels: for measurements and tests of
 * compact traces. */
#ifndef BENCH_STREAMS_H
#define BENCH_STREAMS_H
#include <stddef.h>
#include "memtrace/device.h"

/* Order of the runs: as on the CPU device, one CTA and one warp after another, or as on a GPU, with warps of
 * many CTAs alternating, slightly unevenly. */
enum stream_order { STREAM_CTAS, STREAM_MIXED };

/* Names, NULL-terminated. */
extern const char *const stream_names[];

struct stream {
    struct mt_access_run *runs;
    uint64_t *lanes; /* lane addresses, for runs that have some */
    size_t count;
    uint64_t accesses;
};
/* Makes about `most` runs (at least one of each kind, never more) of stream_names[which]. Returns 0, or -1
 * without memory. */
int stream_make(struct stream *s, unsigned which, enum stream_order order, size_t most);
void stream_free(struct stream *s);
#endif
