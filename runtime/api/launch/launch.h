/* Launches: checks, the hidden launch context, the trace. */
#ifndef MT_API_LAUNCH_H
#define MT_API_LAUNCH_H
#include "api/device/device.h"
#include "api/streams/stream.h"
#include "trace/site.h"
#include <cuda_runtime_api.h>

/* The kernel that `func` names, with its code. cudaErrorInvalidDeviceFunction, or
 * cudaErrorNoKernelImageForDevice, as the thread's last error. */
cudaError_t mt_function_get(const void *func, struct mt_function **f);
/* Bytes of dynamic shared memory a launch of `f` may ask for. */
size_t mt_launch_dynamic_max(const struct mt_function *f);
/* Threads per block a launch of `f` may have. */
unsigned mt_launch_threads_max(const struct mt_function *f);
/* Resident CTAs of `f` on one SM, with blocks of `threads` and `shared` dynamic bytes; 0: cannot run. */
unsigned mt_launch_resident(const struct mt_function *f, unsigned threads, size_t shared);
/* CTAs of the clusters that a launch of `f` has when it asks for `asked` (x 0: it does not); all 0: none.
 * cudaErrorInvalidClusterSize when there can be no such. */
cudaError_t mt_launch_cluster(const struct mt_function *f, dim3 asked, uint32_t out[3]);
/* What is known of a launch of `f`, which has a table, when the program asks for it. */
struct mt_launch_line;
void mt_launch_describe(struct mt_launch_line *l, struct mt_function *f, const struct mt_launch_config *c,
                        const struct mt_host_site *site);
/* Puts a launch into its stream on the CPU device. */
cudaError_t mt_launch_cpu(const void *func, const struct mt_launch_config *c, void **args);

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
#endif
