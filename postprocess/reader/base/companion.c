/* Reader of companion files: JSON lines to arrays of events, with a handler for each kind of event. */
#define _GNU_SOURCE

#include "internal.h"
#include "flat.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- sites by number ---- */

MT_ORDER_1(sites_compare, struct mt_site_event, id)

/* Sorts the sites by number. */
static void companion_order_sites(struct mt_companion *c)
{
    size_t i = 1;
    while (i < c->nsites && c->sites[i - 1].id <= c->sites[i].id)
        i++;
    if (i < c->nsites)
        qsort(c->sites, c->nsites, sizeof *c->sites, sites_compare);
}

const struct mt_site_event *mt_companion_site(const struct mt_companion *c, uint64_t id)
{
    struct mt_site_event key = {.id = id};
    return c && c->nsites ? bsearch(&key, c->sites, c->nsites, sizeof key, sites_compare) : NULL;
}

#define MOST_BYTES ((uint64_t)1 << 48)

struct loader {
    struct mt_companion pub; /* first member: the public pointer is also the loader's */
    struct mt_intern strings;
    struct mt_flat line; /* the current one */
#define MT_EV_LIST(ev, name, list, then, words) size_t room_##list;
#include "memtrace/events.def"
    int rest; /* 1: launches are left out */
    int out_of_memory;
};

/* ---- values ---- */

static const char *get_text(struct loader *l, struct mt_flat *o, const char *key, const char *absent)
{
    const struct mt_flat_value *v = mt_flat_get(o, key);
    if (!v->kind)
        return absent;
    int is = v->kind == MT_FLAT_TEXT;
    const char *s = mt_intern_visible(&l->strings, is ? v->text : "", is ? v->bytes : 0);
    if (!s)
        l->out_of_memory = 1;
    return s ? s : "";
}

/* Returns the number of a text "0x…" or "12", or `absent`. */
static uint64_t get_number(const struct mt_flat_value *v, uint64_t absent)
{
    unsigned hex = v->bytes > 2 && v->text[0] == '0' && v->text[1] == 'x';
    uint64_t n = 0;
    for (size_t i = 2 * hex; i < v->bytes; i++) {
        char c = v->text[i];
        unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                            : 16;
        if (d >= (hex ? 16 : 10) || __builtin_mul_overflow(n, hex ? 16 : 10, &n) ||
            __builtin_add_overflow(n, d, &n))
            return absent;
    }
    return v->bytes ? n : absent;
}

/* Returns an integer, or an address given as a text. */
static uint64_t get_u64(struct mt_flat *o, const char *key, uint64_t absent)
{
    const struct mt_flat_value *v = mt_flat_get(o, key);
    return v->kind == MT_FLAT_INTEGER ? (uint64_t)v->number
           : v->kind == MT_FLAT_TEXT  ? get_number(v, absent)
                                      : absent;
}

static int get_bool(struct mt_flat *o, const char *key, int absent)
{
    const struct mt_flat_value *v = mt_flat_get(o, key);
    return v->kind == MT_FLAT_BOOL ? (int)v->number : absent;
}

static void get_dim(struct mt_flat *o, const char *key, uint64_t out[3])
{
    const struct mt_flat_value *v = mt_flat_get(o, key);
    for (size_t i = 0; i < 3; i++) {
        const struct mt_flat_value *e = mt_flat_element(o, v, i);
        out[i] = e->kind == MT_FLAT_INTEGER ? (uint64_t)e->number : 1;
    }
}

/* Returns a device number; -1: none, or impossible. */
static int64_t get_device(struct mt_flat *o, const char *key)
{
    uint64_t n = get_u64(o, key, UINT64_MAX);
    return n < 1u << 16 ? (int64_t)n : -1;
}

/* Returns the code of a word; 0: not known. */
static unsigned get_word(struct mt_flat *o, const char *key, const char *const *words, unsigned n)
{
    const struct mt_flat_value *v = mt_flat_get(o, key);
    while (v->kind && n-- > 1)
        if (mt_flat_is(v, words[n]))
            return n;
    return 0;
}

