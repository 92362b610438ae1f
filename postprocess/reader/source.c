/* mt_source: opens the inputs, chooses order and spooling, runs the merge in its pool. */
#define _GNU_SOURCE

#include "reader/container/container.h"
#include "reader/base/processes.h"
#include "reader/base/internal.h"
#include "memtrace/order.h"
#include "memtrace/grow.h"
#include "reader/base/pool.h"
#include "run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

/* Inputs of a source: raw traces, compact traces, host traces, and inputs whose kind is not known yet. */

/* ---- raw traces, and live inputs whose kind their first byte will show ---- */

static const struct mt_input_ops absent_input;

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

static int raw_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                          struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                          struct mt_pulled *p, struct mt_error *err)
{
    struct mt_batch b;
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

static int input_load_companion(struct mt_input *in, int wait, const struct mt_stop *stop,
                                struct mt_error *err);

/* Completes the companion of an input that was live. */
static int raw_input_end(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    return in->live && !in->companion ? input_load_companion(in, 1, stop, err) : 0;
}

static void raw_input_close(struct mt_input *in)
{
    mt_reader_close(in->raw.reader);
    mt_companion_free(in->companion);
}

const struct mt_input_ops mt_raw_input = {raw_input_start, raw_input_peek, raw_input_pull,
                                          raw_input_more,  raw_input_end,  raw_input_close};

/* ---- traces that others read: launches from the companion, without records ---- */

static int absent_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    in->raw = (struct mt_raw_state){0};
    return 0;
}

static int absent_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                             struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                             struct mt_pulled *p, struct mt_error *err)
{
    const struct mt_launch_event *e = raw_input_launch(in);
    if (!e) {
        in->pass.finished = p->over = 1;
        return 0;
    }
    in->raw.next_launch++;
    p->kernel = e->kernel;
    p->event = e;
    *item = (struct mt_item){.kind = MT_ITEM_BATCH, .records = room, .flags = MT_BATCH_BEGIN | MT_BATCH_END};
    return 1;
}

static int absent_input_more(struct mt_input *in)
{
    return raw_input_launch(in) != NULL;
}

static const struct mt_input_ops absent_input = {absent_input_start, raw_input_peek, absent_input_pull,
                                                 absent_input_more,  raw_input_end,  raw_input_close};

/* ---- inputs whose kind is not known yet ---- */

static int unknown_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    return 0;
}

static int unknown_input_more(struct mt_input *in)
{
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

/* Identifies an unknown input by its first bytes. Those of a compact trace are then in a new file *spool, to
 * which the rest must be appended; otherwise the input is a raw trace, and *spool is -1. Returns 0, or -1
 * with *err set. */
static int unknown_input_look(struct mt_input *in, int *spool, const struct mt_stop *stop,
                              struct mt_error *err)
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

/* Returns 1 if the regular file of the input is a compact trace. */
static int input_is_container(const struct mt_input *in)
{
    uint64_t magic = 0;
    return pread(in->fd, &magic, sizeof magic, (off_t)in->start) == (ssize_t)sizeof magic &&
           magic == MT_MTC_MAGIC;
}

static int host_input_open(struct mt_input *in, struct mt_host_reader *r, struct mt_error *err);

/* Decodes the reader's chunks in this pool, with `threads` threads. Before the first batch; the pool must
 * outlive the reader. */
static void source_device_use(struct mt_host_reader *r, struct mt_pool *pool, unsigned threads)
{
    r->device.pool = pool;
    r->device.threads = threads;
}

static int container_input_take(struct mt_input *in, struct mt_window *w, unsigned flags,
                                struct mt_error *err)
{
    struct mt_host_reader *r = mt_container_open(w, err);
    if (!r)
        return -1;
    if (mt_host_reader_head(r)->features & MT_MTC_HAS_DEVICE) {
        source_device_use(r, in->pool, in->threads);
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
    if (input_load_companion(in, 0, stop, err) != 0)
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

/* Opens a regular file as a compact trace, which contains its companion. Returns 0, or -1 with *err set. */
static int container_input_open(struct mt_input *in, unsigned flags, const struct mt_stop *stop,
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

static void source_host_progress(const struct mt_host_reader *r, uint64_t *done, uint64_t *total)
{
    *done = r->done;
    *total = r->window.size;
}

/* Pulls the next item; continues after damage. */
static int device_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                             struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                             struct mt_pulled *p, struct mt_error *err)
{
    struct mt_container_state *c = &in->container;
    uint64_t before, after, total;
    source_host_progress(c->reader, &before, &total);
    int rc = device_input_next(c, room, runs, capacity, item, &p->accesses, err);
    source_host_progress(c->reader, &after, &total);
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

/* Returns the launch in the list that begins with device chunk `chunk`, or NULL. */
static const struct mt_device_launch *source_device_at(const struct mt_device_state *d, size_t chunk)
{
    size_t at = MT_FIRST(i, d->nlaunches, d->launches[i].first >= chunk);
    return at < d->nlaunches && d->launches[at].first == chunk ? &d->launches[at] : NULL;
}

/* Skips the next launch and returns it, or NULL if no launch there is known to be whole. */
static const struct mt_device_launch *source_device_pass(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    const struct mt_device_launch *l = d->open || d->begun ? NULL : source_device_at(d, d->next);
    if (!l || !l->whole || !l->named)
        return NULL;
    for (size_t i = l->first; i < l->first + l->chunks; i++) {
        size_t at = d->chunks[i];
        if (at + 1 < r->chunks.count)
            r->done += r->chunks.entries[at + 1].offset - r->chunks.entries[at].offset;
    }
    mt_device_seek(r, (size_t)(l - d->launches) + 1);
    return l;
}

/* The number of accesses comes from the launch's line: the index also counts other spaces. */
static int device_input_pass(struct mt_input *in, struct mt_item *item, struct mt_pulled *p)
{
    struct mt_container_state *c = &in->container;
    uint64_t before, after, total;
    if (in->ops != &mt_device_input || c->places)
        return 0;
    source_host_progress(c->reader, &before, &total);
    const struct mt_device_launch *l = source_device_pass(c->reader);
    if (!l)
        return 0;
    source_host_progress(c->reader, &after, &total);
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
    return -1;
}

/* Completes the companion of an input that was live. A compact trace without companion may be incomplete. */
static int device_input_end(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
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
    source_host_progress(in->host.reader, &before, &total);
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
    source_host_progress(in->host.reader, &after, &total);
    *bytes += after - before;
    return rc < 0 ? rc : in->host.has_head;
}

static void merge_problem(struct mt_source_merge *m, const struct mt_error *problem);

/* Makes sure that in->host.head is filled. Returns 1, or 0 at the end. */
static int fill_head(struct mt_source_merge *m, struct mt_input *in)
{
    struct mt_error problem;
    uint64_t bytes = 0;
    int rc = 0;
    while (!m->stopped && (rc = host_fill(in, &bytes, &problem)) < 0)
        merge_problem(m, &problem);
    __atomic_fetch_add(&m->done, bytes, __ATOMIC_RELAXED);
    return rc > 0;
}

/* Returns the host trace whose accesses come next, with their sequence number, or ninputs. */
static size_t merge_host(struct mt_source_merge *m, uint64_t *seq)
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

/* Returns accesses of that host trace; `room` has `capacity` accesses. */
static void merge_host_take(struct mt_source_merge *m, size_t i, struct mt_host_access *room, size_t capacity,
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
        merge_problem(m, &stopped);
    }
}

static int host_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    struct mt_host_state *h = &in->host;
    h->has_head = h->begun = h->ended = h->has_problem = 0;
    h->seq = h->life = 0;
    h->bad_offset = UINT64_MAX;
    return mt_host_rewind(h->reader, err);
}

static int host_input_end(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
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

/* Makes the program launch `number`, if there are no kernels. Returns 0, or -1 with *err set. */
static int threads_input_take(struct mt_input *in, uint64_t number, struct mt_error *err)
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

/* Returns the sequence number in force for the next item, or MT_SEQ_NONE at the end. */
static uint64_t threads_input_seq(struct mt_input *in)
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

/* Opens an input. `fd`: already open, without a companion file; or -1. Returns 0, or -1 with *err set. */
static int input_open(struct mt_input *in, const char *path, int fd, const char *meta, struct mt_error *err)
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

/* Loads the companion file, if there is one; without launches, if the input's own lines are whole. `wait`:
 * waits for a running program to write its end. */
static int input_load_companion(struct mt_input *in, int wait, const struct mt_stop *stop,
                                struct mt_error *err)
{
    struct mt_companion *(*const load)(const char *, struct mt_error *) =
        in->companion && in->companion->has_end ? mt_companion_load_rest : mt_companion_load;
    if (!in->meta)
        return 0;
    for (int tries = 0;; tries++) {
        in->companion = load(in->meta, err);
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

/* Begins a pass, at the beginning of the trace. */
static int input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    in->pass = (struct mt_input_pass){0};
    return in->ops->start(in, stop, err);
}

const struct mt_companion *mt_input_companion(const struct mt_input *in)
{
    return mt_input_is_host(in) ? mt_host_companion(in->host.reader) : in->companion;
}

static void input_close(struct mt_input *in)
{
    if (in->ops)
        in->ops->close(in);
    mt_companion_free(in->beside);
    free(in->meta);
    if (in->owned && in->fd >= 0)
        close(in->fd);
}

/* Merges several readers in one order of launches; host copies and accesses precede their next launch. */

/* ---- streams of the process that no input has: a part must not pass for the whole run ---- */

static int by_number(const void *a, const void *b)
{
    const struct mt_stream_event *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return (x->why != NULL) - (y->why != NULL);
}

/* Lists the streams of the inputs, in order; a converted trace may have several. */
static size_t streams_read(const struct mt_source_merge *m, uint64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c || mt_input_is_host(&m->inputs[i]))
            continue;
        out[n++] = c->stream;
        for (size_t k = 0; k < c->nlaunches; k++)
            if (c->launches[k].traced && c->launches[k].stream != out[n - 1])
                out[n++] = c->launches[k].stream;
    }
    qsort(out, n, sizeof *out, mt_order_u64);
    return n;
}

/* Returns the path of a file with this name beside the inputs, where the program wrote all. NULL: no
 * memory. */
static char *streams_path(const struct mt_source_merge *m, const char *name, const char *ending)
{
    const char *first = m->inputs[0].path, *slash = strrchr(first, '/');
    char *path;
    int n = asprintf(&path, "%.*s%s%s", slash ? (int)(slash - first) + 1 : 0, first, name, ending);
    return n < 0 ? NULL : path;
}

/* Returns 1 if a raw trace of this name lacks its companion file. Directories leave it out. */
static int streams_alone(const struct mt_source_merge *m, const char *trace)
{
    char *path = streams_path(m, trace, ""), *meta = streams_path(m, trace, ".meta");
    int alone = path && meta && *trace && access(path, F_OK) == 0 && access(meta, F_OK) != 0 &&
                !mt_is_container(path);
    free(path);
    free(meta);
    return alone;
}

/* Reads the streams from the companion file that has the process's events, if another one refers to it. */
static void streams_shared(struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *d = mt_input_companion(&m->inputs[i]);
        size_t n = d && !mt_input_is_host(&m->inputs[i]) ? strlen(d->trace) : 0;
        if (n && !strncmp(c->shared, d->trace, n) && !strcmp(c->shared + n, ".meta"))
            return;
    }
    char *path = streams_path(m, c->shared, "");
    mt_merge_note(m, 1, "%s: the events of its process are in %s, %s", c->path, c->shared,
                  path && access(path, F_OK) == 0 ? "whose trace is not among the inputs"
                                                  : "which is not there");
    free(path);
}

/* Streams that are missing for one reason: their number, and the file of the first one. */
struct streams_missing {
    const char *trace;
    uint64_t count;
};

/* Notes streams that no companion file names, and streams of unknown order. */
static void streams_part(struct mt_source_merge *m, const struct streams_missing *unnamed,
                         const struct streams_missing *alone)
{
    if (unnamed->count == 1)
        mt_merge_note(
            m, 1,
            "this is a part of the run: the launches of another stream are in %s, which is not among "
            "the inputs; name it, too, or the folder",
            unnamed->trace);
    else if (unnamed->count)
        mt_merge_note(m, 1,
                      "this is a part of the run: the launches of %llu other streams are in %s and the like, "
                      "which are not among the inputs; name them, too, or the folder",
                      (unsigned long long)unnamed->count, unnamed->trace);
    if (alone->count)
        mt_merge_note(m, 1,
                      "this is a part of the run: the launches of %llu other stream%s are in %s%s, whose "
                      "companion %s.meta is missing: without it the launches there cannot be put in order",
                      (unsigned long long)alone->count, alone->count == 1 ? "" : "s", alone->trace,
                      alone->count == 1 ? "" : " and the like", alone->trace);
}

static void streams_tell(struct mt_source_merge *m, const struct mt_stream_event *all, size_t n,
                         const uint64_t *read, size_t nread)
{
    struct streams_missing unnamed = {0}, alone = {0};
    uint64_t refused = 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_stream_event *e = &all[i];
        if (i && e->stream == all[i - 1].stream)
            continue;
        if (e->why) {
            if (!refused++)
                mt_merge_note(m, 1, "stream %llu of the process has no trace: %s",
                              (unsigned long long)e->stream, e->why);
        } else if (!bsearch(&e->stream, read, nread, sizeof *read, mt_order_u64)) {
            struct streams_missing *s = streams_alone(m, e->trace) ? &alone : &unnamed;
            if (!s->count++)
                s->trace = e->trace;
        }
    }
    if (refused > 1)
        mt_merge_note(m, 1, "%llu more streams of the process have no trace",
                      (unsigned long long)refused - 1);
    streams_part(m, &unnamed, &alone);
}

