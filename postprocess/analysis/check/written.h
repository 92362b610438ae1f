/* Which bytes of an allocation were written. Pages come with their first byte; of a page that is written as a
 * whole nothing is kept. */
#ifndef MT_ANALYSIS_WRITTEN_H
#define MT_ANALYSIS_WRITTEN_H
#include <stdint.h>

/* Zero-initialised: nothing was made yet. */
struct mt_written {
    uint64_t bytes;
    uint64_t **page; /* a bit for each byte; NULL: none is set */
    int all;         /* all bytes are written */
};

/* No byte of `bytes` is written. 0, or -1 without memory. */
int mt_written_init(struct mt_written *w, uint64_t bytes);
void mt_written_free(struct mt_written *w);
/* Bytes from .. from + n - 1 are. What lies beyond the end does not count. 0, or -1 without memory. */
int mt_written_set(struct mt_written *w, uint64_t from, uint64_t n);
/* They are not any more. */
int mt_written_clear(struct mt_written *w, uint64_t from, uint64_t n);
void mt_written_all(struct mt_written *w);
/* Bytes of memory that the table of pages takes for so many. */
uint64_t mt_written_room(uint64_t bytes);
/* How many of `n` bytes, from this one on, are what the first one is; *set: 1, it was written. Beyond the end
 * all count as written. */
uint64_t mt_written_run(const struct mt_written *w, uint64_t from, uint64_t n, int *set);
#endif
