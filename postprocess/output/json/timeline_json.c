/* The run's timeline in Chrome's Trace Event Format: "X" a launch, "i" a copy, "b" and "e" an NVTX range, "s"
 * and "f" the ends of a flow, "M" names. Times are microseconds since the first event. */
#define _GNU_SOURCE
#include "timeline_json.h"
#include "comm_json.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { DEVICE = 1, HOST = 2 }; /* processes of the timeline */
enum { STREAMS = 1 << 30 };    /* tid of stream 0: no thread of Linux has such a number */
enum { FLOWS = 2000 };         /* drawn; the largest ones */

struct timeline {
    struct mt_json *j;
    const struct mt_comm_result *r;
    uint64_t zero;                           /* ns */
    int ordered;                             /* no launch has a time: each takes a microsecond */
    const struct mt_launch_event **untraced; /* each event once, by number */
    const struct mt_copy_event **copies;
    const struct mt_range_event **ranges;
    size_t nuntraced, ncopies, nranges, timeless, left_out;
};

/* ---- events of all companions, each once ---- */

MT_ORDER_POINTED_1(launch_by_seq, struct mt_launch_event, seq)
MT_ORDER_POINTED_1(copy_by_seq, struct mt_copy_event, seq)
MT_ORDER_POINTED_1(range_by_seq, struct mt_range_event, seq)

static int timeline_json_gather(struct timeline *t)
{
    size_t launches = 1, copies = 1, ranges = 1;
    for (size_t i = 0; i < t->r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(t->r->source, i);
        launches += c ? c->nlaunches : 0;
        copies += c ? c->ncopies : 0;
        ranges += c ? c->nranges : 0;
    }
    t->untraced = malloc(launches * sizeof *t->untraced);
    t->copies = malloc(copies * sizeof *t->copies);
    t->ranges = malloc(ranges * sizeof *t->ranges);
    if (!t->untraced || !t->copies || !t->ranges)
        return -1;
    for (size_t i = 0; i < t->r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(t->r->source, i);
        for (size_t k = 0; c && k < c->nlaunches; k++)
            if (!c->launches[k].traced)
                t->untraced[t->nuntraced++] = &c->launches[k];
        for (size_t k = 0; c && k < c->ncopies; k++)
            t->copies[t->ncopies++] = &c->copies[k];
        for (size_t k = 0; c && k < c->nranges; k++)
            t->ranges[t->nranges++] = &c->ranges[k];
    }
    t->nuntraced = mt_order_once(t->untraced, t->nuntraced, sizeof *t->untraced, launch_by_seq);
    t->ncopies = mt_order_once(t->copies, t->ncopies, sizeof *t->copies, copy_by_seq);
    t->nranges = mt_order_once(t->ranges, t->nranges, sizeof *t->ranges, range_by_seq);
    return 0;
}

/* ---- times ---- */

static int timeline_json_timed(const struct mt_launch_event *e)
{
    return e && e->begin_ns && e->end_ns >= e->begin_ns;
}

static void timeline_json_least(uint64_t *zero, uint64_t ns)
{
    if (ns && ns < *zero)
        *zero = ns;
}

static void timeline_json_zero(struct timeline *t)
{
    size_t timed = 0;
    t->zero = UINT64_MAX;
    for (size_t i = 0; i < t->r->comm->nlaunches; i++)
        if (timeline_json_timed(t->r->events[i])) {
            timed++;
            timeline_json_least(&t->zero, t->r->events[i]->begin_ns);
        }
    for (size_t i = 0; i < t->nuntraced; i++)
        timeline_json_least(&t->zero, t->untraced[i]->begin_ns);
    for (size_t i = 0; i < t->ncopies; i++)
        timeline_json_least(&t->zero, t->copies[i]->begin_ns);
    for (size_t i = 0; i < t->nranges; i++)
        timeline_json_least(&t->zero, t->ranges[i]->begin_ns);
    t->ordered = !timed;
    t->timeless = t->ordered ? 0 : t->r->comm->nlaunches - timed;
}

