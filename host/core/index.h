/* The allocation index: finds the allocation of an address. A splay tree of half-open ranges [base, base +
 * bytes) without overlaps; there are two trees, blocks (malloc family) and below them maps (mmap, brk).
 * Not thread-safe: the caller locks. A lookup changes the tree (hence its speed). A range that would wrap
 * ends at the last address. */
#ifndef MT_HOST_INDEX_H
#define MT_HOST_INDEX_H
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

/* Returns the range that holds the address, or NULL. Valid until the next change. */
struct mt_core_range *mt_index_find(struct mt_index_tree *t, uint64_t address);
/* Narrows [*low, *high) to the gap around an address that is in no range. */
void mt_index_gap(struct mt_index_tree *t, uint64_t address, uint64_t *low, uint64_t *high);
/* Returns 1 if any piece of allocation `id` lies in [base, end). */
int mt_index_has(struct mt_index_tree *t, uint64_t base, uint64_t end, uint64_t id);
/* Inserts a range and first cuts away all it overlaps. Returns 0, or -1 without memory (nothing changed). */
int mt_index_insert(struct mt_index_tree *t, uint64_t base, uint64_t bytes, uint64_t id);
/* Removes [base, base + bytes), and cuts ranges at its ends. Calls gone(was, whole, arg) for each range
 * touched with its old bounds; whole is 1 if nothing of it is left. gone may be NULL and must not touch
 * the tree. Returns 0, or -1 without memory for a split (nothing changed). */
int mt_index_remove(struct mt_index_tree *t, uint64_t base, uint64_t bytes,
                    void (*gone)(const struct mt_core_range *was, int whole, void *arg), void *arg);
#endif
