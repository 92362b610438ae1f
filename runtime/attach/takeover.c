/* Writes jumps over the functions of a static CUDA runtime in memory, to libmemtrace.so's. */
#include "attach.h"
#include "base/attach.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { JUMP = 14, THUNK = 32, NEAR = 16 };

struct stretch {
    uint64_t begin, end; /* addresses as in the file */
};

static int takeover_fail(struct mt_attach_takeover *t, const char *why, int error, const char *name)
{
    t->why = why;
    t->error = error;
    snprintf(t->name, sizeof t->name, "%s", name);
    return -1;
}

/* A function of the runtime by its name: cudaX or __cudaX. Those of C++ have other names. */
static int takeover_is_named(const char *name)
{
    name += strncmp(name, "__", 2) == 0 ? 2 : 0;
    return strncmp(name, "cuda", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
}

static int takeover_is_function(const struct mt_attach_takeover *t, const Elf64_Sym *y)
{
    return ELF64_ST_TYPE(y->st_info) == STT_FUNC && y->st_shndx != SHN_UNDEF &&
           takeover_is_named(mt_binary_name(t->symbols, y));
}

/* Where the runtime's code lies: between those of its functions that are known. A function of the program's
 * own whose name begins like theirs is outside: the runtime comes out of one object file. */
static struct stretch takeover_range(const struct mt_attach_takeover *t)
{
    struct stretch r = {UINT64_MAX, 0};
    for (size_t i = 0; i < t->symbols->count; i++) {
        const Elf64_Sym *y = &t->symbols->entry[i];
        if (!takeover_is_function(t, y) ||
            !mt_attach_library_find(t->library, mt_binary_name(t->symbols, y), t->node))
            continue;
        r.begin = y->st_value < r.begin ? y->st_value : r.begin;
        r.end = y->st_value + JUMP > r.end ? y->st_value + JUMP : r.end;
    }
    return r;
}

/* Is there room for a jump at a function that is shorter than one? What lies between functions is never run.
 */
static int takeover_has_room(const struct mt_attach_takeover *t, const Elf64_Sym *y)
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

/* The segment of code that has all of it, or NULL. */
static const Elf64_Phdr *takeover_segment(const struct mt_attach_takeover *t, struct stretch r)
{
    for (unsigned i = 0; i < t->object->nsegments; i++) {
        const Elf64_Phdr *p = &t->object->segments[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X && r.begin >= p->p_vaddr &&
            r.end <= p->p_vaddr + p->p_filesz)
            return p;
    }
    return NULL;
}

/* 1 with y->st_value in r: it is to be taken over. *to is NULL where libmemtrace.so has no such function. */
static int takeover_wants(const struct mt_attach_takeover *t, struct stretch r, const Elf64_Sym *y, void **to)
{
    if (!takeover_is_function(t, y) || y->st_value < r.begin || y->st_value >= r.end)
        return 0;
    *to = mt_attach_library_find(t->library, mt_binary_name(t->symbols, y), t->node);
    return 1;
}

/* Counts, and looks whether all can be done before anything is. */
static int takeover_count(struct mt_attach_takeover *t, struct stretch r)
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

/* For functions that libmemtrace.so lacks: code that calls it with the name. Both tables stay as long as the
 * process. */
struct thunks {
    unsigned char *code;
    struct mt_attach_missing *names;
    unsigned used, room;
    void *report;
};

static int takeover_make_thunks(struct mt_attach_takeover *t, struct thunks *h)
{
    *h = (struct thunks){.room = t->missing,
                         .report = mt_attach_library_find(t->library, MT_ATTACH_MISSING, 0)};
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

static void takeover_write(struct mt_attach_takeover *t, struct stretch r, struct thunks *h)
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

int mt_attach_takeover(struct mt_attach_takeover *t)
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
    /* Never writable and executable at once: nobody runs this code yet, and this one lies elsewhere. */
    if (mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE) != 0)
        return takeover_fail(t, "mprotect", errno, "");
    takeover_write(t, r, &h);
    if (mprotect((void *)begin, end - begin, takeover_protection(segment)) != 0 ||
        (h.room && mprotect(h.code, h.room * (size_t)THUNK, PROT_READ | PROT_EXEC) != 0))
        return takeover_fail(t, "mprotect", errno, ""); /* it ends there with a segmentation fault */
    return 0;
}
