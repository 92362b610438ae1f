/* Loading what was registered: the images of modules, made where none came with the code. A constructor of
 * the program may launch, and then the dynamic linker's lock is held before any of ours. So nothing is loaded
 * under a lock: who finds another thread at it waits for that one a moment, for it may be waiting for the
 * dynamic linker, and then loads as well; the first one's image counts. */
#define _GNU_SOURCE
#include "module.h"
#include "device.h"
#include "api/entry.h"
#include "heap.h"
#include "made.h"
#include "make.h"
#include "base/fd.h"
#include "base/options.h"
#include "base/report.h"
#include "trace/events.h"
#include "base/demangle.h"
#include "base/fork.h"
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
#define AHEAD_MOST 8 /* kernels that are made at once for nobody yet */
#define WRONG_MOST 2

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* mt-ptx may take seconds */
MT_FORK_LOCK(making, MT_FORK_MODULES);
static _Thread_local int load_inside; /* constructors of images run then */

static void load_wait(const _Atomic int *loading, const _Atomic int *done)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (unsigned i = 0; i < PATIENCE_MS && *loading && !*done; i++)
        nanosleep(&moment, NULL);
}

static void load_bind_functions(struct mt_module *m)
{
    for (struct mt_function *f = m->functions; f; f = f->next) {
        f->kernel = m->image ? mt_image_find_kernel(m->image, f->name) : NULL;
        f->image = m->image;
    }
}

static void load_bind_variables(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next) {
        const struct mt_image_var *iv = m->image ? mt_image_find_var(m->image, v->name) : NULL;
        if (iv && v->own)
            mt_image_move_var(iv, (void *)(uintptr_t)v->host, v->size);
        mt_variable_lies(v, iv ? mt_image_var_address(iv) : NULL);
    }
}

/* All variables of the image, registered or not, are memory that kernels may touch. Managed ones are device
 * 0's image's, and no device's memory. */
