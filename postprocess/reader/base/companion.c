/* The companion reader: JSON lines to arrays of events. One handler per event kind, found by name. */
#define _GNU_SOURCE
#include "internal.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <jansson.h>

#define MOST_BYTES ((uint64_t)1 << 48)

struct loader {
    struct mt_companion pub; /* first: the public pointer is the loader's */
    struct mt_intern strings;
    struct release {
        uint64_t id, seq, ns;
    } *frees; /* matched with the allocations at the end */
    struct naming {
        uint64_t id;
        const char *name;
    } *names; /* so are these; the last one of an allocation counts */
    size_t nfrees, free_room, nnames, name_room;
    size_t launch_room, alloc_room, copy_room, site_room, function_room, thread_room, cut_room, kernel_room,
        range_room, stream_room, text_room, check_room, failed_room, order_room, share_room,
        communicator_room, copied_room;
    int out_of_memory;
};

/* ---- values ---- */

static const char *get_text(struct loader *l, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    const char *s = v ? mt_intern_visible(&l->strings, json_string_value(v) ? json_string_value(v) : "",
                                          json_string_length(v))
                      : "";
    if (!s)
        l->out_of_memory = 1;
    return s ? s : "";
}

/* Integers, and addresses as "0x…" strings. */
static uint64_t get_u64(const json_t *o, const char *key, uint64_t absent)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_integer(v))
        return (uint64_t)json_integer_value(v);
    if (json_is_string(v)) {
        char *end;
        uint64_t n = strtoull(json_string_value(v), &end, 0);
        return *end || end == json_string_value(v) ? absent : n;
    }
    return absent;
}

static int get_bool(const json_t *o, const char *key, int absent)
{
    const json_t *v = json_object_get(o, key);
    return json_is_boolean(v) ? json_is_true(v) : absent;
}

static void get_dim(const json_t *o, const char *key, uint64_t out[3])
{
    const json_t *v = json_object_get(o, key);
    for (size_t i = 0; i < 3; i++)
        out[i] =
            json_is_integer(json_array_get(v, i)) ? (uint64_t)json_integer_value(json_array_get(v, i)) : 1;
}

/* -1: of none; and so is what no machine has. */
static int64_t get_device(const json_t *o, const char *key)
{
    uint64_t n = get_u64(o, key, UINT64_MAX);
    return n < 1u << 16 ? (int64_t)n : -1;
}

