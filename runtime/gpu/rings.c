/* Packets from a GPU, and the launches in flight there: their order in the traces, the rings and launch
 * contexts lent to them, and the threads that read the rings. With several readers, each takes packets from
 * its own rings, groups them by launch, and passes on those of open launches, which is most of the work
 * (compact traces encode them on the calling thread; for raw ones there is one reader). Then the first reader
 * alone gives the other launches their records, and newly opened launches are passed on. The packets of a CTA
 * are in one ring, always read by the same thread, so their order is kept. */
#define _GNU_SOURCE

#include "rings.h"
#include "base/options.h"
#include "base/report.h"
#include "base/source_name.h"
#include "base/thread.h"
#include "format/cta_rule.h"
#include "trace/events.h"
#include "trace/last.h"
#include "trace/selection.h"

#include <errno.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- packets in the rings that a GPU writes (format/packet.h), and their expansion to raw records, or to
 * runs for compact traces ---- */

/* Returns 1, with the words of the slot at a position and without their tags, if all have arrived. The
 * acquire also makes visible, on the CPU device, what was written before the launch. */
typedef int ring_load(const struct mt_ring *r, uint64_t at, uint64_t w[MT_SLOT_WORDS]);

static inline __attribute__((always_inline)) int ring_load_words(const struct mt_ring *r, uint64_t at,
                                                                 uint64_t w[MT_SLOT_WORDS])
{
    const uint64_t *slot = r->slots[at & r->mask].w;
    uint64_t odd = 0, tag = mt_packet_tag(at, r->mask + 1);
    for (unsigned i = 0; i < MT_SLOT_WORDS; i++) {
        uint64_t word = __atomic_load_n(&slot[i], __ATOMIC_ACQUIRE);
        odd |= word ^ tag;
        w[i] = word & MT_WORD_MASK;
    }
    return !(odd & ~MT_WORD_MASK);
}

#ifdef __SANITIZE_THREAD__ /* it would call the load of a slot a race */
#define MT_GPU_PORTABLE
#endif
#if defined __x86_64__ && !defined MT_GPU_PORTABLE
#define MT_WIDE __attribute__((target("avx2")))
/* The same in one load. The processor may split it, but not the words; only they need to be whole. */
static inline __attribute__((always_inline)) MT_WIDE int ring_load_slot(const struct mt_ring *r, uint64_t at,
                                                                        uint64_t w[MT_SLOT_WORDS])
{
    typedef long long words __attribute__((vector_size(MT_SLOT_BYTES)));
    const struct mt_slot *slot = &r->slots[at & r->mask];
    words v;
    __asm__ volatile("vmovdqu %1, %0" : "=x"(v) : "m"(*slot) : "memory");
    int tags = _mm256_movemask_pd((__m256d)v), all = (1 << MT_SLOT_WORDS) - 1;
    for (unsigned i = 0; i < MT_SLOT_WORDS; i++)
        w[i] = (uint64_t)v[i] & MT_WORD_MASK;
    return tags == (mt_packet_tag(at, r->mask + 1) ? all : 0);
}

static MT_WIDE int ring_load_wide(const struct mt_ring *r, uint64_t at, uint64_t w[MT_SLOT_WORDS])
{
    return ring_load_slot(r, at, w);
}
#else
#define MT_WIDE
#define ring_load_slot ring_load_words
#define ring_load_wide ring_load_words
#endif

static int ring_is_wide(void)
{
#if defined __x86_64__ && !defined MT_GPU_PORTABLE
    return __builtin_cpu_supports("avx2");
#else
    return 0;
#endif
}

/* Loads a slot in the way that the processor has. */
static int ring_slot(const struct mt_ring *r, uint64_t at, uint64_t w[MT_SLOT_WORDS])
{
    return ring_is_wide() ? ring_load_wide(r, at, w) : ring_load_words(r, at, w);
}

static uint64_t sign_extended(uint64_t value, uint32_t bits)
{
    return (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits));
}

/* ---- bodies, to words[]; functions return 0 if not yet complete ---------------------------------- */

static int take_words(const struct mt_ring *r, uint32_t slots, uint64_t *words)
{
    for (uint32_t i = 1; i < slots; i++)
        if (!ring_slot(r, r->at + i, &words[(i - 1) * MT_SLOT_WORDS]))
            return 0;
    return 1;
}

static int take_deltas(const struct mt_ring *r, uint32_t slots, uint64_t base, uint64_t *words)
{
    uint32_t at = 0;
    words[at++] = base;
    for (uint32_t i = 1; i < slots; i++) {
        uint64_t w[MT_SLOT_WORDS];
        if (!ring_slot(r, r->at + i, w))
            return 0;
        for (uint32_t k = 0; k < MT_SLOT_WORDS; k++) {
            words[at++] = base + sign_extended(w[k], MT_DELTA_BITS);
            words[at++] = base + sign_extended(w[k] >> MT_DELTA_BITS, MT_DELTA_BITS);
        }
    }
    return 1;
}

/* Unpacks the words of the first slot, except for what depends on the kind. */
static inline void packet_head(struct mt_packet *p, const uint64_t w[MT_SLOT_WORDS])
{
    p->kind = (uint32_t)(w[0] >> 60);
    p->warp = (uint32_t)(w[0] >> 51) & 31;
    p->smid = (uint32_t)(w[0] >> 40) & 0x7ff;
    p->context = (uint32_t)(w[0] >> 28) & 0xfff;
    p->meta = ((uint32_t)(w[0] >> 56) & 15) << 28 | (uint32_t)(w[0] & MT_RAW_MAX_SIZE);
    p->mask = (uint32_t)(w[1] >> 31);
    p->site = (uint32_t)w[1] & 0x7fffffff;
    p->cta = w[2];
}

