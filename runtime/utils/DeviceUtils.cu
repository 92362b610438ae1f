/* Device utilities for builds in steps: compiled to dutils.o and linked into the program. The plugin adds the
 * recording code to each device module, so this file only returns the version of the runtime it was built
 * for. It has no kernel and no variable on purpose: the object then registers nothing, and the trace of a
 * program is the same with and without it. */
#include "version.h"

extern "C" __device__ unsigned mt_device_utils_version()
{
    return MT_UTILS_VERSION;
}