/* Notes streams of the inputs' process that are not among the inputs. Returns 0, or -1 without memory. */
static int note_streams(struct mt_source_merge *m)
{
    size_t nall = 0, nread = 0, n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        nall += c ? c->nstreams : 0;
        nread += c ? 1 + c->nlaunches : 0;
    }
    struct mt_stream_event *all = malloc((nall + 1) * sizeof *all);
    uint64_t *read = malloc((nread + 1) * sizeof *read);
    for (size_t i = 0; all && read && i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c || mt_input_is_host(&m->inputs[i]))
            continue;
        if (*c->shared)
            streams_shared(m, c);
        if (c->nstreams)
            memcpy(all + n, c->streams, c->nstreams * sizeof *all);
        n += c->nstreams;
    }
    int rc = all && read ? 0 : -1;
    if (!rc) {
        qsort(all, n, sizeof *all, by_number);
        nread = streams_read(m, read);
        streams_tell(m, all, n, read, nread);
    }
    free(all);
    free(read);
    return rc;
}

void mt_merge_note(struct mt_source_merge *m, int incomplete, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    if (m->again)
        return;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    m->incomplete |= incomplete;
    char *visible = n >= 0 ? mt_text_visible_copy(text, (size_t)n) : NULL; /* the text contains paths */
    if (n >= 0)
        free(text);
    if (visible && mt_grow(&m->notes, &m->note_room, m->nnotes + 1, sizeof *m->notes) == 0) {
        m->notes[m->nnotes++] = visible;
    } else {
        free(visible);
        m->out_of_memory = 1;
    }
}

/* Returns the number of launches with records, from indexes and companion files; 0: not known. */
static uint64_t merge_launches(const struct mt_source_merge *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_input *in = &m->inputs[i];
        const struct mt_companion *c = mt_input_companion(in);
        size_t some = 0;
        if (in->ops == &mt_device_input)
            mt_device_launches(in->container.reader, &some);
        else if (in->ops->pull)
            for (size_t k = 0; c && k < c->nlaunches; k++)
                some += (size_t)c->launches[k].traced;
        if (in->ops->pull && !some)
            return 0;
        n += some;
    }
    return n;
}

