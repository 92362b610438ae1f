/* What the program registered: fat binaries with their kernels and variables. */
#define _GNU_SOURCE
#include "module.h"
#include "device.h"
#include "entry.h"
#include "error.h"
#include "heap.h"
#include "made.h"
#include "map.h"
#include "plain.h"
#include "trace/events.h"
#include "trace/nvtx.h"
#include "base/report.h"
#include "base/fork.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* before the other: an image may take seconds */
MT_FORK_LOCK(making, MT_FORK_MODULES);
static pthread_mutex_t lock =
    PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* loading runs an image's constructors */
MT_FORK_ENTRY(lock, &lock, MT_FORK_RECURSIVE, MT_FORK_MODULES);
static struct mt_module *modules, **modules_end = &modules;
static _Atomic unsigned unloaded;
static int to_gpu, symbols_logged;
static struct mt_map functions = MT_MAP_INIT, variables = MT_MAP_INIT;
MT_FORK_TABLE(functions);
MT_FORK_TABLE(variables);

static void module_enter(void)
{
    pthread_mutex_lock(&lock);
}

static void module_leave(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- loading ---- */

static void bind_functions(struct mt_module *m)
{
    for (struct mt_function *f = m->functions; f; f = f->next)
        f->kernel = m->image ? mt_image_find_kernel(m->image, f->name) : NULL;
}

static void bind_variables(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next) {
        const struct mt_image_var *iv = m->image ? mt_image_find_var(m->image, v->name) : NULL;
        v->address = iv ? (void *)(uintptr_t)iv->address : NULL;
        if (v->managed && v->address)
            *v->managed = v->address;
    }
}

/* All variables of the image, registered or not, are memory that kernels may touch. */
static void list_variables(const struct mt_image *image)
{
    const struct mt_image_var *v = image->head->vars;
    for (uint32_t i = 0; i < image->head->nvars; i++, v++) {
        if (!mt_image_owns(image, v->address)) /* an inline variable: another image's is the one */
            continue;
        mt_heap_adopt((void *)(uintptr_t)v->address, v->size, MT_HEAP_SYMBOL, v->kind);
        mt_event_alloc((uint64_t)(uintptr_t)v->address, v->size, "symbol", v->name, NULL);
    }
}

const void *const *mt_module_fatbins(const struct mt_module *m, size_t *n)
{
    if (!m->fatbins)
        return mt_image_fatbins(m->wrapper, n);
    *n = m->nfatbins;
    return m->fatbins;
}

/* What an image says of itself, on both devices. */
static void bind_tables(struct mt_module *m)
{
    for (const struct mt_image *i = m->image; i; i = i->peer)
        mt_event_sites(i);
    bind_functions(m);
}

/* Its tables; once. */
static void load_image(struct mt_module *m)
{
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    if (m->tried)
        return;
    m->tried = 1;
    if (mt_device_cudart()) /* a GPU runs the code, and not this processor */
        mt_image_tables_only();
    else if (fatbins && !mt_image_carried(fatbins, n))
        m->foreign = 1;
    if (m->foreign)
        return;
    m->image = fatbins ? mt_image_load_all(fatbins, n, &m->why) : mt_image_load(m->wrapper, &m->why);
    m->too_old = m->why == mt_image_too_old;
    m->limited = m->why == mt_image_limit;
    if (!m->image && m->why)
        m->why = strdup(m->why);
    bind_tables(m);
}

static void bind_addresses(struct mt_module *m)
{
    bind_variables(m);
    for (const struct mt_image *i = m->image; i; i = i->peer)
        list_variables(i);
}

static void module_load(struct mt_module *m)
{
    m->loaded = 1;
    load_image(m);
    if (!mt_device_is_gpu()) /* names and sites are the image's, addresses are not */
        bind_addresses(m);
}

void mt_module_bind(struct mt_module *m, struct mt_image *image, const char *why)
{
    module_enter();
    m->image = image;
    m->why = why;
    bind_tables(m);
    bind_addresses(m);
    module_leave();
}

