/* Which accesses of a CTA's threads are ordered (hazards.h): vector clocks of threads. Lanes of a warp that
 * have been at the same barriers have one clock in common, so that there is mostly one for each warp.
 *
 * A thread's accesses have a time of its own, which goes on at each barrier. What comes before a barrier in a
 * thread that arrives there is ordered before what comes after it in a thread that waits there. */
#ifndef MT_ANALYSIS_HAZARD_ORDER_H
#define MT_ANALYSIS_HAZARD_ORDER_H
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>
#include "memtrace/device.h"

enum {
    MT_HAZARD_LANES = 32,
    MT_HAZARD_WARPS = 32,
    MT_HAZARD_THREADS = MT_HAZARD_WARPS * MT_HAZARD_LANES,
    MT_HAZARD_MOST_BARRIERS = 1024 /* of a CTA; more are taken as one */
};

struct mt_hazard_barrier {
    uint64_t key;                         /* see hazard_sync.c */
    uint32_t waiting[MT_HAZARD_WARPS];    /* lanes that wait */
    uint32_t arrived;                     /* of one warp's: lanes */
    uint32_t phase;                       /* of the newest arrivals: 0, 1 */
    uint32_t clock[2][MT_HAZARD_THREADS]; /* of those who arrived, by phase; others: the first one */
    UT_hash_handle hh;
};

/* Lanes of a warp that have one clock. */
struct mt_hazard_group {
    uint32_t warp, lanes;
    uint32_t time;                     /* of their accesses now, 1 or more */
    uint32_t known[MT_HAZARD_THREADS]; /* by thread: accesses up to this time are ordered before theirs */
    struct mt_hazard_barrier *at;      /* where they wait; or NULL */
    struct mt_hazard_group *next;      /* of this warp, or free */
};

struct mt_hazard_order {
    struct mt_hazard_group *warp[MT_HAZARD_WARPS]; /* NULL: no lane of it has done anything */
    uint32_t threads;                              /* that may have: 32 for each warp up to the last one */
    uint32_t clusters[MT_HAZARD_WARPS];            /* lanes in an odd phase of the cluster's barrier */
    struct mt_hazard_barrier *barriers;
    struct mt_hazard_group *spare;
    size_t bytes;   /* of memory */
    uint64_t loose; /* threads at barriers of which is not known which one it was, or whether they waited */
};

/* All threads are new. */
void mt_hazard_order_reset(struct mt_hazard_order *o);
void mt_hazard_order_free(struct mt_hazard_order *o);
/* The group of a lane; NULL: no memory. */
struct mt_hazard_group *mt_hazard_group_of(struct mt_hazard_order *o, uint32_t warp, uint32_t lane);
/* No group of the warp has lanes both in `lanes` and not. 0 or -1. */
int mt_hazard_split(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes);
/* Groups within `lanes`, which know the same by now, become one. */
void mt_hazard_merge(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes);
/* What the group did until now is in `clock`; what it does from now on is not. */
void mt_hazard_release(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t *clock);
/* What is in `clock` is before what the group does from now on. */
void mt_hazard_acquire(const struct mt_hazard_order *o, struct mt_hazard_group *g, const uint32_t *clock);

/* hazard_sync.c: lanes of a warp arrive at barriers, as a run of type MT_SYNC_… says. 0, or -1 without
 * memory. */
int mt_hazard_sync(struct mt_hazard_order *o, const struct mt_access_run *r);
/* They do something: those that waited have passed their barrier, and so have all who waited with them. */
void mt_hazard_go_on(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes);
#endif
