/* The launch entry points, for both devices: each has its own way to say the configuration and the same way
 * on. */
#include "launch.h"
#include "device.h"
#include "entry.h"
#include "error.h"
#include "gpu.h"
#include "plain.h"
#include "stream.h"
#include "trace/events.h"
#include "base/report.h"
#include "trace/selection.h"
#include "trace/site.h"
#include <stdlib.h>
#include <string.h>

/* ---- <<<>>>: the configuration waits on a stack of the thread until the host stub takes it ---- */

static _Thread_local struct mt_launch_config *pushed;
static _Thread_local size_t npushed, capacity;

unsigned REC(__cudaPushCallConfiguration)(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (npushed == capacity) {
        size_t more = capacity ? 2 * capacity : 8;
        struct mt_launch_config *p = realloc(pushed, more * sizeof *p);
        if (!p)
            return (unsigned)mt_fail(cudaErrorMemoryAllocation); /* not 0: the call is skipped */
        pushed = p;
        capacity = more;
    }
    pushed[npushed++] = (struct mt_launch_config){grid, block, shared, stream, 0, {0}};
    return 0;
}

cudaError_t REC(__cudaPopCallConfiguration)(dim3 *grid, dim3 *block, size_t *shared, void *stream)
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
    int ours; /* an instrumented kernel */
    struct mt_function *function;
    int captured;    /* into a graph: it is traced when that is launched */
    int clean;       /* the program had no error to ask for */
    cudaError_t why; /* with record calls it was refused so */
    void *context, **args, *few[64];
};

/* The argument array for the real runtime: instrumented kernels get their launch context behind the program's
 * own arguments, others go as they are. */
static void **gpu_begin(struct gpu_call *g, const void *func, const struct mt_launch_config *c, void **args)
{
    const struct mt_gpu_ops *ops = mt_gpu();
    struct mt_function *f = mt_function_find(func);
    struct mt_stream *s = mt_stream_get(c->stream);
    const struct mt_image_kernel *k = f ? f->kernel : NULL;
    g->ours = k != NULL;
    g->function = f;
    g->config = c;
    g->why = cudaSuccess;
    g->args = args;
    const struct mt_host_site *site = mt_host_site_take();
    if (f && !k && mt_tracing())
        mt_module_untraced(f->module, f->name);
    if (!k || (k->nparams && !args)) { /* the runtime says what is wrong */
        g->ours = 0;
        return args;
    }
    if (mt_device_is_gpu())
        mt_modules_log_symbols();
    g->launch = (struct mt_gpu_launch){
        .image = f->module->image,
        .kernel = k,
        .symbol = f->host,
        .stream = c->stream,
        .cooperative = c->cooperative,
        .line = {.kernel = k->pretty,
                 .mangled = k->name,
                 .signature = k->signature,
                 .grid = {c->grid.x, c->grid.y, c->grid.z},
                 .block = {c->block.x, c->block.y, c->block.z},
                 .shared = c->shared,
                 .cooperative = c->cooperative,
                 .site = site,
                 .counted = (k->flags & MT_KERNEL_NO_RECORDS) != 0, /* a GPU does either */
                 .no_records = (k->flags & MT_KERNEL_NO_RECORDS) != 0},
    };
    mt_launch_cluster(f, c->cluster, g->launch.line.cluster);
    g->launch.line.called = mt_event_next();
    g->captured = ops && s && k->flags & MT_KERNEL_TRACED && mt_tracing() && ops->capturing(c->stream);
    if (ops && !g->captured && s && k->flags & MT_KERNEL_TRACED && mt_tracing() && !mt_cpu_channel_failed() &&
        mt_selection_takes(&g->launch.line))
        g->launch.trace = mt_stream_trace(s);
    g->context = ops && !g->captured ? ops->launch(&g->launch) : NULL;
    g->args = g->few;
    if (k->nparams >= sizeof g->few / sizeof *g->few &&
        !(g->args = malloc((k->nparams + 1) * sizeof *g->args))) {
        mt_report("out of memory: kernel %s is not launched", (const char *)k->pretty);
        return NULL;
    }
    g->clean = mt_plain_of(f) && MT_NEXT(cudaPeekAtLastError)() == cudaSuccess;
    if (k->nparams)
        memcpy(g->args, args, k->nparams * sizeof *args);
    g->args[k->nparams] = &g->context;
    return g->args;
}

