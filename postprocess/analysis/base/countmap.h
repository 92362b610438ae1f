/* A count for each of many 64-bit keys. Zero-initialised is empty; a key that was never added to has count 0.
 */
#ifndef MT_ANALYSIS_COUNTMAP_H
#define MT_ANALYSIS_COUNTMAP_H
#include <stddef.h>
#include <stdint.h>

struct mt_count {
    uint64_t key, count; /* 0: the slot is free */
};

struct mt_countmap {
    struct mt_count *slot; /* open addressing, linear probing, at most half full */
    unsigned bits;
    size_t count; /* keys */
};

static inline size_t mt_countmap_slot(const struct mt_countmap *m, uint64_t key)
{
    return (key ^ key >> 29) * 0xd6e8feb86659fd93ull >> (64 - m->bits);
}
/* Will be asked for soon: its place is brought near. */
static inline void mt_countmap_soon(const struct mt_countmap *m, uint64_t key)
{
    if (m->slot)
        __builtin_prefetch(&m->slot[mt_countmap_slot(m, key)], 1);
}
/* The count of the key, 0 if it is new: the caller makes it more than that at once. Valid until the next
 * call; NULL without memory. */
uint64_t *mt_countmap_at(struct mt_countmap *m, uint64_t key);
/* n > 0. 0, or -1 without memory. */
static inline int mt_countmap_add(struct mt_countmap *m, uint64_t key, uint64_t n)
{
    uint64_t *count = mt_countmap_at(m, key);
    if (!count)
        return -1;
    *count += n;
    return 0;
}
/* Calls for all keys, in no order. */
void mt_countmap_each(const struct mt_countmap *m, void (*f)(void *arg, uint64_t key, uint64_t count),
                      void *arg);
/* Only keys with so many of what `of` says of them remain. 0, or -1 without memory. */
int mt_countmap_keep(struct mt_countmap *m, unsigned (*of)(uint64_t key), unsigned least);
void mt_countmap_free(struct mt_countmap *m);
#endif
