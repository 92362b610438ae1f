/* Launches: checks, the hidden launch context, the trace. */
#include "launch.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "device/errors.h"
#include "device/gpu.h"
#include "api/tables/error.h"
#include "api/streams/capture.h"
#include "format/packet.h"
#include "api/streams/queue.h"
#include "shown.h"
#include "api/memory/sync.h"
#include "untabled.h"
#include "trace/events.h"
#include "trace/devices.h"
#include "base/options.h"
#include "base/report.h"
#include "base/short.h"
#include "trace/selection.h"
#include "trace/site.h"
#include "trace/trace.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t mt_launch_dynamic_max(const struct mt_function *f)
{
    uint32_t fixed = f->kernel ? f->kernel->shared_static : 0;
    if (f->dynamic_shared_max >= 0)
        return (size_t)f->dynamic_shared_max;
    return fixed < MT_DEV_SHARED_BLOCK ? MT_DEV_SHARED_BLOCK - fixed : 0;
}

unsigned mt_launch_threads_max(const struct mt_function *f)
{
    uint32_t bound = f->kernel ? f->kernel->max_threads : 0;
    return bound && bound < MT_DEV_THREADS_PER_BLOCK ? bound : MT_DEV_THREADS_PER_BLOCK;
}

unsigned mt_launch_resident(const struct mt_function *f, unsigned threads, size_t shared)
{
    size_t used = (f->kernel ? f->kernel->shared_static : 0) + shared + MT_DEV_SHARED_RESERVED;
    if (!threads || threads > mt_launch_threads_max(f) || shared > mt_launch_dynamic_max(f))
        return 0;
    unsigned warps = (threads + 31) / 32, n = MT_DEV_BLOCKS_PER_SM;
    unsigned by_threads = MT_DEV_THREADS_PER_SM / (warps * 32);
    unsigned by_registers = MT_DEV_REGISTERS / (warps * 32 * MT_DEV_KERNEL_REGISTERS);
    unsigned by_shared = (unsigned)(MT_DEV_SHARED_SM / used);
    n = by_threads < n ? by_threads : n;
    n = by_registers < n ? by_registers : n;
    return by_shared < n ? by_shared : n;
}

cudaError_t mt_launch_cluster(const struct mt_function *f, dim3 asked, uint32_t out[3])
{
    const struct mt_image_kernel *k = f->kernel;
    const uint32_t compiled[] = {k->cluster_x, k->cluster_y, k->cluster_z};
    const uint32_t said[] = {asked.x, asked.y, asked.z};
    uint64_t ctas = 1, most = f->cluster_nonportable ? MT_DEV_CLUSTER_NONPORTABLE : MT_DEV_CLUSTER;
    int any = 0;
    for (int i = 0; i < 3; i++) {
        uint32_t must = k->cluster_x ? compiled[i] : (uint32_t)f->cluster[i];
        out[i] = must ? must : said[i];
        any |= out[i] != 0;
        ctas = ctas <= most && (!asked.x || said[i] == out[i]) ? ctas * out[i] : 0;
    }
    int bad = any ? !ctas || ctas > most : f->cluster_must;
    if (bad)
        memset(out, 0, 3 * sizeof *out);
    return bad ? cudaErrorInvalidClusterSize : cudaSuccess;
}

static cudaError_t check_cluster(const struct mt_function *f, const struct mt_launch_config *c)
{
    uint32_t size[3];
    cudaError_t e = mt_launch_cluster(f, c->cluster, size);
    if (e || !size[0])
        return e;
    return c->grid.x % size[0] || c->grid.y % size[1] || c->grid.z % size[2] ? cudaErrorInvalidClusterSize
                                                                             : cudaSuccess;
}

static cudaError_t launch_sizes(const struct mt_function *f, const struct mt_launch_config *c)
{
    const dim3 *g = &c->grid, *b = &c->block;
    uint64_t threads = (uint64_t)b->x * b->y * b->z;
    if (!g->x || !g->y || !g->z || g->x > MT_DEV_GRID_X || g->y > MT_DEV_GRID_YZ || g->z > MT_DEV_GRID_YZ)
        return cudaErrorInvalidConfiguration;
    if (!threads || b->x > MT_DEV_THREADS_PER_BLOCK || b->y > MT_DEV_THREADS_PER_BLOCK ||
        b->z > MT_DEV_BLOCK_Z || threads > MT_DEV_THREADS_PER_BLOCK)
        return cudaErrorInvalidConfiguration;
    if (threads > mt_launch_threads_max(f))
        return cudaErrorLaunchOutOfResources;
    if (c->shared > mt_launch_dynamic_max(f))
        return cudaErrorInvalidValue;
    uint64_t ctas = (uint64_t)g->x * g->y * g->z;
    if (c->cooperative &&
        ctas > (uint64_t)mt_launch_resident(f, (unsigned)threads, c->shared) * mt_device_sms())
        return cudaErrorCooperativeLaunchTooLarge;
    return check_cluster(f, c);
}

