/* Interface of the launch folder: launches, events, and library calls. */
#ifndef MT_API_LAUNCH_H
#define MT_API_LAUNCH_H
#include "api/device/device.h"
#include "api/streams/stream.h"
#include "trace/site.h"
#include "device/gpu.h"
#include "base/file.h"
#include "library.h"
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>

/* ---- Launches: checks, the hidden launch context, the trace ---- */

/* Fills *l for a launch of `f`, which has a table, with everything known at the time of the call. */
struct mt_launch_line;
void mt_launch_describe(struct mt_launch_line *l, struct mt_function *f, const struct mt_launch_config *c,
                        const struct mt_host_site *site);

/* On a GPU: calls `run` once, and counts the launch as one of f without records; f NULL: does not count it.
 */
struct mt_function;
typedef cudaError_t mt_launch_run(void *call, const void *version, void **args);
cudaError_t mt_launch_untraced(struct mt_function *f, const struct mt_launch_config *c, mt_launch_run *run,
                               void *call);
/* Reads the relevant attributes of a launch into *c. Returns the first error. */
cudaError_t mt_launch_attributes(struct mt_launch_config *c, const cudaLaunchAttribute *a, unsigned n);

struct mt_op;
/* Checks a launch and makes its operation; the arguments are copied. c->stream is ignored. */
cudaError_t mt_launch_op(struct mt_op **out, const void *func, const struct mt_launch_config *c, void **args,
                         const struct mt_host_site *site);
/* Returns the kernel, configuration and arguments of a launch operation, or NULL without memory. *args: NULL
 * or from before (realloc); the pointers point into the operation. */
const struct mt_function *mt_launch_parts(struct mt_op *op, struct mt_launch_config *c, void ***args);

/* ---- Kernels without a table: compiled without the plugin, with cpu-image=off, or with an image of another
 * version. A GPU runs them without a trace, and each launch is counted. The CPU device does not run them ----
 */

/* Returns the function of a kernel that was not registered here but comes from another runtime or the driver
 * API, by its launch handle. `name`: mangled, or NULL if unknown. Never freed. Returns NULL if out of memory.
 */
struct mt_function *mt_untabled_know(const void *handle, const char *name);
/* Fills *l, with its companion line, for an uninstrumented launch of f, and reports it once per file. The
 * line's strings live as long as f. */
void mt_untabled_describe(struct mt_gpu_launch *l, struct mt_function *f, const struct mt_launch_config *c,
                          const struct mt_host_site *site);

/* ---- Stack of a GPU's threads, which record calls enlarge ---- */

/* Raises the limit, before a traced launch, once per device and again after a reset. */
void mt_stack_raise(void);
/* Notes that the current device was reset and has its own limit again. */
void mt_stack_reset(void);

/* ---- Events, on both devices ---- */

struct mt_mark;

struct mt_event *mt_event_get(cudaEvent_t handle); /* returns NULL if there is no such event */
void mt_events_reset(int device);                  /* cudaDeviceReset: forgets its events */
struct mt_event_op {
    struct mt_op op;
    cudaEvent_t handle;
    uint64_t id;
    int64_t stream;
    struct mt_shared_event
        *shared; /* state of an interprocess event, or NULL; `record`: number of its record */
    uint64_t record;
};
/* Operations of the CPU device that record an event, and that wait for the record valid when they are queued.
 * Return NULL if out of memory. */
struct mt_op *mt_event_record_op(cudaEvent_t e);
struct mt_op *mt_event_wait_op(cudaEvent_t e);

/* ---- Unnamed files shared by processes of one user, by handle ---- */

/* Contents of a cudaIpc handle. Device and inode show if a descriptor was closed and reused. */
struct mt_ipc_handle {
    char magic[8];
    uint64_t device, inode, offset, bytes;
    int32_t pid, fd;
    uint32_t serial; /* serial number of the block in that process */
};
/* Names this process's file, from its beginning. Returns 0 or -1. */
int mt_ipc_name(struct mt_ipc_handle *h, const char *magic, int fd, uint64_t bytes);
/* Maps the file of a handle. Returns NULL if it is gone, or belongs to another user. */
void *mt_ipc_map(const struct mt_ipc_handle *h);

/* An event shared by processes: number of records, how many were reached, and the last recorder's pid. */
struct mt_shared_event {
    _Atomic uint64_t issued, done;
    _Atomic int32_t pid;
};

/* ---- Library calls as operations of a stream (library.h) ---- */

/* On a GPU: depth of this thread's calls of real libraries, whose own launches are not the program's. */
extern __thread int mt_libcall_inside;
#endif
