/* Waits of the program. What it waited for has ended: the heads of the rings then say how far the reader has
 * to come, and the counters how many records there must be. Most launches have left before, since all of
 * their threads have said that they end. */
#include "base/report.h"
#include "device/errors.h"
#include "inject.h"
#include "gpu/reader.h"
#include "rings.h"
#include "trace/events.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_SYNCED 20 /* times MT_READER_STALL_MS without a packet */
#define PATIENCE_EXIT 4

/* ---- how launches end ---- */

static atomic_int exits_wrong;

int mt_inject_exits_count(void)
{
    return !exits_wrong;
}

struct sync_mark {
    const struct mt_flight_filter *filter;
    const struct mt_rings_look *look;
    int status;
    unsigned wrong; /* threads of so many launches did not say that they end */
};

/* With the list locked; the reader has nothing more to take for it. */
static void sync_end_one(struct mt_flight *f, void *data)
{
    struct sync_mark *m = data;
    if (!mt_flight_matches(f, m->filter) || f->ended || f->gone || f->cancelled || f->issuing)
        return;
    f->counted = mt_rings_counted(m->look, f);
    m->wrong += f->exits && (f->exited || f->counted); /* else it may never have run */
    f->ended = 1;
}

static void sync_give_up_one(struct mt_flight *f, void *data)
{
    struct sync_mark *m = data;
    if (!mt_flight_matches(f, m->filter))
        return;
    f->gone = 1;
    f->status = m->status;
}

static void sync_give_up(const struct mt_flight_filter *filter, int status, const char *why)
{
    struct sync_mark m = {.filter = filter, .status = status};
    mt_report("kernels on the GPU did not end (%s); their traces hold what had arrived", why);
    mt_flight_each(sync_give_up_one, &m);
    mt_flight_wait(filter, MT_READER_STALL_MS);
}

/* Waits until those of the filter have left; 0, or -1 when nothing came for too long. */
static int sync_wait(const struct mt_flight_filter *filter, unsigned patience)
{
    struct mt_patience p = mt_reader_patience();
    while (mt_flight_wait(filter, MT_READER_STALL_MS))
        if (mt_reader_quiet(&p, patience))
            return -1;
    return 0;
}

/* Until the reader has taken what was there, or nothing of the filter is left. */
static int sync_pass(const struct mt_inject_rings *r, const struct mt_rings_look *look,
                     const struct mt_flight_filter *filter)
{
    struct mt_patience p = mt_reader_patience();
    uint64_t since = mt_now_ns();
    struct timespec t = {0, 50000};
    for (unsigned turn = 0; !mt_rings_passed(r, look) && mt_flight_count(filter); turn++) {
        if (turn < 100)
            sched_yield();
        else
            nanosleep(&t, NULL);
        if (mt_now_ns() - since < MT_READER_STALL_MS * 1000000ull)
            continue;
        since = mt_now_ns();
        if (mt_reader_quiet(&p, PATIENCE_SYNCED))
            return -1;
    }
    return 0;
}

static void sync_differs(struct mt_trace *trace, uint64_t made, uint64_t came)
{
    static atomic_int said;
    if (!atomic_exchange(&said, 1))
        mt_report("a launch context made %llu records, %llu arrived; its trace is incomplete (said once)",
                  (unsigned long long)made, (unsigned long long)came);
    mt_trace_miss(trace, "the device counted other records than arrived");
}

/* ---- waits ---- */

/* All launches of the filter have ended. */
static void sync_ended(struct mt_inject_rings *r, const struct mt_flight_filter *filter,
                       const struct mt_rings_look *look)
{
    struct sync_mark m = {.filter = filter, .look = look};
    if (sync_pass(r, look, filter)) {
        sync_give_up(filter, 0, "what they wrote was not read");
        return;
    }
    mt_flight_each(sync_end_one, &m);
    if (m.wrong && !atomic_exchange(&exits_wrong, 1))
        mt_say("threads do not say when they end as expected; launches end when the program waits for them");
    if (sync_wait(filter, PATIENCE_SYNCED))
        sync_give_up(filter, 0, "records that it counted have not come");
}