/* One more element of an array of the companion; NULL: no memory. */
static void *companion_append(struct loader *l, void **array, size_t *n, size_t *room, size_t size)
{
    if (mt_grow(array, room, *n + 1, size) != 0) {
        l->out_of_memory = 1;
        return NULL;
    }
    char *e = (char *)*array + (*n)++ * size;
    memset(e, 0, size);
    return e;
}
#define APPEND(l, what, room)                                                                                \
    companion_append((l), (void **)&(l)->pub.what, &(l)->pub.n##what, &(l)->room, sizeof *(l)->pub.what)

/* ---- events: 0, or -1 when a needed key is missing or impossible ---- */

static int on_header(struct loader *l, const json_t *o)
{
    struct mt_companion *c = &l->pub;
    c->has_header = 1;
    c->pid = get_u64(o, "pid", 0);
    c->start_ns = get_u64(o, "start_ns", 0);
    c->wall_ms = get_u64(o, "wall_ms", 0);
    c->stream = get_u64(o, "stream", 0);
    c->sms = get_u64(o, "sms", 0);
    c->workers = get_u64(o, "workers", 0);
    c->tool = get_text(l, o, "tool");
    c->program = get_text(l, o, "program");
    c->device = get_text(l, o, "device");
    c->device_name = get_text(l, o, "device_name");
    c->trace = get_text(l, o, "trace");
    c->engine = get_text(l, o, "engine");
    c->mode = get_text(l, o, "mode");
    c->job = get_text(l, o, "job");
    c->rank = get_u64(o, "rank", 0);
    c->ranks = get_u64(o, "ranks", 0);
    return 0;
}

static int on_site(struct loader *l, const json_t *o)
{
    struct mt_site_event *s = APPEND(l, sites, site_room);
    if (!s)
        return 0;
    s->id = get_u64(o, "id", 0);
    s->line = get_u64(o, "line", 0);
    s->column = get_u64(o, "column", 0);
    s->size = get_u64(o, "size", 0);
    s->file = get_text(l, o, "file");
    s->function = get_text(l, o, "function");
    s->op = get_text(l, o, "op");
    s->var = get_text(l, o, "var");
    s->space = get_text(l, o, "space");
    s->strong = get_bool(o, "strong", 0);
    s->runtime = get_bool(o, "runtime", 0);
    s->at = get_text(l, o, "at");
    s->symbol = get_text(l, o, "symbol");
    s->code = get_text(l, o, "code");
    s->guess = json_is_true(json_object_get(o, "guess"));
    s->ip = get_u64(o, "ip", 0);
    s->module = get_text(l, o, "module");
    s->text = get_text(l, o, "text");
    s->reads = get_text(l, o, "reads");
    s->writes = get_text(l, o, "writes");
    return 0;
}

static int on_function(struct loader *l, const json_t *o)
{
    struct mt_function_event *f = APPEND(l, functions, function_room);
    if (f)
        *f = (struct mt_function_event){.id = get_u64(o, "id", 0), .name = get_text(l, o, "name")};
    return 0;
}

static int on_kernel(struct loader *l, const json_t *o)
{
    struct mt_kernel_event *k = APPEND(l, kernels, kernel_room);
    if (!k)
        return 0;
    k->id = get_u64(o, "id", 0);
    k->name = get_text(l, o, "name");
    return 0;
}

static int on_thread(struct loader *l, const json_t *o)
{
    struct mt_thread_event *t = APPEND(l, threads, thread_room);
    if (t)
        *t = (struct mt_thread_event){.number = get_u64(o, "number", 0), .native = get_u64(o, "native", 0)};
    return 0;
}

static void get_counts(const json_t *o, struct mt_launch_event *e)
{
    const json_t *v = json_object_get(o, "counted");
    e->has_counts = json_is_array(v) && json_array_size(v) == 6;
    for (size_t i = 0; e->has_counts && i < 6; i++)
        e->counts[i] = (uint64_t)json_integer_value(json_array_get(v, i));
}

static void get_ctas(const json_t *o, struct mt_launch_event *e)
{
    const json_t *v = json_object_get(o, "ctas");
    e->has_ctas = json_is_array(v) && json_array_size(v) == 2;
    e->traced_ctas = (uint64_t)json_integer_value(json_array_get(v, 0));
    e->ctas = (uint64_t)json_integer_value(json_array_get(v, 1));
}

enum { MOST_RANKS = 1 << 20 };

/* 0, or -1: it is impossible, and is none. */
static int get_collective(struct loader *l, const json_t *o, struct mt_collective *c)
{
    *c = (struct mt_collective){.op = get_text(l, o, "collective"),
                                .comm = get_u64(o, "comm", 0),
                                .rank = get_u64(o, "rank", 0),
                                .ranks = get_u64(o, "ranks", 0),
                                .count = get_u64(o, "count", 0),
                                .size = get_u64(o, "size", 0),
                                .root = (int64_t)get_u64(o, "root", (uint64_t)-1),
                                .peer = (int64_t)get_u64(o, "peer", (uint64_t)-1)};
    int64_t n = (int64_t)c->ranks;
    if (!*c->op ||
        (c->ranks && c->ranks <= MOST_RANKS && c->rank < c->ranks && c->root >= -1 && c->root < n &&
         c->peer >= -1 && c->peer < n && c->size <= 64 && c->count <= MOST_BYTES / 64 / c->ranks))
        return 0;
    c->op = "";
    return -1;
}

static int on_communicator(struct loader *l, const json_t *o)
{
    const struct mt_communicator_event c = {get_u64(o, "comm", 0), get_u64(o, "rank", 0),
                                            get_u64(o, "ranks", 0), get_device(o, "device")};
    if (c.rank >= c.ranks || c.ranks > MOST_RANKS)
        return -1;
    struct mt_communicator_event *e = APPEND(l, communicators, communicator_room);
    if (e)
        *e = c;
    return 0;
}

static int on_launch(struct loader *l, const json_t *o)
{
    if (get_u64(o, "seq", MT_SEQ_NONE) == MT_SEQ_NONE)
        return -1;
    struct mt_launch_event *e = APPEND(l, launches, launch_room);
    if (!e)
        return 0;
    e->seq = get_u64(o, "seq", 0);
    e->stream = get_u64(o, "stream", 0);
    e->device = get_device(o, "device");
    e->kernel = get_text(l, o, "kernel");
    e->mangled = get_text(l, o, "mangled");
    e->signature = get_text(l, o, "signature");
    e->file = get_text(l, o, "file");
    e->at = get_text(l, o, "at");
    e->callers = mt_intern_lines(&l->strings, json_object_get(o, "callers"));
    get_dim(o, "grid", e->grid);
    get_dim(o, "block", e->block);
    e->shared = get_u64(o, "shared", 0);
    e->cooperative = get_bool(o, "cooperative", 0);
    e->line = get_u64(o, "line", 0);
    e->begin_ns = get_u64(o, "begin_ns", 0);
    e->end_ns = get_u64(o, "end_ns", 0);
    e->has_records = json_is_integer(json_object_get(o, "records"));
    e->records = get_u64(o, "records", 0);
    e->others = get_u64(o, "others", 0);
    e->barriers = get_bool(o, "barriers", 0);
    e->has_sample = json_is_string(json_object_get(o, "sample"));
    e->sample = get_u64(o, "sample", 0);
    e->untraced = get_u64(o, "untraced", 0);
    e->parted = get_u64(o, "parted", 0);
    e->undefined = get_u64(o, "undefined", 0);
    e->op = get_u64(o, "op", 0);
    get_counts(o, e);
    e->no_records = !get_bool(o, "recorded", 1);
    e->traced = get_bool(o, "traced", 1);
    e->left_out = get_text(l, o, "left_out");
    e->library = get_text(l, o, "library");
    get_ctas(o, e);
    e->status = (int)get_u64(o, "status", 0);
    return get_collective(l, o, &e->collective);
}

static int on_check(struct loader *l, const json_t *o)
{
    struct mt_check_event *e = APPEND(l, checks, check_room);
    if (!e)
        return 0;
    e->seq = get_u64(o, "seq", MT_SEQ_NONE);
    e->launch = get_u64(o, "launch", MT_SEQ_NONE);
    e->site = get_u64(o, "site", 0);
    e->line = get_u64(o, "line", 0);
    e->size = get_u64(o, "size", 0);
    e->address = get_u64(o, "address", 0);
    e->count = get_u64(o, "count", 1);
    get_dim(o, "cta", e->cta);
    get_dim(o, "thread", e->thread);
    e->alloc = get_u64(o, "alloc", MT_SEQ_NONE);
    e->distance = get_u64(o, "distance", 0);
    e->why = get_text(l, o, "why");
    e->side = get_text(l, o, "side");
    e->near = get_text(l, o, "near");
    e->kernel = get_text(l, o, "kernel");
    e->file = get_text(l, o, "file");
    e->op = get_text(l, o, "op");
    return 0;
}

static uint64_t get_at(const json_t *array, size_t i)
{
    json_int_t v = json_integer_value(json_array_get(array, i));
    return v > 0 ? (uint64_t)v : 0;
}

static int on_order(struct loader *l, const json_t *o)
{
    const json_t *at = json_object_get(o, "at"), *after = json_object_get(o, "after");
    struct mt_order_event *e = APPEND(l, orders, order_room);
    size_t n = json_array_size(after) / 2;
    if (!e)
        return 0;
    *e = (struct mt_order_event){.op = get_u64(o, "op", 0), .stream = get_at(at, 0), .n = get_at(at, 1)};
    if (n && !(e->after = malloc(n * sizeof *e->after)))
        l->out_of_memory = 1;
    for (e->nafter = 0; e->after && e->nafter < n; e->nafter++)
        e->after[e->nafter] =
            (struct mt_order_pair){get_at(after, 2 * e->nafter), get_at(after, 2 * e->nafter + 1)};
    return 0;
}

static int on_failed(struct loader *l, const json_t *o)
{
    struct mt_failed_event *e = APPEND(l, failed, failed_room);
    if (!e)
        return 0;
    e->seq = get_u64(o, "seq", MT_SEQ_NONE);
    e->line = get_u64(o, "line", 0);
    e->code = get_u64(o, "code", 0);
    e->count = get_u64(o, "count", 1);
    e->call = get_text(l, o, "call");
    e->error = get_text(l, o, "error");
    e->file = get_text(l, o, "file");
    e->at = get_text(l, o, "at");
    e->why = get_text(l, o, "why");
    e->kernel = get_text(l, o, "kernel");
    e->launch = get_u64(o, "launch", MT_SEQ_NONE);
    e->freed = get_u64(o, "freed", MT_SEQ_NONE);
    e->callers = mt_intern_lines(&l->strings, json_object_get(o, "callers"));
    return 0;
}

static int on_alloc(struct loader *l, const json_t *o)
{
    uint64_t seq = get_u64(o, "seq", MT_SEQ_NONE), id = get_u64(o, "id", MT_SEQ_NONE);
    if (seq == MT_SEQ_NONE || id == MT_SEQ_NONE || !json_object_get(o, "base"))
        return -1;
    struct mt_alloc_event *a = APPEND(l, allocs, alloc_room);
    if (!a)
        return 0;
    a->seq = seq;
    a->free_seq = MT_SEQ_NONE;
    a->ns = get_u64(o, "ns", 0);
    a->id = id;
    a->base = get_u64(o, "base", 0);
    a->bytes = get_u64(o, "bytes", 0);
    a->line = get_u64(o, "line", 0);
    a->device = get_device(o, "device");
    a->ip = get_u64(o, "ip", 0);
    a->at = get_text(l, o, "at");
    a->callers = mt_intern_lines(&l->strings, json_object_get(o, "callers"));
    a->runtime = json_is_true(json_object_get(o, "runtime"));
    a->kind = get_text(l, o, "kind");
    a->name = get_text(l, o, "name");
    a->file = get_text(l, o, "file");
    return 0;
}

static int companion_share(struct loader *l, const json_t *o, int opened)
{
    struct mt_share_event *s = APPEND(l, shares, share_room);
    if (s)
        *s = (struct mt_share_event){get_u64(o, "id", MT_SEQ_NONE), opened, get_text(l, o, "handle")};
    return 0;
}

static int on_shared_out(struct loader *l, const json_t *o)
{
    return companion_share(l, o, 0);
}

static int on_opened(struct loader *l, const json_t *o)
{
    return companion_share(l, o, 1);
}

static int on_free(struct loader *l, const json_t *o)
{
    uint64_t seq = get_u64(o, "seq", MT_SEQ_NONE), id = get_u64(o, "id", MT_SEQ_NONE);
    if (seq == MT_SEQ_NONE || id == MT_SEQ_NONE)
        return -1;
    struct release *r = companion_append(l, (void **)&l->frees, &l->nfrees, &l->free_room, sizeof *r);
    if (r)
        *r = (struct release){id, seq, get_u64(o, "ns", 0)};
    return 0;
}

static int on_name(struct loader *l, const json_t *o)
{
    uint64_t id = get_u64(o, "id", MT_SEQ_NONE);
    if (id == MT_SEQ_NONE || !json_is_string(json_object_get(o, "name")))
        return -1;
    struct naming *n = companion_append(l, (void **)&l->names, &l->nnames, &l->name_room, sizeof *n);
    if (n)
        *n = (struct naming){id, get_text(l, o, "name")};
    return 0;
}

static int on_cut(struct loader *l, const json_t *o)
{
    if (get_u64(o, "seq", MT_SEQ_NONE) == MT_SEQ_NONE || get_u64(o, "id", MT_SEQ_NONE) == MT_SEQ_NONE)
        return -1;
    struct mt_cut_event *c = APPEND(l, cuts, cut_room);
    if (!c)
        return 0;
    c->seq = get_u64(o, "seq", 0);
    c->id = get_u64(o, "id", 0);
    c->base = get_u64(o, "base", 0);
    c->bytes = get_u64(o, "bytes", 0);
    return 0;
}

/* Do the rows lie after each other, before the end of the address space? */
static int rows_fit(uint64_t base, uint64_t pitch, const struct mt_copy_event *copy)
{
    uint64_t length = copy->width - 1, gaps;
    if (copy->height > 1 && (pitch < copy->width || __builtin_mul_overflow(copy->height - 1, pitch, &gaps) ||
                             __builtin_add_overflow(length, gaps, &length)))
        return 0;
    return base + length >= base;
}

static int on_copy(struct loader *l, const json_t *o, int set)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d"};
    uint64_t seq = get_u64(o, "seq", MT_SEQ_NONE);
    if (seq == MT_SEQ_NONE || !json_object_get(o, "dst"))
        return -1;
    int kind = MT_COPY_SET;
    if (!set) {
        const char *name = json_string_value(json_object_get(o, "kind"));
        for (kind = 0; kind < MT_COPY_SET && (!name || strcmp(name, kinds[kind]) != 0);)
            kind++;
        if (kind == MT_COPY_SET)
            return -1;
    }
    struct mt_copy_event copy = {.seq = seq,
                                 .kind = (enum mt_copy_kind)kind,
                                 .dst = get_u64(o, "dst", 0),
                                 .src = get_u64(o, "src", 0),
                                 .width = get_u64(o, "bytes", 0),
                                 .height = 1,
                                 .unchanged = get_u64(o, "unchanged", 0) != 0,
                                 .dst_device = get_device(o, "dst_device"),
                                 .src_device = get_device(o, "src_device"),
                                 .begin_ns = get_u64(o, "begin_ns", 0),
                                 .stream = (int64_t)get_u64(o, "stream", (uint64_t)-1),
                                 .file = get_text(l, o, "file"),
                                 .at = get_text(l, o, "at"),
                                 .callers = mt_intern_lines(&l->strings, json_object_get(o, "callers")),
                                 .line = get_u64(o, "line", 0),
                                 .op = get_u64(o, "op", 0)};
    if (json_object_get(o, "height")) {
        copy.height = get_u64(o, "height", 1);
        copy.width = get_u64(o, "width", 0);
        copy.dpitch = get_u64(o, set ? "pitch" : "dpitch", copy.width);
        copy.spitch = get_u64(o, "spitch", copy.width);
    }
    if (copy.width == 0 || copy.height == 0)
        return 0; /* nothing is copied */
    if (copy.width > MOST_BYTES || copy.height > MOST_BYTES / copy.width ||
        !rows_fit(copy.dst, copy.dpitch, &copy) || (!set && !rows_fit(copy.src, copy.spitch, &copy)))
        return -1; /* more than any address space holds, or row upon row */
    struct mt_copy_event *e = APPEND(l, copies, copy_room);
    if (e)
        *e = copy;
    return 0;
}

