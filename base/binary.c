/* Reads ELF files and detects which CUDA runtime they contain. */
#include "binary.h"

#include <string.h>

/* ---- Reads 64-bit ELF files in memory ---- */

/* Returns `bytes` bytes of the file at `offset`, or NULL if the file ends before. */
static const void *elfview_at(const struct mt_elfview *v, uint64_t offset, uint64_t bytes)
{
    return offset > v->size || bytes > v->size - offset ? NULL : v->data + offset;
}

int mt_elfview_section(const struct mt_elfview *v, uint64_t i, Elf64_Shdr *h)
{
    const void *at = i < v->nsections ? elfview_at(v, v->head.e_shoff + i * sizeof *h, sizeof *h) : NULL;
    if (at)
        memcpy(h, at, sizeof *h);
    return at ? 0 : -1;
}

const void *mt_elfview_contents(const struct mt_elfview *v, const Elf64_Shdr *h)
{
    return h->sh_type == SHT_NOBITS ? NULL : elfview_at(v, h->sh_offset, h->sh_size);
}

const char *mt_elfview_strings(const struct mt_elfview *v, uint64_t i, uint64_t *size)
{
    Elf64_Shdr h;
    const char *text = mt_elfview_section(v, i, &h) == 0 && h.sh_size ? mt_elfview_contents(v, &h) : NULL;
    text = text && !text[h.sh_size - 1] ? text : NULL;
    *size = text ? h.sh_size : 0;
    return text;
}

/* Counts that do not fit into the ELF header are in section header 0. */
int mt_elfview_read(struct mt_elfview *v, const void *data, size_t size)
{
    Elf64_Shdr first;
    *v = (struct mt_elfview){.data = data, .size = size};
    if (!data || size < sizeof v->head)
        return -1;
    memcpy(&v->head, data, sizeof v->head);
    const Elf64_Ehdr *e = &v->head;
    if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_ident[EI_CLASS] != ELFCLASS64)
        return -1;
    if (!e->e_shoff || e->e_shoff > size || e->e_shentsize != sizeof first)
        return 0;
    const uint64_t most = (size - e->e_shoff) / sizeof first;
    v->nsections = most > 0;
    if (mt_elfview_section(v, 0, &first) != 0)
        return 0;
    const uint64_t n = e->e_shnum ? e->e_shnum : first.sh_size;
    v->nsections = n < most ? n : most;
    v->names = e->e_shstrndx == SHN_XINDEX ? first.sh_link : e->e_shstrndx;
    return 0;
}

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "binary.h"
#include "attach.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns a table of the file, to be read in place; NULL if the file ends before. */
static const void *binary_at(const struct mt_binary *o, uint64_t offset, uint64_t bytes)
{
    return offset % 8 == 0 ? elfview_at(&o->view, offset, bytes) : NULL;
}

static void binary_symbols(const struct mt_binary *o, const Elf64_Shdr *s, struct mt_binary_symbols *out)
{
    if (s->sh_entsize != sizeof(Elf64_Sym))
        return;
    out->entry = binary_at(o, s->sh_offset, s->sh_size);
    out->strings = mt_elfview_strings(&o->view, s->sh_link, &out->size);
    out->count = out->entry && out->strings ? s->sh_size / sizeof(Elf64_Sym) : 0;
}

/* Returns the file's bytes that are loaded at an address. */
static const void *binary_loaded(const struct mt_binary *o, uint64_t address, uint64_t bytes)
{
    for (unsigned i = 0; i < o->nsegments; i++) {
        const Elf64_Phdr *p = &o->segments[i];
        if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
            return elfview_at(&o->view, p->p_offset + (address - p->p_vaddr), bytes);
    }
    return NULL;
}

/* Finds the dynamic section from the program header, as the dynamic linker does. */
static void binary_dynamic(struct mt_binary *o, const Elf64_Phdr *p)
{
    uint64_t strings = 0, size = 0, n = 0;
    const Elf64_Dyn *d = binary_at(o, p->p_offset, p->p_filesz);
    for (; d && n < p->p_filesz / sizeof *d && d[n].d_tag != DT_NULL; n++)
        if (d[n].d_tag == DT_STRTAB)
            strings = d[n].d_un.d_ptr;
        else if (d[n].d_tag == DT_STRSZ)
            size = d[n].d_un.d_val;
    const char *text = size ? binary_loaded(o, strings, size) : NULL;
    o->entries = d;
    o->nentries = n;
    o->text = text && !text[size - 1] ? text : NULL;
    o->text_size = o->text ? size : 0;
}

const char *mt_binary_entry(const struct mt_binary *o, int64_t tag, size_t *at)
{
    for (; *at < o->nentries; (*at)++)
        if (o->entries[*at].d_tag == tag && o->entries[*at].d_un.d_val < o->text_size)
            return o->text + o->entries[(*at)++].d_un.d_val;
    return NULL;
}

