/* Atomic mode: one instruction between begin and end, and the buffers of a thread. */
#include "atomic.h"
#include "format/container/writer.h"
#include "format/host_text.h"

#include <stdio.h>

/* Keeps the threads' times in the file together, so that a merger needs little memory: a thread that lags
 * by more than -d is written out, and if its clock lags too, moved on with a thread_sync. Ended and
 * nameless threads do not count. Bound: let M be the newest time at a check. All threads are then in the
 * file at M - d or later. A thread makes at most -a accesses until its own check, and each access moves
 * the newest clock on by one (one more for each further line of its operands), as does a start or an end.
 * So no time in the file exceeds M + a x threads + starts and ends since. */

static uint64_t oldest; /* oldest time of all named threads at the last check; never too new */

static void catch_up(struct mt_core_thread_state *t, uint64_t time)
{
    mt_spin_lock(&t->lock);
    if (t->live && t->name >= 0 && t->written + mt_g.o->lag < time) {
        /* A thread with nothing new to write must still state how far it is. Its clock does not tell: a
         * start or end of others moves it on without an entry. */
        uint32_t n = t->buffer->count;
        uint64_t last = n ? t->buffer->timed[n - 1].time : t->written;
        if (last + mt_g.o->lag / 2 < time)
            mt_atomic_event(t, t->time > time ? t->time : time, MT_HOST_EV_THREAD_SYNC, NULL, 0);
        mt_atomic_flush(t);
    }
    mt_spin_unlock(&t->lock);
}

/* Writes out threads until none's time in the file is further below `time` than -d allows, so that `time` may
 * be written. No lock is held. */
static void lag_control(uint64_t time)
{
    if (__atomic_load_n(&oldest, __ATOMIC_ACQUIRE) + mt_g.o->lag >= time)
        return;
    uint64_t min = time;
    mt_spin_lock(&mt_g.threads_lock);
    for (uint32_t i = 0; i < mt_g.slots; i++) {
        struct mt_core_thread_state *t = mt_g.slot[i];
        if (!t->live || t->name < 0)
            continue;
        if (__atomic_load_n(&t->written, __ATOMIC_ACQUIRE) + mt_g.o->lag < time)
            catch_up(t, time);
        uint64_t written = __atomic_load_n(&t->written, __ATOMIC_ACQUIRE);
        if (written < min)
            min = written;
    }
    __atomic_store_n(&oldest, min, __ATOMIC_RELEASE);
    mt_spin_unlock(&mt_g.threads_lock);
}

/* Atomic mode under an engine that runs one thread at a time, into a compact trace: during its turn a
 * thread's accesses have consecutive times. They are appended without times, as in mat mode; where a time
 * is not the next one, an entry states how much later it is (mt_mtc_encode_counted). */

#define SPARE                                                                                                \
    (2 * MT_CORE_OPERANDS + 32u) /* reserved entries: one instruction, with a time shift per operand, and    \
                                  * an event */

static struct mt_host_entry *limit_of(const struct mt_core_thread_state *t)
{
    return t->buffer->entry + MT_BUFFER_ENTRIES_MAX - SPARE;
}

enum mt_buffer_kind mt_atomic_kind(void)
{
    int turns = mt_g.o->mode == MT_CORE_INSN ? mt_g.e->insn_turns : mt_g.e->addresses_late;
    return turns && mt_g.o->container && !mt_g.o->test ? MT_BUFFER_COUNTED : MT_BUFFER_TIMED;
}

void mt_atomic_fresh(struct mt_core_thread_state *t)
{
    if (t->buffer->kind != MT_BUFFER_COUNTED)
        return;
    t->mark = t->buffer->entry;
    t->running = mt_g.o->mode == MT_CORE_INSN; /* its order begins with 0, which is 1 here */
    __atomic_store_n(&t->pub.cur, t->mark, __ATOMIC_RELEASE);
}

/* Returns the number of times taken by entries from the mark on: one each in atomic mode, as others are
 * not appended there. */
static uint64_t turns_steps(const struct mt_core_thread_state *t, const struct mt_host_entry *end)
{
    uint64_t n = 0;
    if (mt_g.o->mode == MT_CORE_ATOMIC)
        return (uint64_t)(end - t->mark);
    for (const struct mt_host_entry *e = t->mark; e < end; e++)
        n += !MT_HOST_OPERAND(e->site);
    return n;
}

