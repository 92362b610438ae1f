/* Threads that decode device chunks, and the queues that they serve. One lock for all: it is taken once for a
 * block of runs, which takes 30 to 100 microseconds to decode. */
#define _GNU_SOURCE
#include "decoders.h"
#include "base/thread.h"

enum { MOST = 16 }; /* threads: no analysis takes what more would give */

static unsigned at_most(unsigned threads)
{
    return threads < MOST ? threads : MOST;
}

struct mt_decoders {
    pthread_mutex_t lock;
    pthread_cond_t work; /* there is something to decode, or to quit for */
    pthread_cond_t done; /* a thread has done its part of a job */
    unsigned wanted, started;
    pthread_t *threads;
    int quit, spaces;
    struct mt_chunk_queue *queues;
    struct mt_run_block *spare;
};

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

static struct mt_chunk_job *decoders_find(struct mt_chunk_queue *q)
{
    for (size_t i = q->head; i < q->tail; i++) {
        struct mt_chunk_job *j = &q->jobs[i % q->room];
        if (decoders_workable(j))
            return j;
    }
    return NULL;
}

static struct mt_run_block *decoders_spare(struct mt_decoders *d)
{
    struct mt_run_block *b = d->spare;
    if (b)
        d->spare = b->next;
    else if ((b = malloc(sizeof *b)))
        b->of = d;
    return b;
}

/* Opens the job or decodes a block of it; without the lock meanwhile. */
static void decoders_step(struct mt_decoders *d, struct mt_chunk_job *j)
{
    struct mt_run_block *b = decoders_spare(d);
    int good = 0, opened = j->opened;
    j->claimed = 1;
    pthread_mutex_unlock(&d->lock);
    if (!b)
        decoders_fail(j, NULL, 0);
    else if (!opened)
        open_job(j);
    if (b && !j->failed)
        good = decoders_decode(j, b);
    pthread_mutex_lock(&d->lock);
    j->claimed = 0;
    j->over |= j->failed || (good && b->last); /* the reader may have dropped it */
    if (good) {
        b->next = NULL;
        *(j->first ? &j->end->next : &j->first) = b;
        j->end = b;
        j->blocks++;
    } else if (b) {
        b->next = d->spare;
        d->spare = b;
    }
    pthread_cond_broadcast(&d->done);
    if (decoders_workable(j))
        pthread_cond_signal(&d->work);
}

static void *decoders_work(void *arg)
{
    struct mt_decoders *d = arg;
    pthread_mutex_lock(&d->lock);
    while (!d->quit) {
        struct mt_chunk_job *j = NULL;
        for (struct mt_chunk_queue *q = d->queues; q && !j; q = q->next)
            j = decoders_find(q);
        if (j)
            decoders_step(d, j);
        else
            pthread_cond_wait(&d->work, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* The reader does what there is to do of its own queue, or waits for those who do it. */
static void decoders_help(struct mt_chunk_queue *q)
{
    struct mt_chunk_job *j = decoders_find(q);
    if (j)
        decoders_step(q->decoders, j);
    else
        pthread_cond_wait(&q->decoders->done, &q->decoders->lock);
}

/* ---- threads ---- */

void mt_decoders_spaces(struct mt_decoders *d, int on)
{
    __atomic_store_n(&d->spaces, on, __ATOMIC_RELAXED);
}

struct mt_decoders *mt_decoders_new(unsigned threads)
{
    struct mt_decoders *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->wanted = threads > 1 ? at_most(threads) - 1 : 0;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    pthread_cond_init(&d->done, NULL);
    return d;
}

/* As many as can be had; none is fine. */
static void start_threads(struct mt_decoders *d)
{
    if (!d->wanted || !(d->threads = calloc(d->wanted, sizeof *d->threads)))
        return;
    while (d->started < d->wanted && mt_base_thread_start(&d->threads[d->started], 0, decoders_work, d) == 0)
        d->started++;
    d->wanted = 0;
}

void mt_decoders_free(struct mt_decoders *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->quit = 1;
    pthread_cond_broadcast(&d->work);
    pthread_mutex_unlock(&d->lock);
    for (unsigned i = 0; i < d->started; i++)
        pthread_join(d->threads[i], NULL);
    for (struct mt_run_block *b = d->spare, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->work);
    pthread_cond_destroy(&d->done);
    free(d->threads);
    free(d);
}

void mt_block_put(struct mt_run_block *b)
{
    if (!b)
        return;
    struct mt_decoders *d = b->of;
    pthread_mutex_lock(&d->lock);
    b->next = d->spare;
    d->spare = b;
    pthread_mutex_unlock(&d->lock);
}

/* ---- queues ---- */

int mt_queue_open(struct mt_chunk_queue *q, struct mt_decoders *d, unsigned threads)
{
    /* One for each thread: what is decoded long before it is looked at has left the caches. */
    *q = (struct mt_chunk_queue){.decoders = d, .room = threads > 1 ? at_most(threads) : 1};
    if (!(q->jobs = calloc(q->room, sizeof *q->jobs)))
        return -1;
    pthread_mutex_lock(&d->lock);
    q->next = d->queues;
    d->queues = q;
    pthread_mutex_unlock(&d->lock);
    return 0;
}

void mt_queue_close(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    mt_queue_clear(q);
    pthread_mutex_lock(&q->decoders->lock);
    struct mt_chunk_queue **at = &q->decoders->queues;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    pthread_mutex_unlock(&q->decoders->lock);
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
    struct mt_decoders *d = q->decoders;
    struct mt_chunk_job *j = &q->jobs[q->tail % q->room];
    pthread_mutex_lock(&d->lock);
    j->over = j->problem || j->head.type != MT_MTC_DEVICE;
    q->tail++;
    if (!j->over) {
        start_threads(d);
        pthread_cond_signal(&d->work);
    }
    pthread_mutex_unlock(&d->lock);
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
    pthread_mutex_lock(&q->decoders->lock);
    while (!j->blocks && !j->over)
        decoders_help(q);
    int good = j->opened;
    pthread_mutex_unlock(&q->decoders->lock);
    if (!good)
        *err = j->error;
    return good ? 0 : -1;
}

struct mt_run_block *mt_queue_take(struct mt_chunk_queue *q, struct mt_error *err)
{
    struct mt_chunk_job *j = mt_queue_head(q);
    pthread_mutex_lock(&q->decoders->lock);
    while (!j->blocks && !j->over)
        decoders_help(q);
    struct mt_run_block *b = j->first;
    if (b) {
        j->first = b->next;
        j->blocks--;
        if (decoders_workable(j)) /* it may have been full */
            pthread_cond_signal(&q->decoders->work);
    }
    pthread_mutex_unlock(&q->decoders->lock);
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
        pthread_cond_wait(&q->decoders->done, &q->decoders->lock);
    while (j->first) {
        struct mt_run_block *b = j->first;
        j->first = b->next;
        b->next = q->decoders->spare;
        q->decoders->spare = b;
    }
    j->blocks = 0;
    q->head++;
}

void mt_queue_drop(struct mt_chunk_queue *q)
{
    pthread_mutex_lock(&q->decoders->lock);
    decoders_drop(q);
    pthread_mutex_unlock(&q->decoders->lock);
}

void mt_queue_clear(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    pthread_mutex_lock(&q->decoders->lock);
    while (q->head < q->tail)
        decoders_drop(q);
    pthread_mutex_unlock(&q->decoders->lock);
}
