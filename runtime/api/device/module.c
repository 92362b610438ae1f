/* What the program registered: fat binaries with their kernels and variables. */
#define _GNU_SOURCE
#include "module.h"
#include "device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "made.h"
#include "api/tables/map.h"
#include "plain.h"
#include "trace/events.h"
#include "trace/nvtx.h"
#include "base/demangle.h"
#include "trace/devices.h"
#include "base/report.h"
#include "base/short.h"
#include "base/fork.h"
#include "heap.h"
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- Device variables as the program registers them ---- */

static struct mt_map variables = MT_MAP_INIT;
MT_FORK_TABLE(variables);

struct mt_variable *mt_variable_find(const void *host)
{
    mt_modules_load();
    struct mt_variable *v = host ? mt_map_get(&variables, host) : NULL;
    if (v)
        mt_module_need(v->module);
    return v;
}

/* ---- registration, as compiled code calls it ---- */

static struct mt_variable *variable_add(void **handle, const void *host, void **managed, char *device,
                                        const char *name, int ext, size_t size, int constant, int global)
{
    struct mt_module *m = (struct mt_module *)handle;
    struct mt_variable *v = m ? calloc(1, sizeof *v) : NULL;
    if (!v || !(v->name = strdup(name)) || mt_map_set(&variables, host, v)) {
        mt_report("out of memory: device variable %s is not registered", mt_short(name).text);
        return NULL;
    }
    v->host = host;
    v->managed = managed;
    v->device = device;
    v->ext = ext;
    v->size = size;
    v->constant = constant;
    v->global = global;
    v->module = m;
    mt_modules_enter();
    v->next = m->variables;
    m->variables = v;
    mt_modules_leave();
    return v;
}

void rec___cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                           int constant, int global)
{
    variable_add(handle, host, NULL, device, name, ext, size, constant, global);
}

void rec___cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                                  size_t size, int constant, int global)
{
    variable_add(handle, host, host, device, name, ext, size, constant, global);
}

/* What the pass makes of the registration of such a variable. */
__attribute__((visibility("default"))) void __mt_register_managed(void **handle, void *host, const char *name,
                                                                  size_t size)
{
    struct mt_variable *v = variable_add(handle, host, NULL, NULL, name, 0, size, 0, 0);
    if (v)
        v->own = 1;
}

void rec___cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size)
{
    variable_add(handle, host, NULL, host, name, 0, size, 0, 1);
}

/* Texture and surface references: gone from CUDA 12; what uses them is reported where it is called. */
void rec___cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name,
                               int dim, int norm, int ext)
{
    mt_say("texture reference %s is not registered: texture references are not supported", name);
}

void rec___cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name,
                               int dim, int ext)
{
    mt_say("surface reference %s is not registered: surface references are not supported", name);
}

/* ---- of a module ---- */

static int variables_are_managed(const struct mt_module *m)
{
    const struct mt_variable *v = m->variables;
    while (v && !v->managed && !v->own)
        v = v->next;
    return v != NULL;
}

void mt_variable_lies(struct mt_variable *v, void *address)
{
    v->address = address;
    if (!v->managed || !address)
        return;
    *v->managed = address;
    if (mt_map_set(&variables, address, v)) /* nvcc's host code names it by that */
        mt_report("out of memory: device variable %s has no address", mt_short(v->name).text);
}

void *mt_variable_address(struct mt_variable *v)
{
    int device = mt_device_current();
    struct mt_image *i = device && v->address ? mt_module_image_on(v->module->image, device) : NULL;
    const struct mt_image_var *var = i ? mt_image_find_var(i, v->name) : NULL;
    return !device ? v->address : var ? mt_image_var_address(var) : NULL;
}

static int variables_are_for_gpu(const struct mt_module *m)
{
    for (const struct mt_variable *v = m->variables; v; v = v->next)
        if (v->own) {
            mt_report("clang 19 has no __managed__ variables for GPUs (%s): the kernels of its file do not "
                      "run there. "
                      "Compile the program with nvcc and run it with memtrace run",
                      mt_short(v->name).text);
            return 0;
        }
    return 1;
}

