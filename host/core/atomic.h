/* Internals of atomic mode, shared by its files. */
#ifndef MT_HOST_ATOMIC_H
#define MT_HOST_ATOMIC_H

#include "state.h"

/* Address locks and clocks of atomic mode. Order of locks: address locks by index, threads lock, thread
 * locks by slot, file lock. */

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

/* Moves all live threads to one new time and calls log with the threads lock and all thread locks held; t
 * NULL: for events of no thread. */
void mt_order_sync(struct mt_core_thread_state *t,
                   void (*log)(struct mt_core_thread_state *t, uint64_t time, void *arg), void *arg);

/* mt_atomic_event logs an event at `time`; mt_atomic_flush moves the buffer to the sink. The thread's lock
 * is held. */
void mt_atomic_event(struct mt_core_thread_state *t, uint64_t time, enum mt_host_event kind,
                     const uint64_t *args, unsigned n);

/* Takes note of an allocation or free by this thread: in a compact trace its later accesses get a higher
 * number. */
void mt_atomic_moved(struct mt_core_thread_state *t);

void mt_atomic_flush(struct mt_core_thread_state *t);

/* Flushes a thread's buffer when a merger of the text must see it before later times of others; a compact
 * trace does not need it. */
void mt_atomic_publish(struct mt_core_thread_state *t);

/* Counts an access or event. Returns 1 if mt_atomic_write is due, which takes the locks itself. `time`:
 * the thread's newest. */
int mt_atomic_due(struct mt_core_thread_state *t);

void mt_atomic_write(struct mt_core_thread_state *t, uint64_t time);

/* Threads that run one at a time and write a compact trace. Returns the kind of buffer for such threads, or
 * TIMED for others. */
enum mt_buffer_kind mt_atomic_kind(void);

/* Gives the thread a new, empty buffer. */
void mt_atomic_fresh(struct mt_core_thread_state *t);

/* Updates time and mt_order_alone with everything that the thread has appended, and stops further appends
 * until mt_turns_open. Does nothing for other threads. */
void mt_turns_close(struct mt_core_thread_state *t);

/* Lets the thread append, if it may. */
void mt_turns_open(struct mt_core_thread_state *t);

/* Appends an entry with this time; the thread is closed. */
void mt_turns_append(struct mt_core_thread_state *t, uint64_t address, uint64_t time, uint32_t site,
                     uint32_t size);

/* Returns 1 if there is no room for one more instruction. */
int mt_turns_full(const struct mt_core_thread_state *t);

static inline int mt_turns(const struct mt_core_thread_state *t)
{
    return t->mark != NULL;
}

/* Without locks: the only thread appends as in a turn, which ends when another thread starts. These take note
 * of a thread's start and end; the threads lock is held. */
void mt_alone_join(struct mt_core_thread_state *t);

void mt_alone_part(const struct mt_core_thread_state *t);

/* Returns 1 while the thread appends without locks. */
static inline int mt_alone(const struct mt_core_thread_state *t)
{
    return mt_turns(t) && mt_g.e->marks;
}

/* Returns 1 if this thread's accesses are part of the trace now. */
int mt_atomic_traced(const struct mt_core_thread_state *t);

#endif
