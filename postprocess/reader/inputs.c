/* Inputs of a source: raw traces, compact traces, host traces, and inputs whose kind is not known yet. */
#define _GNU_SOURCE

#include "reader/container/container.h"
#include "reader/base/processes.h"
#include "reader/base/internal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- raw traces, and live inputs whose kind their first byte will show ---- */

#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

static int raw_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    if (in->live && in->raw.reader)
        return 0; /* the input is already at its beginning */
    mt_reader_close(in->raw.reader);
    in->raw = (struct mt_raw_state){0};
    if (lseek(in->fd, in->start, SEEK_SET) < 0) {
        int e = errno;
        return mt_error_set(err, MT_E_SYSTEM, e, 0, in->path, "cannot go back to its beginning: %s",
                            strerror(e));
    }
    in->raw.reader = mt_reader_open_fd(in->fd, in->path, 0, NULL, err);
    if (!in->raw.reader)
        return -1;
    mt_reader_set_stop(in->raw.reader, stop);
    if (in->ends)
        mt_reader_set_ends(in->raw.reader, in->ends);
    in->ends = NULL;
    return 0;
}

/* Returns the next launch's line in the companion file, or NULL. */
static const struct mt_launch_event *raw_input_launch(struct mt_input *in)
{
    const struct mt_companion *c = in->companion;
    size_t *next = &in->raw.next_launch;
    while (c && *next < c->nlaunches && !c->launches[*next].traced)
        ++*next;
    return c && *next < c->nlaunches ? &c->launches[*next] : NULL;
}

static uint64_t raw_input_peek(struct mt_input *in)
{
    const struct mt_launch_event *e = raw_input_launch(in);
    return e ? e->seq : MT_SEQ_NONE;
}

/* Reads record i of the current launch, and later ones, from the file into the sample. Unreadable records
 * count as different. */
static void raw_input_fetch(struct mt_input *in, uint64_t i, size_t count)
{
    struct mt_raw_record *to = &in->raw.sample.at[mt_sample_slot(i)];
    if (pread(in->fd, to, count * sizeof *to, in->start + (off_t)(in->raw.first + i * sizeof *to)) < 0)
        memset(to, 0, count * sizeof *to);
}

/* Samples the next `count` records; NULL: all records of the launch, which is not read. */
static void raw_input_sample(struct mt_input *in, const struct mt_raw_record *records, uint64_t count)
{
    struct mt_raw_state *r = &in->raw;
    if (records)
        mt_sample_add(&r->sample, r->count, records, count);
    else
        raw_input_fetch(in, 0, count > MT_SAMPLE_ALL ? MT_SAMPLE_ALL + 1 : (size_t)count);
    for (uint64_t i = 2 * MT_SAMPLE_ALL; !records && i < count; i *= 2)
        raw_input_fetch(in, i, 1);
    r->count += count;
}

int mt_sample_differs(const struct mt_sample *s, uint64_t records, const struct mt_launch_event *e)
{
    return e->has_sample && XXH3_64bits(s->at, mt_sample_bytes(records)) != e->sample;
}

int mt_raw_input_differs(const struct mt_input *in, const struct mt_launch_event *e)
{
    return in->ops == &mt_raw_input && mt_sample_differs(&in->raw.sample, in->raw.count, e);
}

static int raw_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                          struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                          struct mt_pulled *p, struct mt_error *err)
{
    struct mt_batch b;
    (void)stop, (void)runs;
    uint64_t before = mt_reader_offset(in->raw.reader);
    int rc = mt_reader_fill(in->raw.reader, room, capacity, &b, err);
    p->bytes = mt_reader_offset(in->raw.reader) - before;
    if (rc <= 0) {
        in->pass.finished = p->over = 1;
        return rc;
    }
    if (b.flags & MT_BATCH_BEGIN) {
        p->kernel = b.kernel;
        p->event = raw_input_launch(in);
        in->raw.next_launch += p->event != NULL;
        in->raw.first = b.offset;
        in->raw.count = 0;
    }
    raw_input_sample(in, b.records, b.count);
    p->accesses = b.count;
    *item = (struct mt_item){
        .kind = MT_ITEM_BATCH, .records = b.records, .offset = b.offset, .count = b.count, .flags = b.flags};
    return 1;
}

