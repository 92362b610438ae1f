/* Registered fat binaries with their kernels and variables, and their loading, with images made for code
 * without one. A constructor of the program may launch a kernel; then the dynamic linker's lock is held
 * before any of ours. So nothing is loaded under a lock: a thread that finds another one loading waits a
 * moment, since that one may be waiting for the dynamic linker, and then loads as well; the first image
 * counts. */
#define _GNU_SOURCE
#include "device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "base/source_name.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/options.h"
#include "base/report.h"
#include "trace/devices.h"
#include "trace/events.h"
#include "trace/selection.h"
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 1000
#define AHEAD_MOST 8 /* most kernel images made ahead of time without being used */
#define WRONG_MOST 2

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
MT_FORK_ENTRY(lock, &lock, MT_FORK_RECURSIVE, MT_FORK_MODULES);
static struct mt_module *modules, **modules_end = &modules;
static _Atomic unsigned modules_unloaded; /* modules before MT_MODULE_LOADED */
static int to_gpu, symbols_logged;
static struct mt_map functions = MT_MAP_INIT, variables = MT_MAP_INIT;
MT_FORK_TABLE(functions);
MT_FORK_TABLE(variables);
static pthread_mutex_t making =
    PTHREAD_MUTEX_INITIALIZER; /* held while mt-ptx runs, which may take seconds */
MT_FORK_LOCK(making, MT_FORK_MODULES);
static _Thread_local int module_inside; /* set while constructors of images run */

const void *const *mt_module_fatbins(const struct mt_module *m, size_t *n)
{
    if (!m->fatbins)
        return mt_image_fatbins(m->wrapper, n);
    *n = m->nfatbins;
    return m->fatbins;
}

/* Reports once per module why its kernels cannot run; `kernel` (or variable) is the first one missing.
 * Returns 1 if it was reported now. */
static int module_complain(struct mt_module *m, const char *mangled)
{
    pthread_mutex_lock(&lock);
    int said = m->said;
    m->said = 1;
    pthread_mutex_unlock(&lock);
    mt_demangle_prepare();
    char *demangled = mt_demangle(mangled);
    const char *kernel = demangled ? demangled : mangled;
    if (!said && m->why == mt_image_limit)
        mt_report("kernel %s cannot run on the CPU device: %s", mt_short(kernel).text, m->why);
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
    if ((!alone && module_complain(f->module, f->name)) || said || !f->module->foreign)
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
    pthread_mutex_lock(&lock);
    int said = m->said || m->why == mt_image_too_old;
    m->said = 1;
    pthread_mutex_unlock(&lock);
    if (!said)
        mt_note("kernel %s and others of its file run on the GPU without a trace: %s", mt_short(kernel).text,
                m->why ? m->why : "its file has no CPU image");
}

/* ---- variables ---- */

static int variables_are_managed(const struct mt_module *m)
{
    const struct mt_variable *v = m->variables;
    while (v && !v->managed && !v->own)
        v = v->next;
    return v != NULL;
}

/* Sets the address on the CPU device; NULL: none. */
static void variable_lies(struct mt_variable *v, void *address)
{
    v->address = address;
    if (!v->managed || !address)
        return;
    *v->managed = address;
    if (mt_map_set(&variables, address, v)) /* nvcc's host code refers to it by this address */
        mt_report("out of memory: device variable %s has no address", mt_short(v->name).text);
}

/* Returns 0 after a report if a GPU cannot have the variables; the module's kernels must not run there. */
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

/* ---- loading ---- */

/* Waits while another thread is loading; state: below `done` until then. */
static void module_wait(const _Atomic int *loading, const _Atomic unsigned *state, unsigned done)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (unsigned i = 0; i < PATIENCE_MS && *loading && *state < done; i++)
        nanosleep(&moment, NULL);
}

/* Advances a state; it never goes back. */
static void module_reach(_Atomic unsigned *state, unsigned next)
{
    unsigned now = *state;
    while (now < next && !atomic_compare_exchange_weak(state, &now, next))
        ;
}

static void module_bind_functions(struct mt_module *m)
{
    for (struct mt_function *f = m->functions; f; f = f->next) {
        f->kernel = m->image ? mt_image_find_kernel(m->image, f->name) : NULL;
        f->image = m->image;
    }
}

