/* Sorts the results of the communication analysis and writes comm.json and the timeline. */
#define _GNU_SOURCE

#include "comm_json.h"
#include "memtrace/order.h"
#include "memtrace/grow.h"

#include <stdlib.h>
#include <string.h>

/* ---- The section transfers, sorted for output ---- */

/* One end of a transfer; sorted by kernel, CTA, launch. */
struct end {
    const char *kernel;
    uint64_t cta; /* for the host, the rank of the place */
    uint32_t kernel_rank, superstep;
    uint32_t id; /* CTA instance, or MT_ENTRY_HOST | host actor */
};

MT_ORDER_3(end_order, struct end, kernel_rank, cta, superstep)

struct sorted {
    uint64_t key; /* rank of the source, then rank of the destination */
    size_t transfer;
};

MT_ORDER_1(sorted_order, struct sorted, key)

/* Returns 1 if two transfers agree at a nesting level of the output (0 to 5). */
static int same_level(const struct end *const a[2], const struct end *const b[2], int level)
{
    const struct end *x = a[level / 3], *y = b[level / 3];
    switch (level % 3) {
    case 0:
        return mt_order_text(x->kernel, y->kernel) == 0;
    case 1:
        return x->cta == y->cta;
    default:
        return x->superstep == y->superstep;
    }
}

static const char *end_key(char *out, const struct mt_comm *c, const struct end *e, int level)
{
    if (level == 0)
        return e->kernel;
    if (level == 2)
        return mt_key_u64(out, e->superstep);
    return e->id & MT_ENTRY_HOST ? mt_comm_location_name(c, c->hosts[e->id & MT_ENTRY_MAX].place)
                                 : mt_cta_key(out, e->cta);
}

static void write_transfer(struct mt_json *j, const struct mt_comm *c, const struct mt_transfer *t,
                           const struct end *const at[2], const struct end *const before[2])
{
    int level = 0;
    char key[64];
    if (before[0]) {
        while (same_level(at, before, level))
            level++;
        for (int i = 5; i > level; i--)
            mt_json_end(j);
    }
    for (; level < 5; level++)
        mt_json_object(j, end_key(key, c, at[level / 3], level % 3), 0);
    mt_json_object(j, end_key(key, c, at[1], 2), 1);
    mt_json_u64(j, "Size", t->size);
    mt_json_u64(j, "cnt", t->count);
    if (!(t->src & MT_ENTRY_HOST) && at[0]->superstep == at[1]->superstep)
        mt_json_bool(j, "unordered", 1);
    mt_json_end(j);
}

static int name_order(const void *a, const void *b, void *arg)
{
    return strcmp(mt_comm_location_name(arg, *(const uint32_t *)a),
                  mt_comm_location_name(arg, *(const uint32_t *)b));
}

/* Returns rank[place], the order of the places' names; NULL: no memory. */
static uint32_t *rank_places(const struct mt_comm *c)
{
    uint32_t *order = malloc(c->places.all.count * sizeof *order),
             *rank = malloc(c->places.all.count * sizeof *rank);
    if (order && rank) {
        for (uint32_t i = 0; i < c->places.all.count; i++)
            order[i] = i;
        qsort_r(order, c->places.all.count, sizeof *order, name_order, (void *)c);
        for (uint32_t i = 0; i < c->places.all.count; i++)
            rank[order[i]] = i;
    } else {
        free(rank);
        rank = NULL;
    }
    free(order);
    return rank;
}

static size_t comm_json_end_of(const struct mt_comm *c, uint32_t id)
{
    return id & MT_ENTRY_HOST ? c->nactors + (id & MT_ENTRY_MAX) : id;
}