static int raw_input_more(struct mt_input *in)
{
    return mt_reader_more(in->raw.reader);
}

/* Completes the companion of an input that was live. */
static int raw_input_end(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    return in->live && !in->companion ? mt_input_load_companion(in, 1, stop, err) : 0;
}

static void raw_input_close(struct mt_input *in)
{
    mt_reader_close(in->raw.reader);
    mt_companion_free(in->companion);
}

const struct mt_input_ops mt_raw_input = {raw_input_start, raw_input_peek, raw_input_pull,
                                          raw_input_more,  raw_input_end,  raw_input_close};

/* ---- inputs whose kind is not known yet ---- */

static int unknown_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    (void)in, (void)stop, (void)err;
    return 0;
}

static int unknown_input_more(struct mt_input *in)
{
    (void)in;
    return 1;
}

/* Opens a window and reads the first byte. Returns 1 for a compact trace, 0 for anything else (or no byte),
 * -1 with *err set. */
static int unknown_input_first(struct mt_input *in, struct mt_window *w, const struct mt_stop *stop,
                               struct mt_error *err)
{
    const uint64_t magic = MT_MTC_MAGIC;
    size_t got = 0;
    if (mt_window_open_fd(w, in->fd, in->path, 0, err) != 0)
        return -1;
    w->stop = *stop;
    const unsigned char *p = mt_window_get(w, 0, 1, &got, err); /* NULL: the next read reports the reason */
    return p && got && memcmp(p, &magic, 1) == 0;
}

/* Turns the input into a raw trace that begins with the window's bytes; closes the window. */
static int unknown_input_raw(struct mt_input *in, struct mt_window *w, const struct mt_stop *stop,
                             struct mt_error *err)
{
    struct mt_reader *r = mt_reader_open_fd(in->fd, in->path, 0, NULL, err);
    if (r) {
        mt_reader_set_stop(r, stop);
        mt_reader_preload(r, w->buffer, w->length);
        in->ops = &mt_raw_input;
        in->raw = (struct mt_raw_state){.reader = r};
    }
    mt_window_close(w);
    return r ? 0 : -1;
}

static int container_input_take(struct mt_input *in, struct mt_window *w, unsigned flags,
                                struct mt_error *err);

static int unknown_input_find_out(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    struct mt_window w;
    int container = unknown_input_first(in, &w, stop, err);
    return container > 0    ? container_input_take(in, &w, 0, err)
           : container == 0 ? unknown_input_raw(in, &w, stop, err)
                            : -1;
}

int mt_unknown_input_look(struct mt_input *in, int *spool, const struct mt_stop *stop, struct mt_error *err)
{
    struct mt_window w;
    int container = unknown_input_first(in, &w, stop, err);
    *spool = -1;
    if (container == 0)
        return unknown_input_raw(in, &w, stop, err);
    if (container > 0 && (*spool = mt_spool_create(err)) >= 0 &&
        mt_spool_write(*spool, (char *)w.buffer, w.length, err) != 0) {
        close(*spool);
        *spool = -1;
    }
    if (container > 0)
        mt_window_close(&w);
    return *spool < 0 ? -1 : 0;
}

static int unknown_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                              struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                              struct mt_pulled *p, struct mt_error *err)
{
    if (unknown_input_find_out(in, stop, err) == 0)
        return in->ops->pull(in, stop, room, runs, capacity, item, p, err);
    in->pass.finished = 1;
    return -1;
}

const struct mt_input_ops mt_unknown_input = {unknown_input_start, raw_input_peek, unknown_input_pull,
                                              unknown_input_more,  raw_input_end,  raw_input_close};

/* ---- compact traces: their runs as runs or records ---- */

int mt_input_is_container(const struct mt_input *in)
{
    uint64_t magic = 0;
    return pread(in->fd, &magic, sizeof magic, (off_t)in->start) == (ssize_t)sizeof magic &&
           magic == MT_MTC_MAGIC;
}

static int host_input_open(struct mt_input *in, struct mt_host_reader *r, struct mt_error *err);

