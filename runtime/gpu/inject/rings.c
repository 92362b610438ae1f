/* The rings and launch contexts of one CUcontext, and the thread that reads all of them. */
#include "rings.h"
#include "inject.h"
#include "gpu/reader.h"
#include "gpu/readers.h"
#include "base/options.h"
#include "base/report.h"
#include "format/cta_rule.h"
#include "trace/events.h"
#include "trace/selection.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CODE_REACH (4ull << 30) /* bytes from `code` that sites reach at least: half of what they can */

struct mt_inject_rings {
    struct mt_ring rings[MT_GPU_RINGS];
    struct mt_gpu_ring *on_device;
    struct mt_gpu_context *contexts; /* on the device */
    uint64_t ctas;                   /* the rule which CTAs are traced, on the device; 0: all */
    int damaged, retired;
    _Atomic uint64_t passed[MT_GPU_RINGS];             /* slots whose packets launches have */
    struct mt_flight *_Atomic flight[MT_GPU_CONTEXTS]; /* who has it */
    _Atomic uint64_t came[MT_GPU_CONTEXTS];            /* records, since the start */
    uint64_t before[MT_GPU_CONTEXTS];                  /* the same when it was lent */
    uint64_t code[MT_GPU_CONTEXTS];                    /* as it is on the device */
    uint32_t lending[MT_GPU_CONTEXTS];                 /* number of its present or last one */
    struct mt_trace *trace[MT_GPU_CONTEXTS];           /* of that */
    unsigned used;                                     /* contexts from this number on were never lent */
    _Atomic int unseen;                                /* some were since all were compared */
    uint32_t free[MT_GPU_CONTEXTS], nfree;
    struct mt_inject_rings *next;
};

static pthread_mutex_t lending = PTHREAD_MUTEX_INITIALIZER; /* free contexts, the list */
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t polling = PTHREAD_MUTEX_INITIALIZER; /* held while the reader is at rings */
static struct mt_inject_rings *_Atomic all;
static atomic_int closed; /* set while `polling` is held */

/* ---- setting up --------------------------------------------------------------------------------- */

struct making {
    CUcontext context;
    Sanitizer_StreamHandle stream;
    SanitizerResult result;
};

static void *rings_memory(struct making *m, size_t bytes, int host)
{
    void *p = NULL;
    if (!m->result)
        m->result = (host ? mt_sanitizer()->AllocHost : mt_sanitizer()->Alloc)(m->context, &p, bytes);
    if (!m->result && !p)
        m->result = SANITIZER_ERROR_OUT_OF_MEMORY;
    if (m->result)
        return NULL;
    if (host)
        memset(p, 0, bytes);
    return p;
}

static void rings_write(struct making *m, void *to, const void *from, size_t bytes)
{
    if (!m->result)
        m->result = mt_sanitizer()->MemcpyHostToDeviceAsync(to, (void *)(uintptr_t)from, bytes, m->stream);
}

static uint64_t rings_slots(void)
{
    uint64_t n = 32;
    while (n < mt_options()->ring_slots)
        n *= 2;
    return n;
}

/* Host memory of the API has one address for host and device (unified addressing). */
static void rings_make(struct making *m, struct mt_inject_rings *r)
{
    struct mt_gpu_ring image[MT_GPU_RINGS] = {0};
    uint64_t count = rings_slots();
    size_t bytes = count * sizeof(struct mt_slot);
    char *slots = rings_memory(m, MT_GPU_RINGS * bytes, 1);
    char *tails = rings_memory(m, MT_GPU_RINGS * 64, 1); /* a line each */
    r->on_device = rings_memory(m, sizeof image, 0);
    for (unsigned i = 0; i < MT_GPU_RINGS && !m->result; i++) {
        r->rings[i].slots = (struct mt_slot *)(void *)(slots + i * bytes);
        r->rings[i].tail = (uint64_t *)(void *)(tails + i * 64);
        r->rings[i].mask = count - 1;
        image[i].slots = (uint64_t)(uintptr_t)r->rings[i].slots;
        image[i].tail = (uint64_t)(uintptr_t)r->rings[i].tail;
        image[i].mask = count - 1;
    }
    rings_write(m, r->on_device, image, sizeof image);
}

static void rule_make(struct making *m, struct mt_inject_rings *r)
{
    const struct mt_cta_rule *rule = mt_selection_ctas();
    void *p = rule ? rings_memory(m, sizeof *rule, 0) : NULL;
    if (rule)
        rings_write(m, p, rule, sizeof *rule);
    r->ctas = (uint64_t)(uintptr_t)p;
}

static void contexts_make(struct making *m, struct mt_inject_rings *r, uint64_t code)
{
    struct mt_gpu_context *image = calloc(MT_GPU_CONTEXTS, sizeof *image);
    r->contexts = rings_memory(m, MT_GPU_CONTEXTS * sizeof *image, 0);
    if (!image)
        m->result = SANITIZER_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < MT_GPU_CONTEXTS && image; i++) {
        image[i].rings = (uint64_t)(uintptr_t)r->on_device;
        image[i].ring_mask = MT_GPU_RINGS - 1;
        image[i].id = i;
        image[i].ctas = r->ctas;
        image[i].spaces = mt_trace_compact() != 0;
        image[i].code = r->code[i] = code;
        r->free[r->nfree++] = MT_GPU_CONTEXTS - 1 - i;
    }
    rings_write(m, r->contexts, image, MT_GPU_CONTEXTS * sizeof *image);
    if (!m->result) /* kernels of other streams shall find it; and `image` goes */
        m->result = mt_sanitizer()->StreamSynchronize(m->stream);
    free(image);
}