/* Returns all ends in order, and fills rank[comm_json_end_of(id)]. */
static struct end *sort_ends(const struct mt_comm *c, const size_t *order, uint32_t *rank, size_t *count)
{
    struct end *ends = malloc((c->nactors + c->nhosts + 1) * sizeof *ends);
    uint32_t *kernel_rank = malloc((c->nlaunches + 1) * sizeof *kernel_rank), *place_rank = rank_places(c);
    uint32_t host_rank = 0, r = 1;
    size_t n = 0;
    if (!ends || !kernel_rank || !place_rank)
        goto out;
    for (size_t i = 0; i < c->nlaunches; i++) {
        const char *name = c->launches[order[i]].kernel;
        if (i > 0 && mt_order_text(name, c->launches[order[i - 1]].kernel))
            r += 2;
        kernel_rank[order[i]] = r;
        if (strcmp(name, MT_HOST_NAME) < 0)
            host_rank = r + 1;
    }
    for (uint32_t i = 1; i < c->nactors; i++) {
        const struct mt_actor *a = &c->actors[i];
        if (a->instance == i)
            ends[n++] = (struct end){c->launches[a->launch].kernel, mt_cta_order(a->cta),
                                     kernel_rank[a->launch], a->launch, i};
    }
    for (uint32_t i = 0; i < c->nhosts; i++)
        ends[n++] = (struct end){MT_HOST_NAME, place_rank[c->hosts[i].place], host_rank,
                                 c->hosts[i].superstep, MT_ENTRY_HOST | i};
    qsort(ends, n, sizeof *ends, end_order);
    for (size_t i = 0; i < n; i++)
        rank[comm_json_end_of(c, ends[i].id)] = (uint32_t)i;
    *count = n;
out:
    if (!kernel_rank || !place_rank) {
        free(ends);
        ends = NULL;
    }
    free(kernel_rank);
    free(place_rank);
    return ends;
}

/* Writes the section transfers. `order`: launches by kernel, then number. Returns 0, or -1 without memory. */
static int transfers_write(struct mt_json *j, const struct mt_comm *c, const size_t *order)
{
    int rc = -1;
    size_t n;
    uint32_t *rank = malloc((c->nactors + c->nhosts + 1) * sizeof *rank);
    struct sorted *sorted = malloc((c->ntransfers + 1) * sizeof *sorted);
    struct end *ends = rank ? sort_ends(c, order, rank, &n) : NULL;
    if (!ends || !sorted)
        goto out;
    for (size_t i = 0; i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        sorted[i] = (struct sorted){
            (uint64_t)rank[comm_json_end_of(c, t->src)] << 32 | rank[comm_json_end_of(c, t->dst)], i};
    }
    qsort(sorted, c->ntransfers, sizeof *sorted, sorted_order);
    mt_json_object(j, mt_section_names[MT_TRANSFERS], 0);
    const struct end *before[2] = {NULL, NULL};
    for (size_t i = 0; i < c->ntransfers; i++) {
        const struct end *at[2] = {&ends[sorted[i].key >> 32], &ends[sorted[i].key & 0xffffffff]};
        write_transfer(j, c, &c->transfers[sorted[i].transfer], at, before);
        before[0] = at[0];
        before[1] = at[1];
    }
    for (int i = 0; i < 5 && before[0]; i++)
        mt_json_end(j);
    mt_json_end(j);
    rc = 0;
out:
    free(rank);
    free(sorted);
    free(ends);
    return rc;
}

/* ---- The section addresses: a line per operation, assembled from cached pieces ---- */

/* Cached text of a line about its CTA, without the kernel's name. */
struct who_text {
    uint32_t who; /* actor + 1; 0: none cached */
    unsigned char before_n, after_n;
    char before[80], after[32]; /* text before and after the address */
};
enum { WHO_TEXTS = 1024 };

struct writer {
    struct mt_json *json;
    const struct mt_addresses *a;
    const struct mt_comm *comm;
    const volatile sig_atomic_t *stop;
    int open;           /* 1: the list of a key is open */
    uint64_t superstep; /* launch whose kernel `kernel` describes: "{"kernel": NAME" */
    char *kernel;
    size_t kernel_n;
    char *line; /* text of the last operation written */
    size_t line_n, line_room;
    uint64_t key;
    uint32_t last_who, last_what;
    struct who_text *texts;
};

static char *addresses_json_digits(char *out, uint64_t v)
{
    char d[20], *s = d + sizeof d;
    do
        *--s = (char)('0' + v % 10);
    while (v /= 10);
    size_t n = (size_t)(d + sizeof d - s);
    memcpy(out, s, n);
    return out + n;
}

static char *addresses_json_text(char *out, const char *s)
{
    size_t n = strlen(s);
    memcpy(out, s, n);
    return out + n;
}

