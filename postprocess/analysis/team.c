/* Messages go through a ring of slots that every thread reads at its own pace: shards need not be even over
 * short times, only over some hundred thousand records. */
#define _GNU_SOURCE
#include "team.h"
#include "../lib/thread.h"
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 32, SETTLE_AT = 1 << 20 /* notes on accesses that cross shards */ };
enum kind { LAUNCH, RECORDS, RUNS, COPY, HOST, QUIT };

struct slot {
    enum kind kind;
    const char *kernel;
    int selected;
    size_t count;
    struct mt_copy_event copy;
    char *room; /* records, runs with their addresses behind them, or host accesses */
    size_t bytes;
};

struct worker {
    struct mt_team *team;
    struct mt_comm comm;
    pthread_t thread;
    size_t tail; /* messages done */
    size_t crossings;
    int started;
};

struct mt_team {
    unsigned n;
    struct worker *workers;
    struct mt_comm **comms;
    uint64_t count;
    const char *why;
    int finished;
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    size_t head; /* messages handed in */
    struct slot slots[SLOTS];
};

/* ---- the process ---- */

void mt_team_begin(int *argc, char ***argv, volatile sig_atomic_t *stop)
{
    (void)argc;
    (void)argv;
    (void)stop;
}

int mt_team_end(int code, int together)
{
    (void)together;
    return code;
}

int mt_team_reports(void)
{
    return 1;
}

int mt_team_members(void)
{
    return 1;
}

int mt_team_agree(int code)
{
    return code;
}

struct mt_launch_ends *mt_team_split(const char *const *paths, size_t npaths)
{
    (void)paths;
    (void)npaths;
    return NULL;
}

void mt_team_unsplit(struct mt_launch_ends *ends, size_t npaths)
{
    (void)ends;
    (void)npaths;
}

int mt_team_by_parts(struct mt_team *t)
{
    t->why = "no reading by parts without MPI";
    return -1;
}

int mt_team_span(struct mt_team *t, const struct mt_span *span)
{
    (void)span;
    return mt_team_by_parts(t);
}

int mt_team_share(struct mt_team *t, const struct mt_span *spans, size_t n, const struct mt_share_ops *ops,
                  void *arg)
{
    (void)spans;
    (void)n;
    (void)ops;
    (void)arg;
    return mt_team_by_parts(t);
}

int mt_team_fold(struct mt_team *t, const struct mt_share_ops *ops, void *arg)
{
    (void)ops;
    (void)arg;
    return mt_team_by_parts(t);
}

int mt_team_again(const struct mt_team *t)
{
    (void)t;
    return 0;
}

int mt_team_stopped(const struct mt_team *t)
{
    (void)t;
    return 0;
}

/* ---- the threads ---- */

static int team_handle(struct mt_comm *c, const struct slot *s)
{
    switch (s->kind) {
    case LAUNCH:
        return mt_comm_launch(c, s->kernel, s->selected);
    case RECORDS:
        return mt_comm_records(c, (const struct mt_raw_record *)(const void *)s->room, s->count);
    case RUNS:
        return mt_comm_runs(c, (const struct mt_access_run *)(const void *)s->room, s->count);
    case COPY:
        return mt_comm_copy(c, &s->copy);
    case HOST:
        return mt_comm_host(c, (const struct mt_host_access *)(const void *)s->room, s->count);
    default:
        return 0;
    }
}

