/* Entry point of the injection library, and table of callbacks. */
#include "base/options.h"
#include "inject.h"
#include "base/source_name.h"
#include "base/file.h"
#include "base/report.h"
#include "trace/events.h"
#include "trace/selection.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- Functions used from Compute Sanitizer's API ---- */

#define LIBRARY "libsanitizer-public.so"

static struct mt_sanitizer functions;

static const struct {
    const char *name;
    size_t at;
} api_rows[] = {
#define MT_SANITIZER_ROW(name) {"sanitizer" #name, offsetof(struct mt_sanitizer, name)},
    MT_SANITIZER_FUNCTIONS(MT_SANITIZER_ROW)};

/* Builds the path given by the option. */
static void api_path(char *out, size_t size)
{
    const char *option = mt_options()->sanitizer;
    struct stat st;
    int folder = *option && stat(option, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(out, size, folder ? "%s/" LIBRARY : "%s", *option ? option : LIBRARY);
}

static int api_resolve(void *library, const char *path, char *why, size_t size)
{
    for (size_t i = 0; i < sizeof api_rows / sizeof *api_rows; i++) {
        void *f = dlsym(library, api_rows[i].name);
        if (!f) {
            snprintf(why, size, "%.400s has no %s: it is of another version than CUDA 11 to 13", path,
                     api_rows[i].name);
            return -1;
        }
        *(void **)((char *)&functions + api_rows[i].at) = f;
    }
    return 0;
}

/* Opens MEMTRACE_SANITIZER (the library, or its folder), or libsanitizer-public.so by name. Returns 0, or -1
 * with *why set to a sentence. */
static int sanitizer_open(char *why, size_t size)
{
    char path[PATH_MAX];
    api_path(path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return api_resolve(library, path, why, size);
    const char *error = dlerror();
    snprintf(why, size, "%.400s; set MEMTRACE_SANITIZER to NVIDIA's " LIBRARY, error ? error : path);
    return -1;
}

const struct mt_sanitizer *mt_sanitizer(void)
{
    return &functions;
}

const char *mt_sanitizer_text(SanitizerResult r)
{
    const char *text = NULL;
    return functions.GetResultString && !functions.GetResultString(r, &text) && text ? text : "unknown error";
}

struct inject_row {
    Sanitizer_CallbackDomain domain;
    Sanitizer_CallbackId id; /* 0: the whole domain */
    void (*handler)(Sanitizer_CallbackId id, const void *data);
};

#define RESOURCE(name, f) {SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_##name, f},
#define DRIVER(name, f) {SANITIZER_CB_DOMAIN_DRIVER_API, SANITIZER_CBID_DRIVER_API_##name, f},
#define RUNTIME(name, f) {SANITIZER_CB_DOMAIN_RUNTIME_API, SANITIZER_CBID_RUNTIME_API_##name, f},
#define DOMAIN(name, f) {SANITIZER_CB_DOMAIN_##name, 0, f},
static const struct inject_row rows[] = {
#include "rows.def"
};

/* Searches the rows of a domain, which are few; in the long API domains only these functions are enabled. */
static void SANITIZERAPI inject_called(void *unused, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id,
                                       const void *data)
{
    (void)unused;
    if (mt_forked() || !data)
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

/* Enables all rows. A function or domain missing in this version is never called. */
static void inject_enable_all(Sanitizer_SubscriberHandle s)
{
    char why[160];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
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

static const char *inject_why_not(SanitizerResult r)
{
    switch ((int)r) {
    case SANITIZER_ERROR_MAX_LIMIT_REACHED:
        return "another tool on NVIDIA's Compute Sanitizer API is in the process (compute-sanitizer?), and "
               "there can be one only";
    case SANITIZER_ERROR_NOT_INITIALIZED:
    case SANITIZER_ERROR_NOT_COMPATIBLE:
        return "the GPU's driver is too old, or does not go with this libsanitizer-public.so";
    default:
        return mt_sanitizer_text(r);
    }
}

static void inject_start(void)
{
    Sanitizer_SubscriberHandle s;
    char why[512];
    if (sanitizer_open(why, sizeof why) || !mt_inject_image(why, sizeof why)) {
        mt_report("nothing is traced: %s", why);
        return;
    }
    SanitizerResult r = mt_sanitizer()->Subscribe(&s, inject_called, NULL);
    if (r) {
        mt_report("nothing is traced: %s", inject_why_not(r));
        return;
    }
    inject_enable_all(s);
    mt_say("kernels are traced by NVIDIA's Compute Sanitizer API");
}

/* NVTX may load this library before the driver does. */
__attribute__((constructor)) static void inject_loaded(void)
{
    mt_registered = 1;
}

/* Called by the driver when the program initialises CUDA. Some driver versions ignore the result; the program
 * continues in any case. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    static atomic_int started;
    if (atomic_exchange(&started, 1) || !mt_tracing())
        return 1;
    mt_fork_counts();
    mt_demangle_prepare();
    inject_start();
    return 1;
}

/* Runs after the program's own exit handlers; launches have ended before (context.c). */
__attribute__((destructor)) static void inject_finish(void)
{
    mt_nvtx_finish();
    mt_trace_finish();
}
