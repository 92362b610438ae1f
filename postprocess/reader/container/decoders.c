/* See decoders.h. The pool's lock is taken once for a block of runs, which takes 30 to 100 microseconds to
 * decode. */
#define _GNU_SOURCE
#include "decoders.h"

enum { MOST = 16 }; /* chunks: no analysis takes what more threads would give */

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

/* Fills the block from the job. 1: it is to be handed out; what is next to damage is not. */
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
    /* Lists of addresses fill the block by themselves; runs without are small and come in great numbers. */
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

/* ---- who does what; under the lock ---- */

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

/* Opens the job or decodes a block of it; without the lock meanwhile. */
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
    j->over |= j->failed || (good && b->last); /* the reader may have dropped it */
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

int mt_queue_open(struct mt_chunk_queue *q, struct mt_pool *pool, unsigned threads)
{
    /* One for each thread: what is decoded long before it is looked at has left the caches. */
    *q = (struct mt_chunk_queue){.pool = pool, .room = threads < 1 ? 1 : threads < MOST ? threads : MOST};
    if (!(q->jobs = calloc(q->room, sizeof *q->jobs)))
        return -1;
    q->work = (struct mt_work){.piece = decoders_piece, .self = q};
    mt_pool_add(pool, &q->work);
    return 0;
}

void mt_queue_close(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    mt_queue_clear(q);
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

struct mt_chunk_job *mt_queue_slot(struct mt_chunk_queue *q)
{
    if (q->tail - q->head == q->room)
        return NULL;
    struct mt_chunk_job *j = &q->jobs[q->tail % q->room];
    j->opened = j->failed = j->problem = 0;
    j->bytes = 0;
    return j;
}

void mt_queue_add(struct mt_chunk_queue *q)
{
    struct mt_chunk_job *j = &q->jobs[q->tail % q->room];
    pthread_mutex_lock(&q->pool->lock);
    j->over = j->problem || j->head.type != MT_MTC_DEVICE;
    q->tail++;
    if (!j->over)
        mt_pool_wake(q->pool, 1);
    pthread_mutex_unlock(&q->pool->lock);
}

int mt_job_keep(struct mt_chunk_job *j, const unsigned char *stored)
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

struct mt_chunk_job *mt_queue_head(const struct mt_chunk_queue *q)
{
    return q->head < q->tail ? &q->jobs[q->head % q->room] : NULL;
}

int mt_queue_begin(struct mt_chunk_queue *q, struct mt_error *err)
{
    struct mt_chunk_job *j = mt_queue_head(q);
    pthread_mutex_lock(&q->pool->lock);
    while (!j->blocks && !j->over)
        mt_pool_help(q->pool, &q->work);
    int good = j->opened;
    pthread_mutex_unlock(&q->pool->lock);
    if (!good)
        *err = j->error;
    return good ? 0 : -1;
}

struct mt_run_block *mt_queue_take(struct mt_chunk_queue *q, struct mt_error *err)
{
    struct mt_chunk_job *j = mt_queue_head(q);
    pthread_mutex_lock(&q->pool->lock);
    while (!j->blocks && !j->over)
        mt_pool_help(q->pool, &q->work);
    struct mt_run_block *b = j->first;
    if (b) {
        j->first = b->next;
        j->blocks--;
        if (decoders_workable(j)) /* it may have been full */
            mt_pool_wake(q->pool, 1);
    }
    pthread_mutex_unlock(&q->pool->lock);
    if (!b)
        *err = j->error;
    return b;
}

/* Under the lock. */
static void decoders_drop(struct mt_chunk_queue *q)
{
    struct mt_chunk_job *j = mt_queue_head(q);
    j->over = 1; /* nobody begins with it any more */
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

void mt_queue_drop(struct mt_chunk_queue *q)
{
    pthread_mutex_lock(&q->pool->lock);
    decoders_drop(q);
    pthread_mutex_unlock(&q->pool->lock);
}

void mt_queue_clear(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    pthread_mutex_lock(&q->pool->lock);
    while (q->head < q->tail)
        decoders_drop(q);
    pthread_mutex_unlock(&q->pool->lock);
}