static int container_input_take(struct mt_input *in, struct mt_window *w, unsigned flags,
                                struct mt_error *err)
{
    struct mt_host_reader *r = mt_container_open(w, err);
    if (!r)
        return -1;
    if (mt_host_reader_head(r)->features & MT_MTC_HAS_DEVICE) {
        mt_device_use(r, in->pool, in->threads);
        in->ops = &mt_device_input;
        in->container = (struct mt_container_state){.reader = r};
        return 0;
    }
    if (flags & MT_SOURCE_HOST)
        return host_input_open(in, r, err);
    mt_error_set(err, MT_E_INPUT, 0, 0, in->path,
                 "is a compact container of host accesses, not a trace of kernels: memtrace dump and "
                 "memtrace graph read "
                 "it alone, memtrace extract together with the traces of the same process");
    mt_host_reader_close(r);
    return -1;
}

/* Returns the companion inside a compact trace. NULL for a trace that was converted from a raw one without
 * companion file: it does not tell whether it is complete. */
static struct mt_companion *companion_of(struct mt_host_reader *r)
{
    struct mt_companion *c = (struct mt_companion *)mt_host_companion(r);
    return mt_companion_speaks(c) ? c : NULL;
}

/* Returns 1 if a companion file may belong to a compact trace without lines of its own. Such a trace,
 * converted from a raw one without companion file, does not name its process. */
static int device_input_belongs(const struct mt_input *in, const struct mt_companion *c)
{
    const struct mt_mtc_head *head = mt_host_reader_head(in->container.reader);
    return head->pid == 0 || (head->pid == c->pid && c->start_ns <= head->start_ns);
}

/* Looks for the companion file that the program wrote beside the compact trace; it has the same lines. It is
 * the companion of a trace without lines (whose program was killed early). If it is of the same run and
 * differs, that must be reported. */
static int look_beside(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    const struct mt_companion *own = in->companion;
    if (mt_input_load_companion(in, 0, stop, err) != 0)
        return -1;
    in->beside = in->companion == own ? NULL : in->companion;
    if (own)
        in->companion = (struct mt_companion *)own;
    if (!in->beside || (own ? own->pid == in->beside->pid && own->start_ns == in->beside->start_ns
                            : device_input_belongs(in, in->beside)))
        return 0;
    mt_companion_free(in->beside); /* belongs to another run */
    in->beside = NULL;
    in->companion = (struct mt_companion *)own;
    return in->meta_optional ? 0
                             : mt_error_set(err, MT_E_INPUT, 0, 0, in->meta,
                                            "is the companion of another run than %s", in->path);
}

int mt_container_input_open(struct mt_input *in, unsigned flags, const struct mt_stop *stop,
                            struct mt_error *err)
{
    struct mt_window w;
    if (lseek(in->fd, in->start, SEEK_SET) < 0 || mt_window_open_fd(&w, in->fd, in->path, 0, err) != 0)
        return mt_error_set(err, MT_E_SYSTEM, errno, 0, in->path, "cannot read: %s", strerror(errno));
    w.stop = *stop;
    if (container_input_take(in, &w, flags, err) != 0)
        return -1;
    int rc = 0;
    if (!mt_input_is_host(in) && !(flags & MT_SOURCE_NO_COMPANION)) {
        in->companion = companion_of(in->container.reader);
        rc = look_beside(in, stop, err);
    }
    free(in->meta); /* its meta lines are in the trace */
    in->meta = NULL;
    return rc;
}

/* Returns the next runs unchanged. */
static int device_input_runs(struct mt_container_state *c, struct mt_item *item, uint64_t *accesses,
                             struct mt_error *err)
{
    int rc = mt_device_next(c->reader, &c->batch, err);
    *accesses = c->batch.accesses;
    c->run = c->batch.count; /* nothing is left to be returned as records */
    *item = (struct mt_item){
        .kind = MT_ITEM_RUNS, .runs = c->batch.runs, .count = c->batch.count, .flags = c->batch.flags};
    return rc;
}