static void timeline_json_time(const struct timeline *t, const char *key, uint64_t ns)
{
    mt_json_real(t->j, key, (double)(ns - t->zero) / 1e3);
}

/* ---- events ---- */

/* What all have; the object stays open. */
static void timeline_json_begin(const struct timeline *t, const char *phase, const char *name, int process,
                                uint64_t thread)
{
    mt_json_object(t->j, NULL, 1);
    mt_json_text(t->j, "ph", phase);
    mt_json_text(t->j, "name", name);
    mt_json_u64(t->j, "pid", (uint64_t)process);
    /* Perfetto knows threads by their number alone, of whatever process, and 0 is nobody's. */
    uint64_t number = process == DEVICE ? STREAMS + thread % STREAMS : thread % STREAMS;
    mt_json_u64(t->j, "tid", number ? number : (uint64_t)process);
}

static void timeline_json_name(const struct timeline *t, const char *what, int process, uint64_t thread,
                               const char *name)
{
    timeline_json_begin(t, "M", what, process, thread);
    mt_json_object(t->j, "args", 1);
    mt_json_text(t->j, "name", name);
    mt_json_end(t->j);
    mt_json_end(t->j);
}

static uint64_t timeline_json_stream(const struct mt_launch_event *e)
{
    return e ? e->stream & INT32_MAX : 0;
}

/* Names of processes, and of each stream that something is in. 0, or -1 without memory. */
static int timeline_json_names(const struct timeline *t)
{
    const struct mt_companion *c = t->r->ninputs ? mt_source_companion(t->r->source, 0) : NULL;
    const char *slash = c ? strrchr(c->program, '/') : NULL;
    uint64_t *streams = malloc((t->r->comm->nlaunches + t->nuntraced + t->ncopies + 1) * sizeof *streams);
    size_t n = 0;
    char text[64];
    if (!streams)
        return -1;
    for (size_t i = 0; i < t->r->comm->nlaunches; i++)
        streams[n++] = timeline_json_stream(t->r->events[i]);
    for (size_t i = 0; i < t->nuntraced; i++)
        streams[n++] = timeline_json_stream(t->untraced[i]);
    for (size_t i = 0; i < t->ncopies; i++)
        if (t->copies[i]->stream >= 0)
            streams[n++] = (uint64_t)t->copies[i]->stream & INT32_MAX;
    qsort(streams, n, sizeof *streams, mt_order_u64);
    timeline_json_name(t, "process_name", DEVICE, 0, slash && slash[1] ? slash + 1 : "device");
    timeline_json_name(t, "process_name", HOST, 0, "host");
    for (size_t i = 0; i < n; i++) {
        if (i && streams[i] == streams[i - 1])
            continue;
        snprintf(text, sizeof text, "stream %llu", (unsigned long long)streams[i]);
        timeline_json_name(t, "thread_name", DEVICE, streams[i], text);
    }
    free(streams);
    return 0;
}

static void timeline_json_shape(const struct timeline *t, const struct mt_launch_event *e)
{
    char text[128];
    if (!e)
        return;
    for (int i = 0; i < 2; i++) {
        const uint64_t *d = i ? e->block : e->grid;
        snprintf(text, sizeof text, "%llu x %llu x %llu", (unsigned long long)d[0], (unsigned long long)d[1],
                 (unsigned long long)d[2]);
        mt_json_text(t->j, i ? "block" : "grid", text);
    }
    if (*e->file) {
        mt_json_text(t->j, "file", e->file);
        mt_json_u64(t->j, "line", e->line);
    }
    if (*e->library)
        mt_json_text(t->j, "library", e->library);
}

/* Begin and length of a launch in the timeline; 0: it has no place there. */
static int timeline_json_place(const struct timeline *t, size_t launch, uint64_t *begin, uint64_t *length)
{
    const struct mt_launch_event *e = t->r->events[launch];
    *begin = t->ordered ? 1000 * launch : timeline_json_timed(e) ? e->begin_ns : 0;
    *length = t->ordered ? 1000 : timeline_json_timed(e) ? e->end_ns - e->begin_ns : 0;
    return t->ordered || timeline_json_timed(e);
}