static enum mt_scope get_scope(struct mt_flat *o, const char *key)
{
    static const char *const words[] = {
#define MT_ACCESS_SCOPE(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    return (enum mt_scope)get_word(o, key, words, sizeof words / sizeof *words);
}

static enum mt_order_kind get_order(struct mt_flat *o, const char *key)
{
    static const char *const words[] = {
#define MT_ACCESS_ORDER(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    return (enum mt_order_kind)get_word(o, key, words, sizeof words / sizeof *words);
}

/* Appends an element to an array of the companion; NULL: no memory. */
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
#define APPEND(l, list)                                                                                      \
    companion_append((l), (void **)&(l)->pub.list, &(l)->pub.n##list, &(l)->room_##list,                     \
                     sizeof *(l)->pub.list)

/* ---- handlers for data beside the keys; memtrace/events.def names these functions ---- */

enum { BAD = 1, LEAVE = 2 }; /* BAD: a required key is missing or invalid; LEAVE: the line is dropped */

static int companion_any(struct loader *l, struct mt_flat *o, void *event)
{
    return 0;
}

static int companion_header(struct loader *l, struct mt_flat *o, void *event)
{
    l->pub.has_header = 1;
    return 0;
}

static int companion_end(struct loader *l, struct mt_flat *o, void *event)
{
    l->pub.has_end = 1;
    l->pub.has_written = mt_flat_get(o, "records_written")->kind == MT_FLAT_INTEGER;
    return 0;
}

/* Returns a copy of a value that lives as long as the companion; NULL without memory. */
static const void *companion_value(struct loader *l, const void *value, size_t bytes)
{
    const void *kept = mt_intern_add(&l->strings, value, bytes);
    l->out_of_memory |= !kept;
    return kept;
}

/* Reads a list of n integers. Returns 0 if the value is anything else. */
static int get_list(struct mt_flat *o, const char *key, uint64_t *out, size_t n)
{
    const struct mt_flat_value *v = mt_flat_get(o, key);
    int is = v->kind == MT_FLAT_LIST && v->bytes == n;
    for (size_t i = 0; is && i < n; i++)
        out[i] = (uint64_t)mt_flat_element(o, v, i)->number;
    return is;
}

enum { MOST_RANKS = 1 << 20 };

/* Reads a collective. Few launches have one, and many have the same. Returns BAD if it is invalid. */
static int get_collective(struct loader *l, struct mt_flat *o, const struct mt_collective **collective)
{
    const struct mt_collective c = {.op = get_text(l, o, "collective", ""),
                                    .comm = get_u64(o, "comm", 0),
                                    .rank = get_u64(o, "rank", 0),
                                    .ranks = get_u64(o, "ranks", 0),
                                    .count = get_u64(o, "count", 0),
                                    .size = get_u64(o, "size", 0),
                                    .root = (int64_t)get_u64(o, "root", (uint64_t)-1),
                                    .peer = (int64_t)get_u64(o, "peer", (uint64_t)-1)};
    int64_t n = (int64_t)c.ranks;
    if (!*c.op)
        return 0;
    if (!c.ranks || c.ranks > MOST_RANKS || c.rank >= c.ranks || c.root < -1 || c.root >= n || c.peer < -1 ||
        c.peer >= n || c.size > 64 || c.count > MOST_BYTES / 64 / c.ranks)
        return BAD;
    *collective = companion_value(l, &c, sizeof c);
    return 0;
}

static int companion_communicator(struct loader *l, struct mt_flat *o, void *event)
{
    const struct mt_communicator_event *e = event;
    return e->rank >= e->ranks || e->ranks > MOST_RANKS ? BAD | LEAVE : 0;
}

static int companion_launch(struct loader *l, struct mt_flat *o, void *event)
{
    struct mt_launch_event *e = event;
    uint64_t ctas[2] = {0}, counts[6];
    if (l->rest)
        return LEAVE;
    e->has_records = mt_flat_get(o, "records")->kind == MT_FLAT_INTEGER;
    e->has_sample = mt_flat_get(o, "sample")->kind == MT_FLAT_TEXT;
    if (get_list(o, "counted", counts, 6))
        e->counts = companion_value(l, counts, sizeof counts);
    e->has_ctas = get_list(o, "ctas", ctas, 2);
    e->traced_ctas = ctas[0];
    e->ctas = ctas[1];
    e->no_records = !get_bool(o, "recorded", 1);
    return get_collective(l, o, &e->collective);
}

static uint64_t get_at(const struct mt_flat *o, const struct mt_flat_value *list, size_t i)
{
    int64_t v = mt_flat_element(o, list, i)->number;
    return v > 0 ? (uint64_t)v : 0;
}

/* Sums the requests of "4 1000\n-4 20". Returns 0, or -1 if that is not what it says. */
static int tally_sum(const char *text, uint64_t *sum)
{
    while (*text) {
        char *end;
        errno = 0;
        (void)strtoll(text, &end, 10);
        if (errno || end == text || *end != ' ' || end[1] < '0' || end[1] > '9')
            return -1;
        uint64_t n = strtoull(end + 1, &end, 10);
        if (errno || n > INT64_MAX || __builtin_add_overflow(*sum, n, sum) || (*end && *end != '\n'))
            return -1;
        text = end + (*end == '\n');
    }
    return 0;
}

/* Takes totals whose numbers can be true: each request is counted by one of its strides. */
static int companion_tally(struct loader *l, struct mt_flat *o, void *event)
{
    const struct mt_tally_event *e = event;
    const uint64_t all[] = {e->accesses, e->bytes,  e->distinct,  e->sectors,
                            e->lines,    e->single, e->irregular, e->other};
    uint64_t sum = 0;
    if ((strcmp(e->op, "load") && strcmp(e->op, "store") && strcmp(e->op, "atomic")) || !e->requests ||
        e->requests > e->accesses || tally_sum(e->strides, &sum) != 0)
        return BAD | LEAVE;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] > INT64_MAX / 2)
            return BAD | LEAVE;
    return sum > INT64_MAX / 2 || sum + e->single + e->irregular + e->other != e->requests ? BAD | LEAVE : 0;
}

