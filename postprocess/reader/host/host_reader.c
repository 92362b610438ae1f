/* Public functions of the reader of compact traces, and host chunks in file order. */
#define _GNU_SOURCE

#include "reader/container/container.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- host chunks of many threads in one order ----
 * A heap of lanes, one per thread, each with one chunk in memory. A lane is loaded when its turn may have
 * come, so that ended threads cost nothing. */

enum { LANE_RECORDS = 512 };
enum pending { NOTHING, EVENT, FAILURE };

struct lane {
    struct mt_host_stream stream;
    uint64_t thread;
    const size_t *chunks; /* indices in the reader's list, in file order */
    size_t nchunks, next;
    size_t at, end;       /* range of the unread records */
    uint64_t seq;         /* sequence number of the unread records */
    enum pending pending; /* kind of item after the unread records */
    struct mt_host_item event;
    struct mt_error error;
    int ready; /* 1: `key` is valid for the lane's next item */
    uint64_t key;
};

struct mt_order {
    struct mt_host_reader *r;
    int by_time;
    struct lane *lanes;
    size_t *chunks;      /* indices of the chunks of all lanes */
    size_t *heap, count; /* lanes, lowest (key, thread) first */
};

/* ---- heap ---- */

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

static int host_stream_next(struct mt_host_stream *s, struct mt_host_reader *r, size_t keep,
                            struct mt_host_item *item, struct mt_error *err);

/* Reads what follows the lane's records: more records, or `pending`. */
static void host_order_fill(struct mt_order *o, struct lane *l)
{
    struct mt_host_stream *s = &l->stream;
    struct mt_host_item item;
    if (l->at && l->end > l->at)
        memmove(s->room, s->room + l->at, (l->end - l->at) * sizeof *s->room);
    l->end -= l->at;
    l->at = 0;
    int rc = host_stream_next(s, o->r, l->end, &item, &l->error);
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

/* Returns the number of records at the front of the lane that belong to one execution (have one time); 0:
 * more must be read first. */
static size_t host_order_execution(const struct lane *l)
{
    const struct mt_host_record *r = l->stream.room + l->at;
    size_t n = l->end - l->at, i = 1;
    while (i < n && r[i].time == r[0].time)
        i++;
    return i < n || l->pending || !l->stream.open || n == l->stream.capacity ? i : 0;
}

static int host_stream_load(struct mt_host_stream *s, struct mt_host_reader *r,
                            const struct mt_mtc_index *entry, struct mt_error *err);

/* Determines the lane's next item. Returns 1 if it is ready, 0 if the thread has no more, or -1 with *err
 * set; the caller may call again. */
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
        if (host_stream_load(&l->stream, o->r, &o->r->chunks.entries[l->chunks[l->next++]], err) != 0)
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

static void host_stream_free(struct mt_host_stream *s);

static int order_next(struct mt_order *o, struct mt_host_item *item, struct mt_error *err)
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
            host_stream_free(&l->stream);
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

static void order_free(struct mt_order *o);

static struct mt_order *order_new(struct mt_host_reader *r, int by_time, struct mt_error *err)
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
    order_free(o);
    mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for putting threads in order");
    return NULL;
}

static void order_free(struct mt_order *o)
{
    if (!o)
        return;
    for (size_t i = 0; o->lanes && o->heap && i < o->count; i++)
        host_stream_free(&o->lanes[o->heap[i]].stream);
    free(o->lanes);
    free(o->heap);
    free(o->chunks);
    free(o);
}

/* ---- host chunks of one thread (or, in file order, of all), one at a time ---- */

enum { RECORDS_MAX = 4096 };

static uint32_t size_of(void *arg, uint32_t site)
{
    const struct mt_host_site_info *s = mt_meta_site(arg, site);
    return s ? s->size : 0;
}

static int host_stream_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a chunk");
}

