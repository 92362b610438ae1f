/* Shared by the files of the team whose members are
 * MPI ranks. */
#ifndef MT_MPI_RANKS_H
#define MT_MPI_RANKS_H

#include "analysis/comm/comm.h"
#include "analysis/comm/shadow.h"
#include "analysis/comm/session.h"
#include "memtrace/grow.h"
#include <stdint.h>

/* What this rank did, for memtrace extract --stats. One rank is one process: there is one of it. */

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

struct mt_exchange_bytes {
    char *data;
    size_t used, room;
};

/* Bytes from every rank to every rank. */
struct mt_exchange {
    unsigned ranks, rank;
    struct mt_exchange_bytes *out; /* by rank */
    struct mt_exchange_bytes in;   /* received from the others */
    struct mt_exchange_bytes own;  /* what this rank sent itself: the buffer it was put in */
    int *counts;                   /* [2 * ranks]: sent, received */
    struct mt_stretch *stretches;  /* room for one page */
};

/* Room for so many bytes more, which the caller writes; NULL without memory. */
static inline void *mt_exchange_room(struct mt_exchange *x, unsigned to, size_t bytes)
{
    struct mt_exchange_bytes *out = &x->out[to];
    if (mt_grow(&out->data, &out->room, out->used + bytes, 1) != 0)
        return NULL;
    out->used += bytes;
    return out->data + out->used - bytes;
}

static inline int mt_exchange_add(struct mt_exchange *x, unsigned to, const void *data, size_t bytes)
{
    void *room = mt_exchange_room(x, to, bytes);
    if (room)
        memcpy(room, data, bytes);
    return room ? 0 : -1;
}

struct mt_ranks {
    struct mt_team team;
    unsigned rank, size;
    struct mt_comm comm; /* this rank's shard; of rank 0, in the end, the results */
    struct mt_exchange exchange;
    uint64_t batches, moved;
    const char *why;
    struct mt_rounds *rounds; /* ranks.c; NULL: each rank reads all */
    int again, stopped;
};

static inline struct mt_ranks *mt_ranks_of(struct mt_team *team)
{
    return (struct mt_ranks *)team;
}

extern const struct mt_session mt_ranks_session; /* whose parts follow */

#endif
