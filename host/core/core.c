/* The tracer: its threads, its modes (mat, atomic, insn), start, stop and fork. */
#include "state.h"
#include "format/host_text.h"
#include "format/container/writer.h"
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* Address locks and clocks of atomic mode. Order of locks: address locks by index, threads lock, thread
 * locks by slot, file lock. */

/* A lock on a cache line of its own. */
struct address_lock {
    uint32_t owner; /* slot + 1; 0: free */
    uint32_t pad;
    uint64_t time; /* time of the last access under it */
    uint64_t rest[6];
};

static struct address_lock *order_bank;
static uint32_t order_mask;  /* number of locks - 1 */
static unsigned order_shift; /* log2 of a block's bytes */
static uint64_t order_alone; /* newest time, for an engine that lets one thread run at a time */

/* Waits for a lock that was not free, and takes it for `me`. */
static void order_wait(struct address_lock *l, uint32_t me);

static void order_take(struct address_lock *l, uint32_t me)
{
    uint32_t none = 0;
    if (__builtin_expect(
            !__atomic_compare_exchange_n(&l->owner, &none, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 0))
        order_wait(l, me);
}

/* Returns a new time after `own` and all earlier results. */
static uint64_t order_tick(uint64_t own)
{
    return order_alone = (order_alone > own ? order_alone : own) + 1;
}

static int is_in_turn(const struct mt_core_thread_state *t)
{
    return t->mark != NULL;
}

/* Returns 1 while the thread appends without locks. */
static int is_alone(const struct mt_core_thread_state *t)
{
    return is_in_turn(t) && mt_g.e->marks;
}

/* Mat mode: entries of a thread, events that need its attention, and single accesses (text, --threshold). */

/* Layout of a buffer's end: MT_CORE_SLACK entries that an engine may write after the limit, then events,
 * then a place for unwanted entries. */
#define PARK (MT_CORE_SLACK + 8u)
#define OPERANDS 8u /* maximum further operands after the end of a buffer */
#define MAT_RESERVE (PARK + MT_CORE_SLACK + OPERANDS + 8u)
#define END(b) (&(b)->entry[MT_BUFFER_ENTRIES_MAX])
#define MAT_PIECE 2048u /* entries until the next search for repeats: they are in the first-level cache */
#define ITEMS_MAX (1u << 18) /* accesses of a buffer, including those left out */

int mt_mat_active(const struct mt_core_thread_state *t)
{
    return __atomic_load_n(&mt_g.switched, __ATOMIC_RELAXED) &&
           (!mt_g.o->roi || __atomic_load_n(&mt_g.in_roi, __ATOMIC_RELAXED)) &&
           (!mt_g.o->routine.count || t->depth);
}

static enum mt_core_window mat_wanted(const struct mt_core_thread_state *t)
{
    if (!mt_mat_active(t))
        return MT_DISCARD;
    return mt_g.o->container && !mt_g.o->threshold ? MT_APPEND : MT_EACH;
}

static void set_cur(struct mt_core_thread_state *t, struct mt_host_entry *e)
{
    __atomic_store_n(&t->pub.cur, e, __ATOMIC_RELEASE);
}

static void mat_append(struct mt_core_thread_state *t, uint64_t address, uint32_t site, uint32_t size)
{
    struct mt_host_entry *e = t->pub.cur;
    *e = (struct mt_host_entry){address, site, size};
    set_cur(t, e + 1);
}

/* Appends an event, for which MAT_RESERVE entries are free. */
static void mat_event(struct mt_core_thread_state *t, enum mt_host_event kind, const uint64_t *args,
                      unsigned n)
{
    mat_append(t, n ? args[0] : 0, 0, (uint32_t)kind);
    for (unsigned i = 1; i < n; i++)
        mat_append(t, args[i], 0, 0);
}

static void clock_event(struct mt_core_thread_state *t)
{
    uint64_t now = mt_plat_now_ns();
    mat_event(t, MT_HOST_EV_CLOCK, &now, 1);
}

static void thread_lost(struct mt_core_thread_state *t, uint64_t count);

/* Hands the buffer to the sink; cur is then at the start of another one. */
static void hand_over(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer, *other;
    clock_event(t);
    b->count = (uint64_t)(t->pub.cur - b->entry);
    other = mt_core_sink_buffer(MT_BUFFER_ENTRIES, t->number, t->seq);
    if (other) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        thread_lost(t, b->count + b->left_out);
        b->left_out = 0;
    }
    set_cur(t, t->buffer->entry);
    t->looked = t->pub.cur;
}

/* Removes repeats from the newest piece. */
static void mat_shorten(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer;
    uint64_t before = t->repeats.left_out;
    if (!mt_g.o->container || t->window != MT_APPEND || t->pub.cur - t->looked < MAT_PIECE)
        return;
    set_cur(t, mt_mtc_shorten(&t->repeats, b->entry, t->looked, t->pub.cur));
    b->left_out += t->repeats.left_out - before;
    t->looked = t->pub.cur;
}

static int mat_full(const struct mt_core_thread_state *t)
{
    const struct mt_buffer *b = t->buffer;
    return t->pub.cur >= END(b) - MAT_RESERVE ||
           (uint64_t)(t->pub.cur - b->entry) + b->left_out > ITEMS_MAX - 2 * MAT_PIECE;
}

/* Parks a thread after the end: its entries go nowhere, away from memory that is still being written out. */
static void mat_park(struct mt_core_thread_state *t)
{
    if (t->live && t->buffer && !t->parked) {
        t->parked = 1;
        t->buffer->count = (uint64_t)((t->window == MT_DISCARD ? t->kept : t->pub.cur) - t->buffer->entry);
    }
    t->window = MT_DISCARD;
    if (!t->live || !t->buffer) {
        set_cur(t, NULL);
        __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
        return;
    }
    t->kept = END(t->buffer) - PARK;
    set_cur(t, t->kept);
    __atomic_store_n(&t->pub.limit, END(t->buffer) - MT_CORE_SLACK, __ATOMIC_RELAXED);
}

static uint64_t seq_now(void);

static void log_seq(struct mt_core_thread_state *t)
{
    uint64_t seq = seq_now();
    if (seq == t->seq)
        return;
    if (t->pub.cur == t->buffer->entry)
        t->buffer->seq = seq; /* nothing before it */
    else
        mat_event(t, MT_HOST_EV_SEQ, &seq, 1);
    t->seq = seq;
}

/* Sets the window for the present state. Called by the owner (or before the thread runs), with its lock. */
static void mat_look(struct mt_core_thread_state *t)
{
    uint64_t bell = __atomic_load_n(&mt_g.bell, __ATOMIC_SEQ_CST);
    t->bell = bell;
    if (!mt_on() || !t->live) {
        mat_park(t);
        return;
    }
    enum mt_core_window want = mat_wanted(t);
    if (t->window == MT_DISCARD)
        set_cur(t, t->kept);
    mat_shorten(t);
    if (mat_full(t))
        hand_over(t);
    struct mt_host_entry *limit = END(t->buffer) - MAT_RESERVE;
    if (limit - t->pub.cur > MAT_PIECE)
        limit = t->pub.cur + MAT_PIECE;
    if (want != MT_DISCARD && mt_g.o->container)
        log_seq(t);
    t->window = want;
    t->kept = t->pub.cur;
    if (want == MT_DISCARD)
        limit = END(t->buffer) - MT_CORE_SLACK;
    __atomic_store_n(&t->pub.limit, want == MT_EACH ? NULL : limit, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&mt_g.bell, __ATOMIC_SEQ_CST) != bell)
        __atomic_store_n(&t->pub.limit, NULL,
                         __ATOMIC_RELAXED); /* an event came meanwhile: check again at the next access */
}

/* Sets the thread's window for the present state; the caller holds t's lock. */
static void mat_start(struct mt_core_thread_state *t)
{
    t->live = 1;
    t->kept = t->looked = t->pub.cur = t->buffer->entry;
    t->window = MT_APPEND;
    if (mt_g.o->container) {
        mat_event(t, MT_HOST_EV_THREAD_START, &t->number, 1);
        clock_event(t);
    }
    t->kept = t->pub.cur;
    mat_look(t);
}

/* ---- one access ---- */

/* Writes the place of a site before its first access, under the file lock. */
static void core_show_place(struct mt_core_kept_site *s, uint64_t ip)
{
    char line[MT_TEXT_LINE];
    if (s->shown)
        return;
    s->shown = 1;
    if (*s->file && !mt_g.o->mat_files)
        mt_core_sink_text_locked(line, mt_text_mat_location(line, sizeof line, ip, s->file, s->line));
}

