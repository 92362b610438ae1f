/* LRU stack: for each use of a line, the number of other lines used since the previous use of that line. Time
 * O(log lines) per use, memory O(lines). */
#ifndef MT_ANALYSIS_STACK_H
#define MT_ANALYSIS_STACK_H
#include "memtrace/hash.h"
#include <stddef.h>
#include <stdint.h>

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
    struct mt_use_stack_group *tree; /* number of bits set in `alive` before each word: stack.c */
    uint64_t *alive;                 /* a bit for each time: 1 for the last use of a line */
    uint32_t *at;                    /* slot of the line used at a time */
};

#define MT_STACK_COLD UINT64_MAX
#define MT_STACK_FAILED (UINT64_MAX - 1)

/* Uses a line. Returns the distance, COLD for a first use, or FAILED (no memory, or more than 2^30 lines).
 * Zero-initialised is empty. */
uint64_t mt_use_stack_use(struct mt_use_stack *s, uint64_t line);
/* Reserves room in an empty stack for about `lines` lines. Returns 0, or -1 without memory. */
int mt_use_stack_expect(struct mt_use_stack *s, uint32_t lines);
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
/* Returns the next line in order of last use, earliest first; *time starts at 0. Returns 0 at the end. */
int mt_use_stack_next(const struct mt_use_stack *s, uint32_t *time, uint64_t *line);
/* Keeps only lines for which `of` is at least `least`, in their order. Returns 0, or -1 without memory. */
void mt_use_stack_free(struct mt_use_stack *s);
#endif
