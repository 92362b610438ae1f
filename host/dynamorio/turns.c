/* Atomic and insn mode into a compact trace: threads take turns, so that a thread's appends during its
 * turn are in the order of its accesses, without a lock for each. A waiting thread asks the holder to
 * check (mt_core_thread.limit), which it does at its next window, or at the next round of a loop without
 * accesses. */
#include "client.h"
#include <stddef.h>

enum { LAST_MS = 300, STEP_US = 200 };

static struct mt_client_thread *turn_of(struct mt_baton_hand *h)
{
    return (struct mt_client_thread *)((char *)h - offsetof(struct mt_client_thread, hand));
}

/* Threads that have ended stay in memory (process.c): `h` may belong to one. */
static void turn_asked(struct mt_baton_hand *h)
{
    struct mt_core_thread *core = turn_of(h)->core;
    __atomic_store_n(&turn_of(h)->asked, 1u, __ATOMIC_RELAXED);
    if (core)
        __atomic_store_n(&core->limit, NULL, __ATOMIC_SEQ_CST);
}

static void turn_stolen(struct mt_baton_hand *h)
{
    struct mt_core_thread *core = turn_of(h)->core;
    if (core)
        mt_core_turn_stolen(core);
}

void mt_turn_start(void)
{
    mt_baton_asked = turn_asked;
    mt_baton_stolen = turn_stolen;
    mt_baton_step_us = STEP_US;
}

static int turn_take(struct mt_client_thread *t, unsigned ms)
{
    int rc = mt_baton_take(&t->hand, ms);
    __atomic_store_n(&t->asked, 0u, __ATOMIC_RELAXED);
    if (rc == 0 && t->core)
        mt_core_turn_begin(t->core);
    return rc;
}

void mt_turn_hold(struct mt_client_thread *t)
{
    if (mt_client.turns && !mt_client.forked && mt_baton_holder != &t->hand && mt_core_on())
        turn_take(t, 0);
}

void mt_turn_leave(struct mt_client_thread *t)
{
    if (!mt_client.turns || mt_client.forked || mt_baton_holder != &t->hand)
        return;
    if (t->core)
        mt_core_turn_end(t->core);
    mt_baton_give(&t->hand);
}

void mt_turn_yield(struct mt_client_thread *t)
{
    if (mt_client.turns && mt_baton_holder == &t->hand && __atomic_load_n(&t->asked, __ATOMIC_RELAXED) &&
        mt_baton_wanted(&t->hand))
        mt_turn_leave(t);
    mt_turn_hold(t);
}

void mt_turn_last(struct mt_client_thread *t)
{
    if (mt_client.turns && !mt_client.forked && mt_baton_holder != &t->hand && mt_core_on())
        turn_take(t, LAST_MS);
}