/* Returns a whole launch, unread. */
static int device_input_place(struct mt_container_state *c, struct mt_item *item, uint64_t *accesses)
{
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(c->reader, &n);
    if (c->place == n)
        return 0;
    l += c->place++;
    mt_device_seek(c->reader, c->place); /* sets the launch that mt_device_peek returns */
    c->batch = (struct mt_run_batch){.kernel = l->kernel, .seq = l->seq};
    *accesses = l->accesses;
    *item = (struct mt_item){.kind = MT_ITEM_RUNS,
                             .offset = l->first,
                             .count = l->chunks,
                             .flags = MT_BATCH_BEGIN | MT_BATCH_END | (l->single ? MT_BATCH_SINGLE : 0)};
    return 1;
}

/* Returns the next runs, as runs or records, like mt_device_next; *accesses is the number in the item. */
static int device_input_next(struct mt_container_state *c, struct mt_raw_record *room,
                             struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                             uint64_t *accesses, struct mt_error *err)
{
    struct mt_run_batch *b = &c->batch;
    if (c->places)
        return device_input_place(c, item, accesses);
    if (runs)
        return device_input_runs(c, item, accesses, err);
    unsigned flags = 0;
    if (c->run == b->count) {
        int rc = mt_device_next(c->reader, b, err);
        c->run = c->lane = 0;
        if (rc <= 0) {
            b->count = 0;
            return rc;
        }
        flags = b->flags & MT_BATCH_BEGIN;
    }
    *accesses = mt_records_from_runs(b->runs, b->count, &c->run, &c->lane, room, capacity);
    if (c->run == b->count)
        flags |= b->flags & MT_BATCH_END;
    *item = (struct mt_item){.kind = MT_ITEM_BATCH, .records = room, .count = *accesses, .flags = flags};
    return 1;
}

static int device_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    (void)stop;
    in->container = (struct mt_container_state){.reader = in->container.reader, .places = in->ends != NULL};
    in->ends = NULL; /* the next pass reads the records */
    mt_host_reader_spaces(in->container.reader, in->spaces);
    return in->live ? 0 : mt_host_rewind(in->container.reader, err); /* a live input was opened just now */
}

static uint64_t device_input_peek(struct mt_input *in)
{
    return mt_process_seq(in->process, mt_device_peek(in->container.reader));
}

static const struct mt_launch_event *device_input_event(struct mt_input *in, uint64_t seq)
{
    return in->companion ? mt_device_launch_event(in->container.reader, mt_process_seq(in->process, seq))
                         : NULL;
}

/* Pulls the next item; continues after damage. */
static int device_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                             struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                             struct mt_pulled *p, struct mt_error *err)
{
    struct mt_container_state *c = &in->container;
    uint64_t before, after, total;
    (void)stop;
    mt_host_progress(c->reader, &before, &total);
    int rc = device_input_next(c, room, runs, capacity, item, &p->accesses, err);
    mt_host_progress(c->reader, &after, &total);
    p->bytes = after - before;
    if (rc > 0) {
        if (item->flags & MT_BATCH_BEGIN) {
            c->seq = c->batch.seq;
            p->kernel = c->batch.kernel;
            p->event = device_input_event(in, c->seq);
        }
        return 1;
    }
    in->pass.finished =
        rc == 0 || err->code == MT_E_SYSTEM || err->code == MT_E_STOPPED || err->code == MT_E_INPUT;
    p->over = in->pass.finished || err->code == MT_E_TRUNCATED ||
              (!in->live && mt_device_peek(c->reader) != c->seq);
    return rc;
}

/* The number of accesses comes from the launch's line: the index also counts other spaces. */
int mt_device_input_pass(struct mt_input *in, struct mt_item *item, struct mt_pulled *p)
{
    struct mt_container_state *c = &in->container;
    uint64_t before, after, total;
    if (in->ops != &mt_device_input || c->places)
        return 0;
    mt_host_progress(c->reader, &before, &total);
    const struct mt_device_launch *l = mt_device_pass(c->reader);
    if (!l)
        return 0;
    mt_host_progress(c->reader, &after, &total);
    c->seq = l->seq;
    p->bytes = after - before;
    p->kernel = l->kernel;
    p->event = device_input_event(in, l->seq);
    const int known = p->event && p->event->has_records;
    p->accesses = known ? p->event->records + (in->spaces ? p->event->others : 0) : l->accesses;
    *item = (struct mt_item){.flags = MT_BATCH_BEGIN | MT_BATCH_END,
                             .unread = known ? p->event->records : l->accesses};
    return 1;
}

