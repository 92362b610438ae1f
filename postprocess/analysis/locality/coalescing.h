/* Coalescing of a warp's accesses: 32-byte sectors and 128-byte lines per request, and the distance between
 * neighbouring lanes, by kernel, source line and type, and by place in a line. Only runs with a lane mask are
 * requests; accesses of other runs, and of launches that are `ungrouped`, are counted in `unmasked`. Fed and
 * merged as runs.h describes; the order of accesses does not matter. */
#ifndef MT_ANALYSIS_COALESCING_H
#define MT_ANALYSIS_COALESCING_H
#include "parcel.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

enum { MT_SECTOR_BITS = 5, MT_LINE_BITS = 7 };

struct mt_coalescing_cell {
    const char *kernel;
    uint32_t line, type;         /* number of the source line */
    uint32_t place;              /* number of (line, column, variable); 0 in sums by line */
    uint64_t requests, accesses; /* requests of warps; accesses of threads */
    uint64_t bytes, distinct;    /* bytes: bytes requested; distinct: different bytes within the requests */
    uint64_t sectors, lines;     /* sectors and lines, summed over requests */
    uint64_t single, irregular;  /* requests of one lane; requests without a constant stride */
};

/* Returns the fraction, 0 to 1, of the bytes moved by requests that they need (docs/definitions.md); for
 * lines, kernels and buffers. */
static inline double mt_efficiency(uint64_t distinct, uint64_t sectors)
{
    return sectors ? (double)distinct / ((double)sectors * (1 << MT_SECTOR_BITS)) : 0;
}

struct mt_coalescing_stride {
    size_t cell;
    int64_t stride;
    uint64_t requests;
};

/* Result for an evenly spaced request; only its beginning within a line matters. */
struct mt_coalescing_shape {
    int64_t stride;
    uint32_t size, count, in_line; /* count 0: the entry is unused */
    uint32_t sectors, lines;
    uint64_t distinct;
};
enum { MT_COALESCING_SHAPES = 256, MT_COALESCING_MEMOS = 64 };

/* Cells and the strides of their requests. */
struct mt_coalescing_set {
    struct mt_coalescing_cell *cells; /* unordered */
    struct mt_coalescing_stride
        *strides; /* strides of requests of two or more evenly spaced lanes; unordered */
    size_t count, nstrides;
    /* state */
    size_t room, stride_room;
    struct mt_pairmap index, stride_index;
    size_t cell_memo[MT_COALESCING_MEMOS], stride_memo[MT_COALESCING_MEMOS]; /* cache of indices + 1, by a
                                                                              * hash */
};

struct mt_coalescing {
    struct mt_coalescing_cell *cells; /* by source line, as the next three; set at the end */
    struct mt_coalescing_stride *strides;
    size_t count, nstrides;
    struct mt_coalescing_set sites; /* by line, column and variable */
    uint64_t masked, unmasked;      /* accesses in selected launches, except those of unknown type */
    uint64_t ungrouped;             /* part of `unmasked`: accesses of launches that ran a thread at a time */
    /* state */
    struct mt_run_launch launch;
    struct mt_coalescing_shape shapes[MT_COALESCING_SHAPES]; /* cache of recent shapes, by a hash */
};
extern const struct mt_analysis mt_coalescing_analysis;

/* Adds totals that a GPU counted, of a line and a place (numbers as in mt_sites). */
int mt_coalescing_tally(struct mt_coalescing *c, const char *kernel, uint32_t line, uint32_t place,
                        const struct mt_tally_event *t);
#endif
