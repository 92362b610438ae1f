/* Launches of kernels, and kernels as objects. */
#define _GNU_SOURCE
#include "launch.h"
#include "base/fork.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "device/gpu.h"
#include "trace/events.h"
#include "api/tables/map.h"
#include "base/source_name.h"
#include "trace/selection.h"
#include "trace/trace.h"
#include "device/errors.h"
#include "api/streams/stream.h"
#include "format/packet.h"
#include "api/memory/memory.h"
#include "trace/devices.h"
#include "base/options.h"
#include "base/report.h"
#include "trace/site.h"
#include "memtrace/grow.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Names of kernels in traces: tables of results are keyed by name ---- */

struct shown {
    struct shown *next;
    const struct mt_function *f;
    const char *name, *signature, *text;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static struct shown *all; /* one entry per launched kernel */

static const char *shown_file(const struct mt_function *f)
{
    return f->kernel ? (const char *)f->kernel->file : "";
}

static int shown_is_same(const struct mt_function *a, const struct mt_function *b)
{
    if (!a->device || !b->device) /* from the driver API: the same code is compiled and loaded repeatedly */
        return 1;
    if (*shown_file(a) && *shown_file(b))
        return a->kernel->line == b->kernel->line && !strcmp(shown_file(a), shown_file(b));
    return !strcmp(a->name, b->name);
}

/* Adds a name and returns its text, or NULL if out of memory. */
static const char *shown_add(const struct mt_function *f, const char *name, const char *signature)
{
    struct shown **at = &all, *made;
    unsigned others = 0;
    char *text = NULL;
    for (; *at; at = &(*at)->next)
        if (!strcmp((*at)->name, name) && !strcmp((*at)->signature, signature)) {
            if (shown_is_same((*at)->f, f))
                return (*at)->text;
            others++;
        }
    if (others && asprintf(&text, "%s#%u", name, others + 1) < 0)
        return NULL;
    if ((made = malloc(sizeof *made)) == NULL) {
        free(text);
        return NULL;
    }
    *made = (struct shown){NULL, f, name, signature, text ? text : name};
    *at = made;
    return made->text;
}

/* Returns `name`, or, for the second launched kernel with this name and signature, "NAME#2", and so on:
 * static kernels of two files. Kernels defined at one place are one kernel, in however many files; without a
 * known place, so are kernels with one mangled name. Never freed. */
static const char *function_shown(struct mt_function *f, const char *name, const char *signature)
{
    if (!f->shown) {
        pthread_mutex_lock(&lock);
        const char *text = shown_add(f, name, signature);
        pthread_mutex_unlock(&lock);
        f->shown = text ? text : name;
    }
    return f->shown;
}

/* Stack of a GPU's threads (cudaLimitStackSize). Functions that are called by pointer, or recursive, have
 * larger frames with record calls: 56 bytes instead of 32 for a recursive function with two loads (sm_90,
 * ptxas 13.0), and 56 once for the record function. So a traced program gets twice its limit and a bit more,
 * but queries return its own value. */

#define STACK_ONCE 256 /* bytes for the record function and its callers */

/* By device: the program's own limit; 0: the GPU's default, not read yet. */
static _Atomic size_t stack_wanted[MT_GPU_ORDINALS];

static int stack_device(void)
{
    int d;
    return mt_device_is_gpu() && mt_tracing() && !MT_NEXT(cudaGetDevice)(&d) && d >= 0 && d < MT_GPU_ORDINALS
               ? d
               : -1;
}

/* Falls back to the program's own value if that is too much. */
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

/* Kernels without a table: compiled without the plugin, with cpu-image=off, or with an image of another
 * version. */

/* ---- kernels that were not registered ---- */

static struct mt_module untabled_module = {
    .why = "it was not registered with this runtime (the driver API, or another CUDA runtime, has loaded it)",
    .state = MT_MODULE_LOADED,
    .made.state = MT_MADE_SETTLED,
};
static struct mt_map untabled_known = MT_MAP_INIT; /* by handle */
MT_FORK_TABLE(untabled_known);

struct mt_function *mt_untabled_know(const void *handle, const char *name)
{
    struct mt_function *f = mt_map_get(&untabled_known, handle);
    if (f || !(f = calloc(1, sizeof *f)))
        return f;
    *f = (struct mt_function){.host = handle, .module = &untabled_module};
    f->name = strdup(name ? name : "a kernel of another loader");
    if (f->name && !mt_map_set(&untabled_known, handle, f))
        return f;
    free(f->name);
    free(f);
    return NULL;
}

/* ---- lines ---- */

/* Returns the name with parameters, as in tables, or the mangled name if the program has no C++ library. */
static char *untabled_signature(const char *mangled)
{
    mt_demangle_prepare();
    char *name = mt_demangle(mangled);
    return name ? name : strdup(mangled);
}

/* Returns the name without parameters, and without the result type of templates. */
static char *untabled_name(const char *signature)
{
    char *name = strdup(signature);
    if (name)
        mt_source_function(name);
    return name;
}

static const char *untabled_keep(char *_Atomic *place, char *made)
{
    char *there = NULL;
    if (made && atomic_compare_exchange_strong(place, &there, made))
        return made;
    free(made); /* another thread was faster, or out of memory */
    return there;
}

static void untabled_names(struct mt_function *f)
{
    if (!f->signature)
        untabled_keep(&f->signature, untabled_signature(f->name));
    if (f->signature && !f->pretty)
        untabled_keep(&f->pretty, untabled_name(f->signature));
}

static struct mt_launch_line untabled_line(struct mt_function *f, const struct mt_launch_config *c,
                                           const struct mt_host_site *site)
{
    untabled_names(f);
    const char *name = f->pretty ? f->pretty : f->name, *signature = f->signature ? f->signature : f->name;
    return (struct mt_launch_line){.kernel = function_shown(f, name, signature),
                                   .source = name,
                                   .mangled = f->name,
                                   .signature = signature,
                                   .grid = {c->grid.x, c->grid.y, c->grid.z},
                                   .block = {c->block.x, c->block.y, c->block.z},
                                   .shared = c->shared,
                                   .cooperative = c->cooperative,
                                   .site = site};
}

void mt_untabled_describe(struct mt_gpu_launch *l, struct mt_function *f, const struct mt_launch_config *c,
                          const struct mt_host_site *site)
{
    mt_module_untraced(f->module, f->name);
    *l = (struct mt_gpu_launch){.symbol = f->host,
                                .stream = mt_stream_named(c->stream),
                                .cooperative = c->cooperative,
                                .line = untabled_line(f, c, site)};
}

/* Refuses a launch on the CPU device with `status`: logs it, and marks the stream's trace incomplete if the
 * launch was to be traced. */
static void untabled_refused(struct mt_stream *s, struct mt_function *f, const struct mt_launch_config *c,
                             const struct mt_host_site *site, int status)
{
    char why[256];
    struct mt_launch_line line = untabled_line(f, c, site);
    line.called = mt_event_next();
    if (!mt_tracing() || !mt_selection_takes(&line))
        return;
    struct mt_trace *t = mt_stream_trace(s);
    snprintf(why, sizeof why, "kernel %s has no code for the CPU device and did not run",
             mt_short(line.kernel).text);
    mt_trace_miss(t, why);
    mt_trace_begin(NULL, &line);
    line.stream = mt_trace_number(t);
    line.status = status;
    mt_trace_end(NULL, &line);
}

/* Returns the most dynamic shared memory of a launch of `f`, in bytes. */
static size_t launch_dynamic_max(const struct mt_function *f)
{
    uint32_t fixed = f->kernel ? f->kernel->shared_static : 0;
    if (f->dynamic_shared_max >= 0)
        return (size_t)f->dynamic_shared_max;
    return fixed < MT_DEV_SHARED_BLOCK ? MT_DEV_SHARED_BLOCK - fixed : 0;
}

/* Returns the most threads per block of a launch of `f`. */
static unsigned launch_threads_max(const struct mt_function *f)
{
    uint32_t bound = f->kernel ? f->kernel->max_threads : 0;
    return bound && bound < MT_DEV_THREADS_PER_BLOCK ? bound : MT_DEV_THREADS_PER_BLOCK;
}

/* Returns the resident CTAs of `f` per SM for blocks of `threads` with `shared` dynamic bytes; 0: cannot run.
 */
static unsigned launch_resident(const struct mt_function *f, unsigned threads, size_t shared)
{
    size_t used = (f->kernel ? f->kernel->shared_static : 0) + shared + MT_DEV_SHARED_RESERVED;
    if (!threads || threads > launch_threads_max(f) || shared > launch_dynamic_max(f))
        return 0;
    unsigned warps = (threads + 31) / 32, n = MT_DEV_BLOCKS_PER_SM;
    unsigned by_threads = MT_DEV_THREADS_PER_SM / (warps * 32);
    unsigned by_registers = MT_DEV_REGISTERS / (warps * 32 * MT_DEV_KERNEL_REGISTERS);
    unsigned by_shared = (unsigned)(MT_DEV_SHARED_SM / used);
    n = by_threads < n ? by_threads : n;
    n = by_registers < n ? by_registers : n;
    return by_shared < n ? by_shared : n;
}

/* Determines the clusters of a launch of `f` that asks for `asked` (x 0: nothing); all 0: none. Returns
 * cudaErrorInvalidClusterSize if impossible. */
static cudaError_t launch_cluster(const struct mt_function *f, dim3 asked, uint32_t out[3])
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
    cudaError_t e = launch_cluster(f, c->cluster, size);
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
    if (threads > launch_threads_max(f))
        return cudaErrorLaunchOutOfResources;
    if (c->shared > launch_dynamic_max(f))
        return cudaErrorInvalidValue;
    uint64_t ctas = (uint64_t)g->x * g->y * g->z;
    if (c->cooperative &&
        ctas > (uint64_t)launch_resident(f, (unsigned)threads, c->shared) * (unsigned)mt_options()->cpu_sms)
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
            c->block.y, c->block.z, launch_threads_max(f), (unsigned long long)c->shared,
            (unsigned long long)launch_dynamic_max(f));
    return e;
}

