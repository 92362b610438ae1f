/* Reads an ELF file, and finds out which CUDA runtime is in it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "binary.h"
#include "attach/abi.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const void *binary_at(const struct mt_binary *o, uint64_t offset, uint64_t count, uint64_t each)
{
    return offset <= o->size && (!each || count <= (o->size - offset) / each) && offset % 8 == 0
               ? o->data + offset
               : NULL;
}

/* Strings that end in a NUL, or NULL. */
static const char *binary_strings(const struct mt_binary *o, const Elf64_Shdr *s, size_t *size)
{
    const char *text = s->sh_offset <= o->size && s->sh_size <= o->size - s->sh_offset && s->sh_size
                           ? (const char *)o->data + s->sh_offset
                           : NULL;
    *size = text ? s->sh_size : 0;
    return text && !text[s->sh_size - 1] ? text : NULL;
}

static void binary_symbols(const struct mt_binary *o, const Elf64_Shdr *s, struct mt_binary_symbols *out)
{
    if (s->sh_entsize != sizeof(Elf64_Sym) || s->sh_link >= o->nsections)
        return;
    size_t count = s->sh_size / sizeof(Elf64_Sym);
    out->entry = binary_at(o, s->sh_offset, count, sizeof(Elf64_Sym));
    out->strings = binary_strings(o, &o->sections[s->sh_link], &out->size);
    out->count = out->entry && out->strings ? count : 0;
}

static void binary_soname(struct mt_binary *o, const Elf64_Shdr *s)
{
    size_t count = s->sh_size / sizeof(Elf64_Dyn), size;
    const Elf64_Dyn *d = binary_at(o, s->sh_offset, count, sizeof *d);
    const char *text = s->sh_link < o->nsections ? binary_strings(o, &o->sections[s->sh_link], &size) : NULL;
    for (size_t i = 0; d && text && i < count && d[i].d_tag != DT_NULL; i++)
        if (d[i].d_tag == DT_SONAME && d[i].d_un.d_val < size)
            o->soname = text + d[i].d_un.d_val;
}

static int binary_parse(struct mt_binary *o)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)o->data;
    if (o->size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
        h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != EM_X86_64)
        return ENOEXEC;
    if (h->e_phentsize == sizeof(Elf64_Phdr) &&
        (o->segments = binary_at(o, h->e_phoff, h->e_phnum, sizeof(Elf64_Phdr))))
        o->nsegments = h->e_phnum;
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shstrndx >= h->e_shnum ||
        !(o->sections = binary_at(o, h->e_shoff, h->e_shnum, sizeof(Elf64_Shdr))))
        return 0;
    o->nsections = h->e_shnum;
    o->names = binary_strings(o, &o->sections[h->e_shstrndx], &o->names_size);
    for (unsigned i = 0; i < o->nsections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (s->sh_type == SHT_SYMTAB)
            binary_symbols(o, s, &o->all);
        else if (s->sh_type == SHT_DYNSYM)
            binary_symbols(o, s, &o->dynamic);
        else if (s->sh_type == SHT_DYNAMIC)
            binary_soname(o, s);
    }
    return 0;
}

