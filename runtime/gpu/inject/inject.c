/* The injection library: driver objects of the program (contexts, streams with their traces, modules), its
 * copies and launches, the table of callbacks that tell of them, and the entry point. */
#define _GNU_SOURCE

#include "inject.h"
#include "trace/devices.h"
#include "base/file.h"
#include "base/report.h"
#include "base/thread.h"
#include "base/fork.h"
#include "base/source_name.h"
#include "base/options.h"
#include "code.h"
#include "sass.h"
#include "tally.h"
#include "trace/selection.h"
#include "trace/events.h"
#include "trace/ranges.h"
#include "trace/objects.h"
#include "trace/site.h"
#include "device/errors.h"
#include "trace/trace.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <generated_cuda_meta.h>
#include <generated_cuda_runtime_api_meta.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- streams: a stream has a trace from its first traced launch on ---- */

/* Identified by context and handle: the default streams of each context have their own handles. */
struct stream {
    CUcontext context;
    Sanitizer_StreamHandle handle;
    struct mt_trace *trace;
    int ends; /* destroyed: its trace is closed when its launches have left */
    struct stream *next;
};

static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
MT_FORK_LOCK(stream_lock, MT_FORK_CAPTURES);
static pthread_mutex_t opening =
    PTHREAD_MUTEX_INITIALIZER; /* taken before stream_lock; held while waiting for a FIFO */
static struct stream *streams;

static struct stream *stream_find(CUcontext context, Sanitizer_StreamHandle handle)
{
    struct stream *s = streams;
    while (s && (s->ends || s->handle != handle || (context && s->context != context)))
        s = s->next;
    return s;
}

struct mt_trace *mt_inject_stream_known(CUcontext context, Sanitizer_StreamHandle handle)
{
    pthread_mutex_lock(&stream_lock);
    struct stream *s = stream_find(context, handle);
    struct mt_trace *t = s ? s->trace : NULL;
    pthread_mutex_unlock(&stream_lock);
    return t;
}

/* Returns the number of the stream's trace, or -1 if it has none yet. `context` may be NULL. */
static int64_t inject_stream_number(CUcontext context, Sanitizer_StreamHandle handle)
{
    return mt_trace_number(mt_inject_stream_known(context, handle));
}

static struct mt_trace *stream_open(CUcontext context, Sanitizer_StreamHandle handle)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct stream){.context = context, .handle = handle, .trace = mt_trace_open()};
    pthread_mutex_lock(&stream_lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&stream_lock);
    return s->trace;
}

/* Returns the trace of this stream, opened on first use, or NULL if there is none. */
static struct mt_trace *inject_stream_trace(CUcontext context, Sanitizer_StreamHandle handle)
{
    struct mt_trace *t = mt_inject_stream_known(context, handle);
    if (t)
        return t;
    pthread_mutex_lock(&opening);
    t = mt_inject_stream_known(context, handle);
    if (!t)
        t = stream_open(context, handle);
    pthread_mutex_unlock(&opening);
    return t;
}

/* Removes a destroyed stream without launches from the list, and returns it. */
static struct stream *stream_take_done(void)
{
    struct stream **at = &streams, *s;
    pthread_mutex_lock(&stream_lock);
    while ((s = *at)) {
        struct mt_flight_filter its = {.trace = s->trace};
        if (s->ends && (!s->trace || !mt_flight_count(&its)))
            break;
        at = &s->next;
    }
    if (s)
        *at = s->next;
    pthread_mutex_unlock(&stream_lock);
    return s;
}

void mt_inject_streams_close(void)
{
    struct stream *s;
    while ((s = stream_take_done())) {
        if (s->trace) {
            mt_queue_forget(s->trace);
            mt_trace_close(s->trace);
        }
        free(s);
    }
}

/* Handles the end of a context with all of its streams. */
static void inject_streams_end(CUcontext context)
{
    pthread_mutex_lock(&stream_lock);
    for (struct stream *s = streams; s; s = s->next)
        s->ends |= s->context == context;
    pthread_mutex_unlock(&stream_lock);
    mt_inject_streams_close();
}

/* ---- the data of callbacks, in two layouts ---- */

struct stream_words {
    CUcontext context;
    void *word[3]; /* stream and handle, or green context, stream and handle */
};
/* 1: this version of the API puts the context's green context before the stream in its data of streams and
 * events; 0: it does not; -1: not known yet. Versions from 13.1 on do; the first stream shows it as well. */
static atomic_int green = -1;

static int stream_has_green(void)
{
    return green < 0 ? mt_sanitizer_version() >= 1301 : green;
}

static int stream_fits(const struct stream_words *d, int at)
{
    Sanitizer_StreamHandle h = NULL;
    return d->word[at + 1] && !mt_sanitizer()->GetStreamHandle(d->context, d->word[at], &h) &&
           (void *)h == d->word[at + 1];
}

/* Reading the third word is safe in both layouts: in the older one it lies behind the data, in the caller's
 * memory. */
static void inject_stream_new(Sanitizer_CallbackId cbid, const void *data)
{
    (void)cbid;
    if (green < 0 && stream_fits(data, 0))
        green = 0;
    else if (green < 0 && stream_fits(data, 1))
        green = 1;
}

/* The stream's work continues without it. */
static void inject_stream_ends(Sanitizer_CallbackId cbid, const void *data)
{
    const struct stream_words *d = data;
    (void)cbid;
    if (green < 0)
        inject_stream_new(cbid, data);
    pthread_mutex_lock(&stream_lock);
    struct stream *s = stream_find(d->context, d->word[stream_has_green() ? 2 : 1]);
    if (s)
        s->ends = 1;
    pthread_mutex_unlock(&stream_lock);
    mt_inject_streams_close();
}

/* Copies the list, since work on its elements may wait. */
static size_t stream_copy(struct stream **out)
{
    size_t n = 0, room = 0;
    pthread_mutex_lock(&stream_lock);
    for (struct stream *s = streams; s; s = s->next)
        room++;
    *out = calloc(room + 1, sizeof **out);
    for (struct stream *s = streams; s && *out; s = s->next)
        if (!s->ends)
            (*out)[n++] = *s;
    pthread_mutex_unlock(&stream_lock);
    return n;
}

void mt_inject_streams(void (*f)(CUcontext context, Sanitizer_StreamHandle stream,
                                 const struct mt_trace *trace, void *data),
                       void *data)
{
    struct stream *copy;
    size_t n = stream_copy(&copy);
    for (size_t i = 0; i < n; i++)
        f(copy[i].context, copy[i].handle, copy[i].trace, data);
    free(copy);
}

/* ---- contexts ---- */

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static struct mt_inject_context *contexts;

static struct mt_inject_context *inject_context_find(CUcontext handle)
{
    struct mt_inject_context *c = contexts;
    while (c && c->handle != handle)
        c = c->next;
    return c;
}

struct mt_inject_context *mt_inject_context(CUcontext handle)
{
    pthread_mutex_lock(&context_lock);
    struct mt_inject_context *c = handle ? inject_context_find(handle) : NULL;
    if (handle && !c && (c = calloc(1, sizeof *c))) {
        c->handle = handle;
        c->number = contexts ? contexts->number + 1 : 0;
        c->next = contexts;
        contexts = c;
    }
    pthread_mutex_unlock(&context_lock);
    return c;
}