void mt_launch_describe(struct mt_launch_line *l, struct mt_function *f, const struct mt_launch_config *c,
                        const struct mt_host_site *site)
{
    const struct mt_image_kernel *k = f->kernel;
    *l = (struct mt_launch_line){
        .kernel = function_shown(f, k->pretty, k->signature),
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

/* A launch operation. It is followed by the pointers for the CPU device, then the argument values. */
struct launch_op {
    struct mt_op op;
    struct mt_function *f;
    struct mt_launch_config config;
    struct mt_trace *trace;
    struct mt_cpu_launch run;
    struct mt_launch_line line;
    void *context; /* the launch context, on this device only an address */
    void *args[];  /* nparams + 1 */
};

/* Returns the offset of a parameter's value and advances `at`; starts with 0 at the end of the pointers. */
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

/* Sets args[i] to the address of value i inside the operation. */
static void launch_point(struct launch_op *l, void **args)
{
    const struct mt_image_kernel *k = l->f->kernel;
    char *values = (char *)&l->args[k->nparams + 1];
    size_t at = 0;
    for (uint32_t i = 0; i < k->nparams; i++)
        args[i] = values + launch_place(&launch_parameters(k)[i], &at);
}

/* Handles a failed launch: the program gets its error at synchronisation, as on a GPU. */
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

/* Warns in a forked child, which seems to be traced but is not. */
static void say_forked(void)
{
    static _Atomic int said;
    if (mt_options()->enable && !said++)
        mt_note("process %d was forked by a traced program; its launches are not traced", (int)getpid());
}

/* Logs that a launch ended with this status, as an event of its own, since the call returned earlier. */
static void failed_launch(const struct mt_cpu_launch *l, const struct mt_launch_line *line, int status)
{
    if (!mt_failed_watched() || !status)
        return;
    struct mt_failed_line e = {.call = "cudaLaunchKernel",
                               .code = status,
                               .error = impl_cudaGetErrorName((cudaError_t)status),
                               .site = line->site,
                               .why = l->message,
                               .kernel = line->kernel,
                               .launch = line->seq,
                               .freed = UINT64_MAX,
                               .count = 1};
    mt_event_failed(&e);
}

static void launch_ended(struct launch_op *l, int status)
{
    l->line.status = status;
    l->line.records = l->run.records;
    l->line.untraced = l->run.untraced;
    l->line.undefined = l->run.undefined;
    l->line.parted = l->run.parted;
    l->line.ungrouped = l->run.ungrouped;
    memcpy(l->line.counts, l->run.counts, sizeof l->line.counts);
    memcpy(l->line.recorded, l->run.recorded, sizeof l->line.recorded);
    mt_trace_end(l->trace, &l->line);
    if (!l->run.told)
        failed_launch(&l->run, &l->line, status);
    if (l->f->kernel->flags & MT_KERNEL_PRINTF)
        mt_printed = 1;
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
    l->run.after = op->clock ? op->clock->n : NULL;
    l->run.done = launch_done;
    l->run.done_ctx = l;
    if (l->trace) {
        l->run.flush = mt_trace_compact() ? NULL : mt_trace_append;
        l->run.flush_runs = mt_trace_compact() ? mt_trace_append_runs : NULL;
        l->run.fence = mt_trace_fence;
        l->run.flush_ctx = l->trace;
    }
    if (mt_options()->check)
        mt_trace_needed();
    mt_trace_begin(l->trace, &l->line);
    int status = mt_cpu_start(&l->run);
    if (!status)
        return MT_OP_PENDING;
    launch_ended(l, status);
    return MT_OP_DONE;
}

/* Returns the kernel of another GPU's image that corresponds to this one. */
static const struct mt_image_kernel *image_kernel_on(const struct mt_image *from, const struct mt_image *to,
                                                     const struct mt_image_kernel *kernel)
{
    for (; from && to; from = from->peer, to = to->peer) {
        const struct mt_image_kernel *k = from->head->kernels;
        if (kernel >= k && kernel < k + from->head->nkernels)
            return (const struct mt_image_kernel *)to->head->kernels + (kernel - k);
    }
    return NULL;
}

static void launch_bind(struct mt_op *op, struct mt_stream *s)
{
    struct launch_op *l = (struct launch_op *)op;
    l->run.priority = s->priority;
    int traced = l->f->kernel->flags & MT_KERNEL_TRACED;
    l->trace = NULL;
    l->line.called = mt_event_next();
    if (!traced)
        mt_trace_bare = 1;
    if (traced && mt_tracing() && mt_selection_takes(&l->line))
        l->trace = mt_stream_trace(s);
    l->run.ctas = l->trace ? mt_selection_ctas() : NULL;
    if (traced && !l->trace && !l->line.left_out)
        say_forked();
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
    l->op.bind = launch_bind;
    l->f = f;
    l->config = *c;
    l->trace = NULL;
    l->run = (struct mt_cpu_launch){
        .image = on,
        .kernel = image_kernel_on(f->image, on, k),
        .grid = {c->grid.x, c->grid.y, c->grid.z},
        .block = {c->block.x, c->block.y, c->block.z},
        .dyn_shared = (uint32_t)c->shared,
        .printf_bytes = mt_limit_get(mt_device_current(), cudaLimitPrintfFifoSize),
        .device = mt_device_current(),
        .cooperative = (uint32_t)c->cooperative,
    };
    launch_cluster(f, c->cluster, l->run.cluster);
    mt_launch_describe(&l->line, f, c, site);
    l->line.device = l->run.device;
    memcpy(l->line.cluster, l->run.cluster, sizeof l->line.cluster);
    launch_point(l, l->args);
    for (uint32_t i = 0; i < k->nparams; i++)
        memcpy(l->args[i], args[i], launch_parameters(k)[i].size);
    return l;
}

const struct mt_function *mt_launch_parts(struct mt_op *op, struct mt_launch_config *c, void ***args)
{
    struct launch_op *l = (struct launch_op *)op;
    void **more = realloc(*args, (l->f->kernel->nparams + 1) * sizeof *more);
    if (!more)
        return NULL;
    *args = more;
    *c = l->config;
    launch_point(l, more);
    more[l->f->kernel->nparams] = &l->context;
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

/* Puts a launch into its stream on the CPU device. */
static cudaError_t launch_cpu(const void *func, const struct mt_launch_config *c, void **args)
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
        untabled_refused(s, mt_function_find(func), c, site, e);
    if (e)
        return e;
    if (!mt_capturing(s)) /* a launch in a graph gets the trace of the stream that the graph is launched in */
        launch_bind(op, s);
    return mt_op_submit(s, op);
}

/* ---- Kernels as objects, on the CPU device: attributes, names, handles ---- */

/* Finds the kernel of `func`, with its code. Sets cudaErrorInvalidDeviceFunction or
 * cudaErrorNoKernelImageForDevice as the thread's last error. */
static cudaError_t function_get(const void *func, struct mt_function **f)
{
    *f = NULL;
    cudaError_t e = mt_failed();
    if (e)
        return e;
    *f = mt_function_find(func);
    if (!*f)
        return mt_fail(cudaErrorInvalidDeviceFunction);
    if ((*f)->kernel)
        return cudaSuccess;
    mt_function_complain(*f);
    return mt_fail(cudaErrorNoKernelImageForDevice);
}

cudaError_t impl_cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = a ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    memset(a, 0, sizeof *a);
    a->sharedSizeBytes = f->kernel->shared_static;
    a->maxThreadsPerBlock = (int)launch_threads_max(f);
    a->numRegs = MT_DEV_KERNEL_REGISTERS;
    /* Host code (CUB) chooses launch shapes by the architecture that device code was compiled for. */
    a->binaryVersion = MT_DEV_MAJOR * 10 + MT_DEV_MINOR;
    a->ptxVersion = (int)f->image->head->arch;
    if (!a->ptxVersion)
        a->ptxVersion = a->binaryVersion;
    a->maxDynamicSharedSizeBytes = (int)launch_dynamic_max(f);
    a->preferredShmemCarveout = f->carveout;
#if CUDART_VERSION >= 12000
    const struct mt_image_kernel *k = f->kernel;
    a->clusterDimMustBeSet = k->cluster_x || f->cluster_must;
    a->requiredClusterWidth = k->cluster_x ? (int)k->cluster_x : f->cluster[0];
    a->requiredClusterHeight = k->cluster_x ? (int)k->cluster_y : f->cluster[1];
    a->requiredClusterDepth = k->cluster_x ? (int)k->cluster_z : f->cluster[2];
    a->clusterSchedulingPolicyPreference = f->cluster_policy;
    a->nonPortableClusterSizeAllowed = f->cluster_nonportable;
#endif
    return cudaSuccess;
}

#if CUDART_VERSION >= 12000
static cudaError_t set_cluster(struct mt_function *f, enum cudaFuncAttribute a, int value)
{
    int most = a == cudaFuncAttributeClusterSchedulingPolicyPreference ? 2 : 1;
    switch ((int)a) {
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth:
        if (f->kernel->cluster_x)
            return cudaErrorNotPermitted;
        if (value < 0)
            return cudaErrorInvalidValue;
        f->cluster[a - cudaFuncAttributeRequiredClusterWidth] = value;
        return cudaSuccess;
    case cudaFuncAttributeClusterDimMustBeSet:
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
        if (value < 0 || value > most)
            return cudaErrorInvalidValue;
        *(a == cudaFuncAttributeClusterDimMustBeSet             ? &f->cluster_must
          : a == cudaFuncAttributeNonPortableClusterSizeAllowed ? &f->cluster_nonportable
                                                                : &f->cluster_policy) = value;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}
#endif

cudaError_t impl_cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute a, int value)
{
    struct mt_function *f = NULL;
    cudaError_t e = function_get(func, &f);
    if (e)
        return e;
    if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || (unsigned)value + f->kernel->shared_static > MT_DEV_SHARED_OPTIN)
            return mt_fail(cudaErrorInvalidValue);
        f->dynamic_shared_max = value;
        return cudaSuccess;
    }
    if (a == cudaFuncAttributePreferredSharedMemoryCarveout) {
        if (value < -1 || value > 100)
            return mt_fail(cudaErrorInvalidValue);
        f->carveout = value;
        return cudaSuccess;
    }
