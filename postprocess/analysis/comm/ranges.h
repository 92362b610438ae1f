/* Bytes touched by each CTA of a launch: for every CTA and type of access the half-open address ranges,
 * ascending, disjoint and not adjacent. Fed with one launch at a time; memory depends on the number of
 * ranges, not of accesses. Not thread-safe. Zero-initialised is empty. */
#ifndef MT_ANALYSIS_RANGES_H
#define MT_ANALYSIS_RANGES_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/device.h"
#include "memtrace/record.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

struct mt_touched_range {
    uint64_t start, end;
};

struct mt_range_set { /* ranges of one CTA and type */
    uint64_t cta;     /* CTA, as in word 2 of its records */
    uint32_t type;    /* 0 loads, 1 stores, 2 atomics, 3 unknown */
    struct mt_touched_range *list;
    size_t n, room, tidy; /* list[0 .. tidy) is sorted and merged */
};

struct mt_touched {
    struct mt_range_set *sets;
    size_t nsets, room;
    struct mt_pairmap index; /* map from (cta, type) to index in sets */
    uint64_t last_cta;
    uint32_t last_type;
    struct mt_range_set *last;
};

/* Ends the launch: calls `f` for each range, CTAs in the order z, y, x, types and addresses ascending. Stops
 * if it returns non-zero and returns that value. The launch's ranges are then removed. */
int mt_touched_end(struct mt_touched *r,
                   int (*f)(void *arg, uint64_t cta, uint32_t type, const struct mt_touched_range *range),
                   void *arg);
void mt_touched_free(struct mt_touched *r);
extern const struct mt_analysis mt_touched_analysis;
#endif