static void text_access(const struct mt_meaning *m, uint32_t site, uint64_t address, uint32_t size)
{
    char line[2 * MT_TEXT_LINE];
    struct mt_core_kept_site *s = mt_site_of(site);
    if (!s)
        return;
    struct mt_text_mat a = {.ip = s->ip ? s->ip : site,
                            .address = address,
                            .offset = m->id ? address - m->start : 0,
                            .base = m->start,
                            .size = size ? size : s->size[MT_HOST_OPERAND(site)],
                            .allocation = m->bytes,
                            .op = (enum mt_host_op)s->op[MT_HOST_OPERAND(site)],
                            .mat_files = mt_g.o->mat_files};
    size_t n = mt_text_mat_access(line, sizeof line, &a);
    if (!n)
        return;
    mt_core_sink_text_lock();
    core_show_place(s, a.ip);
    mt_core_sink_text_locked(line, n);
    mt_core_sink_text_unlock();
}

static void mat_one(struct mt_core_thread_state *t, uint32_t site, uint64_t address, uint32_t size)
{
    static const struct mt_meaning nothing;
    const struct mt_meaning *m = mt_alloc_meaning(t, address);
    if (!m->id && !(mt_g.o->all && !mt_g.o->threshold)) {
        mt_core_count(&t->outside, 1);
        return;
    }
    if (mt_g.o->container)
        mat_append(t, address, site, size);
    else
        text_access(m->id ? m : &nothing, site, address, size);
    t->kept = t->pub.cur;
}

/* Returns 1 for a further operand of an execution, whose operands stay together, without event or end of
 * buffer between them. */
static int mat_continues(const struct mt_core_thread_state *t, uint32_t site)
{
    return MT_HOST_OPERAND(site) && t->window == MT_APPEND && mt_on() && t->pub.cur > t->buffer->entry &&
           t->pub.cur < END(t->buffer) - MAT_RESERVE + MT_CORE_SLACK + OPERANDS;
}

static void core_mat_record(struct mt_core_thread_state *t, uint32_t site, uint64_t address, uint32_t size)
{
    if (t->pub.cur < t->buffer->entry ||
        t->pub.cur > END(t->buffer)) { /* an append was interrupted by another */
        set_cur(t, t->kept);
        mt_core_count(&t->lost, 1);
    }
    if (mat_continues(t, site)) {
        mat_append(t, address, site, size);
        return;
    }
    if (t->window != MT_EACH || t->bell != __atomic_load_n(&mt_g.bell, __ATOMIC_SEQ_CST) ||
        t->pub.cur >= END(t->buffer) - MAT_RESERVE)
        mat_look(t);
    if (t->window == MT_APPEND)
        mat_append(t, address, site, size);
    else if (t->window == MT_EACH)
        mat_one(t, site, address, size);
}