static int binary_parse(struct mt_binary *o, const void *data, size_t size)
{
    const Elf64_Ehdr *h = &o->view.head;
    Elf64_Shdr s;
    size_t at = 0;
    if (mt_elfview_read(&o->view, data, size) != 0 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_machine != EM_X86_64)
        return ENOEXEC;
    if (h->e_phentsize == sizeof(Elf64_Phdr) &&
        (o->segments = binary_at(o, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr))))
        o->nsegments = h->e_phnum;
    for (unsigned i = 0; i < o->nsegments; i++)
        if (o->segments[i].p_type == PT_DYNAMIC)
            binary_dynamic(o, &o->segments[i]);
    o->soname = mt_binary_entry(o, DT_SONAME, &at);
    o->names = mt_elfview_strings(&o->view, o->view.names, &o->names_size);
    for (uint64_t i = 0; mt_elfview_section(&o->view, i, &s) == 0; i++)
        if (s.sh_type == SHT_SYMTAB || s.sh_type == SHT_DYNSYM)
            binary_symbols(o, &s, s.sh_type == SHT_SYMTAB ? &o->all : &o->dynamic);
    return 0;
}

int mt_binary_open(struct mt_binary *o, const char *path)
{
    struct stat st;
    void *data = NULL;
    *o = (struct mt_binary){0};
    int why = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        why = errno;
    else if (!S_ISREG(st.st_mode) || !st.st_size)
        why = ENOEXEC;
    else if ((data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        why = errno;
    if (fd >= 0)
        close(fd);
    if (why)
        return why;
    why = binary_parse(o, data, (size_t)st.st_size);
    if (why)
        mt_binary_close(o);
    return why;
}

void mt_binary_close(struct mt_binary *o)
{
    munmap((void *)(uintptr_t)o->view.data, o->view.size);
    *o = (struct mt_binary){0};
}

const char *mt_binary_linker(const struct mt_binary *o)
{
    for (unsigned i = 0; i < o->nsegments; i++) {
        const Elf64_Phdr *p = &o->segments[i];
        const char *text =
            p->p_type == PT_INTERP && p->p_filesz ? elfview_at(&o->view, p->p_offset, p->p_filesz) : NULL;
        if (text && !text[p->p_filesz - 1])
            return text;
    }
    return "";
}

uint64_t mt_binary_section(const struct mt_binary *o, const char *name)
{
    Elf64_Shdr s;
    for (uint64_t i = 0; o->names && mt_elfview_section(&o->view, i, &s) == 0; i++)
        if (s.sh_name < o->names_size && strcmp(o->names + s.sh_name, name) == 0)
            return i;
    return 0;
}

const char *mt_binary_name(const struct mt_binary_symbols *s, const Elf64_Sym *y)
{
    return y->st_name < s->size ? s->strings + y->st_name : "";
}

/* Returns a function with this name that the file defines (`defined` 1) or imports (0). */
static const Elf64_Sym *binary_find(const struct mt_binary_symbols *s, const char *name, int defined)
{
    size_t n = strlen(name) + 1;
    if (!s->count || !memmem(s->strings, s->size, name, n)) /* quick exit: most large tables lack the name */
        return NULL;
    for (size_t i = 0; i < s->count; i++) {
        const Elf64_Sym *y = &s->entry[i];
        if ((y->st_shndx != SHN_UNDEF) == defined && (!defined || ELF64_ST_TYPE(y->st_info) == STT_FUNC) &&
            strcmp(mt_binary_name(s, y), name) == 0)
            return y;
    }
    return NULL;
}

/* Functions that every runtime since CUDA 11 has and that span most of its code. Only NVIDIA's runtime and
 * ours define the first two; a mock of the runtime would not. */
static const char *const certain[] = {"cudaGetExportTable",
                                      "__cudaRegisterFatBinary",
                                      "__cudaRegisterFatBinaryEnd",
                                      "__cudaUnregisterFatBinary",
                                      "__cudaRegisterFunction",
                                      "__cudaRegisterVar",
                                      "__cudaPushCallConfiguration",
                                      "__cudaPopCallConfiguration",
                                      "cudaLaunchKernel",
                                      "cudaMalloc",
                                      "cudaFree",
                                      "cudaMemcpy",
                                      "cudaMemcpyAsync",
                                      "cudaMemset",
                                      "cudaStreamSynchronize",
                                      "cudaDeviceSynchronize",
                                      "cudaGetLastError",
                                      "cudaGraphicsVDPAURegisterOutputSurface"};
enum { CERTAIN = sizeof certain / sizeof *certain, NEEDED = CERTAIN - 1, CELL = 16 };

static int binary_has_cudart(const struct mt_binary_symbols *s)
{
    return binary_find(s, certain[0], 1) && binary_find(s, certain[1], 1);
}

/* Computes the range of code that the functions in `certain` span. Returns 0, or -1 if a required one is
 * missing. */
static int binary_span(const struct mt_binary_symbols *s, uint64_t *begin, uint64_t *end)
{
    *begin = UINT64_MAX;
    *end = 0;
    for (unsigned i = 0; i < CERTAIN; i++) {
        const Elf64_Sym *y = binary_find(s, certain[i], 1);
        if (!y && i < NEEDED)
            return -1;
        if (y && y->st_value < *begin)
            *begin = y->st_value / CELL * CELL;
        if (y && y->st_value > *end)
            *end = y->st_value / CELL * CELL;
    }
    return 0;
}

/* Counts functions per cell: steps[i] is how many functions start in cell i, minus those that end there. */
static void binary_lay(const struct mt_binary_symbols *s, uint64_t begin, uint64_t end, int32_t *steps)
{
    for (size_t i = 0; i < s->count; i++) {
        const Elf64_Sym *y = &s->entry[i];
        uint64_t from = y->st_value, size = y->st_size < end - begin ? y->st_size : end - begin;
        if (y->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(y->st_info) != STT_FUNC || from < begin || from >= end)
            continue;
        uint64_t to = from + (size ? size : 1);
        steps[(from - begin) / CELL]++;
        if (to < end)
            steps[(to - begin + CELL - 1) / CELL]--;
    }
}

/* Returns 1 if a function within the runtime's code has no symbol. The runtime is one object file, so its
 * functions are contiguous. */
static int binary_has_holes(const struct mt_binary *o, const struct mt_binary_symbols *s)
{
    uint64_t begin, end;
    if (binary_span(s, &begin, &end) != 0 || end - begin > o->view.size)
        return 1;
    size_t cells = (end - begin) / CELL, bytes = (cells + 1) * sizeof(int32_t);
    int32_t *steps = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), in = 0;
    if (steps == MAP_FAILED)
        return 1;
    int hole = 0;
    binary_lay(s, begin, end, steps);
    for (size_t i = 0; i < cells; i++)
        hole |= (in += steps[i]) == 0;
    munmap(steps, bytes);
    return hole;
}

/* Derives CUDA's major version from functions that only some versions have. */
static int binary_major(const struct mt_binary_symbols *s)
{
    if (binary_find(s, "cudaBindTexture", 1)) /* removed after 11 */
        return binary_find(s, "cudaOccupancyAvailableDynamicSMemPerBlock", 1) ? 11 : 0;
    if (binary_find(s, "cudaGetDeviceProperties_v2", 1))
        return 12;
    return binary_find(s, "cudaGetDeviceProperties", 1) ? 13 : 0;
}

/* Searches for the name of the runtime's shared memory, which all versions since 11 contain. It is split here
 * so that this file does not contain it. */
static int binary_has_trace_of_cudart(const struct mt_binary *o)
{
    static const char first[] = "/cudart", then[] = ".shm.%x";
    const size_t n = sizeof first - 1;
    Elf64_Shdr s;
    const unsigned char *begin = NULL;
    if (mt_elfview_section(&o->view, mt_binary_section(o, ".rodata"), &s) == 0)
        begin = mt_elfview_contents(&o->view, &s);
    if (!begin)
        return 0;
    const unsigned char *end = begin + s.sh_size, *at = begin;
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
    if (s && binary_find(&o->dynamic, MT_ATTACH_MISSING, 1))
        s = NULL;
    *where = s;
    *major = s ? binary_major(s) : 0;
    if (o->soname && strncmp(o->soname, "libcudart", 9) == 0) /* libcudart itself */
        return MT_CUDART_NONE;
    if (s) /* .dynsym lists exported functions, and strip keeps it */
        return s == &o->all && binary_has_holes(o, s) ? MT_CUDART_NAMELESS : MT_CUDART_STATIC;
    if (binary_find(&o->dynamic, "__cudaRegisterFatBinary", 0) ||
        binary_find(&o->dynamic, "cudaLaunchKernel", 0))
        return MT_CUDART_SHARED;
    return binary_has_trace_of_cudart(o) ? MT_CUDART_NAMELESS : MT_CUDART_NONE;
}

const char *mt_binary_node(int major)
{
    return major == 11 ? "libcudart.so.11.0" : major == 12 ? "libcudart.so.12" : "libcudart.so.13";
}

const char *mt_binary_machine(const Elf64_Ehdr *head)
{
    static const struct {
        unsigned number;
        const char *name;
    } known[] = {{EM_X86_64, "x86-64"},  {EM_386, "32-bit x86"}, {EM_AARCH64, "AArch64"},
                 {EM_ARM, "32-bit ARM"}, {EM_PPC64, "PowerPC"},  {EM_RISCV, "RISC-V"},
                 {EM_S390, "S/390"},     {EM_MIPS, "MIPS"}};
    static char other[32];
    if (head->e_ident[EI_DATA] == ELFDATA2MSB)
        return "a big-endian machine";
    if (head->e_machine == EM_X86_64 && head->e_ident[EI_CLASS] == ELFCLASS32)
        return "x32";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == head->e_machine)
            return known[i].name;
    snprintf(other, sizeof other, "machine %u", head->e_machine);
    return other;
}
