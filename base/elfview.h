/* 64-bit ELF files in memory, from any source: reads stay within the file's bytes, which need not be aligned.
 * Needs neither libelf nor malloc, since traced processes use it, too. elffile.h has functions and source
 * lines. */
#ifndef MT_BASE_ELFVIEW_H
#define MT_BASE_ELFVIEW_H
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct mt_elfview {
    const unsigned char *data;
    size_t size;
    Elf64_Ehdr head;
    uint64_t nsections; /* number of sections with a header in the file; less than `head` says if the file is
                           truncated */
    uint32_t names;     /* index of the section with the names of sections */
};

/* Reads the ELF header. Returns 0, or -1 if the bytes are not such a file. */
int mt_elfview_read(struct mt_elfview *v, const void *data, size_t size);
/* Returns `bytes` bytes of the file at `offset`, or NULL if the file ends before. */
const void *mt_elfview_at(const struct mt_elfview *v, uint64_t offset, uint64_t bytes);
/* Reads section header i. Returns 0, or -1 if there is none. */
int mt_elfview_section(const struct mt_elfview *v, uint64_t i, Elf64_Shdr *h);
/* Returns a section's contents, or NULL if it has none or the file ends before. */
const void *mt_elfview_contents(const struct mt_elfview *v, const Elf64_Shdr *h);
/* Returns a section's NUL-terminated strings and their size, or NULL and 0. */
const char *mt_elfview_strings(const struct mt_elfview *v, uint64_t i, uint64_t *size);
#endif