static void inject_contexts(void (*f)(struct mt_inject_context *c, void *data), void *data)
{
    pthread_mutex_lock(&context_lock);
    struct mt_inject_context *c = contexts; /* new ones are added at the front; none is freed */
    pthread_mutex_unlock(&context_lock);
    for (; c; c = c->next)
        f(c, data);
}

/* ---- the end of the process ---- */

static void context_totals(struct mt_inject_context *c, void *data)
{
    (void)data;
    if (c->handle)
        mt_tally_read(c);
    mt_tally_write(c);
}

/* Ends tracing at exit. The driver registered its own handler before its first context existed, so this runs
 * before it, while the rings still exist. Launches made later, by handlers that the program registered
 * before, are not traced. */
static void context_exit(void)
{
    if (mt_forked() || mt_rings_closed())
        return;
    mt_inject_drain(NULL, "the program ends");
    inject_contexts(context_totals, NULL);
    mt_rings_close();
}

static void context_register(void)
{
    atexit(context_exit);
}

/* Called for the first context, or the first one used. */
static void context_first(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, context_register);
}

/* ---- patches ---- */

/* Returns a pc near the program's code, assuming that the patches lie near it; 0: unknown. */
static uint64_t context_code(CUcontext handle)
{
    uint64_t pc = 0, bytes = 0;
    return mt_sanitizer()->GetCallbackPcAndSize(handle, "mt_patch_exit", &pc, &bytes) ? 0 : pc & ~15ull;
}

static void inject_refused(SanitizerResult r, char *why, size_t size)
{
    char words[2 * PATH_MAX];
    mt_sanitizer_words(words, sizeof words);
    snprintf(why, size, "patches cannot be loaded there: %.100s; %.800s", mt_sanitizer_text(r), words);
}

/* Makes rings, patches and launch contexts for a context, unless they exist. Returns 0, or -1 after a report.
 * Called with the lock of patching. */
static int inject_context_ready(struct mt_inject_context *c)
{
    char why[1024] = "";
    if (!c || mt_rings_closed())
        return -1;
    if (c->tried)
        return c->rings ? 0 : -1;
    c->tried = 1;
    context_first();
    SanitizerResult r = mt_sanitizer()->AddPatches(mt_sanitizer_patches(), c->handle);
    if (r)
        inject_refused(r, why, sizeof why);
    else
        c->rings = mt_inject_rings(c->handle, context_code(c->handle), why, sizeof why);
    if (!c->rings)
        mt_report("kernels in a context of a GPU are not traced: %s", why);
    return c->rings ? 0 : -1;
}

/* ---- names of the devices ---- */

#define DEVICES 64

static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t named = PTHREAD_COND_INITIALIZER;
static int asked, answered;
static struct {
    char name[128];
    int sms;
} devices[DEVICES]; /* written by name_ask, before `answered` */
static char system_name[128] = "NVIDIA GPU";

/* Reads "Model:  NVIDIA H100" of the first GPU listed by the kernel's driver. */
static void name_of_file(const char *path)
{
    char line[256], *text;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "Model:", 6)) {
            text = line + 6 + strspn(line + 6, " \t");
            text[strcspn(text, "\n")] = 0;
            snprintf(system_name, sizeof system_name, "%.100s", text);
        }
    if (f)
        fclose(f);
}

/* Returns the number of GPUs, and reads the name if `name` is set. */
static int name_of_system(int name)
{
    static const char folder[] = "/proc/driver/nvidia/gpus";
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || n++ || !name)
            continue;
        snprintf(path, sizeof path, "%s/%s/information", folder, e->d_name);
        name_of_file(path);
    }
    if (d)
        closedir(d);
    return n;
}

/* Returns how many of `n` GPUs CUDA_VISIBLE_DEVICES leaves: its entries before the first that names none. */
static int name_of_list(int n)
{
    const char *entry = getenv("CUDA_VISIBLE_DEVICES");
    int left = 0;
    while (entry && left < n &&
           (strncmp(entry, "GPU-", 4) == 0 || (*entry >= '0' && *entry <= '9' && atoi(entry) < n))) {
        left++;
        entry = strchr(entry, ',');
        entry = entry ? entry + 1 + strspn(entry + 1, " ") : "";
    }
    return getenv("CUDA_VISIBLE_DEVICES") ? left : n;
}

/* Returns the number of GPUs that the process sees. Of a divided GPU (MIG) it sees one part, and no other
 * GPU. */
static int name_visible(void)
{
    static const char parts[] = "/proc/driver/nvidia/capabilities/gpu*/mig/gi*";
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    glob_t found = {0};
    int divided = (list && strncmp(list, "MIG-", 4) == 0) || (!list && glob(parts, 0, NULL, &found) == 0);
    globfree(&found);
    return divided ? 1 : name_of_list(name_of_system(0));
}

typedef CUresult name_attribute(int *, CUdevice_attribute, CUdevice);
typedef CUresult name_text(char *, int, CUdevice);

/* Asks the driver in a thread of ours, where no callback is under way. */
static void *name_ask(void *unused)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    name_attribute *get = cuda ? (name_attribute *)dlsym(cuda, "cuDeviceGetAttribute") : NULL;
    name_text *text = cuda ? (name_text *)dlsym(cuda, "cuDeviceGetName") : NULL;
    for (CUdevice i = 0; get && text && i < DEVICES; i++)
        if (text(devices[i].name, sizeof devices[i].name, i) ||
            get(&devices[i].sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i))
            break;
    pthread_mutex_lock(&naming);
    answered = 1;
    pthread_cond_broadcast(&named);
    pthread_mutex_unlock(&naming);
    return unused;
}

static void name_begin(void)
{
    pthread_mutex_lock(&naming);
    int first = !asked;
    asked = 1;
    pthread_mutex_unlock(&naming);
    if (!first)
        return;
    int n =
        name_visible(); /* the line of the first allocation needs it, and the driver cannot be called here */
    if (n > 1)
        mt_devices_of_gpu(n < MT_DEVICES_MAX ? n : MT_DEVICES_MAX);
    mt_base_thread_start(NULL, 0, name_ask, NULL);
}

/* Returns 1 if the driver has answered. */
static int name_wait(void)
{
    const struct timespec end = mt_base_in_ms(100);
    pthread_mutex_lock(&naming);
    while (asked && !answered && pthread_cond_clockwait(&named, &naming, CLOCK_MONOTONIC, &end) != ETIMEDOUT)
        ;
    int said = answered;
    pthread_mutex_unlock(&naming);
    return said;
}

/* Sets the device of the traces before the first is opened. Waits up to 100 ms for its name. */
static void inject_device_is(int device)
{
    static atomic_int settled;
    if (atomic_exchange(&settled, 1))
        return;
    mt_trace_workers(mt_rings_readers());
    if (name_wait() && device >= 0 && device < DEVICES && devices[device].name[0]) {
        mt_trace_device("gpu", devices[device].name, (unsigned)devices[device].sms);
        return;
    }
    name_of_system(1);
    mt_trace_device("gpu", system_name, 0);
}

