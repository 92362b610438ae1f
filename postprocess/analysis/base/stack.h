/* Uses of lines in order, and for each how many other lines were used since the last use of the same one: the
 * position in a list by last use ("LRU stack"). Time and memory: O(log lines) a use, O(lines). */
#ifndef MT_ANALYSIS_STACK_H
#define MT_ANALYSIS_STACK_H
#include "memtrace/hash.h"
#include <stddef.h>
#include <stdint.h>

struct mt_use_stack_entry {
    uint64_t line;
    uint32_t time; /* of its last use; 0: free */
};

/* Sixteen sums, which change together. */
struct mt_use_stack_group {
    uint32_t sum[16];
};

struct mt_use_stack {
    struct mt_use_stack_entry *slot; /* open addressing */
    unsigned bits;
    uint32_t lines; /* in the list */
    uint32_t now;   /* time of the last use; times are 1 .. cap */
    uint32_t cap;
    /* One block of memory, which begins at the tree: */
    struct mt_use_stack_group *tree; /* how many bits of `alive` are before each word: stack.c */
    uint64_t *alive;                 /* a bit per time: it is the last use of its line */
    uint32_t *at;                    /* slot of the line used at a time */
};

#define MT_STACK_COLD UINT64_MAX
#define MT_STACK_FAILED (UINT64_MAX - 1)

/* Zero-initialised is empty. One use: the distance, or COLD for a first one, or FAILED (no memory, or more
 * than 2^30 lines). */
uint64_t mt_use_stack_use(struct mt_use_stack *s, uint64_t line);
/* To an empty one: it will have about so many lines. 0, or -1 without memory. */
int mt_use_stack_expect(struct mt_use_stack *s, uint32_t lines);
static inline size_t mt_use_stack_slot(const struct mt_use_stack *s, uint64_t line)
{
    return mt_hash_number(line ^ line >> 31) >> (64 - s->bits);
}
/* A line that will be used soon: its place is brought near. */
static inline void mt_use_stack_soon(const struct mt_use_stack *s, uint64_t line)
{
    if (s->slot)
        __builtin_prefetch(&s->slot[mt_use_stack_slot(s, line)], 1);
}
/* Lines by last use, earliest first: *time is 0 at first. 0: no more. */
int mt_use_stack_next(const struct mt_use_stack *s, uint32_t *time, uint64_t *line);
/* Only lines with so many of what `of` says of them remain, in their order. 0, or -1 without memory. */
int mt_use_stack_keep(struct mt_use_stack *s, unsigned (*of)(uint64_t line), unsigned least);
void mt_use_stack_free(struct mt_use_stack *s);
#endif
