/* The launch entry points, for both devices: each has its own way to say the configuration
 * and the same way on. */
#include "launch.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "device/gpu.h"
#include "libcall.h"
#include "stack.h"
#include "api/streams/stream.h"
#include "untabled.h"
#include "trace/events.h"
#include "base/report.h"
#include "base/short.h"
#include "trace/selection.h"
#include "trace/site.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

/* ---- <<<>>>: the configuration waits on a stack of the thread until the host stub takes it ---- */

static _Thread_local struct mt_launch_config *pushed;
static _Thread_local size_t npushed, capacity;

unsigned rec___cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (mt_grow(&pushed, &capacity, npushed + 1, sizeof *pushed))
        return (unsigned)mt_fail(cudaErrorMemoryAllocation); /* not 0: the call is skipped */
    pushed[npushed++] = (struct mt_launch_config){grid, block, shared, stream, 0, {0}};
    return 0;
}

cudaError_t rec___cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (!npushed)
        return mt_fail(cudaErrorMissingConfiguration);
    struct mt_launch_config c = pushed[--npushed];
    if (!npushed) { /* nothing is kept for threads that end */
        free(pushed);
        pushed = NULL;
        capacity = 0;
    }
    *grid = c.grid;
    *block = c.block;
    *shared = c.shared;
    *(cudaStream_t *)stream = c.stream;
    return cudaSuccess;
}

/* ---- a real GPU ---- */

struct gpu_call {
    struct mt_gpu_launch launch;
    const struct mt_launch_config *config;
    int ours;    /* an instrumented kernel */
    int counted; /* it runs as it is, which the companions have */
    struct mt_function *function;
    int captured;    /* into a graph: it is traced when that is launched */
    int clean;       /* the program had no error to ask for */
    cudaError_t why; /* with record calls it was refused so */
    void *context, **args, *few[64];
};

static int launch_api_captured(cudaStream_t stream)
{
    return mt_gpu() && mt_tracing() && mt_gpu()->capturing(mt_stream_named(stream));
}

/* Is it to be in the trace of its stream? If it then runs without records, that is not complete. */
static void launch_api_select(struct gpu_call *g, struct mt_stream *s)
{
    if (s && !mt_libcall_inside() && mt_tracing() && mt_selection_takes(&g->launch.line))
        g->launch.trace = mt_stream_trace(s);
}

/* A kernel without a table: it runs as it is, and is counted. */
static void launch_api_count(struct gpu_call *g, struct mt_stream *s, const struct mt_host_site *site)
{
    if (!mt_tracing() || !mt_gpu() || !mt_device_is_gpu() || launch_api_captured(g->config->stream))
        return;
    mt_untabled_describe(&g->launch, g->function, g->config, site);
    g->launch.line.called = mt_event_next();
    launch_api_select(g, s);
    g->counted = 1;
}

static void launch_api_describe(struct gpu_call *g, const struct mt_host_site *site)
{
    const struct mt_launch_config *c = g->config;
    const struct mt_image_kernel *k = g->function->kernel;
    g->launch = (struct mt_gpu_launch){
        .image = g->function->module->image,
        .kernel = k,
        .symbol = g->function->host,
        .stream = mt_stream_named(c->stream),
        .cooperative = c->cooperative,
    };
    mt_launch_describe(&g->launch.line, g->function, c, site);
    g->launch.line.counted = g->launch.line.no_records; /* a GPU does either */
    mt_launch_cluster(g->function, c->cluster, g->launch.line.cluster);
    g->launch.line.called = mt_event_next();
}

/* There is no room for one argument more: it runs without, if it has a version that takes that. */
static void **launch_api_as_it_is(struct gpu_call *g, void **args)
{
    const char *name = g->function->kernel->pretty;
    int plain = mt_function_plain(g->function) != NULL;
    mt_report("out of memory: kernel %s is not %s", mt_short(name).text, plain ? "traced" : "launched");
    g->ours = !plain;
    g->counted = plain && mt_gpu() && !g->captured;
    g->args = plain ? args : NULL;
    return g->args;
}

/* What the real runtime calls a kernel that is not ours; NULL: it does not say. */
static const char *launch_api_name(const void *func)
{
    const char *name = NULL;
#if CUDART_VERSION >= 12030
    int clean = mt_error_hold();
    if (MT_NEXT(cudaFuncGetName)(&name, func))
        name = NULL;
    mt_error_release(clean);
#else
    (void)func;
#endif
    return name;
}

/* The argument array for the real runtime: instrumented kernels get their launch context after the program's
 * own arguments, others go as they are. NULL for one of ours: no memory. */