void mt_turns_close(struct mt_core_thread_state *t)
{
    if (!mt_turns(t))
        return;
    __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
    uint64_t n = turns_steps(t, t->pub.cur);
    t->mark = t->pub.cur;
    t->running += n;
    if (n)
        t->time = t->running;
    if (t->time > mt_order_alone)
        mt_order_alone = t->time;
}

static void turns_put(struct mt_core_thread_state *t, struct mt_host_entry e)
{
    *t->mark = e;
    __atomic_store_n(&t->pub.cur, ++t->mark, __ATOMIC_RELEASE);
}

/* Makes the next entry's time `time`, or one after it. */
static void turns_move(struct mt_core_thread_state *t, uint64_t time)
{
    if (time != t->running)
        turns_put(t, (struct mt_host_entry){time - t->running, 0, MT_MTC_SHIFT});
    t->running = time;
}

void mt_turns_open(struct mt_core_thread_state *t)
{
    if (!mt_turns(t) || !t->turn || !t->live || !mt_on() || !mt_atomic_traced(t) || mt_turns_full(t))
        return;
    t->time = t->time > mt_order_alone ? t->time : mt_order_alone;
    turns_move(t, t->time);
    __atomic_store_n(&t->pub.limit, limit_of(t), __ATOMIC_SEQ_CST);
    if (!mt_on() ||
        !__atomic_load_n(&t->turn, __ATOMIC_SEQ_CST)) /* switched off meanwhile, or not alone any more */
        __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
}

void mt_turns_append(struct mt_core_thread_state *t, uint64_t address, uint64_t time, uint32_t site,
                     uint32_t size)
{
    turns_move(t, time - (site && !MT_HOST_OPERAND(site)));
    turns_put(t, (struct mt_host_entry){address, site, size});
    t->running = time;
}

int mt_turns_full(const struct mt_core_thread_state *t)
{
    return t->pub.cur >= limit_of(t);
}

/* Returns the count without a shift at the end, which belongs to an entry that has not come. */
static uint64_t turns_count(const struct mt_core_thread_state *t)
{
    const struct mt_host_entry *e = t->buffer->entry;
    uint64_t n = (uint64_t)(__atomic_load_n(&t->pub.cur, __ATOMIC_ACQUIRE) - e);
    return n - (n && !e[n - 1].site && e[n - 1].size == MT_MTC_SHIFT);
}

/* Begins a turn; the first access opens the buffer, as it knows whether there is anything to record. */
void mt_core_turn_begin(struct mt_core_thread *pub)
{
    pub->state->turn = 1;
}

void mt_core_turn_open(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub->state;
    if (t->busy)
        return;
    mt_turns_close(t);
    if (mt_turns(t) && mt_turns_full(t))
        mt_atomic_write(t, t->time);
    mt_turns_open(t);
}

void mt_core_turn_end(struct mt_core_thread *pub)
{
    mt_turns_close(pub->state);
    pub->state->turn = 0;
}

/* Ends the turn of a sleeping thread. Its own marks stay: it notices at its next access, which must wait
 * for its turn. */
void mt_core_turn_stolen(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub->state;
    if (!mt_turns(t))
        return;
    __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_SEQ_CST);
    uint64_t time = t->running + turns_steps(t, __atomic_load_n(&t->pub.cur, __ATOMIC_ACQUIRE));
    if (time > mt_order_alone)
        mt_order_alone = time;
}

/* ---- Address locks and clocks of atomic mode ---- */

#define ALL UINT32_MAX
#define STEAL_NS 2000000000u

uint64_t mt_order_alone;

struct mt_address_lock *mt_order_bank;
uint32_t mt_order_mask;
unsigned mt_order_shift;