static void module_bind_variables(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next) {
        const struct mt_image_var *iv = m->image ? mt_image_find_var(m->image, v->name) : NULL;
        if (iv && v->own)
            mt_image_move_var(iv, (void *)(uintptr_t)v->host, v->size);
        variable_lies(v, iv ? mt_image_var_address(iv) : NULL);
    }
}

/* Adds all variables of the image, registered or not, to the memory that kernels may access. Managed ones
 * exist in device 0's image only, and belong to no device. */
static void module_list_variables(const struct mt_image *image, int device)
{
    const struct mt_image_var *v = image->head->vars;
    for (uint32_t i = 0; i < image->head->nvars; i++, v++) {
        if (!mt_image_owns(image, v->address)) /* an inline variable, defined in another image */
            continue;
        int managed = v->kind == MT_VAR_MANAGED;
        if (managed && device > 0)
            continue;
        void *at = mt_image_var_address(v);
        mt_heap_adopt(device, at, v->size, MT_HEAP_SYMBOL, v->kind);
        uint64_t id =
            mt_event_alloc((uint64_t)(uintptr_t)at, v->size, "symbol", v->name, managed ? -1 : device, NULL);
        if (mt_tracing())
            mt_heap_identify(at, (int64_t)id);
    }
}

/* Reads the tables of an image, on both devices. */
static void module_bind_tables(struct mt_module *m)
{
    for (const struct mt_image *i = m->image; i; i = i->peer)
        mt_event_sites(i->head, i->site_base);
    module_bind_functions(m);
}

static void module_bind_addresses(struct mt_module *m)
{
    module_bind_variables(m);
    for (const struct mt_image *i = m->image; i; i = i->peer)
        module_list_variables(i, 0);
}

struct mt_image *mt_module_image_on(struct mt_image *image, int device)
{
    const char *why = NULL;
    struct mt_image *loaded, *on = mt_image_on(image, device, &loaded, &why);
    if (!on)
        mt_report("device code of %s is not loaded for GPU %d: %s", (const char *)image->head->source, device,
                  why);
    for (const struct mt_image *i = loaded; i && i->copies == loaded->copies; i = i->peer)
        module_list_variables(i, device);
    return on;
}

void mt_module_bind(struct mt_module *m, struct mt_image *image, const char *why)
{
    pthread_mutex_lock(&lock);
    m->image = image;
    m->why = why;
    module_bind_tables(m);
    if (!mt_device_chosen_gpu())
        module_bind_addresses(m);
    pthread_mutex_unlock(&lock);
}

/* Loads the image carried by the module, if any. */
static struct mt_image *module_load_carried(struct mt_module *m, int *foreign, const char **why)
{
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    int carried = !fatbins || mt_image_carried(fatbins, n);
    if (mt_device_cudart()) { /* a GPU runs the code, not this processor */
        mt_image_tables_only();
    } else if (!carried) {
        *foreign = 1;
        return NULL;
    }
    return fatbins ? mt_image_load_all(fatbins, n, NULL, why) : mt_image_load(m->wrapper, why);
}

static void module_read(struct mt_module *m)
{
    const char *why = NULL;
    int foreign = 0;
    module_wait(&m->loading, &m->state, MT_MODULE_READ);
    if (m->state >= MT_MODULE_READ)
        return;
    m->loading++;
    module_inside = 1;
    struct mt_image *image = module_load_carried(m, &foreign, &why);
    module_inside = 0;
    mt_demangle_prepare();
    pthread_mutex_lock(&lock);
    if (m->state < MT_MODULE_READ) {
        m->foreign = foreign;
        m->image = image;
        m->why = image || !why || why == mt_image_too_old || why == mt_image_limit ? why : strdup(why);
        module_bind_tables(m);
        m->state = MT_MODULE_READ;
    }
    pthread_mutex_unlock(&lock);
    m->loading--;
}

static void module_send(struct mt_module *m)
{
    if (!mt_device_cudart())
        return;
    if (m->fatbins) {
        mt_report("device code of several files (-fgpu-rdc) is not linked for the GPU: link the program with "
                  "mt-cc");
        return;
    }
    if (!variables_are_for_gpu(m))
        return;
    int too_old = m->why == mt_image_too_old; /* its kernels would expect an argument that nobody passes */
    m->real = MT_NEXT(__cudaRegisterFatBinary)((void *)(uintptr_t)m->wrapper);
    if (too_old && m->functions)
        mt_report("kernel %s and others of its file cannot run: %s", mt_short(m->functions->name).text,
                  m->why);
    for (struct mt_function *f = too_old ? NULL : m->functions; f; f = f->next)
        mt_function_register(m->real, f);
    variables_to_gpu(m);
    MT_NEXT(__cudaRegisterFatBinaryEnd)(m->real);
}