static cudaError_t launch_check(const struct mt_function *f, const struct mt_launch_config *c)
{
    cudaError_t e = launch_sizes(f, c);
    if (e)
        mt_failed_why(
            "kernel %s: grid (%u,%u,%u), block (%u,%u,%u) of at most %u threads, %llu dynamic bytes of "
            "shared memory of at most %llu",
            mt_short((const char *)f->kernel->pretty).text, c->grid.x, c->grid.y, c->grid.z, c->block.x,
            c->block.y, c->block.z, mt_launch_threads_max(f), (unsigned long long)c->shared,
            (unsigned long long)mt_launch_dynamic_max(f));
    return e;
}

void mt_launch_describe(struct mt_launch_line *l, struct mt_function *f, const struct mt_launch_config *c,
                        const struct mt_host_site *site)
{
    const struct mt_image_kernel *k = f->kernel;
    *l = (struct mt_launch_line){
        .kernel = mt_function_shown(f, k->pretty, k->signature),
        .source = k->pretty,
        .mangled = k->name,
        .signature = k->signature,
        .grid = {c->grid.x, c->grid.y, c->grid.z},
        .block = {c->block.x, c->block.y, c->block.z},
        .shared = c->shared,
        .cooperative = c->cooperative,
        .site = site,
        .counted = (k->flags & MT_KERNEL_COUNTED) != 0,
        .no_records = (k->flags & MT_KERNEL_NO_RECORDS) != 0,
        .barriers = (k->flags & MT_KERNEL_BARRIERS) != 0,
    };
}

/* A launch as an operation. After it: room for the pointers that the CPU device wants, then the values. */
struct launch_op {
    struct mt_op op;
    struct mt_function *f;
    struct mt_launch_config config;
    struct mt_trace *trace;
    struct mt_cpu_launch run;
    struct mt_launch_line line;
    void *context; /* the launch context, which on this device is only a place */
    void *args[];  /* nparams + 1 */
};

/* Where the value of each parameter is: `at`, from the end of the pointers on; starts with 0. */
static size_t launch_place(const struct mt_image_param *p, size_t *at)
{
    size_t align = p->align ? p->align : 1, here = (*at + align - 1) / align * align;
    *at = here + p->size;
    return here;
}

static const struct mt_image_param *launch_parameters(const struct mt_image_kernel *k)
{
    return k->params;
}

/* args[i] = address of value i inside the operation. */
static void launch_point(struct launch_op *l, void **args)
{
    const struct mt_image_kernel *k = l->f->kernel;
    char *values = (char *)&l->args[k->nparams + 1];
    size_t at = 0;
    for (uint32_t i = 0; i < k->nparams; i++)
        args[i] = values + launch_place(&launch_parameters(k)[i], &at);
}

/* A launch that failed: what the program gets when it synchronises, as on a GPU. */
static void launch_report(const struct mt_cpu_launch *run, int status)
{
    if (!status)
        return;
    mt_report_once("kernel %s: %s", mt_short((const char *)run->kernel->pretty).text,
                   run->message[0] ? run->message : cudaGetErrorString((cudaError_t)status));
    if (mt_error_stays(status))
        mt_fail_sticky(run->device, (cudaError_t)status);
    else
        mt_fail_later(run->device, (cudaError_t)status);
}

/* A child of a traced program looks traced and is not. */
static void say_forked(void)
{
    static _Atomic int said;
    if (mt_options()->enable && !said++)
        mt_note("process %d was forked by a traced program; its launches are not traced", (int)getpid());
}

static void launch_ended(struct launch_op *l, int status)
{
    l->line.status = status;
    l->line.records = l->run.records;
    l->line.untraced = l->run.untraced;
    l->line.undefined = l->run.undefined;
    l->line.parted = l->run.parted;
    memcpy(l->line.counts, l->run.counts, sizeof l->line.counts);
    memcpy(l->line.recorded, l->run.recorded, sizeof l->line.recorded);
    mt_trace_end(l->trace, &l->line);
    if (!l->run.told)
        mt_failed_launch(&l->run, &l->line, status);
    if (l->f->kernel->flags & MT_KERNEL_PRINTF)
        mt_printed();
    launch_report(&l->run, status);
}

static void launch_done(void *op, int status)
{
    launch_ended(op, status);
    mt_op_finish(op);
}

static int launch_start(struct mt_op *op)
{
    struct launch_op *l = (struct launch_op *)op;
    launch_point(l, l->args);
    l->args[l->f->kernel->nparams] = &l->context;
    l->run.args = l->args;
    l->run.user = &l->line;
    l->run.done = launch_done;
    l->run.done_ctx = l;
    if (l->trace) {
        l->run.flush = mt_trace_compact() ? NULL : mt_trace_append;
        l->run.flush_runs = mt_trace_compact() ? mt_trace_append_runs : NULL;
        l->run.fence = mt_trace_fence;
        l->run.flush_ctx = l->trace;
    }
    mt_trace_begin(l->trace, &l->line);
    int status = mt_cpu_start(&l->run);
    if (!status)
        return MT_OP_PENDING;
    launch_ended(l, status);
    return MT_OP_DONE;
}

