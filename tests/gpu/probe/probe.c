/* libprobe.so: says what NVIDIA's API does on this machine, one line for each answer, with nothing of
 * memtrace's in the process. The driver loads it (CUDA_INJECTION64_PATH), or the linker (LD_PRELOAD, with
 * PROBE_ENTRY=constructor). PROBE_LIBRARY  path of libsanitizer-public.so PROBE_PATCHES  path of the image of
 * patches.cu PROBE_OUT      file that lines are added to; unset: stderr PROBE_IDS      patches nothing; asks
 * which instructions could be PROBE_SPIN     part of the name of the kernel that runs until the host says so
 */
#define _GNU_SOURCE
#include "probe.h"
#include <sanitizer.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FUNCTIONS(F)                                                                                         \
    F(Subscribe)                                                                                             \
    F(EnableDomain)                                                                                          \
    F(GetResultString)                                                                                       \
    F(Alloc)                                                                                                 \
    F(AllocHost)                                                                                             \
    F(MemcpyHostToDeviceAsync)                                                                               \
    F(MemcpyDeviceToHost)                                                                                    \
    F(StreamSynchronize)                                                                                     \
    F(GetStreamHandle)                                                                                       \
    F(AddPatches)                                                                                            \
    F(PatchInstructions)                                                                                     \
    F(PatchModule)                                                                                           \
    F(SetLaunchCallbackData)                                                                                 \
    F(GetFunctionPcAndSize)                                                                                  \
    F(GetCallbackPcAndSize)
#define MEMBER(name) static __typeof__(sanitizer##name) *api_##name;
FUNCTIONS(MEMBER)

enum { LAUNCHES = 4096, MODULES = 256, DOMAINS = 14, LAST_ID = 60, EXIT = 2, ACCESS = 3 };

/* ---- lines ---- */

static int out = 2;
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t probe_hash(const char *s)
{
    uint64_t h = 14695981039346656037u;
    while (*s)
        h = (h ^ (unsigned char)*s++) * 1099511628211u;
    return h;
}

static int probe_known(uint64_t hash)
{
    static uint64_t known[512];
    static unsigned n;
    for (unsigned i = 0; i < n; i++)
        if (known[i] == hash)
            return 1;
    if (n < 512)
        known[n++] = hash;
    return n == 512;
}

/* Writes each line once. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[2048];
    va_list words;
    va_start(words, format);
    int n = vsnprintf(line, sizeof line - 1, format, words);
    va_end(words);
    n = n > (int)sizeof line - 2 ? (int)sizeof line - 2 : n;
    pthread_mutex_lock(&line_lock);
    if (!probe_known(probe_hash(line))) {
        line[n] = '\n';
        if (write(out, line, (size_t)n + 1) < 0)
            out = 2;
    }
    pthread_mutex_unlock(&line_lock);
}

static const char *probe_text(SanitizerResult r)
{
    const char *words = NULL;
    return !r ? "good" : api_GetResultString(r, &words) || !words ? "unknown" : words;
}

static double probe_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- launches ---- */

struct launch {
    char name[100];
    const char *how;
    CUmodule module;
    uint32_t threads;
};
static struct launch launches[LAUNCHES];
static atomic_uint launched;
static struct probe_counts *counts;      /* on the GPU, of each launch */
static volatile struct probe_seen *seen; /* on the host */
static CUcontext patched;                /* the context that both are in */
static CUmodule modules[MODULES];
static atomic_uint loaded;
static atomic_ulong called[DOMAINS];

static int probe_is_spin(const char *name)
{
    const char *spin = getenv("PROBE_SPIN");
    return strstr(name, spin ? spin : "spin") != NULL;
}

/* A kernel of that name has begun and has not ended. */
static int probe_spins(void)
{
    unsigned n = launched < LAUNCHES ? launched : LAUNCHES;
    for (unsigned i = 0; seen && i < n; i++)
        if (probe_is_spin(launches[i].name) && seen[i].began && !seen[i].ended)
            return 1;
    return 0;
}

/* Milliseconds until the kernel of launch i has made an access, as the host sees it; -1: not within
 * `patience`. */
