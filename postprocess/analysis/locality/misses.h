/* Cache misses of host programs, by source line. Each thread has a cache of its own: set-associative,
 * write-allocate, LRU replacement, empty at first; stores miss like loads. An access that spans two lines
 * misses once if either is absent (like cachegrind). Bytes of a fetched line count as used if they are
 * accessed until it is replaced, or until the end; they are attributed to the source line that missed.
 * Accesses longer than MT_LOCALITY_LONGEST and of unknown type do not count. */
#ifndef MT_ANALYSIS_MISSES_H
#define MT_ANALYSIS_MISSES_H
#include "analysis/base/pairmap.h"
#include "parcel.h"

enum { MT_MISSES_BYTES = 32768, MT_MISSES_WAYS = 8 }; /* typical first-level data cache of x86-64 */

struct mt_miss {
    const char *kernel;                      /* name of the program */
    uint32_t line;                           /* number of the source line, as in mt_site_table */
    uint64_t accesses, misses, store_misses; /* store_misses: misses by accesses that only store */
    uint64_t fetched, used;                  /* bytes of the lines that missed; bytes accessed in them */
};

struct mt_misses {
    struct mt_run_options options;
    struct mt_miss *list; /* unordered */
    size_t count;
    int known; /* 1: there is a host program */
    /* state */
    size_t room, ncaches, cache_room, sets;
    struct mt_run_launch launch;
    struct mt_miss_cache *caches; /* array of caches, one for each thread */
    struct mt_pairmap of_thread;  /* map from thread to index in `caches` */
    struct mt_pairmap of_line;    /* map from source line to index in `list`, in the current launch */
    uint64_t last_thread;
    struct mt_miss_cache *last; /* cache of last_thread; NULL: none */
};

extern const struct mt_analysis mt_misses_analysis;
#endif
