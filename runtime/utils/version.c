/* Version of what compiled programs and libmemtrace.so agree on;
 * goes up when an older object no longer fits. */
#include "version.h"

__attribute__((visibility("default"))) unsigned mt_runtime_version(void)
{
    return MT_UTILS_VERSION;
}