void mt_core_record(struct mt_core_thread *pub, uint32_t site, uint64_t address, uint32_t size)
{
    struct mt_core_thread_state *t = pub->state;
    if (t->busy || !t->live) {
        mt_core_count(&t->lost, t->live && mt_on());
        return;
    }
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (t->buffer)
        core_mat_record(t, site, address, size);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

int mt_core_room(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub->state;
    if (mt_g.o->mode != MT_CORE_MAT || t->busy || !t->live)
        return 0;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (t->buffer && t->pub.cur >= t->buffer->entry && t->pub.cur <= END(t->buffer))
        mat_look(t);
    int room = t->buffer && t->window == MT_APPEND && t->pub.cur >= t->buffer->entry &&
               t->pub.cur < __atomic_load_n(&t->pub.limit, __ATOMIC_RELAXED);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
    return room;
}

/* ---- events from outside ---- */

static void core_ring(void);
static void switch_look(struct mt_core_thread_state *t);

void mt_core_moved(struct mt_core_thread *pub)
{
    if (!mt_on() || mt_g.o->mode != MT_CORE_MAT)
        return;
    core_ring();
    if (pub && pub->state)
        switch_look(pub->state);
}

static void core_mat_end(struct mt_core_thread_state *t)
{
    if (t->busy) { /* a jump out of the core, after a fault there: its lock will never be free */
        mt_core_count(&t->lost,
                      t->buffer ? (uint64_t)(t->pub.cur - t->buffer->entry) + t->buffer->left_out : 0);
        mt_g.incomplete = 1;
        return;
    }
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (t->live && mt_on()) {
        if (t->window == MT_DISCARD)
            set_cur(t, t->kept);
        t->window = MT_APPEND;
        if (t->pub.cur >= END(t->buffer) - MAT_RESERVE)
            hand_over(t);
        mat_event(t, MT_HOST_EV_THREAD_END, NULL, 0);
        clock_event(t);
        t->buffer->count = (uint64_t)(t->pub.cur - t->buffer->entry);
        mt_core_sink_put(t->buffer);
        t->buffer = NULL;
        set_cur(t, NULL);
        __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
    }
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

/* Stops a thread after tracing was switched off; the owner may still append beyond the entries taken here. */
static void mat_stop(struct mt_core_thread_state *t)
{
    struct mt_host_entry *cur = __atomic_load_n(&t->pub.cur, __ATOMIC_ACQUIRE);
    struct mt_buffer *b = t->buffer;
    if (!t->parked)
        b->count = (uint64_t)((t->window == MT_DISCARD ? t->kept : cur) - b->entry);
    t->parked = 1;
    mt_core_sink_put(b);
}

/* Handles start_roi and end_roi: all threads notice at their next access. */
static void mat_roi(struct mt_core_thread_state *t, int on)
{
    __atomic_store_n(&mt_g.in_roi, on ? 1u : 0u, __ATOMIC_SEQ_CST);
    core_ring();
    if (!t || t->busy || !t->live)
        return;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (mt_g.o->container && !t->parked) {
        if (t->window == MT_DISCARD)
            set_cur(t, t->kept);
        if (t->pub.cur >= END(t->buffer) - MAT_RESERVE)
            hand_over(t);
        mat_event(t, on ? MT_HOST_EV_START_ROI : MT_HOST_EV_END_ROI, NULL, 0);
        t->kept = t->pub.cur;
    }
    mat_look(t);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

/* ---- Atomic mode: one instruction between begin and end, and the buffers of a thread ---- */

/* Keeps the threads' times in the file together, so that a merger needs little memory: a thread that lags
 * by more than -d is written out, and if its clock lags too, moved on with a thread_sync. Ended and
 * nameless threads do not count. Bound: let M be the newest time at a check. All threads are then in the
 * file at M - d or later. A thread makes at most -a accesses until its own check, and each access moves
 * the newest clock on by one (one more for each further line of its operands), as does a start or an end.
 * So no time in the file exceeds M + a x threads + starts and ends since. */

static uint64_t oldest; /* oldest time of all named threads at the last check; never too new */

static void atomic_flush(struct mt_core_thread_state *t);
static void atomic_event(struct mt_core_thread_state *t, uint64_t time, enum mt_host_event kind,
                         const uint64_t *args, unsigned n);

static void catch_up(struct mt_core_thread_state *t, uint64_t time)
{
    mt_spin_lock(&t->lock);
    if (t->live && t->name >= 0 && t->written + mt_g.o->lag < time) {
        /* A thread with nothing new to write must still state how far it is. Its clock does not tell: a
         * start or end of others moves it on without an entry. */
        uint32_t n = t->buffer->count;
        uint64_t last = n ? t->buffer->timed[n - 1].time : t->written;
        if (last + mt_g.o->lag / 2 < time)
            atomic_event(t, t->time > time ? t->time : time, MT_HOST_EV_THREAD_SYNC, NULL, 0);
        atomic_flush(t);
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

/* Threads that run one at a time and write a compact trace. Returns the kind of buffer for such threads, or
 * TIMED for others. */
static enum mt_buffer_kind atomic_kind(void)
{
    int turns = mt_g.o->mode == MT_CORE_INSN ? mt_g.e->insn_turns : mt_g.e->addresses_late;
    return turns && mt_g.o->container && !mt_g.o->test ? MT_BUFFER_COUNTED : MT_BUFFER_TIMED;
}

/* Gives the thread a new, empty buffer. */
static void atomic_fresh(struct mt_core_thread_state *t)
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

/* Updates time and order_alone with everything that the thread has appended, and stops further appends
 * until turns_open. Does nothing for other threads. */
static void turns_close(struct mt_core_thread_state *t)
{
    if (!is_in_turn(t))
        return;
    __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
    uint64_t n = turns_steps(t, t->pub.cur);
    t->mark = t->pub.cur;
    t->running += n;
    if (n)
        t->time = t->running;
    if (t->time > order_alone)
        order_alone = t->time;
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

static int turns_full(const struct mt_core_thread_state *t);

/* Lets the thread append, if it may. */
static void turns_open(struct mt_core_thread_state *t)
{
    if (!is_in_turn(t) || !t->turn || !t->live || !mt_on() || !mt_atomic_traced(t) || turns_full(t))
        return;
    t->time = t->time > order_alone ? t->time : order_alone;
    turns_move(t, t->time);
    __atomic_store_n(&t->pub.limit, limit_of(t), __ATOMIC_SEQ_CST);
    if (!mt_on() ||
        !__atomic_load_n(&t->turn, __ATOMIC_SEQ_CST)) /* switched off meanwhile, or not alone any more */
        __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
}

/* Appends an entry with this time; the thread is closed. */
static void turns_append(struct mt_core_thread_state *t, uint64_t address, uint64_t time, uint32_t site,
                         uint32_t size)
{
    turns_move(t, time - (site && !MT_HOST_OPERAND(site)));
    turns_put(t, (struct mt_host_entry){address, site, size});
    t->running = time;
}

/* Returns 1 if there is no room for one more instruction. */
static int turns_full(const struct mt_core_thread_state *t)
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

static void atomic_write(struct mt_core_thread_state *t, uint64_t time);

void mt_core_turn_open(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub->state;
    if (t->busy)
        return;
    turns_close(t);
    if (is_in_turn(t) && turns_full(t))
        atomic_write(t, t->time);
    turns_open(t);
}

void mt_core_turn_end(struct mt_core_thread *pub)
{
    turns_close(pub->state);
    pub->state->turn = 0;
}

/* Ends the turn of a sleeping thread. Its own marks stay: it notices at its next access, which must wait
 * for its turn. */
void mt_core_turn_stolen(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub->state;
    if (!is_in_turn(t))
        return;
    __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_SEQ_CST);
    uint64_t time = t->running + turns_steps(t, __atomic_load_n(&t->pub.cur, __ATOMIC_ACQUIRE));
    if (time > order_alone)
        order_alone = time;
}

/* ---- Address locks and clocks of atomic mode ---- */

#define ALL UINT32_MAX
#define STEAL_NS 2000000000u

static int order_start(char *why, unsigned size)
{
    uint32_t locks = mt_g.e->addresses_late ? 1 : (uint32_t)mt_g.o->locks;
    order_mask = locks - 1;
    order_shift = (unsigned)__builtin_ctzll(mt_g.o->block);
    /* The default was not requested: no message on the program's stderr then. */
    if (mt_g.e->addresses_late && mt_g.o->locks > 1 && mt_g.o->locks != 64 && !mt_g.o->test)
        mt_plat_report("the %s engine learns addresses after the access: one address lock for all (-l 1)",
                       mt_g.e->name);
    order_bank = mt_plat_map(locks * sizeof *order_bank);
    if (order_bank)
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
        uint64_t first = o->address >> order_shift,
                 last = (o->address + (o->size ? o->size - 1 : 0)) >> order_shift;
        if (last < first || last - first > order_mask || last - first + 1 + t->held > MT_HELD_MAX) {
            t->held = ALL;
            return;
        }
        for (uint64_t b = first; b <= last; b++)
            order_insert(t, (uint32_t)b & order_mask);
    }
}

/* ---- acquire and release ---- */

/* Waits for the lock, and takes it from a thread that left without releasing it (killed, longjmp out of a
 * handler), which must not stop all others. */
static void order_wait(struct address_lock *l, uint32_t me)
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
    return t->held == ALL ? order_mask + 1 : t->held;
}

static struct address_lock *lock_of(const struct mt_core_thread_state *t, uint32_t i)
{
    return &order_bank[t->held == ALL ? i : t->lock_at[i]];
}

/* Takes the locks that cover the thread's operands (count 0: all) in order and puts them into t->lock_at. */
static void order_acquire(struct mt_core_thread_state *t)
{
    order_choose(t);
    for (uint32_t i = 0; i < order_held(t); i++)
        order_take(lock_of(t, i), t->slot + 1);
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

/* Releases the locks and first stores `time` in them if it is not 0. */
static void order_release(struct mt_core_thread_state *t, uint64_t time)
{
    for (uint32_t i = 0; i < order_held(t); i++) {
        struct address_lock *l = lock_of(t, i);
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

/* Moves all live threads to one new time and calls log with the threads lock and all thread locks held; t
 * NULL: for events of no thread. */
static void order_sync(struct mt_core_thread_state *t,
                       void (*log)(struct mt_core_thread_state *t, uint64_t time, void *arg), void *arg)
{
    mt_spin_lock(&mt_g.threads_lock);
    if (t)
        turns_close(t);
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
 * sees the other's change. The second thread's clock starts after the first one's (order_sync), as do all
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
    turns_close(t);
    b->count = is_in_turn(t) ? turns_count(t) : b->count;
    other = mt_core_sink_buffer(kind, t->number, seq_now());
    if (other) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        thread_lost(t, b->count);
        b->kind = kind;
        b->count = 0;
    }
    t->mark = NULL;
    atomic_fresh(t);
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

/* Without locks: the only thread appends as in a turn, which ends when another thread starts. These take note
 * of a thread's start and end; the threads lock is held. */
static void alone_join(struct mt_core_thread_state *t)
{
    struct mt_core_thread_state *other = mt_g.lives == 1 ? alone_other(t) : NULL;
    if (other && mt_g.e->marks && other->turn)
        alone_end(other);
    if (!mt_g.lives++ && alone_possible()) {
        t->buffer->kind = MT_BUFFER_COUNTED;
        t->turn = 1;
    }
}

static void alone_part(const struct mt_core_thread_state *t)
{
    struct mt_core_thread_state *other = --mt_g.lives == 1 ? alone_other(t) : NULL;
    if (other && alone_possible())
        __atomic_store_n(&other->turn, 1, __ATOMIC_RELEASE); /* noticed at its next access */
}

/* Begins an access of a pending thread. Returns 1: without locks; 0: the thread is not alone (any more).
 * Called if is_alone or t->turn. */
static int alone_begin(struct mt_core_thread_state *t)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* `pending` before `turn` */
    int alone = __atomic_load_n(&t->turn, __ATOMIC_ACQUIRE);
    if (alone && is_in_turn(t)) {
        turns_close(t);
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
    return is_alone(t);
}

/* The usual case of order_acquire: one operand inside one block. Returns 1 with the lock held, or 0 in
 * another case. */
static int order_acquire_one(struct mt_core_thread_state *t, uint64_t address, uint32_t size)
{
    uint64_t block = address >> order_shift;
    if ((address + size - (size != 0)) >> order_shift != block)
        return 0;
    uint32_t index = (uint32_t)block & order_mask;
    t->lock_at[0] = index;
    t->held = 1;
    order_take(&order_bank[index], t->slot + 1);
    return 1;
}

#define ATOMIC_RESERVE (MT_CORE_OPERANDS + 16u) /* entries reserved for one access and an event */
#define AHEAD 32                                /* number of entries to prefetch ahead */
#define ATOMIC_PIECE 8192u                      /* bytes of text collected for the sink */

static struct mt_core_thread_state nobody;
static char *nobody_text;

/* Returns the object that logs for unknown threads (name -1). Used under the threads lock. */
static struct mt_core_thread_state *atomic_nobody(void)
{
    return &nobody;
}

static int atomic_open(char *why, unsigned size)
{
    nobody = (struct mt_core_thread_state){.name = MT_NAMELESS, .number = UINT64_MAX};
    nobody.buffer = mt_core_sink_buffer(MT_BUFFER_TIMED, UINT64_MAX, 0);
    nobody.text = nobody_text = mt_plat_map(ATOMIC_PIECE);
    if (nobody.buffer && nobody.text)
        return 0;
    snprintf(why, size, "out of memory");
    return -1;
}

/* ---- buffers ---- */

static void atomic_append(struct mt_core_thread_state *t, uint64_t address, uint64_t time, uint32_t site,
                          uint32_t size)
{
    if (is_in_turn(t)) {
        turns_append(t, address, time, site, size);
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
    if (p->bytes + MT_TEXT_LINE > ATOMIC_PIECE)
        piece_out(p);
    p->bytes += mt_text_access(p->text + p->bytes, ATOMIC_PIECE - p->bytes, time, t->name, a);
    *a = (struct mt_text_access){.has = 0};
}

static const char *function_name(uint64_t id);

static void piece_event(struct piece *p, const struct mt_core_thread_state *t,
                        const struct mt_host_timed_entry *e, const uint64_t *args, unsigned n)
{
    const char *name = n > 1 ? function_name(args[0]) : "";
    for (int again = 0; again < 2; again++) {
        size_t bytes = mt_text_event(p->text + p->bytes, ATOMIC_PIECE - p->bytes, e->time, t->name,
                                     (enum mt_host_event)e->size, args, n, name);
        p->bytes += bytes;
        if (bytes || !p->bytes)
            return;
        piece_out(p);
    }
}

static uint32_t core_size_of(const struct mt_host_timed_entry *e, const struct mt_core_kept_site *s)
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
                                       core_size_of(e, s));
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

static void atomic_flush(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer, *other;
    if (is_in_turn(t)) {
        turns_close(t);
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
    other = mt_core_sink_buffer(b->kind, t->number, seq_now());
    if (other) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        thread_lost(t, b->count);
        b->count = 0;
    }
    atomic_fresh(t);
}

static int atomic_full(const struct mt_core_thread_state *t)
{
    return is_in_turn(t) ? turns_full(t) : t->buffer->count >= MT_BUFFER_TIMED_MAX - ATOMIC_RESERVE;
}

/* Flushes a thread's buffer when a merger of the text must see it before later times of others; a compact
 * trace does not need it. */
static void atomic_publish(struct mt_core_thread_state *t)
{
    if (!mt_g.o->container || atomic_full(t))
        atomic_flush(t);
}

static inline int due_now(struct mt_core_thread_state *t)
{
    t->accesses++;
    return atomic_full(t) || (!mt_g.o->container && t->accesses >= mt_g.o->flush);
}

/* Counts an access or event. Returns 1 if atomic_write is due, which takes the locks itself. `time`:
 * the thread's newest. */
static int atomic_due(struct mt_core_thread_state *t)
{
    return due_now(t);
}

static void atomic_write(struct mt_core_thread_state *t, uint64_t time)
{
    if (!mt_g.o->container)
        lag_control(time);
    mt_spin_lock(&t->lock);
    t->accesses = 0;
    if (t->buffer)
        atomic_flush(t);
    mt_spin_unlock(&t->lock);
}

/* atomic_event logs an event at `time`; atomic_flush moves the buffer to the sink. The thread's lock
 * is held. */
static void atomic_event(struct mt_core_thread_state *t, uint64_t time, enum mt_host_event kind,
                         const uint64_t *args, unsigned n)
{
    if (!t->buffer)
        return;
    turns_close(t);
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
    mt_core_count(&t->lost, count - t->count);
    for (unsigned i = 0; i < t->count; i++)
        t->operand[i] = operands[i];
}

/* Returns 1 if the access is logged. t->busy = 0 must always follow. */
static inline int atomic_begin(struct mt_core_thread_state *t)
{
    t->busy = 1;
    if (t->held)
        order_release(t, 0);
    __atomic_store_n(&t->pending, mt_on() && mt_atomic_traced(t), __ATOMIC_RELAXED);
    return t->pending;
}

/* Returns 1 if it needs address locks. */
static inline int atomic_locks(struct mt_core_thread_state *t)
{
    return !mt_g.o->test && !(mt_g.e->marks && (is_in_turn(t) || t->turn) && alone_begin(t));
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
    struct address_lock *l = &order_bank[t->lock_at[0]];
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
        atomic_write(t, time);
}

static __attribute__((noinline)) void write_alone(struct mt_core_thread_state *t)
{
    unsigned busy = t->busy;
    t->busy = 1;
    atomic_write(t, t->time);
    t->busy = busy;
}

static void log_alone(struct mt_core_thread_state *t, const struct mt_core_operand *operands, unsigned count,
                      int failed)
{
    turns_close(t);
    uint64_t time = order_tick(t->time);
    atomic_keep(t, operands, count);
    if (failed && !mt_g.o->failed)
        mark_failed(t);
    for (uint64_t last = log_access(t, time); time < last;)
        time = order_tick(time);
    t->time = time;
    if (atomic_due(t))
        write_alone(t);
    turns_open(t);
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
    if (is_alone(t)) {
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
        order_release(t, time);
        due = atomic_due(t);
    } else {
        order_release(t, 0);
    }
    mt_spin_unlock(&t->lock);
    if (due)
        atomic_write(t, time);
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
    turns_close(t);
    uint64_t time = order_tick(t->time);
    t->time = time;
    atomic_append(t, address, time, site, size);
    if (__builtin_expect(due_now(t), 0))
        write_alone(t);
    turns_open(t);
}

/* Drops the access that has begun, with its locks; *what: its operand. Returns 0 if it has not just one. */
static int drop_pending(struct mt_core_thread_state *t, struct mt_core_operand *what)
{
    int one = t->pending && t->count == 1;
    *what = t->operand[0];
    if (t->held)
        order_release(t, 0);
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
    int one = pub->open && !t->pending && is_alone(t) ? drop_appended(t, what) : drop_pending(t, what);
    __atomic_store_n(&pub->open, 0, __ATOMIC_RELEASE);
    return one;
}

/* ---- threads ---- */

static void log_start(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    t->name = (int64_t)t->number;
    atomic_event(t, time, MT_HOST_EV_THREAD_START, &t->number, 1);
    atomic_publish(t); /* a merger must see the thread before later times of others */
}

static void atomic_start(struct mt_core_thread_state *t)
{
    t->busy = 1;
    t->text = mt_g.o->container ? NULL : mt_plat_map(ATOMIC_PIECE);
    if (!mt_g.o->container && !t->text)
        mt_core_fail("out of memory for a thread's text");
    else if (!mt_g.o->registered)
        order_sync(t, log_start, NULL);
    t->busy = 0;
}

static void log_end(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    if (t->name >= 0)
        atomic_event(t, time, MT_HOST_EV_THREAD_END, NULL, 0);
    atomic_flush(t);
    t->name = MT_NAMELESS;
}

static void atomic_end(struct mt_core_thread_state *t)
{
    t->pending = 0;
    if (t->held)
        order_release_dead(t);
    order_sync(t, log_end, NULL);
    mt_plat_unmap(t->text, ATOMIC_PIECE);
    t->text = NULL;
}

/* the caller holds its lock */
static void atomic_stop(struct mt_core_thread_state *t)
{
    if (is_in_turn(t)) { /* its thread may still append after this */
        t->buffer->count = turns_count(t);
        mt_core_sink_put(t->buffer);
    } else if (t->text || mt_g.o->container)
        atomic_flush(t);
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

static void atomic_close(int killed)
{
    atomic_flush(&nobody);
    if (!mt_g.o->container && !killed && !mt_g.incomplete && !mt_threads_sum().lost)
        atomic_ends();
}

/* Insn mode: executions in a global order. Text is grouped by instruction, so it can only be written at
 * the end; until then entries wait in a spool. */

#define INSN_RESERVE 64u   /* entries for the operands of one execution, which stay in one buffer */
#define ROOM (4u * 65536u) /* a head line: three strings of the table */

static struct mt_spool spool = {.file = {.fd = -1}};
static struct mt_spin spool_lock;

static int insn_start(char *why, unsigned size)
{
    return mt_g.o->container ? 0 : mt_spool_open(&spool, why, size);
}

/* ---- recording ---- */

static void to_spool(struct mt_buffer *b)
{
    mt_spin_lock(&spool_lock);
    int rc = mt_spool_add(&spool, b->timed, b->count);
    mt_spin_unlock(&spool_lock);
    if (rc)
        mt_core_fail("the scratch file for instructions: %s; set TMPDIR to a larger disk, or use -o FILE.mtc",
                     strerror(rc));
    b->count = 0;
}

static void insn_flush(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer, *other;
    if (!b || !b->count)
        return;
    if (!mt_g.o->container) {
        to_spool(b);
    } else if ((other = mt_core_sink_buffer(MT_BUFFER_TIMED, t->number, seq_now()))) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        mt_core_count(&t->lost, b->count);
        b->count = 0;
    }
}

static void insn_append(struct mt_core_thread_state *t, uint64_t address, uint32_t site, uint32_t size)
{
    struct mt_buffer *b = t->buffer;
    b->timed[b->count++] = (struct mt_host_timed_entry){address, t->order, site, size};
    if (b->count >= MT_BUFFER_TIMED_MAX - 2)
        insn_flush(t);
}

static int insn_enter(struct mt_core_thread_state *t)
{
    if (!mt_on() || !t || !t->live)
        return 0;
    if (t->busy) {
        mt_core_count(&t->lost, 1);
        return 0;
    }
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (mt_on() && t->buffer)
        return 1;
    mt_spin_unlock(&t->lock); /* stopped meanwhile */
    t->busy = 0;
    return 0;
}

static void insn_leave(struct mt_core_thread_state *t)
{
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

/* Records by turns, as in atomic mode: with the next time, or (`more`) the last one again. */
static void insn_turn(struct mt_core_thread_state *t, uint64_t address, uint32_t site, uint32_t size,
                      int more)
{
    if (!mt_on() || !t->live)
        return;
    if (t->busy) {
        mt_core_count(&t->lost, 1);
        return;
    }
    turns_close(t);
    if (!more)
        t->time = order_tick(t->time);
    turns_append(t, address, t->time, site, size);
    if (turns_full(t)) {
        t->busy = 1;
        atomic_write(t, t->time);
        t->busy = 0;
    }
    turns_open(t);
}

void mt_core_insn(struct mt_core_thread *pub, uint32_t site)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (t && is_in_turn(t)) {
        insn_turn(t, 0, site, 0, 0);
        return;
    }
    if (!insn_enter(t))
        return;
    if (t->buffer->count >= MT_BUFFER_TIMED_MAX - INSN_RESERVE)
        insn_flush(t);
    t->order = __atomic_fetch_add(&mt_g.order, 1, __ATOMIC_RELAXED);
    insn_append(t, 0, site, 0);
    insn_leave(t);
}

void mt_core_insn_operand(struct mt_core_thread *pub, uint32_t site, uint64_t address, uint32_t size)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (t && is_in_turn(t)) {
        insn_turn(t, address, site, size, 1);
        return;
    }
    if (!insn_enter(t))
        return;
    insn_append(t, address, site, size);
    insn_leave(t);
}

/* Logs an event with a time of its own: start and end of a thread take a place in the order, so that they
 * keep it when all threads are sorted. */
static void insn_event(struct mt_core_thread_state *t, enum mt_host_event kind, uint64_t arg)
{
    struct mt_buffer *b = t->buffer;
    if (is_in_turn(t)) {
        turns_close(t);
        t->time = order_alone > t->time ? order_alone : t->time;
        turns_append(t, arg, t->time + 1, 0, (uint32_t)kind);
        return;
    }
    t->order = __atomic_load_n(&mt_g.order, __ATOMIC_RELAXED);
    b->timed[b->count++] = (struct mt_host_timed_entry){arg, t->order, 0, (uint32_t)kind};
    if (b->count >= MT_BUFFER_TIMED_MAX - INSN_RESERVE)
        insn_flush(t);
}

static void insn_thread(struct mt_core_thread_state *t)
{
    mt_spin_lock(&t->lock);
    t->name = (int64_t)t->number;
    if (mt_g.o->container && t->buffer)
        insn_event(t, MT_HOST_EV_THREAD_START, t->number);
    mt_spin_unlock(&t->lock);
}

static void insn_end(struct mt_core_thread_state *t)
{
    mt_spin_lock(&t->lock);
    if (mt_g.o->container && t->buffer)
        insn_event(t, MT_HOST_EV_THREAD_END, 0);
    if (is_in_turn(t))
        atomic_flush(t);
    else
        insn_flush(t);
    mt_spin_unlock(&t->lock);
}

/* the caller holds its lock */
static void mt_insn_flush(struct mt_core_thread_state *t)
{
    insn_flush(t);
}

/* ---- the text ---- */

static int core_by_address(const void *a, const void *b)
{
    const struct mt_core_kept_site *x = mt_site_of(*(const uint32_t *)a << 2),
                                   *y = mt_site_of(*(const uint32_t *)b << 2);
    if (x->ip != y->ip)
        return x->ip < y->ip ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* Ranks of instructions by ascending address; an instruction registered twice has one rank. */
struct ranks {
    uint32_t *by_rank, *rank; /* instruction of each rank, rank of each instruction */
    uint64_t bytes;
    uint32_t count;
};

static int insn_same(uint32_t a, uint32_t b)
{
    const struct mt_core_kept_site *x = mt_site_of(a << 2), *y = mt_site_of(b << 2);
    return x->ip == y->ip && x->text == y->text;
}

static int rank_all(struct ranks *r)
{
    uint32_t all = mt_site_instructions(), n = 0;
    r->bytes = all * sizeof *r->rank;
    r->by_rank = mt_plat_map(r->bytes);
    r->rank = mt_plat_map(r->bytes);
    if (!r->by_rank || !r->rank)
        return ENOMEM;
    for (uint32_t i = 1; i < all; i++)
        if (mt_site_of(i << 2))
            r->by_rank[n++] = i;
    qsort(r->by_rank, n, sizeof *r->by_rank, core_by_address);
    for (uint32_t i = 0; i < n; i++) {
        if (!r->count || !insn_same(r->by_rank[r->count - 1], r->by_rank[i]))
            r->by_rank[r->count++] = r->by_rank[i];
        r->rank[r->by_rank[i]] = r->count - 1;
    }
    return 0;
}

struct printer {
    const struct ranks *ranks;
    char *room;
    uint32_t rank;
    uint64_t order;
    int open; /* 1: an execution's line is open */
};

static void insn_put(struct printer *p, size_t n)
{
    mt_core_sink_text_locked(p->room, n);
}

static void close_line(struct printer *p)
{
    if (p->open)
        insn_put(p, mt_text_insn_end(p->room, ROOM));
    p->open = 0;
}

static void insn_head(struct printer *p, uint32_t rank)
{
    const struct mt_core_kept_site *s = mt_site_of(p->ranks->by_rank[rank] << 2);
    insn_put(p, mt_text_insn_head(p->room, ROOM, s->ip, s->text, s->reads, s->writes));
    p->rank = rank;
}

static void insn_print(void *arg, const struct mt_host_timed_entry *e, uint32_t rank)
{
    struct printer *p = arg;
    const struct mt_core_kept_site *s = mt_site_of(e->site);
    unsigned k = MT_HOST_OPERAND(e->site);
    if (p->open && (rank != p->rank || e->time != p->order))
        close_line(p);
    if (!s)
        return;
    if (rank != p->rank)
        insn_head(p, rank);
    if (!p->open) {
        insn_put(p, mt_text_insn_begin(p->room, ROOM, e->time));
        p->order = e->time;
        p->open = 1;
    }
    insn_put(p, mt_text_insn_operand(p->room, ROOM, (enum mt_host_op)s->op[k], e->address,
                                     e->size ? e->size : s->size[k]));
}

static void insn_stop(void)
{
    struct ranks ranks = {.count = 0};
    struct printer p = {.ranks = &ranks, .rank = UINT32_MAX};
    if (mt_g.o->container || spool.file.fd < 0)
        return;
    mt_spin_lock(&spool_lock);
    p.room = mt_plat_map(ROOM);
    int rc = p.room ? rank_all(&ranks) : ENOMEM;
    if (!rc) {
        struct mt_spool_reader r = {.rank = ranks.rank, .ranks = ranks.count, .entry = insn_print, .arg = &p};
        mt_core_sink_text_lock();
        rc = mt_spool_read(&spool, &r);
        close_line(&p);
        mt_core_sink_text_unlock();
    }
    if (rc)
        mt_core_fail(
            "the instructions cannot be put in order: %s; set TMPDIR to a larger disk, or use -o FILE.mtc",
            strerror(rc));
    mt_plat_unmap(p.room, ROOM);
    mt_plat_unmap(ranks.rank, ranks.bytes);
    mt_plat_unmap(ranks.by_rank, ranks.bytes);
    mt_spin_unlock(&spool_lock);
}

/* Calls and returns of traced functions; those of the annotation library are commands to us. */

struct event {
    enum mt_host_event kind;
    uint64_t args[5];
    unsigned n;
};

static void log_event(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    const struct event *e = arg;
    atomic_event(t, time, e->kind, e->args, e->n);
    atomic_publish(t);
}

/* Logs in the order of its thread. Nameless threads have none, so there all threads are moved to one time. */
static void log_in_thread(struct mt_core_thread_state *t, struct event *e)
{
    if (!t || t->name < 0) {
        order_sync(NULL, log_event, e);
        return;
    }
    mt_spin_lock(&t->lock);
    uint64_t time = t->time + 1;
    atomic_event(t, time, e->kind, e->args, e->n);
    int due = atomic_due(t);
    mt_spin_unlock(&t->lock);
    if (due)
        atomic_write(t, time);
}

/* Gives later times to accesses of a thread that gets memory freed by another. A free is logged before it
 * happens, an allocation after. */
static void annotate_meet(struct mt_core_thread_state *t)
{
    static uint64_t last;
    uint64_t seen = __atomic_load_n(&last, __ATOMIC_ACQUIRE);
    while (seen < t->time &&
           !__atomic_compare_exchange_n(&last, &seen, t->time, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    if (seen > t->time)
        t->time = seen;
}

void mt_atomic_moved(struct mt_core_thread_state *t)
{
    uint64_t seq = seq_now();
    if (!t->live || t->name < 0 || !t->buffer)
        return;
    mt_spin_lock(&t->lock);
    turns_close(t); /* its time is then known */
    annotate_meet(t);
    atomic_event(t, t->time, MT_HOST_EV_SEQ, &seq, 1); /* takes no time: text has no such line */
    int due = atomic_due(t);
    uint64_t time = t->time;
    mt_spin_unlock(&t->lock);
    if (due)
        atomic_write(t, time);
}

static int annotate_taken(const struct mt_core_thread_state *t, int64_t name)
{
    for (uint32_t i = 0; i < mt_g.slots; i++)
        if (mt_g.slot[i] != t && mt_g.slot[i]->live && mt_g.slot[i]->name == name)
            return 1;
    return 0;
}

static void log_register(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    uint64_t name = *(uint64_t *)arg;
    static int said;
    if ((int64_t)name < 0 || annotate_taken(t, (int64_t)name)) {
        if (!said++)
            mt_plat_report("register_thread(%lld): %s; the call is ignored", (long long)name,
                           (int64_t)name < 0 ? "a name is 0 or more"
                                             : "another running thread has this name");
        return;
    }
    if (t->name >= 0) {
        atomic_event(t, time, MT_HOST_EV_THREAD_END, NULL, 0);
        atomic_publish(t);
    }
    t->name = (int64_t)name;
    atomic_event(t, time, MT_HOST_EV_THREAD_START, &name, 1);
    atomic_publish(t);
}

static void log_roi(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    int on = *(int *)arg;
    __atomic_store_n(&mt_g.in_roi, on ? 1u : 0u, __ATOMIC_SEQ_CST);
    atomic_event(t, time, on ? MT_HOST_EV_START_ROI : MT_HOST_EV_END_ROI, NULL, 0);
    atomic_publish(t);
}

static void annotate_run(struct mt_core_thread_state *t, uint32_t function, uint64_t argument)
{
    int on = function == MT_CORE_FN_START_ROI;
    if (function != MT_CORE_FN_REGISTER)
        order_sync(t && t->name >= 0 ? t : NULL, log_roi, &on);
    else if (t && mt_g.o->registered && t->name != (int64_t)argument)
        order_sync(t, log_register, &argument);
}

/* Enters a callback, which holds no address locks as the instruction is over. Returns 0 if not possible
 * now. */
static int annotate_enter(struct mt_core_thread_state *t)
{
    if (!mt_on() || (t && (t->busy || !t->live)))
        return 0;
    if (!t)
        return 1;
    t->busy = 1;
    t->pending = 0;
    mt_spin_lock(&t->lock); /* a thread that starts may change it (alone_join) */
    turns_close(t);
    mt_spin_unlock(&t->lock);
    if (t->held)
        order_release(t, 0);
    return 1;
}

static void annotate_leave(struct mt_core_thread_state *t)
{
    if (t)
        t->busy = 0;
}

/* Handles functions in mat mode: those of --routine. A frame left by longjmp or an exception is noticed at
 * the next entry above it. */
static void mat_call(struct mt_core_thread *pub, uint32_t function, uint64_t sp)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (function == MT_CORE_FN_START_ROI || function == MT_CORE_FN_END_ROI) {
        mat_roi(t, function == MT_CORE_FN_START_ROI);
    } else if (t && function > MT_CORE_FN_END_ROI) {
        if (t->depth && sp && t->outer && sp > t->outer)
            t->depth = 0;
        if (!t->depth)
            t->outer = sp;
        mt_core_routine_enter(pub);
    }
}

void mt_core_call(struct mt_core_thread *pub, uint32_t function, uint64_t sp, const uint64_t a[3])
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (mt_on() && mt_g.o->mode == MT_CORE_MAT)
        mat_call(pub, function, sp);
    if (!function || mt_g.o->mode != MT_CORE_ATOMIC || !annotate_enter(t))
        return;
    struct event e = {MT_HOST_EV_CALL, {function, sp, a[0], a[1], a[2]}, 5};
    if (function <= MT_CORE_FN_END_ROI)
        annotate_run(t, function, a[0]);
    else
        log_in_thread(t, &e);
    annotate_leave(t);
}

void mt_core_return(struct mt_core_thread *pub, uint32_t function, uint64_t sp, uint64_t value)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (function <= MT_CORE_FN_END_ROI || !mt_on())
        return;
    if (mt_g.o->mode == MT_CORE_MAT)
        mt_core_routine_leave(pub);
    if (mt_g.o->mode != MT_CORE_ATOMIC || !annotate_enter(t))
        return;
    struct event e = {MT_HOST_EV_RETURN, {function, sp, value}, 3};
    log_in_thread(t, &e);
    annotate_leave(t);
}

void mt_core_context_change(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!mt_on() || mt_g.o->mode != MT_CORE_ATOMIC || !annotate_enter(t))
        return;
    struct event e = {MT_HOST_EV_CONTEXT, {0}, 0};
    log_in_thread(t, &e);
    annotate_leave(t);
}

/* ---- Threads: slots of the live ones, numbers, and requests for their attention ---- */

/* Takes a slot. Its object is reused by a later thread and never unmapped, as core_ring reads it
 * without a lock. */
static struct mt_core_thread_state *slot_take(void)
{
    uint32_t i = 0;
    while (i < mt_g.slots && mt_g.slot[i]->live)
        i++;
    if (i == MT_THREADS)
        return NULL;
    if (i == mt_g.slots) {
        struct mt_core_thread_state *t = mt_plat_map(sizeof *t);
        if (!t)
            return NULL;
        t->slot = i;
        t->pub.state = t;
        mt_g.slot[i] = t;
        __atomic_store_n(&mt_g.slots, i + 1, __ATOMIC_RELEASE);
    }
    return mt_g.slot[i];
}

static void thread_clear(struct mt_core_thread_state *t)
{
    uint32_t slot = t->slot;
    memset(t, 0, sizeof *t);
    t->slot = slot;
    t->pub.state = t;
    t->name = MT_NAMELESS;
}

static void thread_line(const struct mt_core_thread_state *t)
{
    mt_core_sink_line(MT_LINE_thread, &(struct mt_thread_line){t->number, t->native});
}

static void thread_refuse(void)
{
    if (!mt_g.refused++)
        mt_plat_report("a thread is not traced: no memory, or more than %u threads; the trace is incomplete",
                       MT_THREADS);
    mt_g.incomplete = 1;
}

struct mt_core_thread *mt_core_thread_start(uint64_t native_id)
{
    if (!mt_on())
        return NULL;
    struct mt_buffer *b =
        mt_core_sink_buffer(mt_g.o->mode == MT_CORE_MAT ? MT_BUFFER_ENTRIES : atomic_kind(), 0, seq_now());
    mt_spin_lock(&mt_g.threads_lock);
    struct mt_core_thread_state *t = b && mt_on() ? slot_take() : NULL;
    if (t) {
        thread_clear(t);
        t->native = native_id;
        b->thread = t->number = mt_g.numbers++;
        t->buffer = b;
        t->seq = b->seq;
        alone_join(t);
        if (mt_g.o->mode == MT_CORE_MAT)
            mat_start(t);
        else
            atomic_fresh(t);
        __atomic_store_n(&t->live, 1, __ATOMIC_RELEASE);
    } else if (mt_on()) {
        thread_refuse();
    }
    mt_spin_unlock(&mt_g.threads_lock);
    if (!t) {
        if (b)
            mt_core_sink_return(b);
        return NULL;
    }
    thread_line(t);
    if (mt_g.o->mode == MT_CORE_ATOMIC)
        atomic_start(t);
    else if (mt_g.o->mode == MT_CORE_INSN)
        insn_thread(t);
    return &t->pub;
}

void mt_core_thread_end(struct mt_core_thread *pub)
{
    if (!pub || mt_g.forked)
        return;
    struct mt_core_thread_state *t = pub->state;
    if (!t->live)
        return;
    if (mt_on()) {
        if (mt_g.o->mode == MT_CORE_ATOMIC)
            atomic_end(t);
        else if (mt_g.o->mode == MT_CORE_INSN)
            insn_end(t);
        else
            core_mat_end(t);
    }
    mt_spin_lock(&mt_g.threads_lock);
    if (t->live && mt_on()) { /* otherwise mt_core_stop takes the data of live threads */
        mt_g.lost += t->lost;
        mt_g.outside += t->outside;
        mt_g.left += t->left;
        if (t->buffer)
            mt_core_sink_return(t->buffer);
        t->buffer = NULL;
        alone_part(t);
        __atomic_store_n(&t->live, 0, __ATOMIC_RELEASE);
    }
    mt_spin_unlock(&mt_g.threads_lock);
}

/* Makes every live thread check its state at its next access. Async-signal safe. */
static void core_ring(void)
{
    __atomic_add_fetch(&mt_g.bell, 1, __ATOMIC_SEQ_CST);
    uint32_t n = __atomic_load_n(&mt_g.slots, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++) {
        struct mt_core_thread_state *t = mt_g.slot[i];
        if (__atomic_load_n(&t->pub.limit, __ATOMIC_RELAXED))
            __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_SEQ_CST);
    }
}

void mt_core_lost(struct mt_core_thread *t, uint64_t count)
{
    mt_core_count(&t->state->lost, count);
}

/* Counts the entries of a full buffer as lost, without memory for another one. Reported once. */
static void thread_lost(struct mt_core_thread_state *t, uint64_t count)
{
    mt_core_count(&t->lost, count);
    if (!__atomic_exchange_n(&mt_g.incomplete, 1, __ATOMIC_RELAXED))
        mt_plat_report("Cannot allocate memory for a buffer: accesses are lost, the trace is incomplete");
}

/* Sums up at the end: threads may still come and go, but not delay us. */
struct mt_sums mt_threads_sum(void)
{
    int locked = !mt_spin_lock_for(&mt_g.threads_lock, 1000000000u, mt_core_sink_writing);
    struct mt_sums sum = {mt_g.lost, mt_g.outside, mt_g.left};
    for (uint32_t i = 0; i < mt_g.slots; i++)
        if (mt_g.slot[i]->live) {
            sum.lost += __atomic_load_n(&mt_g.slot[i]->lost, __ATOMIC_RELAXED);
            sum.outside += __atomic_load_n(&mt_g.slot[i]->outside, __ATOMIC_RELAXED);
            sum.left += __atomic_load_n(&mt_g.slot[i]->left, __ATOMIC_RELAXED);
        }
    if (locked)
        mt_spin_unlock(&mt_g.threads_lock);
    return sum;
}

/* sourcelines.txt: `IP FILE:LINE` for each instruction with an access in the trace, by ascending IP; ":0"
 * for an unknown location. MAT's scripts look up each IP in it. */

#define BLOCK 65536u

struct line {
    uint64_t ip;
    const struct mt_core_kept_site *site;
};

static char sourcelines[4096 + 32]; /* absolute, as the program may change folders */

/* Names the file beside the trace, or in the current folder if the trace is not a file of its own. */
static void sourcelines_start(void)
{
    const char *output = mt_g.o->output, *slash = strrchr(output, '/');
    size_t n = 0;
    if (*output != '/' || mt_core_sink_is_fifo()) {
        long got = mt_sys(__NR_readlink, (long)"/proc/self/cwd", (long)sourcelines, 4095, 0, 0, 0);
        n = got > 0 ? (size_t)got : 0;
        sourcelines[n++] = '/';
    }
    if (slash && !mt_core_sink_is_fifo() && n + (size_t)(slash + 1 - output) < 4096) {
        memcpy(sourcelines + n, output, (size_t)(slash + 1 - output));
        n += (size_t)(slash + 1 - output);
    }
    strcpy(sourcelines + n, "sourcelines.txt");
}

static int sourcelines_order(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return (x->ip > y->ip) - (x->ip < y->ip);
}

/* Collects all instructions that were written; `l` has room for four operands of each. */
static size_t sourcelines_collect(struct line *l)
{
    size_t n = 0;
    for (uint32_t i = 1; i < mt_site_instructions(); i++) {
        const struct mt_core_kept_site *s = mt_site_of(i << 2);
        if (!s || !s->shown)
            continue;
        if (s->ip)
            l[n++] = (struct line){s->ip, s};
        for (unsigned k = 0; !s->ip && k < s->operands; k++)
            l[n++] = (struct line){(i << 2) + k, s};
    }
    qsort(l, n, sizeof *l, sourcelines_order);
    return n;
}

static int sourcelines_put(struct mt_core_output *o, const struct line *l, size_t n, char *block)
{
    size_t used = 0;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (i && l[i].ip == l[i - 1].ip)
            continue;
        if (BLOCK - used < MT_TEXT_LINE) {
            rc = mt_core_output_write(o, block, used);
            used = 0;
        }
        used += mt_text_mat_location(block + used, BLOCK - used, l[i].ip, l[i].site->file, l[i].site->line);
    }
    return rc ? rc : mt_core_output_write(o, block, used);
}

/* The second file of --mat-files. Its name is made at the start, the file at the end. */
static void sourcelines_write(void)
{
    char why[1200];
    struct mt_core_output o;
    size_t bytes = (size_t)mt_site_instructions() * 4 * sizeof(struct line);
    if (mt_core_output_open(&o, sourcelines, why, sizeof why)) {
        mt_plat_report("%s; the trace has no places", why);
        return;
    }
    struct line *l = mt_plat_map(bytes);
    char *block = mt_plat_map(BLOCK);
    int rc = l && block ? sourcelines_put(&o, l, sourcelines_collect(l), block) : ENOMEM;
    if (rc)
        mt_plat_report("%s: %s; places are missing", sourcelines, strerror(rc));
    mt_core_output_close(&o);
    mt_plat_unmap(block, BLOCK);
    mt_plat_unmap(l, bytes);
}

/* ---- Functions traced by name: numbers, and the names in -f FILE and --routine ---- */

static const char *const annotations[] = {[MT_CORE_FN_REGISTER] = "atomic_trace::register_thread",
                                          [MT_CORE_FN_START_ROI] = "atomic_trace::start_roi",
                                          [MT_CORE_FN_END_ROI] = "atomic_trace::end_roi"};
/* The annotation functions' C names. */
static const char *const c_names[] = {[MT_CORE_FN_REGISTER] = "mt_register_thread",
                                      [MT_CORE_FN_START_ROI] = "mt_start_roi",
                                      [MT_CORE_FN_END_ROI] = "mt_end_roi"};
#define FIRST 4u
#define MAX 65536u
#define SHOWN 8u /* maximum number of unused names that are listed */

struct name {
    const char *text;
    uint32_t seen; /* 1: some module has such a function */
};
static struct name *names; /* names after the fixed ones, from FIRST on */
static uint32_t count;

static int functions_add(const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(names[i].text, name))
            return 0;
    if (count == MAX)
        return -1;
    names[count++] = (struct name){name, 0};
    return 0;
}

/* Reads one name per line, without surrounding blanks and empty lines. Cuts `text` into lines. */
static int add_lines(char *text)
{
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        char *next = line + n + (line[n] != 0), *end = line + n;
        while (*line == ' ' || *line == '\t')
            line++;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
            end--;
        *end = 0;
        if (*line && functions_add(line))
            return -1;
        line = next;
    }
    return 0;
}