/* Makes room for the chunk's items, up to a limit: threads may be many and short. */
static int make_room(struct mt_host_stream *s, uint64_t items)
{
    size_t most = s->most ? s->most : RECORDS_MAX, want = items < most ? (size_t)items + 1 : most;
    if (want <= s->capacity)
        return 0;
    void *p = realloc(s->room, want * sizeof *s->room);
    if (!p)
        return -1;
    s->room = p;
    s->capacity = want;
    return 0;
}

/* Starts the chunk. Returns 0, or -1 with *err set if it is damaged or without memory. */
static int host_stream_start(struct mt_host_stream *s, struct mt_host_reader *r, uint64_t offset,
                             const struct mt_mtc_chunk *head, const unsigned char *stored,
                             struct mt_error *err)
{
    int timed = (r->head.features & MT_MTC_HAS_TIMES) != 0;
    s->open = 0;
    if (head->items > MT_MTC_MAX_ITEMS)
        return mt_error_set(err, MT_E_CORRUPT, 0, offset, r->window.name,
                            "a chunk of %llu items: more than any has, it is skipped",
                            (unsigned long long)head->items);
    if (mt_chunk_unpack(&s->plain, r->window.name, offset, head, stored, err) != 0)
        return -1;
    if (make_room(s, head->items) != 0 ||
        mt_decode_start(&s->decoder, s->plain.data, s->plain.bytes, timed, head->first) != 0)
        return host_stream_memory(r, err);
    s->decoder.size_of = size_of;
    s->decoder.arg = &r->meta;
    s->offset = offset;
    s->thread = head->key;
    s->items = head->items;
    s->last = head->last;
    s->open = 1;
    return 0;
}

/* Loads the chunk of an index entry. */
static int host_stream_load(struct mt_host_stream *s, struct mt_host_reader *r,
                            const struct mt_mtc_index *entry, struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    enum mt_chunk_state state = mt_chunk_at(&r->window, entry->offset, &head, &stored, err);
    s->open = 0;
    r->done += state == MT_CHUNK_WHOLE ? sizeof head + head.stored_bytes : 0;
    if (state == MT_CHUNK_WHOLE && head.type == entry->type && head.key == entry->key)
        return host_stream_start(s, r, entry->offset, &head, stored, err);
    if (state == MT_CHUNK_WHOLE || state == MT_CHUNK_END)
        return mt_error_set(err, MT_E_CORRUPT, 0, entry->offset, r->window.name,
                            "here is another chunk than the index says");
    return -1;
}

static int at_end(struct mt_host_stream *s, struct mt_host_reader *r, struct mt_error *err)
{
    const struct mt_decoder *d = &s->decoder;
    s->open = 0;
    if (d->items == s->items && d->seq == s->last)
        return 0;
    return mt_error_set(
        err, MT_E_CORRUPT, 0, s->offset, r->window.name,
        "a chunk has %llu items and ends at sequence number %llu, its head says %llu and %llu",
        (unsigned long long)d->items, (unsigned long long)d->seq, (unsigned long long)s->items,
        (unsigned long long)s->last);
}

/* Reads the next item of the chunk. Returns 1, 0 at its end, or -1 with *err set; the chunk then ends.
 * Records go to s->room + `keep`. */
static int host_stream_next(struct mt_host_stream *s, struct mt_host_reader *r, size_t keep,
                            struct mt_host_item *item, struct mt_error *err)
{
    struct mt_decoder *d = &s->decoder;
    size_t count;
    if (!s->open)
        return 0;
    int rc = mt_decode_next(d, s->room + keep, s->capacity - keep, &count, item);
    if (rc == 0)
        return at_end(s, r, err);
    if (rc > 0 && d->items <= s->items) {
        if (count)
            *item = (struct mt_host_item){.kind = MT_HOST_ITEM_RECORDS,
                                          .records = s->room + keep,
                                          .count = count,
                                          .seq = d->seq,
                                          .time = s->room[keep].time};
        item->thread = s->thread;
        return 1;
    }
    s->open = 0;
    if (rc < 0 && !d->why)
        return host_stream_memory(r, err);
    return mt_error_set(
        err, MT_E_CORRUPT, 0, s->offset, r->window.name, "a chunk %s (byte %llu of its payload)",
        rc < 0 ? d->why : "has more items than its head says", (unsigned long long)(d->at - d->begin));
}