static inline void packet_regular(struct mt_packet *p, uint64_t y)
{
    p->words[0] = y & ((1ull << MT_REGULAR_ADDRESS_BITS) - 1);
    p->words[1] = sign_extended((p->meta & 0xffffull) << MT_REGULAR_STRIDE_LOW | y >> MT_REGULAR_ADDRESS_BITS,
                                MT_REGULAR_STRIDE_BITS);
    p->meta = (p->meta & ~MT_RAW_MAX_SIZE) | (p->meta & MT_RAW_MAX_SIZE) >> 16;
}

static int take_body(const struct mt_ring *r, uint32_t slots, uint64_t y, struct mt_packet *p)
{
    switch (p->kind) {
    case MT_PACKET_REGULAR:
        packet_regular(p, y);
        return 1;
    case MT_PACKET_DELTAS:
        p->kind = MT_PACKET_LANES;
        return take_deltas(r, slots, y, p->words);
    case MT_PACKET_EXIT:
        p->words[0] = y;
        return take_words(r, slots, &p->words[1]);
    default:
        return take_words(r, slots, p->words);
    }
}

enum { BLOCK_BITS = 40 }; /* most bytes of a block, log2 */

/* Returns 0 if a block is longer than any memory. */
static int packet_is_possible(const struct mt_packet *p)
{
    for (uint32_t i = 0; i < mt_ring_lanes(p->mask); i++)
        if (p->words[2 * i + 1] > 1ull << BLOCK_BITS)
            return 0;
    return 1;
}

int mt_ring_take(struct mt_ring *r, struct mt_packet *p)
{
    uint64_t w[MT_SLOT_WORDS];
    if (r->damaged)
        return -1;
    if (!ring_slot(r, r->at, w))
        return 0;
    packet_head(p, w);
    uint32_t slots = mt_packet_slots(p->kind, mt_ring_lanes(p->mask));
    if (!p->mask || !slots || slots > r->mask + 1) {
        r->damaged = 1;
        return -1;
    }
    if (!take_body(r, slots, w[3], p))
        return 0;
    if (p->kind == MT_PACKET_BLOCKS && !packet_is_possible(p)) {
        r->damaged = 1;
        return -1;
    }
    r->at += slots;
    return 1;
}

/* Returns 1 if the first slot of a packet has arrived. Cheap. */
static int ring_waits(const struct mt_ring *r)
{
    uint64_t w[MT_SLOT_WORDS];
    return !r->damaged && ring_slot(r, r->at, w);
}

void mt_ring_publish(struct mt_ring *r)
{
    __atomic_store_n(r->tail, r->damaged ? MT_RING_CLOSED : r->at, __ATOMIC_RELEASE);
}

/* ---- expansion ---------------------------------------------------------------------------------- */

static uint64_t ring_pieces(uint64_t bytes)
{
    return bytes / MT_RAW_MAX_SIZE + (bytes % MT_RAW_MAX_SIZE != 0);
}

static int ring_has_records(const struct mt_packet *p)
{
    return p->kind != MT_PACKET_EXIT && p->kind != MT_PACKET_NOTHING;
}

uint64_t mt_packet_count(const struct mt_packet *p)
{
    uint32_t n = mt_ring_lanes(p->mask);
    uint64_t sum = 0;
    if (p->kind != MT_PACKET_BLOCKS)
        return ring_has_records(p) ? n : 0;
    for (uint32_t i = 0; i < n; i++)
        sum += ring_pieces(p->words[2 * i + 1]);
    return sum;
}

size_t mt_run_expand(const struct mt_access_run *r, struct mt_raw_record *out)
{
    uint64_t w0 = (uint64_t)r->smid << 32 | r->meta;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t address = r->addresses ? r->addresses[i] : r->base + i * (uint64_t)r->stride;
        out[i] = (struct mt_raw_record){{w0, address, r->cta}};
    }
    return r->count;
}

/* ---- runs ---------------------------------------------------------------------------------------- */

void mt_gather_clear(struct mt_gather *g)
{
    g->runs = g->addresses = 0;
    g->accesses = 0;
    g->next = NULL;
}

/* Writes a run in place, since a copy of what was written in parts would wait for the parts. */
static inline void packet_run(struct mt_access_run *to, const struct mt_packet *p, uint32_t site,
                              uint32_t mask)
{
    *to = (struct mt_access_run){.base = p->words[0],
                                 .cta = p->cta,
                                 .smid = p->smid,
                                 .meta = p->meta,
                                 .count = mt_ring_lanes(mask),
                                 .mask = mask,
                                 .warp = p->warp,
                                 .site = site};
}

static inline void packet_regular_run(struct mt_access_run *to, const struct mt_packet *p, uint32_t site)
{
    packet_run(to, p, site, p->mask);
    to->stride = (int64_t)p->words[1];
}

static struct mt_access_run *gather_add(struct mt_gather *g, const struct mt_packet *p, uint32_t site,
                                        uint32_t mask)
{
    struct mt_access_run *to = &g->run[g->runs++];
    packet_run(to, p, site, mask);
    g->accesses += to->count;
    return to;
}

static uint64_t put_lanes(struct mt_gather *g, const struct mt_packet *p, uint32_t site)
{
    uint32_t n = mt_ring_lanes(p->mask);
    if (g->runs == MT_GATHER_RUNS || g->addresses + n > MT_GATHER_ADDRESSES)
        return 0;
    struct mt_access_run *r = gather_add(g, p, site, p->mask);
    if (p->kind == MT_PACKET_REGULAR) {
        r->stride = (int64_t)p->words[1];
        return n;
    }
    r->addresses = memcpy(&g->address[g->addresses], p->words, n * sizeof *p->words);
    g->addresses += n;
    return n;
}

/* Block copies, where each lane has its own length: an access has one size, so each lane is a run. */
static uint64_t put_blocks(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site)
{
    uint64_t made = 0;
    uint32_t mask = p->mask;
    for (uint32_t i = 0; mask; i++, mask &= mask - 1) {
        uint64_t address = p->words[2 * i], bytes = p->words[2 * i + 1], at = 0;
        for (; at < bytes; at += MT_RAW_MAX_SIZE) {
            if (from) {
                from--;
                continue;
            }
            if (g->runs == MT_GATHER_RUNS)
                return made;
            uint64_t left = bytes - at;
            struct mt_access_run *r = gather_add(g, p, site, mask & -mask);
            r->base = address + at;
            r->meta = mt_rec_meta(p->meta >> 28, left < MT_RAW_MAX_SIZE ? (uint32_t)left : MT_RAW_MAX_SIZE);
            made++;
        }
    }
    return made;
}