/* Only a pull can tell whether there is more. */
static int device_input_more(struct mt_input *in)
{
    (void)in;
    return -1;
}

/* Completes the companion of an input that was live. A compact trace without companion may be incomplete. */
static int device_input_end(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    (void)stop;
    if (in->live && in->meta)
        in->companion = companion_of(in->container.reader);
    return in->companion ? 0 : mt_container_whole(in->container.reader, err);
}

static void device_input_close(struct mt_input *in)
{
    mt_host_reader_close(in->container.reader);
}

const struct mt_input_ops mt_device_input = {device_input_start, device_input_peek, device_input_pull,
                                             device_input_more,  device_input_end,  device_input_close};

void mt_container_set_stop(struct mt_host_reader *r, const struct mt_stop *stop)
{
    r->window.stop = *stop;
}

/* ---- host traces beside traces of kernels: accesses by sequence number, without launches ---- */

/* Makes the reader the input's. Returns 0, or -1 with *err set. */
static int host_input_open(struct mt_input *in, struct mt_host_reader *r, struct mt_error *err)
{
    const struct mt_mtc_head *head = mt_host_reader_head(r);
    in->ops = &mt_host_input;
    in->host = (struct mt_host_state){.reader = r};
    if (!(head->features & MT_MTC_HAS_HOST))
        return mt_error_set(err, MT_E_INPUT, 0, 0, in->path, "is a container without host accesses");
    return mt_host_reader_order(r, MT_HOST_BY_SEQ, err);
}

/* Reports damage. The same damage again means that the reader cannot go on after it. */
static void host_input_damage(struct mt_input *in, const struct mt_error *problem)
{
    if (problem->code != MT_E_CORRUPT || problem->offset == in->host.bad_offset)
        in->pass.finished = 1;
    in->host.bad_offset = problem->offset;
}

/* Returns start or end of a thread, encoded as in mt_item; 0: another event. */
static uint64_t host_input_life(const struct mt_host_item *item)
{
    const uint64_t thread = (item->thread & INT32_MAX) + 1;
    return item->event == MT_HOST_EV_THREAD_END     ? thread
           : item->event == MT_HOST_EV_THREAD_START ? thread | MT_THREAD_BEGAN
                                                    : 0;
}

/* Reads the next accesses into in->host.head, from in->host.taken on. Returns 1, 0 at the end, or -1 with
 * *err set. *bytes is the number of bytes read. */
static int host_fill(struct mt_input *in, uint64_t *bytes, struct mt_error *err)
{
    uint64_t before, after, total;
    int rc = 1;
    mt_host_progress(in->host.reader, &before, &total);
    while (!in->pass.finished && !in->host.has_head && !in->host.life && rc >= 0) {
        rc = mt_host_next(in->host.reader, &in->host.head, err);
        if (rc < 0)
            host_input_damage(in, err);
        in->pass.finished |= rc == 0;
        in->host.has_head = rc > 0 && in->host.head.kind == MT_HOST_ITEM_RECORDS && in->host.head.count > 0;
        if (rc > 0 && in->host.head.kind == MT_HOST_ITEM_EVENT && in->ops == &mt_threads_input)
            in->host.life = host_input_life(&in->host.head);
        in->host.taken = 0;
    }
    mt_host_progress(in->host.reader, &after, &total);
    *bytes += after - before;
    return rc < 0 ? rc : in->host.has_head;
}

/* Makes sure that in->host.head is filled. Returns 1, or 0 at the end. */
static int fill_head(struct mt_source_merge *m, struct mt_input *in)
{
    struct mt_error problem;
    uint64_t bytes = 0;
    int rc = 0;
    while (!m->stopped && (rc = host_fill(in, &bytes, &problem)) < 0)
        mt_merge_problem(m, &problem);
    __atomic_fetch_add(&m->done, bytes, __ATOMIC_RELAXED);
    return rc > 0;
}

