/* Dispatch of library calls: to our replacement, or on a GPU to the real library. */
#define _GNU_SOURCE
#include "library.h"
#include "api/launch/library.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Libraries for the computations: opened on first use, and all optional. */

void mt_lib_say(const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    __mt_library_say(text);
}

static struct backend {
    const char *name, *file, *package;
    void *_Atomic handle;
    _Atomic int said;
} backends[MT_LIB_BACKENDS] = {
    [MT_LIB_OPENBLAS] = {"OpenBLAS", "libopenblas.so.0", "libopenblas0-pthread", NULL, 0},
    [MT_LIB_FFTW] = {"FFTW", "libfftw3.so.3", "libfftw3-double3", NULL, 0},
    [MT_LIB_FFTWF] = {"FFTW for float", "libfftw3f.so.3", "libfftw3-single3", NULL, 0},
    [MT_LIB_CURAND] = {"NVIDIA's cuRAND", "libcurand.so.10", "libcurand-13-0", NULL, 0},
};

/* Marks this library for lib_open. */
__attribute__((visibility("default"))) const char __mt_libraries[] = "memtrace";

/* Returns NULL if it is missing, or is this library itself. */
static void *backend_is_real(void *handle)
{
    if (!handle || !dlsym(handle, "__mt_libraries"))
        return handle;
    dlclose(handle);
    return NULL;
}

/* Opens a library by name, NVIDIA's from the program or the toolkit, but never this one in its place. Returns
 * NULL if missing. OpenBLAS starts threads while it is loaded: they must not receive the program's signals.
 */
static void *lib_open(const char *file)
{
    const int flags = RTLD_NOW | RTLD_LOCAL;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int placed = strcmp(file, backends[MT_LIB_CURAND].file) == 0 && *__mt_library_curand();
    void *handle = placed ? backend_is_real(dlopen(__mt_library_curand(), flags)) : NULL;
    if (!handle)
        handle = backend_is_real(dlopen(file, flags));
    if (!handle)
        handle = backend_is_real(__mt_library_toolkit(file));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return handle;
}

void (*mt_lib_function(enum mt_lib_backend backend, const char *name, const char *caller))(void)
{
    struct backend *b = &backends[backend];
    if (!b->handle)
        b->handle = lib_open(b->file);
    void (*f)(void) = b->handle ? (void (*)(void))dlsym(b->handle, name) : NULL;
    if (!f && !b->said++) {
        if (b->handle)
            mt_lib_say("%s: %s has no function %s; the call fails", caller, b->name, name);
        else
            mt_lib_say(
                "%s: on the CPU device %s computes it, and %s cannot be loaded; install it (Debian, Ubuntu: "
                "apt install %s). The call fails",
                caller, b->name, b->file, b->package);
    }
    return f;
}

static void *library_entry_real(struct mt_lib_library *l)
{
    if (!l->handle)
        l->handle = lib_open(l->soname);
    return l->handle;
}

void (*mt_lib_real(const char *library, const char *name))(void)
{
    struct mt_lib_library *l = mt_lib_libraries;
    while (l->name && strcmp(l->name, library) != 0)
        l++;
    void *real = l->name ? library_entry_real(l) : NULL;
    return real ? (void (*)(void))dlsym(real, name) : NULL;
}

static void *library_entry_find(uint32_t index)
{
    struct mt_lib_entry *e = &mt_lib_entries[index];
    struct mt_lib_library *l = &mt_lib_libraries[e->library];
    int gpu = __mt_library_on_gpu();
    void *real = gpu ? library_entry_real(l) : NULL, *f = real ? dlsym(real, e->name) : NULL;
    if (f && e->gpu == MT_LIB_UNKNOWN)
        __mt_library_miss(e->name);
    if (!gpu || (f && e->gpu == MT_LIB_OURS))
        f = mt_lib_impls[index];
    if (!f && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        mt_lib_say("%s: %s; it returns status %d", e->name,
                   !gpu   ? "the CPU device does not have this function"
                   : real ? "not in the library in use"
                          : "the real library is not found",
                   l->unsupported);
    return f;
}

void *mt_lib_resolve(uint32_t index)
{
    void *f = library_entry_find(index);
    if (f)
        __atomic_store_n(&mt_lib_slots[index], f, __ATOMIC_RELEASE);
    return f ? f : (void *)mt_lib_libraries[mt_lib_entries[index].library].none;
}
