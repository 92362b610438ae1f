/* Team whose members are MPI ranks; internal interface. */
#ifndef MT_MPI_RANKS_H
#define MT_MPI_RANKS_H

#include "analysis/comm/comm.h"
#include "analysis/comm/shadow.h"
#include "analysis/comm/session.h"
#include "memtrace/grow.h"
#include <stdint.h>

/* Phases of this rank's work, for memtrace extract --stats. A rank is a process. */

enum mt_rank_phase {
    MT_RANK_START,    /* start of program and MPI, options, and anything not listed */
    MT_RANK_LAUNCHES, /* finding the ends of launches */
    MT_RANK_SORT,     /* reading a part, and assigning its accesses to ranks */
    MT_RANK_EXCHANGE, /* sending, receiving, and polling */
    MT_RANK_ANALYSE,  /* analysis of this rank's accesses */
    MT_RANK_FURTHER,  /* further analyses, and their reduction */
    MT_RANK_RESULTS,  /* transfer of results to rank 0 */
    MT_RANK_WRITE,    /* writing of the output */
    MT_RANK_PHASES
};

struct mt_exchange_bytes {
    char *data;
    size_t used, room;
};

/* All-to-all exchange of bytes. */
struct mt_exchange {
    unsigned ranks, rank;
    struct mt_exchange_bytes *out; /* by destination rank */
    struct mt_exchange_bytes in;   /* bytes received from other ranks */
    struct mt_exchange_bytes own;  /* bytes that this rank sends to itself: the buffer they were put in */
    int *counts;                   /* [2 * ranks]: bytes sent, bytes received */
    struct mt_stretch *stretches;  /* room for the stretches of one page */
};

/* Returns room for `bytes` more bytes, to be written by the caller; NULL without memory. */
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
    struct mt_comm comm; /* this rank's shard; in rank 0 finally the results */
    struct mt_exchange exchange;
    uint64_t batches, moved;
    const char *why;
    struct mt_rounds *rounds; /* ranks.c; NULL: each rank reads everything */
    unsigned *apart;          /* rank that has the traces of a process, by its number; NULL: all have all */
    size_t nprocesses;
    int selected; /* the current launch is */
    int again, stopped;
};

static inline struct mt_ranks *mt_ranks_of(struct mt_team *team)
{
    return (struct mt_ranks *)team;
}

extern const struct mt_session mt_ranks_session; /* interface of the session, in ranks.c */

#endif
