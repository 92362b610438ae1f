/* Names of the kernels in machine code, from the table of symbols of its ELF file. */
#include <string.h>
#include "base/elfview.h"
#include "mt-ptx.h"

#define STO_CUDA_ENTRY 0x10 /* st_other of a kernel */

static int cubin_symbols(const struct mt_elfview *f, const Elf64_Shdr *table,
                         void (*each)(void *ctx, const char *name), void *ctx)
{
    uint64_t size;
    const char *text = mt_elfview_strings(f, table->sh_link, &size);
    const unsigned char *symbols = mt_elfview_contents(f, table);
    for (uint64_t i = 0; text && i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym y;
        memcpy(&y, symbols + i * sizeof y, sizeof y);
        if (ELF64_ST_TYPE(y.st_info) != STT_FUNC || !(y.st_other & STO_CUDA_ENTRY) ||
            y.st_shndx == SHN_UNDEF) {
            continue;
        }
        if (y.st_name >= size) {
            return 3;
        }
        each(ctx, text + y.st_name);
    }
    return text ? 0 : 3;
}

int mt_ptxtool_cubin_kernels(const struct bytes *cubin, void (*each)(void *ctx, const char *name), void *ctx)
{
    struct mt_elfview f;
    Elf64_Shdr s;
    if (mt_elfview_read(&f, cubin->data, cubin->size) != 0 || f.nsections < f.head.e_shnum) {
        return 3;
    }
    for (uint64_t i = 0; mt_elfview_section(&f, i, &s) == 0; i++) {
        if (s.sh_type != SHT_NOBITS && !mt_elfview_contents(&f, &s)) {
            return 3;
        }
        if (s.sh_type == SHT_SYMTAB) {
            return cubin_symbols(&f, &s, each, ctx);
        }
    }
    return 0;
}
