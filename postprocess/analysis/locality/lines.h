/* Volumes by source line, by variable, and by the allocation in which an access begins. Fed and merged as
 * runs.h describes; the order of accesses does not matter. */
#ifndef MT_ANALYSIS_LINES_H
#define MT_ANALYSIS_LINES_H
#include "analysis/base/buffers.h"
#include "parcel.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

enum mt_lines_by { MT_BY_LINE, MT_BY_VAR, MT_BY_ALLOC, MT_LINES_BY };

#define MT_LINES_NO_ALLOC UINT64_MAX /* in place of an allocation's index: no allocation */

struct mt_lines_cell {
    const char *kernel;
    uint64_t place;       /* number of the line, number of the variable, or index of the allocation */
    uint64_t accesses[4]; /* by type */
    uint64_t load, store; /* bytes; an atomic counts in both, an access of unknown type in neither */
};

struct mt_lines {
    struct mt_lines_cell *cells[MT_LINES_BY]; /* unordered */
    size_t count[MT_LINES_BY];
    /* state */
    size_t room[MT_LINES_BY];
    struct mt_pairmap index[MT_LINES_BY];
    size_t last[MT_LINES_BY];
    struct mt_buffers buffers;
    struct mt_run_launch launch;
};

/* `allocs`: owned by the caller, kept; sorted as from the source. */
extern const struct mt_analysis mt_lines_analysis;

/* Adds totals that a GPU counted, of a line and a variable (numbers as in mt_sites). */
int mt_lines_tally(struct mt_lines *l, const char *kernel, uint32_t line, uint32_t var,
                   const struct mt_tally_event *t);
#endif