/* Notes how far reading got before it stopped; `launches`: total, or 0. */
static void merge_note_stop(struct mt_source_merge *m, const char *message, uint64_t launches)
{
    char bytes[40] = "", of[80] = "";
    if (m->total)
        snprintf(bytes, sizeof bytes, " of %llu", (unsigned long long)m->total);
    if (launches)
        snprintf(of, sizeof of, ", %llu of %llu launches", (unsigned long long)m->superstep,
                 (unsigned long long)launches);
    mt_merge_note(m, 1, "%s: interrupted after %llu%s bytes%s", message,
                  (unsigned long long)__atomic_load_n(&m->done, __ATOMIC_RELAXED), bytes, of);
}

/* Adds an error to the problems, and as a note to the notes. */
static void merge_problem(struct mt_source_merge *m, const struct mt_error *problem)
{
    if (problem->code == MT_E_STOPPED)
        m->stopped = 1;
    if (m->again)
        return;
    if (problem->code == MT_E_STOPPED)
        merge_note_stop(m, problem->message, m->threads ? 0 : merge_launches(m));
    else
        mt_merge_note(m, 1, "%s", problem->message);
    if (mt_grow(&m->problems, &m->problem_room, m->nproblems + 1, sizeof *m->problems) != 0)
        m->out_of_memory = 1;
    else
        m->problems[m->nproblems++] = *problem;
}

/* Returns the input with the next launch, with that launch's seq; ninputs at the end. */
static size_t merge_choose(struct mt_source_merge *m, uint64_t *seq)
{
    size_t best = m->ninputs;
    *seq = MT_SEQ_NONE;
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        if (in->pass.finished || !in->ops->pull)
            continue;
        uint64_t s = in->ops->peek(in);
        if (best == m->ninputs || s < *seq) {
            best = i;
            *seq = s;
        }
        if (!m->ordered)
            break;
    }
    return best;
}

static void check_launch(struct mt_source_merge *m, struct mt_input *in)
{
    const struct mt_launch_event *e = m->launch;
    uint64_t records = e ? e->records + (m->spaces ? e->others : 0) : 0;
    if (in->ops == &absent_input)
        return;
    if (e && e->has_records && records != in->pass.in_launch && !in->pass.mismatch) {
        in->pass.mismatch = 1;
        mt_merge_note(m, 1, "%s: launch %llu of the trace has %llu records, its companion says %llu",
                      in->path, (unsigned long long)in->pass.launches, (unsigned long long)in->pass.in_launch,
                      (unsigned long long)records);
    }
    if (e && !in->pass.mismatch && in->ops == &mt_raw_input &&
        mt_sample_differs(&in->raw.sample, in->raw.count, e)) {
        in->pass.mismatch = 1;
        mt_merge_note(m, 1, MT_OTHER_RUN, in->path, (unsigned long long)in->pass.launches,
                      (unsigned long long)in->raw.first, in->companion->path);
    }
}

/* Begins a launch. `e`: its line in the companion file, or NULL. */
static void launch_begins(struct mt_source_merge *m, struct mt_input *in, const char *kernel,
                          const struct mt_launch_event *e)
{
    m->launch = e;
    in->pass.in_launch = 0;
    m->kernel = mt_intern_add(&m->names, kernel, strlen(kernel));
    if (!m->kernel) {
        m->kernel = "";
        m->out_of_memory = 1;
    }
    if (m->launch && strcmp(m->launch->kernel, kernel) != 0) {
        if (!in->pass.mismatch)
            mt_merge_note(
                m, 1, "%s: launch %llu is of '%s', its companion says '%s': the two do not belong together",
                in->path, (unsigned long long)in->pass.launches, kernel, m->launch->kernel);
        in->pass.mismatch = 1;
        m->launch = NULL;
    }
}

static void launch_ends(struct mt_source_merge *m, struct mt_input *in)
{
    if (!m->stopped)
        check_launch(m, in);
    in->pass.launches++;
    m->superstep++;
    m->current = m->ninputs;
}

/* (re)opens the readers at the beginning */
static int merge_start(struct mt_source_merge *m, struct mt_error *err)
{
    for (size_t i = 0; i < m->ninputs; i++)
        if (input_start(&m->inputs[i], &m->stop, err) != 0)
            return -1;
    m->next_copy = 0;
    m->current = m->ninputs;
    m->superstep = 0;
    __atomic_store_n(&m->done, 0, __ATOMIC_RELAXED);
    return 0;
}

/* Completes an item of launch m->superstep, input i. */
static void source_hand_out(struct mt_source_merge *m, size_t i, uint64_t accesses, unsigned flags,
                            struct mt_item *item)
{
    struct mt_input *in = &m->inputs[i];
    in->pass.in_launch += accesses;
    in->pass.records += accesses;
    item->superstep = m->superstep;
    item->kernel = m->kernel;
    item->flags = flags;
    item->input = i;
    item->launch = m->launch;
    m->current = i;
    if (flags & MT_BATCH_END)
        launch_ends(m, in);
}

/* Pulls the next batch of input i. Returns 1, or 0 if there is none this time; the input may be finished. */
static int merge_pull(struct mt_source_merge *m, size_t i, struct mt_raw_record *room,
                      struct mt_access_run *runs, size_t capacity, struct mt_item *item)
{
    struct mt_input *in = &m->inputs[i];
    struct mt_pulled p = {0};
    struct mt_error problem;
    int rc = m->current == m->ninputs && (m->superstep < m->first || m->superstep >= m->end) &&
             device_input_pass(in, item, &p);
    if (rc > 0)
        item->kind = runs ? MT_ITEM_RUNS : MT_ITEM_BATCH;
    else
        rc = in->ops->pull(in, &m->stop, room, runs, capacity, item, &p, &problem);
    __atomic_fetch_add(&m->done, p.bytes, __ATOMIC_RELAXED);
    if (rc > 0) {
        if (item->flags & MT_BATCH_BEGIN) {
            if (m->current == i) /* the previous launch has no end */
                launch_ends(m, in);
            launch_begins(m, in, p.kernel, p.event);
        }
        source_hand_out(m, i, p.accesses, item->flags, item);
        return 1;
    }
    in->pass.damaged |= rc < 0;
    if (rc < 0)
        merge_problem(m, &problem);
    if (p.over && m->current == i)
        launch_ends(m, in);
    return 0;
}

/* Returns 1 if an input whose next launch has no number has more; otherwise it is finished. */
static int merge_more(struct mt_source_merge *m, size_t i)
{
    struct mt_input *in = &m->inputs[i];
    struct mt_item none;
    struct mt_raw_record room[1];
    int more = in->ops->more(in);
    while (more < 0 && !in->pass.finished &&
           merge_pull(m, i, room, NULL, 1, &none) == 0) /* there was nothing but problems */
        ;
    in->pass.finished |= !more;
    return !in->pass.finished;
}

/* Kind of the next item between launches. */
enum next { NEXT_END, NEXT_COPY, NEXT_HOST, NEXT_LAUNCH };

/* Chooses the next item. *launch and *host: inputs with the next launch and the next host accesses. At equal
 * numbers the call itself comes first: host accesses with its number happened after it began. */
static enum next merge_decide(struct mt_source_merge *m, size_t *launch, size_t *host)
{
    for (;;) {
        uint64_t seq, host_seq = MT_SEQ_NONE;
        size_t i = *launch = merge_choose(m, &seq);
        size_t h = *host = m->hosts ? merge_host(m, &host_seq) : m->ninputs;
        if (m->next_copy < m->ncopies && m->copies[m->next_copy].seq < seq &&
            (h == m->ninputs || m->copies[m->next_copy].seq <= host_seq)) {
            if (h == m->ninputs && i == m->ninputs)
                return NEXT_END; /* copies after the last launch are not needed */
            if (h == m->ninputs && seq == MT_SEQ_NONE && !merge_more(m, i))
                continue;
            return NEXT_COPY;
        }
        if (h < m->ninputs && (i == m->ninputs || host_seq < seq))
            return NEXT_HOST;
        return i < m->ninputs ? NEXT_LAUNCH : NEXT_END;
    }
}

/* Returns 1 if new memory precedes the next accesses of host code, within its launch. */
static int merge_copy_within(struct mt_source_merge *m, size_t i)
{
    uint64_t seq;
    return m->threads && m->next_copy < m->ncopies &&
           (seq = threads_input_seq(&m->inputs[i])) != MT_SEQ_NONE && m->copies[m->next_copy].seq <= seq;
}

