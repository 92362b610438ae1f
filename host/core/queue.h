/* Queue of full buffers for the compact trace. Any thread with time encodes and packs one without a lock;
 * chunks are in the file in the order of their buffers. Memory is bounded: at most MT_QUEUE_MAX buffers
 * wait, and a fixed number is in work. Nothing here calls malloc. */
#ifndef MT_HOST_QUEUE_H
#define MT_HOST_QUEUE_H
#include "format/container/writer.h"
#include "sink.h"

#define MT_QUEUE_MAX 24u /* maximum number of waiting buffers before threads wait */

/* Opens the queue. The caller keeps the writer. level: as for mt_mtc_writer_open. */
void mt_core_queue_open(struct mt_mtc_writer *writer, int level);
/* Adds a buffer, which belongs to the queue until it goes to mt_core_sink_return. */
void mt_core_queue_push(struct mt_buffer *b);
/* Takes the oldest buffer and works on it. Returns 0 if there is none, or too many are in work. help: the
 * caller has other work; compression is then faster and weaker for a while. */
int mt_core_queue_step(int help);
uint32_t mt_core_queue_waiting(void);
/* Writes everything to the file, including buffers that other threads work on. A thread without progress
 * for a second (perhaps below the signal handler that ends the program) loses its buffer. One caller at a
 * time. */
void mt_core_queue_finish(void);
/* Frees the memory that nobody can be using any more. Nobody may use the writer afterwards. */
void mt_core_queue_close(void);
/* written: items in the file. dropped: accesses and events that did not get there. */
uint64_t mt_core_queue_written(void);
uint64_t mt_core_queue_dropped(void);
/* Returns 1 while some thread writes to the file. */
int mt_core_queue_writing(void);
/* Returns 1 if a lock of the queue stays held for `ns` although nobody writes. */
int mt_core_queue_stuck(uint64_t ns, int (*busy)(void));
#endif
