/* The libraries that compute: found when they are first needed, and none of them has to be there. */
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

/* So that mt_lib_open knows this library. */
__attribute__((visibility("default"))) const char __mt_libraries[] = "memtrace";

/* NULL: it is not there, or ourselves. */
static void *backend_is_real(void *handle)
{
    if (!handle || !dlsym(handle, "__mt_libraries"))
        return handle;
    dlclose(handle);
    return NULL;
}

void *mt_lib_open(const char *file)
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
        b->handle = mt_lib_open(b->file);
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
