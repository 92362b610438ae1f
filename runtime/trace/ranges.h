/* An ordered table of disjoint address ranges, each with a pointer of its user. Thread-safe, but a lookup
 * returns the user's pointer, whose lifetime is up to the user. */
#ifndef MT_COMMON_RANGES_H
#define MT_COMMON_RANGES_H
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct mt_range {
    uint64_t base, bytes;
    void *data;
};

struct mt_ranges_leaf;
struct mt_ranges {
    pthread_rwlock_t lock;
    struct mt_ranges_leaf **at; /* leaves, none empty, by ascending base */
    size_t n, capacity;
};
#define MT_RANGES_INIT {PTHREAD_RWLOCK_INITIALIZER, NULL, 0, 0}

/* Adds a range. Returns 0, EEXIST if it overlaps another range, or ENOMEM. Empty ranges count as one byte. */
int mt_ranges_add(struct mt_ranges *t, uint64_t base, uint64_t bytes, void *data);
/* Removes the range that begins at `base`. Returns 1 with *out set, or 0. */
int mt_ranges_take(struct mt_ranges *t, uint64_t base, struct mt_range *out);
/* Finds the range that contains `address`. Returns 1 with *out set, or 0. */
int mt_ranges_find(struct mt_ranges *t, uint64_t address, struct mt_range *out);
/* Finds the last range that begins at or below `address`, and the first one above it; bytes is 0 if there is
 * none. */
void mt_ranges_around(struct mt_ranges *t, uint64_t address, struct mt_range *below, struct mt_range *above);
/* Removes any range, to empty the table. Returns 1 with *out set, or 0 if empty. */
int mt_ranges_pop(struct mt_ranges *t, struct mt_range *out);
#endif
