/* Interface of an analysis of runs (lines, coalescing, reuse, sharing, races …). Each is a struct that is
 * fed by init, then for each launch by `launch` and any number of runs, then by finish.
 * An analysis can be fed in parts. A part is a section of the trace; merge(into, from) joins the part `from`
 * to `into`, which directly precedes it, and leaves `from` empty (free may be called). mt_run_launch.begins
 * tells whether the part has the launch's beginning. finish is called once, after the last merge. The results
 * do not depend on the parts.
 * All functions return 0, or -1 without memory. Not thread-safe: one thread per part. */
#ifndef MT_ANALYSIS_RUNS_H
#define MT_ANALYSIS_RUNS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/record.h"
#include "memtrace/trace.h"
#include "sites.h"

/* Options for `init`; each analysis uses some of them. `allocs`, `source`: owned by the caller, kept. */
struct mt_run_options {
    struct mt_source *source;         /* source being read; for analyses outside of struct mt_locality */
    unsigned line_bits;               /* log2 of the cache line size: 5 to 12 */
    unsigned cache_bytes, cache_ways; /* cache of the misses analysis */
    unsigned sample_bits;             /* reuse: one of 2^sample_bits lines is sampled */
    uint32_t sample_lines; /* reuse: maximum number of sampled lines in a CTA, an SM, the device; sampling
                            * becomes sparser at the limit; 0: no limit */
    uint64_t sample_uses;  /* reuse: sampling starts after this many uses */
    size_t top;            /* sharing: number of lines listed */
    int by_kernel;         /* reuse, sharing: 1: launches of a kernel are added up, under the first one; for
                            * traces that are fed whole */
    size_t rows_from, rows_most; /* reuse, likewise: with more than rows_from launches neighbouring ones of
                                  * a kernel are added up, so that at most rows_most are left; 0: never */
    size_t cells;                /* traffic: maximum cells of a grid before it is made coarser; 0: default */
    const struct mt_alloc_event *allocs;
    size_t nallocs;
};

/* A launch, or the rest of one that began in an earlier part. Supersteps (numbers of launches) ascend. */
struct mt_run_launch {
    uint64_t superstep;
    const char *kernel;                  /* owned by the caller, kept; one pointer per name */
    uint64_t seq;                        /* MT_SEQ_NONE: not known, allocations are then unknown */
    const struct mt_site_table *sites;   /* sites of its input, owned by the caller, kept; NULL: none */
    int begins;                          /* 0: the launch began in an earlier part */
    int moves;                           /* 1: the launch continues with another `seq` (host program); only
                                          * analyses of allocations need it */
    int selected;                        /* 1: the launch is to be reported */
    uint64_t life;                       /* start or end of a thread, with `moves`; as in mt_item */
    int host;                            /* 1: host program with its threads in order (mt_source_threads) */
    int single;                          /* 1: each run is the access of one thread: not grouped by warp */
    int cooperative;                     /* 1: CTAs of the launch may wait for each other */
    int64_t device;                      /* device number; -1: there is only one */
    const struct mt_launch_event *event; /* the launch's line; NULL: no companion file has it */
    size_t input;
};

enum mt_analysis_needs {
    MT_NEEDS_ALL = 1,    /* launches that are not selected as well; otherwise they are skipped */
    MT_NEEDS_SPACES = 2, /* runs of all spaces; otherwise of global memory only */
    MT_NEEDS_PLACES =
        4, /* only launches and their places (mt_source_options.ends), without reading records */
};

/* Operations of an analysis on its struct. Each returns 0, or -1 without memory; NULL: not needed. */
struct mt_parcel;
struct mt_unpack;
struct mt_analysis {
    unsigned needs;
    int (*init)(void *self, const struct mt_run_options *o);
    int (*launch)(void *self, const struct mt_run_launch *l); /* `l` is valid until the next launch */
    void (*moves)(void *self, const struct mt_run_launch *l);
    int (*runs)(void *self, const struct mt_access_run *runs, size_t n);
    int (*records)(void *self, const struct mt_raw_record *records, size_t n); /* records of raw traces */
    int (*end)(void *self);                                                    /* end of a whole launch */
    int (*copy)(void *self, const struct mt_copy_event *copy);
    /* Accesses of host code: an item of them, or those (host_count) from which the item's runs were made. */
    int (*host)(void *self, const struct mt_item *item);
    int (*place)(void *self, const struct mt_item *item);
    int (*wait)(void *self);   /* waits for work that uses the runs, which become invalid */
    int (*enough)(void *self); /* returns 1 if the analysis needs no more items */
    int (*merge)(void *self, void *other);
    int (*finish)(void *self);                           /* end of the input, or of its readable part */
    void (*pack)(struct mt_parcel *p, const void *self); /* serialisation (parcel.h) */
    void (*unpack)(struct mt_unpack *u, void *self);
    void (*free)(void *self);
};

enum { MT_RUNS_AHEAD = 16 }; /* distance, in runs, at which data is prefetched */

/* Returns the type of the accesses that were counted together. */
static inline uint32_t mt_tally_type(const struct mt_tally_event *t)
{
    return !strcmp(t->op, "load") ? MT_LOAD : !strcmp(t->op, "store") ? MT_STORE : MT_ATOMIC;
}

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

/* Returns how many consecutive accesses begin in [first, last], from access `i` on, which does. */
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

enum { MT_RUN_WIDE = 1 << 16 };

/* Returns the bytes from the lowest address of a run to its last byte; 0: none, or more than MT_RUN_WIDE. */
static inline uint64_t mt_run_extent(const struct mt_access_run *r, uint64_t *lowest)
{
    const uint64_t size = mt_run_size(r);
    uint64_t low = r->base, high = low;
    if (!r->count || r->count > MT_RUN_WIDE || size > MT_RUN_WIDE ||
        (!r->addresses && r->count > 1 && (r->stride > MT_RUN_WIDE || r->stride < -MT_RUN_WIDE)))
        return 0;
    if (!r->addresses) {
        const int64_t by = r->count > 1 ? r->stride * (int64_t)(r->count - 1) : 0;
        low += by < 0 ? (uint64_t)by : 0;
        high += by > 0 ? (uint64_t)by : 0;
    } else {
        low = high = r->addresses[0];
        for (uint32_t i = 1; i < r->count; i++) {
            low = r->addresses[i] < low ? r->addresses[i] : low;
            high = r->addresses[i] > high ? r->addresses[i] : high;
        }
    }
    *lowest = low;
    return high - low > MT_RUN_WIDE || high + size < low ? 0 : high - low + size;
}

/* Piece of a run: contiguous bytes, for analyses that do not depend on the order or division of accesses. A
 * piece holds one access, or several without gaps. */
struct mt_piece {
    uint64_t address, bytes;
    uint32_t accesses;
};
/* Returns piece number *at (from 0) in *p and advances *at; returns 0 at the end. */
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
