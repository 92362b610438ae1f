/* Traffic of each allocation by launch, and where in it: two grids of byte counts. `launches` has a cell per
 * allocation and launch; `heat` has a cell per allocation, launch and piece of the allocation, with at most
 * MT_TRAFFIC_PIECES pieces. A grid with too many cells is made coarser: neighbouring launches (in `heat`
 * every third time neighbouring pieces instead) are merged, so that memory and output stay small for any
 * trace, and sums stay exact. The final resolution depends on the trace only, not on its parts. Accesses
 * count where they begin. Fed and merged as runs.h describes; the order of accesses does not matter. */
#ifndef MT_ANALYSIS_TRAFFIC_H
#define MT_ANALYSIS_TRAFFIC_H
#include "analysis/base/buffers.h"
#include "parcel.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

#define MT_TRAFFIC_NO_ALLOC UINT64_MAX /* in place of an allocation's index: no allocation; has no heat */
enum { MT_TRAFFIC_PIECES = 64, MT_TRAFFIC_MEMOS = 256, MT_TRAFFIC_CELLS = 1 << 16 };

struct mt_traffic_cell {
    uint64_t alloc;            /* index of the allocation */
    uint32_t superstep, piece; /* in units of the grid's steps */
    uint64_t load, store;      /* bytes; an atomic counts in both, an access of unknown type in neither */
    uint64_t accesses[4];      /* by type */
};

struct mt_traffic_grid {
    struct mt_traffic_cell *cells; /* unordered until finished, then by alloc, superstep, piece */
    size_t count;
    unsigned step_bits, piece_bits; /* number of times that two launches, two pieces were merged */
    /* state */
    size_t room, most;
    unsigned level, piece_every; /* interval of levels at which pieces are merged, 0: never */
    struct mt_pairmap index;
    size_t memo[MT_TRAFFIC_MEMOS]; /* cache of recent indices + 1, by a hash */
};

struct mt_traffic {
    struct mt_traffic_grid launches, heat;
    struct mt_buffers buffers;
    struct mt_run_launch launch;
};

/* Returns log2 of the bytes of a piece of an allocation of `bytes` bytes (at the finest resolution). */
static inline unsigned mt_traffic_piece_bits(uint64_t bytes)
{
    unsigned bits = 2;
    while (bytes && (bytes - 1) >> bits >= MT_TRAFFIC_PIECES)
        bits++;
    return bits;
}
extern const struct mt_analysis mt_traffic_analysis;
#endif
