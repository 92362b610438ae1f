/* Work that each rank does on its own part of the trace, and results that go up a tree to rank 0. */
#define _GNU_SOURCE
#include "rounds.h"
#include <mpi.h>
#include <stdlib.h>

/* A part: accesses [lo, hi) of the trace; of a container the chunks that begin there. */
struct share {
    struct mt_ranks *team;
    const struct mt_share *to;
    struct mt_access_run *runs; /* of MT_ROUND_PIECE records */
    uint64_t lo, hi, total;
    int last; /* what has no accesses at the end is the last rank's */
};

static int share_mine(const struct share *s, uint64_t at)
{
    return at >= s->lo && (at < s->hi || (s->last && at == s->total));
}

static uint64_t share_accesses_of(struct mt_parts *p, const struct mt_span *span)
{
    struct mt_device_parts *chunks = span->chunks ? mt_parts_chunks(p, span->path) : NULL;
    uint64_t n = span->chunks ? 0 : span->count;
    for (uint64_t i = 0; chunks && i < span->count; i++)
        n += mt_device_parts_accesses(chunks, (size_t)(span->offset + i));
    return n;
}

static int share_runs(const struct share *s, const struct mt_access_run *runs, size_t n)
{
    int begun = s->to->of->runs(s->to->self, runs, n), done = s->to->of->wait(s->to->self);
    return begun ? begun : done;
}

/* It may have no runs here. */
static int share_launch(const struct share *s, size_t number, int begins)
{
    struct mt_run_launch l = s->to->launches[number];
    l.begins = begins;
    int rc = s->to->of->launch(s->to->self, &l);
    return rc ? rc : share_runs(s, NULL, 0);
}

/* Those of the raw span that begins at access `at`. 0, 1: stopped, -1. */
static int share_records(const struct share *s, const struct mt_span *span, size_t number, uint64_t at)
{
    struct mt_rounds *r = s->team->rounds;
    uint64_t from = s->lo > at ? s->lo - at : 0, end = s->hi > at ? s->hi - at : 0;
    end = end < span->count ? end : span->count;
    if (!share_mine(s, at) && from >= end)
        return 0;
    if (share_launch(s, number, share_mine(s, at)) != 0)
        return -1;
    for (uint64_t n; from < end; from += n) {
        n = end - from < MT_ROUND_PIECE ? end - from : MT_ROUND_PIECE;
        if (mt_ranks_wants_stop())
            return 1;
        if (mt_parts_records(&r->parts, span->path, span->offset + from * MT_RAW_RECORD_SIZE, r->slice,
                             (size_t)n) != 0)
            return -1;
        size_t taken, runs = mt_runs_from_records(r->slice, (size_t)n, s->runs, MT_ROUND_PIECE, &taken);
        if (share_runs(s, s->runs, runs) != 0)
            return -1;
    }
    return 0;
}

static int share_chunk(const struct share *s, struct mt_device_parts *p, size_t chunk)
{
    const struct mt_access_run *runs;
    struct mt_error err;
    size_t n;
    int rc = mt_device_parts_seek(p, chunk, &err);
    while (rc == 0 && (rc = mt_device_parts_next(p, &runs, &n, &err)) > 0)
        rc = share_runs(s, runs, n);
    return rc;
}

static int share_chunks(const struct share *s, const struct mt_span *span, size_t number, uint64_t at)
{
    struct mt_device_parts *p = mt_parts_chunks(&s->team->rounds->parts, span->path);
    int begun = share_mine(s, at), rc = begun ? share_launch(s, number, 1) : 0;
    for (uint64_t i = 0; p && i < span->count && rc == 0; i++) {
        size_t chunk = (size_t)(span->offset + i);
        if (share_mine(s, at)) {
            rc = begun ? 0 : share_launch(s, number, 0);
            begun = 1;
            if (rc == 0)
                rc = mt_ranks_wants_stop() ? 1 : share_chunk(s, p, chunk);
        }
        at += mt_device_parts_accesses(p, chunk);
    }
    return p ? rc : -1;
}

int mt_ranks_share(struct mt_team *team, const struct mt_span *spans, const struct mt_share *share)
{
    struct mt_ranks *t = mt_ranks_of(team);
    struct share s = {.team = t, .to = share, .last = t->rank + 1 == t->size};
    const size_t n = share->n;
    uint64_t *accesses = malloc((n + 1) * sizeof *accesses), at = 0;
    s.runs = malloc((MT_ROUND_PIECE) * sizeof *s.runs);
    int rc = accesses && s.runs ? 0 : -1, worst[2], own[2];
    mt_stats_phase(MT_RANK_FURTHER);
    for (size_t i = 0; i < n && rc == 0; i++)
        s.total += accesses[i] = share_accesses_of(&t->rounds->parts, &spans[i]);
    s.lo = (uint64_t)((__uint128_t)s.total * t->rank / t->size);
    s.hi = (uint64_t)((__uint128_t)s.total * (t->rank + 1) / t->size);
    for (size_t i = 0; i < n && rc == 0; at += accesses[i++])
        rc = (spans[i].chunks ? share_chunks : share_records)(&s, &spans[i], i, at);
    free(accesses);
    free(s.runs);
    own[0] = rc < 0;
    own[1] = rc > 0;
    MPI_Allreduce(own, worst, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    t->stopped |= worst[1];
    if (worst[0])
        return mt_ranks_fail(t, rc < 0
                                    ? "no memory for the further analyses, or an input cannot be read again"
                                    : "another rank failed");
    return worst[1];
}

/* In each step every other one of the ranks that are left gives all it has to the one before it. */
int mt_ranks_fold(struct mt_team *team, const struct mt_share *share)
{
    struct mt_ranks *t = mt_ranks_of(team);
    for (unsigned step = 1; step < t->size; step *= 2) {
        if (t->rank & step) {
            size_t n;
            char *data = share->pack(share, &n);
            int rc = data ? mt_exchange_to(t->rank - step, data, n, 1) : -1;
            free(data);
            return rc ? mt_ranks_fail(t, "out of memory") : 0;
        }
        if (t->rank + step >= t->size)
            continue;
        size_t n = mt_exchange_announced(t->rank + step);
        char *data = malloc(n + 1);
        if (!data)
            return mt_ranks_fail(t, "out of memory");
        mt_exchange_from(t->rank + step, data, n, 1);
        int rc = share->merge(share, data, n);
        free(data);
        if (rc != 0)
            return mt_ranks_fail(t, "out of memory");
    }
    return 0;
}
