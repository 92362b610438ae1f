/* Queue of full buffers for the compact trace. */
#include "queue.h"
#include <errno.h>
#include <string.h>
#include "state.h"

#define JOBS 16u    /* buffers in work, or done and waiting for an older one */
#define HURRY 1024u /* number of buffers not compressed after a thread had to help … */
#define DENSE(items) ((items) + (items) / 2) /* … as long as the file has no more bytes than this */
#define PATIENCE_NS 1000000000u

enum state { BUSY, DONE, TAKEN };

/* A buffer and the memory to work on it. */
struct job {
    struct job *next; /* next idle job */
    struct mt_mtc_encoder *encoder;
    struct mt_packer *packer;
    struct mt_buffer *buffer;
    uint64_t lost; /* items missing from the file if it fails */
    int hurry, error;
    enum state state; /* under q.lock */
};

static struct {
    struct mt_mtc_writer *writer;
    int level;

    struct mt_spin lock;
    struct mt_buffer *head, *tail;
    uint32_t waiting;
    struct job *idle;
    uint32_t hurry;            /* number of buffers still to hurry */
    struct job *ring[JOBS];    /* jobs by buffer number */
    uint64_t popped, appended; /* numbers of buffers; those between are in the ring */

    struct mt_spin append_lock; /* file */
    uint64_t written, dropped;  /* items */
    uint32_t writing;
} q;

/* Prepares a job. Returns 0 or ENOMEM. */
static int queue_equip(struct job *job)
{
    if (!job->encoder)
        job->encoder = mt_mtc_encoder_new();
    if (!job->packer)
        job->packer = mt_packer_new();
    return job->encoder && job->packer ? 0 : ENOMEM;
}

void mt_core_queue_open(struct mt_mtc_writer *writer, int level)
{
    memset(&q, 0, sizeof q);
    q.writer = writer;
    q.level = level;
    /* The first job, with room for the last lines, exists before the program can have used up its memory. */
    struct job *job = mt_plat_map(sizeof *job);
    if (job && !queue_equip(job))
        mt_packer_reserve(job->packer, MT_BUFFER_ROOM);
    q.idle = job;
}

void mt_core_queue_push(struct mt_buffer *b)
{
    b->next = NULL;
    mt_spin_lock(&q.lock);
    if (q.tail)
        q.tail->next = b;
    else
        q.head = b;
    q.tail = b;
    __atomic_store_n(&q.waiting, q.waiting + 1, __ATOMIC_RELAXED);
    mt_spin_unlock(&q.lock);
}

uint32_t mt_core_queue_waiting(void)
{
    return __atomic_load_n(&q.waiting, __ATOMIC_RELAXED);
}

/* Takes the oldest buffer with a job for it, under the lock. */
static struct job *queue_pop(int help)
{
    if (!q.head || q.popped - q.appended >= JOBS)
        return NULL;
    struct job *job = q.idle;
    if (job)
        q.idle = job->next;
    else if (!(job = mt_plat_map(sizeof *job)))
        return NULL;
    job->buffer = q.head;
    job->state = BUSY;
    q.head = q.head->next;
    if (!q.head)
        q.tail = NULL;
    __atomic_store_n(&q.waiting, q.waiting - 1, __ATOMIC_RELAXED);
    q.hurry = help ? HURRY : q.hurry ? q.hurry - 1 : 0;
    job->hurry = q.hurry != 0;
    q.ring[q.popped++ % JOBS] = job;
    return job;
}

/* Returns the compression level: level 1 is dropped if threads would have to wait for it; higher ones were
 * requested by the user. */
static int level_for(const struct job *job, size_t bytes, uint64_t items)
{
    return q.level == 1 && job->hurry &&
                   mt_mtc_writer_bytes(q.writer) + bytes <= DENSE(mt_core_queue_written() + items)
               ? 0
               : q.level;
}

/* Makes the chunk of a job. */
static int queue_make(struct job *job)
{
    const struct mt_buffer *b = job->buffer;
    const void *payload = b->text;
    uint64_t items = 0, seq = b->seq, first = b->seq;
    size_t bytes = b->count;
    enum mt_mtc_chunk_type type = MT_MTC_HOST;
    job->lost = b->kind == MT_BUFFER_META ? 0 : b->count + b->left_out;
    if (queue_equip(job))
        return ENOMEM;
    if (b->kind == MT_BUFFER_META) {
        type = MT_MTC_META;
        items = b->seq;
        first = seq = 0;
    } else if (b->kind == MT_BUFFER_ENTRIES) {
        bytes = mt_mtc_encode(job->encoder, b->entry, b->count, &items, &seq, &payload);
    } else if (b->kind == MT_BUFFER_COUNTED) {
        bytes = mt_mtc_encode_counted(job->encoder, b->entry, b->count, &items, &seq, &payload);
    } else {
        bytes = mt_mtc_encode_timed(job->encoder, b->timed, b->count, &items, &seq, &payload);
    }
    if (!bytes)
        return ENOMEM;
    if (type == MT_MTC_HOST)
        job->lost = items;
    int level = type == MT_MTC_HOST ? level_for(job, bytes, items) : q.level;
    return mt_mtc_pack(job->packer, level, type, 0, b->thread, first, seq, items, payload, bytes);
}

static void queue_append(struct job *job)
{
    int host = job->buffer->kind != MT_BUFFER_META;
    int error = job->error ? job->error : mt_mtc_append(q.writer, job->packer);
    if (error) {
        mt_core_fail("%s: %s", mt_g.o->output,
                     error == EPIPE ? "its reader closed the FIFO" : strerror(error));
        __atomic_store_n(&q.dropped, q.dropped + job->lost, __ATOMIC_RELAXED);
    } else if (host) {
        __atomic_store_n(&q.written, q.written + job->lost, __ATOMIC_RELAXED);
    }
}

