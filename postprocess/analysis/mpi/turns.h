/* Compression of repeating records. Threads (or warps) that take turns doing the same make records (or runs)
 * that repeat after `period` of them, except for addresses, which continue where they ended. Each position in
 * the period is a row, which is sent as one long run (ranks.c). */
#ifndef MT_MPI_TURNS_H
#define MT_MPI_TURNS_H
#include <stddef.h>
#include "memtrace/device.h"
#include "memtrace/record.h"

enum { MT_TURNS_PERIOD = 8 /* maximum period */ };

/* Rows of one actor; none leaves its region. */
struct mt_turns {
    unsigned period;
    uint32_t block; /* accesses of a row before the next row's turn */
    uint32_t count; /* accesses of a row in total: a multiple of `block` */
    int64_t stride[MT_TURNS_PERIOD];
};

/* Latest period found; zero-initialised is none. */
struct mt_turns_hint {
    unsigned period, missed, patience;
};

/* Finds rows that begin with r[0] and end before r[n]; a region has 1 << bits bytes. Returns the number of
 * records or runs that they cover, or 0 if there are none of sufficient length. */
size_t mt_turns_records(struct mt_turns_hint *h, struct mt_turns *t, const struct mt_raw_record *r, size_t n,
                        unsigned bits);
size_t mt_turns_runs(struct mt_turns_hint *h, struct mt_turns *t, const struct mt_access_run *r, size_t n,
                     unsigned bits);

/* Returns 1 if the rows can be analysed one after another: no row accesses what another one stores. */
int mt_turns_apart(const struct mt_access_run *rows, unsigned period);
#endif
