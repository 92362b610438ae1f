/* Finds rows that take turns, and checks whether they can be analysed one after another. */
#include "turns.h"
#include "memtrace/container.h"

enum {
    RECORDS_LEAST = 8, /* minimum number of turns */
    RUNS_LEAST = 2,
    WAIT = 4, /* after a failed search: minimum number of records before the next one, which grows */
    WAIT_MOST = 32
};

/* Counts the accesses of `size` bytes from `base` on, `stride` apart, in base's region of 1 << bits bytes. */
static uint64_t turns_in_region(uint64_t base, int64_t stride, uint32_t size, unsigned bits)
{
    uint64_t region = 1ull << bits, offset = base & (region - 1);
    if (offset + size > region)
        return 0;
    if (stride == 0)
        return UINT32_MAX;
    if (stride < 0)
        return offset / (0 - (uint64_t)stride) + 1;
    return (region - size - offset) / (uint64_t)stride + 1;
}

/* ---- records ---- */

static inline int turns_record_goes_on(const struct mt_raw_record *r, unsigned period, int64_t stride)
{
    const struct mt_raw_record *next = r + period;
    return next->w[0] == r->w[0] && next->w[2] == r->w[2] && next->w[1] - r->w[1] == (uint64_t)stride;
}

static int turns_find_records(struct mt_turns *t, unsigned period, const struct mt_raw_record *r, size_t n,
                              unsigned bits)
{
    uint64_t count = n / period, found = 1;
    if (count < RECORDS_LEAST)
        return 0;
    for (unsigned i = 0; i < period && count >= RECORDS_LEAST; i++) {
        int64_t stride = (int64_t)(r[i + period].w[1] - r[i].w[1]);
        if (r[i].w[2] != r[0].w[2] || (r[i].w[0] ^ r[0].w[0]) >> 32)
            return 0;
        uint64_t most = turns_in_region(r[i].w[1], stride, (uint32_t)r[i].w[0] & MT_RAW_MAX_SIZE, bits);
        count = most < count ? most : count;
        t->stride[i] = stride;
    }
    for (; found < count; found++) {
        const struct mt_raw_record *last = r + (found - 1) * period;
        unsigned same = 0;
        while (same < period && turns_record_goes_on(last + same, period, t->stride[same]))
            same++;
        if (same < period)
            break;
    }
    t->period = period;
    t->block = 1;
    t->count = (uint32_t)found;
    return found >= RECORDS_LEAST;
}

/* Returns 1 if a closer search is worthwhile. */
static inline int turns_maybe_records(const struct mt_raw_record *r, unsigned period, size_t n)
{
    return n > 2 * period && r[0].w[0] == r[period].w[0] &&
           r[period].w[1] - r[0].w[1] == r[2 * period].w[1] - r[period].w[1];
}

/* ---- runs ---- */

static inline int turns_run_goes_on(const struct mt_access_run *r, unsigned period)
{
    const struct mt_access_run *next = r + period;
    return next->base - r->base == r->count * (uint64_t)r->stride && next->meta == r->meta &&
           next->count == r->count && next->stride == r->stride && next->cta == r->cta &&
           next->smid == r->smid && !next->addresses;
}

static int turns_find_runs(struct mt_turns *t, unsigned period, const struct mt_access_run *r, size_t n,
                           unsigned bits)
{
    uint64_t count = r[0].count <= MT_MTC_MAX_LANES ? n / period : 0, found = 1;
    for (unsigned i = 0; i < period && count >= RUNS_LEAST; i++) {
        if (r[i].addresses || r[i].count != r[0].count || r[i].cta != r[0].cta || r[i].smid != r[0].smid)
            return 0;
        uint64_t most = turns_in_region(r[i].base, r[i].stride, r[i].meta & MT_RAW_MAX_SIZE, bits);
        count = most / r[0].count < count ? most / r[0].count : count;
        t->stride[i] = r[i].stride;
    }
    for (; found < count; found++) {
        const struct mt_access_run *last = r + (found - 1) * period;
        unsigned same = 0;
        while (same < period && turns_run_goes_on(last + same, period))
            same++;
        if (same < period)
            break;
    }
    t->period = period;
    t->block = r[0].count;
    t->count = (uint32_t)found * r[0].count;
    return count >= RUNS_LEAST && found >= RUNS_LEAST;
}

static inline int turns_maybe_runs(const struct mt_access_run *r, unsigned period, size_t n)
{
    return n > period && turns_run_goes_on(r, period);
}

/* ---- both ---- */

/* Tries the last period first, and others from time to time. */
#define TURNS_SEARCH(what, type)                                                                             \
    size_t mt_turns_##what(struct mt_turns_hint *h, struct mt_turns *t, const type *r, size_t n,             \
                           unsigned bits)                                                                    \
    {                                                                                                        \
        if (h->period && turns_maybe_##what(r, h->period, n) &&                                              \
            turns_find_##what(t, h->period, r, n, bits)) {                                                   \
            h->missed = 0;                                                                                   \
            return (size_t)(t->count / t->block) * t->period;                                                \
        }                                                                                                    \
        if (h->patience > 0) {                                                                               \
            h->patience--;                                                                                   \
            return 0;                                                                                        \
        }                                                                                                    \
        for (unsigned p = 1; p <= MT_TURNS_PERIOD; p++)                                                      \
            if (turns_maybe_##what(r, p, n) && turns_find_##what(t, p, r, n, bits)) {                        \
                h->period = p;                                                                               \
                h->missed = 0;                                                                               \
                return (size_t)(t->count / t->block) * p;                                                    \
            }                                                                                                \
        h->missed = h->missed < WAIT_MOST ? h->missed + WAIT : WAIT_MOST;                                    \
        h->patience = h->missed;                                                                             \
        return 0;                                                                                            \
    }

TURNS_SEARCH(records, struct mt_raw_record)
TURNS_SEARCH(runs, struct mt_access_run)

/* Return the first and the last byte of a row. */
static uint64_t turns_begin(const struct mt_access_run *r)
{
    return r->stride < 0 ? r->base + (r->count - 1) * (uint64_t)r->stride : r->base;
}
static uint64_t turns_last(const struct mt_access_run *r)
{
    return (r->stride < 0 ? r->base : r->base + (r->count - 1) * (uint64_t)r->stride) +
           (r->meta & MT_RAW_MAX_SIZE) - 1;
}

int mt_turns_apart(const struct mt_access_run *rows, unsigned period)
{
    for (unsigned i = 0; i < period; i++)
        for (unsigned k = 0; k < i; k++) {
            int stores = rows[i].meta >> 28 != MT_LOAD || rows[k].meta >> 28 != MT_LOAD;
            if (stores && turns_begin(&rows[i]) <= turns_last(&rows[k]) &&
                turns_begin(&rows[k]) <= turns_last(&rows[i]))
                return 0;
        }
    return 1;
}
