/* Order of the threads of a CTA, by vector clocks: what barriers, copies, and on request atomics put in
 * order; and what the threads know of other CTAs. Fed with the CTA's records in the order of the trace.
 *
 * A thread that continues after a barrier is ordered after all threads that had arrived by then; at an
 * mbarrier, those of the completed phase. Lanes of one warp are ordered by barriers, by __syncwarp, and
 * within an instruction; by nothing else. An asynchronous copy is ordered after everything that its thread
 * knows when it issues the copy, and before nothing, not even its own thread, until it is waited for.
 *
 * Words order threads by the rules of PTX's memory model ("Memory Consistency Model" of the PTX manual,
 * release and acquire patterns, morally strong accesses): see mt_clocks_after. Functions that return int
 * return 0, or -1 without memory. */
#ifndef MT_ANALYSIS_CLOCKS_H
#define MT_ANALYSIS_CLOCKS_H

#include "memtrace/device.h"
#include "views.h"

#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

enum {
    MT_CLOCK_LANES = 32,
    MT_CLOCK_WARPS = 32,
    MT_CLOCK_THREADS = MT_CLOCK_WARPS * MT_CLOCK_LANES,
    MT_CLOCK_MOST_BARRIERS = 1024, /* maximum per CTA; others share one */
    MT_CLOCK_OBJECTS = 64,         /* maximum per CTA: mbarriers that complete copies */
    MT_CLOCK_WORDS = 512, /* maximum per CTA: words by which atomics order threads; others share one */
    MT_CLOCK_GROUPS = 16, /* maximum closed groups of a thread that are distinguished */
    /* Parts of a clock: times of threads, of their groups, of mbarriers. */
    MT_CLOCK_BY_GROUP = MT_CLOCK_THREADS,
    MT_CLOCK_BY_BULK = 2 * MT_CLOCK_THREADS,
    MT_CLOCK_BY_OBJECT = 3 * MT_CLOCK_THREADS,
    MT_CLOCK_TIMES = MT_CLOCK_BY_OBJECT + MT_CLOCK_OBJECTS,
    MT_CLOCK_BY_NOBODY = MT_CLOCK_TIMES /* it is not known what completes the copy */
};

struct mt_clock_barrier;
struct mt_clock_word;

struct mt_clock_times {
    uint32_t time[MT_CLOCK_TIMES];       /* other accesses up to these times are ordered before the owner's */
    uint32_t told[MT_CLOCK_THREADS];     /* times of threads that a fence precedes: other CTAs may be told */
    const struct mt_view *seen, *passed; /* other CTAs; passed: the part that a fence precedes */
    /* Only if strict: what any fence precedes, and threads of this CTA may be told. */
    uint32_t near[MT_CLOCK_THREADS];
    const struct mt_view *nearby;
};

/* Copies of a lane that are completed by groups. Copies that begin now have time `time` + 1. */
struct mt_clock_copies {
    uint32_t time;
    uint32_t done;                  /* copies up to this time are completed */
    uint32_t groups;                /* number of closed groups */
    uint32_t last[MT_CLOCK_GROUPS]; /* for the latest groups, by number: time of the last copy */
};

/* Lanes of a warp with the same clock and the same groups of copies. */
struct mt_clock_group {
    uint32_t warp, lanes;
    uint32_t time; /* time of their current accesses, at least 1 */
    struct mt_clock_times known;
    struct mt_clock_copies copies[2]; /* groups of cp.async, groups of bulk copies */
    struct mt_clock_barrier *at;      /* barrier at which they wait; or NULL */
    struct mt_clock_group *next;      /* next group of this warp, or free one */
    /* What words told the lanes, and no fence of theirs has followed; only there if strict. */
    uint32_t hears;            /* 1: there is such a clock, of this CTA's words */
    const struct mt_view *far; /* other CTAs' words */
    struct mt_clock_times heard;
};

/* Copy announced for a lane's access at the next site. */
struct mt_clock_begun {
    uint32_t site; /* site of the announcing record */
    uint32_t by;   /* MT_CLOCK_BY_…, or position of an mbarrier; 0: none */
    uint32_t time; /* time in the mbarrier's part */
};

