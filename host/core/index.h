/* The allocation index: which allocation does an address lie in? A splay tree of half-open ranges
 * [base, base + bytes) that do not overlap; two of them, one for blocks (malloc family) and one for maps
 * (mmap, brk) below them. Not thread-safe: the caller locks. Lookup changes the tree (that is what makes it
 * fast). A range that would wrap ends at the last address. */
#ifndef MT_HOST_INDEX_H
#define MT_HOST_INDEX_H
#include <stdint.h>

struct mt_core_range {
    uint64_t base, end;    /* half-open */
    uint64_t id;           /* allocation: pieces of one that was cut have the same */
    uint64_t start, bytes; /* of the allocation when it was made: offsets are from `start` */
    struct mt_core_range *left, *right;
    int kept; /* a block that the C runtime made for itself */
};

struct mt_index_tree {
    struct mt_core_range *root;
    struct mt_core_range *spare; /* nodes given back */
    uint64_t count;
};

/* The range that holds the address, NULL if none. Valid until the next change. */
struct mt_core_range *mt_index_find(struct mt_index_tree *t, uint64_t address);
/* For an address in no range: narrows [*low, *high) to where no range is. */
void mt_index_gap(struct mt_index_tree *t, uint64_t address, uint64_t *low, uint64_t *high);
/* 1 if something of allocation `id` lies in [base, end). */
int mt_index_has(struct mt_index_tree *t, uint64_t base, uint64_t end, uint64_t id);
/* Inserts; what it overlaps is cut away first. 0, or -1 without memory (nothing changed). */
int mt_index_insert(struct mt_index_tree *t, uint64_t base, uint64_t bytes, uint64_t id);
/* Removes [base, base + bytes) whatever it cuts; calls gone(was, whole, arg) for each range touched, with the
 * range as it was: whole 1 when nothing of that range is left. gone may be NULL and must not touch the tree.
 * 0, or -1 without memory for a split (nothing changed). */
int mt_index_remove(struct mt_index_tree *t, uint64_t base, uint64_t bytes,
                    void (*gone)(const struct mt_core_range *was, int whole, void *arg), void *arg);
#endif