#if CUDART_VERSION >= 12000
    e = set_cluster(f, a, value);
    return e ? mt_fail(e) : e;
#else
    return mt_fail(cudaErrorInvalidValue);
#endif
}

cudaError_t impl_cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    struct mt_function *f = NULL;
    cudaError_t e = function_get(func, &f);
    return !e && (unsigned)config > cudaFuncCachePreferEqual ? mt_fail(cudaErrorInvalidValue) : e;
}

#if CUDART_VERSION < 14000
cudaError_t impl_cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    struct mt_function *f = NULL;
    return function_get(func, &f);
}
#endif

#if CUDART_VERSION >= 12030
cudaError_t impl_cudaFuncGetName(const char **name, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = name ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *name = f->name;
    return e;
}
#endif

#if CUDART_VERSION >= 12040
cudaError_t impl_cudaFuncGetParamInfo(const void *func, size_t index, size_t *offset, size_t *size)
{
    struct mt_function *f = NULL;
    cudaError_t e = offset ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    const struct mt_image_param *p = f->kernel->params;
    if (index >= f->kernel->nparams)
        return mt_fail(cudaErrorInvalidValue);
    *offset = 0;
    for (size_t i = 0; i <= index; i++) {
        size_t align = p[i].align ? p[i].align : 1;
        *offset = (*offset + align - 1) / align * align + (i < index ? p[i].size : 0);
    }
    if (size)
        *size = p[index].size;
    return cudaSuccess;
}
#endif

