/* Driver objects of the program: contexts, streams with their traces, modules; the device's name, and the end
 * of the process. */
#define _GNU_SOURCE
#include "trace/devices.h"
#include "base/file.h"
#include "base/report.h"
#include "base/thread.h"
#include "inject.h"
#include "base/fork.h"
#include "base/source_name.h"
#include "base/options.h"
#include "code.h"
#include "trace/selection.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
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

int64_t mt_inject_stream_number(CUcontext context, Sanitizer_StreamHandle handle)
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

struct mt_trace *mt_inject_stream_trace(CUcontext context, Sanitizer_StreamHandle handle)
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
static atomic_int green = -1;

int mt_inject_green(void)
{
    return green;
}

static int stream_fits(const struct stream_words *d, int at)
{
    Sanitizer_StreamHandle h = NULL;
    return d->word[at + 1] && !mt_sanitizer()->GetStreamHandle(d->context, d->word[at], &h) &&
           (void *)h == d->word[at + 1];
}

/* No function returns the API's version; the first stream shows it. Reading the third word is safe in both
 * layouts: in the older one it lies behind the data, in the caller's memory. */
void mt_inject_stream_new(Sanitizer_CallbackId cbid, const void *data)
{
    (void)cbid;
    if (green < 0 && stream_fits(data, 0))
        green = 0;
    else if (green < 0 && stream_fits(data, 1))
        green = 1;
}

