/* Host utilities for builds in steps: compiled to hutils.o and linked into the program. Ensures that the
 * program is linked with libmemtrace.so (else the link fails with "mt_runtime_version") and reports at
 * start-up if the library's version differs from this file's. */
#include "version.h"
#include <cstdio>

namespace
{
struct Check {
    Check()
    {
        unsigned runs = mt_runtime_version();
        if (runs != MT_UTILS_VERSION)
            std::fprintf(
                stderr,
                "memtrace: this program was built for version %u of the runtime, libmemtrace.so has %u: "
                "its trace may be wrong; build the program again\n",
                MT_UTILS_VERSION, runs);
    }
} check;
} // namespace
