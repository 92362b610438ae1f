/* Use of the bytes of allocations: whether they were written before a kernel reads them or a copy takes them
 * to the host, and which allocations nothing uses. Fed with the items of a source that has runs.
 *
 * Checked is memory of cudaMalloc and stream-ordered allocations. Writes by the program itself to other
 * memory (managed, host, device variables) are not in the trace. A byte becomes written by a copy, a fill or
 * a store; a copy on the device copies the state of its source. A launch that is not recorded completely may
 * have written everything.
 *
 * The order of CTAs within a launch is unknown: with several workers the trace has a different order than the
 * program. A word that a CTA reads unwritten and another CTA stores to is therefore not reported. A word that
 * only the reading CTA stores to later is uninitialised, and so is one that others update by atomics, which
 * read it. */
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

/* Set of written bytes of an allocation. Pages are created with their first byte; nothing is stored for a
 * page that is written completely. Zero-initialised: nothing was created yet. */

struct mt_written {
    uint64_t bytes;
    uint64_t **page; /* a bit for each byte; NULL: none is set */
    int all;         /* 1: all bytes are written */
};

/* Padding: unwritten bytes between the members of a struct, or after the last one. No code writes them, but a
 * copy of the whole struct reads them.
 *
 * Padding follows bytes that a kernel wrote and ends at an alignment greater than its size. There is none
 * where stores to other structs of the array begin a member; whole words are padding only where such an
 * alignment is known. */

enum { MT_MEMBERS_STEP = 512, MT_MEMBERS_ALIGNED = 16 };

/* Layout of the structs in a block, derived from stores of kernels. Zero-initialised: unknown. */
struct mt_members {
    uint64_t step; /* distance of all stores from lane to lane, in bytes: the struct's size, or a divisor of
                    * it; 0: not known */
    uint64_t begins[MT_MEMBERS_STEP / 64]; /* offsets in a step at which stores begin, if the step is no
                                            * larger than this */
    uint32_t widest;                       /* maximum bytes of a store */
    int host;                              /* 1: there were copies or fills, which may cover any members */
};

/* Word that was read before anything wrote it, in the current launch: listed once, with its first read. Words
 * of global memory wait for the launch's end, because another CTA may store to them. */

struct mt_unwritten_word {
    uint64_t cta;
    uint32_t site, warp, lane, type, bytes;
    const struct mt_alloc_event *alloc; /* allocation of the word; NULL: shared memory */
    uint64_t byte;                      /* offset of the first byte in its allocation */
    int stored;                         /* 1: another CTA stores to the word */
};

/* Zero-initialised is empty, except for the findings and the source. */
struct mt_unwritten {
    struct mt_findings *findings;
    struct mt_source *source;
    const struct mt_launch_event *launch; /* the current launch */
    const char *kernel;
    size_t input;
    uint64_t step;
    struct mt_unwritten_word *list;
    size_t count, room;
    struct mt_pairmap words; /* map from (word, memory) to index in the list */
    uint32_t site;           /* if known: site of the latest atomics, and */
    int known, overwrites;   /* 1: they are exchanges whose results nobody uses */
};

/* Uninitialised reads of shared memory in the current launch. Fed with the runs of a source that has
 * MT_SOURCE_SPACES. */

enum { MT_SHARED_CTAS = 1 << 14 }; /* number of CTAs checked at once; older ones are dropped */

/* Zero-initialised is empty. */
struct mt_check_shared {
    struct mt_written *written; /* entry of a CTA: its number % MT_SHARED_CTAS */
    struct mt_pairmap numbers;  /* numbers of CTAs, in the order of their first access */
    uint64_t count;
    struct mt_written *last; /* of the latest CTA, or NULL */
    uint64_t last_cta, last_number;
    struct mt_members members; /* all CTAs have the same variables */
    int blind;                 /* 1: not all writes of this launch are recorded */
};

/* Launches and copies without an order between them that access the same bytes, at least one of them by a
 * write (two atomics do not count). The runtime provides the order (mt_order_event): streams, the legacy
 * default stream, events, and waits of the host. The accesses of each operation are kept, a bit for each byte
 * and kind of access, until no unordered operation can follow.
 *
 * The host is one more stream: its accesses (mt_touch_event) to managed, pinned and registered memory race
 * with launches and copies that it has not waited for. A word that a kernel accesses by atomics or strong
 * accesses of scope `sys` (volatile, too) is one by which the two talk: it does not race, and once
 * the host may have read it, it may know that all of the operation is done. A host function has its place in
 * its stream or graph, and knows what the host knows. */