/* ---- begin and end of contexts: handlers, with the API's data for the callback ---- */

static void inject_context_new(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceContextData *d = data;
    (void)cbid;
    mt_inject_context(d->context);
    context_first();
    name_begin();
}

/* Ends the launches under way with the records that have arrived; the driver is about to free the memory. */
static void inject_context_ends(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceContextData *d = data;
    pthread_mutex_lock(&context_lock);
    struct mt_inject_context *c = inject_context_find(d->context);
    pthread_mutex_unlock(&context_lock);
    (void)cbid;
    if (!c)
        return;
    if (c->rings && !mt_rings_closed()) {
        mt_inject_drain(c, "their context was destroyed");
        mt_tally_read(c);
        mt_rings_retire(c->rings);
    }
    inject_streams_end(d->context);
    pthread_mutex_lock(&context_lock);
    c->handle = NULL;
    pthread_mutex_unlock(&context_lock);
}

/* ---- modules: those with kernels to trace are patched ---- */

/* Patching is serialised, as the API demands. The list is searched at every launch. */
static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mt_inject_module *modules;

/* Returns the module, or NULL if it was loaded before the library. */
static struct mt_inject_module *inject_module(CUmodule handle)
{
    pthread_mutex_lock(&module_lock);
    struct mt_inject_module *m = modules;
    while (m && m->handle != handle)
        m = m->next;
    pthread_mutex_unlock(&module_lock);
    return m;
}

/* ---- selection ---- */

static int module_may(void *unused, const char *mangled)
{
    (void)unused;
    char *name = mt_demangle_name(mangled);
    int may = !name || !mt_selection_never(name);
    free(name);
    return may;
}

/* Returns whether the cubin's symbol table has a function by which device code launches kernels. */
static int module_launches(const char *cubin, size_t bytes)
{
    static const char *const names[] = {"cudaLaunchDevice", "cudaCDP2LaunchDevice"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memmem(cubin, bytes, names[i], strlen(names[i])))
            return 1;
    return 0;
}

/* ---- patching ---- */

enum { GLOBAL = 0, SHARED = 1, LOCAL = 2, ON_CHIP = SHARED | LOCAL }; /* kind of memory */
static const struct {
    Sanitizer_InstructionId id;
    const char *name, *function, *total; /* total: the function that makes totals in place of records */
    int spaces, since;                   /* since: 0, or older libraries do not know it */
} patches[] = {
#define MT_PATCH(instruction, number, function, what, since)                                                 \
    {(Sanitizer_InstructionId)(number), #instruction, #function, #function "_total", what, since},
#include "gpu/patch/patch.def"
};

static int module_spaces(void)
{
    const char *asked = mt_tally_wanted() ? "" : mt_options()->spaces;
    return (strstr(asked, "shared") ? SHARED : 0) | (strstr(asked, "local") ? LOCAL : 0);
}

int mt_inject_is_list(const char *list, const char *words)
{
    char word[32];
    while (*list) {
        size_t n = strcspn(list, ",");
        if ((size_t)snprintf(word, sizeof word, " %.*s ", (int)n, list) >= sizeof word || !n ||
            !strstr(words, word))
            return 0;
        list += n + (list[n] == ',');
    }
    return 1;
}

/* Returns 1 if the user leaves out this part, to find what a driver fails at. */
static int inject_without(const char *part)
{
    return strstr(mt_options()->gpu_without, part) != NULL;
}

/* Returns 1 if this row is wanted. */
static int module_wants(size_t row)
{
    int spaces = patches[row].spaces;
    return (!spaces || spaces & module_spaces()) &&
           !(inject_without("exits") && !strcmp(patches[row].name, "BLOCK_EXIT"));
}

/* Accesses of global memory have totals; exits, and tensor copies, of which only the number is known, have no
 * record either way. */
static const char *patch_function(size_t i)
{
    const char *function = patches[i].function;
    int same =
        patches[i].spaces || !strcmp(function, "mt_patch_exit") || !strcmp(function, "mt_patch_tensor");
    return same || !mt_tally_wanted() ? function : patches[i].total;
}

/* Sets m->refused to the rows that this version of the library does not know. */
static SanitizerResult module_patch_all(struct mt_inject_module *m)
{
    SanitizerResult r = SANITIZER_SUCCESS;
    for (size_t i = 0; i < sizeof patches / sizeof *patches && !r; i++) {
        if (!module_wants(i))
            continue;
        r = mt_sanitizer()->PatchInstructions(patches[i].id, m->handle, patch_function(i));
        if (r && patches[i].since) {
            m->refused |= 1ull << i;
            r = SANITIZER_SUCCESS;
        }
    }
    return r ? r : mt_sanitizer()->PatchModule(m->handle);
}

/* Tells the companions and the user what the library can see; the same for all modules. */
static void module_tell_refused(uint64_t refused)
{
    static char names[512], version[16] = "?";
    static atomic_int told;
    size_t at = 0;
    if (atomic_exchange(&told, 1))
        return;
    for (size_t i = 0; i < sizeof patches / sizeof *patches && at < sizeof names; i++)
        if (refused >> i & 1)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", patches[i].name);
    if (mt_sanitizer_version())
        snprintf(version, sizeof version, "%d.%d", mt_sanitizer_version() / 100,
                 mt_sanitizer_version() % 100);
    mt_trace_sanitizer(version, *names ? names : NULL);
    if (*names)
        mt_say("NVIDIA's library %s does not report %s", version, names);
}

static void inject_module_complain(SanitizerResult r)
{
    static atomic_int said;
    if (!atomic_exchange(&said, 1))
        mt_report("kernels of a module are not traced: it cannot be patched: %s (said once)",
                  mt_sanitizer_text(r));
}

static void module_patch(struct mt_inject_module *m)
{
    pthread_mutex_lock(&patching);
    SanitizerResult r = SANITIZER_SUCCESS;
    if (inject_context_ready(m->context))
        m->why = "its GPU's memory has no rings or no patches";
    else if ((r = module_patch_all(m)))
        m->why = "its code could not be patched";
    else
        module_tell_refused(m->refused);
    pthread_mutex_unlock(&patching);
    if (r)
        inject_module_complain(r);
    m->patched = !m->why;
}

/* ---- addresses of its functions ---- */

static int module_where(void *module, const char *function, uint64_t *pc, uint64_t *size)
{
    const struct mt_inject_module *m = module;
    if (mt_sanitizer()->GetFunctionPcAndSize(m->handle, function, pc, size) || !*pc)
        return -1;
    *pc |= m->context->number << 56;
    return 0;
}

static void module_place(struct mt_inject_module *m)
{
    if (m->code)
        mt_code_place(m->code, module_where, m);
}

/* ---- handlers ---- */

static void module_add(struct mt_inject_module *m)
{
    pthread_mutex_lock(&module_lock);
    m->next = modules;
    modules = m;
    pthread_mutex_unlock(&module_lock);
}

static void inject_module_loaded(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceModuleData *d = data;
    struct mt_inject_module *m = calloc(1, sizeof *m);
    (void)cbid;
    if (!m) {
        mt_report("out of memory: kernels of a module are not traced");
        return;
    }
    *m = (struct mt_inject_module){.handle = d->module, .context = mt_inject_context(d->context)};
    m->code = mt_code_new(d->pCubin, d->cubinSize);
    if (m->code && mt_code_each_kernel(m->code, module_may, NULL)) {
        m->launches = module_launches(d->pCubin, d->cubinSize);
        module_patch(m);
    }
    if (m->patched)
        module_place(m);
    module_add(m);
}

/* Drains the records of its kernels before another module gets their addresses. */
static void module_drain(CUmodule handle)
{
    mt_flight_end(&(struct mt_flight_filter){.module = handle}, 1, NULL, NULL);
}

static void inject_module_unloads(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceModuleData *d = data;
    struct mt_inject_module **at = &modules, *m;
    (void)cbid;
    pthread_mutex_lock(&module_lock);
    while ((m = *at) && m->handle != d->module)
        at = &m->next;
    if (m)
        *at = m->next;
    pthread_mutex_unlock(&module_lock);
    if (!m)
        return;
    if (m->patched) {
        module_drain(m->handle);
        mt_tally_read(m->context);
    }
    mt_code_unload(m->code);
    free(m);
}

static void inject_functions(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceFunctionsLazyLoadedData *d = data;
    struct mt_inject_module *m = inject_module(d->module);
    (void)cbid;
    if (m && m->patched)
        module_place(m);
}

/* Memory operations of the program besides kernels, as the same lines that the CPU device writes: allocations
 * of driver and runtime API, copies and fills, and the order made by events. */

/* ---- Events: numbered at creation, with lines for their records and waits ---- */

/* By the event's handle; data: its number + 1. */
static struct mt_ranges order_events = MT_RANGES_INIT;
MT_FORK_TABLE(order_events);
static atomic_uint_least64_t order_count;

static uint64_t inject_order_key(CUevent e)
{
    return (uint64_t)(uintptr_t)e;
}

static void order_add(CUevent e)
{
    struct mt_range old;
    uint64_t number = atomic_fetch_add(&order_count, 1);
    mt_ranges_take(&order_events, inject_order_key(e),
                   &old); /* destroyed without a callback, and created again */
    mt_ranges_add(&order_events, inject_order_key(e), 1, (void *)(uintptr_t)(number + 1));
}

/* Returns its number, or -1 if it was created before this library was loaded. */
static int64_t order_number(CUevent e)
{
    struct mt_range r;
    return mt_ranges_find(&order_events, inject_order_key(e), &r) ? (int64_t)(uintptr_t)r.data - 1 : -1;
}

/* Layout of the data from API version 13.1 on. */
struct order_green {
    CUevent event;
    CUcontext context;
    void *green;
    CUstream stream;
    Sanitizer_StreamHandle handle;
};

static void order_note(const char *op, const Sanitizer_EventData *e)
{
    const struct order_green *newer = (const void *)e;
    int64_t number = order_number(e->event);
    if (number >= 0)
        mt_event_event(op, (uint64_t)number,
                       inject_stream_number(e->context, stream_has_green() ? newer->handle : e->hStream));
}

/* Event creation, records and waits. */
static void inject_event(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_EventData *e = data;
    struct mt_range gone;
    switch (cbid) {
    case SANITIZER_CBID_EVENTS_CREATED:
        order_add(e->event);
        break;
    case SANITIZER_CBID_EVENTS_DESTROYED:
        mt_ranges_take(&order_events, inject_order_key(e->event), &gone);
        break;
    case SANITIZER_CBID_EVENTS_RECORD:
        order_note("record", e);
        break;
    case SANITIZER_CBID_EVENTS_STREAM_WAIT:
        order_note("wait", e);
        break;
    case SANITIZER_CBID_EVENTS_SYNCHRONIZE:
        mt_event_sync("event", order_number(e->event));
        break;
    default:
        break;
    }
}

/* Copies, fills and stream memory operations, logged when they begin. Callbacks do not give the distance
 * between the planes of a copy: they are taken to be contiguous. */

static const char *inject_copy_kind(const Sanitizer_MemcpyData *m)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d"};
    if (m->direction >= SANITIZER_MEMCPY_DIRECTION_HOST_TO_HOST &&
        m->direction <= SANITIZER_MEMCPY_DIRECTION_DEVICE_TO_DEVICE)
        return kinds[m->direction - SANITIZER_MEMCPY_DIRECTION_HOST_TO_HOST];
    return kinds[(mt_object_is_device((void *)(uintptr_t)m->dstAddress) ? 1 : 0) |
                 (mt_object_is_device((void *)(uintptr_t)m->srcAddress) ? 2 : 0)];
}