static int on_memcpy(struct loader *l, const json_t *o)
{
    return on_copy(l, o, 0);
}

static int on_memset(struct loader *l, const json_t *o)
{
    return on_copy(l, o, 1);
}

static int on_range(struct loader *l, const json_t *o)
{
    struct mt_range_event *r = APPEND(l, ranges, range_room);
    if (!r)
        return 0;
    r->seq = get_u64(o, "seq", 0);
    r->begin = get_u64(o, "begin", 0);
    r->begin_ns = get_u64(o, "begin_ns", 0);
    r->end_ns = get_u64(o, "end_ns", 0);
    r->thread = get_u64(o, "thread", 0);
    r->name = get_text(l, o, "name");
    r->domain = get_text(l, o, "domain");
    r->open = get_bool(o, "open", 0);
    return 0;
}

static int on_source(struct loader *l, const json_t *o)
{
    struct mt_text_event *t = APPEND(l, texts, text_room);
    if (!t)
        return 0;
    t->file = get_text(l, o, "file");
    t->xxh128 = get_text(l, o, "xxh128");
    t->bytes = get_u64(o, "bytes", 0);
    return 0;
}

static int on_stream(struct loader *l, const json_t *o)
{
    struct mt_stream_event *s = APPEND(l, streams, stream_room);
    if (s)
        *s = (struct mt_stream_event){.stream = get_u64(o, "stream", 0),
                                      .trace = get_text(l, o, "trace"),
                                      .why = json_object_get(o, "why") ? get_text(l, o, "why") : NULL};
    return 0;
}

