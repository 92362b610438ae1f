/* Device chunks of a container: launch by launch, or as a FIFO has them. */
#define _GNU_SOURCE
#include "host_internal.h"

enum { BATCH = 4096 };

static int memory(const struct mt_host_reader *r, struct mt_error *err)
{
    mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a chunk");
    return -1;
}

void mt_device_free(struct mt_device_state *d)
{
    mt_device_decode_free(&d->decoder);
    mt_plain_free(&d->plain);
    mt_map32_free(&d->kernels);
    mt_intern_free(&d->unnamed);
    free(d->launches);
    free(d->chunks);
    free(d->events);
    free(d->runs);
    free(d->lanes);
}

/* ---- names and lines ---- */

/* The kernel's name; *named: a line tells it. NULL: no memory. */
static const char *kernel_name(struct mt_host_reader *r, uint32_t id, int *named)
{
    struct mt_device_state *d = &r->device;
    const struct mt_companion *c = r->meta.companion;
    char text[40];
    for (; d->kernels_taken < c->nkernels; d->kernels_taken++) {
        uint64_t k = c->kernels[d->kernels_taken].id;
        if (k && k <= UINT32_MAX && !mt_map32_find(&d->kernels, (uint32_t)k) &&
            mt_map32_add(&d->kernels, (uint32_t)k, (uint32_t)d->kernels_taken) != 0)
            return NULL;
    }
    uint32_t *at = id ? mt_map32_find(&d->kernels, id) : NULL;
    *named = at != NULL;
    if (at)
        return c->kernels[*at].name;
    int n = snprintf(text, sizeof text, "kernel-%u-without-name", id);
    return mt_intern_add(&d->unnamed, text, (size_t)n);
}

static int event_by_seq(const void *a, const void *b)
{
    uint64_t x = (*(const struct mt_launch_event *const *)a)->seq,
             y = (*(const struct mt_launch_event *const *)b)->seq;
    return x < y ? -1 : x > y;
}

static int list_events(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    const struct mt_companion *c = r->meta.companion;
    d->events = malloc((c->nlaunches + 1) * sizeof *d->events);
    if (!d->events)
        return -1;
    for (size_t i = 0; i < c->nlaunches; i++)
        if (c->launches[i].traced)
            d->events[d->nevents++] = &c->launches[i];
    qsort(d->events, d->nevents, sizeof *d->events, event_by_seq);
    return 0;
}