/* Works as mt_source_next, with records stored in `room`. Compact traces return runs if `runs` is not NULL,
 * in blocks of their own (mt_device_keep); raw traces always return records. */
static int merge_next(struct mt_source_merge *m, struct mt_raw_record *room, struct mt_access_run *runs,
                      size_t capacity, struct mt_item *item, struct mt_error *err)
{
    _Static_assert(sizeof(struct mt_host_access) == sizeof(struct mt_raw_record), "both use the same room");
    while (!m->stopped) {
        size_t i = m->current, host = i;
        if (i == m->ninputs || merge_copy_within(m, i)) {
            switch (i < m->ninputs ? NEXT_COPY : merge_decide(m, &i, &host)) {
            case NEXT_END:
                return 0;
            case NEXT_COPY:
                *item = (struct mt_item){.kind = MT_ITEM_COPY,
                                         .superstep = m->superstep,
                                         .input = i < m->ninputs ? i : host,
                                         .copy = &m->copies[m->next_copy++]};
                return 1;
            case NEXT_HOST:
                merge_host_take(m, host, (struct mt_host_access *)(void *)room, capacity, item);
                return 1;
            case NEXT_LAUNCH:
                break;
            }
        }
        int got = merge_pull(m, i, room, runs, capacity, item);
        if (m->out_of_memory)
            return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, m->inputs[i].path, "no memory while reading");
        if (got)
            return 1;
    }
    return 0;
}

/* Returns the lines on the input's end, if a compact trace lacks them those of the companion file beside
 * it. */
static const struct mt_companion *merge_ending(const struct mt_input *in)
{
    const struct mt_companion *c = mt_input_companion(in);
    return c && !c->has_end && in->beside && in->beside->has_end ? in->beside : c;
}

static void source_check_end(struct mt_source_merge *m, const struct mt_input *in)
{
    const struct mt_companion *c = merge_ending(in);
    uint64_t traced = 0;
    for (size_t i = 0; i < c->nlaunches; i++)
        traced += (uint64_t)c->launches[i].traced;
    if (c != mt_input_companion(in))
        mt_merge_note(m, 1, "%s: its last lines are missing, %s says how it ended", in->path, c->path);
    if (c->bad_lines)
        mt_merge_note(m, 1, "%s (%llu line%s of the companion left out)", c->bad.message,
                      (unsigned long long)c->bad_lines, c->bad_lines == 1 ? "" : "s");
    if (c->lost)
        mt_merge_note(m, 1, "%s: %llu records were lost: %s", c->path, (unsigned long long)c->lost,
                      c->lost_why);
    if (!c->has_end) {
        mt_merge_note(m, 1, "%s: has no end: " MT_NO_END, c->path);
        return;
    }
    if (!c->complete && !c->lost)
        mt_merge_note(m, 1, "%s: says that the trace is incomplete%s%s", c->path, *c->lost_why ? ": " : "",
                      c->lost_why);
    if (c->records_counted != c->records_written)
        mt_merge_note(m, 1, "%s: %s %llu records, %llu were written", c->path,
                      mt_input_is_host(in) ? "the program made" : "the device counted",
                      (unsigned long long)c->records_counted, (unsigned long long)c->records_written);
    if (mt_input_is_host(in) || in->ops == &absent_input)
        return; /* its chunks are counted one by one; or others count */
    uint64_t records = c->records_written + (m->spaces ? c->others_written : 0);
    if (c->has_written && records != in->pass.records)
        mt_merge_note(m, 1, "%s: has %llu records, its companion says %llu", in->path,
                      (unsigned long long)in->pass.records, (unsigned long long)records);
    if (traced != in->pass.launches)
        mt_merge_note(m, 1, "%s: has %llu launches, its companion says %llu", in->path,
                      (unsigned long long)in->pass.launches, (unsigned long long)traced);
}

/* Checks a compact trace against the companion file beside it: each may be an older state of the other. */
static void check_beside(struct mt_source_merge *m, const struct mt_input *in)
{
    const struct mt_companion *c = in->companion, *b = in->beside;
    if (!b || b == c || !c->has_end || (b->complete >= c->complete && b->lost <= c->lost && !b->bad_lines))
        return;
    if (b->lost)
        mt_merge_note(m, 1, "%s: says otherwise than %s: %llu records were lost: %s", b->path, in->path,
                      (unsigned long long)b->lost, b->lost_why);
    else
        mt_merge_note(m, 1, "%s: says otherwise than %s: that the trace is incomplete%s%s", b->path, in->path,
                      *b->lost_why ? ": " : "", b->lost_why);
}

/* Notes that volumes are of a part only. */
static void note_parts(struct mt_source_merge *m)
{
    uint64_t parts = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        for (size_t k = 0; c && k < c->nlaunches; k++) {
            const struct mt_launch_event *l = &c->launches[k];
            parts += l->traced && l->has_ctas && l->traced_ctas < l->grid[0] * l->grid[1] * l->grid[2];
        }
    }
    if (parts)
        mt_merge_note(m, 0,
                      "%llu launch%s not traced whole (MEMTRACE_CTAS, MEMTRACE_SAMPLE): records and volumes "
                      "are those of the traced CTAs",
                      (unsigned long long)parts, parts == 1 ? " is" : "es are");
}

/* Adds notes, once, on data that the companion files report as missing. After the end. */
static void source_merge_finish(struct mt_source_merge *m)
{
    if (m->finished)
        return;
    m->finished = 1;
    for (size_t i = 0; i < m->ninputs && !m->stopped; i++) {
        struct mt_input *in = &m->inputs[i];
        struct mt_error err;
        if (in->ops->end(in, &m->stop, &err) != 0)
            mt_merge_note(m, 1, "%s", err.message);
        struct mt_host_reader *container = mt_input_container(in);
        if (mt_input_companion(in))
            source_check_end(m, in);
        else if (!in->pass.damaged && !(container && mt_companion_speaks(mt_host_companion(container))))
            mt_merge_note(m, MT_NOT_KNOWN, "%s: is read without companion: nothing says whether it is whole",
                          in->path);
        check_beside(m, in);
    }
    note_parts(m);
    if (!m->stopped && note_streams(m) != 0)
        m->out_of_memory = 1;
}

/* ---- events of memory besides accesses: copies, fills and allocations of all inputs in one order ---- */

MT_ORDER_3(by_seq, struct mt_copy_event, seq, kind, dst)

MT_ORDER_1(by_id, struct mt_alloc_event, id)

MT_ORDER_POINTED_2(by_release, struct mt_alloc_event, free_seq, id)

/* Event of new memory: earlier contents of a reallocated address are not communicated to its readers. */
static struct mt_copy_event events_new(const struct mt_alloc_event *a, uint64_t from)
{
    return (struct mt_copy_event){.seq = a->seq,
                                  .kind = MT_COPY_NEW,
                                  .dst = a->base + from,
                                  .width = a->bytes - from,
                                  .height = a->bytes > from};
}

/* Returns 0 if use of the memory before its first access is unknown (symbols, malloc in kernels). */
static int events_is_new(const struct mt_alloc_event *a)
{
    return strcmp(a->kind, "symbol") != 0 && strcmp(a->kind, "device") != 0;
}

/* Adds the allocations of a companion. */
static void device_memory(struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t k = 0; k < c->nallocs; k++)
        if (events_is_new(&c->allocs[k]))
            m->copies[m->ncopies++] = events_new(&c->allocs[k], 0);
}

/* Returns the allocation that a realloc released: freed with the same number, or just before. */
static const struct mt_alloc_event *given_up(const struct mt_alloc_event *const *freed, size_t n,
                                             const struct mt_alloc_event *a)
{
    size_t at = MT_FIRST(i, n, freed[i]->free_seq > a->seq);
    while (at-- > 0 && freed[at]->free_seq + 1 >= a->seq)
        if (freed[at] != a && freed[at]->id < a->id)
            return freed[at];
    return NULL;
}

/* Adds the allocations of host code. A realloc moves its bytes. Memory of the program break is left out:
 * malloc hands it out again and reports that itself. Returns 0, or -1 without memory. */