uint64_t mt_gather_put(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site)
{
    return p->kind == MT_PACKET_BLOCKS ? put_blocks(g, p, from, site) : put_lanes(g, p, site);
}

int mt_gather_join(struct mt_gather *g, const struct mt_gather *more)
{
    if (g->runs + more->runs > MT_GATHER_RUNS || g->addresses + more->addresses > MT_GATHER_ADDRESSES)
        return 0;
    uint64_t *list = memcpy(&g->address[g->addresses], more->address, more->addresses * sizeof *list);
    for (size_t i = 0; i < more->runs; i++) {
        struct mt_access_run *r = &g->run[g->runs++];
        *r = more->run[i];
        if (r->addresses)
            r->addresses = list + (r->addresses - more->address);
    }
    g->addresses += more->addresses;
    g->accesses += more->accesses;
    return 1;
}

#define READERS_MAX 32u
#define EXPAND 4096u        /* most records written at a time */
#define HELD_MAX (1u << 30) /* most bytes held for one waiting launch */
#ifndef MT_GPU_PATIENCE_MS  /* tests use less */
#define MT_GPU_PATIENCE_MS 5000u
#endif

struct mt_flight_queue {
    struct mt_trace *trace;
    pthread_mutex_t order; /* held while a launch is being issued */
    struct mt_flight *first, **last;
    struct mt_flight *open; /* launch for which mt_trace_begin was called */
    struct mt_flight_queue *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects queues and their lists */
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static struct mt_flight_queue *queues;
static uint64_t issued;

/* ---- queues ------------------------------------------------------------------------------------- */

/* Locks the order of a trace's launches. Returns NULL if out of memory. */
static struct mt_flight_queue *queue_enter(struct mt_trace *trace)
{
    pthread_mutex_lock(&lock);
    struct mt_flight_queue *q = queues;
    while (q && q->trace != trace)
        q = q->next;
    if (!q && (q = calloc(1, sizeof *q))) {
        q->trace = trace;
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

static void flight_add(struct mt_flight_queue *q, struct mt_flight *f)
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

/* Returns 1 if the launch writes to its trace, until it is retired. */
static int flight_is_open(const struct mt_flight *f)
{
    return f->queue->open == f;
}

static void flight_complain(struct mt_flight *f)
{
    if (!f->dropped)
        mt_report("kernel %s: no memory for records that wait for an earlier launch; its trace is incomplete",
                  mt_short(f->launch.line.kernel).text);
}

/* Writes a block to a raw trace. One thread reads for those. */
static void flight_write(struct mt_trace *trace, const struct mt_gather *g)
{
    static struct mt_raw_record records[EXPAND];
    size_t n = 0;
    for (size_t i = 0; i < g->runs; i++) {
        if (n + g->run[i].count > EXPAND) {
            mt_trace_append(trace, records, n);
            n = 0;
        }
        n += mt_run_expand(&g->run[i], records + n);
    }
    mt_trace_append(trace, records, n);
}

/* Passes a block of an open launch on, from any thread. The caller keeps the block. */
static void flight_hand_on(struct mt_flight *f, struct mt_gather *g)
{
    if (g->runs && mt_trace_compact())
        mt_trace_append_runs(f->queue->trace, g->run, g->runs, 0);
    else if (g->runs)
        flight_write(f->queue->trace, g);
}

/* Passes on all blocks gathered. */
static void rings_hand_on_all(struct mt_flight *f)
{
    for (struct mt_gather *g = f->gathered, *next; g; g = next) {
        next = g->next;
        flight_hand_on(f, g);
        free(g);
    }
    f->gathered = f->last = NULL;
    f->blocks = 0;
}

/* Returns the process-wide number of a packet's site, on any thread. With -fgpu-rdc the code has already
 * added its file's base. */
static uint32_t flight_site(const struct mt_flight *f, uint32_t site, uint32_t meta)
{
    const struct mt_image *image = f->launch.image;
    if (f->site)
        return f->site(f, site, meta);
    if (image && image->head->site_base)
        return site < MT_SITE_UNKNOWN ? site : 0;
    return !image || f->no_sites || site >= image->head->nsites ? 0 : image->site_base + site;
}

/* Opens the first launch of a queue and writes what was held for it. Reader only. */
static void open_first(struct mt_flight_queue *q, struct mt_flight *f)
{
    q->open = f;
    mt_trace_open_launch(q->trace, &f->launch.line);
    rings_hand_on_all(f);
}

void mt_flight_counted(struct mt_flight *f, const struct mt_gpu_totals *now)
{
    f->counted = (now->records - f->before.records) & MT_WORD_MASK;
    f->untraced = (now->untraced - f->before.untraced) & MT_WORD_MASK;
    f->repeated = (now->repeated - f->before.repeated) & MT_WORD_MASK;
    f->ended = 1;
}

static struct mt_gpu_totals packet_totals(const struct mt_packet *p)
{
    return (struct mt_gpu_totals){p->words[0], p->words[1], p->words[2]};
}

/* All threads have ended. What other rings hold of the launch may still have to come: its number is known. */
static void flight_exited(struct mt_flight *f, const struct mt_gpu_totals *now)
{
    if (!f->exits || f->ended)
        return;
    f->exited = 1;
    mt_flight_counted(f, now);
}

static int flight_is_first(struct mt_flight *f)
{
    pthread_mutex_lock(&lock);
    int first = f->queue->first == f;
    pthread_mutex_unlock(&lock);
    if (first && !flight_is_open(f))
        open_first(f->queue, f);
    return first;
}

/* Records of a launch gathered by one reader. */
struct part {
    struct mt_gather *first, *last; /* blocks, in order */
    uint64_t taken;                 /* records */
    int exited;                     /* all threads have ended, and: */
    struct mt_gpu_totals end;       /* counters of the context then */
    uint64_t dropped;               /* records lost for lack of memory */
};

/* Appends blocks of a launch that is not open to those it has; what fits into its last block is copied there.
 * Returns the number of accesses lost for lack of room. */
static uint64_t flight_keep(struct mt_flight *f, struct mt_gather *first)
{
    uint64_t lost = 0;
    for (struct mt_gather *g = first, *next; g; g = next) {
        next = g->next;
        g->next = NULL;
        int joined = f->last && mt_gather_join(f->last, g);
        if (!joined && (f->blocks + 1) * sizeof *g <= HELD_MAX) {
            *(f->last ? &f->last->next : &f->gathered) = g;
            f->last = g;
            f->blocks++;
            continue;
        }
        lost += joined ? 0 : g->accesses;
        free(g);
    }
    return lost;
}

/* Returns whether the launch is open. Its earlier blocks are written before anything that readers write from
 * now on. */
static int flight_opens(struct mt_flight *f)
{
    int kept = f->gathered && f->gathered->runs, first = flight_is_first(f);
    if (first && kept) {
        rings_hand_on_all(f);
        mt_trace_fence(f->queue->trace);
    }
    return first;
}

/* Gives a launch the records of one reader. Returns 1 if it is open, and the reader must pass the blocks on
 * before it may end; 0 if it took them. */
static int flight_merge(struct mt_flight *f, const struct part *p)
{
    int open = flight_opens(f);
    uint64_t dropped = p->dropped + (open ? 0 : flight_keep(f, p->first));
    if (dropped)
        flight_complain(f);
    f->dropped += dropped;
    f->taken += p->taken;
    if (p->exited)
        flight_exited(f, &p->end);
    return open;
}

/* ---- ends --------------------------------------------------------------------------------------- */

static int flight_is_complete(struct mt_flight *f, uint64_t looked, uint64_t moved)
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
    if (!flight_is_open(f))
        open_first(q, f);
    rings_hand_on_all(f);
    l->records = f->counted > f->taken ? f->counted : f->taken;
    if (f->gone)
        l->records++; /* the number of missing records is unknown; one stands for them */
    l->untraced = f->untraced + f->unseen;
    l->repeated = f->repeated;
    memcpy(l->counts, f->counts, sizeof l->counts);
    l->status = f->status;
    if (known && !l->status) {
        l->records += known->records;
        memcpy(l->recorded, known->recorded, sizeof l->recorded);
    }
    if (known) /* a failed call may have stopped anywhere */
        known->write(known, l->status ? NULL : q->trace);
    if (f->taken < f->counted)
        mt_report("kernel %s: the GPU made %llu records, %llu arrived", mt_short(l->kernel).text,
                  (unsigned long long)l->records, (unsigned long long)f->taken);
    q->open = NULL;
    mt_trace_end(q->trace, l);
}

/* Returns the first flight that can be finished, with *in set to its queue. */
static struct mt_flight *next_complete(struct mt_flight_queue **in, uint64_t looked, uint64_t moved)
{
    struct mt_flight *f = NULL;
    pthread_mutex_lock(&lock);
    for (struct mt_flight_queue *q = queues; q && !f; q = q->next)
        if (q->first && flight_is_complete(q->first, looked, moved)) {
            *in = q;
            f = q->first;
        }
    pthread_mutex_unlock(&lock);
    return f;
}

/* ---- waiting ------------------------------------------------------------------------------------ */

int mt_flight_matches(const struct mt_flight *f, const struct mt_flight_filter *filter)
{
    return (!filter->trace || filter->trace == f->queue->trace) &&
           (!filter->rings || filter->rings == f->rings) &&
           (!filter->module || filter->module == f->module) &&
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
    const struct timespec end = mt_base_in_ms(ms);
    unsigned n;
    pthread_mutex_lock(&lock);
    uint64_t before = issued;
    while ((n = flight_count(filter, before)) &&
           pthread_cond_clockwait(&left, &lock, CLOCK_MONOTONIC, &end) != ETIMEDOUT)
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

/* ---- waiting for packets ------------------------------------------------------------------------- */

static pthread_mutex_t awake = PTHREAD_MUTEX_INITIALIZER;
static unsigned under_way;                /* launches; under `awake` */
static _Atomic uint64_t progress, rounds; /* packets and launches handled; turns of the reader */

/* Number of calls of patience_over, MT_STALL_MS apart, without progress. */
struct patience {
    uint64_t seen, turn;
    unsigned quiet;
};

static struct patience patience_new(void)
{
    return (struct patience){progress, rounds, 0};
}

/* Returns 1 after `most` calls without progress, while the reader was running or had nothing to do. */
static int patience_over(struct patience *p, unsigned most)
{
    uint64_t now = progress, turns = rounds;
    pthread_mutex_lock(&awake);
    int asleep = !under_way;
    pthread_mutex_unlock(&awake);
    p->quiet = now != p->seen ? 0 : turns > p->turn + 1 || asleep ? p->quiet + 1 : p->quiet;
    p->seen = now;
    p->turn = turns;
    return p->quiet >= most;
}

int mt_flight_end(const struct mt_flight_filter *filter, unsigned patience, int (*ask)(const void *data),
                  const void *data)
{
    struct patience p = patience_new();
    while (mt_flight_wait(filter, MT_STALL_MS)) {
        int over = patience_over(&p, patience), e = ask ? ask(data) : 0;
        if (e || over)
            return e ? e : -1;
    }
    return 0;
}

struct verdict {
    const struct mt_flight_filter *filter;
    int status;
};

static void flight_gone(struct mt_flight *f, void *data)
{
    const struct verdict *v = data;
    if (!mt_flight_matches(f, v->filter))
        return;
    f->gone = 1;
    f->status = v->status;
}

void mt_flight_give_up(const struct mt_flight_filter *filter, int status, const char *why)
{
    struct verdict v = {filter, status};
    mt_report("kernels on the GPU did not end (%s); their traces hold what had arrived", why);
    mt_flight_each(flight_gone, &v);
    mt_flight_wait(filter, MT_STALL_MS);
}

static int rings_passed(const struct mt_rings *r, const uint64_t heads[MT_GPU_RINGS])
{
    int passed = 1;
    for (unsigned i = 0; i < r->count; i++)
        passed &= r->passed[i] >= heads[i];
    return passed;
}

int mt_rings_pass(const struct mt_rings *r, const uint64_t heads[MT_GPU_RINGS],
                  const struct mt_flight_filter *filter, unsigned patience)
{
    struct patience p = patience_new();
    uint64_t since = mt_now_ns();
    struct timespec t = {0, 50000};
    for (unsigned turn = 0; !rings_passed(r, heads) && mt_flight_count(filter); turn++) {
        if (turn < 100)
            sched_yield();
        else
            nanosleep(&t, NULL);
        if (mt_now_ns() - since < MT_STALL_MS * 1000000ull)
            continue;
        since = mt_now_ns();
        if (patience_over(&p, patience))
            return -1;
    }
    return 0;
}

/* ---- launch contexts ----------------------------------------------------------------------------- */

pthread_mutex_t mt_rings_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;

/* Returns the kernel's argument for the launch. Called with the lock held. */
static void *rings_give(struct mt_rings *r, struct mt_flight *f)
{
    uint32_t i = r->free[--r->nfree];
    f->rings = r;
    f->context = i;
    f->generation = ++r->lending[i] ? r->lending[i] : ++r->lending[i]; /* 0 is the initial value of memory */
    r->ops->lent(r, f);
    atomic_store(&r->flight[i], f);
    return (char *)(r->contexts + i) + (r->ctas ? MT_CONTEXT_IN_PARTS : 0);
}

static void *rings_try(struct mt_rings *r, struct mt_flight *f, unsigned ms)
{
    const struct timespec end = mt_base_in_ms(ms);
    pthread_mutex_lock(&mt_rings_lock);
    while (!r->nfree && pthread_cond_clockwait(&returned, &mt_rings_lock, CLOCK_MONOTONIC, &end) != ETIMEDOUT)
        ;
    void *address = r->nfree ? rings_give(r, f) : NULL;
    pthread_mutex_unlock(&mt_rings_lock);
    return address;
}

void *mt_rings_lend(struct mt_rings *r, struct mt_flight *f, unsigned patience)
{
    struct patience p = patience_new();
    void *address = rings_try(r, f, 0);
    while (!address && !patience_over(&p, patience))
        address = rings_try(r, f, MT_STALL_MS);
    return address;
}

/* Called with the lock held. */
static void rings_free(struct mt_rings *r, uint32_t context)
{
    r->free[r->nfree++] = context;
    pthread_cond_broadcast(&returned);
}

void mt_rings_free(struct mt_rings *r, uint32_t context)
{
    pthread_mutex_lock(&mt_rings_lock);
    rings_free(r, context);
    pthread_mutex_unlock(&mt_rings_lock);
}

void mt_rings_return(struct mt_flight *f)
{
    struct mt_rings *r = f->rings;
    if (!r)
        return;
    pthread_mutex_lock(&mt_rings_lock);
    int again = r->ops->returned(r, f);
    atomic_store(&r->flight[f->context], NULL);
    if (again)
        rings_free(r, f->context);
    pthread_mutex_unlock(&mt_rings_lock);
}

uint64_t mt_rings_records(const struct mt_gpu_context *c)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < MT_GPU_COUNTERS; i++)
        n += c->records[i];
    return n;
}

/* ---- setting up ---------------------------------------------------------------------------------- */

unsigned mt_rings_readers(void)
{
    uint64_t wish = mt_trace_compact() ? mt_options()->gpu_readers : 1;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!wish)
        wish = processors > 2 ? (uint64_t)processors / 2 : 1;
    return wish < READERS_MAX ? (unsigned)wish : READERS_MAX;
}

