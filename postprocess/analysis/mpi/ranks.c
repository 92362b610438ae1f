/* The team of team.h as the ranks of an MPI program: each rank has a shard, and rank 0 the results. A rank
 * that fails ends them all (MPI_Abort): none waits for one that is gone. */
#define _GNU_SOURCE
#include "ranks.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLE_EVERY = 256 /* batches */, SETTLE_AT = 1 << 18 /* notes of one rank */ };

/* ---- the process ---- */

static volatile sig_atomic_t *stop_flag;

static int ranks_reports(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0;
}

static void ranks_begin(int *argc, char ***argv, volatile sig_atomic_t *stop)
{
    /* Each rank has a thread that reads, and there may be more ranks than processors: who waits gives way. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    mt_stats_phase(MT_RANK_START);
    MPI_Init(argc, argv);
    stop_flag = stop;
    if (!ranks_reports() && !freopen("/dev/null", "w", stdout))
        fclose(stdout);
}

int mt_ranks_wants_stop(void)
{
    return __atomic_load_n(stop_flag, __ATOMIC_RELAXED) != 0;
}

static int ranks_stopped(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    if (t->stopped)
        __atomic_store_n(stop_flag, 1, __ATOMIC_RELAXED);
    return t->stopped;
}

static int ranks_again(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    return t->again;
}

int mt_ranks_members(void)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static int ranks_agree(int code)
{
    struct {
        int ok, rank;
    } mine = {code == 0, 0}, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine.rank);
    MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    if (first.ok)
        return 0;
    if (first.rank == mine.rank && mine.rank != 0) /* rank 0 said nothing: it is fine */
        fprintf(stderr,
                "memtrace extract: rank %d cannot begin (exit code %d): are the inputs on its machine?\n",
                mine.rank, code);
    MPI_Bcast(&code, 1, MPI_INT, first.rank, MPI_COMM_WORLD);
    return code;
}

static int ranks_end(int code, int together)
{
    if (!together)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return code;
}

