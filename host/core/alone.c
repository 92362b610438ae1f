/* Atomic mode without locks, for an engine with `marks` into a compact trace: a thread that is alone
 * appends its accesses without times, as in a turn (turns.c), until another thread begins. Whoever starts
 * that thread waits until the access under way is over; an access is short and calls nothing. No atomic
 * instruction is needed in the first thread: it sets `open` or `pending` and then reads limit or `turn`;
 * the other one changes these, makes the kernel run a barrier in all threads, and then reads `open` and
 * `pending`. So one of them sees the other's change. The second thread's clock starts after the first
 * one's (mt_order_sync), as do all later times of both, so the address locks need no record of accesses
 * made without them. */
#include "atomic.h"

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
    b->count = mt_turns(t) ? mt_turns_count(t) : b->count;
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

int mt_alone_begin(struct mt_core_thread_state *t)
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
