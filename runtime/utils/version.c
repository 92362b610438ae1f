/* Version of the interface between compiled programs and libmemtrace.so; raised when older objects no longer
 * fit. */
#include "version.h"

__attribute__((visibility("default"))) unsigned mt_runtime_version(void)
{
    return MT_UTILS_VERSION;
}