static void variables_to_gpu(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next)
        if (v->managed)
            MT_NEXT(__cudaRegisterManagedVar)
    (m->real, v->managed, v->device, v->name, v->ext, v->size, v->constant, v->global);
    else MT_NEXT(__cudaRegisterVar)(m->real, (char *)(uintptr_t)v->host, v->device, v->name, v->ext, v->size,
                                    v->constant, v->global);
}

/* 0: they are not, which is said; its kernels must not run there. */
static void variables_forget(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next) {
        mt_map_drop(&variables, v->host, v);
        if (v->managed)
            mt_map_drop(&variables, v->address, v);
        if (v->own)
            mt_heap_free(v->address, 1u << MT_HEAP_SYMBOL);
    }
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
MT_FORK_ENTRY(lock, &lock, MT_FORK_RECURSIVE, MT_FORK_MODULES);
static struct mt_module *modules, **modules_end = &modules;
_Atomic unsigned mt_modules_unloaded;
static int to_gpu, symbols_logged;
static struct mt_map functions = MT_MAP_INIT;
MT_FORK_TABLE(functions);

void mt_modules_enter(void)
{
    pthread_mutex_lock(&lock);
}

void mt_modules_leave(void)
{
    pthread_mutex_unlock(&lock);
}

struct mt_module *mt_modules_next(int (*wanted)(const struct mt_module *))
{
    struct mt_module *m = modules;
    while (m && !wanted(m))
        m = m->next;
    return m;
}

const void *const *mt_module_fatbins(const struct mt_module *m, size_t *n)
{
    if (!m->fatbins)
        return mt_image_fatbins(m->wrapper, n);
    *n = m->nfatbins;
    return m->fatbins;
}

int mt_module_complain(struct mt_module *m, const char *mangled)
{
    mt_modules_enter();
    int said = m->said;
    m->said = 1;
    mt_modules_leave();
    mt_demangle_prepare();
    char *demangled = mt_demangle(mangled);
    const char *kernel = demangled ? demangled : mangled;
    if (!said && m->limited)
        mt_report("kernel %s cannot run on the CPU device: %s", mt_short(kernel).text,
                  m->why ? m->why : "no memory");
    else if (!said && m->foreign)
        mt_report("%s has no code for the CPU device: %s; mt-cc compiles its file with such code",
                  mt_short(kernel).text, m->why ? m->why : "there is no memory");
    else if (!said)
        mt_report(
            "kernel %s cannot run on the CPU device: %s; compile its file with mt-cc (without --plain: "
            "MEMTRACE_ENABLE=0 runs a program untraced), or with clang++ -fplugin=libMemtrace-AA.so and "
            "--cuda-path=<build>/cuda-overlay",
            mt_short(kernel).text, m->why ? m->why : "its file has no CPU image");
    free(demangled);
    return !said;
}

void mt_function_complain(struct mt_function *f)
{
    int said = atomic_exchange(&f->told, 1), alone = f->module->image && f->module->foreign;
    if ((!alone && mt_module_complain(f->module, f->name)) || said || !f->module->foreign)
        return;
    mt_demangle_prepare();
    char *name = mt_demangle(f->name);
    if (alone)
        mt_report("kernel %s cannot run on the CPU device: %s", mt_short(name ? name : f->name).text,
                  f->why ? f->why : "there is no PTX of it beside that of others of its file");
    else
        mt_report("kernel %s cannot run on the CPU device, like others of its file",
                  mt_short(name ? name : f->name).text);
    free(name);
}

void mt_module_untraced(struct mt_module *m, const char *kernel)
{
    mt_modules_enter();
    int said = m->said || m->too_old;
    m->said = 1;
    mt_modules_leave();
    if (!said)
        mt_note("kernel %s and others of its file run on the GPU without a trace: %s", mt_short(kernel).text,
                m->why ? m->why : "its file has no CPU image");
}

/* ---- lookup ---- */

