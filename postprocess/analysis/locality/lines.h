/* Volumes by place in the source: by line, by variable, and by the allocation that an access begins in.
 * Fed and merged as runs.h says; the order of accesses does not matter. */
#ifndef MT_ANALYSIS_LINES_H
#define MT_ANALYSIS_LINES_H
#include "analysis/base/buffers.h"
#include "parcel.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

enum mt_lines_by { MT_BY_LINE, MT_BY_VAR, MT_BY_ALLOC, MT_LINES_BY };

#define MT_LINES_NO_ALLOC UINT64_MAX /* in place of an allocation's index */

struct mt_lines_cell {
    const char *kernel;
    uint64_t place;       /* number of the line, of the variable, index of the allocation */
    uint64_t accesses[4]; /* by type */
    uint64_t load, store; /* bytes; an atomic has both, an access of unknown type none */
};

struct mt_lines {
    struct mt_lines_cell *cells[MT_LINES_BY]; /* in no order */
    size_t count[MT_LINES_BY];
    /* state */
    size_t room[MT_LINES_BY];
    struct mt_pairmap index[MT_LINES_BY];
    size_t last[MT_LINES_BY];
    struct mt_buffers buffers;
    struct mt_run_launch launch;
};

/* `allocs`: the caller's, kept; sorted as the source hands them out. */
extern const struct mt_analysis mt_lines_analysis;
#endif
