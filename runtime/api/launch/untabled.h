/* Kernels of which the runtime has no table: their file was compiled without the plugin or with
 * cpu-image=off, or its image is of another version. A GPU runs them, without a trace; each launch is
 * counted. The CPU device does not. */
#ifndef MT_API_UNTABLED_H
#define MT_API_UNTABLED_H
#include "device/gpu.h"
#include "launch.h"

/* A kernel that was not registered here: of another runtime, or of the driver API; by the handle that it is
 * launched by. `name`: mangled, NULL: not known. NULL: no memory. Stays. */
struct mt_function *mt_untabled_know(const void *handle, const char *name);
/* Fills *l for a launch of f that runs as it is, with its line for the companions; says so once per file. The
 * line's strings last as long as f. */
void mt_untabled_describe(struct mt_gpu_launch *l, struct mt_function *f, const struct mt_launch_config *c,
                          const struct mt_host_site *site);
/* On the CPU device: the launch has failed with `status`. The companions have it, and the stream's trace is
 * incomplete, if it was to be traced. */
void mt_untabled_refused(struct mt_stream *s, struct mt_function *f, const struct mt_launch_config *c,
                         const struct mt_host_site *site, int status);
#endif