static int on_shared(struct loader *l, const json_t *o)
{
    l->pub.shared = get_text(l, o, "file");
    return 0;
}

static int on_copied(struct loader *l, const json_t *o)
{
    struct mt_copied_event *e = APPEND(l, copied, copied_room);
    if (e)
        *e = (struct mt_copied_event){get_u64(o, "site", 0), get_u64(o, "calls", 0), get_u64(o, "bytes", 0),
                                      get_u64(o, "same_calls", 0), get_u64(o, "same_bytes", 0)};
    return 0;
}

static int on_lost(struct loader *l, const json_t *o)
{
    uint64_t count = get_u64(o, "count", 1);
    l->pub.lost += count;
    if (count || !*l->pub.lost_why)
        l->pub.lost_why = get_text(l, o, "why");
    return 0;
}

static int on_end(struct loader *l, const json_t *o)
{
    struct mt_companion *c = &l->pub;
    c->has_end = 1;
    c->has_written = json_is_integer(json_object_get(o, "records_written"));
    c->records_written = get_u64(o, "records_written", 0);
    c->records_counted = get_u64(o, "records_counted", c->records_written);
    c->others_written = get_u64(o, "others_written", 0);
    c->left_out = get_u64(o, "left_out", 0);
    c->children = get_u64(o, "children", 0);
    c->complete = get_bool(o, "complete", 1);
    return 0;
}

