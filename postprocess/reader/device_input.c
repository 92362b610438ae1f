/* Containers among the inputs of a source: what is one, and their runs as runs or records. */
#define _GNU_SOURCE
#include "host_internal.h"
#include <unistd.h>

int mt_input_is_container(const struct mt_input *in)
{
    uint64_t magic = 0;
    return pread(in->fd, &magic, sizeof magic, (off_t)in->start) == (ssize_t)sizeof magic &&
           magic == MT_MTC_MAGIC;
}

/* The reader of in->fd becomes in->container or in->host. */
static int device_input_take(struct mt_input *in, struct mt_host_reader *r, unsigned flags,
                             struct mt_error *err)
{
    uint64_t features = mt_host_reader_head(r)->features;
    if (features & MT_MTC_HAS_DEVICE) {
        mt_device_use(r, in->decoders, in->threads);
        in->container = r;
        return 0;
    }
    if (!(flags & MT_SOURCE_HOST)) {
        mt_error_set(
            err, MT_E_INPUT, 0, 0, in->path,
            "is a compact container of host accesses, not a trace of kernels: mt-dump and mt-graph read "
            "it alone, mt-extract together with the traces of the same process");
        mt_host_reader_close(r);
        return -1;
    }
    in->host = r;
    return mt_host_input_open(in, err);
}

/* A raw trace without companion may have become a container: then nobody says that it has an end. */
static struct mt_companion *companion_of(struct mt_host_reader *r)
{
    struct mt_companion *c = (struct mt_companion *)mt_host_companion(r);
    return mt_companion_speaks(c) ? c : NULL;
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
    if (!own || !in->beside || (own->pid == in->beside->pid && own->start_ns == in->beside->start_ns))
        return 0;
    mt_companion_free(in->beside); /* of another run */
    in->beside = NULL;
    return 0;
}

int mt_container_input_open(struct mt_input *in, unsigned flags, const struct mt_stop *stop,
                            struct mt_error *err)
{
    struct mt_window w;
    if (lseek(in->fd, in->start, SEEK_SET) < 0 || mt_window_open_fd(&w, in->fd, in->path, 0, err) != 0) {
        mt_error_set(err, MT_E_SYSTEM, errno, 0, in->path, "cannot read: %s", strerror(errno));
        return -1;
    }
    w.stop = *stop;
    struct mt_host_reader *r = mt_container_open(&w, err);
    if (!r || device_input_take(in, r, flags, err) != 0)
        return -1;
    int rc = 0;
    if (in->container && !(flags & MT_SOURCE_NO_COMPANION)) {
        in->companion = companion_of(in->container);
        rc = look_beside(in, stop, err);
    }
    free(in->meta); /* its meta lines are inside */
    in->meta = NULL;
    return rc;
}

int mt_input_find_out(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    struct mt_window w;
    size_t got = 0;
    const uint64_t magic = MT_MTC_MAGIC;
    in->unknown = 0;
    if (mt_window_open_fd(&w, in->fd, in->path, 0, err) != 0)
        return -1;
    w.stop = *stop;
    const unsigned char *p = mt_window_get(&w, 0, 1, &got, err);
    if (p && got && memcmp(p, &magic, 1) == 0) {
        struct mt_host_reader *r = mt_container_open(&w, err);
        return r ? device_input_take(in, r, 0, err) : -1;
    }
    if (p && (in->reader = mt_reader_open_fd(in->fd, in->path, 0, NULL, err))) {
        mt_reader_set_stop(in->reader, stop);
        mt_reader_preload(in->reader, w.buffer, w.length);
    }
    mt_window_close(&w);
    return in->reader ? 0 : -1;
}

/* Runs as they are. */
static int pull_runs(struct mt_input *in, struct mt_item *item, uint64_t *accesses, struct mt_error *err)
{
    int rc = mt_device_next(in->container, &in->batch, err);
    *accesses = in->batch.accesses;
    in->run = in->batch.count; /* nothing of it is left to be handed out as records */
    *item = (struct mt_item){
        .kind = MT_ITEM_RUNS, .runs = in->batch.runs, .count = in->batch.count, .flags = in->batch.flags};
    return rc;
}

/* A launch at once, unread. */
static int pull_place(struct mt_input *in, struct mt_item *item, uint64_t *accesses)
{
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(in->container, &n);
    if (in->place == n)
        return 0;
    l += in->place++;
    mt_device_seek(in->container, in->place); /* what a peek tells */
    in->batch = (struct mt_run_batch){.kernel = l->kernel, .seq = l->seq};
    *accesses = l->accesses;
    *item = (struct mt_item){
        .kind = MT_ITEM_RUNS, .offset = l->first, .count = l->chunks, .flags = MT_BATCH_BEGIN | MT_BATCH_END};
    return 1;
}

int mt_device_pull(struct mt_input *in, struct mt_raw_record *room, struct mt_access_run *runs,
                   size_t capacity, struct mt_item *item, uint64_t *accesses, struct mt_error *err)
{
    struct mt_run_batch *b = &in->batch;
    if (in->places)
        return pull_place(in, item, accesses);
    if (runs)
        return pull_runs(in, item, accesses, err);
    unsigned flags = 0;
    if (in->run == b->count) {
        int rc = mt_device_next(in->container, b, err);
        in->run = in->lane = 0;
        if (rc <= 0) {
            b->count = 0;
            return rc;
        }
        flags = b->flags & MT_BATCH_BEGIN;
    }
    *accesses = mt_records_from_runs(b->runs, b->count, &in->run, &in->lane, room, capacity);
    if (in->run == b->count)
        flags |= b->flags & MT_BATCH_END;
    *item = (struct mt_item){.kind = MT_ITEM_BATCH, .records = room, .count = *accesses, .flags = flags};
    return 1;
}

int mt_device_input_whole(struct mt_input *in, struct mt_error *err)
{
    return in->companion ? 0 : mt_container_whole(in->container, err);
}

void mt_device_input_end(struct mt_input *in)
{
    if (in->live && in->meta)
        in->companion = companion_of(in->container);
}

void mt_container_set_stop(struct mt_host_reader *r, const struct mt_stop *stop)
{
    r->window.stop = *stop;
}
