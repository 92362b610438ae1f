/* Conflicts of a host program whose threads come in an order that happened (conflicts.h has what comes out):
 * two accesses to a byte by different threads, at least one a plain store, that follow each other there and
 * that nothing in the trace orders. Order comes from atomics (strong sites): what a thread did before its
 * atomic access or its store to a word that atomics are used on comes before what another thread does after
 * it has read that word. "add [x], 1" without LOCK is a plain store. Who
 * made a thread is not in the trace: it begins after all that the first thread has done and, where its first
 * loads read what another thread stored, after what that one has done. When a thread has ended, its accesses
 * come before all that the first thread does, and before all of who loads what it stored. While only one
 * thread lives nothing is looked at. With plain stores alone threads cannot order anything here. */
#ifndef MT_ANALYSIS_RACES_H
#define MT_ANALYSIS_RACES_H
#include "analysis/base/cells.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

struct mt_race {
    uint32_t side[2]; /* ascending; line << 2 | type */
    uint64_t bytes, address, thread[2];
};

struct mt_race_access; /* who, when, where: what a byte remembers of its last store and load */
struct mt_races {
    struct mt_race *list;
    size_t count;
    /* state */
    size_t room;
    struct mt_cells cells; /* last store << 32 | last load: places in `accesses` + 1 */
    struct mt_cells_pool pool;
    struct mt_race_access *accesses;
    size_t naccesses, access_room;
    struct mt_pairmap known;          /* (thread, side), clock -> place in `accesses` */
    struct mt_pairmap pairs, counted; /* sides -> place in `list`; place, address */
    struct mt_pairmap threads;        /* CTA -> number */
    uint32_t *clock;                  /* [MT_RACE_THREADS] of each thread: what it knows of each */
    uint64_t *name;                   /* of each: its CTA */
    unsigned char *live, *loads;      /* loads: of its first ones */
    size_t nthreads, nlive, clock_room;
    struct mt_pairmap words; /* word of 8 bytes that atomics are used on -> number */
    uint32_t *seen;          /* of each: what who reads it knows */
    size_t nwords, word_room;
};
enum { MT_RACE_FIRST = 16 };                             /* loads that tell who made a thread */
enum { MT_RACE_THREADS = 256, MT_RACE_WORDS = 1 << 14 }; /* beyond: as one more, which hides conflicts */

/* Zero-initialised is empty. 0, or -1 without memory. */
int mt_races_runs(struct mt_races *x, const struct mt_site_table *sites, const struct mt_access_run *runs,
                  size_t n);
/* These bytes were just allocated: what was done to whatever was there before conflicts with nobody. */
void mt_races_new(struct mt_races *x, uint64_t base, uint64_t bytes);
/* The thread (a CTA) has begun: 0, or -1 without memory; it has ended. */
int mt_races_began(struct mt_races *x, uint64_t cta);
void mt_races_ended(struct mt_races *x, uint64_t cta);
void mt_races_free(struct mt_races *x);
#endif
