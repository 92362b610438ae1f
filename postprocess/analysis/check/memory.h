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

#include "analysis/base/pairmap.h"
#include "memtrace/device.h"
#include "memtrace/trace.h"
#include "findings.h"
#include "analysis/base/buffers.h"
#include "analysis/base/runs.h"
#include "analysis/base/live_allocs.h"
#include <stdint.h>

/* Which bytes of an allocation were written. Pages come with their first byte; of a page that is written as a
 * whole nothing is kept. */

/* Zero-initialised: nothing was made yet. */
struct mt_written {
    uint64_t bytes;
    uint64_t **page; /* a bit for each byte; NULL: none is set */
    int all;         /* all bytes are written */
};

/* Which unwritten bytes lie between the members of a struct, or behind the last one: nobody is to write them,
 * and who copies a whole struct reads them.
 *
 * They follow what a kernel wrote, and end where something is aligned to more than their number. Where
 * kernels' stores to other structs begin a member there is none, and whole words are padding only where
 * something is known to be aligned so. */

enum { MT_MEMBERS_STEP = 512, MT_MEMBERS_ALIGNED = 16 };

/* What kernels' stores tell of the structs in a block. Zero-initialised: nothing. */
struct mt_members {
    uint64_t step; /* bytes from lane to lane, of all stores: a struct's size, or its divisor; 0: not known */
    uint64_t begins[MT_MEMBERS_STEP / 64]; /* where in a step stores begin, if it is not larger than this */
    uint32_t widest;                       /* bytes of a store */
    int host;                              /* copies and fills, which may have been of any members */
};

/* Words that were read before anything wrote them, in the launch under way: each once, at the place that read
 * it first. Those of global memory wait for the launch's end, as another CTA may store to them. */

struct mt_unwritten_word {
    uint64_t cta;
    uint32_t site, warp, lane, type, bytes;
    const struct mt_alloc_event *alloc; /* NULL: shared memory */
    uint64_t byte;                      /* the first one, in its allocation */
    int stored;                         /* to, by another CTA */
};

/* Zero-initialised is empty, but for the findings and the source. */
struct mt_unwritten {
    struct mt_findings *findings;
    struct mt_source *source;
    const struct mt_launch_event *launch; /* the one under way */
    const char *kernel;
    size_t input;
    uint64_t step;
    struct mt_unwritten_word *list;
    size_t count, room;
    struct mt_pairmap words; /* (word, memory) -> number in the list */
};

/* Reads of shared memory that nothing in the CTA wrote before, in the launch under way. Fed with the runs of
 * a source that has MT_SOURCE_SPACES. */

enum { MT_SHARED_CTAS = 1 << 14 }; /* that are under way at once; older ones are not judged any more */

/* Zero-initialised is empty. */
struct mt_check_shared {
    struct mt_written *written; /* of CTA number % MT_SHARED_CTAS */
    struct mt_pairmap numbers;  /* of CTAs, in the order of their first access */
    uint64_t count;
    struct mt_members members; /* all CTAs have the same variables */
    int blind;                 /* not all that is written in this launch is seen */
};

/* Launches and copies that nothing orders, and that touch the same bytes, at least one of them by a write
 * (two atomics do not count). What is ordered says the runtime (mt_order_event): the streams, the legacy
 * default stream, events, what the host waited for. What each touches is kept, a bit for each byte and kind
 * of access, until all that may run beside it has had its turn. */

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
    struct mt_pairmap copying;     /* sites: memory.h */
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
