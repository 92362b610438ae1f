/* What becomes of the bytes of allocations: which were written before a kernel reads them or a copy takes
 * them to the host, and which allocations nothing uses. Fed with the items of a source that has runs.
 *
 * Judged is memory of cudaMalloc and stream-ordered allocations: of other memory (managed, of the host,
 * device variables) what the program writes itself is not in the trace. A byte is written by a copy, a fill
 * or a store; a copy on the device hands on what its source is. A launch that is not recorded wholly may have
 * written everything.
 *
 * Within a launch no order of CTAs is known: with several workers the trace has another one than the program
 * had. A word that a CTA reads unwritten, and to which another one stores, is not judged; one that only it
 * stores to afterwards is read uninitialised, and so is one that others update by atomics, which read it. */
#ifndef MT_ANALYSIS_CHECK_MEMORY_H
#define MT_ANALYSIS_CHECK_MEMORY_H
#include "analysis/base/buffers.h"
#include "analysis/base/live_allocs.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "shared.h"
#include "unordered.h"
#include "written.h"

struct mt_check_block {
    struct mt_written written; /* no page, and not all: not made yet */
    uint8_t loaded, stored, copied_in, copied_out;
    uint8_t judged;         /* is it to be? 0: nobody has asked yet; 1: no; 2: yes */
    struct mt_written host; /* which bytes the host's copies and fills have written, and no kernel since */
    struct mt_members members;
    const struct mt_copy_event *unread; /* a copy from the host that nothing has read from yet; the list's */
};

/* A host trace among those of kernels: which blocks its program used, and read. */
struct mt_check_host {
    size_t input;
    const struct mt_companion *companion;
    struct mt_live_allocs *live;
    uint8_t *used; /* of each allocation */
    int seen;      /* there were accesses: the source hands them out */
};

struct mt_check_memory {
    const struct mt_alloc_event *allocs; /* the source's */
    size_t nallocs;
    struct mt_check_block *blocks; /* of each */
    struct mt_buffers buffers;
    struct mt_findings *findings; /* the caller's, who sets it */
    struct mt_source *source;
    struct mt_unwritten unwritten; /* in the launch under way */
    struct mt_check_shared shared; /* of it */
    struct mt_pairmap copying;     /* sites: padding.h */
    /* copies, kept: their places */
    struct mt_copy_event **copies;
    size_t ncopies, copy_room;
    struct mt_check_host *hosts;
    size_t nhosts;
    int ended;     /* the program came to its end: what it has not freed leaks */
    uint64_t work; /* pages that copies may still look at, and bytes of tables of pages: a hostile trace has
                      an end */
    uint64_t past; /* numbers below this one have had their turn */
    struct mt_check_unordered unordered; /* has what it has, and where allocations are */
    int threads;                         /* of a host program */
    int blind;                           /* a launch was not recorded wholly: who uses what is not known */
};

/* Needs `findings`; finish adds leaks, and what nothing used. */
extern const struct mt_analysis mt_check_memory_analysis;
/* What the same runs did to shared memory, after that, of the same struct. */
extern const struct mt_analysis mt_check_memory_shared_analysis;
#endif
