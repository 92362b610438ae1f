/* Rows that take turns: threads (or warps) that do the same one after another make records (or runs) that are
 * alike again after `period` of them, but for addresses that go on where they ended. Each of the period's
 * places is sent as one long run (ranks.c). */
#ifndef MT_MPI_TURNS_H
#define MT_MPI_TURNS_H
#include <stddef.h>
#include "memtrace/device.h"
#include "memtrace/record.h"

enum { MT_TURNS_PERIOD = 8 /* at most */ };

/* All of one actor; none of them leaves its region. */
struct mt_turns {
    unsigned period;
    uint32_t block; /* accesses of a row before it is the next one's turn */
    uint32_t count; /* accesses of a row in all: a multiple of that */
    int64_t stride[MT_TURNS_PERIOD];
};

/* What was met last; zero-initialised is nothing. */
struct mt_turns_hint {
    unsigned period, missed, patience;
};

/* Rows that begin with r[0] and end before r[n]; a region has 1 << bits bytes. Returns how many records or
 * runs they are made of, 0 when there are none that are worth it. */
size_t mt_turns_records(struct mt_turns_hint *h, struct mt_turns *t, const struct mt_raw_record *r, size_t n,
                        unsigned bits);
size_t mt_turns_runs(struct mt_turns_hint *h, struct mt_turns *t, const struct mt_access_run *r, size_t n,
                     unsigned bits);

/* Does it make no difference if the rows are analysed one after another: is what one of them stores not
 * touched by the others? */
int mt_turns_apart(const struct mt_access_run *rows, unsigned period);
#endif
