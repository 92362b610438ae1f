/* What memtrace host must know of an ELF file. */
#include "elf.h"
#include "base/binary.h"
#include <stdio.h>
#include <string.h>

#define RUNTIME "libmemtrace-host.so"
#define ORDERS "__mt_host_begin" /* entry.h of the compile-time engine */

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

/* 1 if a DT_NEEDED entry is the compile-time engine's library, by name or by path. *ordered: a function that
 * puts accesses in order is named. */
static int needs_runtime(const char *path, int *ordered)
{
    struct mt_binary o;
    const char *name;
    int needs = 0;
    if (mt_binary_open(&o, path) != 0)
        return 0;
    for (size_t at = 0; !needs && (name = mt_binary_entry(&o, DT_NEEDED, &at)) != NULL;) {
        const char *slash = strrchr(name, '/');
        needs = strncmp(slash ? slash + 1 : name, RUNTIME, sizeof RUNTIME - 1) == 0;
    }
    *ordered = o.text && memmem(o.text, o.text_size, ORDERS, sizeof ORDERS - 1) != NULL;
    mt_binary_close(&o);
    return needs;
}

void mt_hostrun_elf_read(const void *data, size_t bytes, const char *path, struct elf_facts *facts)
{
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
    facts->instrumented = facts->traceable && needs_runtime(path, &facts->ordered);
}
