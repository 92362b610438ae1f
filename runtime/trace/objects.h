/* Allocations as known to the trace, on both devices: an id per allocation, found by address. Thread-safe. */
#ifndef MT_TRACE_OBJECTS_H
#define MT_TRACE_OBJECTS_H
#include <stdint.h>
#include "trace/site.h"

/* Adds an allocation. kind as in companion files ("cudaMalloc", "managed", "host", "array", "async"); device
 * as for mt_event_alloc. Returns its id, or -1, without effect, if p is NULL or tracing is off. */
int64_t mt_object_add(const void *p, uint64_t bytes, const char *kind, int device,
                      const struct mt_host_site *site);
/* The same for bytes that another allocation, `from` (its id, or -1), had until now. */
int64_t mt_object_add_from(const void *p, uint64_t bytes, const char *kind, int device,
                           const struct mt_host_site *site, int64_t from);
/* Ends the allocation that contains [p, p + bytes), to give these bytes to others. What is before and after
 * them becomes an allocation of its own, made at `site`. Returns the id of the one that ended, with its *kind
 * (static) and *device, or -1, without effect. */
int64_t mt_object_split(const void *p, uint64_t bytes, const struct mt_host_site *site, const char **kind,
                        int *device);
/* Ends all allocations that begin in [p, p + bytes). */
void mt_objects_end(const void *p, uint64_t bytes);
struct mt_object_name {
    const char *name, *rest; /* name in the source; then the part after its first variable: ".col[2]" */
    uint32_t record; /* not MT_NAME_POINTER: record that contains the address; the member keeps its name */
};
/* Names the allocation that begins at `base` if its id is at least `since`, that is, if a function called by
 * the caller has allocated it since then. */
void mt_object_name(uint64_t base, uint64_t since, const struct mt_object_name *n);
/* Names the allocation that contains `p`, replacing an earlier name. */
void mt_object_name_whole(const void *p, const char *name);
struct mt_object;
/* Takes the object out before a free, so that the address can be reused. Returns NULL if unknown. */
struct mt_object *mt_object_take(const void *p);
/* Logs the free after it, or puts the object back if the free failed. */
void mt_object_done(struct mt_object *o, int freed);
/* Returns its id, or -1 if unknown. */
int64_t mt_object_id(const void *p);
/* Returns 1 if kernels see the memory at p as device memory. */
int mt_object_is_device(const void *p);
/* Returns its owner, as for mt_event_alloc, or -1 if not a GPU's, or unknown. */
int mt_object_device(const void *p);
/* Forgets everything that cudaDeviceReset freed, all but registered memory; with several devices, the blocks
 * for which `gone` returns 1. */
void mt_objects_reset(int (*gone)(uint64_t base));
#endif
