/* Reader of device chunks of a compact trace: launch by launch, or in the order of a FIFO. */
#define _GNU_SOURCE

#include "decoders.h"
#include "memtrace/order.h"

/* ---- decoding ahead (decoders.h) ----
 * The pool's lock is taken once per block of runs, whose decoding takes 30 to 100 microseconds. */

enum { MOST = 16 }; /* maximum number of chunks in a queue: no analysis is faster with more threads */

/* ---- one block ---- */

static void decoders_fail(struct mt_chunk_job *j, const char *why, int skipped)
{
    j->failed = 1;
    if (why)
        mt_error_set(&j->error, MT_E_CORRUPT, 0, j->offset, j->name, "a chunk %s%s", why,
                     skipped ? ", it is skipped" : "");
    else
        mt_error_set(&j->error, MT_E_SYSTEM, ENOMEM, 0, j->name, "no memory for reading a chunk");
}

static void open_job(struct mt_chunk_job *j)
{
    struct mt_device_decoder *d = &j->decoder;
    if (mt_chunk_unpack(&j->plain, j->name, j->offset, &j->head, j->stored, &j->error) != 0)
        j->failed = 1;
    else if (j->head.items > MT_MTC_MAX_ACCESSES)
        decoders_fail(j, "promises more accesses than any has", 1);
    else if (mt_device_decode_start(d, j->plain.data, j->plain.bytes) != 0)
        decoders_fail(j, d->why, 1);
    else
        j->opened = 1;
}

/* Decodes a block of the job. Returns 1 if it is to be returned; a block next to damage is not. */
static int decoders_decode(struct mt_chunk_job *j, struct mt_run_block *b)
{
    struct mt_device_decoder *d = &j->decoder;
    uint64_t *lanes = b->lanes;
    int rc;
    d->features = j->features;
    d->spaces = __atomic_load_n(&b->of->spaces, __ATOMIC_RELAXED);
    b->count = 0;
    b->accesses = 0;
    b->last = 0;
    /* Runs with lists of addresses fill a block quickly; runs without are small and numerous. */
    do {
        size_t n;
        rc = mt_device_decode_next(d, b->runs + b->count, lanes, MT_BLOCK_STEP, &n);
        for (const struct mt_access_run *r = b->runs + b->count, *end = r + n; r < end; r++) {
            b->accesses += r->count;
            lanes += r->addresses ? r->count : 0;
        }
        b->count += n;
    } while (rc == 0 && d->tokens.at < d->tokens.end && lanes == b->lanes && b->count < MT_BLOCK_RUNS);
    if (rc != 0) {
        decoders_fail(j, d->why, 0);
    } else if (d->tokens.at == d->tokens.end) {
        b->last = d->accesses == j->head.items && mt_device_decode_done(d);
        if (!b->last)
            decoders_fail(j, "has other accesses than its head says", 0);
    }
    return !j->failed && (b->count || b->last);
}

/* ---- distribution of work; under the lock ---- */

static int decoders_workable(const struct mt_chunk_job *j)
{
    return !j->claimed && !j->over && j->blocks < MT_BLOCKS_AHEAD;
}

static struct mt_run_block *decoders_spare(struct mt_chunk_queue *q)
{
    struct mt_run_block *b = q->spare;
    if (b)
        q->spare = b->next;
    else if ((b = malloc(sizeof *b)))
        b->of = q;
    return b;
}

/* Opens the job or decodes a block of it, without holding the lock. */
static void decoders_step(struct mt_chunk_queue *q, struct mt_chunk_job *j)
{
    struct mt_run_block *b = decoders_spare(q);
    int good = 0, opened = j->opened;
    j->claimed = 1;
    pthread_mutex_unlock(&q->pool->lock);
    if (!b)
        decoders_fail(j, NULL, 0);
    else if (!opened)
        open_job(j);
    if (b && !j->failed)
        good = decoders_decode(j, b);
    pthread_mutex_lock(&q->pool->lock);
    j->claimed = 0;
    j->over |= j->failed || (good && b->last); /* the reader may have dropped the job */
    if (good) {
        b->next = NULL;
        *(j->first ? &j->end->next : &j->first) = b;
        j->end = b;
        j->blocks++;
    } else if (b) {
        b->next = q->spare;
        q->spare = b;
    }
    if (decoders_workable(j))
        mt_pool_wake(q->pool, 1);
}

