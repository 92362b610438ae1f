/* How well the accesses of a warp go together: 32-byte sectors and 128-byte lines per request, and the
 * distance between neighbouring lanes, by kernel, source line and type, and by
 * the places in a line. Only runs with a lane mask are
 * requests; accesses of others are counted in `unmasked`, as are those of launches that are `ungrouped`. Fed
 * and merged as runs.h says; the order of accesses does not matter. */
#ifndef MT_ANALYSIS_COALESCING_H
#define MT_ANALYSIS_COALESCING_H
#include "parcel.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

enum { MT_SECTOR_BITS = 5, MT_LINE_BITS = 7 };

struct mt_coalescing_cell {
    const char *kernel;
    uint32_t line, type;         /* number of the source line */
    uint32_t place;              /* number of line, column and variable; 0 in sums by line */
    uint64_t requests, accesses; /* of warps; of threads */
    uint64_t bytes, distinct;    /* asked for; of these, different ones within their request */
    uint64_t sectors, lines;     /* sums over requests */
    uint64_t single, irregular;  /* requests of one lane; of lanes without one distance */
};

/* Of the bytes that requests move, those that they need (docs/definitions.md): 0 to 1. The one definition,
 * for lines, kernels and buffers alike. */
static inline double mt_efficiency(uint64_t distinct, uint64_t sectors)
{
    return sectors ? (double)distinct / ((double)sectors * (1 << MT_SECTOR_BITS)) : 0;
}

struct mt_coalescing_stride {
    size_t cell;
    int64_t stride;
    uint64_t requests;
};

/* Of an evenly spaced request: all that counts is where in a line it begins. */
struct mt_coalescing_shape {
    int64_t stride;
    uint32_t size, count, in_line; /* count 0: none */
    uint32_t sectors, lines;
    uint64_t distinct;
};
enum { MT_COALESCING_SHAPES = 256, MT_COALESCING_MEMOS = 64 };

/* Cells and the strides of their requests. */
struct mt_coalescing_set {
    struct mt_coalescing_cell *cells; /* in no order */
    struct mt_coalescing_stride
        *strides; /* of requests of two lanes or more with one distance; in no order */
    size_t count, nstrides;
    /* state */
    size_t room, stride_room;
    struct mt_pairmap index, stride_index;
    size_t cell_memo[MT_COALESCING_MEMOS], stride_memo[MT_COALESCING_MEMOS]; /* met lately, by a hash; + 1 */
};

struct mt_coalescing {
    struct mt_coalescing_cell *cells; /* by source line, and the next three; after mt_coalescing_finish */
    struct mt_coalescing_stride *strides;
    size_t count, nstrides;
    struct mt_coalescing_set sites; /* by line, column and variable */
    uint64_t masked, unmasked;      /* accesses in selected launches, those of unknown type left out */
    uint64_t ungrouped;             /* of the latter, those of launches that ran a thread at a time */
    /* state */
    struct mt_run_launch launch;
    struct mt_coalescing_shape shapes[MT_COALESCING_SHAPES]; /* met lately, by a hash */
};
extern const struct mt_analysis mt_coalescing_analysis;
#endif
