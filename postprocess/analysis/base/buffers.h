/* Which allocation an address lies in, launch by launch: an address that is used again is another buffer. In
 * a host program allocations come and go within the launch. */
#ifndef MT_ANALYSIS_BUFFERS_H
#define MT_ANALYSIS_BUFFERS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/trace.h"

/* Addresses first to last, both included, all of which lie in one live allocation, or in none. */
struct mt_buffer_stretch {
    uint64_t first, last;
    const struct mt_alloc_event *in; /* NULL: in none */
};

enum { MT_BUFFERS_RECENT = 4 };

/* An allocation begins or ends: from this number on it is, or is not, live. */
struct mt_buffer_change {
    uint64_t seq;
    size_t alloc; /* in the caller's array */
    int begins;
};

struct mt_buffers {
    const struct mt_alloc_event *allocs; /* the caller's */
    size_t nallocs;
    const struct mt_alloc_event **live; /* by base, then id */
    size_t nlive;
    struct mt_buffer_change *changes; /* ascending seq; what ends before what begins */
    size_t nchanges;
    size_t generation; /* so many changes are in `live` */
    int built;
    int ever; /* `live` are all there ever were: they may lie over each other */
    struct mt_buffer_stretch recent[MT_BUFFERS_RECENT]; /* found last; first > last: none */
    unsigned next;                                      /* of them to be replaced */
};

/* 0, or -1 without memory. */
int mt_buffers_init(struct mt_buffers *b, const struct mt_alloc_event *allocs, size_t n);
/* From now on addresses are those of the launch with this seq (MT_SEQ_NONE: not known, nothing is live), or,
 * within a host program, those with this number in force. For a host program as a whole (from MT_SEQ_PROGRAM
 * on) an address is that of the last allocation that held it. Ascending numbers cost what changes. */
void mt_buffers_launch(struct mt_buffers *b, uint64_t seq);
/* The stretch that the byte is in: as long as it can be. Valid until the next call. */
const struct mt_buffer_stretch *mt_buffers_stretch_slow(struct mt_buffers *b, uint64_t address);
static inline const struct mt_buffer_stretch *mt_buffers_stretch(struct mt_buffers *b, uint64_t address)
{
    for (int i = 0; i < MT_BUFFERS_RECENT; i++)
        if (address >= b->recent[i].first && address <= b->recent[i].last)
            return &b->recent[i];
    return mt_buffers_stretch_slow(b, address);
}
/* The live allocation that holds the byte, or NULL. Of several that are live the one with the highest base. */
static inline const struct mt_alloc_event *mt_buffers_find(struct mt_buffers *b, uint64_t address)
{
    return mt_buffers_stretch(b, address)->in;
}
void mt_buffers_free(struct mt_buffers *b);
#endif
