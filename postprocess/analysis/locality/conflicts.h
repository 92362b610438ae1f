/* Conflicts: bytes that two CTAs of one launch access, at least one of them with a plain store. CUDA does not
 * order the CTAs of a launch, so such accesses race unless the program orders them itself, which a trace does
 * not show. Per launch and pair of sides; a side is a type of access at a source line. Two atomics do not
 * conflict, nor do loads, nor a load and an atomic. Fed and merged as runs.h says; the order of accesses does
 * not matter. Of host programs whose threads come in order: races.h. */
#ifndef MT_ANALYSIS_CONFLICTS_H
#define MT_ANALYSIS_CONFLICTS_H
#include "analysis/base/cells.h"
#include "races.h"
#include "window.h"

/* line << 2 | type */
static inline uint32_t mt_side_type(uint32_t side)
{
    return side & 3;
}
static inline uint32_t mt_side_line(uint32_t side)
{
    return side >> 2;
}

struct mt_conflict {
    uint64_t superstep, seq;
    const char *kernel;
    int cooperative;  /* as the launch (runs.h): the program may have ordered the two */
    uint32_t side[2]; /* ascending */
    uint64_t bytes;   /* at which two CTAs conflict with these sides */
    uint64_t words;   /* of 4 bytes, with such bytes; 0 of host programs */
    uint64_t address; /* of the lowest one; modulo 2^64 */
    uint64_t cta[2];  /* two that conflict there, cta[i] with side[i]: of all the first in z-major order */
};

struct mt_conflicts {
    struct mt_conflict *list; /* in no order */
    size_t count;
    /* state */
    size_t room;
    struct mt_launch_window window;
    struct mt_cells_pool pool;
    struct mt_run_launch program; /* a host program under way, if its `host` is not 0 */
    struct mt_races races;        /* of it */
    const struct mt_alloc_event *
        *made; /* its allocations by number, the caller's; those before `nmade` are over */
    size_t nmade, nallocs;
};
extern const struct mt_analysis mt_conflicts_analysis;
#endif