/* What is half made is the driver's until the context is destroyed. */
struct mt_inject_rings *mt_rings_new(CUcontext context, uint64_t code, char *why, size_t size)
{
    struct making m = {context, NULL, SANITIZER_SUCCESS};
    struct mt_inject_rings *r = calloc(1, sizeof *r);
    if (!r)
        m.result = SANITIZER_ERROR_OUT_OF_MEMORY;
    if (!m.result)
        m.result = mt_sanitizer()->GetStreamHandle(context, NULL, &m.stream);
    if (!m.result) {
        rings_make(&m, r);
        rule_make(&m, r);
        contexts_make(&m, r, code);
    }
    if (m.result) {
        snprintf(why, size, "no memory for records: %s", mt_sanitizer_text(m.result));
        free(r);
        return NULL;
    }
    pthread_mutex_lock(&lending);
    r->next = all;
    all = r;
    pthread_mutex_unlock(&lending);
    return r;
}

/* Called with `polling`: what runs still shall not wait for room. */
static void rings_shut(struct mt_inject_rings *r)
{
    for (unsigned i = 0; i < MT_GPU_RINGS; i++) {
        r->rings[i].damaged = 1;
        mt_ring_publish(&r->rings[i]);
        r->passed[i] = MT_RING_CLOSED;
    }
}

void mt_rings_retire(struct mt_inject_rings *r)
{
    pthread_mutex_lock(&polling);
    if (!r->retired)
        rings_shut(r);
    r->retired = 1;
    pthread_mutex_unlock(&polling);
}

void mt_rings_close(void)
{
    pthread_mutex_lock(&polling);
    closed = 1;
    for (struct mt_inject_rings *r = all; r; r = r->next)
        if (!r->retired)
            rings_shut(r);
    pthread_mutex_unlock(&polling);
}

int mt_rings_closed(void)
{
    return closed;
}

int mt_rings_damaged(const struct mt_inject_rings *r)
{
    return r->damaged;
}

/* ---- contexts ----------------------------------------------------------------------------------- */

static struct timespec rings_in_ms(unsigned ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* The context of f knows a place near pc. In the order of the stream: its last launch has ended. */
static int rings_place(struct mt_inject_rings *r, uint32_t i, uint64_t pc, Sanitizer_StreamHandle stream)
{
    uint64_t near = pc & ~15ull;
    if (!pc || pc - r->code[i] + CODE_REACH < 2 * CODE_REACH)
        return 0;
    if (mt_sanitizer()->MemcpyHostToDeviceAsync(&r->contexts[i].code, &near, sizeof near, stream))
        return -1;
    r->code[i] = near;
    return 0;
}

/* Called with the lock. */
static void rings_give(struct mt_inject_rings *r, struct mt_flight *f)
{
    uint32_t i = r->free[--r->nfree];
    f->place = r;
    f->context = i;
    f->generation = ++r->lending[i] ? r->lending[i] : ++r->lending[i];
    f->code = r->code[i];
    r->before[i] = r->came[i];
    r->trace[i] = f->launch.trace;
    r->used = i >= r->used ? i + 1 : r->used;
    r->unseen = 1;
    atomic_store(&r->flight[i], f);
}

void *mt_rings_lend(struct mt_inject_rings *r, struct mt_flight *f, uint64_t pc,
                    Sanitizer_StreamHandle stream, unsigned ms)
{
    const struct timespec end = rings_in_ms(ms);
    pthread_mutex_lock(&lending);
    while (!r->nfree && pthread_cond_timedwait(&returned, &lending, &end) != ETIMEDOUT)
        ;
    int got = r->nfree != 0;
    if (got)
        rings_give(r, f);
    pthread_mutex_unlock(&lending);
    if (!got)
        return NULL;
    if (rings_place(r, f->context, pc, stream)) {
        mt_rings_return(f);
        f->place = NULL;
        return NULL;
    }
    f->code = r->code[f->context];
    return (char *)(r->contexts + f->context) + (r->ctas ? MT_CONTEXT_IN_PARTS : 0);
}

/* Nothing more can come of it. */
static int rings_is_done(const struct mt_flight *f)
{
    int by_threads = !f->exits || f->exited >= f->exits;
    return f->cancelled || (!f->gone && f->taken >= f->counted && by_threads);
}

/* One that may still be written to, nobody gets any more: records would come into another launch's trace. */
void mt_rings_return(struct mt_flight *f)
{
    struct mt_inject_rings *r = (struct mt_inject_rings *)(uintptr_t)f->place;
    if (!r)
        return;
    pthread_mutex_lock(&lending);
    atomic_store(&r->flight[f->context], NULL);
    if (f->counted > f->taken) /* that was said, and is not to be said again */
        r->came[f->context] += f->counted - f->taken;
    if (rings_is_done(f) || !f->queue)
        r->free[r->nfree++] = f->context;
    pthread_cond_broadcast(&returned);
    pthread_mutex_unlock(&lending);
}

/* ---- looks at the device ------------------------------------------------------------------------- */

static uint64_t rings_records(const struct mt_gpu_context *c)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < MT_GPU_COUNTERS; i++)
        n += c->records[i];
    return n;
}

