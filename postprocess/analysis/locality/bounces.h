/* Cache lines that move between the threads of a host program. A line belongs to the thread that stored to it
 * last; when another thread accesses it, the modified line moves from one cache to another (perf c2c: HITM),
 * assuming that each thread has its own processor with a cache that evicts nothing. Moves are counted for
 * pairs of source lines (last store, access of the other thread). A move is true sharing if the other thread
 * accesses bytes that the owner has stored since the line became its own; other moves are false sharing. Only
 * traces whose accesses have times can be analysed. Accesses longer than MT_LOCALITY_LONGEST and of unknown
 * type do not count. */
#ifndef MT_ANALYSIS_BOUNCES_H
#define MT_ANALYSIS_BOUNCES_H
#include "analysis/base/buffers.h"
#include "analysis/base/pairmap.h"
#include "parcel.h"

#define MT_BOUNCES_NO_ALLOC UINT64_MAX

struct mt_bounce {
    uint64_t superstep;
    const char *kernel;          /* name of the program */
    uint64_t alloc;              /* index of the allocation of the byte accessed by the second thread */
    uint32_t line[2];            /* source lines of last store and access, numbered as in mt_site_table */
    uint32_t type;               /* type of the second thread's access */
    uint64_t times, same;        /* times: number of moves; same: moves with common bytes */
    uint64_t thread[2], address; /* threads and address of the first move */
};

/* State of a cache line. */
struct mt_bounce_line {
    uint64_t thread; /* thread that stored last */
    uint64_t bytes;  /* bytes stored since the line became its own: a bit for each 1/64 of the line */
    uint32_t site;   /* source line of its last store */
    uint32_t dirty;  /* 1: no other thread has accessed the line since */
};

struct mt_bounces {
    struct mt_run_options options;
    struct mt_bounce *list; /* unordered */
    size_t count;
    int known; /* 1: the trace has times */
    /* state */
    size_t room, line_room, nlines;
    struct mt_run_launch launch;
    struct mt_buffers buffers;
    struct mt_bounce_line *lines;
    struct mt_pairmap at;    /* map from number of the cache line to index in `lines` */
    struct mt_pairmap pairs; /* lines, type and allocation to index in `list`, in the current launch */
};

extern const struct mt_analysis mt_bounces_analysis;
#endif
