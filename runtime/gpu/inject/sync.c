/* Rings of a context, and waits of the program. After a wait, the heads of the rings tell how far the reader
 * must get, and the counters how many records must arrive. Most launches have left before, since all of their
 * threads have reported their exits. */
#include "inject.h"
#include "tally.h"
#include "base/report.h"
#include "device/errors.h"
#include "trace/events.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_SYNCED 20 /* times MT_STALL_MS without a packet */
#define PATIENCE_EXIT 4
#define PATIENCE_LEND 20
#define CODE_REACH (4ull << 30) /* reach of sites around `code`, in bytes: half of the possible one */

/* ---- rings --------------------------------------------------------------------------------------- */

struct mt_inject_rings {
    struct mt_rings rings;                      /* first, so that a pointer to it is one to this */
    _Atomic uint64_t came[MT_GPU_CONTEXTS];     /* records received since the start */
    struct mt_gpu_totals last[MT_GPU_CONTEXTS]; /* what it had counted when its last launch ended */
    uint64_t code[MT_GPU_CONTEXTS];             /* value on the device */
    uint64_t kernel[MT_GPU_CONTEXTS];           /* likewise */
    struct mt_trace *trace[MT_GPU_CONTEXTS];    /* trace of its current or last lending */
    unsigned used;                              /* contexts from this number on were never lent */
    _Atomic int unseen;                         /* some were lent since the last comparison */
};

static struct mt_inject_rings *sync_rings(const struct mt_rings *r)
{
    return (struct mt_inject_rings *)(uintptr_t)r;
}

static void sync_lent(struct mt_rings *rings, struct mt_flight *f)
{
    struct mt_inject_rings *r = sync_rings(rings);
    uint32_t i = f->context;
    f->before = r->last[i];
    f->before.records = r->came[i];
    r->trace[i] = f->launch.trace;
    r->used = i >= r->used ? i + 1 : r->used;
    r->unseen = 1;
}

/* Returns 1 if no more records can arrive. */
static int sync_is_done(const struct mt_flight *f)
{
    int by_threads = !f->exits || f->exited;
    return f->cancelled || (!f->gone && f->taken >= f->counted && by_threads);
}

/* Takes a context back. If records may still arrive for it, it is not lent again: they would enter another
 * launch's trace. */
static int sync_returned(struct mt_rings *rings, struct mt_flight *f)
{
    struct mt_inject_rings *r = sync_rings(rings);
    struct mt_gpu_totals *last = &r->last[f->context];
    if (f->counted > f->taken) /* already reported, so not to be reported again */
        r->came[f->context] += f->counted - f->taken;
    last->untraced = f->before.untraced + f->untraced;
    last->repeated = f->before.repeated + f->repeated;
    return sync_is_done(f) || !f->queue;
}

static void sync_came(struct mt_rings *rings, uint32_t context, uint64_t records, int known)
{
    struct mt_inject_rings *r = sync_rings(rings);
    r->came[context] += records;
    if (!known && records)
        mt_trace_miss(r->trace[context], "records of a launch came after it was thought to have ended");
}

static const struct mt_rings_ops sync_ops = {sync_lent, sync_returned, NULL, sync_came,
                                             mt_inject_streams_close};

struct making {
    struct mt_rings_maker maker; /* first member */
    CUcontext context;
    Sanitizer_StreamHandle stream;
};

/* Host memory of the API has one address for host and device (unified addressing). */
static int sync_memory_get(struct mt_rings_maker *maker, size_t bytes, int host, void **at, uint64_t *device)
{
    const struct making *m = (struct making *)maker;
    SanitizerResult e = (host ? mt_sanitizer()->AllocHost : mt_sanitizer()->Alloc)(m->context, at, bytes);
    *device = (uint64_t)(uintptr_t)*at;
    return (int)e;
}