static struct mt_order_pair *companion_pairs(struct loader *l, struct mt_flat *o, const char *key,
                                             size_t *count)
{
    const struct mt_flat_value *list = mt_flat_get(o, key);
    size_t n = list->kind == MT_FLAT_LIST ? list->bytes / 2 : 0;
    struct mt_order_pair *pairs = n ? malloc(n * sizeof *pairs) : NULL;
    l->out_of_memory |= n && !pairs;
    for (*count = 0; pairs && *count < n; ++*count)
        pairs[*count] = (struct mt_order_pair){get_at(o, list, 2 * *count), get_at(o, list, 2 * *count + 1)};
    return pairs;
}

static int companion_order(struct loader *l, struct mt_flat *o, void *event)
{
    const struct mt_flat_value *at = mt_flat_get(o, "at");
    struct mt_order_event *e = event;
    e->stream = get_at(o, at, 0);
    e->n = get_at(o, at, 1);
    e->after = companion_pairs(l, o, "after", &e->nafter);
    e->before = companion_pairs(l, o, "before", &e->nbefore);
    return 0;
}

static int companion_alloc(struct loader *l, struct mt_flat *o, void *event)
{
    struct mt_alloc_event *e = event;
    e->free_seq = MT_SEQ_NONE;
    return mt_flat_get(o, "base")->kind ? 0 : BAD | LEAVE;
}

static int companion_name(struct loader *l, struct mt_flat *o, void *event)
{
    return mt_flat_get(o, "name")->kind == MT_FLAT_TEXT ? 0 : BAD | LEAVE;
}

static int companion_is(struct mt_flat *o, const char *ev)
{
    return mt_flat_is(mt_flat_get(o, "ev"), ev);
}

static int companion_share(struct loader *l, struct mt_flat *o, void *event)
{
    ((struct mt_share_event *)event)->opened = companion_is(o, "opened");
    return 0;
}

/* Returns 1 if the rows do not overlap and lie within the address space. */
static int companion_rows_fit(uint64_t base, uint64_t pitch, const struct mt_copy_event *copy)
{
    uint64_t length = copy->width - 1, gaps;
    if (copy->height > 1 && (pitch < copy->width || __builtin_mul_overflow(copy->height - 1, pitch, &gaps) ||
                             __builtin_add_overflow(length, gaps, &length)))
        return 0;
    return base + length >= base;
}

/* Reads the rows of a copy or fill: `width` bytes each. */
static void companion_rows(struct mt_flat *o, int set, struct mt_copy_event *e)
{
    if (!mt_flat_get(o, "height")->kind) {
        e->width = get_u64(o, "bytes", 0);
        e->height = 1;
        e->dpitch = e->spitch = 0;
        return;
    }
    if (set)
        e->dpitch = get_u64(o, "pitch", MT_SEQ_NONE);
    e->dpitch = e->dpitch == MT_SEQ_NONE ? e->width : e->dpitch;
    e->spitch = e->spitch == MT_SEQ_NONE ? e->width : e->spitch;
}

