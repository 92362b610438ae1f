/* Atomic mode under an engine that runs one thread at a time, into a compact trace: during its turn a
 * thread's accesses have consecutive times. They are appended without times, as in mat mode; where a time
 * is not the next one, an entry states how much later it is (mt_mtc_encode_counted). */
#include "atomic.h"
#include "format/container/writer.h"
#include "order.h"

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
uint64_t mt_turns_count(const struct mt_core_thread_state *t)
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