size_t mt_merge_host(struct mt_source_merge *m, uint64_t *seq)
{
    size_t best = m->ninputs;
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        if (mt_input_is_host(in) && in->host.merged && fill_head(m, in) &&
            (best == m->ninputs || in->host.head.seq < *seq)) {
            best = i;
            *seq = in->host.head.seq;
        }
    }
    return best;
}

/* Takes at most `capacity` accesses of in->host.head; returns their number. */
static size_t host_take(struct mt_input *in, struct mt_host_access *room, size_t capacity)
{
    static const struct mt_host_site_info nothing = {.op = MT_HOST_UNKNOWN,
                                                     .file = "",
                                                     .function = "",
                                                     .module = "",
                                                     .variable = "",
                                                     .text = "",
                                                     .reads = "",
                                                     .writes = ""};
    size_t n = in->host.head.count - in->host.taken;
    if (n > capacity)
        n = capacity;
    for (size_t k = 0; k < n; k++) {
        const struct mt_host_record *r = &in->host.head.records[in->host.taken + k];
        const struct mt_host_site_info *site = mt_host_site(in->host.reader, r->site);
        room[k].address = r->address;
        room[k].site = site ? site : &nothing;
        room[k].size = r->size ? r->size : room[k].site->size;
        room[k].reserved = 0;
    }
    in->host.taken += n;
    in->host.has_head = in->host.taken < in->host.head.count;
    return n;
}

void mt_merge_host_take(struct mt_source_merge *m, size_t i, struct mt_host_access *room, size_t capacity,
                        struct mt_item *item)
{
    struct mt_input *in = &m->inputs[i];
    size_t n = host_take(in, room, capacity);
    *item = (struct mt_item){.kind = MT_ITEM_HOST,
                             .superstep = m->superstep,
                             .count = n,
                             .input = i,
                             .host = room,
                             .thread = in->host.head.thread,
                             .seq = in->host.head.seq};
    in->pass.records += n;
    if (mt_stopped(&m->stop)) {
        struct mt_error stopped;
        mt_error_set(&stopped, MT_E_STOPPED, EINTR, 0, in->path, "stopped while reading");
        mt_merge_problem(m, &stopped);
    }
}

static int host_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    struct mt_host_state *h = &in->host;
    (void)stop;
    h->has_head = h->begun = h->ended = h->has_problem = 0;
    h->seq = h->life = 0;
    h->bad_offset = UINT64_MAX;
    return mt_host_rewind(h->reader, err);
}

static int host_input_end(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    (void)in, (void)stop, (void)err;
    return 0;
}

static void host_input_close(struct mt_input *in)
{
    mt_host_reader_close(in->host.reader);
    mt_companion_free(in->companion);
    free(in->host.program);
}

const struct mt_input_ops mt_host_input = {
    .start = host_input_start, .end = host_input_end, .close = host_input_close};

/* ---- host traces without kernels: the program is a launch, its threads are CTAs ---- */

static uint64_t threads_count(const struct mt_host_reader *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->chunks.count; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        n = e->type == MT_MTC_HOST && e->key != UINT64_MAX && e->key >= n ? e->key + 1 : n;
    }
    return n;
}

int mt_threads_input_take(struct mt_input *in, uint64_t number, struct mt_error *err)
{
    struct mt_host_state *h = &in->host;
    const struct mt_companion *c = mt_host_companion(h->reader);
    const char *slash = c ? strrchr(c->program, '/') : NULL, *name = slash ? slash + 1 : c ? c->program : "";
    if (!(h->program = strdup(*name ? name : "program")))
        return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, in->path, "no memory");
    uint64_t threads = threads_count(h->reader);
    h->launch = (struct mt_launch_event){.seq = MT_SEQ_PROGRAM + number,
                                         .kernel = h->program,
                                         .mangled = "",
                                         .signature = "",
                                         .file = "",
                                         .left_out = "",
                                         .library = "",
                                         .grid = {threads ? threads : 1, 1, 1},
                                         .block = {1, 1, 1},
                                         .traced = 1};
    in->ops = &mt_threads_input;
    return mt_host_reader_order(
        h->reader,
        mt_host_reader_head(h->reader)->features & MT_MTC_HAS_TIMES ? MT_HOST_BY_TIME : MT_HOST_BY_SEQ, err);
}

