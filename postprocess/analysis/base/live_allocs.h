/* Finds the allocation of host code that contains an address, as allocations come and go one by one. There
 * are two layers of disjoint half-open ranges: blocks (malloc family) above maps (mmap, program break). A new
 * range removes overlapping parts in its layer, which must have been freed without being noticed. */
#ifndef MT_ANALYSIS_LIVE_ALLOCS_H
#define MT_ANALYSIS_LIVE_ALLOCS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/trace.h"

struct mt_live_allocs;

/* Creates the structure. `allocs` in any order; owned by the caller, kept. Returns NULL without memory. */
struct mt_live_allocs *mt_live_allocs_new(const struct mt_alloc_event *allocs, size_t n);
/* Adds parts of these allocations that were given back (owned by the caller, kept). Before the first advance.
 * Returns 0, or -1 without memory. */
int mt_live_allocs_cut(struct mt_live_allocs *l, const struct mt_cut_event *cuts, size_t n);
/* Applies allocations and releases up to this sequence number, which ascends. Returns 0, or -1 without
 * memory. */
int mt_live_allocs_advance(struct mt_live_allocs *l, uint64_t seq);
/* Returns the allocation that contains the byte now, or NULL. */
const struct mt_alloc_event *mt_live_allocs_find(struct mt_live_allocs *l, uint64_t address);
/* Returns the allocation that contains the byte, or NULL. *first to *last (inclusive) have the same
 * result. */
const struct mt_alloc_event *mt_live_allocs_stretch(struct mt_live_allocs *l, uint64_t address,
                                                    uint64_t *first, uint64_t *last);
void mt_live_allocs_free(struct mt_live_allocs *l);
#endif
