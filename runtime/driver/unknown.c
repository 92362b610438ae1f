/* The driver API in programs of mt-cc on a GPU. What it launches has no records, and what it copies and fills
 * no line: both are said, and make traces incomplete. memtrace run traces such programs whole. */
#define _GNU_SOURCE
#include "launch.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/graphs/graph_gpu.h"
#include "api/launch/launch.h"
#include "api/streams/stream.h"
#include "api/launch/untabled.h"
#include "trace/trace.h"
#include <stdio.h>
#include <string.h>

#define REAL(name) ((__typeof__(&name))mt_driver_real(MT_D_##name))

/* ---- launches ------------------------------------------------------------------------------------ */

/* One call, to be made as it came. */
struct unknown_call {
    CUresult (*launch)(const struct unknown_call *c);
    CUfunction f;
    struct mt_launch_config l;
    const CUlaunchConfig *whole;
    void **params, **extra;
    CUresult result;
};

static cudaError_t unknown_run(void *call, const void *version, void **args)
{
    struct unknown_call *c = call;
    (void)version, (void)args;
    c->result = c->launch(c);
    return (cudaError_t)c->result; /* the numbers are the same */
}

/* The function has a name, the stream a number; the launch is a line without records. */
static CUresult unknown_launch(struct unknown_call *c)
{
    const char *name = NULL;
#if CUDA_VERSION >= 12030
    if (REAL(cuFuncGetName) && REAL(cuFuncGetName)(&name, c->f))
        name = NULL;
#endif
    if (!mt_stream_get(c->l.stream))
        mt_stream_add(c->l.stream, cudaStreamNonBlocking, 0);
    mt_launch_untraced(mt_untabled_know(c->f, name), &c->l, unknown_run, c);
    return c->result;
}

static CUresult unknown_plain(const struct unknown_call *c)
{
    return REAL(cuLaunchKernel)(c->f, c->l.grid.x, c->l.grid.y, c->l.grid.z, c->l.block.x, c->l.block.y,
                                c->l.block.z, (unsigned)c->l.shared, (CUstream)c->l.stream, c->params,
                                c->extra);
}

CUresult gpu_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    struct unknown_call c = {.launch = unknown_plain,
                             .f = f,
                             .l = {{gx, gy, gz}, {bx, by, bz}, shared, (cudaStream_t)stream, 0, {0}},
                             .params = params,
                             .extra = extra};
    return unknown_launch(&c);
}

static CUresult unknown_together(const struct unknown_call *c)
{
    return REAL(cuLaunchCooperativeKernel)(c->f, c->l.grid.x, c->l.grid.y, c->l.grid.z, c->l.block.x,
                                           c->l.block.y, c->l.block.z, (unsigned)c->l.shared,
                                           (CUstream)c->l.stream, c->params);
}

CUresult gpu_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                       unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                       void **params)
{
    struct unknown_call c = {.launch = unknown_together,
                             .f = f,
                             .l = {{gx, gy, gz}, {bx, by, bz}, shared, (cudaStream_t)stream, 1, {0}},
                             .params = params};
    return unknown_launch(&c);
}

#if CUDA_VERSION >= 11080
static CUresult unknown_whole(const struct unknown_call *c)
{
    return REAL(cuLaunchKernelEx)(c->whole, c->f, c->params, c->extra);
}

CUresult gpu_cuLaunchKernelEx(const CUlaunchConfig *w, CUfunction f, void **params, void **extra)
{
    if (!w)
        return REAL(cuLaunchKernelEx)(w, f, params, extra);
    struct unknown_call c = {.launch = unknown_whole, .f = f, .whole = w, .params = params, .extra = extra};
    c.l = (struct mt_launch_config){{w->gridDimX, w->gridDimY, w->gridDimZ},
                                    {w->blockDimX, w->blockDimY, w->blockDimZ},
                                    w->sharedMemBytes,
                                    (cudaStream_t)w->hStream,
                                    0,
                                    {0}};
    mt_launch_attributes(&c.l, (cudaLaunchAttribute *)(void *)w->attrs, w->numAttrs);
    return unknown_launch(&c);
}
#endif

/* A graph that the runtime API made ready is traced; of what another one launches nothing is known. */
CUresult gpu_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    if (!mt_graph_gpu_knows((cudaGraphExec_t)exec))
        mt_trace_miss_anywhere(
            "a graph that the driver API made ready was launched: its kernels have no records");
    return (CUresult)mt_graph_gpu_launch((cudaGraphExec_t)exec, (cudaStream_t)stream);
}

/* ---- copies and fills, functions by name --------------------------------------------------------- */

void mt_driver_unseen(const char *name)
{
    char why[160];
    if (strncmp(name, "cuMemcpy", 8) != 0 && strncmp(name, "cuMemset", 8) != 0)
        return;
    snprintf(why, sizeof why, "%s of the driver API was called: what it copies or fills has no line", name);
    mt_trace_miss_anywhere(why);
}

/* Who asks for a function that launches gets ours, which asks for the driver's. */
static void unknown_stand_in(const char *symbol, void **out, int version, int per_thread)
{
    void *ours = NULL;
    if (symbol && out && *out && (!strncmp(symbol, "cuLaunch", 8) || !strcmp(symbol, "cuGraphLaunch")))
        ours = mt_driver_address(symbol, version, per_thread);
    if (ours)
        *out = ours;
}

CUresult gpu_cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    CUresult e = REAL(cuGetProcAddress)(symbol, out, version, flags);
    if (!e)
        unknown_stand_in(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    return e;
}

#if CUDA_VERSION >= 12000
CUresult gpu_cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    CUresult e = REAL(cuGetProcAddress_v2)(symbol, out, version, flags, status);
    if (!e)
        unknown_stand_in(symbol, out, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    return e;
}

static cudaError_t unknown_entry(cudaError_t e, const char *symbol, void **out, unsigned version,
                                 unsigned long long flags)
{
    if (!e && mt_device_is_gpu())
        unknown_stand_in(symbol, out, (int)version, (flags & cudaEnablePerThreadDefaultStream) != 0);
    return e;
}

cudaError_t rec_cudaGetDriverEntryPoint(const char *symbol, void **out, unsigned long long flags,
                                        enum cudaDriverEntryPointQueryResult *status)
{
    return unknown_entry(MT_NEXT(cudaGetDriverEntryPoint)(symbol, out, flags, status), symbol, out,
                         CUDART_VERSION, flags);
}
#endif

#if CUDART_VERSION >= 12050
cudaError_t rec_cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
                                                 unsigned long long flags,
                                                 enum cudaDriverEntryPointQueryResult *status)
{
    return unknown_entry(MT_NEXT(cudaGetDriverEntryPointByVersion)(symbol, out, version, flags, status),
                         symbol, out, version, flags);
}
#endif