/* Reads the next item; keeps an error until it can be reported. */
static int threads_look(struct mt_input *in, uint64_t *bytes)
{
    struct mt_host_state *h = &in->host;
    if (!h->has_problem && host_fill(in, bytes, &h->problem) < 0)
        h->has_problem = 1;
    return !h->has_problem && h->has_head && !h->life;
}

uint64_t mt_threads_input_seq(struct mt_input *in)
{
    uint64_t bytes = 0;
    if (!threads_look(in, &bytes))
        return MT_SEQ_NONE;
    return in->host.head.seq > in->host.seq ? in->host.head.seq : in->host.seq;
}

static uint32_t threads_type(const struct mt_host_access *a)
{
    static const struct {
        unsigned char reads, writes;
    } does[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = {reads, writes},
#include "memtrace/container.def"
    };
    unsigned op = (unsigned)a->site->op;
    if (op >= sizeof does / sizeof *does || a->size == 0)
        return MT_UNKNOWN;
    return does[op].reads && does[op].writes ? MT_ATOMIC
           : does[op].reads                  ? MT_LOAD
           : does[op].writes                 ? MT_STORE
                                             : MT_UNKNOWN;
}

/* Returns 1 if an access continues the last run. */
static int threads_goes_on(struct mt_access_run *r, const struct mt_access_run *a)
{
    if (r->site != a->site || r->cta != a->cta || r->meta != a->meta || r->count == UINT32_MAX)
        return 0;
    if (r->count == 1)
        r->stride = (int64_t)(a->base - r->base);
    if (a->base != r->base + r->count * (uint64_t)r->stride)
        return 0;
    r->count++;
    return 1;
}

/* Appends an access to the runs: at most two more, for an access that is longer than a record allows. */
static size_t threads_add(struct mt_access_run *runs, size_t n, const struct mt_host_access *a,
                          uint64_t thread)
{
    uint32_t type = threads_type(a), size = a->size, whole = size / MT_RAW_MAX_SIZE;
    struct mt_access_run r = {.base = a->address,
                              .stride = MT_RAW_MAX_SIZE,
                              .cta = thread << 32,
                              .warp = MT_RUN_NO_WARP,
                              .site = a->site->site,
                              .count = whole,
                              .meta = type << 28 | MT_RAW_MAX_SIZE};
    if (type == MT_UNKNOWN)
        return n;
    if (whole)
        runs[n++] = r;
    r.base += (uint64_t)whole * MT_RAW_MAX_SIZE;
    r.meta = type << 28 | size % MT_RAW_MAX_SIZE;
    r.count = 1;
    r.stride = 0;
    if (size % MT_RAW_MAX_SIZE && (n == 0 || whole || !threads_goes_on(&runs[n - 1], &r)))
        runs[n++] = r;
    return n;
}

/* Collects accesses with the same sequence number in force, as many as fit. */
static size_t threads_collect(struct mt_input *in, struct mt_host_access *room, struct mt_access_run *runs,
                              size_t capacity, size_t *nruns, uint64_t *bytes)
{
    struct mt_host_state *h = &in->host;
    size_t n = 0;
    *nruns = 0;
    while (n < capacity / 2 && threads_look(in, bytes)) {
        if (h->head.seq > h->seq && n > 0)
            break;
        h->seq = h->head.seq > h->seq ? h->head.seq : h->seq;
        const uint64_t thread = h->head.thread & INT32_MAX;
        size_t got = host_take(in, room + n, capacity / 2 - n);
        for (size_t i = 0; i < got; i++)
            *nruns = threads_add(runs, *nruns, &room[n + i], thread);
        n += got;
    }
    return n;
}

static uint64_t threads_accesses(const struct mt_access_run *runs, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += runs[i].count;
    return sum;
}

