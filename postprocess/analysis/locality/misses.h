/* Misses of host programs, by source line: each thread has a cache of its own, with sets, write-allocate, the
 * least recently used line of a set replaced, empty at first; stores miss as loads do. An access that lies in
 * two lines misses once if either is not there (cachegrind counts so). Of what a miss fetches is used what
 * is touched until the line is replaced, or at the end: told for the source line that missed. Accesses longer
 * than MT_LOCALITY_LONGEST and of unknown type do not count. */
#ifndef MT_ANALYSIS_MISSES_H
#define MT_ANALYSIS_MISSES_H
#include "analysis/base/pairmap.h"
#include "parcel.h"

enum { MT_MISSES_BYTES = 32768, MT_MISSES_WAYS = 8 }; /* as first-level data caches of x86-64 have them */

struct mt_miss {
    const char *kernel;                      /* the program */
    uint32_t line;                           /* as in mt_site_table */
    uint64_t accesses, misses, store_misses; /* store_misses: of these, by accesses that only store */
    uint64_t fetched, used; /* bytes: of the lines that missed, and what was touched of them */
};

struct mt_misses {
    struct mt_run_options options;
    struct mt_miss *list; /* in no order */
    size_t count;
    int known; /* there is a host program */
    /* state */
    size_t room, ncaches, cache_room, sets;
    struct mt_run_launch launch;
    struct mt_miss_cache *caches; /* of a thread */
    struct mt_pairmap of_thread;  /* -> place in `caches` */
    struct mt_pairmap of_line;    /* source line -> place in `list`, of the launch under way */
    uint64_t last_thread;
    struct mt_miss_cache *last; /* its cache; NULL: none */
};

extern const struct mt_analysis mt_misses_analysis;
#endif
