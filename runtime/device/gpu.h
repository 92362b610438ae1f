/* Interface of the real-GPU path (runtime/gpu) to the API layer, used only if the process runs on a GPU.
 * Without runtime/gpu, or without a driver, mt_gpu() is NULL and kernels run untraced. Streams are never
 * NULL: the caller resolves the default stream (mt_stream_named). */
#ifndef MT_GPU_GPU_H
#define MT_GPU_GPU_H
#include "trace/trace.h"
#include "cpu/cpu.h"
#include <cuda_runtime_api.h>

#define MT_GPU_ORDINALS 64 /* further devices are not traced */

/* Records of a library call, known before it is issued. `write` is called once, puts them into the trace
 * (NULL: discards them, as the call was not issued) and returns *k. */
struct mt_gpu_known {
    uint64_t records, recorded[6]; /* counts as in mt_launch_line */
    void (*write)(struct mt_gpu_known *k, struct mt_trace *t);
};

/* One launch of an instrumented kernel, from before its issue to after it. */
struct mt_gpu_launch {
    const struct mt_image *image; /* sites and kernels of the module, or NULL */
    const struct mt_image_kernel *kernel;
    const void *symbol;         /* kernel, as known to the real runtime */
    struct mt_trace *trace;     /* trace of the stream; NULL: do not trace */
    struct mt_launch_line line; /* filled, except for fields of mt_trace_begin and mt_trace_end */
    cudaStream_t stream;
    int cooperative;
    int plain; /* set after the issue: runs without record calls, since it could not with them */
    struct mt_gpu_known *known; /* records of a library call, or NULL; owned by the callee from `launch` on */
    void *state;                /* private to the GPU path */
};

/* Target of a wait by the program: earlier launches. */
struct mt_gpu_point {
    const struct mt_trace
        *trace;         /* launches of a stream that has this trace; NULL: of all streams of `device` */
    const void *device; /* NULL: any device */
    cudaStream_t stream;
    uint64_t launches; /* number of launches issued before; 0: nothing to wait for */
};

/* A kernel node of a ready graph; it has its own launch context as long as the graph exists. */
struct mt_gpu_node;

struct mt_gpu_ops {
    /* Sets how to find the real runtime's functions (NULL: missing). Called before all others. */
    void (*functions)(void *(*find)(const char *name));
    /* Called when the real runtime is open and will be used. */
    void (*start)(void);
    /* Before a launch is issued: returns the device address of its launch context, or NULL for an untraced
     * launch. */
    void *(*launch)(struct mt_gpu_launch *l);
    /* After a launch was issued. The callee copies the launch if it needs it longer, and from then on must
     * call mt_trace_begin, mt_trace_append and mt_trace_end for it. */
    void (*issued)(struct mt_gpu_launch *l, cudaError_t status);
    /* Returns 1 if launches in this stream are captured into a graph. They are not ours before the graph
     * runs. */
    int (*capturing)(cudaStream_t stream);
    /* Returns NULL after a report if it cannot be traced. */
    struct mt_gpu_node *(*node_new)(void);
    /* Returns the hidden argument of the node's kernel. */
    void *(*node_context)(const struct mt_gpu_node *node);
    /* Frees a node that will not be launched again. */
    void (*node_free)(struct mt_gpu_node *node);
    /* Before and after the launch of a graph, instead of `launch` and `issued`: launches[i] is of nodes[i]
     * (NULL: runs without record calls), in an order that the graph allows, all in one stream and of one
     * trace (NULL: not traced). Launches of one graph follow each other, also when the stream changes: the
     * caller ensures it. */
    void (*graph_launch)(struct mt_gpu_node *const *nodes, struct mt_gpu_launch *launches, unsigned n);
    void (*graph_issued)(struct mt_gpu_node *const *nodes, struct mt_gpu_launch *launches, unsigned n,
                         cudaError_t status);
    /* Waits up to `ms` until a node's launches have ended. Returns 1 if they have. */
    int (*node_idle)(struct mt_gpu_node *node, unsigned ms);
    /* Returns the present point of the stream with this trace (all = 1: of all streams of the current
     * device). */
    struct mt_gpu_point (*point)(cudaStream_t stream, const struct mt_trace *trace, int all);
    /* The program has waited for this point: records up to it must be in the files. error: result of the
     * wait; when the device has failed for good, launches under way are lost. Later launches, and those in
     * other streams or on other devices, may run for ever. */
    void (*synced)(const struct mt_gpu_point *p, cudaError_t error);
    /* Called before a stream is destroyed. */
    void (*stream_ends)(cudaStream_t stream, struct mt_trace *trace);
    /* Called before a reset of the current device: ends its launches, and uses nothing of it again. */
    void (*reset)(void);
    /* Called at process exit. */
    void (*finish)(void);
};
const struct mt_gpu_ops *mt_gpu(void);
#endif
