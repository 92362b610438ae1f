/* Atomic mode: one instruction between begin and end, and the buffers of a thread. */
#include "atomic.h"
#include "order.h"
#include "format/host_text.h"
#include <stdio.h>

/* The usual case of mt_order_acquire: one operand inside one block. Returns the lock, now held, or NULL if
 * it is another case. */
static int order_acquire_one(struct mt_core_thread_state *t, uint64_t address, uint32_t size)
{
    uint64_t block = address >> mt_order_shift;
    if ((address + size - (size != 0)) >> mt_order_shift != block)
        return 0;
    uint32_t index = (uint32_t)block & mt_order_mask;
    t->lock_at[0] = index;
    t->held = 1;
    mt_order_take(&mt_order_bank[index], t->slot + 1);
    return 1;
}

#define RESERVE (MT_CORE_OPERANDS + 16u) /* entries reserved for one access and an event */
#define AHEAD 32                         /* number of entries to prefetch ahead */
#define PIECE 8192u                      /* bytes of text collected for the sink */

static struct mt_core_thread_state nobody;
static char *nobody_text;

struct mt_core_thread_state *mt_atomic_nobody(void)
{
    return &nobody;
}

int mt_atomic_open(char *why, unsigned size)
{
    nobody = (struct mt_core_thread_state){.name = MT_NAMELESS, .number = UINT64_MAX};
    nobody.buffer = mt_core_sink_buffer(MT_BUFFER_TIMED, UINT64_MAX, 0);
    nobody.text = nobody_text = mt_plat_map(PIECE);
    if (nobody.buffer && nobody.text)
        return 0;
    snprintf(why, size, "out of memory");
    return -1;
}

/* ---- buffers ---- */

static void atomic_append(struct mt_core_thread_state *t, uint64_t address, uint64_t time, uint32_t site,
                          uint32_t size)
{
    if (mt_turns(t)) {
        mt_turns_append(t, address, time, site, size);
        return;
    }
    struct mt_host_timed_entry *e = &t->buffer->timed[t->buffer->count++];
    __asm__ volatile("prefetchw %0" : : "m"(e[AHEAD])); /* the worker's core had the line last */
    *e = (struct mt_host_timed_entry){address, time, site, size};
}

/* Text of the buffer, in pieces of whole lines. */
struct piece {
    char *text;
    size_t bytes;
};

static void piece_out(struct piece *p)
{
    if (p->bytes)
        mt_core_sink_text(p->text, p->bytes);
    p->bytes = 0;
}

static void piece_access(struct piece *p, const struct mt_core_thread_state *t, uint64_t time,
                         struct mt_text_access *a)
{
    if (p->bytes + MT_TEXT_LINE > PIECE)
        piece_out(p);
    p->bytes += mt_text_access(p->text + p->bytes, PIECE - p->bytes, time, t->name, a);
    *a = (struct mt_text_access){.has = 0};
}

static void piece_event(struct piece *p, const struct mt_core_thread_state *t,
                        const struct mt_host_timed_entry *e, const uint64_t *args, unsigned n)
{
    const char *name = n > 1 ? mt_function_name(args[0]) : "";
    for (int again = 0; again < 2; again++) {
        size_t bytes = mt_text_event(p->text + p->bytes, PIECE - p->bytes, e->time, t->name,
                                     (enum mt_host_event)e->size, args, n, name);
        p->bytes += bytes;
        if (bytes || !p->bytes)
            return;
        piece_out(p);
    }
}

static uint32_t size_of(const struct mt_host_timed_entry *e, const struct mt_core_kept_site *s)
{
    return e->size ? e->size : s->size[MT_HOST_OPERAND(e->site)];
}

static void atomic_print(struct mt_core_thread_state *t)
{
    const struct mt_host_timed_entry *e = t->buffer->timed, *end = e + t->buffer->count;
    struct piece p = {t->text, 0};
    struct mt_text_access a = {.has = 0};
    while (e < end) {
        uint64_t time = e->time;
        if (e->site) {
            for (; e < end && e->site && e->time == time; e++) {
                struct mt_core_kept_site *s = mt_site_of(e->site);
                if (s)
                    mt_text_access_add(&a, (enum mt_host_op)s->op[MT_HOST_OPERAND(e->site)], e->address,
                                       size_of(e, s));
            }
            piece_access(&p, t, time, &a);
            continue;
        }
        const struct mt_host_timed_entry *event = e;
        uint64_t args[8] = {e->address};
        unsigned n = 1;
        for (e++; e < end && !e->site && !e->size && n < 8; e++)
            args[n++] = e->address;
        piece_event(&p, t, event, args, n);
    }
    piece_out(&p);
    t->buffer->count = 0;
}