#if CUDART_VERSION >= 12010
cudaError_t impl_cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = kernel ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *kernel = mt_function_handle(f);
    return e;
}
#endif

cudaError_t impl_cudaGetFuncBySymbol(cudaFunction_t *out, const void *func)
{
    struct mt_function *f = NULL;
    cudaError_t e = out ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *out = (cudaFunction_t)mt_function_handle(f);
    return e;
}

/* Occupancy on the CPU device's SMs: by the limits of an sm_90, with the registers given by
 * cudaFuncGetAttributes. */

cudaError_t impl_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func,
                                                                        int threads, size_t shared,
                                                                        unsigned flags)
{
    struct mt_function *f = NULL;
    if (flags & ~(unsigned)cudaOccupancyDisableCachingOverride)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = blocks && threads > 0 ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (!e)
        *blocks = (int)launch_resident(f, (unsigned)threads, shared);
    return e;
}

cudaError_t impl_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func, int threads,
                                                               size_t shared)
{
    return impl_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, threads, shared, 0);
}

cudaError_t impl_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *func, int blocks,
                                                           int threads)
{
    struct mt_function *f = NULL;
    cudaError_t e =
        bytes && blocks > 0 && threads > 0 ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    size_t each = MT_DEV_SHARED_SM / (size_t)blocks,
           fixed = f->kernel->shared_static + MT_DEV_SHARED_RESERVED;
    size_t left = each > fixed ? each - fixed : 0, most = launch_dynamic_max(f);
    *bytes = left < most ? left : most;
    return cudaSuccess;
}

