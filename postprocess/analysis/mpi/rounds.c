/* Traces read by parts: what comes is gathered until it is enough for a round, launches, copies and all. In a
 * round each rank reads every P-th part of that and sends accesses to those who own what they touch. What
 * arrives is in the order of the trace, because the parts are. */
#define _GNU_SOURCE
#include "rounds.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 1 << 16, RUNS = 4096 };

void mt_rounds_free(struct mt_rounds *s)
{
    if (!s)
        return;
    mt_parts_free(&s->parts);
    mt_pairmap_free(&s->known);
    free(s->events);
    free(s->slice);
    free(s->sent);
    free(s->marked);
    free(s->mine);
    free(s->all);
    free(s->counts);
    free(s->places);
    free(s->runs);
    free(s);
}

int mt_ranks_by_parts(struct mt_team *team)
{
    struct mt_ranks *t = mt_ranks_of(team);
    struct mt_rounds *s = t->rounds = calloc(1, sizeof *s);
    if (!s)
        return mt_ranks_fail(t, "out of memory");
    s->events = malloc(EVENTS * sizeof *s->events);
    s->slice = malloc(MT_ROUND_PIECE * sizeof *s->slice);
    s->sent = calloc(t->size, sizeof *s->sent);
    s->marked = calloc(t->size, sizeof *s->marked);
    s->counts = calloc(t->size, 3 * sizeof *s->counts);
    s->most = MT_ROUND_COST;
    s->places = calloc(t->size, sizeof *s->places);
    s->runs = malloc(RUNS * sizeof *s->runs);
    return s->events && s->slice && s->sent && s->marked && s->counts && s->places && s->runs
               ? 0
               : mt_ranks_fail(t, "out of memory");
}

/* ---- together ---- */

/* What this rank sends in the round, in percent of what a round of records is to be. */
static int rounds_full(const struct mt_ranks *t)
{
    uint64_t bytes = 0, percent;
    for (unsigned i = 0; i < t->size; i++)
        bytes += t->exchange.out[i].used;
    percent = bytes * 100 / ((uint64_t)MT_ROUND_COST * MT_RAW_RECORD_SIZE);
    return percent < 10000 ? (int)percent : 10000;
}

/* Everybody learns of all actors, in order, and whether to stop. `bad`: this rank's part is damaged. 0; 1:
 * some part is; -1: no memory. */
static int rounds_meet_all(struct mt_ranks *t, int bad)
{
    struct mt_rounds *s = t->rounds;
    int mine[3] = {bad ? -1 : (int)s->nmine, mt_ranks_wants_stop(), rounds_full(t)}, total = 0, full = 0;
    MPI_Allgather(mine, 3, MPI_INT, s->counts, 3, MPI_INT, MPI_COMM_WORLD);
    for (unsigned i = 0; i < t->size; i++) {
        int n = s->counts[3 * i];
        if (n < 0)
            return 1;
        t->stopped |= s->counts[3 * i + 1];
        full = s->counts[3 * i + 2] > full ? s->counts[3 * i + 2] : full;
        s->places[i] = 3 * total;
        s->counts[i] = 3 * n; /* after what is read next */
        total += n;
    }
    if (full < 25 && s->most < MT_ROUND_MOST)
        s->most *= 2;
    else if (full > 100 && s->most > MT_ROUND_COST)
        s->most /= 2;
    s->nall = (size_t)total;
    s->met = 0;
    if (total == 0)
        return 0;
    if (s->nall > s->all_room) {
        free(s->all);
        s->all_room = s->nall * 2;
        if (!(s->all = malloc(s->all_room * sizeof *s->all))) {
            s->all_room = 0;
            return -1;
        }
    }
    MPI_Allgatherv(s->mine, 3 * mine[0], MPI_UINT64_T, s->all, s->counts, s->places, MPI_UINT64_T,
                   MPI_COMM_WORLD);
    return 0;
}

/* Launches, copies and actors up to this launch of the round, whose accesses come next. */
static int rounds_go_on(struct mt_ranks *t, uint64_t launch)
{
    struct mt_rounds *s = t->rounds;
    struct mt_comm *c = &t->comm;
    for (;;) {
        for (; s->met < s->nall && s->all[s->met].launch == s->launch; s->met++)
            if (mt_comm_meet(c, s->all[s->met].cta, (uint32_t)s->all[s->met].smid) != 0)
                return -1;
        while (s->at < s->events + s->nevents && s->at->kind != MT_ROUND_LAUNCH && s->launch < launch) {
            if (s->at->kind == MT_ROUND_COPY && mt_comm_copy(c, &s->at->u.copy) != 0)
                return -1;
            s->at++;
        }
        if (s->launch >= launch || s->at == s->events + s->nevents)
            return 0;
        if (mt_comm_launch(c, s->at->u.launch.kernel, s->at->u.launch.selected) != 0)
            return -1;
        s->launch++;
        s->at++;
    }
}

