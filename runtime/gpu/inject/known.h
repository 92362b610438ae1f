/* A table from a number and an access's meta to an id. Any number of threads may ask, without a lock; changes
 * are made by one at a time. */
#ifndef MT_INJECT_KNOWN_H
#define MT_INJECT_KNOWN_H
#include <stdint.h>

struct mt_known_table;
struct mt_known { /* all zeros: empty */
    struct mt_known_table *_Atomic now;
};

/* 1 and *id, or 0: there is no such entry. A key of 0 is never there. */
int mt_known_get(const struct mt_known *k, uint64_t key, uint32_t meta, uint32_t *id);
/* The id is not UINT32_MAX. 0, or -1: no memory. */
int mt_known_set(struct mt_known *k, uint64_t key, uint32_t meta, uint32_t id);
/* Entries with keys from `from` on, so many, are there no more. */
void mt_known_forget(struct mt_known *k, uint64_t from, uint64_t count);
#endif