/* Returns rows and planes if they make up the total, else one block. */
static struct mt_planes_size copy_size(const Sanitizer_MemcpyData *m)
{
    struct mt_planes_size s = {m->width, m->height ? m->height : 1, m->depth ? m->depth : 1};
    uint64_t rows = 0, bytes = 0;
    if (__builtin_mul_overflow(s.width, s.height, &rows) || __builtin_mul_overflow(rows, s.depth, &bytes) ||
        (m->size && bytes != m->size))
        return (struct mt_planes_size){m->size, 1, 1};
    return s;
}

static struct mt_planes copy_planes(uint64_t at, uint64_t pitch, const struct mt_planes_size *s)
{
    pitch = pitch ? pitch : s->width;
    return (struct mt_planes){at, pitch, pitch * s->height, mt_object_device((void *)(uintptr_t)at)};
}

/* Logs a copy or fill that begins now in the stream of this number (mt_event_memcpy, mt_event_memset), also
 * as a graph node. */
static void inject_copied(const Sanitizer_MemcpyData *m, int64_t stream)
{
    struct mt_planes_size size = copy_size(m);
    mt_planes_copied(
        copy_planes(m->dstAddress, m->dstPitch, &size), copy_planes(m->srcAddress, m->srcPitch, &size), size,
        &(struct mt_memcpy_line){.kind = inject_copy_kind(m), .stream = stream}, mt_host_site_take());
}

/* Width counts elements, as in the driver's functions. */
static void inject_filled(const Sanitizer_MemsetData *m, int64_t stream)
{
    uint32_t element = m->elementSize ? m->elementSize : 1;
    struct mt_planes_size size = {m->width * element, m->height ? m->height : 1, 1};
    mt_planes_filled(copy_planes(m->address, m->pitch, &size), size, m->value, stream, mt_host_site_take());
}

/* Copies of a batch begin one by one; numbers 3 to 5, with other data, tell when they end, and when several
 * of them are issued together. */
enum {
    MEMCPY_OF_BATCH = 2, /* SANITIZER_CBID_MEMCPY_BATCH_ITEM_STARTING of newer headers */
    MEMOP_REDUCTION = 3  /* SANITIZER_CBID_BATCH_MEMOP_ATOMIC_REDUCTION */
};

static void inject_memcpy(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_MemcpyData *m = data;
    if (cbid == SANITIZER_CBID_MEMCPY_STARTING || (int)cbid == MEMCPY_OF_BATCH)
        inject_copied(m, inject_stream_number(m->apiContext, m->hApiStream));
}

