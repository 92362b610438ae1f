/* The stack of a GPU's threads (cudaLimitStackSize). Functions that are called by pointer, or call
 * themselves, have larger frames with record calls than without: 56 bytes where a function that calls itself
 * between two loads has 32 (sm_90, ptxas 13.0), and the record function's own 56 once. So a traced program
 * gets twice what it asks for, and a bit; it sees what it asked for. */
#include "stack.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "device/gpu.h"
#include "trace/events.h"
#include <stdint.h>

#define STACK_ONCE 256 /* bytes: the record function's, and what leads there */

/* By device: what the program has, or 0: as the GPU has it, and not looked at. */
static _Atomic size_t stack_wanted[MT_GPU_ORDINALS];

static int stack_device(void)
{
    int d;
    return mt_device_is_gpu() && mt_tracing() && !MT_NEXT(cudaGetDevice)(&d) && d >= 0 && d < MT_GPU_ORDINALS
               ? d
               : -1;
}

/* Where there is not as much, the program gets what it asked for. */
static cudaError_t stack_set(int device, size_t value)
{
    int clean = mt_error_hold();
    cudaError_t e = MT_NEXT(cudaDeviceSetLimit)(cudaLimitStackSize, 2 * value + STACK_ONCE);
    mt_error_release(clean);
    if (e)
        e = MT_NEXT(cudaDeviceSetLimit)(cudaLimitStackSize, value);
    if (!e)
        stack_wanted[device] = value;
    return e;
}

void mt_stack_raise(void)
{
    size_t now;
    int device = stack_device();
    if (device < 0 || stack_wanted[device])
        return;
    int clean = mt_error_hold();
    if (!MT_NEXT(cudaDeviceGetLimit)(&now, cudaLimitStackSize))
        stack_set(device, now);
    mt_error_release(clean);
}

void mt_stack_reset(void)
{
    int device = stack_device();
    if (device >= 0)
        stack_wanted[device] = 0;
}

cudaError_t rec_cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    int device = limit == cudaLimitStackSize && value < SIZE_MAX / 4 ? stack_device() : -1;
    return device < 0 ? MT_NEXT(cudaDeviceSetLimit)(limit, value) : stack_set(device, value);
}

cudaError_t rec_cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    int device = limit == cudaLimitStackSize ? stack_device() : -1;
    cudaError_t e = MT_NEXT(cudaDeviceGetLimit)(value, limit);
    if (!e && device >= 0 && stack_wanted[device])
        *value = stack_wanted[device];
    return e;
}
