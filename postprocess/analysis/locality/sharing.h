/* Cache lines accessed by several CTAs of one launch. A line is truly shared if it has a byte that several
 * CTAs access and at least one stores to; otherwise falsely shared if several CTAs access the line and at
 * least one stores to it; read-shared if several CTAs only read it; else private. Atomics are stores.
 * Accesses of unknown type do not count. Results are per launch and allocation (of the first accessed byte of
 * the line). Fed and merged as runs.h describes; the order of accesses does not matter. */
#ifndef MT_ANALYSIS_SHARING_H
#define MT_ANALYSIS_SHARING_H
#include "analysis/base/buffers.h"
#include "analysis/base/cells.h"
#include "parcel.h"

enum mt_sharing_kind { MT_SHARED_PRIVATE, MT_SHARED_READ, MT_SHARED_TRUE, MT_SHARED_FALSE, MT_SHARING_KINDS };
#define MT_SHARING_NO_ALLOC UINT64_MAX

struct mt_sharing_cell {
    uint64_t superstep;
    const char *kernel;
    uint64_t alloc; /* index of the allocation */
    uint64_t lines[MT_SHARING_KINDS],
        accesses[MT_SHARING_KINDS]; /* an access counts at each line it touches */
};

struct mt_sharing_line {
    uint64_t superstep;
    uint64_t address, alloc;
    enum mt_sharing_kind kind;
    uint64_t accesses;
    uint64_t writers; /* number of CTAs that store to it; only for falsely shared lines */
};

struct mt_sharing {
    struct mt_run_options options;
    struct mt_sharing_cell *cells; /* unordered */
    struct mt_sharing_line *top;   /* lines with most accesses, then lowest address; unordered */
    size_t count, ntop;
    /* state */
    size_t room, top_room;
    struct mt_pairmap kernels; /* by_kernel: index + 1 of the cell of a kernel and an allocation */
    struct mt_launch_window window;
    struct mt_buffers buffers;
    struct mt_cells_pool pool;
};

/* `allocs`: owned by the caller, kept. */
extern const struct mt_analysis mt_sharing_analysis;
#endif
