/* Calls of the driver's and the runtime's functions: what launches ask for that launches' callbacks do not
 * say, and what the program hears of a wait. A call of the runtime has one of the driver inside. */
#include "device/errors.h"
#include "inject.h"
#include "trace/selection.h"
#include <generated_cuda_meta.h>
#include <generated_cuda_runtime_api_meta.h>
#include <string.h>

static _Thread_local struct mt_inject_call call;

struct mt_inject_call *mt_inject_call(void)
{
    return &call;
}

/* 1: the call begins. */
static int call_begins(const Sanitizer_CallbackData *d)
{
    if (d->callbackSite != SANITIZER_API_ENTER)
        return 0;
    if (!call.depth++)
        call = (struct mt_inject_call){.depth = 1, .launches = mt_flight_issued_so_far()};
    return 1;
}

/* What it returned; both APIs number the errors that matter here alike. */
static int call_ends(const Sanitizer_CallbackData *d)
{
    if (call.depth && !--call.depth)
        call.waits = 0;
    return d->functionReturnValue ? *(const int *)d->functionReturnValue : 0;
}

/* ---- launches ---- */

static void call_config(const CUlaunchConfig *c)
{
    if (!c)
        return;
    call.shared = c->sharedMemBytes;
    for (unsigned i = 0; c->attrs && i < c->numAttrs; i++)
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            call.cooperative = c->attrs[i].value.cooperative != 0;
}

static void call_asks(Sanitizer_CallbackId id, const void *params)
{
    switch (id) {
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernel:
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernel_ptsz:
        call.shared = ((const cuLaunchKernel_params *)params)->sharedMemBytes;
        break;
    case SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel:
    case SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel_ptsz:
        call.shared = ((const cuLaunchCooperativeKernel_params *)params)->sharedMemBytes;
        call.cooperative = 1;
        break;
    case SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernelMultiDevice:
        call.cooperative = 1;
        break;
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx:
    case SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx_ptsz:
        call_config(((const cuLaunchKernelEx_params *)params)->config);
        break;
    default:
        break;
    }
}

static void call_launched(int status)
{
    if (status && call.after > call.first)
        mt_inject_launch_failed(call.first, call.after, status);
    if (!call.depth)
        call.first = call.after = 0;
}

void mt_inject_launches(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    if (!call_begins(d))
        call_launched(call_ends(d));
    else if (d->functionParams)
        call_asks(cbid, d->functionParams);
}

void mt_inject_runtime_launches(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    if (!call_begins(d)) {
        call_launched(call_ends(d));
        return;
    }
    call.cooperative = cbid == SANITIZER_CBID_RUNTIME_API_cudaLaunchCooperativeKernel ||
                       cbid == SANITIZER_CBID_RUNTIME_API_cudaLaunchCooperativeKernel_ptsz;
    if (cbid == SANITIZER_CBID_RUNTIME_API_cudaLaunchKernel && d->functionParams)
        call.shared = ((const cudaLaunchKernel_v7000_params *)d->functionParams)->sharedMem;
}

/* ---- waits ---- */

/* 1: what is copied is the host's when the call returns. Other copies need not have waited for anything. */
static int call_copies_back(const Sanitizer_CallbackData *d)
{
    const cudaMemcpy_v3020_params *p = d->functionParams; /* with per-thread default streams the same */
    if (!d->functionName || strstr(d->functionName, "DtoH"))
        return d->functionName != NULL;
    return !strncmp(d->functionName, "cudaMemcpy", 10) && p && p->kind == cudaMemcpyDeviceToHost;
}

/* A copy has waited for what was before it in its stream, which is a default one. */
static void call_copied(const Sanitizer_CallbackData *d)
{
    struct mt_inject_context *c = mt_inject_context(d->context);
    CUstream s = strstr(d->functionName, "_ptds") ? CU_STREAM_PER_THREAD : NULL;
    Sanitizer_StreamHandle stream = NULL;
    if (!c || mt_sanitizer()->GetStreamHandle(d->context, s, &stream))
        return;
    struct mt_trace *t = mt_inject_stream_known(d->context, stream);
    if (t)
        mt_inject_synced(c, stream, t, 0);
}

static void call_waited(const Sanitizer_CallbackData *d, int error)
{
    if (mt_error_stays(error))
        mt_inject_synced(mt_inject_context(d->context), NULL, NULL, error);
    else if (!error && call.copies && call_copies_back(d))
        call_copied(d);
}

void mt_inject_calls(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (call_begins(d)) {
        call.waits = 1;
        call.copies = d->functionName && strstr(d->functionName, "Memcpy") != NULL;
        return;
    }
    int waited = call.depth == 1;
    int error = d->functionReturnValue ? *(const int *)d->functionReturnValue : 0;
    if (waited)
        call_waited(d, error);
    call_ends(d);
}

void mt_inject_profiler_on(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (d->callbackSite == SANITIZER_API_ENTER)
        mt_selection_profiler(1);
}

void mt_inject_profiler_off(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (d->callbackSite == SANITIZER_API_ENTER)
        mt_selection_profiler(0);
}