static int decoders_piece(void *self)
{
    struct mt_chunk_queue *q = self;
    for (size_t i = q->head; i < q->tail; i++) {
        struct mt_chunk_job *j = &q->jobs[i % q->room];
        if (!decoders_workable(j))
            continue;
        decoders_step(q, j);
        return 1;
    }
    return 0;
}

void mt_block_put(struct mt_run_block *b)
{
    if (!b)
        return;
    struct mt_chunk_queue *q = b->of;
    pthread_mutex_lock(&q->pool->lock);
    b->next = q->spare;
    q->spare = b;
    pthread_mutex_unlock(&q->pool->lock);
}

/* ---- queues ---- */

/* Creates a queue for `threads` threads; with one, its only chunk is the head. Returns 0 or -1. */
static int queue_open(struct mt_chunk_queue *q, struct mt_pool *pool, unsigned threads)
{
    /* One chunk per thread: data decoded long before its use would have left the caches. */
    *q = (struct mt_chunk_queue){.pool = pool, .room = threads < 1 ? 1 : threads < MOST ? threads : MOST};
    if (!(q->jobs = calloc(q->room, sizeof *q->jobs)))
        return -1;
    q->work = (struct mt_work){.piece = decoders_piece, .self = q};
    mt_pool_add(pool, &q->work);
    return 0;
}

static void queue_clear(struct mt_chunk_queue *q);