static int host_memory(struct mt_source_merge *m, const struct mt_companion *c)
{
    const struct mt_alloc_event **freed = malloc((c->nallocs + 1) * sizeof *freed);
    size_t n = 0;
    if (!freed)
        return -1;
    for (size_t k = 0; k < c->nallocs; k++)
        if (c->allocs[k].free_seq != MT_SEQ_NONE)
            freed[n++] = &c->allocs[k];
    qsort(freed, n, sizeof *freed, by_release);
    for (size_t k = 0; k < c->nallocs; k++) {
        const struct mt_alloc_event *a = &c->allocs[k];
        const struct mt_alloc_event *old = strcmp(a->kind, "realloc") == 0 ? given_up(freed, n, a) : NULL;
        uint64_t kept = !old ? 0 : old->bytes < a->bytes ? old->bytes : a->bytes;
        if (strcmp(a->kind, "brk") == 0)
            continue;
        if (kept && (m->threads || old->base != a->base))
            m->copies[m->ncopies++] = (struct mt_copy_event){.seq = a->seq,
                                                             .kind = MT_COPY_D2D,
                                                             .dst = a->base,
                                                             .src = old->base,
                                                             .width = kept,
                                                             .height = 1};
        m->copies[m->ncopies++] = events_new(a, kept);
    }
    free(freed);
    return 0;
}

/* Merges duplicates: events of no stream are in every companion file. */
static void events_add_alloc(void *to, const void *from)
{
    struct mt_alloc_event *last = to;
    const struct mt_alloc_event *a = from;
    if (a->free_seq < last->free_seq)
        last->free_seq = a->free_seq;
    if (!*last->name)
        last->name = a->name;
}

MT_ORDER_POINTED_1(by_place, struct mt_alloc_event, id)
MT_ORDER_POINTED(events_same_call, struct mt_alloc_event,
                 MT_ORDER_TEXT(x->kind, y->kind) MT_ORDER_TEXT(x->name, y->name)
                     MT_ORDER_TEXT(x->file, y->file) MT_ORDER_DIFFER(x, y, line) if (!*x->file)
                         MT_ORDER_DIFFER(x, y, ip) MT_ORDER_TEXT(x->callers, y->callers))

static int events_by_call(const void *a, const void *b)
{
    int order = events_same_call(a, b);
    return order ? order : by_place(a, b);
}

/* Groups allocations that one call of a host program makes repeatedly: users see them as one buffer. Returns
 * 0, or -1 without memory. */
static int events_group(struct mt_alloc_event *allocs, size_t n)
{
    struct mt_alloc_event **list = malloc((n + 1) * sizeof *list), *first = NULL;
    if (!list)
        return -1;
    for (size_t i = 0; i < n; i++)
        list[i] = &allocs[i];
    qsort(list, n, sizeof *list, events_by_call);
    for (size_t i = 0; i < n; i++) {
        if (!first || events_same_call(&first, &list[i]) != 0)
            first = list[i];
        list[i]->first = (uint64_t)(first - allocs) + 1;
        first->like++;
        first->total += list[i]->bytes;
    }
    free(list);
    return 0;
}

/* Drops the host's copies and fills but keeps new memory. */
static void keep_new_memory(struct mt_source_merge *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ncopies; i++)
        if (m->copies[i].kind == MT_COPY_NEW)
            m->copies[n++] = m->copies[i];
    m->ncopies = n;
}

/* Collects copies and allocations of all inputs into m->copies; *allocs, owned by the caller, has the
 * allocations of the traces' companions, by id. Returns 0, or -1 with *err set. */
static int collect_events(struct mt_source_merge *m, unsigned flags, struct mt_alloc_event **allocs,
                          size_t *nallocs, struct mt_error *err)
{
    size_t copies = 0, most = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        copies += c ? c->ncopies + 2 * c->nallocs : 0;
        most += c ? c->nallocs : 0;
        most += m->inputs[i].beside ? m->inputs[i].beside->nallocs : 0;
    }
    m->copies = malloc((copies + 1) * sizeof *m->copies);
    *allocs = malloc((most + 1) * sizeof **allocs);
    if (!m->copies || !*allocs)
        goto memory;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c)
            continue;
        if (c->ncopies)
            memcpy(m->copies + m->ncopies, c->copies, c->ncopies * sizeof *c->copies);
        m->ncopies += c->ncopies;
        if (mt_input_is_host(&m->inputs[i])) {
            if (m->inputs[i].host.merged && host_memory(m, c) != 0)
                goto memory;
            if (!m->threads)
                continue;
        } else {
            device_memory(m, c);
        }
        if (c->nallocs)
            memcpy(*allocs + *nallocs, c->allocs, c->nallocs * sizeof *c->allocs);
        *nallocs += c->nallocs;
        /* The companion file goes on after the compact trace ended with its stream: later frees are there. */
        const struct mt_companion *b = m->inputs[i].beside;
        if (b && b != c && b->nallocs) {
            memcpy(*allocs + *nallocs, b->allocs, b->nallocs * sizeof *b->allocs);
            *nallocs += b->nallocs;
        }
    }
    m->ncopies = mt_order_once(m->copies, m->ncopies, sizeof *m->copies, by_seq);
    *nallocs = mt_order_join(*allocs, *nallocs, sizeof **allocs, by_id, events_add_alloc);
    if (m->threads && events_group(*allocs, *nallocs) != 0)
        goto memory;
    if (!m->ordered || (flags & MT_SOURCE_NO_MEMORY))
        m->ncopies = 0;
    else if (flags & MT_SOURCE_NO_HOST)
        keep_new_memory(m);
    return 0;
memory:
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, m->inputs[0].path,
                        "no memory for the companion's events");
}

/* ---- reading ahead: a ring of slots, each an item with room for its records ---- */

enum { SLOTS = 16, SLOT_RECORDS = 1 << 14, HELD = 2, LARGE = 1 << 10 };

struct slot {
    struct mt_item item;
    struct mt_raw_record *room;
    struct mt_access_run *runs; /* SLOT_RECORDS runs, or NULL if runs are not requested */
    struct mt_run_block *block; /* block of a compact trace to which the item points */
    int rc;                     /* return value of merge_next */
};

struct mt_ahead {
    struct mt_source_merge *merge;
    struct mt_pool *pool;
    struct mt_work work;
    size_t head, tail; /* slots filled and slots released so far */
    size_t held;       /* slots that the consumer may use, from `tail` on; the last one is the newest */
    int over;          /* 1: the newest slot is an end or an error */
    int merges;        /* 1: records are joined into runs */
    struct mt_error error;
    struct slot slots[SLOTS];
    struct mt_raw_record *rooms;
    struct mt_access_run *run_rooms;
};

/* Keeps runs of a compact trace where they were decoded until the consumer releases them. */
static void readahead_keep(const struct mt_source_merge *m, struct slot *s)
{
    struct mt_host_reader *r =
        s->rc > 0 && s->item.kind == MT_ITEM_RUNS ? mt_input_container(&m->inputs[s->item.input]) : NULL;
    s->block = r ? mt_device_keep(r) : NULL;
}

/* Converts a batch of records to runs. */
static void put_together(struct slot *s)
{
    size_t taken;
    if (s->rc <= 0 || s->item.kind != MT_ITEM_BATCH)
        return;
    s->item.count = mt_runs_from_records(s->item.records, s->item.count, s->runs, SLOT_RECORDS, &taken);
    s->item.kind = MT_ITEM_RUNS;
    s->item.runs = s->runs;
    s->item.records = NULL;
}

static void ahead_fill(struct mt_ahead *a, struct slot *s)
{
    s->rc = merge_next(a->merge, s->room, s->runs, SLOT_RECORDS, &s->item, &a->error);
    readahead_keep(a->merge, s);
    if (s->rc > 0)
        mt_process_item(a->merge->inputs[s->item.input].process, &s->item);
    if (a->merges)
        put_together(s);
}

/* Does a piece: several items if they are small (between allocations of a host program), to save switches. */
static int ahead_piece(void *self)
{
    struct mt_ahead *a = self;
    if (a->over || a->head - a->tail == SLOTS)
        return 0;
    do {
        struct slot *s = &a->slots[a->head % SLOTS];
        pthread_mutex_unlock(&a->pool->lock);
        ahead_fill(a, s);
        pthread_mutex_lock(&a->pool->lock);
        a->over = s->rc <= 0;
    } while (++a->head - a->tail <= SLOTS / 2 && !a->over &&
             a->slots[(a->head - 1) % SLOTS].item.count < LARGE);
    return 1;
}

