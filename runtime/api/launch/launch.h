/* The launch room for others: launches, events, and calls of libraries. */
#ifndef MT_API_LAUNCH_H
#define MT_API_LAUNCH_H
#include "api/device/device.h"
#include "api/streams/stream.h"
#include "trace/site.h"
#include "device/gpu.h"
#include "base/fd.h"
#include "library.h"
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>

/* ---- Launches: checks, the hidden launch context, the trace ---- */

/* What is known of a launch of `f`, which has a table, when the program asks for it. */
struct mt_launch_line;
void mt_launch_describe(struct mt_launch_line *l, struct mt_function *f, const struct mt_launch_config *c,
                        const struct mt_host_site *site);

/* On a GPU: `run` is called once, and the launch is counted as one of f without records. NULL: not even that.
 */
struct mt_function;
typedef cudaError_t mt_launch_run(void *call, const void *version, void **args);
cudaError_t mt_launch_untraced(struct mt_function *f, const struct mt_launch_config *c, mt_launch_run *run,
                               void *call);
/* What attributes of a launch ask for, as far as it has to be known; the first error. */
cudaError_t mt_launch_attributes(struct mt_launch_config *c, const cudaLaunchAttribute *a, unsigned n);

struct mt_op;
/* The checks of a launch, and the operation that carries it out; the arguments are copied. c->stream is not
 * looked at. */
cudaError_t mt_launch_op(struct mt_op **out, const void *func, const struct mt_launch_config *c, void **args,
                         const struct mt_host_site *site);
/* Before it is queued in `s`: the trace that its records go to. */
void mt_launch_bind(struct mt_op *op, struct mt_stream *s);
unsigned mt_launch_nparams(const struct mt_op *op);
/* What a launch operation was made of. `args`: room for as many pointers as the kernel has parameters; they
 * point into the operation. */
const struct mt_function *mt_launch_parts(struct mt_op *op, struct mt_launch_config *c, void **args);

/* ---- Kernels of which the runtime has no table: their file was compiled without the plugin or with
 * cpu-image=off, or its image is of another version. A GPU runs them, without a trace; each launch is
 * counted. The CPU device does not ---- */

/* A kernel that was not registered here: of another runtime, or of the driver API; by the handle that it is
 * launched by. `name`: mangled, NULL: not known. NULL: no memory. Stays. */
struct mt_function *mt_untabled_know(const void *handle, const char *name);
/* Fills *l for a launch of f that runs as it is, with its line for the companions; says so once per file. The
 * line's strings last as long as f. */
void mt_untabled_describe(struct mt_gpu_launch *l, struct mt_function *f, const struct mt_launch_config *c,
                          const struct mt_host_site *site);

/* ---- The stack of a GPU's threads, which record calls need more of ---- */

/* Before a traced launch: once for each device, and again after a reset. */
void mt_stack_raise(void);
/* The current device was reset, and has its own limit again. */
void mt_stack_reset(void);

/* ---- Events, on both devices ---- */

struct mt_mark;

/* On the current device. handle NULL: the CPU device's, the event is its own handle. NULL: out of memory. */
struct mt_event *mt_event_add(cudaEvent_t handle, unsigned flags);
struct mt_event *mt_event_get(cudaEvent_t handle); /* NULL: no such event */
void mt_events_reset(int device);                  /* cudaDeviceReset: it has none any more */
/* Operations of the CPU device that record the event, and that wait for what was recorded when they are
 * queued. NULL: out of memory. */
struct mt_op *mt_event_record_op(cudaEvent_t e);
struct mt_op *mt_event_wait_op(cudaEvent_t e);
cudaEvent_t mt_event_of(const struct mt_op *op);
void mt_event_bind(struct mt_op *op, const struct mt_stream *s);

/* ---- Unnamed shared files between processes of one user: how a handle names one ---- */

/* What a cudaIpc handle holds. The file's numbers show a descriptor that was closed and used anew. */
struct mt_ipc_handle {
    char magic[8];
    uint64_t device, inode, offset, bytes;
    int32_t pid, fd;
    uint32_t serial; /* of what it names, in that process */
};
/* Names this process's file, from its beginning. 0, or -1. */
int mt_ipc_name(struct mt_ipc_handle *h, const char *magic, int fd, uint64_t bytes);
/* Maps what a handle names. NULL: it is gone, or another user's. */
void *mt_ipc_map(const struct mt_ipc_handle *h);

/* An event between processes: how often it was recorded, how far that is, and by whom last. */
struct mt_shared_event {
    _Atomic uint64_t issued, done;
    _Atomic int32_t pid;
};

/* ---- Calls of libraries as operations of a stream (library.h) ---- */

struct mt_stream;
/* Before it is queued in `s`: the trace that its records go to. */
void mt_libcall_bind(struct mt_op *op, struct mt_stream *s);
/* On a GPU: this thread is in a call of a real library, whose own launches are not the program's. */
int mt_libcall_inside(void);
#endif
