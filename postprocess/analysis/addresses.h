/* All operations on given addresses, by address: further passes over the same records after the one that
 * found the keys. First mt_addresses_count over everything; then, as often as mt_addresses_window says so,
 * mt_addresses_collect over everything. Memory is bounded by the window, however many operations there are.
 */
#ifndef MT_ANALYSIS_ADDRESSES_H
#define MT_ANALYSIS_ADDRESSES_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/record.h"

struct mt_operation {
    struct mt_raw_record record;
    uint64_t superstep;
};

struct mt_addresses {
    const uint64_t *keys; /* ascending; the caller's */
    size_t nkeys;
    uint64_t *count;   /* operations on keys[i] */
    uint64_t *filled;  /* of these, collected in this window */
    uint64_t *place;   /* index in `operations` of the first one on keys[i], inside the window */
    size_t first, end; /* keys of the window */
    struct mt_operation *operations; /* of the window, by key, then in order of the records */
    uint64_t budget, room;
    struct {
        uint64_t page;
        size_t key; /* first one at or behind the page's start */
    } recent[256];
};

/* `budget`: operations held at a time (one key may need more). 0, or -1 without memory. */
int mt_addresses_init(struct mt_addresses *a, const uint64_t *keys, size_t nkeys, uint64_t budget);
void mt_addresses_free(struct mt_addresses *a);
void mt_addresses_count(struct mt_addresses *a, const struct mt_raw_record *records, size_t n);
/* Moves on to the next keys: 1 and [first, end) is set; 0 when all are done; -1 without memory. */
int mt_addresses_window(struct mt_addresses *a);
void mt_addresses_collect(struct mt_addresses *a, const struct mt_raw_record *records, size_t n,
                          uint64_t superstep);
/* 1 if the window has as many operations as were counted: the input did not change between the passes. */
int mt_addresses_full(const struct mt_addresses *a);
#endif