int mt_binary_open(struct mt_binary *o, const char *path)
{
    struct stat st;
    *o = (struct mt_binary){0};
    int why = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        why = errno;
    else if (!S_ISREG(st.st_mode) || !st.st_size)
        why = ENOEXEC;
    else if ((o->data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        why = errno;
    if (fd >= 0)
        close(fd);
    if (why)
        return why;
    o->size = (size_t)st.st_size;
    why = binary_parse(o);
    if (why)
        mt_binary_close(o);
    return why;
}

void mt_binary_close(struct mt_binary *o)
{
    munmap((void *)(uintptr_t)o->data, o->size);
    *o = (struct mt_binary){0};
}

const char *mt_binary_linker(const struct mt_binary *o)
{
    for (unsigned i = 0; i < o->nsegments; i++) {
        const Elf64_Phdr *p = &o->segments[i];
        if (p->p_type == PT_INTERP && p->p_offset < o->size && p->p_filesz &&
            p->p_filesz <= o->size - p->p_offset && !o->data[p->p_offset + p->p_filesz - 1])
            return (const char *)o->data + p->p_offset;
    }
    return "";
}

int mt_binary_has_auditors(const char *path)
{
    static const char called[] = "la_version"; /* what it looks for in an auditor */
    struct mt_binary o;
    if (mt_binary_open(&o, path) != 0)
        return 1;
    int has = memmem(o.data, o.size, called, sizeof called) != NULL;
    mt_binary_close(&o);
    return has;
}

const Elf64_Shdr *mt_binary_section(const struct mt_binary *o, const char *name)
{
    for (unsigned i = 0; o->names && i < o->nsections; i++)
        if (o->sections[i].sh_name < o->names_size && strcmp(o->names + o->sections[i].sh_name, name) == 0)
            return &o->sections[i];
    return NULL;
}

const char *mt_binary_name(const struct mt_binary_symbols *s, const Elf64_Sym *y)
{
    return y->st_name < s->size ? s->strings + y->st_name : "";
}

const Elf64_Sym *mt_binary_find(const struct mt_binary_symbols *s, const char *name, int defined)
{
    size_t n = strlen(name) + 1;
    if (!s->count || !memmem(s->strings, s->size, name, n)) /* large tables: most have no such name */
        return NULL;
    for (size_t i = 0; i < s->count; i++) {
        const Elf64_Sym *y = &s->entry[i];
        if ((y->st_shndx != SHN_UNDEF) == defined && (!defined || ELF64_ST_TYPE(y->st_info) == STT_FUNC) &&
            strcmp(mt_binary_name(s, y), name) == 0)
            return y;
    }
    return NULL;
}

/* What only NVIDIA's runtime defines, and what a fake one that stands before another would not. Ours has it,
 * too. */
static int binary_has_cudart(const struct mt_binary_symbols *s)
{
    return mt_binary_find(s, "cudaGetExportTable", 1) && mt_binary_find(s, "__cudaRegisterFatBinary", 1);
}

/* CUDA's functions come and go with its major versions. */
static int binary_major(const struct mt_binary_symbols *s)
{
    if (mt_binary_find(s, "cudaBindTexture", 1)) /* to 11 */
        return mt_binary_find(s, "cudaOccupancyAvailableDynamicSMemPerBlock", 1) ? 11 : 0;
    if (mt_binary_find(s, "cudaGetDeviceProperties_v2", 1))
        return 12;
    return mt_binary_find(s, "cudaGetDeviceProperties", 1) ? 13 : 0;
}

/* The name of its shared memory, which each version since 11 has. In two parts here, or this file would have
 * it, too. */
static int binary_has_trace_of_cudart(const struct mt_binary *o)
{
    static const char first[] = "/cudart", then[] = ".shm.%x";
    const size_t n = sizeof first - 1;
    const Elf64_Shdr *s = mt_binary_section(o, ".rodata");
    if (!s || s->sh_offset > o->size || s->sh_size > o->size - s->sh_offset)
        return 0;
    const unsigned char *begin = o->data + s->sh_offset, *end = begin + s->sh_size, *at = begin;
    for (; (at = memmem(at, (size_t)(end - at), then, sizeof then - 1)) != NULL; at++)
        if ((size_t)(at - begin) >= n && memcmp(at - n, first, n) == 0)
            return 1;
    return 0;
}

enum mt_binary_cudart mt_binary_cudart(const struct mt_binary *o, const struct mt_binary_symbols **where,
                                       int *major)
{
    const struct mt_binary_symbols *s = binary_has_cudart(&o->all)       ? &o->all
                                        : binary_has_cudart(&o->dynamic) ? &o->dynamic
                                                                         : NULL;
    if (s && mt_binary_find(&o->dynamic, MT_ATTACH_MISSING, 1))
        s = NULL;
    *where = s;
    *major = s ? binary_major(s) : 0;
    if (o->soname && strncmp(o->soname, "libcudart", 9) == 0) /* the shared one itself */
        return MT_CUDART_NONE;
    if (s)
        return MT_CUDART_STATIC;
    if (mt_binary_find(&o->dynamic, "__cudaRegisterFatBinary", 0) ||
        mt_binary_find(&o->dynamic, "cudaLaunchKernel", 0))
        return MT_CUDART_SHARED;
    return binary_has_trace_of_cudart(o) ? MT_CUDART_NAMELESS : MT_CUDART_NONE;
}

const char *mt_binary_node(int major)
{
    return major == 11 ? "libcudart.so.11.0" : major == 12 ? "libcudart.so.12" : "libcudart.so.13";
}
