/* Several processes of one job as one run. Each has its own addresses, numbers and streams; they are
 * translated to the job's before anybody sees them. */
#ifndef MT_READER_PROCESSES_H
#define MT_READER_PROCESSES_H
#include "reader/base/internal.h"

enum { MT_PROCESS_BIT = 48 }; /* lowest bit of an address that holds the process's number */

/* Addresses [from, to) are memory of another process while the sequence number is in [first, end). */
struct mt_opened {
    uint64_t from, to, first, end, shift;
    int64_t device; /* device number in the job; -1: none */
};

/* Times from `at` on are put off by `more` ns; both count after the shift. */
struct mt_clock_step {
    int64_t at, more;
};

/* A machine of the job. Machines are told apart by their names. */
struct mt_job_host {
    const char *name; /* "": not known (older companions) */
    int64_t wall;     /* CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns; 0: not known */
    int64_t shift;    /* ns that its times get, so that they are those of the first machine's clock */
    int64_t first;    /* number in the job of its device 0 */
    struct mt_clock_step *steps; /* ascending */
    size_t nsteps, step_room;
};

struct mt_process {
    uint64_t pid, start_ns, rank; /* identity of the process; rank is also shown to users */
    const char *machine;          /* name of its machine */
    int64_t wall;                 /* as in struct mt_job_host */
    size_t host;                  /* number of its machine */
    int64_t first;                /* number in the job of its machine's device 0 */
    uint64_t tag;                 /* bits that are or-ed to the process's addresses */
    int64_t device;               /* device in the job if the process sees only one; -1: it sees several */
    uint64_t *was, *is;           /* sequence numbers, ascending: of the process, and in the job */
    size_t n;
    struct mt_opened *opened;
    size_t nopened;
};

/* Translates the companions of all inputs to the job's numbers and assigns a process to each input. Returns
 * 0, or -1 without memory. */
int mt_processes_join(struct mt_source_merge *m, const char *job);
void mt_processes_free(struct mt_source_merge *m);
/* Translates a sequence number of a process; p NULL: returns it unchanged. */
uint64_t mt_process_seq(const struct mt_process *p, uint64_t seq);
/* Translates the addresses of an item; the number of its launch is the job's already. */
void mt_process_item(const struct mt_process *p, struct mt_item *item);
#endif
