/* Words that were read before anything wrote them, in the launch under way: each once, at the place that read
 * it first. Those of global memory wait for the launch's end, as another CTA may store to them. */
#ifndef MT_ANALYSIS_CHECK_UNWRITTEN_H
#define MT_ANALYSIS_CHECK_UNWRITTEN_H
#include "analysis/base/pairmap.h"
#include "findings.h"
#include "memtrace/device.h"

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

/* `n` unwritten bytes at `address`, of accesses of a run that follow each other and begin at `begin`, the
 * first of which is number `first`. memory: 0, or 1 + the number of a CTA. 0, or -1 without memory. */
int mt_unwritten_add(struct mt_unwritten *u, const struct mt_access_run *r, uint32_t first, uint64_t begin,
                     uint64_t address, uint64_t n, uint64_t memory, const struct mt_alloc_event *alloc);
/* A CTA stores to global memory. */
void mt_unwritten_settle(struct mt_unwritten *u, uint64_t cta, uint64_t address, uint64_t n);
/* The launch has ended: findings. 0, or -1 without memory. */
int mt_unwritten_end(struct mt_unwritten *u);
void mt_unwritten_free(struct mt_unwritten *u);
#endif
