/* Rings read by several threads. */
#include "readers.h"
#include "base/options.h"
#include "base/thread.h"
#include "trace/last.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READERS_MAX 8u
#define BINS 64u /* launches of which one thread may have packets in one turn */
#define PUBLISH 64u
#define SPARE 16u
#define SEEN 256u /* sites whose numbers a thread keeps for a turn: looking them up may need a lock */

/* What a thread has of one context's launch, or of a context without one. */
struct bin {
    void *owner;
    uint32_t context;
    struct mt_flight *flight;
    struct mt_flight_part part;
    int open; /* what comes is handed on at once */
};

struct seen {
    unsigned turn, bin; /* of that turn */
    uint32_t packets, process;
};

struct reader {
    struct bin bin[BINS];
    unsigned bins, last, packets, turn;
    struct seen seen[SEEN];
    struct mt_gather *spare; /* blocks for the next turns, not more than SPARE */
    unsigned spares, late;   /* bins of launches that opened in this turn */
    pthread_cond_t begin;
    int busy; /* under the job's lock */
};

enum phase { TAKE, HAND_ON };
static struct reader *readers[READERS_MAX];
static unsigned threads; /* 0: not looked at */

/* What the threads are at. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t done;
    unsigned busy;
    enum phase phase;
    const struct mt_readers_ring *rings;
    unsigned n, batch;
} job = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, TAKE, NULL, 0, 0};

/* ---- taking -------------------------------------------------------------------------------------- */

static struct mt_gather *reader_block(struct reader *r)
{
    struct mt_gather *g = r->spare;
    if (g) {
        r->spare = g->next;
        r->spares--;
    } else
        g = malloc(sizeof *g);
    if (g)
        mt_gather_clear(g);
    return g;
}

static void reader_give_block(struct reader *r, struct mt_gather *g)
{
    if (r->spares == SPARE) {
        free(g);
        return;
    }
    g->next = r->spare;
    r->spare = g;
    r->spares++;
}

static int bin_add_block(struct reader *r, struct mt_flight_part *p)
{
    struct mt_gather *g = reader_block(r);
    if (!g)
        return 0;
    if (p->last)
        p->last->next = g;
    else
        p->first = g;
    p->last = g;
    p->blocks++;
    return 1;
}

/* Of an open launch. */
static void bin_hand_on(struct reader *r, struct bin *b)
{
    for (struct mt_gather *g = b->part.first, *next; g; g = next) {
        next = g->next;
        mt_flight_hand_on(b->flight, g);
        reader_give_block(r, g);
    }
    b->part.first = b->part.last = NULL;
    b->part.blocks = 0;
}

/* There is room for one more. */
static struct bin *reader_bin(struct reader *r, const struct mt_readers_ring *ring, uint32_t context)
{
    struct mt_flight *f = atomic_load(&ring->flights[context]);
    for (unsigned k = 0; k < r->bins; k++) {
        unsigned i = (r->last + k) % r->bins;
        struct bin *b = &r->bin[i];
        if (b->context == context && b->flight == f && b->owner == ring->owner) {
            r->last = i;
            return b;
        }
    }
    r->last = r->bins;
    r->bin[r->bins] = (struct bin){
        .owner = ring->owner, .context = context, .flight = f, .open = f && mt_flight_is_open(f)};
    return &r->bin[r->bins++];
}

static uint32_t reader_site(struct reader *r, const struct bin *b, const struct mt_packet *p)
{
    struct seen *s = &r->seen[(p->site ^ p->site >> 8) % SEEN];
    unsigned bin = (unsigned)(b - r->bin);
    if (s->turn != r->turn || s->bin != bin || s->packets != p->site)
        *s = (struct seen){r->turn, bin, p->site, mt_flight_site(b->flight, p)};
    return s->process;
}

static void bin_put(struct reader *r, struct bin *b, const struct mt_packet *p)
{
    uint64_t total = mt_packet_count(p), from = 0;
    struct mt_flight_part *part = &b->part;
    if (p->kind == MT_PACKET_NOTE)
        part->notes += p->words[0];
    if (p->kind == MT_PACKET_EXIT)
        part->exited += mt_ring_lanes(p->mask);
    part->taken += total;
    if (!b->flight || !total)
        return;
    uint32_t site = reader_site(r, b, p);
    while (from < total) {
        uint64_t n = part->last ? mt_gather_put(part->last, p, from, site) : 0;
        from += n;
        if (!n && b->open)
            bin_hand_on(r, b);
        if (!n && !bin_add_block(r, part))
            break;
    }
    part->dropped += total - from;
}

static void reader_take_ring(struct reader *r, const struct mt_readers_ring *ring)
{
    struct mt_packet p;
    unsigned n = 0;
    while (n < job.batch && r->bins < BINS && mt_ring_take(ring->ring, &p) > 0) {
        if (p.context < ring->contexts)
            bin_put(r, reader_bin(r, ring, p.context), &p);
        if (++n % PUBLISH == 0)
            mt_ring_publish(ring->ring);
    }
    if (n % PUBLISH || ring->ring->damaged)
        mt_ring_publish(ring->ring);
    r->packets += n;
}

/* The first ring of a thread, which has all before the next one's: neighbours share cache lines. */
static unsigned reader_first(unsigned number)
{
    return job.n * number / threads;
}

static void reader_take(struct reader *r, unsigned number)
{
    r->turn++;
    for (unsigned i = reader_first(number); i < reader_first(number + 1); i++)
        reader_take_ring(r, &job.rings[i]);
    for (unsigned i = 0; i < r->bins; i++)
        if (r->bin[i].open)
            bin_hand_on(r, &r->bin[i]);
}

