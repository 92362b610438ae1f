/* libmemtrace-attach.so: makes libmemtrace.so the CUDA runtime of programs that were not built for it. An
 * auditor of the dynamic linker (LD_AUDIT): docs/design/attach.md. Parts of this file: file of the program;
 * functions of libmemtrace.so in memory; jumps over the functions of a static CUDA runtime; callbacks of the
 * dynamic linker.
 *
 * Runs before all constructors and under the dynamic linker's lock: no malloc, no stdio, no calls into the
 * program. */
#include "base/part.h"
#include "base/attach.h"
#include "base/binary.h"
#include "base/nvidia.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* Tables of libmemtrace.so, in memory. */
struct attach_library {
    uintptr_t base;
    const Elf64_Sym *symbols;
    const char *strings;
    const uint32_t *hash; /* DT_GNU_HASH */
    const Elf64_Versym *versions;
    const Elf64_Verdef *nodes;
};

struct attach_takeover {
    const struct mt_binary *object;
    const struct mt_binary_symbols *symbols;
    uintptr_t base;                       /* load address of the object */
    const struct attach_library *library; /* libmemtrace.so */
    unsigned node;                        /* version node for the object's CUDA version */
    unsigned taken, missing;              /* out: numbers of functions */
    const char *why;                      /* out: reason of the failure */
    int error;                            /* out: its errno, or 0 */
    char name[80];                        /* out: the function that failed, or "" */
};

/* File of an object. The program itself has no name in its link map, and its file may be gone. */

/* Returns whether the kernel started the program; if the dynamic linker was run as a command, it is
 * /proc/self/exe itself. */
static int program_is_exe(void)
{
    return getauxval(AT_BASE) != 0;
}

/* Parses "55d0-55d8 r--p 0000 08:01 17    /x/y" and returns whether it contains the address. range: its first
 * word; path: "" for none. */
static int program_line(const char *line, uintptr_t address, char range[40], char path[PATH_MAX])
{
    char *end;
    uintptr_t begin = strtoull(line, &end, 16), over = *end == '-' ? strtoull(end + 1, &end, 16) : 0;
    const char *slash = strchr(line, '/');
    if (address < begin || address >= over)
        return 0;
    snprintf(range, 40, "%.*s", (int)(end - line), line);
    snprintf(path, PATH_MAX, "%s", slash ? slash : "");
    return 1;
}

/* Decodes \012, which stands for a line feed in a name. */
static void program_feeds(char *path)
{
    char *to = path;
    if (access(path, F_OK) == 0)
        return;
    for (const char *at = path; *at; to++) {
        int feed = strncmp(at, "\\012", 4) == 0;
        *to = feed ? '\n' : *at;
        at += feed ? 4 : 1;
    }
    *to = 0;
}

/* Finds the file mapped at an address in /proc/self/maps. Returns 0 or -1. */
static int program_mapped(uintptr_t address, char range[40], char path[PATH_MAX])
{
    char text[4 * PATH_MAX], *feed;
    size_t have = 0;
    ssize_t n;
    int found = 0, fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found && (n = read(fd, text + have, sizeof text - 1 - have)) > 0) {
        have += (size_t)n;
        text[have] = 0;
        char *line = text;
        for (; !found && (feed = strchr(line, '\n')) != NULL; line = feed + 1) {
            *feed = 0;
            found = program_line(line, address, range, path);
        }
        have -= (size_t)(line - text);
        memmove(text, line, have);
    }
    if (fd >= 0)
        close(fd);
    if (found)
        program_feeds(path);
    return found ? 0 : -1;
}

/* Returns the object's path, its own or in `room`; the file may be gone. */
static const char *attach_path(const struct link_map *map, char room[PATH_MAX])
{
    char range[40];
    if (*map->l_name)
        return map->l_name;
    if (program_is_exe() ? mt_files_self(room, 0) : program_mapped((uintptr_t)map->l_ld, range, room))
        *room = 0;
    if (!*room && getauxval(AT_EXECFN)) /* there is no /proc */
        snprintf(room, PATH_MAX, "%s", (const char *)getauxval(AT_EXECFN));
    return room;
}

/* Opens the object's file, as mt_binary_open does, even if the program was deleted, never had a name, or is
 * run by the dynamic linker as a command. */
