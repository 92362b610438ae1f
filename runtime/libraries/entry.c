/* Where the calls of a library go: to the stand-in, or on a GPU to the real library. */
#define _GNU_SOURCE
#include "entry.h"
#include "api/launch/library.h"
#include "library.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

static int entry_unsupported(int library)
{
    return mt_lib_libraries[library].unsupported;
}

/* A function for each library, so that each returns a status of its own. */
static int entry_none_0(void)
{
    return entry_unsupported(0);
}

static int entry_none_1(void)
{
    return entry_unsupported(1);
}

static int entry_none_2(void)
{
    return entry_unsupported(2);
}

static int entry_none_3(void)
{
    return entry_unsupported(3);
}

static int entry_none_4(void)
{
    return entry_unsupported(4);
}

static int entry_none_5(void)
{
    return entry_unsupported(5);
}

static int entry_none_6(void)
{
    return entry_unsupported(6);
}

static int (*const nones[])(void) = {entry_none_0, entry_none_1, entry_none_2, entry_none_3,
                                     entry_none_4, entry_none_5, entry_none_6};

static void *entry_real(int library)
{
    static void *_Atomic handles[sizeof nones / sizeof *nones];
    if (!handles[library])
        handles[library] = mt_lib_open(mt_lib_libraries[library].soname);
    return handles[library];
}

void (*mt_lib_real(const char *library, const char *name))(void)
{
    for (int i = 0; i < (int)(sizeof nones / sizeof *nones); i++)
        if (strcmp(mt_lib_libraries[i].name, library) == 0) {
            void *real = entry_real(i);
            return real ? (void (*)(void))dlsym(real, name) : NULL;
        }
    return NULL;
}

static void *entry_find(uint32_t index)
{
    struct mt_lib_entry *e = &mt_lib_entries[index];
    int gpu = __mt_library_on_gpu();
    void *real = gpu ? entry_real(e->library) : NULL, *f = real ? dlsym(real, e->name) : NULL;
    if (f && e->gpu == MT_LIB_UNKNOWN)
        __mt_library_miss(e->name);
    if (!gpu || (f && e->gpu == MT_LIB_OURS))
        f = mt_lib_impls[index];
    if (!f && !__atomic_exchange_n(&e->said, 1, __ATOMIC_RELAXED))
        mt_lib_say("%s: %s; it returns status %d", e->name,
                   !gpu   ? "the CPU device does not have this function"
                   : real ? "not in the library in use"
                          : "the real library is not found",
                   mt_lib_libraries[e->library].unsupported);
    return f;
}

void *mt_lib_resolve(uint32_t index)
{
    void *f = entry_find(index);
    if (f)
        __atomic_store_n(&mt_lib_slots[index], f, __ATOMIC_RELEASE);
    return f ? f : (void *)nones[mt_lib_entries[index].library];
}