static struct launch_op *launch_make(struct mt_function *f, const struct mt_launch_config *c, void **args,
                                     const struct mt_host_site *site)
{
    const struct mt_image_kernel *k = f->kernel;
    struct mt_image *on = mt_module_image_on(f->image, mt_device_current());
    size_t bytes = 0;
    for (uint32_t i = 0; i < k->nparams; i++)
        launch_place(&launch_parameters(k)[i], &bytes);
    struct launch_op *l =
        on ? mt_op_new(sizeof *l + (k->nparams + 1) * sizeof *l->args + bytes, MT_OP_KERNEL, launch_start)
           : NULL;
    if (!l)
        return NULL;
    l->op.site = site;
    l->f = f;
    l->config = *c;
    l->trace = NULL;
    l->run = (struct mt_cpu_launch){
        .image = on,
        .kernel = mt_image_kernel_on(f->image, on, k),
        .grid = {c->grid.x, c->grid.y, c->grid.z},
        .block = {c->block.x, c->block.y, c->block.z},
        .dyn_shared = (uint32_t)c->shared,
        .printf_bytes = mt_limit_get(mt_device_current(), cudaLimitPrintfFifoSize),
        .device = mt_device_current(),
        .cooperative = (uint32_t)c->cooperative,
    };
    mt_launch_cluster(f, c->cluster, l->run.cluster);
    mt_launch_describe(&l->line, f, c, site);
    l->line.device = l->run.device;
    memcpy(l->line.cluster, l->run.cluster, sizeof l->line.cluster);
    launch_point(l, l->args);
    for (uint32_t i = 0; i < k->nparams; i++)
        memcpy(l->args[i], args[i], launch_parameters(k)[i].size);
    return l;
}

void mt_launch_bind(struct mt_op *op, struct mt_stream *s)
{
    struct launch_op *l = (struct launch_op *)op;
    l->run.priority = s->priority;
    int traced = l->f->kernel->flags & MT_KERNEL_TRACED;
    l->trace = NULL;
    l->line.called = mt_event_next();
    if (!traced)
        mt_trace_bare();
    if (traced && mt_tracing() && mt_selection_takes(&l->line))
        l->trace = mt_stream_trace(s);
    l->run.ctas = l->trace ? mt_selection_ctas() : NULL;
    if (traced && !l->trace && !l->line.left_out)
        say_forked();
}

unsigned mt_launch_nparams(const struct mt_op *op)
{
    return ((const struct launch_op *)op)->f->kernel->nparams;
}

const struct mt_function *mt_launch_parts(struct mt_op *op, struct mt_launch_config *c, void **args)
{
    struct launch_op *l = (struct launch_op *)op;
    *c = l->config;
    launch_point(l, args);
    args[l->f->kernel->nparams] = &l->context;
    return l->f;
}

cudaError_t mt_launch_op(struct mt_op **out, const void *func, const struct mt_launch_config *c, void **args,
                         const struct mt_host_site *site)
{
    struct mt_function *f = mt_function_find(func);
    if (!f)
        return mt_fail(cudaErrorInvalidDeviceFunction);
    if (!f->module->image || (!f->kernel && f->module->foreign)) {
        mt_function_complain(f);
        return mt_fail(cudaErrorNoKernelImageForDevice);
    }
    if (!f->kernel) {
        mt_report("kernel %s is not in the CPU image of %s; compile all of the program anew",
                  mt_short(f->name).text, (const char *)f->module->image->head->source);
        return mt_fail(cudaErrorInvalidDeviceFunction);
    }
    if (!args && f->kernel->nparams)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = launch_check(f, c);
    if (e)
        return mt_fail(e);
    if (mt_device_start())
        return mt_fail(cudaErrorInitializationError);
    struct launch_op *l = launch_make(f, c, args, site);
    *out = l ? &l->op : NULL;
    return l ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t mt_launch_cpu(const void *func, const struct mt_launch_config *c, void **args)
{
    const struct mt_host_site *site = mt_host_site_take();
    struct mt_op *op;
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(c->stream);
    if (!s || s->device != mt_device_current())
        return mt_fail(mt_function_find(func) ? cudaErrorInvalidResourceHandle
                                              : cudaErrorInvalidDeviceFunction);
    cudaError_t e = mt_capture_check(s, MT_CALL_ASYNC);
    if (!e)
        e = mt_launch_op(&op, func, c, args, site);
    if (e == cudaErrorNoKernelImageForDevice)
        mt_untabled_refused(s, mt_function_find(func), c, site, e);
    if (e)
        return e;
    if (!mt_capturing(s)) /* a graph's launch has its trace from the stream that launches the graph */
        mt_launch_bind(op, s);
    return mt_op_submit(s, op);
}