static int rounds_hand_on_runs(struct mt_ranks *t, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    size_t n = s->nruns;
    uint64_t accesses = 0;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        accesses += s->runs[i].count;
    s->nruns = 0;
    t->comm.records = number + s->taken;
    s->taken += accesses;
    return mt_comm_runs(&t->comm, s->runs, n);
}

static int rounds_hand_on_records(struct mt_ranks *t, const struct mt_raw_record *r, size_t n,
                                  uint64_t number)
{
    if (n == 0)
        return 0;
    t->comm.records = number + t->rounds->taken;
    t->rounds->taken += n;
    return mt_comm_records(&t->comm, r, n);
}

static struct mt_access_run rounds_run_of(const struct mt_raw_record *r)
{
    size_t given = (size_t)r[1].w[2];
    return (struct mt_access_run){.base = r->w[1],
                                  .stride = (int64_t)r[1].w[0],
                                  .addresses = given ? r[2].w : NULL,
                                  .cta = r->w[2],
                                  .smid = (uint32_t)(r->w[0] >> 32),
                                  .meta = (uint32_t)r->w[0] & ~MT_UNIT_KIND,
                                  .count = (uint32_t)r[1].w[1]};
}

/* Runs that are handed on together. */
static int rounds_take_runs(struct mt_ranks *t, const struct mt_access_run *runs, unsigned n, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    if (s->nruns + n > RUNS && rounds_hand_on_runs(t, number) != 0)
        return -1;
    memcpy(&s->runs[s->nruns], runs, n * sizeof *runs);
    s->nruns += n;
    return 0;
}

/* Rows that take turns, as they were in the trace: `block` accesses of each at a time. */
static int rounds_take_turns(struct mt_ranks *t, const struct mt_access_run *rows, unsigned period,
                             uint32_t block, uint64_t number)
{
    struct mt_access_run runs[MT_TURNS_PERIOD];
    for (uint32_t done = 0; done < rows->count; done += block) {
        for (unsigned i = 0; i < period; i++) {
            runs[i] = rows[i];
            runs[i].base += done * (uint64_t)rows[i].stride;
            runs[i].count = block;
        }
        if (rounds_take_runs(t, runs, period, number) != 0)
            return -1;
    }
    return 0;
}

/* The unit r, of another kind than ONE; *length: of it, in units. Nothing is left to be handed on, but for
 * runs if it is one, too. */
static int rounds_take_unit(struct mt_ranks *t, struct mt_raw_record *r, size_t *length, uint64_t number)
{
    uint32_t kind = (uint32_t)r->w[0] & MT_UNIT_KIND;
    *length = 1;
    if (kind != MT_UNIT_RUN && rounds_hand_on_runs(t, number) != 0)
        return -1;
    r->w[0] &= ~(uint64_t)MT_UNIT_KIND;
    if (kind == MT_UNIT_MARK)
        return rounds_go_on(t, r->w[1]);
    if (kind == MT_UNIT_SEVERAL) {
        *length = 2;
        t->comm.records = r[1].w[0] - 1;
        return mt_comm_records(&t->comm, r, 1);
    }
    struct mt_access_run runs[MT_TURNS_PERIOD];
    unsigned n = r[1].w[1] >> 32 & 255;
    runs[0] = rounds_run_of(r);
    *length = 2 + ((size_t)r[1].w[2] + 2) / 3;
    if (n <= 1)
        return rounds_take_runs(t, runs, 1, number);
    for (unsigned i = 1; i < n; i++)
        runs[i] = rounds_run_of(r + 2 * i);
    *length = 2 * n;
    return mt_turns_apart(runs, n) ? rounds_take_runs(t, runs, n, number)
                                   : rounds_take_turns(t, runs, n, (uint32_t)(r[1].w[1] >> 40), number);
}

/* Units of one rank; `number` as in rounds_take_in. */
static int rounds_take_part(struct mt_ranks *t, struct mt_raw_record *r, size_t n, uint64_t number)
{
    size_t first = 0;
    for (size_t i = 0, length; i < n; i += length) {
        length = 1;
        if (!((uint32_t)r[i].w[0] & MT_UNIT_KIND)) {
            if (t->rounds->nruns && rounds_hand_on_runs(t, number) != 0)
                return -1;
            continue;
        }
        if (rounds_hand_on_records(t, r + first, i - first, number) != 0 ||
            rounds_take_unit(t, &r[i], &length, number) != 0)
            return -1;
        first = i + length;
    }
    return rounds_hand_on_records(t, r + first, n - first, number);
}