/* What the real runtime is to launch for `func`: with a context the version with record calls. Of what is
 * captured it is decided when the graph is ready. */
static const void *launch_api_version(const struct gpu_call *g, const void *func)
{
    return g->ours && g->context && mt_plain_of(g->function) ? mt_traced_of(g->function) : func;
}

/* 1: it is to be launched again, without record calls: with them it needs more registers than there are, and
 * the program shall not fail for that. */
static int launch_api_again(struct gpu_call *g, cudaError_t e)
{
    int refused = e == cudaErrorLaunchOutOfResources || e == cudaErrorCooperativeLaunchTooLarge;
    if (!refused || !g->ours || g->why || !g->context || !mt_plain_of(g->function))
        return 0;
    if (g->clean)
        MT_NEXT(cudaGetLastError)();
    g->why = e;
    g->context = NULL;
    return 1;
}

static cudaError_t gpu_end(struct gpu_call *g, cudaError_t e)
{
    if (!g->ours)
        return e;
    g->launch.plain = g->why != cudaSuccess;
    if (g->why && !e)
        mt_plain_tell(g->function, g->config, g->why);
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

/* ---- entry points ---- */

cudaError_t REC(cudaLaunchKernel)(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                  cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 0, {0}};
    struct gpu_call g;
    cudaError_t e;
    if (!mt_device_gpu_path())
        return mt_launch_cpu(func, &c, args);
    void **all = gpu_begin(&g, func, &c, args);
    do
        e = mt_device_is_gpu()
                ? MT_NEXT(cudaLaunchKernel)(launch_api_version(&g, func), grid, block, all, shared, stream)
                : mt_launch_cpu(func, &c, all);
    while (launch_api_again(&g, e));
    return gpu_end(&g, e);
}

cudaError_t REC(cudaLaunchCooperativeKernel)(const void *func, dim3 grid, dim3 block, void **args,
                                             size_t shared, cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 1, {0}};
    struct gpu_call g;
    cudaError_t e;
    if (!mt_device_gpu_path())
        return mt_launch_cpu(func, &c, args);
    void **all = gpu_begin(&g, func, &c, args);
    do
        e = mt_device_is_gpu() ? MT_NEXT(cudaLaunchCooperativeKernel)(launch_api_version(&g, func), grid,
                                                                      block, all, shared, stream)
                               : mt_launch_cpu(func, &c, all);
    while (launch_api_again(&g, e));
    return gpu_end(&g, e);
}

cudaError_t REC(__cudaLaunchKernel)(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                    cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 0, {0}};
    struct gpu_call g;
    cudaError_t e;
    if (!mt_device_gpu_path())
        return mt_launch_cpu(kernel, &c, args);
    void **all = gpu_begin(&g, kernel, &c, args);
    do {
        cudaKernel_t traced =
            mt_device_is_gpu() && launch_api_version(&g, NULL) ? mt_traced_handle(g.function) : NULL;
        e = mt_device_is_gpu()
                ? MT_NEXT(__cudaLaunchKernel)(traced ? traced : kernel, grid, block, all, shared, stream)
                : mt_launch_cpu(kernel, &c, all);
    } while (launch_api_again(&g, e));
    return gpu_end(&g, e);
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

cudaError_t REC(cudaLaunchKernelExC)(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    struct gpu_call g;
    if (!config)
        return mt_fail(cudaErrorInvalidValue);
    struct mt_launch_config c = {
        config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream, 0, {0}};
    for (unsigned i = 0; i < config->numAttrs; i++) {
        cudaError_t e = launch_api_attribute(&config->attrs[i], &c);
        if (e && !mt_device_is_gpu())
            return mt_fail(e);
    }
    if (!mt_device_gpu_path())
        return mt_launch_cpu(func, &c, args);
    void **all = gpu_begin(&g, func, &c, args);
    cudaError_t e;
    do
        e = mt_device_is_gpu() ? MT_NEXT(cudaLaunchKernelExC)(config, launch_api_version(&g, func), all)
                               : mt_launch_cpu(func, &c, all);
    while (launch_api_again(&g, e));
    return gpu_end(&g, e);
}

/* A launch by handle and a launch by host address are the same kernel. */
cudaError_t REC(__cudaGetKernel)(cudaKernel_t *kernel, const void *host)
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
