/* The auditor: leads whoever looks for libcudart.so to libmemtrace.so, and takes over static CUDA runtimes in
 * whatever is loaded, before its constructors run. */
#include "base/attach.h"
#include "attach.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define RELINK "relink it with NVCC_APPEND_FLAGS=\"--cudart=shared\" (or nvcc --cudart=shared)"

enum { WAITING = 8192 };
static uintptr_t *waiting[WAITING]; /* cookies of what is mapped, and not looked at yet */
static unsigned nwaiting, lost;
static struct link_map *runtime;     /* libmemtrace.so */
static struct link_map *stand_in;    /* libmemtrace-libraries.so: what it asks for is what it stands in for */
static char stand_in_name[PATH_MAX]; /* that the dynamic linker knows it by */
static struct mt_attach_library library;
static char folder[PATH_MAX - 64]; /* this library's */

/* One line on stderr: "memtrace: …". Not mt_report: its settings and their constructors are for the program,
 * in which this library is not. */
__attribute__((format(printf, 1, 2))) static void audit_say(const char *format, ...)
{
    char text[1024] = "memtrace: ";
    va_list ap;
    va_start(ap, format);
    size_t n = strlen(text);
    int m = vsnprintf(text + n, sizeof text - n - 1, format, ap);
    va_end(ap);
    n += m < 0 ? 0 : (size_t)m < sizeof text - n - 1 ? (size_t)m : sizeof text - n - 2;
    text[n++] = '\n';
    if (write(STDERR_FILENO, text, n) < 0) /* nowhere left to say it */
        return;
}

/* What the process began with: the program may change its environment. */
static int verbose, wants_cpu;

static void audit_settings(void)
{
    const char *word = getenv("MEMTRACE_VERBOSE"), *device = getenv("MEMTRACE_DEVICE");
    verbose = word && strcmp(word, "1") == 0;
    wants_cpu = device && strcmp(device, "cpu") == 0;
}

static const char *audit_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- static runtimes ---- */

/* 0; -1: it is left as it is, which was said. */
static int audit_take_over(const char *path, struct mt_attach_takeover *t, int major)
{
    if (!library.symbols) {
        audit_say(
            "%s: its CUDA runtime is left as it is: libmemtrace.so is not loaded; was LD_PRELOAD changed?",
            path);
        return -1;
    }
    int done = 0;
    t->library = &library;
    t->node = major ? mt_attach_library_node(&library, mt_binary_node(major)) : 0;
    if (!t->node)
        audit_say(
            "%s: the CUDA runtime in it is %s than this memtrace knows: it is left as it is, and not traced",
            path, major ? "of another version" : "older");
    else if (!(done = mt_attach_takeover(t) == 0))
        audit_say("%s: its CUDA runtime cannot be taken over: %s%s%s%s%s; it is not traced: " RELINK, path,
                  t->name, *t->name ? ": " : "", t->why, t->error ? ": " : "",
                  t->error ? strerrordesc_np(t->error) : "");
    else if (verbose)
        audit_say("%s: the CUDA %d runtime in it is taken over: %u functions, %u of them not supported", path,
                  major, t->taken + t->missing, t->missing);
    return done ? 0 : -1;
}

/* What the dynamic linker keeps for us with each object: its link map, and in the low bits whether it has a
 * CUDA runtime of its own that is left as it is. Such a one checks private tables of NVIDIA's driver: ours is
 * not for it. */
enum audit_left {
    NOT_LEFT,
    LEFT_SAID,     /* it has kernels, and the reason was said */
    LEFT_NAMELESS, /* it has kernels, and its symbols are gone */
    LEFT_EMPTY,    /* the same, without kernels */
    LEFT_TOLD,     /* it is at work, and all was said */
    LEFT_BITS = 7
};

static const struct link_map *audit_map(const uintptr_t *cookie)
{
    return (const struct link_map *)(*cookie & ~(uintptr_t)LEFT_BITS);
}

static void audit_set_left(uintptr_t *cookie, enum audit_left state)
{
    *cookie = (*cookie & ~(uintptr_t)LEFT_BITS) | state;
}

