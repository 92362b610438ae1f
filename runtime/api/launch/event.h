/* Events, on both devices. */
#ifndef MT_API_EVENT_H
#define MT_API_EVENT_H
#include "api/streams/event.h"
#include "api/streams/stream.h"
#include <cuda_runtime_api.h>
#include <stdint.h>

struct mt_mark;
struct mt_op;

/* On the current device. handle NULL: the CPU device's, the event is its own handle. NULL: out of memory. */
struct mt_event *mt_event_add(cudaEvent_t handle, unsigned flags);
struct mt_event *mt_event_get(cudaEvent_t handle); /* NULL: no such event */
void mt_event_remove(struct mt_event *e);
void mt_events_reset(int device); /* cudaDeviceReset: it has none any more */
/* Operations of the CPU device that record the event, and that wait for what was recorded when they are
 * queued. NULL: out of memory. */
struct mt_op *mt_event_record_op(cudaEvent_t e);
struct mt_op *mt_event_wait_op(cudaEvent_t e);
cudaEvent_t mt_event_of(const struct mt_op *op);
void mt_event_bind(struct mt_op *op, const struct mt_stream *s);
#endif