static const struct handler {
    const char *ev;
    int (*fn)(struct loader *, const json_t *);
} handlers[] = {{"header", on_header},
                {"site", on_site},
                {"launch", on_launch},
                {"alloc", on_alloc},
                {"free", on_free},
                {"memcpy", on_memcpy},
                {"memset", on_memset},
                {"copied", on_copied},
                {"lost", on_lost},
                {"end", on_end},
                {"function", on_function},
                {"thread", on_thread},
                {"cut", on_cut},
                {"kernel", on_kernel},
                {"range", on_range},
                {"stream", on_stream},
                {"shared", on_shared},
                {"source", on_source},
                {"name", on_name},
                {"check", on_check},
                {"failed", on_failed},
                {"order", on_order},
                {"opened", on_opened},
                {"communicator", on_communicator},
                {"shared_out", on_shared_out}};

/* ---- lines ---- */

static void bad_line(struct loader *l, uint64_t offset, const char *what)
{
    if (l->pub.bad_lines++ == 0)
        mt_error_set(&l->pub.bad, MT_E_CORRUPT, 0, offset, l->pub.path, "%s", what);
}

static void take_line(struct loader *l, const char *line, size_t n, uint64_t offset)
{
    json_error_t je;
    json_t *o = json_loadb(line, n, JSON_ALLOW_NUL, &je);
    const char *ev = json_string_value(json_object_get(o, "ev"));
    if (!o)
        bad_line(l, offset + (uint64_t)(je.position > 0 ? je.position : 0), je.text);
    else if (!ev)
        bad_line(l, offset, "not an object with a key \"ev\"");
    else
        for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
            if (strcmp(ev, handlers[i].ev) == 0 && handlers[i].fn(l, o) != 0)
                bad_line(l, offset, "an event lacks a key that it must have, or has an impossible value");
    json_decref(o);
}