static void ahead_free(struct mt_ahead *a)
{
    if (!a)
        return;
    free(a->rooms);
    free(a->run_rooms);
    free(a);
}

/* Starts reading ahead. `flags`: enum mt_source_flags; those for runs matter. */
static struct mt_ahead *ahead_start(struct mt_source_merge *m, unsigned flags, struct mt_error *err)
{
    int runs = m->threads || (flags & (MT_SOURCE_RUNS | MT_SOURCE_OWN_RUNS)) != 0;
    struct mt_ahead *a = calloc(1, sizeof *a);
    if (a)
        a->rooms = malloc(sizeof *a->rooms * SLOTS * SLOT_RECORDS);
    if (a && runs)
        a->run_rooms = malloc(sizeof *a->run_rooms * SLOTS * SLOT_RECORDS);
    if (!a || !a->rooms || (runs && !a->run_rooms)) {
        ahead_free(a);
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "reader", "no memory for reading ahead");
        return NULL;
    }
    a->merge = m;
    a->merges = (flags & MT_SOURCE_RUNS) != 0;
    for (size_t i = 0; i < SLOTS; i++) {
        a->slots[i].room = a->rooms + i * SLOT_RECORDS;
        a->slots[i].runs = runs ? a->run_rooms + i * SLOT_RECORDS : NULL;
    }
    a->pool = m->pool;
    a->work = (struct mt_work){.piece = ahead_piece, .self = a, .alone = 1};
    mt_pool_add(a->pool, &a->work);
    pthread_mutex_lock(&a->pool->lock);
    mt_pool_wake(a->pool, 1);
    pthread_mutex_unlock(&a->pool->lock);
    return a;
}

/* Returns the next item. */
static int ahead_next(struct mt_ahead *a, struct mt_item *item, struct mt_error *err)
{
    const int back = a->held == HELD;
    if (back)
        mt_block_put(a->slots[a->tail % SLOTS].block);
    pthread_mutex_lock(&a->pool->lock);
    if (back) {
        a->tail++;
        a->held--;
        if (a->head - a->tail <= SLOTS / 2) /* otherwise the reader would be woken for every slot */
            mt_pool_wake(a->pool, 1);
    }
    while (a->head == a->tail + a->held)
        mt_pool_help(a->pool, &a->work);
    struct slot *s = &a->slots[(a->tail + a->held) % SLOTS];
    pthread_mutex_unlock(&a->pool->lock);
    if (s->rc > 0) {
        a->held++;
        *item = s->item;
    } else if (s->rc < 0) {
        *err = a->error;
    }
    return s->rc; /* an end or error is never released: later calls return it again */
}

/* Stops reading ahead, after the end or with the `own` stop flag raised before, and frees it. */
static void ahead_stop(struct mt_ahead *a)
{
    if (!a)
        return;
    mt_pool_remove(a->pool, &a->work);
    for (; a->tail < a->head; a->tail++)
        mt_block_put(a->slots[a->tail % SLOTS].block);
    ahead_free(a);
}

struct mt_source {
    struct mt_source_merge merge; /* owned by its pool while `ahead` runs */
    unsigned flags;
    struct mt_ahead *ahead;
    struct mt_error error; /* error of `ahead`, repeated at each call */
    int ended, rc;
    volatile sig_atomic_t halt;
    uint64_t spooled;
    struct mt_alloc_event *allocs;
    size_t nallocs;
};

static int open_inputs(struct mt_source *s, const char *const *paths, const struct mt_source_options *o,
                       struct mt_error *err)
{
    struct mt_source_merge *m = &s->merge;
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        const char *meta = i < o->ncompanions ? o->companions[i] : NULL;
        if (o->absent && o->absent[i]) {
            in->path = paths[i];
            in->ops = &absent_input;
            if (!meta || !(in->meta = strdup(meta)))
                return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, paths[i], "no memory, or no companion");
            continue;
        }
        if (input_open(in, paths[i], o->fds ? o->fds[i] : -1, meta, err) != 0)
            return -1;
        for (size_t k = 0; k < i; k++)
            if (m->inputs[k].fd >= 0 && m->inputs[k].device == in->device && m->inputs[k].inode == in->inode)
                return mt_error_set(err, MT_E_INPUT, 0, 0, in->path, "is the same file as %s",
                                    m->inputs[k].path);
        if (!in->live && input_is_container(in) && container_input_open(in, s->flags, &m->stop, err) != 0)
            return -1;
    }
    return 0;
}

enum { SPOOL_NO, SPOOL_ALL, SPOOL_CONTAINER };

/* Returns 1 if the input must be spooled. A live input is analysed as it arrives if nothing must be known
 * before its end: a raw trace without companion file, but no compact trace. */
static int must_spool(const struct mt_source *s, const struct mt_input *in)
{
    if (s->merge.ninputs > 1 || (s->flags & MT_SOURCE_REWIND))
        return SPOOL_ALL;
    if (s->flags & (MT_SOURCE_NO_MEMORY | MT_SOURCE_NO_COMPANION))
        return SPOOL_NO;
    return in->meta ? SPOOL_ALL : SPOOL_CONTAINER;
}

static int spool_live(struct mt_source *s, struct mt_error *err)
{
    struct mt_source_merge *m = &s->merge;
    size_t n = 0;
    int rc = -1;
    int *from = calloc(m->ninputs, sizeof *from), *to = calloc(m->ninputs, sizeof *to);
    size_t *which = calloc(m->ninputs, sizeof *which);
    if (!from || !to || !which) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "spool file", "no memory");
        goto out;
    }
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        int must = in->live ? must_spool(s, in) : SPOOL_NO;
        if (must == SPOOL_NO)
            continue;
        which[n] = i;
        from[n] = in->fd;
        if (must == SPOOL_ALL ? (to[n] = mt_spool_create(err)) < 0
                              : unknown_input_look(in, &to[n], &m->stop, err) != 0)
            goto out;
        n += to[n] >= 0;
    }
    if (n > 0 && mt_spool_fill(from, to, n, &m->stop, &s->spooled, err) != 0)
        goto out;
    if (n > 0 && mt_stopped(&m->stop)) {
        struct mt_error stopped;
        mt_error_set(&stopped, MT_E_STOPPED, EINTR, 0, m->inputs[which[0]].path, "stopped while reading");
        m->done = s->spooled;
        merge_problem(m, &stopped);
        m->stopped = 0;      /* data already spooled is analysed nevertheless */
        m->stop.user = NULL; /* a second signal ends the program */
    }
    for (size_t k = 0; k < n; k++) {
        struct mt_input *in = &m->inputs[which[k]];
        struct stat st;
        if (in->owned)
            close(in->fd);
        in->fd = to[k];
        in->owned = 1;
        in->live = 0;
        in->ops = &mt_raw_input;
        in->size = fstat(to[k], &st) == 0 ? (uint64_t)st.st_size : 0;
        to[k] = -1;
        if (input_is_container(in) ? container_input_open(in, s->flags, &m->stop, err) != 0
                                   : input_load_companion(in, 1, &m->stop, err) != 0)
            goto out;
    }
    rc = 0;
out:
    for (size_t k = 0; to && k < n; k++)
        if (to[k] >= 0)
            close(to[k]);
    free(from);
    free(to);
    free(which);
    return rc;
}

/* Returns 1 if both ran on one machine since the same boot, so that their clocks agree. */
static int source_beside(const struct mt_companion *a, const struct mt_companion *b)
{
    enum { APART_MS = 2000 };
    int64_t x = (int64_t)(a->wall_ms - a->start_ns / 1000000),
            y = (int64_t)(b->wall_ms - b->start_ns / 1000000);
    return (x < y ? y - x : x - y) <= APART_MS;
}

