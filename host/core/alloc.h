/* The allocation index: finds the allocation of an address. A splay tree of half-open ranges [base, base +
 * bytes) without overlaps; there are two trees, blocks (malloc family) and below them maps (mmap, brk).
 * Not thread-safe: the caller locks. A lookup changes the tree (hence its speed). A range that would wrap
 * ends at the last address. */
#ifndef MT_CORE_ALLOC_H
#define MT_CORE_ALLOC_H

#include <stdint.h>

struct mt_core_range {
    uint64_t base, end;    /* half-open */
    uint64_t id;           /* allocation; pieces of a cut allocation share it */
    uint64_t start, bytes; /* the allocation when it was made: offsets count from `start` */
    struct mt_core_range *left, *right;
    int kept; /* 1: a block that the C runtime made for itself */
};

struct mt_index_tree {
    struct mt_core_range *root;
    struct mt_core_range *spare; /* free nodes */
    uint64_t count;
};

#endif
