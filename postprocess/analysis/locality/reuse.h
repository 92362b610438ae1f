/* Reuse distances and working sets, of CTAs, SMs and the device. A use is a line that an access touches. Its
 * distance is the number of other lines that the same CTA (SM, device) used since its last use of this line;
 * "cold" when there was none. CTAs and SMs begin anew with each launch, the device does not.
 * With sample_bits = k only lines of which a hash has k zero bits are looked at, one of 2^k: all figures but
 * `uses` are then those of the sample, distances are scaled already. Fed and merged as runs.h says. */
#ifndef MT_ANALYSIS_REUSE_H
#define MT_ANALYSIS_REUSE_H
#include "analysis/base/countmap.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "analysis/base/stack.h"
#include "window.h"

enum mt_reuse_level { MT_REUSE_CTA, MT_REUSE_SM, MT_REUSE_DEVICE, MT_REUSE_LEVELS };
enum { MT_REUSE_BUCKETS = 64, MT_REUSE_MOST_SAMPLE_BITS = 24 };

struct mt_reuse_counts {
    uint64_t histogram[MT_REUSE_BUCKETS]; /* 0: distance 0; b: distances 2^(b-1) up to 2^b - 1 */
    uint64_t cold;
    uint64_t contexts;       /* CTAs, SMs; 1 */
    uint64_t lines, largest; /* different lines used: sum over contexts, and of the context with most */
};

struct mt_reuse_launch {
    uint64_t superstep;
    const char *kernel;
    int selected;
    uint64_t uses;    /* of all lines */
    uint64_t squares; /* sum over sampled lines of the square of their uses in this launch */
    struct mt_reuse_counts level[MT_REUSE_LEVELS];
};

struct mt_reuse_first { /* the first use of a line in a part */
    uint64_t line;
    size_t launch; /* index */
};

struct mt_reuse {
    struct mt_run_options options;
    struct mt_reuse_launch *launches; /* ascending superstep */
    size_t count;
    /* state */
    size_t room;
    struct mt_launch_window window;
    struct mt_use_stack device;
    struct mt_reuse_first *firsts;
    size_t nfirsts, firsts_room;
    int whole; /* begins with the trace: nothing comes before it */
};

/* Is the line in the sample? */
static inline int mt_reuse_sampled(uint64_t line, unsigned sample_bits)
{
    line = (line ^ line >> 30) * 0xbf58476d1ce4e5b9ull;
    line = (line ^ line >> 27) * 0x94d049bb133111ebull;
    line ^= line >> 31;
    return (line & ((1ull << sample_bits) - 1)) == 0;
}
extern const struct mt_analysis mt_reuse_analysis;
#endif
