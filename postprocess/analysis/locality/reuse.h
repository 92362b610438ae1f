/* Reuse distances and working sets of CTAs, SMs and the device. A use is a line that an access touches. Its
 * distance is the number of other lines that the same CTA (SM, device) used since its last use of this line;
 * "cold" if there was none. CTAs and SMs start anew with each launch, the device does not.
 * With sample_bits = k only lines whose hash has k zero bits are tracked, one of 2^k. sample_lines limits the
 * tracked lines: when the CTAs or the SMs of a launch, or the device, have more than four times as many in
 * total, and there were more than sample_uses uses, the tracked set is halved repeatedly. If there are many
 * CTAs or SMs, half of them are dropped, else half of the lines. Earlier counts are kept, and later ones get
 * twice the weight. So results are exact until there are many lines. Counts and distances are scaled; `uses`
 * is exact, and the counts are adjusted to add up to it. (Waldspurger et al., "Efficient MRC construction
 * with SHARDS", FAST 2015.) Fed and merged as runs.h describes; but once sample_lines was exceeded, results
 * depend on the parts, within errors. */
#ifndef MT_ANALYSIS_REUSE_H
#define MT_ANALYSIS_REUSE_H

#include "memtrace/hash.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "parcel.h"
#include <stddef.h>
#include <stdint.h>

/* LRU stack: for each use of a line, the number of other lines used since the previous use of that line. Time
 * O(log lines) per use, memory O(lines). */

struct mt_use_stack_entry {
    uint64_t line;
    uint32_t time; /* time of its last use; 0: free */
};

/* Sixteen sums that are updated together. */
struct mt_use_stack_group {
    uint32_t sum[16];
};

struct mt_use_stack {
    struct mt_use_stack_entry *slot; /* hash table with open addressing */
    unsigned bits;
    uint32_t lines; /* number of lines in the stack */
    uint32_t now;   /* time of the last use; times are 1 .. cap */
    uint32_t cap;
    /* A single block of memory begins at `tree`. */
    struct mt_use_stack_group *tree; /* number of bits set in `alive` before each word */
    uint64_t *alive;                 /* a bit for each time: 1 for the last use of a line */
    uint32_t *at;                    /* slot of the line used at a time */
};

#define MT_STACK_COLD UINT64_MAX
#define MT_STACK_FAILED (UINT64_MAX - 1)

static inline size_t mt_use_stack_slot(const struct mt_use_stack *s, uint64_t line)
{
    return mt_hash_number(line ^ line >> 31) >> (64 - s->bits);
}

/* Prefetches the slot of a line that is used soon. */
static inline void mt_use_stack_soon(const struct mt_use_stack *s, uint64_t line)
{
    if (s->slot)
        __builtin_prefetch(&s->slot[mt_use_stack_slot(s, line)], 1);
}

enum mt_reuse_level { MT_REUSE_CTA, MT_REUSE_SM, MT_REUSE_DEVICE, MT_REUSE_LEVELS };

enum {
    MT_REUSE_BUCKETS = 64,
    MT_REUSE_MOST_BITS = 30,
    MT_REUSE_MOST_SAMPLE_BITS = 24,
    MT_REUSE_LINES = 1 << 13,
    MT_REUSE_USES = 1 << 20
};

struct mt_reuse_counts {
    /* Uses by bucket, 0: distance 0; b: distances 2^(b-1) to 2^b - 1. `buckets` of them, at most
     * MT_REUSE_BUCKETS; further ones are 0. Up to two are in `few`, more in a list of their own. */
    union {
        uint64_t few[2], *many;
    };
    unsigned buckets;
    uint64_t cold;
    uint64_t contexts;       /* number of CTAs, of SMs; 1 */
    uint64_t lines, largest; /* different lines used: sum over contexts, and maximum of a context */
};

struct mt_reuse_launch {
    uint64_t superstep;
    const char *kernel;
    uint64_t uses; /* number of uses of all lines */
    int selected;
    /* state at the launch's end */
    unsigned sample_bits[MT_REUSE_LEVELS], context_bits[2];
    uint64_t
        squares; /* sum, over lines tracked by the device, of the squared number of uses in this launch */
    uint64_t context_squares[2]; /* sums over all CTAs, and over all SMs, estimated */
    struct mt_reuse_counts level[MT_REUSE_LEVELS];
};

struct mt_reuse_first { /* first use of a line in a part */
    uint64_t line;
    size_t launch; /* index of the launch */
};

struct mt_reuse {
    struct mt_run_options options;
    struct mt_reuse_launch *launches; /* launches by ascending superstep */
    size_t count;
    /* state */
    size_t room;
    struct mt_launch_window window;
    struct mt_use_stack device;
    unsigned sample_bits; /* sampling of the device's lines, log2 */
    uint64_t uses;        /* number of uses in this part */
    struct mt_reuse_first *firsts;
    size_t nfirsts, firsts_room;
    int whole;              /* 1: the part begins with the trace */
    struct mt_pairmap rows; /* launches that are added up: index, by kernel and superstep >> row_bits */
    unsigned row_bits;
    size_t closed; /* number of selected launches that have ended */
};

/* Returns the buckets in use. */
static inline uint64_t *mt_reuse_histogram(struct mt_reuse_counts *c)
{
    return c->buckets > sizeof c->few / sizeof *c->few ? c->many : c->few;
}

/* Returns the uses of a bucket. */
static inline uint64_t mt_reuse_bucket(const struct mt_reuse_counts *c, unsigned bucket)
{
    return bucket < c->buckets ? mt_reuse_histogram((struct mt_reuse_counts *)c)[bucket] : 0;
}

/* Adds the results of a later launch that one row shows with an earlier one, and frees them. Returns 0, or -1
 * without memory. */
int mt_reuse_launch_join(struct mt_reuse_launch *into, struct mt_reuse_launch *from);
void mt_reuse_launch_free(struct mt_reuse_launch *l);

/* Returns the zero bits of a hash of a line, CTA or SM, which decide whether it is tracked. */
static inline unsigned mt_reuse_zeros(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x ? (unsigned)__builtin_ctzll(x) : 64;
}

/* Returns the number of different lines of the run. */
static inline uint64_t mt_reuse_footprint(const struct mt_reuse *x)
{
    return (uint64_t)x->device.lines << x->sample_bits;
}

extern const struct mt_analysis mt_reuse_analysis;

#endif