static void timeline_json_launch(const struct timeline *t, size_t i)
{
    const struct mt_comm *c = t->r->comm;
    uint64_t begin, length;
    if (!c->launches[i].selected || !timeline_json_place(t, i, &begin, &length))
        return;
    const struct mt_volume v = mt_volume_of_launch(c, i);
    timeline_json_begin(t, "X", c->launches[i].kernel, DEVICE, timeline_json_stream(t->r->events[i]));
    mt_json_text(t->j, "cat", "kernel");
    timeline_json_time(t, "ts", begin);
    mt_json_real(t->j, "dur", (double)length / 1e3);
    mt_json_object(t->j, "args", 1);
    mt_json_u64(t->j, "superstep", i);
    timeline_json_shape(t, t->r->events[i]);
    mt_json_u64(t->j, "load", v.load);
    mt_json_u64(t->j, "store", v.store);
    mt_json_u64(t->j, "comm_load", v.comm_load);
    mt_json_u64(t->j, "comm_store", v.comm_store);
    mt_json_object(t->j, mt_section_names[MT_SENDERS], 1);
    for (int s = 0; s < MT_SENDER_KINDS; s++)
        mt_json_u64(t->j, mt_sender_names[s], v.from[s]);
    mt_json_end(t->j);
    mt_json_end(t->j);
    mt_json_end(t->j);
}

static void timeline_json_untraced(const struct timeline *t)
{
    for (size_t i = 0; i < t->nuntraced && !t->ordered; i++) {
        const struct mt_launch_event *e = t->untraced[i];
        if (!timeline_json_timed(e))
            continue;
        timeline_json_begin(t, "X", e->kernel, DEVICE, timeline_json_stream(e));
        mt_json_text(t->j, "cat", "untraced");
        timeline_json_time(t, "ts", e->begin_ns);
        mt_json_real(t->j, "dur", (double)(e->end_ns - e->begin_ns) / 1e3);
        mt_json_object(t->j, "args", 1);
        timeline_json_shape(t, e);
        mt_json_end(t->j);
        mt_json_end(t->j);
    }
}

static void timeline_json_copies(const struct timeline *t)
{
    static const char *const names[] = {
        [MT_COPY_H2H] = "memcpy h2h", [MT_COPY_H2D] = "memcpy h2d", [MT_COPY_D2H] = "memcpy d2h",
        [MT_COPY_D2D] = "memcpy d2d", [MT_COPY_SET] = "memset",     [MT_COPY_NEW] = "new memory"};
    for (size_t i = 0; i < t->ncopies && !t->ordered; i++) {
        const struct mt_copy_event *c = t->copies[i];
        if (!c->begin_ns)
            continue;
        timeline_json_begin(t, "i", names[c->kind], c->stream < 0 ? HOST : DEVICE,
                            c->stream < 0 ? 0 : (uint64_t)c->stream);
        mt_json_text(t->j, "cat", "copy");
        mt_json_text(t->j, "s", "t"); /* the mark is as high as its track */
        timeline_json_time(t, "ts", c->begin_ns);
        mt_json_object(t->j, "args", 1);
        mt_json_u64(t->j, "bytes", c->width * c->height);
        mt_json_end(t->j);
        mt_json_end(t->j);
    }
}

/* They may overlap in any way: asynchronous events, each with a number. */
static void timeline_json_ranges(const struct timeline *t)
{
    for (size_t i = 0; i < t->nranges && !t->ordered; i++) {
        const struct mt_range_event *e = t->ranges[i];
        if (!e->begin_ns || e->end_ns < e->begin_ns)
            continue;
        for (int end = 0; end < 2; end++) {
            timeline_json_begin(t, end ? "e" : "b", e->name, HOST, e->thread);
            mt_json_text(t->j, "cat", "nvtx");
            mt_json_u64(t->j, "id", i + 1);
            timeline_json_time(t, "ts", end ? e->end_ns : e->begin_ns);
            mt_json_object(t->j, "args", 1);
            mt_json_text(t->j, "domain", e->domain);
            mt_json_end(t->j);
            mt_json_end(t->j);
        }
    }
}

