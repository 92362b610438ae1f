/* Runs of warps as well-known kernels make them, without running any:
 * for figures and tests of the container. */
#ifndef BENCH_STREAMS_H
#define BENCH_STREAMS_H
#include <stddef.h>
#include "memtrace/device.h"

/* In the order of the CPU device (a CTA after the other, a warp after the other), or as warps of many CTAs
 * take turns on a GPU, not quite evenly. */
enum stream_order { STREAM_CTAS, STREAM_MIXED };

/* The names, NULL at the end. */
extern const char *const stream_names[];

struct stream {
    struct mt_access_run *runs;
    uint64_t *lanes; /* addresses of the runs that have some */
    size_t count;
    uint64_t accesses;
};
/* About `most` runs (at least one of each kind, never more) of stream_names[which]. 0,
 * or -1 without memory. */
int stream_make(struct stream *s, unsigned which, enum stream_order order, size_t most);
void stream_free(struct stream *s);
#endif
