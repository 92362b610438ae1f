/* Several processes of one job as one run: each has addresses, numbers and streams of its own, which become
 * those of the job before anybody sees them. */
#ifndef MT_READER_PROCESSES_H
#define MT_READER_PROCESSES_H
#include "reader/base/internal.h"

enum { MT_PROCESS_BIT = 48 }; /* of addresses: the process's number is from here on */

/* Addresses [from, to) are memory of another process, between these numbers of the job. */
struct mt_opened {
    uint64_t from, to, first, end, shift;
    int64_t device; /* of the job; -1: of none */
};

struct mt_process {
    uint64_t pid, start_ns, rank; /* by which it is known */
    uint64_t tag;                 /* of its addresses */
    int64_t device;               /* of the job, where it sees one; -1: it sees several, which have numbers */
    uint64_t *was, *is;           /* sequence numbers, ascending: its own, and the job's */
    size_t n;
    struct mt_opened *opened;
    size_t nopened;
};

/* Puts the companions of all inputs into the job's terms and gives inputs their process. *list and its arrays
 * belong to the source. 0, or -1 without memory. */
int mt_processes_join(struct mt_source_merge *m, const char *job);
void mt_processes_free(struct mt_source_merge *m);
/* Of a number of the input's process; p NULL: the same. */
uint64_t mt_process_seq(const struct mt_process *p, uint64_t seq);
/* The item's addresses; its launch's number is the job's. */
void mt_process_item(const struct mt_process *p, struct mt_item *item);
#endif