static int audit_has_gpu(void)
{
    return !wants_cpu && (access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0);
}

/* It is at work, and what it does is in no trace. */
static void audit_tell_left(uintptr_t *cookie)
{
    enum audit_left state = *cookie & LEFT_BITS;
    char room[PATH_MAX];
    const char *path = mt_attach_path(audit_map(cookie), room);
    struct mt_attach_left *told =
        library.symbols ? mt_attach_library_find(&library, MT_ATTACH_LEFT, 0) : NULL;
    audit_set_left(cookie, LEFT_TOLD);
    if (state == LEFT_NAMELESS || (state == LEFT_EMPTY && verbose))
        audit_say(
            "%s: the CUDA runtime in it cannot be taken over, for its symbols were stripped: its kernels "
            "are not traced, and do not run on the CPU device; do not strip it, or " RELINK,
            path);
    if (!told || state == LEFT_EMPTY || state == LEFT_TOLD)
        return;
    if (!told->count)
        snprintf(told->path, sizeof told->path, "%.399s", path);
    __atomic_add_fetch(&told->count, 1, __ATOMIC_RELEASE);
}

/* Without a GPU it does nothing before it looks for a driver: many libraries never do. */
static void audit_leave(uintptr_t *cookie, enum audit_left state)
{
    audit_set_left(cookie, state);
    if (audit_has_gpu())
        audit_tell_left(cookie);
}

/* NVIDIA's libraries that PyTorch and others load and seldom call. If they are called, they fail and say so:
 * their kernels are no part of the program that it would lose without a word. */
