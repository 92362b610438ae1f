/* Containers among the inputs of a source: accesses of host code, by sequence number. */
#define _GNU_SOURCE
#include "internal.h"

int mt_host_input_open(struct mt_input *in, struct mt_error *err)
{
    const struct mt_mtc_head *head = mt_host_reader_head(in->host);
    if (!(head->features & MT_MTC_HAS_HOST)) {
        mt_error_set(err, MT_E_INPUT, 0, 0, in->path, "is a container without host accesses");
        return -1;
    }
    return mt_host_reader_order(in->host, MT_HOST_BY_SEQ, err);
}

/* The same damage again means that the reader cannot go on behind it. */
static void merge_host_damage(struct mt_source_merge *m, struct mt_input *in, const struct mt_error *problem)
{
    mt_merge_problem(m, problem);
    if (problem->code != MT_E_CORRUPT || problem->offset == in->bad_offset)
        in->finished = 1;
    in->bad_offset = problem->offset;
}

/* Makes sure that in->head is there: 1, or 0 at the end. */
static int fill_head(struct mt_source_merge *m, struct mt_input *in)
{
    while (!in->finished && !in->has_head && !m->stopped) {
        struct mt_error problem;
        uint64_t before, after, total;
        mt_host_progress(in->host, &before, &total);
        int rc = mt_host_next(in->host, &in->head, &problem);
        mt_host_progress(in->host, &after, &total);
        __atomic_fetch_add(&m->done, after - before, __ATOMIC_RELAXED);
        if (rc < 0)
            merge_host_damage(m, in, &problem);
        in->finished |= rc == 0;
        in->has_head = rc > 0 && in->head.kind == MT_HOST_ITEM_RECORDS && in->head.count > 0;
        in->taken = 0;
    }
    return in->has_head;
}

size_t mt_merge_host(struct mt_source_merge *m, uint64_t *seq)
{
    size_t best = m->ninputs;
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        if (in->merged && fill_head(m, in) && (best == m->ninputs || in->head.seq < *seq)) {
            best = i;
            *seq = in->head.seq;
        }
    }
    return best;
}

void mt_merge_host_take(struct mt_source_merge *m, size_t i, struct mt_host_access *room, size_t capacity,
                        struct mt_item *item)
{
    static const struct mt_host_site_info nothing = {.op = MT_HOST_UNKNOWN,
                                                     .file = "",
                                                     .function = "",
                                                     .module = "",
                                                     .variable = "",
                                                     .text = "",
                                                     .reads = "",
                                                     .writes = ""};
    struct mt_input *in = &m->inputs[i];
    size_t n = in->head.count - in->taken;
    if (n > capacity)
        n = capacity;
    for (size_t k = 0; k < n; k++) {
        const struct mt_host_record *r = &in->head.records[in->taken + k];
        const struct mt_host_site_info *site = mt_host_site(in->host, r->site);
        room[k].address = r->address;
        room[k].site = site ? site : &nothing;
        room[k].size = r->size ? r->size : room[k].site->size;
        room[k].reserved = 0;
    }
    *item = (struct mt_item){.kind = MT_ITEM_HOST,
                             .superstep = m->superstep,
                             .count = n,
                             .input = i,
                             .host = room,
                             .thread = in->head.thread,
                             .seq = in->head.seq};
    in->records += n;
    in->taken += n;
    in->has_head = in->taken < in->head.count;
    if (mt_stopped(&m->stop)) {
        struct mt_error stopped;
        mt_error_set(&stopped, MT_E_STOPPED, EINTR, 0, in->path, "stopped while reading");
        mt_merge_problem(m, &stopped);
    }
}