static int threads_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                              struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                              struct mt_pulled *p, struct mt_error *err)
{
    struct mt_host_state *h = &in->host;
    size_t n = 0, host = 0;
    *item = (struct mt_item){.kind = MT_ITEM_RUNS, .runs = runs, .host = (const void *)room};
    if (mt_stopped(stop)) {
        in->pass.finished = p->over = 1;
        return mt_error_set(err, MT_E_STOPPED, EINTR, 0, in->path, "stopped while reading");
    }
    if (!h->begun) {
        /* Only the beginning: new memory may precede the first access. */
        h->begun = 1;
        p->kernel = h->program;
        p->event = &h->launch;
        item->flags = MT_BATCH_BEGIN;
        return 1;
    }
    if (h->life) {
        /* Only the start or end of a thread: new memory may precede the thread's accesses. */
        item->life = h->life;
        item->seq = h->seq;
        h->life = 0;
        return 1;
    }
    host = threads_collect(in, (struct mt_host_access *)(void *)room, runs, capacity, &n, &p->bytes);
    if (host == 0 && h->has_problem) {
        h->has_problem = 0;
        *err = h->problem;
        p->over = in->pass.finished;
        return -1;
    }
    item->count = n;
    item->host_count = host;
    item->seq = h->seq;
    p->accesses = threads_accesses(runs, n);
    if (host == 0 && !h->life)
        item->flags = MT_BATCH_END;
    return 1;
}

static uint64_t threads_input_peek(struct mt_input *in)
{
    return in->host.launch.seq - MT_SEQ_PROGRAM; /* allocations happen within the launch, not before it */
}

static int threads_input_more(struct mt_input *in)
{
    return !in->pass.finished;
}

const struct mt_input_ops mt_threads_input = {host_input_start,   threads_input_peek, threads_input_pull,
                                              threads_input_more, host_input_end,     host_input_close};

int mt_input_open(struct mt_input *in, const char *path, int fd, const char *meta, struct mt_error *err)
{
    int standard = fd < 0 && strcmp(path, "-") == 0;
    struct stat st;
    in->path = path;
    in->owned = !standard;
    in->fd = fd >= 0 ? fd : standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in->fd < 0 || fstat(in->fd, &st) != 0) {
        int e = errno;
        return mt_error_set(err, MT_E_INPUT, e, 0, path, "cannot open: %s", strerror(e));
    }
    if (S_ISDIR(st.st_mode))
        return mt_error_set(err, MT_E_INPUT, EISDIR, 0, path, "is a directory, not a trace");
    in->device = st.st_dev;
    in->inode = st.st_ino;
    off_t at = lseek(in->fd, 0, SEEK_CUR);
    in->live = !S_ISREG(st.st_mode) || at < 0;
    in->ops = in->live ? &mt_unknown_input : &mt_raw_input;
    in->start = in->live ? 0 : at;
    in->size = in->live || st.st_size < at ? 0 : (uint64_t)(st.st_size - at);
    in->meta_optional = meta == NULL;
    if (meta ? !(in->meta = strdup(meta)) : !standard && fd < 0 && asprintf(&in->meta, "%s.meta", path) < 0) {
        in->meta = NULL;
        return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory");
    }
    return 0;
}

int mt_input_load_companion(struct mt_input *in, int wait, const struct mt_stop *stop, struct mt_error *err)
{
    if (!in->meta)
        return 0;
    for (int tries = 0;; tries++) {
        in->companion = mt_companion_load(in->meta, err);
        if (!in->companion)
            return in->meta_optional && err->code == MT_E_INPUT && err->sys == ENOENT ? 0 : -1;
        const struct mt_companion *c = in->companion;
        if (!wait || c->has_end || !c->regular || c->pid == 0 || tries == 60 || kill((pid_t)c->pid, 0) != 0 ||
            mt_stopped(stop))
            return in->meta_optional || c->has_header
                       ? 0
                       : mt_error_set(err, MT_E_INPUT, 0, 0, in->meta,
                                      "is no companion: no line of it says of what trace it is");
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        mt_companion_free(in->companion);
        in->companion = NULL;
    }
}

int mt_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    in->pass = (struct mt_input_pass){0};
    return in->ops->start(in, stop, err);
}

const struct mt_companion *mt_input_companion(const struct mt_input *in)
{
    return mt_input_is_host(in) ? mt_host_companion(in->host.reader) : in->companion;
}

void mt_input_close(struct mt_input *in)
{
    if (in->ops)
        in->ops->close(in);
    mt_companion_free(in->beside);
    free(in->meta);
    if (in->owned && in->fd >= 0)
        close(in->fd);
}
