/* Which allocation an address lies in, launch by launch: an address that is used again is another buffer. */
#ifndef MT_ANALYSIS_BUFFERS_H
#define MT_ANALYSIS_BUFFERS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/trace.h"

struct mt_buffers {
    const struct mt_alloc_event *allocs; /* the caller's */
    size_t nallocs;
    const struct mt_alloc_event **live; /* by base, then id */
    size_t nlive;
    uint64_t *changes; /* seq of all allocations and frees, ascending */
    size_t nchanges;
    size_t generation; /* changes before the launch that `live` is of */
    int built;
    size_t last; /* index into `live` found last */
};

/* 0, or -1 without memory. */
int mt_buffers_init(struct mt_buffers *b, const struct mt_alloc_event *allocs, size_t n);
/* From now on addresses are those of the launch with this seq (MT_SEQ_NONE: not known, nothing is live). */
void mt_buffers_launch(struct mt_buffers *b, uint64_t seq);
/* The live allocation that holds the byte, or NULL. */
const struct mt_alloc_event *mt_buffers_find(struct mt_buffers *b, uint64_t address);
void mt_buffers_free(struct mt_buffers *b);
#endif