MT_ORDER_1(by_seq, struct mt_copy_event, seq)

MT_ORDER_1(by_id, struct mt_alloc_event, id)

static struct mt_alloc_event *companion_alloc(struct mt_companion *c, uint64_t id)
{
    struct mt_alloc_event key = {.id = id};
    return c->nallocs ? bsearch(&key, c->allocs, c->nallocs, sizeof key, by_id) : NULL;
}

/* Copies and allocations in order; allocations with their names and when they were freed. */
void mt_companion_sort(struct mt_companion *c)
{
    const struct loader *l = (struct loader *)c;
    mt_companion_order_sites(c);
    if (c->ncopies)
        qsort(c->copies, c->ncopies, sizeof *c->copies, by_seq);
    if (c->nallocs)
        qsort(c->allocs, c->nallocs, sizeof *c->allocs, by_id);
    for (size_t i = 0; i < l->nfrees; i++) {
        struct mt_alloc_event *a = companion_alloc(c, l->frees[i].id);
        if (a) {
            a->free_seq = l->frees[i].seq;
            a->free_ns = l->frees[i].ns;
        }
    }
    for (size_t i = 0; i < l->nnames; i++) {
        struct mt_alloc_event *a = companion_alloc(c, l->names[i].id);
        if (a)
            a->name = l->names[i].name;
    }
}

