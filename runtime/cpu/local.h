/* The local range: one reserved stretch of address space for everything that device code can address
 * outside of global memory: stacks of device threads, shared memory, kernel arguments. The test "is this
 * pointer global?" is thus one comparison. Memory is committed at the first touch, and kept for reuse by
 * its owner for the life of the process. Thread-safe. */
#ifndef MT_CPU_LOCAL_H
#define MT_CPU_LOCAL_H
#include <stddef.h>
#include <stdint.h>

/* Reserves the range once. Returns 0 or an errno value. */
int mt_local_init(void);
uint64_t mt_local_base(void);
uint64_t mt_local_bytes(void);
/* Allocates `count` blocks of `bytes` each (rounded up to pages), readable and writable, each with an
 * unmapped guard page below it as long as the process can afford the mappings (*guarded tells). *stride is
 * set to the distance between blocks. Returns NULL if the range or memory is exhausted. The last two may
 * be NULL. */
void *mt_local_alloc(size_t bytes, unsigned count, size_t *stride, int *guarded);
/* Leaves the next `bytes` bytes without blocks, so that an access there faults. Returns 0, or -1 if the
 * range is exhausted. */
int mt_local_skip(size_t bytes);
/* Frees all blocks in a forked child, where no owner is left. */
void mt_local_reset(void);
#endif