static void inject_memset(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_MemsetData *m = data;
    if (cbid == SANITIZER_CBID_MEMSET_STARTING)
        inject_filled(m, inject_stream_number(m->context, m->hStream));
}

static void inject_batch(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_BatchMemopData *b = data;
    uint64_t bytes = b->type == SANITIZER_BATCH_MEMOP_TYPE_64B ? 8 : 4;
    if (cbid == SANITIZER_CBID_BATCH_MEMOP_WRITE || (int)cbid == MEMOP_REDUCTION)
        mt_planes_filled((struct mt_planes){b->address, bytes, bytes, -1},
                         (struct mt_planes_size){bytes, 1, 1}, b->value,
                         inject_stream_number(b->context, b->hStream), mt_host_site_take());
}

static const void *memory_at(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

/* Returns whether this is the mapping of a peer's memory at its existing address. */
static int memory_is_mapping(const Sanitizer_ResourceMemoryData *m)
{
    return m->flags & (SANITIZER_MEMORY_FLAG_PEER | SANITIZER_MEMORY_FLAG_PEER_ATOMIC) ? 1 : 0;
}

static const char *memory_kind(const Sanitizer_ResourceMemoryData *m)
{
    if (m->flags & SANITIZER_MEMORY_FLAG_MANAGED)
        return "managed";
    if (m->flags & SANITIZER_MEMORY_FLAG_MODULE)
        return "symbol";
    if (m->flags & (SANITIZER_MEMORY_FLAG_CG_RUNTIME | SANITIZER_MEMORY_FLAG_CNP))
        return "device";
    return m->flags & SANITIZER_MEMORY_FLAG_HOST_PINNED ? "host" : "cudaMalloc";
}

static void memory_add(const Sanitizer_ResourceMemoryData *m, const char *kind)
{
    int shared = !strcmp(kind, "managed") || !strcmp(kind, "host");
    if (!memory_is_mapping(m))
        mt_object_add(memory_at(m->address), m->size, kind, shared ? -1 : m->device, mt_host_site_take());
}

static void memory_gone(const void *p)
{
    mt_object_done(mt_object_take(p), 1);
}

static void inject_freed(uint64_t address)
{
    memory_gone(memory_at(address));
}

/* Logs an array by its handle, since it has no address. */
static void memory_array(Sanitizer_CallbackId cbid, const Sanitizer_ResourceArrayData *a)
{
    if (cbid == SANITIZER_CBID_RESOURCE_ARRAY_CREATED)
        mt_object_add(a->hArray, 0, "array", -1, mt_host_site_take());
    else
        memory_gone(a->hArray);
}

/* Writes the same lines as the CPU device. */
static void inject_memory(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceMemoryData *m = data;
    switch (cbid) {
    case SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC:
        memory_add(m, memory_kind(m));
        break;
    case SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC:
        memory_add(m, "host");
        break;
    case SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC:
        memory_add(m, "async");
        break;
    case SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER:
        memory_add(m, "ipc");
        break;
    case SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE:
    case SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE:
    case SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC:
        if (!memory_is_mapping(m))
            inject_freed(m->address);
        break;
    case SANITIZER_CBID_RESOURCE_ARRAY_CREATED:
    case SANITIZER_CBID_RESOURCE_ARRAY_DESTROYED:
        memory_array(cbid, data);
        break;
    default:
        break;
    }
}

/* Launches: selection, launch contexts, and failed launches; and the CUDA calls and graphs that make them. */

/* ---- names: launch lines refer to them until the process ends ---- */

struct launch_name {
    struct launch_name *next;
    char *kernel;
    const char *signature; /* with parameters, which distinguish overloaded functions */
    uint64_t number;       /* in totals */
    char mangled[];
};
#define NAMES 256u
static struct launch_name *names[NAMES];
static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(launch_lock, MT_FORK_LEAVES);

static struct launch_name **launch_bucket(const char *mangled)
{
    uint32_t h = 2166136261u;
    for (; *mangled; mangled++)
        h = (h ^ (unsigned char)*mangled) * 16777619u;
    return &names[h % NAMES];
}

/* Called without a lock: demangling calls the program's C++ library. */
static struct launch_name *launch_name_new(const char *mangled)
{
    struct launch_name *n = malloc(sizeof *n + strlen(mangled) + 1);
    if (!n)
        return NULL;
    strcpy(n->mangled, mangled);
    n->kernel = mt_demangle_name(mangled);
    n->number = mt_tally_wanted() ? mt_tally_kernel(n->kernel ? n->kernel : "?") : 0;
    n->signature = mt_demangle(mangled);
    if (n->signature &&
        !strncmp(n->signature, "void ", 5)) /* names of template instances include the result type */
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
    pthread_mutex_lock(&launch_lock);
    struct launch_name *n = launch_name_find(mangled);
    pthread_mutex_unlock(&launch_lock);
    if (n || !(n = launch_name_new(mangled)))
        return n;
    pthread_mutex_lock(&launch_lock);
    n->next = *launch_bucket(mangled); /* harmless duplicate if two threads were here */
    *launch_bucket(mangled) = n;
    pthread_mutex_unlock(&launch_lock);
    return n;
}

/* ---- one launch ---- */

struct launching {
    const Sanitizer_LaunchData *data;
    struct mt_inject_module *module;    /* NULL: unknown */
    uint32_t facts;                     /* about its machine code (sass.h) */
    uint64_t number;                    /* in totals */
    int node;                           /* of a graph: the others of its launch may not have begun */
    const struct launch_unseen *unseen; /* NULL: none */
    struct mt_launch_line line;
    struct mt_trace *trace; /* NULL: not to be traced */
};

/* ---- instructions that are reported to no patch ---- */

/* Names for launch lines, which refer to them until the process ends. */
struct launch_unseen {
    struct launch_unseen *next;
    uint32_t kinds, count; /* count: of different names */
    char names[128], why[256];
};

static struct launch_unseen *launch_unseen_new(uint32_t kinds)
{
    struct launch_unseen *u = calloc(1, sizeof *u);
    char some[128];
    int since = mt_sass_since(kinds);
    uint32_t never = kinds & mt_sass_unseen(0);
    if (!u)
        return NULL;
    u->kinds = kinds;
    if (kinds & MT_SASS_UNREAD) {
        snprintf(u->names, sizeof u->names, "?");
        snprintf(u->why, sizeof u->why,
                 "its machine code is not where its file says; what is not reported is not known");
        u->count = 1;
        return u;
    }
    mt_sass_names(kinds, u->names, sizeof u->names);
    u->count = 1;
    for (const char *p = u->names; (p = strchr(p, ',')); p++)
        u->count++;
    if (never)
        snprintf(u->why, sizeof u->why, "no version of NVIDIA's library reports accesses by %s",
                 mt_sass_names(never, some, sizeof some));
    else
        snprintf(u->why, sizeof u->why,
                 "NVIDIA's library does not report accesses by %s; from version %d.%d on it does", u->names,
                 since / 100, since % 100);
    return u;
}

static const struct launch_unseen *launch_unseen(uint32_t kinds)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct launch_unseen *all;
    pthread_mutex_lock(&lock);
    struct launch_unseen *u = all;
    while (u && u->kinds != kinds)
        u = u->next;
    if (!u && (u = launch_unseen_new(kinds))) {
        u->next = all;
        all = u;
    }
    pthread_mutex_unlock(&lock);
    return u;
}