/* What came in, in order; plain accesses get numbers from `number` + 1 on, which are theirs alone. */
static int rounds_take_in(struct mt_ranks *t, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    size_t at = 0, bytes;
    s->taken = s->nruns = 0;
    s->launch = 0;
    s->at = s->events;
    int rc = rounds_go_on(t, 0);
    for (unsigned i = 0; i < t->size && rc == 0; i++) {
        char *part = mt_exchange_part(&t->exchange, i, &at, &bytes);
        rc = rounds_take_part(t, (struct mt_raw_record *)(void *)part, bytes / MT_RAW_RECORD_SIZE, number);
    }
    if (rc != 0 || rounds_hand_on_runs(t, number) != 0)
        return -1;
    return rounds_go_on(t, UINT64_MAX);
}

/* By all ranks: what was gathered is analysed. */
int mt_rounds_flush(struct mt_ranks *t)
{
    struct mt_rounds *s = t->rounds;
    uint64_t number = t->comm.records, accesses = s->accesses;
    if (s->nevents == 0)
        return 0;
    enum mt_rank_phase before = mt_stats_phase(MT_RANK_SORT);
    int bad = mt_rounds_route(t);
    mt_stats_phase(MT_RANK_EXCHANGE);
    if (bad < 0)
        return mt_ranks_fail(t, "out of memory");
    int rc = rounds_meet_all(t, bad);
    if (rc > 0) {
        t->again = 1;
        return mt_ranks_fail(t, "a part of the trace is damaged");
    }
    if (rc < 0 || mt_exchange_all(&t->exchange) != 0)
        return mt_ranks_fail(t, "out of memory");
    mt_stats_phase(MT_RANK_ANALYSE);
    rc = rounds_take_in(t, number);
    mt_stats_phase(before);
    t->comm.records = number + accesses;
    s->nevents = 0;
    s->cost = s->accesses = 0;
    return mt_ranks_now_and_then(t, rc);
}

/* ---- what comes ---- */

static int rounds_add(struct mt_ranks *t, const struct mt_round_event *e)
{
    struct mt_rounds *s = t->rounds;
    if (s->nevents == EVENTS && mt_rounds_flush(t) != 0)
        return -1;
    s->events[s->nevents++] = *e;
    return 0;
}

int mt_rounds_launch(struct mt_ranks *t, const char *kernel, int selected)
{
    return rounds_add(t, &(struct mt_round_event){.kind = MT_ROUND_LAUNCH, .u.launch = {kernel, selected}});
}

int mt_rounds_copy(struct mt_ranks *t, const struct mt_copy_event *e)
{
    return rounds_add(t, &(struct mt_round_event){.kind = MT_ROUND_COPY, .u.copy = *e});
}

/* As much of `rest` as has room in the round: a span of its own,
 * which costs *cost and has *accesses. 0: none. */
static uint64_t rounds_cut(struct mt_ranks *t, const struct mt_span *rest, uint64_t *cost, uint64_t *accesses)
{
    struct mt_rounds *s = t->rounds;
    uint64_t most = (uint64_t)s->most * t->size, room = s->cost < most ? most - s->cost : 0, n = 0;
    if (!rest->chunks) {
        *cost = *accesses = rest->count < room ? rest->count : room;
        return *cost;
    }
    struct mt_device_parts *p = mt_parts_chunks(&s->parts, rest->path);
    for (*cost = *accesses = 0; p && n < rest->count && *cost < room; n++) {
        uint64_t a = mt_device_parts_accesses(p, (size_t)(rest->offset + n));
        *accesses += a;
        *cost += mt_part_cost(a);
    }
    return n;
}

int mt_ranks_span(struct mt_team *team, const struct mt_span *span)
{
    struct mt_ranks *t = mt_ranks_of(team);
    struct mt_rounds *s = t->rounds;
    if (span->chunks && !mt_parts_chunks(&s->parts, span->path))
        return mt_ranks_fail(t, "an input cannot be opened again");
    for (struct mt_span rest = *span; rest.count > 0;) {
        uint64_t cost, accesses, n = rounds_cut(t, &rest, &cost, &accesses);
        if (n == 0) {
            if (mt_rounds_flush(t) != 0)
                return -1;
            if (t->stopped)
                return 0;
            continue;
        }
        struct mt_round_event e = {.kind = MT_ROUND_SPAN, .u.span = rest};
        e.u.span.count = n;
        if (rounds_add(t, &e) != 0)
            return -1;
        s->cost += cost;
        s->accesses += accesses;
        t->comm.reported += span->selected ? accesses : 0;
        rest.count -= n;
        rest.offset += rest.chunks ? n : n * MT_RAW_RECORD_SIZE;
    }
    return 0;
}