int mt_rings_unseen(const struct mt_inject_rings *r)
{
    return r->unseen;
}

static void look_at_lendings(struct mt_inject_rings *r, struct mt_rings_look *l)
{
    pthread_mutex_lock(&lending);
    l->top = r->used;
    r->unseen = 0;
    for (unsigned i = 0; i < l->top; i++)
        r->unseen |= !(l->lending[i] = r->flight[i] ? 0 : r->lending[i]);
    pthread_mutex_unlock(&lending);
}

SanitizerResult mt_rings_look(struct mt_inject_rings *r, struct mt_rings_look *l,
                              Sanitizer_StreamHandle stream)
{
    struct mt_gpu_ring heads[MT_GPU_RINGS];
    look_at_lendings(r, l);
    struct mt_gpu_context *contexts = malloc((l->top + 1) * sizeof *contexts);
    if (!contexts)
        return SANITIZER_ERROR_OUT_OF_MEMORY;
    SanitizerResult e = mt_sanitizer()->MemcpyDeviceToHost(heads, r->on_device, sizeof heads, stream);
    if (!e && l->top)
        e = mt_sanitizer()->MemcpyDeviceToHost(contexts, r->contexts, l->top * sizeof *contexts, stream);
    for (unsigned i = 0; i < MT_GPU_RINGS && !e; i++)
        l->heads[i] = heads[i].head;
    for (unsigned i = 0; i < l->top && !e; i++)
        l->records[i] = rings_records(&contexts[i]);
    free(contexts);
    return e;
}

int mt_rings_passed(const struct mt_inject_rings *r, const struct mt_rings_look *l)
{
    int passed = 1;
    for (unsigned i = 0; i < MT_GPU_RINGS && !r->retired; i++)
        passed &= r->passed[i] >= l->heads[i];
    return passed;
}

uint64_t mt_rings_counted(const struct mt_rings_look *l, const struct mt_flight *f)
{
    const struct mt_inject_rings *r = f->place;
    return f->context < l->top ? l->records[f->context] - r->before[f->context] : 0;
}

void mt_rings_compare(struct mt_inject_rings *r, const struct mt_rings_look *l,
                      void (*differs)(struct mt_trace *trace, uint64_t made, uint64_t came))
{
    for (unsigned i = 0; i < l->top; i++) {
        pthread_mutex_lock(&lending);
        int same = l->lending[i] && l->lending[i] == r->lending[i] && !r->flight[i];
        uint64_t came = r->came[i];
        if (same && came != l->records[i])
            r->came[i] = l->records[i];
        pthread_mutex_unlock(&lending);
        if (same && came != l->records[i])
            differs(r->trace[i], l->records[i], came);
    }
}

/* ---- the reader --------------------------------------------------------------------------------- */

static void rings_complain(void *rings)
{
    struct mt_inject_rings *r = rings;
    if (!r->damaged)
        mt_report("a GPU wrote something that is not a record into a ring (did the program write out of "
                  "bounds?); traces of kernels under way are incomplete, and later kernels run without");
    r->damaged = 1;
}

static void rings_came(void *rings, uint32_t context, uint64_t records, int known)
{
    struct mt_inject_rings *r = rings;
    r->came[context] += records;
    if (!known && records)
        mt_trace_miss(r->trace[context], "records of a launch came after it was thought to have ended");
}

static unsigned rings_drain(struct mt_inject_rings *r)
{
    static const struct mt_readers_ops ops = {rings_came, rings_complain};
    struct mt_readers_ring rings[MT_GPU_RINGS];
    for (unsigned i = 0; i < MT_GPU_RINGS; i++)
        rings[i] = (struct mt_readers_ring){&r->rings[i], r->flight, MT_GPU_CONTEXTS, r};
    unsigned packets = mt_readers_drain(rings, MT_GPU_RINGS, MT_GPU_BATCH, &ops);
    for (unsigned i = 0; i < MT_GPU_RINGS; i++)
        r->passed[i] = r->rings[i].damaged ? MT_RING_CLOSED : r->rings[i].at;
    return packets;
}

static unsigned rings_poll(void)
{
    unsigned packets = 0;
    pthread_mutex_lock(&polling);
    for (struct mt_inject_rings *r = closed ? NULL : all; r; r = r->next)
        packets += r->retired ? 0 : rings_drain(r);
    pthread_mutex_unlock(&polling);
    return packets;
}

int mt_rings_wake(void)
{
    static const struct mt_reader_ops ops = {rings_poll, mt_rings_return, mt_inject_streams_close};
    return mt_reader_wake(&ops);
}
