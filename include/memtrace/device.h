/* Accesses of device code as runs. A run is one access of a warp, or evenly spaced accesses that a reader
 * joined. Readers produce runs and analyses consume them; a compact trace stores them (docs/trace-format.md).
 * C11 and C++. */
#ifndef MEMTRACE_DEVICE_H
#define MEMTRACE_DEVICE_H
#include <stdint.h>

/* Unknown lane mask and unknown warp number; a raw trace has neither. */
#define MT_RUN_NO_MASK 0u
#define MT_RUN_NO_WARP 0xffffffffu
#define MT_RUN_ROWS 32u /* maximum number of accesses of a run of rows */

/* `count` accesses of one CTA on one SM, of one type and size, in order. Access i (0-based) begins at base +
 * i * stride, or at addresses[i] if that is not NULL; base is then addresses[0].
 *
 * With a mask the run is one access of a warp: count is the number of bits set, access i belongs to the i-th
 * lowest active lane. Without a mask the run is a part of the CTA's accesses that happen to be evenly spaced;
 * neighbours may belong to one thread or to several.
 *
 * Between the CPU device and a trace, but never from a reader, a run may consist of rows of `row` accesses
 * (not 0), at most MT_RUN_ROWS accesses in total: access i is at base + i / row * apart + i % row *
 * stride. */
struct mt_access_run {
    uint64_t base;
    int64_t stride; /* bytes; any value if count is 1 or addresses are given */
    union {
        const uint64_t *addresses; /* `count` addresses, or NULL; owned by the producer of the run */
        int64_t apart;             /* with rows: bytes between the first accesses of two consecutive rows */
    };
    uint64_t cta; /* CTA as in word 2 of a raw record: x << 32 | y << 16 | z */
    uint32_t smid;
    uint32_t warp;  /* number of the warp in its CTA, or MT_RUN_NO_WARP */
    uint32_t meta;  /* low half of word 0 of a raw record: type << 28 | bytes of one access */
    uint32_t site;  /* id of a `site` line of the companion file or compact trace; 0: not known */
    uint32_t count; /* number of accesses, at least 1 */
    uint32_t mask;  /* mask of active lanes, or MT_RUN_NO_MASK */
    uint32_t row;   /* accesses of a row; 0: no rows, as in all runs from readers */
};

/* Returns a run of rows as a run with addresses, stored in `to` (room for MT_RUN_ROWS); other runs
 * unchanged. */
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
