/* Streams, on both devices: what the trace and, on the CPU device, the API know of them. Thread-safe. */
#ifndef MT_API_STREAM_H
#define MT_API_STREAM_H
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include "trace/devices.h"
#include "order.h"
#include "trace/trace.h"

struct mt_op;
struct mt_capture;
struct mt_stream {
    cudaStream_t handle;
    uint64_t id;
    unsigned flags;
    int priority;
    int device;                   /* of the CPU device (trace/devices.h) */
    int lasting;                  /* not made by the program: the legacy stream, a thread's own */
    int legacy;                   /* it is its device's legacy stream */
    struct mt_stream *own_more;   /* of a thread's own: that of another device */
    pthread_mutex_t launching;    /* held while the trace is opened */
    struct mt_trace *trace;       /* from the first traced launch on */
    struct mt_capture *capture;   /* while it is captured; this and the next two belong to capture.c */
    struct CUgraphNode_st **tips; /* what the next operation of the capture follows */
    size_t ntips;
    /* The rest belongs to queue.c. */
    struct mt_op *first, *last; /* what is to be done, the oldest first; that one may be under way */
    int running, blocked, active, waiters, refs;
    uint64_t issued, done;
    struct mt_stream *prev_active, *next_active;
    pthread_cond_t moved;
    int order;                         /* its number in clocks, counted from 1; 0: none yet (order.c) */
    struct mt_clock clock;             /* of what was put into it last */
    cudaStreamAttrValue attribute[16]; /* hints: kept, not acted upon; by cudaStreamAttrID */
};

/* The stream of a handle of this thread: NULL and cudaStreamLegacy are the current device's legacy
 * default stream (or, in per-thread mode, the thread's), cudaStreamPerThread the thread's own. NULL:
 * no such stream. */
struct mt_stream *mt_stream_get(cudaStream_t handle);
/* The legacy default stream of a device; NULL: it has had nothing to do. */
struct mt_stream *mt_stream_legacy(int device);
/* Makes a stream of the current device known; handle NULL: the CPU device's, the stream is its own handle.
 * NULL: out of memory. */
struct mt_stream *mt_stream_add(cudaStream_t handle, unsigned flags, int priority);
/* Forgets it. When what is in it has been done, its trace is closed and it is freed. */
void mt_stream_remove(struct mt_stream *s);
/* cudaDeviceReset: those that the program made there are not streams any more. */
void mt_streams_reset(int device);
/* For queue.c: nothing refers to it any more. */
void mt_stream_free(struct mt_stream *s);
/* Its trace; opened on first use, which may wait for a FIFO's reader. */
struct mt_trace *mt_stream_trace(struct mt_stream *s);
/* Trace number for companion lines, -1: none yet. */
int64_t mt_stream_number(cudaStream_t handle);
int64_t mt_stream_number_of(const struct mt_stream *s);
/* Calls f for each stream while their table is locked. */
void mt_stream_each(void (*f)(void *stream, void *ctx), void *ctx);

/* Waits until everything that the next operation on `s` must follow is done. */
void mt_stream_wait(struct mt_stream *s);
/* Waits until what is in `s` now is done. */
void mt_stream_drain(struct mt_stream *s);
/* 1 when nothing is pending on it. */
int mt_stream_idle(struct mt_stream *s);
/* Waits until what is in any stream of the device (MT_ALL_DEVICES: of all) now is done. */
#define MT_ALL_DEVICES (-1)
void mt_stream_wait_all(int device);
/* The process ends: waits for what is in the streams as long as it makes progress. What is dropped then is
 * said, and its traces count as incomplete. */
void mt_stream_finish(void);
#endif
