/* Cache lines that several CTAs of one launch touch. Of a byte that several CTAs touch and at least one
 * stores, the line is truly shared; a line without such a byte that several CTAs touch and at least one
 * stores into is falsely shared; one that several CTAs only read is shared for reading; the others are
 * private. Atomics store. Accesses of unknown type do not count. Per launch and allocation (of the first byte
 * of the line that was touched). Fed and merged as runs.h says; the order of accesses does not matter. */
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
    uint64_t alloc; /* index */
    uint64_t lines[MT_SHARING_KINDS],
        accesses[MT_SHARING_KINDS]; /* an access counts at each line it touches */
};

struct mt_sharing_line {
    uint64_t superstep;
    uint64_t address, alloc;
    enum mt_sharing_kind kind;
    uint64_t accesses;
    uint64_t writers; /* CTAs that store into it; of falsely shared lines only */
};

struct mt_sharing {
    struct mt_run_options options;
    struct mt_sharing_cell *cells; /* in no order */
    struct mt_sharing_line *top;   /* those with most accesses, then lowest address; in no order */
    size_t count, ntop;
    /* state */
    size_t room, top_room;
    struct mt_launch_window window;
    struct mt_buffers buffers;
    struct mt_cells_pool pool;
};

/* `allocs`: the caller's, kept. */
extern const struct mt_analysis mt_sharing_analysis;
#endif
