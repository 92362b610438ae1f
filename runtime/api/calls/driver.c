/* What the runtime says of the driver, its log and its notifications, where there is none. */
#include "api/entry.h"
#include "api/tables/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if CUDART_VERSION >= 13000
/* One device is not a peer of its own. */
cudaError_t impl_cudaDeviceGetP2PAtomicCapabilities(unsigned *capabilities,
                                                    const enum cudaAtomicOperation *operations,
                                                    unsigned count, int from, int to)
{
    return mt_fail(cudaErrorInvalidDevice);
}
#endif
