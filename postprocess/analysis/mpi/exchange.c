/* Bytes from every rank to every rank, and from one to another. */
#define _GNU_SOURCE
#include "ranks.h"
#include "memtrace/grow.h"
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int mt_exchange_init(struct mt_exchange *x, unsigned ranks)
{
    x->ranks = ranks;
    x->out = calloc(ranks, sizeof *x->out);
    x->counts = calloc(ranks, 2 * sizeof *x->counts);
    x->places = calloc(ranks, 2 * sizeof *x->places);
    x->stretches = malloc(MT_PAGE_BYTES * sizeof *x->stretches);
    return x->out && x->counts && x->places && x->stretches ? 0 : -1;
}

void mt_exchange_free(struct mt_exchange *x)
{
    for (unsigned i = 0; x->out && i < x->ranks; i++)
        free(x->out[i].data);
    free(x->out);
    free(x->in);
    free(x->counts);
    free(x->places);
    free(x->stretches);
    memset(x, 0, sizeof *x);
}

void mt_exchange_clear(struct mt_exchange *x)
{
    for (unsigned i = 0; i < x->ranks; i++)
        x->out[i].used = 0;
}

int mt_exchange_add(struct mt_exchange *x, unsigned to, const void *data, size_t bytes)
{
    if (mt_grow(&x->out[to].data, &x->out[to].room, x->out[to].used + bytes, 1) != 0)
        return -1;
    memcpy(x->out[to].data + x->out[to].used, data, bytes);
    x->out[to].used += bytes;
    return 0;
}

/* One message a pair of ranks, all under way at once: no copy into one buffer as MPI_Alltoallv wants it. */
int mt_exchange_all(struct mt_exchange *x)
{
    int *sent = x->counts, *got = x->counts + x->ranks;
    size_t total = 0;
    for (unsigned i = 0; i < x->ranks; i++) {
        if (x->out[i].used > INT_MAX)
            return -1; /* the caller ends all ranks, here and below */
        sent[i] = (int)x->out[i].used;
    }
    MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
    for (unsigned i = 0; i < x->ranks; i++)
        total += (size_t)got[i];
    if (total > x->room) {
        free(x->in);
        x->in = malloc(total + total / 4);
        x->room = x->in ? total + total / 4 : 0;
    }
    MPI_Request *requests = total > 0 && !x->in ? NULL : malloc(2 * x->ranks * sizeof(MPI_Request));
    if (!requests)
        return -1;
    int n = 0;
    size_t at = 0;
    for (unsigned i = 0; i < x->ranks; at += (size_t)got[i++])
        if (got[i] > 0)
            MPI_Irecv(x->in + at, got[i], MPI_BYTE, (int)i, 1, MPI_COMM_WORLD, &requests[n++]);
    for (unsigned i = 0; i < x->ranks; i++)
        if (sent[i] > 0)
            MPI_Isend(x->out[i].data, sent[i], MPI_BYTE, (int)i, 1, MPI_COMM_WORLD, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    free((void *)requests);
    x->received = total;
    mt_exchange_clear(x);
    return 0;
}

enum { PIECE = 1 << 30 };

int mt_exchange_to(unsigned to, const void *data, size_t n, size_t size)
{
    uint64_t count = n;
    MPI_Send(&count, 1, MPI_UINT64_T, (int)to, 2, MPI_COMM_WORLD);
    for (size_t done = 0, bytes = n * size; done < bytes; done += PIECE)
        MPI_Send((const char *)data + done, (int)(bytes - done < PIECE ? bytes - done : PIECE), MPI_BYTE,
                 (int)to, 3, MPI_COMM_WORLD);
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
}