/* What the CTAs of a cluster have told each other at its barrier, by the parity of its phase. */
struct mt_clock_cluster {
    uint64_t key; /* first CTA's */
    const struct mt_view *told[2];
    UT_hash_handle hh;
};

/* Words shared by the CTAs of a launch, by address / 4; zero-initialised is empty. */
struct mt_clock_far {
    struct mt_clock_far_word *words;
};
void mt_clock_far_clear(struct mt_clock_far *f);
void mt_clock_far_move(struct mt_clock_far *f, struct mt_views *v);

struct mt_clocks {
    struct mt_clock_group *warp[MT_CLOCK_WARPS]; /* groups of each warp; NULL: no lane of the warp has done
                                                  * anything */
    uint32_t threads;                            /* possible threads: 32 for each warp up to the last one */
    uint32_t clusters[MT_CLOCK_WARPS];           /* lanes in an odd phase of the cluster barrier */
    struct mt_clock_barrier *barriers;
    struct mt_clock_word *words, *others; /* others: shared by words that had no room */
    struct mt_clock_begun *begun;         /* by thread; NULL: no copy so far */
    uint32_t copies;                      /* 1: there are copies */
    uint32_t objects;                     /* number of mbarriers with copies */
    struct mt_clock_group *spare;
    size_t bytes;   /* bytes of memory in use */
    uint64_t loose; /* threads at barriers that are unknown, or at which waiting is unknown */
    /* Other CTAs; set by the owner. */
    struct mt_views *views;   /* NULL: there are none */
    struct mt_clock_far *far; /* the launch's */
    uint32_t number;          /* number of this CTA in the launch */
    int fenced;               /* 1: there has been a fence */
    int strict; /* 1: fences are required within a CTA, too, and after a read; set before anything else */
    struct mt_clock_cluster *cluster; /* its cluster; NULL: none */
};

/* Makes all threads new. */
void mt_clocks_reset(struct mt_clocks *o);
void mt_clocks_free(struct mt_clocks *o);
/* Returns the group of a lane; NULL: no memory. */
struct mt_clock_group *mt_clocks_group(struct mt_clocks *o, uint32_t warp, uint32_t lane);
/* Continues lanes: those that waited have passed their barrier, and so have all that waited with them. */
void mt_clocks_go_on(struct mt_clocks *o, uint32_t warp, uint32_t lanes);
/* Calls mt_views_move for all views of the CTA's threads, barriers and words. */
void mt_clocks_move(struct mt_clocks *o);
/* Handles barriers, fences and copies of a warp's lanes, given as a run of type MT_SYNC_…. */
int mt_clocks_sync(struct mt_clocks *o, const struct mt_access_run *r);
/* Returns the time of a lane's access at the site; *by is the part of the clock, 0: the thread's own. Only if
 * there are copies. */
uint32_t mt_clocks_copy_time(const struct mt_clocks *o, const struct mt_clock_group *g, uint32_t lane,
                             uint32_t site, uint32_t *by);

/* Strong access, by which words order threads. */
struct mt_clock_strong {
    int reads, writes;
    int wide;     /* its scope has other CTAs */
    int releases; /* it is a release by itself; else what a fence precedes is released */
    int acquires; /* it is an acquire by itself */
};

/* Order by words: everything that a thread releases by a write to a word precedes everything that another
 * thread does after a later read of that word. Called before such an access, and after one that writes; `r`
 * is its run. Within a CTA fences are assumed, unless `strict`. Between CTAs both accesses must have a scope
 * that includes the other; what is released is what precedes the thread's, or another's, last fence known to
 * it, or all if the access is a release. Reading is taken as acquiring, since a thread that uses what it read
 * depends on it; if `strict`, it waits for the lane's next fence, which for other CTAs' words has their
 * scope. */
int mt_clocks_before(struct mt_clocks *o, const struct mt_access_run *r, const struct mt_clock_strong *s);
int mt_clocks_after(struct mt_clocks *o, const struct mt_access_run *r, const struct mt_clock_strong *s);

#endif