static int ranks_all_as_one(int rc)
{
    int any;
    rc = rc != 0;
    MPI_Allreduce(&rc, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any ? -1 : 0;
}

/* ---- the team ---- */

static void ranks_free(void *self)
{
    struct mt_ranks *t = self;
    mt_exchange_free(&t->exchange);
    mt_rounds_free(t->rounds);
    mt_comm_free(&t->comm);
    free(t);
}

int mt_ranks_fail(struct mt_ranks *t, const char *why)
{
    if (!t->why)
        t->why = why;
    return -1;
}

static const char *ranks_why(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    return t->why ? t->why : t->comm.why ? t->comm.why : "out of memory";
}

static uint64_t ranks_count(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    return t->comm.records + t->comm.host_accesses;
}

/* ---- accesses that cross shards ---- */

/* All notes on one access go to the same rank, whichever. */
static int ranks_add_crossings(struct mt_ranks *t)
{
    struct mt_comm *c = &t->comm, *self = c;
    struct mt_exchange *x = &t->exchange;
    mt_exchange_clear(x);
    for (size_t i = 0; i < c->ncrossings; i++)
        if (mt_exchange_add(x, (unsigned)(c->crossings[i].record % t->size), &c->crossings[i],
                            sizeof *c->crossings) != 0)
            return mt_ranks_fail(t, "out of memory");
    c->ncrossings = 0;
    if (mt_exchange_all(x) != 0)
        return mt_ranks_fail(t, "out of memory");
    size_t at = 0, bytes;
    for (unsigned from = 0; from < t->size; from++) {
        const char *part = mt_exchange_part(x, from, &at, &bytes);
        for (size_t i = 0; i < bytes / sizeof(struct mt_crossing); i++) {
            struct mt_crossing n;
            memcpy(&n, part + i * sizeof n, sizeof n);
            mt_comm_cross(c, n.record, n.src, n.dst);
        }
    }
    return mt_comm_add_crossings(&self, 1);
}

int mt_ranks_now_and_then(struct mt_ranks *t, int rc)
{
    if (rc != 0 || ++t->batches % SETTLE_EVERY != 0)
        return rc;
    uint64_t most[2], mine[2] = {t->comm.ncrossings, (uint64_t)mt_ranks_wants_stop()};
    MPI_Allreduce(mine, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    t->stopped |= most[1] != 0;
    return most[0] > SETTLE_AT ? ranks_add_crossings(t) : 0;
}

/* ---- one who feeds: every rank the same ---- */

static int ranks_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_ranks *t = self;
    if (t->rounds)
        return mt_rounds_launch(t, l->kernel, l->selected);
    return mt_comm_launch(&t->comm, l->kernel, l->selected);
}

static int ranks_records(void *self, const struct mt_raw_record *r, size_t count)
{
    struct mt_ranks *t = self;
    return mt_ranks_now_and_then(t, mt_comm_records(&t->comm, r, count));
}

static int ranks_runs(void *self, const struct mt_access_run *runs, size_t count)
{
    struct mt_ranks *t = self;
    return mt_ranks_now_and_then(t, mt_comm_runs(&t->comm, runs, count));
}

static int ranks_host(void *self, const struct mt_item *item)
{
    struct mt_ranks *t = self;
    return mt_ranks_now_and_then(t, mt_comm_host(&t->comm, item->host, mt_team_host_count(item)));
}

/* ---- copies from shard to shard ---- */

struct moved {
    uint64_t to, start;
    uint32_t entry, length;
};

/* Sends what this rank knows of `bytes` bytes, inside one page, to those who own the copy. */
static int ranks_send_page(struct mt_ranks *t, uint64_t dst, uint64_t src, unsigned bytes, uint32_t nobody)
{
    if (!mt_comm_owns(&t->comm, src))
        return 0;
    size_t n = mt_shadow_stretches(t->comm.shadow, src, bytes, t->exchange.stretches);
    for (size_t i = 0; i < n; i++) {
        const struct mt_stretch *s = &t->exchange.stretches[i];
        for (uint32_t rest = s->length, part; rest > 0; rest -= part, dst += part) {
            uint64_t room = (1ull << MT_REGION_BITS) - (dst & ((1ull << MT_REGION_BITS) - 1));
            part = rest < room ? rest : (uint32_t)room;
            struct moved m = {dst, s->start, s->entry ? s->entry : nobody, part};
            if (mt_exchange_add(&t->exchange, mt_comm_owner(dst, t->size), &m, sizeof m) != 0)
                return -1;
        }
    }
    return 0;
}

/* All ranks at once: what was sent is written. */
static int ranks_write_moved(struct mt_ranks *t)
{
    struct mt_exchange *x = &t->exchange;
    if (mt_exchange_all(x) != 0)
        return -1;
    size_t at = 0, bytes;
    for (unsigned from = 0; from < t->size; from++) {
        const char *part = mt_exchange_part(x, from, &at, &bytes);
        for (size_t i = 0; i < bytes / sizeof(struct moved); i++) {
            struct moved m;
            memcpy(&m, part + i * sizeof m, sizeof m);
            mt_shadow_fill(t->comm.shadow, m.to, m.length, m.entry, m.start);
        }
    }
    return t->comm.shadow->failed ? -1 : 0;
}

enum { MOVE_PAGES = 256 }; /* of the source, at a time */

/* One row, from the end when the copy would overwrite what it has still to read. */
static int ranks_move_row(struct mt_ranks *t, uint64_t dst, uint64_t src, uint64_t length, uint32_t nobody,
                          int flush)
{
    int backward = dst - src < length;
    for (uint64_t done = 0; done < length;) {
        uint64_t left = length - done, at = backward ? src + left - 1 : src + done;
        uint64_t in_page = at & (MT_PAGE_BYTES - 1), bytes = backward ? in_page + 1 : MT_PAGE_BYTES - in_page;
        if (bytes > left)
            bytes = left;
        uint64_t offset = backward ? left - bytes : done;
        if (ranks_send_page(t, dst + offset, src + offset, (unsigned)bytes, nobody) != 0)
            return -1;
        done += bytes;
        t->moved += bytes;
        if (((flush && done == length) || t->moved >= MOVE_PAGES * MT_PAGE_BYTES) &&
            (t->moved = 0, ranks_write_moved(t)) != 0)
            return -1;
    }
    return 0;
}

/* Do the rows of source and copy lie apart, so that their order makes no difference? */
static int ranks_apart(const struct mt_copy_event *e)
{
    uint64_t src = (e->height - 1) * e->spitch + e->width, dst = (e->height - 1) * e->dpitch + e->width;
    return e->height < 1ull << 32 && e->width < 1ull << 48 && e->spitch < 1ull << 24 &&
           e->dpitch < 1ull << 24 && e->dst - e->src >= src && e->src - e->dst >= dst;
}

static int ranks_copy(void *self, const struct mt_copy_event *e)
{
    struct mt_ranks *t = self;
    uint32_t nobody;
    if (mt_team_stays(e))
        return 0;
    if (t->rounds && !mt_comm_moves(&t->comm, e))
        return mt_rounds_copy(t, e);
    if ((t->rounds && mt_rounds_flush(t) != 0) || mt_comm_copy(&t->comm, e) != 0)
        return -1;
    if (!mt_comm_moves(&t->comm, e) || e->height == 0 || e->width == 0)
        return 0;
    if (mt_comm_nobody(&t->comm, e, &nobody) != 0)
        return -1;
    mt_exchange_clear(&t->exchange);
    t->moved = 0;
    for (uint64_t row = 0; row < e->height; row++) {
        uint64_t dst = e->dst + row * e->dpitch, src = e->src + row * e->spitch;
        if ((dst != src || nobody != 0) &&
            ranks_move_row(t, dst, src, e->width, nobody, !ranks_apart(e)) != 0)
            return mt_ranks_fail(t, "out of memory");
    }
    return ranks_write_moved(t) != 0 ? mt_ranks_fail(t, "out of memory") : 0;
}

/* ---- results, to rank 0 ---- */

/* What mt_actor and mt_host_actor count: from `load` on. */
enum { ACTORS_AT_A_TIME = 1 << 14, ACTOR_NUMBERS = 3 + MT_SENDER_KINDS, HOST_NUMBERS = 4 };

static int ranks_same_everywhere(uint64_t value)
{
    uint64_t range[2] = {value, ~value}, least[2];
    MPI_Allreduce(range, least, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return least[0] == value && least[1] == ~value;
}

/* Sums up `numbers` numbers of n actors (or host actors), which are `step` bytes apart from `first` on. */
static void ranks_sum_up(struct mt_ranks *t, void *first, size_t numbers, size_t n, size_t step)
{
    static uint64_t mine[ACTORS_AT_A_TIME * ACTOR_NUMBERS], sum[ACTORS_AT_A_TIME * ACTOR_NUMBERS];
    for (size_t i = 0, k; i < n; i += k) {
        k = n - i < ACTORS_AT_A_TIME ? n - i : ACTORS_AT_A_TIME;
        for (size_t a = 0; a < k; a++)
            memcpy(mine + numbers * a, (char *)first + (i + a) * step, numbers * sizeof *mine);
        MPI_Reduce(mine, sum, (int)(numbers * k), MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        for (size_t a = 0; t->rank == 0 && a < k; a++)
            memcpy((char *)first + (i + a) * step, sum + numbers * a, numbers * sizeof *mine);
    }
}

static int ranks_gather_transfers(struct mt_ranks *t)
{
    struct mt_comm *c = &t->comm;
    if (t->rank > 0)
        return mt_exchange_to(0, c->transfers, c->ntransfers, sizeof *c->transfers) |
               mt_exchange_to(0, c->crossed, c->ncrossed, sizeof *c->crossed);
    for (unsigned from = 1; from < t->size; from++)
        for (int part = 0; part < 2; part++) {
            size_t n = mt_exchange_announced(from);
            if (mt_grow(&c->transfers, &c->transfer_room, c->ntransfers + n + 1, sizeof *c->transfers) != 0)
                return mt_ranks_fail(t, "out of memory");
            mt_exchange_from(from, c->transfers + c->ntransfers, n, sizeof *c->transfers);
            c->ntransfers += n;
        }
    return mt_comm_merged(c);
}

static int ranks_gather_keys(struct mt_ranks *t)
{
    enum { WORDS = 1 + MT_KEY_WORDS };
    struct mt_keyset *keys = &t->comm.keys;
    uint64_t(*pages)[WORDS] = NULL;
    int rc = 0;
    if (t->rank > 0) {
        size_t n = 0;
        const struct mt_hash_slot *page;
        pages = malloc((keys->pages.count + 1) * sizeof *pages);
        for (size_t i = 0; pages && (page = mt_hash_next(&keys->pages, &i)); n++) {
            pages[n][0] = page->key;
            memcpy(&pages[n][1], ((const struct mt_keypage *)page->value)->bits,
                   MT_KEY_WORDS * sizeof(uint64_t));
        }
        rc = pages ? mt_exchange_to(0, pages, n, sizeof *pages) : mt_ranks_fail(t, "out of memory");
    }
    for (unsigned from = 1; t->rank == 0 && from < t->size && rc == 0; from++) {
        size_t n = mt_exchange_announced(from);
        pages = malloc((n + 1) * sizeof *pages);
        if (!pages)
            return mt_ranks_fail(t, "out of memory");
        mt_exchange_from(from, pages, n, sizeof *pages);
        for (size_t i = 0; i < n && rc == 0; i++) {
            struct mt_keypage *p = mt_keyset_make(keys, pages[i][0]);
            for (size_t w = 0; p && w < MT_KEY_WORDS; w++)
                p->bits[w] |= pages[i][1 + w];
            rc = p ? 0 : mt_ranks_fail(t, "out of memory");
        }
        free(pages);
        pages = NULL;
    }
    free(pages);
    return rc;
}

static int ranks_gather_readers(struct mt_ranks *t)
{
    struct mt_readers *r = &t->comm.readers;
    if (!t->comm.options.readers)
        return 0;
    if (t->rank > 0) /* who lost them has sent none of element 0 */
        return mt_exchange_to(0, r->sets, r->lost ? 0 : r->n, sizeof *r->sets);
    for (unsigned from = 1; from < t->size; from++) {
        size_t n = mt_exchange_announced(from);
        struct mt_read_set *sets = malloc((n + 1) * sizeof *sets);
        if (!sets)
            return mt_ranks_fail(t, "out of memory");
        mt_exchange_from(from, sets, n, sizeof *sets);
        mt_readers_add(r, n ? sets + 1 : NULL, n - 1);
        free(sets);
    }
    return 0;
}

static int ranks_finish(void *self)
{
    struct mt_ranks *t = mt_ranks_of(self);
    struct mt_comm *c = &t->comm;
    if (t->rounds && mt_rounds_flush(t) != 0)
        return -1;
    mt_stats_phase(MT_RANK_RESULTS);
    if (ranks_all_as_one(t->why || c->why ? -1 : ranks_add_crossings(t)) != 0)
        return mt_ranks_fail(t, c->why ? c->why : "another rank failed");
    if (!ranks_same_everywhere(c->nactors) || !ranks_same_everywhere(c->nhosts) ||
        !ranks_same_everywhere(c->nlaunches) || !ranks_same_everywhere(c->records))
        return mt_ranks_fail(
            t, "the ranks read different traces: an input changed, or is another file elsewhere");
    ranks_sum_up(t, &c->actors[0].load, ACTOR_NUMBERS, c->nactors, sizeof *c->actors);
    if (c->nhosts > 0)
        ranks_sum_up(t, &c->hosts[0].load, HOST_NUMBERS, c->nhosts, sizeof *c->hosts);
    uint64_t unknown = c->unknown;
    MPI_Reduce(&unknown, &c->unknown, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    int rc = ranks_gather_transfers(t) != 0 || ranks_gather_keys(t) != 0 || ranks_gather_readers(t) != 0;
    mt_stats_phase(MT_RANK_WRITE);
    t->team.comm = rc ? NULL : c;
    return rc ? -1 : 0;
}

/* ---- */

static const struct mt_team_kind ranks_kind = {.fed = {.needs = MT_NEEDS_ALL,
                                                       .launch = ranks_launch,
                                                       .records = ranks_records,
                                                       .runs = ranks_runs,
                                                       .copy = ranks_copy,
                                                       .host = ranks_host,
                                                       .finish = ranks_finish,
                                                       .free = ranks_free},
                                               .count = ranks_count,
                                               .why = ranks_why};

static struct mt_team *ranks_team(const struct mt_comm_options *options)
{
    struct mt_ranks *t = calloc(1, sizeof *t);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!t || mt_exchange_init(&t->exchange, (unsigned)rank, (unsigned)size) != 0 ||
        mt_comm_init(&t->comm, options) != 0) {
        if (t)
            ranks_free(t);
        return NULL;
    }
    t->rank = (unsigned)rank;
    t->size = (unsigned)size;
    mt_comm_shard(&t->comm, t->rank, t->size);
    t->team.kind = &ranks_kind;
    return &t->team;
}

const struct mt_session mt_ranks_session = {
    .begin = ranks_begin,
    .end = ranks_end,
    .reports = ranks_reports,
    .members = mt_ranks_members,
    .agree = ranks_agree,
    .split = mt_ranks_split,
    .unsplit = mt_ranks_unsplit,
    .team = ranks_team,
    .by_parts = mt_ranks_by_parts,
    .span = mt_ranks_span,
    .again = ranks_again,
    .stopped = ranks_stopped,
    .share = mt_ranks_share,
    .fold = mt_ranks_fold,
    .stats = mt_stats_print,
};
