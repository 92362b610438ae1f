/* What the program does to memory beside its kernels: allocations, copies, fills, and the order that events
 * make. Each handler takes the callbacks of one domain (memory, arrays: of the resource domain) and writes
 * the lines that the CPU device writes. */
#ifndef MT_INJECT_MEMORY_H
#define MT_INJECT_MEMORY_H
#include <sanitizer.h>
#include <stdint.h>

/* memory.c */
void mt_inject_memory(Sanitizer_CallbackId cbid, const void *data);
/* Nodes of graphs that allocate and free, when the graph is launched. */
void mt_inject_allocated(const Sanitizer_ResourceMemoryData *m);
void mt_inject_freed(uint64_t address);

/* copy.c */
void mt_inject_memcpy(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_memset(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_batch(Sanitizer_CallbackId cbid, const void *data);
/* A copy or fill that begins now in the stream of this number (mt_event_copy); also of a graph's node. */
void mt_inject_copied(const Sanitizer_MemcpyData *m, int64_t stream);
void mt_inject_filled(const Sanitizer_MemsetData *m, int64_t stream);

/* order.c: events, what records them and waits for them. */
void mt_inject_event(Sanitizer_CallbackId cbid, const void *data);
#endif