void mt_atomic_flush(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer, *other;
    if (mt_turns(t)) {
        mt_turns_close(t);
        b->count = mt_turns_count(t);
    }
    if (!b->count)
        return;
    if (!mt_g.o->container) {
        uint64_t time = b->timed[b->count - 1].time;
        atomic_print(t);
        /* Only once it is in the file: others read it without our lock and write up to -d further. */
        __atomic_store_n(&t->written, time, __ATOMIC_RELEASE);
        return;
    }
    other = mt_core_sink_buffer(b->kind, t->number, mt_seq_now());
    if (other) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        mt_thread_lost(t, b->count);
        b->count = 0;
    }
    mt_atomic_fresh(t);
}

static int atomic_full(const struct mt_core_thread_state *t)
{
    return mt_turns(t) ? mt_turns_full(t) : t->buffer->count >= MT_BUFFER_TIMED_MAX - RESERVE;
}

void mt_atomic_publish(struct mt_core_thread_state *t)
{
    if (!mt_g.o->container || atomic_full(t))
        mt_atomic_flush(t);
}

static inline int due_now(struct mt_core_thread_state *t)
{
    t->accesses++;
    return atomic_full(t) || (!mt_g.o->container && t->accesses >= mt_g.o->flush);
}

int mt_atomic_due(struct mt_core_thread_state *t)
{
    return due_now(t);
}

void mt_atomic_write(struct mt_core_thread_state *t, uint64_t time)
{
    if (!mt_g.o->container)
        mt_lag_control(time);
    mt_spin_lock(&t->lock);
    t->accesses = 0;
    if (t->buffer)
        mt_atomic_flush(t);
    mt_spin_unlock(&t->lock);
}

void mt_atomic_event(struct mt_core_thread_state *t, uint64_t time, enum mt_host_event kind,
                     const uint64_t *args, unsigned n)
{
    if (!t->buffer)
        return;
    mt_turns_close(t);
    atomic_append(t, n ? args[0] : 0, time, 0, (uint32_t)kind);
    for (unsigned i = 1; i < n; i++)
        atomic_append(t, args[i], time, 0, 0);
    t->time = time;
}

/* ---- one instruction ---- */

int mt_atomic_traced(const struct mt_core_thread_state *t)
{
    return t->name >= 0 && (!mt_g.o->roi || __atomic_load_n(&mt_g.in_roi, __ATOMIC_RELAXED));
}

static void atomic_keep(struct mt_core_thread_state *t, const struct mt_core_operand *operands,
                        unsigned count)
{
    t->count = count > MT_CORE_OPERANDS ? MT_CORE_OPERANDS : count;
    mt_count(&t->lost, count - t->count);
    for (unsigned i = 0; i < t->count; i++)
        t->operand[i] = operands[i];
}

/* Returns 1 if the access is logged. t->busy = 0 must always follow. */
static inline int atomic_begin(struct mt_core_thread_state *t)
{
    t->busy = 1;
    if (t->held)
        mt_order_release(t, 0);
    __atomic_store_n(&t->pending, mt_on() && mt_atomic_traced(t), __ATOMIC_RELAXED);
    return t->pending;
}

/* Returns 1 if it needs address locks. */
static inline int atomic_locks(struct mt_core_thread_state *t)
{
    return !mt_g.o->test && !(mt_g.e->marks && (mt_turns(t) || t->turn) && mt_alone_begin(t));
}

void mt_core_atomic_begin(struct mt_core_thread *pub, const struct mt_core_operand *operands, unsigned count)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!t || t->busy || !t->live)
        return;
    if (atomic_begin(t)) {
        atomic_keep(t, operands, count);
        if (atomic_locks(t))
            mt_order_acquire(t);
    }
    t->busy = 0;
}

void mt_core_atomic_begin_one(struct mt_core_thread *pub, uint64_t address, uint32_t site, uint32_t size)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!t || t->busy || !t->live)
        return;
    if (atomic_begin(t)) {
        t->operand[0] = (struct mt_core_operand){address, site, size};
        t->count = 1;
        if (atomic_locks(t) && !order_acquire_one(t, address, size))
            mt_order_acquire(t);
    }
    t->busy = 0;
}

/* Writes entries of the operands from `time` on; data beyond one line gets a line and a time of its own.
 * Returns the last time. */
