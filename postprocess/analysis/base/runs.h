/* What the analyses of runs (lines, coalescing, reuse, sharing, conflicts) agree on. Each is a struct fed by
 *   init, then for each launch `launch` and runs any number of times, then finish;
 * and each can be fed in parts. A part is what lies between two places of the trace; neighbouring parts come
 * together by merge(into, from): `from` follows `into` at once and is empty afterwards (free may be
 * called). A part that begins in the middle of a launch is told so (mt_run_launch.begins). finish comes
 * once, after the last merge. Whatever the parts, the results are the same.
 * All functions return 0, or -1 without memory. Not thread-safe: one thread to a part. */
#ifndef MT_ANALYSIS_RUNS_H
#define MT_ANALYSIS_RUNS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/record.h"
#include "memtrace/trace.h"
#include "sites.h"

/* What `init` is told; each takes what concerns it. `allocs`, `source`: the caller's, kept. */
struct mt_run_options {
    struct mt_source *source;         /* that is read: of what is no part of struct mt_locality */
    unsigned line_bits;               /* of cache lines: 5 to 12 */
    unsigned cache_bytes, cache_ways; /* of misses */
    unsigned sample_bits;             /* of reuse: one of 2^sample_bits lines */
    uint32_t sample_lines; /* of reuse: so many in a CTA, an SM, the device, or fewer and fewer; 0: all */
    uint64_t sample_uses;  /* of reuse: after so many uses */
    size_t top;            /* of sharing: lines listed */
    size_t cells;          /* of traffic: what a grid has at most before it is made coarser; 0: as usual */
    const struct mt_alloc_event *allocs;
    size_t nallocs;
};

/* A launch, or the rest of one that began in an earlier part. Launches come in ascending supersteps. */
struct mt_run_launch {
    uint64_t superstep;
    const char *kernel;                  /* the caller's, kept; one pointer per name */
    uint64_t seq;                        /* MT_SEQ_NONE: not known, no allocation is then */
    const struct mt_site_table *sites;   /* of its input, the caller's, kept; NULL: none */
    int begins;                          /* 0: its beginning lies in an earlier part */
    int moves;                           /* it is under way; `seq` is another one for what comes now (a host
                                            program): only what looks at allocations is told */
    int selected;                        /* to be reported */
    uint64_t life;                       /* with `moves`: as mt_item */
    int host;                            /* as mt_source_threads: a host program, with its threads in order */
    int cooperative;                     /* its CTAs may wait for each other */
    int64_t device;                      /* of several; -1: there is one */
    const struct mt_launch_event *event; /* NULL: no companion has it */
    size_t input;
};

enum mt_analysis_needs {
    MT_NEEDS_ALL = 1,    /* launches that are not selected, too; else these are passed over */
    MT_NEEDS_SPACES = 2, /* runs of all memory; else of global memory alone */
    MT_NEEDS_PLACES = 4, /* nothing is read: launches, and where they are (mt_source_options.ends) */
};

/* An analysis, with its struct: how it is fed, and what becomes of it. Each function gives 0, or -1 without
 * memory; NULL: it does not matter. */
struct mt_parcel;
struct mt_unpack;
struct mt_analysis {
    unsigned needs;
    int (*init)(void *self, const struct mt_run_options *o);
    int (*launch)(void *self, const struct mt_run_launch *l); /* lives until the next one */
    void (*moves)(void *self, const struct mt_run_launch *l);
    int (*runs)(void *self, const struct mt_access_run *runs, size_t n);
    int (*records)(void *self, const struct mt_raw_record *records, size_t n); /* of raw traces */
    int (*end)(void *self);                                                    /* of a launch that is whole */
    int (*copy)(void *self, const struct mt_copy_event *copy);
    /* Accesses of host code: an item of them, or those (host_count) that the item's runs are made of. */
    int (*host)(void *self, const struct mt_item *item);
    int (*place)(void *self, const struct mt_item *item);
    int (*wait)(void *self);   /* for what it has begun on: its runs are about to go */
    int (*enough)(void *self); /* 1: it wants no more */
    int (*merge)(void *self, void *other);
    int (*finish)(void *self);                           /* all has come, or what could be read */
    void (*pack)(struct mt_parcel *p, const void *self); /* parcel.h */
    void (*unpack)(struct mt_unpack *u, void *self);
    void (*free)(void *self);
};

enum { MT_RUNS_AHEAD = 16 }; /* what will be needed by the run so far ahead is brought near */

static inline uint32_t mt_run_type(const struct mt_access_run *r)
{
    return r->meta >> 28;
}
static inline uint32_t mt_run_size(const struct mt_access_run *r)
{
    return r->meta & MT_RAW_MAX_SIZE;
}
static inline uint64_t mt_run_address(const struct mt_access_run *r, uint32_t i)
{
    return r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i;
}

/* How many accesses from number `i` on, which begins in [first, last], begin there one after another. */
static inline uint32_t mt_run_within(const struct mt_access_run *r, uint32_t i, uint64_t first, uint64_t last)
{
    const uint64_t address = mt_run_address(r, i);
    const uint32_t left = r->count - i;
    if (r->addresses) {
        uint32_t n = 1;
        while (n < left && r->addresses[i + n] >= first && r->addresses[i + n] <= last)
            n++;
        return n;
    }
    if (r->stride == 0 || left == 1)
        return left;
    const uint64_t more = r->stride > 0 ? (last - address) / (uint64_t)r->stride
                                        : (address - first) / (0 - (uint64_t)r->stride);
    return more < left - 1 ? (uint32_t)more + 1 : left;
}

/* Pieces of a run: bytes that lie together and whose order and cut do not matter. Calls for each access, or
 * once for those that follow each other without gaps. */
struct mt_piece {
    uint64_t address, bytes;
    uint32_t accesses;
};
/* Piece number *at (0 first); 0: there is none. Moves *at on. */
static inline int mt_run_piece(const struct mt_access_run *r, uint32_t *at, struct mt_piece *p)
{
    const uint32_t size = mt_run_size(r), first = *at;
    uint32_t end = first + 1;
    if (first >= r->count)
        return 0;
    if (r->addresses)
        while (end < r->count && r->addresses[end] == r->addresses[end - 1] + size)
            end++;
    else if (r->stride == (int64_t)size)
        end = r->count;
    *p = (struct mt_piece){mt_run_address(r, first), (uint64_t)size * (end - first), end - first};
    *at = end;
    return 1;
}
#endif
