/* The local range: one reserved stretch of address space that holds everything device code can address and
 * that is not global memory: stacks of device threads, shared memory, kernel arguments. So "is this pointer
 * global?" is one comparison. Memory is committed when first touched, and kept for reuse by its owner for the
 * life of the process. Thread-safe. */
#ifndef MT_CPU_LOCAL_H
#define MT_CPU_LOCAL_H
#include <stddef.h>
#include <stdint.h>

/* Reserves the range once. 0 or an errno value. */
int mt_local_init(void);
uint64_t mt_local_base(void);
uint64_t mt_local_bytes(void);
/* `count` blocks of `bytes` each (rounded up to pages), readable and writable, each with an unmapped guard
 * page below it while the process can afford the mappings (*guarded says). *stride gets the distance of the
 * blocks. NULL when the range or memory is exhausted. The last two may be NULL. */
void *mt_local_alloc(size_t bytes, unsigned count, size_t *stride, int *guarded);
/* No block will lie in the next so many bytes: an access there faults. 0, or -1 when the range is exhausted.
 */
int mt_local_skip(size_t bytes);
/* In a forked child, where no owner is left: all blocks are free again. */
void mt_local_reset(void);
#endif
