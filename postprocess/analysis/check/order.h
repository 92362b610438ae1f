/* Does the program itself order two CTAs of a launch that touch the same byte? Asked for the example of each
 * conflict, in a second reading. It may, when one of them does an atomic after its last access to the byte,
 * and afterwards the other one reads or updates the same word before its first: a counter that the last CTA
 * of a reduction waits for, a lock, a queue. Strong loads and stores are atomics here (order.h). Where
 * several workers wrote the trace, which of the two came first is not known: the one is taken that orders
 * them. */
#ifndef MT_ANALYSIS_CHECK_ORDER_H
#define MT_ANALYSIS_CHECK_ORDER_H

#include "memtrace/trace.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "analysis/locality/conflicts.h"

#include <stddef.h>
#include <stdint.h>

/* Which sites are strong loads or stores (PTX's memory model): two of them make no race, and a program may
 * order by them. */

/* Zero-initialised is empty. */
struct mt_check_strong {
    uint8_t **inputs; /* of each: by site id */
    size_t *sites;
    size_t ninputs;
};

/* By site id, of an input; *n: so many. */
const uint8_t *mt_check_strong_of(const struct mt_check_strong *x, size_t input, size_t *n);
/* 0, or -1 without memory. */
int mt_check_strong_init(struct mt_check_strong *x, const struct mt_source *s);
/* Strong loads and stores among these runs of an input become atomics, as which conflicts judges them. */
void mt_check_strong_mark(const struct mt_check_strong *x, size_t input, struct mt_access_run *runs,
                          size_t n);
void mt_check_strong_free(struct mt_check_strong *x);

struct mt_check_pair {
    uint64_t step, address, cta[2];
    size_t conflict; /* its number in the list */
    int seen[2];     /* has been at the address */
    int ordered;
};

struct mt_check_order {
    const struct mt_conflicts *of; /* the caller's, who sets it */
    struct mt_check_pair *pairs;   /* by launch */
    size_t count, first, end;      /* first .. end - 1 are of the launch under way */
    struct mt_pairmap words;       /* (word, pair and side) -> before the first access, after the last one */
    uint32_t now;                  /* runs of the launch so far */
    int loose;                     /* several workers: a CTA's runs are in order, those of two CTAs are not */
};

extern const struct mt_analysis mt_check_order_analysis;
/* Takes the conflicts that may be ordered out of the list; returns how many. */
size_t mt_check_order_finish(struct mt_check_order *o, struct mt_conflicts *x);
void mt_check_order_free(struct mt_check_order *o);

#endif