/* Something of it is needed. */
static void module_need(struct mt_module *m)
{
    if (!m->foreign || m->made)
        return;
    pthread_mutex_lock(&making);
    if (!m->made) {
        const char *why = NULL;
        struct mt_image *image = mt_made_image(m, &why);
        mt_module_bind(m, image, why);
        m->made = 1;
    }
    pthread_mutex_unlock(&making);
}

void mt_modules_load(void)
{
    if (!unloaded)
        return;
    mt_device_is_gpu(); /* decided before the lock is taken: deciding takes it */
    module_enter();
    for (struct mt_module *m = modules; m; m = m->next)
        if (!m->loaded) {
            module_load(m);
            unloaded--; /* at the end: other threads' lookups pass the lock by when nothing is left to load */
        }
    module_leave();
}

void mt_module_complain(struct mt_module *m, const char *kernel)
{
    module_enter();
    int said = m->said;
    m->said = 1;
    module_leave();
    if (!said && m->limited)
        mt_report("kernel %s cannot run on the CPU device: %s", kernel, m->why ? m->why : "no memory");
    else if (!said && m->foreign)
        mt_report("%s has no code for the CPU device: %s; mt-cc compiles its file with such code", kernel,
                  m->why ? m->why : "there is no memory");
    else if (!said)
        mt_report(
            "kernel %s cannot run on the CPU device: %s; compile its file with mt-cc (without --plain: "
            "MEMTRACE_ENABLE=0 runs a program untraced), or with clang++ -fplugin=libMemtrace-AA.so and "
            "--cuda-path=<build>/cuda-overlay",
            kernel, m->why ? m->why : "its file has no CPU image");
}

void mt_module_untraced(struct mt_module *m, const char *kernel)
{
    module_enter();
    int said = m->said || m->too_old;
    m->said = 1;
    module_leave();
    if (!said)
        mt_note("kernel %s and others of its file run on the GPU without a trace: %s", kernel,
                m->why ? m->why : "its file has no CPU image");
}

/* ---- lookup ---- */

struct mt_function *mt_function_find(const void *host)
{
    mt_modules_load();
    struct mt_function *f = host ? mt_map_get(&functions, host) : NULL;
    if (f)
        module_need(f->module);
    return f;
}

cudaKernel_t mt_function_handle(struct mt_function *f)
{
    return (cudaKernel_t)f;
}

void mt_function_alias(const void *alias, struct mt_function *f)
{
    mt_map_set(&functions, alias, f);
}

struct mt_variable *mt_variable_find(const void *host)
{
    mt_modules_load();
    struct mt_variable *v = host ? mt_map_get(&variables, host) : NULL;
    if (v)
        module_need(v->module);
    return v;
}

/* ---- the real runtime ---- */

static void register_real(struct mt_module *m)
{
    if (!mt_device_cudart())
        return;
    if (m->fatbins) {
        mt_report("device code of several files (-fgpu-rdc) is not linked for the GPU: link the program with "
                  "mt-cc");
        return;
    }
    m->real = MT_NEXT(__cudaRegisterFatBinary)((void *)(uintptr_t)m->wrapper);
    load_image(m);
    if (m->too_old && m->functions) /* they would take an argument that nobody gives */
        mt_report("kernel %s and others of its file cannot run: %s", m->functions->name, m->why);
    for (struct mt_function *f = m->too_old ? NULL : m->functions; f; f = f->next)
        mt_plain_register(m->real, f);
    for (struct mt_variable *v = m->variables; v; v = v->next)
        if (v->managed)
            MT_NEXT(__cudaRegisterManagedVar)
    (m->real, v->managed, v->device, v->name, v->ext, v->size, v->constant, v->global);
    else MT_NEXT(__cudaRegisterVar)(m->real, (char *)(uintptr_t)v->host, v->device, v->name, v->ext, v->size,
                                    v->constant, v->global);
    MT_NEXT(__cudaRegisterFatBinaryEnd)(m->real);
}

