/* Global variables as buffers: symbols of the program's file, and the sections around them. */
#define _GNU_SOURCE
#include "state.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define PART_MAX (1ull << 30)  /* maximum bytes of a table */
#define ADDRESSES (1ull << 47) /* end of a program's addresses */

/* A part of the file in pages, with a zero after it. data NULL: absent or unreadable. */
struct part {
    char *data;
    uint64_t bytes;
};

struct image {
    int fd;
    struct part sections, section_names, symbols, names;
};

struct variable {
    uint64_t base, bytes;
    const char *name;
    unsigned local;
};

/* ---- the file: read in few parts as it may be large, and without the C library, so not by an elfview
 * ---- */

static struct part globals_part(int fd, uint64_t offset, uint64_t bytes)
{
    struct part p = {NULL, bytes};
    if (!bytes || bytes > PART_MAX || !(p.data = mt_plat_map((size_t)bytes + 1)))
        return p;
    if (mt_plat_pread(fd, p.data, (size_t)bytes, offset)) {
        mt_plat_unmap(p.data, (size_t)bytes + 1);
        p.data = NULL;
    }
    return p;
}

static void globals_give_back(struct part *p)
{
    if (p->data)
        mt_plat_unmap(p->data, (size_t)p->bytes + 1);
}

static unsigned globals_sections(const struct image *f)
{
    return (unsigned)(f->sections.bytes / sizeof(Elf64_Shdr));
}

static const Elf64_Shdr *globals_section(const struct image *f, unsigned i)
{
    return i < globals_sections(f) ? (const Elf64_Shdr *)(const void *)f->sections.data + i : NULL;
}

static const char *globals_name(const struct part *strings, uint64_t offset)
{
    return strings->data && offset < strings->bytes ? strings->data + offset : "";
}

/* Reads the whole symbol table, or the dynamic linker's if that was stripped. */
static void globals_symbols(struct image *f)
{
    const Elf64_Shdr *table = NULL;
    for (unsigned i = 0; i < globals_sections(f); i++) {
        const Elf64_Shdr *s = globals_section(f, i);
        if (s->sh_entsize == sizeof(Elf64_Sym) &&
            (s->sh_type == SHT_SYMTAB || (s->sh_type == SHT_DYNSYM && !table)))
            table = s;
    }
    const Elf64_Shdr *strings = table ? globals_section(f, table->sh_link) : NULL;
    if (!strings)
        return;
    f->symbols = globals_part(f->fd, table->sh_offset, table->sh_size);
    f->names = globals_part(f->fd, strings->sh_offset, strings->sh_size);
}

/* Returns 0 or an errno value. A file without sections is valid and names nothing. */
static int globals_open(struct image *f, const char *path)
{
    Elf64_Ehdr head;
    memset(f, 0, sizeof *f);
    f->fd = (int)mt_sys(__NR_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (f->fd < 0)
        return -f->fd;
    int rc = mt_plat_pread(f->fd, &head, sizeof head, 0);
    if (!rc && (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64))
        rc = ENOEXEC;
    if (!rc && head.e_shnum && head.e_shentsize == sizeof(Elf64_Shdr)) {
        f->sections = globals_part(f->fd, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr));
        rc = f->sections.data ? 0 : EIO;
    }
    const Elf64_Shdr *names = rc || !f->sections.data ? NULL : globals_section(f, head.e_shstrndx);
    if (names)
        f->section_names = globals_part(f->fd, names->sh_offset, names->sh_size);
    if (!rc && f->sections.data)
        globals_symbols(f);
    return rc;
}

static void globals_close(struct image *f)
{
    globals_give_back(&f->sections);
    globals_give_back(&f->section_names);
    globals_give_back(&f->symbols);
    globals_give_back(&f->names);
    if (f->fd >= 0)
        mt_sys(__NR_close, f->fd, 0, 0, 0, 0, 0);
}

/* ---- its contents ---- */

static int globals_is_data(const Elf64_Shdr *s)
{
    return s && (s->sh_flags & SHF_ALLOC) && !(s->sh_flags & (SHF_EXECINSTR | SHF_TLS)) &&
           s->sh_addr < ADDRESSES && s->sh_size < ADDRESSES;
}

static void globals_put_section(uint64_t base, uint64_t bytes, const char *name)
{
    mt_alloc_static(MT_CORE_SECTION, base, bytes, name);
}

