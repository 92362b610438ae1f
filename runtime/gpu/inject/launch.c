/* Launches: what is traced, the launch context that each gets, and those that come to nothing. */
#include "base/demangle.h"
#include "base/fork.h"
#include "base/report.h"
#include "base/short.h"
#include "code.h"
#include "inject.h"
#include "trace/events.h"
#include "trace/selection.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- names: launch lines refer to them for as long as the process lives ---- */

struct launch_name {
    struct launch_name *next;
    char *kernel;
    const char *signature; /* with parameters, which tell overloaded functions apart */
    char mangled[];
};
#define NAMES 256u
static struct launch_name *names[NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);

static struct launch_name **launch_bucket(const char *mangled)
{
    uint32_t h = 2166136261u;
    for (; *mangled; mangled++)
        h = (h ^ (unsigned char)*mangled) * 16777619u;
    return &names[h % NAMES];
}

/* Without a lock: demangling asks the program's C++ library. */
static struct launch_name *launch_name_new(const char *mangled)
{
    struct launch_name *n = malloc(sizeof *n + strlen(mangled) + 1);
    if (!n)
        return NULL;
    strcpy(n->mangled, mangled);
    n->kernel = mt_demangle_name(mangled);
    n->signature = mt_demangle(mangled);
    if (n->signature && !strncmp(n->signature, "void ", 5)) /* templates have their result */
        n->signature += 5;
    return n;
}

static struct launch_name *launch_name_find(const char *mangled)
{
    struct launch_name *n = *launch_bucket(mangled);
    while (n && strcmp(n->mangled, mangled))
        n = n->next;
    return n;
}