/* Announces the module to the device in use; under the lock. */
static void module_load(struct mt_module *m, int gpu)
{
    m->state = MT_MODULE_LOADED;
    if (gpu)
        module_send(m);
    else /* names and sites are the image's, addresses are not */
        module_bind_addresses(m);
    modules_unloaded--; /* last, since other threads skip the lock when nothing is left */
}

static struct mt_module *modules_due(void)
{
    struct mt_module *m = modules;
    while (m && m->state != MT_MODULE_ENDED && m->state != MT_MODULE_READ)
        m = m->next;
    return m;
}

static void modules_load(int gpu)
{
    if (module_inside)
        return;
    pthread_mutex_lock(&lock);
    for (struct mt_module *m; (m = modules_due());) {
        pthread_mutex_unlock(&lock);
        module_read(m);
        pthread_mutex_lock(&lock);
        if (m->state == MT_MODULE_READ)
            module_load(m, gpu);
    }
    pthread_mutex_unlock(&lock);
}

/* Loads all registered modules that are not loaded yet. */
static void modules_need(void)
{
    if (modules_unloaded)
        modules_load(mt_device_is_gpu());
}

void mt_modules_to_gpu(void)
{
    to_gpu = 1;
    modules_load(1);
}

/* ---- images made on demand ---- */

/* Returns the entry of a kernel with its own image, or NULL. */
static const struct mt_made_kernel *module_later(const struct mt_module *m, const char *kernel)
{
    const struct mt_made_kernel *k = NULL;
    while (m->later && (k = mt_made_kernel_next(m->later, m->later_end, k)) &&
           strcmp(mt_made_kernel_name(k), kernel) != 0)
        ;
    return k;
}

/* Makes the image once, while others wait: the dynamic linker is not involved. */
static void module_ask(struct mt_made_image *i, pthread_mutex_t *one, struct mt_module *m,
                       const struct mt_made_kernel *kernel, const char *name,
                       struct mt_making *(*begin)(struct mt_made_image *i, struct mt_module *m,
                                                  const struct mt_made_kernel *kernel, const char *name))
{
    pthread_mutex_lock(one);
    if (i->state < MT_MADE_ASKED)
        i->code = mt_made_ask(m, name, kernel, begin ? begin(i, m, kernel, name) : NULL);
    module_reach(&i->state, MT_MADE_ASKED);
    pthread_mutex_unlock(one);
}

/* Loads an image after it was made, and binds it under the lock of the modules. */
static void module_made(struct mt_made_image *i, struct mt_module *m, struct mt_function *f,
                        void (*bind)(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                                     const char *why))
{
    module_wait(&i->loading, &i->state, MT_MADE_SETTLED);
    i->loading++;
    if (i->state < MT_MADE_SETTLED && !module_inside) {
        const char *why = NULL;
        module_inside = 1;
        struct mt_image *image =
            mt_made_load(i->code, f ? m->image : NULL, f ? module_later(m, f->name) : NULL, &why);
        module_inside = 0;
        pthread_mutex_lock(&lock);
        if (i->state < MT_MADE_SETTLED)
            bind(m, f, image, why);
        i->state = MT_MADE_SETTLED;
        pthread_mutex_unlock(&lock);
    }
    if (--i->loading == 0 && i->state == MT_MADE_SETTLED)
        mt_made_free(atomic_exchange(&i->code, NULL));
}

static void module_bind_made(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                             const char *why)
{
    m->later = mt_made_kernels(m->made.code, &m->later_end);
    mt_module_bind(m, image, why);
}

/* Makes the module's image, if it came without one. */
static void module_need(struct mt_module *m)
{
    if (!m->foreign || m->made.state == MT_MADE_SETTLED)
        return;
    module_ask(&m->made, &making, m, NULL, mt_made_name(m), NULL);
    module_made(&m->made, m, NULL, module_bind_made);
}

