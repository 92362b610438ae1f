/* Names of the kernels in machine code, from the table of symbols of its ELF file. */
#include <elf.h>
#include <string.h>
#include "mt-ptx.h"

#define STO_CUDA_ENTRY 0x10 /* st_other of a kernel */

static int cubin_in(const struct bytes *b, uint64_t offset, uint64_t size)
{
    return offset <= b->size && size <= b->size - offset;
}

static int cubin_section(const struct bytes *b, const Elf64_Ehdr *h, unsigned i, Elf64_Shdr *s)
{
    uint64_t at = h->e_shoff + (uint64_t)i * sizeof *s;
    if (i >= h->e_shnum || at < h->e_shoff || !cubin_in(b, at, sizeof *s)) {
        return -1;
    }
    memcpy(s, b->data + at, sizeof *s);
    return s->sh_type == SHT_NOBITS || cubin_in(b, s->sh_offset, s->sh_size) ? 0 : -1;
}

static int cubin_symbols(const struct bytes *b, const Elf64_Shdr *table, const Elf64_Shdr *names,
                         void (*each)(void *ctx, const char *name), void *ctx)
{
    const char *text = (const char *)b->data + names->sh_offset;
    if (!names->sh_size || text[names->sh_size - 1]) {
        return 3;
    }
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym y;
        memcpy(&y, b->data + table->sh_offset + at, sizeof y);
        if (ELF64_ST_TYPE(y.st_info) != STT_FUNC || !(y.st_other & STO_CUDA_ENTRY) ||
            y.st_shndx == SHN_UNDEF) {
            continue;
        }
        if (y.st_name >= names->sh_size) {
            return 3;
        }
        each(ctx, text + y.st_name);
    }
    return 0;
}

int mt_ptxtool_cubin_kernels(const struct bytes *cubin, void (*each)(void *ctx, const char *name), void *ctx)
{
    Elf64_Ehdr h;
    Elf64_Shdr s, names;
    if (cubin->size < sizeof h || memcmp(cubin->data, ELFMAG, SELFMAG) != 0) {
        return 3;
    }
    memcpy(&h, cubin->data, sizeof h);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_shentsize != sizeof s) {
        return 3;
    }
    for (unsigned i = 0; i < h.e_shnum; i++) {
        if (cubin_section(cubin, &h, i, &s) != 0) {
            return 3;
        }
        if (s.sh_type == SHT_SYMTAB) {
            return cubin_section(cubin, &h, s.sh_link, &names) != 0 || names.sh_type == SHT_NOBITS
                       ? 3
                       : cubin_symbols(cubin, &s, &names, each, ctx);
        }
    }
    return 0;
}