/* ---- flows ---- */

static int timeline_json_by_bytes(const void *a, const void *b)
{
    const struct mt_sent *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    return x->dst < y->dst ? -1 : x->dst > y->dst;
}

/* An end lies within its launch: just before the writer's end, at the loader's beginning. */
static void timeline_json_end(const struct timeline *t, const struct mt_sent *f, uint64_t id, int last)
{
    size_t launch = last ? f->dst : f->src;
    uint64_t begin, length;
    if (!timeline_json_place(t, launch, &begin, &length))
        return;
    timeline_json_begin(t, last ? "f" : "s", "transfer", DEVICE, timeline_json_stream(t->r->events[launch]));
    mt_json_text(t->j, "cat", "transfer");
    mt_json_u64(t->j, "id", id);
    timeline_json_time(t, "ts", last || !length ? begin : begin + length - 1);
    if (last)
        mt_json_text(t->j, "bp", "e");
    mt_json_object(t->j, "args", 1);
    mt_json_u64(t->j, "bytes", f->bytes);
    mt_json_end(t->j);
    mt_json_end(t->j);
}

static int timeline_json_flows(struct timeline *t)
{
    size_t n, drawn = 0;
    struct mt_sent *list = mt_sent_of(t->r->comm, NULL, &n);
    if (!list)
        return -1;
    qsort(list, n, sizeof *list, timeline_json_by_bytes);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin, length;
        size_t from = list[i].src, to = list[i].dst;
        if (from == to || from == MT_SENT_HOST || to == MT_SENT_HOST)
            continue;
        if (drawn == FLOWS || !t->r->comm->launches[from].selected || !t->r->comm->launches[to].selected ||
            !timeline_json_place(t, from, &begin, &length) || !timeline_json_place(t, to, &begin, &length)) {
            t->left_out++;
            continue;
        }
        drawn++;
        timeline_json_end(t, &list[i], drawn, 0);
        timeline_json_end(t, &list[i], drawn, 1);
    }
    free(list);
    return 0;
}

static void timeline_json_head(const struct timeline *t)
{
    mt_json_object(t->j, "otherData", 1);
    mt_json_text(t->j, "format", "memtrace timeline");
    mt_json_text(t->j, "tool", "mt-extract " MEMTRACE_VERSION);
    mt_json_known(t->j, "complete", t->r->complete);
    mt_json_text(t->j, "times",
                 t->ordered ? "not known: launches in their order, a microsecond each" : "of the companion");
    mt_json_u64(t->j, "launches_without_time", t->timeless);
    mt_json_u64(t->j, "flows_left_out", t->left_out);
    mt_json_end(t->j);
}

int mt_timeline_write(struct mt_json *j, const struct mt_comm_result *r)
{
    struct timeline t = {.j = j, .r = r};
    int rc = timeline_json_gather(&t);
    if (rc == 0) {
        timeline_json_zero(&t);
        t.zero = t.ordered ? 0 : t.zero;
        mt_json_object(j, NULL, 0);
        mt_json_text(j, "displayTimeUnit", "ns");
        mt_json_array(j, "traceEvents", 0);
        rc = timeline_json_names(&t);
        for (size_t i = 0; i < r->comm->nlaunches; i++)
            timeline_json_launch(&t, i);
        timeline_json_untraced(&t);
        timeline_json_copies(&t);
        timeline_json_ranges(&t);
        rc = rc ? rc : timeline_json_flows(&t);
        mt_json_end(j);
        timeline_json_head(&t);
        mt_json_end(j);
    }
    free(t.untraced);
    free(t.copies);
    free(t.ranges);
    return rc;
}
