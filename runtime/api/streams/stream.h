/* Interface of the streams folder: streams, their queues, events and captures. Thread-safe. */
#ifndef MT_API_STREAM_H
#define MT_API_STREAM_H
#include "trace/devices.h"
#include "trace/trace.h"
#include "trace/site.h"
#include "base/file.h"
#include "device/gpu.h"
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* ---- clocks, under MEMTRACE_CHECK: which operations of streams are ordered, in whatever order they happen
 * to run. Order comes from streams, the rules of the legacy default stream, events, and waits of the host. A
 * clock has one count per stream; all host threads share one clock, so operations ordered only by host
 * threads count as ordered. All functions are called with the queue's lock held ---- */

struct mt_op;
struct mt_stream;
struct mt_mark;
enum { MT_ORDER_STREAMS = 64 }; /* most streams of a process; with more, order is no longer recorded */

struct mt_clock {
    uint32_t n[MT_ORDER_STREAMS]; /* number of operations of each stream that come before */
};

/* ---- Streams on both devices: what the trace and, on the CPU device, the API know of them. Thread-safe ----
 */

struct mt_capture;
struct mt_stream {
    cudaStream_t handle;
    uint64_t id;
    unsigned flags;
    int priority;
    int device;                 /* number on the CPU device (trace/devices.h) */
    int lasting;                /* not created by the program: a legacy stream, or a thread's own */
    int legacy;                 /* legacy stream of its device */
    struct mt_stream *own_more; /* next own stream of the same thread, on another device */
    pthread_mutex_t launching;  /* held while the trace is opened */
    struct mt_trace *trace;     /* set at the first traced launch */
    struct mt_capture
        *capture; /* capture under way, or NULL; this and the next two are under the lock of captures */
    struct CUgraphNode_st **tips; /* nodes that the next operation of the capture follows */
    size_t ntips;
    /* The rest belongs to the queue. */
    struct mt_op *first, *last; /* queued operations, oldest first; the oldest may be running */
    int running, blocked, active, waiters, refs;
    uint64_t issued, done;
    struct mt_stream *prev_active, *next_active;
    pthread_cond_t moved;
    int order;                         /* number in clocks, from 1; 0: none yet */
    struct mt_clock clock;             /* clock of the operation queued last */
    cudaStreamAttrValue attribute[16]; /* hints by cudaStreamAttrID: stored, without effect */
};

/* Returns the stream of a handle in this thread, or NULL if there is none. Handles NULL and cudaStreamLegacy
 * mean the current device's legacy default stream (NULL in per-thread mode: the thread's),
 * cudaStreamPerThread the thread's own. */
struct mt_stream *mt_stream_get(cudaStream_t handle);

/* Adds a stream of the current device; handle NULL: a stream of the CPU device, which is its own handle.
 * Returns NULL if out of memory. */
struct mt_stream *mt_stream_add(cudaStream_t handle, unsigned flags, int priority);
/* Forgets a stream. Once its work has ended, its trace is closed and it is freed. */
void mt_stream_remove(struct mt_stream *s);
/* cudaDeviceReset: forgets all streams that the program created on the device. */
void mt_streams_reset(int device);
/* Frees a stream without references. */
void mt_stream_free(struct mt_stream *s);
/* Returns the stream's trace. Opens it on first use, which may wait for the reader of a FIFO. */
struct mt_trace *mt_stream_trace(struct mt_stream *s);
/* Returns the trace number for companion lines, or -1 if there is none yet. */
int64_t mt_stream_number(cudaStream_t handle);
int64_t mt_stream_number_of(const struct mt_stream *s);
/* Calls f for each stream while their table is locked. */
void mt_stream_each(void (*f)(void *stream, void *ctx), void *ctx);

/* Waits until everything that the next operation on `s` must follow has ended. */
void mt_stream_wait(struct mt_stream *s);
/* Waits until everything queued in `s` so far has ended. */
void mt_stream_drain(struct mt_stream *s);
/* Returns 1 if nothing is pending on the stream. */
int mt_stream_idle(struct mt_stream *s);
/* Waits until nothing is pending on any stream, for as long as something ends every `ms`. Returns 1 if so. */
int mt_stream_settle(unsigned ms);
/* Waits until everything queued so far in all streams of the device (or MT_ALL_DEVICES) has ended. */
#define MT_ALL_DEVICES (-1)
void mt_stream_wait_all(int device);

/* ---- work of the CPU device: a queue of operations per stream. The oldest operation of a stream begins when
 * everything that it must follow has ended: earlier ones of the stream, the event it waits for, and, by the
 * rules of the legacy default stream, older operations of other streams. Operations run in the thread that
 * finds them ready: the caller if the stream is empty, else the thread that ended the last one, which may be
 * a worker of the CPU device; none of them may wait. Host functions have threads of their own. Nothing waits
 * actively, and no thread exists before there is work for it. Sequence numbers (docs/trace-format.md) are
 * drawn when an operation begins, so they follow the order of streams and events. ---- */

/* A point in a stream for which others wait. */
struct mt_mark {
    int refs, done;
    uint64_t time_ns;       /* time at which it was reached */
    struct mt_clock *clock; /* clock of the operations before it, or NULL */
};