/* Of a static or unnamed-namespace function: what other files have by this name is another one. */
static int module_is_internal(const char *name)
{
    const char *at = name + 2 + (strncmp(name, "_ZN", 3) == 0);
    if (strncmp(name, "_Z", 2) != 0)
        return 0;
    while (isdigit((unsigned char)*at)) { /* names of what it is in */
        char *end;
        unsigned long n = strtoul(at, &end, 10);
        at = n <= strlen(end) ? end + n : "";
    }
    return (*at == 'L' && isdigit((unsigned char)at[1])) || strstr(name, "_GLOBAL__N_");
}

static int module_is_same(const struct mt_function *a, const struct mt_function *b)
{
    return !strcmp(a->name, b->name) && (a->module == b->module || !module_is_internal(a->name));
}

/* Two kernels of one address: which one is meant, nobody knows. The same one comes from each file that has it
 * (templates). */
static int module_is_folded(struct mt_function *f, const void *host)
{
    struct mt_function *other = host == f->host ? f->before : NULL;
    while (other && module_is_same(f, other))
        other = other->before;
    if (!other || atomic_exchange(&f->told_folded, 1))
        return other != NULL;
    mt_demangle_prepare();
    char *a = mt_demangle(other->name), *b = mt_demangle(f->name);
    mt_report("kernels %s and %s have one address, so neither can be launched: the linker folded their "
              "host stubs; link without --icf=all (--icf=safe keeps them apart), or compile with mt-cc",
              mt_short(a ? a : other->name).text, mt_short(b ? b : f->name).text);
    free(a);
    free(b);
    return 1;
}

int mt_function_is_folded(const void *host)
{
    struct mt_function *f = host ? mt_map_get(&functions, host) : NULL;
    return f && module_is_folded(f, host);
}

struct mt_function *mt_function_find(const void *host)
{
    mt_modules_load();
    struct mt_function *f = host ? mt_map_get(&functions, host) : NULL;
    if (f && module_is_folded(f, host))
        return NULL;
    if (f) {
        mt_module_need(f->module);
        mt_function_need(f);
    }
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

/* ---- the real runtime ---- */

static int module_lacks_tables(const struct mt_module *m)
{
    return m->ended && !m->tried;
}

static int module_is_unsent(const struct mt_module *m)
{
    return m->ended && !m->sent;
}

static void register_real(struct mt_module *m)
{
    m->sent = 1;
    if (!mt_device_cudart())
        return;
    if (m->fatbins) {
        mt_report("device code of several files (-fgpu-rdc) is not linked for the GPU: link the program with "
                  "mt-cc");
        return;
    }
    if (!variables_are_for_gpu(m))
        return;
    m->real = MT_NEXT(__cudaRegisterFatBinary)((void *)(uintptr_t)m->wrapper);
    mt_module_load_tables(m);
    if (m->too_old && m->functions) /* they would take an argument that nobody gives */
        mt_report("kernel %s and others of its file cannot run: %s", mt_short(m->functions->name).text,
                  m->why);
    for (struct mt_function *f = m->too_old ? NULL : m->functions; f; f = f->next)
        mt_plain_register(m->real, f);
    variables_to_gpu(m);
    MT_NEXT(__cudaRegisterFatBinaryEnd)(m->real);
}

void mt_modules_to_gpu(void)
{
    mt_modules_enter();
    to_gpu = 1;
    for (struct mt_module *m; (m = mt_modules_next(module_lacks_tables));) {
        mt_modules_leave();
        mt_module_load_tables(m);
        mt_modules_enter();
    }
    for (struct mt_module *m; (m = mt_modules_next(module_is_unsent));)
        register_real(m);
    mt_modules_leave();
}

void mt_modules_log_symbols(void)
{
    if (symbols_logged)
        return;
    int clean = mt_error_hold();
    mt_demangle_prepare();
    mt_modules_enter();
    for (struct mt_module *m = modules; m && !symbols_logged; m = m->next)
        for (struct mt_variable *v = m->variables; v; v = v->next) {
            void *p;
            const void *symbol = v->managed ? (const void *)v->managed : v->host;
            if (!MT_NEXT(cudaGetSymbolAddress)(&p, symbol))
                mt_event_alloc((uint64_t)(uintptr_t)p, v->size, "symbol", v->name, -1, NULL);
        }
    symbols_logged = 1;
    mt_modules_leave();
    mt_error_release(clean);
}

/* ---- registration, as compiled code calls it ---- */

void **rec___cudaRegisterFatBinary(void *wrapper)
{
    struct mt_module *m = calloc(1, sizeof *m);
    if (!m) {
        mt_report("out of memory: a fat binary is not registered");
        return NULL;
    }
    m->wrapper = wrapper;
    mt_registered = 1;
    mt_modules_enter();
    *modules_end = m;
    modules_end = &m->next;
    mt_modules_unloaded++;
    mt_modules_leave();
    return (void **)m;
}

void rec___cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    struct mt_module *m = (struct mt_module *)handle;
    struct mt_function *f = m ? calloc(1, sizeof *f) : NULL;
    if (!f || !(f->name = strdup(name)) || mt_map_set(&functions, f, f)) {
        mt_report("out of memory: kernel %s is not registered", mt_short(name).text);
        return;
    }
    f->host = host;
    f->device = device;
    f->thread_limit = thread_limit;
    f->module = m;
    f->dynamic_shared_max = f->carveout = -1;
    mt_modules_enter();
    f->before = mt_map_get(&functions, host);
    if (mt_map_set(&functions, host, f))
        mt_report("out of memory: kernel %s is not registered", mt_short(name).text);
    f->next = m->functions;
    m->functions = f;
    if (m->image)
        f->kernel = mt_image_find_kernel(m->image, f->name);
    f->image = m->image;
    mt_modules_leave();
}