void *mt_rings_memory(struct mt_rings_maker *m, size_t bytes, int host, uint64_t *device)
{
    void *p = NULL;
    if (!m->error)
        m->error = m->get(m, bytes, host, &p, device);
    if (!m->error && !p)
        m->error = m->no_memory;
    if (m->error)
        return NULL;
    if (host)
        memset(p, 0, bytes);
    return p;
}

static void rings_put(struct mt_rings_maker *m, void *to, const void *from, size_t bytes)
{
    if (!m->error)
        m->error = m->put(m, to, from, bytes);
}

static uint64_t rings_slots(void)
{
    uint64_t n = 32;
    while (n < mt_options()->ring_slots && n < 1ull << (MT_RING_BITS - 1))
        n *= 2;
    return n;
}

static void rings_make(struct mt_rings *r, struct mt_rings_maker *m)
{
    struct mt_gpu_ring image[MT_GPU_RINGS] = {0};
    r->count = mt_rings_readers() > 1 ? MT_GPU_RINGS : 1;
    uint64_t count = rings_slots() * (MT_GPU_RINGS / r->count), slots_at = 0, tails_at = 0, unused;
    size_t bytes = count * sizeof(struct mt_slot);
    char *slots = mt_rings_memory(m, r->count * bytes, 1, &slots_at);
    char *tails = mt_rings_memory(m, r->count * 64, 1, &tails_at); /* a cache line each */
    r->on_device = mt_rings_memory(m, sizeof image, 0, &unused);
    for (unsigned i = 0; i < r->count && !m->error; i++) {
        r->ring[i].slots = (struct mt_slot *)(void *)(slots + i * bytes);
        r->ring[i].tail = (uint64_t *)(void *)(tails + i * 64);
        r->ring[i].mask = count - 1;
        image[i].slots = slots_at + i * bytes;
        image[i].tail = tails_at + i * 64;
        image[i].mask = count - 1;
    }
    rings_put(m, r->on_device, image, sizeof image);
}

