/* Raw traces among the inputs of a source, and live inputs of which the first byte has
 * to say what they are. */
#define _GNU_SOURCE
#include "reader/container/container.h"
#include <unistd.h>
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

static int raw_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    if (in->live && in->raw.reader)
        return 0; /* it was looked at a moment ago */
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

/* The companion's line of the next launch, or NULL. */
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

/* Record i of the launch under way, and those after it, from the file into the sample. What cannot be read is
 * not what it was. */
static void raw_input_fetch(struct mt_input *in, uint64_t i, size_t count)
{
    struct mt_raw_record *to = &in->raw.sample.at[mt_sample_slot(i)];
    if (pread(in->fd, to, count * sizeof *to, in->start + (off_t)(in->raw.first + i * sizeof *to)) < 0)
        memset(to, 0, count * sizeof *to);
}

/* Takes the sample of `count` records more; NULL: all of the launch, which is not read. */
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

/* One that was live has its companion now. */
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

/* ---- not known yet ---- */

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

/* Opens a window and gets the first byte: 1 of a container, 0 of anything else (or none), -1 with *err. */
static int unknown_input_first(struct mt_input *in, struct mt_window *w, const struct mt_stop *stop,
                               struct mt_error *err)
{
    const uint64_t magic = MT_MTC_MAGIC;
    size_t got = 0;
    if (mt_window_open_fd(w, in->fd, in->path, 0, err) != 0)
        return -1;
    w->stop = *stop;
    const unsigned char *p = mt_window_get(w, 0, 1, &got, err); /* NULL: the next read says why, too */
    return p && got && memcmp(p, &magic, 1) == 0;
}

/* The input becomes a raw trace that begins with what the window has; closes that. */
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

static int unknown_input_find_out(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    struct mt_window w;
    int container = unknown_input_first(in, &w, stop, err);
    return container > 0    ? mt_container_input_take(in, &w, 0, err)
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
