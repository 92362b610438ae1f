/* Records that follow each other at even distances, put together as runs. */
#include "memtrace/trace.h"

/* How many records from r[0] on make one run (at most count, which is >= 1). */
static size_t runs_even(const struct mt_raw_record *r, size_t count)
{
    size_t n = 1;
    uint64_t step = count > 1 ? r[1].w[1] - r[0].w[1] : 0;
    while (n < count && r[n].w[0] == r[0].w[0] && r[n].w[2] == r[0].w[2] && r[n].w[1] - r[n - 1].w[1] == step)
        n++;
    return n;
}

size_t mt_runs_from_records(const struct mt_raw_record *r, size_t count, struct mt_access_run *runs,
                            size_t room, size_t *taken)
{
    size_t n = 0, i = 0;
    while (i < count && n < room) {
        size_t length = runs_even(r + i, count - i < UINT32_MAX ? count - i : UINT32_MAX);
        runs[n++] = (struct mt_access_run){.base = r[i].w[1],
                                           .stride = length > 1 ? (int64_t)(r[i + 1].w[1] - r[i].w[1]) : 0,
                                           .cta = r[i].w[2],
                                           .smid = (uint32_t)(r[i].w[0] >> 32),
                                           .meta = (uint32_t)r[i].w[0],
                                           .count = (uint32_t)length,
                                           .mask = MT_RUN_NO_MASK,
                                           .warp = MT_RUN_NO_WARP};
        i += length;
    }
    *taken = i;
    return n;
}

size_t mt_records_from_runs(const struct mt_access_run *runs, size_t count, size_t *run, uint32_t *lane,
                            struct mt_raw_record *records, size_t capacity)
{
    size_t n = 0;
    while (*run < count && n < capacity) {
        const struct mt_access_run *r = &runs[*run];
        uint64_t w0 = (uint64_t)r->smid << 32 | r->meta, w2 = r->cta, stride = (uint64_t)r->stride;
        uint32_t from = *lane, left = r->count - from;
        uint32_t take = left < capacity - n ? left : (uint32_t)(capacity - n);
        struct mt_raw_record *to = records + n;
        for (uint32_t i = 0; i < take; i++) {
            to[i].w[0] = w0;
            to[i].w[1] = r->addresses ? r->addresses[from + i] : r->base + (from + i) * stride;
            to[i].w[2] = w2;
        }
        n += take;
        *lane = take == left ? 0 : from + take;
        *run += take == left;
    }
    return n;
}
