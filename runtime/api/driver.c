/* What the runtime says of the driver, its log and its notifications, where there is none. */
#include "entry.h"
#include "error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if CUDART_VERSION >= 12000
/* No driver function can be had: the answer that CUDA has for symbols that the platform lacks. */
static cudaError_t entry_point(const char *symbol, void **out, enum cudaDriverEntryPointQueryResult *status)
{
    MT_RETURN_IF_FAILED();
    if (!symbol || !out)
        return mt_fail(cudaErrorInvalidValue);
    *out = NULL;
    if (status)
        *status = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t IMPL(cudaGetDriverEntryPoint)(const char *symbol, void **out, unsigned long long flags,
                                          enum cudaDriverEntryPointQueryResult *status)
{
    return entry_point(symbol, out, status);
}
#endif

#if CUDART_VERSION >= 12050
cudaError_t IMPL(cudaGetDriverEntryPointByVersion)(const char *symbol, void **out, unsigned version,
                                                   unsigned long long flags,
                                                   enum cudaDriverEntryPointQueryResult *status)
{
    return version > CUDART_VERSION ? mt_fail(cudaErrorInvalidValue) : entry_point(symbol, out, status);
}
#endif

#if CUDART_VERSION >= 13000
/* One device is not a peer of its own. */
cudaError_t IMPL(cudaDeviceGetP2PAtomicCapabilities)(unsigned *capabilities,
                                                     const enum cudaAtomicOperation *operations,
                                                     unsigned count, int from, int to)
{
    return mt_fail(cudaErrorInvalidDevice);
}
#endif