static int sync_put(struct mt_rings_maker *maker, void *to, const void *from, size_t bytes)
{
    const struct making *m = (struct making *)maker;
    SanitizerResult e =
        mt_sanitizer()->MemcpyHostToDeviceAsync(to, (void *)(uintptr_t)from, bytes, m->stream);
    return (
        int)(e ? e
               : mt_sanitizer()->StreamSynchronize(m->stream)); /* kernels of other streams must find it */
}

/* Makes the places where warps keep their last access. */
static void sync_make_polls(struct mt_rings *r, struct mt_rings_maker *m)
{
    size_t bytes = MT_POLLS * sizeof(struct mt_poll);
    void *empty = calloc(1, bytes), *at = mt_rings_memory(m, bytes, 0, &r->polls);
    if (!empty && !m->error)
        m->error = m->no_memory;
    if (!m->error)
        m->error = m->put(m, at, empty, bytes);
    free(empty);
}

struct mt_rings *mt_inject_rings(CUcontext context, uint64_t code, char *why, size_t size)
{
    struct making m = {
        {.no_memory = SANITIZER_ERROR_OUT_OF_MEMORY, .get = sync_memory_get, .put = sync_put}, context, NULL};
    struct mt_inject_rings *r = calloc(1, sizeof *r);
    m.maker.error = r ? (int)mt_sanitizer()->GetStreamHandle(context, NULL, &m.stream) : m.maker.no_memory;
    if (r && mt_tally_wanted())
        r->rings.tallies = mt_tally_make(&m.maker);
    else if (r)
        sync_make_polls(&r->rings, &m.maker);
    if (r) {
        mt_rings_make(&r->rings, &sync_ops, code, &m.maker);
    }
    if (m.maker.error) {
        snprintf(why, size, "no memory for records: %s", mt_sanitizer_text((SanitizerResult)m.maker.error));
        free(r);
        return NULL;
    }
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++)
        r->code[i] = code;
    mt_rings_add(&r->rings);
    return &r->rings;
}

/* ---- launch contexts ----------------------------------------------------------------------------- */

/* Sets the address near pc in f's context, in stream order: the last launch with it has ended. */
static int sync_place(struct mt_inject_rings *r, uint32_t i, uint64_t pc, Sanitizer_StreamHandle stream)
{
    uint64_t near = pc & ~15ull;
    if (!pc || pc - r->code[i] + CODE_REACH < 2 * CODE_REACH)
        return 0;
    if (mt_sanitizer()->MemcpyHostToDeviceAsync(&r->rings.contexts[i].code, &near, sizeof near, stream))
        return -1;
    r->code[i] = near;
    return 0;
}

/* Sets the kernel's number in f's context, likewise. */
static int sync_name(struct mt_inject_rings *r, uint32_t i, uint64_t kernel, Sanitizer_StreamHandle stream)
{
    if (!r->rings.tallies || kernel == r->kernel[i])
        return 0;
    if (!kernel ||
        mt_sanitizer()->MemcpyHostToDeviceAsync(&r->rings.contexts[i].kernel, &kernel, sizeof kernel, stream))
        return -1;
    r->kernel[i] = kernel;
    return 0;
}

/* Waits for launches to free a context, if launches end only at waits and the program does not wait. */
static void sync_make_room(struct mt_inject_context *c, Sanitizer_StreamHandle stream)
{
    if (!mt_inject_exits_count() && !mt_sanitizer()->StreamSynchronize(stream))
        mt_inject_synced(c, stream, mt_inject_stream_known(c->handle, stream), 0);
}

/* Returns whether launches from before this call hold contexts, which will come back without it. */
static int sync_others_hold(const struct mt_inject_context *c, const struct mt_inject_call *call)
{
    struct mt_flight_filter filter = {.rings = c->rings, .before = call->first};
    if (call->after == call->first)
        return mt_flight_count(&(struct mt_flight_filter){.rings = c->rings}) != 0;
    return call->first && mt_flight_count(&filter);
}

static void *sync_wait_for_room(struct mt_inject_context *c, struct mt_flight *f,
                                Sanitizer_StreamHandle stream, int node)
{
    struct mt_inject_call *call = mt_inject_call();
    if (node && (call->full || !sync_others_hold(c, call)))
        return NULL;
    sync_make_room(c, stream);
    void *data = mt_rings_lend(c->rings, f, PATIENCE_LEND);
    call->full = node && !data;
    return data;
}

