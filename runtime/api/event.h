/* Events, on both devices. */
#ifndef MT_API_EVENT_H
#define MT_API_EVENT_H
#include <cuda_runtime_api.h>
#include <stdint.h>

struct mt_event {
    cudaEvent_t handle;
    uint64_t id; /* in companions */
    unsigned flags;
    uint64_t time_ns; /* of the last record; 0: never recorded */
};

/* handle NULL: the CPU device's, the event is its own handle. NULL: out of memory. */
struct mt_event *mt_event_add(cudaEvent_t handle, unsigned flags);
struct mt_event *mt_event_get(cudaEvent_t handle); /* NULL: no such event */
void mt_event_remove(struct mt_event *e);
#endif