static void queue_close(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    queue_clear(q);
    mt_pool_remove(q->pool, &q->work);
    for (struct mt_run_block *b = q->spare, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    for (size_t i = 0; i < q->room; i++) {
        free(q->jobs[i].stored);
        mt_chunk_payload_free(&q->jobs[i].plain);
        mt_device_decode_free(&q->jobs[i].decoder);
    }
    free(q->jobs);
    memset(q, 0, sizeof *q);
}

/* Returns the next free job, to be filled, or NULL if the queue is full. */
static struct mt_chunk_job *queue_slot(struct mt_chunk_queue *q)
{
    if (q->tail - q->head == q->room)
        return NULL;
    struct mt_chunk_job *j = &q->jobs[q->tail % q->room];
    j->opened = j->failed = j->problem = 0;
    j->bytes = 0;
    return j;
}

/* Adds that job to the queue. */
static void queue_add(struct mt_chunk_queue *q)
{
    struct mt_chunk_job *j = &q->jobs[q->tail % q->room];
    pthread_mutex_lock(&q->pool->lock);
    j->over = j->problem || j->head.type != MT_MTC_DEVICE;
    q->tail++;
    if (!j->over)
        mt_pool_wake(q->pool, 1);
    pthread_mutex_unlock(&q->pool->lock);
}

/* Copies the payload for the job. Returns 0, or -1 without memory. */
static int job_keep(struct mt_chunk_job *j, const unsigned char *stored)
{
    size_t n = j->head.stored_bytes;
    if (n > j->room || !j->stored) {
        free(j->stored);
        j->stored = malloc(n + 1);
        j->room = j->stored ? n : 0;
    }
    if (!j->stored)
        return -1;
    memcpy(j->stored, stored, n);
    return 0;
}

/* Returns the job at the head, or NULL. */
static struct mt_chunk_job *queue_head(const struct mt_chunk_queue *q)
{
    return q->head < q->tail ? &q->jobs[q->head % q->room] : NULL;
}

/* Waits until the head of the first chunk, a device chunk, was checked. Returns 0, or -1 with *err set. */
static int queue_begin(struct mt_chunk_queue *q, struct mt_error *err)
{
    struct mt_chunk_job *j = queue_head(q);
    pthread_mutex_lock(&q->pool->lock);
    while (!j->blocks && !j->over)
        mt_pool_help(q->pool, &q->work);
    int good = j->opened;
    pthread_mutex_unlock(&q->pool->lock);
    if (!good)
        *err = j->error;
    return good ? 0 : -1;
}

/* Returns the next block of that job, or NULL with *err set if it is damaged from here on. Not to be called
 * after its last block. */
static struct mt_run_block *queue_take(struct mt_chunk_queue *q, struct mt_error *err)
{
    struct mt_chunk_job *j = queue_head(q);
    pthread_mutex_lock(&q->pool->lock);
    while (!j->blocks && !j->over)
        mt_pool_help(q->pool, &q->work);
    struct mt_run_block *b = j->first;
    if (b) {
        j->first = b->next;
        j->blocks--;
        if (decoders_workable(j)) /* the job may have been full until now */
            mt_pool_wake(q->pool, 1);
    }
    pthread_mutex_unlock(&q->pool->lock);
    if (!b)
        *err = j->error;
    return b;
}

/* Removes the job at the head. Called under the lock. */
static void decoders_drop(struct mt_chunk_queue *q)
{
    struct mt_chunk_job *j = queue_head(q);
    j->over = 1; /* no thread begins with it any more */
    while (j->claimed)
        pthread_cond_wait(&q->work.done, &q->pool->lock);
    while (j->first) {
        struct mt_run_block *b = j->first;
        j->first = b->next;
        b->next = q->spare;
        q->spare = b;
    }
    j->blocks = 0;
    q->head++;
}

/* Removes the job at the head. Blocks that were taken stay valid. */
static void queue_drop(struct mt_chunk_queue *q)
{
    pthread_mutex_lock(&q->pool->lock);
    decoders_drop(q);
    pthread_mutex_unlock(&q->pool->lock);
}

/* Removes all jobs. Blocks that were taken stay valid. */
static void queue_clear(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    pthread_mutex_lock(&q->pool->lock);
    while (q->head < q->tail)
        decoders_drop(q);
    pthread_mutex_unlock(&q->pool->lock);
}

static int device_reader_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a chunk");
}

void mt_device_free(struct mt_device_state *d)
{
    mt_block_put(d->block);
    if (d->queue)
        queue_close(d->queue);
    free(d->queue);
    if (d->own_pool)
        mt_pool_free(d->pool);
    mt_hash_free(&d->kernels);
    mt_intern_free(&d->unnamed);
    free(d->launches);
    free(d->chunks);
    free(d->events);
}

/* ---- names and lines ---- */

/* Returns the kernel's name; *named: a line has it. NULL: no memory. */
static const char *kernel_name(struct mt_host_reader *r, uint32_t id, int *named)
{
    struct mt_device_state *d = &r->device;
    const struct mt_companion *c = r->meta.companion;
    char text[40];
    for (; d->kernels_taken < c->nkernels; d->kernels_taken++) {
        uint64_t k = c->kernels[d->kernels_taken].id;
        if (k && k <= UINT32_MAX && !mt_hash_find(&d->kernels, k) &&
            mt_hash_put(&d->kernels, k, d->kernels_taken + 1) != 0)
            return NULL;
    }
    uint64_t at = mt_hash_find(&d->kernels, id);
    *named = at != 0;
    if (at)
        return c->kernels[at - 1].name;
    int n = snprintf(text, sizeof text, "kernel-%u-without-name", id);
    return mt_intern_add(&d->unnamed, text, (size_t)n);
}

MT_ORDER_POINTED_1(event_by_seq, struct mt_launch_event, seq)

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
    for (size_t i = r->window.regular ? 0 : c->nlaunches; i-- > 0;)
        if (c->launches[i].seq == seq)
            return &c->launches[i];
    size_t at = MT_FIRST(i, d->nevents, d->events[i]->seq >= seq);
    return at < d->nevents && d->events[at]->seq == seq ? d->events[at] : NULL;
}