enum { MT_UNORDERED_STREAMS = 64 };

/* A launch or copy. */
struct mt_unordered_op {
    const struct mt_order_event *order;
    const char *kernel; /* "": copy */
    struct mt_finding_side by;
    const struct mt_touch_event *touch; /* access of a host function that it is, or NULL */
    uint64_t step, seq;
    uint64_t until[MT_UNORDERED_STREAMS]; /* by stream: last operation that may run concurrently */
    struct mt_unordered_page *pages;
    size_t npages, page_room;
    struct mt_pairmap at; /* map from page number to index in pages */
};

/* Memory that comes or goes in the order of a stream. */
struct mt_unordered_life {
    const struct mt_ordered_event *event;
    const struct mt_order_event *order;
};

struct mt_check_unordered {
    struct mt_findings *findings; /* list of findings, owned by the caller */
    struct mt_buffers *buffers;   /* owned by the caller; at the current launch or copy */
    const struct mt_order_event **orders[MT_UNORDERED_STREAMS]; /* by stream and n */
    size_t norders[MT_UNORDERED_STREAMS];
    const struct mt_companion *companion;                  /* of the events; NULL: none */
    struct mt_unordered_life *lives[MT_UNORDERED_STREAMS]; /* by stream and n */
    size_t nlives[MT_UNORDERED_STREAMS];
    /* Memory whose free was reached, but does not come before the current operation. */
    const struct mt_alloc_event **late;
    size_t nlate, late_room;
    const struct mt_order_event **by_op;
    size_t nops;
    uint64_t done[MT_UNORDERED_STREAMS]; /* by stream: number of the latest operation processed */
    struct mt_unordered_op **open;
    size_t nopen, open_room, pages;      /* pages: total over all open operations */
    struct mt_unordered_op *now;         /* current operation, or NULL: nothing can run concurrently */
    size_t touch;                        /* next access of the host */
    uint64_t seen[MT_UNORDERED_STREAMS]; /* by stream: what the host may know from words that kernels access
                                          * by strong accesses */
    size_t input;                        /* of the launch */
    struct mt_source *source;
    uint32_t site;      /* whose `strong` and `narrow` are known */
    int strong, narrow; /* narrow: of a scope without the host */
};

struct mt_check_block {
    struct mt_written written; /* no page, and not all: not created yet */
    uint8_t loaded, stored, copied_in, copied_out;
    uint8_t given;          /* 1: its bytes became those of others (mt_alloc_event.from) */
    uint8_t judged;         /* whether the block is checked. 0: not determined yet; 1: no; 2: yes */
    struct mt_written host; /* bytes written by copies and fills of the host, and since then by no kernel */
    struct mt_members members;
    const struct mt_copy_event *unread; /* latest copy from the host that is still unread */
};

/* Host trace beside traces of kernels: which blocks its program used and read. */
struct mt_check_host {
    size_t input;
    const struct mt_companion *companion;
    struct mt_live_allocs *live;
    uint8_t *used; /* by allocation */
    int seen;      /* 1: the host trace had accesses, so the source returns them */
};

struct mt_check_memory {
    const struct mt_alloc_event *allocs; /* allocations, owned by the source */
    size_t nallocs;
    struct mt_check_block *blocks; /* by allocation */
    struct mt_buffers buffers;
    struct mt_findings *findings; /* set and owned by the caller */
    struct mt_source *source;
    struct mt_unwritten unwritten; /* uninitialised reads in the current launch */
    struct mt_check_shared shared; /* shared memory in the current launch */
    struct mt_pairmap copying;     /* sites that copy whole structs */
    /* copies, kept for their locations */
    struct mt_copy_event **copies;
    size_t ncopies, copy_room;
    struct mt_check_host *hosts;
    size_t nhosts;
    int ended;     /* 1: the program ended normally, so unfreed memory is a leak */
    uint64_t work; /* budget of pages that copies may examine and of bytes for page tables, which bounds the
                    * work on hostile traces */
    uint64_t past; /* sequence numbers below this one are processed */
    struct mt_check_unordered unordered; /* unordered operations; also locates allocations */
    int threads;                         /* 1: the run is of a host program */
    int blind;                           /* 1: a launch was not recorded completely, so users of memory are
                                          * unknown */
};

/* Analysis of global memory. Needs `findings`; finish adds leaks and unused memory. */
extern const struct mt_analysis mt_check_memory_analysis;

/* Analysis of shared memory, with the same struct, fed after the other one. */
extern const struct mt_analysis mt_check_memory_shared_analysis;

#endif
