/* Address locks and clocks of atomic mode. */
#include "order.h"
#include "atomic.h"
#include <stdio.h>

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

/* Sorts the locks without duplicates; held = ALL if taking all is simpler. */
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

/* Takes over from a thread that left without releasing (killed, longjmp out of a handler), which must not
 * stop all others. */
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

void mt_order_acquire(struct mt_core_thread_state *t)
{
    order_choose(t);
    for (uint32_t i = 0; i < order_held(t); i++)
        mt_order_take(lock_of(t, i), t->slot + 1);
}

uint64_t mt_order_time(const struct mt_core_thread_state *t)
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

void mt_order_release_dead(struct mt_core_thread_state *t)
{
    for (uint32_t i = 0; i < order_held(t); i++) {
        uint32_t me = t->slot + 1;
        __atomic_compare_exchange_n(&lock_of(t, i)->owner, &me, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
    t->held = 0;
}

/* ---- all threads at one time ---- */

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
    log(t ? t : mt_atomic_nobody(), time, arg);
    for (uint32_t i = mt_g.slots; i-- > 0;)
        if (mt_g.slot[i]->live)
            mt_spin_unlock(&mt_g.slot[i]->lock);
    mt_spin_unlock(&mt_g.threads_lock);
}