static uint64_t log_access(struct mt_core_thread_state *t, uint64_t time)
{
    struct mt_text_access a = {.has = 0};
    for (unsigned i = 0; i < t->count; i++) {
        const struct mt_core_operand *o = &t->operand[i];
        struct mt_core_kept_site *s = mt_site_of(o->site);
        if (!s)
            continue;
        uint32_t k = MT_HOST_OPERAND(o->site);
        if (!mt_text_access_add(&a, (enum mt_host_op)s->op[k], o->address, o->size ? o->size : s->size[k])) {
            a = (struct mt_text_access){.has = 0};
            time++;
            mt_text_access_add(&a, (enum mt_host_op)s->op[k], o->address, o->size ? o->size : s->size[k]);
        }
        atomic_append(t, o->address, time, o->site, o->size);
    }
    return time;
}

static void mark_failed(struct mt_core_thread_state *t)
{
    for (unsigned i = 0; i < t->count; i++) {
        struct mt_core_kept_site *s = mt_site_of(t->operand[i].site);
        if (s && s->op[MT_HOST_OPERAND(t->operand[i].site)] == MT_HOST_CAS)
            t->operand[i].site = mt_site_twin(t->operand[i].site);
    }
}

/* Ends the usual case: one operand under one lock, and no compare-and-swap. */
static inline void end_one(struct mt_core_thread_state *t)
{
    struct mt_address_lock *l = &mt_order_bank[t->lock_at[0]];
    const struct mt_core_operand *o = &t->operand[0];
    mt_spin_lock(&t->lock);
    uint64_t last = __atomic_load_n(&l->time, __ATOMIC_RELAXED), time = (last > t->time ? last : t->time) + 1;
    atomic_append(t, o->address, time, o->site, o->size);
    t->time = time;
    t->held = 0;
    __atomic_store_n(&l->time, time, __ATOMIC_RELAXED);
    __atomic_store_n(&l->owner, 0, __ATOMIC_RELEASE);
    int due = due_now(t);
    mt_spin_unlock(&t->lock);
    if (__builtin_expect(due, 0))
        mt_atomic_write(t, time);
}

static __attribute__((noinline)) void write_alone(struct mt_core_thread_state *t)
{
    unsigned busy = t->busy;
    t->busy = 1;
    mt_atomic_write(t, t->time);
    t->busy = busy;
}

static void log_alone(struct mt_core_thread_state *t, const struct mt_core_operand *operands, unsigned count,
                      int failed)
{
    mt_turns_close(t);
    uint64_t time = mt_order_tick(t->time);
    atomic_keep(t, operands, count);
    if (failed && !mt_g.o->failed)
        mark_failed(t);
    for (uint64_t last = log_access(t, time); time < last;)
        time = mt_order_tick(time);
    t->time = time;
    if (mt_atomic_due(t))
        write_alone(t);
    mt_turns_open(t);
}

/* Ends an access of a thread that is alone; `pending` stays set until all is logged, since the thread that
 * ends this state waits for it. */
static void end_alone(struct mt_core_thread_state *t, const struct mt_core_operand *operands, unsigned count,
                      int failed)
{
    if (mt_on() && (count || t->count))
        log_alone(t, count ? operands : t->operand, count ? count : t->count, failed);
    __atomic_store_n(&t->pending, 0, __ATOMIC_RELEASE);
}

void mt_core_atomic_end(struct mt_core_thread *pub, const struct mt_core_operand *operands, unsigned count,
                        int failed)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!t || t->busy || !t->pending)
        return;
    t->busy = 1;
    if (mt_alone(t)) {
        end_alone(t, operands, count, failed);
        t->busy = 0;
        return;
    }
    t->pending = 0;
    if (count)
        atomic_keep(t, operands, count);
    if (t->count == 1 && t->held == 1 && !failed && mt_on()) {
        end_one(t);
        t->busy = 0;
        return;
    }
    if (failed && !mt_g.o->failed)
        mark_failed(t);
    int due = 0;
    uint64_t time = mt_order_time(t);
    mt_spin_lock(&t->lock);
    if (mt_on() && t->count) {
        time = log_access(t, (time > t->time ? time : t->time) + 1);
        t->time = time;
        mt_order_release(t, time);
        due = mt_atomic_due(t);
    } else {
        mt_order_release(t, 0);
    }
    mt_spin_unlock(&t->lock);
    if (due)
        mt_atomic_write(t, time);
    t->busy = 0;
}