void mt_modules_to_gpu(void)
{
    module_enter();
    to_gpu = 1;
    for (struct mt_module *m = modules; m; m = m->next)
        register_real(m);
    module_leave();
}

void mt_modules_log_symbols(void)
{
    if (symbols_logged)
        return;
    int clean = mt_error_hold();
    module_enter();
    for (struct mt_module *m = modules; m && !symbols_logged; m = m->next)
        for (struct mt_variable *v = m->variables; v; v = v->next) {
            void *p;
            const void *symbol = v->managed ? (const void *)v->managed : v->host;
            if (!MT_NEXT(cudaGetSymbolAddress)(&p, symbol))
                mt_event_alloc((uint64_t)(uintptr_t)p, v->size, "symbol", v->name, NULL);
        }
    symbols_logged = 1;
    module_leave();
    mt_error_release(clean);
}

/* ---- registration, as compiled code calls it ---- */

void **REC(__cudaRegisterFatBinary)(void *wrapper)
{
    struct mt_module *m = calloc(1, sizeof *m);
    if (!m) {
        mt_report("out of memory: a fat binary is not registered");
        return NULL;
    }
    m->wrapper = wrapper;
    mt_registered = 1;
    module_enter();
    *modules_end = m;
    modules_end = &m->next;
    unloaded++;
    module_leave();
    return (void **)m;
}

void REC(__cudaRegisterFunction)(void **handle, const char *host, char *device, const char *name,
                                 int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    struct mt_module *m = (struct mt_module *)handle;
    struct mt_function *f = m ? calloc(1, sizeof *f) : NULL;
    if (!f || !(f->name = strdup(name)) || mt_map_set(&functions, host, f) || mt_map_set(&functions, f, f)) {
        mt_report("out of memory: kernel %s is not registered", name);
        return;
    }
    f->host = host;
    f->device = device;
    f->thread_limit = thread_limit;
    f->module = m;
    f->dynamic_shared_max = f->carveout = -1;
    module_enter();
    f->next = m->functions;
    m->functions = f;
    if (m->image)
        f->kernel = mt_image_find_kernel(m->image, f->name);
    module_leave();
}

static void add_variable(void **handle, const void *host, void **managed, char *device, const char *name,
                         int ext, size_t size, int constant, int global)
{
    struct mt_module *m = (struct mt_module *)handle;
    struct mt_variable *v = m ? calloc(1, sizeof *v) : NULL;
    if (!v || !(v->name = strdup(name)) || mt_map_set(&variables, host, v)) {
        mt_report("out of memory: device variable %s is not registered", name);
        return;
    }
    v->host = host;
    v->managed = managed;
    v->device = device;
    v->ext = ext;
    v->size = size;
    v->constant = constant;
    v->global = global;
    v->module = m;
    module_enter();
    v->next = m->variables;
    m->variables = v;
    module_leave();
}

void REC(__cudaRegisterVar)(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                            int constant, int global)
{
    add_variable(handle, host, NULL, device, name, ext, size, constant, global);
}

void REC(__cudaRegisterManagedVar)(void **handle, void **host, char *device, const char *name, int ext,
                                   size_t size, int constant, int global)
{
    add_variable(handle, host, host, device, name, ext, size, constant, global);
}

void REC(__cudaRegisterHostVar)(void **handle, const char *name, char *host, size_t size)
{
    add_variable(handle, host, NULL, host, name, 0, size, 0, 1);
}

/* Texture and surface references: gone from CUDA 12; what uses them is reported where it is called. */
void REC(__cudaRegisterTexture)(void **handle, const void *host, const void **device, const char *name,
                                int dim, int norm, int ext)
{
    mt_say("texture reference %s is not registered: texture references are not supported", name);
}

void REC(__cudaRegisterSurface)(void **handle, const void *host, const void **device, const char *name,
                                int dim, int ext)
{
    mt_say("surface reference %s is not registered: surface references are not supported", name);
}