/* Copies the rule of MEMTRACE_CTAS to the device. */
static void rings_make_rule(struct mt_rings *r, struct mt_rings_maker *m)
{
    const struct mt_cta_rule *rule = mt_selection_ctas();
    if (rule)
        rings_put(m, mt_rings_memory(m, sizeof *rule, 0, &r->ctas), rule, sizeof *rule);
}

struct mt_gpu_context mt_rings_context(const struct mt_rings *r, uint32_t id, uint64_t code)
{
    return (struct mt_gpu_context){.rings = (uint64_t)(uintptr_t)r->on_device,
                                   .ring_mask = r->count - 1,
                                   .id = id,
                                   .ctas = r->ctas,
                                   .spaces = mt_trace_compact() != 0,
                                   .code = code,
                                   .polls = r->tallies ? r->tallies : r->polls};
}

void mt_rings_make(struct mt_rings *r, const struct mt_rings_ops *ops, uint64_t code,
                   struct mt_rings_maker *m)
{
    struct mt_gpu_context *image = calloc(MT_GPU_CONTEXTS, sizeof *image);
    uint64_t unused;
    r->ops = ops;
    r->batch = MT_GPU_BATCH;
    rings_make(r, m);
    rings_make_rule(r, m);
    r->contexts = mt_rings_memory(m, MT_GPU_CONTEXTS * sizeof *image, 0, &unused);
    if (!image && !m->error)
        m->error = m->no_memory;
    for (uint32_t i = 0; i < MT_GPU_CONTEXTS && image; i++) {
        image[i] = mt_rings_context(r, i, code);
        r->free[r->nfree++] = MT_GPU_CONTEXTS - 1 - i;
    }
    rings_put(m, r->contexts, image, MT_GPU_CONTEXTS * sizeof *image);
    free(image);
}