static int attach_program_open(struct mt_binary *o, const struct link_map *map, const char *path)
{
    char range[40], room[PATH_MAX], link[64] = "/proc/self/exe";
    if (*map->l_name)
        return mt_binary_open(o, path);
    if (!program_is_exe() && program_mapped((uintptr_t)map->l_ld, range, room) == 0)
        snprintf(link, sizeof link, "/proc/self/map_files/%s", range); /* needs privileges on some systems */
    int first = mt_binary_open(o, program_is_exe() ? link : path);
    return first && mt_binary_open(o, program_is_exe() ? path : link) != 0 ? first : 0;
}

/* Lookup of a library's functions by name and version node, without the dynamic linker, which is busy. */

/* Returns an address of the dynamic section, which the dynamic linker may or may not have relocated. */
static const void *library_at(const struct attach_library *l, uint64_t address)
{
    return (const void *)(address < l->base ? l->base + address : address);
}

/* Returns 0, or -1 if one of these tables is missing. */
static int attach_library_read(struct attach_library *l, const struct link_map *map)
{
    *l = (struct attach_library){.base = map->l_addr};
    for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_SYMTAB:
            l->symbols = library_at(l, d->d_un.d_ptr);
            break;
        case DT_STRTAB:
            l->strings = library_at(l, d->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            l->hash = library_at(l, d->d_un.d_ptr);
            break;
        case DT_VERSYM:
            l->versions = library_at(l, d->d_un.d_ptr);
            break;
        case DT_VERDEF:
            l->nodes = library_at(l, d->d_un.d_ptr);
            break;
        default:
            break;
        }
    return l->symbols && l->strings && l->hash && l->versions && l->nodes ? 0 : -1;
}

/* Returns the number of the version node of this name, or 0. */
static unsigned attach_library_node(const struct attach_library *l, const char *name)
{
    for (const Elf64_Verdef *v = l->nodes;; v = (const Elf64_Verdef *)((const char *)v + v->vd_next)) {
        const Elf64_Verdaux *a = (const Elf64_Verdaux *)((const char *)v + v->vd_aux);
        if (strcmp(l->strings + a->vda_name, name) == 0)
            return v->vd_ndx;
        if (!v->vd_next)
            return 0;
    }
}

static uint32_t library_hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

/* Returns the function under this node (0: any), or NULL. */
static void *attach_library_find(const struct attach_library *l, const char *name, unsigned node)
{
    /* header: number of buckets, first symbol, words of the Bloom filter, its shift; then filter, buckets,
     * chains */
    const uint32_t *t = l->hash, h = library_hash(name);
    const uint32_t *buckets = t + 4 + 2 * (size_t)t[2], *chains = buckets + t[0];
    uint32_t i = buckets[h % t[0]];
    if (i < t[1])
        return NULL;
    for (;; i++) {
        const Elf64_Sym *y = &l->symbols[i];
        uint32_t chain = chains[i - t[1]];
        if ((chain | 1) == (h | 1) && y->st_shndx != SHN_UNDEF &&
            (!node || (l->versions[i] & 0x7fff) == node) && strcmp(l->strings + y->st_name, name) == 0)
            return (void *)(l->base + y->st_value);
        if (chain & 1)
            return NULL;
    }
}

/* Writes jumps to libmemtrace.so's functions over those of a static CUDA runtime in memory. */

enum { JUMP = 14, THUNK = 32, NEAR = 16 };

struct stretch {
    uint64_t begin, end; /* addresses as in the file */
};

static int takeover_fail(struct attach_takeover *t, const char *why, int error, const char *name)
{
    t->why = why;
    t->error = error;
    snprintf(t->name, sizeof t->name, "%s", name);
    return -1;
}

