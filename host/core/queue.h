/* Full buffers on their way into the container. Whoever has time encodes and packs one, without a lock;
 * chunks are in the file in the order in which their buffers came. Memory is bounded: MT_QUEUE_MAX buffers
 * wait, a fixed number is being worked on. Nothing here calls malloc. */
#ifndef MT_HOST_QUEUE_H
#define MT_HOST_QUEUE_H
#include "format/container/writer.h"
#include "sink.h"

#define MT_QUEUE_MAX 24u /* buffers that wait before threads do */

/* The writer stays the caller's. level: as mt_mtc_writer_open. */
void mt_core_queue_open(struct mt_mtc_writer *writer, int level);
/* The buffer is the queue's until it goes to mt_core_sink_return. */
void mt_core_queue_push(struct mt_buffer *b);
/* Takes the oldest buffer and works on it. 0: there is none, or as many as may be are under way. help: the
 * caller has something else to do; it then goes fast, and packs less, for a while. */
int mt_core_queue_step(int help);
uint32_t mt_core_queue_waiting(void);
/* Everything is in the file, what other threads have begun, too: one that makes no progress for a second (it
 * is below the signal handler that ends the program, perhaps) has its buffer taken away.
 * One caller at a time. */
void mt_core_queue_finish(void);
/* Frees what nobody can be using any more. Nobody uses the writer from here on. */
void mt_core_queue_close(void);
/* Items in the file; accesses and events that did not get there. */
uint64_t mt_core_queue_written(void);
uint64_t mt_core_queue_dropped(void);
/* 1 while somebody writes to the file. */
int mt_core_queue_writing(void);
/* 1 if one of the queue's locks is not free for `ns` although nobody writes. */
int mt_core_queue_stuck(uint64_t ns, int (*busy)(void));
#endif
