/* Atomic mode of an engine with `marks`, into a container: a thread that is the only one needs no locks. Its
 * accesses are appended without times, as in a turn (turns.c), until another thread begins. Whoever brings
 * that thread waits until the access that is under way is over: an access is short, and calls nothing.
 *
 * The two meet without an atomic instruction of the first thread: it sets `open` or `pending` and then looks
 * at limit or `turn`; the other one changes these and looks at `open` and `pending` after a barrier that the
 * kernel makes in all threads. So one of them sees what the other did.
 *
 * The clock of the second thread starts after the first one's (mt_order_sync), and so do all later times of
 * both: the address locks need not know what was done without them. */
#include "atomic.h"

#define WAIT_NS 2000000000u

static int alone_possible(void)
{
    return mt_g.e->marks && mt_g.o->mode == MT_CORE_ATOMIC && mt_g.o->container && !mt_g.o->test &&
           !mt_plat_barrier();
}

/* From here on with times and locks (TIMED), or without (COUNTED). Its lock is held, and nothing of its is
 * under way. */
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

/* Waits for the access that is under way. */
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

/* A live thread other than `but`. */
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
        __atomic_store_n(&other->turn, 1, __ATOMIC_RELEASE); /* it sees that at its next access */
}

int mt_alone_begin(struct mt_core_thread_state *t)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* `pending` before `turn` */
    int alone = __atomic_load_n(&t->turn, __ATOMIC_ACQUIRE);
    if (alone && mt_turns(t)) {
        mt_turns_close(t);
        return 1;
    }
    if (!alone) { /* who ends it need not wait for us */
        __atomic_store_n(&t->pub.open, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&t->pending, 0, __ATOMIC_RELEASE);
    }
    mt_spin_lock(&t->lock);
    alone_change(t, alone ? MT_BUFFER_COUNTED : MT_BUFFER_TIMED);
    mt_spin_unlock(&t->lock);
    __atomic_store_n(&t->pending, 1, __ATOMIC_RELAXED);
    return mt_alone(t);
}
