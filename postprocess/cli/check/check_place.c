/* Source lines of the program's own calls, where the compiler has not told them (nvcc): by the return
 * addresses and the program's line tables. Only of a program that was run just now: a trace may name any
 * file. */
#define _GNU_SOURCE
#include "check.h"
#include "analysis/base/pairmap.h"
#ifdef MT_WITH_ELF
#include "base/elffile.h"
#include <stdlib.h>
#include <string.h>

/* The file of the last address: most are of one program. */
struct opened {
    char *path;
    struct mt_elf *elf;
    const char *stub;         /* a kernel's, which the address before was in; or NULL */
    struct mt_pairmap allocs; /* whose lines were asked for */
};

static struct mt_elf *place_open(struct opened *o, const char *path, size_t n)
{
    if (!o->path || strlen(o->path) != n || strncmp(o->path, path, n) != 0) {
        free(o->path);
        o->path = strndup(path, n);
        o->elf = o->path ? mt_elf_open(o->path) : NULL; /* there is no close: the program ends soon */
    }
    return o->elf;
}

/* Of CUDA's own headers: who calls them is meant. */
static int place_is_toolkit(const char *file)
{
    return strstr(file, "cuda_runtime") || strstr(file, "/crt/") || strstr(file, "/usr/include/") ||
           strstr(file, "device_launch") || strstr(file, ".cudafe1.stub.c");
}

/* Are they in one file? Those of another one, a library's that called, are not meant. */
static int place_same(const char *a, const char *b)
{
    size_t n = (size_t)(strchrnul(a, '+') - a);
    return strncmp(a, b, n + 1) == 0;
}

/* Of CUDA's headers, too, where no line says so: cudaMalloc<int> is a function of the program. */
static int place_is_wrapper(const char *function)
{
    const char *name = function && strncmp(function, "_Z", 2) == 0 ? function + 2 : "";
    name += *name == 'L';
    name += *name >= '0' && *name <= '9' ? strspn(name, "0123456789") : strlen(name);
    return strncmp(name, "cuda", 4) == 0 || strncmp(name, "__cuda", 6) == 0;
}

/* The name that both have: what is named as the kernel calls its stub. */
static const char *place_stub(const char *function)
{
    static const char begin[] = "__device_stub_";
    const char *at = function ? strstr(function, begin) : NULL;
    return at ? at + strlen(begin) : NULL;
}

/* The innermost line that is not of CUDA's headers, nor (stub) of what is named as a kernel: of the functions
 * that are inlined there, too. */
static int place_line(struct mt_elf *elf, uint64_t address, int stub, struct mt_elf_location *l)
{
    const char *function = NULL;
    int rc = mt_elf_line(elf, address, l);
    for (unsigned level = 0; rc == 0 && (stub || place_is_toolkit(l->file)); level++) {
        rc = mt_elf_inlined(elf, address, level, l, &function);
        stub = place_stub(function) != NULL;
    }
    return rc;
}

/* Is it one that the program's author wrote, and calls from there? */
static int place_is_own(const char *function, const char *stub)
{
    return function && !place_is_wrapper(function) && strcmp(function, "_start") != 0 &&
           !(stub && strncmp(stub, function, strlen(function)) == 0);
}

/* "path+0x12". 0; -1: not known; 1: a kernel's stub. *own: in a function of the program's own. */
static int place_of(struct mt_findings *f, struct opened *o, const char *at, struct mt_finding_side *side,
                    int *own)
{
    const char *plus = strrchr(at, '+'), *stub = o->stub;
    struct mt_elf *elf = plus ? place_open(o, at, (size_t)(plus - at)) : NULL;
    struct mt_elf_location l;
    char path[4096];
    uint64_t address = elf ? strtoull(plus + 1, NULL, 16) - 1 : 0; /* of the call: it returns behind it */
    const char *function = elf ? mt_elf_function(elf, address) : NULL;
    *own = place_is_own(function, stub);
    if ((o->stub = place_stub(function)))
        return 1;
    if (!elf || place_line(elf, address, stub != NULL, &l) != 0 || !l.line)
        return -1;
    snprintf(path, sizeof path, "%s%s%s", l.folder, *l.folder ? "/" : "", l.file);
    if (!(side->file = mt_findings_text(f, path, strlen(path))))
        return -1;
    side->line = l.line;
    return 0;
}

/* The innermost call of the file's own code that has a line; without lines that in a function of its own. */
static void place_find(struct mt_findings *f, struct opened *o, struct mt_finding_side *s)
{
    char caller[4096];
    const char *at = s->at, *next = s->callers, *own = NULL;
    if ((s->file && *s->file) || !next || !at)
        return;
    for (o->stub = NULL; at; at = *next ? next : NULL) {
        size_t n = strcspn(at, "\n");
        int is_own = 0, rc = -1;
        snprintf(caller, sizeof caller, "%.*s", (int)n, at);
        if (place_same(s->at, caller))
            rc = place_of(f, o, caller, s, &is_own);
        if (rc == 0)
            return;
        own = rc < 0 && is_own && !own ? at : own;
        next += at == s->at ? 0 : n;
        next += strspn(next, "\n");
    }
    if (own && own != s->at && (own = mt_findings_text(f, own, strcspn(own, "\n"))))
        s->at = own;
}

/* A copy of an allocation with its line; once for each. */
static const struct mt_alloc_event *place_alloc(struct mt_findings *f, struct opened *o,
                                                const struct mt_alloc_event *a)
{
    struct mt_finding_side s = {.file = a->file, .at = a->at, .callers = a->callers};
    uint64_t *made = *a->file || !a->at || !*a->at || !a->callers
                         ? NULL
                         : mt_pairmap_get(&o->allocs, (uint64_t)(uintptr_t)a, 0, 0);
    if (!made || *made)
        return made ? (const struct mt_alloc_event *)(uintptr_t)*made : a;
    place_find(f, o, &s);
    struct mt_alloc_event with = *a;
    with.file = s.file;
    with.line = s.line;
    with.at = s.at;
    const char *copy =
        *s.file || s.at != a->at ? mt_findings_text(f, (const char *)&with, sizeof with) : NULL;
    *made = (uint64_t)(uintptr_t)(copy ? (const void *)copy : a);
    return (const struct mt_alloc_event *)(uintptr_t)*made;
}

void mt_check_places(struct mt_findings *f)
{
    struct opened o = {0};
    for (size_t i = 0; i < f->count; i++) {
        struct mt_finding *x = &f->list[i];
        place_find(f, &o, &x->here);
        place_find(f, &o, &x->other);
        x->alloc = x->alloc ? place_alloc(f, &o, x->alloc) : NULL;
    }
    mt_pairmap_free(&o.allocs);
    free(o.path);
}
#else
void mt_check_places(struct mt_findings *f)
{
    (void)f;
}
#endif
