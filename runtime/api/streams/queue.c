/* What is to be done on the CPU device: a queue of operations per stream. */
#include "queue.h"
#include "capture.h"
#include "api/tables/error.h"
#include "trace/events.h"
#include "base/report.h"
#include "cpu/cpu.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* 1: the trace has it as a launch. */
static int op_is_launch(const struct mt_op *op)
{
    return op->kind == MT_OP_KERNEL || op->kind == MT_OP_LIBRARY;
}

#define QUEUE_MAX 1024    /* operations of a stream: who puts more into it waits, as on a GPU */
#define FINISH_SECONDS 10 /* without progress: what is left at the end of the process is dropped */

/* One lock for all queues and marks: it is held for a few instructions at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reached = PTHREAD_COND_INITIALIZER; /* a mark, for those who wait for marks */
static struct mt_stream *active;                          /* streams with something to do */
static uint64_t tickets, ended;
static unsigned nblocked, mark_waiters;
static unsigned freeing;      /* streams whose traces are being closed */
static int finishing, closed; /* the process ends; nothing begins any more */

/* ---- operations ---- */

void *mt_op_new(size_t bytes, enum mt_op_kind kind, int (*run)(struct mt_op *))
{
    struct mt_op *op = malloc(bytes);
    if (!op)
        return NULL;
    *op = (struct mt_op){.bytes = bytes, .kind = kind, .run = run};
    return op;
}

void *mt_op_copy(const struct mt_op *op)
{
    struct mt_op *copy = malloc(op->bytes);
    return copy ? memcpy(copy, op, op->bytes) : NULL;
}

void mt_op_free(struct mt_op *op)
{
    if (op && op->drop)
        op->drop(op);
    if (op) {
        mt_mark_release(op->after);
        mt_mark_release(op->reaches);
    }
    free(op);
}

/* ---- streams; all with the lock held ---- */

static void queue_hold(struct mt_stream *s)
{
    s->refs++;
}

/* The lock is let go for a moment when the stream is freed. */
static void let_go(struct mt_stream *s)
{
    if (--s->refs)
        return;
    freeing++;
    pthread_mutex_unlock(&lock);
    mt_stream_free(s);
    pthread_mutex_lock(&lock);
    freeing--;
    if (finishing)
        pthread_cond_broadcast(&reached);
}

static void queue_append(struct mt_stream *s, struct mt_op *op)
{
    op->stream = s;
    op->next = NULL;
    op->ticket = ++tickets;
    s->issued++;
    mt_order_submit(s, op);
    if (s->first) {
        s->last->next = op;
        s->last = op;
        return;
    }
    s->first = s->last = op;
    s->prev_active = NULL;
    s->next_active = active;
    if (active)
        active->prev_active = s;
    active = s;
    queue_hold(s);
}

static void leave_active(struct mt_stream *s)
{
    if (s->prev_active)
        s->prev_active->next_active = s->next_active;
    else
        active = s->next_active;
    if (s->next_active)
        s->next_active->prev_active = s->prev_active;
}

/* The first operation has ended. */
static void take_first(struct mt_stream *s)
{
    struct mt_mark *mark = s->first->reaches;
    s->first = s->first->next;
    s->done++;
    s->running = 0;
    ended++;
    if (mark)
        mark->done = 1;
    if ((mark && mark_waiters) || finishing)
        pthread_cond_broadcast(&reached);
    if (s->waiters)
        pthread_cond_broadcast(&s->moved);
    if (!s->first)
        leave_active(s);
}

/* Operations on the legacy stream follow all older ones of blocking streams of its device,
 * and those follow its older ones. */
static int must_wait(const struct mt_stream *s, uint64_t ticket)
{
    const struct mt_stream *legacy = mt_stream_legacy(s->device);
    if (s->flags & cudaStreamNonBlocking)
        return 0;
    if (!s->legacy)
        return legacy && legacy->first && legacy->first->ticket < ticket;
    for (struct mt_stream *t = active; t; t = t->next_active)
        if (t != s && t->device == s->device && !(t->flags & cudaStreamNonBlocking) &&
            t->first->ticket < ticket)
            return 1;
    return 0;
}

static int queue_startable(struct mt_stream *s)
{
    struct mt_op *op = s->first;
    if (!op || s->running || closed)
        return 0;
    int wait = (op->after && !op->after->done) || must_wait(s, op->ticket);
    nblocked += (unsigned)wait - (unsigned)s->blocked;
    s->blocked = wait;
    return !wait;
}

static int queue_run(struct mt_op *op)
{
    if (!op->always && mt_fail_of(op->stream->device))
        return MT_OP_DONE;
    uint64_t outer = mt_event_set_op(op->ticket);
    int rc = op->run(op);
    mt_event_set_op(outer);
    return rc;
}

