/* Which allocation was read and written by which launch, and where in it: two grids of bytes. `launches` has
 * a cell per allocation and launch, `heat` one per allocation, launch and piece of the allocation, of which
 * there are at most MT_TRAFFIC_PIECES. A grid that has too many cells is made coarser: neighbouring launches
 * (in `heat` every third time neighbouring pieces instead) become one, so memory and output stay small
 * however long the trace is, and sums stay exact. How coarse it is at the end depends on the trace alone, not
 * on its parts. Accesses count where they begin. Fed and merged as runs.h says; the order of accesses does
 * not matter. */
#ifndef MT_ANALYSIS_TRAFFIC_H
#define MT_ANALYSIS_TRAFFIC_H
#include "analysis/base/buffers.h"
#include "parcel.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

#define MT_TRAFFIC_NO_ALLOC UINT64_MAX /* in place of an allocation's index; has no heat */
enum { MT_TRAFFIC_PIECES = 64, MT_TRAFFIC_MEMOS = 256, MT_TRAFFIC_CELLS = 1 << 16 };

struct mt_traffic_cell {
    uint64_t alloc;            /* index of the allocation */
    uint32_t superstep, piece; /* counted in the grid's steps */
    uint64_t load, store;      /* bytes; an atomic has both, an access of unknown type none */
    uint64_t accesses[4];      /* by type */
};

struct mt_traffic_grid {
    struct mt_traffic_cell *cells; /* in no order until it is finished: then by alloc, superstep, piece */
    size_t count;
    unsigned step_bits, piece_bits; /* so many times two launches, two pieces became one */
    /* state */
    size_t room, most;
    unsigned level, piece_every; /* every so many levels pieces, 0: never */
    struct mt_pairmap index;
    size_t memo[MT_TRAFFIC_MEMOS]; /* met lately, by a hash; + 1 */
};

struct mt_traffic {
    struct mt_traffic_grid launches, heat;
    struct mt_buffers buffers;
    struct mt_run_launch launch;
};

/* A piece of an allocation of so many bytes has 1 << result bytes (as long as the grid has all its pieces).
 */
static inline unsigned mt_traffic_piece_bits(uint64_t bytes)
{
    unsigned bits = 2;
    while (bytes && (bytes - 1) >> bits >= MT_TRAFFIC_PIECES)
        bits++;
    return bits;
}
extern const struct mt_analysis mt_traffic_analysis;
#endif
