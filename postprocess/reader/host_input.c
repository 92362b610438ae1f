/* Containers among the inputs of a source: accesses of host code, by sequence number.
 * They have no launches. */
#define _GNU_SOURCE
#include "reader/base/internal.h"

int mt_host_input_open(struct mt_input *in, struct mt_host_reader *r, struct mt_error *err)
{
    const struct mt_mtc_head *head = mt_host_reader_head(r);
    in->ops = &mt_host_input;
    in->host = (struct mt_host_state){.reader = r};
    if (!(head->features & MT_MTC_HAS_HOST))
        return mt_error_set(err, MT_E_INPUT, 0, 0, in->path, "is a container without host accesses");
    return mt_host_reader_order(r, MT_HOST_BY_SEQ, err);
}

/* The same damage again means that the reader cannot go on after it. */
static void host_input_damage(struct mt_input *in, const struct mt_error *problem)
{
    if (problem->code != MT_E_CORRUPT || problem->offset == in->host.bad_offset)
        in->pass.finished = 1;
    in->host.bad_offset = problem->offset;
}

/* Begin or end of a thread, as mt_item has it; 0: another event. */
static uint64_t host_input_life(const struct mt_host_item *item)
{
    const uint64_t thread = (item->thread & INT32_MAX) + 1;
    return item->event == MT_HOST_EV_THREAD_END     ? thread
           : item->event == MT_HOST_EV_THREAD_START ? thread | MT_THREAD_BEGAN
                                                    : 0;
}

int mt_host_fill(struct mt_input *in, uint64_t *bytes, struct mt_error *err)
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

/* Makes sure that in->host.head is there: 1, or 0 at the end. */
static int fill_head(struct mt_source_merge *m, struct mt_input *in)
{
    struct mt_error problem;
    uint64_t bytes = 0;
    int rc = 0;
    while (!m->stopped && (rc = mt_host_fill(in, &bytes, &problem)) < 0)
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

size_t mt_host_take(struct mt_input *in, struct mt_host_access *room, size_t capacity)
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
    size_t n = mt_host_take(in, room, capacity);
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

int mt_host_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    struct mt_host_state *h = &in->host;
    (void)stop;
    h->has_head = h->begun = h->ended = h->has_problem = 0;
    h->seq = h->life = 0;
    h->bad_offset = UINT64_MAX;
    return mt_host_rewind(h->reader, err);
}

int mt_host_input_end(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    (void)in, (void)stop, (void)err;
    return 0;
}

void mt_host_input_close(struct mt_input *in)
{
    mt_host_reader_close(in->host.reader);
    mt_companion_free(in->companion);
    free(in->host.program);
}

const struct mt_input_ops mt_host_input = {
    .start = mt_host_input_start, .end = mt_host_input_end, .close = mt_host_input_close};