int mt_order_start(char *why, unsigned size)
{
    uint32_t locks = mt_g.e->addresses_late ? 1 : (uint32_t)mt_g.o->locks;
    mt_order_mask = locks - 1;
    mt_order_shift = (unsigned)__builtin_ctzll(mt_g.o->block);
    /* The default was not requested: no message on the program's stderr then. */
    if (mt_g.e->addresses_late && mt_g.o->locks > 1 && mt_g.o->locks != 64 && !mt_g.o->test)
        mt_plat_report("the %s engine learns addresses after the access: one address lock for all (-l 1)",
                       mt_g.e->name);
    mt_order_bank = mt_plat_map(locks * sizeof *mt_order_bank);
    if (mt_order_bank)
        return 0;
    snprintf(why, size, "no memory for %u address locks; give a smaller -l", locks);
    return -1;
}

/* ---- which locks ---- */

static void order_insert(struct mt_core_thread_state *t, uint32_t index)
{
    unsigned i = t->held;
    while (i && t->lock_at[i - 1] > index)
        i--;
    if (i && t->lock_at[i - 1] == index)
        return;
    for (unsigned k = t->held; k > i; k--)
        t->lock_at[k] = t->lock_at[k - 1];
    t->lock_at[i] = index;
    t->held++;
}

/* Chooses the locks, sorted and without duplicates; held = ALL if taking all is simpler. */
static void order_choose(struct mt_core_thread_state *t)
{
    t->held = 0;
    if (!t->count) {
        t->held = ALL;
        return;
    }
    for (unsigned i = 0; i < t->count; i++) {
        const struct mt_core_operand *o = &t->operand[i];
        uint64_t first = o->address >> mt_order_shift,
                 last = (o->address + (o->size ? o->size - 1 : 0)) >> mt_order_shift;
        if (last < first || last - first > mt_order_mask || last - first + 1 + t->held > MT_HELD_MAX) {
            t->held = ALL;
            return;
        }
        for (uint64_t b = first; b <= last; b++)
            order_insert(t, (uint32_t)b & mt_order_mask);
    }
}

/* ---- acquire and release ---- */

/* Waits for the lock, and takes it from a thread that left without releasing it (killed, longjmp out of a
 * handler), which must not stop all others. */
