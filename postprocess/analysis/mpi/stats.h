/* What this rank did, for memtrace extract --stats. One rank is one process: there is one of it. */
#ifndef MT_MPI_STATS_H
#define MT_MPI_STATS_H
#include <stdint.h>

enum mt_rank_phase {
    MT_RANK_START,    /* the program, MPI, options, and all that has no other place */
    MT_RANK_LAUNCHES, /* where launches end */
    MT_RANK_SORT,     /* reading a part, and whose each access is */
    MT_RANK_EXCHANGE, /* sending, receiving, and asking whether something came */
    MT_RANK_ANALYSE,  /* what is this rank's */
    MT_RANK_FURTHER,  /* further analyses, and their tree */
    MT_RANK_RESULTS,  /* their way to rank 0 */
    MT_RANK_WRITE,    /* what comes after it */
    MT_RANK_PHASES
};

/* From now on time is this phase's; the phase before. */
enum mt_rank_phase mt_stats_phase(enum mt_rank_phase phase);
/* Sent to other ranks, and received from them. */
void mt_stats_bytes(uint64_t sent, uint64_t received);
/* In this rank's part of the trace. */
void mt_stats_accesses(uint64_t accesses);
/* Called by all ranks: rank 0 writes a table to stderr, a line per rank. */
void mt_stats_print(void);
#endif
