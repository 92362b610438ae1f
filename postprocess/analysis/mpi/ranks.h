/* Shared by the files of the team whose members are
 * MPI ranks (ranks.c, exchange.c, rounds.c). */
#ifndef MT_MPI_RANKS_H
#define MT_MPI_RANKS_H
#include "analysis/comm/comm_internal.h"
#include "analysis/comm/shadow.h"
#include "analysis/comm/session.h"
#include "memtrace/grow.h"
#include "stats.h"

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

int mt_exchange_init(struct mt_exchange *x, unsigned rank, unsigned ranks);
void mt_exchange_free(struct mt_exchange *x);
void mt_exchange_clear(struct mt_exchange *x);
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
/* Called by all ranks: what was added is gone, and parts can be asked for. 0, or -1 without memory or with
 * more than 2 GiB for one rank. */
int mt_exchange_all(struct mt_exchange *x);
/* What came from this rank, *bytes of it, until the next exchange. Parts are asked for once, rank 0's first:
 * *at is 0 before, and is moved on. */
char *mt_exchange_part(const struct mt_exchange *x, unsigned from, size_t *at, size_t *bytes);
/* n things of `size` bytes to a rank, which asks how many are announced and takes them. */
int mt_exchange_to(unsigned to, const void *data, size_t n, size_t size);
size_t mt_exchange_announced(unsigned from);
void mt_exchange_from(unsigned from, void *data, size_t n, size_t size);

struct mt_ranks {
    struct mt_team team;
    unsigned rank, size;
    struct mt_comm comm; /* this rank's shard; of rank 0, in the end, the results */
    struct mt_exchange exchange;
    uint64_t batches, moved;
    const char *why;
    struct mt_rounds *rounds; /* rounds.c; NULL: each rank reads all */
    int again, stopped;
};
static inline struct mt_ranks *mt_ranks_of(struct mt_team *team)
{
    return (struct mt_ranks *)team;
}

extern const struct mt_session mt_ranks_session; /* whose parts follow */
int mt_ranks_members(void);
struct mt_launch_ends *mt_ranks_split(const char *const *paths, size_t npaths);
void mt_ranks_unsplit(struct mt_launch_ends *ends, size_t npaths);
int mt_ranks_by_parts(struct mt_team *team);
int mt_ranks_span(struct mt_team *team, const struct mt_span *span);
int mt_ranks_share(struct mt_team *team, const struct mt_span *spans, const struct mt_share *share);
int mt_ranks_fold(struct mt_team *team, const struct mt_share *share);

/* What comes while spans are handed in, all ranks the same. A flush analyses all that came; it must precede
 * what all ranks do together. 0, or -1. */
int mt_rounds_launch(struct mt_ranks *t, const char *kernel, int selected);
int mt_rounds_copy(struct mt_ranks *t, const struct mt_copy_event *copy);
int mt_rounds_flush(struct mt_ranks *t);
void mt_rounds_free(struct mt_rounds *r);
/* Has this rank's user asked to stop? */
int mt_ranks_wants_stop(void);
int mt_ranks_fail(struct mt_ranks *t, const char *why);
/* After each batch, by all ranks: returns rc, or -1. */
int mt_ranks_now_and_then(struct mt_ranks *t, int rc);
#endif