/* Returns whether a name is one of the runtime: cudaX or __cudaX. C++ functions have other names. */
static int takeover_is_named(const char *name)
{
    name += strncmp(name, "__", 2) == 0 ? 2 : 0;
    return strncmp(name, "cuda", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
}

static int takeover_is_function(const struct attach_takeover *t, const Elf64_Sym *y)
{
    return ELF64_ST_TYPE(y->st_info) == STT_FUNC && y->st_shndx != SHN_UNDEF &&
           takeover_is_named(mt_binary_name(t->symbols, y));
}

/* Returns the range of the runtime's code, between its known functions. A function of the program with such a
 * name is outside, since the runtime comes from one object file. */
static struct stretch takeover_range(const struct attach_takeover *t)
{
    struct stretch r = {UINT64_MAX, 0};
    for (size_t i = 0; i < t->symbols->count; i++) {
        const Elf64_Sym *y = &t->symbols->entry[i];
        if (!takeover_is_function(t, y) ||
            !attach_library_find(t->library, mt_binary_name(t->symbols, y), t->node))
            continue;
        r.begin = y->st_value < r.begin ? y->st_value : r.begin;
        r.end = y->st_value + JUMP > r.end ? y->st_value + JUMP : r.end;
    }
    return r;
}

/* Returns whether a jump fits at a function shorter than it: bytes between functions are never run. */
static int takeover_has_room(const struct attach_takeover *t, const Elf64_Sym *y)
{
    if (y->st_size >= JUMP)
        return 1;
    if (y->st_value % NEAR)
        return 0;
    for (size_t i = 0; i < t->symbols->count; i++) {
        uint64_t other = t->symbols->entry[i].st_value;
        if (other > y->st_value && other < y->st_value + JUMP)
            return 0;
    }
    return 1;
}

/* Returns the code segment that contains the whole range, or NULL. */
static const Elf64_Phdr *takeover_segment(const struct attach_takeover *t, struct stretch r)
{
    for (unsigned i = 0; i < t->object->nsegments; i++) {
        const Elf64_Phdr *p = &t->object->segments[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X && r.begin >= p->p_vaddr &&
            r.end <= p->p_vaddr + p->p_filesz)
            return p;
    }
    return NULL;
}

/* Returns 1 if the function at y->st_value is in r and must be replaced. *to is NULL if libmemtrace.so lacks
 * it. */
static int takeover_wants(const struct attach_takeover *t, struct stretch r, const Elf64_Sym *y, void **to)
{
    if (!takeover_is_function(t, y) || y->st_value < r.begin || y->st_value >= r.end)
        return 0;
    *to = attach_library_find(t->library, mt_binary_name(t->symbols, y), t->node);
    return 1;
}

/* Counts the functions, and checks that all can be replaced before any is. */
static int takeover_count(struct attach_takeover *t, struct stretch r)
{
    void *to;
    for (size_t i = 0; i < t->symbols->count; i++) {
        const Elf64_Sym *y = &t->symbols->entry[i];
        if (!takeover_wants(t, r, y, &to))
            continue;
        if (!takeover_has_room(t, y))
            return takeover_fail(t, "a function is too short for a jump", 0, mt_binary_name(t->symbols, y));
        t->taken += to != NULL;
        t->missing += to == NULL;
    }
    return 0;
}

/* For functions missing in libmemtrace.so: code that calls it with the name. Both tables live as long as the
 * process. */
struct thunks {
    unsigned char *code;
    struct mt_attach_missing *names;
    unsigned used, room;
    void *report;
};

static int takeover_make_thunks(struct attach_takeover *t, struct thunks *h)
{
    *h = (struct thunks){.room = t->missing, .report = attach_library_find(t->library, MT_ATTACH_MISSING, 0)};
    if (!h->report)
        return takeover_fail(t, "its libmemtrace.so is of another version", 0, "");
    if (!h->room)
        return 0;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    h->code = mmap(NULL, h->room * (size_t)THUNK, PROT_READ | PROT_WRITE, flags, -1, 0);
    h->names = mmap(NULL, h->room * sizeof *h->names, PROT_READ | PROT_WRITE, flags, -1, 0);
    return h->code == MAP_FAILED || h->names == MAP_FAILED ? takeover_fail(t, "mmap", errno, "") : 0;
}

static void *takeover_thunk(struct thunks *h, const char *name)
{
    unsigned char *p = h->code + h->used * (size_t)THUNK;
    struct mt_attach_missing *m = &h->names[h->used++];
    snprintf(m->name, sizeof m->name, "%s", name);
    memcpy(p, "\x48\xbf", 2); /* mov $m, %rdi */
    memcpy(p + 2, &m, 8);
    memcpy(p + 10, "\x48\xb8", 2); /* mov $report, %rax */
    memcpy(p + 12, &h->report, 8);
    memcpy(p + 20, "\xff\xe0", 2); /* jmp *%rax */
    return p;
}

static void takeover_write(struct attach_takeover *t, struct stretch r, struct thunks *h)
{
    void *to;
    for (size_t i = 0; i < t->symbols->count; i++) {
        const Elf64_Sym *y = &t->symbols->entry[i];
        if (!takeover_wants(t, r, y, &to))
            continue;
        if (!to)
            to = takeover_thunk(h, mt_binary_name(t->symbols, y));
        unsigned char *p = (unsigned char *)t->base + y->st_value;
        memcpy(p, "\xff\x25\0\0\0\0", 6); /* jmp *0(%rip) */
        memcpy(p + 6, &to, 8);
    }
}

static int takeover_protection(const Elf64_Phdr *p)
{
    return (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
           (p->p_flags & PF_X ? PROT_EXEC : 0);
}

/* Returns 0, or -1 with the reason in t: the object is then unchanged. */
static int attach_takeover(struct attach_takeover *t)
{
    struct stretch r = takeover_range(t);
    struct thunks h;
    t->taken = t->missing = 0;
    const Elf64_Phdr *segment = takeover_segment(t, r);
    if (!segment)
        return takeover_fail(t, "its code is not where its symbols say", 0, "");
    if (takeover_count(t, r) != 0 || takeover_make_thunks(t, &h) != 0)
        return -1;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (t->base + r.begin) & -page,
              end = (t->base + r.end + page - 1) & -page;
    /* Never writable and executable at once: this code is not running yet, and ours lies elsewhere. */
    if (mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE) != 0)
        return takeover_fail(t, "mprotect", errno, "");
    takeover_write(t, r, &h);
    if (mprotect((void *)begin, end - begin, takeover_protection(segment)) != 0 ||
        (h.room && mprotect(h.code, h.room * (size_t)THUNK, PROT_READ | PROT_EXEC) != 0))
        return takeover_fail(t, "mprotect", errno,
                             ""); /* the program will fail with a segmentation fault there */
    return 0;
}

#define EXPORT __attribute__((visibility("default")))
#define RELINK "relink it with NVCC_APPEND_FLAGS=\"--cudart=shared\" (or nvcc --cudart=shared)"

enum { WAITING = 8192 };
static uintptr_t *waiting[WAITING]; /* cookies of mapped objects not examined yet */
static unsigned nwaiting, lost;
static struct link_map *runtime;     /* libmemtrace.so */
static struct link_map *stand_in;    /* libmemtrace-libraries.so; its own requests go to the real libraries */
static char stand_in_name[PATH_MAX]; /* its name for the dynamic linker */
static struct attach_library library;
static char folder[PATH_MAX - 64]; /* folder of this library */

/* Writes one line to stderr: "memtrace: …". Not mt_report, whose settings and constructors belong to the
 * program's namespace; this library is outside of it. */
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
    if (write(STDERR_FILENO, text, n) < 0) /* no other way to report it */
        return;
}

