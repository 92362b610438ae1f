/* Inside of atomic mode: what its files share. */
#ifndef MT_HOST_ATOMIC_H
#define MT_HOST_ATOMIC_H
#include "state.h"

/* The object that logs for threads that are not known: name -1. Used under the threads lock. */
struct mt_core_thread_state *mt_atomic_nobody(void);
/* An event at `time`, and flush: what is in the buffer to the sink. The thread's lock is held. */
void mt_atomic_event(struct mt_core_thread_state *t, uint64_t time, enum mt_host_event kind,
                     const uint64_t *args, unsigned n);
void mt_atomic_flush(struct mt_core_thread_state *t);
/* Flushes when enough has come together; 1 if it did. Then mt_lag_control is due, without locks. */
int mt_atomic_flush_due(struct mt_core_thread_state *t);
/* lag.c: no thread may lie further behind `time` in the file than -d allows. No lock is held. */
void mt_lag_control(uint64_t time);
#endif
