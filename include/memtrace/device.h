/* Accesses of device code as runs: what a warp does at once, or what a reader could put together. Readers
 * hand them out, analyses take them in; the compact container keeps them (docs/trace-format.md).
 * C11 and C++. */
#ifndef MEMTRACE_DEVICE_H
#define MEMTRACE_DEVICE_H
#include <stdint.h>

/* Lane masks and warp numbers that nobody knows: a raw trace has neither. */
#define MT_RUN_NO_MASK 0u
#define MT_RUN_NO_WARP 0xffffffffu
#define MT_RUN_ROWS 32u /* accesses of a run of rows, at most */

/* `count` accesses of one CTA on one SM, of one type and size, in order. Access i (0-based) begins at base +
 * i * stride, or at addresses[i] where that is not NULL; base is then addresses[0].
 *
 * With a mask the run is one access of a warp: count is the number of its bits, access i is that of the i-th
 * lowest active lane. Without one it is a piece of the CTA's accesses that happen to be evenly spaced;
 * neighbours may be of one thread or of several.
 *
 * On its way from the CPU device into a trace, never from a reader, a run may consist of rows of `row`
 * accesses (not 0), at most MT_RUN_ROWS accesses in all: access i is at base + i / row * apart + i % row *
 * stride. */
struct mt_access_run {
    uint64_t base;
    int64_t stride; /* bytes; any value when count is 1 or addresses are given */
    union {
        const uint64_t *addresses; /* count of them, or NULL; of whoever handed out the run, valid as long as
                                      the run */
        int64_t apart;             /* with rows: from one's first access to the next one's, bytes */
    };
    uint64_t cta; /* as word 2 of a raw record: x << 32 | y << 16 | z */
    uint32_t smid;
    uint32_t warp;  /* number of the warp in its CTA, or MT_RUN_NO_WARP */
    uint32_t meta;  /* as the low half of word 0 of a raw record: type << 28 | bytes of one access */
    uint32_t site;  /* id of a `site` line of the companion or container; 0: not known */
    uint32_t count; /* >= 1 */
    uint32_t mask;  /* active lanes, or MT_RUN_NO_MASK */
    uint32_t row;   /* 0: no rows, as in all that readers hand out */
};

/* A run of rows with `to` (room for MT_RUN_ROWS) as its addresses; any other one as it is. */
static inline struct mt_access_run mt_run_without_rows(const struct mt_access_run *r, uint64_t *to)
{
    struct mt_access_run out = *r;
    uint32_t n = 0;
    if (!r->row)
        return out;
    for (uint64_t at = r->base; n < r->count; at += (uint64_t)r->apart)
        for (uint32_t i = 0; i < r->row && n < r->count; i++)
            to[n++] = at + i * (uint64_t)r->stride;
    out.addresses = to;
    out.row = 0;
    return out;
}
#endif