/* ---- kernels of large modules ---- */

/* Several are made at once, each once; a kernel's lock follows from its name. */
#define SLOTS 8
static pthread_mutex_t slots[SLOTS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
#define SLOT(n) MT_FORK_ENTRY(slot##n, &slots[n], MT_FORK_MUTEX, MT_FORK_MODULES)
SLOT(0);
SLOT(1);
SLOT(2);
SLOT(3);
SLOT(4);
SLOT(5);
SLOT(6);
SLOT(7);

static unsigned module_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static pthread_mutex_t *module_slot(const char *name)
{
    unsigned hash = 0, n = module_processors();
    for (; *name; name++)
        hash = hash * 31 + (unsigned char)*name;
    return &slots[hash % (n < 1 ? 1 : n < SLOTS ? n : SLOTS)];
}

static void module_bind_kernel(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                               const char *why)
{
    f->image = image;
    f->kernel = image ? mt_image_find_kernel(image, f->name) : NULL;
    f->why = why;
    if (image)
        mt_event_sites(image->head, image->site_base);
}

/* Returns its name in messages: "KERNEL of FILE". */
static char *module_name_kernel(const struct mt_module *m, const struct mt_function *f)
{
    char *name = NULL, *pretty = (mt_demangle_prepare(), mt_demangle(f->name));
    if (asprintf(&name, "%s of %s", pretty ? pretty : f->name, mt_made_name(m)) < 0)
        name = NULL;
    free(pretty);
    return name;
}

/* ---- ahead of time: while one kernel is made, other processors make the following ones of the module. After
 * a few unused ones, no more are begun. ---- */

static pthread_mutex_t ahead = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(ahead, MT_FORK_TRACES); /* taken under a slot's lock */
static unsigned unclaimed;

static struct mt_function *module_function(struct mt_module *m, const char *name)
{
    pthread_mutex_lock(&lock);
    struct mt_function *f = m->functions;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    pthread_mutex_unlock(&lock);
    return f;
}

/* Returns the number of idle processors besides those of `ours`, images in progress. The system's load is
 * counted without this thread and at most two processes per image. */
static unsigned module_idle(unsigned ours)
{
    char text[64];
    unsigned all = module_processors(), running = 0;
    int fd = mt_fd_up(open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "%*s %*s %*s %u/", &running) != 1)
        running = 0;
    unsigned busy = ours + (running > 1 + 2 * ours ? running - 1 - 2 * ours : 0);
    return busy < all ? all - busy : 0;
}

static void module_ahead(struct mt_module *m, const struct mt_made_kernel *kernel, const char *what)
{
    pthread_mutex_lock(&ahead);
    unsigned ours = 1 + unclaimed;
    pthread_mutex_unlock(&ahead);
    unsigned more = mt_options()->ahead ? (unsigned)mt_options()->ahead - 1 : module_idle(ours);
    more = more < AHEAD_MOST ? more : AHEAD_MOST;
    const unsigned most = more ? more + WRONG_MOST : 0;
    for (; more && (kernel = mt_made_kernel_next(m->later, m->later_end, kernel)); more--) {
        struct mt_function *f = module_function(m, mt_made_kernel_name(kernel));
        pthread_mutex_lock(&ahead);
        if (f && f->made.state == MT_MADE_UNASKED && unclaimed < most &&
            (f->made.begun = mt_made_begin(m, what, kernel))) {
            f->made.state = MT_MADE_BEGUN;
            unclaimed++;
        }
        pthread_mutex_unlock(&ahead);
    }
}

/* Takes the work begun for an image, which is then no longer begun ahead of time. Under `ahead`. */
static struct mt_making *module_claim(struct mt_made_image *i)
{
    struct mt_making *begun = i->begun;
    i->begun = NULL;
    unclaimed -= begun != NULL;
    module_reach(&i->state, MT_MADE_CLAIMED);
    return begun;
}

static struct mt_making *module_begin(struct mt_made_image *i, struct mt_module *m,
                                      const struct mt_made_kernel *kernel, const char *what)
{
    pthread_mutex_lock(&ahead);
    struct mt_making *begun = module_claim(i);
    pthread_mutex_unlock(&ahead);
    if (!begun)
        begun = mt_made_begin(m, what, kernel);
    if (begun && !mt_making_kept(begun))
        module_ahead(m, kernel, what);
    return begun;
}