/* Settings at the start of the process, as the program may change its environment. */
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

/* Returns 0, or -1 after a report if the runtime is left as it is. */
static int audit_take_over(const char *path, struct attach_takeover *t, int major)
{
    if (!library.symbols) {
        audit_say(
            "%s: its CUDA runtime is left as it is: libmemtrace.so is not loaded; was LD_PRELOAD changed?",
            path);
        return -1;
    }
    int done = 0;
    t->library = &library;
    t->node = major ? attach_library_node(&library, mt_binary_node(major)) : 0;
    if (!t->node)
        audit_say(
            "%s: the CUDA runtime in it is %s than this memtrace knows: it is left as it is, and not traced",
            path, major ? "of another version" : "older");
    else if (!(done = attach_takeover(t) == 0))
        audit_say("%s: its CUDA runtime cannot be taken over: %s%s%s%s%s; it is not traced: " RELINK, path,
                  t->name, *t->name ? ": " : "", t->why, t->error ? ": " : "",
                  t->error ? strerrordesc_np(t->error) : "");
    else if (verbose)
        audit_say("%s: the CUDA %d runtime in it is taken over: %u functions, %u of them not supported", path,
                  major, t->taken + t->missing, t->missing);
    return done ? 0 : -1;
}

/* Data of the dynamic linker for each object: its link map, with low bits that tell if it has a CUDA runtime
 * that was left as it is. Such a runtime checks private tables of NVIDIA's driver, so it must not get ours.
 */
