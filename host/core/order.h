/* Address locks and clocks of atomic mode. Order of locks: address locks by index, threads lock, thread
 * locks by slot, file lock. */
#ifndef MT_HOST_ORDER_H
#define MT_HOST_ORDER_H
#include "state.h"

/* A lock on a cache line of its own. */
struct mt_address_lock {
    uint32_t owner; /* slot + 1; 0: free */
    uint32_t pad;
    uint64_t time; /* time of the last access under it */
    uint64_t rest[6];
};
extern struct mt_address_lock *mt_order_bank;
extern uint32_t mt_order_mask;  /* number of locks - 1 */
extern unsigned mt_order_shift; /* log2 of a block's bytes */
/* Waits for a lock that was not free, and takes it for `me`. */
void mt_order_wait(struct mt_address_lock *l, uint32_t me);

static inline void mt_order_take(struct mt_address_lock *l, uint32_t me)
{
    uint32_t none = 0;
    if (__builtin_expect(
            !__atomic_compare_exchange_n(&l->owner, &none, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 0))
        mt_order_wait(l, me);
}

/* Takes the locks that cover the thread's operands (count 0: all) in order and puts them into t->lock_at. */
void mt_order_acquire(struct mt_core_thread_state *t);
/* Returns the newest time in the locks that t holds. */
uint64_t mt_order_time(const struct mt_core_thread_state *t);
/* Returns a new time after `own` and all earlier results; for an engine that lets one thread run at a
 * time. */
extern uint64_t mt_order_alone;
static inline uint64_t mt_order_tick(uint64_t own)
{
    uint64_t last = mt_order_alone;
    return mt_order_alone = (last > own ? last : own) + 1;
}
/* Releases the locks and first stores `time` in them if it is not 0. */
void mt_order_release(struct mt_core_thread_state *t, uint64_t time);
/* Releases the locks of a thread that may have died while it took them. */
void mt_order_release_dead(struct mt_core_thread_state *t);
/* Moves all live threads to one new time and calls log with the threads lock and all thread locks held; t
 * NULL: for events of no thread. */
void mt_order_sync(struct mt_core_thread_state *t,
                   void (*log)(struct mt_core_thread_state *t, uint64_t time, void *arg), void *arg);
#endif
