/* Allocations as the trace knows them, on both devices: an id per allocation,
 * found by address. Thread-safe. */
#ifndef MT_TRACE_OBJECTS_H
#define MT_TRACE_OBJECTS_H
#include <stdint.h>
#include "trace/site.h"

/* kind as in companions ("cudaMalloc", "managed", "host", "array", "async").
 * Nothing happens when p is NULL. */
/* … device: as of mt_event_alloc. Returns the allocation's id, or -1. */
int64_t mt_object_add(const void *p, uint64_t bytes, const char *kind, int device,
                      const struct mt_host_site *site);
struct mt_object_name {
    const char *name, *rest; /* as the source writes it; what follows its first variable: ".col[2]" */
    uint32_t record; /* not MT_NAME_POINTER: of what contains the address: the member keeps its name */
};
/* The allocation that begins at `base` is called so, if its id is not below `since`: a function allocated it
 * that its caller has called since then. */
void mt_object_name(uint64_t base, uint64_t since, const struct mt_object_name *n);
/* The allocation that `p` points into is called so, whatever it was called before. */
void mt_object_name_whole(const void *p, const char *name);
struct mt_object;
/* Before a free: takes the object out, so that the address can be given out again. NULL: unknown. */
struct mt_object *mt_object_take(const void *p);
/* After it: logs the free, or puts the object back when the free failed. */
void mt_object_done(struct mt_object *o, int freed);
/* Its id; -1: unknown. */
int64_t mt_object_id(const void *p);
/* 1 when kernels see the memory at p as theirs (not host memory). */
int mt_object_is_device(const void *p);
/* Whose memory it is, as of mt_event_alloc; -1: no GPU's, or unknown. */
int mt_object_device(const void *p);
/* cudaDeviceReset freed everything but registered memory; of several devices, what is `gone`. */
void mt_objects_reset(int (*gone)(uint64_t base));
#endif
