/* A set of 64-bit numbers (addresses). Zero-initialised is empty. */
#ifndef MT_ANALYSIS_U64SET_H
#define MT_ANALYSIS_U64SET_H
#include <stddef.h>
#include <stdint.h>

struct mt_u64set {
    uint64_t *slot; /* 0 is free; the number 0 itself is kept in has_zero */
    unsigned bits;
    size_t count; /* has_zero included */
    int has_zero;
};
/* 0, or -1 without memory. */
int mt_u64set_add(struct mt_u64set *s, uint64_t n);
/* Ascending, `count` of them, the caller frees; NULL without memory. */
uint64_t *mt_u64set_sorted(const struct mt_u64set *s);
void mt_u64set_free(struct mt_u64set *s);
#endif
