/* Some records of a launch of a raw trace: those with the numbers 0 to 128, 256, 512, 1024 and so on. Its
 * line in the companion has their hash (docs/trace-format.md), because nothing in a raw trace says of which
 * run it is. Not installed. */
#ifndef MEMTRACE_SAMPLE_H
#define MEMTRACE_SAMPLE_H
#include <stddef.h>
#include <string.h>
#include "memtrace/record.h"

enum { MT_SAMPLE_ALL = 128 /* up to this number each one */, MT_SAMPLE_SLOTS = MT_SAMPLE_ALL + 1 + 56 };

struct mt_sample {
    struct mt_raw_record at[MT_SAMPLE_SLOTS];
};

/* The first number of the sample from i on, and where it lies there. */
static inline uint64_t mt_sample_from(uint64_t i)
{
    return i <= MT_SAMPLE_ALL ? i : 1ull << (64 - __builtin_clzll(i - 1));
}
static inline size_t mt_sample_slot(uint64_t i)
{
    return i <= MT_SAMPLE_ALL ? (size_t)i : MT_SAMPLE_ALL + 56 - (size_t)__builtin_clzll(i);
}

/* The next `count` records, of which the first one has this number; several threads may add different ones.
 */
static inline void mt_sample_add(struct mt_sample *s, uint64_t first, const void *records, uint64_t count)
{
    for (uint64_t i = mt_sample_from(first); i < first + count; i = mt_sample_from(i + 1))
        memcpy(&s->at[mt_sample_slot(i)], (const struct mt_raw_record *)records + (i - first),
               MT_RAW_RECORD_SIZE);
}

/* So many bytes of s->at a launch of `records` records has. */
static inline size_t mt_sample_bytes(uint64_t records)
{
    size_t n = records <= MT_SAMPLE_ALL + 1 ? (size_t)records : mt_sample_slot(records - 1) + 1;
    return n * MT_RAW_RECORD_SIZE;
}
#endif