static int functions_start(char *why, unsigned size)
{
    size_t bytes;
    if (!names && !(names = mt_plat_map(MAX * sizeof *names))) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (unsigned i = 0; i < mt_g.o->routine.count; i++)
        functions_add(mt_g.o->routine.item[i]);
    if (!*mt_g.o->functions)
        return 0;
    char *text = mt_core_output_slurp(mt_g.o->functions, &bytes, why, size); /* the names point into it */
    if (!text)
        return -1;
    if (add_lines(text)) {
        snprintf(why, size, "%s names more than %u functions", mt_g.o->functions, MAX);
        return -1;
    }
    return 0;
}

/* into the compact trace */
static void functions_lines(void)
{
    for (uint32_t i = 0; i < count; i++)
        mt_core_sink_line(MT_LINE_function, &(struct mt_function_line){i + FIRST, names[i].text});
}

uint32_t mt_core_function(const char *name)
{
    for (uint32_t i = MT_CORE_FN_REGISTER; i <= MT_CORE_FN_END_ROI; i++)
        if (!strcmp(name, annotations[i]) || !strcmp(name, c_names[i]))
            return i;
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(name, names[i].text)) {
            __atomic_store_n(&names[i].seen, 1, __ATOMIC_RELAXED);
            return i + FIRST;
        }
    return 0;
}

