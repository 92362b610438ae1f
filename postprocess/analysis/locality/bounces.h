/* Cache lines that go to and fro between the threads of a host program. A line is a thread's when it has
 * stored into it; when another thread then touches it, it is handed over, modified, from one processor's
 * cache to another's, if each thread has a processor with a cache of its own that loses nothing: what perf
 * c2c calls HITM. Of the pairs of source lines (who stored last, who takes over) the hand-overs are counted,
 * and of them those in which the second touches bytes that the first has stored since the line was its: the
 * others are false sharing. Only traces whose accesses have times say what came first. Accesses longer than
 * MT_LOCALITY_LONGEST and of unknown type do not count. */
#ifndef MT_ANALYSIS_BOUNCES_H
#define MT_ANALYSIS_BOUNCES_H
#include "analysis/base/buffers.h"
#include "analysis/base/pairmap.h"
#include "parcel.h"

#define MT_BOUNCES_NO_ALLOC UINT64_MAX

struct mt_bounce {
    uint64_t superstep;
    const char *kernel;          /* the program */
    uint64_t alloc;              /* index; of the byte that the second touched */
    uint32_t line[2];            /* of who stored last, of who takes over: numbers as in mt_site_table */
    uint32_t type;               /* of the second's access */
    uint64_t times, same;        /* hand-overs; those with common bytes */
    uint64_t thread[2], address; /* of the first one */
};

/* A cache line's state. */
struct mt_bounce_line {
    uint64_t thread; /* who stored last */
    uint64_t bytes;  /* that it has stored since the line is its: a bit for each 1/64 of the line */
    uint32_t site;   /* source line of its last store */
    uint32_t dirty;  /* nobody else has touched the line since */
};

struct mt_bounces {
    struct mt_run_options options;
    struct mt_bounce *list; /* in no order */
    size_t count;
    int known; /* the trace has times */
    /* state */
    size_t room, line_room, nlines;
    struct mt_run_launch launch;
    struct mt_buffers buffers;
    struct mt_bounce_line *lines;
    struct mt_pairmap at;    /* number of the cache line -> place in `lines` */
    struct mt_pairmap pairs; /* lines, type and allocation -> place in `list`, of the launch under way */
};

extern const struct mt_analysis mt_bounces_analysis;
#endif
