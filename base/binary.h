/* ELF files, and which CUDA runtime they contain. Also used by memtrace run. Does not call malloc and prints
 * nothing. */
#ifndef MT_COMMON_BINARY_H
#define MT_COMMON_BINARY_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* 64-bit ELF files in memory, from any source: reads stay within the file's bytes, which need not be aligned.
 * Needs neither libelf nor malloc, since traced processes use it, too. elffile.h has functions and source
 * lines. */

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

/* Reads section header i. Returns 0, or -1 if there is none. */
int mt_elfview_section(const struct mt_elfview *v, uint64_t i, Elf64_Shdr *h);

/* Returns a section's contents, or NULL if it has none or the file ends before. */
const void *mt_elfview_contents(const struct mt_elfview *v, const Elf64_Shdr *h);

/* Returns a section's NUL-terminated strings and their size, or NULL and 0. */
const char *mt_elfview_strings(const struct mt_elfview *v, uint64_t i, uint64_t *size);

struct mt_binary_symbols {
    const Elf64_Sym *entry;
    size_t count;
    const char *strings; /* NUL-terminated */
    uint64_t size;
};

/* An x86-64 ELF file of 64 bits. A file without section headers has no symbol tables here. */
struct mt_binary {
    struct mt_elfview view; /* mapped bytes of the file */
    const Elf64_Phdr *segments;
    unsigned nsegments;
    const Elf64_Dyn *entries; /* dynamic section, and its string table */
    size_t nentries;
    const char *names, *text; /* names of sections, strings of the dynamic section: NUL-terminated, or NULL */
    uint64_t names_size, text_size;
    struct mt_binary_symbols all, dynamic; /* .symtab, .dynsym */
    const char *soname;                    /* DT_SONAME, or NULL */
};

/* Opens and maps a file. Returns 0, or an errno value (ENOEXEC: not an x86-64 ELF file). After 0 the caller
 * calls mt_binary_close. */
int mt_binary_open(struct mt_binary *o, const char *path);

void mt_binary_close(struct mt_binary *o);

/* Returns the path of the dynamic linker that the program requests, or "". */
const char *mt_binary_linker(const struct mt_binary *o);

/* Returns the index of the section with this name, or 0. */
uint64_t mt_binary_section(const struct mt_binary *o, const char *name);

/* Returns the next string of this kind (DT_NEEDED) in the dynamic section, or NULL. *at is 0 at first. */
const char *mt_binary_entry(const struct mt_binary *o, int64_t tag, size_t *at);

const char *mt_binary_name(const struct mt_binary_symbols *s, const Elf64_Sym *y);

enum mt_binary_cudart {
    MT_CUDART_NONE,
    MT_CUDART_SHARED,  /* uses a shared runtime */
    MT_CUDART_STATIC,  /* contains a static runtime with its symbols */
    MT_CUDART_NAMELESS /* contains a static runtime that lacks symbols, so not all of its functions can be
                          replaced */
};

/* Detects the CUDA runtime of a file. For MT_CUDART_STATIC, *where is the table that contains its functions
 * and *major CUDA's major version (0: unknown or older than 11). */
enum mt_binary_cudart mt_binary_cudart(const struct mt_binary *o, const struct mt_binary_symbols **where,
                                       int *major);

/* Returns the name of the file's machine, from its first 20 bytes: "x86-64", "AArch64" …, or "machine N" in a
 * static buffer. */
const char *mt_binary_machine(const Elf64_Ehdr *head);

/* Returns the file name of a runtime: "libcudart.so.12" for 12. */
const char *mt_binary_node(int major);

#endif