static void host_stream_free(struct mt_host_stream *s)
{
    mt_chunk_payload_free(&s->plain);
    mt_decode_free(&s->decoder);
    free(s->room);
    memset(s, 0, sizeof *s);
}

static int host_reader_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a container");
}

/* Reads all meta chunks of a regular file. Damage is added to the problems. */
static int load_meta(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    for (size_t i = 0; i < r->chunks.count; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        if (e->type != MT_MTC_META)
            continue;
        enum mt_chunk_state state = mt_chunk_at(&r->window, e->offset, &head, &stored, err);
        int rc = state == MT_CHUNK_WHOLE && head.type == MT_MTC_META
                     ? mt_container_take_meta(r, e->offset, &head, stored, err)
                     : -1;
        if (rc == 0)
            continue;
        if (state == MT_CHUNK_SYSTEM || (state == MT_CHUNK_WHOLE && err->code == MT_E_SYSTEM))
            return -1;
        if (state == MT_CHUNK_END || (state == MT_CHUNK_WHOLE && head.type != MT_MTC_META))
            mt_error_set(err, MT_E_CORRUPT, 0, e->offset, r->window.name,
                         "here is another chunk than the index says");
        if (mt_problem_add(&r->problems, err) != 0)
            return host_reader_memory(r, err);
    }
    mt_meta_sort(&r->meta);
    return 0;
}

struct mt_host_reader *mt_container_open(struct mt_window *w, struct mt_error *err)
{
    struct mt_host_reader *r = calloc(1, sizeof *r);
    if (!r) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, w->name, "no memory for a reader");
        mt_window_close(w);
        return NULL;
    }
    r->window = *w;
    int rc = mt_container_head(&r->window, &r->head, err);
    if (rc == 0 && mt_meta_open(&r->meta, r->window.name) != 0)
        rc = host_reader_memory(r, err);
    struct stat st;
    if (rc == 0 && r->window.regular && fstat(r->window.fd, &st) == 0)
        r->meta.companion->own = st.st_uid == geteuid();
    if (rc == 0 && r->window.regular) {
        rc = mt_chunks_find(&r->chunks, &r->window, r->head.head_bytes, &r->problems, err);
        if (rc == 0)
            rc = load_meta(r, err);
        if (rc == 0 && mt_device_list(r) != 0)
            rc = host_reader_memory(r, err);
    }
    r->next = r->window.regular ? 0 : r->head.head_bytes;
    if (rc == 0)
        return r;
    mt_host_reader_close(r);
    return NULL;
}

struct mt_host_reader *mt_host_reader_open(const char *path, const volatile sig_atomic_t *stop,
                                           struct mt_error *err)
{
    struct mt_window w;
    return mt_window_open(&w, path, stop, err) == 0 ? mt_container_open(&w, err) : NULL;
}

void mt_host_reader_close(struct mt_host_reader *r)
{
    if (!r)
        return;
    order_free(r->merge);
    host_stream_free(&r->stream);
    mt_device_free(&r->device);
    mt_meta_free(&r->meta);
    free(r->chunks.entries);
    free(r->problems.list);
    mt_window_close(&r->window);
    free(r);
}

const struct mt_mtc_head *mt_host_reader_head(const struct mt_host_reader *r)
{
    return &r->head;
}

int mt_host_reader_order(struct mt_host_reader *r, enum mt_host_order order, struct mt_error *err)
{
    const char *why = NULL;
    if (order != MT_HOST_BY_FILE && !r->window.regular)
        why = "records of a FIFO come in file order only";
    else if (order == MT_HOST_BY_TIME && !(r->head.features & MT_MTC_HAS_TIMES))
        why = "its records have no times: only traces of memtrace host atomic and insn do";
    else if (r->begun)
        why = "the order is chosen before the first record";
    if (why)
        return mt_error_set(err, MT_E_INPUT, 0, 0, r->window.name, "%s", why);
    r->order = order;
    return 0;
}