const void *mt_inject_lend(struct mt_inject_context *c, struct mt_flight *f, uint64_t pc,
                           Sanitizer_StreamHandle stream, int node)
{
    struct mt_inject_rings *r = sync_rings(c->rings);
    char *data = mt_rings_lend(c->rings, f, 0);
    if (!data)
        data = sync_wait_for_room(c, f, stream, node);
    if (data && (sync_place(r, f->context, pc, stream) || sync_name(r, f->context, f->kernel, stream))) {
        mt_rings_return(f);
        f->rings = NULL;
        return NULL;
    }
    f->code = data ? r->code[f->context] | c->number << 56 : 0;
    if (!data || !f->exits)
        return data;
    return data + MT_CONTEXT_EXITS + (f->polls ? MT_CONTEXT_POLLS : 0);
}

/* ---- snapshots of the device --------------------------------------------------------------------- */

/* State of an idle device at one time. */
struct look {
    uint64_t heads[MT_GPU_RINGS];
    unsigned top;                                 /* contexts below this number were lent so far */
    struct mt_gpu_totals totals[MT_GPU_CONTEXTS]; /* counted by each */
    uint64_t exits[MT_GPU_CONTEXTS];              /* threads of a launch under way that have ended */
    uint32_t lending[MT_GPU_CONTEXTS];            /* its last lending; 0: still lent */
};

static void sync_look_at_lendings(struct mt_inject_rings *r, struct look *l)
{
    pthread_mutex_lock(&mt_rings_lock);
    l->top = r->used;
    r->unseen = 0;
    for (unsigned i = 0; i < l->top; i++)
        r->unseen |= !(l->lending[i] = r->rings.flight[i] ? 0 : r->rings.lending[i]);
    pthread_mutex_unlock(&mt_rings_lock);
}

/* Copies the state, in the order of `stream`. */
static SanitizerResult sync_look(struct mt_inject_rings *r, struct look *l, Sanitizer_StreamHandle stream)
{
    struct mt_gpu_ring heads[MT_GPU_RINGS];
    sync_look_at_lendings(r, l);
    struct mt_gpu_context *contexts = malloc((l->top + 1) * sizeof *contexts);
    if (!contexts)
        return SANITIZER_ERROR_OUT_OF_MEMORY;
    SanitizerResult e = mt_sanitizer()->MemcpyDeviceToHost(heads, r->rings.on_device, sizeof heads, stream);
    if (!e && l->top)
        e = mt_sanitizer()->MemcpyDeviceToHost(contexts, r->rings.contexts, l->top * sizeof *contexts,
                                               stream);
    for (unsigned i = 0; i < MT_GPU_RINGS && !e; i++)
        l->heads[i] = heads[i].head;
    for (unsigned i = 0; i < l->top && !e; i++) {
        const struct mt_gpu_context *c = &contexts[i];
        l->totals[i] = (struct mt_gpu_totals){mt_rings_records(c), c->untraced, c->repeated};
        l->exits[i] = c->exits;
    }
    free(contexts);
    return e;
}

static void sync_differs(struct mt_trace *trace, uint64_t made, uint64_t came)
{
    static atomic_int said;
    if (!atomic_exchange(&said, 1))
        mt_report("a launch context made %llu records, %llu arrived; its trace is incomplete (said once)",
                  (unsigned long long)made, (unsigned long long)came);
    mt_trace_miss(trace, "the device counted other records than arrived");
}

static atomic_int exits_wrong;

int mt_inject_exits_count(void)
{
    return !exits_wrong;
}

static void sync_exits_wrong(void)
{
    if (!atomic_exchange(&exits_wrong, 1))
        mt_say("threads do not say when they end as expected; launches end when the program waits for them");
}

/* Compares the numbers of records made and received, for contexts that were free then and since. Reports a
 * difference once. Exits that count for no launch are wrong: there were more of them than threads. */
