/* What the real-GPU path (runtime/gpu) gives to the API layer. It is asked only when the process runs on a
 * GPU; without runtime/gpu, or without a driver, mt_gpu() is NULL and kernels run untraced. Streams are never
 * NULL: the caller says which default stream it means (mt_stream_named). */
#ifndef MT_GPU_GPU_H
#define MT_GPU_GPU_H
#include "trace/trace.h"
#include "cpu/cpu.h"
#include <cuda_runtime_api.h>

#define MT_GPU_ORDINALS 64 /* devices beyond are not traced */

/* Records that are known before a launch is issued, of a library's call. `write` is called once: puts them
 * into the trace (NULL: nowhere, since it was not issued) and gives back *k. */
struct mt_gpu_known {
    uint64_t records, recorded[6]; /* as in mt_launch_line */
    void (*write)(struct mt_gpu_known *k, struct mt_trace *t);
};

/* One launch of an instrumented kernel, from before it is issued to after. */
struct mt_gpu_launch {
    const struct mt_image *image; /* sites and kernels of the module, or NULL */
    const struct mt_image_kernel *kernel;
    const void *symbol;         /* of the kernel, as the real runtime knows it */
    struct mt_trace *trace;     /* of the stream; NULL: not to be traced */
    struct mt_launch_line line; /* filled but for what mt_trace_begin and mt_trace_end fill */
    cudaStream_t stream;
    int cooperative;
    int plain; /* after it was issued: it runs without record calls, since with them it would not */
    struct mt_gpu_known *known; /* or NULL; the callee's from `launch` on */
    void *state;                /* the GPU path's own */
};

/* What a wait of the program is for: launches of before it. */
struct mt_gpu_point {
    const struct mt_trace *trace; /* those of a stream that has it; NULL: of all streams of `device` */
    const void *device;           /* NULL: of any */
    cudaStream_t stream;
    uint64_t launches; /* so many were issued before; 0: there is nothing to wait for */
};

/* A kernel of a graph that is ready to be launched: it has its own launch context as long
 * as the graph is there. */
struct mt_gpu_node;

struct mt_gpu_ops {
    /* Before all others. Where the real runtime's functions are: NULL where it has no such. */
    void (*functions)(void *(*find)(const char *name));
    /* The real runtime is open and will be used. */
    void (*start)(void);
    /* Before a launch is issued: the device address of its launch context, or NULL for an untraced launch. */
    void *(*launch)(struct mt_gpu_launch *l);
    /* After it was issued. The launch is copied by the callee if it needs it longer; from here on the callee
     * has the duty to call mt_trace_begin, mt_trace_append and mt_trace_end for it. */
    void (*issued)(struct mt_gpu_launch *l, cudaError_t status);
    /* Is what is launched in this stream recorded into a graph? Such launches are not ours before the
     * graph runs. */
    int (*capturing)(cudaStream_t stream);
    /* NULL: it cannot be traced, which was said. */
    struct mt_gpu_node *(*node_new)(void);
    /* What its kernel has as hidden parameter. */
    void *(*node_context)(const struct mt_gpu_node *node);
    /* It will not be launched again. */
    void (*node_free)(struct mt_gpu_node *node);
    /* Before and after a launch of a graph, instead of `launch` and `issued`: launches[i] is of nodes[i]
     * (NULL: it runs without record calls), in an order that the graph allows, all in one stream and of one
     * trace (NULL: this one is not to be traced). Launches of a graph follow each other: the caller sees to
     * that when it changes the stream. */
    void (*graph_launch)(struct mt_gpu_node *const *nodes, struct mt_gpu_launch *launches, unsigned n);
    void (*graph_issued)(struct mt_gpu_node *const *nodes, struct mt_gpu_launch *launches, unsigned n,
                         cudaError_t status);
    /* Waits up to `ms` until a node's launches have ended. 1 when they have. */
    int (*node_idle)(struct mt_gpu_node *node, unsigned ms);
    /* Now, in the current device's stream with this trace (all = 1: in all of the device's). */
    struct mt_gpu_point (*point)(cudaStream_t stream, const struct mt_trace *trace, int all);
    /* The program has waited for this point: records up to it must be in the files. error: what the wait
     * returned; when the device has failed for good, what is under way is lost. What was launched later, in
     * other streams or on other devices may run for ever. */
    void (*synced)(const struct mt_gpu_point *p, cudaError_t error);
    /* A stream is about to be destroyed. */
    void (*stream_ends)(cudaStream_t stream, struct mt_trace *trace);
    /* The current device is about to be reset: what was launched there ends first,
     * and nothing of it is used again. */
    void (*reset)(void);
    /* The process ends. */
    void (*finish)(void);
};
const struct mt_gpu_ops *mt_gpu(void);
#endif