static void load_list_variables(const struct mt_image *image, int device)
{
    const struct mt_image_var *v = image->head->vars;
    for (uint32_t i = 0; i < image->head->nvars; i++, v++) {
        if (!mt_image_owns(image, v->address)) /* an inline variable: another image's is the one */
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

/* What an image says of itself, on both devices. */
static void load_bind_tables(struct mt_module *m)
{
    for (const struct mt_image *i = m->image; i; i = i->peer)
        mt_event_sites(i->head, i->site_base);
    load_bind_functions(m);
}

static void load_bind_addresses(struct mt_module *m)
{
    load_bind_variables(m);
    for (const struct mt_image *i = m->image; i; i = i->peer)
        load_list_variables(i, 0);
}

struct mt_image *mt_module_image_on(struct mt_image *image, int device)
{
    const char *why = NULL;
    struct mt_image *loaded, *on = mt_image_on(image, device, &loaded, &why);
    if (!on)
        mt_report("device code of %s is not loaded for GPU %d: %s", (const char *)image->head->source, device,
                  why);
    for (const struct mt_image *i = loaded; i && i->copies == loaded->copies; i = i->peer)
        load_list_variables(i, device);
    return on;
}

void mt_module_bind(struct mt_module *m, struct mt_image *image, const char *why)
{
    mt_modules_enter();
    m->image = image;
    m->why = why;
    load_bind_tables(m);
    if (!mt_device_chosen_gpu())
        load_bind_addresses(m);
    mt_modules_leave();
}

/* Its image, if it has one. */
static struct mt_image *load_carried(struct mt_module *m, int *foreign, const char **why)
{
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    int carried = !fatbins || mt_image_carried(fatbins, n);
    if (mt_device_cudart()) { /* a GPU runs the code, and not this processor */
        mt_image_tables_only();
    } else if (!carried) {
        *foreign = 1;
        return NULL;
    }
    return fatbins ? mt_image_load_all(fatbins, n, NULL, why) : mt_image_load(m->wrapper, why);
}

void mt_module_load_tables(struct mt_module *m)
{
    const char *why = NULL;
    int foreign = 0;
    load_wait(&m->loading, &m->tried);
    if (m->tried || load_inside)
        return;
    m->loading++;
    load_inside = 1;
    struct mt_image *image = load_carried(m, &foreign, &why);
    load_inside = 0;
    mt_demangle_prepare();
    mt_modules_enter();
    if (!m->tried) {
        m->foreign = foreign;
        m->image = image;
        m->too_old = why == mt_image_too_old;
        m->limited = why == mt_image_limit;
        m->why = !image && why ? strdup(why) : why;
        load_bind_tables(m);
        m->tried = 1;
    }
    mt_modules_leave();
    m->loading--;
}

static int load_is_due(const struct mt_module *m)
{
    return m->ended && !m->loaded;
}

void mt_modules_load(void)
{
    if (!mt_modules_unloaded || load_inside)
        return;
    int gpu = mt_device_is_gpu();
    mt_modules_enter();
    for (struct mt_module *m; (m = mt_modules_next(load_is_due));) {
        mt_modules_leave();
        mt_module_load_tables(m);
        mt_modules_enter();
        if (m->loaded)
            continue;
        m->loaded = 1;
        if (!gpu) /* names and sites are the image's, addresses are not */
            load_bind_addresses(m);
        mt_modules_unloaded--; /* at the end: other threads' lookups pass the lock by when nothing is left */
    }
    mt_modules_leave();
}

/* ---- images that are made ---- */

/* Of a kernel that has an image of its own; NULL: it is none. */
static const struct mt_made_kernel *load_later(const struct mt_module *m, const char *kernel)
{
    const struct mt_made_kernel *k = NULL;
    while (m->later && (k = mt_made_kernel_next(m->later, m->later_end, k)) &&
           strcmp(mt_made_kernel_name(k), kernel) != 0)
        ;
    return k;
}

/* Once, and others wait for it: the dynamic linker has no part in it. */
static void load_ask(struct mt_lazy *l, pthread_mutex_t *one, struct mt_module *m,
                     const struct mt_made_kernel *kernel, const char *name,
                     struct mt_making *(*begin)(struct mt_lazy *l, struct mt_module *m,
                                                const struct mt_made_kernel *kernel, const char *name))
{
    pthread_mutex_lock(one);
    if (!l->asked)
        l->code = mt_made_ask(m, name, kernel, begin ? begin(l, m, kernel, name) : NULL);
    l->asked = 1;
    pthread_mutex_unlock(one);
}

/* It was asked for: loads it, and binds it with the lock of the modules. */
static void load_made(struct mt_lazy *l, struct mt_module *m, struct mt_function *f,
                      void (*bind)(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                                   const char *why))
{
    load_wait(&l->loading, &l->made);
    l->loading++;
    if (!l->made && !load_inside) {
        const char *why = NULL;
        load_inside = 1;
        struct mt_image *image =
            mt_made_load(l->code, f ? m->image : NULL, f ? load_later(m, f->name) : NULL, &why);
        load_inside = 0;
        mt_modules_enter();
        if (!l->made)
            bind(m, f, image, why);
        l->made = 1;
        mt_modules_leave();
    }
    if (--l->loading == 0 && l->made)
        mt_made_free(atomic_exchange(&l->code, NULL));
}

static void load_bind_module(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                             const char *why)
{
    m->later = mt_made_kernels(m->lazy.code, &m->later_end);
    mt_module_bind(m, image, why);
}

void mt_module_need(struct mt_module *m)
{
    if (!m->foreign || m->lazy.made)
        return;
    load_ask(&m->lazy, &making, m, NULL, mt_made_name(m), NULL);
    load_made(&m->lazy, m, NULL, load_bind_module);
}

/* ---- kernels of large modules ---- */

/* Several are made at once, each once; which lock is a kernel's follows from its name. */
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

static unsigned load_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static pthread_mutex_t *load_slot(const char *name)
{
    unsigned hash = 0, n = load_processors();
    for (; *name; name++)
        hash = hash * 31 + (unsigned char)*name;
    return &slots[hash % (n < 1 ? 1 : n < SLOTS ? n : SLOTS)];
}

static void load_bind_kernel(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                             const char *why)
{
    f->image = image;
    f->kernel = image ? mt_image_find_kernel(image, f->name) : NULL;
    f->why = why;
    if (image)
        mt_event_sites(image->head, image->site_base);
}

/* What messages call it: "KERNEL of FILE". */
static char *load_name_kernel(const struct mt_module *m, const struct mt_function *f)
{
    char *name = NULL, *pretty = (mt_demangle_prepare(), mt_demangle(f->name));
    if (asprintf(&name, "%s of %s", pretty ? pretty : f->name, mt_made_name(m)) < 0)
        name = NULL;
    free(pretty);
    return name;
}

/* ---- ahead of time: while one kernel is made, other processors make those that come after it in the module.
 * A few that nobody asks for, and no more are begun. ---- */

static pthread_mutex_t ahead = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(ahead, MT_FORK_TRACES); /* taken under a slot */
static unsigned unclaimed;

static struct mt_function *load_function(struct mt_module *m, const char *name)
{
    mt_modules_enter();
    struct mt_function *f = m->functions;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    mt_modules_leave();
    return f;
}

/* Processors with nothing to do beside `ours`, images that are being made. What else runs is what the system
 * says, without this thread and the two processes that an image has at most. */
static unsigned load_idle(unsigned ours)
{
    char text[64];
    unsigned all = load_processors(), running = 0;
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

static void load_ahead(struct mt_module *m, const struct mt_made_kernel *kernel, const char *what)
{
    pthread_mutex_lock(&ahead);
    unsigned ours = 1 + unclaimed;
    pthread_mutex_unlock(&ahead);
    unsigned more = mt_options()->ahead ? (unsigned)mt_options()->ahead - 1 : load_idle(ours);
    more = more < AHEAD_MOST ? more : AHEAD_MOST;
    const unsigned most = more ? more + WRONG_MOST : 0;
    for (; more && (kernel = mt_made_kernel_next(m->later, m->later_end, kernel)); more--) {
        struct mt_function *f = load_function(m, mt_made_kernel_name(kernel));
        pthread_mutex_lock(&ahead);
        if (f && !f->lazy.claimed && !f->lazy.begun && unclaimed < most &&
            (f->lazy.begun = mt_made_begin(m, what, kernel)))
            unclaimed++;
        pthread_mutex_unlock(&ahead);
    }
}

static struct mt_making *load_begin(struct mt_lazy *l, struct mt_module *m,
                                    const struct mt_made_kernel *kernel, const char *what)
{
    pthread_mutex_lock(&ahead);
    struct mt_making *begun = l->begun;
    l->claimed = 1;
    l->begun = NULL;
    unclaimed -= begun != NULL;
    pthread_mutex_unlock(&ahead);
    if (!begun)
        begun = mt_made_begin(m, what, kernel);
    if (begun && !mt_image_was_kept(begun))
        load_ahead(m, kernel, what);
    return begun;
}

void mt_module_drop_begun(struct mt_module *m)
{
    pthread_mutex_lock(&ahead);
    for (struct mt_function *f = m->functions; f; f = f->next) {
        if (f->lazy.begun) {
            mt_image_drop(f->lazy.begun);
            unclaimed--;
        }
        f->lazy.begun = NULL;
        f->lazy.claimed = 1;
    }
    pthread_mutex_unlock(&ahead);
}

void mt_function_need(struct mt_function *f)
{
    struct mt_module *m = f->module;
    if (!m->later || f->lazy.made || !m->image)
        return;
    const struct mt_made_kernel *kernel = load_later(m, f->name);
    if (!kernel) {
        f->lazy.made = 1;
        return;
    }
    char *name = load_name_kernel(m, f);
    load_ask(&f->lazy, load_slot(f->name), m, kernel, name ? name : f->name, load_begin);
    free(name);
    load_made(&f->lazy, m, f, load_bind_kernel);
}