const struct mt_launch_event *mt_device_launch_event(struct mt_host_reader *r, uint64_t seq)
{
    const struct mt_device_state *d = &r->device;
    const struct mt_companion *c = r->meta.companion;
    size_t lo = 0, hi = d->nevents;
    for (size_t i = r->window.regular ? 0 : c->nlaunches; i-- > 0;)
        if (c->launches[i].seq == seq)
            return &c->launches[i];
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (d->events[mid]->seq < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->nevents && d->events[lo]->seq == seq ? d->events[lo] : NULL;
}

/* ---- what is where ---- */

static int chunk_by_seq(const void *a, const void *b, void *entries)
{
    const struct mt_mtc_index *e = entries;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (e[x].first != e[y].first)
        return e[x].first < e[y].first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int list_launches(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    d->launches = malloc((d->nchunks + 1) * sizeof *d->launches);
    if (!d->launches)
        return -1;
    for (size_t i = 0; i < d->nchunks; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[d->chunks[i]];
        struct mt_device_launch *l = d->nlaunches ? &d->launches[d->nlaunches - 1] : NULL;
        int named;
        if (!l || l->seq != e->first) {
            const char *kernel = kernel_name(r, MT_MTC_KEY_KERNEL(e->key), &named);
            if (!kernel)
                return -1;
            l = &d->launches[d->nlaunches++];
            *l = (struct mt_device_launch){.seq = e->first,
                                           .kernel = kernel,
                                           .stream = MT_MTC_KEY_STREAM(e->key),
                                           .whole = e->flags & MT_MTC_BEGIN,
                                           .first = i};
        }
        l->accesses += e->items;
        l->chunks++;
        if (i + 1 == d->nchunks || r->chunks.entries[d->chunks[i + 1]].first != e->first)
            l->whole &= (e->flags & MT_MTC_END) != 0;
    }
    return 0;
}

int mt_device_list(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    if (r->chunks.count >= UINT32_MAX || !(d->chunks = malloc((r->chunks.count + 1) * sizeof *d->chunks)))
        return -1;
    for (size_t i = 0; i < r->chunks.count; i++)
        if (r->chunks.entries[i].type == MT_MTC_DEVICE)
            d->chunks[d->nchunks++] = (uint32_t)i;
    qsort_r(d->chunks, d->nchunks, sizeof *d->chunks, chunk_by_seq, r->chunks.entries);
    return list_launches(r) == 0 ? list_events(r) : -1;
}

const struct mt_device_launch *mt_device_launches(const struct mt_host_reader *r, size_t *count)
{
    *count = r->device.nlaunches;
    return r->device.launches;
}

void mt_device_seek(struct mt_host_reader *r, size_t index)
{
    struct mt_device_state *d = &r->device;
    d->open = d->begun = d->fresh = 0;
    d->next = index < d->nlaunches ? d->launches[index].first : d->nchunks;
}

uint64_t mt_device_peek(const struct mt_host_reader *r)
{
    const struct mt_device_state *d = &r->device;
    if (d->open)
        return d->head.first;
    return d->next < d->nchunks ? r->chunks.entries[d->chunks[d->next]].first : MT_SEQ_NONE;
}

/* ---- chunks ---- */

int mt_device_start(struct mt_host_reader *r, uint64_t offset, const struct mt_mtc_chunk *head,
                    const unsigned char *stored, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    const char *why = head->items > MT_MTC_MAX_ACCESSES ? "promises more accesses than any has" : NULL;
    d->open = 0;
    if (mt_chunk_unpack(&d->plain, r->window.name, offset, head, stored, err) != 0)
        return -1;
    if (!why && mt_device_decode_start(&d->decoder, d->plain.data, d->plain.bytes) != 0) {
        if (!(why = d->decoder.why))
            return memory(r, err);
    }
    if (why) {
        mt_error_set(err, MT_E_CORRUPT, 0, offset, r->window.name, "a chunk %s, it is skipped", why);
        return -1;
    }
    d->head = *head;
    d->offset = offset;
    d->open = 1;
    return 0;
}

/* Opens the next chunk. 1, 0 at the end, -1 with *err. */
static int next_chunk(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    if (!r->window.regular) {
        unsigned type = 0;
        int rc = 1;
        while (rc > 0 && type != MT_MTC_DEVICE)
            rc = mt_container_next_live(r, &type, err);
        return rc;
    }
    if (d->next == d->nchunks)
        return 0;
    const struct mt_mtc_index *e = &r->chunks.entries[d->chunks[d->next++]];
    enum mt_chunk_state state = mt_chunk_at(&r->window, e->offset, &head, &stored, err);
    r->done += state == MT_CHUNK_WHOLE ? sizeof head + head.stored_bytes : 0;
    if (state == MT_CHUNK_WHOLE && head.type == e->type && head.key == e->key && head.first == e->first &&
        head.flags == e->flags)
        return mt_device_start(r, e->offset, &head, stored, err) == 0 ? 1 : -1;
    if (state == MT_CHUNK_WHOLE || state == MT_CHUNK_END)
        mt_error_set(err, MT_E_CORRUPT, 0, e->offset, r->window.name,
                     "here is another chunk than the index says");
    return -1;
}

/* Launches of several streams, in an input that comes in file order only. */
static int mixed(struct mt_host_reader *r, struct mt_error *err)
{
    r->next = MT_NOTHING_LEFT;
    r->device.open = r->device.begun = 0;
    mt_error_set(err, MT_E_INPUT, 0, 0, r->window.name,
                 "launches of several streams take turns: this needs a regular file, not a FIFO or pipe");
    return -1;
}

/* The launch under way, if there is one, has no end: -1 with *err. */
static int without_end(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (!d->begun)
        return 0;
    d->begun = 0;
    mt_error_set(err, MT_E_TRUNCATED, 0, d->end, r->window.name,
                 "the trace ends inside kernel '%.100s' (launch with number %llu)", d->kernel,
                 (unsigned long long)d->seq);
    return -1;
}

/* The first batch of a launch. 0, or -1 with *err. */
static int begin(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    int named;
    d->kernel = kernel_name(r, MT_MTC_KEY_KERNEL(d->head.key), &named);
    if (!d->kernel)
        return memory(r, err);
    d->seq = d->head.first;
    d->stream = MT_MTC_KEY_STREAM(d->head.key);
    d->begun = d->fresh = 1;
    if (named)
        return 0;
    mt_error_set(err, MT_E_CORRUPT, 0, d->offset, r->window.name,
                 "the name of this chunk's kernel is missing");
    return -1;
}

static uint64_t sum(const struct mt_access_run *runs, size_t count)
{
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += runs[i].count;
    return n;
}

/* Runs of the open chunk. 1; 0: it is through; -1 with *err. */
static int take(struct mt_host_reader *r, struct mt_access_run *runs, uint64_t *lanes, size_t capacity,
                struct mt_run_batch *b, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (!d->begun && begin(r, err) != 0)
        return -1; /* if it is only the name, the runs come with the next call */
    d->end = d->offset + sizeof d->head + d->head.stored_bytes;
    int bad = mt_device_decode_next(&d->decoder, runs, lanes, capacity, &b->count);
    int through = !bad && d->decoder.tokens.at == d->decoder.tokens.end;
    if (bad || (through && (d->decoder.accesses != d->head.items || !mt_device_decode_done(&d->decoder)))) {
        d->open = 0;
        if (d->head.flags & MT_MTC_END) /* it has an end, and what it lacks is said here */
            d->begun = 0;
        if (bad && !d->decoder.why)
            return memory(r, err);
        mt_error_set(err, MT_E_CORRUPT, 0, d->offset, r->window.name, "a chunk %s",
                     bad ? d->decoder.why : "has other accesses than its head says");
        return -1;
    }
    d->open = !through;
    b->flags = (d->fresh ? MT_BATCH_BEGIN : 0) | (through && d->head.flags & MT_MTC_END ? MT_BATCH_END : 0);
    d->begun = !(b->flags & MT_BATCH_END);
    d->fresh = 0;
    b->runs = runs;
    b->accesses = sum(runs, b->count);
    b->kernel = d->kernel;
    b->seq = d->seq;
    b->stream = MT_MTC_KEY_STREAM(d->head.key);
    b->offset = d->offset;
    return b->count || b->flags;
}

int mt_device_fill(struct mt_host_reader *r, struct mt_access_run *runs, uint64_t *lanes, size_t capacity,
                   struct mt_run_batch *b, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    memset(b, 0, sizeof *b);
    for (;;) {
        int rc = mt_host_stopped(r, err) ? -1 : 1;
        if (rc > 0 && !d->open && (rc = next_chunk(r, err)) == 0) {
            if (without_end(r, err) != 0)
                return -1;
            if (r->problems.told == r->problems.count)
                return 0;
            *err = r->problems.list[r->problems.told++];
            return -1;
        }
        if (rc < 0)
            return -1;
        if (d->begun && d->seq != d->head.first)
            return r->window.regular || d->stream == MT_MTC_KEY_STREAM(d->head.key) ? without_end(r, err)
                                                                                    : mixed(r, err);
        if ((rc = take(r, runs, lanes, capacity, b, err)) != 0)
            return rc;
    }
}

int mt_device_next(struct mt_host_reader *r, struct mt_run_batch *batch, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (!d->runs)
        d->runs = malloc(BATCH * sizeof *d->runs);
    if (!d->lanes)
        d->lanes = malloc(BATCH * MT_MTC_MAX_LANES * sizeof *d->lanes);
    return d->runs && d->lanes ? mt_device_fill(r, d->runs, d->lanes, BATCH, batch, err) : memory(r, err);
}