static void **gpu_begin(struct gpu_call *g, const void *func, const struct mt_launch_config *c, void **args)
{
    const struct mt_gpu_ops *ops = mt_gpu();
    struct mt_function *f = mt_function_find(func);
    struct mt_stream *s = mt_stream_get(c->stream);
    const struct mt_image_kernel *k = f ? f->kernel : NULL;
    const struct mt_host_site *site = mt_host_site_take();
    g->ours = k && (args || !k->nparams); /* else the runtime says what is wrong */
    g->counted = g->captured = 0;
    g->function = f;
    g->config = c;
    g->why = cudaSuccess;
    g->args = args;
    if (!f && func && mt_device_is_gpu())
        g->function = mt_untabled_know(func, launch_api_name(func));
    if (g->function && !k)
        launch_api_count(g, s, site);
    if (!g->ours)
        return args;
    if (mt_device_is_gpu())
        mt_modules_log_symbols();
    launch_api_describe(g, site);
    int traced = s && k->flags & MT_KERNEL_TRACED;
    g->captured = traced && launch_api_captured(c->stream);
    if (ops && traced && !g->captured)
        launch_api_select(g, s);
    g->context = NULL;
    g->args =
        k->nparams < sizeof g->few / sizeof *g->few ? g->few : malloc((k->nparams + 1) * sizeof *g->args);
    if (!g->args)
        return launch_api_as_it_is(g, args);
    if (g->launch.trace)
        mt_stack_raise();
    if (ops && !g->captured)
        g->context = ops->launch(&g->launch);
    g->clean = mt_function_plain(f) && MT_NEXT(cudaPeekAtLastError)() == cudaSuccess;
    if (k->nparams)
        memcpy(g->args, args, k->nparams * sizeof *args);
    g->args[k->nparams] = &g->context;
    return g->args;
}

/* What the real runtime is to launch for `func`: with a context the version with record calls. Of what is
 * captured it is decided when the graph is ready. */
static const void *launch_api_version(const struct gpu_call *g, const void *func)
{
    return g->ours && g->context && mt_function_plain(g->function) ? mt_function_traced(g->function) : func;
}

/* 1: it is to be launched again, without record calls: with them it needs more registers than there are, and
 * the program shall not fail for that. */
static int launch_api_again(struct gpu_call *g, cudaError_t e)
{
    int refused = e == cudaErrorLaunchOutOfResources || e == cudaErrorCooperativeLaunchTooLarge;
    if (e == cudaErrorInvalidValue && g->ours && g->context)
        refused = mt_function_must_plain(g->function, g->config) == e;
    if (!refused || !g->ours || g->why || !g->context || !mt_function_plain(g->function))
        return 0;
    if (g->clean)
        MT_NEXT(cudaGetLastError)();
    g->why = e;
    g->context = NULL;
    return 1;
}

static cudaError_t gpu_end(struct gpu_call *g, cudaError_t e)
{
    if (g->counted)
        mt_gpu()->issued(&g->launch, e);
    if (!g->ours)
        return e;
    g->launch.plain = g->why != cudaSuccess;
    if (g->why && !e)
        mt_function_tell_plain(g->function, g->config, g->why);
    if (g->captured) {
        /* not a launch yet */
    } else if (mt_gpu()) {
        mt_gpu()->issued(&g->launch, e);
    } else {
        mt_trace_begin(NULL, &g->launch.line);
        g->launch.line.status = (int)e;
        mt_trace_end(NULL, &g->launch.line);
    }
    if (g->args != g->few)
        free(g->args);
    return e;
}

/* Where records leave by contexts: on a GPU. `run` launches a version of `func`,
 * itself or what mt_function_traced says, with arguments of which the last one is the context; a GPU's
 * refusal brings a second call. */
static cudaError_t launch_traced(const void *func, const struct mt_launch_config *c, void **args,
                                 mt_launch_run *run, void *call)
{
    struct gpu_call g;
    cudaError_t e;
    if (mt_function_is_folded(func)) /* NVIDIA's runtime would take one of them */
        return mt_fail(cudaErrorInvalidDeviceFunction);
    void **all = gpu_begin(&g, func, c, args);
    if (g.ours && !all)
        return gpu_end(&g, mt_fail(cudaErrorMemoryAllocation));
    do
        e = mt_device_is_gpu() ? run(call, launch_api_version(&g, func), all) : mt_launch_cpu(func, c, all);
    while (launch_api_again(&g, e));
    return gpu_end(&g, e);
}

