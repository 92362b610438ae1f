/* The stream of MEMTRACE_SINK=extract: launches come whole and in order, with the lines of what precedes them
 * (memtrace/live.h). So nothing is spooled, and of the past only launches and sites are kept. */
#define _GNU_SOURCE
#include "reader/base/internal.h"
#include "memtrace/grow.h"
#include "feed.h"
#include "memtrace/live.h"
#include "memtrace/order.h"
#include <unistd.h>

#define TEXT_MAX ((uint64_t)1 << 32) /* bytes of lines in one frame */
#define RUNS_MAX ((uint64_t)1 << 30) /* bytes of runs */

struct event {
    struct event *next;
    struct mt_launch_event launch;
};

struct mt_feed {
    int fd;
    struct mt_companion *announced; /* strings of the launches that have begun */
    struct event *events;           /* and what is known of them */
    char **paths;                   /* of streams; ours */
    size_t npaths, path_room;
    struct mt_live_frame frame; /* under way */
    char *payload;              /* runs: those from `at` on are not handed out */
    size_t at, end, room;
    uint64_t limit;         /* a launch of this number begins when what precedes it is handed out */
    int waiting, in_launch; /* it waits for that; it is under way */
    int done;
    struct mt_stop *stop;
};

struct mt_feed *mt_feed_new(int fd, struct mt_stop *stop)
{
    struct mt_feed *l = calloc(1, sizeof *l);
    if (l && !(l->announced = mt_companion_new("--live"))) {
        free(l);
        l = NULL;
    }
    if (l) {
        l->fd = fd;
        l->stop = stop;
    }
    return l;
}