/* Finds what patches will not see of a launch, if its kernel is in a patched module. */
static void launch_look(struct launching *g)
{
    const struct mt_inject_module *m = g->module;
    if (!m || !m->patched || !g->line.mangled)
        return;
    g->facts = mt_code_facts(m->code, g->line.mangled);
    uint32_t kinds = g->facts & (mt_sass_unseen(m->refused) | MT_SASS_UNREAD);
    if (kinds)
        g->unseen = launch_unseen(kinds);
    if (g->unseen)
        g->line.unseen = g->unseen->names;
}

/* Makes the trace of a launch with unseen accesses incomplete. */
static void launch_miss_unseen(const struct launching *g)
{
    static atomic_int said;
    char why[512];
    snprintf(why, sizeof why, "kernel %s: %s", mt_short(g->line.kernel).text, g->unseen->why);
    if (!atomic_exchange(&said, 1))
        mt_report("%s; its trace is incomplete (said once)", why);
    mt_trace_miss(g->trace, why);
}

static void launch_describe(struct launching *g)
{
    const Sanitizer_LaunchData *l = g->data;
    const char *mangled = l->functionName ? l->functionName : "?";
    const struct launch_name *n = launch_name(mangled);
    const struct mt_inject_call *call = mt_inject_call();
    g->number = n ? n->number : 0;
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

/* Returns the number of thread exits to expect, those of untraced CTAs included; 0: unknown. */
static uint64_t launch_exits(const struct launching *g)
{
    const uint32_t *grid = g->line.grid, *block = g->line.block;
    uint64_t threads = (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
    int unknown = g->module->launches || g->facts & MT_SASS_CANCELS || !mt_inject_exits_count() ||
                  inject_without("exits");
    return unknown ? 0 : threads;
}

static uint32_t launch_site(const struct mt_flight *f, uint32_t site, uint32_t meta)
{
    uint64_t pc = mt_packet_pc_of(site, f->code);
    return pc ? mt_code_site(pc, meta) : 0;
}

/* Returns an address in its module's code, or 0 if unknown. */
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
    f->launch.state = mt_inject_call(); /* API call that makes the launch */
    f->module = g->data->module;
    f->launch.line.seq = mt_event_seq();
    f->launch.line.begin_ns = mt_now_ns();
    f->site = launch_site;
    f->exits = launch_exits(g);
    f->polls = g->facts & MT_SASS_POLLS && !inject_without("polls") && !mt_tally_wanted();
    f->kernel = g->number;
    f->unseen = g->unseen ? g->unseen->count : 0;
    return f;
}

/* ---- launches that should be traced but are not ---- */

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
        return m->code ? "no kernel of its module was chosen"
                       : "the machine code of its module cannot be read";
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

/* Passes the data of this launch to its patches. */
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

/* The flight belongs to its queue once added. */
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
    const void *data =
        f ? mt_inject_lend(g->module->context, f, launch_pc(g), g->data->hStream, g->node) : NULL;
    if (data && !launch_go(g, f, data))
        return NULL;
    if (f)
        mt_rings_return(f);
    free(f);
    return why ? why : data ? "there is no memory or no thread for it" : "too many launches are waiting";
}

/* Handles a launch that begins now, by itself or as a node of a graph, in `stream`. */
static void inject_launched(const Sanitizer_LaunchData *l, CUcontext context, Sanitizer_StreamHandle stream,
                            int node)
{
    struct launching g = {.data = l, .module = inject_module(l->module), .node = node};
    const char *why = NULL;
    if (!l->module) /* a launch of the driver itself */
        return;
    launch_describe(&g);
    inject_device_is(l->device);
    if (mt_tracing() && mt_selection_takes(&g.line))
        g.trace = inject_stream_trace(context, stream);
    if (g.trace && g.module && g.module->launches)
        mt_trace_miss(g.trace, "its kernels launch kernels, whose records cannot be told from their own");
    launch_look(&g);
    if (g.trace && g.unseen)
        launch_miss_unseen(&g);
    if (g.trace && !(why = launch_trace(&g)))
        return;
    if (g.module && g.module->patched)
        launch_tell(&g, NULL);
    launch_untraced(&g, why);
}

static void inject_launch(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_LaunchData *l = data;
    if (cbid == SANITIZER_CBID_LAUNCH_BEGIN)
        inject_launched(l, l->context, l->hStream, 0);
}

/* ---- failed launches ---- */

struct launch_failure {
    uint64_t first, after;
    const void *call;
    int status;
};

/* Called with the list locked. */
static void launch_cancel(struct mt_flight *f, void *data)
{
    const struct launch_failure *v = data;
    if (f->number < v->first || f->number >= v->after || f->launch.state != v->call || f->taken || f->exited)
        return;
    f->cancelled = 1;
    f->status = v->status;
}

/* Cancels launches `first` to `after` - 1, which will not run because their call has failed. */
static void inject_launch_failed(uint64_t first, uint64_t after, int status)
{
    struct launch_failure v = {first, after, mt_inject_call(), status};
    mt_flight_each(launch_cancel, &v);
}

/* Calls of the driver's and the runtime's functions: launch parameters missing in launch callbacks, and the
 * results of waits. A call of the runtime contains one of the driver. */

static _Thread_local struct mt_inject_call call;

struct mt_inject_call *mt_inject_call(void)
{
    return &call;
}

/* Returns 1 at the begin of a call. */
static int call_begins(const Sanitizer_CallbackData *d)
{
    if (d->callbackSite != SANITIZER_API_ENTER)
        return 0;
    if (!call.depth++)
        call = (struct mt_inject_call){.depth = 1, .launches = mt_flight_issued_so_far()};
    return 1;
}

/* Returns the call's result; both APIs number the relevant errors alike. */
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
        inject_launch_failed(call.first, call.after, status);
    if (!call.depth)
        call.first = call.after = 0;
}

static void inject_launches(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    if (!call_begins(d))
        call_launched(call_ends(d));
    else if (d->functionParams)
        call_asks(cbid, d->functionParams);
}

static void inject_runtime_launches(Sanitizer_CallbackId cbid, const void *data)
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

/* Returns 1 if the data is on the host when the call returns. Other copies need not have waited. */
static int call_copies_back(const Sanitizer_CallbackData *d)
{
    const cudaMemcpy_v3020_params *p = d->functionParams; /* same layout with per-thread default streams */
    if (!d->functionName || strstr(d->functionName, "DtoH"))
        return d->functionName != NULL;
    return !strncmp(d->functionName, "cudaMemcpy", 10) && p && p->kind == cudaMemcpyDeviceToHost;
}

/* Notes that a copy has waited for earlier work of its stream, a default stream. */
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

static void inject_calls(Sanitizer_CallbackId cbid, const void *data)
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