enum audit_left {
    NOT_LEFT,
    LEFT_SAID,     /* has kernels, and the reason was reported */
    LEFT_NAMELESS, /* has kernels, and its symbols are stripped */
    LEFT_EMPTY,    /* has no kernels, and its symbols are stripped */
    LEFT_TOLD,     /* in use, and everything was reported */
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
    return !wants_cpu && mt_nvidia_is_here();
}

/* Reports that the runtime is in use, and in no trace. */
static void audit_tell_left(uintptr_t *cookie)
{
    enum audit_left state = *cookie & LEFT_BITS;
    char room[PATH_MAX];
    const char *path = attach_path(audit_map(cookie), room);
    struct mt_attach_left *told = library.symbols ? attach_library_find(&library, MT_ATTACH_LEFT, 0) : NULL;
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

/* Leaves a runtime. Without a GPU it does nothing before it looks for a driver, and many libraries never do.
 */
static void audit_leave(uintptr_t *cookie, enum audit_left state)
{
    audit_set_left(cookie, state);
    if (audit_has_gpu())
        audit_tell_left(cookie);
}

/* Returns 1 for NVIDIA's libraries that PyTorch and others load but seldom call. If called, they fail with a
 * message, so no kernels of theirs are lost silently. */
static int audit_is_told_by_itself(const char *base)
{
    static const char *const names[] = {"libcusparseLt.so", "libcufile.so", NULL};
    for (unsigned i = 0; names[i]; i++)
        if (strncmp(base, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* Opens a file. Returns 0, or an errno value after a report: its contents are then unknown. */
static int audit_open(struct mt_binary *o, const struct link_map *map, const char *path)
{
    int why = attach_program_open(o, map, path);
    if (why)
        audit_say("%s: it cannot be read (%s), so that a CUDA runtime in it would not be traced: run a "
                  "copy that can be",
                  path, strerrordesc_np(why));
    return why;
}

/* Returns whether a library is in the tables of runtime/libraries. */
static int audit_is_tabled(const char *base)
{
    static const char *const names[] = {MT_LIBRARY_NAMES};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(base, names[i]) == 0)
            return 1;
    return 0;
}

/* Returns whether our library exists under this name, with its path. It is a link to it, or where links are
 * impossible, as in a wheel, a copy under that name. */
static int audit_stands_for(const char *name, const char *library, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%smemtrace/cudart/%s", folder, name);
    int known = access(path, R_OK) == 0;
    snprintf(path, PATH_MAX, "%s%s", folder, library);
    return known;
}

/* Returns whether libmemtrace-libraries.so replaces the library, without a GPU. */
static int audit_is_stand_in(const char *base, char path[PATH_MAX])
{
    return !audit_has_gpu() && audit_is_tabled(base) &&
           audit_stands_for(base, "libmemtrace-libraries.so", path);
}

static void audit_look(uintptr_t *cookie)
{
    char room[PATH_MAX], ours[PATH_MAX];
    const struct link_map *map = audit_map(cookie);
    const char *path = attach_path(map, room);
    struct mt_binary o;
    struct attach_takeover t = {.object = &o, .base = map->l_addr};
    int major, tabled = audit_is_tabled(audit_base_name(path));
    if ((*map->l_name && !strchr(path, '/')) ||           /* the kernel's vdso */
        (tabled && stand_in) ||                           /* their calls are traced */
        audit_is_stand_in(audit_base_name(path), ours) || /* found in this folder, and ours is loaded */
        audit_open(&o, map, path) != 0)
        return;
    switch (mt_binary_cudart(&o, &t.symbols, &major)) {
    case MT_CUDART_STATIC:
        if (audit_take_over(path, &t, major) != 0)
            audit_leave(cookie, LEFT_SAID);
        break;
    case MT_CUDART_NAMELESS:
        /* Without kernels, such as NVIDIA's Python bindings: it fails, but nothing is lost. */
        audit_leave(cookie, mt_binary_section(&o, ".nv_fatbin") != 0 &&
                                    (audit_has_gpu() || !audit_is_told_by_itself(audit_base_name(path)))
                                ? LEFT_NAMELESS
                                : LEFT_EMPTY);
        break;
    default: /* such as cuFFT, where no runtime can be recognised */
        if (tabled)
            audit_leave(cookie, LEFT_SAID);
        break;
    }
    mt_binary_close(&o);
}

/* ---- callbacks of the dynamic linker ---- */

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

/* Returns the major version in libcudart.so.12, libcudart.so.12.4.127 or libcudart-1a2b3c.so.12; -1: another
 * name, 0: no version. */
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

/* Returns whether the name is in the folder that memtrace run puts into LD_LIBRARY_PATH, for programs that
 * look for the driver there. The folder contains nothing else: other libraries are found in later ones. */
static int audit_is_shown(const char *name)
{
    static const char below[] = "memtrace/driver/";
    size_t n = strlen(folder);
    return strncmp(name, folder, n) == 0 && strncmp(name + n, below, sizeof below - 1) == 0;
}

/* Returns whether to answer with our driver: if there is none, or if the CPU device is requested. On a GPU
 * NVIDIA's runtime needs its own. */
static int audit_is_driver(const char *name, uintptr_t *cookie)
{
    int asks = (*cookie & LEFT_BITS) != NOT_LEFT;
    if (!audit_is_driver_name(name))
        return 0;
    if (asks)
        audit_tell_left(cookie);
    return !asks && (audit_is_shown(name) || access(name, R_OK) != 0 || wants_cpu);
}

/* Libraries that libmemtrace.so intercepts, and its variables for their paths. */
static const struct {
    const char *file, *symbols, *place;
} before[] = {{"libnvrtc.so", "nvrtc", "__mt_attach_nvrtc"},
              {"libnvJitLink.so", "nvJitLink", "__mt_attach_nvjitlink"}};

/* Returns whether libmemtrace.so has all functions of the library. A newer one may have more. */
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
            known &= attach_library_find(&library, name, 0) != NULL;
    }
    mt_binary_close(&o);
    if (!known)
        audit_say("%s: newer than this memtrace: what it makes for a GPU does not run on the CPU device",
                  path);
    return known;
}

/* Intercepts a path to NVRTC or nvJitLink and tells it to libmemtrace.so; of several in one process only the
 * first. */
static const char *audit_before(const char *name)
{
    for (size_t i = 0; library.symbols && i < sizeof before / sizeof *before; i++) {
        if (strncmp(audit_base_name(name), before[i].file, strlen(before[i].file)) != 0)
            continue;
        char *place = attach_library_find(&library, before[i].place, 0);
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

/* Tells the path of the cuRAND that the program would use, which may be in a Python package. */
static void audit_tell_place(const char *name)
{
    char *place = library.symbols && strncmp(audit_base_name(name), "libcurand.so", 12) == 0
                      ? attach_library_find(&library, "__mt_attach_curand", 0)
                      : NULL;
    if (place && !*place && strlen(name) < MT_ATTACH_PATH && access(name, R_OK) == 0)
        strcpy(place, name);
}

/* Answers searches. A name without a slash is kept, as libmemtrace.so must become known by it. Each path then
 * tried for it is answered with ours, so that neither a run path nor a cache comes first. Searches of
 * libmemtrace.so itself find the real library. */
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
    struct attach_library l;
    if (!runtime && strcmp(audit_base_name(map->l_name), "libmemtrace.so") == 0 &&
        attach_library_read(&l, map) == 0 && attach_library_find(&l, MT_ATTACH_MISSING, 0)) {
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
    return 0; /* its calls are not intercepted */
}

EXPORT unsigned la_objclose(uintptr_t *cookie)
{
    for (unsigned i = 0; i < nwaiting; i++)
        if (waiting[i] == cookie)
            waiting[i] = waiting[--nwaiting];
    return 0;
}

/* Called when everything for one dlopen is mapped, and none of its constructors has run. */
EXPORT void la_activity(uintptr_t *cookie, unsigned what)
{
    if (what != LA_ACT_CONSISTENT)
        return;
    while (nwaiting)
        audit_look(waiting[--nwaiting]);
}
