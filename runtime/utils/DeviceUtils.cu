/* Device utilities of the build in steps: compiled to dutils.o and linked into the program. The recording
 * code comes with the plugin, into each device module; what is left for this file is to say which version the
 * program's device side was built for, where tools that look into it (cuobjdump) find it. */
#include "version.h"

/* A function, because the runtime hears of every variable and would list it among the program's. */
extern "C" __device__ unsigned mt_device_utils_version()
{
    return MT_UTILS_VERSION;
}
