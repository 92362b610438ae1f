/* Words that may have hazards: a first pass that is quick and finds too many rather than too few, so that the
 * second one (hazards.h) need look at these alone. A word is suspected if a thread's plain store, or in
 * shared memory its atomic, and another thread's access lie between the same two barriers of a CTA; in global
 * memory also if a plain store and an access are of two CTAs of a launch. Words are of 4 bytes. */
#ifndef MT_ANALYSIS_SUSPECTS_H
#define MT_ANALYSIS_SUSPECTS_H

#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is empty. Functions return 0, or -1 without memory. */
struct mt_suspects {
    struct mt_pairmap found;    /* (launch << 1 | shared, word / 64): mask of words */
    struct mt_pairmap launches; /* launches with any */
    struct mt_pairmap
        orders;      /* (launch, CTA) that use words of global memory to order CTAs; only if shuffled */
    int shuffled;    /* 1: records of different CTAs are in no order; set before the first launch */
    uint64_t unseen; /* accesses that were not looked at, for lack of room */
    int strict;      /* 1: a plain load and an atomic of global memory count; set before the first launch */
    /* state */
    const struct mt_site_table *sites; /* of the launch, set by the caller */
    struct mt_suspects_page **pages, *last;
    struct mt_pairmap at; /* number of a page: its place in `pages` */
    size_t npages, pages_room;
    struct mt_suspects_cta **ctas; /* by number; a new one takes the place of an old one */
    struct mt_suspects_cta *current;
    uint32_t epoch, stamp, number; /* latest epoch of all CTAs; the launch's + 1, and its number */
    uint32_t opened;               /* CTAs of the launch so far */
    int alone, copies;             /* 1: no barriers are recorded; there are asynchronous copies */
    struct mt_pairmap announced;   /* sites that announce copies, at the next site */
    struct mt_pairmap numbers;     /* numbers of the launch's CTAs, by CTA */
    uint64_t most;                 /* threads of a CTA */
    int library; /* 1: the launch is a call of a library, whose accesses may be of any size */
};

/* Words of one launch, for questions. */
struct mt_suspects_launch {
    const struct mt_suspects *of;
    uint32_t number;
    uint64_t page, mask; /* the last answer: page + 1 */
};

extern const struct mt_analysis mt_suspects_analysis;

/* Returns 1 if the word (address / 4) is suspected. */
static inline int mt_suspects_has(struct mt_suspects_launch *l, uint32_t space, uint64_t word)
{
    uint64_t shared = space == MT_IN_SHARED, page = (word >> 6) << 1 | shared;
    if (l->page != page + 1) {
        const uint64_t *mask = mt_pairmap_find(&l->of->found, (uint64_t)l->number << 1 | shared, word >> 6);
        l->mask = mask ? *mask : 0;
        l->page = page + 1;
    }
    return l->mask >> (word & 63) & 1;
}

/* Returns 1 if the launch has suspected words. */
int mt_suspects_launched(const struct mt_suspects *s, uint32_t number);

#endif