/* The stream's work continues without it. */
void mt_inject_stream_ends(Sanitizer_CallbackId cbid, const void *data)
{
    const struct stream_words *d = data;
    (void)cbid;
    if (green < 0)
        mt_inject_stream_new(cbid, data);
    pthread_mutex_lock(&stream_lock);
    struct stream *s = stream_find(d->context, d->word[green > 0 ? 2 : 1]);
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static struct mt_inject_context *contexts;

static struct mt_inject_context *context_find(CUcontext handle)
{
    struct mt_inject_context *c = contexts;
    while (c && c->handle != handle)
        c = c->next;
    return c;
}

struct mt_inject_context *mt_inject_context(CUcontext handle)
{
    pthread_mutex_lock(&lock);
    struct mt_inject_context *c = handle ? context_find(handle) : NULL;
    if (handle && !c && (c = calloc(1, sizeof *c))) {
        c->handle = handle;
        c->number = contexts ? contexts->number + 1 : 0;
        c->next = contexts;
        contexts = c;
    }
    pthread_mutex_unlock(&lock);
    return c;
}

static void inject_contexts(void (*f)(struct mt_inject_context *c, void *data), void *data)
{
    pthread_mutex_lock(&lock);
    struct mt_inject_context *c = contexts; /* new ones are added at the front; none is freed */
    pthread_mutex_unlock(&lock);
    for (; c; c = c->next)
        f(c, data);
}

/* ---- the end of the process ---- */

/* Ends tracing at exit. The driver registered its own handler before its first context existed, so this runs
 * before it, while the rings still exist. Launches made later, by handlers that the program registered
 * before, are not traced. */
static void context_exit(void)
{
    if (mt_forked() || mt_rings_closed())
        return;
    mt_inject_drain(NULL, "the program ends");
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

static char *image; /* image of all patches, for all devices */

/* Path of the patches, beside this library. */
static void image_path(char *out, size_t size)
{
    Dl_info info;
    const char *self = dladdr((void *)&image_path, &info) && info.dli_fname ? info.dli_fname : "";
    const char *slash = strrchr(self, '/');
    snprintf(out, size, "%.*sgpu-patch.fatbin", slash ? (int)(slash + 1 - self) : 0, self);
}

static char *image_read(FILE *f)
{
    long bytes = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    char *text = bytes > 0 && !fseek(f, 0, SEEK_SET) ? malloc((size_t)bytes) : NULL;
    if (text && fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    return text;
}

const void *mt_inject_image(char *why, size_t size)
{
    char path[PATH_MAX];
    image_path(path, sizeof path);
    FILE *f = fopen(path, "rbe");
    image = f ? image_read(f) : NULL;
    if (!image)
        snprintf(why, size, "%s: %s", path, f ? "cannot be read" : strerror(errno));
    if (f)
        fclose(f);
    return image;
}

/* Returns a pc near the program's code, assuming that the patches lie near it; 0: unknown. */
static uint64_t context_code(CUcontext handle)
{
    uint64_t pc = 0, bytes = 0;
    return mt_sanitizer()->GetCallbackPcAndSize(handle, "mt_patch_exit", &pc, &bytes) ? 0 : pc & ~15ull;
}

/* Makes rings, patches and launch contexts for a context, unless they exist. Returns 0, or -1 after a report.
 * Called with the lock of patching. */
static int inject_context_ready(struct mt_inject_context *c)
{
    char why[256] = "";
    if (!c || mt_rings_closed())
        return -1;
    if (c->tried)
        return c->rings ? 0 : -1;
    c->tried = 1;
    context_first();
    SanitizerResult r = mt_sanitizer()->AddPatches(image, c->handle);
    if (r)
        snprintf(why, sizeof why, "patches cannot be loaded there: %s", mt_sanitizer_text(r));
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
    int n = name_of_system(
        0); /* the line of the first allocation needs it, and the driver cannot be called here */
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

void mt_inject_device_is(int device)
{
    static atomic_int settled;
    if (atomic_exchange(&settled, 1))
        return;
    if (name_wait() && device >= 0 && device < DEVICES && devices[device].name[0]) {
        mt_trace_device("gpu", devices[device].name, (unsigned)devices[device].sms);
        return;
    }
    name_of_system(1);
    mt_trace_device("gpu", system_name, 0);
}

/* ---- begin and end of contexts ---- */

void mt_inject_context_new(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceContextData *d = data;
    (void)cbid;
    mt_inject_context(d->context);
    context_first();
    name_begin();
}

/* Ends the launches under way with the records that have arrived; the driver is about to free the memory. */
void mt_inject_context_ends(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceContextData *d = data;
    pthread_mutex_lock(&lock);
    struct mt_inject_context *c = context_find(d->context);
    pthread_mutex_unlock(&lock);
    (void)cbid;
    if (!c)
        return;
    if (c->rings && !mt_rings_closed()) {
        mt_inject_drain(c, "their context was destroyed");
        mt_rings_retire(c->rings);
    }
    inject_streams_end(d->context);
    pthread_mutex_lock(&lock);
    c->handle = NULL;
    pthread_mutex_unlock(&lock);
}

/* ---- modules: those with kernels to trace are patched ---- */

/* Patching is serialised, as the API demands. The list is searched at every launch. */
static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mt_inject_module *modules;

struct mt_inject_module *mt_inject_module(CUmodule handle)
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
    const char *function;
    int spaces, since; /* since: 0, or older libraries do not know it */
} patches[] = {
#define MT_PATCH(instruction, number, function, what, since)                                                 \
    {(Sanitizer_InstructionId)(number), #function, what, since},
#include "gpu/patch/patch.def"
};

static int module_spaces(void)
{
    const char *asked = mt_options()->spaces;
    return (strstr(asked, "shared") ? SHARED : 0) | (strstr(asked, "local") ? LOCAL : 0);
}

static SanitizerResult module_patch_all(CUmodule handle)
{
    SanitizerResult r = SANITIZER_SUCCESS;
    for (size_t i = 0; i < sizeof patches / sizeof *patches && !r; i++) {
        if (patches[i].spaces && !(patches[i].spaces & module_spaces()))
            continue;
        r = mt_sanitizer()->PatchInstructions(patches[i].id, handle, patches[i].function);
        if (r && patches[i].since)
            r = SANITIZER_SUCCESS;
    }
    return r ? r : mt_sanitizer()->PatchModule(handle);
}

static void module_complain(SanitizerResult r)
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
    else if ((r = module_patch_all(m->handle)))
        m->why = "its code could not be patched";
    pthread_mutex_unlock(&patching);
    if (r)
        module_complain(r);
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

void mt_inject_module_loaded(Sanitizer_CallbackId cbid, const void *data)
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

void mt_inject_module_unloads(Sanitizer_CallbackId cbid, const void *data)
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
    if (m->patched)
        module_drain(m->handle);
    mt_code_unload(m->code);
    free(m);
}

void mt_inject_functions(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceFunctionsLazyLoadedData *d = data;
    struct mt_inject_module *m = mt_inject_module(d->module);
    (void)cbid;
    if (m && m->patched)
        module_place(m);
}