static double probe_wait(unsigned i, double patience)
{
    double begin = probe_now();
    while (!seen[i].began && probe_now() - begin < patience)
        usleep(100);
    return seen[i].began ? probe_now() - begin : -1;
}

/* ---- the words of a call: what came between its begin and its end ---- */

static _Thread_local struct {
    char words[600], last[80];
    unsigned times, depth, launches, first;
} call;

static void probe_flush(void)
{
    size_t n = strlen(call.words);
    if (call.times && n + 100 < sizeof call.words)
        snprintf(call.words + n, sizeof call.words - n, call.times > 1 ? " %s (%u times)" : " %s", call.last,
                 call.times);
    call.times = 0;
}

static void probe_word(const char *word)
{
    if (call.times && strcmp(call.last, word))
        probe_flush();
    snprintf(call.last, sizeof call.last, "%s", word);
    call.times++;
}

/* ---- what is known at a wait ---- */

static void probe_pc(unsigned i, const struct probe_counts *c)
{
    uint64_t pc = 0, size = 0, patch = 0, bytes = 0;
    SanitizerResult r = api_GetFunctionPcAndSize(launches[i].module, launches[i].name, &pc, &size);
    SanitizerResult s = api_GetCallbackPcAndSize(patched, "probe_exit", &patch, &bytes);
    if (r)
        say("pc: at a wait, of %s: %s", launches[i].name, probe_text(r));
    else if (c->access_pc)
        say("pc: %s: its access is at +0x%llx of %llu bytes", launches[i].name,
            (unsigned long long)(c->access_pc - pc), (unsigned long long)size);
    if (!r && !s)
        say("patches: %lld MiB from the program's code", (long long)(patch - pc) / 1048576);
    else if (s)
        say("patches: their place: %s", probe_text(s));
}

