#include "event.h"
#include "entry.h"
#include "error.h"
#include "map.h"
#include "stream.h"
#include "sync.h"
#include "common/events.h"
#include <stdatomic.h>
#include <stdlib.h>

#define FLAGS (cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess)

static struct mt_map events = MT_MAP_INIT;
static _Atomic uint64_t next_id;

struct mt_event *mt_event_add(cudaEvent_t handle, unsigned flags)
{
    struct mt_event *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->handle = handle ? handle : (cudaEvent_t)e;
    e->flags = flags;
    e->id = atomic_fetch_add(&next_id, 1);
    if (mt_map_set(&events, e->handle, e)) {
        free(e);
        return NULL;
    }
    return e;
}

struct mt_event *mt_event_get(cudaEvent_t handle)
{
    return mt_map_get(&events, handle);
}

void mt_event_remove(struct mt_event *e)
{
    if (e && mt_map_take(&events, e->handle))
        free(e);
}

/* ---- the CPU device ---- */

cudaError_t IMPL(cudaEventCreateWithFlags)(cudaEvent_t *out, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags & ~(unsigned)FLAGS ||
        (flags & cudaEventInterprocess && !(flags & cudaEventDisableTiming)))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_event *e = mt_event_add(NULL, flags);
    if (!e)
        return mt_fail(cudaErrorMemoryAllocation);
    *out = e->handle;
    return cudaSuccess;
}

cudaError_t IMPL(cudaEventCreate)(cudaEvent_t *out)
{
    return IMPL(cudaEventCreateWithFlags)(out, cudaEventDefault);
}

cudaError_t IMPL(cudaEventDestroy)(cudaEvent_t handle)
{
    struct mt_event *e = mt_event_get(handle);
    if (!e)
        return mt_fail(cudaErrorInvalidResourceHandle);
    mt_event_remove(e);
    return cudaSuccess;
}

cudaError_t IMPL(cudaEventRecordWithFlags)(cudaEvent_t handle, cudaStream_t stream, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    struct mt_event *e = mt_event_get(handle);
    struct mt_stream *s = mt_stream_get(stream);
    if (!e || !s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (flags & ~(unsigned)cudaEventRecordExternal)
        return mt_fail(cudaErrorInvalidValue);
    mt_stream_wait(s);
    e->time_ns = mt_now_ns();
    return cudaSuccess;
}

cudaError_t IMPL(cudaEventRecord)(cudaEvent_t handle, cudaStream_t stream)
{
    return IMPL(cudaEventRecordWithFlags)(handle, stream, 0);
}

cudaError_t IMPL(cudaEventQuery)(cudaEvent_t handle)
{
    MT_RETURN_IF_FAILED();
    return mt_event_get(handle) ? cudaSuccess : mt_fail(cudaErrorInvalidResourceHandle);
}

cudaError_t IMPL(cudaEventSynchronize)(cudaEvent_t handle)
{
    MT_RETURN_IF_FAILED();
    if (!mt_event_get(handle))
        return mt_fail(cudaErrorInvalidResourceHandle);
    mt_synced();
    return mt_failed_sync();
}

cudaError_t IMPL(cudaStreamWaitEvent)(cudaStream_t stream, cudaEvent_t handle, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!mt_event_get(handle) || !mt_stream_get(stream))
        return mt_fail(cudaErrorInvalidResourceHandle);
    return flags & ~(unsigned)cudaEventWaitExternal ? mt_fail(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t IMPL(cudaEventElapsedTime)(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    MT_RETURN_IF_FAILED();
    struct mt_event *a = mt_event_get(start), *b = mt_event_get(end);
    if (!ms)
        return mt_fail(cudaErrorInvalidValue);
    if (!a || !b || !a->time_ns || !b->time_ns || (a->flags | b->flags) & cudaEventDisableTiming)
        return mt_fail(cudaErrorInvalidResourceHandle);
    *ms = (float)((double)((int64_t)(b->time_ns - a->time_ns)) * 1e-6);
    return cudaSuccess;
}