int mt_core_symbol_is_part(const char *symbol)
{
    const char *dot = strchr(symbol, '.');
    return dot && (strstr(dot, ".cold") || strstr(dot, ".part."));
}

/* Reports names that no module has: mistakes, or functions inlined everywhere. */
static void functions_unseen(void)
{
    char text[600] = "";
    uint32_t unseen = 0, shown = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t n = strlen(text);
        if (names[i].seen)
            continue;
        if (unseen++ < SHOWN && n + strlen(names[i].text) + 4 < sizeof text) {
            snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", names[i].text);
            shown++;
        }
    }
    if (unseen)
        mt_plat_report(
            "no function is called %s%s; names are undecorated, as ns::f, and a function that is inlined "
            "everywhere does not count",
            text, unseen > shown ? " …" : "");
}

static const char *function_name(uint64_t id)
{
    return id >= FIRST && id - FIRST < count ? names[id - FIRST].text : "?";
}

/* Regions traced in mat mode: routines. (Signals: mt_core_switch, regions: functions.) */

static void switch_look(struct mt_core_thread_state *t)
{
    if (t->busy || !t->live || !mt_on() || mt_g.o->mode != MT_CORE_MAT)
        return;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    mat_look(t);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

void mt_core_routine_enter(struct mt_core_thread *pub)
{
    if (pub && !pub->state->depth++)
        switch_look(pub->state);
}

void mt_core_routine_leave(struct mt_core_thread *pub)
{
    if (pub && pub->state->depth && !--pub->state->depth)
        switch_look(pub->state);
}

struct mt_core_global mt_g;
static uint32_t started;
static struct mt_core_options used; /* options of the engine, with the file's name */

/* Return the present sequence number, and a new one. */
static uint64_t seq_now(void)
{
    return mt_g.e->sequence ? mt_g.e->sequence(0) : __atomic_load_n(&mt_g.own_seq, __ATOMIC_ACQUIRE);
}

uint64_t mt_seq_next(void)
{
    return mt_g.e->sequence ? mt_g.e->sequence(1) : __atomic_add_fetch(&mt_g.own_seq, 1, __ATOMIC_SEQ_CST);
}

void mt_core_fail(const char *format, ...)
{
    char text[1024];
    mt_g.incomplete = 1;
    __atomic_store_n(&mt_g.on, 0, __ATOMIC_SEQ_CST);
    static uint32_t said;
    if (__atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
        return;
    __builtin_va_list args;
    __builtin_va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    __builtin_va_end(args);
    mt_plat_report("%s; tracing is off, the trace is incomplete", text);
    core_ring();
}

int mt_core_start(const struct mt_core_options *options, const struct mt_core_engine *engine, char *why,
                  unsigned size)
{
    if (mt_g.slot) {
        snprintf(why, size, "tracing was started already");
        return -1;
    }
    memset(&mt_g, 0, sizeof mt_g);
    used = *options;
    mt_g.o = &used;
    mt_g.e = engine;
    mt_g.switched = !options->signal;
    mt_plat_engine(engine->report, engine->yield);
    if (!(used.output = mt_core_output_name(options->output))) {
        used.output = options->output;
        snprintf(why, size, "the name of the output file is too long; give another -o");
        return -1;
    }
    if (!(mt_g.slot = mt_plat_map(MT_THREADS * sizeof *mt_g.slot))) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    if (functions_start(why, size) || mt_core_sink_open(why, size))
        return -1;
    if (used.mat_files)
        sourcelines_start();
    if ((options->mode == MT_CORE_ATOMIC && (order_start(why, size) || atomic_open(why, size))) ||
        (options->mode == MT_CORE_INSN && insn_start(why, size))) {
        mt_core_sink_close(0);
        return -1;
    }
    __atomic_store_n(&started, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mt_g.on, 1, __ATOMIC_SEQ_CST);
    functions_lines();
    return 0;
}

/* Limit of the wait for a thread inside the core, perhaps below the signal handler that stops us; its data
 * is then lost. */
#define STOP_WAIT_NS 1000000000u

static void core_collect(void)
{
    int locked = !mt_spin_lock_for(&mt_g.threads_lock, STOP_WAIT_NS,
                                   mt_core_sink_writing); /* no thread ends meanwhile */
    for (uint32_t i = 0; i < mt_g.slots; i++) {
        struct mt_core_thread_state *t = mt_g.slot[i];
        if (!__atomic_load_n(&t->live, __ATOMIC_ACQUIRE))
            continue;
        if (mt_spin_lock_for(&t->lock, STOP_WAIT_NS, mt_core_sink_writing)) {
            mt_g.incomplete = 1;
            continue;
        }
        if (t->live && t->buffer) {
            if (mt_g.o->mode == MT_CORE_ATOMIC || is_in_turn(t))
                atomic_stop(t);
            else if (mt_g.o->mode == MT_CORE_INSN)
                mt_insn_flush(t);
            else
                mat_stop(t);
        }
        mt_spin_unlock(&t->lock);
    }
    if (locked)
        mt_spin_unlock(&mt_g.threads_lock);
}

void mt_core_stop(int killed)
{
    if (mt_g.forked || !__atomic_exchange_n(&started, 0, __ATOMIC_SEQ_CST))
        return;
    __atomic_store_n(&mt_g.stopping, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mt_g.on, 0, __ATOMIC_SEQ_CST);
    core_ring();
    functions_unseen();
    if (mt_core_sink_stuck(STOP_WAIT_NS)) {
        mt_plat_report("%s: stopped inside the tracer; the trace has no end", mt_g.o->output);
        return;
    }
    core_collect();
    if (mt_g.o->mode == MT_CORE_INSN)
        insn_stop();
    else if (mt_g.o->mode == MT_CORE_ATOMIC)
        atomic_close(killed);
    struct mt_sums sum = mt_threads_sum();
    if (sum.outside && mt_g.o->mode == MT_CORE_MAT && !mt_g.o->container)
        mt_plat_report("%llu accesses outside all allocations were left out; --all keeps them",
                       (unsigned long long)sum.outside);
    if (sum.left && !mt_g.o->container)
        mt_plat_report("%llu accesses of libraries' code were left out; --library=all keeps them",
                       (unsigned long long)sum.left);
    mt_core_library_unmet();
    if (sum.lost && !mt_g.incomplete) /* otherwise the reason was reported */
        mt_plat_report("%llu accesses could not be recorded: the trace is incomplete",
                       (unsigned long long)sum.lost);
    mt_core_sink_close(killed);
    if (mt_g.o->mat_files)
        sourcelines_write();
}

void mt_core_incomplete(const char *why)
{
    mt_g.incomplete = 1;
    mt_plat_report("%s", why);
}

void mt_core_forked(void)
{
    __atomic_store_n(&mt_g.on, 0, __ATOMIC_SEQ_CST);
    mt_g.forked = 1;
    started = 0;
    if (mt_g.slot) {
        mt_core_sink_forked();
        core_ring();
    }
}

void mt_core_child(void)
{
    __atomic_add_fetch(&mt_g.children, 1, __ATOMIC_RELAXED);
}

int mt_core_on(void)
{
    return mt_on();
}

const struct mt_core_options *mt_core_options(void)
{
    return mt_g.o;
}

void mt_core_switch(int on)
{
    if (!mt_g.slot)
        return;
    __atomic_store_n(&mt_g.switched, on ? 1u : 0u, __ATOMIC_SEQ_CST);
    core_ring();
}