/* Stops the work begun ahead of time for it. */
static void module_drop_begun(struct mt_module *m)
{
    pthread_mutex_lock(&ahead);
    for (struct mt_function *f = m->functions; f; f = f->next) {
        struct mt_making *begun = module_claim(&f->made);
        if (begun)
            mt_making_drop(begun);
    }
    pthread_mutex_unlock(&ahead);
}

/* Makes the kernel's own image, if it has one. */
static void function_need(struct mt_function *f)
{
    struct mt_module *m = f->module;
    if (!m->later || f->made.state == MT_MADE_SETTLED || !m->image)
        return;
    const struct mt_made_kernel *kernel = module_later(m, f->name);
    if (!kernel) {
        f->made.state = MT_MADE_SETTLED;
        return;
    }
    char *name = module_name_kernel(m, f);
    module_ask(&f->made, module_slot(f->name), m, kernel, name ? name : f->name, module_begin);
    free(name);
    module_made(&f->made, m, f, module_bind_kernel);
}

/* ---- lookup ---- */

/* Returns 1 for a static or unnamed-namespace function: the same name in other files means another function.
 */
static int module_is_internal(const char *name)
{
    const char *at = name + 2 + (strncmp(name, "_ZN", 3) == 0);
    if (strncmp(name, "_Z", 2) != 0)
        return 0;
    while (isdigit((unsigned char)*at)) { /* names of the enclosing scopes */
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

/* Returns whether two different kernels share an address, so that a launch is ambiguous. The same kernel may
 * come from several files (templates). */
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
    modules_need();
    struct mt_function *f = host ? mt_map_get(&functions, host) : NULL;
    if (f && module_is_folded(f, host))
        return NULL;
    if (f) {
        module_need(f->module);
        function_need(f);
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

/* Returns the loaded variable whose host shadow is at `host`, or NULL. */
static struct mt_variable *variable_find(const void *host)
{
    modules_need();
    struct mt_variable *v = host ? mt_map_get(&variables, host) : NULL;
    if (v)
        module_need(v->module);
    return v;
}

/* Returns its address on the current device, or NULL. */
static void *variable_address(struct mt_variable *v)
{
    int device = mt_device_current();
    struct mt_image *i = device && v->address ? mt_module_image_on(v->module->image, device) : NULL;
    const struct mt_image_var *var = i ? mt_image_find_var(i, v->name) : NULL;
    return !device ? v->address : var ? mt_image_var_address(var) : NULL;
}

void mt_modules_log_symbols(void)
{
    if (symbols_logged)
        return;
    int clean = mt_error_hold();
    mt_demangle_prepare();
    pthread_mutex_lock(&lock);
    for (struct mt_module *m = modules; m && !symbols_logged; m = m->next)
        for (struct mt_variable *v = m->variables; v; v = v->next) {
            void *p;
            const void *symbol = v->managed ? (const void *)v->managed : v->host;
            if (!MT_NEXT(cudaGetSymbolAddress)(&p, symbol))
                mt_event_alloc((uint64_t)(uintptr_t)p, v->size, "symbol", v->name, -1, NULL);
        }
    symbols_logged = 1;
    pthread_mutex_unlock(&lock);
    mt_error_release(clean);
}

/* ---- registration, called by compiled code ---- */

void **rec___cudaRegisterFatBinary(void *wrapper)
{
    struct mt_module *m = calloc(1, sizeof *m);
    if (!m) {
        mt_report("out of memory: a fat binary is not registered");
        return NULL;
    }
    m->wrapper = wrapper;
    mt_registered = 1;
    pthread_mutex_lock(&lock);
    *modules_end = m;
    modules_end = &m->next;
    modules_unloaded++;
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    f->before = mt_map_get(&functions, host);
    if (mt_map_set(&functions, host, f))
        mt_report("out of memory: kernel %s is not registered", mt_short(name).text);
    f->next = m->functions;
    m->functions = f;
    if (m->image)
        f->kernel = mt_image_find_kernel(m->image, f->name);
    f->image = m->image;
    pthread_mutex_unlock(&lock);
}

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
    pthread_mutex_lock(&lock);
    v->next = m->variables;
    m->variables = v;
    pthread_mutex_unlock(&lock);
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

/* Called by code of the pass to register such a variable. */
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

/* Texture and surface references do not exist since CUDA 12; their uses are reported at the calls. */
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

void rec___cudaRegisterFatBinaryEnd(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (!m)
        return;
    pthread_mutex_lock(&lock);
    module_reach(&m->state, MT_MODULE_ENDED);
    int load_now = to_gpu;
    pthread_mutex_unlock(&lock);
    if (load_now)
        modules_load(1);
    /* A __managed__ variable, or its pointer, must be valid before main. */
    if (variables_are_managed(m) && !mt_device_is_gpu())
        modules_need();
}

char rec___cudaInitModule(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (mt_device_is_gpu())
        return m && m->real ? MT_NEXT(__cudaInitModule)(m->real) : 0;
    modules_need();
    if (m)
        module_need(m);
    return 1;
}

/* Removes a library's copy of a kernel; its address stays valid for the program's copy, if any. */
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

/* Forgets a library with its fat binary, kernels and variables: their addresses may be reused. Launched
 * kernels have all they need. */
void mt_module_forget(struct mt_module *m)
{
    module_drop_begun(m);
    pthread_mutex_lock(&lock);
    for (struct mt_module **at = &modules; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            modules_end = *at ? modules_end : at;
            break;
        }
    if (m->state < MT_MODULE_LOADED)
        modules_unloaded--;
    m->state = MT_MODULE_GONE;
    m->made.state = MT_MADE_SETTLED;
    for (struct mt_function *f = m->functions; f; f = f->next)
        module_forget_function(f);
    variables_forget(m);
    pthread_mutex_unlock(&lock);
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

/* Returns whether the handle belongs to this runtime; with NULL: whether any does. Compiled code asks to find
 * out if NVIDIA's runtime was linked. */
__attribute__((visibility("default"))) int __mt_is_registered(void **handle)
{
    pthread_mutex_lock(&lock);
    struct mt_module *m = modules;
    while (m && handle && m != (struct mt_module *)handle)
        m = m->next;
    pthread_mutex_unlock(&lock);
    return m != NULL;
}

/* Referenced by each such file: mt-cc's device link has a definition of its own. */
__attribute__((visibility("default"))) const char __mt_device_linker = 0;

/* Returns the module of a shared object with unlinked files, or a new one. */
static struct mt_module *unlinked_module(const void *object)
{
    struct mt_module *m;
    pthread_mutex_lock(&lock);
    for (m = modules; m && !(m->fatbins && m->object == object && m->state < MT_MODULE_LOADED); m = m->next) {
    }
    pthread_mutex_unlock(&lock);
    return m ? m : (struct mt_module *)__cudaRegisterFatBinary(NULL);
}

/* Called by files with relocatable device code (-fgpu-rdc) in a program without a device link: the pass adds
 * a weak definition of the device linker's output that calls this. The images of such files are bound to one
 * another like those of linked ones. */
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

/* Called after all files of the calling program or library were registered. */
__attribute__((visibility("default"))) void __mt_linked_binaries_done(void)
{
    for (struct mt_module *m = modules; m; m = m->next)
        if (m->fatbins && m->state == MT_MODULE_OPEN)
            __cudaRegisterFatBinaryEnd((void **)m);
}

/* ---- variables as symbols, on the CPU device ---- */

/* Finds a variable; one whose file has no CPU image has no memory. */
static cudaError_t symbol_find(const void *symbol, struct mt_variable **v)
{
    *v = variable_find(symbol);
    if (!*v)
        return cudaErrorInvalidSymbol;
    if ((*v)->address)
        return cudaSuccess;
    if (!(*v)->module->image) {
        module_complain((*v)->module, (*v)->name);
        return cudaErrorNoKernelImageForDevice;
    }
    return cudaErrorInvalidSymbol;
}

cudaError_t impl_cudaGetSymbolAddress(void **out, const void *symbol)
{
    struct mt_variable *v;
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = symbol_find(symbol, &v);
    if (!e && !(*out = variable_address(v)))
        e = cudaErrorMemoryAllocation;
    return mt_fail(e);
}

cudaError_t impl_cudaGetSymbolSize(size_t *out, const void *symbol)
{
    struct mt_variable *v;
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = symbol_find(symbol, &v);
    if (!e)
        *out = v->size;
    return mt_fail(e);
}