/* Begins all that can begin: the first of `s`, and, after something has ended, what was blocked elsewhere. */
static void queue_pump(struct mt_stream *s, int something_ended)
{
    for (;;) {
        struct mt_stream *next = s && queue_startable(s) ? s : NULL;
        if (!next && something_ended && nblocked)
            for (next = active; next && !(next->blocked && queue_startable(next));)
                next = next->next_active;
        if (!next)
            return;
        struct mt_op *op = next->first;
        next->running = 1;
        queue_hold(next);
        pthread_mutex_unlock(&lock);
        int rc = queue_run(op);
        pthread_mutex_lock(&lock);
        if (rc == MT_OP_DONE) {
            something_ended = 1;
            take_first(next);
            int empty = !next->first;
            pthread_mutex_unlock(&lock);
            mt_op_free(op);
            pthread_mutex_lock(&lock);
            if (empty)
                let_go(next);
        }
        s = next->refs > 1 ? next : NULL;
        let_go(next);
    }
}

static void wait_one(struct mt_stream *s)
{
    queue_hold(s);
    s->waiters++;
    pthread_cond_wait(&s->moved, &lock);
    s->waiters--;
    let_go(s);
}

void mt_op_enqueue(struct mt_stream *s, struct mt_op *op)
{
    pthread_mutex_lock(&lock);
    int late = closed;
    if (!late) {
        queue_append(s, op);
        queue_pump(s, 0);
        while (s->issued - s->done > QUEUE_MAX && !closed)
            wait_one(s);
    }
    pthread_mutex_unlock(&lock);
    if (!late)
        return;
    mt_trace_drop(s->trace, op_is_launch(op));
    mt_op_free(op);
}

void mt_op_follow(struct mt_op *at, struct mt_op *op)
{
    struct mt_stream *s = at->stream;
    pthread_mutex_lock(&lock);
    op->stream = s;
    op->ticket = at->ticket; /* who waits for one of them waits for both */
    op->next = at->next;
    at->next = op;
    if (s->last == at)
        s->last = op;
    s->issued++;
    pthread_mutex_unlock(&lock);
}

cudaError_t mt_op_submit(struct mt_stream *s, struct mt_op *op)
{
    if (mt_capturing(s))
        return mt_capture_add(s, op);
    mt_op_enqueue(s, op);
    return cudaSuccess;
}

/* `op` is the first of its stream and has ended. */
static void queue_finish(struct mt_op *op, int owned)
{
    struct mt_stream *s = op->stream;
    pthread_mutex_lock(&lock);
    /* whenever the lock is free, another may end what is left in the stream, and the stream with it */
    queue_hold(s);
    take_first(s);
    int empty = !s->first;
    if (owned) {
        pthread_mutex_unlock(&lock);
        mt_op_free(op);
        pthread_mutex_lock(&lock);
    }
    queue_pump(empty ? NULL : s, 1);
    if (empty)
        let_go(s);
    let_go(s);
    pthread_mutex_unlock(&lock);
}

void mt_op_finish(struct mt_op *op)
{
    queue_finish(op, 1);
}

/* ---- turns ---- */

static int queue_grant(struct mt_op *op)
{
    struct mt_turn *t = (struct mt_turn *)op;
    pthread_mutex_lock(&lock);
    t->granted = 1;
    if (op->stream->waiters)
        pthread_cond_broadcast(&op->stream->moved);
    pthread_mutex_unlock(&lock);
    return MT_OP_PENDING;
}

int mt_turn_try(struct mt_turn *t, struct mt_stream *s)
{
    *t = (struct mt_turn){.op = {.kind = MT_OP_OTHER, .always = 1, .run = queue_grant}, .granted = 1};
    pthread_mutex_lock(&lock);
    int now = closed || (!s->first && !must_wait(s, tickets + 1));
    if (now && !closed) { /* after the end nobody is left to wait for */
        queue_append(s, &t->op);
        s->running = 1;
        mt_order_waited(s);
    }
    pthread_mutex_unlock(&lock);
    if (now)
        t->outer = mt_event_set_op(t->op.ticket);
    return now;
}

/* A turn that will not come. */
static void queue_withdraw(struct mt_stream *s, struct mt_op *op)
{
    struct mt_op **at = &s->first, *before = NULL;
    while (*at && *at != op) {
        before = *at;
        at = &before->next;
    }
    if (*at != op)
        return;
    *at = op->next;
    if (s->last == op)
        s->last = before;
    s->done++;
    if (s->first)
        return;
    leave_active(s);
    let_go(s);
}

void mt_turn_begin(struct mt_turn *t, struct mt_stream *s)
{
    if (mt_turn_try(t, s))
        return;
    t->granted = 0;
    pthread_mutex_lock(&lock);
    queue_append(s, &t->op);
    queue_pump(s, 0);
    queue_hold(s);
    s->waiters++;
    while (!t->granted && !closed)
        pthread_cond_wait(&s->moved, &lock);
    s->waiters--;
    if (!t->granted) { /* the process ends, and this thread is to get out of the way */
        queue_withdraw(s, &t->op);
        t->op.stream = NULL;
    }
    mt_order_waited(s);
    let_go(s);
    pthread_mutex_unlock(&lock);
    t->outer = mt_event_set_op(t->op.ticket);
}