void mt_order_wait(struct mt_address_lock *l, uint32_t me)
{
    uint32_t owner = 0;
    uint64_t since = 0, time = 0;
    for (unsigned step = 0;; step++) {
        uint32_t now = __atomic_load_n(&l->owner, __ATOMIC_RELAXED);
        if (!now && __atomic_compare_exchange_n(&l->owner, &now, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        mt_plat_pause(step);
        if (step % 256 != 255 || !now)
            continue;
        uint64_t t = mt_plat_now_ns(), stamp = __atomic_load_n(&l->time, __ATOMIC_RELAXED);
        if (!since || now != owner || stamp != time || mt_core_sink_writing()) {
            owner = now;
            time = stamp;
            since = t;
        } else if (t - since > STEAL_NS &&
                   __atomic_compare_exchange_n(&l->owner, &now, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            if (!__atomic_exchange_n(&mt_g.incomplete, 1, __ATOMIC_RELAXED))
                mt_plat_report("a thread kept an address lock for 2 s and lost it; the order of its last "
                               "access is not sure");
            return;
        }
    }
}

/* Returns the number of locks that t holds. */
static uint32_t order_held(const struct mt_core_thread_state *t)
{
    return t->held == ALL ? mt_order_mask + 1 : t->held;
}

static struct mt_address_lock *lock_of(const struct mt_core_thread_state *t, uint32_t i)
{
    return &mt_order_bank[t->held == ALL ? i : t->lock_at[i]];
}

/* Takes the locks that cover the thread's operands (count 0: all) in order and puts them into t->lock_at. */
static void order_acquire(struct mt_core_thread_state *t)
{
    order_choose(t);
    for (uint32_t i = 0; i < order_held(t); i++)
        mt_order_take(lock_of(t, i), t->slot + 1);
}

/* Returns the newest time in the locks that t holds. */
static uint64_t order_time(const struct mt_core_thread_state *t)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < order_held(t); i++) {
        uint64_t time = __atomic_load_n(&lock_of(t, i)->time, __ATOMIC_RELAXED);
        max = time > max ? time : max;
    }
    return max;
}

void mt_order_release(struct mt_core_thread_state *t, uint64_t time)
{
    for (uint32_t i = 0; i < order_held(t); i++) {
        struct mt_address_lock *l = lock_of(t, i);
        if (time)
            __atomic_store_n(&l->time, time, __ATOMIC_RELAXED);
        __atomic_store_n(&l->owner, 0, __ATOMIC_RELEASE);
    }
    t->held = 0;
}

/* Releases the locks of a thread that may have died while it took them. */
static void order_release_dead(struct mt_core_thread_state *t)
{
    for (uint32_t i = 0; i < order_held(t); i++) {
        uint32_t me = t->slot + 1;
        __atomic_compare_exchange_n(&lock_of(t, i)->owner, &me, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
    t->held = 0;
}

/* ---- all threads at one time ---- */

static struct mt_core_thread_state *atomic_nobody(void);

void mt_order_sync(struct mt_core_thread_state *t,
                   void (*log)(struct mt_core_thread_state *t, uint64_t time, void *arg), void *arg)
{
    mt_spin_lock(&mt_g.threads_lock);
    if (t)
        mt_turns_close(t);
    uint64_t time = mt_g.latest;
    for (uint32_t i = 0; i < mt_g.slots; i++)
        if (mt_g.slot[i]->live) {
            mt_spin_lock(&mt_g.slot[i]->lock);
            time = mt_g.slot[i]->time > time ? mt_g.slot[i]->time : time;
        }
    mt_g.latest = ++time;
    for (uint32_t i = 0; i < mt_g.slots; i++)
        if (mt_g.slot[i]->live)
            mt_g.slot[i]->time = time;
    log(t ? t : atomic_nobody(), time, arg);
    for (uint32_t i = mt_g.slots; i-- > 0;)
        if (mt_g.slot[i]->live)
            mt_spin_unlock(&mt_g.slot[i]->lock);
    mt_spin_unlock(&mt_g.threads_lock);
}

/* Atomic mode without locks, for an engine with `marks` into a compact trace: a thread that is alone appends
 * its accesses without times, as in a turn, until another thread begins. Whoever starts that thread waits
 * until the access under way is over; an access is short and calls nothing. No atomic instruction is needed
 * in the first thread: it sets `open` or `pending` and then reads limit or `turn`; the other one changes
 * these, makes the kernel run a barrier in all threads, and then reads `open` and `pending`. So one of them
 * sees the other's change. The second thread's clock starts after the first one's (mt_order_sync), as do all
 * later times of both, so the address locks need no record of accesses made without them. */

#define WAIT_NS 2000000000u

static int alone_possible(void)
{
    return mt_g.e->marks && mt_g.o->mode == MT_CORE_ATOMIC && mt_g.o->container && !mt_g.o->test &&
           !mt_plat_barrier();
}

/* Switches the thread to times and locks (TIMED), or to neither (COUNTED). Its lock is held, and no access
 * of it is under way. */
static void alone_change(struct mt_core_thread_state *t, enum mt_buffer_kind kind)
{
    struct mt_buffer *b = t->buffer, *other;
    if (!mt_on() || !b || b->kind == kind)
        return;
    mt_turns_close(t);
    b->count = mt_turns(t) ? turns_count(t) : b->count;
    other = mt_core_sink_buffer(kind, t->number, mt_seq_now());
    if (other) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        mt_thread_lost(t, b->count);
        b->kind = kind;
        b->count = 0;
    }
    t->mark = NULL;
    mt_atomic_fresh(t);
}

static int alone_busy(const struct mt_core_thread_state *t)
{
    return __atomic_load_n(&t->pub.open, __ATOMIC_ACQUIRE) || __atomic_load_n(&t->pending, __ATOMIC_ACQUIRE);
}

/* Waits for the access under way. */
static void alone_wait(const struct mt_core_thread_state *t)
{
    uint64_t since = mt_plat_now_ns();
    for (unsigned step = 0; alone_busy(t); step++) {
        mt_plat_pause(step);
        if (mt_core_sink_writing())
            since = mt_plat_now_ns();
        else if (step % 256 == 255 && mt_plat_now_ns() - since > WAIT_NS) {
            mt_core_incomplete(
                "a thread was for 2 s in one access; the order of its last accesses is not sure");
            return;
        }
    }
}

static void alone_end(struct mt_core_thread_state *t)
{
    __atomic_store_n(&t->turn, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_SEQ_CST);
    if (mt_plat_barrier())
        mt_core_incomplete("no barrier between threads (membarrier); the order of some accesses is not sure");
    alone_wait(t);
    mt_spin_lock(&t->lock);
    alone_change(t, MT_BUFFER_TIMED);
    mt_spin_unlock(&t->lock);
}

/* Returns a live thread other than `but`. */
static struct mt_core_thread_state *alone_other(const struct mt_core_thread_state *but)
{
    for (uint32_t i = 0; i < mt_g.slots; i++)
        if (mt_g.slot[i] != but && mt_g.slot[i]->live)
            return mt_g.slot[i];
    return NULL;
}

void mt_alone_join(struct mt_core_thread_state *t)
{
    struct mt_core_thread_state *other = mt_g.lives == 1 ? alone_other(t) : NULL;
    if (other && mt_g.e->marks && other->turn)
        alone_end(other);
    if (!mt_g.lives++ && alone_possible()) {
        t->buffer->kind = MT_BUFFER_COUNTED;
        t->turn = 1;
    }
}

void mt_alone_part(const struct mt_core_thread_state *t)
{
    struct mt_core_thread_state *other = --mt_g.lives == 1 ? alone_other(t) : NULL;
    if (other && alone_possible())
        __atomic_store_n(&other->turn, 1, __ATOMIC_RELEASE); /* noticed at its next access */
}

/* Begins an access of a pending thread. Returns 1: without locks; 0: the thread is not alone (any more).
 * Called if mt_alone or t->turn. */
static int alone_begin(struct mt_core_thread_state *t)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* `pending` before `turn` */
    int alone = __atomic_load_n(&t->turn, __ATOMIC_ACQUIRE);
    if (alone && mt_turns(t)) {
        mt_turns_close(t);
        return 1;
    }
    if (!alone) { /* whoever ends it need not wait for us */
        __atomic_store_n(&t->pub.open, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&t->pending, 0, __ATOMIC_RELEASE);
    }
    mt_spin_lock(&t->lock);
    alone_change(t, alone ? MT_BUFFER_COUNTED : MT_BUFFER_TIMED);
    mt_spin_unlock(&t->lock);
    __atomic_store_n(&t->pending, 1, __ATOMIC_RELAXED);
    return mt_alone(t);
}

/* The usual case of order_acquire: one operand inside one block. Returns 1 with the lock held, or 0 in
 * another case. */
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

/* Returns the object that logs for unknown threads (name -1). Used under the threads lock. */
static struct mt_core_thread_state *atomic_nobody(void)
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
        b->count = turns_count(t);
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
        lag_control(time);
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
    return !mt_g.o->test && !(mt_g.e->marks && (mt_turns(t) || t->turn) && alone_begin(t));
}