/* Copies the counters back, and says what they are. */
static void probe_counts_said(const char *when)
{
    static struct probe_counts copy[LAUNCHES];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    unsigned n = launched < LAUNCHES ? launched : LAUNCHES;
    if (!counts || !n)
        return;
    pthread_mutex_lock(&lock);
    SanitizerResult r = api_MemcpyDeviceToHost(copy, counts, n * sizeof *copy, NULL);
    say("copy to the host %s: %s", when, probe_text(r));
    for (unsigned i = 0; i < n && !r; i++) {
        if (!launches[i].how)
            continue;
        say("exits: %s, %s: %u of %u threads, %u accesses", launches[i].how, launches[i].name, copy[i].exits,
            launches[i].threads, copy[i].accesses);
        if (copy[i].exits)
            probe_pc(i, &copy[i]);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- callbacks ---- */

/* The call that made this one launch has ended. */
static void probe_launched(unsigned i, int status)
{
    struct launch *l = &launches[i];
    if (status)
        l->how = "refused launch";
    else if (l->how && !strcmp(l->how, "launch") && probe_is_spin(l->name) && !getenv("PROBE_IDS"))
        say(probe_wait(i, 2000) < 0 ? "memory of AllocHost: nothing is seen while the kernel runs"
                                    : "memory of AllocHost: a store is seen while the kernel runs");
}

static void probe_exited(const Sanitizer_CallbackData *d)
{
    char word[40];
    int status = d->functionReturnValue ? *(const int *)d->functionReturnValue : 0;
    snprintf(word, sizeof word, status ? "}=%d" : "}", status);
    probe_word(word);
    if (status >= 700 && status < 720 && status != 701 && status != 720) {
        snprintf(word, sizeof word, "after error %d", status);
        probe_counts_said(word);
    } else if (!status &&
               (strstr(d->functionName, "CtxSynchronize") || strstr(d->functionName, "DeviceSynchronize")))
        probe_counts_said("at the end of a call that waits");
    if (call.depth && --call.depth)
        return;
    probe_flush();
    if (call.launches)
        say("order:%s", call.words);
    if (call.launches == 1 && call.first < LAUNCHES)
        probe_launched(call.first, status);
}

static void probe_api(const Sanitizer_CallbackData *d)
{
    char word[100];
    if (d->callbackSite == SANITIZER_API_EXIT) {
        probe_exited(d);
        return;
    }
    if (!call.depth++)
        call.words[0] = 0, call.times = call.launches = 0;
    snprintf(word, sizeof word, "%.70s{", d->functionName);
    probe_word(word);
}

static int probe_module_is_known(CUmodule m)
{
    for (unsigned i = 0; i < MODULES && i < loaded; i++)
        if (modules[i] == m)
            return 1;
    return 0;
}

static void probe_stream(const Sanitizer_LaunchData *l)
{
    Sanitizer_StreamHandle h = NULL;
    if (!l->stream && !api_GetStreamHandle(l->context, NULL, &h))
        say("default stream: a launch's handle is %s as that of GetStreamHandle",
            h == l->hStream ? "the same" : "not the same");
}

/* Gives the launch counters of its own. */
static void probe_launch(const Sanitizer_LaunchData *l, Sanitizer_StreamHandle stream, const char *how)
{
    unsigned i = launched++;
    const char *name = l->functionName ? l->functionName : "no name";
    if (!call.launches++)
        call.first = i;
    if (!probe_module_is_known(l->module))
        say("a kernel whose module was not called back: %s", name);
    if (i >= LAUNCHES || !counts || l->context != patched)
        return;
    struct launch *new = &launches[i];
    snprintf(new->name, sizeof new->name, "%s", name);
    new->how = how, new->module = l->module;
    new->threads = l->gridDim_x * l->gridDim_y * l->gridDim_z * l->blockDim_x * l->blockDim_y * l->blockDim_z;
    SanitizerResult r = api_SetLaunchCallbackData(l->hLaunch, l->function, stream, &counts[i]);
    say("SetLaunchCallbackData, %s: %s", how, probe_text(r));
}

static void probe_launch_event(Sanitizer_CallbackId id, const Sanitizer_LaunchData *l)
{
    probe_word(id == SANITIZER_CBID_LAUNCH_BEGIN ? "LAUNCH_BEGIN"
               : id == SANITIZER_CBID_LAUNCH_END ? "LAUNCH_END"
                                                 : "LAUNCH_SETUP");
    if (id != SANITIZER_CBID_LAUNCH_BEGIN)
        return;
    probe_stream(l);
    probe_launch(l, l->hStream, "launch");
}

/* Waits in the second node's callback: do nodes start while others are still called back? */
static void probe_node_order(unsigned first)
{
    static atomic_int asked;
    if (call.launches != 2 || first >= LAUNCHES || !seen || asked++)
        return;
    say(probe_wait(first, 200) < 0
            ? "nodes: the first one has not started in the second one's callback"
            : "nodes: the first one starts before the second one's callback has returned");
}

static void probe_graph(Sanitizer_CallbackId id, const void *data)
{
    static const char *const names[] = {"",           "EXEC_CREATING", "EXEC_CREATED", "EXEC_DESTROYING",
                                        "NODE_BEGIN", "NODE_END",      "GRAPH_BEGIN",  "GRAPH_END"};
    const Sanitizer_GraphNodeLaunchData *n = data;
    probe_word(id < 8 ? names[id] : "GRAPH_OTHER");
    if (id != SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN || n->nodeType != CU_GRAPH_NODE_TYPE_KERNEL)
        return;
    unsigned before = call.first;
    probe_launch(&n->launchData, n->launchData.hStream, n->isGraphUpload ? "node of an upload" : "node");
    probe_node_order(before);
}

/* ---- modules ---- */

static void *probe_file(const char *path)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    void *bytes = f ? calloc(1, 16 << 20) : NULL;
    if (bytes && !fread(bytes, 1, 16 << 20, f))
        bytes = NULL;
    if (f)
        fclose(f);
    return bytes;
}

static void *probe_device(CUcontext c, size_t bytes)
{
    void *p = NULL;
    SanitizerResult r = api_Alloc(c, &p, bytes);
    say("Alloc in a callback: %s", probe_text(r));
    return r ? NULL : p;
}

static void *probe_host(CUcontext c, size_t bytes)
{
    void *p = NULL;
    SanitizerResult r = api_AllocHost(c, &p, bytes);
    say("AllocHost in a callback: %s", probe_text(r));
    if (!r)
        memset(p, 0, bytes);
    return r ? NULL : p;
}

/* Counters of all launches, the first time. */
static void probe_memory(CUcontext c)
{
    static struct probe_counts first[LAUNCHES];
    seen = probe_host(c, LAUNCHES * sizeof *seen);
    struct probe_counts *p = seen ? probe_device(c, sizeof first) : NULL;
    for (int i = 0; i < LAUNCHES && p; i++)
        first[i].seen = (uint64_t)(uintptr_t)&seen[i];
    Sanitizer_StreamHandle h = NULL;
    SanitizerResult r = p ? api_GetStreamHandle(c, NULL, &h) : SANITIZER_ERROR_UNKNOWN;
    r = r ? r : api_MemcpyHostToDeviceAsync(p, first, sizeof first, h);
    r = r ? r : api_StreamSynchronize(h);
    say("copy to the GPU in the callback of a loaded module: %s", probe_text(r));
    counts = r ? NULL : p;
}

static void probe_context(CUcontext c)
{
    const void *image = probe_file(getenv("PROBE_PATCHES"));
    SanitizerResult r = image ? api_AddPatches(image, c) : SANITIZER_ERROR_INVALID_PARAMETER;
    patched = c;
    say("AddPatches: %s%s", probe_text(r), image ? "" : " (PROBE_PATCHES cannot be read)");
    if (!r)
        probe_memory(c);
}

static void probe_ids(CUmodule m)
{
    char words[400] = "";
    for (int i = 1; i <= LAST_ID; i++) {
        SanitizerResult r = api_PatchInstructions((Sanitizer_InstructionId)i, m, "probe_exit");
        snprintf(words + strlen(words), sizeof words - strlen(words), r ? "" : " %d", i);
    }
    say("instructions that can be patched:%s", words);
}

static void probe_patch(CUmodule m)
{
    int spins = probe_spins();
    double begin = probe_now();
    SanitizerResult exits = api_PatchInstructions((Sanitizer_InstructionId)EXIT, m, "probe_exit");
    SanitizerResult accesses = api_PatchInstructions((Sanitizer_InstructionId)ACCESS, m, "probe_access");
    SanitizerResult r = api_PatchModule(m);
    say("PatchInstructions: exits %s, accesses %s; PatchModule: %s", probe_text(exits), probe_text(accesses),
        probe_text(r));
    if (spins)
        say("PatchModule beside a kernel that runs: %s, %s", probe_text(r),
            probe_spins() ? "the kernel still runs" : "the kernel has ended: it was waited for");
    if (probe_now() - begin > 1000)
        say("patching a module took %.1f s", (probe_now() - begin) / 1e3);
}

static void probe_module(const Sanitizer_ResourceModuleData *d)
{
    unsigned i = loaded++;
    if (i < MODULES)
        modules[i] = d->module;
    if (!patched)
        probe_context(d->context);
    if (d->context != patched)
        say("a second context");
    else if (getenv("PROBE_IDS"))
        probe_ids(d->module);
    else
        probe_patch(d->module);
}

/* ---- other resources ---- */

/* Where stream and handle are: after the context, or after a green context. */
static void probe_new_stream(void *const *word)
{
    Sanitizer_StreamHandle h = NULL;
    for (int at = 1; at <= 2; at++)
        if (word[at + 1] && !api_GetStreamHandle(word[0], word[at], &h) && (void *)h == word[at + 1]) {
            say("a stream's data: %s",
                at == 1 ? "context, stream, handle" : "context, green context, stream, handle");
            return;
        }
    say("a stream's data: unknown layout");
}

/* Which word of an event's data is the default stream's handle. */
static void probe_event(Sanitizer_CallbackId id, void *const *word)
{
    Sanitizer_StreamHandle h = NULL;
    if (id != SANITIZER_CBID_EVENTS_RECORD || api_GetStreamHandle(word[1], NULL, &h))
        return;
    for (int at = 2; at < 6; at++)
        if (word[at] == (void *)h) {
            say("a recorded event's data: the default stream's handle is word %d", at);
            return;
        }
}

static void probe_resource(Sanitizer_CallbackId id, const void *data)
{
    const Sanitizer_ResourceFunctionsLazyLoadedData *f = data;
    if (id == SANITIZER_CBID_RESOURCE_MODULE_LOADED)
        probe_module(data);
    else if (id == SANITIZER_CBID_RESOURCE_STREAM_CREATED)
        probe_new_stream(data);
    else if (id == SANITIZER_CBID_RESOURCE_FUNCTIONS_LAZY_LOADED)
        say("functions are loaded lazily, of a module that %s",
            probe_module_is_known(f->module) ? "is known" : "is not known");
}

static void probe_fill(const Sanitizer_MemsetData *d)
{
    say("fill: width %llu, height %llu, elements of %u bytes", (unsigned long long)d->width,
        (unsigned long long)d->height, d->elementSize);
}

static void probe_copy(const Sanitizer_MemcpyData *d)
{
    say("copy: %llu bytes, width %llu, height %llu, direction %d", (unsigned long long)d->size,
        (unsigned long long)d->width, (unsigned long long)d->height, (int)d->direction);
}

static void SANITIZERAPI probe_called(void *unused, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id,
                                      const void *data)
{
    (void)unused;
    called[(int)domain < DOMAINS ? (int)domain : 0]++;
    switch (data ? (int)domain : 0) {
    case SANITIZER_CB_DOMAIN_DRIVER_API:
    case SANITIZER_CB_DOMAIN_RUNTIME_API:
        probe_api(data);
        break;
    case SANITIZER_CB_DOMAIN_RESOURCE:
        probe_resource(id, data);
        break;
    case SANITIZER_CB_DOMAIN_LAUNCH:
        probe_launch_event(id, data);
        break;
    case SANITIZER_CB_DOMAIN_GRAPHS:
        probe_graph(id, data);
        break;
    case SANITIZER_CB_DOMAIN_SYNCHRONIZE:
        if (id == SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED)
            probe_counts_said("in the callback of a wait");
        break;
    case SANITIZER_CB_DOMAIN_MEMSET:
        probe_fill(data);
        break;
    case SANITIZER_CB_DOMAIN_MEMCPY:
        if (id == SANITIZER_CBID_MEMCPY_STARTING)
            probe_copy(data);
        break;
    case SANITIZER_CB_DOMAIN_EVENTS:
        probe_event(id, data);
        break;
    }
}

/* ---- entry and end ---- */

static int probe_open(const char *path)
{
    void *library = dlopen(path ? path : "libsanitizer-public.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        say("library: %s", dlerror());
        return -1;
    }
#define LOOK_UP(name)                                                                                        \
    if (!(*(void **)&api_##name = dlsym(library, "sanitizer" #name))) {                                      \
        say("library: it has no sanitizer" #name);                                                           \
        return -1;                                                                                           \
    }
    FUNCTIONS(LOOK_UP)
    return 0;
}

static void probe_start(const char *entry)
{
    static atomic_int started;
    Sanitizer_SubscriberHandle s;
    const char *path = getenv("PROBE_OUT");
    if (started++)
        return;
    if (path)
        out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (probe_open(getenv("PROBE_LIBRARY")))
        return;
    SanitizerResult r = api_Subscribe(&s, probe_called, NULL);
    say("entry: %s; Subscribe: %s", entry, probe_text(r));
    for (int i = 1; i < DOMAINS && !r; i++) {
        SanitizerResult e = api_EnableDomain(1, s, (Sanitizer_CallbackDomain)i);
        if (e)
            say("callbacks of domain %d: %s", i, probe_text(e));
    }
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    probe_start("InitializeInjection, called by the driver");
    return 1;
}

__attribute__((constructor)) static void probe_loaded(void)
{
    if (getenv("PROBE_ENTRY"))
        probe_start("a constructor");
}

__attribute__((destructor)) static void probe_ended(void)
{
    char words[300] = "";
    for (int i = 1; i < DOMAINS; i++)
        if (called[i])
            snprintf(words + strlen(words), sizeof words - strlen(words), " %d: %lu,", i, called[i]);
    say("callbacks of each domain:%s", words[0] ? words : " none was made");
}
