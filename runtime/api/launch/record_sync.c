/* Recorders of streams, events and synchronisation. On a GPU they also make streams and events known. */
#include "api/device/device.h"
#include "api/entry.h"
#include "event.h"
#include "device/gpu.h"
#include "api/streams/stream.h"
#include "trace/events.h"
#include "trace/selection.h"
#include "trace/site.h"
#include "trace/trace.h"

/* ---- streams ---- */

static cudaError_t record_sync_created(cudaError_t e, cudaStream_t *out, unsigned flags, int priority)
{
    mt_host_site_take();
    if (!e && !mt_stream_get(*out))
        mt_stream_add(*out, flags, priority);
    return e;
}

cudaError_t rec_cudaStreamCreate(cudaStream_t *out)
{
    return record_sync_created(MT_NEXT(cudaStreamCreate)(out), out, 0, 0);
}

cudaError_t rec_cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return record_sync_created(MT_NEXT(cudaStreamCreateWithFlags)(out, flags), out, flags, 0);
}

cudaError_t rec_cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    return record_sync_created(MT_NEXT(cudaStreamCreateWithPriority)(out, flags, priority), out, flags,
                               priority);
}

cudaError_t rec_cudaStreamDestroy(cudaStream_t stream)
{
    mt_host_site_take();
    if (!mt_device_is_gpu())
        return MT_NEXT(cudaStreamDestroy)(stream);
    struct mt_stream *s = mt_stream_get(stream);
    int own = stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    if (own && s && s->trace && mt_gpu())
        mt_gpu()->stream_ends(stream, s->trace);
    cudaError_t e = MT_NEXT(cudaStreamDestroy)(stream);
    if (!e && own && mt_device_is_gpu())
        mt_stream_remove(s);
    return e;
}

/* ---- what the program marks as worth a look ---- */

cudaError_t rec_cudaProfilerStart(void)
{
    mt_selection_profiler(1);
    return MT_NEXT(cudaProfilerStart)();
}

cudaError_t rec_cudaProfilerStop(void)
{
    mt_selection_profiler(0);
    return MT_NEXT(cudaProfilerStop)();
}

/* ---- synchronisation ---- */

/* Taken before the wait: what other threads launch meanwhile is not waited for. */
static struct mt_gpu_point record_sync_point(cudaStream_t stream, int all)
{
    struct mt_stream *s = all || !mt_device_is_gpu() ? NULL : mt_stream_get(stream);
    const struct mt_trace *trace = s ? __atomic_load_n(&s->trace, __ATOMIC_ACQUIRE) : NULL;
    if (!mt_device_is_gpu() || !mt_gpu())
        return (struct mt_gpu_point){0};
    return mt_gpu()->point(mt_stream_named(all ? NULL : stream), trace, all);
}

static cudaError_t record_sync_synced(cudaError_t e, const char *what, int64_t id,
                                      const struct mt_gpu_point *p)
{
    mt_host_site_take();
    if (mt_device_is_gpu() && mt_gpu())
        mt_gpu()->synced(p, e);
    if (e)
        return e;
    mt_event_sync(what, id);
    if (mt_device_is_gpu())
        mt_trace_flush(0);
    return e;
}

cudaError_t rec_cudaDeviceSynchronize(void)
{
    struct mt_gpu_point p = record_sync_point(NULL, 1);
    return record_sync_synced(MT_NEXT(cudaDeviceSynchronize)(), "device", 0, &p);
}

cudaError_t rec_cudaStreamSynchronize(cudaStream_t stream)
{
    struct mt_gpu_point p = record_sync_point(stream, 0);
    return record_sync_synced(MT_NEXT(cudaStreamSynchronize)(stream), "stream", mt_stream_number(stream), &p);
}

cudaError_t rec_cudaEventSynchronize(cudaEvent_t event)
{
    struct mt_event *e = mt_event_get(event);
    struct mt_gpu_point p = e ? e->point : (struct mt_gpu_point){0};
    return record_sync_synced(MT_NEXT(cudaEventSynchronize)(event), "event", e ? (int64_t)e->id : -1, &p);
}

/* ---- events ---- */

static cudaError_t event_created(cudaError_t e, cudaEvent_t *out, unsigned flags)
{
    mt_host_site_take();
    if (!e && !mt_event_get(*out))
        mt_event_add(*out, flags);
    return e;
}

cudaError_t rec_cudaEventCreate(cudaEvent_t *out)
{
    return event_created(MT_NEXT(cudaEventCreate)(out), out, 0);
}

cudaError_t rec_cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    return event_created(MT_NEXT(cudaEventCreateWithFlags)(out, flags), out, flags);
}

cudaError_t rec_cudaEventDestroy(cudaEvent_t event)
{
    struct mt_event *known = mt_device_is_gpu() ? mt_event_get(event) : NULL;
    mt_host_site_take();
    cudaError_t e = MT_NEXT(cudaEventDestroy)(event);
    if (!e)
        mt_event_remove(known);
    return e;
}

static cudaError_t record_sync_note(cudaError_t e, const char *op, cudaEvent_t event, cudaStream_t stream)
{
    struct mt_event *known = mt_device_is_gpu() ? mt_event_get(event) : NULL; /* the CPU device: event.c */
    mt_host_site_take();
    if (!e && known)
        mt_event_event(op, known->id, mt_stream_number(stream));
    return e;
}

static void set_point(cudaEvent_t event, cudaStream_t stream)
{
    struct mt_event *e = mt_device_is_gpu() ? mt_event_get(event) : NULL;
    if (e)
        e->point = record_sync_point(stream, 0);
}

cudaError_t rec_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    set_point(event, stream);
    return record_sync_note(MT_NEXT(cudaEventRecord)(event, stream), "record", event, stream);
}

cudaError_t rec_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    set_point(event, stream);
    return record_sync_note(MT_NEXT(cudaEventRecordWithFlags)(event, stream, flags), "record", event, stream);
}

cudaError_t rec_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return record_sync_note(MT_NEXT(cudaStreamWaitEvent)(stream, event, flags), "wait", event, stream);
}
