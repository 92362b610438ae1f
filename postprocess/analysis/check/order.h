/* Detection of CTAs that the program itself orders. A second pass examines the example of each race: two CTAs
 * of a launch access the same byte. They may be ordered if one of them does an atomic after its last access
 * to the byte, and later the other one reads or updates the same word before its first access. Typical cases
 * are the counter of the last CTA in a reduction, a lock, a queue. Strong loads and stores count as atomics.
 * If several workers wrote the trace, it does not show which CTA came first, and the favourable order is
 * assumed. */
#ifndef MT_ANALYSIS_CHECK_ORDER_H
#define MT_ANALYSIS_CHECK_ORDER_H

#include "memtrace/trace.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "analysis/locality/conflicts.h"

#include <stddef.h>
#include <stdint.h>

struct mt_check_pair {
    uint64_t step, address, cta[2];
    size_t conflict; /* index of the race in the list */
    int seen[2];     /* 1: the CTA has accessed the address */
    int ordered;
};

struct mt_check_order {
    const struct mt_conflicts *of; /* set and owned by the caller */
    struct mt_check_pair *pairs;   /* by launch */
    size_t count, first, end;      /* first .. end - 1 belong to the current launch */
    struct mt_pairmap words;       /* map from (word, pair and side) to times of atomics */
    uint32_t now;                  /* number of runs of the launch so far */
    int loose;                     /* 1: several workers wrote the trace: runs of one CTA are in order, runs
                                    * of different CTAs are not */
};

extern const struct mt_analysis mt_check_order_analysis;
/* Removes races that may be ordered from the list; returns their number. Frees the order. */
size_t mt_check_order_finish(struct mt_check_order *o, struct mt_conflicts *x);

#endif