static int audit_is_told_by_itself(const char *base)
{
    static const char *const names[] = {"libcusparseLt.so", "libcufile.so", NULL};
    for (unsigned i = 0; names[i]; i++)
        if (strncmp(base, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* 0, or an errno value, which was said: nobody can know what is in it. */
static int audit_open(struct mt_binary *o, const struct link_map *map, const char *path)
{
    int why = mt_attach_program_open(o, map, path);
    if (why)
        audit_say("%s: it cannot be read (%s), so that a CUDA runtime in it would not be traced: run a "
                  "copy that can be",
                  path, strerrordesc_np(why));
    return why;
}

/* A library of the tables of runtime/libraries. */
static int audit_is_tabled(const char *base)
{
    static const char *const names[] = {MT_LIBRARY_NAMES};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(base, names[i]) == 0)
            return 1;
    return 0;
}

/* Is our library there under this name? Then its path. What is there is a link to it, or where there can be
 * no links, as in a wheel, a file that only has the name. */
static int audit_stands_for(const char *name, const char *library, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%smemtrace/cudart/%s", folder, name);
    int known = access(path, R_OK) == 0;
    snprintf(path, PATH_MAX, "%s%s", folder, library);
    return known;
}

/* One that libmemtrace-libraries.so stands in for where there is no GPU. */
static int audit_is_stand_in(const char *base, char path[PATH_MAX])
{
    return !audit_has_gpu() && audit_is_tabled(base) &&
           audit_stands_for(base, "libmemtrace-libraries.so", path);
}

static void audit_look(uintptr_t *cookie)
{
    char room[PATH_MAX], ours[PATH_MAX];
    const struct link_map *map = audit_map(cookie);
    const char *path = mt_attach_path(map, room);
    struct mt_binary o;
    struct mt_attach_takeover t = {.object = &o, .base = map->l_addr};
    int major, tabled = audit_is_tabled(audit_base_name(path));
    if ((*map->l_name && !strchr(path, '/')) ||           /* the kernel's */
        (tabled && stand_in) ||                           /* it knows their calls */
        audit_is_stand_in(audit_base_name(path), ours) || /* found here, and ours is loaded */
        audit_open(&o, map, path) != 0)
        return;
    switch (mt_binary_cudart(&o, &t.symbols, &major)) {
    case MT_CUDART_STATIC:
        if (audit_take_over(path, &t, major) != 0)
            audit_leave(cookie, LEFT_SAID);
        break;
    case MT_CUDART_NAMELESS:
        /* Without kernels, as NVIDIA's bindings for Python: nothing is lost, it fails. */
        audit_leave(cookie, mt_binary_section(&o, ".nv_fatbin") != 0 &&
                                    (audit_has_gpu() || !audit_is_told_by_itself(audit_base_name(path)))
                                ? LEFT_NAMELESS
                                : LEFT_EMPTY);
        break;
    default: /* such as cuFFT, in which no runtime is to be seen */
        if (tabled)
            audit_leave(cookie, LEFT_SAID);
        break;
    }
    mt_binary_close(&o);
}

/* ---- what the dynamic linker calls ---- */

EXPORT unsigned la_version(unsigned version)
{
    Dl_info self;
    if (!dladdr((void *)la_version, &self) || !self.dli_fname || *self.dli_fname != '/' ||
        strlen(self.dli_fname) >= sizeof folder)
        return 0;
    audit_settings();
    strcpy(folder, self.dli_fname);
    *(char *)(uintptr_t)audit_base_name(folder) = 0;
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* The major version in libcudart.so.12, libcudart.so.12.4.127, libcudart-1a2b3c.so.12; -1: no such name, 0:
 * none in it. */
static int audit_major(const char *name)
{
    const char *so = strncmp(name, "libcudart", 9) == 0 ? strstr(name, ".so") : NULL;
    if (!so || (name[9] != '.' && name[9] != '-'))
        return -1;
    return so[3] == '.' ? atoi(so + 4) : 0;
}

static int audit_is_driver_name(const char *name)
{
    return strcmp(audit_base_name(name), "libcuda.so.1") == 0 ||
           strcmp(audit_base_name(name), "libcuda.so") == 0;
}

/* In the folder that memtrace run names in LD_LIBRARY_PATH, for programs which look for the driver there.
 * Nothing else is in it: places where other libraries really may be come later. */
static int audit_is_shown(const char *name)
{
    static const char below[] = "memtrace/driver/";
    size_t n = strlen(folder);
    return strncmp(name, folder, n) == 0 && strncmp(name + n, below, sizeof below - 1) == 0;
}

/* The driver is ours where there is none, or where the CPU device is asked for: on a GPU NVIDIA's runtime
 * needs its own. */
static int audit_is_driver(const char *name, uintptr_t *cookie)
{
    int asks = (*cookie & LEFT_BITS) != NOT_LEFT;
    if (!audit_is_driver_name(name))
        return 0;
    if (asks)
        audit_tell_left(cookie);
    return !asks && (audit_is_shown(name) || access(name, R_OK) != 0 || wants_cpu);
}

/* Libraries that libmemtrace.so stands before, and where it looks for their paths. */
static const struct {
    const char *file, *symbols, *place;
} before[] = {{"libnvrtc.so", "nvrtc", "__mt_attach_nvrtc"},
              {"libnvJitLink.so", "nvJitLink", "__mt_attach_nvjitlink"}};

/* Has libmemtrace.so all functions of the library? A newer one may have more. */
static int audit_knows(const char *path, const char *begin)
{
    struct mt_binary o;
    int known = 1;
    if (mt_binary_open(&o, path) != 0)
        return 0;
    for (size_t i = 0; i < o.dynamic.count; i++) {
        const Elf64_Sym *y = &o.dynamic.entry[i];
        const char *name = mt_binary_name(&o.dynamic, y), *plain = name + (strncmp(name, "__", 2) ? 0 : 2);
        if (ELF64_ST_TYPE(y->st_info) == STT_FUNC && y->st_shndx != SHN_UNDEF &&
            !strncmp(plain, begin, strlen(begin)))
            known &= mt_attach_library_find(&library, name, 0) != NULL;
    }
    mt_binary_close(&o);
    if (!known)
        audit_say("%s: newer than this memtrace: what it makes for a GPU does not run on the CPU device",
                  path);
    return known;
}

/* A path to NVRTC or nvJitLink, whose place libmemtrace.so must know; of several in one process only the
 * first. */
static const char *audit_before(const char *name)
{
    for (size_t i = 0; library.symbols && i < sizeof before / sizeof *before; i++) {
        if (strncmp(audit_base_name(name), before[i].file, strlen(before[i].file)) != 0)
            continue;
        char *place = mt_attach_library_find(&library, before[i].place, 0);
        if (!place || strlen(name) >= MT_ATTACH_PATH || access(name, R_OK) != 0)
            return NULL;
        if (*place)
            return strcmp(place, name) == 0 ? before[i].file : NULL;
        if (!audit_knows(name, before[i].symbols))
            return NULL;
        strcpy(place, name);
        return before[i].file;
    }
    return NULL;
}

/* Where the program would have found cuRAND, which may be in a package of Python. */
static void audit_tell_place(const char *name)
{
    char *place = library.symbols && strncmp(audit_base_name(name), "libcurand.so", 12) == 0
                      ? mt_attach_library_find(&library, "__mt_attach_curand", 0)
                      : NULL;
    if (place && !*place && strlen(name) < MT_ATTACH_PATH && access(name, R_OK) == 0)
        strcpy(place, name);
}

/* A name with no slash stays: libmemtrace.so must come to be known by it. Each place where it is then looked
 * for is answered with ours, so that neither a run path nor a cache comes first. libmemtrace.so itself looks
 * for the real one. */
EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    static char ours[PATH_MAX], nowhere[] = "/dev/null/libcuda.so.1";
    if (!strchr(name, '/') || (runtime && audit_map(cookie) == runtime) ||
        (audit_is_shown(name) && !audit_is_driver_name(name)))
        return (char *)(uintptr_t)name;
    if (stand_in && audit_map(cookie) == stand_in)
        return (char *)(uintptr_t)name;
    if (audit_is_stand_in(audit_base_name(name), ours)) {
        audit_tell_place(name);
        snprintf(stand_in_name, sizeof stand_in_name, "%s", name);
        return ours;
    }
    int major = audit_major(audit_base_name(name)), driver = audit_is_driver(name, cookie);
    if (!driver && audit_is_shown(name))
        return nowhere;
    const char *file = audit_before(name);
    if (major < 0 && !driver && !file)
        return (char *)(uintptr_t)name;
    int known = audit_stands_for(major > 0 ? mt_binary_node(major) : "libcudart.so", "libmemtrace.so", ours);
    if (driver || file)
        return ours;
    if (major > 13 || (major && major < 11) || !known) {
        static int said;
        if (access(name, R_OK) == 0 && !said++)
            audit_say("%s: a CUDA runtime of a version that this memtrace does not know: it is not traced",
                      name);
        return (char *)(uintptr_t)name;
    }
    return ours;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    *cookie = (uintptr_t)map;
    struct mt_attach_library l;
    if (!runtime && strcmp(audit_base_name(map->l_name), "libmemtrace.so") == 0 &&
        mt_attach_library_read(&l, map) == 0 && mt_attach_library_find(&l, MT_ATTACH_MISSING, 0)) {
        runtime = map;
        library = l;
    }
    if (!stand_in && *map->l_name &&
        (strcmp(map->l_name, stand_in_name) == 0 ||
         strcmp(audit_base_name(map->l_name), "libmemtrace-libraries.so") == 0))
        stand_in = map;
    if (nwaiting < WAITING)
        waiting[nwaiting++] = cookie;
    else if (!lost++)
        audit_say("more than %d libraries at once: CUDA runtimes in the others are not taken over", WAITING);
    return 0; /* its calls are none of ours */
}

EXPORT unsigned la_objclose(uintptr_t *cookie)
{
    for (unsigned i = 0; i < nwaiting; i++)
        if (waiting[i] == cookie)
            waiting[i] = waiting[--nwaiting];
    return 0;
}

/* All that one dlopen needs is mapped, and no constructor of it has run. */
EXPORT void la_activity(uintptr_t *cookie, unsigned what)
{
    if (what != LA_ACT_CONSISTENT)
        return;
    while (nwaiting)
        audit_look(waiting[--nwaiting]);
}