static void globals_put_data(uint64_t base, uint64_t bytes, const char *name)
{
    (void)name;
    mt_alloc_data(base, bytes);
}

static void globals_each_section(const struct image *f, uint64_t bias,
                                 void (*put)(uint64_t base, uint64_t bytes, const char *name))
{
    static const char *const kinds[] = {".data", ".bss", ".rodata"};
    for (unsigned i = 0; i < globals_sections(f); i++) {
        const Elf64_Shdr *s = globals_section(f, i);
        const char *name = globals_name(&f->section_names, s->sh_name);
        for (unsigned k = 0; k < 3; k++) {
            size_t n = strlen(kinds[k]);
            if (globals_is_data(s) && s->sh_size && !strncmp(name, kinds[k], n) &&
                (!name[n] || name[n] == '.'))
                put(s->sh_addr + bias, s->sh_size, name);
        }
    }
}

/* Orders by address; at one address the largest first, then the one with the plainest name. */
static int globals_order(const void *a, const void *b)
{
    const struct variable *x = a, *y = b;
    size_t m = strlen(x->name), n = strlen(y->name);
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->local != y->local)
        return x->local < y->local ? -1 : 1;
    return m != n ? (m < n ? -1 : 1) : strcmp(x->name, y->name);
}

/* Collects data symbols with a size. `v` has room for all symbols. */
static size_t globals_collect(const struct image *f, struct variable *v)
{
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)f->symbols.data;
    size_t n = 0;
    for (uint64_t i = 0; i < f->symbols.bytes / sizeof *s; i++) {
        const char *name = globals_name(&f->names, s[i].st_name);
        if (strncmp(name, "memtrace.host.", 14) == 0)
            continue; /* made by the pass: no program has such a name */
        if (ELF64_ST_TYPE(s[i].st_info) == STT_OBJECT && s[i].st_size && *name && s[i].st_value < ADDRESSES &&
            s[i].st_size < ADDRESSES && globals_is_data(globals_section(f, s[i].st_shndx)))
            v[n++] = (struct variable){s[i].st_value, s[i].st_size, name,
                                       ELF64_ST_BIND(s[i].st_info) == STB_LOCAL};
    }
    return n;
}

static void globals_put(const struct variable *v, uint64_t bias)
{
    char symbol[512], room[512];
    size_t n = strcspn(v->name, "@"); /* version of a library's variable */
    const char *name = v->name;
    if (name[n] && n && n < sizeof symbol) {
        memcpy(symbol, name, n);
        symbol[n] = 0;
        name = symbol;
    }
    if (mt_g.e->plain)
        name = mt_g.e->plain(name, room, sizeof room);
    mt_alloc_static(MT_CORE_GLOBAL, v->base + bias, v->bytes, name);
}

/* Adds the variables except second names and variables inside of others. Returns 0 or an errno value. */
static int globals_put_variables(const struct image *f, uint64_t bias)
{
    size_t bytes = (size_t)(f->symbols.bytes / sizeof(Elf64_Sym)) * sizeof(struct variable);
    struct variable *v = f->symbols.data ? mt_plat_map(bytes) : NULL;
    uint64_t end = 0;
    if (!v)
        return f->symbols.data ? ENOMEM : f->symbols.bytes ? EIO : 0;
    size_t n = globals_collect(f, v);
    qsort(v, n, sizeof *v, globals_order);
    for (size_t i = 0; i < n; i++)
        if (v[i].base >= end) {
            globals_put(&v[i], bias);
            end = v[i].base + v[i].bytes;
        }
    mt_plat_unmap(v, bytes);
    return 0;
}

void mt_core_globals(const char *path, uint64_t bias)
{
    struct image f;
    if (!mt_on() || (mt_g.o->mode != MT_CORE_MAT && !mt_g.o->container))
        return;
    int rc = globals_open(&f, path);
    if (!rc) {
        globals_each_section(&f, bias, globals_put_section);
        rc = globals_put_variables(&f, bias);
    }
    globals_close(&f);
    if (rc)
        mt_plat_report("%s cannot be read: %s; global variables are not in the trace as buffers", path,
                       strerror(rc));
    mt_core_moved(NULL);
}

void mt_core_data(const char *path, uint64_t bias)
{
    struct image f;
    if (!mt_on() || mt_g.o->others != MT_CODE_DATA)
        return;
    if (!globals_open(&f, path))
        globals_each_section(&f, bias, globals_put_data);
    globals_close(&f);
}