enum mt_op_kind {
    MT_OP_KERNEL,
    MT_OP_COPY,
    MT_OP_FILL,
    MT_OP_HOST,
    MT_OP_RECORD,
    MT_OP_WAIT,
    MT_OP_LIBRARY,
    MT_OP_FREE,
    MT_OP_OTHER
};
enum { MT_OP_DONE, MT_OP_PENDING };

/* Head of every operation: one malloc block of `bytes` without pointers into itself, so that a copy of it is
 * the same operation. */
struct mt_op {
    struct mt_op *next;
    struct mt_stream *stream;
    uint64_t ticket;
    uint64_t number; /* in the trace: the ticket, but in the body of a conditional node */
    size_t bytes;
    enum mt_op_kind kind;
    int always; /* runs even after a kernel failed and the device is dead */
    /* Returns MT_OP_DONE, or MT_OP_PENDING if mt_op_finish will be called later. */
    int (*run)(struct mt_op *op);
    void (*drop)(
        struct mt_op *op); /* releases what the operation holds, whether it ran or not; may be NULL */
    /* Renews what differs from launch to launch in a graph's copy, before it is queued. Returns 0 or an
     * error; may be NULL. */
    int (*renew)(struct mt_op *op);
    /* Sets the trace for the records, before the operation is queued in `s`; may be NULL. */
    void (*bind)(struct mt_op *op, struct mt_stream *s);
    /* References; may be NULL. */
    struct mt_mark *after;   /* mark that must be reached before it begins */
    struct mt_mark *reaches; /* mark reached when it ends */
    /* Of what comes before it, and of itself, with its number n[path - 1]: of a kernel, a free and a host
     * function while it is queued; NULL: order is not recorded. */
    struct mt_clock *clock;
    int path;
    const struct mt_host_site *site;
    struct mt_node_order
        *order; /* its place in a graph's launch, while it is queued; NULL: that of the stream */
};

/* The order of a graph's launch, where nodes are ordered by edges alone: each is an operation of a path, a
 * numbered stream of its own kind. A conditional node has two numbers of its path: its body comes after the
 * first one and before the second one, which is not known to what is queued before the body. */
struct mt_node_order {
    struct mt_clock clock;         /* of what comes before the node, and with its path of itself */
    const struct mt_clock *before; /* n > 0: it comes before that operation; NULL: it is in no body */
    int path;                      /* 0: it has none */
};
struct mt_order_paths {
    int path[MT_ORDER_STREAMS], n;
};
/* Returns 1 with *now set to all that comes before what is queued in the stream next, or 0 if the order is
 * not recorded. */
int mt_order_now(const struct mt_stream *s, struct mt_clock *now);
/* Lets what is queued next come after `clock`. */
void mt_order_reached(struct mt_stream *s, const struct mt_clock *clock);
void mt_order_join(struct mt_clock *to, const struct mt_clock *from);
/* Gives a node, whose `path` is 0, a path whose operations so far all come before it, and its number there:
 * one of `paths`, or a new one, which is added to them. Returns 0 if there are too many streams for that. */
int mt_order_path(struct mt_order_paths *paths, struct mt_node_order *node);
/* Gives a node the next number of its path. */
void mt_order_number(struct mt_node_order *node);
/* Gives paths back. */
void mt_order_paths_done(const struct mt_order_paths *paths);
/* Returns 1 if the host has not waited for all operations so far. */
int mt_order_outstanding(void);
/* Logs the host's accesses until now as an operation of a stream of its own: after all that the host has
 * waited for, before all that is queued later. Returns its number, or 0 if order is not recorded. */
uint64_t mt_order_touch(void);

/* Allocates an operation of `bytes` and fills its head. Returns NULL if out of memory. */
void *mt_op_new(size_t bytes, enum mt_op_kind kind, int (*run)(struct mt_op *));

void mt_op_free(struct mt_op *op);
/* Puts the operation into the stream's queue, or into the graph if the stream is captured, and begins it if
 * possible. The queue owns the operation from then on. */
cudaError_t mt_op_submit(struct mt_stream *s, struct mt_op *op);
/* Puts the operation into the queue, even if the stream is captured. */
void mt_op_enqueue(struct mt_stream *s, struct mt_op *op);
/* Puts `op` directly behind the running operation `at`, before everything queued. More may then follow `op`.
 */
void mt_op_follow(struct mt_op *at, struct mt_op *op);
/* Ends a pending operation. */
void mt_op_finish(struct mt_op *op);

/* A turn of the calling thread: work done by the thread itself between begin and end, in the stream's order.
 */
struct mt_turn {
    struct mt_op op;
    uint64_t outer; /* operation of the thread's lines before the turn */
    int granted;
};
void mt_turn_begin(struct mt_turn *t, struct mt_stream *s);
/* Begins a turn if it need not wait. Returns 1, or 0 without any effect. waits: the call is one that waits by
 * CUDA's rules; without it, the host knows nothing of what it follows. */
