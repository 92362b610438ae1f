/* Launches and copies that nothing orders, and that touch the same bytes, at least one of them by a write
 * (two atomics do not count). What is ordered says the runtime (mt_order_event): the streams, the legacy
 * default stream, events, what the host waited for. What each touches is kept, a bit for each byte and kind
 * of access, until all that may run beside it has had its turn. */
#ifndef MT_ANALYSIS_CHECK_UNORDERED_H
#define MT_ANALYSIS_CHECK_UNORDERED_H
#include "analysis/base/buffers.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "findings.h"

enum { MT_UNORDERED_STREAMS = 64 };

/* One launch or copy. */
struct mt_unordered_op {
    const struct mt_order_event *order;
    const char *kernel; /* "": a copy */
    struct mt_finding_side by;
    uint64_t step;
    uint64_t until[MT_UNORDERED_STREAMS]; /* of each stream the last operation that may run beside it */
    struct mt_unordered_page *pages;
    size_t npages, page_room;
    struct mt_pairmap at; /* number of a page -> in pages */
};

struct mt_check_unordered {
    struct mt_findings *findings; /* the caller's */
    struct mt_buffers *buffers;   /* the caller's, at the launch or copy under way */
    const struct mt_order_event **orders[MT_UNORDERED_STREAMS]; /* of each stream, by n */
    size_t norders[MT_UNORDERED_STREAMS];
    const struct mt_order_event **by_op;
    size_t nops;
    uint64_t done[MT_UNORDERED_STREAMS]; /* number of the newest one that had its turn */
    struct mt_unordered_op **open;
    size_t nopen, open_room, pages; /* pages: of all of them */
    struct mt_unordered_op *now;    /* under way, or NULL: nothing can run beside it */
    uint64_t left_out;              /* for want of room */
};

/* All give 0, or -1 without memory. */
int mt_check_unordered_init(struct mt_check_unordered *u, struct mt_source *s, struct mt_findings *findings,
                            struct mt_buffers *buffers);
int mt_check_unordered_launch(struct mt_check_unordered *u, const struct mt_run_launch *launch);
int mt_check_unordered_runs(struct mt_check_unordered *u, const struct mt_access_run *runs, size_t n);
int mt_check_unordered_copy(struct mt_check_unordered *u, const struct mt_copy_event *c);
int mt_check_unordered_finish(struct mt_check_unordered *u);
void mt_check_unordered_free(struct mt_check_unordered *u);
#endif