/* ---- launches and their chunks ---- */

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
                                           .single = (e->flags & MT_MTC_SINGLE) != 0,
                                           .named = named,
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

/* Discards the current launch and everything decoded ahead. */
static void device_reader_forget(struct mt_device_state *d)
{
    mt_block_put(d->block);
    d->block = NULL;
    if (d->queue)
        queue_clear(d->queue);
    d->open = 0;
}

void mt_device_seek(struct mt_host_reader *r, size_t index)
{
    struct mt_device_state *d = &r->device;
    size_t to = index < d->nlaunches ? d->launches[index].first : d->nchunks;
    d->begun = d->fresh = 0;
    if (to == d->next && !d->open)
        return; /* already there: the chunks decoded ahead are valid */
    device_reader_forget(d);
    d->next = d->fetched = to;
}

/* Returns the launch in the list that begins with device chunk `chunk`, or NULL. */
static const struct mt_device_launch *device_reader_at(const struct mt_device_state *d, size_t chunk)
{
    size_t at = MT_FIRST(i, d->nlaunches, d->launches[i].first >= chunk);
    return at < d->nlaunches && d->launches[at].first == chunk ? &d->launches[at] : NULL;
}

const struct mt_device_launch *mt_device_pass(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    const struct mt_device_launch *l = d->open || d->begun ? NULL : device_reader_at(d, d->next);
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

uint64_t mt_device_peek(const struct mt_host_reader *r)
{
    const struct mt_device_state *d = &r->device;
    if (d->open)
        return d->head.first;
    return d->next < d->nchunks ? r->chunks.entries[d->chunks[d->next]].first : MT_SEQ_NONE;
}

/* ---- chunks ---- */

void mt_host_reader_threads(struct mt_host_reader *r, unsigned threads)
{
    r->device.threads = threads;
}

void mt_host_reader_spaces(struct mt_host_reader *r, int on)
{
    r->device.spaces = on;
    if (r->device.queue)
        __atomic_store_n(&r->device.queue->spaces, on, __ATOMIC_RELAXED);
}

void mt_device_use(struct mt_host_reader *r, struct mt_pool *pool, unsigned threads)
{
    r->device.pool = pool;
    r->device.threads = threads;
}

static int open_queue(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (d->queue)
        return 0;
    if (!d->pool) {
        d->pool = mt_pool_new(d->threads > 1 ? d->threads - 1 : 0);
        d->own_pool = 1;
    }
    d->queue = d->pool ? calloc(1, sizeof *d->queue) : NULL;
    if (d->queue && queue_open(d->queue, d->pool, d->threads) == 0) {
        d->queue->spaces = d->spaces;
        return 0;
    }
    free(d->queue);
    d->queue = NULL;
    return device_reader_memory(r, err);
}

static void put_aside(struct mt_host_reader *r, struct mt_chunk_job *j, const unsigned char *stored)
{
    if (job_keep(j, stored) != 0) {
        device_reader_memory(r, &j->error);
        j->problem = 1;
    }
}

/* Turns the next chunk of a regular file into a job. */
static void fetch_listed(struct mt_host_reader *r, struct mt_chunk_job *j)
{
    struct mt_device_state *d = &r->device;
    const unsigned char *stored;
    const struct mt_mtc_index *e = &r->chunks.entries[d->chunks[d->fetched++]];
    enum mt_chunk_state state = mt_chunk_at(&r->window, e->offset, &j->head, &stored, &j->error);
    j->offset = e->offset;
    j->bytes = state == MT_CHUNK_WHOLE ? sizeof j->head + j->head.stored_bytes : 0;
    if (state == MT_CHUNK_WHOLE && j->head.type == e->type && j->head.key == e->key &&
        j->head.first == e->first && j->head.flags == e->flags) {
        put_aside(r, j, stored);
        return;
    }
    j->problem = 1;
    if (state == MT_CHUNK_WHOLE || state == MT_CHUNK_END)
        mt_error_set(&j->error, MT_E_CORRUPT, 0, e->offset, r->window.name,
                     "here is another chunk than the index says");
}

/* Turns the next chunk of a FIFO into a job. Returns 1, or 0 at the end. */
static int fetch_live(struct mt_host_reader *r, struct mt_chunk_job *j)
{
    const unsigned char *stored;
    int rc = mt_container_next_live(r, &j->offset, &j->head, &stored, &j->error);
    if (rc > 0)
        put_aside(r, j, stored);
    j->problem |= rc < 0;
    return rc != 0;
}

/* Fills the queue; from a FIFO with chunks that have arrived, waiting for at most one. */
static void device_reader_fetch(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    struct mt_chunk_job *j;
    while ((j = queue_slot(d->queue))) {
        j->name = r->window.name;
        j->features = r->head.features;
        if (r->window.regular) {
            if (d->fetched == d->nchunks)
                break;
            fetch_listed(r, j);
        } else if ((queue_head(d->queue) && !mt_window_has_chunk(&r->window, r->next)) || !fetch_live(r, j)) {
            break;
        }
        queue_add(d->queue);
    }
}

/* Handles a first job without runs. Returns 1 for a chunk of a FIFO that was processed, or -1 with *err
 * set. */
static int take_other(struct mt_host_reader *r, const struct mt_chunk_job *j, struct mt_error *err)
{
    if (j->problem)
        *err = j->error;
    r->chunks.indexed |= !j->problem && j->head.type == MT_MTC_INDEX;
    if (!j->problem && j->head.type == MT_MTC_META)
        return mt_container_take_meta(r, j->offset, &j->head, j->stored, err) == 0 ? 1 : -1;
    return j->problem ? -1 : 1;
}

/* Opens the next chunk. Returns 1, 0 at the end, or -1 with *err set. */
static int next_chunk(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    const struct mt_chunk_job *j;
    if (open_queue(r, err) != 0)
        return -1;
    for (;;) {
        device_reader_fetch(r);
        if (!(j = queue_head(d->queue))) {
            if (!r->window.regular)
                mt_meta_sort(&r->meta);
            return 0;
        }
        d->next += r->window.regular != 0;
        r->done = r->window.regular ? r->done + j->bytes
                  : j->problem      ? r->done
                                    : mt_chunk_end(j->offset, &j->head);
        int other = j->problem || j->head.type != MT_MTC_DEVICE;
        int rc = other ? take_other(r, j, err) : queue_begin(d->queue, err) == 0 ? 1 : -1;
        if (rc > 0 && !other) {
            d->head = j->head;
            d->offset = j->offset;
            d->open = 1;
            return 1;
        }
        queue_drop(d->queue);
        if (rc < 0)
            return -1;
    }
}

/* Reports interleaved launches of several streams in an input that is read in file order. */
static int device_reader_mixed(struct mt_host_reader *r, struct mt_error *err)
{
    r->next = MT_NOTHING_LEFT;
    device_reader_forget(&r->device);
    r->device.begun = 0;
    return mt_error_set(
        err, MT_E_INPUT, 0, 0, r->window.name,
        "launches of several streams take turns: this needs a regular file, not a FIFO or pipe");
}

/* Returns -1 with *err set if the current launch has no end. */
static int without_end(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (!d->begun)
        return 0;
    d->begun = 0;
    return mt_error_set(err, MT_E_TRUNCATED, 0, d->end, r->window.name,
                        "the trace ends inside kernel '%.100s' (launch with number %llu)", d->kernel,
                        (unsigned long long)d->seq);
}

/* Begins a launch with its first batch. Returns 0, or -1 with *err set. */
static int device_reader_begin(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    int named;
    d->kernel = kernel_name(r, MT_MTC_KEY_KERNEL(d->head.key), &named);
    if (!d->kernel)
        return device_reader_memory(r, err);
    d->seq = d->head.first;
    d->stream = MT_MTC_KEY_STREAM(d->head.key);
    d->begun = d->fresh = 1;
    if (named)
        return 0;
    return mt_error_set(err, MT_E_CORRUPT, 0, d->offset, r->window.name,
                        "the name of this chunk's kernel is missing");
}

static uint64_t device_reader_sum(const struct mt_access_run *runs, size_t count)
{
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += runs[i].count;
    return n;
}

/* Makes sure that the current block has runs left. Returns 0, or -1 with *err set if the chunk is damaged;
 * the chunk then ends. */
static int next_block(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (d->block && (d->at < d->block->count))
        return 0;
    mt_block_put(d->block);
    d->at = 0;
    if ((d->block = queue_take(d->queue, err)))
        return 0;
    queue_drop(d->queue);
    d->open = 0;
    if (d->head.flags & MT_MTC_END) /* the launch has an end, and the damage is reported here */
        d->begun = 0;
    return -1;
}

/* Returns 1 with at most `most` runs of the open chunk, 0 at its end, or -1 with *err set. */
static int device_reader_take(struct mt_host_reader *r, size_t most, struct mt_run_batch *b,
                              struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (!d->begun && device_reader_begin(r, err) != 0)
        return -1; /* if only the name is missing, the runs come with the next call */
    d->end = d->offset + sizeof d->head + d->head.stored_bytes;
    if (next_block(r, err) != 0)
        return -1;
    size_t left = d->block->count - d->at;
    b->runs = d->block->runs + d->at;
    b->count = left < most ? left : most;
    b->accesses = b->count == d->block->count ? d->block->accesses : device_reader_sum(b->runs, b->count);
    d->at += b->count;
    int through = d->block->last && d->at == d->block->count;
    if (through)
        queue_drop(d->queue);
    d->open = !through;
    b->flags = (d->fresh ? MT_BATCH_BEGIN : 0) | (through && d->head.flags & MT_MTC_END ? MT_BATCH_END : 0) |
               (d->head.flags & MT_MTC_SINGLE ? MT_BATCH_SINGLE : 0);
    d->begun = !(b->flags & MT_BATCH_END);
    d->fresh = 0;
    b->kernel = d->kernel;
    b->seq = d->seq;
    b->stream = MT_MTC_KEY_STREAM(d->head.key);
    b->offset = d->offset;
    return b->count || b->flags & (MT_BATCH_BEGIN | MT_BATCH_END);
}

static int device_reader_next(struct mt_host_reader *r, size_t most, struct mt_run_batch *b,
                              struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    memset(b, 0, sizeof *b);
    for (;;) {
        int rc = mt_container_stopped(r, err) ? -1 : 1;
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
            return r->window.regular || d->stream == MT_MTC_KEY_STREAM(d->head.key)
                       ? without_end(r, err)
                       : device_reader_mixed(r, err);
        if ((rc = device_reader_take(r, most, b, err)) != 0)
            return rc;
    }
}

int mt_device_next(struct mt_host_reader *r, struct mt_run_batch *batch, struct mt_error *err)
{
    return device_reader_next(r, MT_BLOCK_RUNS, batch, err);
}

int mt_device_fill(struct mt_host_reader *r, struct mt_access_run *runs, uint64_t *lanes, size_t capacity,
                   struct mt_run_batch *b, struct mt_error *err)
{
    int rc = device_reader_next(r, capacity, b, err);
    for (size_t i = 0; rc > 0 && i < b->count; i++) {
        runs[i] = b->runs[i];
        if (!runs[i].addresses)
            continue;
        memcpy(lanes, runs[i].addresses, runs[i].count * sizeof *lanes);
        runs[i].addresses = lanes;
        lanes += runs[i].count;
    }
    b->runs = runs;
    return rc;
}

struct mt_run_block *mt_device_keep(struct mt_host_reader *r)
{
    struct mt_run_block *b = r->device.block;
    if (b && r->device.at < b->count)
        return NULL;
    r->device.block = NULL;
    return b;
}
