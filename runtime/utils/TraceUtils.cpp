/* Host utilities of the build in steps: compiled to hutils.o and linked into the program. Makes sure that the
 * program is linked with libmemtrace.so (the link fails with "mt_runtime_version" when it is not) and says at
 * start-up when the library is of another version than the one that this file came with. */
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