static const struct launch_name *launch_name(const char *mangled)
{
    pthread_mutex_lock(&lock);
    struct launch_name *n = launch_name_find(mangled);
    pthread_mutex_unlock(&lock);
    if (n || !(n = launch_name_new(mangled)))
        return n;
    pthread_mutex_lock(&lock);
    n->next = *launch_bucket(mangled); /* twice in the list, if two threads were here: no harm */
    *launch_bucket(mangled) = n;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- one launch ---- */

struct launching {
    const Sanitizer_LaunchData *data;
    struct mt_inject_module *module; /* NULL: not known */
    struct mt_launch_line line;
    struct mt_trace *trace; /* NULL: it is not to be traced */
};

static void launch_describe(struct launching *g)
{
    const Sanitizer_LaunchData *l = g->data;
    const char *mangled = l->functionName ? l->functionName : "?";
    const struct launch_name *n = launch_name(mangled);
    const struct mt_inject_call *call = mt_inject_call();
    int clusters = l->clusterDim_x > 1 || l->clusterDim_y > 1 || l->clusterDim_z > 1;
    g->line = (struct mt_launch_line){
        .kernel = n && n->kernel ? n->kernel : "?",
        .mangled = n ? n->mangled : NULL,
        .signature = n ? n->signature : NULL,
        .grid = {l->gridDim_x, l->gridDim_y, l->gridDim_z},
        .block = {l->blockDim_x, l->blockDim_y, l->blockDim_z},
        .shared = call->depth ? call->shared : 0,
        .cooperative = call->depth ? call->cooperative : 0,
        .called = mt_event_next(),
        .device = l->device,
    };
    if (clusters)
        memcpy(g->line.cluster, (uint32_t[]){l->clusterDim_x, l->clusterDim_y, l->clusterDim_z},
               sizeof g->line.cluster);
}

/* Threads whose ends are awaited, of CTAs that are not traced as well; 0: it cannot be told. */
static uint64_t launch_exits(const struct launching *g)
{
    const uint32_t *grid = g->line.grid, *block = g->line.block;
    uint64_t threads = (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
    return g->module->launches || !mt_inject_exits_count() ? 0 : threads;
}

static uint32_t launch_site(const struct mt_flight *f, const struct mt_packet *p)
{
    uint64_t pc = mt_packet_pc_of(p->site, f->code);
    return pc ? mt_code_site(pc, p->meta) : 0;
}

/* Where its module's code is; 0: not known. */
static uint64_t launch_pc(const struct launching *g)
{
    uint64_t pc = 0, size = 0;
    const Sanitizer_LaunchData *l = g->data;
    if (!g->module->pc && l->functionName &&
        !mt_sanitizer()->GetFunctionPcAndSize(l->module, l->functionName, &pc, &size))
        g->module->pc = pc;
    return g->module->pc;
}

static struct mt_flight *launch_flight(const struct launching *g)
{
    struct mt_flight *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->launch.line = g->line;
    f->launch.trace = g->trace;
    f->launch.state = mt_inject_call(); /* whose call it is */
    f->module = g->data->module;
    f->launch.line.seq = mt_event_seq();
    f->launch.line.begin_ns = mt_now_ns();
    f->site = launch_site;
    f->exits = launch_exits(g);
    return f;
}

/* ---- launches that are to be traced and are not ---- */

static const char *launch_why_not(const struct launching *g)
{
    const struct mt_inject_module *m = g->module;
    if (mt_rings_closed())
        return "it was launched when the CUDA driver was about to shut down";
    if (!m)
        return "its module was loaded before memtrace was there";
    if (m->why)
        return m->why;
    if (!m->patched)
        return "its name is not among those of its module";
    return m->context->rings && m->context->rings->damaged ? "a ring for records of its GPU was written over"
                                                           : NULL;
}

static void launch_say(const struct launching *g, const char *why)
{
    static atomic_int said;
    if (!atomic_exchange(&said, 1))
        mt_report("kernel %s is not traced: %s (said once)", mt_short(g->line.kernel).text, why);
}

static void launch_untraced(struct launching *g, const char *why)
{
    if (g->trace && why) {
        launch_say(g, why);
        mt_trace_miss(g->trace, why);
    }
    mt_trace_begin(NULL, &g->line);
    mt_trace_end(NULL, &g->line);
}

/* ---- the launch itself ---- */

/* What the patches of this launch get as their data. */
static SanitizerResult launch_tell(const struct launching *g, const void *data)
{
    const Sanitizer_LaunchData *l = g->data;
    return mt_sanitizer()->SetLaunchCallbackData(l->hLaunch, l->function, l->hStream, data);
}

static void launch_remember(uint64_t number)
{
    struct mt_inject_call *call = mt_inject_call();
    if (!call->after)
        call->first = number;
    call->after = number + 1;
}

/* The flight is its queue's from the addition on. */
static int launch_go(struct launching *g, struct mt_flight *f, const void *data)
{
    struct mt_flight_queue *q = NULL;
    if (mt_flight_begin(f, &q))
        return -1;
    launch_remember(f->number);
    SanitizerResult r = launch_tell(g, data);
    if (r) {
        launch_say(g, mt_sanitizer_text(r));
        mt_flight_cancel(f, 0);
    } else
        mt_flight_issued(f);
    mt_queue_leave(q);
    return 0;
}

static const char *launch_trace(struct launching *g)
{
    const char *why = launch_why_not(g);
    struct mt_flight *f = why ? NULL : launch_flight(g);
    const void *data = f ? mt_inject_lend(g->module->context, f, launch_pc(g), g->data->hStream) : NULL;
    if (data && !launch_go(g, f, data))
        return NULL;
    if (f)
        mt_rings_return(f);
    free(f);
    return why ? why : data ? "there is no memory or no thread for it" : "too many launches are waiting";
}

void mt_inject_launched(const Sanitizer_LaunchData *l, CUcontext context, Sanitizer_StreamHandle stream)
{
    struct launching g = {.data = l, .module = mt_inject_module(l->module)};
    const char *why = NULL;
    if (!l->module) /* of the driver itself */
        return;
    launch_describe(&g);
    mt_inject_device_is(l->device);
    if (mt_tracing() && mt_selection_takes(&g.line))
        g.trace = mt_inject_stream_trace(context, stream);
    if (g.trace && g.module && g.module->launches)
        mt_trace_miss(g.trace, "its kernels launch kernels, whose records cannot be told from their own");
    if (g.trace && !(why = launch_trace(&g)))
        return;
    if (g.module && g.module->patched)
        launch_tell(&g, NULL);
    launch_untraced(&g, why);
}

void mt_inject_launch(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_LaunchData *l = data;
    if (cbid == SANITIZER_CBID_LAUNCH_BEGIN)
        mt_inject_launched(l, l->context, l->hStream);
}

/* ---- launches that came to nothing ---- */

struct launch_failure {
    uint64_t first, after;
    const void *call;
    int status;
};

/* With the list locked. */
static void launch_cancel(struct mt_flight *f, void *data)
{
    const struct launch_failure *v = data;
    if (f->number < v->first || f->number >= v->after || f->launch.state != v->call || f->taken || f->exited)
        return;
    f->cancelled = 1;
    f->status = v->status;
}

void mt_inject_launch_failed(uint64_t first, uint64_t after, int status)
{
    struct launch_failure v = {first, after, mt_inject_call(), status};
    mt_flight_each(launch_cancel, &v);
}
