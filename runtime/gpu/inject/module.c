/* Modules that the program loads: those that have kernels to be traced are patched. */
#define _GNU_SOURCE
#include "base/demangle.h"
#include "base/options.h"
#include "base/report.h"
#include "code.h"
#include "inject.h"
#include "trace/selection.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Patching is one thing at a time, as the API says. The list is asked at every launch. */
static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mt_inject_module *modules;

struct mt_inject_module *mt_inject_module(CUmodule handle)
{
    pthread_mutex_lock(&lock);
    struct mt_inject_module *m = modules;
    while (m && m->handle != handle)
        m = m->next;
    pthread_mutex_unlock(&lock);
    return m;
}

/* ---- which are to be patched ---- */

static int module_may(void *unused, const char *mangled)
{
    (void)unused;
    char *name = mt_demangle_name(mangled);
    int may = !name || !mt_selection_never(name);
    free(name);
    return may;
}

/* The functions by which device code launches kernels are in the cubin's table of symbols. */
static int module_launches(const char *cubin, size_t bytes)
{
    static const char *const names[] = {"cudaLaunchDevice", "cudaCDP2LaunchDevice"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memmem(cubin, bytes, names[i], strlen(names[i])))
            return 1;
    return 0;
}

/* ---- patching ---- */

enum { GLOBAL = 0, SHARED = 1, LOCAL = 2, ON_CHIP = SHARED | LOCAL }; /* of which memory */
static const struct {
    Sanitizer_InstructionId id;
    const char *function;
    int spaces, since; /* since: 0, or an older library does not know it */
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
    if (mt_inject_context_ready(m->context))
        m->why = "its GPU's memory has no rings or no patches";
    else if ((r = module_patch_all(m->handle)))
        m->why = "its code could not be patched";
    pthread_mutex_unlock(&patching);
    if (r)
        module_complain(r);
    m->patched = !m->why;
}

/* ---- where its functions are ---- */

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
    pthread_mutex_lock(&lock);
    m->next = modules;
    modules = m;
    pthread_mutex_unlock(&lock);
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

/* Records of its kernels are given their places before those are another module's. */
static void module_drain(CUmodule handle)
{
    mt_flight_end(&(struct mt_flight_filter){.module = handle}, 1, NULL, NULL);
}

void mt_inject_module_unloads(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceModuleData *d = data;
    struct mt_inject_module **at = &modules, *m;
    (void)cbid;
    pthread_mutex_lock(&lock);
    while ((m = *at) && m->handle != d->module)
        at = &m->next;
    if (m)
        *at = m->next;
    pthread_mutex_unlock(&lock);
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
