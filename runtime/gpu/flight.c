/* Launches in flight on GPUs: which context belongs to which launch, and the order in which launches of
 * one stream reach its trace. */
#include "flight.h"
#include "trace/events.h"
#include "base/report.h"
#include "base/short.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPAND 256          /* records expanded at a time */
#define HELD_MAX (1u << 30) /* bytes one waiting launch may hold */
#ifndef MT_GPU_PATIENCE_MS  /* tests wait less */
#define MT_GPU_PATIENCE_MS 5000u
#endif

struct mt_flight_queue {
    struct mt_trace *trace;
    pthread_mutex_t order; /* held while a launch is being issued */
    int compact;           /* it takes runs */
    struct mt_flight *first, **last;
    struct mt_flight *open; /* mt_trace_begin was called for it */
    struct mt_flight_queue *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* queues, and the lists in them */
static pthread_cond_t left;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mt_flight_queue *queues;
static uint64_t issued;

static void make_cond(void)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&left, &a);
    pthread_condattr_destroy(&a);
}

/* ---- queues ------------------------------------------------------------------------------------- */

struct mt_flight_queue *mt_queue_enter(struct mt_trace *trace)
{
    pthread_mutex_lock(&lock);
    struct mt_flight_queue *q = queues;
    while (q && q->trace != trace)
        q = q->next;
    if (!q && (q = calloc(1, sizeof *q))) {
        q->trace = trace;
        q->compact = mt_trace_compact();
        q->last = &q->first;
        pthread_mutex_init(&q->order, NULL);
        q->next = queues;
        queues = q;
    }
    pthread_mutex_unlock(&lock);
    if (q)
        pthread_mutex_lock(&q->order);
    return q;
}

void mt_queue_leave(struct mt_flight_queue *q)
{
    pthread_mutex_unlock(&q->order);
}

void mt_queue_forget(struct mt_trace *trace)
{
    pthread_mutex_lock(&lock);
    struct mt_flight_queue **at = &queues;
    while (*at && (*at)->trace != trace)
        at = &(*at)->next;
    struct mt_flight_queue *q = *at;
    if (q && !q->first)
        *at = q->next;
    else
        q = NULL;
    pthread_mutex_unlock(&lock);
    if (q)
        pthread_mutex_destroy(&q->order);
    free(q);
}

void mt_flight_add(struct mt_flight_queue *q, struct mt_flight *f)
{
    f->queue = q;
    f->next = NULL;
    f->issuing = 1;
    pthread_mutex_lock(&lock);
    f->number = issued++;
    *q->last = f;
    q->last = &f->next;
    pthread_mutex_unlock(&lock);
}

void mt_flight_issued(struct mt_flight *f)
{
    pthread_mutex_lock(&lock);
    f->issuing = 0;
    pthread_mutex_unlock(&lock);
}

void mt_flight_cancel(struct mt_flight *f, int status)
{
    pthread_mutex_lock(&lock);
    f->issuing = 0;
    f->cancelled = 1;
    f->status = status;
    pthread_mutex_unlock(&lock);
}

/* ---- records ------------------------------------------------------------------------------------ */

int mt_flight_is_open(const struct mt_flight *f)
{
    return f->queue->open == f;
}

static void flight_complain(struct mt_flight *f)
{
    if (!f->dropped)
        mt_report("kernel %s: no memory for records that wait for an earlier launch; its trace is incomplete",
                  mt_short(f->launch.line.kernel).text);
}

static void flight_hold(struct mt_flight *f, const struct mt_raw_record *records, size_t n)
{
    if (f->nheld + n > f->held_cap) {
        size_t cap = f->held_cap ? 2 * f->held_cap : 4096;
        struct mt_raw_record *more =
            cap * sizeof *more > HELD_MAX ? NULL : realloc(f->held, cap * sizeof *more);
        if (!more) {
            flight_complain(f);
            f->dropped += n;
            return;
        }
        f->held = more;
        f->held_cap = cap;
    }
    memcpy(f->held + f->nheld, records, n * sizeof *records);
    f->nheld += n;
}

/* A block that is not in use stays for the next launch. Reader only. */
static struct mt_gather *spare;

static struct mt_gather *take_block(void)
{
    struct mt_gather *g = spare ? spare : malloc(sizeof *g);
    spare = NULL;
    return g;
}

static void give_block(struct mt_gather *g)
{
    if (spare)
        free(g);
    else
        spare = g;
}

void mt_flight_hand_on(struct mt_flight *f, struct mt_gather *g)
{
    if (g->runs)
        mt_trace_append_runs(f->queue->trace, g->run, g->runs, g->accesses);
}

/* Hands on what was gathered; one block stays, empty. */
static void hand_on_all(struct mt_flight *f)
{
    while (f->gathered) {
        struct mt_gather *g = f->gathered;
        mt_flight_hand_on(f, g);
        f->gathered = g->next;
        if (g == f->filling)
            break;
        give_block(g);
    }
    f->gathered = f->filling;
    f->blocks = f->filling != NULL;
    if (f->filling)
        mt_gather_clear(f->filling);
}