cudaError_t mt_launch_untraced(struct mt_function *f, const struct mt_launch_config *c, mt_launch_run *run,
                               void *call)
{
    struct gpu_call g = {.function = f, .config = c};
    if (f)
        launch_api_count(&g, mt_stream_get(c->stream), mt_host_site_take());
    cudaError_t e = run(call, NULL, NULL);
    if (g.counted)
        mt_gpu()->issued(&g.launch, e);
    return e;
}

/* ---- entry points ---- */

static cudaError_t launch_api_run(void *call, const void *version, void **args)
{
    const struct mt_launch_config *c = call;
    return MT_NEXT(cudaLaunchKernel)(version, c->grid, c->block, args, c->shared, c->stream);
}

static cudaError_t launch_api_run_together(void *call, const void *version, void **args)
{
    const struct mt_launch_config *c = call;
    return MT_NEXT(cudaLaunchCooperativeKernel)(version, c->grid, c->block, args, c->shared, c->stream);
}

/* By handle; the version with record calls is known by an address. */
static cudaError_t launch_api_run_handle(void *call, const void *version, void **args)
{
    const struct mt_launch_config *c = call;
    struct mt_function *f = mt_function_find(version);
    cudaKernel_t traced = f && version == mt_function_traced(f) ? mt_function_traced_handle(f) : NULL;
    return MT_NEXT(__cudaLaunchKernel)(traced ? traced : (cudaKernel_t)(uintptr_t)version, c->grid, c->block,
                                       args, c->shared, c->stream);
}

cudaError_t rec_cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                 cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 0, {0}};
    return mt_device_is_gpu() ? launch_traced(func, &c, args, launch_api_run, &c)
                              : mt_launch_cpu(func, &c, args);
}

cudaError_t rec_cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
                                            size_t shared, cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 1, {0}};
    return mt_device_is_gpu() ? launch_traced(func, &c, args, launch_api_run_together, &c)
                              : mt_launch_cpu(func, &c, args);
}

cudaError_t rec___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                   cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 0, {0}};
    return mt_device_is_gpu() ? launch_traced(kernel, &c, args, launch_api_run_handle, &c)
                              : mt_launch_cpu(kernel, &c, args);
}

/* What a launch attribute asks for, as far as we need to know it. */
static cudaError_t launch_api_attribute(const cudaLaunchAttribute *a, struct mt_launch_config *c)
{
    switch ((int)a->id) {
    case cudaLaunchAttributeCooperative:
        c->cooperative = a->val.cooperative != 0;
        return cudaSuccess;
    case cudaLaunchAttributeClusterDimension:
        c->cluster = (dim3){a->val.clusterDim.x, a->val.clusterDim.y, a->val.clusterDim.z};
        if (!c->cluster.x && (c->cluster.y || c->cluster.z))
            return cudaErrorInvalidClusterSize;
        return cudaSuccess;
    default:
        return cudaSuccess; /* scheduling hints */
    }
}

static cudaError_t launch_api_run_config(void *call, const void *version, void **args)
{
    return MT_NEXT(cudaLaunchKernelExC)(call, version, args);
}

cudaError_t mt_launch_attributes(struct mt_launch_config *c, const cudaLaunchAttribute *a, unsigned n)
{
    cudaError_t first = cudaSuccess;
    for (unsigned i = 0; i < n; i++) {
        cudaError_t e = launch_api_attribute(&a[i], c);
        first = first ? first : e;
    }
    return first;
}

cudaError_t rec_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    if (!config)
        return mt_fail(cudaErrorInvalidValue);
    struct mt_launch_config c = {
        config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream, 0, {0}};
    cudaError_t e = mt_launch_attributes(&c, config->attrs, config->numAttrs);
    if (e && !mt_device_is_gpu())
        return mt_fail(e);
    return mt_device_is_gpu()
               ? launch_traced(func, &c, args, launch_api_run_config, (void *)(uintptr_t)config)
               : mt_launch_cpu(func, &c, args);
}

/* A launch by handle and a launch by host address are the same kernel. */
cudaError_t rec___cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    struct mt_function *f = mt_function_find(host);
    if (mt_device_is_gpu()) {
        cudaError_t e = MT_NEXT(__cudaGetKernel)(kernel, host);
        if (!e && f)
            mt_function_alias(*kernel, f);
        return e;
    }
    if (!f || !kernel)
        return mt_fail(f ? cudaErrorInvalidValue : cudaErrorInvalidDeviceFunction);
    *kernel = mt_function_handle(f);
    return cudaSuccess;
}
