/* Keeps the threads' times in the file together, so that a merger needs little memory: a thread that lags
 * by more than -d is written out, and if its clock lags too, moved on with a thread_sync. Ended and
 * nameless threads do not count. Bound: let M be the newest time at a check. All threads are then in the
 * file at M - d or later. A thread makes at most -a accesses until its own check, and each access moves
 * the newest clock on by one (one more for each further line of its operands), as does a start or an end.
 * So no time in the file exceeds M + a x threads + starts and ends since. */
#include "atomic.h"

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

void mt_lag_control(uint64_t time)
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
