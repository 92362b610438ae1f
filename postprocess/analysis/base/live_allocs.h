/* Which allocation of host code an address lies in, as allocations come and go one by one: two layers of
 * disjoint half-open ranges, blocks (malloc family) above maps (mmap, program break). What a new range
 * overlaps in its layer is cut away: its owner gave it back in a way that nobody saw. */
#ifndef MT_ANALYSIS_LIVE_ALLOCS_H
#define MT_ANALYSIS_LIVE_ALLOCS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/trace.h"

struct mt_live_allocs;

/* `allocs` (the caller's, kept): any order. NULL without memory. */
struct mt_live_allocs *mt_live_allocs_new(const struct mt_alloc_event *allocs, size_t n);
/* Parts of these allocations that were given back (the caller's, kept). Before the first advance. 0, or -1
 * without memory. */
int mt_live_allocs_cut(struct mt_live_allocs *l, const struct mt_cut_event *cuts, size_t n);
/* Allocations and releases up to this number, included, have happened. Numbers ascend. 0,
 * or -1 without memory. */
int mt_live_allocs_advance(struct mt_live_allocs *l, uint64_t seq);
/* The allocation that holds the byte now, or NULL. */
const struct mt_alloc_event *mt_live_allocs_find(struct mt_live_allocs *l, uint64_t address);
/* The same; all addresses from *first to *last, both included, are as this one. */
const struct mt_alloc_event *mt_live_allocs_stretch(struct mt_live_allocs *l, uint64_t address,
                                                    uint64_t *first, uint64_t *last);
void mt_live_allocs_free(struct mt_live_allocs *l);
#endif
