/* Internals of atomic mode, shared by its files. */
#ifndef MT_HOST_ATOMIC_H
#define MT_HOST_ATOMIC_H
#include "state.h"

/* Returns the object that logs for unknown threads (name -1). Used under the threads lock. */
struct mt_core_thread_state *mt_atomic_nobody(void);
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
/* turns.c: threads that run one at a time and write a compact trace. Returns the kind of buffer for such
 * threads, or TIMED for others. */
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
/* full: 1 if there is no room for one more instruction; count: number of entries in the
 * buffer. */
int mt_turns_full(const struct mt_core_thread_state *t);
uint64_t mt_turns_count(const struct mt_core_thread_state *t);
static inline int mt_turns(const struct mt_core_thread_state *t)
{
    return t->mark != NULL;
}
/* alone.c: the only thread appends as in a turn, which ends when another thread starts. These take note of
 * a thread's start and end; the threads lock is held. */
void mt_alone_join(struct mt_core_thread_state *t);
void mt_alone_part(const struct mt_core_thread_state *t);
/* Begins an access of a pending thread. Returns 1: without locks; 0: the thread is not alone (any more).
 * Called if mt_alone or t->turn. */
int mt_alone_begin(struct mt_core_thread_state *t);
/* Returns 1 between the two. */
static inline int mt_alone(const struct mt_core_thread_state *t)
{
    return mt_turns(t) && mt_g.e->marks;
}
/* Returns 1 if this thread's accesses are part of the trace now. */
int mt_atomic_traced(const struct mt_core_thread_state *t);
/* lag.c: waits until no thread's time in the file is further below `time` than -d allows, so that `time`
 * may be written. No lock is held. */
void mt_lag_control(uint64_t time);
#endif
