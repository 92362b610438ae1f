/* Which sites are strong loads or stores (PTX's memory model): two of them make no race, and a program may
 * order by them. */
#ifndef MT_ANALYSIS_CHECK_STRONG_H
#define MT_ANALYSIS_CHECK_STRONG_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/trace.h"

/* Zero-initialised is empty. */
struct mt_check_strong {
    uint8_t **inputs; /* of each: by site id */
    size_t *sites;
    size_t ninputs;
};

/* By site id, of an input; *n: so many. */
const uint8_t *mt_check_strong_of(const struct mt_check_strong *x, size_t input, size_t *n);
/* 0, or -1 without memory. */
int mt_check_strong_init(struct mt_check_strong *x, const struct mt_source *s);
/* Strong loads and stores among these runs of an input become atomics, as which conflicts judges them. */
void mt_check_strong_mark(const struct mt_check_strong *x, size_t input, struct mt_access_run *runs,
                          size_t n);
void mt_check_strong_free(struct mt_check_strong *x);
#endif
