/* Which allocation an address lies in, launch by launch: an address that is used again is another buffer. In
 * a host program allocations come and go within the launch. */
#ifndef MT_ANALYSIS_BUFFERS_H
#define MT_ANALYSIS_BUFFERS_H
#include <stddef.h>
#include <stdint.h>
#include "live_allocs.h"
#include "memtrace/trace.h"

/* Addresses first to last, both included, all of which lie in one live allocation, or in none. */
struct mt_buffer_stretch {
    uint64_t first, last;
    const struct mt_alloc_event *in; /* NULL: in none */
};

enum { MT_BUFFERS_RECENT = 4 };

struct mt_buffers {
    const struct mt_alloc_event *allocs; /* the caller's */
    size_t nallocs;
    const struct mt_alloc_event **live; /* by base, then id */
    size_t nlive;
    uint64_t *changes; /* seq of all allocations and frees, ascending */
    size_t nchanges;
    size_t generation; /* changes before the launch that `live` is of */
    int built;
    int ever;                       /* `live` are all there ever were: they may lie over each other */
    struct mt_live_allocs *program; /* of a host program; NULL: it is none */
    int within;                     /* addresses are those of this moment in it */
    struct mt_buffer_stretch recent[MT_BUFFERS_RECENT]; /* found last; first > last: none */
    unsigned next;                                      /* of them to be replaced */
};

/* 0, or -1 without memory. */
int mt_buffers_init(struct mt_buffers *b, const struct mt_alloc_event *allocs, size_t n);
/* From now on addresses are those of the launch with this seq (MT_SEQ_NONE: not known, nothing is live). Of a
 * host program as a whole (MT_SEQ_PROGRAM and beyond) an address is that of the last allocation that held it.
 */
void mt_buffers_launch(struct mt_buffers *b, uint64_t seq);
/* Within a host program, whose launch began: those with this number in force. Numbers ascend; less memory
 * than needed: the allocations stay what they were. */
void mt_buffers_move(struct mt_buffers *b, uint64_t seq);
/* The stretch that the byte is in: as long as it can be. Valid until the next call. */
const struct mt_buffer_stretch *mt_buffers_stretch_slow(struct mt_buffers *b, uint64_t address);
static inline const struct mt_buffer_stretch *mt_buffers_stretch(struct mt_buffers *b, uint64_t address)
{
    for (int i = 0; i < MT_BUFFERS_RECENT; i++)
        if (address >= b->recent[i].first && address <= b->recent[i].last)
            return &b->recent[i];
    return mt_buffers_stretch_slow(b, address);
}
/* The live allocation that holds the byte, or NULL. Of several the one with the highest base. */
static inline const struct mt_alloc_event *mt_buffers_find(struct mt_buffers *b, uint64_t address)
{
    return mt_buffers_stretch(b, address)->in;
}
/* Its place in the caller's array; of a host program's, that of the first one of the same call. */
static inline uint64_t mt_buffers_place(const struct mt_buffers *b, const struct mt_alloc_event *a)
{
    return a->first ? a->first - 1 : (uint64_t)(a - b->allocs);
}
void mt_buffers_free(struct mt_buffers *b);
#endif