/* Returns the name of the job if the inputs are traces of kernels of several of its processes, else NULL. */
static const char *source_job(const struct mt_source_merge *m)
{
    const struct mt_companion *first = m->ninputs ? mt_input_companion(&m->inputs[0]) : NULL;
    int several = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_input *in = &m->inputs[i];
        const struct mt_companion *c = mt_input_companion(in), *before = mt_input_companion(&in[i ? -1 : 0]);
        if (!c || !first || !c->has_header || !*c->job || strcmp(c->job, first->job) != 0 || in->live ||
            in->ends || mt_input_is_host(in) ||
            (strcmp(c->host, before->host) == 0 && !source_beside(c, before)))
            return NULL;
        several |= c->pid != first->pid || c->start_ns != first->start_ns || strcmp(c->host, first->host);
    }
    return several ? first->job : NULL;
}

static int source_processes(struct mt_source_merge *m, struct mt_error *err)
{
    const char *job = source_job(m);
    if (!job || mt_processes_join(m, job) == 0)
        return 0;
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, m->inputs[0].path, "no memory for a job's processes");
}

static int one_process(struct mt_source_merge *m, struct mt_error *err)
{
    const struct mt_input *first = NULL;
    struct mt_run_id run = {0};
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_input *in = &m->inputs[i];
        const struct mt_companion *c = mt_input_companion(in);
        if (!c || !c->has_header || in->process)
            continue;
        struct mt_run_id its = {c->pid, c->start_ns, c->wall_ms, 0, mt_input_is_host(in)};
        if (first && !mt_run_same(&run, &its))
            return mt_error_set(
                err, MT_E_INPUT, 0, 0, in->path,
                "is of another run than %s (process %llu, not %llu): their addresses have nothing in "
                "common. Name the files of one run, the newer one's are %s and those written with it; or "
                "their folder, of which the newest run is taken; or give each run a folder of its own "
                "(MEMTRACE_DIR)",
                first->path, (unsigned long long)c->pid, (unsigned long long)run.pid,
                mt_run_newer(&its, &run) ? in->path : first->path);
        if (!first) {
            first = in;
            run = its;
        }
    }
    return 0;
}

/* Returns 1 if the host trace has the numbers of the CUDA calls. The compile-time engine and the qemu engine
 * take them from the CUDA runtime in the process; the Pin engine counts separately. */
static int source_numbered(const struct mt_input *in)
{
    const struct mt_companion *c = mt_input_companion(in);
    return !c || strcmp(c->engine, "pin") != 0;
}

/* Chooses the order: by sequence numbers if all inputs have them. */
static void decide_order(struct mt_source *s)
{
    struct mt_source_merge *m = &s->merge;
    size_t traces = 0, companions = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        traces += !mt_input_is_host(&m->inputs[i]);
        companions += m->inputs[i].companion || mt_input_container(&m->inputs[i]); /* a compact trace has the
                                                                                    * numbers in its chunks */
        m->total += m->inputs[i].size;
    }
    m->ordered = companions == traces || traces == 1;
    for (size_t i = 0; i < m->ninputs && !(s->flags & MT_SOURCE_NO_HOST); i++) {
        struct mt_input *in = &m->inputs[i];
        if (!mt_input_is_host(in))
            continue;
        if (companions < traces)
            mt_merge_note(
                m, 0, "%s: is left out: without companions its accesses cannot be put in order with launches",
                in->path);
        else if (traces > 0 && !source_numbered(in))
            mt_merge_note(
                m, 0,
                "%s: is left out: the engine %s does not see the numbers of CUDA calls, so its accesses "
                "cannot be put in order with launches; mt-cc --host and memtrace host's qemu engine make "
                "host "
                "traces that can",
                in->path, mt_input_companion(in)->engine);
        else
            m->hosts = in->host.merged = 1;
    }
    m->threads = traces == 0 && m->hosts;
}

/* Makes programs without kernels launches. Returns 0, or -1 with *err set. */
static int source_threads(struct mt_source_merge *m, struct mt_error *err)
{
    for (size_t i = 0; m->threads && i < m->ninputs; i++)
        if (threads_input_take(&m->inputs[i], i, err) != 0)
            return -1;
    return 0;
}

/* Returns an input's share of the decoding threads. Memory is bounded: many inputs read few chunks ahead. */
static unsigned source_share(unsigned threads, size_t inputs)
{
    size_t each = (threads + inputs - 1) / inputs;
    return each > 2 ? (unsigned)each : 2;
}

struct mt_source *mt_source_open(const char *const *paths, size_t npaths, const struct mt_source_options *o,
                                 struct mt_error *err)
{
    static const struct mt_source_options none;
    struct mt_source *s = calloc(1, sizeof *s);
    if (s && npaths)
        s->merge.inputs = calloc(npaths, sizeof *s->merge.inputs);
    if (!s || !s->merge.inputs) {
        free(s);
        mt_error_set(err, npaths ? MT_E_SYSTEM : MT_E_INPUT, ENOMEM, 0, "reader",
                     npaths ? "no memory" : "no input given");
        return NULL;
    }
    if (!o)
        o = &none;
    struct mt_source_merge *m = &s->merge;
    s->flags = o->flags;
    m->ninputs = npaths;
    m->first = o->first;
    m->end = o->end ? o->end : UINT64_MAX;
    m->stop = (struct mt_stop){o->stop, &s->halt};
    if (!(m->pool = mt_pool_new(o->threads ? o->threads : 1))) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "reader", "no memory");
        goto fail;
    }
    for (size_t i = 0; i < npaths; i++) {
        m->inputs[i].fd = -1;
        m->inputs[i].ends = o->ends ? &o->ends[i] : NULL;
        m->inputs[i].pool = m->pool;
        m->inputs[i].threads = o->threads > 1 ? source_share(o->threads, npaths) : 1;
    }
    mt_source_spaces(s, (o->flags & MT_SOURCE_SPACES) != 0);
    if (open_inputs(s, paths, o, err) != 0)
        goto fail;
    for (size_t i = 0; i < npaths; i++) {
        struct mt_input *in = &m->inputs[i];
        if (s->flags & MT_SOURCE_NO_COMPANION) {
            free(in->meta);
            in->meta = NULL;
        }
        if ((in->ops == &mt_raw_input || in->ops == &absent_input) &&
            input_load_companion(in, 0, &m->stop, err) != 0)
            goto fail;
        if (in->ops == &absent_input)
            in->companion->path = in->path;
    }
    if (spool_live(s, err) != 0)
        goto fail;
    decide_order(s);
    if (!m->ordered)
        mt_merge_note(m, 0,
                      "not every input has a companion: launches are taken in the order of the inputs%s",
                      s->flags & MT_SOURCE_NO_MEMORY ? ""
                      : s->flags & MT_SOURCE_NO_HOST ? ", allocations are not known"
                                                     : ", allocations and host copies are not known");
    if (source_processes(m, err) != 0 || one_process(m, err) != 0 || source_threads(m, err) != 0 ||
        collect_events(m, s->flags, &s->allocs, &s->nallocs, err) != 0 || merge_start(m, err) != 0)
        goto fail;
    return s;
fail:
    mt_source_close(s);
    return NULL;
}

size_t mt_source_inputs(const struct mt_source *s)
{
    return s->merge.ninputs;
}

const char *mt_source_path(const struct mt_source *s, size_t input)
{
    return input < s->merge.ninputs ? s->merge.inputs[input].path : NULL;
}

struct mt_source *mt_source_of_container(struct mt_host_reader *r, const char *path, unsigned flags,
                                         const volatile sig_atomic_t *stop, struct mt_error *err)
{
    struct mt_source *s = calloc(1, sizeof *s);
    struct mt_source_merge *m = s ? &s->merge : NULL;
    if (!s || !(m->inputs = calloc(1, sizeof *m->inputs)) || !(m->inputs->meta = strdup(path)) ||
        !(m->pool = mt_pool_new(1))) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory");
        mt_host_reader_close(r);
        mt_source_close(s);
        return NULL;
    }
    s->flags = flags | MT_SOURCE_NO_HOST | MT_SOURCE_NO_MEMORY;
    m->ninputs = 1;
    m->end = UINT64_MAX;
    mt_source_spaces(s, (flags & MT_SOURCE_SPACES) != 0);
    m->ordered = 1;
    m->stop = (struct mt_stop){stop, &s->halt};
    struct mt_input *in = m->inputs;
    in->path = path;
    in->fd = -1;
    in->live = 1;
    in->ops = &mt_device_input;
    in->container.reader = r;
    r->window.stop = m->stop;
    if (collect_events(m, s->flags, &s->allocs, &s->nallocs, err) == 0 && merge_start(m, err) == 0)
        return s;
    mt_source_close(s);
    return NULL;
}