/* ---- all rings ----------------------------------------------------------------------------------- */

static pthread_mutex_t polling = PTHREAD_MUTEX_INITIALIZER; /* held while the reader reads rings */
static struct mt_rings *_Atomic all;                        /* removed from only while `polling` is held */
static atomic_int closed;                                   /* set while `polling` is held */

void mt_rings_add(struct mt_rings *r)
{
    pthread_mutex_lock(&mt_rings_lock);
    r->next = all;
    all = r;
    pthread_mutex_unlock(&mt_rings_lock);
}

/* Closes rings, so that running kernels do not wait for room. Called with `polling` held. */
static void rings_shut(struct mt_rings *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        r->ring[i].damaged = 1;
        mt_ring_publish(&r->ring[i]);
        r->passed[i] = MT_RING_CLOSED;
    }
}

void mt_rings_retire(struct mt_rings *r)
{
    pthread_mutex_lock(&polling);
    pthread_mutex_lock(&mt_rings_lock);
    struct mt_rings *before = all;
    if (before == r)
        all = r->next;
    while (before && before->next != r)
        before = before->next;
    if (before)
        before->next = r->next;
    pthread_mutex_unlock(&mt_rings_lock);
    rings_shut(r);
    pthread_mutex_unlock(&polling);
}

void mt_rings_close(void)
{
    pthread_mutex_lock(&polling);
    closed = 1;
    for (struct mt_rings *r = all; r; r = r->next)
        rings_shut(r);
    pthread_mutex_unlock(&polling);
}

int mt_rings_closed(void)
{
    return closed;
}

static void rings_complain(struct mt_rings *r)
{
    if (!atomic_exchange(&r->damaged, 1))
        mt_report("a GPU wrote something that is not a record into a ring (did the program write out of "
                  "bounds?); traces of kernels under way are incomplete, and later kernels run without");
}

#define BINS 64u /* most launches with packets on one thread in one turn */
#define PUBLISH 64u
#define SPARE 16u
#define SEEN 256u /* site numbers cached by a thread for a turn, as a lookup may need a lock */

/* Packets of a thread for one context's launch, or for a context without one. */
struct bin {
    uint32_t context;
    struct mt_flight *flight;
    struct part part;
    int open; /* packets are passed on at once */
};

struct seen {
    uint64_t of; /* turn and bin for which it is valid */
    uint32_t packets, process;
};

struct reader {
    struct bin bin[BINS];
    unsigned bins, last, packets, turn;
    struct seen seen[SEEN];
    struct mt_gather *spare; /* blocks for later turns, at most SPARE */
    unsigned spares, late;   /* bins of launches that opened in this turn */
    pthread_cond_t begin;
    int busy; /* under the job's lock */
};

enum phase { TAKE, HAND_ON };
static struct reader *readers[READERS_MAX];
static unsigned threads; /* 0: not determined yet */

/* Current work of the threads. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t done;
    unsigned busy;
    enum phase phase;
    struct mt_rings *rings;
} job = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, TAKE, NULL};

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

static int bin_add_block(struct reader *r, struct part *p)
{
    struct mt_gather *g = reader_block(r);
    if (!g)
        return 0;
    if (p->last)
        p->last->next = g;
    else
        p->first = g;
    p->last = g;
    return 1;
}

/* Passes on a bin of an open launch. */
static void bin_hand_on(struct reader *r, struct bin *b)
{
    for (struct mt_gather *g = b->part.first, *next; g; g = next) {
        next = g->next;
        flight_hand_on(b->flight, g);
        reader_give_block(r, g);
    }
    b->part.first = b->part.last = NULL;
}

/* Returns the bin of a context; the caller ensures room for one more. */
static struct bin *reader_bin(struct reader *r, uint32_t context)
{
    struct mt_flight *f = atomic_load(&job.rings->flight[context]);
    for (unsigned k = 0; k < r->bins; k++) {
        unsigned i = (r->last + k) % r->bins;
        struct bin *b = &r->bin[i];
        if (b->context == context && b->flight == f) {
            r->last = i;
            return b;
        }
    }
    r->last = r->bins;
    r->bin[r->bins] = (struct bin){.context = context, .flight = f, .open = f && flight_is_open(f)};
    return &r->bin[r->bins++];
}