static char *addresses_json_hex(char *out, uint64_t v)
{
    int shift = v ? (63 - __builtin_clzll(v)) / 4 * 4 : 0;
    for (; shift >= 0; shift -= 4)
        *out++ = "0123456789abcdef"[v >> shift & 15];
    return out;
}

static const struct who_text *comm_json_text_of(struct writer *w, uint32_t who)
{
    struct who_text *t = &w->texts[who % WHO_TEXTS];
    if (t->who == who + 1)
        return t;
    const struct mt_operator *o = &w->a->who[who];
    struct mt_raw_record r = {{0, 0, o->cta}};
    char *p = addresses_json_digits(addresses_json_text(t->before, ", \"it\": "), o->superstep);
    p = addresses_json_digits(addresses_json_text(p, ", \"cta\": ["), mt_rec_cta_x(&r));
    p = addresses_json_digits(addresses_json_text(p, ", "), mt_rec_cta_y(&r));
    p = addresses_json_digits(addresses_json_text(p, ", "), mt_rec_cta_z(&r));
    t->before_n = (unsigned char)(addresses_json_text(p, "], \"addr\": \"0x") - t->before);
    t->after_n =
        (unsigned char)(addresses_json_digits(addresses_json_text(t->after, "\", \"smid\": "), o->smid) -
                        t->after);
    t->who = who + 1;
    return t;
}

/* Caches the part of the line with the kernel's name, quoted by the JSON writer. */
static int comm_json_kernel_of(struct writer *w, uint64_t superstep)
{
    if (w->kernel && w->superstep == superstep)
        return 0;
    const char *name = w->comm->launches[superstep].kernel;
    if (!w->kernel || strcmp(w->comm->launches[w->superstep].kernel, name) != 0) {
        char *quoted = mt_json_quoted(name);
        size_t n = quoted ? strlen(quoted) : 0;
        char *kernel = quoted ? malloc(n + 16) : NULL;
        if (kernel) {
            free(w->kernel);
            w->kernel = kernel;
            w->kernel_n =
                (size_t)(addresses_json_text(addresses_json_text(kernel, "{\"kernel\": "), quoted) - kernel);
        }
        free(quoted);
        if (!kernel)
            return -1;
    }
    w->superstep = superstep;
    return 0;
}

static int make_line(struct writer *w, const struct mt_operation *op)
{
    static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = ", \"type\": \"" text "\"}",
#include "memtrace/record.def"
    };
    const struct who_text *t = comm_json_text_of(w, op->who);
    const struct mt_operation_kind *kind = &w->a->what[op->what];
    if (comm_json_kernel_of(w, w->a->who[op->who].superstep) != 0)
        return -1;
    if (mt_grow(&w->line, &w->line_room, w->kernel_n + 256, 1) != 0)
        return -1;
    char *p = w->line;
    memcpy(p, w->kernel, w->kernel_n);
    p += w->kernel_n;
    memcpy(p, t->before, sizeof t->before);
    p = addresses_json_hex(p + t->before_n, w->key - kind->before);
    memcpy(p, t->after, sizeof t->after);
    p = addresses_json_digits(addresses_json_text(p + t->after_n, ", \"size\": "),
                              kind->meta & MT_RAW_MAX_SIZE);
    p = addresses_json_text(p, types[kind->meta >> 28]);
    w->line_n = (size_t)(p - w->line);
    w->last_who = op->who;
    w->last_what = op->what;
    return 0;
}

static int write_key(void *arg, uint64_t key)
{
    struct writer *w = arg;
    char name[64];
    if (w->open)
        mt_json_end(w->json);
    w->open = 1;
    w->key = key;
    w->last_who = UINT32_MAX;
    mt_json_array(w->json, mt_key_hex(name, key), 0);
    return w->stop && *w->stop ? 1 : w->json->error ? 1 : 0;
}

static int write_operations(void *arg, uint64_t key, const struct mt_operation *op, size_t n)
{
    struct writer *w = arg;
    for (size_t i = 0; i < n; i++) {
        if ((op[i].who != w->last_who || op[i].what != w->last_what) && make_line(w, &op[i]) != 0)
            return -1;
        mt_json_raw(w->json, w->line, w->line_n, op[i].count);
    }
    return w->stop && *w->stop ? 1 : 0;
}

