/* Inside of atomic mode: what its files share. */
#ifndef MT_HOST_ATOMIC_H
#define MT_HOST_ATOMIC_H
#include "state.h"

/* The object that logs for threads that are not known: name -1. Used under the threads lock. */
struct mt_core_thread_state *mt_atomic_nobody(void);
/* An event at `time`, and flush: what is in the buffer to the sink. The thread's lock is held. */
void mt_atomic_event(struct mt_core_thread_state *t, uint64_t time, enum mt_host_event kind,
                     const uint64_t *args, unsigned n);
/* An allocation came or went, by this thread: a container's accesses after it have a higher number. */
void mt_atomic_moved(struct mt_core_thread_state *t);
void mt_atomic_flush(struct mt_core_thread_state *t);
/* The same where a merger of the text must see it before later times of others;
 * a container needs no hurry. */
void mt_atomic_publish(struct mt_core_thread_state *t);
/* Counts an access or event; 1 when it is time for mt_atomic_write, which takes the locks itself. `time`: the
 * newest of the thread. */
int mt_atomic_due(struct mt_core_thread_state *t);
void mt_atomic_write(struct mt_core_thread_state *t, uint64_t time);
/* turns.c: threads that run one at a time into a container. Which buffers such threads have;
 * TIMED if they do not. */
enum mt_buffer_kind mt_atomic_kind(void);
/* A new, empty buffer. */
void mt_atomic_fresh(struct mt_core_thread_state *t);
/* Brings time and mt_order_alone up to what the thread has appended, and lets it append no more until
 * mt_turns_open. Nothing for other threads. */
void mt_turns_close(struct mt_core_thread_state *t);
/* If the thread may append: it may. */
void mt_turns_open(struct mt_core_thread_state *t);
/* An entry at this time. The thread is closed. */
void mt_turns_append(struct mt_core_thread_state *t, uint64_t address, uint64_t time, uint32_t site,
                     uint32_t size);
/* No room for one more instruction; entries in the buffer. */
int mt_turns_full(const struct mt_core_thread_state *t);
uint64_t mt_turns_count(const struct mt_core_thread_state *t);
static inline int mt_turns(const struct mt_core_thread_state *t)
{
    return t->mark != NULL;
}
/* alone.c: a thread that is the only one appends as in a turn that ends when another one comes. A thread
 * begins, and ends; the threads lock is held. */
void mt_alone_join(struct mt_core_thread_state *t);
void mt_alone_part(const struct mt_core_thread_state *t);
/* The thread, which is pending, begins an access: 1: without locks; 0: it is not alone (any more). To be
 * asked if mt_alone or t->turn. */
int mt_alone_begin(struct mt_core_thread_state *t);
/* Between the two. */
static inline int mt_alone(const struct mt_core_thread_state *t)
{
    return mt_turns(t) && mt_g.e->marks;
}
/* Are this thread's accesses part of the trace now? */
int mt_atomic_traced(const struct mt_core_thread_state *t);
/* lag.c: no thread's time in the file is further below `time` than -d allows, so `time` may be written. No
 * lock is held. */
void mt_lag_control(uint64_t time);
#endif
