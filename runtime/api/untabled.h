/* Kernels of which the runtime has no table: their file was compiled without the plugin or with
 * cpu-image=off, or its image is of another version. A GPU runs them, without a trace;
 * each launch is counted. */
#ifndef MT_API_UNTABLED_H
#define MT_API_UNTABLED_H
#include "gpu/gpu.h"
#include "launch.h"

/* Fills *l for a launch of f that runs as it is, with its line for the companions; says so once per file. The
 * line's strings last as long as f. */
void mt_untabled_describe(struct mt_gpu_launch *l, struct mt_function *f, const struct mt_launch_config *c,
                          const struct mt_host_site *site);
#endif