/* Handles the lines of copies (memcpy) and fills (memset). */
static int companion_copy(struct loader *l, struct mt_flat *o, void *event)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d"};
    const struct mt_flat_value *name = mt_flat_get(o, "kind");
    struct mt_copy_event *e = event;
    int set = companion_is(o, "memset"), kind = set ? MT_COPY_SET : 0;
    while (kind < MT_COPY_SET && !mt_flat_is(name, kinds[kind]))
        kind++;
    if (!mt_flat_get(o, "dst")->kind || (kind == MT_COPY_SET && !set))
        return BAD | LEAVE;
    e->kind = (enum mt_copy_kind)kind;
    companion_rows(o, set, e);
    if (e->width == 0 || e->height == 0)
        return LEAVE; /* nothing is copied */
    if (e->width > MOST_BYTES || e->height > MOST_BYTES / e->width ||
        !companion_rows_fit(e->dst, e->dpitch, e) || (!set && !companion_rows_fit(e->src, e->spitch, e)))
        return BAD | LEAVE; /* larger than any address space, or overlapping rows */
    return 0;
}

static int companion_shared(struct loader *l, struct mt_flat *o, void *event)
{
    l->pub.shared = ((struct mt_shared_event *)event)->file;
    return 0;
}

static int companion_lost(struct loader *l, struct mt_flat *o, void *event)
{
    const struct mt_lost_event *e = event;
    l->pub.lost += e->count;
    if (e->count || !*l->pub.lost_why)
        l->pub.lost_why = e->why;
    return 0;
}

static const char *companion_strings(struct mt_intern *set, struct mt_flat *o, const char *key)
{
    const struct mt_flat_value *list = mt_flat_get(o, key), *v;
    char text[8192];
    size_t n = 0;
    for (size_t i = 0;
         (v = mt_flat_element(o, list, i))->kind == MT_FLAT_TEXT && v->bytes + 1 <= sizeof text - n; i++) {
        memcpy(text + n, v->text, v->bytes);
        n += v->bytes;
        text[n++] = '\n';
    }
    return n ? mt_intern_add(set, text, n - 1) : "";
}

/* ---- keys ---- */

#define get_type_u64(field, key, absent) field = get_u64(o, key, (uint64_t)(absent))
#define get_type_address get_type_u64
#define get_type_stream get_type_u64
#define get_type_id(field, key, absent)                                                                      \
    flags |= (get_type_u64(field, key, absent)) == (absent) ? BAD | LEAVE : 0
#define get_type_i64(field, key, absent) field = (int64_t)get_u64(o, key, (uint64_t)(absent))
#define get_type_int(field, key, absent) field = (int)get_u64(o, key, (uint64_t)(absent))
#define get_type_bool(field, key, absent) field = get_bool(o, key, absent)
#define get_type_string(field, key, absent) field = get_text(l, o, key, absent)
#define get_type_strings(field, key, absent) field = companion_strings(&l->strings, o, key)
#define get_type_u32x3(field, key, absent) get_dim(o, key, field)
#define get_type_device(field, key, absent) field = get_device(o, key)
#define get_type_scope(field, key, absent) field = get_scope(o, key)
#define get_type_order(field, key, absent) field = get_order(o, key)

