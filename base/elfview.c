/* Reads 64-bit ELF files in memory. */
#include "elfview.h"
#include <string.h>

const void *mt_elfview_at(const struct mt_elfview *v, uint64_t offset, uint64_t bytes)
{
    return offset > v->size || bytes > v->size - offset ? NULL : v->data + offset;
}

int mt_elfview_section(const struct mt_elfview *v, uint64_t i, Elf64_Shdr *h)
{
    const void *at = i < v->nsections ? mt_elfview_at(v, v->head.e_shoff + i * sizeof *h, sizeof *h) : NULL;
    if (at)
        memcpy(h, at, sizeof *h);
    return at ? 0 : -1;
}

const void *mt_elfview_contents(const struct mt_elfview *v, const Elf64_Shdr *h)
{
    return h->sh_type == SHT_NOBITS ? NULL : mt_elfview_at(v, h->sh_offset, h->sh_size);
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
