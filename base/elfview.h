/* An ELF file of 64 bits in memory, whoever made it: nothing but its own bytes is read, and they need not be
 * aligned. Without libelf, since it is for traced processes, too; elffile.h has functions and lines. malloc
 * is not called. */
#ifndef MT_BASE_ELFVIEW_H
#define MT_BASE_ELFVIEW_H
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct mt_elfview {
    const unsigned char *data;
    size_t size;
    Elf64_Ehdr head;
    uint64_t nsections; /* whose headers are in the file; fewer than head says: it is cut off */
    uint32_t names;     /* the section with the names of sections */
};

/* 0, or -1: it is no such file. */
int mt_elfview_read(struct mt_elfview *v, const void *data, size_t size);
/* These bytes of the file; NULL: it ends before. */
const void *mt_elfview_at(const struct mt_elfview *v, uint64_t offset, uint64_t bytes);
/* 0, or -1: there is no such section. */
int mt_elfview_section(const struct mt_elfview *v, uint64_t i, Elf64_Shdr *h);
/* NULL: it has none, or the file ends before. */
const void *mt_elfview_contents(const struct mt_elfview *v, const Elf64_Shdr *h);
/* The strings of a section, which end in a NUL, and their bytes; or NULL, and 0. */
const char *mt_elfview_strings(const struct mt_elfview *v, uint64_t i, uint64_t *size);
#endif