void rec___cudaRegisterFatBinaryEnd(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (!m)
        return;
    if (to_gpu)
        mt_module_load_tables(m);
    mt_modules_enter();
    m->ended = 1;
    if (to_gpu && !m->sent)
        register_real(m);
    mt_modules_leave();
    /* A __managed__ variable, or its pointer, must be right before main. */
    if (variables_are_managed(m) && !mt_device_is_gpu())
        mt_modules_load();
}

char rec___cudaInitModule(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (mt_device_is_gpu())
        return m && m->real ? MT_NEXT(__cudaInitModule)(m->real) : 0;
    mt_modules_load();
    if (m)
        mt_module_need(m);
    return 1;
}

/* A library's copy of a kernel goes; the address stays that of the program's, if that has one, too. */
static void module_forget_function(struct mt_function *f)
{
    struct mt_function *last = mt_map_get(&functions, f->host);
    mt_map_drop(&functions, f, f);
    if (last != f) {
        while (last && last->before != f)
            last = last->before;
        if (last)
            last->before = f->before;
    } else if (!f->before || mt_map_set(&functions, f->host, f->before)) {
        mt_map_drop(&functions, f->host, f);
    }
}

/* Its library goes, with the fat binary and the addresses by which its kernels and variables are known;
 * others may come to lie there. What was launched has all it needs. */
void mt_module_forget(struct mt_module *m)
{
    mt_module_drop_begun(m);
    mt_modules_enter();
    for (struct mt_module **at = &modules; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            modules_end = *at ? modules_end : at;
            break;
        }
    if (!m->loaded)
        mt_modules_unloaded--;
    m->loaded = m->tried = m->lazy.made = 1;
    for (struct mt_function *f = m->functions; f; f = f->next)
        module_forget_function(f);
    variables_forget(m);
    mt_modules_leave();
}

void rec___cudaUnregisterFatBinary(void **handle)
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
    mt_modules_enter();
    struct mt_module *m = modules;
    while (m && handle && m != (struct mt_module *)handle)
        m = m->next;
    mt_modules_leave();
    return m != NULL;
}

/* What each such file refers to: mt-cc's device link has one of its own. */
__attribute__((visibility("default"))) const char __mt_device_linker = 0;

/* The module of a shared object whose files nobody linked, or a new one. */
static struct mt_module *unlinked_module(const void *object)
{
    struct mt_module *m;
    mt_modules_enter();
    for (m = modules; m && !(m->fatbins && m->object == object && !m->loaded); m = m->next) {
    }
    mt_modules_leave();
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
        if (m->fatbins && !m->ended)
            __cudaRegisterFatBinaryEnd((void **)m);
}
