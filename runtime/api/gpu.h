/* What the real-GPU path (runtime/gpu) gives to the API layer. It is asked only when the process runs on a
 * GPU; without runtime/gpu, or without a driver, mt_gpu() is NULL and kernels run untraced. */
#ifndef MT_API_GPU_H
#define MT_API_GPU_H
#include "common/trace.h"
#include "cpu/cpu.h"
#include <cuda_runtime_api.h>

/* One launch of an instrumented kernel, from before it is issued to after. */
struct mt_gpu_launch {
    const struct mt_image *image; /* sites and kernels of the module, or NULL */
    const struct mt_image_kernel *kernel;
    struct mt_trace *trace;     /* of the stream; NULL: not to be traced */
    struct mt_launch_line line; /* filled but for what mt_trace_begin and mt_trace_end fill */
    cudaStream_t stream;
    int cooperative;
    void *state; /* the GPU path's own */
};

struct mt_gpu_ops {
    /* The real runtime is open and will be used. */
    void (*start)(void);
    /* Before a launch is issued: the device address of its launch context, or NULL for an untraced launch. */
    void *(*launch)(struct mt_gpu_launch *l);
    /* After it was issued. The launch is copied by the callee if it needs it longer; from here on the callee
     * has the duty to call mt_trace_begin, mt_trace_append and mt_trace_end for it. */
    void (*issued)(struct mt_gpu_launch *l, cudaError_t status);
    /* The program waited for a stream, or for the whole device (all = 1): records up to here must be in the
     * files. error: what the wait returned; when the device has failed for good, what is under way is lost.
     */
    void (*synced)(cudaStream_t stream, int all, cudaError_t error);
    /* A stream is about to be destroyed. */
    void (*stream_ends)(cudaStream_t stream, struct mt_trace *trace);
    /* The process ends. */
    void (*finish)(void);
};
const struct mt_gpu_ops *mt_gpu(void);
#endif
