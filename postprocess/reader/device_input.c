/* Containers among the inputs of a source: what is one, and their runs as runs or records. */
#define _GNU_SOURCE
#include "reader/base/processes.h"
#include "reader/container/container.h"
#include <unistd.h>

int mt_input_is_container(const struct mt_input *in)
{
    uint64_t magic = 0;
    return pread(in->fd, &magic, sizeof magic, (off_t)in->start) == (ssize_t)sizeof magic &&
           magic == MT_MTC_MAGIC;
}

int mt_container_input_take(struct mt_input *in, struct mt_window *w, unsigned flags, struct mt_error *err)
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
        return mt_host_input_open(in, r, err);
    mt_error_set(err, MT_E_INPUT, 0, 0, in->path,
                 "is a compact container of host accesses, not a trace of kernels: memtrace dump and "
                 "memtrace graph read "
                 "it alone, memtrace extract together with the traces of the same process");
    mt_host_reader_close(r);
    return -1;
}

/* A raw trace without companion may have become a container: then nobody says that it has an end. */
static struct mt_companion *companion_of(struct mt_host_reader *r)
{
    struct mt_companion *c = (struct mt_companion *)mt_host_companion(r);
    return mt_companion_speaks(c) ? c : NULL;
}

/* Is a companion that of a container without lines of its own? One that was made of a raw trace without
 * companion does not say of which process it is. */
static int device_input_belongs(const struct mt_input *in, const struct mt_companion *c)
{
    const struct mt_mtc_head *head = mt_host_reader_head(in->container.reader);
    return head->pid == 0 || (head->pid == c->pid && c->start_ns <= head->start_ns);
}

/* The file that the program wrote beside it has the same lines. One of a container without lines (the program
 * was killed early) is its companion; one of the same run that says otherwise must not be passed over. */
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
    mt_companion_free(in->beside); /* of another run */
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
    if (mt_container_input_take(in, &w, flags, err) != 0)
        return -1;
    int rc = 0;
    if (!mt_input_is_host(in) && !(flags & MT_SOURCE_NO_COMPANION)) {
        in->companion = companion_of(in->container.reader);
        rc = look_beside(in, stop, err);
    }
    free(in->meta); /* its meta lines are inside */
    in->meta = NULL;
    return rc;
}

/* Runs as they are. */
static int device_input_runs(struct mt_container_state *c, struct mt_item *item, uint64_t *accesses,
                             struct mt_error *err)
{
    int rc = mt_device_next(c->reader, &c->batch, err);
    *accesses = c->batch.accesses;
    c->run = c->batch.count; /* nothing of it is left to be handed out as records */
    *item = (struct mt_item){
        .kind = MT_ITEM_RUNS, .runs = c->batch.runs, .count = c->batch.count, .flags = c->batch.flags};
    return rc;
}

/* A launch at once, unread. */
static int device_input_place(struct mt_container_state *c, struct mt_item *item, uint64_t *accesses)
{
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(c->reader, &n);
    if (c->place == n)
        return 0;
    l += c->place++;
    mt_device_seek(c->reader, c->place); /* what a peek shows */
    c->batch = (struct mt_run_batch){.kernel = l->kernel, .seq = l->seq};
    *accesses = l->accesses;
    *item = (struct mt_item){
        .kind = MT_ITEM_RUNS, .offset = l->first, .count = l->chunks, .flags = MT_BATCH_BEGIN | MT_BATCH_END};
    return 1;
}

/* The next runs, as runs or records. As mt_device_next; *accesses of the item. */
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
    in->ends = NULL; /* the next pass reads */
    mt_host_reader_spaces(in->container.reader, in->spaces);
    return in->live ? 0 : mt_host_rewind(in->container.reader, err); /* live: opened a moment ago */
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

/* After damage it goes on. */
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

/* How many accesses it has, its line in the companion says: the index counts those of other memory, too. */
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

/* Only a pull can show it. */
static int device_input_more(struct mt_input *in)
{
    (void)in;
    return -1;
}

/* Of a live one the companion is whole now. Nothing says that a container without one is. */
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