/* An empty block after the others. 0: no memory. */
static int add_block(struct mt_flight *f)
{
    size_t bytes = sizeof *f->filling;
    struct mt_gather *g = (f->blocks + 1) * bytes > HELD_MAX ? NULL : take_block();
    if (!g)
        return 0;
    mt_gather_clear(g);
    if (f->filling)
        f->filling->next = g;
    else
        f->gathered = g;
    f->filling = g;
    f->blocks++;
    return 1;
}

/* With -fgpu-rdc the code has added its file's base already. */
uint32_t mt_flight_site(const struct mt_flight *f, const struct mt_packet *p)
{
    const struct mt_image *image = f->launch.image;
    uint32_t site = p->site;
    if (f->site)
        return f->site(f, p);
    if (image && image->head->site_base)
        return site < MT_SITE_UNKNOWN ? site : 0;
    return !image || f->no_sites || site >= image->head->nsites ? 0 : image->site_base + site;
}

static void flight_gather(struct mt_flight *f, const struct mt_packet *p, uint64_t total, int first)
{
    uint32_t site = mt_flight_site(f, p);
    uint64_t from = 0;
    while (from < total) {
        uint64_t n = f->filling ? mt_gather_put(f->filling, p, from, site) : 0;
        from += n;
        if (n)
            continue;
        if (first && f->filling)
            hand_on_all(f);
        else if (!add_block(f))
            break;
    }
    if (from == total)
        return;
    flight_complain(f);
    f->dropped += total - from;
}

/* The first of a queue becomes open: what it held goes out. Reader only. */
static void open_first(struct mt_flight_queue *q, struct mt_flight *f)
{
    q->open = f;
    mt_trace_open_launch(q->trace, &f->launch.line);
    hand_on_all(f);
    if (f->nheld)
        mt_trace_append(q->trace, f->held, f->nheld);
    free(f->held);
    f->held = NULL;
    f->nheld = f->held_cap = 0;
}

/* So many threads more have ended; all that they wrote was taken before. */
static void flight_exited(struct mt_flight *f, uint64_t lanes)
{
    f->exited += lanes;
    if (lanes && f->exits && f->exited >= f->exits) {
        f->counted = f->taken;
        f->ended = 1;
    }
}

/* Packets without records. 1: this was one. All of a thread's other packets come before that of its end. */
static int flight_heard(struct mt_flight *f, const struct mt_packet *p)
{
    if (p->kind == MT_PACKET_NOTE)
        f->untraced += p->words[0];
    if (p->kind == MT_PACKET_EXIT)
        flight_exited(f, mt_ring_lanes(p->mask));
    return p->kind == MT_PACKET_EXIT || p->kind == MT_PACKET_NOTE;
}

static int flight_is_first(struct mt_flight *f)
{
    pthread_mutex_lock(&lock);
    int first = f->queue->first == f;
    pthread_mutex_unlock(&lock);
    if (first && !mt_flight_is_open(f))
        open_first(f->queue, f);
    return first;
}

void mt_flight_packet(struct mt_flight *f, const struct mt_packet *p)
{
    struct mt_raw_record records[EXPAND];
    if (flight_heard(f, p))
        return;
    uint64_t total = mt_packet_count(p), from = 0;
    int first = flight_is_first(f);
    if (f->queue->compact) {
        flight_gather(f, p, total, first);
        from = total;
    }
    while (from < total) {
        size_t n = mt_packet_expand(p, from, records, EXPAND);
        if (first)
            mt_trace_append(f->queue->trace, records, n);
        else
            flight_hold(f, records, n);
        from += n;
    }
    f->taken += total;
}

/* Blocks of a launch that is not open wait behind what it has. */
static void flight_keep(struct mt_flight *f, const struct mt_flight_part *p)
{
    if (f->filling)
        f->filling->next = p->first;
    else
        f->gathered = p->first;
    f->filling = p->last;
    f->blocks += p->blocks;
}

/* Returns the accesses in them. */
static uint64_t flight_lose(const struct mt_flight_part *p)
{
    uint64_t n = 0;
    for (struct mt_gather *g = p->first, *next; g; g = next) {
        next = g->next;
        n += g->accesses;
        free(g);
    }
    return n;
}

/* Is it open? What it had before goes into the file before what readers write from now on. */
static int flight_opens(struct mt_flight *f)
{
    int kept = f->gathered && f->gathered->runs, first = flight_is_first(f);
    if (first && kept) {
        hand_on_all(f);
        mt_trace_fence(f->queue->trace);
    }
    return first;
}

int mt_flight_merge(struct mt_flight *f, const struct mt_flight_part *p)
{
    int open = flight_opens(f), fits = (f->blocks + p->blocks) * sizeof *f->filling <= HELD_MAX;
    uint64_t dropped = p->dropped;
    if (!open && !fits)
        dropped += flight_lose(p);
    else if (!open && p->first)
        flight_keep(f, p);
    if (dropped)
        flight_complain(f);
    f->dropped += dropped;
    f->untraced += p->notes;
    f->taken += p->taken;
    flight_exited(f, p->exited);
    return open;
}