int mt_turn_try(struct mt_turn *t, struct mt_stream *s, int waits);
void mt_turn_end(struct mt_turn *t);
struct mt_mark *mt_mark_new(void); /* returns one reference; NULL: out of memory */
struct mt_mark *mt_mark_hold(struct mt_mark *m);
void mt_mark_release(struct mt_mark *m);
int mt_mark_done(struct mt_mark *m);
void mt_mark_wait(struct mt_mark *m);
/* The same for a call that does not wait by CUDA's rules: the host knows nothing of what is reached. */
void mt_mark_await(struct mt_mark *m);

/* ---- host functions of the program ---- */

struct mt_hostfn_op {
    struct mt_op op;
    cudaHostFn_t fn; /* or NULL, if `callback` is set */
    cudaStreamCallback_t callback;
    cudaStream_t handle;
    void *data;
    struct mt_hostfn_op *behind; /* next in this queue; op.next belongs to the stream */
};
/* Makes an operation that calls fn(data), or callback(stream, error so far, data). Returns NULL if out of
 * memory. */
struct mt_op *mt_host_op(cudaHostFn_t fn, cudaStreamCallback_t callback, cudaStream_t handle, void *data);
/* Returns 1 in a thread that runs a host function, where CUDA calls are not permitted. */
int mt_in_host_function(void);

/* ---- Events on both devices; api/launch/event.c makes them ---- */

struct mt_event {
    cudaEvent_t handle;
    uint64_t id; /* id in companion files */
    unsigned flags;
    int device;                     /* number on the CPU device (trace/devices.h) */
    struct mt_gpu_point point;      /* last record, as a point in the GPU's launches */
    struct mt_mark *mark;           /* on the CPU device: last record; NULL: none yet */
    struct mt_shared_event *shared; /* cudaEventInterprocess: state shared by all processes, or NULL */
    struct mt_fd shared_file;       /* its file, in the process that made it; ino 0 in others */
    /* Place in the graph, if recorded in a captured stream. */
    struct mt_capture *capture;
    uint64_t capture_id;
    struct CUgraphNode_st **nodes;
    size_t nnodes;
};

/* ---- Stream capture on the CPU device: operations put into a captured stream become nodes of a graph ----
 */

/* Returns whether the stream is being captured. */
static inline int mt_capturing(const struct mt_stream *s)
{
    return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE) != NULL;
}

/* Sets the capture of a stream; NULL: none. Called with mt_capture_lock held. */
static inline void mt_capture_set(struct mt_stream *s, struct mt_capture *c)
{
    __atomic_store_n(&s->capture, c, __ATOMIC_RELEASE);
}

enum mt_call {
    MT_CALL_ASYNC,  /* puts an operation into the stream */
    MT_CALL_SYNC,   /* waits for the stream, queries it, or launches a graph in it */
    MT_CALL_DEVICE, /* waits for all streams; the stream is NULL */
    MT_CALL_UNSAFE, /* allocations and the like; the stream is NULL */
};
/* Checks whether this thread may make this call now. Returns cudaSuccess, or CUDA's error, after setting it
 * as the thread's last error and invalidating the captures it disturbs. `s` may be NULL. */
cudaError_t mt_capture_check(struct mt_stream *s, enum mt_call call);

/* cudaStreamWaitEvent if the stream is captured or the event was recorded in a captured stream. */
cudaError_t mt_capture_wait(struct mt_stream *s, struct mt_event *e);
/* Handles a query of, or wait for, an event recorded in a captured stream. */
cudaError_t mt_capture_asked(struct mt_event *e);

/* ---- captures under way: here their streams, in graphs/graph.c their graphs ---- */
struct CUgraph_st;
struct CUgraphNode_st;

struct mt_capture {
    unsigned long long id;
    struct CUgraph_st *graph;
    struct mt_stream *origin;
    pthread_t thread; /* thread that began it */
    enum cudaStreamCaptureMode mode;
    int invalid, given;           /* given: the graph belongs to the program */
    struct CUgraphNode_st **left; /* last nodes of streams that no longer exist */
    size_t nleft;
    struct mt_capture *next;
};

/* Actions on a captured stream. */
struct mt_capture_ops {
    cudaError_t (*add)(struct mt_stream *s,
                       struct mt_op *op); /* called with the lock held; takes the operation */
    cudaError_t (*alloc)(struct mt_stream *s, void *p, size_t bytes);
    cudaError_t (*free)(struct mt_stream *s, void *p);
    void (*leave)(struct mt_stream *s);
};
/* Set under the lock when the first capture begins, then constant. */
extern const struct mt_capture_ops *mt_capture_ops;

/* Protects captures, and the capture state of streams, events and graphs. */
extern pthread_mutex_t mt_capture_lock;

/* Registers a capture under a new number, and removes it. Called with the lock held, as mt_tips_add is. */
void mt_capture_enlist(struct mt_capture *c);
void mt_capture_delist(struct mt_capture *c);
/* Adds the missing elements to an array on the heap. Returns 0 or -1. */
int mt_tips_add(struct CUgraphNode_st ***at, size_t *n, struct CUgraphNode_st *const *more, size_t count);

#endif
