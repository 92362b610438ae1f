/* Communication analysis by threads. Messages go through a ring of slots that every shard reads at its own
 * pace, so the load must be balanced only over some hundred thousand records. */
#define _GNU_SOURCE
#include "team.h"
#include "reader/base/pool.h"
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 32, SETTLE_AT = 1 << 20 /* notes on accesses that span shards */ };
enum kind { LAUNCH, RECORDS, RUNS, COPY, HOST };

struct message {
    enum kind kind;
    const char *kernel;
    int selected;
    struct mt_copy_event copy;
    const void *data; /* payload: records, runs or host accesses */
    size_t count;
};

struct slot {
    struct message m;
    char *room; /* copy of the data; for runs, followed by their addresses */
    size_t bytes;
};

struct worker {
    struct mt_comm comm;
    size_t tail; /* number of messages processed */
    size_t crossings;
    int busy, failed;
};

struct team_threads {
    struct mt_team team;
    unsigned n;
    struct worker *workers;
    struct mt_comm **comms;
    uint64_t count;
    const char *why;
    struct mt_pool *pool;
    struct mt_work work;
    size_t head; /* number of messages sent */
    struct slot slots[SLOTS];
};

/* ---- the shards ---- */

static int team_handle(struct mt_comm *c, const struct message *m)
{
    switch (m->kind) {
    case LAUNCH:
        return mt_comm_launch(c, m->kernel, m->selected);
    case RECORDS:
        return mt_comm_records(c, m->data, m->count);
    case RUNS:
        return mt_comm_runs(c, m->data, m->count);
    case COPY:
        return mt_comm_copy(c, &m->copy);
    default:
        return mt_comm_host(c, m->data, m->count);
    }
}

/* Processes the next message of the slowest shard. */
static int team_piece(void *self)
{
    struct team_threads *t = self;
    struct worker *w = NULL;
    for (unsigned i = 0; i < t->n; i++)
        if (!t->workers[i].busy && t->workers[i].tail < (w ? w->tail : t->head))
            w = &t->workers[i];
    if (!w)
        return 0;
    w->busy = 1;
    pthread_mutex_unlock(&t->pool->lock);
    int failed = w->failed || team_handle(&w->comm, &t->slots[w->tail % SLOTS].m) != 0;
    pthread_mutex_lock(&t->pool->lock);
    if (failed && !t->why)
        t->why = w->comm.why;
    w->failed = failed;
    w->crossings = w->comm.ncrossings;
    w->tail++;
    w->busy = 0;
    return 1;
}

/* Returns the number of messages that all shards have processed. */
static size_t team_slowest(const struct team_threads *t)
{
    size_t least = t->head;
    for (unsigned i = 0; i < t->n; i++)
        if (t->workers[i].tail < least)
            least = t->workers[i].tail;
    return least;
}

static int team_wait_until(struct team_threads *t, size_t done)
{
    pthread_mutex_lock(&t->pool->lock);
    while (team_slowest(t) < done)
        mt_pool_help(t->pool, &t->work);
    int rc = t->why ? -1 : 0;
    pthread_mutex_unlock(&t->pool->lock);
    return rc;
}

static int team_fail(struct team_threads *t, const char *why)
{
    pthread_mutex_lock(&t->pool->lock);
    if (!t->why)
        t->why = why;
    pthread_mutex_unlock(&t->pool->lock);
    return -1;
}

/* Waits until all shards are idle and adds up their notes on accesses that span shards. */
static int team_add_crossings(struct team_threads *t)
{
    int rc = team_wait_until(t, t->head);
    return mt_comm_add_crossings(t->comms, t->n) != 0 ? team_fail(t, t->comms[0]->why) : rc;
}

/* Copies lists of addresses after the runs. */
static void team_copy_runs(struct slot *s)
{
    struct mt_access_run *runs = (struct mt_access_run *)(void *)s->room, *end = runs + s->m.count;
    uint64_t *list = (uint64_t *)(void *)end;
    for (struct mt_access_run *r = runs; r < end; r++) {
        if (!r->addresses)
            continue;
        memcpy(list, r->addresses, r->count * sizeof *list);
        r->addresses = list;
        list += r->count;
    }
}

/* Copies a message into a free slot: elements of `size` bytes, and `more`. Returns -1 without memory. */
static int team_fill(struct team_threads *t, const struct message *m, size_t size, size_t more)
{
    struct slot *s = &t->slots[t->head % SLOTS];
    if (t->head >= SLOTS)
        team_wait_until(t, t->head - SLOTS + 1);
    s->m = *m;
    if (m->count * size + more > s->bytes) {
        free(s->room);
        s->bytes = m->count * size + more;
        s->room = malloc(s->bytes);
    }
    if (!s->room && m->count > 0) {
        s->bytes = 0;
        return team_fail(t, "out of memory");
    }
    if (m->count > 0) /* the end of a launch has no runs */
        memcpy(s->room, m->data, m->count * size);
    s->m.data = s->room;
    if (m->kind == RUNS && m->count > 0)
        team_copy_runs(s);
    return 0;
}

/* ---- feeding ---- */