void mt_core_atomic_begin(struct mt_core_thread *pub, const struct mt_core_operand *operands, unsigned count)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!t || t->busy || !t->live)
        return;
    if (atomic_begin(t)) {
        atomic_keep(t, operands, count);
        if (atomic_locks(t))
            order_acquire(t);
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
            order_acquire(t);
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

/* Ends the usual case: one operand under one lock, and no failed compare-and-swap. */
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
    uint64_t time = order_time(t);
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

/* Drops the access that has begun, with its locks; *what: its operand. Returns 0 if it has not just one. */
static int drop_pending(struct mt_core_thread_state *t, struct mt_core_operand *what)
{
    int one = t->pending && t->count == 1;
    *what = t->operand[0];
    if (t->held)
        mt_order_release(t, 0);
    __atomic_store_n(&t->pending, 0, __ATOMIC_RELEASE);
    return one;
}

/* Drops the last appended access, or returns 0. */
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
        order_release_dead(t);
    mt_order_sync(t, log_end, NULL);
    mt_plat_unmap(t->text, PIECE);
    t->text = NULL;
}

void mt_atomic_stop(struct mt_core_thread_state *t)
{
    if (mt_turns(t)) { /* its thread may still append after this */
        t->buffer->count = turns_count(t);
        mt_core_sink_put(t->buffer);
    } else if (t->text || mt_g.o->container)
        mt_atomic_flush(t);
}

/* Text: the program's end ends the threads that still ran. */
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