/* ---- file order ---- */

/* Reads the next chunk of a FIFO and skips those of kernels. Returns as mt_container_next_live does. */
static int take_live(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    uint64_t at;
    int rc = mt_container_next_live(r, &at, &head, &stored, err);
    if (rc == 0)
        mt_meta_sort(&r->meta);
    if (rc <= 0)
        return rc;
    r->done = r->next;
    r->chunks.indexed |= head.type == MT_MTC_INDEX;
    if (head.type == MT_MTC_HOST)
        return host_stream_start(&r->stream, r, at, &head, stored, err) == 0 ? 1 : -1;
    return head.type != MT_MTC_META || mt_container_take_meta(r, at, &head, stored, err) == 0 ? 1 : -1;
}

static int next_by_file(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    for (;;) {
        int rc = host_stream_next(&r->stream, r, 0, item, err);
        if (rc)
            return rc;
        if (!r->window.regular) {
            if ((rc = take_live(r, err)) <= 0)
                return rc;
            continue;
        }
        while (r->next < r->chunks.count && r->chunks.entries[r->next].type != MT_MTC_HOST)
            r->next++;
        if (r->next == r->chunks.count)
            return 0;
        if (host_stream_load(&r->stream, r, &r->chunks.entries[r->next++], err) != 0)
            return -1;
    }
}

static int next_item(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    if (r->order == MT_HOST_BY_FILE)
        return next_by_file(r, item, err);
    if (!r->merge && !(r->merge = order_new(r, r->order == MT_HOST_BY_TIME, err)))
        return -1;
    return order_next(r->merge, item, err);
}

int mt_host_next(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    r->begun = 1;
    if (r->fatal) {
        *err = r->error;
        return -1;
    }
    int rc = mt_container_stopped(r, err) ? -1 : next_item(r, item, err);
    if (rc == 0 && r->problems.told < r->problems.count) {
        *err = r->problems.list[r->problems.told++];
        return -1;
    }
    if (rc < 0 && (err->code == MT_E_SYSTEM || err->code == MT_E_STOPPED)) {
        r->fatal = 1;
        r->error = *err;
    }
    return rc;
}

int mt_host_rewind(struct mt_host_reader *r, struct mt_error *err)
{
    if (!r->window.regular)
        return mt_error_set(err, MT_E_INPUT, 0, 0, r->window.name, "a FIFO cannot be read twice");
    order_free(r->merge);
    r->merge = NULL;
    r->stream.open = 0;
    mt_device_seek(r, 0);
    r->next = r->done = r->problems.told = 0;
    r->begun = r->fatal = 0;
    return 0;
}

/* ---- meta lines ---- */

const struct mt_host_site_info *mt_host_site(struct mt_host_reader *r, uint32_t site)
{
    return mt_meta_site(&r->meta, site);
}

const struct mt_function_event *mt_host_function(struct mt_host_reader *r, uint64_t id)
{
    const struct mt_companion *c = r->meta.companion;
    for (size_t i = 0; i < c->nfunctions; i++)
        if (c->functions[i].id == id)
            return &c->functions[i];
    return NULL;
}

const struct mt_companion *mt_host_companion(struct mt_host_reader *r)
{
    return r->meta.companion;
}

void mt_host_progress(const struct mt_host_reader *r, uint64_t *done, uint64_t *total)
{
    *done = r->done;
    *total = r->window.size;
}

uint64_t mt_container_features(const char *path)
{
    struct stat st;
    struct mt_mtc_head head = {0};
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, &head, sizeof head, 0);
    close(fd);
    return n == (ssize_t)sizeof head && head.magic == MT_MTC_MAGIC ? head.features : 0;
}

int mt_is_container(const char *path)
{
    struct stat st;
    uint64_t magic = 0;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, &magic, sizeof magic, 0);
    close(fd);
    return n == (ssize_t)sizeof magic && magic == MT_MTC_MAGIC;
}
