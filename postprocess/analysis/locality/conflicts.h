/* Conflicts: bytes that two CTAs of one launch access, at least one of them with a plain store. CUDA does not
 * order the CTAs of a launch, so such accesses race unless the program orders them itself, which a trace does
 * not show. Per launch and pair of sides; a side is a type of access at a source line. Two atomics do not
 * conflict, nor do loads, nor a load and an atomic. Fed and merged as runs.h says; the order of accesses does
 * not matter. Of host programs whose threads come in order: conflicts.h. */
#ifndef MT_ANALYSIS_CONFLICTS_H
#define MT_ANALYSIS_CONFLICTS_H

#include "analysis/base/cells.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "parcel.h"

/* Conflicts of a host program whose threads come in an order that happened (conflicts.h has what comes out):
 * two accesses to a byte by different threads, at least one a plain store, that follow each other there and
 * that nothing in the trace orders. Order comes from atomics (strong sites): what a thread did before its
 * atomic access or its store to a word that atomics are used on comes before what another thread does after
 * it has read that word. "add [x], 1" without LOCK is a plain store. Who
 * made a thread is not in the trace: it begins after all that the first thread has done and, where its first
 * loads read what another thread stored, after what that one has done. When a thread has ended, its accesses
 * come before all that the first thread does, and before all of who loads what it stored. While only one
 * thread lives nothing is looked at. With plain stores alone threads cannot order anything here. */

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

/* line << 2 | type */
static inline uint32_t mt_side_type(uint32_t side)
{
    return side & 3;
}

static inline uint32_t mt_side_line(uint32_t side)
{
    return side >> 2;
}

struct mt_conflict {
    uint64_t superstep, seq;
    const char *kernel;
    int cooperative;  /* as the launch (runs.h): the program may have ordered the two */
    uint32_t side[2]; /* ascending */
    uint64_t bytes;   /* at which two CTAs conflict with these sides */
    uint64_t words;   /* of 4 bytes, with such bytes; 0 of host programs */
    uint64_t address; /* of the lowest one; modulo 2^64 */
    uint64_t cta[2];  /* two that conflict there, cta[i] with side[i]: of all the first in z-major order */
};

struct mt_conflicts {
    struct mt_conflict *list; /* in no order */
    size_t count;
    /* state */
    size_t room;
    struct mt_launch_window window;
    struct mt_cells_pool pool;
    struct mt_run_launch program; /* a host program under way, if its `host` is not 0 */
    struct mt_races races;        /* of it */
    const struct mt_alloc_event *
        *made; /* its allocations by number, the caller's; those before `nmade` are over */
    size_t nmade, nallocs;
};

extern const struct mt_analysis mt_conflicts_analysis;

#endif
