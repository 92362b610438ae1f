/* Functions by name: cuGetProcAddress, cudaGetDriverEntryPoint. */
#define _GNU_SOURCE
#include "driver.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/binary.h"
#include "base/report.h"
#include "trace/trace.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *base;
    int version; /* of CUDA, from which on this function is meant */
    enum mt_driver_index plain;
    void (*per_thread)(void);
} address_versions[] = {
#define MT_VERSION(base, version, name, variant) {#base, version, MT_D_##name, (void (*)(void))variant},
#include "driver_versions.inc"
};

/* The newest version of `symbol` that `version` has; *too_new: there are only newer ones. NULL: there is
 * none. */
static void *address_find(const char *symbol, int version, int per_thread, int *too_new)
{
    void *found = NULL;
    int best = -1;
    *too_new = 0;
    for (size_t i = 0; i < sizeof address_versions / sizeof *address_versions; i++) {
        if (strcmp(address_versions[i].base, symbol) != 0)
            continue;
        *too_new = 1;
        if (address_versions[i].version > version || address_versions[i].version < best)
            continue;
        best = address_versions[i].version;
        found = per_thread ? (void *)address_versions[i].per_thread
                           : (void *)mt_driver_entries[address_versions[i].plain].exported;
    }
    *too_new &= !found;
    return found;
}

void *mt_driver_address(const char *symbol, int version, int per_thread)
{
    int too_new;
    return address_find(symbol, version, per_thread, &too_new);
}

static CUresult address_get(const char *symbol, void **out, int version, int per_thread,
                            CUdriverProcAddressQueryResult *status)
{
    int too_new;
    if (!symbol || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = address_find(symbol, version, per_thread, &too_new);
    if (status)
        *status = *out      ? CU_GET_PROC_ADDRESS_SUCCESS
                  : too_new ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult drv_cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    return address_get(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                       NULL);
}

CUresult drv_cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    return address_get(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                       status);
}

/* 1: it has a CUDA runtime; *kernels: and device code. */
static int address_has_cudart(const char *path, int *kernels)
{
    const struct mt_binary_symbols *where;
    struct mt_binary b;
    int major, has;
    if (mt_binary_open(&b, path) != 0)
        return 0;
    has = mt_binary_cudart(&b, &where, &major) != MT_CUDART_NONE;
    *kernels = mt_binary_section(&b, ".nv_fatbin") != 0;
    mt_binary_close(&b);
    return has;
}

/* A runtime of NVIDIA's that was not taken over may come to our driver because another library had opened
 * it. */
void mt_driver_asks(const void *caller)
{
    static int said;
    char why[512];
    int kernels;
    Dl_info from;
    if (said || mt_device_is_gpu() || !dladdr(caller, &from) || !from.dli_fname ||
        !address_has_cudart(from.dli_fname, &kernels) || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        return;
    snprintf(why, sizeof why,
             "%.400s: the CUDA runtime in it was not taken over: its CUDA calls fail, and are not traced",
             from.dli_fname);
    mt_report(
        "%s; put memtrace run before the program, if LD_AUDIT is not as it sets it; memtrace run --list says "
        "what cannot be taken over",
        why);
    if (kernels)
        mt_trace_miss_anywhere(why);
}

/* NVIDIA's private tables: there are none. */
CUresult drv_cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- the runtime API's ---- */

#if CUDART_VERSION >= 12000
static cudaError_t address_entry(const char *symbol, void **out, unsigned version, unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found;
    MT_RETURN_IF_FAILED();
    if (!symbol || !out)
        return mt_fail(cudaErrorInvalidValue);
    address_get(symbol, out, (int)version, (flags & cudaEnablePerThreadDefaultStream) != 0, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return cudaSuccess;
}

cudaError_t impl_cudaGetDriverEntryPoint(const char *symbol, void **out, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status)
{
    return address_entry(symbol, out, CUDART_VERSION, flags, status);
}
#endif

#if CUDART_VERSION >= 12050
cudaError_t impl_cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *status)
{
    return version > CUDART_VERSION ? mt_fail(cudaErrorInvalidValue)
                                    : address_entry(symbol, out, version, flags, status);
}
#endif