void mt_core_atomic_alone(struct mt_core_thread *pub, const struct mt_core_operand *operands, unsigned count,
                          int failed)
{
    struct mt_core_thread_state *t = pub->state;
    if (t->busy || !t->live || !mt_on() || !mt_atomic_traced(t) || !count)
        return;
    log_alone(t, operands, count, failed);
}

void mt_core_atomic_alone_one(struct mt_core_thread *pub, uint64_t address, uint32_t site, uint32_t size)
{
    struct mt_core_thread_state *t = pub->state;
    if (t->busy || !t->live || !mt_on() || !mt_atomic_traced(t))
        return;
    mt_turns_close(t);
    uint64_t time = mt_order_tick(t->time);
    t->time = time;
    atomic_append(t, address, time, site, size);
    if (__builtin_expect(due_now(t), 0))
        write_alone(t);
    mt_turns_open(t);
}

/* Returns the operand of begin; 0: not exactly one. */
static int drop_pending(struct mt_core_thread_state *t, struct mt_core_operand *what)
{
    int one = t->pending && t->count == 1;
    *what = t->operand[0];
    if (t->held)
        mt_order_release(t, 0);
    __atomic_store_n(&t->pending, 0, __ATOMIC_RELEASE);
    return one;
}

/* Drops the last appended access. */
static int drop_appended(struct mt_core_thread_state *t, struct mt_core_operand *what)
{
    if (t->pub.cur <= t->mark)
        return 0;
    const struct mt_host_entry *e = t->pub.cur - 1;
    *what = (struct mt_core_operand){e->address, e->site, e->size};
    __atomic_store_n(&t->pub.cur, t->pub.cur - 1, __ATOMIC_RELEASE);
    return 1;
}

int mt_core_atomic_drop(struct mt_core_thread *pub, struct mt_core_operand *what)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    struct mt_core_operand unused;
    if (!t || t->busy)
        return 0;
    what = what ? what : &unused;
    int one = pub->open && !t->pending && mt_alone(t) ? drop_appended(t, what) : drop_pending(t, what);
    __atomic_store_n(&pub->open, 0, __ATOMIC_RELEASE);
    return one;
}

/* ---- threads ---- */

static void log_start(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    t->name = (int64_t)t->number;
    mt_atomic_event(t, time, MT_HOST_EV_THREAD_START, &t->number, 1);
    mt_atomic_publish(t); /* a merger must see the thread before later times of others */
}

void mt_atomic_start(struct mt_core_thread_state *t)
{
    t->busy = 1;
    t->text = mt_g.o->container ? NULL : mt_plat_map(PIECE);
    if (!mt_g.o->container && !t->text)
        mt_core_fail("out of memory for a thread's text");
    else if (!mt_g.o->registered)
        mt_order_sync(t, log_start, NULL);
    t->busy = 0;
}

static void log_end(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    if (t->name >= 0)
        mt_atomic_event(t, time, MT_HOST_EV_THREAD_END, NULL, 0);
    mt_atomic_flush(t);
    t->name = MT_NAMELESS;
}

void mt_atomic_end(struct mt_core_thread_state *t)
{
    t->pending = 0;
    if (t->held)
        mt_order_release_dead(t);
    mt_order_sync(t, log_end, NULL);
    mt_plat_unmap(t->text, PIECE);
    t->text = NULL;
}

void mt_atomic_stop(struct mt_core_thread_state *t)
{
    if (mt_turns(t)) { /* its thread may still append after this */
        t->buffer->count = mt_turns_count(t);
        mt_core_sink_put(t->buffer);
    } else if (t->text || mt_g.o->container)
        mt_atomic_flush(t);
}

/* Ends threads in text: at the program's end, for those that still ran. */
static void atomic_ends(void)
{
    char line[MT_TEXT_LINE];
    uint64_t time = nobody.time;
    for (uint32_t i = 0; i < mt_g.slots; i++)
        if (mt_g.slot[i]->time > time)
            time = mt_g.slot[i]->time;
    for (uint32_t i = 0; i < mt_g.slots; i++) {
        const struct mt_core_thread_state *t = mt_g.slot[i];
        if (t->live && t->name >= 0)
            mt_core_sink_text(line, mt_text_event(line, sizeof line, ++time, t->name, MT_HOST_EV_THREAD_END,
                                                  NULL, 0, NULL));
    }
}

void mt_atomic_close(int killed)
{
    mt_atomic_flush(&nobody);
    if (!mt_g.o->container && !killed && !mt_g.incomplete && !mt_threads_sum().lost)
        atomic_ends();
}
