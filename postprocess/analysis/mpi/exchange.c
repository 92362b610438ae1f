/* Bytes from every rank to every rank, and from one to another. */
#define _GNU_SOURCE
#include "ranks.h"
#include "memtrace/grow.h"
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int mt_exchange_init(struct mt_exchange *x, unsigned rank, unsigned ranks)
{
    x->ranks = ranks;
    x->rank = rank;
    x->out = calloc(ranks, sizeof *x->out);
    x->counts = calloc(ranks, 2 * sizeof *x->counts);
    x->stretches = malloc(MT_PAGE_BYTES * sizeof *x->stretches);
    return x->out && x->counts && x->stretches ? 0 : -1;
}

void mt_exchange_free(struct mt_exchange *x)
{
    for (unsigned i = 0; x->out && i < x->ranks; i++)
        free(x->out[i].data);
    free(x->out);
    free(x->in.data);
    free(x->own.data);
    free(x->counts);
    free(x->stretches);
    memset(x, 0, sizeof *x);
}

void mt_exchange_clear(struct mt_exchange *x)
{
    for (unsigned i = 0; i < x->ranks; i++)
        x->out[i].used = 0;
}

/* What each rank sends this one, and room for it. 0, or -1. */
static int exchange_announce(struct mt_exchange *x)
{
    int *sent = x->counts, *got = x->counts + x->ranks;
    size_t total = 0;
    for (unsigned i = 0; i < x->ranks; i++) {
        if (x->out[i].used > INT_MAX)
            return -1; /* the caller ends all ranks, here and below */
        sent[i] = i == x->rank ? 0 : (int)x->out[i].used;
    }
    MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
    for (unsigned i = 0; i < x->ranks; i++)
        total += (size_t)got[i];
    x->in.used = total;
    if (total > x->in.room) { /* what is there is not wanted any more: no realloc */
        free(x->in.data);
        x->in.data = malloc(total + total / 4);
        x->in.room = x->in.data ? total + total / 4 : 0;
    }
    return total > 0 && !x->in.data ? -1 : 0;
}

/* One message a pair of ranks, all under way at once: no copy into one buffer as MPI_Alltoallv wants it. */
int mt_exchange_all(struct mt_exchange *x)
{
    int *sent = x->counts, *got = x->counts + x->ranks, n = 0;
    enum mt_rank_phase before = mt_stats_phase(MT_RANK_EXCHANGE);
    MPI_Request *requests = exchange_announce(x) ? NULL : malloc(2 * x->ranks * sizeof(MPI_Request));
    if (!requests)
        return -1;
    size_t at = 0;
    for (unsigned i = 0; i < x->ranks; at += (size_t)got[i++])
        if (got[i] > 0)
            MPI_Irecv(x->in.data + at, got[i], MPI_BYTE, (int)i, 1, MPI_COMM_WORLD, &requests[n++]);
    for (unsigned i = 0; i < x->ranks; i++)
        if (sent[i] > 0) {
            MPI_Isend(x->out[i].data, sent[i], MPI_BYTE, (int)i, 1, MPI_COMM_WORLD, &requests[n++]);
            mt_stats_bytes((uint64_t)sent[i], 0);
        }
    struct mt_exchange_bytes own = x->own;
    x->own = x->out[x->rank];
    x->out[x->rank] = own;
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    free((void *)requests);
    mt_stats_bytes(0, x->in.used);
    mt_stats_phase(before);
    mt_exchange_clear(x);
    return 0;
}

char *mt_exchange_part(const struct mt_exchange *x, unsigned from, size_t *at, size_t *bytes)
{
    if (from == x->rank) {
        *bytes = x->own.used;
        return x->own.data;
    }
    char *part = x->in.data ? x->in.data + *at : NULL;
    *bytes = (size_t)x->counts[x->ranks + from];
    *at += *bytes;
    return part;
}

enum { PIECE = 1 << 30 };

int mt_exchange_to(unsigned to, const void *data, size_t n, size_t size)
{
    uint64_t count = n;
    MPI_Send(&count, 1, MPI_UINT64_T, (int)to, 2, MPI_COMM_WORLD);
    for (size_t done = 0, bytes = n * size; done < bytes; done += PIECE)
        MPI_Send((const char *)data + done, (int)(bytes - done < PIECE ? bytes - done : PIECE), MPI_BYTE,
                 (int)to, 3, MPI_COMM_WORLD);
    mt_stats_bytes(n * size, 0);
    return 0;
}

size_t mt_exchange_announced(unsigned from)
{
    uint64_t count;
    MPI_Recv(&count, 1, MPI_UINT64_T, (int)from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return count;
}

void mt_exchange_from(unsigned from, void *data, size_t n, size_t size)
{
    for (size_t done = 0, bytes = n * size; done < bytes; done += PIECE)
        MPI_Recv((char *)data + done, (int)(bytes - done < PIECE ? bytes - done : PIECE), MPI_BYTE, (int)from,
                 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mt_stats_bytes(0, n * size);
}
