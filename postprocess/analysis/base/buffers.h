/* Finds the allocation that contains an address, launch by launch: a reused address belongs to another
 * buffer. In a host program allocations come and go within the launch. */
#ifndef MT_ANALYSIS_BUFFERS_H
#define MT_ANALYSIS_BUFFERS_H
#include <stddef.h>
#include <stdint.h>
#include "live_allocs.h"
#include "memtrace/trace.h"

/* Addresses first to last, both included, all in the same live allocation, or all in none. */
struct mt_buffer_stretch {
    uint64_t first, last;
    const struct mt_alloc_event *in; /* allocation of the addresses, or NULL */
};

enum { MT_BUFFERS_RECENT = 4 };

struct mt_buffers {
    const struct mt_alloc_event *allocs; /* allocations of the run, owned by the caller */
    size_t nallocs;
    const struct mt_alloc_event **live; /* by base, then id */
    size_t nlive;
    uint64_t *changes; /* seq of all allocations and frees, ascending */
    size_t nchanges;
    size_t generation; /* number of changes before the launch for which `live` was built */
    int built;
    int ever;                       /* 1: `live` are all allocations of the run, which may overlap */
    struct mt_live_allocs *program; /* live allocations of a host program; NULL for other runs */
    int within;                     /* 1: addresses are looked up at the current moment of the host program */
    struct mt_buffer_stretch recent[MT_BUFFERS_RECENT]; /* latest results; first > last: none */
    unsigned next;                                      /* index of the entry to be replaced next */
};

/* Returns 0, or -1 without memory. */
int mt_buffers_init(struct mt_buffers *b, const struct mt_alloc_event *allocs, size_t n);
/* Selects the allocations that live during the launch with this seq (MT_SEQ_NONE: not known, nothing is
 * live). For a whole host program (MT_SEQ_PROGRAM and above) an address belongs to the last allocation that
 * contained it. */
void mt_buffers_launch(struct mt_buffers *b, uint64_t seq);
/* Selects the allocations that live at this sequence number within a host program whose launch has begun.
 * Numbers ascend. Without memory the selection stays unchanged. */
void mt_buffers_move(struct mt_buffers *b, uint64_t seq);
/* Returns the longest stretch around the byte. Valid until the next call. */
const struct mt_buffer_stretch *mt_buffers_stretch_slow(struct mt_buffers *b, uint64_t address);
static inline const struct mt_buffer_stretch *mt_buffers_stretch(struct mt_buffers *b, uint64_t address)
{
    for (int i = 0; i < MT_BUFFERS_RECENT; i++)
        if (address >= b->recent[i].first && address <= b->recent[i].last)
            return &b->recent[i];
    return mt_buffers_stretch_slow(b, address);
}
/* Returns the live allocation that contains the byte, or NULL; of several the one with the highest base. */
static inline const struct mt_alloc_event *mt_buffers_find(struct mt_buffers *b, uint64_t address)
{
    return mt_buffers_stretch(b, address)->in;
}
/* Returns the index of an allocation in the caller's array; in a host program, the index of the first
 * allocation of the same call. */
static inline uint64_t mt_buffers_place(const struct mt_buffers *b, const struct mt_alloc_event *a)
{
    return a->first ? a->first - 1 : (uint64_t)(a - b->allocs);
}
void mt_buffers_free(struct mt_buffers *b);
#endif