#if CUDART_VERSION >= 11080
/* Returns the clusters of a launch, with *threads set to the threads of a block. */
static cudaError_t cluster_of(const struct mt_function *f, const cudaLaunchConfig_t *config, uint32_t size[3],
                              unsigned *threads)
{
    dim3 asked = {0, 0, 0};
    uint64_t n = (uint64_t)config->blockDim.x * config->blockDim.y * config->blockDim.z;
    *threads = n > MT_DEV_THREADS_PER_BLOCK ? 0 : (unsigned)n;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            asked = (dim3){config->attrs[i].val.clusterDim.x, config->attrs[i].val.clusterDim.y,
                           config->attrs[i].val.clusterDim.z};
            if (!asked.x)
                return cudaErrorInvalidClusterSize;
        }
    return *threads ? launch_cluster(f, asked, size) : cudaErrorInvalidConfiguration;
}

cudaError_t impl_cudaOccupancyMaxPotentialClusterSize(int *size, const void *func,
                                                      const cudaLaunchConfig_t *config)
{
    struct mt_function *f = NULL;
    cudaError_t e = size && config ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    uint32_t must[3];
    if (e)
        return e;
    e = launch_cluster(f, (dim3){0, 0, 0}, must);
    *size = must[0]                  ? (int)(must[0] * must[1] * must[2])
            : f->cluster_nonportable ? MT_DEV_CLUSTER_NONPORTABLE
                                     : MT_DEV_CLUSTER;
    return cudaSuccess;
}

