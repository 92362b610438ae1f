/* The tests' nccl.h next to NVIDIA's: another type of a function does not compile, nor do other numbers. */
#include <nccl.h>
#include "nccl.h"
_Static_assert(ncclSuccess == 0 && ncclInvalidArgument == 4 && ncclInvalidUsage == 5 &&
                   ncclRemoteError == 6 && ncclInProgress == 7,
               "");
_Static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4 &&
                   ncclNumOps == 5,
               "");
_Static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 && ncclInt64 == 4 &&
                   ncclUint64 == 5,
               "");
_Static_assert(ncclFloat16 == 6 && ncclFloat32 == 7 && ncclFloat64 == 8 && ncclBfloat16 == 9, "");
_Static_assert(sizeof(ncclUniqueId) == 128 && ncclScalarDevice == 0 && ncclScalarHostImmediate == 1, "");