static void inject_profiler_on(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (d->callbackSite == SANITIZER_API_ENTER)
        mt_selection_profiler(1);
}

static void inject_profiler_off(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_CallbackData *d = data;
    (void)cbid;
    if (d->callbackSite == SANITIZER_API_ENTER)
        mt_selection_profiler(0);
}

/* Launches of graphs: each node is handled like a single operation in the stream of the graph's launch. */

/* Ready graphs that may launch graphs from the device, by handle. */
static struct mt_ranges graph_launching = MT_RANGES_INIT;
MT_FORK_TABLE(graph_launching);

static uint64_t graph_key(CUgraphExec g)
{
    return (uint64_t)(uintptr_t)g;
}

static void graph_created(const Sanitizer_GraphExecData *d)
{
    if (d->containsDeviceGraphLaunches)
        mt_ranges_add(&graph_launching, graph_key(d->graphExec), 1, NULL);
}

static void graph_gone(const Sanitizer_GraphExecData *d)
{
    struct mt_range r;
    mt_ranges_take(&graph_launching, graph_key(d->graphExec), &r);
}

static void graph_launched(const Sanitizer_GraphLaunchData *d)
{
    struct mt_range r;
    if (!d->isGraphUpload && mt_ranges_find(&graph_launching, graph_key(d->graphExec), &r))
        mt_trace_miss(inject_stream_trace(d->context, d->hStream),
                      "graphs were launched from the device: their launches cannot be told apart");
}

static void graph_kernel(const Sanitizer_LaunchData *l)
{
    int known = l->hApiStream != NULL;
    inject_launched(l, known ? l->apiContext : l->context, known ? l->hApiStream : l->hStream, 1);
}

static void inject_graph_node(const Sanitizer_GraphNodeLaunchData *n)
{
    const Sanitizer_MemcpyData *copy = &n->memcpyData;
    const Sanitizer_MemsetData *fill = &n->memsetData;
    switch ((int)n->nodeType) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        graph_kernel(&n->launchData);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        inject_copied(copy, inject_stream_number(copy->apiContext, copy->hApiStream));
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        inject_filled(fill, inject_stream_number(fill->context, fill->hStream));
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        memory_add(&n->memAllocData, "async");
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        inject_freed(n->memFreeAddress);
        break;
    default:
        break;
    }
}

/* Nodes are also called back when a graph is uploaded, which launches nothing. */
static void inject_graph(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_GraphNodeLaunchData *n = data;
    switch (cbid) {
    case SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATED:
        graph_created(data);
        break;
    case SANITIZER_CBID_GRAPHS_GRAPHEXEC_DESTROYING:
        graph_gone(data);
        break;
    case SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN:
        graph_launched(data);
        break;
    case SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN:
        if (!n->isGraphUpload)
            inject_graph_node(n);
        break;
    default:
        break;
    }
}

/* ---- the table of callbacks ---- */

/* A process that only initialises CUDA has at least this callback. */
static void inject_initialised(Sanitizer_CallbackId cbid, const void *data)
{
    (void)cbid;
    (void)data;
}

struct inject_row {
    Sanitizer_CallbackDomain domain;
    Sanitizer_CallbackId id; /* 0: the whole domain */
    void (*handler)(Sanitizer_CallbackId id, const void *data);
};

#define RESOURCE(name, f) {SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_##name, f}
#define DRIVER(name, f) {SANITIZER_CB_DOMAIN_DRIVER_API, SANITIZER_CBID_DRIVER_API_##name, f}
#define RUNTIME(name, f) {SANITIZER_CB_DOMAIN_RUNTIME_API, SANITIZER_CBID_RUNTIME_API_##name, f}
#define DOMAIN(name, f) {SANITIZER_CB_DOMAIN_##name, 0, f}
static const struct inject_row rows[] = {
    RESOURCE(INIT_FINISHED, inject_initialised),
    RESOURCE(CONTEXT_CREATION_FINISHED, inject_context_new),
    RESOURCE(CONTEXT_DESTROY_STARTING, inject_context_ends),
    RESOURCE(MODULE_LOADED, inject_module_loaded),
    RESOURCE(MODULE_UNLOAD_STARTING, inject_module_unloads),
    RESOURCE(FUNCTIONS_LAZY_LOADED, inject_functions),
    RESOURCE(STREAM_CREATED, inject_stream_new),
    RESOURCE(STREAM_DESTROY_STARTING, inject_stream_ends),
    RESOURCE(DEVICE_MEMORY_ALLOC, inject_memory),
    RESOURCE(DEVICE_MEMORY_FREE, inject_memory),
    RESOURCE(HOST_MEMORY_ALLOC, inject_memory),
    RESOURCE(HOST_MEMORY_FREE, inject_memory),
    RESOURCE(MEMORY_ALLOC_ASYNC, inject_memory),
    RESOURCE(MEMORY_FREE_ASYNC, inject_memory),
    RESOURCE(MEMPOOL_IMPORT_POINTER, inject_memory),
    RESOURCE(ARRAY_CREATED, inject_memory),
    RESOURCE(ARRAY_DESTROYED, inject_memory),
    DOMAIN(LAUNCH, inject_launch),
    DOMAIN(GRAPHS, inject_graph),
    DOMAIN(SYNCHRONIZE, mt_inject_synchronized),
    DOMAIN(MEMCPY, inject_memcpy),
    DOMAIN(MEMSET, inject_memset),
    DOMAIN(BATCH_MEMOP, inject_batch),
    DOMAIN(EVENTS, inject_event),
    DRIVER(cuLaunchKernel, inject_launches),
    DRIVER(cuLaunchKernel_ptsz, inject_launches),
    DRIVER(cuLaunchKernelEx, inject_launches),
    DRIVER(cuLaunchKernelEx_ptsz, inject_launches),
    DRIVER(cuLaunchCooperativeKernel, inject_launches),
    DRIVER(cuLaunchCooperativeKernel_ptsz, inject_launches),
    DRIVER(cuLaunchCooperativeKernelMultiDevice, inject_launches),
    DRIVER(cuLaunch, inject_launches),
    DRIVER(cuLaunchGrid, inject_launches),
    DRIVER(cuLaunchGridAsync, inject_launches),
    DRIVER(cuGraphLaunch, inject_launches),
    DRIVER(cuGraphLaunch_ptsz, inject_launches),
    RUNTIME(cudaLaunchKernel, inject_runtime_launches),
    RUNTIME(cudaLaunchKernel_ptsz, inject_runtime_launches),
    RUNTIME(__cudaLaunchKernel, inject_runtime_launches),
    RUNTIME(__cudaLaunchKernel_ptsz, inject_runtime_launches),
    RUNTIME(cudaLaunchKernelExC, inject_runtime_launches),
    RUNTIME(cudaLaunchKernelExC_ptsz, inject_runtime_launches),
    RUNTIME(cudaLaunchCooperativeKernel, inject_runtime_launches),
    RUNTIME(cudaLaunchCooperativeKernel_ptsz, inject_runtime_launches),
    RUNTIME(cudaGraphLaunch, inject_runtime_launches),
    RUNTIME(cudaGraphLaunch_ptsz, inject_runtime_launches),
    DRIVER(cuCtxSynchronize, inject_calls),
    DRIVER(cuCtxSynchronize_v2, inject_calls),
    DRIVER(cuStreamSynchronize, inject_calls),
    DRIVER(cuStreamSynchronize_ptsz, inject_calls),
    DRIVER(cuEventSynchronize, inject_calls),
    DRIVER(cuMemcpy, inject_calls),
    DRIVER(cuMemcpy_ptds, inject_calls),
    DRIVER(cuMemcpyDtoH_v2, inject_calls),
    DRIVER(cuMemcpyDtoH_v2_ptds, inject_calls),
    DRIVER(cuMemcpy2D_v2, inject_calls),
    DRIVER(cuMemcpy2D_v2_ptds, inject_calls),
    DRIVER(cuMemcpy3D_v2, inject_calls),
    DRIVER(cuMemcpy3D_v2_ptds, inject_calls),
    RUNTIME(cudaDeviceSynchronize, inject_calls),
    RUNTIME(cudaStreamSynchronize, inject_calls),
    RUNTIME(cudaStreamSynchronize_ptsz, inject_calls),
    RUNTIME(cudaEventSynchronize, inject_calls),
    RUNTIME(cudaMemcpy, inject_calls),
    RUNTIME(cudaMemcpy_ptds, inject_calls),
    DRIVER(cuProfilerStart, inject_profiler_on),
    DRIVER(cuProfilerStop, inject_profiler_off),
    RUNTIME(cudaProfilerStart, inject_profiler_on),
    RUNTIME(cudaProfilerStop, inject_profiler_off),
};