static void sync_compare(struct mt_inject_rings *r, const struct look *l)
{
    for (unsigned i = 0; i < l->top; i++) {
        uint64_t made = l->totals[i].records;
        pthread_mutex_lock(&mt_rings_lock);
        int same = l->lending[i] && l->lending[i] == r->rings.lending[i] && !r->rings.flight[i];
        uint64_t came = r->came[i];
        if (same && came != made)
            r->came[i] = made;
        pthread_mutex_unlock(&mt_rings_lock);
        if (same && came != made)
            sync_differs(r->trace[i], made, came);
        if (same && l->exits[i])
            sync_exits_wrong();
    }
}

/* ---- ends of launches ---- */

struct sync_mark {
    const struct mt_flight_filter *filter;
    const struct look *look;
    unsigned wrong; /* number of launches whose threads did not report their exits */
};

/* Called with the list locked; the reader has no more records of it. */
static void sync_end_one(struct mt_flight *f, void *data)
{
    struct sync_mark *m = data;
    if (!mt_flight_matches(f, m->filter) || f->ended || f->gone || f->cancelled || f->issuing)
        return;
    int seen = f->context < m->look->top;
    mt_flight_counted(f, seen ? &m->look->totals[f->context] : &f->before);
    m->wrong +=
        f->exits && (f->counted || (seen && m->look->exits[f->context])); /* else it may never have run */
}

/* ---- waits ---- */

/* Ends the launches of the filter, all complete. */
static void sync_ended(struct mt_inject_rings *r, const struct mt_flight_filter *filter,
                       const struct look *look)
{
    struct sync_mark m = {.filter = filter, .look = look};
    if (mt_rings_pass(&r->rings, look->heads, filter, PATIENCE_SYNCED)) {
        mt_flight_give_up(filter, 0, "what they wrote was not read");
        return;
    }
    mt_flight_each(sync_end_one, &m);
    if (m.wrong)
        sync_exits_wrong();
    if (mt_flight_end(filter, PATIENCE_SYNCED, NULL, NULL))
        mt_flight_give_up(filter, 0, "records that it counted have not come");
}

/* Ends launches whose number of records is known only from their threads. */
static void sync_unseen(const struct mt_flight_filter *filter)
{
    if (mt_flight_end(filter, 1, NULL, NULL))
        mt_flight_give_up(filter, 0, "how much they wrote cannot be read");
}

/* Returns the first launch number not covered by the wait; all earlier launches have ended. 0: unknown, since
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
    if (!r->unseen && !mt_flight_count(filter))
        return;
    struct look *look = calloc(1, sizeof *look);
    if (look && sync_look(r, look, stream)) {
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
        sync_compare(r, look);
    free(look);
}

static void sync_failure(const struct mt_flight_filter *filter, int error)
{
    char why[40];
    if (!mt_flight_count(filter))
        return;
    snprintf(why, sizeof why, "CUDA error %d", error);
    if (mt_flight_end(filter, 1, NULL, NULL))
        mt_flight_give_up(filter, error, why);
}

void mt_inject_synced(struct mt_inject_context *c, Sanitizer_StreamHandle stream,
                      const struct mt_trace *trace, int error)
{
    if (!c || !c->rings || mt_rings_closed())
        return;
    struct mt_flight_filter filter = {.trace = trace, .rings = c->rings};
    if (mt_error_stays(error))
        sync_failure(&filter, error);
    else if (!error)
        sync_success(sync_rings(c->rings), stream, &filter);
}

/* Returns 1 if the wait has a line of its own; a copy, which also waits, has none. */
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
    struct mt_flight_filter filter = {.rings = c ? c->rings : NULL};
    if (!mt_flight_count(&filter))
        return;
    if (!mt_inject_exits_count())
        mt_inject_streams(sync_stream, c);
    if (mt_flight_end(&filter, PATIENCE_EXIT, NULL, NULL))
        mt_flight_give_up(&filter, 0, why);
}