void mt_companion_forget_memory(struct mt_companion *c)
{
    struct loader *l = (struct loader *)c;
    c->ncopies = c->nallocs = l->nfrees = l->nnames = 0;
}

struct mt_companion *mt_companion_new(const char *name)
{
    struct loader *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    struct mt_companion *c = &l->pub;
    c->tool = c->program = c->device = c->device_name = c->trace = c->lost_why = c->engine = c->mode =
        c->shared = c->job = "";
    c->path = mt_intern_add(&l->strings, name, strlen(name));
    if (c->path)
        return c;
    mt_companion_free(c);
    return NULL;
}

int mt_companion_add(struct mt_companion *c, const char *text, size_t bytes, uint64_t offset)
{
    struct loader *l = (struct loader *)c;
    for (size_t at = 0; at < bytes;) {
        const char *lf = memchr(text + at, '\n', bytes - at);
        size_t n = lf ? (size_t)(lf - (text + at)) : bytes - at;
        if (n)
            take_line(l, text + at, n, offset + at);
        at += n + 1;
    }
    return l->out_of_memory ? -1 : 0;
}

void mt_companion_free(struct mt_companion *c)
{
    if (!c)
        return;
    struct loader *l = (struct loader *)c;
    mt_intern_free(&l->strings);
    free(l->frees);
    free(l->names);
    free(c->launches);
    free(c->allocs);
    free(c->copies);
    free(c->sites);
    free(c->functions);
    free(c->threads);
    free(c->cuts);
    free(c->kernels);
    free(c->ranges);
    free(c->streams);
    free(c->texts);
    free(c->checks);
    free(c->failed);
    for (size_t i = 0; i < c->norders; i++)
        free(c->orders[i].after);
    free(c->orders);
    free(c->shares);
    free(c->communicators);
    free(c->copied);
    free(l);
}