void mt_feed_free(struct mt_feed *l)
{
    if (!l)
        return;
    for (struct event *e = l->events, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    for (size_t i = 0; i < l->npaths; i++)
        free(l->paths[i]);
    free(l->paths);
    free(l->payload);
    mt_companion_free(l->announced);
    free(l);
}

int mt_feed_done(const struct mt_feed *l)
{
    return l->done;
}

/* 0, or -1: the stream has ended. */
static int feed_take(struct mt_feed *l, void *out, uint64_t bytes)
{
    char *p = out;
    while (bytes) {
        if (!mt_wait_readable(l->fd, l->stop))
            return -1;
        ssize_t n = read(l->fd, p, bytes);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return -1;
        if (n > 0) {
            p += n;
            bytes -= (uint64_t)n;
        }
    }
    return 0;
}

/* The payload as a string; NULL: no memory, or the end. */
static char *take_text(struct mt_feed *l)
{
    uint64_t n = l->frame.bytes;
    char *text = n < TEXT_MAX ? malloc(n + 1) : NULL;
    if (text && feed_take(l, text, n)) {
        free(text);
        return NULL;
    }
    if (text)
        text[n] = 0;
    return text;
}

/* ---- frames ------------------------------------------------------------------------------------- */

static int add_stream(struct mt_source_merge *m, struct mt_feed *l)
{
    char *path = take_text(l);
    if (!path || mt_grow(&l->paths, &l->path_room, l->npaths + 1, sizeof *l->paths) != 0) {
        free(path);
        return -1;
    }
    l->paths[l->npaths++] = path;
    if (mt_grow(&m->inputs, &m->input_room, m->ninputs + 1, sizeof *m->inputs) != 0)
        return -1;
    struct mt_input *in = &m->inputs[m->ninputs];
    *in = (struct mt_input){.path = path, .fd = -1, .live = 1, .ops = &mt_unknown_input};
    if (asprintf(&in->meta, "%s.meta", path) < 0) {
        in->meta = NULL;
        return -1;
    }
    in->companion = mt_companion_new(in->meta);
    m->ninputs++;
    return in->companion ? 0 : -1;
}

MT_ORDER_1(by_seq, struct mt_copy_event, seq)

/* What the new lines say of memory goes after the copies that wait; nobody asks for it again. */
static int take_events(struct mt_source_merge *m, struct mt_companion *c)
{
    size_t waiting = m->ncopies - m->next_copy;
    if (m->next_copy)
        memmove(m->copies, m->copies + m->next_copy, waiting * sizeof *m->copies);
    m->next_copy = 0;
    m->ncopies = waiting;
    struct mt_copy_event *more =
        realloc(m->copies, (waiting + c->ncopies + c->nallocs + 1) * sizeof *m->copies);
    if (!more)
        return -1;
    m->copies = more;
    for (size_t i = 0; i < c->ncopies; i++)
        more[m->ncopies++] = c->copies[i];
    for (size_t i = 0; i < c->nallocs; i++)
        if (mt_is_new_memory(&c->allocs[i]))
            more[m->ncopies++] = mt_new_memory(&c->allocs[i], 0);
    qsort(more + waiting, m->ncopies - waiting, sizeof *more, by_seq);
    mt_companion_forget_memory(c);
    return 0;
}

static int add_lines(struct mt_source_merge *m, struct mt_feed *l)
{
    char *text = take_text(l);
    struct mt_companion *c = text ? m->inputs[l->frame.stream].companion : NULL;
    int rc = c && mt_companion_add(c, text, l->frame.bytes, 0) == 0 ? take_events(m, c) : -1;
    free(text);
    return rc;
}

static void item_of(struct mt_source_merge *m, struct mt_item *item, const struct mt_raw_record *records,
                    size_t count, unsigned flags)
{
    *item = (struct mt_item){.kind = MT_ITEM_BATCH,
                             .superstep = m->superstep,
                             .kernel = m->kernel,
                             .records = records,
                             .count = count,
                             .flags = flags,
                             .input = m->current,
                             .launch = m->launch};
}

/* A launch whose line, as far as it is known, is in the frame. */
static int launch_comes(struct mt_source_merge *m, struct mt_feed *l)
{
    char *text = take_text(l);
    struct mt_companion *c = l->announced;
    struct event *e = malloc(sizeof *e);
    c->nlaunches = 0;
    if (!text || !e || mt_companion_add(c, text, l->frame.bytes, 0) != 0 || c->nlaunches != 1) {
        free(text);
        free(e);
        return -1;
    }
    free(text);
    *e = (struct event){l->events, c->launches[0]};
    l->events = e;
    m->launch = &e->launch;
    m->kernel = mt_intern_add(&m->names, e->launch.kernel, strlen(e->launch.kernel));
    m->current = l->frame.stream;
    l->limit = l->frame.seq;
    l->waiting = l->in_launch = 1;
    return m->kernel ? 0 : -1;
}

static int take_runs(struct mt_feed *l)
{
    if (l->frame.bytes > RUNS_MAX)
        return -1;
    if (l->frame.bytes > l->room) {
        free(l->payload);
        l->payload = malloc(l->room = l->frame.bytes);
    }
    l->at = 0;
    l->end = l->payload ? l->frame.bytes : 0;
    return l->payload ? feed_take(l, l->payload, l->end) : -1;
}

/* The next frame: 1 there is an item, 0 go on, -1 the end. */
static int feed_frame(struct mt_source_merge *m, struct mt_feed *l, struct mt_raw_record *room,
                      struct mt_item *item)
{
    if (feed_take(l, &l->frame, sizeof l->frame) ||
        (l->frame.stream >= m->ninputs && l->frame.kind != MT_LIVE_STREAM))
        return -1;
    int in_launch = l->in_launch, rc = -1;
    switch (l->frame.kind) {
    case MT_LIVE_STREAM:
        rc = add_stream(m, l);
        break;
    case MT_LIVE_LINES:
        rc = add_lines(m, l);
        break;
    case MT_LIVE_LAUNCH:
        rc = in_launch ? -1 : launch_comes(m, l);
        break;
    case MT_LIVE_RUNS:
        rc = in_launch ? take_runs(l) : -1;
        break;
    case MT_LIVE_END:
        if (in_launch) {
            item_of(m, item, room, 0, MT_BATCH_END);
            m->inputs[m->current].pass.launches++;
            m->superstep++;
            l->in_launch = 0;
            rc = 1;
        }
        break;
    case MT_LIVE_DONE:
        l->done = 1;
        break;
    }
    return rc;
}

/* The next run; its addresses go to `to`, where there is room for `room`. Bytes it takes, 0: no room for
 * them, -1: no run. */
static long next_run(const struct mt_feed *l, struct mt_access_run *r, uint64_t *to, size_t room)
{
    struct mt_live_run w;
    size_t left = l->end - l->at;
    if (left < sizeof w)
        return -1;
    memcpy(&w, l->payload + l->at, sizeof w);
    size_t bytes = w.addresses * sizeof *to;
    if (!w.count || w.meta >> 28 > MT_UNKNOWN || !(w.meta & MT_RAW_MAX_SIZE) ||
        (w.mask != MT_RUN_NO_MASK && w.count != (uint32_t)__builtin_popcount(w.mask)) ||
        (w.addresses && w.addresses != w.count) || left - sizeof w < bytes)
        return -1;
    if (w.addresses > room)
        return 0;
    memcpy(to, l->payload + l->at + sizeof w, bytes);
    *r = (struct mt_access_run){.base = w.base,
                                .stride = w.stride,
                                .addresses = w.addresses ? to : NULL,
                                .cta = w.cta,
                                .smid = w.smid,
                                .meta = w.meta,
                                .count = w.count,
                                .mask = w.mask,
                                .warp = w.warp,
                                .site = w.site};
    return (long)(sizeof w + bytes);
}

/* As many as there is room for. */
static int runs_of(struct mt_source_merge *m, struct mt_feed *l, struct mt_raw_record *room,
                   struct mt_access_run *runs, size_t capacity, struct mt_item *item)
{
    struct mt_input *in = &m->inputs[m->current];
    uint64_t *addresses = (uint64_t *)(void *)room;
    size_t n = 0, used = 0, most = capacity * (sizeof *room / sizeof *addresses);
    long bytes = 1;
    while (n < capacity && l->at < l->end &&
           (bytes = next_run(l, &runs[n], addresses + used, most - used)) > 0) {
        used += runs[n].addresses ? runs[n].count : 0;
        in->pass.records += runs[n++].count;
        l->at += (size_t)bytes;
    }
    if (bytes < 0 || !n)
        return -1;
    item_of(m, item, NULL, n, 0);
    item->kind = MT_ITEM_RUNS;
    item->runs = runs;
    return 1;
}

int mt_feed_next(struct mt_source_merge *m, struct mt_feed *l, struct mt_raw_record *room,
                 struct mt_access_run *runs, size_t capacity, struct mt_item *item)
{
    for (int rc = 0; rc >= 0 && !l->done;) {
        if (l->waiting && m->next_copy < m->ncopies && m->copies[m->next_copy].seq < l->limit) {
            struct mt_copy_event *copy = (struct mt_copy_event *)(void *)room;
            *copy = m->copies[m->next_copy++]; /* the array moves when more come */
            if (m->no_copies && copy->kind != MT_COPY_NEW)
                continue;
            *item = (struct mt_item){
                .kind = MT_ITEM_COPY, .superstep = m->superstep, .input = m->current, .copy = copy};
            return 1;
        }
        if (l->waiting) {
            l->waiting = 0;
            item_of(m, item, room, 0, MT_BATCH_BEGIN);
            return 1;
        }
        rc = l->at < l->end ? runs_of(m, l, room, runs, capacity, item) : feed_frame(m, l, room, item);
        if (rc > 0)
            return 1;
    }
    return 0;
}