struct mt_pool *mt_source_pool(struct mt_source *s)
{
    return s->merge.pool;
}

void mt_source_spaces(struct mt_source *s, int on)
{
    s->merge.spaces = on;
    for (size_t i = 0; i < s->merge.ninputs; i++)
        s->merge.inputs[i].spaces = on;
}

/* Stops reading ahead; the caller then owns the merge. */
static void source_stop_ahead(struct mt_source *s)
{
    if (!s->ended) {
        __atomic_store_n(&s->halt, 1, __ATOMIC_RELAXED);
        s->ended = 1;
        s->rc = 0;
    }
    ahead_stop(s->ahead);
    s->ahead = NULL;
}

int mt_source_next(struct mt_source *s, struct mt_item *item, struct mt_error *err)
{
    if (!s->ended && !s->ahead && !(s->ahead = ahead_start(&s->merge, s->flags, &s->error))) {
        s->ended = 1;
        s->rc = -1;
    }
    int rc = s->ended ? s->rc : ahead_next(s->ahead, item, &s->error);
    if (rc > 0)
        return 1;
    s->ended = 1;
    s->rc = rc;
    if (rc < 0)
        *err = s->error;
    return rc;
}

int mt_source_rewind(struct mt_source *s, struct mt_error *err)
{
    source_stop_ahead(s);
    __atomic_store_n(&s->halt, 0, __ATOMIC_RELAXED);
    s->ended = 0;
    struct mt_source_merge *m = &s->merge;
    source_merge_finish(m);
    m->again = 1;
    if (!mt_stopped(&m->stop))
        m->stopped = 0; /* the stop was our own, in the middle of a pass */
    for (size_t i = 0; i < m->ninputs; i++)
        if (m->inputs[i].live)
            return mt_error_set(err, MT_E_SYSTEM, ESPIPE, 0, m->inputs[i].path, "cannot be read twice");
    return merge_start(m, err);
}

void mt_source_close(struct mt_source *s)
{
    if (!s)
        return;
    source_stop_ahead(s);
    struct mt_source_merge *m = &s->merge;
    for (size_t i = 0; i < m->ninputs; i++)
        input_close(&m->inputs[i]);
    mt_pool_free(m->pool);
    for (size_t i = 0; i < m->nnotes; i++)
        free(m->notes[i]);
    free(m->notes);
    free(m->problems);
    free(m->inputs);
    mt_processes_free(m);
    free(m->copies);
    free(s->allocs);
    mt_intern_free(&m->names);
    free(s);
}

void mt_source_stop(struct mt_source *s)
{
    struct mt_source_merge *m = &s->merge;
    struct mt_error stopped;
    source_stop_ahead(s);
    if (m->stopped || m->ninputs == 0)
        return;
    mt_error_set(&stopped, MT_E_STOPPED, EINTR, 0, m->inputs[m->current < m->ninputs ? m->current : 0].path,
                 "stopped while reading");
    merge_problem(m, &stopped);
}

const struct mt_error *mt_source_problems(struct mt_source *s, size_t *count)
{
    source_stop_ahead(s);
    *count = s->merge.nproblems;
    return s->merge.problems;
}

const char *const *mt_source_notes(struct mt_source *s, size_t *count, int *complete)
{
    source_stop_ahead(s);
    source_merge_finish(&s->merge);
    *count = s->merge.nnotes;
    *complete = !s->merge.incomplete;
    return (const char *const *)s->merge.notes;
}

int mt_source_lacks(struct mt_source *s)
{
    source_stop_ahead(s);
    source_merge_finish(&s->merge);
    return s->merge.out_of_memory ? -1 : (s->merge.incomplete & MT_MISSING) != 0;
}

int mt_source_partial(const struct mt_source *s)
{
    const struct mt_source_merge *m = &s->merge;
    const struct mt_companion *c;
    int partial = 0;
    size_t n = 0;
    for (size_t i = 0; i < m->ninputs; i++)
        n += (c = mt_input_companion(&m->inputs[i])) ? 1 + c->nlaunches : 0;
    uint64_t *read = malloc((n + 1) * sizeof *read);
    n = read ? streams_read(m, read) : 0;
    for (size_t i = 0; read && i < m->ninputs; i++) {
        c = mt_input_is_host(&m->inputs[i]) ? NULL : mt_input_companion(&m->inputs[i]);
        for (size_t k = 0; c && k < c->nstreams; k++)
            partial |= !bsearch(&c->streams[k].stream, read, n, sizeof *read, mt_order_u64);
    }
    free(read);
    return partial;
}

MT_ORDER_POINTED_1(launch_by_seq, struct mt_launch_event, seq)

const struct mt_launch_event **mt_source_launches(struct mt_source *s, size_t *count)
{
    source_stop_ahead(s);
    source_merge_finish(&s->merge);
    size_t n = s->merge.ninputs; /* a program without kernels is a launch */
    for (size_t i = 0; i < s->merge.ninputs; i++)
        n += s->merge.inputs[i].companion ? s->merge.inputs[i].companion->nlaunches : 0;
    const struct mt_launch_event **all = malloc((n + 1) * sizeof *all);
    n = 0;
    for (size_t i = 0; all && i < s->merge.ninputs; i++) {
        const struct mt_companion *c = s->merge.inputs[i].companion;
        for (size_t k = 0; c && k < c->nlaunches; k++)
            all[n++] = &c->launches[k];
        if (s->merge.threads)
            all[n++] = &s->merge.inputs[i].host.launch;
    }
    *count = all ? mt_order_once(all, n, sizeof *all, launch_by_seq) : 0;
    return all;
}

int mt_source_untraced(struct mt_source *s, uint64_t *accesses, uint64_t *launches, struct mt_error *err)
{
    size_t n;
    const struct mt_launch_event **all = mt_source_launches(s, &n);
    *accesses = *launches = 0;
    if (!all)
        return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, s->merge.inputs[0].path,
                            "no memory to sort launches");
    for (size_t i = 0; i < n; i++) {
        *accesses += all[i]->untraced;
        *launches += !all[i]->traced;
    }
    free(all);
    return 0;
}

int mt_source_ordered(const struct mt_source *s)
{
    return s->merge.ordered;
}

int mt_source_host(const struct mt_source *s)
{
    return s->merge.hosts;
}

size_t mt_source_processes(const struct mt_source *s)
{
    return s->merge.nprocesses ? s->merge.nprocesses : 1;
}

size_t mt_source_process(const struct mt_source *s, size_t input)
{
    const struct mt_source_merge *m = &s->merge;
    const struct mt_process *p = input < m->ninputs ? m->inputs[input].process : NULL;
    return p ? (size_t)(p - m->processes) : 0;
}

const char *mt_source_machine(const struct mt_source *s, int64_t device, int64_t *first)
{
    const struct mt_source_merge *m = &s->merge;
    size_t after = MT_FIRST(k, m->nmachines, m->machines[k].first > device);
    if (m->nmachines < 2 || !after)
        return NULL;
    *first = m->machines[after - 1].first;
    return m->machines[after - 1].name;
}

int mt_source_threads(const struct mt_source *s)
{
    int timed = s->merge.threads;
    for (size_t i = 0; timed && i < s->merge.ninputs; i++)
        timed = mt_host_reader_head(s->merge.inputs[i].host.reader)->features & MT_MTC_HAS_TIMES && timed;
    return s->merge.threads + timed;
}

const struct mt_alloc_event *mt_source_allocs(struct mt_source *s, size_t *count)
{
    *count = s->nallocs;
    return s->allocs;
}

const struct mt_companion *mt_source_companion(const struct mt_source *s, size_t input)
{
    return input < s->merge.ninputs ? mt_input_companion(&s->merge.inputs[input]) : NULL;
}

void mt_source_progress(struct mt_source *s, uint64_t *done, uint64_t *total)
{
    *done = __atomic_load_n(&s->merge.done, __ATOMIC_RELAXED);
    *total = s->merge.total;
}