int mt_addresses_write(struct mt_json *j, struct mt_addresses *a, const struct mt_comm *c,
                       const volatile sig_atomic_t *stop)
{
    static const struct mt_addresses_visitor visitor = {write_key, write_operations};
    struct writer w = {.json = j, .a = a, .comm = c, .stop = stop};
    w.texts = calloc(WHO_TEXTS, sizeof *w.texts);
    int rc = w.texts ? mt_addresses_visit(a, &visitor, &w) : -1;
    if (w.open)
        mt_json_end(j);
    free(w.texts);
    free(w.kernel);
    free(w.line);
    return rc;
}

/* Timeline in Chrome's Trace Event Format: "X" is a launch, "i" a copy, "b" and "e" an NVTX range, "s" and
 * "f" the ends of a flow, "M" a name. Times are in microseconds since the first event. */

enum { DEVICE = 1, HOST = 2 }; /* processes of the timeline */
enum { STREAMS = 1 << 30 };    /* tid of stream 0, larger than any thread number of Linux */
enum { FLOWS = 2000 };         /* number of flows drawn, the largest first */

struct timeline {
    struct mt_json *j;
    const struct mt_comm_result *r;
    uint64_t zero;                           /* time of the first event, in ns */
    int ordered;                             /* 1: no launch has a time, so each takes a microsecond */
    const struct mt_launch_event **untraced; /* untraced launches, each once, by number */
    const struct mt_copy_event **copies;
    const struct mt_range_event **ranges;
    size_t nuntraced, ncopies, nranges, timeless, left_out;
};

/* ---- launches of all companions, each once ---- */

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

/* Begins an event with the members that all have; the object stays open. */
static void timeline_json_begin(const struct timeline *t, const char *phase, const char *name, int process,
                                uint64_t thread)
{
    mt_json_object(t->j, NULL, 1);
    mt_json_text(t->j, "ph", phase);
    mt_json_text(t->j, "name", name);
    mt_json_u64(t->j, "pid", (uint64_t)process);
    /* Perfetto identifies threads by number across processes, and ignores number 0. */
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

/* Writes the names of the processes and of each stream in use. Returns 0, or -1 without memory. */
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

/* Computes begin and length of a launch in the timeline. Returns 0 if it is not shown. */
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
        mt_json_text(t->j, "s", "t"); /* the mark spans its track */
        timeline_json_time(t, "ts", c->begin_ns);
        mt_json_object(t->j, "args", 1);
        mt_json_u64(t->j, "bytes", c->width * c->height);
        mt_json_end(t->j);
        mt_json_end(t->j);
    }
}

/* Writes NVTX ranges as asynchronous events, each with a number, since they may overlap in any way. */
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

MT_ORDER_FUNCTION(timeline_json_by_bytes, struct mt_sent,
                  MT_ORDER_DIFFER(y, x, bytes) MT_ORDER_DIFFER(x, y, src) MT_ORDER_DIFFER(x, y, dst))

/* Writes one end of a flow inside its launch: just before the writer's end, or at the reader's begin. */
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

/* ---- volumes ---- */

static void write_volume(struct mt_json *j, const char *key, uint64_t load, uint64_t store)
{
    mt_json_object(j, key, 1);
    mt_json_u64(j, "Load", load);
    mt_json_u64(j, "Store", store);
    mt_json_end(j);
}

/* Writes the volumes of one launch: by CTA, by SM, or in total. */
static void write_launch(struct mt_json *j, const struct mt_comm *c, size_t superstep,
                         enum mt_section section, struct mt_volume *rows)
{
    int comm = section == MT_KCV || section == MT_CCV || section == MT_SCV;
    enum mt_volume_by by = section == MT_CCV || section == MT_CDV   ? MT_VOLUME_CTA
                           : section == MT_SCV || section == MT_SDV ? MT_VOLUME_SM
                                                                    : MT_VOLUME_LAUNCH;
    size_t n = mt_volumes_of(c, superstep, by, rows);
    char key[64];
    mt_key_u64(key, superstep);
    if (section == MT_SENDERS) {
        mt_json_object(j, key, 1);
        for (int s = 0; s < MT_SENDER_KINDS; s++)
            mt_json_u64(j, mt_sender_names[s], rows->from[s]);
        mt_json_end(j);
        return;
    }
    if (by != MT_VOLUME_LAUNCH)
        mt_json_object(j, key, 0);
    for (size_t i = 0; i < n; i++) {
        if (by == MT_VOLUME_CTA)
            mt_cta_key(key, rows[i].key);
        else if (by == MT_VOLUME_SM)
            mt_key_u64(key, rows[i].key);
        write_volume(j, key, comm ? rows[i].comm_load : rows[i].load,
                     comm ? rows[i].comm_store : rows[i].store);
    }
    if (by != MT_VOLUME_LAUNCH)
        mt_json_end(j);
}