static uint64_t reader_seen_of(const struct reader *r, const struct bin *b)
{
    return (uint64_t)r->turn << 32 | (uint64_t)(b - r->bin);
}

static __attribute__((noinline)) uint32_t reader_look_up(struct seen *s, const struct bin *b, uint64_t of,
                                                         uint32_t site, uint32_t meta)
{
    uint32_t process = mt_trace_compact() ? flight_site(b->flight, site, meta) : 0;
    *s = (struct seen){of, site, process};
    return process;
}

/* Returns the packet's site, 0 in raw traces. `of`: reader_seen_of the bin. */
static inline uint32_t reader_site(struct reader *r, const struct bin *b, uint64_t of,
                                   const struct mt_packet *p)
{
    struct seen *s = &r->seen[(p->site ^ p->site >> 8) % SEEN];
    return s->of == of && s->packets == p->site ? s->process : reader_look_up(s, b, of, p->site, p->meta);
}

static void bin_put(struct reader *r, struct bin *b, const struct mt_packet *p)
{
    uint64_t total = mt_packet_count(p), from = 0;
    struct part *part = &b->part;
    if (p->kind == MT_PACKET_EXIT) {
        part->exited = 1;
        part->end = packet_totals(p);
    }
    part->taken += total;
    if (!b->flight || !total)
        return;
    uint32_t site = reader_site(r, b, reader_seen_of(r, b), p);
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

/* Returns the bin of the next packet's context if it has a launch and a block with room, or NULL. */
static inline struct bin *reader_bin_ready(struct reader *r, const uint64_t w[MT_SLOT_WORDS])
{
    struct mt_packet p;
    packet_head(&p, w);
    for (unsigned i = 0; i < r->bins; i++) {
        struct bin *b = &r->bin[i];
        if (b->context == p.context && b->flight)
            return b->part.last && b->part.last->runs < MT_GATHER_RUNS ? b : NULL;
    }
    return NULL;
}

/* Takes up to `most` regular packets, which most are, as long as they come, of one launch that has a block
 * with room. Returns their number. */
static inline __attribute__((always_inline)) unsigned
reader_take_regular(struct reader *r, struct mt_ring *ring, unsigned most, ring_load *load)
{
    const struct mt_ring here = *ring; /* locals stay in registers */
    uint64_t w[MT_SLOT_WORDS], at = here.at, taken = 0;
    struct bin *b = load(&here, at, w) ? reader_bin_ready(r, w) : NULL;
    if (!b)
        return 0;
    struct mt_gather *g = b->part.last;
    struct mt_access_run *run = &g->run[g->runs];
    size_t room = MT_GATHER_RUNS - g->runs;
    const uint64_t of = reader_seen_of(r, b), end = at + (room < most ? room : most);
    const uint32_t context = b->context;
    struct mt_packet p;
    for (; at < end && load(&here, at, w); at++, run++) {
        packet_head(&p, w);
        if (p.kind != MT_PACKET_REGULAR || p.context != context || !p.mask)
            break;
        packet_regular(&p, w[3]);
        packet_regular_run(run, &p, reader_site(r, b, of, &p));
        taken += run->count;
    }
    g->runs = (size_t)(run - g->run);
    g->accesses += taken;
    b->part.taken += taken;
    ring->at = at;
    return (unsigned)(at - here.at);
}

static unsigned reader_take_words(struct reader *r, struct mt_ring *ring, unsigned most)
{
    return reader_take_regular(r, ring, most, ring_load_words);
}

static MT_WIDE unsigned reader_take_slots(struct reader *r, struct mt_ring *ring, unsigned most)
{
    return reader_take_regular(r, ring, most, ring_load_slot);
}

/* Takes the next packet, of any kind. Returns 0 if there is none. */
static unsigned reader_take_any(struct reader *r, struct mt_ring *ring)
{
    struct mt_packet p;
    if (r->bins == BINS || mt_ring_take(ring, &p) <= 0)
        return 0;
    if (p.context < MT_GPU_CONTEXTS)
        bin_put(r, reader_bin(r, p.context), &p);
    return 1;
}

static void reader_take_ring(struct reader *r, struct mt_ring *ring)
{
    unsigned (*regular)(struct reader *, struct mt_ring *, unsigned) =
        ring_is_wide() ? reader_take_slots : reader_take_words;
    unsigned n = 0, more = 1, batch = job.rings->batch;
    while (more && n < batch && !ring->damaged) {
        more = regular(r, ring, batch - n < PUBLISH ? batch - n : PUBLISH);
        if (more < PUBLISH && n + more < batch)
            more += reader_take_any(r, ring);
        n += more;
        if (more || ring->damaged)
            mt_ring_publish(ring);
    }
    r->packets += n;
}

/* Returns the first ring of a thread. Its rings are adjacent, since neighbours share cache lines. */
static unsigned reader_first(unsigned number)
{
    return job.rings->count * number / threads;
}

/* Passes on the packets of open launches. */
static void reader_hand_on(struct reader *r)
{
    for (unsigned i = 0; i < r->bins; i++)
        if (r->bin[i].open)
            bin_hand_on(r, &r->bin[i]);
}

static void reader_take(struct reader *r, unsigned number)
{
    r->turn++;
    for (unsigned i = reader_first(number); i < reader_first(number + 1); i++)
        reader_take_ring(r, &job.rings->ring[i]);
    reader_hand_on(r);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void reader_run(unsigned number, enum phase phase)
{
    if (phase == TAKE)
        reader_take(readers[number], number);
    else
        reader_hand_on(readers[number]);
}

static void *readers_main(void *number)
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

/* Returns whether this thread has work. A ring is always read by the same thread. */
static int reader_has_work(unsigned number, enum phase phase)
{
    int work = phase == HAND_ON && readers[number]->late;
    for (unsigned i = reader_first(number); phase == TAKE && i < reader_first(number + 1) && !work; i++)
        work = ring_waits(&job.rings->ring[i]);
    return work;
}

/* Runs a phase on all threads, the caller being the first; returns when all have finished. */
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

static struct reader *reader_new(void)
{
    struct reader *r = calloc(1, sizeof *r);
    if (r)
        pthread_cond_init(&r->begin, NULL);
    return r;
}

/* Starts as many threads as possible, up to the number wanted. */
static void readers_start(void)
{
    static struct reader caller;
    unsigned wanted = threads ? 0 : mt_rings_readers();
    for (unsigned i = 0; i < wanted; i++) {
        if (!(readers[i] = i ? reader_new() : &caller) ||
            (i && mt_base_thread_start(NULL, 0, readers_main, (void *)(size_t)i)))
            break;
        threads = i + 1;
    }
}

/* ---- a turn -------------------------------------------------------------------------------------- */

static void rings_came(struct mt_rings *r, uint32_t context, uint64_t records, int known)
{
    if (r->ops->came)
        r->ops->came(r, context, records, known);
}

static void reader_merge(struct reader *r)
{
    for (unsigned i = 0; i < r->bins; i++) {
        struct bin *b = &r->bin[i];
        rings_came(job.rings, b->context, b->part.taken, b->flight != NULL);
        b->open = b->flight && flight_merge(b->flight, &b->part);
        r->late += b->open && b->part.first;
    }
}

static unsigned rings_drain(struct mt_rings *rings)
{
    unsigned packets = 0, late = 0;
    readers_start();
    job.rings = rings;
    for (unsigned t = 0; t < threads; t++)
        readers[t]->packets = readers[t]->bins = readers[t]->last = readers[t]->late = 0;
    readers_do(TAKE);
    for (unsigned t = 0; t < threads; t++) {
        packets += readers[t]->packets;
        reader_merge(readers[t]);
        late += readers[t]->late;
    }
    if (late)
        readers_do(HAND_ON);
    for (unsigned i = 0; i < rings->count; i++) {
        if (rings->ring[i].damaged)
            rings_complain(rings);
        rings->passed[i] = rings->ring[i].damaged ? MT_RING_CLOSED : rings->ring[i].at;
    }
    return packets;
}

/* Launches whose end was seen before this look at the rings have all of their packets in it. */
static unsigned rings_poll(void)
{
    static struct mt_flight *ended[MT_GPU_CONTEXTS];
    unsigned packets = 0;
    pthread_mutex_lock(&polling);
    for (struct mt_rings *r = closed ? NULL : all; r; r = r->next) {
        unsigned n = r->ops->marked ? r->ops->marked(r, ended) : 0;
        packets += rings_drain(r);
        for (unsigned i = 0; i < n; i++)
            ended[i]->ended = 1;
    }
    pthread_mutex_unlock(&polling);
    return packets;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int running;           /* under `awake` */
static void (*on_left)(void); /* called when launches have left; under `awake` */

static void reader_left(void)
{
    pthread_mutex_lock(&awake);
    under_way--;
    pthread_mutex_unlock(&awake);
}

static void flight_drop(struct mt_gather *first)
{
    for (struct mt_gather *g = first, *next; g; g = next) {
        next = g->next;
        free(g);
    }
}

/* Ends and frees launches in order, as far as possible. Returns the number that left. Missing records are
 * given up when no packet has come for a while: `looked` is the time of the last look at the rings, `moved`
 * that of the last packet (mt_now_ns; time spent in a slow sink counts only before `looked`). */
static unsigned flight_retire(uint64_t looked, uint64_t moved)
{
    struct mt_flight_queue *q;
    struct mt_flight *f;
    unsigned n = 0;
    while ((f = next_complete(&q, looked, moved))) {
        flight_finish(q, f);
        mt_rings_return(f);
        reader_left();
        pthread_mutex_lock(&lock);
        q->first = f->next;
        if (!q->first)
            q->last = &q->first;
        pthread_cond_broadcast(&left);
        pthread_mutex_unlock(&lock);
        flight_drop(f->gathered);
        free(f);
        n++;
    }
    return n;
}

/* Sleeps longer and longer, as long as no packets come. */
static void reader_rest(unsigned idle)
{
    struct timespec t = {0, idle < 2000 ? 20000 : 200000};
    if (idle < 200)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

static void reader_await(void)
{
    pthread_mutex_lock(&awake);
    while (!under_way)
        pthread_cond_wait(&work, &awake);
    pthread_mutex_unlock(&awake);
}

/* Returns 1 if packets came or launches left. *last: time of the last packets. */
static int reader_turn(uint64_t *last)
{
    unsigned moved = rings_poll();
    uint64_t now = mt_now_ns();
    *last = moved ? now : *last;
    unsigned gone = flight_retire(now, *last);
    if (gone && on_left)
        on_left();
    progress += moved + gone;
    rounds++;
    return moved + gone != 0;
}

static void *reader_main(void *unused)
{
    unsigned idle = 0;
    uint64_t last = 0;
    mt_last_ours();
    for (;;) {
        reader_await();
        idle = reader_turn(&last) ? 0 : idle + 1;
        if (idle)
            reader_rest(idle);
    }
    return unused;
}

/* Wakes the reader, which reads until the launch has left. Returns -1 if there is no thread. */
static int reader_wake(const struct mt_rings *r)
{
    pthread_mutex_lock(&awake);
    on_left = r->ops->left;
    if (!running)
        running = !mt_base_thread_start(NULL, 0, reader_main, NULL);
    int ok = running;
    under_way += (unsigned)ok;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&awake);
    return ok ? 0 : -1;
}

int mt_flight_begin(struct mt_flight *f, struct mt_flight_queue **q)
{
    struct mt_flight_queue *had = *q;
    *q = had ? had : queue_enter(f->launch.trace);
    if (*q && !reader_wake(f->rings)) {
        flight_add(*q, f);
        return 0;
    }
    if (*q != had)
        mt_queue_leave(*q);
    *q = had;
    return -1;
}
