#include "launch.h"
#include "device.h"
#include "entry.h"
#include "error.h"
#include "stream.h"
#include "sync.h"
#include "common/events.h"
#include "common/options.h"
#include "common/report.h"
#include "common/site.h"
#include "common/trace.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS_ON_STACK 64

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

static cudaError_t check(const struct mt_function *f, const struct mt_launch_config *c)
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
    return cudaSuccess;
}

static void describe(struct mt_launch_line *l, const struct mt_image_kernel *k,
                     const struct mt_launch_config *c, const struct mt_host_site *site)
{
    *l = (struct mt_launch_line){
        .kernel = k->pretty,
        .mangled = k->name,
        .signature = k->signature,
        .grid = {c->grid.x, c->grid.y, c->grid.z},
        .block = {c->block.x, c->block.y, c->block.z},
        .shared = c->shared,
        .site = site,
    };
}

/* A launch that failed: what the program gets now and what it gets later. Faults of the kernel show up where
 * the program synchronises, as on a GPU; what only this device cannot do shows at once as well. */
static cudaError_t settle(const struct mt_cpu_launch *run, int status)
{
    if (!status)
        return cudaSuccess;
    mt_report("kernel %s: %s", (const char *)run->kernel->pretty,
              run->message[0] ? run->message : cudaGetErrorString((cudaError_t)status));
    switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        mt_fail_sticky((cudaError_t)status);
        return cudaSuccess;
    default:
        mt_fail_later((cudaError_t)status);
        return mt_fail((cudaError_t)status);
    }
}

/* A child of a traced program looks traced and is not. */
static void say_forked(void)
{
    static _Atomic int said;
    if (mt_options()->enable && !said++)
        mt_note("process %d was forked by a traced program; its launches are not traced", (int)getpid());
}

static cudaError_t run(const struct mt_function *f, const struct mt_launch_config *c, struct mt_stream *s,
                       void **args, const struct mt_host_site *site)
{
    struct mt_launch_line line;
    struct mt_cpu_launch run = {
        .image = f->module->image,
        .kernel = f->kernel,
        .args = args,
        .grid = {c->grid.x, c->grid.y, c->grid.z},
        .block = {c->block.x, c->block.y, c->block.z},
        .dyn_shared = (uint32_t)c->shared,
        .cooperative = (uint32_t)c->cooperative,
        .user = &line,
    };
    struct mt_trace *trace = NULL;
    describe(&line, f->kernel, c, site);
    mt_stream_wait(s);
    pthread_mutex_lock(&s->launching);
    if (f->kernel->flags & MT_KERNEL_TRACED && mt_tracing())
        trace = mt_stream_trace(s);
    else if (f->kernel->flags & MT_KERNEL_TRACED)
        say_forked();
    if (trace) {
        run.flush = mt_trace_append;
        run.flush_ctx = trace;
    }
    mt_trace_begin(trace, &line);
    line.status = mt_cpu_run(&run);
    line.records = run.records;
    line.untraced = run.untraced;
    mt_trace_end(trace, &line);
    pthread_mutex_unlock(&s->launching);
    if (f->kernel->flags & MT_KERNEL_PRINTF)
        mt_printed();
    return settle(&run, line.status);
}

/* The kernel has one parameter more than the program knows: the launch context, which on this device is
 * nothing but a place. */
static cudaError_t with_context(const struct mt_function *f, const struct mt_launch_config *c,
                                struct mt_stream *s, void **args, const struct mt_host_site *site)
{
    void *nothing = NULL, *few[ARGS_ON_STACK], **all = few;
    uint32_t n = f->kernel->nparams;
    if (n >= ARGS_ON_STACK && !(all = malloc((n + 1) * sizeof *all)))
        return mt_fail(cudaErrorMemoryAllocation);
    if (n)
        memcpy(all, args, n * sizeof *all);
    all[n] = &nothing;
    cudaError_t e = run(f, c, s, all, site);
    if (all != few)
        free(all);
    return e;
}

cudaError_t mt_launch_cpu(const void *func, const struct mt_launch_config *c, void **args)
{
    const struct mt_host_site *site = mt_host_site_take();
    MT_RETURN_IF_FAILED();
    struct mt_function *f = mt_function_find(func);
    struct mt_stream *s = mt_stream_get(c->stream);
    if (!f)
        return mt_fail(cudaErrorInvalidDeviceFunction);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (!f->module->image) {
        mt_module_complain(f->module, f->name);
        return mt_fail(cudaErrorNoKernelImageForDevice);
    }
    if (!f->kernel) {
        mt_report("kernel %s is not in the CPU image of %s; compile all of the program anew", f->name,
                  (const char *)f->module->image->head->source);
        return mt_fail(cudaErrorInvalidDeviceFunction);
    }
    if (!args && f->kernel->nparams)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = check(f, c);
    if (e)
        return mt_fail(e);
    if (mt_device_start())
        return mt_fail(cudaErrorInitializationError);
    return with_context(f, c, s, args, site);
}