/* Parses a line. Returns flags. */
static int take_event(struct loader *l, const struct mt_flat_value *ev, struct mt_flat *o)
{
    struct mt_companion *c = &l->pub;
    int (*then)(struct loader *, struct mt_flat *, void *);
    int flags = 0;
    /* clang-format off */
#define MT_EV_ONE(ev_, then_, words)                                                                         \
    if (mt_flat_is(ev, #ev_)) {                                                                             \
        struct mt_companion *e = c;                                                                          \
        then = then_;
#define MT_EV_KEY(type, key, when, absent, words) get_type_##type(e->key, #key, absent);
#define MT_EV_END(words)                                                                                     \
        return then(l, o, e);                                                                                \
    }
#define MT_EV_NO_LISTS
#define MT_EV_NO_REST
#include "memtrace/events.def"
#define MT_EV_LIST(ev_, name, list, then_, words)                                                            \
    if (mt_flat_is(ev, #ev_)) {                                                                             \
        size_t *n = &c->n##list;                                                                             \
        struct mt_##name##_event *e = APPEND(l, list);                                                       \
        if (!e)                                                                                              \
            return 0;                                                                                        \
        then = then_;
#define MT_EV_KEY(type, key, when, absent, words) get_type_##type(e->key, #key, absent);
#define MT_EV_END(words)                                                                                     \
        flags |= then(l, o, e);                                                                              \
        *n -= (flags & LEAVE) != 0;                                                                          \
        return flags;                                                                                        \
    }
#define MT_EV_NO_ONES
#define MT_EV_NO_REST
#include "memtrace/events.def"
    /* clang-format on */
    return 0;
}

/* ---- lines ---- */

static void bad_line(struct loader *l, uint64_t offset, const char *what)
{
    if (l->pub.bad_lines++ == 0)
        mt_error_set(&l->pub.bad, MT_E_CORRUPT, 0, offset, l->pub.path, "%s", what);
}

static void companion_take_line(struct loader *l, const char *line, size_t n, uint64_t offset)
{
    static const struct mt_flat_value copy = {.kind = MT_FLAT_TEXT, .text = "memcpy", .bytes = 6},
                                      shared = {.kind = MT_FLAT_TEXT, .text = "shared_out", .bytes = 10};
    struct mt_flat *o = &l->line;
    int rc = mt_flat_read(o, line, n);
    const struct mt_flat_value *ev = rc == 0 ? mt_flat_get(o, "ev") : NULL;
    if (rc < 0)
        l->out_of_memory = 1;
    else if (rc)
        bad_line(l, offset + o->at, o->why);
    else if (ev->kind != MT_FLAT_TEXT)
        bad_line(l, offset, "not an object with a key \"ev\"");
    else if (take_event(l,
                        mt_flat_is(ev, "memset")   ? &copy
                        : mt_flat_is(ev, "opened") ? &shared
                                                   : ev,
                        o) &
             BAD)
        bad_line(l, offset, "an event lacks a key that it must have, or has an impossible value");
}

MT_ORDER_1(by_seq, struct mt_copy_event, seq)

MT_ORDER_1(by_id, struct mt_alloc_event, id)

static struct mt_alloc_event *companion_alloc_of(struct mt_companion *c, uint64_t id)
{
    struct mt_alloc_event key = {.id = id};
    return c->nallocs ? bsearch(&key, c->allocs, c->nallocs, sizeof key, by_id) : NULL;
}

MT_ORDER_1(stacks_by_id, struct mt_stack_event, id)

/* Gives allocations of host programs the callers of their stacks. */
static void companion_join_stacks(struct mt_companion *c)
{
    if (c->nstacks)
        qsort(c->stacks, c->nstacks, sizeof *c->stacks, stacks_by_id);
    for (size_t i = 0; i < c->nallocs && c->nstacks; i++) {
        const struct mt_stack_event key = {.id = c->allocs[i].stack},
                                    *s = key.id
                                             ? bsearch(&key, c->stacks, c->nstacks, sizeof key, stacks_by_id)
                                             : NULL;
        if (s)
            c->allocs[i].callers = s->callers;
    }
}

/* Sorts copies and allocations; joins allocations with their names and frees. */
void mt_companion_sort(struct mt_companion *c)
{
    companion_order_sites(c);
    if (c->ncopies)
        qsort(c->copies, c->ncopies, sizeof *c->copies, by_seq);
    if (c->nallocs)
        qsort(c->allocs, c->nallocs, sizeof *c->allocs, by_id);
    companion_join_stacks(c);
    for (size_t i = 0; i < c->nfrees; i++) {
        struct mt_alloc_event *a = companion_alloc_of(c, c->frees[i].id);
        if (a) {
            a->free_seq = c->frees[i].seq;
            a->free_ns = c->frees[i].ns;
        }
    }
    for (size_t i = 0; i < c->nnames; i++) {
        struct mt_alloc_event *a = companion_alloc_of(c, c->names[i].id);
        if (a)
            a->name = c->names[i].name;
    }
}

void mt_companion_forget_memory(struct mt_companion *c)
{
    c->ncopies = c->nallocs = c->nfrees = c->nnames = 0;
}

struct mt_companion *mt_companion_new(const char *name)
{
    static const struct mt_flat_value header = {.kind = MT_FLAT_TEXT, .text = "header", .bytes = 6};
    struct loader *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    struct mt_companion *c = &l->pub;
    take_event(l, &header, NULL); /* absent keys */
    c->has_header = 0;
    c->lost_why = c->shared = "";
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
            companion_take_line(l, text + at, n, offset + at);
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
    mt_flat_free(&l->line);
    for (size_t i = 0; i < c->norders; i++)
        free(c->orders[i].after), free(c->orders[i].before);
#define MT_EV_LIST(ev, name, list, then, words) free(c->list);
#include "memtrace/events.def"
    free(l);
}

/* ---- files ---- */

enum {
    PIECE = 1 << 16,
    HEADER = 1 << 16, /* bytes; longer than any first line */
    LINE = 1 << 24    /* bytes; much longer than any line that memtrace writes */
};

struct companion_buffer {
    char *text;
    size_t used, room;
    uint64_t offset; /* offset of text[0] in the file */
};

/* Adds the whole lines of the buffer; with `all` also the rest. Returns 0, or -1 without memory. */
static int companion_take(struct mt_companion *c, struct companion_buffer *b, int all)
{
    const char *lf = all ? NULL : memrchr(b->text, '\n', b->used);
    size_t n = all ? b->used : lf ? (size_t)(lf - b->text) + 1 : 0;
    if (n && mt_companion_add(c, b->text, n, b->offset) != 0)
        return -1;
    memmove(b->text, b->text + n, b->used - n);
    b->used -= n;
    b->offset += n;
    return 0;
}

/* Reads the lines of an open file. Returns 0, or -1 with *err set. */
static int companion_lines(struct mt_companion *c, int fd, const char *path, struct mt_error *err)
{
    struct companion_buffer b = {0};
    ssize_t n = 0;
    int rc = 0;
    while (rc == 0 && b.used < LINE) {
        if ((rc = mt_grow(&b.text, &b.room, b.used + PIECE, 1)) != 0)
            break;
        do
            n = read(fd, b.text + b.used, PIECE);
        while (n < 0 && errno == EINTR);
        b.used += n > 0 ? (size_t)n : 0;
        if (n < 0 || (rc = companion_take(c, &b, n == 0)) != 0 || n == 0)
            break;
    }
    if (n < 0) {
        uint64_t at = b.offset + b.used;
        int e = errno;
        rc = mt_error_set(err, MT_E_SYSTEM, e, at, path, "read error at byte %llu: %s",
                          (unsigned long long)at, strerror(e));
    } else if (rc != 0) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for the companion");
    } else if (n > 0) {
        rc = mt_error_set(err, MT_E_CORRUPT, 0, b.offset, path,
                          "a line of more than 16 MiB: this is no companion (without it: --no-companion)");
    }
    free(b.text);
    return rc;
}

/* Opens a file; returns -1 with errno set on failure. Devices are refused, as they may have no end. */
static int companion_open(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    int e = fstat(fd, st) != 0           ? errno
            : S_ISDIR(st->st_mode)       ? EISDIR
            : S_ISCHR(st->st_mode)       ? ENOTSUP
            : S_ISBLK(st->st_mode)       ? ENOTSUP
            : fcntl(fd, F_SETFL, 0) != 0 ? errno
                                         : 0;
    if (!e)
        return fd;
    close(fd);
    errno = e;
    return -1;
}

/* rest: 1: without launches. */
static struct mt_companion *companion_load(const char *path, int rest, struct mt_error *err)
{
    struct stat st;
    int fd = companion_open(path, &st);
    if (fd < 0) {
        int e = errno;
        mt_error_set(err, MT_E_INPUT, e, 0, path, "cannot open the companion: %s",
                     e == ENOTSUP ? "it is a device, not a file" : strerror(e));
        return NULL;
    }
    struct mt_companion *c = mt_companion_new(path);
    if (!c)
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for the companion");
    else
        ((struct loader *)c)->rest = rest;
    int rc = c ? companion_lines(c, fd, path, err) : -1;
    close(fd);
    if (rc != 0) {
        mt_companion_free(c);
        return NULL;
    }
    c->regular = S_ISREG(st.st_mode);
    c->own = c->regular && st.st_uid == geteuid();
    mt_companion_sort(c);
    return c;
}

struct mt_companion *mt_companion_load(const char *path, struct mt_error *err)
{
    return companion_load(path, 0, err);
}

struct mt_companion *mt_companion_load_rest(const char *path, struct mt_error *err)
{
    return companion_load(path, 1, err);
}

struct mt_companion *mt_companion_head(const char *path)
{
    char text[HEADER];
    struct stat st;
    size_t n = 0;
    ssize_t got = 1;
    int fd = companion_open(path, &st);
    while (fd >= 0 && S_ISREG(st.st_mode) && n < sizeof text && got &&
           ((got = read(fd, text + n, sizeof text - n)) >= 0 || errno == EINTR))
        n += got > 0 ? (size_t)got : 0;
    if (fd >= 0)
        close(fd);
    const char *lf = memchr(text, '\n', n);
    struct mt_companion *c = lf ? mt_companion_new(path) : NULL;
    if (!c || mt_companion_add(c, text, (size_t)(lf - text), 0) == 0)
        return c;
    mt_companion_free(c);
    return NULL;
}
