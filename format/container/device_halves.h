/* Fast paths of the device encoder: compares runs by halves and recognises repetition, both in laps of a loop
 * and in warps that do the same. */
#ifndef MT_CONTAINER_DEVICE_HALVES_H
#define MT_CONTAINER_DEVICE_HALVES_H
#include <immintrin.h>
#include <stddef.h>
#include "device_tables.h"

enum { MT_LAP = 8 }; /* maximum number of slots of a lap */

/* Returns how many of `runs` repeat the laps before them. The encoder is at a run of slot s in context c, and
 * the MT_LAP runs before `runs` were predicted. The runs are then in the tables, each with token 0. */
size_t mt_device_laps(struct mt_device_work *w, struct mt_table_slot *s, uint32_t c,
                      const struct mt_access_run *runs, size_t count);
/* Returns how many of `runs` belong to warps that do the same as context c. c is new and had `n` runs just
 * before `runs`, all predicted. The runs are then in the columns and tables; w->context is the last
 * warp's. */
size_t mt_device_warps(struct mt_device_work *w, uint32_t n, uint32_t c, const struct mt_access_run *runs,
                       size_t count);

/* Words of a run as two halves: positions of the base and CTA words, and words of a half. */
enum { MT_HALF_BASE = 0, MT_HALF_CTA = 3, MT_HALF_WORDS = 4 };
_Static_assert(sizeof(struct mt_access_run) == sizeof(mt_half_run[2]) &&
                   offsetof(struct mt_access_run, cta) == MT_HALF_CTA * 8 &&
                   offsetof(struct mt_access_run, smid) == MT_HALF_WORDS * 8 &&
                   offsetof(struct mt_access_run, warp) == MT_HALF_WORDS * 8 + 4 &&
                   offsetof(struct mt_access_run, stride) == 8 &&
                   offsetof(struct mt_access_run, apart) == 16 &&
                   offsetof(struct mt_access_run, meta) == MT_HALF_WORDS * 8 + 8 &&
                   offsetof(struct mt_access_run, site) == MT_HALF_WORDS * 8 + 12 &&
                   offsetof(struct mt_access_run, count) == MT_HALF_WORDS * 8 + 16 &&
                   offsetof(struct mt_access_run, mask) == MT_HALF_WORDS * 8 + 20 &&
                   offsetof(struct mt_access_run, row) == (2 * MT_HALF_WORDS - 1) * 8,
               "runs are compared and foreseen by words");

#define MT_WIDE __attribute__((target("avx2")))

/* Mask of a run's second half, without the padding after `row`. */
static const mt_half_run mt_half_real = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT32_MAX};

/* Returns the bits in which a run differs from the prediction `like` in context x. */
static inline MT_WIDE mt_half_run mt_run_odd(const struct mt_access_run *r, const mt_half_run *like,
                                             const mt_half_run *x)
{
    const mt_half_run *half = (const void *)r;
    return (half[0] ^ like[0] ^ x[0]) | ((half[1] & mt_half_real) ^ like[1] ^ x[1]);
}

static inline MT_WIDE int mt_half_is_zero(mt_half_run h)
{
    return _mm256_testz_si256((__m256i)h, (__m256i)h);
}

static inline int mt_is_slot(const struct mt_mtc_device_encoder *e, uint32_t slot,
                             const struct mt_access_run *r)
{
    return slot != MT_NONE && e->slots[slot].site == r->site && e->slots[slot].meta == r->meta;
}

#endif