static int subscribed;
static int driven;       /* the driver has loaded this library, so callbacks must come */
static atomic_int heard; /* the library has called back */

/* Only the first callback shows that the library does what it took on. */
static void inject_first(void)
{
    char words[2 * PATH_MAX];
    if (atomic_exchange(&heard, 1))
        return;
    mt_sanitizer_words(words, sizeof words);
    mt_say("kernels are traced by NVIDIA's Compute Sanitizer API: %s", words);
}

/* Searches the rows of a domain, which are few; in the long API domains only these functions are enabled. */
static void SANITIZERAPI inject_called(void *unused, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id,
                                       const void *data)
{
    (void)unused;
    if (mt_forked())
        return;
    if (!atomic_load_explicit(&heard, memory_order_relaxed))
        inject_first();
    if (!data)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].domain == domain && (!rows[i].id || rows[i].id == id)) {
            rows[i].handler(id, data);
            return;
        }
}

static SanitizerResult inject_enable(Sanitizer_SubscriberHandle s, const struct inject_row *r)
{
    return r->id ? mt_sanitizer()->EnableCallback(1, s, r->domain, r->id)
                 : mt_sanitizer()->EnableDomain(1, s, r->domain);
}

/* Returns 1 for callbacks that every version has and that traces need: all domains but events, contexts and
 * modules. */
static int inject_must(const struct inject_row *r)
{
    return r->domain == SANITIZER_CB_DOMAIN_RESOURCE
               ? r->id == SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_FINISHED ||
                     r->id == SANITIZER_CBID_RESOURCE_MODULE_LOADED
               : !r->id && r->domain != SANITIZER_CB_DOMAIN_EVENTS;
}

/* Returns 1 if the user leaves out the row's domain. */
static int inject_leaves_out(const struct inject_row *r)
{
    return (r->domain == SANITIZER_CB_DOMAIN_GRAPHS && inject_without("graphs")) ||
           (r->domain == SANITIZER_CB_DOMAIN_DRIVER_API && inject_without("driver"));
}

/* Enables all rows. A function or domain missing in this version is never called. */
static void inject_enable_all(Sanitizer_SubscriberHandle s)
{
    char why[160];
    if (*mt_options()->gpu_without)
        mt_trace_miss_anywhere("MEMTRACE_GPU_WITHOUT is set");
    if (!mt_inject_is_list(mt_options()->gpu_without, " exits polls graphs driver "))
        mt_report("MEMTRACE_GPU_WITHOUT=%s is no list of exits, polls, graphs, driver",
                  mt_options()->gpu_without);
    if (!mt_inject_is_list(mt_options()->spaces, " global shared local "))
        mt_report("MEMTRACE_SPACES=%s is no list of global, shared, local", mt_options()->spaces);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (inject_leaves_out(&rows[i]))
            continue;
        SanitizerResult r = inject_enable(s, &rows[i]);
        if (r && inject_must(&rows[i])) {
            snprintf(why, sizeof why, "NVIDIA's API does not say what happens in domain %d (%s)",
                     (int)rows[i].domain, mt_sanitizer_text(r));
            mt_report("traces are not complete: %s", why);
            mt_trace_miss_anywhere(why);
        } else if (r)
            mt_say("callback %d of domain %d is not there: %s", (int)rows[i].id, (int)rows[i].domain,
                   mt_sanitizer_text(r));
    }
}

static void inject_start(void)
{
    Sanitizer_SubscriberHandle s;
    char why[512], words[2 * PATH_MAX];
    int refused = mt_sanitizer_subscribe(inject_called, &s, why, sizeof why);
    mt_sanitizer_words(words, sizeof words);
    if (refused) {
        mt_report("nothing is traced: %s (%s)", why, words);
        return;
    }
    subscribed = 1;
    if (mt_tally_wanted())
        mt_trace_only(mt_options()->only);
    inject_enable_all(s);
    mt_say("NVIDIA's Compute Sanitizer API is asked to call back: %s", words);
}

/* Reports at the end that the library did not do what it took on, as nothing else shows it. */
static void inject_silence(void)
{
    char words[2 * PATH_MAX];
    if (!subscribed || heard || mt_forked() || (!driven && !mt_sanitizer_driven()))
        return;
    mt_sanitizer_words(words, sizeof words);
    mt_report("nothing was traced: NVIDIA's library took the subscription and never called back: %s; try "
              "MEMTRACE_ENGINE=%s, or a library of another version (MEMTRACE_SANITIZER)",
              words, mt_options()->engine == MT_ENGINE_PRELOAD ? "inject" : "preload");
}

static void inject_begin(void)
{
    static atomic_int started;
    if (atomic_exchange(&started, 1) || !mt_tracing())
        return;
    mt_fork_counts();
    mt_selection_without_nccl();
    mt_demangle_prepare();
    inject_start();
}

/* Called by the driver when the program initialises CUDA. Some driver versions ignore the result; the program
 * continues in any case. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    driven = 1;
    inject_begin();
    return 1;
}

/* NVTX may load this library before the driver does. MEMTRACE_ENGINE=preload: the dynamic linker has loaded
 * it, and the subscription is there before the driver is. */
__attribute__((constructor)) static void inject_loaded(void)
{
    mt_registered = 1;
    if (mt_options()->engine == MT_ENGINE_PRELOAD)
        inject_begin();
}

/* Runs after the program's own exit handlers; launches have ended before (context_exit). */
__attribute__((destructor)) static void inject_finish(void)
{
    mt_nvtx_finish();
    mt_trace_finish();
    inject_silence();
}
