/* A map from pairs of 64-bit numbers to a 64-bit number, emptied in constant time.
 * Zero-initialised is empty. */
#ifndef MT_ANALYSIS_PAIRMAP_H
#define MT_ANALYSIS_PAIRMAP_H
#include "memtrace/hash.h"
#include <stddef.h>
#include <stdint.h>

struct mt_pair {
    uint64_t a, b, value;
    uint64_t epoch; /* entry is in use if equal to the map's epoch */
};

struct mt_pairmap {
    struct mt_pair *slot;
    unsigned bits;
    size_t count;
    uint64_t epoch;
};

/* Returns the value of (a, b), created as `fresh` if absent, valid until the next call. NULL without
 * memory. */
uint64_t *mt_pairmap_get(struct mt_pairmap *m, uint64_t a, uint64_t b, uint64_t fresh);
/* Returns the value of (a, b), or NULL if absent. */
const uint64_t *mt_pairmap_find(const struct mt_pairmap *m, uint64_t a, uint64_t b);
static inline size_t mt_pairmap_slot(const struct mt_pairmap *m, uint64_t a, uint64_t b)
{
    return mt_hash_number(a ^ (b ^ b >> 29) * 0xd6e8feb86659fd93ull) >> (64 - m->bits);
}
void mt_pairmap_clear(struct mt_pairmap *m);
/* Calls `f` for all pairs, in no particular order. */
void mt_pairmap_each(const struct mt_pairmap *m, void (*f)(void *arg, uint64_t a, uint64_t b, uint64_t value),
                     void *arg);
void mt_pairmap_free(struct mt_pairmap *m);
#endif