static void write_volumes(struct mt_json *j, const struct mt_comm *c, const size_t *order, size_t n,
                          enum mt_section section, struct mt_volume *cells)
{
    mt_json_object(j, mt_section_names[section], 0);
    const char *open = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct mt_comm_launch *l = &c->launches[order[i]];
        if (!l->selected)
            continue;
        if (!open || strcmp(open, l->kernel) != 0) {
            if (open)
                mt_json_end(j);
            mt_json_object(j, l->kernel, 0);
            open = l->kernel;
        }
        write_launch(j, c, order[i], section, cells);
    }
    if (open)
        mt_json_end(j);
    mt_json_end(j);
}

/* ---- the host ---- */

static int host_order(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    const struct mt_host_actor *x = &c->hosts[*(const uint32_t *)a], *y = &c->hosts[*(const uint32_t *)b];
    int d = x->place == y->place
                ? 0
                : strcmp(mt_comm_location_name(c, x->place), mt_comm_location_name(c, y->place));
    return d ? d : x->superstep < y->superstep ? -1 : x->superstep > y->superstep;
}

/* Omits places without volumes, since host code touches much that does not matter here. */
static void write_host(struct mt_json *j, const struct mt_comm *c, const uint32_t *order, size_t n,
                       enum mt_section section)
{
    mt_json_object(j, mt_section_names[section], 0);
    const struct mt_host_actor *open = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct mt_host_actor *h = &c->hosts[order[i]];
        uint64_t load = section == MT_HCV ? h->comm_load : h->load;
        uint64_t store = section == MT_HCV ? h->comm_store : h->store;
        char key[64];
        if ((load | store) == 0)
            continue;
        if (!open || open->place != h->place) {
            if (open)
                mt_json_end(j);
            mt_json_object(j, mt_comm_location_name(c, h->place), 0);
            open = h;
        }
        write_volume(j, mt_key_u64(key, h->superstep), load, store);
    }
    if (open)
        mt_json_end(j);
    mt_json_end(j);
}

/* Returns 0, or -1 without memory. */
static int write_hosts(struct mt_json *j, const struct mt_comm *c, unsigned sections)
{
    uint32_t *order = malloc((c->nhosts + 1) * sizeof *order);
    size_t n = 0;
    for (uint32_t i = 0; order && i < c->nhosts; i++)
        if (mt_comm_host_selected(c, &c->hosts[i]))
            order[n++] = i;
    if (!order)
        return -1;
    qsort_r(order, n, sizeof *order, host_order, (void *)c);
    for (unsigned s = MT_HCV; s <= MT_HDV; s++)
        if (sections & 1u << s)
            write_host(j, c, order, n, s);
    free(order);
    return 0;
}

int mt_comm_write(struct mt_json *j, const struct mt_comm *c, unsigned sections)
{
    int rc = -1;
    size_t *order = mt_launches_sorted(c);
    struct mt_volume *cells = malloc(mt_volumes_room(c) * sizeof *cells);
    if (!order || !cells)
        goto out;
    for (unsigned s = MT_KCV; s <= MT_SDV; s++)
        if (sections & 1u << s)
            write_volumes(j, c, order, c->nlaunches, s, cells);
    if (c->options.host && sections & (1u << MT_HCV | 1u << MT_HDV) && write_hosts(j, c, sections) != 0)
        goto out;
    rc = sections & 1u << MT_TRANSFERS ? transfers_write(j, c, order) : 0;
    if (rc == 0 && sections & 1u << MT_SENDERS)
        write_volumes(j, c, order, c->nlaunches, MT_SENDERS, cells);
out:
    free(order);
    free(cells);
    return rc;
}
