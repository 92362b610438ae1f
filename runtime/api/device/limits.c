/* cudaLimit of each GPU. */
#include "limits.h"
#include "trace/devices.h"
#include "device.h"
#include <stdatomic.h>

static const size_t first[] = {
    [cudaLimitStackSize] = 1024,
    [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = MT_DEV_KERNEL_HEAP,
    [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64,
    [cudaLimitPersistingL2CacheSize] = 0,
};
#define LIMITS (sizeof first / sizeof *first)
static _Atomic size_t limits[MT_DEVICES_MAX][LIMITS]; /* 0: as at first; else one more than it is */

/* The depth of device-side synchronisation: gone from sm_90 on. */
int mt_limit_there(enum cudaLimit limit)
{
    return (unsigned)limit < LIMITS && limit != cudaLimitDevRuntimeSyncDepth;
}

size_t mt_limit_get(int device, enum cudaLimit limit)
{
    size_t set = limits[device][limit];
    return set ? set - 1 : first[limit];
}

void mt_limit_set(int device, enum cudaLimit limit, size_t value)
{
    limits[device][limit] = value + 1;
}

void mt_limits_reset(int device)
{
    for (size_t i = 0; i < LIMITS; i++)
        limits[device][i] = 0;
}