cudaError_t impl_cudaOccupancyMaxActiveClusters(int *clusters, const void *func,
                                                const cudaLaunchConfig_t *config)
{
    struct mt_function *f = NULL;
    uint32_t size[3] = {0};
    unsigned threads = 0;
    cudaError_t e = clusters && config ? function_get(func, &f) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    if ((e = cluster_of(f, config, size, &threads)))
        return mt_fail(e);
    unsigned ctas = size[0] ? size[0] * size[1] * size[2] : 1,
             resident =
                 launch_resident(f, threads, config->dynamicSmemBytes) * (unsigned)mt_options()->cpu_sms;
    /* A cluster always runs as a whole, however few SMs are shown. */
    *clusters = (int)(resident && resident < ctas ? 1 : resident / ctas);
    return cudaSuccess;
}
#endif

/* Launch entry points for both devices: each has its own form of configuration, then the same path. */

/* ---- <<<>>>: the configuration is on a stack of the thread until the host stub takes it ---- */

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
    if (!npushed) { /* no memory is left behind when a thread ends */
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
    int counted; /* runs uninstrumented, as logged */
    struct mt_function *function;
    int captured;    /* into a graph: traced when that is launched */
    int clean;       /* the program had no pending last error */
    cudaError_t why; /* reason of the refusal with record calls */
    void *context, **args, *few[64];
};

