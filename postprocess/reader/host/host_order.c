/* Host chunks of many threads in one order: a heap of lanes, one per thread, each with one chunk in memory.
 * A lane is loaded when its turn may have come, so threads that have ended cost nothing. */
#define _GNU_SOURCE
#include "reader/container/container.h"

enum { LANE_RECORDS = 512 };
enum pending { NOTHING, EVENT, FAILURE };

struct lane {
    struct mt_host_stream stream;
    uint64_t thread;
    const size_t *chunks; /* positions in the reader's list, in file order */
    size_t nchunks, next;
    size_t at, end;       /* records in the stream's room */
    uint64_t seq;         /* of these */
    enum pending pending; /* what comes after them */
    struct mt_host_item event;
    struct mt_error error;
    int ready; /* `key` is that of the lane's next item */
    uint64_t key;
};

struct mt_order {
    struct mt_host_reader *r;
    int by_time;
    struct lane *lanes;
    size_t *chunks;      /* of all lanes */
    size_t *heap, count; /* lanes, lowest (key, thread) first */
};

/* ---- the heap ---- */

static int host_order_before(const struct lane *a, const struct lane *b)
{
    return a->key != b->key ? a->key < b->key : a->thread < b->thread;
}

static void host_order_sink(struct mt_order *o, size_t i)
{
    size_t lane = o->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < o->count &&
            host_order_before(&o->lanes[o->heap[child + 1]], &o->lanes[o->heap[child]]))
            child++;
        if (child >= o->count || !host_order_before(&o->lanes[o->heap[child]], &o->lanes[lane]))
            break;
        o->heap[i] = o->heap[child];
        i = child;
    }
    o->heap[i] = lane;
}

/* ---- lanes ---- */

/* Gets what comes after the records that are there: more of them, or `pending`. */
static void host_order_fill(struct mt_order *o, struct lane *l)
{
    struct mt_host_stream *s = &l->stream;
    struct mt_host_item item;
    if (l->at && l->end > l->at)
        memmove(s->room, s->room + l->at, (l->end - l->at) * sizeof *s->room);
    l->end -= l->at;
    l->at = 0;
    int rc = mt_host_stream_next(s, o->r, l->end, &item, &l->error);
    if (rc < 0) {
        l->pending = FAILURE;
    } else if (rc > 0 && item.kind == MT_HOST_ITEM_EVENT) {
        l->pending = EVENT;
        l->event = item;
    } else if (rc > 0) {
        l->end += item.count;
        l->seq = item.seq;
    }
}

/* Records of one execution, which have one time, at the front of the lane; 0: more must be read to know. */
static size_t host_order_execution(const struct lane *l)
{
    const struct mt_host_record *r = l->stream.room + l->at;
    size_t n = l->end - l->at, i = 1;
    while (i < n && r[i].time == r[0].time)
        i++;
    return i < n || l->pending || !l->stream.open || n == l->stream.capacity ? i : 0;
}

/* Finds out the lane's next item. 1: it is ready; 0: the thread has no more; -1 with *err:
 * go on with another call. */
static int host_order_look(struct mt_order *o, struct lane *l, struct mt_error *err)
{
    for (;;) {
        if (l->at < l->end && (!o->by_time || host_order_execution(l))) {
            l->key = o->by_time ? l->stream.room[l->at].time : l->seq;
            return 1;
        }
        if (l->at == l->end && l->pending == EVENT) {
            l->key = o->by_time ? l->event.time : l->event.seq;
            return 1;
        }
        if (l->at == l->end && l->pending == FAILURE) {
            l->pending = NOTHING;
            *err = l->error;
            return -1;
        }
        if (l->stream.open) {
            host_order_fill(o, l);
            continue;
        }
        if (l->next == l->nchunks)
            return 0;
        l->at = l->end = 0;
        if (mt_host_stream_load(&l->stream, o->r, &o->r->chunks.entries[l->chunks[l->next++]], err) != 0)
            return -1;
    }
}

static void host_order_take(struct mt_order *o, struct lane *l, struct mt_host_item *item)
{
    if (l->at == l->end) {
        *item = l->event;
        l->pending = NOTHING;
    } else {
        const struct mt_host_record *records = l->stream.room + l->at;
        size_t n = o->by_time ? host_order_execution(l) : l->end - l->at;
        *item = (struct mt_host_item){.kind = MT_HOST_ITEM_RECORDS,
                                      .thread = l->thread,
                                      .seq = l->seq,
                                      .time = records[0].time,
                                      .records = records,
                                      .count = n};
        l->at += n;
    }
    l->ready = 0;
}

int mt_order_next(struct mt_order *o, struct mt_host_item *item, struct mt_error *err)
{
    while (o->count) {
        struct lane *l = &o->lanes[o->heap[0]];
        if (l->ready) {
            host_order_take(o, l, item);
            return 1;
        }
        int rc = host_order_look(o, l, err);
        if (rc < 0)
            return -1;
        l->ready = rc;
        if (rc == 0) {
            mt_host_stream_free(&l->stream);
            o->heap[0] = o->heap[--o->count];
        }
        if (o->count)
            host_order_sink(o, 0);
    }
    return 0;
}

/* ---- lanes from the list of chunks ---- */

static int by_thread(const void *a, const void *b, void *entries)
{
    const struct mt_mtc_index *e = entries;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    uint64_t x = e[i].key, y = e[k].key;
    return x != y ? (x < y ? -1 : 1) : i < k ? -1 : i > k;
}

static void make_lanes(struct mt_order *o, size_t n)
{
    const struct mt_mtc_index *e = o->r->chunks.entries;
    for (size_t i = 0; i < n; i++) {
        struct lane *l = o->count ? &o->lanes[o->count - 1] : NULL;
        if (!l || l->thread != e[o->chunks[i]].key) {
            l = &o->lanes[o->count];
            l->thread = e[o->chunks[i]].key;
            l->chunks = &o->chunks[i];
            l->key = o->by_time ? 0 : e[o->chunks[i]].first;
            l->stream.most = LANE_RECORDS;
            o->heap[o->count] = o->count;
            o->count++;
        }
        l->nchunks++;
    }
    for (size_t i = o->count / 2; i-- > 0;)
        host_order_sink(o, i);
}

struct mt_order *mt_order_new(struct mt_host_reader *r, int by_time, struct mt_error *err)
{
    const struct mt_chunk_list *list = &r->chunks;
    struct mt_order *o = calloc(1, sizeof *o);
    size_t n = 0, threads = 0;
    if (!o || !(o->chunks = malloc((list->count + 1) * sizeof *o->chunks)))
        goto memory;
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].type == MT_MTC_HOST)
            o->chunks[n++] = i;
    qsort_r(o->chunks, n, sizeof *o->chunks, by_thread, list->entries);
    for (size_t i = 0; i < n; i++)
        threads += i == 0 || list->entries[o->chunks[i]].key != list->entries[o->chunks[i - 1]].key;
    o->lanes = calloc(threads + 1, sizeof *o->lanes);
    o->heap = malloc((threads + 1) * sizeof *o->heap);
    if (!o->lanes || !o->heap)
        goto memory;
    o->r = r;
    o->by_time = by_time;
    make_lanes(o, n);
    return o;
memory:
    mt_order_free(o);
    mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for putting threads in order");
    return NULL;
}

void mt_order_free(struct mt_order *o)
{
    if (!o)
        return;
    for (size_t i = 0; o->lanes && o->heap && i < o->count; i++)
        mt_host_stream_free(&o->lanes[o->heap[i]].stream);
    free(o->lanes);
    free(o->heap);
    free(o->chunks);
    free(o);
}
