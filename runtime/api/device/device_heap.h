/* The heap of malloc and free in kernels. Thread-safe. */
#ifndef MT_API_DEVICE_HEAP_H
#define MT_API_DEVICE_HEAP_H
#include <stddef.h>
#include <stdint.h>

struct mt_range;
/* Before the first launch: kernels' malloc and free come here from then on. */
void mt_device_heap_start(void);
/* cudaLimitMallocHeapSize. 0; -1: a kernel has used the heap already. */
int mt_device_heap_limit(size_t bytes);
/* As mt_ranges_find and mt_ranges_around. */
int mt_device_heap_find(uint64_t address, struct mt_range *out);
void mt_device_heap_around(uint64_t address, struct mt_range *below, struct mt_range *above);
/* Frees all; the limit may be set again. */
void mt_device_heap_reset(void);
#endif