static int launch_api_captured(cudaStream_t stream)
{
    return mt_gpu() && mt_tracing() && mt_gpu()->capturing(mt_stream_named(stream));
}

/* Decides whether the launch belongs in the trace of its stream. If it then runs without records, the trace
 * is incomplete. */
static void launch_api_select(struct gpu_call *g, struct mt_stream *s)
{
    if (s && !mt_libcall_inside && mt_tracing() && mt_selection_takes(&g->launch.line))
        g->launch.trace = mt_stream_trace(s);
}

/* Counts a kernel without a table, which runs uninstrumented. */
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
    g->launch.line.counted = g->launch.line.no_records; /* a GPU records or counts, not both */
    launch_cluster(g->function, c->cluster, g->launch.line.cluster);
    g->launch.line.called = mt_event_next();
}

/* Handles a lack of room for one more argument: runs the version without record calls, if there is one. */
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

/* Returns the real runtime's name of a foreign kernel, or NULL if unknown. */
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

/* Returns the argument array for the real runtime: instrumented kernels get their launch context after the
 * program's own arguments, others are unchanged. Returns NULL for one of ours if out of memory. */
static void **gpu_begin(struct gpu_call *g, const void *func, const struct mt_launch_config *c, void **args)
{
    const struct mt_gpu_ops *ops = mt_gpu();
    struct mt_function *f = mt_function_find(func);
    struct mt_stream *s = mt_stream_get(c->stream);
    const struct mt_image_kernel *k = f ? f->kernel : NULL;
    const struct mt_host_site *site = mt_host_site_take();
    g->ours = k && (args || !k->nparams); /* else the runtime reports the error */
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

/* Returns the function to launch for `func`: with a context, the version with record calls. For captured
 * launches this is decided when the graph is instantiated. */
static const void *launch_api_version(const struct gpu_call *g, const void *func)
{
    return g->ours && g->context && mt_function_plain(g->function) ? mt_function_traced(g->function) : func;
}

/* Returns 1 if the launch must be repeated without record calls, because it needs more registers with them
 * than there are. */
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

/* Launches on a GPU, where records go through contexts. `run` launches a version of `func`, itself or the
 * result of mt_function_traced, with the context as last argument; a refusal by the GPU causes a second call.
 */
static cudaError_t launch_traced(const void *func, const struct mt_launch_config *c, void **args,
                                 mt_launch_run *run, void *call)
{
    struct gpu_call g;
    cudaError_t e;
    if (mt_function_is_folded(func)) /* NVIDIA's runtime would choose one of them */
        return mt_fail(cudaErrorInvalidDeviceFunction);
    void **all = gpu_begin(&g, func, c, args);
    if (g.ours && !all)
        return gpu_end(&g, mt_fail(cudaErrorMemoryAllocation));
    do
        e = mt_device_is_gpu() ? run(call, launch_api_version(&g, func), all) : launch_cpu(func, c, all);
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

/* Returns mt_function_traced as a handle for launches, or NULL if there is only one version. */
static cudaKernel_t function_traced_handle(struct mt_function *f)
{
    cudaKernel_t k = NULL;
    if (!f->has_traced)
        return NULL;
    if (!f->traced_handle && !MT_NEXT(__cudaGetKernel)(&k, mt_function_traced(f)))
        f->traced_handle = k;
    return f->traced_handle;
}

/* Launches by handle; the version with record calls is known by an address. */
static cudaError_t launch_api_run_handle(void *call, const void *version, void **args)
{
    const struct mt_launch_config *c = call;
    struct mt_function *f = mt_function_find(version);
    cudaKernel_t traced = f && version == mt_function_traced(f) ? function_traced_handle(f) : NULL;
    return MT_NEXT(__cudaLaunchKernel)(traced ? traced : (cudaKernel_t)(uintptr_t)version, c->grid, c->block,
                                       args, c->shared, c->stream);
}

cudaError_t rec_cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                 cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 0, {0}};
    return mt_device_is_gpu() ? launch_traced(func, &c, args, launch_api_run, &c)
                              : launch_cpu(func, &c, args);
}

cudaError_t rec_cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
                                            size_t shared, cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 1, {0}};
    return mt_device_is_gpu() ? launch_traced(func, &c, args, launch_api_run_together, &c)
                              : launch_cpu(func, &c, args);
}

cudaError_t rec___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                   cudaStream_t stream)
{
    struct mt_launch_config c = {grid, block, shared, stream, 0, {0}};
    return mt_device_is_gpu() ? launch_traced(kernel, &c, args, launch_api_run_handle, &c)
                              : launch_cpu(kernel, &c, args);
}

/* Reads one relevant launch attribute. */
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
               : launch_cpu(func, &c, args);
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