static void *team_work(void *arg)
{
    struct worker *w = arg;
    struct mt_team *t = w->team;
    int failed = 0;
    for (enum kind kind = LAUNCH; kind != QUIT;) {
        pthread_mutex_lock(&t->lock);
        while (t->head == w->tail)
            pthread_cond_wait(&t->filled, &t->lock);
        const struct slot *s = &t->slots[w->tail % SLOTS];
        pthread_mutex_unlock(&t->lock);
        kind = s->kind;
        if (!failed && team_handle(&w->comm, s) != 0)
            failed = 1;
        pthread_mutex_lock(&t->lock);
        if (failed && !t->why)
            t->why = w->comm.why;
        w->crossings = w->comm.ncrossings;
        w->tail++;
        pthread_cond_signal(&t->emptied);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

/* The message that the slowest thread has still to finish. */
static size_t team_slowest(const struct mt_team *t)
{
    size_t least = t->head;
    for (unsigned i = 0; i < t->n; i++)
        if (t->workers[i].tail < least)
            least = t->workers[i].tail;
    return least;
}

static void wait_until(struct mt_team *t, size_t done)
{
    pthread_mutex_lock(&t->lock);
    while (team_slowest(t) < done)
        pthread_cond_wait(&t->emptied, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* A free slot. */
static struct slot *team_slot(struct mt_team *t, enum kind kind)
{
    if (t->head >= SLOTS)
        wait_until(t, t->head - SLOTS + 1);
    struct slot *s = &t->slots[t->head % SLOTS];
    s->kind = kind;
    return s;
}

static void team_send(struct mt_team *t)
{
    pthread_mutex_lock(&t->lock);
    t->head++;
    pthread_cond_broadcast(&t->filled);
    pthread_mutex_unlock(&t->lock);
}

static int team_fail(struct mt_team *t, const char *why)
{
    pthread_mutex_lock(&t->lock);
    if (!t->why)
        t->why = why;
    pthread_mutex_unlock(&t->lock);
    return -1;
}

static int team_failed(struct mt_team *t)
{
    pthread_mutex_lock(&t->lock);
    int rc = t->why ? -1 : 0;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* Room of a slot; NULL without memory. */
static char *team_room(struct mt_team *t, struct slot *s, size_t bytes)
{
    if (bytes > s->bytes) {
        free(s->room);
        s->room = malloc(bytes);
        s->bytes = s->room ? bytes : 0;
    }
    if (!s->room && bytes > 0)
        team_fail(t, "out of memory");
    return s->room;
}

/* All threads at rest; what they noted on accesses that cross shards is put together. */
static int team_settle(struct mt_team *t)
{
    wait_until(t, t->head);
    if (mt_comm_settle(t->comms, t->n) != 0)
        return team_fail(t, t->comms[0]->why);
    return team_failed(t);
}

static int send_all(struct mt_team *t, size_t count)
{
    team_send(t);
    t->count += count;
    size_t notes = 0;
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < t->n; i++)
        notes += t->workers[i].crossings;
    pthread_mutex_unlock(&t->lock);
    return notes > SETTLE_AT ? team_settle(t) : team_failed(t);
}

/* ---- one who feeds ---- */

int mt_team_launch(struct mt_team *t, const char *kernel, int selected)
{
    if (t->n == 1)
        return mt_comm_launch(t->comms[0], kernel, selected);
    struct slot *s = team_slot(t, LAUNCH);
    s->kernel = kernel;
    s->selected = selected;
    return send_all(t, 0);
}

static int hand_in(struct mt_team *t, enum kind kind, const void *data, size_t count, size_t size)
{
    struct slot *s = team_slot(t, kind);
    if (count > 0 && !team_room(t, s, count * size))
        return -1;
    if (count > 0)
        memcpy(s->room, data, count * size);
    s->count = count;
    return send_all(t, count);
}

int mt_team_records(struct mt_team *t, const struct mt_raw_record *r, size_t count)
{
    t->count += t->n == 1 ? count : 0;
    return t->n == 1 ? mt_comm_records(t->comms[0], r, count) : hand_in(t, RECORDS, r, count, sizeof *r);
}

int mt_team_host(struct mt_team *t, const struct mt_host_access *a, size_t count)
{
    t->count += t->n == 1 ? count : 0;
    return t->n == 1 ? mt_comm_host(t->comms[0], a, count) : hand_in(t, HOST, a, count, sizeof *a);
}

int mt_team_runs(struct mt_team *t, const struct mt_access_run *runs, size_t count)
{
    size_t accesses = 0, listed = 0;
    for (size_t i = 0; i < count; i++) {
        accesses += runs[i].count;
        listed += runs[i].addresses ? runs[i].count : 0;
    }
    if (t->n == 1) {
        t->count += accesses;
        return mt_comm_runs(t->comms[0], runs, count);
    }
    struct slot *s = team_slot(t, RUNS);
    if (count > 0 && !team_room(t, s, count * sizeof *runs + listed * sizeof(uint64_t)))
        return -1;
    struct mt_access_run *copy = (struct mt_access_run *)(void *)s->room;
    uint64_t *list = count ? (uint64_t *)(void *)(copy + count) : NULL; /* the end of a launch has no runs */
    for (size_t i = 0; i < count; i++) {
        copy[i] = runs[i];
        if (!runs[i].addresses)
            continue;
        memcpy(list, runs[i].addresses, runs[i].count * sizeof *list);
        copy[i].addresses = list;
        list += runs[i].count;
    }
    s->count = count;
    return send_all(t, accesses);
}

int mt_team_copy(struct mt_team *t, const struct mt_copy_event *copy)
{
    if (t->n == 1)
        return mt_comm_copy(t->comms[0], copy);
    team_slot(t, COPY)->copy = *copy;
    if (send_all(t, 0) != 0)
        return -1;
    if (!mt_comm_moves(t->comms[0], copy))
        return 0;
    wait_until(t, t->head);
    if (team_failed(t) != 0)
        return -1;
    if (mt_comm_move(t->comms, t->n, copy) == 0)
        return 0;
    for (unsigned i = 0; i < t->n; i++)
        if (t->comms[i]->why)
            return team_fail(t, t->comms[i]->why);
    return -1;
}

uint64_t mt_team_count(const struct mt_team *t)
{
    return t->count;
}

const char *mt_team_why(const struct mt_team *t)
{
    return t->why ? t->why : t->comms && t->comms[0] && t->comms[0]->why ? t->comms[0]->why : "out of memory";
}

/* ---- beginning and end ---- */

static void end_threads(struct mt_team *t)
{
    if (t->finished)
        return;
    t->finished = 1;
    if (t->n > 1) {
        team_slot(t, QUIT);
        team_send(t);
    }
    for (unsigned i = 0; i < t->n; i++)
        if (t->workers[i].started)
            pthread_join(t->workers[i].thread, NULL);
}

struct mt_comm *mt_team_finish(struct mt_team *t)
{
    end_threads(t);
    struct mt_comm *c = t->comms[0];
    if (t->why || c->why)
        return NULL;
    if (t->n == 1)
        return c;
    if (mt_comm_settle(t->comms, t->n) != 0)
        return NULL;
    for (unsigned i = 1; i < t->n; i++) {
        if (mt_comm_merge(c, t->comms[i]) != 0)
            return NULL;
        mt_comm_free(t->comms[i]);
    }
    return mt_comm_merged(c) == 0 ? c : NULL;
}

static int team_start(struct mt_team *t, const struct mt_comm_options *options, unsigned i)
{
    struct worker *w = &t->workers[i];
    w->team = t;
    t->comms[i] = &w->comm;
    if (mt_comm_init(&w->comm, options) != 0)
        return -1;
    if (t->n == 1)
        return 0;
    mt_comm_shard(&w->comm, i, t->n);
    w->started = mt_thread_start(&w->thread, team_work, w) == 0;
    return w->started ? 0 : -1;
}

struct mt_team *mt_team_new(const struct mt_comm_options *options, unsigned shards)
{
    struct mt_team *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->filled, NULL);
    pthread_cond_init(&t->emptied, NULL);
    t->n = shards;
    t->workers = calloc(shards, sizeof *t->workers);
    t->comms = calloc(shards, sizeof(struct mt_comm *));
    int rc = t->workers && t->comms ? 0 : -1;
    for (unsigned i = 0; i < shards && rc == 0; i++)
        rc = team_start(t, options, i);
    if (rc == 0)
        return t;
    if (!t->workers)
        t->n = 0;
    for (unsigned i = 0; i < t->n; i++)
        if (!t->workers[i].started)
            t->workers[i].tail = SIZE_MAX; /* nobody waits for it */
    mt_team_free(t);
    return NULL;
}

void mt_team_free(struct mt_team *t)
{
    if (!t)
        return;
    if (t->n > 0)
        end_threads(t);
    for (unsigned i = 0; i < t->n; i++)
        mt_comm_free(&t->workers[i].comm);
    for (size_t i = 0; i < SLOTS; i++)
        free(t->slots[i].room);
    free(t->workers);
    free((void *)t->comms);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->filled);
    pthread_cond_destroy(&t->emptied);
    free(t);
}