/* A __managed__ variable's pointer must be right before main. */
static int has_managed(const struct mt_module *m)
{
    for (const struct mt_variable *v = m->variables; v; v = v->next)
        if (v->managed)
            return 1;
    return 0;
}

void REC(__cudaRegisterFatBinaryEnd)(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (!m)
        return;
    module_enter();
    if (to_gpu)
        register_real(m);
    module_leave();
    if (has_managed(m) && !mt_device_is_gpu())
        mt_modules_load();
}

char REC(__cudaInitModule)(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (mt_device_is_gpu())
        return m && m->real ? MT_NEXT(__cudaInitModule)(m->real) : 0;
    mt_modules_load();
    if (m)
        module_need(m);
    return 1;
}

/* Its library goes, with the fat binary and the addresses by which its kernels and variables are known;
 * others may come to lie there. What was launched has all it needs. */
void mt_module_forget(struct mt_module *m)
{
    module_enter();
    for (struct mt_module **at = &modules; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            modules_end = *at ? modules_end : at;
            break;
        }
    if (!m->loaded)
        unloaded--;
    m->loaded = m->tried = m->made = 1;
    for (struct mt_function *f = m->functions; f; f = f->next) {
        mt_map_drop(&functions, f->host, f);
        mt_map_drop(&functions, f, f);
    }
    for (struct mt_variable *v = m->variables; v; v = v->next)
        mt_map_drop(&variables, v->host, v);
    module_leave();
}

void REC(__cudaUnregisterFatBinary)(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (m && m->real)
        MT_NEXT(__cudaUnregisterFatBinary)(m->real);
    if (!m)
        return;
    m->real = NULL;
    mt_module_forget(m);
}

/* Is the handle one of this runtime's; with NULL: has it any? Compiled code asks, and finds out that NVIDIA's
 * was linked. */
__attribute__((visibility("default"))) int __mt_is_registered(void **handle)
{
    module_enter();
    struct mt_module *m = modules;
    while (m && handle && m != (struct mt_module *)handle)
        m = m->next;
    module_leave();
    return m != NULL;
}

/* What each such file refers to: mt-cc's device link has one of its own. */
__attribute__((visibility("default"))) const char __mt_device_linker = 0;

/* The module of a shared object whose files nobody linked, or a new one. */
static struct mt_module *unlinked_module(const void *object)
{
    struct mt_module *m;
    module_enter();
    for (m = modules; m && !(m->fatbins && m->object == object && !m->loaded); m = m->next) {
    }
    module_leave();
    return m ? m : (struct mt_module *)__cudaRegisterFatBinary(NULL);
}

/* A file with relocatable device code (-fgpu-rdc) in a program for which no device linker ran registers
 * itself: the pass gives it a weak definition of what the device linker would make, and that calls this. The
 * images of such files are bound to one another like those of linked ones. */
__attribute__((visibility("default"))) void __mt_register_linked_binary(void (*callback)(void **),
                                                                        const void *wrapper, const void *id,
                                                                        void (*unused)(void *))
{
    const struct {
        int magic, version;
        const void *fatbin;
    } *w = wrapper;
    Dl_info info = {0};
    dladdr(wrapper, &info);
    struct mt_module *m = unlinked_module(info.dli_fbase);
    const void **grown = m ? realloc(m->fatbins, (m->nfatbins + 1) * sizeof *grown) : NULL;
    if (!grown) {
        mt_report("out of memory: device code is not registered");
        return;
    }
    m->object = info.dli_fbase;
    m->fatbins = grown;
    m->fatbins[m->nfatbins++] = w->fatbin;
    callback((void **)m);
}

/* All files of the calling program or library have registered themselves. */
__attribute__((visibility("default"))) void __mt_linked_binaries_done(void)
{
    for (struct mt_module *m = modules; m; m = m->next)
        if (m->fatbins && !m->ended) {
            m->ended = 1;
            __cudaRegisterFatBinaryEnd((void **)m);
        }
}
