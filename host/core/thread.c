/* Threads: slots of the live ones, numbers, and requests for their attention. */
#include "atomic.h"
#include <string.h>

/* Takes a slot. Its object is reused by a later thread and never unmapped, as mt_core_ring reads it
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
    struct mt_buffer *b = mt_core_sink_buffer(
        mt_g.o->mode == MT_CORE_MAT ? MT_BUFFER_ENTRIES : mt_atomic_kind(), 0, mt_seq_now());
    mt_spin_lock(&mt_g.threads_lock);
    struct mt_core_thread_state *t = b && mt_on() ? slot_take() : NULL;
    if (t) {
        thread_clear(t);
        t->native = native_id;
        b->thread = t->number = mt_g.numbers++;
        t->buffer = b;
        t->seq = b->seq;
        mt_alone_join(t);
        if (mt_g.o->mode == MT_CORE_MAT)
            mt_mat_start(t);
        else
            mt_atomic_fresh(t);
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
        mt_atomic_start(t);
    else if (mt_g.o->mode == MT_CORE_INSN)
        mt_insn_thread(t);
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
            mt_atomic_end(t);
        else if (mt_g.o->mode == MT_CORE_INSN)
            mt_insn_end(t);
        else
            mt_mat_end(t);
    }
    mt_spin_lock(&mt_g.threads_lock);
    if (t->live && mt_on()) { /* otherwise mt_core_stop takes the data of live threads */
        mt_g.lost += t->lost;
        mt_g.outside += t->outside;
        mt_g.left += t->left;
        if (t->buffer)
            mt_core_sink_return(t->buffer);
        t->buffer = NULL;
        mt_alone_part(t);
        __atomic_store_n(&t->live, 0, __ATOMIC_RELEASE);
    }
    mt_spin_unlock(&mt_g.threads_lock);
}

void mt_core_ring(void)
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
    mt_count(&t->state->lost, count);
}

void mt_thread_lost(struct mt_core_thread_state *t, uint64_t count)
{
    mt_count(&t->lost, count);
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
