/* Regions: accesses of a warp with all its lanes, in code without branches or in a loop of one block, as one
 * entry of a trace buffer. Only between the CPU device and a trace; readers never see one. An entry takes the
 * place of `units` runs (memtrace/device.h), the first of which has count 0. Used by
 * llvm-pass/vector/region.c, the image's builtins, runtime/ and container/device_encoder.c. C11. */
#ifndef MT_REGION_H
#define MT_REGION_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/container.h"
#include "memtrace/device.h"

enum {
    MT_REGION_ACCESSES = MT_MTC_REGION_ACCESSES,
    MT_REGION_WORDS = 8, /* 64-bit words of a unit */
    /* Words of the first unit: */
    MT_REGION_OF = 0,                   /* pointer to the struct mt_region */
    MT_REGION_CTA = 3,                  /* as in struct mt_access_run */
    MT_REGION_WARP = 4,                 /* smid and warp, as there */
    MT_REGION_BASE = 5,                 /* low half 0, high half: number of the image's first site */
    MT_REGION_ZERO = 6,                 /* 0: the count of a run */
    MT_REGION_WORDS_MAX = 8 * (1 + 12), /* room for all bases, the laps and the steps */
};

/* What a region does, a constant of the image. The bases are words of the entry: mt_region_word. In a loop,
 * the number of its laps, at least 1, and a step of each access follow them: base of lap k = base + k * step.
 */
struct mt_region {
    uint32_t n, bases; /* number of accesses, and of their bases */
    uint32_t units;    /* runs that an entry takes the place of */
    uint32_t loop;     /* 1: a loop */
    struct mt_region_access {
        uint32_t meta, site; /* as in struct mt_access_run; site: number in the image */
        uint16_t rows;  /* 1: lane i is at base + i * stride; 2: lanes 16 to 31 have a base of their own */
        uint16_t first; /* index of its first base */
        int32_t stride; /* bytes */
    } access[];
};

/* Returns the index of the word with a base, or of the number of laps (number: bases), or of a step (after
 * that). */
static inline uint32_t mt_region_word(uint32_t number)
{
    return number < 2 ? 1 + number : 5 + number; /* words 1, 2, and 7 on */
}

static inline const struct mt_region *mt_region_of(const uint64_t *word)
{
    return (const struct mt_region *)(uintptr_t)word[MT_REGION_OF]; /* NOLINT(performance-no-int-to-ptr) */
}

static inline uint64_t mt_region_laps(const struct mt_region *g, const uint64_t *word)
{
    return g->loop ? word[mt_region_word(g->bases)] : 1;
}

static inline uint64_t mt_region_step(const struct mt_region *g, const uint64_t *word, uint32_t access)
{
    return g->loop ? word[mt_region_word(g->bases + 1 + access)] : 0;
}

/* Makes an access of a lap the run that it stands for. */
static inline void mt_region_run(const struct mt_region *g, const uint64_t *word, uint32_t access,
                                 uint64_t lap, struct mt_access_run *to)
{
    const struct mt_region_access *a = &g->access[access];
    uint64_t far = lap * mt_region_step(g, word, access), base = word[mt_region_word(a->first)];
    uint64_t apart = a->rows == 2 ? word[mt_region_word(a->first + 1u)] - base : 0;
    int two = a->rows == 2 && apart != 16 * (uint64_t)(int64_t)a->stride;
    *to = (struct mt_access_run){.base = base + far,
                                 .stride = a->stride,
                                 .cta = word[MT_REGION_CTA],
                                 .smid = (uint32_t)word[MT_REGION_WARP],
                                 .warp = (uint32_t)(word[MT_REGION_WARP] >> 32),
                                 .meta = a->meta,
                                 .site = a->site + (uint32_t)(word[MT_REGION_BASE] >> 32),
                                 .count = 32,
                                 .mask = UINT32_MAX,
                                 .row = two ? 16 : 0};
    to->apart = two ? (int64_t)apart : 0;
}

typedef uint64_t __attribute__((may_alias)) mt_region_entry;

/* Returns the words of a region's entry, or NULL if it is a run. */
static inline const uint64_t *mt_region_entry_of(const struct mt_access_run *r)
{
    return r->count ? NULL : (const uint64_t *)(const mt_region_entry *)(const void *)r;
}

/* Returns the number of units of an entry: 1 for a run. */
static inline uint32_t mt_region_units(const struct mt_access_run *r)
{
    return r->count ? 1 : mt_region_of((const uint64_t *)(const mt_region_entry *)(const void *)r)->units;
}

/* Returns the number of accesses of runs and regions. */
static inline uint64_t mt_region_accesses(const struct mt_access_run *runs, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i += mt_region_units(&runs[i])) {
        const uint64_t *word = mt_region_entry_of(&runs[i]);
        const struct mt_region *g = word ? mt_region_of(word) : NULL;
        sum += g ? mt_region_laps(g, word) * g->n * 32 : runs[i].count;
    }
    return sum;
}
#endif