/* What came for launches that were not open then. */
static void reader_hand_on(struct reader *r)
{
    for (unsigned i = 0; i < r->bins; i++)
        if (r->bin[i].open)
            bin_hand_on(r, &r->bin[i]);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void reader_run(unsigned number, enum phase phase)
{
    if (phase == TAKE)
        reader_take(readers[number], number);
    else
        reader_hand_on(readers[number]);
}

static void *reader_main(void *number)
{
    unsigned me = (unsigned)(size_t)number;
    struct reader *r = readers[me];
    mt_last_ours();
    pthread_mutex_lock(&job.lock);
    for (;;) {
        while (!r->busy)
            pthread_cond_wait(&r->begin, &job.lock);
        enum phase phase = job.phase;
        pthread_mutex_unlock(&job.lock);
        reader_run(me, phase);
        pthread_mutex_lock(&job.lock);
        r->busy = 0;
        if (--job.busy == 0)
            pthread_cond_signal(&job.done);
    }
    return number;
}

/* Is there something for this thread? Always the same thread reads a ring. */
static int reader_has_work(unsigned number, enum phase phase)
{
    int work = phase == HAND_ON && readers[number]->late;
    for (unsigned i = reader_first(number); phase == TAKE && i < reader_first(number + 1) && !work; i++)
        work = mt_ring_waits(job.rings[i].ring);
    return work;
}

/* All threads, the caller for the first, do what they have of this; returns when all have. */
static void readers_do(enum phase phase)
{
    pthread_mutex_lock(&job.lock);
    job.phase = phase;
    for (unsigned i = 1; i < threads; i++)
        if ((readers[i]->busy = reader_has_work(i, phase))) {
            job.busy++;
            pthread_cond_signal(&readers[i]->begin);
        }
    pthread_mutex_unlock(&job.lock);
    reader_run(0, phase);
    pthread_mutex_lock(&job.lock);
    while (job.busy)
        pthread_cond_wait(&job.done, &job.lock);
    pthread_mutex_unlock(&job.lock);
}

static unsigned readers_wanted(void)
{
    uint64_t wish = mt_options()->gpu_readers;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!mt_trace_compact())
        return 1;
    if (!wish)
        wish = processors > 2 ? (uint64_t)processors / 2 : 1;
    return wish < READERS_MAX ? (unsigned)wish : READERS_MAX;
}

static struct reader *reader_new(void)
{
    struct reader *r = calloc(1, sizeof *r);
    if (r)
        pthread_cond_init(&r->begin, NULL);
    return r;
}

/* As many as there can be. */
static unsigned readers_start(void)
{
    unsigned wanted = threads ? 0 : readers_wanted();
    for (unsigned i = 0; i < wanted; i++) {
        if (!(readers[i] = reader_new()) ||
            (i && mt_base_thread_start(NULL, 0, reader_main, (void *)(size_t)i)))
            break;
        threads = i + 1;
    }
    return threads ? threads : 1;
}

/* ---- a turn -------------------------------------------------------------------------------------- */

static void reader_merge(struct reader *r, const struct mt_readers_ops *ops)
{
    for (unsigned i = 0; i < r->bins; i++) {
        struct bin *b = &r->bin[i];
        ops->came(b->owner, b->context, b->part.taken, b->flight != NULL);
        b->open = b->flight && mt_flight_merge(b->flight, &b->part);
        r->late += b->open && b->part.first;
    }
}

static void readers_begin(const struct mt_readers_ring *rings, unsigned n, unsigned batch)
{
    job.rings = rings;
    job.n = n;
    job.batch = batch;
    for (unsigned t = 0; t < threads; t++)
        readers[t]->packets = readers[t]->bins = readers[t]->last = readers[t]->late = 0;
}

static unsigned readers_several(const struct mt_readers_ring *rings, unsigned n, unsigned batch,
                                const struct mt_readers_ops *ops)
{
    unsigned packets = 0, late = 0;
    readers_begin(rings, n, batch);
    readers_do(TAKE);
    for (unsigned i = 0; i < n; i++)
        if (rings[i].ring->damaged)
            ops->damaged(rings[i].owner);
    for (unsigned t = 0; t < threads; t++) {
        packets += readers[t]->packets;
        reader_merge(readers[t], ops);
        late += readers[t]->late;
    }
    if (late)
        readers_do(HAND_ON);
    return packets;
}

/* By the caller alone. */
static void readers_packet(const struct mt_readers_ring *ring, const struct mt_packet *p,
                           const struct mt_readers_ops *ops)
{
    if (p->context >= ring->contexts)
        return;
    struct mt_flight *f = atomic_load(&ring->flights[p->context]);
    if (f)
        mt_flight_packet(f, p);
    ops->came(ring->owner, p->context, mt_packet_count(p), f != NULL);
}

static unsigned readers_one(const struct mt_readers_ring *ring, unsigned batch,
                            const struct mt_readers_ops *ops)
{
    struct mt_packet p;
    unsigned n = 0;
    int got = 0;
    while (n < batch && (got = mt_ring_take(ring->ring, &p)) > 0) {
        readers_packet(ring, &p, ops);
        if (++n % PUBLISH == 0)
            mt_ring_publish(ring->ring);
    }
    if (n % PUBLISH || got < 0)
        mt_ring_publish(ring->ring);
    if (got < 0)
        ops->damaged(ring->owner);
    return n;
}

unsigned mt_readers_drain(const struct mt_readers_ring *rings, unsigned n, unsigned batch,
                          const struct mt_readers_ops *ops)
{
    unsigned packets = 0;
    if (readers_start() > 1)
        return readers_several(rings, n, batch, ops);
    for (unsigned i = 0; i < n; i++)
        packets += readers_one(&rings[i], batch, ops);
    return packets;
}