void mt_turn_end(struct mt_turn *t)
{
    mt_event_set_op(t->outer);
    if (t->op.stream)
        queue_finish(&t->op, 0);
}

/* ---- waiting ---- */

void mt_stream_wait(struct mt_stream *s)
{
    struct mt_turn t;
    if (mt_capturing(s))
        return;
    mt_turn_begin(&t, s);
    mt_turn_end(&t);
}

void mt_stream_drain(struct mt_stream *s)
{
    if (s->legacy) { /* it stands for all blocking streams */
        mt_stream_wait(s);
        return;
    }
    pthread_mutex_lock(&lock);
    uint64_t upto = tickets;
    queue_hold(s);
    while (s->first && s->first->ticket <= upto && !closed)
        wait_one(s);
    mt_order_waited(s);
    let_go(s);
    pthread_mutex_unlock(&lock);
}

/* The oldest that has something from before, or NULL. */
static struct mt_stream *queue_oldest(int device, uint64_t upto)
{
    struct mt_stream *s = active;
    while (s && (s->first->ticket > upto || (device != MT_ALL_DEVICES && s->device != device)))
        s = s->next_active;
    return s;
}

void mt_stream_wait_all(int device)
{
    pthread_mutex_lock(&lock);
    for (uint64_t upto = tickets; !closed;) {
        struct mt_stream *s = queue_oldest(device, upto);
        if (!s)
            break;
        wait_one(s);
    }
    mt_order_waited_all(device);
    pthread_mutex_unlock(&lock);
}

int mt_stream_idle(struct mt_stream *s)
{
    pthread_mutex_lock(&lock);
    int idle = !s->first && !must_wait(s, s->legacy ? tickets + 1 : 0);
    if (idle)
        mt_order_waited(s);
    pthread_mutex_unlock(&lock);
    return idle;
}

/* ---- marks ---- */

struct mt_mark *mt_mark_new(void)
{
    struct mt_mark *m = calloc(1, sizeof *m);
    if (m)
        m->refs = 1;
    return m;
}

struct mt_mark *mt_mark_hold(struct mt_mark *m)
{
    __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

void mt_mark_release(struct mt_mark *m)
{
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    free(m->clock);
    free(m);
}

int mt_mark_done(struct mt_mark *m)
{
    pthread_mutex_lock(&lock);
    int done = m->done;
    if (done)
        mt_order_waited_mark(m);
    pthread_mutex_unlock(&lock);
    return done;
}

void mt_mark_wait(struct mt_mark *m)
{
    pthread_mutex_lock(&lock);
    mark_waiters++;
    while (!m->done && !closed)
        pthread_cond_wait(&reached, &lock);
    mark_waiters--;
    mt_order_waited_mark(m);
    pthread_mutex_unlock(&lock);
}

/* ---- the table of streams ---- */

void mt_queue_let_go(struct mt_stream *s)
{
    pthread_mutex_lock(&lock);
    let_go(s);
    pthread_mutex_unlock(&lock);
}

static void queue_empty(void *value, void *ctx)
{
    struct mt_stream *s = value;
    s->first = s->last = NULL;
    s->running = s->blocked = s->active = s->waiters = 0;
    s->refs = 1;
    s->done = s->issued;
    pthread_cond_init(&s->moved, NULL);
    pthread_mutex_init(&s->launching, NULL);
}

/* The child has none of the threads that would do what is queued: it is the parent's. */
void mt_queue_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&reached, NULL);
    active = NULL;
    nblocked = mark_waiters = freeing = 0;
    mt_stream_each(queue_empty, NULL);
    mt_hostfn_forked();
}

/* ---- the end of the process ---- */

/* Launches that will not run. */
static void drop_all(void)
{
    uint64_t launches = 0, others = 0;
    for (struct mt_stream *s = active; s; s = s->next_active) {
        uint64_t n = 0;
        for (struct mt_op *op = s->first; op; op = op->next) {
            n += op_is_launch(op);
            others += !op_is_launch(op);
        }
        mt_trace_drop(s->trace, n);
        launches += n;
    }
    mt_report("the program ended, and what is left in its streams does not: %llu launches and %llu other "
              "operations are dropped",
              (unsigned long long)launches, (unsigned long long)others);
}

void mt_stream_finish(void)
{
    uint64_t last = 0;
    struct timespec until;
    pthread_mutex_lock(&lock);
    finishing = 1;
    for (int seconds = 0; (active || freeing) && !mt_in_host_function() && seconds < FINISH_SECONDS;) {
        uint64_t now = ended + mt_cpu_progress();
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        int timed_out = pthread_cond_timedwait(&reached, &lock, &until) == ETIMEDOUT;
        seconds = now != last ? 0 : seconds + timed_out;
        last = now;
    }
    closed = 1;
    if (active)
        drop_all();
    for (struct mt_stream *s = active; s; s = s->next_active) /* who waits for what will not happen */
        pthread_cond_broadcast(&s->moved);
    pthread_cond_broadcast(&reached);
    pthread_mutex_unlock(&lock);
}
