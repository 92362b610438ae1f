/* Device utilities of the build in steps: compiled to dutils.o and linked into the program. The plugin brings
 * the recording code into each device module, so device code needs no more from here than to be asked which
 * version of the runtime it was built for. There is no kernel and no variable in this file on purpose: the
 * object then registers nothing, and the trace of a program is the same with and without it. */
#include "version.h"

extern "C" __device__ unsigned mt_device_utils_version()
{
    return MT_UTILS_VERSION;
}
