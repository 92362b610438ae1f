/* What mt-host must know of an ELF file. */
#include "elf.h"
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define RUNTIME "libmemtrace-host.so"
#define ORDERS "__mt_host_begin" /* entry.h of the compile-time engine */

struct image {
    const unsigned char *data;
    size_t bytes;
};

static const void *elf_at(const struct image *f, uint64_t offset, uint64_t bytes)
{
    return offset <= f->bytes && bytes <= f->bytes - offset ? f->data + offset : NULL;
}

static const char *machine_name(unsigned machine)
{
    static const struct {
        unsigned number;
        const char *name;
    } known[] = {{EM_X86_64, "x86-64"},  {EM_386, "32-bit x86"}, {EM_AARCH64, "AArch64"},
                 {EM_ARM, "32-bit ARM"}, {EM_PPC64, "PowerPC"},  {EM_RISCV, "RISC-V"},
                 {EM_S390, "S/390"},     {EM_MIPS, "MIPS"}};
    static char other[32];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == machine)
            return known[i].name;
    snprintf(other, sizeof other, "machine %u", machine);
    return other;
}

/* Offset in the file of an address in memory; bytes + 1 if no segment has it. */
static uint64_t offset_of(const struct image *f, const Elf64_Phdr *p, unsigned count, uint64_t address)
{
    for (unsigned i = 0; i < count; i++)
        if (p[i].p_type == PT_LOAD && address >= p[i].p_vaddr && address - p[i].p_vaddr < p[i].p_filesz)
            return p[i].p_offset + (address - p[i].p_vaddr);
    return f->bytes + 1;
}

/* 1 if a DT_NEEDED entry is the compile-time engine's library, by name or by path. *ordered: a function that
 * puts accesses in order is named. */
static int needs_runtime(const struct image *f, const Elf64_Ehdr *head, int *ordered)
{
    const Elf64_Phdr *p = elf_at(f, head->e_phoff, (uint64_t)head->e_phnum * sizeof *p);
    const Elf64_Dyn *dynamic = NULL;
    size_t entries = 0;
    uint64_t strings = 0, size = 0;
    if (!p || head->e_phentsize != sizeof *p || head->e_phoff % 8)
        return 0;
    for (unsigned i = 0; i < head->e_phnum; i++)
        if (p[i].p_type == PT_DYNAMIC && p[i].p_offset % 8 == 0) {
            dynamic = elf_at(f, p[i].p_offset, p[i].p_filesz);
            entries = p[i].p_filesz / sizeof *dynamic;
        }
    for (size_t i = 0; dynamic && i < entries; i++) {
        if (dynamic[i].d_tag == DT_STRTAB)
            strings = dynamic[i].d_un.d_ptr;
        if (dynamic[i].d_tag == DT_STRSZ)
            size = dynamic[i].d_un.d_val;
    }
    const char *text = dynamic ? elf_at(f, offset_of(f, p, head->e_phnum, strings), size) : NULL;
    if (!text || !size || text[size - 1])
        return 0;
    *ordered = memmem(text, size, ORDERS, sizeof ORDERS - 1) != NULL;
    for (size_t i = 0; i < entries && dynamic[i].d_tag != DT_NULL; i++) {
        if (dynamic[i].d_tag != DT_NEEDED || dynamic[i].d_un.d_val >= size)
            continue;
        const char *name = text + dynamic[i].d_un.d_val, *slash = strrchr(name, '/');
        if (strncmp(slash ? slash + 1 : name, RUNTIME, sizeof RUNTIME - 1) == 0)
            return 1;
    }
    return 0;
}

void mt_hostrun_elf_read(const void *data, size_t bytes, struct elf_facts *facts)
{
    struct image f = {data, bytes};
    const Elf64_Ehdr *head = data; /* the fields used are at the same place in 32-bit files */
    memset(facts, 0, sizeof *facts);
    facts->machine = "";
    if (bytes < sizeof(Elf32_Ehdr) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return;
    facts->is_elf = 1;
    facts->bits = head->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
    if (head->e_ident[EI_DATA] == ELFDATA2MSB) {
        facts->machine = "a big-endian machine";
        return;
    }
    facts->machine = machine_name(head->e_machine);
    if (head->e_machine == EM_X86_64 && facts->bits == 32)
        facts->machine = "x32";
    if (bytes < sizeof *head)
        return;
    facts->traceable = facts->bits == 64 && head->e_machine == EM_X86_64 &&
                       (head->e_type == ET_EXEC || head->e_type == ET_DYN) && head->e_entry != 0;
    facts->instrumented = facts->traceable && needs_runtime(&f, head, &facts->ordered);
}
