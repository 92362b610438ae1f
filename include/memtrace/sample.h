/* Sample of the records of a launch in a raw trace: the records with the numbers 0 to 128, 256, 512, 1024 and
 * so on. The launch's line in the companion file has their hash (docs/trace-format.md), because a raw trace
 * does not identify its run. Not installed. */
#ifndef MEMTRACE_SAMPLE_H
#define MEMTRACE_SAMPLE_H
#include <stddef.h>
#include <string.h>
#include "memtrace/record.h"

enum {
    MT_SAMPLE_ALL = 128 /* every record up to this number is in the sample */,
    MT_SAMPLE_SLOTS = MT_SAMPLE_ALL + 1 + 56
};

struct mt_sample {
    struct mt_raw_record at[MT_SAMPLE_SLOTS];
};

/* First number at or after i that is in the sample, and the slot of a number in it. */
static inline uint64_t mt_sample_from(uint64_t i)
{
    return i <= MT_SAMPLE_ALL ? i : 1ull << (64 - __builtin_clzll(i - 1));
}
static inline size_t mt_sample_slot(uint64_t i)
{
    return i <= MT_SAMPLE_ALL ? (size_t)i : MT_SAMPLE_ALL + 56 - (size_t)__builtin_clzll(i);
}

/* Adds the next `count` records, from number `first` on. Several threads may add different records. */
static inline void mt_sample_add(struct mt_sample *s, uint64_t first, const void *records, uint64_t count)
{
    for (uint64_t i = mt_sample_from(first); i < first + count; i = mt_sample_from(i + 1))
        memcpy(&s->at[mt_sample_slot(i)], (const struct mt_raw_record *)records + (i - first),
               MT_RAW_RECORD_SIZE);
}

/* Returns how many bytes of s->at are used by a launch of `records` records. */
static inline size_t mt_sample_bytes(uint64_t records)
{
    size_t n = records <= MT_SAMPLE_ALL + 1 ? (size_t)records : mt_sample_slot(records - 1) + 1;
    return n * MT_RAW_RECORD_SIZE;
}
#endif