/* Returns the oldest job if it is done; NULL: not yet, and its maker will come here. */
static struct job *queue_oldest(void)
{
    mt_spin_lock(&q.lock);
    struct job *job = q.popped != q.appended ? q.ring[q.appended % JOBS] : NULL;
    if (job && job->state != DONE)
        job = NULL;
    mt_spin_unlock(&q.lock);
    return job;
}

static void queue_retire(struct job *job)
{
    struct mt_buffer *b = job->buffer;
    mt_spin_lock(&q.lock);
    __atomic_store_n(&q.appended, q.appended + 1, __ATOMIC_RELEASE);
    job->next = q.idle;
    q.idle = job;
    mt_spin_unlock(&q.lock);
    mt_core_sink_return(b);
}

/* Appends all finished jobs that are next in order. If another thread is already appending, it sees ours:
 * after leaving the file it checks again under the lock under which ours became done. */
static void queue_flush(void)
{
    while (queue_oldest() && mt_spin_try(&q.append_lock)) {
        __atomic_store_n(&q.writing, 1, __ATOMIC_RELAXED);
        for (struct job *job; (job = queue_oldest());) {
            queue_append(job);
            queue_retire(job);
        }
        __atomic_store_n(&q.writing, 0, __ATOMIC_RELAXED);
        mt_spin_unlock(&q.append_lock);
    }
}

static void queue_run(struct job *job)
{
    int error = queue_make(job);
    mt_spin_lock(&q.lock);
    int mine = job->state == BUSY;
    if (mine) {
        job->error = error;
        job->state = DONE;
    }
    mt_spin_unlock(&q.lock);
    if (mine)
        queue_flush(); /* otherwise another thread has made the chunk: job and buffer are free */
}

int mt_core_queue_step(int help)
{
    if (!mt_core_queue_waiting() || mt_g.forked)
        return 0;
    /* Below a handler that ends the program this would never end. */
    uint64_t mask = mt_plat_signals_off();
    mt_spin_lock(&q.lock);
    struct job *job = queue_pop(help);
    mt_spin_unlock(&q.lock);
    if (job)
        queue_run(job);
    mt_plat_signals_back(mask);
    return job != NULL;
}

/* Redoes the oldest buffer with a job of our own. Its owner may still read it, which is harmless. Returns
 * 0 or ENOMEM. */
static int take_oldest(void)
{
    struct job *own = mt_plat_map(sizeof *own);
    if (!own)
        return ENOMEM;
    mt_spin_lock(&q.lock);
    struct job *job = q.popped != q.appended ? q.ring[q.appended % JOBS] : NULL;
    int ours = job && job->state == BUSY;
    if (ours) {
        own->buffer = job->buffer;
        job->state = TAKEN;
        q.ring[q.appended % JOBS] = own;
    }
    mt_spin_unlock(&q.lock);
    if (ours)
        queue_run(own);
    else
        mt_plat_unmap(own, sizeof *own);
    return 0;
}

/* Drops all that waits: there is neither a job nor memory for one. */
static void queue_abandon(void)
{
    uint64_t dropped = 0;
    mt_core_fail("%s: %s", mt_g.o->output, strerror(ENOMEM));
    mt_spin_lock(&q.lock);
    for (; q.appended != q.popped; q.appended++)
        q.ring[q.appended % JOBS]->state = TAKEN;
    for (; q.head; q.head = q.head->next)
        dropped += q.head->kind == MT_BUFFER_META ? 0 : q.head->count + q.head->left_out;
    q.tail = NULL;
    q.waiting = 0;
    mt_spin_unlock(&q.lock);
    __atomic_store_n(&q.dropped, q.dropped + dropped, __ATOMIC_RELAXED);
}

void mt_core_queue_finish(void)
{
    uint64_t seen = UINT64_MAX, since = 0;
    for (unsigned step = 0;; step++) {
        if (mt_core_queue_step(0))
            continue;
        queue_flush();
        mt_spin_lock(&q.lock);
        uint64_t appended = q.appended;
        int all = appended == q.popped && !q.head;
        mt_spin_unlock(&q.lock);
        uint64_t now = mt_plat_now_ns();
        if (all)
            return;
        if (appended != seen || mt_core_queue_writing()) {
            seen = appended;
            since = now;
        } else if (now - since > PATIENCE_NS) {
            if (take_oldest()) {
                queue_abandon();
                return;
            }
            since = now;
        }
        mt_plat_pause(step);
    }
}

void mt_core_queue_close(void)
{
    while (q.idle) {
        struct job *job = q.idle;
        q.idle = job->next;
        mt_mtc_encoder_free(job->encoder);
        mt_packer_free(job->packer);
        mt_plat_unmap(job, sizeof *job);
    }
}

uint64_t mt_core_queue_written(void)
{
    return __atomic_load_n(&q.written, __ATOMIC_RELAXED);
}

uint64_t mt_core_queue_dropped(void)
{
    return __atomic_load_n(&q.dropped, __ATOMIC_RELAXED);
}

int mt_core_queue_writing(void)
{
    return (int)__atomic_load_n(&q.writing, __ATOMIC_RELAXED);
}

int mt_core_queue_stuck(uint64_t ns, int (*busy)(void))
{
    struct mt_spin *const locks[] = {&q.append_lock, &q.lock};
    for (unsigned i = 0; i < 2; i++) {
        if (mt_spin_lock_for(locks[i], ns, busy))
            return 1;
        mt_spin_unlock(locks[i]);
    }
    return 0;
}