/* ---- ends --------------------------------------------------------------------------------------- */

static int is_complete(struct mt_flight *f, uint64_t looked, uint64_t moved)
{
    if (f->issuing)
        return 0;
    if (f->gone || f->cancelled)
        return 1;
    if (!f->ended)
        return 0;
    if (f->taken >= f->counted)
        return 1;
    if (!f->missing_ns || f->missing_ns < moved)
        f->missing_ns = looked;
    return looked - f->missing_ns > MT_GPU_PATIENCE_MS * 1000000ull;
}

static void flight_finish(struct mt_flight_queue *q, struct mt_flight *f)
{
    struct mt_launch_line *l = &f->launch.line;
    struct mt_gpu_known *known = f->launch.known;
    if (f->cancelled) {
        if (known)
            known->write(known, NULL);
        l->status = f->status;
        if (!l->status)
            mt_trace_miss(q->trace, NULL);
        mt_trace_open_launch(NULL, l);
        mt_trace_end(NULL, l);
        return;
    }
    if (!mt_flight_is_open(f))
        open_first(q, f);
    hand_on_all(f);
    l->records = f->counted > f->taken ? f->counted : f->taken;
    if (f->gone)
        l->records++; /* how many are missing is not known; one stands for them */
    l->untraced = f->untraced;
    memcpy(l->counts, f->counts, sizeof l->counts);
    l->status = f->status;
    if (known && !l->status) {
        l->records += known->records;
        memcpy(l->recorded, known->recorded, sizeof l->recorded);
    }
    if (known) /* of a call that failed nobody knows how far it came */
        known->write(known, l->status ? NULL : q->trace);
    if (f->taken < f->counted)
        mt_report("kernel %s: the GPU made %llu records, %llu arrived", mt_short(l->kernel).text,
                  (unsigned long long)l->records, (unsigned long long)f->taken);
    q->open = NULL;
    mt_trace_end(q->trace, l);
}

/* The first flight that can be finished; its queue in *in. */
static struct mt_flight *next_complete(struct mt_flight_queue **in, uint64_t looked, uint64_t moved)
{
    struct mt_flight *f = NULL;
    pthread_mutex_lock(&lock);
    for (struct mt_flight_queue *q = queues; q && !f; q = q->next)
        if (q->first && is_complete(q->first, looked, moved)) {
            *in = q;
            f = q->first;
        }
    pthread_mutex_unlock(&lock);
    return f;
}

static void free_gathered(struct mt_flight *f)
{
    for (struct mt_gather *g = f->gathered, *next; g; g = next) {
        next = g->next;
        give_block(g);
    }
}

unsigned mt_flight_retire(void (*done)(struct mt_flight *f), uint64_t looked, uint64_t moved)
{
    struct mt_flight_queue *q;
    struct mt_flight *f;
    unsigned n = 0;
    pthread_once(&once, make_cond);
    while ((f = next_complete(&q, looked, moved))) {
        flight_finish(q, f);
        done(f);
        pthread_mutex_lock(&lock);
        q->first = f->next;
        if (!q->first)
            q->last = &q->first;
        pthread_cond_broadcast(&left);
        pthread_mutex_unlock(&lock);
        free_gathered(f);
        free(f->held);
        free(f);
        n++;
    }
    return n;
}

/* ---- waiting ------------------------------------------------------------------------------------ */

int mt_flight_matches(const struct mt_flight *f, const struct mt_flight_filter *filter)
{
    return (!filter->trace || filter->trace == f->queue->trace) &&
           (!filter->device || filter->device == f->device || filter->device == f->place) &&
           (!filter->before || f->number < filter->before);
}

uint64_t mt_flight_issued_so_far(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = issued;
    pthread_mutex_unlock(&lock);
    return n;
}

static unsigned flight_count(const struct mt_flight_filter *filter, uint64_t before)
{
    unsigned n = 0;
    for (struct mt_flight_queue *q = queues; q; q = q->next)
        for (struct mt_flight *f = q->first; f; f = f->next)
            n += f->number < before && mt_flight_matches(f, filter);
    return n;
}

unsigned mt_flight_count(const struct mt_flight_filter *filter)
{
    pthread_mutex_lock(&lock);
    unsigned n = flight_count(filter, UINT64_MAX);
    pthread_mutex_unlock(&lock);
    return n;
}

unsigned mt_flight_wait(const struct mt_flight_filter *filter, unsigned ms)
{
    struct timespec end;
    unsigned n;
    pthread_once(&once, make_cond);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&lock);
    uint64_t before = issued;
    while ((n = flight_count(filter, before)) && pthread_cond_timedwait(&left, &lock, &end) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&lock);
    return n;
}

void mt_flight_each(void (*f)(struct mt_flight *flight, void *data), void *data)
{
    pthread_mutex_lock(&lock);
    for (struct mt_flight_queue *q = queues; q; q = q->next)
        for (struct mt_flight *i = q->first; i; i = i->next)
            f(i, data);
    pthread_mutex_unlock(&lock);
}