static int team_give(struct team_threads *t, const struct message *m, size_t size, size_t more)
{
    size_t notes = 0;
    if (t->n == 1)
        return team_handle(t->comms[0], m);
    if (team_fill(t, m, size, more) != 0)
        return -1;
    pthread_mutex_lock(&t->pool->lock);
    t->head++;
    mt_pool_wake(t->pool, t->n);
    for (unsigned i = 0; i < t->n; i++)
        notes += t->workers[i].crossings;
    int rc = t->why ? -1 : 0;
    pthread_mutex_unlock(&t->pool->lock);
    return notes > SETTLE_AT ? team_add_crossings(t) : rc;
}

static int team_launch(void *self, const struct mt_run_launch *l)
{
    return team_give(self, &(struct message){LAUNCH, .kernel = l->kernel, .selected = l->selected}, 0, 0);
}

static int team_records(void *self, const struct mt_raw_record *r, size_t count)
{
    struct team_threads *t = self;
    t->count += count;
    return team_give(t, &(struct message){RECORDS, .data = r, .count = count}, sizeof *r, 0);
}

static int team_host(void *self, const struct mt_item *item)
{
    struct team_threads *t = self;
    const size_t count = mt_team_host_count(item);
    t->count += count;
    return team_give(t, &(struct message){HOST, .data = item->host, .count = count}, sizeof *item->host, 0);
}

static int team_runs(void *self, const struct mt_access_run *runs, size_t count)
{
    struct team_threads *t = self;
    size_t listed = 0;
    for (size_t i = 0; i < count; i++) {
        t->count += runs[i].count;
        listed += runs[i].addresses ? runs[i].count : 0;
    }
    return team_give(t, &(struct message){RUNS, .data = runs, .count = count}, sizeof *runs,
                     listed * sizeof(uint64_t));
}

static int team_copy(void *self, const struct mt_copy_event *copy)
{
    struct team_threads *t = self;
    if (mt_team_stays(copy))
        return 0;
    if (team_give(t, &(struct message){COPY, .copy = *copy}, 0, 0) != 0)
        return -1;
    if (t->n == 1 || !mt_comm_moves(t->comms[0], copy))
        return 0;
    if (team_wait_until(t, t->head) != 0)
        return -1;
    if (mt_comm_move(t->comms, t->n, copy) == 0)
        return 0;
    for (unsigned i = 0; i < t->n; i++)
        if (t->comms[i]->why)
            return team_fail(t, t->comms[i]->why);
    return -1;
}

static uint64_t team_count(const struct mt_team *team)
{
    const struct team_threads *t = (const void *)team;
    return t->count;
}

static const char *team_why(const struct mt_team *team)
{
    const struct team_threads *t = (const void *)team;
    return t->why ? t->why : t->comms && t->comms[0] && t->comms[0]->why ? t->comms[0]->why : "out of memory";
}

/* ---- start and end ---- */

static int team_finish(void *self)
{
    struct team_threads *t = self;
    struct mt_comm *c = t->comms[0];
    if (team_wait_until(t, t->head) != 0 || c->why)
        return -1;
    if (t->n > 1 && mt_comm_add_crossings(t->comms, t->n) != 0)
        return -1;
    for (unsigned i = 1; i < t->n; i++) {
        if (mt_comm_merge(c, t->comms[i]) != 0)
            return -1;
        mt_comm_free(t->comms[i]);
    }
    if (t->n > 1 && mt_comm_merged(c) != 0)
        return -1;
    t->team.comm = c;
    return 0;
}

static int team_start(struct team_threads *t, const struct mt_comm_options *options, unsigned i)
{
    t->comms[i] = &t->workers[i].comm;
    if (mt_comm_init(t->comms[i], options) != 0)
        return -1;
    if (t->n > 1)
        mt_comm_shard(t->comms[i], i, t->n);
    return 0;
}

static void team_free(void *self)
{
    struct team_threads *t = self;
    mt_pool_remove(t->pool, &t->work);
    for (unsigned i = 0; i < t->n; i++)
        mt_comm_free(&t->workers[i].comm);
    for (size_t i = 0; i < SLOTS; i++)
        free(t->slots[i].room);
    free(t->workers);
    free((void *)t->comms);
    free(t);
}

static const struct mt_team_kind team_kind = {.fed = {.needs = MT_NEEDS_ALL,
                                                      .launch = team_launch,
                                                      .records = team_records,
                                                      .runs = team_runs,
                                                      .copy = team_copy,
                                                      .host = team_host,
                                                      .finish = team_finish,
                                                      .free = team_free},
                                              .count = team_count,
                                              .why = team_why};

struct mt_team *mt_team_of_threads(const struct mt_comm_options *options, struct mt_pool *pool,
                                   unsigned shards)
{
    struct team_threads *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->team.kind = &team_kind;
    t->workers = calloc(shards, sizeof *t->workers);
    t->comms = calloc(shards, sizeof(struct mt_comm *));
    t->n = t->workers ? shards : 0;
    t->pool = pool;
    t->work = (struct mt_work){.piece = team_piece, .self = t};
    mt_pool_add(pool, &t->work);
    int rc = t->workers && t->comms ? 0 : -1;
    for (unsigned i = 0; i < shards && rc == 0; i++)
        rc = team_start(t, options, i);
    if (rc == 0)
        return &t->team;
    team_free(t);
    return NULL;
}
