/* Messages go through a ring of slots that every thread reads at its own pace: shards need not be even over
 * short times, only over some hundred thousand records. */
#define _GNU_SOURCE
#include "team.h"
#include "base/thread.h"
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
    char *room; /* records, runs with their addresses after them, or host accesses */
    size_t bytes;
};

struct worker {
    struct team_threads *team;
    struct mt_comm comm;
    pthread_t thread;
    size_t tail; /* messages done */
    size_t crossings;
    int started;
};

struct team_threads {
    struct mt_team team;
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
    struct team_threads *t = w->team;
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
static size_t team_slowest(const struct team_threads *t)
{
    size_t least = t->head;
    for (unsigned i = 0; i < t->n; i++)
        if (t->workers[i].tail < least)
            least = t->workers[i].tail;
    return least;
}

static void team_wait_until(struct team_threads *t, size_t done)
{
    pthread_mutex_lock(&t->lock);
    while (team_slowest(t) < done)
        pthread_cond_wait(&t->emptied, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* A free slot. */
static struct slot *team_slot(struct team_threads *t, enum kind kind)
{
    if (t->head >= SLOTS)
        team_wait_until(t, t->head - SLOTS + 1);
    struct slot *s = &t->slots[t->head % SLOTS];
    s->kind = kind;
    return s;
}

static void team_send(struct team_threads *t)
{
    pthread_mutex_lock(&t->lock);
    t->head++;
    pthread_cond_broadcast(&t->filled);
    pthread_mutex_unlock(&t->lock);
}

static int team_fail(struct team_threads *t, const char *why)
{
    pthread_mutex_lock(&t->lock);
    if (!t->why)
        t->why = why;
    pthread_mutex_unlock(&t->lock);
    return -1;
}

static int team_failed(struct team_threads *t)
{
    pthread_mutex_lock(&t->lock);
    int rc = t->why ? -1 : 0;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* Room of a slot; NULL without memory. */
static char *team_room(struct team_threads *t, struct slot *s, size_t bytes)
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
static int team_add_crossings(struct team_threads *t)
{
    team_wait_until(t, t->head);
    if (mt_comm_add_crossings(t->comms, t->n) != 0)
        return team_fail(t, t->comms[0]->why);
    return team_failed(t);
}

static int team_send_all(struct team_threads *t, size_t count)
{
    team_send(t);
    t->count += count;
    size_t notes = 0;
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < t->n; i++)
        notes += t->workers[i].crossings;
    pthread_mutex_unlock(&t->lock);
    return notes > SETTLE_AT ? team_add_crossings(t) : team_failed(t);
}

/* ---- one who feeds ---- */

static int team_launch(void *self, const struct mt_run_launch *l)
{
    struct team_threads *t = self;
    if (t->n == 1)
        return mt_comm_launch(t->comms[0], l->kernel, l->selected);
    struct slot *s = team_slot(t, LAUNCH);
    s->kernel = l->kernel;
    s->selected = l->selected;
    return team_send_all(t, 0);
}

static int hand_in(struct team_threads *t, enum kind kind, const void *data, size_t count, size_t size)
{
    struct slot *s = team_slot(t, kind);
    if (count > 0 && !team_room(t, s, count * size))
        return -1;
    if (count > 0)
        memcpy(s->room, data, count * size);
    s->count = count;
    return team_send_all(t, count);
}

static int team_records(void *self, const struct mt_raw_record *r, size_t count)
{
    struct team_threads *t = self;
    t->count += t->n == 1 ? count : 0;
    return t->n == 1 ? mt_comm_records(t->comms[0], r, count) : hand_in(t, RECORDS, r, count, sizeof *r);
}

static int team_host(void *self, const struct mt_item *item)
{
    struct team_threads *t = self;
    const struct mt_host_access *a = item->host;
    const size_t count = mt_team_host_count(item);
    t->count += t->n == 1 ? count : 0;
    return t->n == 1 ? mt_comm_host(t->comms[0], a, count) : hand_in(t, HOST, a, count, sizeof *a);
}

static int team_runs(void *self, const struct mt_access_run *runs, size_t count)
{
    struct team_threads *t = self;
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
    return team_send_all(t, accesses);
}

static int team_copy(void *self, const struct mt_copy_event *copy)
{
    struct team_threads *t = self;
    if (mt_team_stays(copy))
        return 0;
    if (t->n == 1)
        return mt_comm_copy(t->comms[0], copy);
    team_slot(t, COPY)->copy = *copy;
    if (team_send_all(t, 0) != 0)
        return -1;
    if (!mt_comm_moves(t->comms[0], copy))
        return 0;
    team_wait_until(t, t->head);
    if (team_failed(t) != 0)
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

/* ---- beginning and end ---- */

static void team_end_threads(struct team_threads *t)
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

static struct mt_comm *team_finish(struct mt_team *team)
{
    struct team_threads *t = (void *)team;
    team_end_threads(t);
    struct mt_comm *c = t->comms[0];
    if (t->why || c->why)
        return NULL;
    if (t->n == 1)
        return c;
    if (mt_comm_add_crossings(t->comms, t->n) != 0)
        return NULL;
    for (unsigned i = 1; i < t->n; i++) {
        if (mt_comm_merge(c, t->comms[i]) != 0)
            return NULL;
        mt_comm_free(t->comms[i]);
    }
    return mt_comm_merged(c) == 0 ? c : NULL;
}

static int team_start(struct team_threads *t, const struct mt_comm_options *options, unsigned i)
{
    struct worker *w = &t->workers[i];
    w->team = t;
    t->comms[i] = &w->comm;
    if (mt_comm_init(&w->comm, options) != 0)
        return -1;
    if (t->n == 1)
        return 0;
    mt_comm_shard(&w->comm, i, t->n);
    w->started = mt_base_thread_start(&w->thread, 0, team_work, w) == 0;
    return w->started ? 0 : -1;
}

static void team_free(struct mt_team *team)
{
    struct team_threads *t = (void *)team;
    if (t->n > 0)
        team_end_threads(t);
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

static const struct mt_team_kind team_kind = {.fed = {.needs = MT_NEEDS_ALL,
                                                      .launch = team_launch,
                                                      .records = team_records,
                                                      .runs = team_runs,
                                                      .copy = team_copy,
                                                      .host = team_host},
                                              .count = team_count,
                                              .finish = team_finish,
                                              .why = team_why,
                                              .free = team_free};

struct mt_team *mt_team_of_threads(const struct mt_comm_options *options, unsigned shards)
{
    struct team_threads *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->team.kind = &team_kind;
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
        return &t->team;
    if (!t->workers)
        t->n = 0;
    for (unsigned i = 0; i < t->n; i++)
        if (!t->workers[i].started)
            t->workers[i].tail = SIZE_MAX; /* nobody waits for it */
    team_free(&t->team);
    return NULL;
}