/* They have ended, but how much they wrote is not known: only their threads can say it. */
static void sync_unseen(const struct mt_flight_filter *filter)
{
    if (sync_wait(filter, 1))
        sync_give_up(filter, 0, "how much they wrote cannot be read");
}

/* How far the wait reached: launches before this number have ended. 0: it is not known that any has, since
 * other threads may have launched meanwhile. */
static uint64_t sync_reached(void)
{
    const struct mt_inject_call *call = mt_inject_call();
    if (call->depth && call->waits)
        return call->launches;
    return mt_inject_exits_count() ? 0 : mt_flight_issued_so_far();
}

static void sync_success(struct mt_inject_rings *r, Sanitizer_StreamHandle stream,
                         struct mt_flight_filter *filter)
{
    if (!mt_rings_unseen(r) && !mt_flight_count(filter))
        return;
    struct mt_rings_look *look = calloc(1, sizeof *look);
    if (look && mt_rings_look(r, look, stream)) {
        free(look);
        look = NULL;
    }
    filter->before = sync_reached();
    if (filter->before && mt_flight_count(filter)) {
        if (look)
            sync_ended(r, filter, look);
        else
            sync_unseen(filter);
    }
    if (look)
        mt_rings_compare(r, look, sync_differs);
    free(look);
}

static void sync_failure(const struct mt_flight_filter *filter, int error)
{
    char why[40];
    if (!mt_flight_count(filter))
        return;
    snprintf(why, sizeof why, "CUDA error %d", error);
    if (sync_wait(filter, 1))
        sync_give_up(filter, error, why);
}

void mt_inject_synced(struct mt_inject_context *c, Sanitizer_StreamHandle stream,
                      const struct mt_trace *trace, int error)
{
    if (!c || !c->rings || mt_rings_closed())
        return;
    struct mt_flight_filter filter = {.trace = trace, .device = c->rings};
    if (mt_error_stays(error))
        sync_failure(&filter, error);
    else if (!error)
        sync_success(c->rings, stream, &filter);
}

/* A copy waits, too, and has no line of its own for that. */
static int sync_has_line(void)
{
    const struct mt_inject_call *call = mt_inject_call();
    return !call->depth || (call->waits && !call->copies);
}

void mt_inject_synchronized(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_SynchronizeData *d = data;
    struct mt_inject_context *c = mt_inject_context(d->context);
    int all = cbid == SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED;
    if (!all && cbid != SANITIZER_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED)
        return;
    struct mt_trace *t = all ? NULL : mt_inject_stream_known(d->context, d->hStream);
    if (all || t)
        mt_inject_synced(c, all ? NULL : d->hStream, t, 0);
    if (!sync_has_line())
        return;
    mt_event_sync(all ? "device" : "stream", all ? 0 : mt_trace_number(t));
    mt_trace_flush(0);
}

/* ---- the end ---- */

static void sync_stream(CUcontext context, Sanitizer_StreamHandle stream, const struct mt_trace *trace,
                        void *data)
{
    struct mt_inject_context *c = mt_inject_context(context), *only = data;
    struct mt_flight_filter its = {.trace = trace};
    if (trace && c && (!only || c == only) && mt_flight_count(&its) &&
        !mt_sanitizer()->StreamSynchronize(stream))
        mt_inject_synced(c, stream, trace, 0);
}

void mt_inject_drain(struct mt_inject_context *c, const char *why)
{
    struct mt_flight_filter filter = {.device = c ? c->rings : NULL};
    if (!mt_flight_count(&filter))
        return;
    if (!mt_inject_exits_count())
        mt_inject_streams(sync_stream, c);
    if (sync_wait(&filter, PATIENCE_EXIT))
        sync_give_up(&filter, 0, why);
}
