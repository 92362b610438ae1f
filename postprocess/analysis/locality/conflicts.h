/* Races (section `conflicts`): bytes that two CTAs of one launch access, at least one of them with a plain
 * store. CUDA does not order the CTAs of a launch, so such accesses race unless the program orders them
 * itself, which a trace does not show. Results are per launch and pair of sides; a side is a type of access
 * at a source line. Two atomics do not race, nor do two loads, nor a load and an atomic. Fed and merged as
 * runs.h describes; the order of accesses does not matter. For host programs whose threads are in order see
 * struct mt_races. */
#ifndef MT_ANALYSIS_CONFLICTS_H
#define MT_ANALYSIS_CONFLICTS_H

#include "analysis/base/cells.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "parcel.h"

/* Races of a host program whose threads are in an order that occurred: two consecutive accesses to a byte by
 * different threads, at least one a plain store, that nothing in the trace orders. Atomics (strong sites)
 * order: everything a thread did before an atomic access, or before a store to a word used by atomics,
 * precedes everything another thread does after reading that word. "add [x], 1" without LOCK is a plain
 * store. The trace does not show which thread created another one: a thread starts after everything the first
 * thread has done so far and, if its first loads read data of another thread, after everything that thread
 * has done. The accesses of an ended thread precede everything the first thread does later, and everything of
 * threads that load its data. Nothing is checked while only one thread lives. Plain stores alone cannot order
 * threads here. */

struct mt_race {
    uint32_t side[2]; /* ascending; line << 2 | type */
    uint64_t bytes, address, thread[2];
};

struct mt_race_access; /* last store or load of a byte: thread, time, location */
struct mt_race_use;    /* what a thread last did in a cache line */

/* False sharing between threads: two accesses to different bytes of one cache line, at least one of them a
 * store, that nothing in the trace orders. Whether the threads overlapped in time does not matter; `handed`
 * is how often they did. Words by which threads synchronise do not count against what they guard. */
struct mt_false_pair {
    uint64_t superstep, seq;
    const char *kernel;
    uint32_t side[2];               /* ascending */
    uint64_t thread[2], address[2]; /* of the two nearest accesses */
    uint64_t accesses;              /* that found the other side's access in their line, unordered */
    uint64_t lines;                 /* different cache lines */
    uint64_t handed;                /* of `accesses`, those that took the modified line from the other */
};

struct mt_races {
    struct mt_race *list;
    size_t count;
    /* state */
    size_t room;
    struct mt_cells cells; /* last store << 32 | last load: indices in `accesses` + 1 */
    struct mt_cells_pool pool;
    struct mt_race_access *accesses;
    size_t naccesses, access_room;
    struct mt_pairmap known;          /* map from (thread, side), clock to index in `accesses` */
    struct mt_pairmap pairs, counted; /* map from sides to index in `list`; (index, address) pairs that are
                                       * counted */
    struct mt_pairmap threads;        /* map from CTA to number of the thread */
    uint32_t *clock;                  /* vector clocks: MT_RACE_THREADS entries for each thread */
    uint64_t *name;                   /* by thread: its CTA */
    unsigned char *live, *loads;      /* by thread; loads: number of its first loads so far */
    size_t nthreads, nlive;
    struct mt_pairmap words; /* map from word (4 bytes, the first of an atomic) to its number */
    uint32_t *seen;          /* by word: vector clock that a reader of the word acquires */
    size_t nwords, word_room;
    /* cache lines */
    unsigned line_bits;
    struct mt_pairmap lines; /* map from cache line to its first use + 1, and owner + 1 << 32 (modified) */
    struct mt_race_use *uses;
    size_t nuses, use_room;
    unsigned char *began;                       /* by thread: number of its first accesses so far */
    struct mt_pairmap near_pairs, near_counted; /* as `pairs` and `counted` */
    struct mt_false_pair *near_list;
    size_t nnear, near_room;
};

enum { MT_RACE_FIRST = 16 }; /* number of first loads that may reveal a thread's creator */
enum {
    MT_RACE_THREADS = 256,
    MT_RACE_WORDS = 1 << 14
}; /* maximum numbers; threads and words beyond share
    * one clock, which hides races */

/* A side is line << 2 | type. */
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
    int cooperative;  /* as in the launch (runs.h): the program may have ordered the two */
    uint32_t side[2]; /* the two sides, ascending */
    uint64_t bytes;   /* number of bytes at which two CTAs race with these sides */
    uint64_t words;   /* number of 4-byte words with racing bytes; 0 in host programs */
    uint64_t address; /* lowest racing byte; modulo 2^64 */
    uint64_t cta[2];  /* two CTAs that race there, cta[i] with side[i]: the first ones in z-major order */
};

struct mt_conflicts {
    struct mt_conflict *list; /* unordered */
    size_t count;
    /* state */
    size_t room;
    struct mt_launch_window window;
    struct mt_cells_pool pool;
    struct mt_run_launch program; /* current host program, if its `host` is not 0 */
    struct mt_races races;        /* races of the host program */
    const struct mt_alloc_event *
        *made; /* its allocations by number, owned by the caller; those before `nmade` have ended */
    size_t nmade, nallocs;
    struct mt_false_pair *near_list; /* unordered */
    size_t nnear, near_room;
};

extern const struct mt_analysis mt_conflicts_analysis;

#endif
